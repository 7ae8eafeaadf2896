/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy desires and what its changes cost; its rules have a test of their own. */
#include "providers/aws/workspace_policy/workspace_policy.h"

#include "providers/aws/shared/support.h"
#include "providers/aws/workspace_policy/workspace_rules.h"

static struct value *desire(const char *text) {
        json_t *json JSON_CLEANUP = json_loads(text, 0, NULL);
        struct value manifest = value_from_json(arena, json), *spec = NULL;
        const struct resource resource = { .kind = kinds[KIND_WORKSPACE_POLICY],
                                           .name = "p",
                                           .spec = &manifest };
        struct observation observed = { .name = "p" };
        struct error err;

        assert_int_equal(
                aws_workspace_policy_ops.desire(&team, &resource, &observed, NULL, arena, &spec, &err), 0);
        return spec;
}

#define SELECTED(names, rest) \
        "{\"selector\":{\"environments\":[" names "]},\"environments\":[" names "]," rest "}"

#define ALL(rest) "{\"selector\":{\"all\":true}," rest "}"

static void transitions_come_by_days(void **state) {
        const struct value *one = desire("{\"selector\":{\"all\":true},\"transitions\":["
                                         "{\"afterDays\":90,\"storageClass\":\"GLACIER\"},"
                                         "{\"afterDays\":30,\"storageClass\":\"STANDARD_IA\"}]}");
        const struct value *first = &value_get(one, "transitions")->items[0];

        (void)state;
        assert_int_equal(value_get_integer(first, "afterDays", 0), 30);
        assert_true(value_get_boolean(value_get(one, "selector"), "all", false));
}

static void only_the_state_knows_some(void **state) {
        const char *const *paths = aws_workspace_policy_ops.recorded_only;

        (void)state;
        assert_string_equal(paths[0], "selector");
        assert_string_equal(paths[1], "maxDownloadFileMB");
        assert_null(paths[2]);
}

/* What an observation notes of the rules that `spec` takes. */
static const struct value *rules_of(const struct value *spec) {
        struct value *extra = value_new_map(arena);

        value_set_integer(arena, extra, "rules", spec ? (int64_t)workspace_rules_count(spec) : 0);
        return extra;
}

/* Specs before (NULL: nothing there) and after (NULL: deleted), and the calls between them. */
static void changes_cost_what_they_write(void **state) {
        static const struct {
                const char *before, *after;
                unsigned calls;
        } cases[] = {
                { NULL, SELECTED("\"a\"", "\"expireAfterDays\":3"), 4 },
                { NULL, SELECTED("", "\"expireAfterDays\":3"), 0 },
                { SELECTED("\"a\"", "\"expireAfterDays\":3"), SELECTED("\"a\"", "\"expireAfterDays\":4"), 4 },
                { SELECTED("\"a\"", "\"expireAfterDays\":3"),
                  SELECTED("\"a\",\"b\"", "\"expireAfterDays\":3"), 4 },
                { SELECTED("\"a\"", "\"expireAfterDays\":3"),
                  SELECTED("\"a\"", "\"expireAfterDays\":3,\"maxDownloadFileMB\":5"), 0 },
                { SELECTED("\"a\"", "\"expireAfterDays\":3"),
                  "{\"selector\":{\"matchLabels\":{\"x\":\"y\"}},\"environments\":[\"a\"],\"expireAfterDays\":3}",
                  0 },
                { SELECTED("\"a\"", "\"expireAfterDays\":3"), NULL, 4 },
                { SELECTED("", "\"expireAfterDays\":3"), NULL, 0 },
                /* from all to none, and back */
                { ALL("\"expireAfterDays\":3"), SELECTED("", "\"expireAfterDays\":3"), 4 },
                { SELECTED("", "\"expireAfterDays\":3"), ALL("\"expireAfterDays\":3"), 4 },
                { ALL("\"maxDownloadFileMB\":3"), SELECTED("", "\"maxDownloadFileMB\":3"), 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const struct value *before = cases[i].before ? desire(cases[i].before) : NULL;
                struct observation observed = { .exists = before != NULL,
                                                .spec = before,
                                                .extra = rules_of(before) };
                struct change change = {
                        .action = cases[i].after ? ACTION_UPDATE : ACTION_DELETE,
                        .desired = cases[i].after ? desire(cases[i].after) : NULL,
                        .recorded = before,
                        .observed = &observed,
                };
                struct cost cost = { .arena = arena };

                aws_workspace_policy_ops.cost(&team, &change, &cost);
                if ((cost.count ? cost.calls[0].count : 0) != cases[i].calls)
                        fail_msg("case %zu", i);
        }
}

/* The record may say that there are no rules; what is in the bucket is what has to go. */
static void deletion_goes_by_the_bucket(void **state) {
        struct value *extra = value_new_map(arena);
        const struct value *none = desire(SELECTED("", "\"expireAfterDays\":3"));
        struct observation observed = { .exists = true, .spec = none, .extra = extra };
        struct change change = { .action = ACTION_DELETE, .recorded = none, .observed = &observed };
        struct cost one = { .arena = arena }, unknown = one;

        (void)state;
        aws_workspace_policy_ops.cost(&team, &change, &unknown);
        assert_int_equal(unknown.count, 1);
        value_set_integer(arena, extra, "rules", 1);
        aws_workspace_policy_ops.cost(&team, &change, &one);
        assert_int_equal(one.count, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(transitions_come_by_days),
                cmocka_unit_test(only_the_state_knows_some),
                cmocka_unit_test(changes_cost_what_they_write),
                cmocka_unit_test(deletion_goes_by_the_bucket),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
