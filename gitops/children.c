/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source whose path is a pattern, and its children: one for each folder that matches and holds a Stack.
 *
 * The source itself polls, and lists the folders of each new commit; it makes no plan. A child is a source like any other (a
 * thread, a state, a status, decisions of its own), but it is given its commits instead of asking for them, and reads them from the
 * repository of its parent. So one that is broken holds up no other, and none waits for the slowest.
 *
 * A folder that a commit lacks does not mean a deletion: its child keeps state and stack, is not
 * reconciled any more, and says so until the folder comes back, or its stack is destroyed by hand.
 * Children are added and never removed while the program runs, so that all threads can walk the
 * list of sources.
 */
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "gitops/folders.h"
#include "gitops/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAMED_MAX 4 /* folders in a message */

static struct source *find_child(const struct source *tree, const char *path) {
        struct following *following = tree->following;

        for (size_t i = 0; i < following_count(following); i++) {
                struct source *source = following->sources[i];

                if (source->parent == tree && strcmp(source->config->path, path) == 0)
                        return source;
        }
        return NULL;
}

/* Each source has a share of its own in the list, so that one that is given ever new folders takes no other's place. */
static bool may_have_more(const struct source *tree) {
        struct following *following = tree->following;
        size_t children = 0;

        for (size_t i = 0; i < following_count(following); i++)
                children += following->sources[i]->parent == tree;
        return children < CHILDREN_MAX;
}

static struct source *add_child(struct source *tree, const char *path, struct error *err) {
        struct following *following = tree->following;
        struct source *child;
        size_t count;

        if (!may_have_more(tree)) {
                (void)error_set(
                        err,
                        "there are %d folders already, those that are gone included: remove what is not wanted any "
                        "more, and restart the controller",
                        CHILDREN_MAX);
                return NULL;
        }
        child = calloc(1, sizeof(*child));
        if (!child)
                abort();
        source_init_child(child, tree, path);
        pthread_mutex_lock(&following->adding);
        count = following_count(following);
        following->sources[count] = child;
        atomic_store(&following->count, count + 1);
        pthread_mutex_unlock(&following->adding);
        return child;
}

/* What the thread of a child is to know next. Whatever it was told before and has not taken yet is void. */
static void hand_commit(struct source *child, const json_t *commit, bool gone) {
        json_t *copy = json_checked(json_deep_copy(commit));

        pthread_mutex_lock(&child->lock);
        json_decref(child->handed);
        child->handed = copy;
        snprintf(child->told, sizeof(child->told), "%s", status_commit(commit));
        child->gone = gone;
        child->retired = child->retired && gone;
        pthread_mutex_unlock(&child->lock);
        source_wake(child, WAKE_HANDED);
}

static bool is_in_folders(const char *path, const char *const *folders, size_t count) {
        for (size_t i = 0; i < count; i++) {
                if (strcmp(folders[i], path) == 0)
                        return true;
        }
        return false;
}

/* [{path, gone}] for the status, and what is said of it. */
static json_t *describe_folders(const struct source *tree, struct verdict *verdict) {
        struct following *following = tree->following;
        struct strbuf gone STRBUF_CLEANUP = STRBUF_INIT;
        size_t present = 0, absent = 0;
        json_t *list = json_array();

        for (size_t i = 0; i < following_count(following); i++) {
                struct source *child = following->sources[i];
                bool is_gone, retired;

                if (child->parent != tree)
                        continue;
                pthread_mutex_lock(&child->lock);
                is_gone = child->gone;
                retired = child->retired;
                pthread_mutex_unlock(&child->lock);
                if (retired)
                        continue;
                json_add(list, json_pack("{s:s, s:b}", "path", child->config->path, "gone", is_gone));
                present += !is_gone;
                if (is_gone && absent++ < NAMED_MAX)
                        strbuf_printf(&gone, "%s%s", gone.length ? ", " : "", child->config->path);
        }
        snprintf(verdict->message, sizeof(verdict->message), "%zu %s%s%s%s", present,
                 present == 1 ? "folder" : "folders", absent ? "; gone: " : "", strbuf_text(&gone),
                 absent > NAMED_MAX ? ", ..." : "");
        return list;
}

/* The newest commit's folders are these: children are made, told, or told that their folder is gone. */
static int settle_children(struct source *tree, const char *const *folders, size_t count, struct error *err) {
        struct following *following = tree->following;
        const json_t *commit = tree->status.seen;

        for (size_t i = 0; i < count; i++) {
                struct source *child = find_child(tree, folders[i]);

                if (!child && !(child = add_child(tree, folders[i], err)))
                        return -1;
                hand_commit(child, commit, false);
        }
        for (size_t i = 0; i < following_count(following); i++) {
                struct source *child = following->sources[i];

                if (child->parent == tree && !is_in_folders(child->config->path, folders, count))
                        hand_commit(child, commit, true);
        }
        return 0;
}

