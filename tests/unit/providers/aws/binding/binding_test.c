/* SPDX-License-Identifier: Apache-2.0 */
/* Which records are read, by the answers of a scripted server: a listing, and the record. */
#include "providers/aws/binding/binding.h"

#include "providers/aws/client/client_support.h"
#include "providers/aws/shared/support.h"

#define LISTED(etag)                                                              \
        "<ListBucketResult><Contents><Key>registry/team/agents/x.json</Key>" etag \
        "</Contents></ListBucketResult>"
#define NOW "{\"active\": true, \"formatVersion\": \"1\", \"kind\": \"Agent\", \"name\": \"x\"}"

static const struct {
        const char *name, *listed, *last_etag;
        int calls;
        bool active; /* as it was seen last, or as it is now */
} cases[] = {
        { "the same ETag", LISTED("<ETag>1</ETag>"), "1", 1, false },
        { "another ETag", LISTED("<ETag>2</ETag>"), "1", 2, true },
        { "no ETag now", LISTED(""), "1", 2, true },
        { "no ETag now or before", LISTED(""), "", 2, true },
};

static void a_record_is_read_unless_its_etag_is_known(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                const struct scripted_answer answers[] = { { "200 OK\r\n", cases[i].listed },
                                                           { "200 OK\r\n", NOW } };
                const struct observation last = { .name = "x",
                                                  .exists = true,
                                                  .fingerprint = cases[i].last_etag,
                                                  .spec = value_of("{\"active\": false}") };
                const struct wanted wanted = { .name = "x", .last = &last };
                struct provider provider = team;
                struct observation seen;
                struct fixture fixture;
                struct error err = { 0 };
                struct observe_args args = { .wanted = &wanted, .count = 1 };

                print_message("  %s\n", cases[i].name);
                open_client(&fixture, answers, 2, 1000, NULL);
                provider.client = fixture.client;
                provider.arena = args.arena = fixture.arena;
                if (aws_agent_ops.observe(&provider, &args, &seen, &err) < 0)
                        fail_msg("%s", err.message);
                bindings_release(provider.bindings);
                stop(&fixture);
                assert_int_equal(fixture.server.requests, cases[i].calls);
                assert_int_equal(value_get_boolean(seen.spec, "active", !cases[i].active), cases[i].active);
                release(&fixture);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(a_record_is_read_unless_its_etag_is_known, begin),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
