/* SPDX-License-Identifier: Apache-2.0 */
/* What a bucket is found to hold that is not Berth's, and its emptying, by the answers of a scripted server. */
#include "providers/aws/stack/stack.h"

#include "providers/aws/shared/step_support.h"

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
          "the listing has no end: it leads back to the page a",
          true },
        { "pages that lead to each other",
          { PAGE(MORE("a")), PAGE(MORE("b")), PAGE(MORE("a")), PAGE(MORE("b")) },
          3,
          "the listing has no end: it leads back to the page a",
          true },
        { "a folder that leads upwards",
          { PAGE(OBJECT("a") FOLDER("")) },
          2,
          "holds 2 objects, 10 bytes",
          false },
};

static struct change deletion(void) {
        struct observation *observed = arena_alloc(arena, sizeof(*observed));

        *observed = (struct observation){
                .exists = true, .spec = value_of("{\"bucket\": {\"name\": \"b\", \"tlsOnly\": true}}")
        };
        return (struct change){
                .address = "Stack/team", .action = ACTION_DELETE, .name = "team", .observed = observed
        };
}

static void what_is_not_ours_is_found(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(buckets) / sizeof(*buckets); i++) {
                struct change change = deletion();
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
                result = stack_ask_bucket(&provider, &change, arena, &err);
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

#define ROUNDS 24 /* a page and its deletion each */
#define PAGE_SIZE 200

/* A page of versions whose keys begin with `mark`. */
static const char *page_of(const char *mark) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_append(&text, "<ListVersionsResult>");
        for (int i = 0; i < PAGE_SIZE; i++)
                strbuf_printf(&text, "<Version><Key>%s%03d</Key><VersionId>null</VersionId></Version>", mark,
                              i);
        strbuf_append(&text, "</ListVersionsResult>");
        return arena_strdup(arena, strbuf_text(&text));
}

/* However much must be removed: only a page of it is kept. */
static void emptying_a_bucket_takes_no_more_memory_than_a_page(void **state) {
        struct scripted_answer answers[2 * ROUNDS + 3];
        struct provider provider = team;
        struct change change = deletion();
        struct fixture fixture;
        struct error err = { 0 };
        size_t early;

        (void)state;
        for (size_t i = 0; i < ROUNDS; i++) {
                const char *mark = arena_printf(arena, "workspaces/%02zu/", i);

                answers[2 * i] = (struct scripted_answer){ "200 OK\r\n", page_of(mark) };
                answers[2 * i + 1] = (struct scripted_answer){ "200 OK\r\n", "<DeleteResult/>" };
        }
        answers[2 * ROUNDS] = (struct scripted_answer){ "200 OK\r\n", PAGE("") };
        answers[2 * ROUNDS + 1] = (struct scripted_answer){ "204 Gone\r\n", "" };
        open_client(&fixture, answers, 2 * ROUNDS + 2, 1000, NULL);
        provider.bucket_in_use = true;
        fixture.progress.arena = arena_new();
        assert_int_equal(walk(&fixture, &aws_stack_ops, &provider, &change, 6, &err), STEP_AGAIN);
        early = arena_size(fixture.progress.arena);
        assert_int_equal(walk(&fixture, &aws_stack_ops, &provider, &change, 100, &err), STEP_DONE);
        assert_true(arena_size(fixture.progress.arena) <= early + 65536);
        arena_free(fixture.progress.arena);
        stack_leftovers_release(provider.leftovers);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 2 * ROUNDS + 2);
        release(&fixture);
}

static void what_cannot_be_deleted_is_an_error(void **state) {
        struct scripted_answer answers[200];
        struct provider provider = team;
        struct change change = deletion();
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        for (size_t i = 0; i < 200; i++)
                answers[i] = (struct scripted_answer){ "200 OK\r\n",
                                                       i % 2 ? "<DeleteResult/>" : PAGE(OBJECT("held")) };
        open_client(&fixture, answers, 200, 1000, NULL);
        provider.bucket_in_use = true;
        assert_int_equal(walk(&fixture, &aws_stack_ops, &provider, &change, 200, &err), -1);
        assert_non_null(strstr(err.message, "has deleted held from the bucket lab-workspaces-"));
        stack_leftovers_release(provider.leftovers);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 21);
        release(&fixture);
}

/* A server that knows no prefixes lists all of the bucket, of which only Berth's own records were to go. */
static void what_was_not_asked_for_is_not_deleted(void **state) {
        static const struct scripted_answer answers[] = {
                { "200 OK\r\n", PAGE(OBJECT("registry/team/agents/a.json") OBJECT("workspaces/sessions/a")) },
                { "200 OK\r\n", "<DeleteResult/>" },
        };
        struct provider provider = team;
        struct change change = deletion();
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, answers, 2, 1000, NULL);
        assert_int_equal(walk(&fixture, &aws_stack_ops, &provider, &change, 20, &err), -1);
        assert_non_null(strstr(err.message, "the server lists workspaces/sessions/a as well"));
        stack_leftovers_release(provider.leftovers);
        stop(&fixture);
        assert_int_equal(fixture.server.requests, 1);
        release(&fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(what_is_not_ours_is_found, begin),
                cmocka_unit_test_setup(emptying_a_bucket_takes_no_more_memory_than_a_page, begin),
                cmocka_unit_test_setup(what_cannot_be_deleted_is_an_error, begin),
                cmocka_unit_test_setup(what_was_not_asked_for_is_not_deleted, begin),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
