/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bucket has no folders: what lies below one makes it, and one that was made empty stands in the
 * index alone. To move, S3 itself copies, then the index is changed at once, and then the old
 * objects go: a death leaves objects that the next check finds, and no file is lost.
 */
#include "providers/aws/workspace/bucket_body.h"

#include "base/array.h"
#include "base/text.h"
#include "providers/aws/workspace/layout.h"
#include "sessions/workspace_tree.h"

#include <stdlib.h>
#include <string.h>

static bool lies_below(const char *path, const char *folder) {
        size_t length = strlen(folder);

        return length == 0 || (strncmp(path, folder, length) == 0 && path[length] == '/');
}

static struct workspace_place workspace_place_of(const char *path, const struct workspace_index_file *file) {
        return (struct workspace_place){ .path = path,
                                         .folder = !file,
                                         .bytes = file ? file->bytes : 0,
                                         .written_ms = file ? file->written_ms : 0,
                                         .executable = !file || file->executable };
}

/* When the newest of the files in it was written; else when the session began. */
static int64_t written_in(const struct workspace_index *index, const char *path) {
        int64_t newest_ms = index->created_ms;

        for (size_t i = 0; i < index->count; i++) {
                if (lies_below(index->files[i].path, path) && index->files[i].written_ms > newest_ms)
                        newest_ms = index->files[i].written_ms;
        }
        return newest_ms;
}

static int look_up(const struct workspace_index *index, const char *path, struct workspace_place *ret,
                   struct problem *problem) {
        const struct workspace_index_file *file = workspace_index_find(index, path);

        if (!file && *path && !workspace_index_has_folder(index, path))
                return workspace_nothing_there(problem);
        *ret = workspace_place_of(path, file);
        if (!file)
                ret->written_ms = written_in(index, path);
        return 0;
}

int bucket_place_look(struct workspace *workspace, const char *path, struct workspace_place *ret,
                      struct problem *problem) {
        return bucket_load_checked(workspace, NULL, problem) < 0
                       ? -1
                       : look_up(&bucket_own(workspace)->index, path, ret, problem);
}

/* --- listing --- */

struct listing {
        const struct workspace_index *index;
        struct arena *arena;
        struct workspace_place *places;
        size_t count;
};

/* Paths come in order: the folders that a path goes through were added by one before it, or are new. */
static bool add_place(struct listing *listing, const char *path, const struct workspace_index_file *file) {
        if (listing->count == WORKSPACE_FOLDERS_LIST_MAX)
                return false;
        listing->places =
                array_grow(listing->arena, listing->places, listing->count, sizeof(*listing->places));
        listing->places[listing->count++] = workspace_place_of(arena_strdup(listing->arena, path), file);
        return true;
}

static int compare_places(const void *one, const void *other) {
        const struct workspace_place *a = one, *b = other;

        return strcmp(a->path, b->path);
}

static bool is_place_listed(const struct listing *listing, size_t from, const char *path) {
        for (size_t i = listing->count; i > from; i--) {
                if (strcmp(listing->places[i - 1].path, path) == 0)
                        return true;
        }
        return false;
}

/* What of the path lies in the folder, `depth` levels of it. `last` is the path before it, whose folders are listed. */
static bool add_parts(struct listing *listing, const char *folder, unsigned depth, const char *path,
                      const char *last, const struct workspace_index_file *file) {
        const char *rest = path + strlen(folder) + (*folder != '\0');

        for (const char *end = strchr(rest, '/'); end && depth > 0; end = strchr(end + 1, '/'), depth--) {
                const char *part = arena_strndup(listing->arena, path, (size_t)(end - path));

                if (!lies_below(last, part) && strcmp(last, part) != 0 &&
                    !is_place_listed(listing, 0, part) && !add_place(listing, part, NULL))
                        return false;
        }
        return depth == 0 || (!file && is_place_listed(listing, 0, path)) || add_place(listing, path, file);
}

