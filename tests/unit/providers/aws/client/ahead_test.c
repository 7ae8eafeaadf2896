/* SPDX-License-Identifier: Apache-2.0 */
/* Calls asked ahead: what aws_call() then gets, in which order whatever comes, and what becomes of the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/aws/client/client_support.h"

#include "base/interrupt.h"
#include "base/json.h"

#include <fcntl.h>
#include <poll.h>

static const struct aws_request one = { .service = AWS_LAMBDA,
                                        .operation = "GetFunction",
                                        .method = "GET",
                                        .path = "/2015-03-31/functions/one" };
static const struct aws_request two = { .service = AWS_LAMBDA,
                                        .operation = "GetFunction",
                                        .method = "GET",
                                        .path = "/2015-03-31/functions/two" };

static struct aws_request page_request(const char *marker) {
        struct aws_request request = { .service = AWS_LAMBDA,
                                       .operation = "ListFunctions",
                                       .method = "GET",
                                       .path = "/2015-03-31/functions" };

        if (marker)
                request.query[0] = (struct aws_query){ "Marker", marker };
        return request;
}

static bool next_page(const struct aws_response *page, const struct aws_request *first, const char *context,
                      struct arena *memory, struct aws_request *ret) {
        const char *marker = json_text(page->json, "NextMarker");

        assert_string_equal(first->operation, "ListFunctions");
        assert_string_equal(context, "text");
        if (!marker)
                return false;
        *ret = page_request(arena_strdup(memory, marker));
        return true;
}

static int requests(struct fixture *fixture) {
        int count;

        pthread_mutex_lock(&fixture->server.lock);
        count = fixture->server.requests;
        pthread_mutex_unlock(&fixture->server.lock);
        return count;
}

static void each_answer_is_asked_for_once_and_taken_once(void **state) {
        static const struct scripted_answer ok = { "200 OK\r\n", "{\"a\": 1}" };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, &ok, 1, 1000, NULL);
        aws_ahead(fixture.client, &one);
        aws_ahead(fixture.client, &one); /* two kinds that read the same */
        assert_int_equal(aws_call(fixture.client, &one, &response, &err), 0);
        assert_int_equal(json_integer_or(response.json, "a", 0), 1);
        assert_int_equal(requests(&fixture), 1);
        assert_int_equal(aws_call(fixture.client, &one, &response, &err), 0);
        assert_int_equal(requests(&fixture), 2);
        /* Another thing is another call. */
        aws_ahead(fixture.client, &one);
        assert_int_equal(aws_call(fixture.client, &two, &response, &err), 0);
        assert_int_equal(aws_call(fixture.client, &one, &response, &err), 0);
        assert_int_equal(requests(&fixture), 4);
        stop(&fixture);
        release(&fixture);
}

static void a_listing_goes_on_by_itself(void **state) {
        static const struct scripted_answer pages[] = {
                { "200 OK\r\n", "{\"NextMarker\": \"b\"}" },
                { "200 OK\r\n", "{\"NextMarker\": \"c\"}" },
                { "200 OK\r\n", "{\"last\": true}" },
        };
        struct aws_request first = page_request(NULL), second = page_request("b"), third = page_request("c");
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct fixture fixture;
        struct error err = { 0 };

        (void)state;
        open_client(&fixture, pages, 3, 1000, NULL);
        aws_ahead_pages(fixture.client, &first, next_page, "text");
        assert_int_equal(aws_call(fixture.client, &first, &response, &err), 0);
        assert_string_equal(json_text(response.json, "NextMarker"), "b");
        assert_int_equal(aws_call(fixture.client, &second, &response, &err), 0);
        assert_int_equal(aws_call(fixture.client, &third, &response, &err), 0);
        assert_true(json_is_true(json_object_get(response.json, "last")));
        assert_int_equal(requests(&fixture), 3);
        stop(&fixture);
        release(&fixture);
}

