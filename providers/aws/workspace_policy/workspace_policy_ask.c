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

static int judge(struct search *search, const struct workspace_expiry *expiry, const struct s3_object *object,
                 int64_t since_ms, struct aged *aged, struct error *err) {
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
static int look_at(struct search *search, const struct s3_object *object, struct error *err) {
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
                return judge(search, &search->noncurrent, object, since_ms, &search->noncurrent_aged, err);
        return judge(search, &search->current, object, object->modified_ms, &search->current_aged, err);
}

/* Where a page begins; "" for the first page, and for a version where there is none. */
struct place {
        struct strbuf key, version;
};

static const char *some(const struct strbuf *text) {
        return text->length ? strbuf_text(text) : NULL;
}

static void set(struct strbuf *text, const char *to) {
        strbuf_clear(text);
        strbuf_append(text, to ? to : "");
}

static int read_page(struct search *search, const struct place *at, struct s3_page *ret, struct error *err) {
        static const char *const gone[] = { "NoSuchBucket", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request =
                by_versions(search) ? s3_list_versions(&search->bucket, WORKSPACE_PREFIX, NULL,
                                                       some(&at->key), some(&at->version))
                                    : s3_list_objects(&search->bucket, WORKSPACE_PREFIX, some(&at->key));

        *ret = (struct s3_page){ 0 };
        if (aws_call_accepting(search->provider->client, &request, gone, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        return by_versions(search) ? s3_read_versions(&response, search->page, ret, err)
                                   : s3_read_objects(&response, search->page, ret, err);
}

/* 1 where there is another page at *at. */
static int look_at_page(struct search *search, struct place *at, struct error *err) {
        struct s3_page page;

        arena_clear(search->page);
        if (read_page(search, at, &page, err) < 0)
                return -1;
        for (size_t i = 0; i < page.count && !search->full; i++) {
                if (look_at(search, &page.objects[i], err) < 0)
                        return -1;
        }
        if (!page.next)
                return 0;
        set(&at->key, page.next);
        set(&at->version, page.next_version);
        return 1;
}

static int look(struct search *search, struct error *err) {
        struct place at = { 0 };
        int more = 1;

        for (unsigned pages = 0; more == 1 && !search->full && pages < PAGES_MAX; pages++)
                more = look_at_page(search, &at, err);
        strbuf_release(&at.key);
        strbuf_release(&at.version);
        if (more < 0)
                return error_context(err, "bucket %s", search->bucket.name);
        search->current_aged.more = search->current.days >= 0 && (more == 1 || search->full);
        search->noncurrent_aged.more = search->noncurrent.days >= 0 && (more == 1 || search->full);
        return 0;
}

static void refuse(const struct search *search, struct change *change, struct arena *arena) {
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
        /* What has no rules is observed as it was recorded: nothing of it is in force. */
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
        result = look(&search, err);
        arena_free(search.page);
        strbuf_release(&search.last_key);
        if (result < 0)
                return -1;
        refuse(&search, change, arena);
        return 0;
}
