/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are replaced: whole, even if others write them too, and so that they hold when the
 * power fails.
 */
#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* What the file system was asked for, in order: "F" a file was synced, "D" a folder, "R" a name was moved. */
static char asked[64];
static atomic_size_t asked_count;

static void note(char what) {
        size_t at = atomic_fetch_add(&asked_count, 1);

        if (at + 1 < sizeof(asked))
                asked[at] = what;
}

/* The parameters bear other names than in the C library's headers, where those are reserved. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
int fsync(int fd) {
        struct stat status;

        note(fstat(fd, &status) == 0 && S_ISDIR(status.st_mode) ? 'D' : 'F');
        return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
        note('R');
        return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

static char folder[32];

static int set_up(void **state) {
        (void)state;
        snprintf(folder, sizeof(folder), "/tmp/berth-test-XXXXXX");
        memset(asked, 0, sizeof(asked));
        atomic_store(&asked_count, 0);
        return mkdtemp(folder) ? 0 : -1;
}

/* Fails where anything is left beside the file "it". */
static int tear_down(void **state) {
        char *path TEXT_CLEANUP = path_join(folder, "it");

        (void)state;
        unlink(path);
        return rmdir(folder);
}

static void write_it(const char *text) {
        char *path TEXT_CLEANUP = path_join(folder, "it");
        struct error err;

        if (file_write_atomic(path, text, strlen(text), 0600, &err) < 0)
                fail_msg("%s", err.message);
}

static void assert_it_is(const char *text) {
        char *path TEXT_CLEANUP = path_join(folder, "it");
        struct strbuf read STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        assert_int_equal(file_read(path, 1 << 20, &read, &err), 0);
        assert_string_equal(strbuf_text(&read), text);
}

static void test_file_name_and_folder_are_synced(void **state) {
        (void)state;
        write_it("one");
        assert_string_equal(asked, "FRD");
        write_it("two");
        assert_string_equal(asked, "FRDFRD");
        assert_it_is("two");
}

static void test_a_name_without_a_folder(void **state) {
        char before[4096];

        (void)state;
        assert_non_null(getcwd(before, sizeof(before)));
        assert_int_equal(chdir(folder), 0);
        struct error err;
        int result = file_write_atomic("it", "here", 4, 0600, &err);
        assert_int_equal(chdir(before), 0);
        assert_int_equal(result, 0);
        assert_it_is("here");
        assert_string_equal(asked, "FRD");
}

static void test_two_replacements_at_once(void **state) {
        struct file_replacement first FILE_REPLACEMENT_CLEANUP = FILE_REPLACEMENT_INIT,
                                      second FILE_REPLACEMENT_CLEANUP = FILE_REPLACEMENT_INIT,
                                      given_up FILE_REPLACEMENT_CLEANUP = FILE_REPLACEMENT_INIT;
        char *path TEXT_CLEANUP = path_join(folder, "it");
        struct error err;

        (void)state;
        assert_int_equal(file_replace_begin(path, 0600, &first, &err), 0);
        assert_int_equal(file_replace_begin(path, 0600, &second, &err), 0);
        assert_int_equal(file_replace_begin(path, 0600, &given_up, &err), 0);
        assert_int_equal(descriptor_write(first.descriptor, "first", 5), 0);
        assert_int_equal(descriptor_write(second.descriptor, "second", 6), 0);
        assert_int_equal(file_replace_finish(&second, &err), 0);
        assert_it_is("second");
        assert_int_equal(file_replace_finish(&first, &err), 0);
        assert_it_is("first");
}

