/* SPDX-License-Identifier: Apache-2.0 */
/* What good manifests come to: defaults, images, selectors, missing references, order, look-ups. */
#include "support.h"

#include "base/json.h"

#define HEAD(kind, name) "apiVersion: berth/v1\nkind: " kind "\nmetadata: {name: " name "}\nspec:\n"
#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* A resource of one file, and its spec as JSON. */
static const struct {
        const char *yaml, *address, *spec;
} specs[] = {
        { HEAD("Environment", "x") "  image: {prebuilt: python}\n", "Environment/x",
          "{\"image\":{\"prebuilt\":\"python\"},\"memoryMB\":2048,\"protect\":false,"
          "\"timeoutSeconds\":900,\"workspaceStorageMB\":512}" },
        { HEAD("Environment",
               "x") "  image: {repository: a/b, tag: 1.10}\n  memoryMB: 0x1000\n  protect: true\n"
                    "  variables: {NO: no, N1: 0x10, EMPTY: '', HASH: {value: s, sensitive: true}}\n",
          "Environment/x",
          "{\"image\":{\"follow\":\"pin\",\"repository\":\"a/b\",\"tag\":\"1.10\"},\"memoryMB\":4096,\"protect\":true,"
          "\"timeoutSeconds\":900,\"variables\":{\"EMPTY\":\"\",\"HASH\":null,\"N1\":\"0x10\","
          "\"NO\":\"no\"},\"workspaceStorageMB\":512}" },
        { HEAD("Environment", "x") "  image: i\n---\n" HEAD("Image",
                                                            "i") "  repository: a/b\n  tag: 2025.10\n",
          "Environment/x",
          "{\"image\":{\"follow\":\"pin\",\"image\":\"i\",\"repository\":\"a/b\",\"tag\":\"2025.10\"},\"memoryMB\":2048,"
          "\"protect\":false,\"timeoutSeconds\":900,\"workspaceStorageMB\":512}" },
        { HEAD("Environment", "x") "  image: i\n---\n" HEAD("Image",
                                                            "i") "  repository: a/b\n  digest: " DIGEST "\n",
          "Environment/x",
          "{\"image\":{\"digest\":\"" DIGEST "\",\"image\":\"i\",\"repository\":\"a/b\"},\"memoryMB\":2048,"
          "\"protect\":false,\"timeoutSeconds\":900,\"workspaceStorageMB\":512}" },
        { HEAD("Image", "i") "  repository: a/b\n  tag: 2025.10\n", "Image/i",
          "{\"createRepository\":false,\"repository\":\"a/b\",\"tag\":\"2025.10\"}" },
        { HEAD("Agent", "a"), "Agent/a", "{\"active\":true,\"type\":\"general\"}" },
        { HEAD("Agent", "a") "  limits: {cpus: 2}\n", "Agent/a",
          "{\"active\":true,\"limits\":{\"cpus\":2,\"onLimit\":\"queue\"},\"type\":\"general\"}" },
        { HEAD("Stack", "s"), "Stack/s", "{\"provider\":\"local\"}" },
        { HEAD("Stack", "s") "  provider: aws\n", "Stack/s",
          "{\"aws\":{\"createBucket\":true,\"namePrefix\":\"alphaagent\"},\"provider\":\"aws\"}" },
        { HEAD("Stack", "s") "  provider: aws\n  aws: {account: 012345678901}\n", "Stack/s",
          "{\"aws\":{\"account\":\"012345678901\",\"createBucket\":true,\"namePrefix\":\"alphaagent\"},"
          "\"provider\":\"aws\"}" },
        { HEAD("WorkspacePolicy", "p") "  selector: {all: true}\n  expireAfterDays: 3\n", "WorkspacePolicy/p",
          "{\"expireAfterDays\":3,\"maxDownloadFileMB\":25,\"selector\":{\"all\":true}}" },
        { HEAD("WorkspacePolicy", "p") "  selector: {environments: [z, b]}\n  expireAfterDays: 3\n---\n" HEAD(
                  "Environment",
                  "b") "  image: {prebuilt: python}\n---\n" HEAD("Environment",
                                                                 "z") "  image: {prebuilt: python}\n",
          "WorkspacePolicy/p",
          "{\"environments\":[\"b\",\"z\"],\"expireAfterDays\":3,\"maxDownloadFileMB\":25,"
          "\"selector\":{\"environments\":[\"z\",\"b\"]}}" },
        { "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: b, labels: {t: x, u: y}}\nspec: {image: {prebuilt: "
          "p}}\n---\n"
          "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: a, labels: {t: x}}\nspec: {image: {prebuilt: p}}\n"
          "---\n"
          "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: c, labels: {t: z}}\nspec: {image: {prebuilt: p}}\n"
          "---\n" HEAD("WorkspacePolicy", "p") "  selector: {matchLabels: {t: x}}\n  expireAfterDays: 3\n",
          "WorkspacePolicy/p",
          "{\"environments\":[\"a\",\"b\"],\"expireAfterDays\":3,\"maxDownloadFileMB\":25,"
          "\"selector\":{\"matchLabels\":{\"t\":\"x\"}}}" },
};

