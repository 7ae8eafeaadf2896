/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *bytes, size_t length, size_t repeat, struct arena *arena,
                  struct stream_result *ret) {
        struct output output OUTPUT_CLEANUP = { 0 };

        output_init(&output, true);
        for (size_t i = 0; i < repeat; i++)
                output_add(&output, bytes, length);
        output_finish(&output, arena, ret);
}

static void test_small(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct stream_result result;

        (void)state;
        check("abc", 3, 1, arena, &result);
        assert_int_equal(result.bytes_total, 3);
        assert_int_equal(result.bytes_returned, 3);
        assert_false(result.truncated);
        assert_true(result.utf8);
        assert_string_equal(result.content, "abc");
        assert_string_equal(result.sha256,
                            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check("", 0, 1, arena, &result);
        assert_int_equal(result.bytes_total, 0);
        assert_string_equal(result.sha256,
                            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/* Which text is cut, and where. */
static void test_whole_characters(void **state) {
        static const struct {
                const char *first;     /* once, so that the characters lie across the cap */
                const char *character; /* then this, until well over it */
                size_t returned;
                bool utf8;
        } cases[] = {
                { "", "a", STREAM_RETURNED_MAX, true },
                { "", "\xc3\xa9", STREAM_RETURNED_MAX, true },
                { "a", "\xc3\xa9", STREAM_RETURNED_MAX - 1, true },
                { "a", "\xe2\x82\xac", STREAM_RETURNED_MAX, true },
                { "", "\xe2\x82\xac", STREAM_RETURNED_MAX - 1, true },
                { "aa", "\xe2\x82\xac", STREAM_RETURNED_MAX - 2, true },
                { "a", "\xf0\x9f\x98\x80", STREAM_RETURNED_MAX - 3, true },
                { "", "\xff", STREAM_RETURNED_MAX, false },
                { "\xff", "\xc3\xa9", STREAM_RETURNED_MAX, false },
                { "", "\x80", STREAM_RETURNED_MAX, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct output output OUTPUT_CLEANUP = { 0 };
                struct stream_result result;

                output_init(&output, true);
                output_add(&output, cases[i].first, strlen(cases[i].first));
                while (output.total <= STREAM_RETURNED_MAX + 100)
                        output_add(&output, cases[i].character, strlen(cases[i].character));
                output_finish(&output, arena, &result);
                assert_int_equal(result.bytes_returned, cases[i].returned);
                assert_int_equal(result.utf8, cases[i].utf8);
                assert_true(result.truncated);
                assert_true(result.bytes_total > STREAM_RETURNED_MAX);
        }
}

/* Text that ends in half a character of its own accord is not text, and is not shortened. */
static void test_half_a_character(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct stream_result result;

        (void)state;
        check("a\xc3", 2, 1, arena, &result);
        assert_false(result.utf8);
        assert_int_equal(result.bytes_returned, 2);
        assert_false(result.truncated);
}

static void test_memory_is_bounded(void **state) {
        static char piece[65536];
        struct output output OUTPUT_CLEANUP = { 0 };

        (void)state;
        output_init(&output, true);
        for (int i = 0; i < 1000; i++)
                output_add(&output, piece, sizeof(piece));
        assert_int_equal(output.total, 65536000);
        assert_int_equal(output.kept.length, STREAM_RETURNED_MAX);
        assert_true(output.kept.capacity <= 2 * STREAM_RETURNED_MAX + 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_small),
                cmocka_unit_test(test_whole_characters),
                cmocka_unit_test(test_half_a_character),
                cmocka_unit_test(test_memory_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
