/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/value.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t key[SHA256_SIZE] = "a key of thirty-two bytes......";
static const uint8_t other_key[SHA256_SIZE] = "another key of thirty-two bytes";

static void mark_sensitive(struct value *value) {
        if (value->type == VALUE_TEXT && value->text[0] == '!') {
                value->text++;
                value->count--;
                value->sensitive = true;
        }
        for (uint32_t i = 0; value->type == VALUE_LIST && i < value->count; i++)
                mark_sensitive(&value->items[i]);
        for (uint32_t i = 0; value->type == VALUE_MAP && i < value->count; i++)
                mark_sensitive(&value->members[i].value);
}

/* Values are written as JSON, with "!text" for a sensitive text. */
static struct value parse(struct arena *arena, const char *text) {
        json_t *json JSON_CLEANUP = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        struct value value;

        assert_non_null(json);
        value = value_from_json(arena, json);
        mark_sensitive(&value);
        return value;
}

static const struct {
        const char *a, *b;
        bool equal;
} pairs[] = {
        { "null", "\"\"", true },
        { "null", "[]", true },
        { "{}", "[]", true },
        { "{\"a\": null}", "{}", true },
        { "{\"a\": {\"b\": \"\"}}", "null", true },
        { "null", "false", false },
        { "null", "0", false },
        { "[null]", "[]", false },
        { "[null]", "[\"\"]", true },
        { "true", "true", true },
        { "true", "false", false },
        { "1", "1", true },
        { "1", "-1", false },
        { "1", "\"1\"", false },
        { "1", "true", false },
        { "\"a\"", "\"a\"", true },
        { "\"a\"", "\"b\"", false },
        { "\"a\"", "\"aa\"", false },
        { "[1, 2]", "[1, 2]", true },
        { "[1, 2]", "[2, 1]", false },
        { "[1, 2]", "[1]", false },
        { "{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1}", true },
        { "{\"a\": 1, \"b\": 2}", "{\"a\": 1}", false },
        { "{\"a\": 1}", "{\"a\": 1, \"b\": []}", true },
        { "{\"a\": 1}", "{\"b\": 1}", false },
        { "{\"ab\": \"c\"}", "{\"a\": \"bc\"}", false },
        { "\"!s\"", "\"!s\"", true },
        { "\"!s\"", "\"!t\"", false },
        { "\"!s\"", "\"s\"", false },
        { "\"!\"", "null", true },
        { "{\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8,\"9\":9,\"a\":1,\"b\":2,\"c\":3,\"d\":4,"
          "\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9}",
          "{\"i\":9,\"h\":8,\"g\":7,\"f\":6,\"e\":5,\"d\":4,\"c\":3,\"b\":2,\"a\":1,\"9\":9,\"8\":8,\"7\":7,\"6\":6,"
          "\"5\":5,\"4\":4,\"3\":3,\"2\":2,\"1\":1}",
          true },
};

static void equality(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct value a = parse(arena, pairs[i].a), b = parse(arena, pairs[i].b);
                uint8_t a_print[SHA256_SIZE], b_print[SHA256_SIZE];

                if (value_equal(&a, &b, key) != pairs[i].equal || value_equal(&b, &a, key) != pairs[i].equal)
                        fail_msg("%s and %s", pairs[i].a, pairs[i].b);
                /* Equal values have equal fingerprints; these unequal ones, different ones. */
                value_fingerprint(&a, key, a_print);
                value_fingerprint(&b, key, b_print);
                if ((memcmp(a_print, b_print, SHA256_SIZE) == 0) != pairs[i].equal)
                        fail_msg("fingerprints of %s and %s", pairs[i].a, pairs[i].b);
        }
}

