/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a session for one execution: what there is, by the index of its workspace, told to the runtime as presigned requests; and what
 * became of it, told to the index. One call reads the index; where nothing has changed, there is no other.
 *
 * Files that the code has deleted go from the bucket first, then from the index: a server that dies
 * in between leaves an index that the next reader corrects. It goes only as the version that the
 * code knew: what others have put meanwhile stays. A file that was changed lies in the bucket
 * already; it is said to be kept once the index has it.
 */
#include "base/array.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "providers/aws/client/aws_presign.h"
#include "providers/aws/session/place_parts.h"
#include "providers/aws/workspace/layout.h"
#include "sessions/workspace_stage.h"

#include <stdlib.h>
#include <string.h>

/* Of files in the event itself, beside code and input; more are an object. */
#define LISTED_BYTES_MAX ((size_t)256 << 10)
#define MEGABYTE (UINT64_C(1) << 20)
/* One call of DeleteObjects. */
#define DELETED_AT_ONCE 1000
/* Between the bucket's clock and that of an event, and of what is cut from a time. */
#define CLOCKS_MS 2000

static struct workspace_bucket workspace_bucket_of(const struct place_session *session) {
        const struct aws_place_config *config = &session->place->config;

        return (struct workspace_bucket){ config->client, config->bucket, config->stack };
}

/*
 * The index knows only those pushed files that were reported to it. So it is compared with the
 * bucket now and then, after an execution, whatever its result: as often as requests outlive the
 * shortest execution. No more is read than may be there.
 */
#define COUNT_AFTER_MS ((int64_t)3 * 60 * 1000)

static uint64_t read_max(uint64_t files_bytes) {
        return files_bytes > 0 ? files_bytes : UINT64_MAX;
}

/* What fails here is said by the next execution. */
void place_files_check(struct place_session *session, uint64_t files_bytes) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct workspace_bucket where = workspace_bucket_of(session);
        struct workspace_index ignored;
        struct error err;

        if (workspace_index_check(&where, session->id, read_max(files_bytes), &session->left, arena, &ignored,
                                  &err) < 0)
                log_debug("session %s: %s", session->id, err.message);
}

bool place_files_is_count_due(const struct place_session *session, const struct place_files *files) {
        const struct workspace_index *index = &files->index;
        int64_t last_ms = index->checked_ms > index->created_ms ? index->checked_ms : index->created_ms;

        return files->kept && aws_client_wall_ms(session->place->config.client) - last_ms > COUNT_AFTER_MS;
}

static json_t *presigned_files(const struct place_session *session, const struct workspace_index *index,
                               struct arena *arena, struct error *err) {
        json_t *files = json_checked(json_array());

        for (size_t i = 0; i < index->count; i++) {
                const struct workspace_index_file *file = &index->files[i];
                const char *get;

                if (!invocation_is_path(file->path))
                        continue;
                if (place_sign_get(session, layout_file(session->id, file->path, arena), arena, &get, err) <
                    0) {
                        json_decref(files);
                        return NULL;
                }
                json_add(files, json_pack("{s:s, s:s, s:I, s:s}", "path", file->path, "get", get, "bytes",
                                          (json_int_t)file->bytes, "sha256", file->sha256));
        }
        return files;
}

int place_files_stage(struct place_session *session, const char *staged,
                      const struct aws_place_environment *environment, struct arena *arena,
                      struct place_file_list *ret_skipped, struct error *err) {
        const struct workspace_limits limits = { .bytes_max = environment->files_bytes,
                                                 .files_max = INVOCATION_FILES_MAX };
        const struct workspaces *workspaces = session->place->config.workspaces;
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        struct workspace_skipped *skipped;
        struct place_file *files;
        struct problem problem;
        size_t count;

        if (!workspaces || !session->owner)
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "files cannot come with an execution here: put them into the workspace first");
        if (workspace_open(workspaces, session->owner, session->id, &workspace, &problem) < 0 ||
            workspace_stage_place(&workspace, staged, &limits, &session->left, arena, &skipped, &count,
                                  &problem) < 0)
                return error_set(err, "the files that came with it: %s", problem.detail);
        files = arena_array(arena, count + 1, sizeof(*files));
        for (size_t i = 0; i < count; i++)
                files[i] = (struct place_file){ .path = skipped[i].path, .reason = skipped[i].reason };
        *ret_skipped = (struct place_file_list){ files, count };
        return 0;
}

