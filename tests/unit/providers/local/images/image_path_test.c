/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/local/images/image_path.h"

#include <string.h>

static void test_names(void **state) {
        static const struct {
                const char *text;
                enum image_path_meaning meaning;
                const char *folder, *name;
        } rows[] = {
                { "a", PATH_ENTRY, ".", "a" },
                { "./a", PATH_ENTRY, ".", "a" },
                { "a/", PATH_ENTRY, ".", "a" },
                { "a/b/c", PATH_ENTRY, "a/b", "c" },
                { "./a//b/./c/", PATH_ENTRY, "a/b", "c" },
                { "", PATH_ENTRY, ".", "" },
                { ".", PATH_ENTRY, ".", "" },
                { "./", PATH_ENTRY, ".", "" },
                { "...", PATH_ENTRY, ".", "..." },
                { "a/..b", PATH_ENTRY, "a", "..b" },
                { "a/wh.b", PATH_ENTRY, "a", "wh.b" },
                { ".whb", PATH_ENTRY, ".", ".whb" },
                { ".wh.a", PATH_WHITEOUT, ".", "a" },
                { "a/.wh.b", PATH_WHITEOUT, "a", "b" },
                { "a/.wh.b/", PATH_WHITEOUT, "a", "b" },
                { ".wh....", PATH_WHITEOUT, ".", "..." },
                { ".wh..wh..opq", PATH_OPAQUE, ".", "" },
                { "a/b/.wh..wh..opq", PATH_OPAQUE, "a/b", "" },
                { ".wh..wh.plnk", PATH_NOTHING, ".", ".wh..wh.plnk" },
                { "a/.wh..wh.orph/x/y", PATH_NOTHING, NULL, NULL },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct image_path path;
                struct error err = { 0 };

                if (image_path_parse(rows[i].text, &path, &err) < 0)
                        fail_msg("\"%s\": %s", rows[i].text, err.message);
                assert_int_equal(path.meaning, rows[i].meaning);
                if (rows[i].folder) {
                        assert_string_equal(path.folder, rows[i].folder);
                        assert_string_equal(path.name, rows[i].name);
                }
        }
}

static void test_refused(void **state) {
        static const char *const rows[] = {
                "/",        "/a",      "//a",       "..",
                "../a",     "a/..",    "a/../b",    "./..",
                "a/./../b", ".wh.",    ".wh..",     ".wh...",
                "a/.wh...", ".wh.a/b", "a/.wh.b/c", "a/.wh..wh..opq/../b",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct image_path path;
                struct error err = { 0 };

                if (image_path_parse(rows[i], &path, &err) == 0)
                        fail_msg("\"%s\" was taken as \"%s\" in \"%s\"", rows[i], path.name, path.folder);
                assert_string_not_equal(err.message, "");
        }
}

/* A path of `parts` parts, each of `length` characters. */
static const char *long_path(struct strbuf *to, size_t parts, size_t length) {
        strbuf_clear(to);
        for (size_t i = 0; i < parts; i++) {
                for (size_t k = 0; k < length; k++)
                        strbuf_append_char(to, 'a');
                strbuf_append_char(to, '/');
        }
        return strbuf_text(to);
}

static void test_limits(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct image_path path;
        struct error err;

        (void)state;
        assert_int_equal(image_path_parse(long_path(&text, 1, UNPACK_NAME_MAX), &path, &err), 0);
        assert_int_equal(image_path_parse(long_path(&text, 1, UNPACK_NAME_MAX + 1), &path, &err), -1);
        assert_int_equal(image_path_parse(long_path(&text, UNPACK_DEPTH_MAX, 2), &path, &err), 0);
        assert_int_equal(image_path_parse(long_path(&text, UNPACK_DEPTH_MAX + 1, 2), &path, &err), -1);
        /* The folder alone is what must fit: 15 * 250 + 14 and 16 * 250 + 15 bytes. */
        assert_int_equal(image_path_parse(long_path(&text, 16, 250), &path, &err), 0);
        assert_int_equal(image_path_parse(long_path(&text, 17, 250), &path, &err), -1);
}

static void test_quoting(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, name STRBUF_CLEANUP = STRBUF_INIT;

        (void)state;
        image_path_quote(&text, "a\x1b[31m\xff\n");
        assert_string_equal(strbuf_text(&text), "\"a\\x1B[31m\\xFF\\x0A\"");
        strbuf_clear(&text);
        for (int i = 0; i < 1000; i++)
                strbuf_append_char(&name, 'x');
        image_path_quote(&text, strbuf_text(&name));
        assert_int_equal(text.length, 256 + 5);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_quoting),
        };

        return cmocka_run_group_tests_name("image_path", tests, NULL, NULL);
}