static const struct resource *find(const struct manifests *manifests, const char *address) {
        const struct kind *kind;
        const char *name;
        struct error err;

        assert_int_equal(address_parse(address, &kind, &name, &err), 0);
        return manifests_find(manifests, kind->id, name);
}

static void complete_specs(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
                struct loaded loaded;
                const struct resource *resource;
                json_t *json;
                char *text;

                loaded_begin(&loaded);
                loaded_write(&loaded, "m.yaml", specs[i].yaml);
                loaded_load(&loaded, "m.yaml", NULL);
                assert_string_equal(strbuf_text(&loaded.said), "");
                assert_int_equal(loaded.result, 0);
                resource = find(&loaded.manifests, specs[i].address);
                assert_non_null(resource);
                assert_string_equal(resource->address, specs[i].address);
                json = value_to_json(resource->spec, NULL);
                text = json_compact(json);
                assert_string_equal(text, specs[i].spec);
                free(text);
                json_decref(json);
                loaded_end(&loaded);
        }
}

static void sensitive_variables(void **state) {
        struct loaded loaded;
        const struct value *variables;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml",
                     HEAD("Environment",
                          "x") "  image: {prebuilt: python}\n"
                               "  variables: {AA: {value: s, sensitive: true}, BB: {value: t}, CC: u}\n");
        loaded_load(&loaded, "m.yaml", NULL);
        variables = value_get(find(&loaded.manifests, "Environment/x")->spec, "variables");
        assert_true(value_get(variables, "AA")->sensitive);
        assert_string_equal(value_get_text(variables, "AA"), "s");
        assert_false(value_get(variables, "BB")->sensitive);
        assert_false(value_get(variables, "CC")->sensitive);
        loaded_end(&loaded);
}

static void positions(void **state) {
        struct loaded loaded;
        const struct resource *resource;
        const struct value *memory;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "a.yaml", HEAD("Agent", "a"));
        loaded_write(&loaded, "b.yaml",
                     "\n---\n" HEAD("Environment", "x") "  image: {prebuilt: p}\n  memoryMB: 4000\n");
        loaded_load(&loaded, "", NULL);
        resource = find(&loaded.manifests, "Environment/x");
        memory = value_get(resource->spec, "memoryMB");
        assert_int_equal(resource->line, 3);
        assert_int_equal(resource->column, 1);
        assert_int_equal(memory->line, 8);
        assert_int_equal(memory->column, 13);
        assert_int_equal(memory->file, 1);
        assert_int_equal(loaded.manifests.file_count, 2);
        assert_non_null(strstr(loaded.manifests.files[resource->file], "b.yaml"));
        assert_int_equal(value_get(resource->spec, "protect")->line, 0);
        loaded_end(&loaded);
}