int place_files_find(struct place_session *session, struct arena *arena, struct place_files *ret,
                     struct error *err) {
        const struct workspace_bucket where = workspace_bucket_of(session);
        int found = session->owner ? workspace_index_read(&where, session->id, arena, &ret->index, err) : 0;

        if (found < 0)
                return error_context(err, "its files");
        ret->kept = found > 0 && strcmp(ret->index.owner, session->owner) == 0;
        return 0;
}

static int refuse_too_much(const struct workspace_index *index,
                           const struct aws_place_environment *environment, struct error *err) {
        if (index->count > INVOCATION_FILES_MAX)
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "its workspace holds %zu files, and %d may be there: delete files first",
                        index->count, INVOCATION_FILES_MAX);
        if (environment->files_bytes == 0 || index->bytes <= environment->files_bytes)
                return 0;
        return error_set_kind(err, ERROR_REFUSED,
                              "its workspace holds %llu MB, and %llu may be there: delete files first",
                              (unsigned long long)((index->bytes + MEGABYTE - 1) / MEGABYTE),
                              (unsigned long long)(environment->files_bytes / MEGABYTE));
}

/* The digest of each file is needed: of those that are not known the files are read, once it is certain that they are not too many bytes. */
static int know_digests(struct place_session *session, const struct aws_place_environment *environment,
                        struct arena *arena, struct place_files *files, struct error *err) {
        const struct workspace_bucket where = workspace_bucket_of(session);
        bool known = true;
        int found;

        for (size_t i = 0; i < files->index.count; i++)
                known &= files->index.files[i].sha256 != NULL;
        if (known)
                return 0;
        found = workspace_index_check(&where, session->id, read_max(environment->files_bytes), &session->left,
                                      arena, &files->index, err);
        if (found <= 0) {
                files->kept = false;
                return found < 0 ? error_context(err, "its files") : 0;
        }
        return refuse_too_much(&files->index, environment, err);
}

int place_files_offer(struct place_session *session, int64_t n,
                      const struct aws_place_environment *environment, struct arena *arena,
                      struct place_files *ret, struct error *err) {
        struct workspace_index *index = &ret->index;
        json_t *files JSON_CLEANUP = NULL, *more JSON_CLEANUP = NULL, *put;
        char *text TEXT_CLEANUP = NULL;

        if (place_files_find(session, arena, ret, err) < 0)
                return -1;
        if (ret->kept && (refuse_too_much(index, environment, err) < 0 ||
                          know_digests(session, environment, arena, ret, err) < 0))
                return -1;
        if (!ret->kept)
                return 0;
        files = presigned_files(session, index, arena, err);
        if (!files)
                return -1;
        text = json_plain(files);
        if (strlen(text) > LISTED_BYTES_MAX) {
                more = place_put_object(session, n, "files", text, strlen(text), "application/json", arena,
                                        err);
                if (!more)
                        return -1;
                ret->listed_apart = true;
                json_array_clear(files);
        }
        put = place_sign_folder(session, layout_files(session->id, arena), environment->files_bytes, arena,
                                err);
        if (!put)
                return -1;
        ret->offer = json_checked(json_pack("{s:O, s:o, s:I, s:I}", "files", files, "put", put, "maxBytes",
                                            (json_int_t)environment->files_bytes, "maxFiles",
                                            (json_int_t)INVOCATION_FILES_MAX));
        if (more)
                json_put(ret->offer, "more", json_incref(more));
        return 0;
}

/* --- what became of it --- */

/* A file that code has deleted, on its way out of the bucket. */
struct doomed {
        const struct place_file *file;
        const struct workspace_index_file *was;
        const char *key;
        const char *etag; /* the version that goes; NULL: none, or not known yet */
        bool looked_for;  /* it is not known yet */
        bool stays;       /* others have put it meanwhile */
};

static int compare_doomed(const void *a, const void *b) {
        return strcmp(((const struct doomed *)a)->file->path, ((const struct doomed *)b)->file->path);
}

