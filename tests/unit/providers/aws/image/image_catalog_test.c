/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/image/image_catalog.h"

#include "providers/aws/client/client_support.h"
#include "providers/aws/shared/support.h"

#define OTHER "999999999999.dkr.ecr.eu-west-1.amazonaws.com"

static const struct {
        const char *text, *repository, *tag, *digest; /* repository NULL: an error */
} references[] = {
        { "team/tool", "team/tool", "latest", NULL },
        { "tool", "tool", "latest", NULL },
        { "tool:1.10", "tool", "1.10", NULL },
        { "team/tool:v1", "team/tool", "v1", NULL },
        { "team/tool@" DIGEST, "team/tool", NULL, DIGEST },
        { REGISTRY "/team/tool:v1", "team/tool", "v1", NULL },
        { REGISTRY "/tool@" DIGEST, "tool", NULL, DIGEST },
        /* Another account's, in the stack's region, and none but that. */
        { OTHER "/team/tool:v1", OTHER "/team/tool", "v1", NULL },
        { OTHER "/team/tool@" DIGEST, OTHER "/team/tool", NULL, DIGEST },
        { OTHER "/", NULL, NULL, NULL },
        { OTHER "/Team", NULL, NULL, NULL },
        { OTHER ".cn/team/tool", NULL, NULL, NULL },
        { "999999999999.dkr.ecr.eu-west-2.amazonaws.com/team/tool", NULL, NULL, NULL },
        { "99999999999.dkr.ecr.eu-west-1.amazonaws.com/team/tool", NULL, NULL, NULL },
        { "my.team/tool", NULL, NULL, NULL },
        { "docker.io/library/python:3", NULL, NULL, NULL },
        { "localhost:5000/tool:v1", NULL, NULL, NULL },
        { REGISTRY ".evil.example/tool", NULL, NULL, NULL },
        { "team/tool:v1@" DIGEST, NULL, NULL, NULL },
        { "team/tool:", NULL, NULL, NULL },
        { "team/tool:-x", NULL, NULL, NULL },
        { "team/tool@sha256:0123", NULL, NULL, NULL },
        { "team/tool@" HEX, NULL, NULL, NULL },
        { "Team/tool", NULL, NULL, NULL },
        { "team//tool", NULL, NULL, NULL },
        { "/tool", NULL, NULL, NULL },
        { "tool/", NULL, NULL, NULL },
        { "to ol", NULL, NULL, NULL },
        { "t", NULL, NULL, NULL },
        { "", NULL, NULL, NULL },
};

static void references_are_read(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(references) / sizeof(*references); i++) {
                struct ecr_reference reference = { 0 };
                struct error err = { 0 };

                print_message("  %s\n", references[i].text);
                assert_int_equal(image_reference_parse(&team, references[i].text, arena, &reference, &err),
                                 references[i].repository ? 0 : -1);
                assert_int_equal(err.kind, references[i].repository ? ERROR_NONE : ERROR_FAILED);
                assert_text(reference.repository, references[i].repository);
                assert_text(reference.tag, references[i].tag);
                assert_text(reference.digest, references[i].digest);
        }
}

/* A registry of a server that leaves out what ECR always says. */
static void what_has_no_name_is_not_listed(void **state) {
        static const struct scripted_answer answers[] = {
                { "200 OK\r\n",
                  "{\"repositories\": [{}, {\"repositoryName\": 7}, 5, {\"repositoryName\": \"tool\"}]}" },
                { "200 OK\r\n", "{\"imageDetails\": [{\"imageTags\": [\"a\"]}, 5]}" },
        };
        struct provider provider = team;
        struct fixture fixture;
        struct error err = { 0 };
        struct image_row *rows;
        size_t count;

        begin(state);
        open_client(&fixture, answers, 2, 1000, NULL);
        provider.client = fixture.client;
        provider.arena = fixture.arena;
        if (aws_image_registry.list(&provider, NULL, fixture.arena, &rows, &count, &err) < 0)
                fail_msg("%s", err.message);
        stop(&fixture);
        assert_int_equal(count, 0);
        assert_int_equal(fixture.server.requests, 2);
        release(&fixture);
}

