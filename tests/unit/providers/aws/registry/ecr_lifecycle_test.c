/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/registry/ecr_lifecycle.h"

#include "providers/aws/shared/support.h"

#define DAY INT64_C(86400000)
#define NEVER ECR_NEVER

struct push {
        int64_t day; /* pushed; -1: none */
        size_t tags;
        int64_t expires; /* in days where untagged, 0 for at once, NEVER */
};

static const struct {
        const char *name;
        int64_t untagged, last; /* 0: no such rule */
        struct push pushes[5];
} cases[] = {
        { "no rule", 0, 0, { { 1, 0, NEVER }, { 2, 1, NEVER }, { -1, 0, 0 } } },
        { "untagged ones only", 14, 0, { { 1, 0, 15 }, { 2, 1, NEVER }, { 40, 0, 54 }, { -1, 0, 0 } } },
        { "the last ones stay, in any order",
          0,
          2,
          { { 5, 1, NEVER }, { 3, 1, 0 }, { 9, 3, NEVER }, { 4, 1, 0 }, { 1, 0, NEVER } } },
        { "as many as there are", 0, 2, { { 5, 1, NEVER }, { 3, 1, NEVER }, { -1, 0, 0 } } },
        { "untagged ones do not count among the last",
          0,
          1,
          { { 9, 0, NEVER }, { 5, 1, NEVER }, { -1, 0, 0 } } },
        { "both", 1, 1, { { 9, 0, 10 }, { 5, 1, NEVER }, { 4, 1, 0 }, { 3, 0, 4 }, { -1, 0, 0 } } },
        { "pushed at once: either may go", 0, 1, { { 5, 1, 0 }, { 5, 1, 0 }, { -1, 0, 0 } } },
        { "pushed at once, and both stay",
          0,
          2,
          { { 5, 1, NEVER }, { 5, 1, NEVER }, { 4, 1, 0 }, { -1, 0, 0 } } },
        { "more days than there are", INT64_MAX, 0, { { 1, 0, NEVER }, { 40000, 0, NEVER }, { -1, 0, 0 } } },
        { "nothing there", 1, 1, { { -1, 0, 0 } } },
};

static void rules_are_evaluated(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct value *retain = value_new_map(arena);
                struct ecr_image images[5] = { 0 };
                size_t count = 0;

                print_message("  %s\n", cases[i].name);
                if (cases[i].untagged)
                        value_set_integer(arena, retain, "untaggedDays", cases[i].untagged);
                if (cases[i].last)
                        value_set_integer(arena, retain, "lastTagged", cases[i].last);
                for (; count < 5 && cases[i].pushes[count].day >= 0; count++) {
                        images[count].pushed_ms = cases[i].pushes[count].day * DAY;
                        images[count].tag_count = cases[i].pushes[count].tags;
                }
                ecr_lifecycle_evaluate(retain, images, count, arena);
                for (size_t k = 0; k < count; k++) {
                        int64_t expires = cases[i].pushes[k].expires;

                        assert_int_equal(images[k].expires_ms, expires == NEVER ? NEVER : expires * DAY);
                }
        }
}

static void no_policy_lets_all_stay(void **state) {
        struct ecr_image image = { .expires_ms = 5 };

        (void)state;
        ecr_lifecycle_evaluate(NULL, &image, 1, arena);
        assert_int_equal(image.expires_ms, NEVER);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rules_are_evaluated),
                cmocka_unit_test(no_policy_lets_all_stay),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
