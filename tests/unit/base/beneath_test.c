/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/beneath.h"
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* in/file, in/sub/file, and links of every direction; a file beside `in`, and one of the same name in it. */
static int make_folder(struct place *place) {
        static const char *const links[][2] = { { "file", "in/inner" },
                                                { "../file", "in/sub/up" },
                                                { "../outside", "in/out" },
                                                { "/outside", "in/absolute" },
                                                { "/proc/self", "in/machine" } };
        static const char *const files[] = { "outside", "in/outside", "in/file", "in/sub/file" };

        assert_int_equal(mkdir(place_path(place, "in"), 0700), 0);
        assert_int_equal(mkdir(place_path(place, "in/sub"), 0700), 0);
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                close(open(place_path(place, files[i]), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
                assert_int_equal(symlink(links[i][0], place_path(place, links[i][1])), 0);
        return open(place_path(place, "in"), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* 0 where it opens, else the error. */
static int outcome(int descriptor) {
        if (descriptor < 0)
                return errno;
        if (!(fcntl(descriptor, F_GETFD) & FD_CLOEXEC))
                abort();
        close(descriptor);
        return 0;
}

static void test_where_paths_lead(void **state) {
        static const struct {
                const char *path;
                int open, linked, followed;
        } rows[] = {
                { "file", 0, 0, 0 },
                { "sub/file", 0, 0, 0 },
                { "sub/../file", 0, 0, 0 },
                { "inner", ELOOP, 0, 0 },
                { "sub/up", ELOOP, 0, 0 },
                { "out", ELOOP, EXDEV, 0 }, /* as the root of everything, ".." of the root is the root */
                { "absolute", ELOOP, EXDEV, 0 },
                { "machine", ELOOP, EXDEV, ENOENT },
                { "../outside", EXDEV, EXDEV, 0 },
                { "nothing", ENOENT, ENOENT, ENOENT },
        };
        struct place *place = *state;
        int folder = make_folder(place);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *path = rows[i].path;

                if (outcome(beneath_open(folder, path, O_RDONLY)) != rows[i].open ||
                    outcome(beneath_open_linked(folder, path, O_RDONLY)) != rows[i].linked ||
                    outcome(beneath_follow(folder, path, O_RDONLY)) != rows[i].followed)
                        fail_msg("%s", path);
        }
        close(folder);
}

static void test_what_is_made(void **state) {
        static const struct {
                const char *path;
                int made;
        } rows[] = {
                { "new", 0 },      { "new", EEXIST },   { "sub/new", 0 },      { "machine/new", ELOOP },
                { "out", EEXIST }, { "../new", EXDEV }, { "/tmp/new", EXDEV },
        };
        struct place *place = *state;
        int folder = make_folder(place);
        struct stat status;

        umask(022);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (outcome(beneath_create(folder, rows[i].path, O_WRONLY | O_EXCL, 0640)) != rows[i].made)
                        fail_msg("%s", rows[i].path);
        }
        assert_int_equal(fstatat(folder, "sub/new", &status, 0), 0);
        assert_int_equal(status.st_mode & 0777, 0640);
        close(folder);
}

/* A FIFO is opened without waiting for its other side. */
static void test_pipes_are_not_waited_for(void **state) {
        struct place *place = *state;
        int folder = make_folder(place);

        assert_int_equal(mkfifo(place_path(place, "in/pipe"), 0600), 0);
        assert_int_equal(outcome(beneath_open(folder, "pipe", O_RDONLY)), 0);
        assert_int_equal(outcome(beneath_open(folder, "pipe", O_WRONLY)), ENXIO);
        close(folder);
}

/* --- with openat2 denied --- */

/* From now on, for this process: a child of the test's, which does not assert, since it would go on as the test. */
static void deny_openat2(int error) {
        struct sock_filter steps[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof(steps) / sizeof(steps[0]), steps };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ||
            syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0) >= 0 || errno != error)
                _exit(1);
}

/* The error, or the number of what was opened below zero: it tells which it is. */
static long found(int descriptor) {
        struct stat status;

        if (descriptor < 0)
                return errno;
        if (fstat(descriptor, &status) < 0)
                abort();
        close(descriptor);
        return -(long)status.st_ino;
}

static const int ways[] = { O_RDONLY, O_RDONLY | O_DIRECTORY, O_RDONLY | O_NOFOLLOW,
                            O_PATH,   O_PATH | O_NOFOLLOW,    O_PATH | O_NOFOLLOW | O_DIRECTORY };
#define WAYS (sizeof(ways) / sizeof(ways[0]))
#define ANSWERS (3 * WAYS + 2)

