/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking the Stack down: what Berth itself left in the bucket, the bucket, the role.
 *
 * A bucket that holds more than that, above all workspaces of sessions, is refused
 * (bucket-not-empty). Allowing the refusal means that all of it may go: then, and only then,
 * everything is removed. What appears between the question and the deletion is never removed: S3
 * refuses to delete the bucket then, and so do we.
 */
#include "providers/aws/stack/stack.h"

#include "base/text.h"
#include "providers/aws/client/aws_paging.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/shared/bound_records.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/stage.h"
#include "providers/aws/shared/stage_call.h"
#include "providers/aws/stack/isolated_network.h"
#include "providers/aws/stack/session_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum delete_stage {
        STAGE_BEGIN,
        STAGE_SEE_NETWORK,
        STAGE_NETWORK,
        STAGE_LOOK_TABLE,
        STAGE_UNPROTECT_TABLE,
        STAGE_DELETE_TABLE,
        STAGE_WAIT_GONE,
        STAGE_LIST,
        STAGE_EMPTY,
        STAGE_BUCKET,
        STAGE_NOTE,
        STAGE_ROLE_POLICY,
        STAGE_ROLE,
        STAGE_COUNT
};

/* How often what was deleted may be listed once more. */
#define SAME_MAX 10

#define LOCKS "berth/locks/"

static bool has_bucket(const struct change *change) {
        return stack_own_bucket(change->observed->spec) != NULL;
}

static bool has_role(const struct change *change) {
        return stack_own_role(change->observed->spec) != NULL;
}

/* The notes of this state's lineage and of those that it has taken over, one after the other; NULL at the end. */
static const char *note_at(const struct provider *provider, int64_t index, struct arena *arena) {
        const struct lineage *own = &provider->lineage;

        if (!own->id || (index > 0 && (size_t)index > provider->lineage_taken))
                return NULL;
        return lineage_key(index == 0 ? own->id : own->taken[index - 1], arena);
}

/* The prefixes whose objects are removed, one after the other; NULL at the end. */
static const char *prefix_at(const struct provider *provider, int64_t index, struct arena *arena) {
        if (provider->bucket_in_use)
                return index == 0 ? "" : NULL;
        switch (index) {
        case 0:
                return arena_printf(arena, REGISTRY "%s/", provider->stack_name);
        case 1:
                return LOCKS;
        default:
                return note_at(provider, index - 2, arena);
        }
}

/* The page of versions that is being removed. Each takes the place of the one before: there may be millions of them. */
struct leftovers {
        struct arena *arena;
        struct s3_page page;
        struct strbuf first; /* key and version of the first one */
        unsigned times;      /* it was the first one that often in a row */
};

/* Made by the first step that lists; the provider frees it, since a change that is abandoned does not. */
static struct leftovers *leftovers_of(struct provider *provider) {
        struct leftovers *leftovers = provider->leftovers;

        if (leftovers)
                return leftovers;
        leftovers = calloc(1, sizeof(*leftovers));
        if (!leftovers)
                abort();
        leftovers->arena = arena_new();
        provider->leftovers = leftovers;
        return leftovers;
}

void stack_leftovers_release(struct leftovers *leftovers) {
        if (!leftovers)
                return;
        arena_free(leftovers->arena);
        strbuf_release(&leftovers->first);
        free(leftovers);
}

/* Whether what was said to be deleted is listed again and again. */
static bool is_stuck(struct leftovers *leftovers) {
        const struct s3_object *first = &leftovers->page.objects[0];
        struct strbuf name = STRBUF_INIT;

        strbuf_printf(&name, "%s %s", first->key, first->version ? first->version : "");
        leftovers->times =
                texts_same(strbuf_text(&name), strbuf_text(&leftovers->first)) ? leftovers->times + 1 : 1;
        strbuf_release(&leftovers->first);
        leftovers->first = name;
        return leftovers->times > SAME_MAX;
}

/*
 * The first page below the prefix at hand: what stands on it is deleted by the next stage, which
 * comes back here. An empty page goes on to the next prefix. Between pages only the first key is
 * kept, so that the listing needs no markers, and what others add meanwhile below our own prefixes
 * goes as well.
 */
