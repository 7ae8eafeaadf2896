/* SPDX-License-Identifier: Apache-2.0 */
/* What a commit's Stack may name under what the Controller pins, and what stands in it afterwards. */
#include "folder.h"

#include "gitops/pins.h"

#include <stdio.h>
#include <string.h>

#define CONTROLLER "apiVersion: berth/v1\nkind: Controller\nmetadata: {name: c}\nspec:\n  sources:\n"
#define SOURCE "  - {name: a, url: /srv/a.git, branch: main"
#define STACK "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: s}\nspec: "
#define POLICY "arn:aws:iam::123456789012:policy/"
#define ROLE "arn:aws:iam::123456789012:role/"

#define ECR(account, region) account ".dkr.ecr." region ".amazonaws.com"
#define TOOLS ", may: {registries: ['" ECR("111122223333", "*") "']}"
#define WITH_IMAGE(image) \
        "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: x}\nspec: {image: " image "}"
#define WITH_ROLE(role)                                                                                    \
        "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: x}\nspec: {image: {prebuilt: python}, " \
        "executionRole: '" role "'}"

struct bench {
        char folder[64];
        struct arena *arena;
        struct diagnostics diagnostics;
        struct manifests manifests;
        struct controller_config config;
};

static void open_bench(struct bench *bench, const char *source, const char *stack) {
        const char *path;
        struct error err;

        folder_make_temporary(bench->folder);
        bench->arena = arena_new();
        diagnostics_init(&bench->diagnostics, bench->arena);
        folder_write(bench->folder, "c.yaml", arena_printf(bench->arena, CONTROLLER SOURCE "%s}\n", source));
        path = arena_printf(bench->arena, "%s/c.yaml", bench->folder);
        if (controller_config_load(path, false, bench->arena, &bench->config, &bench->diagnostics, &err) < 0)
                diagnostics_print(&bench->diagnostics, stderr);
        assert_int_equal(bench->diagnostics.errors, 0);
        /* A case may be other documents than a Stack's spec. */
        stack = arena_printf(bench->arena, "%s%s\n", strncmp(stack, "apiVersion", 10) == 0 ? "" : STACK,
                             stack);
        if (manifests_load_files(
                    "r@c",
                    &(struct manifest_file){ .name = "s.yaml", .bytes = stack, .length = strlen(stack) }, 1,
                    &(struct load_options){ 0 }, bench->arena, &bench->manifests, &bench->diagnostics,
                    &err) < 0)
                diagnostics_print(&bench->diagnostics, stderr);
        assert_int_equal(bench->diagnostics.errors, 0);
}

static void close_bench(struct bench *bench) {
        arena_free(bench->arena);
        folder_remove(bench->folder);
}

static const char *aws_of(const struct bench *bench, const char *name) {
        return value_get_text(value_get(bench->manifests.stack->spec, "aws"), name);
}