int bucket_places_list(struct workspace *workspace, const char *path, unsigned depth,
                       const struct interrupt *interrupt, struct arena *arena, struct workspace_place **ret,
                       size_t *ret_count, struct problem *problem) {
        const struct workspace_index *index = &bucket_own(workspace)->index;
        struct listing listing = { .index = index, .arena = arena };
        struct workspace_place place = { 0 };
        const char *last = "";
        bool fits = true;

        if (bucket_load_checked(workspace, interrupt, problem) < 0 ||
            look_up(index, path, &place, problem) < 0)
                return -1;
        if (!place.folder)
                return problem_set(problem, PROBLEM_INVALID, "the path is a file's");
        for (size_t i = 0; i < index->count && fits; i++) {
                if (!lies_below(index->files[i].path, path))
                        continue;
                fits = add_parts(&listing, path, depth, index->files[i].path, last, &index->files[i]);
                last = index->files[i].path;
        }
        for (size_t i = 0; i < index->folder_count && fits; i++) {
                if (lies_below(index->folders[i], path))
                        fits = add_parts(&listing, path, depth, index->folders[i], "", NULL);
        }
        if (!fits)
                return problem_set(problem, PROBLEM_TOO_LARGE, "there are more than %d files and folders",
                                   WORKSPACE_FOLDERS_LIST_MAX);
        for (size_t i = 0; i < listing.count; i++) {
                if (listing.places[i].folder)
                        listing.places[i].written_ms = written_in(index, listing.places[i].path);
        }
        if (listing.count)
                qsort(listing.places, listing.count, sizeof(*listing.places), compare_places);
        *ret = listing.places;
        *ret_count = listing.count;
        return 0;
}

/* --- changing --- */

int bucket_folder_create(struct workspace *workspace, const char *path, const struct workspace_limits *limits,
                         const struct interrupt *interrupt, struct problem *problem) {
        const struct workspace_index *index = &bucket_own(workspace)->index;
        const struct workspace_index_changes changes = { .folders = &path, .folder_count = 1 };
        struct workspace_place there;
        struct problem absent;

        if (bucket_load_checked(workspace, interrupt, problem) < 0)
                return -1;
        if (look_up(index, path, &there, &absent) == 0)
                return problem_set(problem, PROBLEM_CONFLICT, "something has this path already");
        if (bucket_check_place(index, path, problem) < 0)
                return -1;
        if (limits->files_max && bucket_count(index) >= limits->files_max)
                return workspace_has_many(limits, problem);
        return bucket_change(workspace, &changes, problem);
}

/* What moves: files with their new paths, and folders that were made. */
struct moving {
        struct workspace_index_file *put, *removed;
        size_t count;
        const char **folders, **folders_removed;
        size_t folder_count;
};

static int plan_move(const struct workspace_index *index, const char *from, const char *to,
                     struct arena *arena, struct moving *ret, struct problem *problem) {
        struct moving moving = { .put = arena_array(arena, index->count + 1, sizeof(*moving.put)),
                                 .removed = arena_array(arena, index->count + 1, sizeof(*moving.removed)),
                                 .folders = arena_array(arena, index->folder_count + 1, sizeof(char *)),
                                 .folders_removed =
                                         arena_array(arena, index->folder_count + 1, sizeof(char *)) };

        for (size_t i = 0; i < index->count; i++) {
                const struct workspace_index_file *file = &index->files[i];
                const char *path;

                if (strcmp(file->path, from) != 0 && !lies_below(file->path, from))
                        continue;
                path = arena_printf(arena, "%s%s", to, file->path + strlen(from));
                if (workspace_path_problem(path))
                        return problem_set(problem, PROBLEM_INVALID,
                                           "what is in the folder would have paths that are too long");
                moving.removed[moving.count] = *file;
                moving.put[moving.count] = *file;
                moving.put[moving.count++].path = path;
        }
        for (size_t i = 0; i < index->folder_count; i++) {
                const char *folder = index->folders[i];

                if (strcmp(folder, from) != 0 && !lies_below(folder, from))
                        continue;
                moving.folders_removed[moving.folder_count] = folder;
                moving.folders[moving.folder_count++] =
                        arena_printf(arena, "%s%s", to, folder + strlen(from));
                if (workspace_path_problem(moving.folders[moving.folder_count - 1]))
                        return problem_set(problem, PROBLEM_INVALID,
                                           "what is in the folder would have paths that are too long");
        }
        *ret = moving;
        return 0;
}

