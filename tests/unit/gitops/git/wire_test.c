/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers as they cross the pipe; answers that no honest worker gives. */
#include "support.h"

#include "gitops/git/wire.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static const struct git_request request = {
        .url = "https://bot@host/team/agents.git",
        .branch = "main",
        .folder = "/state/git",
};

static void a_request_comes_back(void **state) {
        static const char *const keys[] = { "/a.asc", "/b \"quoted\".asc" };
        const struct git_request given = {
                .url = "git@host:a.git",
                .tag = ">=1.2 <2",
                .path = "agents",
                .pattern = true,
                .credentials = { "/user", "/password", "/key", "/known", "/ca" },
                .gpg_keys = keys,
                .gpg_key_count = 2,
                .ssh_allowed_signers = "/allowed",
                .fast_forward_only = true,
                .folder = "/state",
                .have = COMMIT,
                .have_ref = "refs/tags/v1",
                .read_anyway = true,
                .limits = { .entries = 7, .timeout_ms = 5 },
        };
        struct arena *arena = arena_new();
        struct strbuf frame = STRBUF_INIT;
        struct git_request found;
        struct error err = { 0 };

        (void)state;
        wire_write_request(&given, &frame);
        assert_int_equal(wire_read_request(frame.data, frame.length, arena, &found, &err), 0);
        assert_string_equal(found.url, given.url);
        assert_null(found.branch);
        assert_string_equal(found.tag, given.tag);
        assert_string_equal(found.path, given.path);
        assert_true(found.pattern);
        assert_string_equal(found.credentials.username_file, "/user");
        assert_string_equal(found.credentials.password_file, "/password");
        assert_string_equal(found.credentials.ssh_key_file, "/key");
        assert_string_equal(found.credentials.known_hosts_file, "/known");
        assert_string_equal(found.credentials.ca_file, "/ca");
        assert_int_equal(found.gpg_key_count, 2);
        assert_string_equal(found.gpg_keys[1], keys[1]);
        assert_string_equal(found.ssh_allowed_signers, "/allowed");
        assert_true(found.fast_forward_only);
        assert_true(found.read_anyway);
        assert_string_equal(found.folder, "/state");
        assert_string_equal(found.have, COMMIT);
        assert_string_equal(found.have_ref, "refs/tags/v1");
        assert_int_equal(found.limits.entries, 7);
        assert_int_equal(found.limits.timeout_ms, 5);
        assert_int_equal(found.limits.blob_bytes, git_limits_default.blob_bytes);
        assert_int_equal(found.limits.depth, git_limits_default.depth);
        strbuf_release(&frame);
        arena_free(arena);
}

static void an_answer_comes_back(void **state) {
        struct tree_file files[] = { { "a/x.yaml", "one\0two", 7 }, { "b.yaml", "", 0 } };
        static const char *const warnings[] = { "careful" };
        const struct wire_answer given = {
                .answer = { .moved = true,
                            .fetched = true,
                            .commit = COMMIT,
                            .ref = "refs/heads/main",
                            .subject = "bad \xFF byte",
                            .author = "A <a@x>",
                            .committed_ms = 1700000000000,
                            .signer = "A",
                            .bytes_received = 99,
                            .warnings = warnings,
                            .warning_count = 1 },
                .files = files,
                .file_count = 2,
        };
        struct arena *arena = arena_new();
        struct strbuf frame = STRBUF_INIT;
        enum git_phase phase = PHASE_STARTING;
        struct wire_answer found;
        struct error err = { 0 };

        (void)state;
        strbuf_append(&frame, "+0\n+1\n+9\n+4\n");
        wire_write_answer(&given, &frame);
        assert_int_equal(wire_read_answer(frame.data, frame.length, &request, arena, &found, &phase, &err),
                         0);
        assert_int_equal(phase, PHASE_READING);
        assert_false(found.failed);
        assert_true(found.answer.moved);
        assert_string_equal(found.answer.commit, COMMIT);
        assert_string_equal(found.answer.subject, "bad \\xFF byte");
        assert_int_equal(found.answer.committed_ms, 1700000000000);
        assert_int_equal(found.answer.bytes_received, 99);
        assert_int_equal(found.answer.warning_count, 1);
        assert_int_equal(found.answer.file_count, 2);
        assert_string_equal(found.answer.files[0].name, "host/team/agents.git@0123456789ab:a/x.yaml");
        assert_int_equal(found.answer.files[0].length, 7);
        assert_memory_equal(found.answer.files[0].bytes, "one\0two", 7);
        assert_int_equal(found.answer.files[1].length, 0);
        /* Cut anywhere, it is no answer. */
        for (size_t length = 0; length < frame.length; length++)
                assert_int_equal(wire_read_answer(frame.data, length, &request, arena, &found, &phase, &err),
                                 -1);
        strbuf_append_char(&frame, 'x');
        assert_int_equal(wire_read_answer(frame.data, frame.length, &request, arena, &found, &phase, &err),
                         -1);
        strbuf_release(&frame);
        arena_free(arena);
}

