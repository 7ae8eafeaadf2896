/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code runs in the runtime that every sandbox has (lambda_inner.h), which is asked and heard here.
 * Its end is said where it cannot say it any more. One loop reads it, sends its output on, and
 * notices whether the execution must be interrupted.
 */
#include "runtime/lambda/lambda_parts.h"

#include "base/clock.h"
#include "process/descendants.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/* The code's time ends this long before Lambda ends the function: for its end, and for files. */
#define RESERVE_MS 5000
#define RESERVE_FOR_FILES_MS 30000
/* Behind the code's deadline its runtime must have said that it is over: twice the grace, and some. */
#define OVERDUE_MS 8000
#define OTHERS_MS 30000 /* what is no execution */
#define WATCH_MS 10000  /* to begin to look for interrupts */
#define LOOKS_MAX 4     /* repeated, of one execution */
#define ANEW_MS 5000    /* all of them within what is held back for files */
#define BACKLOG_MAX ((size_t)1 << 20)

void lambda_code_lose(struct lambda *lambda, const char *why) {
        static const struct descendants none = { 0 };

        (void)snprintf(lambda->lost, sizeof(lambda->lost), "%.*s", (int)sizeof(lambda->lost) - 1, why);
        lambda_inner_end(&lambda->inner);
        lambda_transfer_end(&lambda->transfer);
        descendants_kill(&none, 0);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
}

/* false: what it says cannot be. */
static bool take_report(struct lambda *lambda, const struct message *message, const struct report *report) {
        bool waits_for_end = lambda->waiting == LAMBDA_END;

        switch (report->type) {
        case REPORT_HELLO:
                return report->protocol == REPORT_PROTOCOL;
        case REPORT_STARTED:
        case REPORT_OUTPUT:
        case REPORT_DISPLAY:
        case REPORT_DONE:
                if (lambda->n == 0 || report->n != lambda->n || !waits_for_end)
                        return false;
                lambda_answer_forward(&lambda->answer, message, report, true);
                if (report->type == REPORT_DONE)
                        lambda->waiting = LAMBDA_NOTHING;
                return true;
        case REPORT_PREPARED:
                if (lambda->waiting == LAMBDA_PREPARED) {
                        lambda->has_python = report->python != NULL;
                        (void)snprintf(lambda->said, sizeof(lambda->said), "%s",
                                       report->reason ? report->reason : "python3 did not start");
                        lambda->waiting = LAMBDA_NOTHING;
                        return true;
                }
                /* The answer to a start that took longer than a start may. */
                if (!waits_for_end || lambda->n > 0)
                        return true;
                lambda_answer_forward(&lambda->answer, message, report, false);
                lambda->waiting = LAMBDA_NOTHING;
                return true;
        case REPORT_RESTARTED:
        case REPORT_STATUS:
        case REPORT_REFUSED:
                if (!waits_for_end || (lambda->n > 0 && report->type != REPORT_REFUSED))
                        return false;
                lambda_answer_forward(&lambda->answer, message, report, lambda->n > 0);
                lambda->waiting = LAMBDA_NOTHING;
                return true;
        case REPORT_PIECE:
        case REPORT_CHECKPOINTED:
        case REPORT_RESTORED:
                return lambda_checkpoint_hear(lambda, report);
        }
        return false;
}

int lambda_code_hear(struct lambda *lambda) {
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct report report;
        struct error err;
        int result = lambda_inner_hear(&lambda->inner, &message, &report, &err);

        if (result > 0 && !take_report(lambda, &message, &report))
                result = error_set(&err, "the runtime in the environment said what cannot be");
        if (result < 0)
                lambda_code_lose(lambda, err.message);
        return result < 0 ? -1 : 0;
}

static void interrupt_code(struct lambda *lambda) {
        const struct request request = { .type = REQUEST_INTERRUPT, .n = lambda->n };

        if (lambda->n > 0 && lambda->inner.socket >= 0)
                lambda_inner_ask(&lambda->inner, &request);
}

/* Code can end the process that looks, as all of its user's. Then another one does, a few times: more often is that code's own trouble. */
static void hear_watch(struct lambda *lambda) {
        struct error err;

        if (lambda_transfer_hear(&lambda->transfer)) {
                lambda->interrupt = NULL;
                interrupt_code(lambda);
                return;
        }
        if (lambda->transfer.watches || !lambda->interrupt)
                return;
        while (lambda->looks_left > 0) {
                lambda->looks_left--;
                if (lambda_transfer_watch(&lambda->transfer, lambda->interrupt, clock_now_ms() + ANEW_MS,
                                          &err) == 0)
                        return;
                lambda_complain(err.message);
        }
        lambda->interrupt = NULL;
}

