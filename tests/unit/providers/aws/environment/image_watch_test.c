/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/environment/image_watch.h"

#include "providers/aws/shared/support.h"

/*
 * Watched tags in `repositories` repositories, `each` in each, and one that an environment needs.
 */
static size_t watch(size_t repositories, size_t each, bool full) {
        size_t count = repositories * each + 1;
        struct ecr_reference *references = arena_array(arena, count, sizeof(*references));
        size_t *whose = arena_array(arena, count, sizeof(*whose));

        references[0] = (struct ecr_reference){ .repository = "needed", .tag = "t" };
        for (size_t i = 1; i < count; i++) {
                references[i] = (struct ecr_reference){
                        .repository = arena_printf(arena, "r%zu", (i - 1) / each),
                        .tag = arena_printf(arena, "t%zu", (i - 1) % each),
                        .watched = true,
                };
                whose[i] = i;
        }
        count = image_watch_affordable(references, whose, count, full, arena);
        assert_string_equal(references[0].repository, "needed");
        assert_int_equal(whose[count - 1], count - 1);
        return count;
}

static void few_tags_are_watched(void **state) {
        (void)state;
        assert_int_equal(watch(5, 3, false), 16);
        assert_int_equal(watch(6, 1, false), 1);
        assert_int_equal(watch(6, 1, true), 7);
        assert_int_equal(watch(1, 500, false), 501);
        assert_int_equal(watch(1, 501, false), 1);
        assert_int_equal(watch(0, 1, false), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(few_tags_are_watched),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