/* By kind, then by name, whatever the order in the files. */
static void order(void **state) {
        static const char *const addresses[] = { "Stack/s",       "ResourceRange/r", "Image/i",
                                                 "Environment/a", "Environment/b",   "Agent/a",
                                                 "Agent/b",       "Swarm/s" };
        struct loaded loaded;
        const struct resource *agents;
        size_t count;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(
                &loaded, "m.yaml",
                HEAD("Swarm", "s") "  agents: [a]\n---\n" HEAD("Agent", "b") "---\n" HEAD("Environment", "b") "  image: {prebuilt: p}\n---\n" HEAD("ResourceRange", "r") "  selector: {matchLabels: {}}\n  memoryMB: {min: 2048}\n---\n" HEAD(
                        "Agent",
                        "a") "---\n" HEAD("Stack",
                                          "s") "---\n" HEAD("Environment",
                                                            "a") "  image: i\n---\n" HEAD("Image",
                                                                                          "i") "  repository: a/b\n  tag: c\n");
        loaded_load(&loaded, "m.yaml", NULL);
        assert_string_equal(strbuf_text(&loaded.said), "");
        assert_int_equal(loaded.manifests.count, 8);
        for (size_t i = 0; i < 8; i++)
                assert_string_equal(loaded.manifests.resources[i].address, addresses[i]);
        agents = manifests_of_kind(&loaded.manifests, KIND_AGENT, &count);
        assert_int_equal(count, 2);
        assert_string_equal(agents[1].name, "b");
        manifests_of_kind(&loaded.manifests, KIND_WORKSPACE_POLICY, &count);
        assert_int_equal(count, 0);
        assert_null(manifests_find(&loaded.manifests, KIND_AGENT, "c"));
        assert_null(manifests_find(&loaded.manifests, KIND_SWARM, "a"));
        assert_ptr_equal(loaded.manifests.stack, &loaded.manifests.resources[0]);
        loaded_end(&loaded);
}

static void no_stack(void **state) {
        static const struct load_options aws = { .provider = "aws" };
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml", HEAD("Agent", "a"));
        loaded_load(&loaded, "m.yaml", NULL);
        assert_string_equal(loaded.manifests.stack->address, "Stack/default");
        assert_string_equal(value_get_text(loaded.manifests.stack->spec, "provider"), "local");
        assert_null(manifests_find(&loaded.manifests, KIND_STACK, "default"));
        loaded_load(&loaded, "m.yaml", &aws);
        assert_string_equal(value_get_text(loaded.manifests.stack->spec, "provider"), "aws");
        assert_string_equal(value_text_of(value_path(loaded.manifests.stack->spec, "aws.namePrefix")),
                            "alphaagent");
        loaded_end(&loaded);
}

static void provider_override(void **state) {
        static const struct load_options local = { .provider = "local" }, unknown = { .provider = "azure" };
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml", HEAD("Stack", "s") "  provider: aws\n");
        loaded_load(&loaded, "m.yaml", &local);
        assert_string_equal(value_get_text(loaded.manifests.stack->spec, "provider"), "local");
        loaded_load(&loaded, "m.yaml", &unknown);
        assert_int_equal(loaded.result, -1);
        assert_int_equal(loaded.err.kind, ERROR_FAILED);
        assert_non_null(strstr(loaded.err.message, "azure"));
        loaded_end(&loaded);
}

/*
 * Only where no later check would find it missing, and only names near to a name that Berth knows.
 */
