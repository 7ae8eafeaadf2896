/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications against a scripted server: which are sent, which are tried again, which are
 * dropped, and that no caller waits.
 */
#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "gitops/notifier.h"

#include "http/scripted_server.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const struct notify_pace quick = {
        .first_wait_ms = 10, .longest_wait_ms = 50, .give_up_ms = 20000, .timeout_ms = 5000
};

struct fixture {
        struct scripted_server server;
        struct notify_target target;
        struct metrics *metrics;
        struct notifier *notifier;
        char secret_file[32];
};

static void begin(struct fixture *fixture, const struct scripted_answer *answers, size_t answer_count,
                  const struct notify_pace *pace) {
        struct error err = { 0 };
        int file;

        *fixture = (struct fixture){ .metrics = controller_metrics_new(),
                                     .secret_file = "/tmp/berth-test-XXXXXX" };
        scripted_start(&fixture->server, answers, answer_count);
        file = mkstemp(fixture->secret_file);
        assert_true(file >= 0 && write(file, "the secret\n", 11) == 11);
        close(file);
        fixture->target = (struct notify_target){ .url = fixture->server.url,
                                                  .events = NOTIFY_APPLIED | NOTIFY_FAILED,
                                                  .secret_file = fixture->secret_file };
        if (notifier_start_with(&fixture->target, 1, fixture->metrics, NULL, pace, &fixture->notifier, &err) <
            0)
                fail_msg("%s", err.message);
}

static void end(struct fixture *fixture, int64_t grace_ms) {
        notifier_stop(fixture->notifier, grace_ms);
        scripted_stop(&fixture->server);
}

static void release(struct fixture *fixture) {
        scripted_release(&fixture->server);
        metrics_free(fixture->metrics);
        unlink(fixture->secret_file);
}

static void post(struct fixture *fixture, enum notify_event event, const char *message) {
        notifier_post(fixture->notifier, event, json_pack("{s:s}", "message", message));
}

static int counted(struct fixture *fixture, const char *result) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char name[64];
        const char *at;

        snprintf(name, sizeof(name), "\nberth_notifications_total{result=\"%s\"} ", result);
        metrics_write(fixture->metrics, &text);
        at = strstr(strbuf_text(&text), name);
        return at ? (int)strtol(at + strlen(name), NULL, 10) : 0;
}

static int64_t now(void) {
        return clock_system.monotonic_ms(&clock_system);
}

static void await(struct fixture *fixture, const char *result, int wanted) {
        int64_t until = now() + 20000;

        while (counted(fixture, result) < wanted) {
                if (now() > until)
                        fail_msg("only %d %s", counted(fixture, result), result);
                usleep(2000);
        }
        assert_int_equal(counted(fixture, result), wanted);
}

/* The value of a header of what was received, which must be there. */
static void header(const char *received, const char *name, char *ret, size_t size) {
        char wanted[64];
        const char *at;

        snprintf(wanted, sizeof(wanted), "\r\n%s: ", name);
        at = strcasestr(received, wanted);
        if (!at)
                fail_msg("no %s in %s", name, received);
        else
                snprintf(ret, size, "%.*s", (int)strcspn(at + strlen(wanted), "\r"), at + strlen(wanted));
}

static const struct scripted_answer ok = { "200 OK\r\n", "" };

static void sent_and_signed(void **state) {
        struct fixture fixture;
        char timestamp[32], signature[128], event[32], delivery[64], hex[SHA256_HEX_SIZE], text[512];
        uint8_t mac[SHA256_SIZE];
        const char *received, *body;

        (void)state;
        begin(&fixture, &ok, 1, &quick);
        post(&fixture, NOTIFY_APPLIED, "three \xC3\xA4");
        await(&fixture, "sent", 1);
        end(&fixture, 0);
        received = fixture.server.received[0];
        assert_memory_equal(received, "POST / HTTP/1.1\r\n", 17);
        body = strstr(received, "\r\n\r\n") + 4;
        assert_string_equal(body, "{\"formatVersion\":\"1\",\"message\":\"three \xC3\xA4\"}");
        header(received, "Content-Type", text, sizeof(text));
        assert_string_equal(text, "application/json");
        header(received, "User-Agent", text, sizeof(text));
        assert_string_equal(text, "berth/" BERTH_VERSION);
        header(received, "X-Berth-Event", event, sizeof(event));
        assert_string_equal(event, "applied");
        header(received, "X-Berth-Delivery", delivery, sizeof(delivery));
        assert_int_equal(strlen(delivery), 32);
        header(received, "X-Berth-Timestamp", timestamp, sizeof(timestamp));
        assert_true(llabs(strtoll(timestamp, NULL, 10) - (long long)time(NULL)) < 60);
        header(received, "X-Berth-Signature", signature, sizeof(signature));
        snprintf(text, sizeof(text), "%s.%s", timestamp, body);
        digest_hmac_sha256("the secret", 10, text, strlen(text), mac);
        digest_hex(mac, sizeof(mac), hex);
        assert_string_equal(signature + strlen("sha256="), hex);
        release(&fixture);
}

