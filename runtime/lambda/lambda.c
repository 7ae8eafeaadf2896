/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes. This one speaks with Lambda and holds what Lambda told it; the other
 * (lambda_inner.h) is the runtime as every sandbox has it, and knows of nothing but code. User code
 * has the same user as both: it may kill them, but can look into neither (not dumpable), and finds
 * in the other's environment nothing of Lambda's. It can also speak with the Runtime API itself: it
 * does not know the id of the invocation, so it can answer none; the API gives no second event
 * before the answer; and if code takes the next event in our stead, which is its own session's, we
 * are refused, and end: Lambda starts again.
 *
 * Bringing in, running and bringing out have an order in which each death leaves less than is
 * reported: files come in before code, files go out before the checkpoint, and the result that
 * reports both goes last.
 */
#include "runtime/lambda/lambda.h"

#include "base/clock.h"
#include "base/files.h"
#include "process/descendants.h"
#include "runtime/lambda/lambda_parts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Lambda gives a start 10 s. */
#define START_MS 8000
#define TICK_MS 1000
#define REST_MS 500 /* to let go of an invocation's requests */

void lambda_complain(const char *what) {
        (void)fprintf(stderr, "berth-runtime: %s\n", what);
}

int64_t lambda_time_left_ms(const struct invocation *invocation, const struct lambda_event *event) {
        int64_t end = invocation_deadline_ms(invocation);

        return lambda_until(event->deadline_ms, end) - clock_wall_ms();
}

/* --- files --- */

static void tell_file(void *context, const struct invocation_file *file) {
        struct lambda *lambda = context;

        lambda_answer_file(&lambda->answer, file);
}

/* Until then files may be moved, of what is left: half of it where code is to follow. */
static int64_t files_until_ms(const struct invocation *invocation, const struct lambda_event *event,
                              bool is_last) {
        int64_t left = lambda_time_left_ms(invocation, event);

        return clock_now_ms() + (is_last ? left - 1000 : left / 2);
}

static int bring_in(struct lambda *lambda, const struct invocation *invocation,
                    const struct lambda_event *event, bool mine, struct invocation_end *end,
                    struct error *err) {
        int64_t start_ms = clock_now_ms();
        int result;

        if (!invocation->workspace)
                return 0;
        if (lambda_environment_make_workspace(err) < 0)
                return -1;
        result = lambda_transfer_pull(&lambda->transfer, invocation->workspace, mine,
                                      files_until_ms(invocation, event, false), err);
        end->files_in_ms = clock_now_ms() - start_ms;
        return result < 0 ? error_context(err, "its files could not be brought in") : 0;
}

/* Code that an event has no room for. As with files, where it is not here nothing runs. */
static int bring_code(struct lambda *lambda, struct invocation *invocation, const struct lambda_event *event,
                      struct error *err) {
        struct strbuf body STRBUF_CLEANUP = STRBUF_INIT;
        int result = 0;

        if (!invocation->body)
                return 0;
        if (lambda_transfer_fetch(&lambda->transfer, invocation->body,
                                  files_until_ms(invocation, event, false), err) != 0)
                result = -1;
        else if (descriptor_read(lambda->transfer.body, MESSAGE_BODY_MAX, &body) != 0)
                result = error_set(err, "what was fetched cannot be read");
        else
                result = invocation_take_body(invocation, &body, err);
        return result < 0 ? error_context(err, "its code and input could not be brought in") : 0;
}

/* The result and a stream have room for as many files as a workspace should have; what even they do not tell is not known to be kept. */
static void bring_out(struct lambda *lambda, const struct invocation *invocation,
                      const struct lambda_event *event, struct invocation_end *end, struct error *why) {
        int64_t start_ms = clock_now_ms();
        int result;

        if (!invocation->workspace)
                return;
        result = lambda_transfer_push(&lambda->transfer, invocation->workspace,
                                      files_until_ms(invocation, event, true), why);
        if (result == 0 && lambda->answer.record_room.files_left_out > 0)
                result = error_set(why, "more files have changed than an answer can tell");
        if (result < 0) {
                end->files_complete = false;
                end->files_reason = why->message;
        }
        lambda->answer.skipped_left_out += lambda->transfer.skipped_left_out;
        end->files_out_ms = clock_now_ms() - start_ms;
}

/*
 * The same answer, to whom the other one does not reach. It says of itself that it is there. Only of what ran: what is refused could be there
 * already, as what came of it when it was asked for first.
 */
static void leave_result(struct lambda *lambda, const struct invocation *invocation,
                         const struct lambda_event *event, struct invocation_end *end) {
        const struct strbuf *result;
        struct error why;
        int file;

        if (!invocation->transfer || end->refusal != INVOCATION_TAKEN)
                return;
        end->left_result = true;
        result = lambda_answer_result(&lambda->answer, end);
        file = lambda_transfer_body(&lambda->transfer, &why);
        if (file >= 0 && descriptor_write(file, strbuf_text(result), result->length) == 0 &&
            lambda_transfer_post(&lambda->transfer, invocation->transfer, "result",
                                 files_until_ms(invocation, event, true), NULL, &why) == 0)
                return;
        end->left_result = false;
        lambda_complain("the result could not be left in the bucket");
}

