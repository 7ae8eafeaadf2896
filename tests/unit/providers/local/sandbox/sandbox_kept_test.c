/* SPDX-License-Identifier: Apache-2.0 */
/* Images of workspaces that stay, on the disk that the tests run on: root's alone, and of machines with loop devices. */
#include "folder.h"

#include "base/error.h"
#include "base/files.h"
#include "base/libc.h"
#include "providers/local/sandbox/sandbox_kept.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ANOTHER 61234

/* What a process that is made for a namespace tells, where the test wants to know: its id; it goes on once its maker is dead. */
static pid_t *met;

int __wrap_prctl(int option, unsigned long argument);

int __wrap_prctl(int option, unsigned long argument) {
        if (met && option == PR_SET_PDEATHSIG) {
                pid_t maker = getppid();

                __atomic_store_n(met, getpid(), __ATOMIC_SEQ_CST);
                while (getppid() == maker)
                        usleep(1000);
        }
        return (int)syscall(SYS_prctl, option, argument, 0, 0, 0);
}

struct kept {
        char folder[128], inner[160], image[192];
        struct sandbox_kept kept;
};

static struct kept *kept_of(void **state) {
        struct kept *kept = *state;

        if (!kept)
                skip();
        return kept;
}

static int setup(void **state) {
        struct kept *kept = calloc(1, sizeof(*kept));
        struct error err = { 0 };
        int root = -1;

        folder_make_temporary(kept->folder);
        snprintf(kept->inner, sizeof(kept->inner), "%s/one", kept->folder);
        snprintf(kept->image, sizeof(kept->image), "%s/disk", kept->inner);
        kept->kept =
                (struct sandbox_kept){ .folder = kept->inner, .bytes = 1 << 20, .files = 64, .remedy = "No" };
        if (geteuid() == 0 && sandbox_kept_open(&kept->kept, true, ANOTHER, ANOTHER, &root, &err) == 0) {
                close(root);
                *state = kept;
                return 0;
        }
        print_message("no image can be had here: %s\n", geteuid() == 0 ? err.message : "not root");
        folder_remove(kept->folder);
        free(kept);
        *state = NULL;
        return 0;
}

static int teardown(void **state) {
        struct kept *kept = *state;

        if (kept)
                folder_remove(kept->folder);
        free(kept);
        return 0;
}

static int reopen(struct kept *kept, struct error *err) {
        int root = -1, result = sandbox_kept_open(&kept->kept, false, ANOTHER, ANOTHER, &root, err);

        if (result == 0)
                close(root);
        return result;
}

