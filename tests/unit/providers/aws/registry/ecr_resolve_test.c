/* SPDX-License-Identifier: Apache-2.0 */
/* What servers answer to a call for many names: each as it was asked for, by another of its tags, or not at all. */
#include "providers/aws/registry/ecr_resolve.h"

#include "providers/aws/client/client_support.h"
#include "providers/aws/shared/support.h"

#define OK "200 OK\r\nContent-Type: application/x-amz-json-1.1\r\n"
#define MANIFEST                                                                                   \
        "\"imageManifest\": \"{\\\"schemaVersion\\\": 2, \\\"mediaType\\\": "                      \
        "\\\"application/vnd.oci.image.manifest.v1+json\\\", \\\"config\\\": {\\\"mediaType\\\": " \
        "\\\"application/vnd.oci.image.config.v1+json\\\", \\\"digest\\\": \\\"" DIGEST            \
        "\\\", \\\"size\\\": 2}, \\\"layers\\\": []}\""
#define DIGEST_OF(digit) "sha256:" digit "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define IMAGE(tag, digit) \
        "{\"imageId\": {\"imageDigest\": \"" DIGEST_OF(digit) "\", \"imageTag\": \"" tag "\"}, " MANIFEST "}"
#define ANSWER(images, failures) \
        { OK, "{\"images\": [" images "], \"failures\": [" failures "]}" }
#define NOT_FOUND "\"failureCode\": \"ImageNotFound\", \"failureReason\": \"not found\""

/* Two names are asked for, "a" and "b"; what each comes to, and by how many calls. */
static const struct {
        const char *name;
        struct scripted_answer answers[3];
        size_t count;
        int calls;
        const char *resolved[2], *problem[2], *message[2];
} cases[] = {
        { "as they were asked for",
          { ANSWER(IMAGE("b", "2") ", " IMAGE("a", "1"), "") },
          1,
          1,
          { DIGEST_OF("1"), DIGEST_OF("2") },
          { NULL, NULL },
          { NULL, NULL } },
        { "one by another of its tags",
          { ANSWER(IMAGE("z", "1") ", " IMAGE("b", "2"), ""), ANSWER(IMAGE("z", "1"), "") },
          2,
          2,
          { DIGEST_OF("1"), DIGEST_OF("2") },
          { NULL, NULL },
          { NULL, NULL } },
        { "both by the same tag",
          { ANSWER(IMAGE("z", "1") ", " IMAGE("z", "1"), ""), ANSWER(IMAGE("z", "1"), "") },
          2,
          3,
          { DIGEST_OF("1"), DIGEST_OF("1") },
          { NULL, NULL },
          { NULL, NULL } },
        { "nothing is said of one, which does not exist",
          { ANSWER(IMAGE("a", "1"), ""),
            ANSWER("", "{\"imageId\": {\"imageTag\": \"null\"}, " NOT_FOUND "}") },
          2,
          2,
          { DIGEST_OF("1"), NULL },
          { NULL, "missing" },
          { NULL, "r:b does not exist" } },
        { "nothing is said of one, whoever asks",
          { ANSWER(IMAGE("a", "1"), ""), ANSWER("", "") },
          2,
          2,
          { DIGEST_OF("1"), NULL },
          { NULL, "unread" },
          { NULL,
            "r:b cannot be read: the answer to BatchGetImage holds neither that image nor a failure" } },
        { "alone, two images are no answer",
          { ANSWER(IMAGE("a", "1"), ""), ANSWER(IMAGE("y", "3") ", " IMAGE("z", "4"), "") },
          2,
          2,
          { DIGEST_OF("1"), NULL },
          { NULL, "unread" },
          { NULL,
            "r:b cannot be read: the answer to BatchGetImage holds neither that image nor a failure" } },
        { "another failure",
          { ANSWER(IMAGE("a", "1"),
                   "{\"imageId\": {\"imageTag\": \"b\"}, \"failureCode\": \"UpstreamAccessDenied\", "
                   "\"failureReason\": \"no\"}") },
          1,
          1,
          { DIGEST_OF("1"), NULL },
          { NULL, "unread" },
          { NULL, "r:b cannot be read: UpstreamAccessDenied: no" } },
};

static void names_are_asked_alone_before_they_are_refused(void **state) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct ecr_reference references[] = { { .repository = "r", .tag = "a" },
                                                      { .repository = "r", .tag = "b" } };
                struct provider provider = team;
                struct error err = { 0 };
                struct fixture fixture;

                begin(state);
                print_message("  %s\n", cases[i].name);
                open_client(&fixture, cases[i].answers, cases[i].count, 1000, NULL);
                provider.client = fixture.client;
                if (ecr_resolve(&provider, references, 2, arena, &err) < 0)
                        fail_msg("%s", err.message);
                stop(&fixture);
                assert_int_equal(fixture.server.requests, cases[i].calls);
                for (size_t k = 0; k < 2; k++) {
                        assert_text(references[k].resolved, cases[i].resolved[k]);
                        assert_text(references[k].problem, cases[i].problem[k]);
                        assert_text(references[k].message, cases[i].message[k]);
                }
                release(&fixture);
        }
}

/* Asked for by digest, another image is not the answer, even alone. */
static void a_digest_is_no_other_digest(void **state) {
        static const struct scripted_answer answer = ANSWER(IMAGE("a", "1"), "");
        struct ecr_reference reference = { .repository = "r", .digest = DIGEST };
        struct provider provider = team;
        struct error err = { 0 };
        struct fixture fixture;

        (void)state;
        open_client(&fixture, &answer, 1, 1000, NULL);
        provider.client = fixture.client;
        assert_int_equal(ecr_resolve(&provider, &reference, 1, arena, &err), 0);
        stop(&fixture);
        assert_null(reference.resolved);
        assert_text(reference.problem, "unread");
        release(&fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(names_are_asked_alone_before_they_are_refused, begin),
                cmocka_unit_test_setup(a_digest_is_no_other_digest, begin),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