/* --- one invocation --- */

/* Answers a repeated request for an execution from what is known of it. */
static bool say_again(struct lambda *lambda, const struct invocation *invocation) {
        return strcmp(lambda->environment.session, invocation->session) == 0 &&
               invocation->n == lambda->environment.last_n && lambda_answer_say_again(&lambda->answer);
}

static enum invocation_refusal serve_invocation(struct lambda *lambda, struct invocation *invocation,
                                                const struct lambda_event *event, struct invocation_end *end,
                                                struct error *why) {
        /*
         * Changes by code here count more than the bucket, if no other environment can have run
         * meanwhile.
         */
        bool mine = lambda_owner_is_last(&lambda->environment, invocation);
        enum invocation_refusal refusal = lambda_owner_admit(lambda, invocation, event, why);
        struct error note = { 0 };

        if (refusal == INVOCATION_TAKEN)
                refusal = lambda_owner_settle(lambda, invocation, event, &end->was, why);
        if (refusal != INVOCATION_TAKEN)
                return refusal;
        if (bring_code(lambda, invocation, event, why) < 0 ||
            bring_in(lambda, invocation, event, mine, end, why) < 0 ||
            lambda_checkpoint_restore(lambda, invocation, event, end->was, end, why) < 0 ||
            lambda_code_run(lambda, invocation, event, &note, why) < 0)
                return INVOCATION_FAILED;
        if (note.message[0]) {
                *why = note;
                end->reason = why->message;
        }
        return INVOCATION_TAKEN;
}

static int serve_event(struct lambda *lambda, const struct lambda_event *event, struct error *err) {
        struct invocation invocation INVOCATION_CLEANUP = INVOCATION_INIT;
        struct invocation_end end = { .starts = lambda->environment.starts,
                                      .was = INVOCATION_KEPT,
                                      .idle_ms = lambda->idle_ms,
                                      .frozen_ms = lambda->frozen_ms,
                                      .files_complete = true };
        int64_t cpu_ms = descendants_cpu_ms();
        struct error why, files_why, checkpoint_why;
        int status;

        end.served = ++lambda->served;
        if (invocation_read(strbuf_text(&event->body), event->body.length, &invocation, &why) < 0)
                return lambda_api_fail(&lambda->api, event, "Function.MalformedEvent", why.message, &status,
                                       err);
        if (lambda_answer_begin(&lambda->answer, &lambda->api, event, &invocation, err) < 0)
                return -1;
        end.n = invocation.n;
        descendants_count_peaks_anew();
        end.refusal = serve_invocation(lambda, &invocation, event, &end, &why);
        end.peak_memory_bytes = descendants_peak_bytes();
        if (end.refusal != INVOCATION_TAKEN) {
                const struct report refused = { .type = REPORT_REFUSED,
                                                .n = invocation.n,
                                                .reason = why.message };

                if (end.refusal != INVOCATION_REPEATED || !say_again(lambda, &invocation))
                        lambda_answer_report(&lambda->answer, &refused);
                end.reason = why.message;
        }
        memcpy(end.boot, lambda->environment.boot, sizeof(end.boot));
        if (end.refusal == INVOCATION_TAKEN) {
                bring_out(lambda, &invocation, event, &end, &files_why);
                lambda_checkpoint_take(lambda, &invocation, event, &end, &checkpoint_why);
        }
        cpu_ms = descendants_cpu_ms() - cpu_ms;
        end.cpu_ms = cpu_ms > 0 ? cpu_ms : 0;
        leave_result(lambda, &invocation, event, &end);
        lambda_transfer_rest(&lambda->transfer, clock_now_ms() + REST_MS);
        return lambda_answer_end(&lambda->answer, &lambda->api, event, &end, err);
}

/* --- between two --- */