static void ask_everything(int folder, const char *path, long *ret_answers) {
        long *next = ret_answers;

        for (size_t i = 0; i < WAYS; i++) {
                *next++ = found(beneath_open(folder, path, ways[i]));
                *next++ = found(beneath_open_linked(folder, path, ways[i]));
                *next++ = found(beneath_follow(folder, path, ways[i]));
        }
        /* A file that it makes is removed at once, so that the next calls meet the same folder. */
        next[0] = outcome(beneath_create(folder, path, O_WRONLY | O_EXCL, 0600));
        if (next[0] == 0)
                (void)unlinkat(folder, path, 0);
        next[1] = outcome(beneath_create(folder, path, O_WRONLY, 0600));
        if (next[0] == 0)
                (void)unlinkat(folder, path, 0);
}

/* Every path of up to three of these names, asked of the kernel first. */
static const char *const names[] = { "file",    "sub",      "inner", "out",    "absolute",
                                     "machine", "circle_a", "deep",  "folder", "pipe",
                                     "nothing", "..",       ".",     "",       "root" };
#define NAMES (sizeof(names) / sizeof(names[0]))
#define PATHS (NAMES + NAMES * NAMES + NAMES * NAMES * NAMES)

static void path_of(size_t number, char *ret_path, size_t size) {
        size_t parts = number < NAMES ? 1 : number < NAMES + NAMES * NAMES ? 2 : 3;

        number -= parts > 2 ? NAMES + NAMES * NAMES : parts > 1 ? NAMES : 0;
        *ret_path = '\0';
        for (size_t i = 0; i < parts; i++, number /= NAMES)
                snprintf(ret_path + strlen(ret_path), size - strlen(ret_path), "%s%s", i ? "/" : "",
                         names[number % NAMES]);
}

static void test_without_openat2_all_is_the_same(void **state) {
        static const char *const links[][2] = { { "circle_b", "in/circle_a" },
                                                { "circle_a", "in/circle_b" },
                                                { "sub/../sub/sub/up", "in/deep" },
                                                { "sub/", "in/folder" },
                                                { "..", "in/sub/folder" },
                                                { "../inner", "in/sub/inner" },
                                                { "/", "in/sub/root" },
                                                { "../../file", "in/sub/sub/up" } };
        struct place *place = *state;
        int folder = make_folder(place);
        long(*answers)[ANSWERS] = calloc(PATHS, sizeof(*answers));
        int status;
        pid_t child;

        assert_non_null(answers);
        assert_int_equal(mkdir(place_path(place, "in/sub/sub"), 0700), 0);
        assert_int_equal(mkfifo(place_path(place, "in/sub/pipe"), 0600), 0);
        for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
                assert_int_equal(symlink(links[i][0], place_path(place, links[i][1])), 0);
        for (size_t i = 0; i < PATHS; i++) {
                char path[128];

                path_of(i, path, sizeof(path));
                ask_everything(folder, path, answers[i]);
        }
        for (int k = 0; k < 2; k++) {
                child = fork();
                assert_true(child >= 0);
                if (child == 0) {
                        int wrong = 0;

                        deny_openat2(k == 0 ? ENOSYS : EPERM);
                        for (size_t i = 0; i < PATHS; i++) {
                                long now[ANSWERS];
                                char path[128];

                                path_of(i, path, sizeof(path));
                                ask_everything(folder, path, now);
                                for (size_t n = 0; n < ANSWERS; n++) {
                                        if (now[n] == answers[i][n] || wrong++ > 20)
                                                continue;
                                        fprintf(stderr, "%s, %zu: %ld, and %ld by openat2\n", path, n, now[n],
                                                answers[i][n]);
                                }
                        }
                        _exit(wrong != 0);
                }
                assert_int_equal(waitpid(child, &status, 0), child);
                assert_int_equal(status, 0);
        }
        free(answers);
        close(folder);
}

