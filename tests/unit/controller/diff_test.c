/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/diff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t key[SHA256_SIZE] = { 1, 2, 3 };

struct example {
        const char *what;
        const char *desired, *recorded, *observed; /* JSON, NULL for none */
        const char *changes;                       /* "path path", in order */
};

static const struct example examples[] = {
        { "all the same", "{\"a\":1}", "{\"a\":1}", "{\"a\":1}", "" },
        { "a new value", "{\"a\":2}", "{\"a\":1}", "{\"a\":1}", "a" },
        { "changed by somebody else", "{\"a\":1}", "{\"a\":1}", "{\"a\":9}", "a" },
        { "changed by both to the same", "{\"a\":2}", "{\"a\":1}", "{\"a\":2}", "" },
        { "never ours", "{}", "{}", "{\"a\":9}", "" },
        { "no longer set", "{}", "{\"a\":1}", "{\"a\":1}", "a" },
        { "no longer set, and gone already", "{}", "{\"a\":1}", "{}", "" },
        { "newly set to what it is", "{\"a\":1}", "{}", "{\"a\":1}", "" },
        { "nothing there", "{\"a\":1,\"b\":{\"c\":2}}", NULL, NULL, "a b.c" },
        { "empty and absent are alike", "{\"a\":\"\",\"b\":[],\"c\":{}}", NULL, "{}", "" },
        { "absent and empty are alike", "{}", "{\"a\":1}", "{\"a\":\"\"}", "" },
        { "one member of a map", "{\"m\":{\"x\":1,\"y\":2}}", "{\"m\":{\"x\":1,\"y\":2}}",
          "{\"m\":{\"x\":1,\"y\":3}}", "m.y" },
        { "somebody else's member", "{\"m\":{\"x\":1}}", "{\"m\":{\"x\":1}}", "{\"m\":{\"x\":1,\"z\":3}}",
          "" },
        { "our member of a map no longer set", "{\"m\":{\"x\":1}}", "{\"m\":{\"x\":1,\"y\":2}}",
          "{\"m\":{\"x\":1,\"y\":2,\"z\":3}}", "m.y" },
        { "a whole map no longer set", "{}", "{\"m\":{\"x\":1,\"y\":2}}", "{\"m\":{\"x\":1,\"y\":2,\"z\":3}}",
          "m.x m.y" },
        { "a map where there was none", "{\"m\":{\"x\":1}}", "{}", "{}", "m.x" },
        { "lists as a whole", "{\"l\":[1,2]}", "{\"l\":[1]}", "{\"l\":[1]}", "l" },
        { "the order of a map says nothing", "{\"m\":{\"x\":1,\"y\":2}}", NULL, "{\"m\":{\"y\":2,\"x\":1}}",
          "" },
        { "the order of a list does", "{\"l\":[1,2]}", NULL, "{\"l\":[2,1]}", "l" },
        { "types differ", "{\"a\":\"1\"}", NULL, "{\"a\":1}", "a" },
        { "only the record knows: same", "{\"local\":true}", "{\"local\":true}", "{}", "" },
        { "only the record knows: changed", "{\"local\":true}", "{\"local\":false}", "{}", "local" },
        { "only the record knows: a part of a map", "{\"i\":{\"tag\":\"2\",\"d\":\"x\"}}",
          "{\"i\":{\"tag\":\"1\",\"d\":\"x\"}}", "{\"i\":{\"d\":\"x\"}}", "i.tag" },
        { "an empty tag is a tag", "{\"tags\":{\"x\":\"\"}}", NULL, "{}", "tags.x" },
        { "an empty tag that is there", "{\"tags\":{\"x\":\"\"}}", "{\"tags\":{\"x\":\"\"}}",
          "{\"tags\":{\"x\":\"\"}}", "" },
        { "an empty tag to be taken away", "{}", "{\"tags\":{\"x\":\"\"}}", "{\"tags\":{\"x\":\"\"}}",
          "tags.x" },
        { "the last tag to be taken away, and it is empty", "{\"tags\":null}", "{\"tags\":{\"x\":\"\"}}",
          "{\"tags\":{\"x\":\"\"}}", "tags" },
        { "the first tag, and it is empty", "{\"tags\":{\"x\":\"\"}}", "{\"tags\":null}", "{\"tags\":null}",
          "tags.x" },
        { "no tags, said in three ways", "{\"tags\":{}}", "{\"tags\":null}", "{}", "" },
        { "an empty tag that only the record knows", "{\"local\":{\"tags\":{\"x\":\"\"}}}",
          "{\"local\":{\"tags\":{}}}", "{}", "local.tags.x" },
        { "an empty tag that only the record knows, taken away", "{\"local\":{}}",
          "{\"local\":{\"tags\":{\"x\":\"\"}}}", "{}", "local.tags.x" },
        { "sorted by path", "{\"b\":1,\"a\":1,\"c\":{\"a\":1}}", NULL, NULL, "a b c.a" },
};