/* Texts that are written differently differ, but for the order of a map's members. */
static void exact_fingerprints(void **state) {
        static const struct {
                const char *a, *b;
                bool equal;
        } exact[] = {
                { "{\"a\": 1, \"b\": \"\"}", "{\"b\": \"\", \"a\": 1}", true },
                { "{\"a\": 1, \"b\": \"\"}", "{\"a\": 1}", false },
                { "{\"a\": {\"b\": \"\"}}", "{\"a\": {}}", false },
                { "{\"a\": []}", "{\"a\": {}}", false },
                { "{\"a\": null}", "{\"a\": \"\"}", false },
                { "{\"a\": \"!\"}", "{\"a\": \"\"}", false },
                { "{\"a\": \"!s\"}", "{\"a\": \"!s\"}", true },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct value a = parse(arena, exact[i].a), b = parse(arena, exact[i].b);
                uint8_t a_print[SHA256_SIZE], b_print[SHA256_SIZE];

                value_fingerprint_exact(&a, key, a_print);
                value_fingerprint_exact(&b, key, b_print);
                if ((memcmp(a_print, b_print, SHA256_SIZE) == 0) != exact[i].equal)
                        fail_msg("exact fingerprints of %s and %s", exact[i].a, exact[i].b);
        }
}

static void equality_with_null(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct value empty = parse(arena, "{\"a\": [], \"b\": \"\"}"), full = parse(arena, "{\"a\": 0}");

        (void)state;
        assert_true(value_equal(NULL, NULL, NULL));
        assert_true(value_equal(&empty, NULL, NULL));
        assert_false(value_equal(NULL, &full, NULL));
}

/* The stored form of a secret is equal to the secret, under its key alone. */
static void secrets(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct value plain = parse(arena, "{\"a\": \"!hunter2\", \"b\": \"!\"}");
        json_t *stored JSON_CLEANUP = value_to_json(&plain, key),
                       *shown JSON_CLEANUP = value_to_json(&plain, NULL);
        struct value read = value_from_json(arena, stored);
        uint8_t before[SHA256_SIZE], after[SHA256_SIZE];
        char *text = json_compact(stored);

        (void)state;
        assert_null(strstr(text, "hunter2"));
        free(text);
        assert_true(json_is_null(json_object_get(shown, "a")));
        assert_int_equal(value_get(&read, "a")->type, VALUE_SECRET);
        assert_int_equal(strlen(value_get(&read, "a")->text), 64);
        assert_null(value_get_text(&read, "a"));
        assert_true(value_equal(&plain, &read, key));
        assert_true(value_equal(&read, &plain, key));
        assert_false(value_equal(&plain, &read, other_key));
        assert_false(value_equal(&plain, &read, NULL));
        value_fingerprint(&plain, key, before);
        value_fingerprint(&read, key, after);
        assert_memory_equal(before, after, SHA256_SIZE);
        value_fingerprint(&plain, other_key, after);
        assert_memory_not_equal(before, after, SHA256_SIZE);
}

static void json_round_trip(void **state) {
        static const char *const texts[] = {
                "null",
                "true",
                "-9223372036854775808",
                "9223372036854775807",
                "\"text with \\\"quotes\\\", \\u00e4\\u2028 and a NUL: \\u0000.\"",
                "[[], {}, [1, [2]], \"\", null]",
                "{\"a\": {\"b\": [true, {\"c\": \"d\"}]}}",
                "{\"$secret\": 1}",
                "{\"$\": \"dollar\", \"$$secret\": \"x\", \"a\": 1}",
                "{\"$x\": 1, \"$$x\": 2, \"$$$x\": 3}",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct value first = { 0 }, second;
                json_t *json JSON_CLEANUP = NULL, *again JSON_CLEANUP = NULL;

                first = parse(arena, texts[i]);
                json = value_to_json(&first, key);
                second = value_from_json(arena, json);
                again = value_to_json(&second, key);
                if (!json_equal(json, again) || !value_equal(&first, &second, key))
                        fail_msg("%s", texts[i]);
        }
}

/* A map that looks like a stored secret stays a map. */
static void dollar_names(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct value *map = value_new_map(arena);
        json_t *json JSON_CLEANUP = NULL;
        struct value read;

        (void)state;
        value_set_text(arena, map, "$secret", "not one");
        json = value_to_json(map, key);
        read = value_from_json(arena, json);
        assert_int_equal(read.type, VALUE_MAP);
        assert_string_equal(value_get_text(&read, "$secret"), "not one");
}