/* Other mounts, of the same file system, and links that are more than their text. As a program's exit code: 77 where it cannot be tried. */
static int enter_mounts(struct place *place) {
        int machine, folder, wrong = 0;

        if ((unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(place_path(place, "in"), place_path(place, "in/sub"), NULL, MS_BIND, NULL) < 0)
                return 77;
        machine = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        folder = open(place_path(place, "in"), O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < 2; i++) {
                wrong |= outcome(beneath_open(folder, "sub", O_PATH)) != EXDEV;
                wrong |= outcome(beneath_open(folder, "sub/file", O_RDONLY)) != EXDEV;
                wrong |= outcome(beneath_open(folder, "sub/../file", O_RDONLY)) != EXDEV;
                wrong |= outcome(beneath_follow(folder, "sub/file", O_RDONLY)) != EXDEV;
                wrong |= outcome(beneath_open_linked(folder, "sub/file", O_RDONLY)) != 0;
                wrong |= outcome(beneath_create(folder, "sub/file", O_WRONLY, 0600)) != 0;
                wrong |= outcome(beneath_open_linked(machine, "proc/self/exe", O_RDONLY)) != ELOOP;
                wrong |= outcome(beneath_open_linked(machine, "proc/self/cwd/etc", O_RDONLY)) != ELOOP;
                if (i == 0)
                        deny_openat2(ENOSYS);
        }
        return wrong;
}

static void test_without_openat2_mounts_are_not_entered(void **state) {
        struct place *place = *state;
        int status;
        pid_t child;

        close(make_folder(place));
        child = fork();
        if (child == 0)
                _exit(enter_mounts(place));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                skip();
        assert_int_equal(status, 0);
}

/* Deep down, and up again name by name: what that costs is bounded. */
static void test_without_openat2_no_path_takes_for_ever(void **state) {
        enum { DEEP = 600 };
        struct place *place = *state;
        int folder = make_folder(place), at = dup(folder), status;
        char path[DEEP * 5 + 16] = "", *end = path;
        pid_t child;

        for (int i = 0; i < DEEP; i++) {
                int next;

                assert_int_equal(mkdirat(at, "d", 0700), 0);
                next = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
                assert_true(next >= 0);
                close(at);
                at = next;
                end = stpcpy(end, "d/");
        }
        close(at);
        child = fork();
        if (child == 0) {
                int wrong;

                deny_openat2(ENOSYS);
                wrong = outcome(beneath_open(folder, path, O_RDONLY)) != 0;
                for (int i = 0; i < DEEP; i++)
                        end = stpcpy(end, "../");
                (void)stpcpy(end, "file");
                wrong |= outcome(beneath_open(folder, path, O_RDONLY)) != ELOOP;
                _exit(wrong);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        close(folder);
}

/* A thread exchanges a folder for a link that leads out, and moves folders out, all the time. */
static void test_without_openat2_nobody_is_led_out(void **state) {
        struct place *place = *state;
        int folder = make_folder(place), in = open(place_path(place, "in"), O_RDONLY | O_CLOEXEC), status;
        const char *sub = place_path(place, "in/sub"), *away = place_path(place, "away");
        long secret;
        pid_t enemy, child;

        assert_int_equal(symlink("..", place_path(place, "in/leads")), 0);
        secret = found(open(place_path(place, "outside"), O_RDONLY | O_CLOEXEC));
        close(open(place_path(place, "in/sub/outside"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        enemy = fork();
        if (enemy == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;) {
                        (void)syscall(SYS_renameat2, in, "sub", in, "leads", RENAME_EXCHANGE);
                        (void)syscall(SYS_renameat2, in, "sub", in, "leads", RENAME_EXCHANGE);
                        (void)!rename(sub, away);
                        (void)!rename(away, sub);
                }
        }
        child = fork();
        if (child == 0) {
                deny_openat2(ENOSYS);
                for (int i = 0; i < 20000; i++) {
                        if (found(beneath_open(folder, "sub/outside", O_RDONLY)) == secret ||
                            found(beneath_open(folder, "sub/../outside", O_RDONLY)) == secret ||
                            found(beneath_open_linked(folder, "sub/outside", O_RDONLY)) == secret ||
                            found(beneath_follow(folder, "sub/../../outside", O_RDONLY)) == secret ||
                            found(beneath_create(folder, "sub/outside", O_WRONLY, 0600)) == secret)
                                _exit(1);
                }
                _exit(0);
        }
        assert_true(enemy > 0 && child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        kill(enemy, SIGKILL);
        assert_int_equal(waitpid(enemy, NULL, 0), enemy);
        assert_int_equal(status, 0);
        close(folder);
        close(in);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
        const struct CMUnitTest tests[] = { TEST(test_where_paths_lead),
                                            TEST(test_what_is_made),
                                            TEST(test_pipes_are_not_waited_for),
                                            TEST(test_without_openat2_all_is_the_same),
                                            TEST(test_without_openat2_mounts_are_not_entered),
                                            TEST(test_without_openat2_no_path_takes_for_ever),
                                            TEST(test_without_openat2_nobody_is_led_out) };

        return cmocka_run_group_tests_name("beneath", tests, NULL, NULL);
}