static void refused_and_permitted(void **state) {
        static const struct {
                const char *source, *stack;
                const char *names; /* what the only error names; NULL: permitted */
        } cases[] = {
                { "", "{provider: aws}", NULL },
                { "", "{provider: local}", NULL },
                { "", "{provider: aws, aws: {region: eu-west-1, account: '123456789012', namePrefix: x}}",
                  NULL },
                { "", "{provider: aws, aws: {endpointUrl: 'http://10.0.0.1'}}", "aws.endpointUrl" },
                { "", "{provider: aws, aws: {profile: admin}}", "aws.profile" },
                { "", "{provider: aws, aws: {assumeRole: '" ROLE "x'}}", "aws.assumeRole" },
                { "", "{provider: aws, aws: {executionRole: '" ROLE "x'}}", "aws.executionRole" },
                { "", "{provider: local, local: {images: /srv/images}}", "local.images" },
                { "", "{provider: local, local: {images: ../../other/local/s/images}}", "local.images" },
                { "", "{provider: local, local: {workspaces: .}}", "local.workspaces" },
                /*
                 * A field that the provider ignores is refused nevertheless: --provider may be
                 * another one tomorrow.
                 */
                { "", "{provider: local, aws: {endpointUrl: 'http://10.0.0.1'}}", "aws.endpointUrl" },
                { ", pins: {provider: local}", "{provider: aws}", "provider" },
                { ", pins: {provider: local}", "{}", NULL },
                { ", pins: {provider: aws}", "{}", "provider" },
                { ", pins: {aws: {endpointUrl: 'https://a'}}",
                  "{provider: aws, aws: {endpointUrl: 'https://a'}}", NULL },
                { ", pins: {aws: {endpointUrl: 'https://a'}}",
                  "{provider: aws, aws: {endpointUrl: 'https://a/'}}", "aws.endpointUrl" },
                { ", pins: {aws: {profile: p}}", "{provider: aws, aws: {profile: P}}", "aws.profile" },
                { ", pins: {aws: {region: eu-west-1}}", "{provider: aws, aws: {region: eu-west-2}}",
                  "aws.region" },
                { ", pins: {aws: {account: '123456789012'}}",
                  "{provider: aws, aws: {account: '123456789013'}}", "aws.account" },
                { ", pins: {aws: {namePrefix: team}}", "{provider: aws, aws: {namePrefix: other}}",
                  "aws.namePrefix" },
                { ", pins: {aws: {namePrefix: team}}", "{provider: aws, aws: {region: eu-west-1}}", NULL },
                { ", pins: {aws: {permissionsBoundary: '" POLICY "b'}}",
                  "{provider: aws, aws: {permissionsBoundary: '" POLICY "a'}}", "aws.permissionsBoundary" },
                { ", pins: {aws: {rolePath: /agents/}}", "{provider: aws, aws: {rolePath: /}}",
                  "aws.rolePath" },
                { ", may: {executionRoles: ['" ROLE "team-*']}",
                  "{provider: aws, aws: {executionRole: '" ROLE "team-a'}}", NULL },
                { ", may: {executionRoles: ['" ROLE "team-*']}",
                  "{provider: aws, aws: {executionRole: '" ROLE "team-a/admin'}}", "aws.executionRole" },
                { ", may: {executionRoles: ['" ROLE "team-*']}",
                  "{provider: aws, aws: {executionRole: 'arn:aws:iam::999999999999:role/team-a'}}",
                  "aws.executionRole" },
                /* Of an environment alone, whatever the Stack says. */
                { "", WITH_ROLE("own"), NULL },
                { "", WITH_ROLE(ROLE "x"), "executionRole" },
                { "", "{provider: local}\n---\n" WITH_ROLE(ROLE "x"), "executionRole" },
                { ", may: {executionRoles: ['" ROLE "team-*']}", WITH_ROLE(ROLE "team-a"), NULL },
                { ", may: {executionRoles: ['" ROLE "team-*']}", WITH_ROLE(ROLE "team-a/admin"),
                  "executionRole" },
                { ", may: {executionRoles: ['" ROLE "team-*']}", WITH_ROLE(ROLE "path/team-a"),
                  "executionRole" },
                { ", may: {executionRoles: ['" ROLE "team-*']}",
                  "{provider: aws, aws: {executionRole: '" ROLE "team-a'}}\n---\n" WITH_ROLE(ROLE "admin"),
                  "executionRole" },
                { "", WITH_IMAGE("{repository: a/b, tag: v}"), NULL },
                { "", WITH_IMAGE("{registry: " ECR("111122223333", "eu-west-1") ", repository: a/b, tag: v}"),
                  "registry" },
                { TOOLS,
                  WITH_IMAGE("{registry: " ECR("111122223333", "eu-west-1") ", repository: a/b, tag: v}"),
                  NULL },
                { TOOLS,
                  WITH_IMAGE("{registry: " ECR("111122223333", "us-east-1") ", repository: a/b, tag: v}"),
                  NULL },
                { TOOLS,
                  WITH_IMAGE("{registry: " ECR("111122223334", "eu-west-1") ", repository: a/b, tag: v}"),
                  "registry" },
                { TOOLS,
                  WITH_IMAGE("{registry: " ECR("111122223333", "cn-north-1") ".cn, repository: a/b, tag: v}"),
                  "registry" },
                /* By an Image that no Environment names, too. */
                { "",
                  "{}\n---\napiVersion: berth/v1\nkind: Image\nmetadata: {name: i}\nspec: {registry: " ECR(
                          "111122223333", "eu-west-1") ", repository: a/b, tag: v}",
                  "registry" },
                { ", may: {images: [/srv/images]}", "{local: {images: /srv/images/}}", NULL },
                { ", may: {images: [/srv/images]}", "{local: {images: /srv/images/x}}", "local.images" },
                { ", may: {images: [/srv/images]}", "{local: {images: /srv/images/../x}}", "local.images" },
                { ", may: {images: [/srv/images]}", "{local: {workspaces: /srv/images}}",
                  "local.workspaces" },
                { ", may: {workspaces: [/a, /srv/w/]}", "{local: {workspaces: /srv/w}}", NULL },
                { "", "{provider: aws, state: {s3: 's3://team-states/a'}}", "the Stack's state" },
                { ", state: 's3://team-states/a'", "{provider: aws, state: {s3: 's3://team-states/a'}}",
                  NULL },
                { ", state: 's3://team-states/a'", "{provider: aws, state: {s3: 's3://team-states/b'}}",
                  "the Stack's state" },
                /* The source's own goes before what else it may name. */
                { ", state: 's3://team-states/a', may: {states: ['s3://team-states/*']}",
                  "{provider: aws, state: {s3: 's3://team-states/b'}}", "the Stack's state" },
                { ", may: {states: ['s3://team-states/*']}",
                  "{provider: aws, state: {s3: 's3://team-states/b'}}", NULL },
                { ", may: {states: ['s3://team-states/*']}",
                  "{provider: aws, state: {s3: 's3://team-states/b/c'}}", "the Stack's state" },
                { ", may: {states: ['s3://team-states/*']}",
                  "{provider: aws, state: {s3: 's3://team-statesx/b'}}", "the Stack's state" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct bench bench = { 0 };
                bool held;

                open_bench(&bench, cases[i].source, cases[i].stack);
                held = pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics);
                if (held != !cases[i].names || bench.diagnostics.errors != (held ? 0 : 1) ||
                    (!held && !strstr(bench.diagnostics.items[0].message, cases[i].names)))
                        fail_msg("%s under%s: %s", cases[i].stack, cases[i].source,
                                 bench.diagnostics.count ? bench.diagnostics.items[0].message
                                                         : "nothing said");
                close_bench(&bench);
        }
}