int lambda_code_wait(struct lambda *lambda, enum lambda_waiting waiting, int64_t until_ms) {
        struct lambda_stream *stream = &lambda->answer.stream;

        lambda->waiting = waiting;
        while (lambda->waiting != LAMBDA_NOTHING) {
                bool behind = lambda_stream_backlog(stream) > BACKLOG_MAX, has_more;
                int64_t left = until_ms - clock_now_ms();
                struct error err;

                lambda_checkpoint_feed(lambda);
                has_more = lambda->inner.sent < lambda->inner.unsent.length;
                struct pollfd polled[] = {
                        { behind ? -1 : lambda->inner.socket, (short)(has_more ? POLLIN | POLLOUT : POLLIN),
                          0 },
                        { lambda_stream_backlog(stream) > 0 ? stream->socket : -1, POLLOUT, 0 },
                        { lambda->transfer.watches ? lambda->transfer.socket : -1, POLLIN, 0 },
                };

                if (left <= 0)
                        return 1;
                if (poll(polled, CONTENT_COUNT(polled), left < 60000 ? (int)left : 60000) < 0 &&
                    errno != EINTR)
                        abort();
                if (polled[1].revents && lambda_stream_send(stream, &err) < 0)
                        lambda_complain(err.message);
                if (polled[2].revents)
                        hear_watch(lambda);
                if (polled[0].revents & POLLOUT)
                        lambda_inner_send(&lambda->inner);
                if (polled[0].revents & (POLLIN | POLLHUP | POLLERR) && lambda_code_hear(lambda) < 0)
                        return -1;
        }
        return 0;
}

/* The runtime has not said how it ended, and is not there any more. */
static void say_cut_off(struct lambda *lambda, bool late) {
        const struct report done = { .type = REPORT_DONE,
                                     .n = lambda->n,
                                     .status = late ? REPORT_TIMEOUT : REPORT_KILLED,
                                     .exit_code = -1,
                                     .error = { .name = "KernelEnded", .value = lambda->lost },
                                     .ended = lambda->lost,
                                     .stdout_bytes = lambda->answer.printed[0],
                                     .stderr_bytes = lambda->answer.printed[1] };

        lambda_answer_report(&lambda->answer, &done);
}

/* What the code gets of the time that is left. */
static int64_t code_ms(const struct invocation *invocation, const struct lambda_event *event) {
        int64_t left = lambda_time_left_ms(invocation, event), most;
        int64_t reserve = invocation->workspace || invocation->transfer ? RESERVE_FOR_FILES_MS : RESERVE_MS;

        most = left > 2 * reserve ? left - reserve : left / 2;
        if (most < 1)
                most = 1;
        return invocation->request.timeout_ms > 0 && invocation->request.timeout_ms < most
                       ? invocation->request.timeout_ms
                       : most;
}

/* It is written down before, so that it begins once here. */
static int begin_code(struct lambda *lambda, int64_t n, struct error *err) {
        int64_t before = lambda->environment.last_n;

        lambda->environment.last_n = n;
        if (lambda_environment_mark(&lambda->environment, err) < 0) {
                lambda->environment.last_n = before;
                return -1;
        }
        lambda_answer_keep_anew(&lambda->answer);
        lambda->n = n;
        return 0;
}

int lambda_code_run(struct lambda *lambda, const struct invocation *invocation,
                    const struct lambda_event *event, struct error *note, struct error *err) {
        bool executes = invocation->request.type == REQUEST_EXECUTE;
        struct request request = invocation->request;
        int64_t most = OTHERS_MS;
        int result;

        if (executes) {
                lambda->interrupt = invocation->interrupt;
                lambda->looks_left = LOOKS_MAX;
                if (invocation->interrupt && lambda_transfer_watch(&lambda->transfer, invocation->interrupt,
                                                                   clock_now_ms() + WATCH_MS, note) < 0) {
                        (void)error_context(note, "it could not be interrupted");
                        lambda->interrupt = NULL;
                }
                request.timeout_ms = code_ms(invocation, event);
                most = request.timeout_ms + OVERDUE_MS;
                if (begin_code(lambda, invocation->n, err) < 0)
                        return -1;
        }
        lambda_inner_ask(&lambda->inner, &request);
        result = lambda_code_wait(lambda, LAMBDA_END, clock_now_ms() + most);
        if (result > 0)
                lambda_code_lose(lambda, "it was killed: it did not stop at its deadline");
        if (result != 0 && executes)
                say_cut_off(lambda, result > 0);
        lambda->transfer.watches = false;
        lambda->interrupt = NULL;
        lambda->n = 0;
        lambda->waiting = LAMBDA_NOTHING;
        return result != 0 && !executes ? error_set(err, "%s", lambda->lost) : 0;
}
