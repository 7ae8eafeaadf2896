/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/local/images/local_images.h"
#include "providers/local/local_environment.h"

#include "providers/local/support.h"

#define HEX "b36ae306c264bf9fb1bebce3c75ef3d0dad275bd1d943a4d8fa9d7b6a62cc682"
#define DIGEST "sha256:" HEX
#define ROOT "local/lab/images/roots/sha256/" HEX
#define SIZES "\"memoryMB\": 2048, \"workspaceStorageMB\": 512, \"timeoutSeconds\": 900"

static void write_record(struct place *place, const char *folder, const char *kind, const char *name,
                         const char *spec) {
        place_write(place, arena_printf(place->arena, "local/lab/%s/%s.json", folder, name),
                    arena_printf(place->arena,
                                 "{\"formatVersion\": \"1\", \"stack\": \"lab\", \"kind\": \"%s\", "
                                 "\"name\": \"%s\", \"spec\": {%s}}",
                                 kind, name, spec));
}

static int load(struct place *place, const char *name, struct local_environment *ret, struct error *err) {
        return local_environment_load(local_root(place->folder, "lab", place->arena), name, place->arena, ret,
                                      err);
}

static void index_images(struct place *place, const char *name) {
        place_write(place, "local/lab/images/index.json",
                    arena_printf(place->arena,
                                 "{\"formatVersion\": \"1\", \"images\": {\"%s\": \"" DIGEST "\"}}", name));
        place_path(place, ROOT "/x");
}

static void test_complete(void **state) {
        struct place *place = *state;
        struct local_environment environment;
        struct error err;

        write_record(place, "environments", "Environment", "etl",
                     SIZES ", \"image\": {\"prebuilt\": \"python\"}, \"reservedConcurrency\": 0, "
                           "\"tenantIsolation\": true, \"variables\": {\"PLAIN\": \"a\", "
                           "\"SECRET\": {\"value\": \"b\", \"sensitive\": true}}");
        assert_int_equal(load(place, "etl", &environment, &err), 0);
        assert_string_equal(environment.stack, "lab");
        assert_string_equal(environment.name, "etl");
        assert_null(environment.image_root);
        assert_null(environment.image_problem);
        assert_int_equal(environment.memory_mb, 2048);
        assert_int_equal(environment.storage_mb, 512);
        assert_int_equal(environment.timeout_s, 900);
        assert_int_equal(environment.reserved_concurrency, 0);
        assert_true(environment.tenant_isolation);
        assert_int_equal(environment.variable_count, 2);
        assert_string_equal(environment.variables[0].text, "a");
        assert_false(environment.variables[0].sensitive);
        assert_string_equal(environment.variables[1].name, "SECRET");
        assert_string_equal(environment.variables[1].text, "b");
        assert_true(environment.variables[1].sensitive);
        assert_string_equal(environment.workspaces,
                            arena_printf(place->arena, "%s/local/lab/workspaces", place->folder));
}