static int64_t clock_ms(clockid_t clock) {
        struct timespec now;

        return clock_gettime(clock, &now) < 0 ? 0 : (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* By which of the clocks more time has passed: a machine that stood still may have only one that knows. */
static int64_t passed_ms(int64_t boot_ms, int64_t real_ms) {
        int64_t boot = clock_ms(CLOCK_BOOTTIME) - boot_ms, real = clock_ms(CLOCK_REALTIME) - real_ms;

        return boot > real ? boot : real;
}

/* Waits for the next event, looking up each second: where that took much longer, nothing here ran meanwhile. */
static int next_event(struct lambda *lambda, struct lambda_event *ret, struct error *err) {
        int64_t boot_ms = clock_ms(CLOCK_BOOTTIME), real_ms = clock_ms(CLOCK_REALTIME), tick_ms = 0;

        lambda->frozen_ms = 0;
        if (lambda_api_ask(&lambda->api, err) < 0)
                return -1;
        for (;;) {
                struct pollfd polled[] = { { lambda->api.asked, POLLIN, 0 },
                                           { lambda->inner.socket, POLLIN, 0 } };
                int64_t passed;

                if (poll(polled, CONTENT_COUNT(polled), TICK_MS) < 0 && errno != EINTR)
                        return error_set(err, "cannot wait: %s", strerror(errno));
                passed = passed_ms(boot_ms, real_ms);
                if (passed - tick_ms > 2 * TICK_MS)
                        lambda->frozen_ms += passed - tick_ms - TICK_MS;
                tick_ms = passed;
                if (polled[1].revents)
                        (void)lambda_code_hear(lambda);
                if (polled[0].revents)
                        break;
        }
        lambda->idle_ms = tick_ms > 0 ? tick_ms : 0;
        return lambda_api_take(&lambda->api, ret, err);
}

/* A kernel that waits for its first code; without Python there is no function. */
static int start_kernel(struct lambda *lambda, struct error *err) {
        const struct request prepare = { .type = REQUEST_PREPARE, .context = "main" };
        int64_t until_ms = clock_now_ms() + START_MS;
        int result = lambda_inner_start(&lambda->inner, err), status;
        struct error unsaid;

        if (result == 0) {
                lambda_inner_ask(&lambda->inner, &prepare);
                lambda->has_python = true;
                result = lambda_code_wait(lambda, LAMBDA_PREPARED, until_ms);
                lambda->waiting = LAMBDA_NOTHING;
                if (result < 0)
                        (void)error_set(err, "%s", lambda->lost);
        }
        if (result >= 0 && lambda->has_python) {
                lambda_transfer_prepare(&lambda->transfer, until_ms);
                return 0;
        }
        if (result >= 0)
                (void)error_set(err, "%s", lambda->said);
        if (lambda_api_fail(&lambda->api, NULL, result < 0 ? "Runtime.NotStarted" : "Runtime.NoPython",
                            err->message, &status, &unsaid) < 0)
                lambda_complain(unsaid.message);
        return -1;
}

/* What Lambda told us leaves our memory, as far as it is in our environment; the region and the like are no secrets. */
static void forget_keys(void) {
        static const char *const names[] = { "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=",
                                             "AWS_SESSION_TOKEN=" };

        for (char **one = environ; *one; one++) {
                for (size_t i = 0; i < CONTENT_COUNT(names); i++) {
                        size_t length = strlen(names[i]);

                        if (strncmp(*one, names[i], length) == 0)
                                explicit_bzero(*one + length, strlen(*one + length));
                }
        }
}

/*
 * POSIX message queues have names that cannot be listed, and outlive their makers: they are
 * forbidden.
 */
static int shut_away(struct error *err) {
        const struct rlimit none = { 0 };

        for (int number = 1; number < NSIG; number++) {
                if (number != SIGCHLD)
                        (void)signal(number, SIG_IGN);
        }
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ||
            setrlimit(RLIMIT_MSGQUEUE, &none) < 0)
                return error_set(err, "cannot shut itself away: %s", strerror(errno));
        forget_keys();
        return 0;
}

int lambda_serve(struct error *err) {
        const char *address = getenv("AWS_LAMBDA_RUNTIME_API");
        struct lambda *lambda = calloc(1, sizeof(*lambda));
        int result;

        if (!lambda)
                abort();
        lambda->inner = (struct lambda_inner)LAMBDA_INNER_NONE;
        lambda->answer = (struct lambda_answer)LAMBDA_ANSWER_NONE;
        lambda->transfer = (struct lambda_transfer)LAMBDA_TRANSFER_NONE;
        lambda->transfer.tell = tell_file;
        lambda->transfer.context = lambda;
        if (!address)
                result = error_set(
                        err, "AWS_LAMBDA_RUNTIME_API is not set: Lambda starts this, as the entry point of "
                             "a function");
        else
                result = shut_away(err) < 0 || lambda_api_open(address, &lambda->api, err) < 0 ? -1 : 0;
        if (result == 0) {
                lambda_environment_open(&lambda->environment);
                result = lambda_environment_mark(&lambda->environment, err) < 0 ? -1
                                                                                : start_kernel(lambda, err);
        }
        while (result == 0) {
                struct lambda_event event LAMBDA_EVENT_CLEANUP = { 0 };

                result = next_event(lambda, &event, err) < 0 ? -1 : serve_event(lambda, &event, err);
        }
        lambda_inner_end(&lambda->inner);
        lambda_answer_release(&lambda->answer);
        json_decref(lambda->checkpoint);
        lambda_transfer_release(&lambda->transfer);
        close_descriptor(&lambda->environment.mark);
        free(lambda);
        return result;
}
