/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/state_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void folders_are_paths(void **unused) {
        static const char *const folders[] = { ".berth",      "/var/lib/berth", "a b",
                                               "./s3:",       "./gs://x",       "x:y",
                                               "2:/x",        "/s3://b/p",      "-",
                                               "\xc3\xa9:/x", "team/s3:/x",     "s4:x" };
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)unused;
        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
                struct state_place place;
                struct error err;

                assert_int_equal(state_place_parse(folders[i], arena, &place, &err), 0);
                assert_int_equal(place.type, STATE_PLACE_FOLDER);
                assert_string_equal(place.folder, folders[i]);
                assert_string_equal(place.text, folders[i]);
                assert_null(place.bucket);
                assert_null(place.prefix);
        }
}

static void places_in_s3(void **unused) {
        static const struct {
                const char *text, *bucket, *prefix, *again;
        } cases[] = {
                { "s3://states/research", "states", "research", "s3://states/research" },
                { "s3://states/research/", "states", "research", "s3://states/research" },
                { "s3://a.b-c.9/team=x/env_1/v1.2-3", "a.b-c.9", "team=x/env_1/v1.2-3",
                  "s3://a.b-c.9/team=x/env_1/v1.2-3" },
                { "s3://abc/...", "abc", "...", "s3://abc/..." },
        };
        struct arena *arena ARENA_CLEANUP = arena_new();

        (void)unused;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct state_place place;
                struct error err;

                assert_int_equal(state_place_parse(cases[i].text, arena, &place, &err), 0);
                assert_int_equal(place.type, STATE_PLACE_S3);
                assert_string_equal(place.bucket, cases[i].bucket);
                assert_string_equal(place.prefix, cases[i].prefix);
                assert_string_equal(place.text, cases[i].again);
                assert_null(place.folder);
        }
}

/* A prefix of that many letters. */
static const char *long_place(struct arena *arena, size_t length) {
        char *letters = arena_alloc(arena, length + 1);

        memset(letters, 'p', length);
        letters[length] = '\0';
        return arena_printf(arena, "s3://states/%s", letters);
}

static void what_is_no_place(void **unused) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct {
                const char *text, *says;
        } cases[] = {
                { "", "must not be empty" },
                { "gs://bucket/x", "no state in gs" },
                { "S3://bucket/x", "no state in S3" },
                { "file:///var/berth", "no state in file" },
                { "https://bucket.s3.amazonaws.com/x", "no state in https" },
                { "s3+x:", "./s3+x:" },
                { "s3:", "two slashes" },
                { "s3:bucket/x", "two slashes" },
                { "s3:/bucket/x", "two slashes" },
                { "s3://", "3 to 63" },
                { "s3:///x", "3 to 63" },
                { "s3://ab/x", "3 to 63" },
                { "s3://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/x", "3 to 63" },
                { "s3://States/x", "lower-case" },
                { "s3://sta_tes/x", "lower-case" },
                { "s3://key:secret@states/x", "lower-case" },
                { "s3://-states/x", "begins and ends" },
                { "s3://states./x", "begins and ends" },
                { "s3://sta..tes/x", "two dots" },
                { "s3://10.0.0.1/x", "IP address" },
                { "s3://xn--states/x", "keeps names" },
                { "s3://states--x-s3/x", "general purpose" },
                { "s3://states", "prefix is missing" },
                { "s3://states/", "prefix is missing" },
                { "s3://states//", "prefix is missing" },
                { "s3://states/a//b", "side by side" },
                { "s3://states/a/b//", "side by side" },
                { "s3://states/../b", "no part" },
                { "s3://states/a/.", "no part" },
                { "s3://states/a b", "letters, digits" },
                { "s3://states/a?versionId=1", "letters, digits" },
                { "s3://states/\xc3\xa9", "letters, digits" },
                { "s3://states/a\nb", "letters, digits" },
                { long_place(arena, STATE_PLACE_PREFIX_MAX + 1), "512 characters" },
        };
        struct state_place longest;
        struct error err;

        (void)unused;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct state_place place = { .text = "untouched" };

                if (state_place_parse(cases[i].text, arena, &place, &err) == 0)
                        fail_msg("%s is taken", cases[i].text);
                if (!strstr(err.message, cases[i].says))
                        fail_msg("%s: %s", cases[i].text, err.message);
                assert_string_equal(place.text, "untouched");
        }
        assert_int_equal(state_place_parse(long_place(arena, STATE_PLACE_PREFIX_MAX), arena, &longest, &err),
                         0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(folders_are_paths),
                cmocka_unit_test(places_in_s3),
                cmocka_unit_test(what_is_no_place),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