#define SECRET "arn:aws:secretsmanager:eu-west-1:123456789012:secret:"
#define PARAMETER "arn:aws:ssm:eu-west-1:123456789012:parameter/"
#define ENVIRONMENT \
        "\n---\napiVersion: berth/v1\nkind: Environment\nmetadata: {name: e}\nspec: {image: {prebuilt: p}, variables: {DB: "

/* What a variable may be taken from, field by field of its ARN. */
static void secrets_of_variables(void **state) {
        static const char team[] =
                ", may: {secrets: ['" SECRET "team/*'], parameters: ['" PARAMETER "team/*']}";
        static const char anywhere[] =
                ", may: {secrets: ['arn:aws:secretsmanager:*:123456789012:secret:team*']}";
        static const struct {
                const char *source, *variable;
                bool permitted;
        } cases[] = {
                { "", "text", true },
                { "", "{value: x, sensitive: true}", true },
                { "", "{secret: '" SECRET "team/db-AbCdEf'}", false },
                { "", "{parameter: '" PARAMETER "team/db'}", false },
                { team, "{secret: '" SECRET "team/db-AbCdEf'}", true },
                { team, "{secret: '" SECRET "team/db-AbCdEf:key::'}", true },
                { team, "{secret: '" SECRET "team/db-AbCdEf:/other:AWSPREVIOUS:'}", true },
                { team, "{secret: '" SECRET "team/a/db-AbCdEf'}", false },
                { team, "{secret: '" SECRET "team-AbCdEf'}", false },
                { team, "{secret: '" SECRET "other/db-AbCdEf'}", false },
                { team, "{secret: '" SECRET "other-AbCdEf:team/x::'}", false },
                { team, "{secret: 'arn:aws:secretsmanager:eu-west-2:123456789012:secret:team/db-AbCdEf'}",
                  false },
                { team, "{secret: 'arn:aws:secretsmanager:eu-west-1:999999999999:secret:team/db-AbCdEf'}",
                  false },
                { team, "{secret: 'arn:aws-cn:secretsmanager:eu-west-1:123456789012:secret:team/db-AbCdEf'}",
                  false },
                { team, "{parameter: '" PARAMETER "team/db'}", true },
                { team, "{parameter: '" PARAMETER "team/a/db'}", false },
                { team, "{parameter: '" PARAMETER "team/../other'}", false },
                { team, "{parameter: '" PARAMETER "teams/db'}", false },
                { ", may: {parameters: ['" PARAMETER "team/*']}", "{secret: '" SECRET "team/db-AbCdEf'}",
                  false },
                { anywhere, "{secret: 'arn:aws:secretsmanager:ap-south-1:123456789012:secret:team-AbCdEf'}",
                  true },
                /*
                 * The name, key, stage and id of another account's secret, made to look like the
                 * pattern's own account and name.
                 */
                { anywhere,
                  "{secret: 'arn:aws:secretsmanager:eu-west-1:999999999999:secret:x-AbCdEf:123456789012:secret:'}",
                  false },
                { anywhere,
                  "{secret: 'arn:aws:secretsmanager:eu-west-1:999999999999:secret:123456789012-AbCdEf:secret:team:'}",
                  false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct bench bench = { 0 };
                struct arena *arena ARENA_CLEANUP = arena_new();

                open_bench(&bench, cases[i].source,
                           arena_printf(arena, "{}" ENVIRONMENT "%s}}", cases[i].variable));
                if (pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics) !=
                    cases[i].permitted)
                        fail_msg("%s under%s", cases[i].variable, cases[i].source);
                if (!cases[i].permitted) {
                        assert_string_equal(bench.diagnostics.items[0].address, "Environment/e");
                        assert_int_equal(bench.diagnostics.items[0].line, 9);
                }
                close_bench(&bench);
        }
}

