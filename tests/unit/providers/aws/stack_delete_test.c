/* SPDX-License-Identifier: Apache-2.0 */
/* What a bucket is found to hold that is not Berth's, by the listings of a scripted server. */
#include "providers/aws/stack.h"

#include "client_support.h"

#define PAGE(rest) "<ListVersionsResult>" rest "</ListVersionsResult>"
#define MORE(key) "<IsTruncated>true</IsTruncated><NextKeyMarker>" key "</NextKeyMarker>"
#define FOLDER(prefix) "<CommonPrefixes><Prefix>" prefix "</Prefix></CommonPrefixes>"
#define OBJECT(key) "<Version><Key>" key "</Key><Size>5</Size></Version>"

static const struct {
        const char *name;
        const char *pages[4];
        int calls;           /* listings that are asked for */
        const char *message; /* part of the refusal's or the error's; NULL: nothing is in the way */
        bool fails;
} buckets[] = {
        { "empty", { PAGE("") }, 1, NULL, false },
        { "Berth's own",
          { PAGE(FOLDER("berth/") FOLDER("registry/")), PAGE(FOLDER("berth/locks/")),
            PAGE(FOLDER("registry/team/")) },
          3,
          NULL,
          false },
        { "sessions",
          { PAGE(FOLDER("workspaces/")), PAGE(OBJECT("workspaces/a") OBJECT("workspaces/b")) },
          2,
          "holds 2 objects, 10 bytes",
          false },
        { "sessions on a page behind Berth's own",
          { PAGE(FOLDER("berth/") MORE("berth/")), PAGE(FOLDER("berth/locks/")), PAGE(OBJECT("x")) },
          3,
          "holds 1 object, 5 bytes",
          false },
        { "more than a page of them",
          { PAGE(OBJECT("a") MORE("a")) },
          1,
          "holds at least 1 object, 5 bytes",
          false },
        /* The last page is given again and again. */
        { "a page that leads to itself",
          { PAGE(MORE("a")) },
          2,
          "its listing has no end: a page leads to itself",
          true },
        { "a folder that leads upwards",
          { PAGE(OBJECT("a") FOLDER("")) },
          2,
          "holds 2 objects, 10 bytes",
          false },
};

static void what_is_not_ours_is_found(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(buckets) / sizeof(*buckets); i++) {
                struct observation observed = {
                        .exists = true, .spec = value_of("{\"bucket\": {\"name\": \"b\", \"tlsOnly\": true}}")
                };
                struct change change = { .address = "Stack/team",
                                         .action = ACTION_DELETE,
                                         .observed = &observed };
                struct scripted_answer answers[4];
                struct provider provider = team;
                struct fixture fixture;
                struct error err = { 0 };
                size_t count = 0;
                int result;

                print_message("  %s\n", buckets[i].name);
                for (; count < 4 && buckets[i].pages[count]; count++)
                        answers[count] = (struct scripted_answer){ "200 OK\r\n", buckets[i].pages[count] };
                open_client(&fixture, answers, count, 1000, NULL);
                provider.client = fixture.client;
                result = stack_ask(&provider, &change, arena, &err);
                stop(&fixture);
                assert_int_equal(fixture.server.requests, buckets[i].calls);
                release(&fixture);
                assert_int_equal(result, buckets[i].fails ? -1 : 0);
                assert_int_equal(change.refusal_count, buckets[i].message && !buckets[i].fails);
                if (buckets[i].message)
                        assert_non_null(strstr(buckets[i].fails ? err.message : change.refusals[0].message,
                                               buckets[i].message));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(what_is_not_ours_is_found, begin),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
