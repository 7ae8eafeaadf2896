/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/workspace_policy/workspace_expiry.h"

#include "providers/aws/shared/support.h"

#define DAY INT64_C(86400000)

#define FIELD "expireAfterDays"
#define ALL(rest) "{\"selector\":{\"all\":true}" rest "}"
#define SOME(names, rest) "{\"selector\":{\"environments\":[" names "]},\"environments\":[" names "]" rest "}"
#define RULES_FOR_ALL(rest) "{\"appliesTo\":\"all\",\"environments\":null" rest "}"
#define DAYS(days) ",\"" FIELD "\":" #days

/* Objects reached now and not before, of the environment "x", of "y", and of none. */
static void what_is_reached(void **state) {
        static const struct {
                const char *desired, *in_force;
                int64_t days;
                bool x, y, none;
        } cases[] = {
                /* new */
                { ALL(DAYS(7)), NULL, 7, true, true, true },
                { SOME("\"x\"", DAYS(7)), NULL, 7, true, false, false },
                { SOME("\"x\",\"y\"", DAYS(7)), NULL, 7, true, true, false },
                { SOME("", DAYS(7)), NULL, -1, false, false, false },
                { ALL(""), NULL, -1, false, false, false },
                { ALL(",\"noncurrentExpireAfterDays\":3"), NULL, -1, false, false, false },
                /* the rule is there, the expiry is new */
                { ALL(DAYS(7)), RULES_FOR_ALL(",\"expireAfterDays\":null"), 7, true, true, true },
                /* the same, longer, gone */
                { ALL(DAYS(7)), RULES_FOR_ALL(DAYS(7)), -1, false, false, false },
                { ALL(DAYS(8)), RULES_FOR_ALL(DAYS(7)), -1, false, false, false },
                { ALL(""), RULES_FOR_ALL(DAYS(7)), -1, false, false, false },
                { SOME("\"x\"", DAYS(7)), SOME("\"x\"", DAYS(7)), -1, false, false, false },
                /* shorter */
                { ALL(DAYS(6)), RULES_FOR_ALL(DAYS(7)), 6, true, true, true },
                { SOME("\"x\",\"y\"", DAYS(6)), SOME("\"x\"", DAYS(7)), 6, true, true, false },
                /* more environments, also where the others are kept longer */
                { SOME("\"x\",\"y\"", DAYS(7)), SOME("\"x\"", DAYS(7)), 7, false, true, false },
                { SOME("\"x\",\"y\"", DAYS(9)), SOME("\"x\"", DAYS(7)), 9, false, true, false },
                { ALL(DAYS(7)), SOME("\"x\"", DAYS(7)), 7, true, true, true },
                /* fewer */
                { SOME("\"x\"", DAYS(7)), SOME("\"x\",\"y\"", DAYS(7)), -1, false, false, false },
                { SOME("\"x\"", DAYS(7)), RULES_FOR_ALL(DAYS(7)), -1, false, false, false },
                { SOME("\"x\"", DAYS(7)), RULES_FOR_ALL(",\"environments\":[\"y\"]" DAYS(7)), -1, false,
                  false, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct workspace_expiry expiry = workspace_expiry_of(FIELD, value_of(cases[i].desired),
                                                                     value_of(cases[i].in_force), arena);

                if (expiry.days != cases[i].days || workspace_expiry_reaches(&expiry, "x") != cases[i].x ||
                    workspace_expiry_reaches(&expiry, "y") != cases[i].y ||
                    workspace_expiry_reaches(&expiry, NULL) != cases[i].none)
                        fail_msg("%s from %s", cases[i].desired,
                                 cases[i].in_force ? cases[i].in_force : "nothing");
        }
}

static void the_other_field(void **state) {
        struct workspace_expiry expiry =
                workspace_expiry_of("noncurrentExpireAfterDays",
                                    value_of(ALL(",\"noncurrentExpireAfterDays\":3" DAYS(7))), NULL, arena);

        (void)state;
        assert_int_equal(expiry.days, 3);
}

static void days_are_whole(void **state) {
        static const struct {
                int64_t days, age_ms;
                bool over;
        } cases[] = {
                { 1, DAY, true },        { 1, DAY - 1, false },      { 30, 30 * DAY, true },
                { 30, 29 * DAY, false }, { 36500, 40 * DAY, false }, { -1, 4000 * DAY, false },
                { 1, -DAY, false }, /* a clock that lags behind S3's */
        };
        const int64_t now = INT64_C(1800000000000);

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct workspace_expiry expiry = { .field = FIELD, .days = cases[i].days, .for_all = true };

                assert_int_equal(workspace_expiry_is_over(&expiry, now - cases[i].age_ms, now),
                                 cases[i].over);
        }
}

static void words(void **state) {
        static const struct {
                struct aged aged;
                bool noncurrent;
                const char *text;
        } cases[] = {
                { { 0 }, false, NULL },
                { { .count = 1, .bytes = 5, .oldest_ms = 31 * DAY },
                  false,
                  "1 object, 5 bytes, oldest 1970-02-01, is older than expireAfterDays: 30 already and would "
                  "expire" },
                { { .count = 3, .bytes = 1536, .oldest_ms = 0 },
                  false,
                  "3 objects, 1536 bytes, oldest 1970-01-01, are older than expireAfterDays: 30 already and "
                  "would expire (1.5 KiB)" },
                { { .count = 1000, .bytes = UINT64_C(5) << 50, .oldest_ms = 0, .more = true },
                  true,
                  "at least 1000 noncurrent versions, 5629499534213120 bytes, oldest 1970-01-01, are older "
                  "than expireAfterDays: 30 already and would expire (5.0 PiB)" },
                { { .more = true },
                  false,
                  "there may be objects older than expireAfterDays: 30: none was found, but there are more "
                  "than could be looked at" },
        };
        const struct workspace_expiry expiry = { .field = FIELD, .days = 30, .for_all = true };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const char *text =
                        workspace_expiry_describe(&cases[i].aged, &expiry, cases[i].noncurrent, arena);

                if (cases[i].text)
                        assert_string_equal(text, cases[i].text);
                else
                        assert_null(text);
        }
}

static void sums(void **state) {
        struct aged aged = { 0 };

        (void)state;
        workspace_expiry_add(&aged, 10, 7);
        workspace_expiry_add(&aged, 0, 5);
        workspace_expiry_add(&aged, 3, 6);
        assert_int_equal(aged.count, 3);
        assert_int_equal(aged.bytes, 13);
        assert_int_equal(aged.oldest_ms, 5);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_reached),
                cmocka_unit_test(the_other_field),
                cmocka_unit_test(days_are_whole),
                cmocka_unit_test(words),
                cmocka_unit_test(sums),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
