/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are sorted, so that those of one repository stand together and equal ones side by side: of
 * a thousand environments most run one of a few images. Each name is asked for once, a hundred a
 * call, and what it came to is copied to its equals. Among equals one whose answer is needed stands
 * first: a call that fails is an error only if it asked for such a one.
 */
#include "providers/aws/registry/ecr_resolve.h"

#include "base/json.h"
#include "providers/aws/registry/admission.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/services/ecr.h"

#include <stdlib.h>
#include <string.h>

#define IDS_PER_CALL 100

static void set_problem(struct ecr_reference *reference, const char *problem, const char *message) {
        reference->problem = problem;
        reference->message = message;
}

/* Of the codes only ImageNotFound means that there is no such image; any other may pass (ImageReferencedByManifestList ...). */
static void read_failure(const json_t *failure, struct ecr_reference *reference, struct arena *arena) {
        const char *code = json_text(failure, "failureCode"), *reason = json_text(failure, "failureReason");
        const char *name = ecr_reference_name(reference, arena);

        if (code && strcmp(code, "ImageNotFound") == 0)
                set_problem(reference, "missing", arena_printf(arena, "%s does not exist", name));
        else
                set_problem(reference, "unread",
                            arena_printf(arena, "%s cannot be read: %s%s%s", name,
                                         code ? code : "ECR gives no failureCode", reason ? ": " : "",
                                         reason ? reason : ""));
}

static bool is_same_name(const struct ecr_reference *a, const struct ecr_reference *b) {
        if (a->digest || b->digest)
                return a->digest && b->digest && strcmp(a->digest, b->digest) == 0;
        return strcmp(a->tag, b->tag) == 0;
}

static bool id_matches(const json_t *id, const struct ecr_reference *reference) {
        const char *name = json_text(id, reference->digest ? "imageDigest" : "imageTag");

        return name && strcmp(name, reference->digest ? reference->digest : reference->tag) == 0;
}

/*
 * What the answer says of one name; false where it says nothing of it. ECR repeats each name as it was asked for. Other
 * servers name an image by another of its tags, or a failure by none: then nothing in the answer to many names tells
 * which of them is meant. Of an answer to a single name, `alone`, there is no doubt: what it holds is the answer, if
 * that is one item, and not another digest than the one asked for.
 */
static bool read_result(const json_t *answer, bool alone, struct ecr_reference *reference,
                        struct arena *arena) {
        const json_t *images = json_object_get(answer, "images"), *item;
        const json_t *failures = json_object_get(answer, "failures");
        bool one = alone && json_array_size(images) + json_array_size(failures) == 1;
        size_t i;

        json_array_foreach (images, i, item) {
                if (id_matches(json_object_get(item, "imageId"), reference) || (one && !reference->digest)) {
                        admission_judge_manifest(item, reference, arena);
                        return true;
                }
        }
        json_array_foreach (failures, i, item) {
                if (id_matches(json_object_get(item, "imageId"), reference) || one) {
                        read_failure(item, reference, arena);
                        return true;
                }
        }
        return false;
}

/*
 * Whether no answer is needed: a call that fails is then reported for each name, and ends no plan.
 */
static bool all_watched(struct ecr_reference *const *names, size_t count) {
        for (size_t i = 0; i < count; i++) {
                if (!names[i]->watched)
                        return false;
        }
        return true;
}

static struct aws_request request_images(struct ecr_reference *const *names, size_t count,
                                         struct arena *arena) {
        json_t *ids = json_array();

        for (size_t i = 0; i < count; i++) {
                const struct ecr_reference *name = names[i];

                json_array_append_new(ids, name->digest ? json_pack("{s:s}", "imageDigest", name->digest)
                                                        : json_pack("{s:s}", "imageTag", name->tag));
        }
        return ecr_batch_get_image(names[0]->repository, ids, arena);
}

/* In another region Lambda would not find them, whatever rights exist. */
static void refuse_far(const struct provider *provider, struct ecr_reference **names, size_t count,
                       struct arena *arena) {
        for (size_t i = 0; i < count; i++)
                set_problem(
                        names[i], "registry",
                        arena_printf(arena,
                                     "%s is not in the stack's region, %s, or not by that name: Lambda takes "
                                     "images of its own region alone",
                                     ecr_registry_of(provider, names[i]->repository, arena),
                                     provider->region));
}