#define KEY "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555"
#define OTHER_KEY "arn:aws:kms:eu-west-1:999999999999:key/11111111-2222-3333-4444-555555555555"
#define STACK_IN(network) "{provider: aws, aws: {network: " network "}}"
#define WITH_NETWORK(network)                                                                                                 \
        STACK_IN("isolated")                                                                                                  \
        "\n---\napiVersion: berth/v1\nkind: Environment\nmetadata: {name: e}\nspec: {image: {prebuilt: p}, network: " network \
        "}"
#define OURS "{subnets: [subnet-aaaaaaaa, subnet-bbbbbbbb], securityGroups: [sg-cccccccc]}"
#define OF_SOURCE ", may: {subnets: [subnet-bbbbbbbb, subnet-aaaaaaaa], securityGroups: [sg-cccccccc]}"

/* Where a commit's own code runs, and whose key its data is under: of the Stack, and of each Environment. */
static void networks_and_keys(void **state) {
        static const char isolated[] = ", pins: {aws: {network: isolated}}";
        static const struct {
                const char *source, *stack;
                unsigned errors;
                const char *names; /* what each of them names */
        } cases[] = {
                { "", "{provider: aws, aws: {kmsKey: '" KEY "'}}", 1, "aws.kmsKey" },
                { ", pins: {aws: {kmsKey: '" KEY "'}}", "{provider: aws, aws: {kmsKey: '" KEY "'}}", 0, "" },
                { ", pins: {aws: {kmsKey: '" KEY "'}}", "{provider: aws, aws: {kmsKey: '" OTHER_KEY "'}}", 1,
                  "aws.kmsKey" },
                { "", STACK_IN("isolated"), 0, "" },
                { "", STACK_IN("open"), 0, "" },
                { "", STACK_IN(OURS), 3, "Stack's aws.network" },
                { "", WITH_NETWORK("open"), 0, "" },
                { "", WITH_NETWORK("isolated"), 0, "" },
                { "", WITH_NETWORK(OURS), 3, "environment's network" },
                /* Another provider's settings: --provider may be another one tomorrow. */
                { "", "{provider: local, aws: {network: " OURS "}}", 3, "Stack's aws.network" },
                { OF_SOURCE, STACK_IN(OURS), 0, "" },
                { OF_SOURCE, WITH_NETWORK(OURS), 0, "" },
                { OF_SOURCE, STACK_IN("{subnets: [subnet-aaaaaaaa], securityGroups: [sg-cccccccc]}"), 0, "" },
                { OF_SOURCE, STACK_IN("{subnets: [subnet-aaaaaaaa0], securityGroups: [sg-cccccccc]}"), 1,
                  "a subnet" },
                { OF_SOURCE,
                  STACK_IN("{subnets: [subnet-aaaaaaaa], securityGroups: [sg-cccccccc, sg-dddddddd]}"), 1,
                  "a security group" },
                { OF_SOURCE,
                  WITH_NETWORK(
                          "{subnets: [subnet-bbbbbbbb, subnet-dddddddd], securityGroups: [sg-cccccccc]}"),
                  1, "a subnet" },
                /* One list does not stand in for the other. */
                { ", may: {subnets: [subnet-aaaaaaaa, subnet-bbbbbbbb]}", STACK_IN(OURS), 1,
                  "a security group" },
                { ", may: {securityGroups: [sg-cccccccc]}", STACK_IN(OURS), 2, "a subnet" },
                { isolated, STACK_IN("isolated"), 0, "" },
                { isolated, STACK_IN("open"), 1, "Stack's aws.network" },
                { isolated, STACK_IN(OURS), 3, "Stack's aws.network" },
                { isolated, WITH_NETWORK("open"), 1, "environment's network" },
                { isolated, WITH_NETWORK("isolated"), 0, "" },
                { ", pins: {aws: {network: isolated}}" OF_SOURCE, STACK_IN(OURS), 0, "" },
                { ", pins: {aws: {network: isolated}}" OF_SOURCE, WITH_NETWORK("open"), 1,
                  "environment's network" },
                { ", pins: {aws: {network: open}}", STACK_IN("open"), 0, "" },
                { ", pins: {aws: {network: open}}", WITH_NETWORK("isolated"), 0, "" },
                { ", pins: {aws: {network: open}}", STACK_IN(OURS), 3, "Stack's aws.network" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct bench bench = { 0 };
                bool held;

                open_bench(&bench, cases[i].source, cases[i].stack);
                held = pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics);
                if (held != (cases[i].errors == 0) || bench.diagnostics.errors != cases[i].errors)
                        fail_msg("%s under%s: %zu errors", cases[i].stack, cases[i].source,
                                 (size_t)bench.diagnostics.errors);
                for (size_t k = 0; k < bench.diagnostics.count; k++) {
                        if (!strstr(bench.diagnostics.items[k].message, cases[i].names))
                                fail_msg("%s under%s: %s", cases[i].stack, cases[i].source,
                                         bench.diagnostics.items[k].message);
                        assert_true(bench.diagnostics.items[k].line > 0);
                }
                close_bench(&bench);
        }
}

