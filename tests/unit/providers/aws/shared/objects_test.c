/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/objects.h"

#include "providers/aws/client/client_support.h"
#include "providers/aws/shared/support.h"

#define PAGE(rest) "<ListBucketResult>" rest "</ListBucketResult>"
#define OBJECT(key) "<Contents><Key>" key "</Key><ETag>1</ETag></Contents>"
#define MORE(token) "<IsTruncated>true</IsTruncated><NextContinuationToken>" token "</NextContinuationToken>"

static const struct {
        const char *name;
        struct scripted_answer pages[5];
        const char *seen;    /* the keys visited, a space behind each */
        const char *message; /* part of the failure's; NULL: none */
} listings[] = {
        { "no bucket", { { "404 Not Found\r\n", "<Error><Code>NoSuchBucket</Code></Error>" } }, "", NULL },
        { "no object", { { "200 OK\r\n", PAGE("") } }, "", NULL },
        { "two pages",
          { { "200 OK\r\n", PAGE(OBJECT("in/a") OBJECT("in/b") MORE("1")) },
            { "200 OK\r\n", PAGE(OBJECT("in/c")) } },
          "in/a in/b in/c ",
          NULL },
        { "objects that were not asked for",
          { { "200 OK\r\n", PAGE(OBJECT("in") OBJECT("i") OBJECT("in/a") OBJECT("out/b") OBJECT("")) } },
          "in/a ",
          NULL },
        { "a failure on the second page",
          { { "200 OK\r\n", PAGE(OBJECT("in/a") MORE("1")) },
            { "403 Forbidden\r\n", "<Error><Code>AccessDenied</Code></Error>" } },
          "in/a ",
          "AccessDenied" },
        { "a visitor who has seen enough",
          { { "200 OK\r\n", PAGE(OBJECT("in/a") OBJECT("in/stop") OBJECT("in/b")) } },
          "in/a ",
          "stopped" },
        /* The last answer is given again and again. */
        { "a page that leads to itself",
          { { "200 OK\r\n", PAGE(MORE("1")) } },
          "",
          "lab-workspaces-" ACCOUNT "-eu-west-1/in/: the listing has no end: it leads back to the page 1" },
        { "two pages that lead to each other",
          { { "200 OK\r\n", PAGE(OBJECT("in/a") MORE("1")) },
            { "200 OK\r\n", PAGE(MORE("2")) },
            { "200 OK\r\n", PAGE(MORE("1")) },
            { "200 OK\r\n", PAGE(MORE("2")) },
            { "200 OK\r\n", PAGE(MORE("1")) } },
          "in/a ",
          "it leads back to the page 1" },
};

static int see(void *context, const struct s3_object *object, struct error *err) {
        if (strcmp(object->key, "in/stop") == 0)
                return error_set(err, "stopped");
        strbuf_printf(context, "%s ", object->key);
        return 0;
}

static void each_object_is_visited_once(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(listings) / sizeof(*listings); i++) {
                struct strbuf seen STRBUF_CLEANUP = STRBUF_INIT;
                struct provider provider = team;
                struct fixture fixture;
                struct error err = { 0 };
                size_t count = 0;
                int result;

                print_message("  %s\n", listings[i].name);
                while (count < 5 && listings[i].pages[count].head)
                        count++;
                open_client(&fixture, listings[i].pages, count, 1000, NULL);
                provider.client = fixture.client;
                result = objects_each(&provider, "in/", see, &seen, &err);
                stop(&fixture);
                assert_string_equal(strbuf_text(&seen), listings[i].seen);
                assert_int_equal(result, listings[i].message ? -1 : 0);
                if (listings[i].message && !strstr(err.message, listings[i].message))
                        fail_msg("%s", err.message);
                release(&fixture);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test_setup(each_object_is_visited_once, begin) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