static void errors_are_those_of_the_call(void **state) {
        static const struct scripted_answer missing = {
                "404 Not Found\r\nx-amzn-ErrorType: ResourceNotFoundException\r\n", "{\"Message\": \"no\"}"
        };
        static const char *const gone[] = { "ResourceNotFoundException", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error err = { 0 }, alone = { 0 };
        struct fixture fixture;

        (void)state;
        open_client(&fixture, &missing, 1, 1000, NULL);
        aws_ahead(fixture.client, &one);
        assert_int_equal(aws_call(fixture.client, &one, &response, &err), -1);
        assert_true(aws_failed_with(&response, "ResourceNotFoundException"));
        assert_int_equal(aws_call(fixture.client, &one, &response, &alone), -1);
        assert_string_equal(err.message, alone.message);
        aws_ahead(fixture.client, &one);
        assert_int_equal(aws_call_accepting(fixture.client, &one, gone, &response, &err), 0);
        assert_int_equal(response.status, 404);
        stop(&fixture);
        release(&fixture);
}

/* A server that takes a request and never answers; the client's end must not wait for it. */
struct silent {
        int listener;
        char url[64];
};

static void listen_silently(struct silent *silent) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t length = sizeof(address);

        silent->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(silent->listener, (struct sockaddr *)&address, length), 0);
        assert_int_equal(listen(silent->listener, 8), 0);
        assert_int_equal(getsockname(silent->listener, (struct sockaddr *)&address, &length), 0);
        snprintf(silent->url, sizeof(silent->url), "http://127.0.0.1:%d", ntohs(address.sin_port));
}

static struct aws_client *open_silent(const struct silent *silent, const struct clock *clock,
                                      struct arena *memory) {
        struct value *stack = value_new_map(memory);
        struct aws_client_options options = { .stack_aws = stack, .clock = clock, .random = half };
        struct aws_client *client;
        struct error err = { 0 };

        value_set_text(memory, stack, "endpointUrl", silent->url);
        if (aws_client_open_with(&options, &client, &err) < 0)
                fail_msg("%s", err.message);
        return client;
}

static void nobody_waits_for_what_is_not_wanted_any_more(void **state) {
        struct arena *memory ARENA_CLEANUP = arena_new();
        struct silent silent;
        struct aws_client *client;
        struct pollfd connected;

        (void)state;
        listen_silently(&silent);
        client = open_silent(&silent, &clock_system, memory);
        aws_ahead(client, &one);
        aws_ahead(client, &two);
        connected = (struct pollfd){ .fd = silent.listener, .events = POLLIN };
        assert_int_equal(poll(&connected, 1, 60000), 1); /* a call is under way */
        aws_ahead_end(client);
        aws_client_close(client);
        close(silent.listener);
}

struct raiser {
        struct interrupt *interrupt;
        int listener;
};

static void *raise_once_connected(void *argument) {
        struct raiser *raiser = argument;
        struct pollfd connected = { .fd = raiser->listener, .events = POLLIN };

        poll(&connected, 1, 60000);
        interrupt_raise_to(raiser->interrupt, INTERRUPT_NOW);
        return NULL;
}

static void an_interrupt_ends_the_wait(void **state) {
        struct arena *memory ARENA_CLEANUP = arena_new();
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct interrupt interrupt;
        struct clock clock = clock_system;
        struct aws_client *client;
        struct raiser raiser;
        struct silent silent;
        struct error err = { 0 };
        pthread_t thread;

        (void)state;
        assert_int_equal(interrupt_init(&interrupt, &err), 0);
        clock.interrupt = &interrupt;
        listen_silently(&silent);
        client = open_silent(&silent, &clock, memory);
        aws_ahead(client, &one);
        raiser = (struct raiser){ &interrupt, silent.listener };
        assert_int_equal(pthread_create(&thread, NULL, raise_once_connected, &raiser), 0);
        assert_int_equal(aws_call(client, &one, &response, &err), -1);
        assert_int_equal(err.kind, ERROR_INTERRUPTED);
        pthread_join(thread, NULL);
        aws_client_close(client);
        interrupt_dispose(&interrupt);
        close(silent.listener);
}

