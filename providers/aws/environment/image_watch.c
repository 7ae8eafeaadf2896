/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a pinned tag leads now, and whether a digest that runs is still there, costs a call for each repository and each hundred
 * names. A plan of many repositories does without, unless a full refresh was asked for; then people are told, once for each tag
 * and digest, with some of the environments that stay behind, and of each environment whose image is gone.
 */
#include "providers/aws/environment/image_watch.h"

#include "base/array.h"
#include "providers/aws/registry/image_use.h"

#include <stdlib.h>
#include <string.h>

/* Repositories, and names of them, that are worth a call each (a hundred names a call) at every plan. */
#define WATCHED_REPOSITORIES 5
#define WATCHED_NAMES 500
/* Environments that a warning names. */
#define NAMED 3

static const char *tag_or_digest(const struct ecr_reference *reference) {
        return reference->tag ? reference->tag : reference->digest;
}

static int compare_names(const void *a, const void *b) {
        const struct ecr_reference *left = *(const struct ecr_reference *const *)a;
        const struct ecr_reference *right = *(const struct ecr_reference *const *)b;
        int order = strcmp(left->repository, right->repository);

        if (order == 0)
                order = strcmp(tag_or_digest(left), tag_or_digest(right));
        return order;
}

/* Sorted, those of one repository stand together, and equal names side by side: what counts is what calls would be made. */
static bool is_affordable(const struct ecr_reference *references, size_t count, struct arena *arena) {
        const struct ecr_reference **sorted = arena_array(arena, count + 1, sizeof(*sorted));
        size_t watched = 0, names = 0, repositories = 0;

        for (size_t i = 0; i < count; i++) {
                if (references[i].watched)
                        sorted[watched++] = &references[i];
        }
        qsort(sorted, watched, sizeof(*sorted), compare_names);
        for (size_t i = 0; i < watched; i++) {
                bool same = i > 0 && strcmp(sorted[i]->repository, sorted[i - 1]->repository) == 0;

                repositories += !same;
                names += !same || strcmp(tag_or_digest(sorted[i]), tag_or_digest(sorted[i - 1])) != 0;
        }
        return repositories <= WATCHED_REPOSITORIES && names <= WATCHED_NAMES;
}

size_t image_watch_affordable(struct ecr_reference *references, size_t *whose, size_t count, bool full,
                              struct arena *arena) {
        size_t kept = 0;

        if (full || is_affordable(references, count, arena))
                return count;
        for (size_t i = 0; i < count; i++) {
                if (references[i].watched)
                        continue;
                references[kept] = references[i];
                whose[kept++] = whose[i];
        }
        return kept;
}

void image_watch_gone(const struct ecr_reference *reference, const struct value *image,
                      struct observation *observation, struct arena *arena) {
        const char *tag = value_get_text(image, "tag");
        struct value *before;
        struct left_drift_list left = { observation->left, observation->left_count };

        if (!reference->problem ||
            (strcmp(reference->problem, "missing") != 0 && strcmp(reference->problem, "repository") != 0))
                return;
        before = arena_alloc(arena, sizeof(*before));
        *before = value_text(arena, reference->digest);
        aws_leave(
                &left, NULL, "",
                (struct left_drift){
                        .path = "image.digest",
                        .before = before,
                        .remedy = arena_printf(
                                arena,
                                "the image that it runs, %s, was deleted from %s, and Lambda cannot start it "
                                "any more; push that image again, or %s",
                                reference->digest, reference->repository,
                                tag ? "name another tag, or set follow: tag to take what the tag means now"
                                    : "name another image"),
                },
                arena);
        observation->left = left.items;
        observation->left_count = left.count;
}

void image_watch_note(struct image_watch *watch, const struct ecr_reference *reference, const char *pinned,
                      struct observation *observation) {
        /* Where the registry could not be asked, nothing is known about the tag. */
        if (!pinned || (reference->problem && strcmp(reference->problem, "denied") == 0) ||
            (reference->problem && strcmp(reference->problem, "unread") == 0))
                return;
        watch->left = array_grow(watch->arena, watch->left, watch->count, sizeof(*watch->left));
        watch->left[watch->count++] = (struct image_left){
                .repository = reference->repository,
                .tag = reference->tag,
                .pinned = pinned,
                .now = reference->resolved,
                .observation = observation,
        };
}

/* One warning tells of all environments that are pinned to the same digest of the same tag. */
static int compare_groups(const struct image_left *a, const struct image_left *b) {
        int order = strcmp(a->repository, b->repository);

        if (order == 0)
                order = strcmp(a->tag, b->tag);
        return order ? order : strcmp(a->pinned, b->pinned);
}

static int compare_by_group(const void *a, const void *b) {
        const struct image_left *left = a, *right = b;
        int order = compare_groups(left, right);

        return order ? order : strcmp(left->observation->name, right->observation->name);
}

static const char *make_warning(const struct provider *provider, const struct image_left *left, size_t count,
                                struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, names STRBUF_CLEANUP = STRBUF_INIT;
        int64_t days = image_untagged_days(provider, left->repository);

        for (size_t i = 0; i < count && i < NAMED; i++)
                strbuf_printf(&names, "%sEnvironment/%s", i ? ", " : "", left[i].observation->name);
        if (count > NAMED)
                strbuf_printf(&names, " and %zu more", count - NAMED);
        if (left->now)
                strbuf_printf(&text,
                              "tag %s of %s now means %s, %s %s pinned to %s; set follow: tag or change the "
                              "tag to take it",
                              left->tag, left->repository, left->now, strbuf_text(&names),
                              count == 1 ? "is" : "are", left->pinned);
        else
                strbuf_printf(&text, "tag %s of %s does not exist any more, %s %s pinned to %s", left->tag,
                              left->repository, strbuf_text(&names), count == 1 ? "is" : "are", left->pinned);
        if (days > 0)
                strbuf_printf(&text,
                              "; where no other tag names it, the repository's retain rule deletes it %lld "
                              "days after it was pushed",
                              (long long)days);
        return arena_strdup(arena, strbuf_text(&text));
}

void image_watch_warn(struct image_watch *watch, const struct provider *provider) {
        if (watch->count == 0)
                return;
        qsort(watch->left, watch->count, sizeof(*watch->left), compare_by_group);
        for (size_t start = 0, end; start < watch->count; start = end) {
                struct observation *first = watch->left[start].observation;

                for (end = start + 1; end < watch->count; end++) {
                        if (compare_groups(&watch->left[start], &watch->left[end]) != 0)
                                break;
                }
                first->warnings = array_grow(watch->arena, first->warnings, first->warning_count,
                                             sizeof(*first->warnings));
                first->warnings[first->warning_count++] =
                        make_warning(provider, &watch->left[start], end - start, watch->arena);
        }
}
