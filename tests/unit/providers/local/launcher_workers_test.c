/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that lives is found, whatever this process lacks, or the search fails: it is never taken for dead. */
#include "providers/local/launcher_workers.h"

#include "base/arena.h"
#include "providers/local/sandbox/sandbox.h"

#include "folder.h"

#include <fcntl.h>
#include <sys/resource.h>

/* Lets it open `more` further files; what the limit was before. */
static struct rlimit allow_descriptors(unsigned more) {
        int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
        struct rlimit before, limit;

        assert_true(next >= 0);
        close(next);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        limit = before;
        limit.rlim_cur = (rlim_t)next + more;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        return before;
}

static void a_worker_is_not_dead_for_want_of_descriptors(void **state) {
        const struct sandbox_starting starting = { .limits = { 1, 1, 1, 1, 1, 1 }, .name = "s-one" };
        struct arena *arena ARENA_CLEANUP = arena_new();
        char folder[sizeof(FOLDER_TEMPLATE)];
        struct error err = { 0 };
        bool found = false;
        const char *path;
        int listener;

        (void)state;
        folder_make_temporary(folder);
        assert_int_equal(
                launcher_workers_listen(folder, geteuid(), starting.name, arena, &path, &listener, &err), 0);
        assert_int_equal(launcher_workers_record(path, getpid(), &starting, &err), 0);
        for (unsigned more = 0; !found && more < 16; more++) {
                struct launcher_worker *workers = NULL;
                struct error failure = { 0 };
                struct rlimit before = allow_descriptors(more);
                size_t count = 0;
                bool dead = false;
                int result = launcher_workers_find(folder, arena, &workers, &count, &dead, &failure);

                assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
                assert_false(dead);
                assert_int_equal(access(path, F_OK), 0);
                if (result < 0) {
                        assert_non_null(strstr(failure.message, "Too many open files"));
                        continue;
                }
                assert_int_equal(count, 1);
                assert_int_equal(workers[0].process.pid, getpid());
                close_descriptor(&workers[0].process.pidfd);
                found = more > 0;
        }
        assert_true(found);
        close_descriptor(&listener);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_worker_is_not_dead_for_want_of_descriptors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