static int list_leftovers(struct stage_turn *turn) {
        static const char *const gone[] = { "NoSuchBucket", NULL };
        struct progress *progress = turn->progress;
        struct leftovers *leftovers = leftovers_of(turn->provider);
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        int64_t index = value_get_integer(progress->data, "prefix", 0);
        const char *prefix = prefix_at(turn->provider, index, progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_list_versions(&bucket, prefix, NULL, NULL, NULL);
        int result = stage_call(turn, &request, gone, &response);

        if (result != 0)
                return result;
        if (*response.error_code)
                return STAGE_OVER;
        arena_clear(leftovers->arena);
        leftovers->page = (struct s3_page){ 0 };
        if (s3_read_versions(&response, leftovers->arena, &leftovers->page, turn->err) < 0)
                return -1;
        /* A page beyond the request may hold sessions' workspaces: all of it would be deleted. */
        for (size_t i = 0; i < leftovers->page.count; i++) {
                if (strncmp(leftovers->page.objects[i].key, prefix, strlen(prefix)) != 0)
                        return error_set(turn->err,
                                         "s3 ListObjectVersions: asked for what begins with %s in the bucket "
                                         "%s, the server lists %s as well: nothing of it is deleted",
                                         prefix, bucket.name, leftovers->page.objects[i].key);
        }
        if (leftovers->page.count > 0 && is_stuck(leftovers))
                return error_set(
                        turn->err,
                        "s3 DeleteObjects: S3 says that it has deleted %s from the bucket %s, and still "
                        "lists it: see what keeps it there, and destroy again",
                        leftovers->page.objects[0].key, bucket.name);
        if (leftovers->page.count > 0)
                return stage_enter(turn, STAGE_EMPTY);
        value_set_integer(progress->arena, stage_data(turn), "prefix", index + 1);
        return prefix_at(turn->provider, index + 1, progress->arena) ? stage_enter(turn, STAGE_LIST)
                                                                     : STAGE_OVER;
}

/* S3 answers 200 for each page, whatever stayed: the first that did is the change's error. */
static int remove_leftovers(struct stage_turn *turn) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct s3_page *page = &leftovers_of(turn->provider)->page;
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct aws_request request = s3_delete_objects(&bucket, page->objects, page->count, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, NULL, &response);

        if (result != 0)
                return result;
        if (s3_read_deleted(&response, arena, turn->err) < 0)
                return -1;
        return stage_enter(turn, STAGE_LIST);
}

/* S3 itself is the last guard: it deletes no bucket that holds anything. */
static int delete_bucket(struct stage_turn *turn) {
        static const char *const gone[] = { "NoSuchBucket", NULL };
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct aws_request request = s3_delete_bucket(&bucket);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, gone, &response);

        if (result < 0 && aws_failed_with(&response, "BucketNotEmpty"))
                return error_set(
                        turn->err,
                        "the bucket %s is not empty: something has been put there since it was looked at; "
                        "destroy again to see what",
                        bucket.name);
        return result == 0 ? STAGE_OVER : result;
}

/* In a bucket that is another stack's, this state's note is all that goes. */
static bool leaves_bucket(const struct change *change) {
        return !has_bucket(change);
}

/* One note a turn; the stage enters itself again until none is left. */
static int delete_note(struct stage_turn *turn) {
        static const char *const gone[] = { "NoSuchBucket", "NoSuchKey", NULL };
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        int64_t index = value_get_integer(turn->progress->data, "note", 0);
        const char *key = note_at(turn->provider, index, turn->progress->arena);
        int result;

        if (!key)
                return STAGE_OVER;
        result = stage_call_over(turn, s3_delete_object(&bucket, key, NULL, turn->progress->arena), gone);
        if (result != STAGE_OVER)
                return result;
        value_set_integer(turn->progress->arena, stage_data(turn), "note", index + 1);
        return stage_enter(turn, STAGE_NOTE);
}

static const char *role_of(const struct stage_turn *turn) {
        return stack_own_role(turn->change->observed->spec);
}

int stack_delete_role_policy(struct stage_turn *turn) {
        return execution_role_delete_policy(turn, role_of(turn));
}

int stack_delete_role(struct stage_turn *turn) {
        return execution_role_delete(turn, role_of(turn));
}

