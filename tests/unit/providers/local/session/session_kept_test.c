/* SPDX-License-Identifier: Apache-2.0 */
/* What a server makes of the index of agents' workspaces when it starts. */
#include "base/arena.h"
#include "providers/local/local_agent_workspaces.h"
#include "providers/local/sandbox/sandbox_kept.h"
#include "providers/local/sandbox/sandbox_launched.h"
#include "providers/local/session/session_parts.h"
#include "sessions/workspace_local.h"

#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>

struct index {
        struct session_place place;
        struct arena *arena;
        char folder[sizeof(FOLDER_TEMPLATE)];
};

static const struct local_agent_workspace first = { .agent = "a", .owner = "alice", .environment = "data" };
static const struct local_agent_workspace second = { .agent = "b", .owner = "alice", .environment = "data" };

static const struct sandbox_limits limits = { .workspace_bytes = 1 << 20, .workspace_files = 64 };

/* Once a workspace is gone, and before the index forgets it, another is made in its place, as far as that gets meanwhile. */
struct meanwhile {
        struct index *index;
        pthread_t thread;
        atomic_bool begun, waits, made;
        int result, of_second;
};
static struct meanwhile *meanwhile;

int __real_local_agent_forget(const char *workspaces, const char *stack, const char *agent, const char *hash,
                              struct error *err);
int __wrap_local_agent_forget(const char *workspaces, const char *stack, const char *agent, const char *hash,
                              struct error *err);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);

/* A name that cannot be looked at. */
static const char *unknown;

int __real_faccessat(int folder, const char *name, int mode, int flags);
int __wrap_faccessat(int folder, const char *name, int mode, int flags);

int __wrap_faccessat(int folder, const char *name, int mode, int flags) {
        if (unknown && strcmp(name, unknown) == 0) {
                errno = EIO;
                return -1;
        }
        return __real_faccessat(folder, name, mode, flags);
}

/* What a launcher has: folders of these names, and how often one of them was asked for. */
static struct launched {
        struct index *index;
        const char *names[3];
        size_t count;
        unsigned asked;
} * launched;

int __wrap_sandbox_launched_names(const char *launcher, struct arena *arena, const char ***ret,
                                  size_t *ret_count, struct error *err);
int __wrap_sandbox_launched_keep(const char *launcher, const struct sandbox_keeping *keeping, int *ret_root,
                                 struct error *err);

int __wrap_sandbox_launched_names(const char *launcher, struct arena *arena, const char ***ret,
                                  size_t *ret_count, struct error *err) {
        (void)launcher;
        (void)arena;
        (void)err;
        *ret = launched->names;
        *ret_count = launched->count;
        return 0;
}

int __wrap_sandbox_launched_keep(const char *launcher, const struct sandbox_keeping *keeping, int *ret_root,
                                 struct error *err) {
        char *path TEXT_CLEANUP = path_join(launcher, keeping->name);

        launched->asked++;
        *ret_root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return *ret_root < 0 ? error_set(err, "%s: no such name", path) : 0;
}

static int make(struct index *index, const struct local_agent_workspace *row) {
        const struct place_shared shared = { row->agent, row->owner, row->environment };
        struct error err = { 0 };
        int result = session_kept_make(&index->place, &shared, &limits, &err);

        if (result < 0)
                print_error("%s\n", err.message);
        return result;
}

static void *make_first(void *context) {
        struct meanwhile *here = context;

        here->result = make(here->index, &first);
        atomic_store(&here->made, true);
        return NULL;
}

int __wrap_local_agent_forget(const char *workspaces, const char *stack, const char *agent, const char *hash,
                              struct error *err) {
        if (meanwhile && !atomic_exchange(&meanwhile->begun, true)) {
                meanwhile->of_second = make(meanwhile->index, &second);
                assert_int_equal(pthread_create(&meanwhile->thread, NULL, make_first, meanwhile), 0);
                while (!atomic_load(&meanwhile->made) && !atomic_load(&meanwhile->waits))
                        usleep(1000);
        }
        return __real_local_agent_forget(workspaces, stack, agent, hash, err);
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
        if (meanwhile)
                atomic_store(&meanwhile->waits, true);
        return __real_pthread_cond_wait(condition, mutex);
}

static int setup(void **state) {
        struct index *index = calloc(1, sizeof(*index));

        folder_make_temporary(index->folder);
        index->arena = arena_new();
        index->place.workspaces = index->folder;
        index->place.stack = "lab";
        *state = index;
        return 0;
}

static int teardown(void **state) {
        struct index *index = *state;

        folder_remove(index->folder);
        arena_free(index->arena);
        free(index);
        return 0;
}

static const char *folder_of(struct index *index, const struct local_agent_workspace *row) {
        return local_agent_folder(index->folder, "lab", row->agent, local_hash(&row->owner, 1, index->arena),
                                  index->arena);
}