static void names_that_look_mistyped(void **state) {
        static const struct {
                struct load_options options;
                const char *says;
        } cases[] = {
                { { .offline = true },
                  "m.yaml:5:21: warning: image.prebuilt: Berth makes none of the name \"pyhton\" [did you mean python?]\n" },
                { { .offline = false }, "" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct loaded loaded;

                loaded_begin(&loaded);
                loaded_write(
                        &loaded, "m.yaml",
                        HEAD("Environment", "a") "  image: {prebuilt: pyhton}\n---\n" HEAD(
                                "Environment",
                                "b") "  image: {prebuilt: node}\n---\n" HEAD("Environment",
                                                                             "c") "  image: {prebuilt: python}\n");
                loaded_load(&loaded, "m.yaml", &cases[i].options);
                assert_int_equal(loaded.result, 0);
                assert_string_equal(strbuf_text(&loaded.said), cases[i].says);
                loaded_end(&loaded);
        }
}

static void missing_environments(void **state) {
        static const struct load_options gather = { .missing_environments = true };
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(
                &loaded, "m.yaml",
                HEAD("Agent", "a") "  environment: gone\n---\n" HEAD("Swarm", "s") "  agents: [a]\n  environment: gone\n---\n" HEAD(
                        "WorkspacePolicy",
                        "p") "  selector: {environments: [gone, lost]}\n  expireAfterDays: 3\n");
        loaded_load(&loaded, "m.yaml", &gather);
        assert_int_equal(loaded.result, 0);
        assert_string_equal(strbuf_text(&loaded.said), "");
        assert_int_equal(loaded.manifests.missing_count, 4);
        assert_string_equal(loaded.manifests.missing[0].dependent, "WorkspacePolicy/p");
        assert_string_equal(loaded.manifests.missing[1].environment, "lost");
        assert_string_equal(loaded.manifests.missing[2].dependent, "Agent/a");
        assert_string_equal(loaded.manifests.missing[2].environment, "gone");
        assert_int_equal(loaded.manifests.missing[2].diagnostic.line, 5);
        assert_int_equal(loaded.manifests.missing[2].diagnostic.column, 16);
        assert_non_null(loaded.manifests.missing[2].diagnostic.source_line);
        assert_string_equal(loaded.manifests.missing[3].dependent, "Swarm/s");
        loaded_end(&loaded);
}

/* Ranges: {labels t: x} for the environment; what two ranges say; what the environment says; what comes of it. */
static const struct {
        const char *first, *second, *environment;
        int64_t memory;
        const char *said;
} ranges[] = {
        { "memoryMB: {min: 3000, max: 5000, default: 4000}", NULL, "", 4000, "" },
        { "memoryMB: {min: 3000, max: 5000}", NULL, "", 3000, "" },
        { "memoryMB: {min: 1769, max: 5000}", NULL, "", 2048, "" },
        { "memoryMB: {max: 2000}", NULL, "", 1769, "" },
        { "memoryMB: {default: 3000}", NULL, "memoryMB: 4000", 4000, "" },
        { "memoryMB: {min: 2000, max: 4000}", "memoryMB: {min: 3000, max: 5000}", "", 3000, "" },
        { "memoryMB: {min: 2000, default: 3500}", "memoryMB: {max: 5000, default: 3500}", "", 3500, "" },
        { "memoryMB: {min: 3000}", NULL, "memoryMB: 2048", 0,
          "m.yaml:6:13: memoryMB must be 3000 to 10240, found 2048: so says ResourceRange/a (FOLDER/m.yaml:14:19)\n" },
        { "memoryMB: {max: 3000}", NULL, "memoryMB: 3001", 0,
          "m.yaml:6:13: memoryMB must be 1769 to 3000, found 3001: so says ResourceRange/a (FOLDER/m.yaml:14:19)\n" },
        { "memoryMB: {max: 4000}", "memoryMB: {max: 3000}", "memoryMB: 3500", 0,
          "m.yaml:6:13: memoryMB must be 1769 to 3000, found 3500: so says ResourceRange/b (FOLDER/m.yaml:20:19)\n" },
        { "memoryMB: {max: 3000}", "memoryMB: {min: 4000}", "", 0,
          "m.yaml:14:19: no memoryMB is left for Environment/x: 3000 at most here, 4000 at least in ResourceRange/b "
          "(FOLDER/m.yaml:20:19)\n" },
        { "memoryMB: {default: 3000}", "memoryMB: {default: 4000}", "memoryMB: 2048", 0,
          "m.yaml:20:23: memoryMB.default is 4000 here and 3000 in ResourceRange/a (FOLDER/m.yaml:14:23) [ranges that "
          "match the same environment must agree on the default]\n" },
        { "memoryMB: {default: 3000}", "memoryMB: {min: 4000}", "", 0,
          "m.yaml:14:23: memoryMB.default is 3000, ResourceRange/b leaves 4000 to 10240\n" },
        { "memoryMB: {min: 4000, max: 3000}", NULL, "", 0,
          "m.yaml:14:30: memoryMB.max is 3000, less than min, 4000\n" },
        { "memoryMB: {min: 3000, default: 2000}", NULL, "memoryMB: 3000", 0,
          "m.yaml:14:34: memoryMB.default is 2000, less than min, 3000\n" },
        { "memoryMB: {min: 1000}", NULL, "", 0,
          "m.yaml:14:19: memoryMB.min must be 1769 to 10240, found 1000\n" },
        { "workspaceStorageMB: {min: 600}", NULL, "", 2048, "" },
        { "memoryMB: {}", NULL, "", 0, "m.yaml:14:3: memoryMB needs at least one of min, max or default\n" },
};

static void write_range(struct strbuf *text, const char *name, const char *field) {
        strbuf_printf(
                text,
                "\n---\napiVersion: berth/v1\nkind: ResourceRange\nmetadata: {name: %s}\nspec: {selector: "
                "{matchLabels: {t: x}},\n  %s}",
                name, field);
}

static void resource_ranges(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                struct loaded loaded;

                strbuf_printf(
                        &text,
                        "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: x, labels: {t: x}}\nspec:\n"
                        "  image: {prebuilt: p}\n  %s\n---\n# nothing",
                        ranges[i].environment);
                write_range(&text, "a", ranges[i].first);
                if (ranges[i].second)
                        write_range(&text, "b", ranges[i].second);
                loaded_begin(&loaded);
                loaded_write(&loaded, "m.yaml", strbuf_text(&text));
                loaded_load(&loaded, "m.yaml", NULL);
                if (ranges[i].memory > 0) {
                        assert_string_equal(strbuf_text(&loaded.said), "");
                        assert_int_equal(value_get_integer(find(&loaded.manifests, "Environment/x")->spec,
                                                           "memoryMB", 0),
                                         ranges[i].memory);
                } else {
                        assert_string_equal(said_without_folder(&loaded), ranges[i].said);
                }
                loaded_end(&loaded);
        }
}