static void what_passes_is_tried_again(void **state) {
        static const struct scripted_answer answers[] = {
                { "", "" },
                { "503 Down\r\n", "" },
                { "408 Late\r\n", "" },
                { "429 Slow\r\n", "" },
                { "204 Done\r\n", "" },
        };
        struct fixture fixture;
        char first[64], again[64];

        (void)state;
        begin(&fixture, answers, 5, &quick);
        post(&fixture, NOTIFY_FAILED, "x");
        await(&fixture, "sent", 1);
        end(&fixture, 0);
        assert_int_equal(counted(&fixture, "retried"), 4);
        assert_int_equal(counted(&fixture, "dropped"), 0);
        assert_int_equal(fixture.server.requests, 5);
        header(fixture.server.received[0], "X-Berth-Delivery", first, sizeof(first));
        for (size_t i = 1; i < 5; i++) {
                header(fixture.server.received[i], "X-Berth-Delivery", again, sizeof(again));
                assert_string_equal(first, again);
        }
        release(&fixture);
}

static void retry_after_is_heeded(void **state) {
        static const struct scripted_answer answers[] = { { "503 Down\r\nRetry-After: 1\r\n", "" },
                                                          { "200 OK\r\n", "" } };
        struct fixture fixture;
        int64_t began = now();

        (void)state;
        begin(&fixture, answers, 2, &quick);
        post(&fixture, NOTIFY_FAILED, "x");
        await(&fixture, "sent", 1);
        assert_true(now() - began >= 1000);
        end(&fixture, 0);
        release(&fixture);
}

static void what_does_not_pass_is_final(void **state) {
        static const struct scripted_answer answers[] = {
                { "400 No\r\n", "" },
                { "404 No\r\n", "" },
                { "301 There\r\nLocation: http://127.0.0.1:1/\r\n", "" },
                { "307 There\r\n", "" },
                { "401 No\r\n", "" },
                { "200 OK\r\n", "" },
        };
        struct fixture fixture;

        (void)state;
        begin(&fixture, answers, 6, &quick);
        for (int i = 0; i < 6; i++)
                post(&fixture, NOTIFY_FAILED, "x");
        await(&fixture, "sent", 1);
        end(&fixture, 0);
        assert_int_equal(counted(&fixture, "dropped"), 5);
        assert_int_equal(counted(&fixture, "retried"), 0);
        assert_int_equal(fixture.server.requests, 6);
        release(&fixture);
}

static void only_what_was_asked_for(void **state) {
        struct fixture fixture;

        (void)state;
        begin(&fixture, &ok, 1, &quick);
        post(&fixture, NOTIFY_REFUSED, "not asked for");
        post(&fixture, NOTIFY_DRIFT, "not asked for");
        post(&fixture, NOTIFY_FAILED, "one");
        post(&fixture, NOTIFY_RECOVERED, "not asked for");
        post(&fixture, NOTIFY_APPLIED, "two");
        await(&fixture, "sent", 2);
        end(&fixture, 1000);
        assert_int_equal(fixture.server.requests, 2);
        assert_non_null(strstr(fixture.server.received[0], "\"one\""));
        assert_non_null(strstr(fixture.server.received[1], "\"two\""));
        release(&fixture);
}

/* A server that takes connections and never says anything. Waiting for it would outlast the test's own time. */
static void nobody_waits_and_the_oldest_goes(void **state) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t length = sizeof(address);
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        struct notify_target target = { .events = NOTIFY_APPLIED };
        struct fixture fixture = { .metrics = controller_metrics_new() };
        struct error err = { 0 };
        struct pollfd polled = { .fd = listener, .events = POLLIN };
        char url[64];

        (void)state;
        assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(listener, 8), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
        snprintf(url, sizeof(url), "http://127.0.0.1:%d/hook", ntohs(address.sin_port));
        target.url = url;
        assert_int_equal(notifier_start_with(&target, 1, fixture.metrics, NULL,
                                             &(struct notify_pace){ 10, 50, 600000, 600000 },
                                             &fixture.notifier, &err),
                         0);
        post(&fixture, NOTIFY_APPLIED, "first");
        assert_int_equal(poll(&polled, 1, 60000), 1); /* it is under way now, and in no queue */
        for (int i = 0; i < NOTIFY_QUEUE + 40; i++)
                post(&fixture, NOTIFY_APPLIED, "x");
        assert_int_equal(counted(&fixture, "dropped"), 40);
        /* Waiting for that server would take ten minutes: neither posting nor stopping does. */
        notifier_stop(fixture.notifier, 0);
        assert_int_equal(counted(&fixture, "sent"), 0);
        assert_int_equal(counted(&fixture, "dropped"), NOTIFY_QUEUE + 41);
        metrics_free(fixture.metrics);
        close(listener);
}