/* Every command of a tool for a repository ("" for all), one a line. */
static const char *commands(const struct image_instructions *instructions, const char *tool,
                            const char *repository) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < instructions->recipe_count; i++) {
                const struct image_recipe *recipe = &instructions->recipes[i];

                if (strcmp(recipe->tool, tool) != 0 ||
                    strcmp(recipe->repository ? recipe->repository : "", repository) != 0)
                        continue;
                for (size_t k = 0; k < recipe->command_count; k++)
                        strbuf_printf(&text, "%s\n", recipe->commands[k]);
        }
        return arena_strdup(arena, strbuf_text(&text));
}

static void recipes_have_the_exact_flags(void **state) {
        struct image_target targets[] = {
                { .repository = "lab/prebuilt/python", .tag = "latest", .exists = true },
                { .repository = "tool", .tag = "v1" }
        };
        struct image_instructions instructions = { .targets = targets, .target_count = 2 };

        (void)state;
        image_recipes(&team, arena, &instructions);
        assert_string_equal(targets[1].uri, REGISTRY "/tool:v1");
        assert_string_equal(commands(&instructions, "docker", ""),
                            "aws ecr get-login-password --region eu-west-1 | docker login --username AWS "
                            "--password-stdin " REGISTRY "\n");
        assert_string_equal(
                commands(&instructions, "docker", "tool"),
                "docker buildx build --platform linux/amd64 --provenance=false --sbom=false --push "
                "-t " REGISTRY "/tool:v1 .\n");
        assert_string_equal(commands(&instructions, "podman", "lab/prebuilt/python"),
                            "podman build --platform linux/amd64 -t " REGISTRY
                            "/lab/prebuilt/python:latest .\n"
                            "podman push --format v2s2 --compression-format gzip " REGISTRY
                            "/lab/prebuilt/python:latest\n");
        assert_string_equal(
                commands(&instructions, "skopeo", "tool"),
                "skopeo copy --override-os linux --override-arch amd64 --dest-compress-format gzip "
                "docker://SOURCE docker://" REGISTRY "/tool:v1\n");
        assert_string_equal(commands(&instructions, "aws", "tool"),
                            "aws ecr create-repository --region eu-west-1 --repository-name tool\n");
        assert_string_equal(commands(&instructions, "aws", "lab/prebuilt/python"), "");
}

/*
 * Writes there use the other account's credentials; this stack and its functions get no right but
 * to read.
 */
static void another_account_gets_its_policy(void **state) {
        struct image_target targets[] = { { .repository = OTHER "/team/tool", .tag = "v1", .exists = true } };
        struct image_instructions instructions = { .targets = targets, .target_count = 1 };

        (void)state;
        image_recipes(&team, arena, &instructions);
        assert_string_equal(targets[0].uri, OTHER "/team/tool:v1");
        assert_string_equal(
                commands(&instructions, "aws", OTHER "/team/tool"),
                "aws ecr set-repository-policy --region eu-west-1 --registry-id 999999999999 "
                "--repository-name team/tool --policy-text '{\"Version\":\"2012-10-17\",\"Statement\":["
                "{\"Sid\":\"BerthReads\",\"Effect\":\"Allow\",\"Principal\":{\"AWS\":"
                "\"arn:aws:iam::123456789012:root\"},\"Action\":[\"ecr:BatchGetImage\","
                "\"ecr:GetDownloadUrlForLayer\"]},"
                "{\"Sid\":\"LambdaReads\",\"Effect\":\"Allow\",\"Principal\":{\"Service\":"
                "\"lambda.amazonaws.com\"},\"Action\":[\"ecr:BatchGetImage\","
                "\"ecr:GetDownloadUrlForLayer\"],\"Condition\":{\"StringLike\":{\"aws:sourceArn\":"
                "\"arn:aws:lambda:eu-west-1:123456789012:function:lab-env-*\"}}}]}'\n");
        assert_string_equal(
                commands(&instructions, "docker", OTHER "/team/tool"),
                "aws ecr get-login-password --region eu-west-1 | docker login --username AWS "
                "--password-stdin " OTHER "\n"
                "docker buildx build --platform linux/amd64 --provenance=false --sbom=false --push "
                "-t " OTHER "/team/tool:v1 .\n");
        /* Nothing is pushed to the stack's own registry. */
        assert_string_equal(commands(&instructions, "docker", ""), "");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(references_are_read),
                cmocka_unit_test(what_has_no_name_is_not_listed),
                cmocka_unit_test(recipes_have_the_exact_flags),
                cmocka_unit_test(another_account_gets_its_policy),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