static const char *const left_out[] = { "{provider: aws}", "{provider: aws, aws: {region: eu-west-1}}",
                                        "{provider: aws, aws: {network: }}" };

/* A commit that says no network gets the pin; one that says another which it may name keeps that. */
static void a_network_that_is_left_out_is_pinned(void **state) {
        static const char both[] = ", pins: {aws: {network: isolated, kmsKey: '" KEY "'}}" OF_SOURCE;
        struct bench bench = { 0 };

        (void)state;
        for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++) {
                open_bench(&bench, both, left_out[i]);
                assert_true(pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics));
                assert_string_equal(aws_of(&bench, "network"), "isolated");
                assert_string_equal(aws_of(&bench, "kmsKey"), KEY);
                close_bench(&bench);
        }
        open_bench(&bench, both, STACK_IN(OURS));
        assert_true(pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics));
        assert_int_equal(value_path(bench.manifests.stack->spec, "aws.network.subnets")->count, 2);
        close_bench(&bench);
        open_bench(&bench, ", pins: {aws: {network: open}}", STACK_IN("isolated"));
        assert_true(pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics));
        assert_string_equal(aws_of(&bench, "network"), "isolated");
        close_bench(&bench);
}

/* Each with its place; and the text of none of them, which may hold a password. */
static void all_are_told(void **state) {
        struct bench bench = { 0 };

        (void)state;
        open_bench(
                &bench, "",
                "{provider: aws, aws: {profile: p, endpointUrl: 'http://u:secret@h'}, local: {images: /i}}");
        assert_false(pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics));
        assert_int_equal(bench.diagnostics.errors, 3);
        for (size_t i = 0; i < bench.diagnostics.count; i++) {
                assert_int_equal(bench.diagnostics.items[i].line, 4);
                assert_string_equal(bench.diagnostics.items[i].file, "s.yaml");
                assert_null(strstr(bench.diagnostics.items[i].message, "secret"));
                assert_null(strstr(bench.diagnostics.items[i].hint, "secret"));
        }
        close_bench(&bench);
}

