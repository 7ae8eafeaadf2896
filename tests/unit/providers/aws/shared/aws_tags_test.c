/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/aws_tags.h"

#include "providers/aws/shared/support.h"

static struct value *tags(const char *prefix, unsigned count) {
        struct value *map = value_new_map(arena);

        for (unsigned i = 0; i < count; i++)
                value_set_text(arena, map, arena_printf(arena, "%s%u", prefix, i), "x");
        return map;
}

static void add_all(struct value *map, const struct value *more) {
        for (uint32_t i = 0; i < more->count; i++)
                value_set(arena, map, more->members[i].name, more->members[i].value);
}

static void fifty_tags_fit(void **state) {
        struct value *there = tags("theirs", 45), *desired = tags("ours", 5);
        const char *said;

        (void)state;
        assert_null(aws_too_many_tags(there, desired, arena));
        assert_null(aws_too_many_tags(NULL, desired, arena));
        value_set_text(arena, there, "one more", "x");
        said = aws_too_many_tags(there, desired, arena);
        assert_non_null(said);
        assert_non_null(strstr(said, "it would carry 51"));
        assert_non_null(strstr(said, "46 there are not this stack's"));
        /* All are there already, even if they were counted wrong: nothing is put on it. */
        add_all(there, desired);
        assert_null(aws_too_many_tags(there, desired, arena));
        /* A tag of ours that is there counts once. */
        value_set_text(arena, desired, "new", "x");
        assert_non_null(aws_too_many_tags(there, desired, arena));
}

static void tags_of_aws_do_not_count(void **state) {
        struct value *there = tags("aws:", 40), *desired = tags("ours", 5);

        (void)state;
        add_all(there, tags("theirs", 45));
        assert_null(aws_too_many_tags(there, desired, arena));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(fifty_tags_fit),
                cmocka_unit_test(tags_of_aws_do_not_count),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