/* Names that differ in a dollar alone stay two; only what Berth never writes, "$x" beside "$$x", is one. */
static void dollars_apart(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct value *map = value_new_map(arena);
        json_t *json JSON_CLEANUP = NULL;
        struct value read;

        (void)state;
        value_set_integer(arena, map, "$x", 1);
        value_set_integer(arena, map, "$$x", 2);
        value_set_integer(arena, map, "$$$x", 3);
        value_set_integer(arena, map, "x", 4);
        json = value_to_json(map, key);
        read = value_from_json(arena, json);
        assert_true(value_equal(map, &read, key));
        assert_int_equal(read.count, 4);
        read = parse(arena, "{\"$x\": 1, \"$$x\": 2, \"$$$x\": 3}");
        assert_int_equal(read.count, 2);
        assert_int_equal(value_get_integer(&read, "$x", 0), 1);
        assert_int_equal(value_get_integer(&read, "$$x", 0), 3);
}

static void not_utf8(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct value value = value_text(arena, "a\xFFz");
        json_t *json JSON_CLEANUP = value_to_json(&value, NULL);

        (void)state;
        assert_string_equal(json_string_value(json), "a?z");
}

static void building(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct value *map = value_new_map(arena), *list = value_new_list(arena), copy;

        (void)state;
        for (int i = 0; i < 100; i++) {
                value_append(arena, list, value_integer(i));
                value_set(arena, map, arena_printf(arena, "name-%d", i), value_integer(i));
        }
        value_set_text(arena, map, "name-7", "replaced");
        value_set_text(arena, map, "absent", NULL);
        value_set_boolean(arena, map, "flag", true);
        assert_int_equal(map->count, 101);
        assert_string_equal(value_get_text(map, "name-7"), "replaced");
        assert_int_equal(value_get_integer(map, "name-99", -1), 99);
        assert_int_equal(value_get_integer(map, "name-7", -1), -1);
        assert_int_equal(value_get_integer(NULL, "x", -1), -1);
        assert_true(value_get_boolean(map, "flag", false));
        assert_true(value_get_boolean(map, "name-1", true));
        value_unset(map, "name-0");
        value_unset(map, "name-0");
        assert_null(value_get(map, "name-0"));
        assert_int_equal(map->count, 100);
        value_set(arena, map, "list", *list);

        copy = value_copy(arena, map);
        assert_true(value_equal(map, &copy, NULL));
        ((struct value *)value_get(&copy, "list"))->items[5] = value_integer(-5);
        value_set_integer(arena, &copy, "name-1", -1);
        assert_int_equal(value_get(map, "list")->items[5].integer, 5);
        assert_int_equal(value_get_integer(map, "name-1", 0), 1);
}

static void paths(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct value value =
                parse(arena, "{\"image\": {\"digest\": \"sha256:x\", \"a\": {\"b\": 1}}, \"im\": 2}");

        (void)state;
        assert_string_equal(value_text_of(value_path(&value, "image.digest")), "sha256:x");
        assert_int_equal(value_path(&value, "image.a.b")->integer, 1);
        assert_int_equal(value_path(&value, "im")->integer, 2);
        assert_null(value_path(&value, "image.digest.x"));
        assert_null(value_path(&value, "image.absent"));
        assert_null(value_path(&value, "imag.digest"));
        assert_null(value_path(NULL, "image"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(equality),           cmocka_unit_test(exact_fingerprints),
                cmocka_unit_test(equality_with_null), cmocka_unit_test(secrets),
                cmocka_unit_test(json_round_trip),    cmocka_unit_test(dollar_names),
                cmocka_unit_test(dollars_apart),      cmocka_unit_test(not_utf8),
                cmocka_unit_test(building),           cmocka_unit_test(paths),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
