/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace is there as long as its index is. It is opened by one call, which brings the
 * beginning of the index: all of it, where it is not long. A removal is noted first, in
 * workspaces/removed/, so that the next server finishes what a death leaves.
 */
#include "providers/aws/workspace/bucket_workspaces.h"

#include "base/array.h"
#include "base/files.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "providers/aws/workspace/bucket_body.h"
#include "providers/aws/workspace/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define PAGE_MAX 1000
#define NOTE_MAX ((size_t)16 << 10)
#define COMPACT_EVERY 16
#define CHECK_AFTER_MS ((int64_t)24 * 3600 * 1000) /* lifecycle rules act once a day */

static const char *const absent_codes[] = { "NoSuchKey", "NotFound", NULL };

static const struct workspace_bucket *where_of(const struct workspaces *workspaces) {
        return workspaces->context;
}

static int create(const struct workspaces *workspaces, const struct workspace_row *row,
                  struct problem *problem) {
        const struct workspace_bucket *where = where_of(workspaces);
        const struct workspace_index index = {
                .owner = row->owner,
                .environment = row->environment,
                .agent = row->agent,
                .created_ms = row->created_ms,
                .lives_until_ms = row->lives_until_ms,
                .checked_ms = row->created_ms,
        };
        struct error err;
        int made = workspace_index_make(where, row->id, &index, &err);

        if (made < 0)
                return bucket_fail(&err, problem);
        return made > 0 ? 0 : problem_set(problem, PROBLEM_CONFLICT, "this id is taken");
}

static void close_workspace(struct workspace *workspace) {
        struct bucket_own *own = bucket_own(workspace);

        if (!own)
                return;
        arena_free(own->arena);
        arena_free(own->index_arena);
        free(own->looked);
        free(own);
        workspace->own = NULL;
}

static int open_bucket_workspace(const struct workspaces *workspaces, const char *owner, const char *id,
                                 struct workspace *ret, struct problem *problem) {
        struct workspace opened WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct bucket_own *own = calloc(1, sizeof(*own));
        struct error err;
        int found;

        if (!own)
                abort();
        own->where = where_of(workspaces);
        own->spool = workspaces->folder;
        own->arena = arena_new();
        own->index_arena = arena_new();
        opened.body = &bucket_workspaces_body;
        opened.own = own;
        found = workspace_index_read_head(own->where, id, own->index_arena, &own->index, &err);
        if (found < 0)
                return bucket_fail(&err, problem);
        if (found == 0 || (owner && strcmp(own->index.owner, owner) != 0))
                return workspace_not_found(problem);
        memcpy(opened.id, id, strlen(id) + 1);
        *ret = opened;
        opened = (struct workspace)WORKSPACE_INIT;
        return 0;
}

int bucket_load(struct workspace *workspace, struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        struct error err;
        int found;

        if (own->index.whole)
                return 0;
        found = workspace_index_read(own->where, workspace->id, own->index_arena, &own->index, &err);
        if (found < 0)
                return bucket_fail(&err, problem);
        return found > 0 ? 0 : workspace_not_found(problem);
}

/* Each change leaves the list before it: who puts thousands of files through one workspace would have as many lists in memory. */
void bucket_compact(struct workspace *workspace) {
        struct bucket_own *own = bucket_own(workspace);
        struct arena *fresh;

        if (++own->puts % COMPACT_EVERY)
                return;
        fresh = arena_new();
        own->index = workspace_index_copy(&own->index, fresh);
        arena_free(own->index_arena);
        own->index_arena = fresh;
}

static bool is_check_due(const struct bucket_own *own) {
        const struct clock *clock = aws_client_clock(own->where->client);

        if (own->index.count && clock->wall_ms(clock) - own->index.checked_ms > CHECK_AFTER_MS)
                return true;
        for (size_t i = 0; i < own->index.count; i++) {
                if (!own->index.files[i].etag)
                        return true;
        }
        return false;
}

int bucket_load_checked(struct workspace *workspace, const struct interrupt *interrupt,
                        struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        struct error err;
        int found;

        if (bucket_load(workspace, problem) < 0)
                return -1;
        if (!is_check_due(own))
                return 0;
        /* Digests are for executions, the next of which works them out. */
        found = workspace_index_check(own->where, workspace->id, 0, interrupt, own->index_arena, &own->index,
                                      &err);
        if (found < 0)
                return bucket_fail(&err, problem);
        return found > 0 ? 0 : workspace_not_found(problem);
}