/* One call for the `count` names, all of one repository, each once; and one more for each that it does not answer. */
static int resolve_some(struct provider *provider, struct ecr_reference **names, size_t count,
                        struct arena *arena, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const char *repository = names[0]->repository;
        struct aws_request request;
        struct error failure;

        if (!ecr_registry_is_near(provider, repository, arena)) {
                refuse_far(provider, names, count, arena);
                return 0;
        }
        request = request_images(names, count, arena);
        if (aws_call(provider->client, &request, &response, &failure) == 0) {
                for (size_t i = 0; i < count; i++) {
                        if (read_result(response.json, count == 1, names[i], arena))
                                continue;
                        if (count == 1)
                                set_problem(names[i], "unread",
                                            arena_printf(arena,
                                                         "%s cannot be read: the answer to BatchGetImage "
                                                         "holds neither that image nor a failure",
                                                         ecr_reference_name(names[i], arena)));
                        else if (resolve_some(provider, &names[i], 1, arena, err) < 0)
                                return -1;
                }
                return 0;
        }
        for (size_t i = 0; i < count; i++) {
                if (aws_failed_with(&response, "RepositoryNotFoundException")) {
                        set_problem(names[i], "repository",
                                    arena_printf(arena, "the repository %s does not exist in %s",
                                                 ecr_name_in_registry(repository),
                                                 ecr_registry_of(provider, repository, arena)));
                } else if (aws_code_is_denied(response.error_code)) {
                        set_problem(names[i], "denied", arena_strdup(arena, failure.message));
                } else if (all_watched(names, count)) {
                        set_problem(names[i], "unread", arena_strdup(arena, failure.message));
                } else {
                        *err = failure;
                        return -1;
                }
        }
        return 0;
}

static int by_repository(const void *a, const void *b) {
        const struct ecr_reference *left = *(struct ecr_reference *const *)a;
        const struct ecr_reference *right = *(struct ecr_reference *const *)b;
        int order = strcmp(left->repository, right->repository);

        if (order != 0)
                return order;
        if (!left->digest != !right->digest)
                return left->digest ? 1 : -1;
        order = left->digest ? strcmp(left->digest, right->digest) : strcmp(left->tag, right->tag);
        /* One whose answer is needed first: it stands for all of its name. */
        return order ? order : (int)left->watched - (int)right->watched;
}

/* The end of what one call takes from `start` on: each name once, one repository, at most a hundred. */
static size_t gather_names(struct ecr_reference **sorted, size_t start, size_t count,
                           struct ecr_reference **names, size_t *ret_count) {
        size_t end = start;

        *ret_count = 0;
        for (; end < count && strcmp(sorted[end]->repository, sorted[start]->repository) == 0; end++) {
                if (*ret_count > 0 && is_same_name(names[*ret_count - 1], sorted[end]))
                        continue;
                if (*ret_count == IDS_PER_CALL)
                        break;
                names[(*ret_count)++] = sorted[end];
        }
        return end;
}

/* What the first of equal names came to, for the others; each stays as much needed as it was. */
static void share_results(struct ecr_reference **sorted, size_t start, size_t end) {
        struct ecr_reference shared;

        for (size_t i = start + 1; i < end; i++) {
                if (!is_same_name(sorted[i - 1], sorted[i]))
                        continue;
                shared = *sorted[i - 1];
                shared.watched = sorted[i]->watched;
                *sorted[i] = shared;
        }
}

static struct ecr_reference **sort_by_name(struct ecr_reference *references, size_t count,
                                           struct arena *arena) {
        struct ecr_reference **sorted = arena_array(arena, count + 1, sizeof(*sorted));

        for (size_t i = 0; i < count; i++)
                sorted[i] = &references[i];
        qsort(sorted, count, sizeof(struct ecr_reference *), by_repository);
        return sorted;
}

void ecr_resolve_ahead(struct provider *provider, struct ecr_reference *references, size_t count,
                       struct arena *arena) {
        struct ecr_reference **sorted = sort_by_name(references, count, arena), *names[IDS_PER_CALL];

        for (size_t start = 0, name_count; start < count;) {
                struct aws_request request;

                start = gather_names(sorted, start, count, names, &name_count);
                if (!ecr_registry_is_near(provider, names[0]->repository, arena))
                        continue;
                request = request_images(names, name_count, arena);
                aws_ahead(provider->client, &request);
        }
}

int ecr_resolve(struct provider *provider, struct ecr_reference *references, size_t count,
                struct arena *arena, struct error *err) {
        struct ecr_reference **sorted = sort_by_name(references, count, arena), *names[IDS_PER_CALL];

        for (size_t start = 0, end; start < count; start = end) {
                size_t name_count;

                end = gather_names(sorted, start, count, names, &name_count);
                if (resolve_some(provider, names, name_count, arena, err) < 0)
                        return -1;
                share_results(sorted, start, end);
        }
        return 0;
}
