/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional writes against a server whose answers contradict each other: no loop goes round
 * forever.
 */
#include "providers/aws/binding/binding.h"
#include "providers/aws/shared/step_support.h"
#include "providers/aws/workspace_policy/workspace_policy.h"

#define MISSING "404 Not Found\r\n"
#define REFUSED "412 Precondition Failed\r\n"

/* Every odd request is refused since the object exists, and every even one finds that it does not; or all find that. */
static const struct scripted_answer *contradictions(size_t count, bool always_missing) {
        struct scripted_answer *answers = arena_array(arena, count, sizeof(*answers));

        for (size_t i = 0; i < count; i++)
                answers[i] =
                        i % 2 || always_missing
                                ? (struct scripted_answer){ MISSING, "<Error><Code>NoSuchKey</Code></Error>" }
                                : (struct scripted_answer){
                                          REFUSED, "<Error><Code>PreconditionFailed</Code></Error>"
                                  };
        return answers;
}

static const struct {
        const char *name;
        enum kind_id kind;
        const struct kind_ops *ops;
        const char *desired, *message;
        bool always_missing;
        int seconds; /* at the most */
} cases[] = {
        { "a record", KIND_AGENT, &aws_agent_ops, "{\"type\": \"general\", \"active\": false}",
          "the record s3://lab-workspaces-" ACCOUNT
          "-eu-west-1/registry/team/agents/x.json was changed outside",
          false, 10 },
        { "a record that cannot be written since it does not exist", KIND_AGENT, &aws_agent_ops,
          "{\"type\": \"general\", \"active\": false}",
          "the record s3://lab-workspaces-" ACCOUNT
          "-eu-west-1/registry/team/agents/x.json was changed outside",
          true, 10 },
        { "the lifecycle's lock", KIND_WORKSPACE_POLICY, &aws_workspace_policy_ops,
          "{\"appliesTo\": \"all\", \"expireAfterDays\": 3}", "has been held by others for 10 minutes", false,
          602 },
        { "a lock that cannot be written since it does not exist", KIND_WORKSPACE_POLICY,
          &aws_workspace_policy_ops, "{\"appliesTo\": \"all\", \"expireAfterDays\": 3}",
          "has been held by others", true, 602 },
};

static void contradictions_end_in_an_error(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct observation nothing = { .name = "x" };
                struct change change = { .action = ACTION_CREATE,
                                         .kind = kinds[cases[i].kind],
                                         .name = "x",
                                         .desired = value_of(cases[i].desired),
                                         .observed = &nothing };
                struct provider provider = team;
                struct fixture fixture;
                struct error err = { 0 };

                print_message("  %s\n", cases[i].name);
                begin(state);
                open_client(&fixture, contradictions(5000, cases[i].always_missing), 5000, 1000, NULL);
                pthread_mutex_init(&provider.lifecycle_lock, NULL);
                assert_int_equal(walk(&fixture, cases[i].ops, &provider, &change, 5000, &err), -1);
                pthread_mutex_destroy(&provider.lifecycle_lock);
                if (!strstr(err.message, cases[i].message))
                        fail_msg("%s", err.message);
                assert_true(atomic_load(&elapsed_ms) <= cases[i].seconds * 1000);
                stop(&fixture);
                release(&fixture);
        }
}

/* Whatever is asked is done, but at each look at the clock twenty seconds more are over: a third of the lock's lease. */
static void a_lock_that_ages_at_once_is_not_renewed_for_ever(void **state) {
        static const struct scripted_answer done = { "200 OK\r\nETag: \"1\"\r\n",
                                                     "<LifecycleConfiguration/>" };
        struct observation nothing = { .name = "x" };
        struct change change = { .action = ACTION_CREATE,
                                 .kind = kinds[KIND_WORKSPACE_POLICY],
                                 .name = "x",
                                 .desired = value_of("{\"appliesTo\": \"all\", \"expireAfterDays\": 3}"),
                                 .observed = &nothing };
        struct provider provider = team;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, &done, 1, 1000, NULL);
        tick_ms = 20000;
        pthread_mutex_init(&provider.lifecycle_lock, NULL);
        assert_int_equal(walk(&fixture, &aws_workspace_policy_ops, &provider, &change, 500, &err), -1);
        pthread_mutex_destroy(&provider.lifecycle_lock);
        assert_non_null(strstr(err.message, "answers too slowly"));
        stop(&fixture);
        /* The rules were not written, and the lock is given back. */
        for (int i = 0; i < fixture.server.requests; i++)
                assert_null(strstr(fixture.server.received[i], "PUT /?lifecycle"));
        assert_non_null(strstr(fixture.server.received[fixture.server.requests - 1], "DELETE "));
        release(&fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(a_lock_that_ages_at_once_is_not_renewed_for_ever, begin),
                cmocka_unit_test_setup(contradictions_end_in_an_error, begin),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