static int compare_paths(const void *a, const void *b) {
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void move(struct place_answer *answer, const struct place_file *file, int to) {
        answer->files[to] =
                array_grow(answer->arena, answer->files[to], answer->counts[to], sizeof(struct place_file));
        answer->files[to][answer->counts[to]++] = *file;
}

void place_files_skip(struct place_answer *answer, struct place_file_list skipped) {
        for (size_t i = 0; i < skipped.count; i++) {
                const struct place_file file = { .path = arena_strdup(answer->arena, skipped.items[i].path),
                                                 .reason = arena_strdup(answer->arena,
                                                                        skipped.items[i].reason) };

                move(answer, &file, PLACE_FILES_SKIPPED);
        }
}

/*
 * A path that was reported absent or deleted, and was written again by the same execution, counts
 * as changed only.
 */
static void tell_once(struct place_answer *answer, struct arena *arena) {
        static const int others[] = { PLACE_FILES_DELETED, PLACE_FILES_GONE };
        size_t count = answer->counts[PLACE_FILES_CHANGED];
        const char **paths = arena_array(arena, count + 1, sizeof(*paths));

        for (size_t i = 0; i < count; i++)
                paths[i] = answer->files[PLACE_FILES_CHANGED][i].path;
        if (count)
                qsort(paths, count, sizeof(*paths), compare_paths);
        for (size_t which = 0; which < sizeof(others) / sizeof(others[0]); which++) {
                struct place_file *list = answer->files[others[which]];
                size_t kept = 0;

                for (size_t i = 0; i < answer->counts[others[which]]; i++) {
                        if (!count || !bsearch(&list[i].path, paths, count, sizeof(*paths), compare_paths))
                                list[kept++] = list[i];
                }
                answer->counts[others[which]] = kept;
        }
}

/* Whether an object is the file that the code knew. Times are of whole seconds, and clocks differ: where they do not tell, its bytes do. */
static int compare_object(struct place_session *session, const struct place_files *files,
                          const struct s3_object *object, struct doomed *doomed, struct arena *arena,
                          struct error *err) {
        const struct workspace_bucket where = workspace_bucket_of(session);
        struct workspace_index_file file = { .path = doomed->file->path, .etag = object->etag };
        int same;

        if (files->of_now) {
                doomed->stays = object->modified_ms >= files->since_ms;
        } else if ((uint64_t)object->size != doomed->was->bytes) {
                doomed->stays = true;
        } else if (object->modified_ms + CLOCKS_MS > files->since_ms) {
                same = workspace_index_hash(&where, doomed->key, &file, &session->left, arena, err);
                if (same < 0)
                        return -1;
                doomed->stays =
                        same == 0 || !doomed->was->sha256 || strcmp(file.sha256, doomed->was->sha256) != 0;
        }
        doomed->etag = object->etag;
        return 0;
}

/*
 * By a list of all files: of what a sandbox has put, the index has no version. A file that is not
 * listed has gone already.
 */
static int look_for(struct place_session *session, const struct place_files *files, struct doomed *doomed,
                    size_t count, struct arena *arena, struct error *err) {
        const char *prefix = layout_files(session->id, arena), *token = NULL;

        do {
                struct aws_request request = s3_list_objects(&session->place->config.bucket, prefix, token);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct s3_page page;

                request.ended_by = &session->left;
                if (aws_call(session->place->config.client, &request, &response, err) < 0 ||
                    s3_read_objects(&response, arena, &page, err) < 0)
                        return -1;
                for (size_t i = 0; i < page.count; i++) {
                        const struct place_file file = { .path = page.objects[i].key + strlen(prefix) };
                        struct doomed wanted = { .file = &file }, *found;

                        if (strncmp(page.objects[i].key, prefix, strlen(prefix)) != 0)
                                continue;
                        found = bsearch(&wanted, doomed, count, sizeof(*doomed), compare_doomed);
                        if (found && found->looked_for &&
                            compare_object(session, files, &page.objects[i], found, arena, err) < 0)
                                return -1;
                }
                token = page.next;
        } while (token);
        return 0;
}

static int delete_alone(struct place_session *session, struct doomed *doomed, struct arena *arena,
                        struct error *err) {
        static const char *const unmet[] = { "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey",
                                             "NotFound", NULL };
        struct aws_request request =
                s3_delete_object(&session->place->config.bucket, doomed->key, doomed->etag, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        request.ended_by = &session->left;
        if (aws_call_accepting(session->place->config.client, &request, unmet, &response, err) < 0)
                return -1;
        doomed->stays = aws_failed_with(&response, "PreconditionFailed") ||
                        aws_failed_with(&response, "ConditionalRequestConflict");
        return 0;
}

/* Those of one call, of which each goes only as the version that it was judged by. */
static int delete_some(struct place_session *session, struct doomed *const *some, size_t count,
                       struct arena *arena, struct error *err) {
        struct s3_object *objects = arena_array(arena, count, sizeof(*objects));
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        const char **others;
        size_t other_count;

        for (size_t i = 0; i < count; i++)
                objects[i] = (struct s3_object){ .key = some[i]->key, .only = some[i]->etag };
        request = s3_delete_objects(&session->place->config.bucket, objects, count, arena);
        request.ended_by = &session->left;
        if (aws_call(session->place->config.client, &request, &response, err) < 0 ||
            s3_read_deleted_but(&response, arena, &others, &other_count, err) < 0)
                return -1;
        for (size_t i = 0; i < other_count; i++) {
                for (size_t j = 0; j < count; j++)
                        some[j]->stays = some[j]->stays || strcmp(some[j]->key, others[i]) == 0;
        }
        return 0;
}

static int delete_doomed(struct place_session *session, struct doomed *doomed, size_t count,
                         struct arena *arena, struct error *err) {
        struct doomed **some = arena_array(arena, DELETED_AT_ONCE, sizeof(*some));

        for (size_t at = 0; at < count;) {
                size_t taken = 0;

                for (; at < count && taken < DELETED_AT_ONCE; at++) {
                        if (!doomed[at].etag || doomed[at].stays)
                                continue;
                        if (s3_is_for_xml(doomed[at].key))
                                some[taken++] = &doomed[at];
                        else if (delete_alone(session, &doomed[at], arena, err) < 0)
                                return -1;
                }
                if (taken > 0 && delete_some(session, some, taken, arena, err) < 0)
                        return -1;
        }
        return 0;
}

/*
 * Files that are in the index and that the code has deleted. *ret is sorted by path, and as long as
 * the answer's list.
 */
static int delete_objects(struct place_session *session, const struct place_files *files,
                          struct place_answer *answer, struct arena *arena, struct doomed **ret,
                          struct error *err) {
        size_t count = answer->counts[PLACE_FILES_DELETED];
        const struct place_file *told = answer->files[PLACE_FILES_DELETED];
        struct doomed *doomed = arena_array(arena, count + 1, sizeof(*doomed));
        bool looks = false;

        for (size_t i = 0; i < count; i++) {
                const struct workspace_index_file *was = workspace_index_find(&files->index, told[i].path);

                doomed[i] = (struct doomed){ .file = &told[i],
                                             .was = was,
                                             .key = layout_file(session->id, told[i].path, arena),
                                             .etag = was && !files->of_now ? was->etag : NULL };
                doomed[i].looked_for = was && !doomed[i].etag;
                looks |= doomed[i].looked_for;
        }
        if (count)
                qsort(doomed, count, sizeof(*doomed), compare_doomed);
        if ((looks && look_for(session, files, doomed, count, arena, err) < 0) ||
            delete_doomed(session, doomed, count, arena, err) < 0)
                return -1;
        /* A list that grows, as the others: what others had removed comes into it as well. */
        answer->files[PLACE_FILES_DELETED] = NULL;
        answer->counts[PLACE_FILES_DELETED] = 0;
        for (size_t i = 0; i < count; i++)
                move(answer, doomed[i].file, doomed[i].stays ? PLACE_FILES_CONFLICT : PLACE_FILES_DELETED);
        *ret = doomed;
        return (int)count;
}

/*
 * Only as the version that it was: a version that others have put stays. If its version was not
 * known, the entry is removed only while it is not known still.
 */
static struct workspace_index_file removed_file(const char *path, const struct workspace_index_file *was,
                                                const char *etag) {
        return (struct workspace_index_file){ .path = path,
                                              .etag = etag               ? etag
                                                      : was && was->etag ? was->etag
                                                                         : "" };
}

/* What the code has written and others have put meanwhile: of those the index does not believe the digest any more. */
static void tell_conflicts(struct place_answer *answer, const struct workspace_index *is) {
        for (size_t i = 0; i < answer->counts[PLACE_FILES_CHANGED]; i++) {
                const struct place_file *file = &answer->files[PLACE_FILES_CHANGED][i];
                const struct workspace_index_file *now = workspace_index_find(is, file->path);

                if (now && !now->sha256)
                        move(answer, file, PLACE_FILES_CONFLICT);
        }
}

static int change_index(struct place_session *session, const struct place_files *files,
                        struct place_answer *answer, const struct doomed *doomed, size_t doomed_count,
                        struct arena *arena, struct error *err) {
        const struct workspace_bucket where = workspace_bucket_of(session);
        const struct place_file *changed = answer->files[PLACE_FILES_CHANGED];
        const struct place_file *gone = answer->files[PLACE_FILES_GONE];
        size_t changed_count = answer->counts[PLACE_FILES_CHANGED],
               gone_count = files->of_now ? 0 : answer->counts[PLACE_FILES_GONE];
        struct workspace_index_file *put = arena_array(arena, changed_count + 1, sizeof(*put));
        struct workspace_index_file *removed =
                arena_array(arena, doomed_count + gone_count + 1, sizeof(*removed));
        struct workspace_index_changes changes = {
                .put = put, .put_count = changed_count, .since = &files->index, .removed = removed
        };
        int64_t now_ms = aws_client_wall_ms(session->place->config.client);
        struct workspace_index is;
        int found;

        /* Long after, others may have put them as well: who reads the digests next works them out. */
        for (size_t i = 0; i < changed_count; i++)
                put[i] = (struct workspace_index_file){ .path = changed[i].path,
                                                        .bytes = changed[i].bytes,
                                                        .sha256 = files->of_now ? NULL : changed[i].sha256,
                                                        .written_ms = now_ms };
        for (size_t i = 0; i < doomed_count; i++) {
                if (!doomed[i].stays)
                        removed[changes.removed_count++] =
                                removed_file(doomed[i].file->path, doomed[i].was, doomed[i].etag);
        }
        for (size_t i = 0; i < gone_count; i++)
                removed[changes.removed_count++] =
                        removed_file(gone[i].path, workspace_index_find(&files->index, gone[i].path), NULL);
        if (changes.put_count + changes.removed_count == 0)
                return 0;
        found = workspace_index_change(&where, session->id, &files->index, &changes, arena, &is, err);
        if (found == 0)
                return error_set(err, "the workspace was deleted meanwhile");
        if (found > 0 && !files->of_now)
                tell_conflicts(answer, &is);
        return found < 0 ? -1 : 0;
}

int place_files_settle(struct place_session *session, const struct place_files *files,
                       struct place_answer *answer, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct doomed *doomed = NULL;
        struct error index;
        int count;

        if (!files->kept)
                return 0;
        tell_once(answer, arena);
        if (answer->counts[PLACE_FILES_CHANGED] + answer->counts[PLACE_FILES_DELETED] +
                    answer->counts[PLACE_FILES_GONE] ==
            0)
                return 0;
        count = delete_objects(session, files, answer, arena, &doomed, err);
        if (count < 0) {
                (void)error_context(err, "files that were deleted are still there");
                answer->counts[PLACE_FILES_DELETED] = 0;
        }
        /* What could not be deleted is no reason to forget what was written. */
        if (change_index(session, files, answer, doomed, count < 0 ? 0 : (size_t)count, arena, &index) < 0) {
                answer->counts[PLACE_FILES_CHANGED] = answer->counts[PLACE_FILES_DELETED] = 0;
                *err = index;
                return error_context(
                        err,
                        "what changed lies in the bucket, but the workspace's index has not heard of it");
        }
        for (size_t i = 0; count >= 0 && i < answer->counts[PLACE_FILES_GONE]; i++)
                move(answer, &answer->files[PLACE_FILES_GONE][i], PLACE_FILES_DELETED);
        return count < 0 ? -1 : 0;
}

void place_files_release(struct place_files *files) {
        json_decref(files->offer);
        files->offer = NULL;
}
