/* SPDX-License-Identifier: Apache-2.0 */
/* Beginnings and endings, nearest names, UTF-8 and columns, hashes, files. */
#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/text_utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void beginnings_and_endings(void **state) {
        static const char *const list[] = { "one", "two", NULL };

        (void)state;
        assert_true(text_begins_with("https://x", "https://"));
        assert_true(text_begins_with("x", ""));
        assert_false(text_begins_with("http", "https"));
        assert_true(text_ends_with("a.yaml", ".yaml"));
        assert_true(text_ends_with(".yaml", ".yaml"));
        assert_false(text_ends_with("yaml", ".yaml"));
        assert_false(text_ends_with("a.yaml.bak", ".yaml"));
        assert_true(text_is_among("two", list));
        assert_false(text_is_among("tw", list));
        assert_false(text_is_among("", list));
        assert_true(text_is_permitted("two", list));
        assert_false(text_is_permitted("tw", list));
        assert_false(text_is_permitted(NULL, list));
        assert_true(text_is_permitted("tw", NULL));
        assert_true(text_is_permitted(NULL, NULL));
        assert_true(text_equal("a", (const char[]){ 'a', 0 }));
        assert_true(text_equal(NULL, NULL));
        assert_false(text_equal("", NULL));
        assert_false(text_equal(NULL, "a"));
        assert_false(text_equal("a", "b"));
        assert_true(text_hash("") == UINT64_C(0xcbf29ce484222325)); /* by the algorithm's authors */
        assert_true(text_hash("foobar") == UINT64_C(0x85944171f73967e8));
        assert_true(text_is_label("a", 1));
        assert_true(text_is_label("0-z--9", 6));
        assert_false(text_is_label("0-z--9", 5));
        assert_false(text_is_label("", 5));
        assert_false(text_is_label("-a", 5));
        assert_false(text_is_label("a-", 5));
        assert_false(text_is_label("-", 5));
        assert_false(text_is_label("aB", 5));
        assert_false(text_is_label("a.b", 5));
        assert_int_equal(text_characters("f\xc3\xbcr", 4), 3);
        assert_int_equal(text_characters("", 0), 0);
}

static void fields(void **state) {
        static const struct {
                const char *text;
                unsigned number;
                const char *field; /* NULL: no field */
        } cases[] = { { "a:b::c", 0, "a" },  { "a:b::c", 1, "b" }, { "a:b::c", 2, "" }, { "a:b::c", 3, "c" },
                      { "a:b::c", 4, NULL }, { "", 0, "" },        { "", 1, NULL },     { ":", 1, "" } };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t length = 0;
                const char *found = text_field(cases[i].text, ':', cases[i].number, &length);

                assert_int_equal(found != NULL, cases[i].field != NULL);
                if (found) {
                        assert_int_equal(length, strlen(cases[i].field));
                        assert_memory_equal(found, cases[i].field, length);
                }
        }
}

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