static void too_old_is_dropped(void **state) {
        static const struct scripted_answer down = { "500 Down\r\n", "" };
        /* Some eighty tries in three seconds: on the busiest machine two. */
        const struct notify_pace pace = { 20, 40, 3000, 5000 };
        struct fixture fixture;

        (void)state;
        begin(&fixture, &down, 1, &pace);
        post(&fixture, NOTIFY_APPLIED, "x");
        post(&fixture, NOTIFY_APPLIED, "y");
        await(&fixture, "dropped", 2);
        assert_true(counted(&fixture, "retried") >= 2);
        end(&fixture, 0);
        release(&fixture);
}

static void what_is_queued_still_goes_out(void **state) {
        static const struct scripted_answer answers[] = { { "500 Down\r\n", "" }, { "200 OK\r\n", "" } };
        struct fixture fixture;

        (void)state;
        begin(&fixture, answers, 2, &quick);
        for (int i = 0; i < 20; i++)
                post(&fixture, NOTIFY_APPLIED, "x");
        end(&fixture, 10000);
        assert_int_equal(counted(&fixture, "sent"), 20);
        assert_int_equal(counted(&fixture, "dropped"), 0);
        release(&fixture);
}

static void a_long_wait_ends_with_the_notifier(void **state) {
        static const struct scripted_answer answers[] = { { "503 Down\r\nRetry-After: 600\r\n", "" } };
        struct fixture fixture;
        int64_t began;

        (void)state;
        begin(&fixture, answers, 1, &quick);
        post(&fixture, NOTIFY_APPLIED, "x");
        await(&fixture, "retried", 1);
        began = now();
        end(&fixture, 500);
        assert_true(now() - began < 5000);
        assert_int_equal(counted(&fixture, "dropped"), 1);
        release(&fixture);
}

static void what_stops_it_from_starting(void **state) {
        char empty[] = "/tmp/berth-test-XXXXXX";
        const struct {
                struct notify_target target;
                const char *message;
        } cases[] = {
                { { "http://127.0.0.1/", NOTIFY_APPLIED, "/nonexistent/secret" }, "/nonexistent/secret" },
                { { "http://127.0.0.1/", NOTIFY_APPLIED, empty }, "is empty" },
                { { "ftp://127.0.0.1/", NOTIFY_APPLIED, NULL }, "http" },
                { { "https://[::1/x", NOTIFY_APPLIED, NULL }, "url" },
                { { "https://user:password@host/x", NOTIFY_APPLIED, NULL }, "url" },
        };
        struct metrics *metrics = controller_metrics_new();
        int file = mkstemp(empty);

        (void)state;
        assert_true(file >= 0 && write(file, "\r\n\n", 3) == 3);
        close(file);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const struct notify_target targets[] = { { "http://127.0.0.1/", NOTIFY_APPLIED, NULL },
                                                         cases[i].target };
                struct notifier *notifier = NULL;
                struct error err = { 0 };

                assert_int_equal(notifier_start(targets, 2, metrics, NULL, &notifier, &err), -1);
                print_message("  %s\n", err.message);
                assert_non_null(strstr(err.message, cases[i].message));
                assert_null(strstr(err.message, "password@"));
                assert_null(notifier);
        }
        notifier_stop(NULL, 0);
        unlink(empty);
        metrics_free(metrics);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(sent_and_signed),
                cmocka_unit_test(what_passes_is_tried_again),
                cmocka_unit_test(retry_after_is_heeded),
                cmocka_unit_test(what_does_not_pass_is_final),
                cmocka_unit_test(only_what_was_asked_for),
                cmocka_unit_test(nobody_waits_and_the_oldest_goes),
                cmocka_unit_test(too_old_is_dropped),
                cmocka_unit_test(what_is_queued_still_goes_out),
                cmocka_unit_test(a_long_wait_ends_with_the_notifier),
                cmocka_unit_test(what_stops_it_from_starting),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