static int remove_network(struct stage_turn *turn) {
        return isolated_network_remove(turn, STAGE_SEE_NETWORK);
}

static int wait_until_gone(struct stage_turn *turn) {
        return session_table_wait_gone(turn, STAGE_UNPROTECT_TABLE);
}

/* The network goes before the role, in whose name Lambda lets go of its network interfaces. */
static const struct stage stages[STAGE_COUNT] = {
        [STAGE_SEE_NETWORK] = { NULL, NULL, isolated_network_needs_removal, isolated_network_look },
        [STAGE_NETWORK] = { NULL, "for Lambda to let go of its network interfaces",
                            isolated_network_needs_removal, remove_network },
        [STAGE_LOOK_TABLE] = { "dynamodb", NULL, session_table_is_there, session_table_look },
        [STAGE_UNPROTECT_TABLE] = { "dynamodb", NULL, session_table_is_there, session_table_unprotect },
        [STAGE_DELETE_TABLE] = { "dynamodb", NULL, session_table_is_there, session_table_delete },
        [STAGE_WAIT_GONE] = { "dynamodb", "for the table to go", session_table_is_there, wait_until_gone },
        [STAGE_LIST] = { "s3", NULL, has_bucket, list_leftovers },
        [STAGE_EMPTY] = { NULL, NULL, NULL, remove_leftovers },
        [STAGE_BUCKET] = { "s3", "for the bucket to go", has_bucket, delete_bucket },
        [STAGE_NOTE] = { "s3", NULL, leaves_bucket, delete_note },
        [STAGE_ROLE_POLICY] = { "iam", NULL, has_role, stack_delete_role_policy },
        [STAGE_ROLE] = { "iam", NULL, has_role, stack_delete_role },
};

void stack_delete_cost(const struct change *change, struct cost *ret) {
        stage_cost(stages, STAGE_COUNT, change, ret);
        isolated_network_cost(change, ret);
        if (has_bucket(change))
                cost_add(ret, "s3", 2); /* the listings of locks and of this state's note */
}

int stack_delete_step(struct provider *provider, const struct change *change, struct progress *progress,
                      struct observation *ret_observed, struct error *err) {
        struct observation observed = { 0 };
        struct stage_turn turn = { provider, change, progress, &observed, err };
        int result = stage_step(stages, STAGE_COUNT, &turn);

        if (result == STEP_DONE)
                *ret_observed = (struct observation){ .name = change->name };
        return result;
}

/* What the bucket holds that is not Berth's own. */
struct holdings {
        uint64_t objects, bytes;
        bool more; /* there are others that were not counted */
        const char *first;
};

/* One page of the versions below `prefix`; `after` (its `next`) the page before, or NULL. */
static int list_page(struct provider *provider, const char *prefix, const char *delimiter,
                     const struct s3_page *after, struct arena *arena, struct s3_page *ret,
                     struct error *err) {
        static const char *const gone[] = { "NoSuchBucket", NULL };
        const struct s3_bucket bucket = aws_bucket(provider);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_list_versions(&bucket, prefix, delimiter, after ? after->next : NULL,
                                                      after ? after->next_version : NULL);

        *ret = (struct s3_page){ 0 };
        if (aws_call_accepting(provider->client, &request, gone, &response, err) < 0)
                return -1;
        return *response.error_code ? 0 : s3_read_versions(&response, arena, ret, err);
}

/* Adds what one page lists and is not ours; the first of it is shown to people. */
static void count_page(struct holdings *holdings, const struct s3_page *page, const char *const *own) {
        for (size_t i = 0; i < page->count; i++) {
                if (text_is_among(page->objects[i].key, own))
                        continue;
                holdings->objects++;
                holdings->bytes += (uint64_t)page->objects[i].size;
                if (!holdings->first)
                        holdings->first = page->objects[i].key;
        }
}

/*
 * Counts what is not Berth's own below `prefix`, without listing what is: goes down by folders
 * along the paths to `own`, and counts what lies beside them. For a folder beside them one page is
 * enough, and pages of folders are read only until one holds something: the bucket is in use then,
 * and people are told "at least" that number.
 */