static void a_failure_comes_back(void **state) {
        const struct wire_answer given = { .failed = true,
                                           .failure = GIT_UNSAFE_TREE,
                                           .message = "a link",
                                           .answer = { .commit = COMMIT } };
        struct arena *arena = arena_new();
        struct strbuf frame = STRBUF_INIT;
        enum git_phase phase = PHASE_STARTING;
        struct wire_answer found;
        struct error err = { 0 };

        (void)state;
        wire_write_answer(&given, &frame);
        assert_int_equal(wire_read_answer(frame.data, frame.length, &request, arena, &found, &phase, &err),
                         0);
        assert_true(found.failed);
        assert_int_equal(found.failure, GIT_UNSAFE_TREE);
        assert_string_equal(found.message, "a link");
        assert_string_equal(found.answer.commit, COMMIT);
        strbuf_release(&frame);
        arena_free(arena);
}

#define GOOD "\"ok\":true,\"commit\":\"" COMMIT "\",\"ref\":\"refs/heads/main\",\"moved\":true"

/* JSON, and the bytes that follow it. */
static const struct {
        const char *json, *bytes;
        bool taken;
} answers[] = {
        { "{" GOOD ",\"files\":[]}", "", true },
        { "{" GOOD ",\"files\":[{\"path\":\"a.yaml\",\"length\":2}]}", "ab", true },
        { "{" GOOD ",\"files\":[{\"path\":\"a.yaml\",\"length\":2}]}", "abc", false },
        { "{" GOOD ",\"files\":[{\"path\":\"a.yaml\",\"length\":2}]}", "a", false },
        { "{" GOOD ",\"files\":[{\"path\":\"a.yaml\",\"length\":-1}]}", "", false },
        { "{" GOOD ",\"files\":[{\"path\":\"a.yaml\",\"length\":99999999999}]}", "", false },
        { "{" GOOD ",\"files\":[{\"path\":\"a.yaml\"}]}", "", false },
        { "{" GOOD ",\"files\":[{\"length\":0}]}", "", false },
        { "{" GOOD ",\"files\":[{\"path\":\"../a.yaml\",\"length\":0}]}", "", false },
        { "{" GOOD ",\"files\":[{\"path\":\"/a.yaml\",\"length\":0}]}", "", false },
        { "{" GOOD ",\"files\":[{\"path\":\".git/a.yaml\",\"length\":0}]}", "", false },
        { "{" GOOD ",\"files\":[{\"path\":\"a\\u001b.yaml\",\"length\":0}]}", "", false },
        { "{" GOOD ",\"files\":[{\"path\":\"a\\u0000.yaml\",\"length\":0}]}", "", false },
        { "{" GOOD ",\"files\":[{\"path\":\"b\",\"length\":0},{\"path\":\"a\",\"length\":0}]}", "", false },
        { "{" GOOD ",\"files\":[{\"path\":\"a\",\"length\":0},{\"path\":\"a\",\"length\":0}]}", "", false },
        { "{" GOOD
          ",\"files\":[{\"path\":\"a\",\"length\":0},{\"path\":\"b\",\"length\":0},{\"path\":\"c\",\"length\":0}]}",
          "", false },
        { "{" GOOD ",\"files\":[{\"path\":\"a\",\"length\":6},{\"path\":\"b\",\"length\":6}]}",
          "aaaaaabbbbbb", false },
        { "{\"ok\":true,\"ref\":\"r\",\"files\":[]}", "", false },
        { "{\"ok\":true,\"commit\":\"0123\",\"ref\":\"r\",\"files\":[]}", "", false },
        { "{\"ok\":true,\"commit\":\"" COMMIT "\",\"files\":[]}", "", false },
        { "{}", "", true },
        { "{\"ok\":false,\"failure\":99}", "", true },
        { "{\"ok\":false,\"failure\":-1,\"message\":7}", "", true },
        { "[]", "", false },
        { "null", "", false },
        { "{", "", false },
        { "", "", false },
};