static void *write_often(void *argument) {
        char text[9001];

        memset(text, *(const char *)argument, sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        for (int i = 0; i < 100; i++)
                write_it(text);
        return NULL;
}

static void test_threads_that_write_one_file(void **state) {
        static const char letters[] = "abcd";
        pthread_t threads[4];
        char *path TEXT_CLEANUP = path_join(folder, "it");

        (void)state;
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, write_often, (void *)&letters[i]), 0);
        for (int i = 0; i < 100; i++) {
                struct strbuf read STRBUF_CLEANUP = STRBUF_INIT;
                struct error err;

                if (file_read(path, 1 << 20, &read, &err) < 0)
                        continue; /* not there yet */
                assert_int_equal(read.length, 9000);
                assert_int_equal(strspn(read.data, (const char[]){ read.data[0], '\0' }), 9000);
        }
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void test_what_is_a_leftover(void **state) {
        char mine[64];

        (void)state;
        snprintf(mine, sizeof(mine), "a.json.0.%ld.new", (long)getpid());
        assert_false(file_is_leftover(mine));
        assert_true(file_is_leftover("a.json.0.99999999.new"));
        assert_true(file_is_leftover("a.99999999.new"));
        assert_false(file_is_leftover("a.json.new"));
        assert_false(file_is_leftover(".99999999.new"));
        assert_false(file_is_leftover("a..new"));
        assert_false(file_is_leftover("a.99999999.old"));
        assert_false(file_is_leftover(".new"));
        assert_false(file_is_leftover(""));
}

static void test_nothing_is_left_where_it_cannot_be(void **state) {
        char *path TEXT_CLEANUP = path_join(folder, "it"), *below TEXT_CLEANUP = path_join(path, "below");
        struct error err;

        (void)state;
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(file_write_atomic(path, "x", 1, 0600, &err), -1);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(file_write_atomic(below, "x", 1, 0600, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

/* Of many zeros at its end a file has a hole; anywhere else they are written. */
static void test_holes(void **state) {
        static const char zeros[200000], some[4096] = { [4095] = 'x' };
        int from DESCRIPTOR_CLEANUP = memfd_create("from", MFD_CLOEXEC);
        int to DESCRIPTOR_CLEANUP = memfd_create("to", MFD_CLOEXEC);
        int ends[2];
        char bytes[16];
        struct stat status;

        (void)state;
        assert_int_equal(descriptor_append(from, "begin", 5), 0);
        assert_int_equal(descriptor_append(from, zeros, sizeof(zeros)), 0);
        assert_int_equal(descriptor_append(from, some, sizeof(some)), 0);
        assert_int_equal(descriptor_append(from, zeros, 4095), 0);
        assert_int_equal(lseek(from, 0, SEEK_SET), 0);
        assert_int_equal(descriptor_copy(from, to, 1 << 20), 0);
        assert_int_equal(fstat(to, &status), 0);
        assert_int_equal(status.st_size, 5 + sizeof(zeros) + sizeof(some) + 4095);
        assert_true(status.st_blocks * 512 < 150000);
        assert_int_equal(pread(to, bytes, 2, 5 + (off_t)sizeof(zeros) + 4095), 2);
        assert_memory_equal(bytes, "x", 2);
        /* In the middle. */
        assert_int_equal(lseek(to, 0, SEEK_SET), 0);
        assert_int_equal(descriptor_append(to, zeros, 4096), 0);
        assert_int_equal(pread(to, bytes, 5, 0), 5);
        assert_memory_equal(bytes, zeros, 5);
        assert_int_equal(fstat(to, &status), 0);
        assert_int_equal(status.st_size, 5 + sizeof(zeros) + sizeof(some) + 4095);
        /* Into what is no file. */
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(descriptor_append(ends[1], zeros, 8192), 0);
        assert_int_equal(read(ends[0], bytes, sizeof(bytes)), sizeof(bytes));
        close(ends[0]);
        close(ends[1]);
}

static void test_times_beyond_their_number(void **state) {
        (void)state;
        assert_int_equal(nanoseconds_of((struct timespec){ .tv_sec = 2, .tv_nsec = 3 }), 2000000003);
        assert_int_equal(nanoseconds_of((struct timespec){ .tv_sec = -1, .tv_nsec = 5 }), -999999995);
        assert_true(nanoseconds_of((struct timespec){ .tv_sec = INT64_MAX }) == INT64_MAX);
        assert_true(nanoseconds_of((struct timespec){ .tv_sec = INT64_MIN }) == INT64_MIN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_file_name_and_folder_are_synced),
                TEST(test_a_name_without_a_folder),
                TEST(test_two_replacements_at_once),
                TEST(test_threads_that_write_one_file),
                TEST(test_what_is_a_leftover),
                TEST(test_nothing_is_left_where_it_cannot_be),
                TEST(test_holes),
                TEST(test_times_beyond_their_number),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