static void beginnings(void **state) {
        static const struct {
                const char *text;
                int columns;
                size_t bytes;
        } cases[] = {
                { "abc", 2, 2 },
                { "abc", 9, 3 },
                { "abc", 0, 0 },
                { "abc", -3, 0 },
                { "\xE6\xBC\xA2\xE6\xBC\xA2", 3, 3 }, /* a wide one does not fit by half */
                { "a\xCC\x88z", 1, 3 },               /* what combines with the last comes along */
                { "\xFF\xFF", 1, 1 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_int_equal(text_prefix(cases[i].text, strlen(cases[i].text), cases[i].columns),
                                 cases[i].bytes);
}

/* What json_string() refuses: a path may be any bytes, and a message be cut inside of a character. */
/* NOLINTBEGIN(misc-misleading-bidirectional) */

static void json_for_who_looks(void **state) {
        static const struct {
                const char *text, *json;
        } cases[] = {
                { "plain \"x\" \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80",
                  "\"plain \\\"x\\\" \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80\"" },
                { "\x1B[31m\x7F", "\"\\u001B[31m\\u007F\"" },
                { "csi \xC2\x9B 31m", "\"csi \\u009B 31m\"" },
                { "\xE2\x80\xAE"
                  "over\xE2\x81\xA6",
                  "\"\\u202Eover\\u2066\"" },
                { "\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\x8B\xEF\xBB\xBF", "\"\\u2028\\u2029\\u200B\\uFEFF\"" },
                { "\xF3\xA0\x81\x81", "\"\\uDB40\\uDC41\"" }, /* a tag character, beyond the first plane */
                { "", "\"\"" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *json JSON_CLEANUP = json_string(cases[i].text), *read JSON_CLEANUP = NULL;
                char *text TEXT_CLEANUP = json_for_eyes(json, 0);

                assert_string_equal(text, cases[i].json);
                read = json_loads(text, JSON_DECODE_ANY, NULL);
                assert_true(json_equal(read, json));
        }
}

/* NOLINTEND(misc-misleading-bidirectional) */

static void json_of_any_text(void **state) {
        static const struct {
                const char *text, *json;
        } cases[] = {
                { "", "\"\"" },
                { "\xC3\xA4 \"x\"\n", "\"\xC3\xA4 \\\"x\\\"\\n\"" },
                { "a\xFFz", "\"a\\\\xFFz\"" },
                { "cut \xE6\xBC", "\"cut \\\\xE6\\\\xBC\"" },
                { NULL, "null" },
        };
        json_t *object JSON_CLEANUP = json_object();

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                json_t *json JSON_CLEANUP = json_from_text(cases[i].text);
                char *text TEXT_CLEANUP = json_compact(json);

                assert_string_equal(text, cases[i].json);
        }
        json_set_text(object, "bad", "\xFF");
        json_set_text(object, "none", NULL);
        assert_string_equal(json_text(object, "bad"), "\\xFF");
        assert_int_equal(json_object_size(object), 1);
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

/* What these characters do to a reader is what is tested. */
/* NOLINTBEGIN(misc-misleading-bidirectional) */
static char *print_safe(const char *text) {
        char *printed = NULL;
        size_t length;
        FILE *stream = open_memstream(&printed, &length);

        terminal_print_safe(stream, text);
        assert_int_equal(fclose(stream), 0);
        return printed;
}

static void safe_text(void **state) {
        static const struct {
                const char *text, *printed;
        } cases[] = {
                { "", "" },
                { "plain ~", "plain ~" },
                { "a\nb\tc\x1B[2J\x7F", "a\\x0Ab\\x09c\\x1B[2J\\x7F" },
                { "\xC2\x80\xC2\x9F\xC2\xA0", "\\x80\\x9F\xC2\xA0" },
                { "\xC3\xA4\xE6\xBC\xA2\xF0\x9F\x98\x80", "\xC3\xA4\xE6\xBC\xA2\xF0\x9F\x98\x80" },
                /* Bidi marks, embeddings, overrides, isolates. */
                { "a\xE2\x80\xAE"
                  "b",
                  "a\\u202Eb" },
                { "\xE2\x80\xAA\xE2\x81\xA6\xE2\x81\xA9", "\\u202A\\u2066\\u2069" },
                { "\xE2\x80\x8E\xE2\x80\x8F\xD8\x9C", "\\u200E\\u200F\\u061C" },
                /* Zero-width space, byte order mark, soft hyphen, line separator, tag letter. */
                { "\xE2\x80\x8B\xEF\xBB\xBF\xC2\xAD", "\\u200B\\uFEFF\\u00AD" },
                { "\xE2\x80\xA8\xE2\x80\xA9", "\\u2028\\u2029" },
                { "\xF3\xA0\x81\xA1", "\\U000E0061" },
                /* Joiners: needed in emoji and Persian, a trick in ASCII. */
                { "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB",
                  "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB" },
                { "\xE2\x80\x8D", "\\u200D" },
                { "a\xE2\x80\x8C", "a\\u200C" },
                { "\xA9\xE2\x80\x8D", "\\xA9\\u200D" },
                { "\xE2\x80\xAE\xE2\x80\x8D", "\\u202E\\u200D" },
                /* No UTF-8: a stray byte, a surrogate, a text cut short. */
                { "a\xFFz", "a\\xFFz" },
                { "\xED\xA0\x80", "\\xED\\xA0\\x80" },
                { "\xE6\xBC", "\\xE6\\xBC" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char *printed = print_safe(cases[i].text);

                assert_string_equal(printed, cases[i].printed);
                free(printed);
        }
}

/* Messages repeat names that users and servers chose. */
static void log_lines(void **state) {
        FILE *file = tmpfile();
        int before = dup(STDERR_FILENO);
        char read[128];
        size_t length;

        (void)state;
        assert_non_null(file);
        assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
        log_error("no %s", "\x1B[2J\xE4\nerror: x");
        log_info("\xC3\xA4 \xE2\x80\xAE");
        assert_true(dup2(before, STDERR_FILENO) >= 0);
        close(before);
        rewind(file);
        length = fread(read, 1, sizeof(read) - 1, file);
        read[length] = '\0';
        assert_string_equal(read, "error: no \\x1B[2J\\xE4\\x0Aerror: x\n\xC3\xA4 \\u202E\n");
        assert_int_equal(fclose(file), 0);
}

static void valid_text(void **state) {
        static const struct {
                const char *text, *valid;
        } cases[] = {
                { "", "" },
                { "\xC3\xA4\n\xE2\x80\xAE", "\xC3\xA4\n\xE2\x80\xAE" },
                { "\xFF"
                  "a\xE6\xBC/\xC3",
                  "\\xFFa\\xE6\\xBC/\\xC3" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf valid STRBUF_CLEANUP = STRBUF_INIT;

                text_append_utf8(&valid, cases[i].text);
                assert_string_equal(strbuf_text(&valid), cases[i].valid);
        }
}

static void words(void **state) {
        static const struct {
                const char *text;
                int32_t bad; /* 0: none */
        } cases[] = {
                { "", 0 },
                { "Team 7_.", 0 },
                { "\xC3\xA4 \xE6\xBC\xA2\xC2\xA0\xD9\xA3\xC2\xB2", 0 },
                { "a-b", '-' },
                { "a\nb", '\n' },
                { "a\xE2\x80\xAE", 0x202E },
                { "e\xCC\x81", 0x301 },
                { "\xF0\x9F\x98\x80", 0x1F600 },
                { "\xE2\x80\xA8", 0x2028 },
                { "a\xFF", -1 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int32_t bad = 0;

                assert_int_equal(text_is_words(cases[i].text, strlen(cases[i].text), "_.", &bad),
                                 cases[i].bad == 0);
                assert_int_equal(bad, cases[i].bad);
        }
}

/* NOLINTEND(misc-misleading-bidirectional) */

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

static void base64_is_read_by_the_letter(void **state) {
        static const struct {
                const char *text, *bytes; /* NULL: invalid */
        } cases[] = {
                { "", "" },        { "YQ==", "a" },        { "YWI=", "ab" },
                { "YWJj", "abc" }, { "YWJjZA==", "abcd" }, { "+/+/", "\xfb\xff\xbf" },
                { "Y", NULL },     { "YWI", NULL },        { "YWI= ", NULL },
                { " YWI=", NULL }, { "YW I=", NULL },      { "Y===", NULL },
                { "====", NULL },  { "YQ==YQ==", NULL },   { "YQ=a", NULL },
                { "YW-_", NULL },  { "YW\n=", NULL },      { "Y\xc3\xa4=", NULL },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                uint8_t bytes[16];
                ssize_t length = digest_from_base64(cases[i].text, strlen(cases[i].text), bytes);

                assert_int_equal(length, cases[i].bytes ? (ssize_t)strlen(cases[i].bytes) : -1);
                if (length > 0)
                        assert_memory_equal(bytes, cases[i].bytes, (size_t)length);
        }
}

static void times_and_spans(void **state) {
        static const struct {
                int64_t ms;
                const char *text;
        } spans[] = { { -5000, "0 s" },      { 0, "0 s" },       { 59999, "59 s" },  { 60000, "1 min" },
                      { 3599999, "59 min" }, { 7200000, "2 h" }, { 86400000, "1 d" } };
        char text[32];

        (void)state;
        for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
                clock_format_span(spans[i].ms, text, sizeof(text));
                assert_string_equal(text, spans[i].text);
        }
        assert_int_equal(clock_parse("2026-01-31T12:00:00Z"), INT64_C(1769860800000));
        assert_int_equal(clock_parse("2026-01-31T12:00:00Z, or so"), -1);
        assert_int_equal(clock_parse("soon"), -1);
        assert_int_equal(clock_parse(NULL), -1);
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

/* A pipe says nothing of its size; the bytes that are there already do not count. */
static void read_from_a_pipe(void **state) {
        static const struct {
                size_t written, limit;
                int result;
        } cases[] = {
                { 0, 10, 0 },  { 9, 10, 0 },        { 10, 10, 0 },       { 11, 10, 1 },
                { 500, 0, 1 }, { 65000, 65000, 0 }, { 65001, 65000, 1 },
        };
        static const char bytes[65001] = "first";

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf read STRBUF_CLEANUP = STRBUF_INIT;
                int ends[2];

                strbuf_append(&read, "before");
                assert_int_equal(pipe(ends), 0);
                assert_int_equal(descriptor_write(ends[1], bytes, cases[i].written), 0);
                close(ends[1]);
                assert_int_equal(descriptor_read(ends[0], cases[i].limit, &read), cases[i].result);
                close(ends[0]);
                if (cases[i].result == 0)
                        assert_int_equal(read.length, 6 + cases[i].written);
                assert_true(read.length <= 6 + cases[i].limit + 1);
                assert_memory_equal(read.data, "beforefirst", read.length < 11 ? read.length : 11);
                assert_int_equal(read.data[read.length], 0);
        }
        {
                struct strbuf limited STRBUF_CLEANUP = { .limit = 4 };

                assert_int_equal(descriptor_read(-1, 10, &limited), 1);
                assert_true(limited.overflow);
        }
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

static void long_lines_break_at_spaces(void **state) {
        static const struct {
                const char *text;
                int width, used;
                const char *wrapped;
        } cases[] = {
                { "", 10, 0, "" },
                { "one two", 10, 0, "one two" },
                { "one two", 7, 0, "one two" },
                { "one two", 6, 0, "one\n  two" },
                { "one two", 9, 3, "one\n  two" },
                { "one two three four", 11, 0, "one two\n  three\n  four" },
                { "unbreakable word", 4, 0, "unbreakable\n  word" },
                { "two  spaces", 40, 0, "two  spaces" },
                { "\xC3\xA4\xC3\xA4\xC3\xA4 \xC3\xA4", 5, 0, "\xC3\xA4\xC3\xA4\xC3\xA4 \xC3\xA4" },
                { "do this:\ncopy me whole, please", 9, 0, "do this:\n  copy me whole, please" },
                { "bell\a", 80, 0, "bell\\x07" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct strbuf wrapped STRBUF_CLEANUP = STRBUF_INIT;

                text_append_wrapped(&wrapped, cases[i].text, cases[i].width, cases[i].used, 2);
                assert_string_equal(strbuf_text(&wrapped), cases[i].wrapped);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(beginnings_and_endings),
                cmocka_unit_test(fields),
                cmocka_unit_test(nearest_names),
                cmocka_unit_test(long_lines_break_at_spaces),
                cmocka_unit_test(json_of_any_text),
                cmocka_unit_test(json_for_who_looks),
                cmocka_unit_test(read_from_a_pipe),
                cmocka_unit_test(utf8),
                cmocka_unit_test(beginnings),
                cmocka_unit_test(safe_text),
                cmocka_unit_test(log_lines),
                cmocka_unit_test(valid_text),
                cmocka_unit_test(words),
                cmocka_unit_test(digests),
                cmocka_unit_test(base64_is_read_by_the_letter),
                cmocka_unit_test(times_and_spans),
                cmocka_unit_test(files),
                cmocka_unit_test(joined_paths),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