static void answers_are_not_believed(void **state) {
        struct git_request narrow = request;

        (void)state;
        narrow.limits = (struct git_limits){ .entries = 2, .blob_bytes = 8, .total_bytes = 10 };
        for (size_t i = 0; i < COUNT(answers); i++) {
                struct arena *arena = arena_new();
                struct strbuf frame = STRBUF_INIT;
                enum git_phase phase = PHASE_STARTING;
                struct wire_answer found;
                struct error err = { 0 };
                bool taken;

                strbuf_printf(&frame, "%zu\n%s%s", strlen(answers[i].json), answers[i].json,
                              answers[i].bytes);
                taken = wire_read_answer(frame.data, frame.length, &narrow, arena, &found, &phase, &err) == 0;
                if (taken != answers[i].taken)
                        fail_msg("%s: %s", answers[i].json, err.message);
                if (taken && found.failed) {
                        assert_true(found.failure >= GIT_UNREACHABLE && found.failure <= GIT_LOCAL);
                        assert_non_null(found.message);
                }
                strbuf_release(&frame);
                arena_free(arena);
        }
}

static void no_frames(void **state) {
        static const char *const texts[] = { "",
                                             "\n",
                                             "x\n{}",
                                             "-2\n{}",
                                             "2",
                                             "2\n",
                                             "2\n{",
                                             "3\n{}",
                                             "+\n",
                                             "+0",
                                             "99999999999999999999999\n{}",
                                             " 2\n{}",
                                             "2 \n{}" };

        (void)state;
        for (size_t i = 0; i < COUNT(texts); i++) {
                struct arena *arena = arena_new();
                enum git_phase phase = PHASE_STARTING;
                struct git_request ignored;
                struct wire_answer found;
                struct error err = { 0 };

                assert_int_equal(
                        wire_read_answer(texts[i], strlen(texts[i]), &request, arena, &found, &phase, &err),
                        -1);
                assert_int_equal(wire_read_request(texts[i], strlen(texts[i]), arena, &ignored, &err), -1);
                arena_free(arena);
        }
}

static void reasons(void **state) {
        (void)state;
        assert_string_equal(git_failure_reason(GIT_UNREACHABLE), "Unreachable");
        assert_string_equal(git_failure_reason(GIT_LOCAL), "SourceFailed");
        for (int i = GIT_UNREACHABLE; i <= GIT_LOCAL; i++)
                assert_true(strlen(git_failure_reason((enum git_failure)i)) > 5);
        assert_true(wire_is_id(COMMIT));
        assert_false(wire_is_id("0123456789ABCDEF0123456789abcdef01234567"));
        assert_false(wire_is_id("0123"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_request_comes_back),
                cmocka_unit_test(an_answer_comes_back),
                cmocka_unit_test(a_failure_comes_back),
                cmocka_unit_test(answers_are_not_believed),
                cmocka_unit_test(no_frames),
                cmocka_unit_test(reasons),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
