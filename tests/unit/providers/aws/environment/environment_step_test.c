/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages of an environment against a scripted server: contradictory answers must not keep a change
 * forever.
 */
#include "providers/aws/environment/environment.h"

#include "providers/aws/shared/step_support.h"

#define ERROR_OF(status, code) status "\r\nx-amzn-ErrorType: " code "\r\n"

static struct change change_of(enum action action, const char *path, const char *spec,
                               struct observation *observed) {
        struct field_change *field = arena_alloc(arena, sizeof(*field));

        field->path = path;
        return (struct change){ .action = action,
                                .kind = kinds[KIND_ENVIRONMENT],
                                .name = "x",
                                .desired = value_of(spec),
                                .observed = observed,
                                .fields = field,
                                .field_count = 1 };
}

/* CreateLogGroup says that the group exists, PutRetentionPolicy that it does not, again and again. */
static void a_log_group_that_is_and_is_not_there_ends_in_an_error(void **state) {
        struct scripted_answer answers[400];
        struct observation observed = { .name = "x", .exists = true, .spec = value_of("{}") };
        struct change change =
                change_of(ACTION_UPDATE, "logRetentionDays", "{\"logRetentionDays\": 7}", &observed);
        struct provider provider = team;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        for (size_t i = 0; i < 400; i++)
                answers[i] =
                        (struct scripted_answer){ i % 2 ? ERROR_OF("400 Bad", "ResourceNotFoundException")
                                                        : ERROR_OF("400 Bad",
                                                                   "ResourceAlreadyExistsException"),
                                                  "{}" };
        open_client(&fixture, answers, 400, 1000, NULL);
        assert_int_equal(walk(&fixture, &aws_environment_ops, &provider, &change, 400, &err), -1);
        assert_non_null(strstr(err.message, "has not found the log group /aws/lambda/lab-env-x"));
        assert_int_equal(atomic_load(&elapsed_ms) / 1000, 10);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 22);
        release(&fixture);
}

/* A 404 of something on the way is not Lambda's: nothing is taken for gone because of it. */
static void only_lambda_says_that_a_function_is_gone(void **state) {
        static const struct scripted_answer by_proxy = { "404 Not Found\r\nContent-Type: text/html\r\n",
                                                         "<html>no such page</html>" };
        static const struct scripted_answer by_lambda = {
                ERROR_OF("404 Not Found", "ResourceNotFoundException"), "{}"
        };
        struct observation observed = { .name = "x", .exists = true, .spec = value_of("{}") };
        struct change change = change_of(ACTION_DELETE, "memoryMB", NULL, &observed);
        struct provider provider = team;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, &by_proxy, 1, 1000, NULL);
        assert_int_equal(walk(&fixture, &aws_environment_ops, &provider, &change, 50, &err), -1);
        assert_non_null(strstr(err.message, "404 NotFound (its words are not quoted"));
        stop(&fixture);
        release(&fixture);

        open_client(&fixture, &by_lambda, 1, 1000, NULL);
        assert_int_equal(walk(&fixture, &aws_environment_ops, &provider, &change, 50, &err), STEP_DONE);
        stop(&fixture);
        release(&fixture);
}

/* GetFunction answers without a function: everything would read as Lambda's default, and the update as done. */
static void an_answer_without_a_function_is_none(void **state) {
        static const struct scripted_answer answers[] = {
                { "200 OK\r\n", "{}" },
                { "200 OK\r\n", "{\"Configuration\": {\"State\": \"Active\"}}" },
        };

        (void)state;
        for (size_t i = 0; i < 2; i++) {
                struct observation observed = { .name = "x", .exists = true, .spec = value_of("{}") };
                struct change change = change_of(ACTION_UPDATE, "memoryMB", "{\"memoryMB\": 512}", &observed);
                struct provider provider = team;
                struct fixture fixture;
                struct error err = { 0 };

                open_client(&fixture, &answers[i], 1, 1000, NULL);
                assert_int_equal(walk(&fixture, &aws_environment_ops, &provider, &change, 50, &err), -1);
                assert_non_null(strstr(err.message, "for lab-env-x describes no function"));
                stop(&fixture);
                release(&fixture);
        }
}

/* Of lists that go on after their first page the count is said to be a part. */
static void what_hangs_on_a_function_is_counted(void **state) {
        static const struct scripted_answer answers[] = {
                { ERROR_OF("404 Not Found", "ResourceNotFoundException"), "{}" },
                { "200 OK\r\n", "{\"Aliases\": [{\"Name\": \"a\"}], \"NextMarker\": \"m\"}" },
                { "200 OK\r\n", "{\"Policy\": \"{\\\"Statement\\\": [{\\\"Sid\\\": \\\"s\\\"}]}\"}" },
                { "200 OK\r\n", "{\"EventSourceMappings\": [{}, {}, {}, {}], \"NextMarker\": \"\"}" },
        };
        struct observation observed = { .name = "x", .exists = true, .spec = value_of("{}") };
        struct change change = change_of(ACTION_DELETE, "memoryMB", NULL, &observed);
        struct provider provider = team;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, answers, 4, 1000, NULL);
        provider.client = fixture.client;
        provider.ties_to_ask = 1;
        if (environment_ask_ties(&provider, &change, fixture.arena, &err) < 0)
                fail_msg("%s", err.message);
        assert_string_equal(change.reason,
                            "what hangs on the function goes or leads nowhere: at least 1 alias (a), 1 "
                            "permission (s), 4 event sources (?, ?, ? ...)");
        stop(&fixture);
        release(&fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(a_log_group_that_is_and_is_not_there_ends_in_an_error, begin),
                cmocka_unit_test_setup(only_lambda_says_that_a_function_is_gone, begin),
                cmocka_unit_test_setup(an_answer_without_a_function_is_none, begin),
                cmocka_unit_test_setup(what_hangs_on_a_function_is_counted, begin),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