void children_follow_commit(struct source *tree, const struct git_answer *answer, struct arena *arena) {
        enum git_failure failure = GIT_OVER_LIMIT;
        struct verdict verdict = { .ready = true, .reason = "Followed" };
        const char *const *folders;
        json_t *list = NULL;
        struct error err = { 0 };
        size_t count = 0;
        bool good;

        good = folders_with_stacks(answer, tree->config->path, arena, &folders, &count, &failure, &err) ==
                       0 &&
               settle_children(tree, folders, count, &err) == 0;
        snprintf(verdict.commit, sizeof(verdict.commit), "%s", status_commit(tree->status.seen));
        if (good) {
                list = describe_folders(tree, &verdict);
        } else {
                verdict.ready = false;
                snprintf(verdict.reason, sizeof(verdict.reason), "%s", git_failure_reason(failure));
                snprintf(verdict.message, sizeof(verdict.message), "%.1023s", err.message);
        }
        if (good && count == 0) {
                verdict.ready = false;
                snprintf(verdict.reason, sizeof(verdict.reason), "%s", git_failure_reason(GIT_NOT_FOUND));
                snprintf(verdict.message, sizeof(verdict.message),
                         "no folder that %s matches holds a Stack: what the ones before made stays as it is",
                         tree->config->path);
        }
        verdict.stalled = !verdict.ready;
        pthread_mutex_lock(&tree->lock);
        tree->status.verdict = verdict;
        tree->status.bad = !verdict.ready;
        tree->reached_end = true;
        if (good) {
                json_decref(tree->status.folders);
                tree->status.folders = list;
                json_decref(tree->status.good);
                tree->status.good = json_incref(tree->status.seen);
        }
        if (!verdict.ready && tree->exit_code == 0)
                tree->exit_code = 1;
        pthread_mutex_unlock(&tree->lock);
        source_conclude(tree);
}

/* A death between the parent's save and the child's leaves a child behind. */
static bool is_child_behind(struct source *child, const json_t *commit) {
        bool behind;

        pthread_mutex_lock(&child->lock);
        behind = !child->gone && strcmp(child->told, status_commit(commit)) != 0 &&
                 strcmp(status_commit(child->status.seen), status_commit(commit)) != 0;
        pthread_mutex_unlock(&child->lock);
        return behind;
}

void children_go_on(struct source *tree, bool sync) {
        struct following *following = tree->following;
        const json_t *commit = tree->status.good;
        struct error err;

        for (size_t i = 0; i < following_count(following); i++) {
                struct source *child = following->sources[i];

                if (child->parent != tree)
                        continue;
                if (commit && is_child_behind(child, commit))
                        hand_commit(child, commit, false);
                if (sync)
                        source_wake(child, WAKE_SYNC);
                if (!child->started && source_start(child, &err) < 0) {
                        log_error("%s", err.message);
                        pthread_mutex_lock(&child->lock);
                        child->ended = true;
                        child->exit_code = 1;
                        pthread_mutex_unlock(&child->lock);
                }
        }
}

void children_restore(struct source *tree) {
        struct error err;
        json_t *folder;
        size_t i;

        json_array_foreach (tree->status.folders, i, folder) {
                const char *path = json_text(folder, "path");
                struct source *child;

                if (!path || !folders_is_name(path) || find_child(tree, path))
                        continue;
                child = add_child(tree, path, &err);
                if (!child) {
                        log_error("%s: %s", tree->config->name, err.message);
                        return;
                }
                child->own_config.suspended = status_suspended(&tree->status, tree->config);
                child->gone = json_is_true(json_object_get(folder, "gone"));
                child->woken = child->gone ? WAKE_HANDED : 0;
        }
}

void children_mention_former(const struct source *source) {
        char *folders TEXT_CLEANUP = path_join(source->folder, CHILDREN_FOLDER);
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *stack = NULL;
        struct error ignored;
        struct stat status;

        if (!source->config->pattern && !source->parent && stat(folders, &status) == 0)
                log_warning(
                        "%s: %s has the states of folders that its path matched before: their stacks stay as they are",
                        source->config->name, folders);
        if (source->config->pattern && source->state &&
            state_load_meta(source->state, "stack", arena, &stack, &ignored) == 0 && stack)
                log_warning(
                        "%s: %s has the state of stack \"%s\", which its path named before: it stays as it is",
                        source->config->name, source->folder, stack);
}

static bool has_records(struct source *child) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct record *records;
        struct error ignored;
        size_t count;

        return state_load_records(child->state, arena, &records, &count, &ignored) < 0 || count > 0;
}

void children_report_gone(struct source *child) {
        bool held = has_records(child);
        struct verdict verdict = { .stalled = true, .reason = FOLDER_GONE };

        snprintf(verdict.commit, sizeof(verdict.commit), "%s", status_commit(child->status.seen));
        snprintf(verdict.message, sizeof(verdict.message),
                 "the folder %s does not exist any more, or holds no Stack: its stack stays as it is, "
                 "and is not managed. Put the folder back, or remove the stack, in a work tree of a "
                 "commit that has it: berth destroy -f %s --state %s",
                 child->config->path, child->config->path, child->folder);
        pthread_mutex_lock(&child->lock);
        child->status.verdict = verdict;
        child->retired = !held;
        child->reached_end = true;
        child->next_retry_ms = 0;
        if (held && child->exit_code == 0)
                child->exit_code = 3;
        pthread_mutex_unlock(&child->lock);
        if (held)
                source_conclude(child);
}