int bucket_change(struct workspace *workspace, const struct workspace_index_changes *changes,
                  struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        struct error err;
        int changed = workspace_index_change(own->where, workspace->id, own->index.whole ? &own->index : NULL,
                                             changes, own->index_arena, &own->index, &err);

        if (changed < 0)
                return bucket_fail(&err, problem);
        return changed > 0 ? 0 : workspace_not_found(problem);
}

static int describe_workspace(const struct workspace *workspace, struct arena *arena,
                              struct workspace_row *ret, struct problem *problem) {
        const struct workspace_index *index = &bucket_own(workspace)->index;

        (void)problem;
        *ret = (struct workspace_row){
                .id = arena_strdup(arena, workspace->id),
                .owner = arena_strdup(arena, index->owner),
                .environment = arena_strdup(arena, index->environment),
                .agent = arena_strdup(arena, index->agent),
                .created_ms = index->created_ms,
                .lives_until_ms = index->lives_until_ms,
        };
        return 0;
}

/* A session that has ended is not restored, and no file waits for its executions. */
static int set_life(struct workspace *workspace, int64_t lives_until_ms, struct problem *problem) {
        const struct workspace_index_changes changes = { .lives_until_ms = &lives_until_ms };
        struct bucket_own *own = bucket_own(workspace);
        struct error err;

        if (own->index.lives_until_ms != lives_until_ms && bucket_change(workspace, &changes, problem) < 0)
                return -1;
        if (lives_until_ms == 0 &&
            bucket_delete_all(own->where, layout_transfers(workspace->id, own->arena), NULL, NULL, &err) < 0)
                return bucket_fail(&err, problem);
        return 0;
}

/* --- all of them --- */

/* Rows of an owner, in order, until `limit` and one more workspaces are seen: of one the row of its size comes before its first. */
struct rows {
        const struct workspace_bucket *where;
        const char *owner; /* what keys begin with */
        struct arena *arena;
        struct layout_row *items; /* one for each workspace */
        size_t count;
};

static void merge_row(struct rows *rows, const struct layout_row *row) {
        struct layout_row *last = rows->count ? &rows->items[rows->count - 1] : NULL;

        if (last && strcmp(last->id, row->id) == 0) {
                if (!row->first && (last->first || row->megabytes > last->megabytes))
                        *last = *row;
                return;
        }
        rows->items = array_grow(rows->arena, rows->items, rows->count, sizeof(*rows->items));
        rows->items[rows->count++] = *row;
}