/* A container may be about to start with it: the image must not go from under that. */
static void what_is_in_use_is_not_removed(void **state) {
        struct kept *kept = kept_of(state);
        struct error err = { 0 };
        int root = -1, result;

        assert_int_equal(sandbox_kept_open(&kept->kept, false, ANOTHER, ANOTHER, &root, &err), 0);
        assert_int_equal(sandbox_kept_remove(&kept->kept, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        assert_non_null(strstr(err.message, "in use"));
        assert_int_equal(access(kept->image, F_OK), 0);
        close(root);
        for (int i = 0; (result = sandbox_kept_remove(&kept->kept, &err)) < 0 && i < 1000; i++)
                usleep(10000);
        assert_int_equal(result, 0);
        assert_int_equal(access(kept->inner, F_OK), -1);
        /* A caller that remembers it makes no other in its place. */
        assert_int_equal(reopen(kept, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_int_equal(access(kept->inner, F_OK), -1);
}

static void refused(struct kept *kept, const char *part) {
        struct error err = { 0 };

        assert_int_equal(reopen(kept, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_non_null(strstr(err.message, part));
}

/* The kernel reads its content with all rights: no other user may have written that. */
static void what_may_be_another_s_is_not_mounted(void **state) {
        struct kept *kept = kept_of(state);
        struct error err = { 0 };
        char other[192];

        snprintf(other, sizeof(other), "%s/other", kept->folder);
        assert_int_equal(chmod(kept->image, 0660), 0);
        refused(kept, "is not mounted");
        assert_int_equal(chmod(kept->image, 0600), 0);
        assert_int_equal(chown(kept->image, ANOTHER, 0), 0);
        refused(kept, "is not mounted");
        assert_int_equal(chown(kept->image, 0, 0), 0);
        assert_int_equal(link(kept->image, other), 0);
        refused(kept, "is not mounted");
        assert_int_equal(unlink(other), 0);
        assert_int_equal(chmod(kept->inner, 0777), 0);
        refused(kept, "only root may write");
        assert_int_equal(chmod(kept->inner, 0700), 0);
        assert_int_equal(chown(kept->inner, ANOTHER, 0), 0);
        refused(kept, "only root may write");
        assert_int_equal(chown(kept->inner, 0, 0), 0);
        /* The owner of a folder above it could give it another image of ours. */
        assert_int_equal(chown(kept->folder, ANOTHER, 0), 0);
        refused(kept, "only root may write");
        assert_int_equal(sandbox_kept_remove(&kept->kept, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_int_equal(access(kept->image, F_OK), 0);
        assert_int_equal(chown(kept->folder, 0, 0), 0);
        assert_int_equal(rename(kept->image, other), 0);
        assert_int_equal(symlink(other, kept->image), 0);
        assert_int_equal(reopen(kept, &err), -1);
        assert_int_equal(unlink(kept->image), 0);
        assert_int_equal(rename(other, kept->image), 0);
        assert_int_equal(reopen(kept, &err), 0);
}

/* It has all descriptors of who made it: listening sockets, locks, mounts. */
static void no_process_outlives_a_maker_that_is_killed(void **state) {
        struct kept *kept = kept_of(state);
        struct error err = { 0 };
        struct pollfd gone;
        pid_t maker, made;

        met = mmap(NULL, sizeof(*met), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(met != MAP_FAILED);
        maker = fork();
        if (maker == 0)
                _exit(reopen(kept, &err) < 0);
        while (!(made = __atomic_load_n(met, __ATOMIC_SEQ_CST)))
                usleep(1000);
        gone = (struct pollfd){ .fd = pidfd_open(made, 0), .events = POLLIN };
        assert_true(gone.fd >= 0);
        assert_int_equal(kill(maker, SIGKILL), 0);
        assert_int_equal(waitpid(maker, NULL, 0), maker);
        assert_int_equal(poll(&gone, 1, 20000), 1);
        close_descriptor(&gone.fd);
        munmap(met, sizeof(*met));
        met = NULL;
}

/* There it is not made either, but for who takes a plain folder. */
static void none_is_made_where_another_has_a_folder_above(void **state) {
        struct kept *kept = kept_of(state);
        struct sandbox_kept next = kept->kept;
        struct error err = { 0 };
        char folder[192];
        int root = -1;

        snprintf(folder, sizeof(folder), "%s/two", kept->folder);
        next.folder = folder;
        assert_int_equal(chown(kept->folder, ANOTHER, 0), 0);
        assert_int_equal(sandbox_kept_open(&next, true, ANOTHER, ANOTHER, &root, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_non_null(strstr(err.message, "only root may write"));
        assert_non_null(strstr(err.message, kept->folder));
        assert_int_equal(access(folder, F_OK), -1);
        assert_int_equal(chown(kept->folder, 0, 0), 0);
}

/* Where no image can be had, in memory here, a plain folder is made, and had again. */
static void a_plain_folder_is_had_again(void **state) {
        char folder[] = "/dev/shm/berth-kept-XXXXXX", inner[64];
        const struct sandbox_kept kept = {
                .folder = inner, .bytes = 1 << 20, .files = 64, .accept_degraded = true, .remedy = "No"
        };
        struct error err = { 0 };

        (void)state;
        if (!mkdtemp(folder))
                skip();
        snprintf(inner, sizeof(inner), "%s/one", folder);
        for (int i = 0; i < 3; i++) {
                int root = -1, result = sandbox_kept_open(&kept, i == 0, geteuid(), getegid(), &root, &err);

                if (i == 0 && result < 0) {
                        print_message("none can be had here: %s\n", err.message);
                        folder_remove(folder);
                        skip();
                }
                if (result < 0)
                        fail_msg("%s", err.message);
                close(root);
        }
        folder_remove(folder);
}

/*
 * As root no step follows a link, and none is through a folder of another user's; so no user leads
 * it elsewhere.
 */
static void a_plain_folder_is_walked_to(void **state) {
        char folder[] = "/dev/shm/berth-kept-XXXXXX", link[64], inner[96], below[96];
        struct sandbox_kept kept = {
                .folder = inner, .bytes = 1 << 20, .files = 64, .accept_degraded = true, .remedy = "No"
        };
        struct error err = { 0 };
        int root = -1;

        (void)state;
        if (geteuid() != 0 || !mkdtemp(folder))
                skip();
        snprintf(inner, sizeof(inner), "%s/above/one", folder);
        snprintf(link, sizeof(link), "%s/link", folder);
        snprintf(below, sizeof(below), "%s/one", link);
        if (sandbox_kept_open(&kept, true, ANOTHER, ANOTHER, &root, &err) < 0) {
                print_message("none can be had here: %s\n", err.message);
                folder_remove(folder);
                skip();
        }
        close(root);
        snprintf(inner, sizeof(inner), "%s/above", folder);
        assert_int_equal(symlink(inner, link), 0);
        for (int i = 0; i < 2; i++) {
                kept.folder = below;
                assert_int_equal(sandbox_kept_open(&kept, i == 0, ANOTHER, ANOTHER, &root, &err), -1);
                assert_int_equal(err.kind, ERROR_REFUSED);
                assert_non_null(strstr(err.message, link));
                assert_int_equal(sandbox_kept_remove(&kept, &err), -1);
        }
        assert_int_equal(chown(folder, ANOTHER, 0), 0);
        snprintf(inner, sizeof(inner), "%s/above/one", folder);
        kept.folder = inner;
        assert_int_equal(sandbox_kept_open(&kept, false, ANOTHER, ANOTHER, &root, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_non_null(strstr(err.message, "only root may write"));
        snprintf(below, sizeof(below), "%s/above/two", folder);
        kept.folder = below;
        assert_int_equal(sandbox_kept_open(&kept, true, ANOTHER, ANOTHER, &root, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_int_equal(access(below, F_OK), -1);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(what_is_in_use_is_not_removed, setup, teardown),
                cmocka_unit_test_setup_teardown(none_is_made_where_another_has_a_folder_above, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(what_may_be_another_s_is_not_mounted, setup, teardown),
                cmocka_unit_test_setup_teardown(no_process_outlives_a_maker_that_is_killed, setup, teardown),
                cmocka_unit_test(a_plain_folder_is_had_again),
                cmocka_unit_test(a_plain_folder_is_walked_to),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
