/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard expires-existing: objects that new or shorter lifecycle rules would expire as soon as they are written.
 *
 * Calls are made only for a change that reaches objects which nothing reached before: pages of ListObjectsV2, or of
 * ListObjectVersions where noncurrent versions are concerned; a GetObjectTagging for each aged object where rules
 * select by tag. Both are bounded: past the bounds, what is known is a lower bound, and said to be one.
 */
#include "providers/aws/workspace_policy/workspace_policy.h"

#include "providers/aws/shared/stage_call.h"
#include "providers/aws/workspace_policy/workspace_expiry.h"
#include "providers/aws/workspace_policy/workspace_rules.h"

#include <string.h>

#define PAGES_MAX 100 /* of 1,000 objects */
#define TAGS_MAX 1000

struct search {
        struct provider *provider;
        struct s3_bucket bucket;
        int64_t now_ms;
        struct workspace_expiry current, noncurrent;
        struct aged current_aged, noncurrent_aged;
        unsigned tags_read;
        bool full;          /* no more tags may be read */
        struct arena *page; /* of one page's answers */
        struct strbuf
                last_key; /* of the version before: the newer one, where it has the same key; "" before the first */
        int64_t last_modified_ms;
};

static bool by_versions(const struct search *search) {
        return search->noncurrent.days >= 0;
}

/* *ret_environment is NULL where the object has no such tag; false where the object is gone meanwhile. */
static int read_tag(struct search *search, const struct s3_object *object, const char **ret_environment,
                    struct error *err) {
        static const char *const gone[] = { "NoSuchKey", "NoSuchVersion", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request =
                s3_get_object_tagging(&search->bucket, object->key, object->version, search->page);
        struct value *tags;

        if (aws_call_accepting(search->provider->client, &request, gone, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return false;
        if (s3_read_tagging(&response, search->page, &tags, err) < 0)
                return -1;
        *ret_environment = value_get_text(tags, WORKSPACE_TAG);
        return true;
}

/* One object that an expiry may reach: counted where it is old enough, and, where rules select by tag, has one of theirs. */
static int count_if_expired(struct search *search, const struct workspace_expiry *expiry,
                            const struct s3_object *object, int64_t since_ms, struct aged *aged,
                            struct error *err) {
        const char *environment = NULL;
        int there;

        if (!workspace_expiry_is_over(expiry, since_ms, search->now_ms))
                return 0;
        if (!expiry->for_all) {
                search->full = search->tags_read == TAGS_MAX;
                if (search->full)
                        return 0;
                search->tags_read++;
                there = read_tag(search, object, &environment, err);
                if (there <= 0)
                        return there;
        }
        if (workspace_expiry_reaches(expiry, environment))
                workspace_expiry_add(aged, object->size, since_ms);
        return 0;
}

/*
 * Versions of a key come newest first: each became noncurrent when the one before it was written. Where that one is not
 * seen, it became so at some time after its own.
 */
static int count_object(struct search *search, const struct s3_object *object, struct error *err) {
        bool same_key = strcmp(strbuf_text(&search->last_key), object->key) == 0;
        int64_t since_ms = same_key ? search->last_modified_ms : object->modified_ms;

        search->last_modified_ms = object->modified_ms;
        if (!same_key) {
                strbuf_clear(&search->last_key);
                strbuf_append(&search->last_key, object->key);
        }
        if (object->is_marker)
                return 0;
        if (object->is_noncurrent)
                return count_if_expired(search, &search->noncurrent, object, since_ms,
                                        &search->noncurrent_aged, err);
        return count_if_expired(search, &search->current, object, object->modified_ms, &search->current_aged,
                                err);
}

/* Moves a marker of the page before on; it must outlive that page. NULL: none. */
static const char *keep_marker(struct strbuf *kept, const char *marker) {
        strbuf_clear(kept);
        strbuf_append(kept, marker ? marker : "");
        return marker ? strbuf_text(kept) : NULL;
}

/*
 * All pages, or as many as the bounds allow. How old an object is counts by the server's clock where it tells it: both
 * times are then from one clock, whatever this machine's says.
 */
static int count_pages(struct search *search, struct error *err) {
        static const char *const gone[] = { "NoSuchBucket", NULL };
        struct strbuf key STRBUF_CLEANUP = STRBUF_INIT, version STRBUF_CLEANUP = STRBUF_INIT;
        const char *next = NULL, *next_version = NULL;
        bool more = true;

        for (unsigned pages = 0; more && !search->full && pages < PAGES_MAX; pages++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request =
                        by_versions(search) ? s3_list_versions(&search->bucket, WORKSPACE_PREFIX, NULL, next,
                                                               next_version)
                                            : s3_list_objects(&search->bucket, WORKSPACE_PREFIX, next);
                struct s3_page page = { 0 };

                arena_clear(search->page);
                if (aws_call_accepting(search->provider->client, &request, gone, &response, err) < 0)
                        return -1;
                if (*response.error_code)
                        return 0;
                if ((by_versions(search) ? s3_read_versions(&response, search->page, &page, err)
                                         : s3_read_objects(&response, search->page, &page, err)) < 0)
                        return -1;
                if (response.date_ms > 0)
                        search->now_ms = response.date_ms;
                for (size_t i = 0; i < page.count && !search->full; i++) {
                        if (count_object(search, &page.objects[i], err) < 0)
                                return -1;
                }
                more = page.next != NULL;
                next = keep_marker(&key, page.next);
                next_version = keep_marker(&version, page.next_version);
        }
        search->current_aged.more = search->current.days >= 0 && (more || search->full);
        search->noncurrent_aged.more = search->noncurrent.days >= 0 && (more || search->full);
        return 0;
}

static void refuse_expiry(const struct search *search, struct change *change, struct arena *arena) {
        const char *current =
                workspace_expiry_describe(&search->current_aged, &search->current, false, arena);
        const char *noncurrent =
                workspace_expiry_describe(&search->noncurrent_aged, &search->noncurrent, true, arena);

        if (!current && !noncurrent)
                return;
        aws_refuse(change,
                   (struct refusal){
                           .id = "expires-existing",
                           .message = arena_printf(arena, "%s%s%s", current ? current : "",
                                                   current && noncurrent ? "; " : "",
                                                   noncurrent ? noncurrent : ""),
                           .remedy = arena_printf(arena,
                                                  "let them be kept longer, save what is needed, or let them "
                                                  "expire: --allow expires-existing:%s",
                                                  change->address),
                   },
                   arena);
}

int workspace_policy_ask(struct provider *provider, struct change *change, struct arena *arena,
                         struct error *err) {
        const struct clock *clock = aws_client_clock(provider->client);
        /* A policy without rules is observed as it was recorded: nothing of it is in force. */
        const struct value *in_force =
                workspace_policy_rules(change->observed) > 0 ? change->observed->spec : NULL;
        struct search search = { .provider = provider, .now_ms = clock->wall_ms(clock) };
        int result;

        if (change->action == ACTION_DELETE || !provider->bucket)
                return 0;
        search.current = workspace_expiry_of("expireAfterDays", change->desired, in_force, arena);
        search.noncurrent =
                workspace_expiry_of("noncurrentExpireAfterDays", change->desired, in_force, arena);
        if (search.current.days < 0 && search.noncurrent.days < 0)
                return 0;
        search.bucket = aws_bucket(provider);
        search.page = arena_new();
        result = count_pages(&search, err);
        arena_free(search.page);
        strbuf_release(&search.last_key);
        if (result < 0)
                return error_context(err, "bucket %s", provider->bucket);
        refuse_expiry(&search, change, arena);
        return 0;
}