static const struct value *parse(struct arena *arena, const char *text) {
        struct value *value;
        json_t *json;

        if (!text)
                return NULL;
        json = json_loads(text, 0, NULL);
        assert_non_null(json);
        value = arena_alloc(arena, sizeof(*value));
        *value = value_from_json(arena, json);
        json_decref(json);
        return value;
}

static void test_examples(void **state) {
        static const char *const recorded_only[] = { "local", "i.tag", NULL };
        static const char *const free_maps[] = { "tags", "local.tags", NULL };

        (void)state;
        for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                const struct example *example = &examples[i];
                struct diff_args args = {
                        .desired = parse(arena, example->desired),
                        .recorded = parse(arena, example->recorded),
                        .observed = parse(arena, example->observed),
                        .recorded_only = recorded_only,
                        .free_maps = free_maps,
                        .key = key,
                };
                struct field_change *changes;
                char found[256] = "";
                size_t count;

                diff_fields(&args, arena, &changes, &count);
                for (size_t k = 0; k < count; k++) {
                        if (k)
                                strcat(found, " ");
                        strcat(found, changes[k].path);
                }
                if (strcmp(found, example->changes) != 0)
                        fail_msg("%s: expected \"%s\", found \"%s\"", example->what, example->changes, found);
        }
}

/* A sensitive variable in the manifest against its keyed hash in the state. */
static void test_secrets(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct value *desired = value_new_map(arena), *variables = value_new_map(arena), recorded;
        struct value secret = value_text(arena, "hunter2");
        struct diff_args args = { .desired = desired, .key = key };
        struct field_change *changes;
        json_t *json;
        size_t count;

        (void)state;
        secret.sensitive = true;
        value_set(arena, variables, "TOKEN", secret);
        value_set(arena, desired, "variables", *variables);
        json = value_to_json(desired, key);
        recorded = value_from_json(arena, json);
        json_decref(json);
        args.observed = &recorded;
        diff_fields(&args, arena, &changes, &count);
        assert_int_equal(count, 0);

        args.key = (const uint8_t[SHA256_SIZE]){ 9 };
        diff_fields(&args, arena, &changes, &count);
        assert_int_equal(count, 1);
        assert_string_equal(changes[0].path, "variables.TOKEN");
        assert_true(changes[0].sensitive);
}

static void test_paths(void **state) {
        static const char *const paths[] = { "image", "a.b", NULL };

        (void)state;
        assert_true(diff_path_in("image", paths));
        assert_true(diff_path_in("image.tag", paths));
        assert_false(diff_path_in("imageTag", paths));
        assert_true(diff_path_in("a.b", paths));
        assert_false(diff_path_in("a", paths));
        assert_false(diff_path_in("a", NULL));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_examples),
                cmocka_unit_test(test_secrets),
                cmocka_unit_test(test_paths),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