/* Two ranges that contradict each other are one error, however many environments they match. */
static void contradiction_once(void **state) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct loaded loaded;

        (void)state;
        for (int i = 0; i < 50; i++)
                strbuf_printf(
                        &text,
                        "---\napiVersion: berth/v1\nkind: Environment\nmetadata: {name: e%d, labels: {t: x}}\n"
                        "spec: {image: {prebuilt: p}}\n",
                        i);
        write_range(&text, "a", "memoryMB: {max: 3000}");
        write_range(&text, "b", "memoryMB: {min: 4000}");
        loaded_begin(&loaded);
        loaded_write(&loaded, "m.yaml", strbuf_text(&text));
        loaded_load(&loaded, "m.yaml", NULL);
        assert_int_equal(loaded.diagnostics.count, 1);
        loaded_end(&loaded);
}

static void addresses(void **state) {
        static const struct {
                const char *text;
                enum kind_id kind;
                const char *name, *message;
        } cases[] = {
                { "Environment/x", KIND_ENVIRONMENT, "x", NULL },
                { "env/x", KIND_ENVIRONMENT, "x", NULL },
                { "workspacepolicy/p", KIND_WORKSPACE_POLICY, "p", NULL },
                { "Enviroment/x", KIND_COUNT, NULL, "did you mean Environment?" },
                { "Environment", KIND_COUNT, NULL, "write Kind/name" },
                { "Environment/", KIND_COUNT, NULL, "write Kind/name" },
                { "/x", KIND_COUNT, NULL, "write Kind/name" },
                { "Environment/x/y", KIND_COUNT, NULL, "write Kind/name" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct kind *kind = NULL;
                const char *name = NULL;
                struct error err = { 0 };
                int result = address_parse(cases[i].text, &kind, &name, &err);

                assert_int_equal(result, cases[i].message ? -1 : 0);
                if (cases[i].message) {
                        assert_non_null(strstr(err.message, cases[i].message));
                        assert_null(kind);
                } else {
                        assert_int_equal(kind->id, cases[i].kind);
                        assert_string_equal(name, cases[i].name);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(complete_specs),
                cmocka_unit_test(sensitive_variables),
                cmocka_unit_test(positions),
                cmocka_unit_test(order),
                cmocka_unit_test(no_stack),
                cmocka_unit_test(provider_override),
                cmocka_unit_test(names_that_look_mistyped),
                cmocka_unit_test(missing_environments),
                cmocka_unit_test(resource_ranges),
                cmocka_unit_test(contradiction_once),
                cmocka_unit_test(addresses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
