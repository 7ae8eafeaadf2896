/* SPDX-License-Identifier: Apache-2.0 */
/* Nearest names, UTF-8 and columns, hashes, files. */
#include "base/digest.h"
#include "base/files.h"
#include "base/suggest.h"
#include "base/terminal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void nearest_names(void **state) {
        static const char *const names[] = { "memoryMB", "workspaceStorageMB", "image", "tags", "min" };
        static const struct {
                const char *typed, *nearest;
        } cases[] = {
                { "memoryMb", "memoryMB" }, { "memoryMB", "memoryMB" },
                { "memroyMB", "memoryMB" }, { "imag", "image" },
                { "Image", "image" },       { "workspacestoragemb", "workspaceStorageMB" },
                { "tag", "tags" },          { "max", NULL },
                { "colour", NULL },         { "", NULL },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *nearest = suggest_nearest(cases[i].typed, names, 5);

                assert_string_equal(nearest ? nearest : "none", cases[i].nearest ? cases[i].nearest : "none");
        }
        assert_null(suggest_nearest("x", names, 0));
}

static void utf8(void **state) {
        static const struct {
                const char *text;
                size_t length;
                long bad; /* offset, or -1 */
                int columns;
        } cases[] = {
                { "abc", 3, -1, 3 },
                { "\xC3\xA4", 2, -1, 1 },
                { "\xE6\xBC\xA2", 3, -1, 2 },
                { "e\xCC\x81", 3, -1, 1 },
                { "\xF0\x9F\x98\x80", 4, -1, 2 },
                { "a\xFFz", 3, 1, 3 },
                { "a\xC3", 2, 1, 2 },
                { "\xC0\xAF", 2, 0, 2 },         /* overlong */
                { "\xED\xA0\x80", 3, 0, 3 },     /* surrogate */
                { "\xF4\x90\x80\x80", 4, 0, 4 }, /* beyond Unicode */
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t offset = 99;

                assert_int_equal(text_is_utf8(cases[i].text, cases[i].length, &offset), cases[i].bad < 0);
                assert_int_equal(offset, cases[i].bad < 0 ? 99 : cases[i].bad);
                assert_int_equal(text_columns(cases[i].text, cases[i].length), cases[i].columns);
        }
}

static void digests(void **state) {
        char hex[SHA256_HEX_SIZE], base64[16];
        uint8_t mac[SHA256_SIZE];

        (void)state;
        digest_sha256_hex("abc", 3, hex);
        assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        /* RFC 4231, case 2. */
        digest_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac);
        digest_hex(mac, sizeof(mac), hex);
        assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        digest_base64((const uint8_t *)"ab", 2, base64);
        assert_string_equal(base64, "YWI=");
}

static void files(void **state) {
        char folder[] = "/tmp/berth-test-XXXXXX", *path, *below;
        struct strbuf read STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };

        (void)state;
        assert_non_null(mkdtemp(folder));
        path = path_join(folder, "a/b");
        below = path_join(path, "file");
        assert_int_equal(folder_make(path, &err), 0);
        assert_int_equal(folder_make(path, &err), 0);
        assert_int_equal(file_read(below, 10, &read, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_int_equal(file_write_atomic(below, "0123456789", 10, 0600, &err), 0);
        assert_int_equal(file_read(below, 9, &read, &err), -1);
        assert_non_null(strstr(err.message, "larger than 9 bytes"));
        strbuf_clear(&read);
        assert_int_equal(file_read(below, 10, &read, &err), 0);
        assert_string_equal(strbuf_text(&read), "0123456789");
        assert_int_equal(file_write_atomic(path, "x", 1, 0600, &err), -1);
        assert_int_equal(unlink(below) | rmdir(path), 0);
        path[strlen(path) - 2] = '\0';
        assert_int_equal(rmdir(path) | rmdir(folder), 0);
        free(path);
        free(below);
}

static void joined_paths(void **state) {
        static const struct {
                const char *folder, *joined;
        } cases[] = { { "", "x" }, { ".", "x" }, { "a", "a/x" }, { "a/", "a/x" }, { "/", "/x" } };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char *joined = path_join(cases[i].folder, "x");

                assert_string_equal(joined, cases[i].joined);
                free(joined);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nearest_names), cmocka_unit_test(utf8),         cmocka_unit_test(digests),
                cmocka_unit_test(files),         cmocka_unit_test(joined_paths),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