static int list_rows(struct rows *rows, const char *after, size_t limit, struct error *err) {
        const char *from = *after ? arena_printf(rows->arena, "%s%s/\x7f", rows->owner, after) : NULL;

        for (;;) {
                struct aws_request request =
                        s3_list_objects_after(&rows->where->bucket, rows->owner, from, PAGE_MAX, rows->arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct s3_page page;

                if (aws_call(rows->where->client, &request, &response, err) < 0 ||
                    s3_read_objects(&response, rows->arena, &page, err) < 0)
                        return -1;
                for (size_t i = 0; i < page.count; i++) {
                        struct layout_row row;

                        if (layout_row_read(rows->owner, page.objects[i].key, rows->arena, &row))
                                merge_row(rows, &row);
                }
                /* The last one may have another row on the next page. */
                if (!page.next || page.count == 0 || rows->count > limit + 1)
                        return 0;
                from = page.objects[page.count - 1].key;
        }
}

static int list_of_owner(const struct workspaces *workspaces, const char *owner, const char *after,
                         size_t limit, struct arena *arena, struct workspace_row **ret, size_t *ret_count,
                         bool *ret_more, struct error *err) {
        const struct workspace_bucket *where = where_of(workspaces);
        struct rows rows = { .where = where,
                             .owner = layout_owner(where->stack, owner, arena),
                             .arena = arena };
        size_t count;

        if (list_rows(&rows, after, limit, err) < 0)
                return -1;
        count = rows.count < limit ? rows.count : limit;
        *ret = arena_array(arena, count + 1, sizeof(**ret));
        for (size_t i = 0; i < count; i++)
                (*ret)[i] = (struct workspace_row){
                        .id = rows.items[i].id,
                        .owner = arena_strdup(arena, owner),
                        .environment = rows.items[i].environment,
                        .agent = rows.items[i].agent,
                        .created_ms = rows.items[i].created_ms,
                        .lives_until_ms = rows.items[i].lives_until_ms,
                };
        *ret_count = count;
        *ret_more = rows.count > limit;
        return 0;
}

/* For who looks after all owners' alone: one call for each of the page. */
static int list_of_all(const struct workspaces *workspaces, const char *after, size_t limit,
                       struct arena *arena, struct workspace_row **ret, size_t *ret_count, bool *ret_more,
                       struct error *err) {
        const struct workspace_bucket *where = where_of(workspaces);
        const char *from = *after ? arena_printf(arena, LAYOUT_INDEXES "%s", after) : NULL;
        struct workspace_row *rows = arena_array(arena, limit + 1, sizeof(*rows));
        size_t count = 0;
        bool more = true;

        while (more && count <= limit) {
                struct aws_request request =
                        s3_list_objects_after(&where->bucket, LAYOUT_INDEXES, from, limit + 1, arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct s3_page page;

                if (aws_call(where->client, &request, &response, err) < 0 ||
                    s3_read_objects(&response, arena, &page, err) < 0)
                        return -1;
                more = page.next && page.count > 0;
                for (size_t i = 0; i < page.count && count <= limit; i++) {
                        const char *id = page.objects[i].key + strlen(LAYOUT_INDEXES);
                        struct workspace_index index;
                        struct error ignored;

                        from = page.objects[i].key;
                        /* Damaged ones have no owner. */
                        if (!text_begins_with(page.objects[i].key, LAYOUT_INDEXES) || !workspace_is_id(id) ||
                            workspace_index_read_head(where, id, arena, &index, &ignored) <= 0)
                                continue;
                        rows[count++] = (struct workspace_row){ .id = id,
                                                                .owner = index.owner,
                                                                .environment = index.environment,
                                                                .agent = index.agent,
                                                                .created_ms = index.created_ms,
                                                                .lives_until_ms = index.lives_until_ms };
                }
        }
        *ret = rows;
        *ret_more = count > limit;
        *ret_count = *ret_more ? limit : count;
        return 0;
}

static int list_workspaces(const struct workspaces *workspaces, const char *owner, const char *after,
                           size_t limit, struct arena *arena, struct workspace_row **ret, size_t *ret_count,
                           bool *ret_more, struct problem *problem) {
        struct error err;
        int result =
                owner ? list_of_owner(workspaces, owner, after, limit, arena, ret, ret_count, ret_more, &err)
                      : list_of_all(workspaces, after, limit, arena, ret, ret_count, ret_more, &err);

        return result < 0 ? bucket_fail(&err, problem) : 0;
}

static int measure_others(const struct workspaces *workspaces, const char *owner, const char *id,
                          const struct interrupt *interrupt, uint64_t *ret, struct problem *problem) {
        const struct workspace_bucket *where = where_of(workspaces);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct rows rows = { .where = where,
                             .owner = layout_owner(where->stack, owner, arena),
                             .arena = arena };
        uint64_t megabytes = 0;
        struct error err;

        (void)interrupt;
        if (list_rows(&rows, "", SIZE_MAX - 1, &err) < 0)
                return bucket_fail(&err, problem);
        for (size_t i = 0; i < rows.count; i++) {
                if (!rows.items[i].first && strcmp(rows.items[i].id, id) != 0)
                        megabytes += rows.items[i].megabytes;
        }
        *ret = megabytes << 20;
        return 0;
}

/* --- removing --- */

static int call_for(const struct workspace_bucket *where, struct aws_request request, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        return aws_call_accepting(where->client, &request, absent_codes, &response, err);
}

/* From its index on: all that is left of it, and the note last. */
static int finish_removal(const struct workspace_bucket *where, const char *id, const char *owner,
                          struct arena *arena, struct error *err) {
        const char *rows = arena_printf(arena, "%s%s/", layout_owner(where->stack, owner, arena), id);

        if (call_for(where, s3_delete_object(&where->bucket, layout_index(id, arena), NULL, arena), err) <
                    0 ||
            bucket_delete_all(where, rows, NULL, NULL, err) < 0 ||
            bucket_delete_all(where, layout_session(id, arena), NULL, NULL, err) < 0)
                return -1;
        return call_for(where, s3_delete_object(&where->bucket, layout_removed(id, arena), NULL, arena), err);
}

static int remove_workspace(const struct workspaces *workspaces, const char *owner, const char *id,
                            struct problem *problem) {
        const struct workspace_bucket *where = where_of(workspaces);
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *both = arena_printf(arena, "%s\n%s", where->stack, owner);
        const struct s3_write note = { .key = layout_removed(id, arena),
                                       .body = both,
                                       .length = strlen(both),
                                       .content_type = "text/plain" };
        struct error err;

        if (open_bucket_workspace(workspaces, owner, id, &workspace, problem) < 0)
                return -1;
        return call_for(where, s3_write_object(&where->bucket, &note, arena), &err) < 0 ||
                               finish_removal(where, id, owner, arena, &err) < 0
                       ? bucket_fail(&err, problem)
                       : 0;
}

/* The owner that a note of this stack's names; NULL: it is another's, whose rows are not to be found here. Names of stacks have no line break. */
static const char *noted_owner(const struct workspace_bucket *where, const char *note) {
        size_t length = strlen(where->stack);

        return strncmp(note, where->stack, length) == 0 && note[length] == '\n' ? note + length + 1 : NULL;
}

/* 0 also where there is nothing to finish. */
static int recover_one(const struct workspace_bucket *where, const char *key, struct arena *arena,
                       struct error *err) {
        const char *id = key + strlen(LAYOUT_REMOVED), *owner;
        struct strbuf note STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_index index;
        int found;

        if (!text_begins_with(key, LAYOUT_REMOVED) || !workspace_is_id(id))
                return 0;
        found = bucket_read(where, key, NOTE_MAX, &note, err);
        owner = found > 0 ? noted_owner(where, strbuf_text(&note)) : NULL;
        if (found < 0 || !owner)
                return found < 0 ? -1 : 0;
        found = workspace_index_read_head(where, id, arena, &index, err);
        if (found < 0 || (found > 0 && strcmp(index.owner, owner) != 0))
                return 0;
        return finish_removal(where, id, owner, arena, err);
}

/*
 * Those whose removal was begun and not ended: notes say which, and whose they were. Those of other
 * stacks are left to them. One that cannot be finished does not block the others.
 */
static int recover(const struct workspaces *workspaces, struct problem *problem) {
        const struct workspace_bucket *where = where_of(workspaces);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_request request = s3_list_objects(&where->bucket, LAYOUT_REMOVED, NULL);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct s3_page page;
        struct error err, failure;
        int result = 0;

        if (aws_call(where->client, &request, &response, &err) < 0 ||
            s3_read_objects(&response, arena, &page, &err) < 0)
                return bucket_fail(&err, problem);
        for (size_t i = 0; i < page.count; i++) {
                if (recover_one(where, page.objects[i].key, arena, &err) == 0)
                        continue;
                failure = err;
                result = -1;
        }
        return result < 0 ? bucket_fail(&failure, problem) : 0;
}

/* --- what it holds --- */

static int measure_workspace(struct workspace *workspace, const struct interrupt *interrupt,
                             struct workspace_usage *ret, struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);

        if (bucket_load_checked(workspace, interrupt, problem) < 0)
                return -1;
        *ret = (struct workspace_usage){ .files = bucket_count(&own->index), .bytes = own->index.bytes };
        return 0;
}

/* Histories lie with the records, and are bounded there by their number. */
static int set_history(struct workspace *workspace, uint64_t bytes, struct problem *problem) {
        (void)workspace;
        (void)bytes;
        (void)problem;
        return 0;
}

/* Of the disk on which files are on their way: the bucket has no end. */
static int check_free(const struct workspace *workspace, const struct workspace_limits *limits, uint64_t more,
                      struct problem *problem) {
        const char *spool = bucket_own(workspace)->spool;
        struct statvfs disk;
        uint64_t free_bytes;

        if (statvfs(spool, &disk) < 0)
                return errno == ENOENT ? 0
                                       : problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                                     "cannot look at the disk: %s", strerror(errno));
        free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
        return free_bytes >= limits->free_min && free_bytes - limits->free_min >= more
                       ? 0
                       : problem_set(problem, PROBLEM_WORKSPACE_FULL,
                                     "the disk of the server would have less free than must stay free");
}