static void test_images(void **state) {
        struct place *place = *state;
        static const struct {
                const char *image;   /* of the record */
                const char *indexed; /* the name that the store has; NULL: it is empty */
                bool root;           /* an unpacked image is what runs */
                const char *problem; /* part of it; NULL: none */
        } rows[] = {
                { "\"prebuilt\": \"python\"", NULL, false, NULL },
                /* Imported since: until it is applied, the record holds. */
                { "\"prebuilt\": \"python\"", "prebuilt/python:latest", false, NULL },
                { "\"prebuilt\": \"python\", \"digest\": \"" DIGEST "\"", "prebuilt/python:latest", true,
                  NULL },
                { "\"prebuilt\": \"python\", \"digest\": \"" DIGEST "\"", NULL, false,
                  "not in the local store" },
                { "\"prebuilt\": \"node\"", NULL, false, "berth image import prebuilt/node:latest PATH" },
                { "\"repository\": \"a/b\", \"tag\": \"1\"", NULL, false, "berth image import a/b:1 PATH" },
                { "\"repository\": \"a/b\", \"tag\": \"1\"", "a/b:1", false, "run berth apply" },
                { "\"repository\": \"a/b\", \"tag\": \"1\", \"digest\": \"" DIGEST "\"", "a/b:1", true,
                  NULL },
                /* The digest counts, whatever the tag names now. */
                { "\"repository\": \"a/b\", \"tag\": \"2\", \"digest\": \"" DIGEST "\"", "a/b:1", true,
                  NULL },
                { "\"repository\": \"a/b\", \"digest\": \"sha256:../../../etc\"", "a/b:1", false,
                  "not in the local store" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct local_environment environment;
                struct error err;

                if (rows[i].indexed) {
                        index_images(place, rows[i].indexed);
                } else {
                        unlink(place_path(place, "local/lab/images/index.json"));
                        rmdir(place_path(place, ROOT));
                }
                write_record(place, "environments", "Environment", "etl",
                             arena_printf(place->arena, SIZES ", \"image\": {%s}", rows[i].image));
                assert_int_equal(load(place, "etl", &environment, &err), 0);
                assert_int_equal(environment.image_root != NULL, rows[i].root);
                assert_int_equal(environment.image_digest != NULL, rows[i].root);
                assert_int_equal(environment.image_problem != NULL, rows[i].problem != NULL);
                if (rows[i].problem && environment.image_problem &&
                    !strstr(environment.image_problem, rows[i].problem))
                        fail_msg("row %zu: %s", i, environment.image_problem);
        }
}

static void test_refused(void **state) {
        struct place *place = *state;
        static const struct {
                const char *name, *text, *error;
                enum error_kind kind;
        } rows[] = {
                { "none", NULL, "run berth apply", ERROR_NOT_FOUND },
                { "../../etc/passwd", NULL, "cannot be the name", ERROR_NOT_FOUND },
                { "", NULL, "cannot be the name", ERROR_NOT_FOUND },
                { "a.b", NULL, "cannot be the name", ERROR_NOT_FOUND },
                { "torn", "{\"formatVersion\": \"1\", \"st", "torn.json is damaged", ERROR_FAILED },
                { "bare", "{}", "does not belong to the stack lab", ERROR_FAILED },
                { "small",
                  "{\"formatVersion\": \"1\", \"stack\": \"lab\", \"kind\": \"Environment\", \"name\": "
                  "\"small\", \"spec\": {\"memoryMB\": -1}}",
                  "small.json has no valid memoryMB", ERROR_FAILED },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct local_environment environment;
                struct error err = { 0 };

                if (rows[i].text)
                        place_write(
                                place,
                                arena_printf(place->arena, "local/lab/environments/%s.json", rows[i].name),
                                rows[i].text);
                assert_int_equal(load(place, rows[i].name, &environment, &err), -1);
                assert_int_equal(err.kind, rows[i].kind);
                if (!strstr(err.message, rows[i].error))
                        fail_msg("row %zu: %s", i, err.message);
        }
}

static void test_damaged_index(void **state) {
        struct place *place = *state;
        static const char *const texts[] = { "", "[]", "{}", "{\"formatVersion\": \"2\", \"images\": {}}",
                                             "{\"images\"" };

        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
                const char *folder = arena_printf(place->arena, "%s/images", place->folder);
                struct local_images images;
                struct error err = { 0 };

                place_write(place, "images/index.json", texts[i]);
                assert_int_equal(local_images_open(folder, place->arena, &images, &err), -1);
                assert_non_null(strstr(err.message, "images/index.json"));
        }
}

static void test_agent(void **state) {
        struct place *place = *state;
        const char *root = local_root(place->folder, "lab", place->arena);
        struct local_agent agent;
        struct error err;

        write_record(place, "registry/agents", "Agent", "loader",
                     "\"type\": \"specialist\", \"environment\": \"etl\", \"active\": true, \"limits\": "
                     "{\"containers\": 4, \"onLimit\": \"reject\"}");
        write_record(place, "registry/agents", "Agent", "idle", "\"type\": \"general\", \"active\": false");
        assert_int_equal(local_agent_load(root, "loader", place->arena, &agent, &err), 0);
        assert_string_equal(agent.environment, "etl");
        assert_true(agent.specialist && agent.active && agent.reject);
        assert_int_equal(agent.containers, 4);
        assert_int_equal(agent.cpus, -1);
        assert_int_equal(local_agent_load(root, "idle", place->arena, &agent, &err), 0);
        assert_null(agent.environment);
        assert_false(agent.specialist || agent.active || agent.reject);
        assert_int_equal(local_agent_load(root, "nobody", place->arena, &agent, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

/* Sizes are multiplied to bytes and milliseconds: what no machine has is cut. */
static void test_sizes_without_end(void **state) {
        struct place *place = *state;
        const char *root = local_root(place->folder, "lab", place->arena);
        struct local_environment environment;
        struct local_agent agent;
        struct error err;

        write_record(place, "environments", "Environment", "huge",
                     "\"memoryMB\": 9223372036854775807, \"workspaceStorageMB\": 4294967296, "
                     "\"timeoutSeconds\": 2147483648, \"image\": {\"prebuilt\": \"python\"}");
        write_record(
                place, "registry/agents", "Agent", "huge",
                "\"type\": \"specialist\", \"limits\": {\"cpus\": 9223372036854775807, \"memoryMB\": 5}");
        assert_int_equal(load(place, "huge", &environment, &err), 0);
        assert_int_equal(environment.memory_mb, INT32_MAX);
        assert_int_equal(environment.storage_mb, INT32_MAX);
        assert_int_equal(environment.timeout_s, INT32_MAX);
        assert_int_equal(local_agent_load(root, "huge", place->arena, &agent, &err), 0);
        assert_int_equal(agent.cpus, INT32_MAX);
        assert_int_equal(agent.memory_mb, 5);
        assert_int_equal(agent.containers, -1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

int main(void) {
        const struct CMUnitTest tests[] = { TEST(test_complete), TEST(test_images),
                                            TEST(test_refused),  TEST(test_damaged_index),
                                            TEST(test_agent),    TEST(test_sizes_without_end) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