/* More than fits in memory that waits: only what is wanted goes on, and everything comes in the end. */
static void answers_wait_in_bounded_memory(void **state) {
        enum { CALLS = 40, BYTES = 1024 * 1024 };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct scripted_answer large = { .head = "200 OK\r\n" };
        struct aws_request calls[CALLS];
        struct fixture fixture;
        struct error err = { 0 };
        char *body = malloc(BYTES + 1), paths[CALLS][64];

        (void)state;
        memset(body, ' ', BYTES);
        memcpy(body, "{}", 2);
        body[BYTES] = '\0';
        large.body = body;
        open_client(&fixture, &large, 1, 1000, NULL);
        for (int i = 0; i < CALLS; i++) {
                snprintf(paths[i], sizeof(paths[i]), "/2015-03-31/functions/f%d", i);
                calls[i] = one;
                calls[i].path = paths[i];
                aws_ahead(fixture.client, &calls[i]);
        }
        for (int i = CALLS - 1; i >= 0; i--) {
                assert_int_equal(aws_call(fixture.client, &calls[i], &response, &err), 0);
                /* Eight megabytes, what twelve threads were at, and those that were wanted. */
                if (i == CALLS - 1)
                        assert_true(requests(&fixture) <= 8 + 12 + 1);
        }
        assert_int_equal(requests(&fixture), CALLS);
        stop(&fixture);
        release(&fixture);
        free(body);
}

static bool was_asked(struct fixture *fixture, const char *line) {
        bool found = false;

        pthread_mutex_lock(&fixture->server.lock);
        for (int i = 0; i < fixture->server.requests && i < SERVER_REQUESTS && !found; i++)
                found = strncmp(fixture->server.received[i], line, strlen(line)) == 0;
        pthread_mutex_unlock(&fixture->server.lock);
        return found;
}

/* A hundred calls stand in line, for which there is no room; the list that comes after them is the next to be asked for. */
static void a_list_does_not_stand_behind_single_calls(void **state) {
        enum { CALLS = 100, BYTES = 1024 * 1024, ASKED_MAX = 8 + 12 };
        struct aws_request list = page_request(NULL), calls[CALLS];
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct scripted_answer large = { .head = "200 OK\r\n" };
        struct fixture fixture;
        struct error err = { 0 };
        char *body = malloc(BYTES + 1), paths[CALLS][64];
        bool asked = false;

        (void)state;
        memset(body, ' ', BYTES);
        memcpy(body, "{}", 2);
        body[BYTES] = '\0';
        large.body = body;
        open_client(&fixture, &large, 1, 1000, NULL);
        for (int i = 0; i < CALLS; i++) {
                snprintf(paths[i], sizeof(paths[i]), "/2015-03-31/functions/f%d", i);
                calls[i] = one;
                calls[i].path = paths[i];
                aws_ahead(fixture.client, &calls[i]);
        }
        aws_ahead_pages(fixture.client, &list, next_page, "text");
        for (int i = 0; i < ASKED_MAX; i++)
                assert_int_equal(aws_call(fixture.client, &calls[i], &response, &err), 0);
        for (int i = 0; i < 60000 && !asked; i++) {
                poll(NULL, 0, 1);
                asked = was_asked(&fixture, "GET /2015-03-31/functions HTTP");
        }
        assert_true(asked);
        stop(&fixture);
        release(&fixture);
        free(body);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(each_answer_is_asked_for_once_and_taken_once, begin),
                cmocka_unit_test_setup(a_listing_goes_on_by_itself, begin),
                cmocka_unit_test_setup(errors_are_those_of_the_call, begin),
                cmocka_unit_test_setup(nobody_waits_for_what_is_not_wanted_any_more, begin),
                cmocka_unit_test_setup(an_interrupt_ends_the_wait, begin),
                cmocka_unit_test_setup(answers_wait_in_bounded_memory, begin),
                cmocka_unit_test_setup(a_list_does_not_stand_behind_single_calls, begin),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