static int copy_objects(struct workspace *workspace, struct moving *moving, const struct interrupt *interrupt,
                        struct arena *arena, struct problem *problem) {
        const struct workspace_bucket *where = bucket_own(workspace)->where;
        struct error err;

        for (size_t i = 0; i < moving->count; i++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request = s3_copy_object(
                        &where->bucket, layout_file(workspace->id, moving->removed[i].path, arena),
                        moving->removed[i].etag, layout_file(workspace->id, moving->put[i].path, arena),
                        arena);

                if (interrupt_level(interrupt) > INTERRUPT_NONE)
                        return problem_set(problem, PROBLEM_STOPPING, "interrupted");
                if (aws_call(where->client, &request, &response, &err) < 0) {
                        if (aws_failed_with(&response, "PreconditionFailed") ||
                            aws_failed_with(&response, "NoSuchKey"))
                                return problem_set(problem, PROBLEM_CHANGED,
                                                   "the source of the move was changed meanwhile: ask again");
                        return bucket_fail(&err, problem);
                }
                if (s3_read_copied(&response, arena, &moving->put[i].etag, &err) < 0)
                        return bucket_fail(&err, problem);
                moving->put[i].etag = arena_strdup(bucket_own(workspace)->arena, moving->put[i].etag);
        }
        return 0;
}

/*
 * As the versions that were copied, or that the index had: what others have put meanwhile stays,
 * and stays in the index.
 */
static int remove_objects(struct workspace *workspace, const struct workspace_index_file *files, size_t count,
                          struct arena *arena, struct problem *problem) {
        const char **keys = arena_array(arena, count + 1, sizeof(*keys));
        const char **etags = arena_array(arena, count + 1, sizeof(*etags));
        struct error err;

        for (size_t i = 0; i < count; i++) {
                keys[i] = layout_file(workspace->id, files[i].path, arena);
                etags[i] = files[i].etag;
        }
        return bucket_delete(bucket_own(workspace)->where, keys, etags, count, &err) < 0
                       ? bucket_fail(&err, problem)
                       : 0;
}

int bucket_place_move(struct workspace *workspace, const char *from, const char *to,
                      const struct workspace_limits *limits, const struct interrupt *interrupt,
                      struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        const struct workspace_index *index = &own->index;
        struct workspace_index_changes changes;
        struct workspace_place place = { 0 }, there = { 0 };
        struct problem absent;
        struct moving moving = { 0 };

        if (bucket_load_checked(workspace, interrupt, problem) < 0 ||
            look_up(index, from, &place, problem) < 0)
                return -1;
        if (strcmp(from, to) == 0)
                return 0;
        if (lies_below(to, from))
                return problem_set(problem, PROBLEM_CONFLICT, "it cannot be moved into itself");
        if (look_up(index, to, &there, &absent) == 0 && (there.folder || place.folder))
                return problem_set(problem, PROBLEM_CONFLICT, "something has this path already");
        if (bucket_check_place(index, to, problem) < 0)
                return -1;
        if (limits->files_max && bucket_count(index) >= limits->files_max)
                return workspace_has_many(limits, problem);
        if (plan_move(index, from, to, own->arena, &moving, problem) < 0 ||
            copy_objects(workspace, &moving, interrupt, own->arena, problem) < 0)
                return -1;
        changes = (struct workspace_index_changes){ .put = moving.put,
                                                    .put_count = moving.count,
                                                    .removed = moving.removed,
                                                    .removed_count = moving.count,
                                                    .folders = moving.folders,
                                                    .folder_count = moving.folder_count,
                                                    .folders_removed = moving.folders_removed,
                                                    .folders_removed_count = moving.folder_count };
        if (bucket_change(workspace, &changes, problem) < 0)
                return -1;
        return remove_objects(workspace, moving.removed, moving.count, own->arena, problem);
}

int bucket_place_remove(struct workspace *workspace, const char *path, const struct interrupt *interrupt,
                        struct problem *problem) {
        struct bucket_own *own = bucket_own(workspace);
        struct workspace_index_changes changes = { 0 };
        struct workspace_place place = { 0 };
        struct moving moving = { 0 };

        if (bucket_load_checked(workspace, interrupt, problem) < 0 ||
            look_up(&own->index, path, &place, problem) < 0 ||
            plan_move(&own->index, path, path, own->arena, &moving, problem) < 0 ||
            remove_objects(workspace, moving.removed, moving.count, own->arena, problem) < 0)
                return -1;
        changes.removed = moving.removed;
        changes.removed_count = moving.count;
        changes.folders_removed = moving.folders_removed;
        changes.folders_removed_count = moving.folder_count;
        return bucket_change(workspace, &changes, problem);
}
