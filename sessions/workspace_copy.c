/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each path is looked at twice: first what it holds, so that nothing is begun that cannot be ended; then it is copied, file by file,
 * each as if it was put.
 */
#include "sessions/workspace_copy.h"

#include "base/array.h"
#include "base/files.h"
#include "base/text.h"
#include "sessions/workspace_files.h"
#include "sessions/workspace_folders.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 1000

struct copy {
        struct workspace *from, *to;
        const struct workspace_copying *request;
        bool counts; /* the first time */
        uint64_t bytes;
        struct arena *arena;
        struct workspace_changes changes;
        struct problem *problem;
};

#define APPEND(copy, list, count, item)                                               \
        do {                                                                          \
                (list) = array_grow((copy)->arena, (list), (count), sizeof(*(list))); \
                (list)[(count)++] = (item);                                           \
        } while (0)

static int copy_file(struct copy *copy, const char *path, const char *target) {
        struct workspace_put put WORKSPACE_PUT_CLEANUP = WORKSPACE_PUT_INIT;
        const struct conditions conditions = { .if_none_match = copy->request->replace ? NULL : "*" };
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct workspace_file file;
        struct workspace_changed changed = { .path = target };
        struct problem problem;
        char sha256[SHA256_HEX_SIZE];

        if (workspace_file_open(copy->from, path, &descriptor, &file, copy->problem) < 0)
                return -1;
        if (copy->counts) {
                if (__builtin_add_overflow(copy->bytes, file.bytes, &copy->bytes))
                        copy->bytes = UINT64_MAX;
                return 0;
        }
        if (workspace_path_problem(target)) {
                const struct workspace_skipped row = { .path = path,
                                                       .reason = workspace_path_problem(target) };

                APPEND(copy, copy->changes.skipped, copy->changes.skipped_count, row);
                return 0;
        }
        if (workspace_put_begin(copy->to, target, &conditions, &copy->request->limits,
                                copy->request->interrupt, &put, &problem) < 0 ||
            (put.executable = file.executable,
             workspace_put_copy(&put, descriptor, file.bytes, false, &problem)) < 0 ||
            workspace_put_finish(&put, &file, sha256, NULL, &problem) < 0) {
                if (problem.code != PROBLEM_CHANGED && problem.code != PROBLEM_CONFLICT) {
                        *copy->problem = problem;
                        return -1;
                }
                APPEND(copy, copy->changes.conflict, copy->changes.conflict_count, target);
                return 0;
        }
        changed.bytes = file.bytes;
        changed.sha256 = arena_strdup(copy->arena, sha256);
        APPEND(copy, copy->changes.changed, copy->changes.changed_count, changed);
        return 0;
}

static int copy_folder(struct copy *copy, const char *path, const char *target) {
        const char *prefix = arena_printf(copy->arena, "%s/", path), *after = NULL;
        bool more = true;

        while (more) {
                struct arena *own ARENA_CLEANUP = arena_new();
                const struct workspace_page page = { prefix, after, PAGE };
                struct workspace_file *files;
                size_t count;

                if (workspace_files_list(copy->from, &page, copy->request->interrupt, own, &files, &count,
                                         &more, copy->problem) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        const char *inner = arena_strdup(copy->arena, files[i].path);

                        after = inner;
                        if (copy_file(copy, inner,
                                      path_join_in(target, inner + strlen(prefix), copy->arena)) == 0)
                                continue;
                        /* One that was deleted since it was listed is none of them. */
                        if (copy->problem->code != PROBLEM_NOT_FOUND)
                                return -1;
                }
        }
        return 0;
}

static int copy_path(struct copy *copy, const char *path) {
        const char *wrong = workspace_path_problem(path), *name, *target;
        struct workspace_place place = { 0 };
        struct problem absent;

        if (wrong)
                return problem_set(copy->problem, PROBLEM_INVALID, "this path cannot be: %s", wrong);
        name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
        target = path_join_in(copy->request->to, name, copy->arena);
        if (workspace_place_look(copy->from, path, &place, &absent) < 0 || !place.folder)
                return copy_file(copy, path, target);
        if (strcmp(copy->from->id, copy->to->id) == 0 && text_begins_with(target, path) &&
            (target[strlen(path)] == '/' || !target[strlen(path)]))
                return problem_set(copy->problem, PROBLEM_INVALID, "a folder cannot be copied into itself");
        return copy_folder(copy, path, target);
}

int workspace_copy(struct workspace *from, struct workspace *to, const struct workspace_copying *copying,
                   struct arena *arena, struct workspace_changes *ret, struct problem *problem) {
        struct copy copy = { .from = from, .to = to, .request = copying, .arena = arena, .problem = problem };
        const char *wrong = copying->to[0] ? workspace_path_problem(copying->to) : NULL;
        struct workspace_usage usage;

        if (wrong)
                return problem_set(problem, PROBLEM_INVALID, "the folder to copy to cannot be: %s", wrong);
        copy.counts = true;
        for (size_t i = 0; i < copying->count; i++) {
                if (copy_path(&copy, copying->paths[i]) < 0)
                        return -1;
        }
        if (workspace_measure(to, copying->interrupt, &usage, problem) < 0 ||
            workspace_check_free(to, &copying->limits, copy.bytes, problem) < 0)
                return -1;
        if (copying->limits.bytes_max && !copying->replace &&
            (usage.bytes > copying->limits.bytes_max || copy.bytes > copying->limits.bytes_max - usage.bytes))
                return workspace_is_full(&copying->limits, usage.bytes, problem);
        copy.counts = false;
        for (size_t i = 0; i < copying->count; i++) {
                if (copy_path(&copy, copying->paths[i]) < 0)
                        return -1;
        }
        *ret = copy.changes;
        return 0;
}
