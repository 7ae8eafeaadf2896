/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/local/record.h"

#include "providers/local/support.h"

static struct record_place place_of(struct place *place) {
        return (struct record_place){ local_root(place->folder, "lab", place->arena), "lab", KIND_ENVIRONMENT,
                                      "etl" };
}

static void test_layout(void **state) {
        struct place *place = *state;
        static const struct {
                enum kind_id kind;
                const char *path;
        } rows[] = {
                { KIND_STACK, "stack.json" },
                { KIND_ENVIRONMENT, "environments/x.json" },
                { KIND_IMAGE, "registry/images/x.json" },
                { KIND_AGENT, "registry/agents/x.json" },
                { KIND_SWARM, "registry/swarms/x.json" },
                { KIND_WORKSPACE_POLICY, "policies/x.json" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
                assert_string_equal(local_record_name(rows[i].kind, "x", place->arena), rows[i].path);
        assert_null(local_record_folder(KIND_RESOURCE_RANGE));
}

static void test_places(void **state) {
        struct place *place = *state;
        static const struct {
                const char *folder, *stack, *images, *workspaces;
        } rows[] = {
                { "/a/.berth", "{}", "/a/.berth/local/lab/images", "/a/.berth/local/lab/workspaces" },
                { ".berth", "{}", ".berth/local/lab/images", ".berth/local/lab/workspaces" },
                { ".", "{}", "local/lab/images", "local/lab/workspaces" },
                { "/a/s", "{'images': '/srv/i', 'workspaces': 'w'}", "/srv/i", "/a/s/w" },
                { ".", "{'images': 'i', 'workspaces': '../w'}", "i", "../w" },
                { "/", "{'images': 'i'}", "/i", "/local/lab/workspaces" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                const char *root = local_root(rows[i].folder, "lab", place->arena);
                const struct value *stack = place_json(place, rows[i].stack);

                assert_string_equal(local_images_folder(root, stack, place->arena), rows[i].images);
                assert_string_equal(local_workspaces_folder(root, stack, place->arena), rows[i].workspaces);
        }
}

static void test_write_and_read(void **state) {
        struct place *place = *state;
        const struct record_place where = place_of(place);
        struct value *spec =
                place_json(place, "{'memoryMB': 2048, 'variables': {'PLAIN': 'a', 'SECRET': 'b'},"
                                  " 'description': null, 'image': {'prebuilt': 'python'}}");
        const struct value *variables = value_get(spec, "variables");
        struct local_record record;
        struct stat status;
        const char *text;
        struct error err;

        variables->members[1].value.sensitive = true;
        assert_int_equal(record_read(&where, place->arena, &record, &err), 0);
        assert_false(record.exists);
        text = record_text(&where, spec, place->arena);
        assert_null(strstr(text, "description"));
        assert_int_equal(record_write(&where, text, &err), 0);
        assert_int_equal(stat(record_path(&where, place->arena), &status), 0);
        assert_int_equal(status.st_mode & 07777, 0600);
        assert_int_equal(stat(where.root, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0700);

        assert_int_equal(record_read(&where, place->arena, &record, &err), 0);
        assert_true(record.exists);
        assert_int_equal(record.ownership, OWNER_SELF);
        assert_true(value_equal(record.spec, spec, NULL));
        assert_string_equal(value_get_text(value_get(record.spec, "variables"), "SECRET"), "b");
        assert_true(value_get(value_get(record.spec, "variables"), "SECRET")->sensitive);
        assert_false(value_get(value_get(record.spec, "variables"), "PLAIN")->sensitive);

        assert_int_equal(record_remove(&where, &err), 0);
        assert_int_equal(record_remove(&where, &err), 0);
        assert_int_equal(record_read(&where, place->arena, &record, &err), 0);
        assert_false(record.exists);
}

static void test_marks(void **state) {
        struct place *place = *state;
        const struct record_place where = place_of(place);
        static const struct {
                const char *text;
                enum ownership ownership;
                const char *owner;
                const char *error; /* part of the message; NULL: none */
        } rows[] = {
                { "{\"formatVersion\":\"1\",\"stack\":\"lab\",\"kind\":\"Environment\",\"name\":\"etl\",\"spec\":{}}",
                  OWNER_SELF, NULL, NULL },
                { "{\"formatVersion\":\"1\",\"stack\":\"other\",\"kind\":\"Environment\",\"name\":\"etl\",\"spec\":{}}",
                  OWNER_OTHER, "stack other", NULL },
                { "{\"formatVersion\":\"1\",\"stack\":\"lab\",\"kind\":\"Environment\",\"name\":\"geo\",\"spec\":{}}",
                  OWNER_OTHER, "Environment/geo (it is a copy of that record)", NULL },
                { "{\"formatVersion\":\"1\",\"stack\":\"lab\",\"kind\":\"Agent\",\"name\":\"etl\",\"spec\":{}}",
                  OWNER_OTHER, "Agent/etl (it is a copy of that record)", NULL },
                { "{}", OWNER_NONE, NULL, NULL },
                { "{\"memory\": 3}", OWNER_NONE, NULL, NULL },
                { "{\"formatVersion\":\"2\",\"stack\":\"lab\",\"kind\":\"Environment\",\"name\":\"etl\",\"spec\":{}}",
                  OWNER_NONE, NULL, "has format 2" },
                { "{\"formatVersion\":\"1\",\"stack\":\"lab\",\"kind\":\"Environment\",\"name\":\"etl\"}",
                  OWNER_NONE, NULL, "it has no spec" },
                { "{\"formatVersion\":\"1\",\"stack\":\"lab\",\"kind\":\"Environment\",\"name\":\"etl\",\"spec\":7}",
                  OWNER_NONE, NULL, "it has no spec" },
                { "", OWNER_NONE, NULL, "it is not JSON" },
                { "[]", OWNER_NONE, NULL, "it is not a JSON object" },
                { "{\"a\":1,\"a\":2}", OWNER_NONE, NULL, "it is not JSON" },
                { "{\"stack\":", OWNER_NONE, NULL, "it is not JSON" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct local_record record = { .path = "the/path" };
                struct error err = { 0 };
                int result =
                        record_parse(&where, rows[i].text, strlen(rows[i].text), place->arena, &record, &err);

                assert_int_equal(result, rows[i].error ? -1 : 0);
                if (rows[i].error) {
                        assert_non_null(strstr(err.message, rows[i].error));
                        assert_non_null(strstr(err.message, "the/path"));
                        continue;
                }
                assert_int_equal(record.ownership, rows[i].ownership);
                assert_true(record.owner == rows[i].owner ||
                            (record.owner && rows[i].owner && strcmp(record.owner, rows[i].owner) == 0));
                assert_non_null(record.spec);
        }
}

/* A link, FIFO or folder in a record's place is neither followed nor waited for. */
static void test_no_file(void **state) {
        struct place *place = *state;
        const struct record_place where = place_of(place);
        const char *path = place_path(place, "local/lab/environments/etl.json");
        const char *elsewhere = place_write(place, "elsewhere", "{}");
        struct local_record record;
        struct error err;

        assert_int_equal(symlink(elsewhere, path), 0);
        assert_int_equal(record_read(&where, place->arena, &record, &err), -1);
        assert_non_null(strstr(err.message, "is a link"));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(record_read(&where, place->arena, &record, &err), -1);
        assert_non_null(strstr(err.message, "is not a file"));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(record_read(&where, place->arena, &record, &err), -1);
        assert_non_null(strstr(err.message, path));
}

static void test_tidy(void **state) {
        struct place *place = *state;
        const struct record_place where = place_of(place);
        char mine[64];
        struct stat status;

        snprintf(mine, sizeof(mine), "local/lab/environments/b.json.%ld.new", (long)getpid());
        const char *own = place_write(place, mine, "x");
        const char *left = place_write(place, "local/lab/environments/a.json.99999999.new", "x");
        const char *record = place_write(place, "local/lab/environments/etl.json", "x");
        const char *other = place_write(place, "local/lab/environments/a.json.old.new", "x");

        record_tidy(where.root, KIND_ENVIRONMENT);
        record_tidy(where.root, KIND_AGENT);
        assert_int_equal(stat(left, &status), -1);
        assert_int_equal(stat(own, &status), 0);
        assert_int_equal(stat(record, &status), 0);
        assert_int_equal(stat(other, &status), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_layout), TEST(test_places),  TEST(test_write_and_read),
                TEST(test_marks),  TEST(test_no_file), TEST(test_tidy),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