static int count_beside(struct provider *provider, const char *prefix, const char *const *own,
                        struct arena *arena, struct holdings *holdings, struct error *err) {
        struct s3_page page = { 0 }, before, below;
        struct aws_paging paging = { 0 };

        do {
                before = page;
                if (list_page(provider, prefix, "/", before.next ? &before : NULL, arena, &page, err) < 0)
                        return -1;
                count_page(holdings, &page, own);
                for (size_t i = 0; i < page.prefix_count; i++) {
                        const char *folder = page.prefixes[i];
                        bool is_own = false, leads_there = false;

                        for (const char *const *at = own; *at; at++) {
                                is_own |= strcmp(*at, folder) == 0;
                                leads_there |= strncmp(*at, folder, strlen(folder)) == 0;
                        }
                        if (is_own)
                                continue;
                        /* Only downwards, whatever the answer says. */
                        if (leads_there && strlen(folder) > strlen(prefix)) {
                                if (count_beside(provider, folder, own, arena, holdings, err) < 0)
                                        return -1;
                                continue;
                        }
                        if (list_page(provider, folder, NULL, NULL, arena, &below, err) < 0)
                                return -1;
                        count_page(holdings, &below, own);
                        holdings->more |= below.next != NULL;
                }
                /* A place in a listing of versions is a key and a version of it. */
                if (aws_paging_next(&paging,
                                    page.next ? arena_printf(arena, "%s %s", page.next,
                                                             page.next_version ? page.next_version : "")
                                              : NULL,
                                    arena, err) < 0)
                        return -1;
        } while (page.next && holdings->objects == 0);
        holdings->more |= page.next != NULL;
        return 0;
}

static void refuse_not_empty(struct provider *provider, struct change *change,
                             const struct holdings *holdings, struct arena *arena) {
        const struct refusal refusal = {
                .id = "bucket-not-empty",
                .message = arena_printf(
                        arena,
                        "the bucket %s holds %s%" PRIu64 " %s, %" PRIu64 " bytes, that are not Berth's "
                        "own records: %s%s",
                        provider->bucket, holdings->more ? "at least " : "", holdings->objects,
                        holdings->objects == 1 ? "object" : "objects", holdings->bytes,
                        holdings->first ? holdings->first : "", holdings->objects > 1 ? ", ..." : ""),
                .remedy = arena_printf(
                        arena,
                        "save what is needed and empty the bucket, or delete it with everything in it: "
                        "--allow bucket-not-empty:%s",
                        change->address),
        };
        aws_refuse(change, refusal, arena);
}

/* What in the bucket is Berth's own, for this stack: folders, and the notes of its lineages. NULL at the end. */
static const char *const *own_paths(const struct provider *provider, struct arena *arena) {
        const char **own = arena_array(arena, provider->lineage_taken + 4, sizeof(*own));
        size_t count = 0;
        const char *note;

        own[count++] = arena_printf(arena, REGISTRY "%s/", provider->stack_name);
        own[count++] = LOCKS;
        for (int64_t i = 0; (note = note_at(provider, i, arena)); i++)
                own[count++] = note;
        own[count] = NULL;
        return own;
}

int stack_ask_bucket(struct provider *provider, struct change *change, struct arena *arena,
                     struct error *err) {
        struct holdings holdings = { 0 };

        provider->bucket_in_use = false;
        if (!has_bucket(change))
                return 0;
        if (count_beside(provider, "", own_paths(provider, arena), arena, &holdings, err) < 0)
                return error_context(err, "bucket %s", provider->bucket);
        if (holdings.objects == 0)
                return 0;
        provider->bucket_in_use = true;
        refuse_not_empty(provider, change, &holdings, arena);
        return 0;
}

int stack_ask(struct provider *provider, struct change *change, struct arena *arena, struct error *err) {
        if (session_table_ask(provider, change, arena, err) < 0)
                return -1;
        if (change->action != ACTION_DELETE) {
                execution_role_ask_path(
                        change, value_get(change->desired, "role"), value_get(change->observed->spec, "role"),
                        "name a role of yours in aws.executionRole and apply twice, so that Berth's own goes once "
                        "no function uses it, then take that line out and apply",
                        arena);
                return 0;
        }
        return stack_ask_bucket(provider, change, arena, err) < 0
                       ? -1
                       : stack_ask_users(provider, change, arena, err);
}