static int recover(struct index *index, struct error *err) {
        return session_kept_recover(&index->place.place, err);
}

static void put(struct index *index, const struct local_agent_workspace *row) {
        struct error err;

        assert_int_equal(local_agent_write(index->folder, "lab", row, &err), 0);
}

static int get(struct index *index, const struct local_agent_workspace *row,
               struct local_agent_workspace *ret) {
        struct error err;

        return local_agent_read(index->folder, "lab", row->agent, row->owner, index->arena, ret, &err);
}

static void one_that_is_damaged_hides_no_other(void **state) {
        struct index *index = *state;
        struct local_agent_workspace row;
        struct error err = { 0 };

        assert_int_equal(folder_make(folder_of(index, &first), &err), 0);
        folder_write(folder_of(index, &first), "disk", "no file system");
        put(index, &second);
        assert_int_equal(recover(index, &err), -1);
        assert_non_null(strstr(err.message, folder_of(index, &first)));
        assert_int_equal(get(index, &second, &row), -1); /* it is gone */
}

/* As a server with a launcher leaves it, to whom it is nothing. */
static void an_image_is_no_plain_folder(void **state) {
        struct index *index = *state;
        const struct sandbox_kept kept = {
                .folder = folder_of(index, &first), .bytes = 1 << 20, .files = 64, .remedy = "No"
        };
        const struct workspace_row named = { .owner = first.owner,
                                             .environment = first.environment,
                                             .agent = first.agent };
        struct local_agent_workspace row;
        struct error err = { 0 };
        int given = -1, root;

        if (geteuid() != 0 || sandbox_kept_open(&kept, true, 0, 0, &given, &err) < 0) {
                print_message("no image can be had here: %s\n", geteuid() == 0 ? err.message : "not root");
                skip();
        }
        root = openat(given, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(given);
        assert_true(root >= 0);
        assert_int_equal(workspace_local_name_shared(root, "lab", &named), 0);
        close(root);
        put(index, &first);
        assert_int_equal(recover(index, &err), 0);
        assert_int_equal(get(index, &first, &row), 0);
        assert_true(row.bytes >= kept.bytes);
}

/* Where the disk fails, what is there is not known; that it is gone is not either. */
static void what_cannot_be_looked_at_is_not_gone(void **state) {
        struct index *index = *state;
        struct local_agent_workspace row;
        struct workspace_row *rows;
        struct error err = { 0 };
        size_t count;

        put(index, &first);
        put(index, &second);
        unknown = "workspace";
        assert_int_equal(recover(index, &err), -1);
        assert_non_null(strstr(err.message, strerror(EIO)));
        assert_int_equal(get(index, &first, &row), 0);
        assert_int_equal(make(index, &first), -1);
        assert_int_equal(session_kept_list(&index->place.place, "alice", index->arena, &rows, &count, &err),
                         0);
        assert_int_equal(count, 2);
        unknown = NULL;
        assert_int_equal(recover(index, &err), 0);
        assert_int_equal(get(index, &first, &row), -1);
}

/* Without --accept-degraded a plain folder is refused where it is the workspace. */
static void an_image_beside_a_plain_folder_is_the_workspace(void **state) {
        struct index *index = *state;
        const struct place_shared shared = { .agent = first.agent, .owner = first.owner };
        struct workspace_row *rows;
        struct error err = { 0 };
        char *plain TEXT_CLEANUP = NULL;
        int opened = -1, result;
        size_t count;

        if (geteuid() != 0 || make(index, &first) != 0)
                skip();
        plain = path_join(folder_of(index, &first), SANDBOX_KEPT_WORKSPACE);
        assert_int_equal(mkdir(plain, 0700), 0);
        assert_int_equal(session_kept_open(&index->place.place, &shared, &opened, &err), 0);
        close(opened);
        assert_int_equal(session_kept_list(&index->place.place, NULL, index->arena, &rows, &count, &err), 0);
        assert_int_equal(count, 1);
        assert_true(rows[0].bytes >= limits.workspace_bytes);
        for (int i = 0; (result = session_kept_remove(&index->place.place, &shared, &err)) < 0 && i < 100;
             i++)
                assert_int_equal(err.kind, ERROR_LOCKED);
        assert_int_equal(result, 0);
        /* The other one stays, and is told of. */
        assert_int_equal(rmdir(plain), 0);
}

/* Another user could have put it there: to try again does not help. */
static void one_that_is_not_guarded_is_not_busy(void **state) {
        struct index *index = *state;
        const struct place_shared shared = { .agent = first.agent, .owner = first.owner };
        struct error err = { 0 };

        if (geteuid() != 0 || make(index, &first) != 0)
                skip();
        assert_int_equal(chmod(index->folder, 0777), 0);
        assert_int_equal(session_kept_remove(&index->place.place, &shared, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_non_null(strstr(err.message, index->folder));
        assert_int_equal(chmod(index->folder, 0700), 0);
}

/* In the launcher's folder, by that name. */
static void launch_one(struct launched *here, const char *name, const char *stack, const char *owner) {
        const struct workspace_row row = { .owner = owner, .environment = "data", .agent = "a" };
        char *path TEXT_CLEANUP = path_join(here->index->place.launcher, name);
        char *incoming TEXT_CLEANUP = path_join(path, SANDBOX_KEPT_INCOMING);
        struct error err;
        int root;

        assert_int_equal(folder_make(incoming, &err), 0);
        root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(root >= 0);
        if (stack)
                assert_int_equal(workspace_local_name_shared(root, stack, &row), 0);
        close(root);
        here->names[here->count++] = name;
}

/*
 * Each start would mount all that a launcher has, of any stack. A workspace that is not named yet
 * may still become this stack's.
 */
static void other_stacks_are_opened_once(void **state) {
        struct index *index = *state;
        struct launched here = { .index = index };
        struct local_agent_workspace row;
        struct error err = { 0 };
        const char *texts[4], *ours;
        char *whole TEXT_CLEANUP = realpath(index->folder, NULL);

        index->place.launcher = arena_printf(index->arena, "%s/launcher", index->folder);
        launched = &here;
        texts[0] = whole;
        texts[1] = "lab";
        texts[2] = first.agent;
        texts[3] = first.owner;
        ours = local_hash(texts, 4, index->arena);
        launch_one(&here, "-of-another", "other", "bob");
        launch_one(&here, "-of-nobody", NULL, NULL);
        launch_one(&here, ours, "lab", first.owner);
        assert_int_equal(recover(index, &err), 0);
        assert_int_equal(here.asked, 3);
        assert_int_equal(get(index, &first, &row), 0);
        assert_true(row.bytes > 0);
        for (unsigned i = 1; i < 3; i++) {
                assert_int_equal(recover(index, &err), 0);
                assert_int_equal(here.asked, 3 + i);
        }
        /*
         * A workspace of ours that the index has lost is found as before, and one that is gone is
         * asked for no more.
         */
        assert_int_equal(local_agent_forget(index->folder, "lab", first.agent,
                                            local_hash(&first.owner, 1, index->arena), &err),
                         0);
        here.names[0] = here.names[1];
        here.names[1] = here.names[2];
        here.count = 2;
        assert_int_equal(recover(index, &err), 0);
        assert_int_equal(here.asked, 7);
        assert_int_equal(get(index, &first, &row), 0);
        launched = NULL;
}

static void one_made_while_another_goes_is_in_the_index(void **state) {
        struct index *index = *state;
        struct meanwhile here = { .index = index };
        const struct place_shared shared = { .agent = first.agent, .owner = first.owner };
        struct local_agent_workspace row;
        struct error err = { 0 };
        int result;

        index->place.accept_degraded = true;
        if (make(index, &first) != 0)
                skip();
        meanwhile = &here;
        for (int i = 0; (result = session_kept_remove(&index->place.place, &shared, &err)) < 0 && i < 100;
             i++)
                print_message("%s\n", err.message);
        meanwhile = NULL;
        assert_int_equal(result, 0);
        assert_true(here.begun);
        assert_int_equal(pthread_join(here.thread, NULL), 0);
        assert_int_equal(here.result, 0);
        assert_int_equal(get(index, &first, &row), 0);
        /* Another owner's waits for none of this. */
        assert_int_equal(here.of_second, 0);
        assert_int_equal(get(index, &second, &row), 0);
}

/* Nothing has to be made for that. */
static void one_goes_where_nothing_can_be_made(void **state) {
        struct index *index = *state;
        const struct place_shared shared = { .agent = first.agent, .owner = first.owner };
        struct local_agent_workspace row;
        struct error err = { 0 };
        int result = 0;

        if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", index->folder, "tmpfs", 0, "nr_inodes=64,mode=0700") < 0)
                skip();
        index->place.accept_degraded = true;
        if (make(index, &first) == 0) {
                for (int i = 0; result == 0; i++)
                        result = mkdir(arena_printf(index->arena, "%s/.%d", index->folder, i), 0700);
                assert_int_equal(errno, ENOSPC);
                if (session_kept_remove(&index->place.place, &shared, &err) < 0)
                        fail_msg("%s", err.message);
                assert_int_equal(get(index, &first, &row), -1);
        }
        assert_int_equal(umount2(index->folder, MNT_DETACH), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(one_that_is_damaged_hides_no_other),
                TEST(an_image_is_no_plain_folder),
                TEST(what_cannot_be_looked_at_is_not_gone),
                TEST(an_image_beside_a_plain_folder_is_the_workspace),
                TEST(one_that_is_not_guarded_is_not_busy),
                TEST(other_stacks_are_opened_once),
                TEST(one_made_while_another_goes_is_in_the_index),
                TEST(one_goes_where_nothing_can_be_made),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
