/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

#include "server/secret.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[200], path[300];

static void put(const char *bytes, size_t length, mode_t mode) {
        int file;

        /* An old file may be read-only, which only root can write: it is removed first. */
        unlink(path);
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(file >= 0);
        assert_int_equal(write(file, bytes, length), (ssize_t)length);
        assert_int_equal(fchmod(file, mode), 0);
        close(file);
}

static void first_lines(void **state) {
        static const struct {
                const char *bytes;
                size_t length;      /* 0: all */
                const char *secret; /* NULL: refused */
                const char *why;
        } cases[] = {
                { "key", 0, "key", NULL },
                { "key\n", 0, "key", NULL },
                { "key\r\n", 0, "key", NULL },
                { "key\n\n# a note\n", 0, "key", NULL },
                { "  k e y\t\n", 0, "  k e y\t", NULL },
                { "\xff\xfe\x01\n", 0, "\xff\xfe\x01", NULL },
                { "key\n\0", 5, "key", NULL },
                { "\n", 0, NULL, "is empty" },
                { "\r\nkey\n", 0, NULL, "is empty" },
                { "\nkey\n", 0, NULL, "is empty" },
                { "\0key\n", 5, NULL, "NUL" },
                { "key\0word\n", 9, NULL, "NUL" },
                { "key\0", 4, NULL, "NUL" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf secret STRBUF_CLEANUP = STRBUF_INIT;
                struct error err = { 0 };
                int result;

                put(cases[i].bytes, cases[i].length ? cases[i].length : strlen(cases[i].bytes), 0600);
                result = secret_read(path, &secret, &err);
                if (result != (cases[i].secret ? 0 : -1))
                        fail_msg("case %zu: %d", i, result);
                if (cases[i].secret) {
                        assert_string_equal(strbuf_text(&secret), cases[i].secret);
                        assert_int_equal(secret.length, strlen(cases[i].secret));
                } else {
                        assert_non_null(strstr(err.message, cases[i].why));
                        assert_non_null(strstr(err.message, path));
                        assert_null(strstr(err.message, "key"));
                }
                strbuf_release(&secret);
        }
}

static void nothing_in_it(void **state) {
        struct strbuf secret STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        (void)state;
        put("", 0, 0600);
        assert_int_equal(secret_read(path, &secret, &err), -1);
        assert_non_null(strstr(err.message, "is empty"));
}

static void lengths(void **state) {
        char bytes[4097];

        (void)state;
        memset(bytes, 'a', sizeof(bytes));
        for (size_t length = 4096; length <= 4097; length++) {
                struct strbuf secret STRBUF_CLEANUP = STRBUF_INIT;
                struct error err;

                put(bytes, length, 0600);
                assert_int_equal(secret_read(path, &secret, &err), length > 4096 ? -1 : 0);
                if (length == 4096)
                        assert_int_equal(secret.length, 4096);
        }
}

/* A group may read it: that is how a service's user is given one. */
static void who_else_may_read_it(void **state) {
        static const struct {
                mode_t mode;
                int result;
        } cases[] = {
                { 0600, 0 }, { 0400, 0 }, { 0640, 0 }, { 0644, -1 }, { 0604, -1 }, { 0602, -1 }, { 0666, -1 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf secret STRBUF_CLEANUP = STRBUF_INIT;
                struct error err;

                put("key\n", 4, cases[i].mode);
                if (secret_read(path, &secret, &err) != cases[i].result)
                        fail_msg("%o", (unsigned)cases[i].mode);
                if (cases[i].result < 0)
                        assert_non_null(strstr(err.message, "chmod"));
        }
}

static void no_file(void **state) {
        struct strbuf secret STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        (void)state;
        assert_int_equal(unlink(path), 0);
        assert_int_equal(secret_read(path, &secret, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(secret_read(path, &secret, &err), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(first_lines), cmocka_unit_test(nothing_in_it),
                cmocka_unit_test(lengths),     cmocka_unit_test(who_else_may_read_it),
                cmocka_unit_test(no_file),
        };
        int failed;

        folder_make_temporary(folder);
        snprintf(path, sizeof(path), "%s/secret", folder);
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        folder_remove(folder);
        return failed;
}