static void what_is_left_out_is_pinned(void **state) {
        struct bench bench = { 0 };

        (void)state;
        open_bench(&bench, ", pins: {aws: {region: eu-west-1, profile: p, endpointUrl: 'https://e'}}",
                   "{provider: aws, aws: {region: eu-west-1, createBucket: false}}");
        assert_true(pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics));
        assert_string_equal(aws_of(&bench, "profile"), "p");
        assert_string_equal(aws_of(&bench, "endpointUrl"), "https://e");
        assert_string_equal(aws_of(&bench, "region"), "eu-west-1");
        assert_false(value_get_boolean(value_get(bench.manifests.stack->spec, "aws"), "createBucket", true));
        close_bench(&bench);
        /* A commit that leaves its boundary out does not lose it. */
        open_bench(&bench, ", pins: {aws: {permissionsBoundary: '" POLICY "b', rolePath: /agents/}}",
                   "{provider: aws}");
        assert_true(pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics));
        assert_string_equal(aws_of(&bench, "permissionsBoundary"), POLICY "b");
        assert_string_equal(aws_of(&bench, "rolePath"), "/agents/");
        close_bench(&bench);
        /* Nothing is said of aws at all, and another provider's settings stay out of it. */
        open_bench(&bench, ", pins: {aws: {profile: p}}", "{provider: aws}");
        assert_true(pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics));
        assert_string_equal(aws_of(&bench, "profile"), "p");
        close_bench(&bench);
        open_bench(&bench, ", pins: {aws: {profile: p}}", "{provider: local}");
        assert_true(pins_hold(&bench.config.sources[0], &bench.manifests, &bench.diagnostics));
        assert_null(aws_of(&bench, "profile"));
        close_bench(&bench);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(refused_and_permitted),
                cmocka_unit_test(secrets_of_variables),
                cmocka_unit_test(networks_and_keys),
                cmocka_unit_test(a_network_that_is_left_out_is_pinned),
                cmocka_unit_test(all_are_told),
                cmocka_unit_test(what_is_left_out_is_pinned),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