const struct workspace_body bucket_workspaces_body = {
        .create = create,
        .open = open_bucket_workspace,
        .close = close_workspace,
        .describe = describe_workspace,
        .set_life = set_life,
        .list = list_workspaces,
        .remove = remove_workspace,
        .recover = recover,
        .measure = measure_workspace,
        .set_history = set_history,
        .measure_others = measure_others,
        .check_free = check_free,
        .files_list = bucket_files_list,
        .file_look = bucket_file_look,
        .file_fetch = bucket_file_fetch,
        .put_begin = bucket_put_begin,
        .put_finish = bucket_put_finish,
        .put_close = bucket_put_close,
        .file_delete = bucket_file_delete,
        .place_look = bucket_place_look,
        .places_list = bucket_places_list,
        .folder_create = bucket_folder_create,
        .place_move = bucket_place_move,
        .place_remove = bucket_place_remove,
        .stage_begin = bucket_stage_begin,
        .stage_file = bucket_stage_file,
        .stage_finish = bucket_stage_finish,
        .stage_close = bucket_stage_close,
        .stage_place = bucket_stage_place,
        .stage_drop = bucket_stage_drop,
        .stage_keep = bucket_stage_keep,
        .stage_request = bucket_stage_request,
        .stage_read_request = bucket_stage_read_request,
};
