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
#include <sys/stat.h>
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
        assert_true(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
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

/* Where a FIFO lies, nobody waits for its other side. */
static void test_pipes_are_not_waited_for(void **state) {
        struct place *place = *state;
        int folder = make_folder(place);

        assert_int_equal(mkfifo(place_path(place, "in/pipe"), 0600), 0);
        assert_int_equal(outcome(beneath_open(folder, "pipe", O_RDONLY)), 0);
        assert_int_equal(outcome(beneath_open(folder, "pipe", O_WRONLY)), ENXIO);
        close(folder);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
        const struct CMUnitTest tests[] = { TEST(test_where_paths_lead), TEST(test_what_is_made),
                                            TEST(test_pipes_are_not_waited_for) };

        return cmocka_run_group_tests_name("beneath", tests, NULL, NULL);
}
