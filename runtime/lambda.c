/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes. This one speaks with Lambda and holds what Lambda told it; the other (lambda_inner.h) is the runtime as every sandbox has
 * it, and knows of nothing but code. User code has the same user as both: it may kill them, but can look into neither (not dumpable), and
 * finds in the other's environment nothing of Lambda's. What it can do is to speak with the Runtime API itself: it does not know the
 * id of the invocation, so it can answer none; the API gives no second event before the answer; and where code takes the next event in
 * our stead, which is its own session's, we are refused, and end: Lambda starts anew.
 *
 * What an environment has in its memory is the session's only if the session's last execution ran in it: Lambda may have had two, and
 * used the other meanwhile. So the event says which execution that was, and where; what does not fit is ended, never continued.
 *
 * An execution is begun once in an environment: its number is written down before.
 */
#include "runtime/lambda.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "runtime/descendants.h"
#include "runtime/lambda_api.h"
#include "runtime/lambda_environment.h"
#include "runtime/lambda_inner.h"
#include "runtime/lambda_transfer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Lambda gives a start 10 s. */
#define START_MS 8000
#define RESTORE_MS 10000
#define CLEAN_MS 20000
/* Of what is left until Lambda ends the function, the code does not get: for its end, and for files. */
#define RESERVE_MS 5000
#define RESERVE_FOR_FILES_MS 30000
/* Behind the code's deadline its runtime must have said that it is over: twice the grace, and some. */
#define OVERDUE_MS 8000
#define OTHERS_MS 30000 /* what is no execution */
#define BACKLOG_MAX ((size_t)1 << 20)
#define KEPT_MAX ((size_t)1 << 20)   /* of the last answer */
#define RECORD_MAX ((size_t)8 << 20) /* of the one that goes under transfer/N/result */
#define RAN_MAX 512
#define TICK_MS 1000

enum waiting { WAITING_NOTHING, WAITING_PREPARED, WAITING_RESTORED, WAITING_END };

struct door {
        struct lambda_api api;
        struct lambda_environment environment;
        struct lambda_inner inner;
        char lost[512]; /* why the one before does not live any more */
        int64_t served, idle_ms, frozen_ms;
        bool settled; /* since this start: whose the environment is was looked at */
        bool unclean; /* something of the session before may be left: nobody gets the environment before it is gone */
        struct {
                uint64_t session;
                int64_t n;
        } ran[RAN_MAX]; /* of sessions that were here before: the last execution that began */
        size_t ran_count;
        struct strbuf kept; /* of the last execution's answer */
        int64_t kept_cut;
        bool kept_whole; /* it has its end */
        /* Of the invocation that is being done. */
        enum waiting waiting;
        bool has_python;
        char why_no_python[CONTENT_REASON_MAX + 1];
        int64_t n; /* of the execution that runs; 0: none */
        int64_t bytes[2], room, cut;
        bool buffered;
        struct lambda_stream stream;
        struct strbuf answer; /* of one that is buffered */
        struct lambda_transfer transfer;
        struct strbuf record; /* of one that goes to the bucket, too */
        bool records, record_is_whole;
};

static int64_t now_ms(void) {
        return clock_system.monotonic_ms(&clock_system);
}

static int64_t wall_ms(void) {
        return clock_system.wall_ms(&clock_system);
}

static void complain(const char *what) {
        (void)fprintf(stderr, "berth-runtime: %s\n", what);
}

/* --- the answer --- */

static void say(struct door *door, const struct strbuf *bytes) {
        if (door->buffered)
                strbuf_append_bytes(&door->answer, strbuf_text(bytes), bytes->length);
        else
                lambda_stream_say(&door->stream, strbuf_text(bytes), bytes->length);
        if (!door->records)
                return;
        if (bytes->length <= RECORD_MAX - door->record.length)
                strbuf_append_bytes(&door->record, strbuf_text(bytes), bytes->length);
        else
                door->record_is_whole = false;
}

static void keep(struct door *door, const struct strbuf *bytes, int64_t counts) {
        if (bytes->length <= KEPT_MAX - door->kept.length)
                strbuf_append_bytes(&door->kept, strbuf_text(bytes), bytes->length);
        else
                door->kept_cut += counts;
}

static void say_report(struct door *door, const struct report *report) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;

        report_write(report, &bytes);
        say(door, &bytes);
        if (report->type == REPORT_DONE)
                keep(door, &bytes, 0);
}

/* Output and displays, as long as there is room for them: what comes behind something that is left out is left out, too. */
static void forward(struct door *door, const struct message *message, const struct report *report) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        bool shows = report->type == REPORT_OUTPUT || report->type == REPORT_DISPLAY;

        if (report->type == REPORT_OUTPUT)
                door->bytes[report->is_stderr] += (int64_t)report->length;
        message_write(&bytes, message->head, strbuf_text(&message->body), message->body.length);
        if (shows && (int64_t)bytes.length > door->room) {
                door->cut += (int64_t)message->body.length;
                door->room = 0;
                return;
        }
        if (shows)
                door->room -= (int64_t)bytes.length;
        say(door, &bytes);
        if (door->n > 0)
                keep(door, &bytes, (int64_t)message->body.length);
}

static int begin_answer(struct door *door, const struct lambda_event *event,
                        const struct invocation *invocation, struct error *err) {
        const struct report hello = { .type = REPORT_HELLO,
                                      .protocol = REPORT_PROTOCOL,
                                      .version = BERTH_VERSION };
        int64_t most;

        door->buffered = invocation->answer == INVOCATION_BUFFERED;
        most = door->buffered ? INVOCATION_BUFFERED_BYTES_MAX : INVOCATION_STREAM_BYTES_MAX;
        door->room = invocation->answer_bytes > 0 && invocation->answer_bytes < most
                             ? invocation->answer_bytes
                             : most;
        door->cut = 0;
        door->bytes[0] = door->bytes[1] = 0;
        strbuf_clear(&door->answer);
        strbuf_clear(&door->record);
        door->records = door->record_is_whole = invocation->transfer != NULL;
        if (!door->buffered && lambda_stream_begin(&door->api, event, &door->stream, err) < 0)
                return -1;
        say_report(door, &hello);
        return 0;
}

static int end_answer(struct door *door, const struct lambda_event *event, struct error *err) {
        char *text TEXT_CLEANUP = NULL, *whole TEXT_CLEANUP = NULL;
        json_t *json JSON_CLEANUP = NULL;
        int status;

        if (!door->buffered) {
                if (lambda_stream_end(&door->stream, NULL, NULL, &status, err) < 0) {
                        /* Nobody hears this answer, but there may be another event. */
                        complain(err->message);
                        return 0;
                }
        } else {
                text = malloc(4 * ((door->answer.length + 2) / 3) + 1);
                if (!text)
                        abort();
                digest_base64((const uint8_t *)strbuf_text(&door->answer), door->answer.length, text);
                strbuf_release(&door->answer);
                json = json_checked(json_pack("{s:i, s:s}", "berth", INVOCATION_VERSION, "messages", text));
                whole = json_compact(json);
                if (lambda_api_answer(&door->api, event, whole, strlen(whole), &status, err) < 0)
                        return -1;
        }
        if (status != 202) {
                struct error refused;

                (void)error_set(&refused, "the Runtime API does not take the answer: %d", status);
                complain(refused.message);
        }
        return 0;
}

/* --- the runtime that serves --- */

/* It is gone, and with it all that it started. */
static void lose_inner(struct door *door, const char *why) {
        static const struct descendants none = { 0 };

        snprintf(door->lost, sizeof(door->lost), "%.*s", (int)sizeof(door->lost) - 1, why);
        lambda_inner_end(&door->inner);
        descendants_kill(&none, 0);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
}

/* false: what it says cannot be. */
static bool take_report(struct door *door, const struct message *message, const struct report *report) {
        switch (report->type) {
        case REPORT_HELLO:
                return report->protocol == REPORT_PROTOCOL;
        case REPORT_STARTED:
        case REPORT_OUTPUT:
        case REPORT_DISPLAY:
        case REPORT_DONE:
                if (door->n == 0 || report->n != door->n || door->waiting != WAITING_END)
                        return false;
                forward(door, message, report);
                if (report->type == REPORT_DONE)
                        door->waiting = WAITING_NOTHING;
                return true;
        case REPORT_PREPARED:
                if (door->waiting == WAITING_PREPARED) {
                        door->has_python = report->python != NULL;
                        snprintf(door->why_no_python, sizeof(door->why_no_python), "%s",
                                 report->reason ? report->reason : "python3 did not start");
                        door->waiting = WAITING_NOTHING;
                        return true;
                }
                /* One that took longer than a start may. */
                if (door->waiting != WAITING_END || door->n > 0)
                        return true;
                forward(door, message, report);
                door->waiting = WAITING_NOTHING;
                return true;
        case REPORT_RESTARTED:
        case REPORT_STATUS:
        case REPORT_REFUSED:
                if (door->waiting != WAITING_END || (door->n > 0 && report->type != REPORT_REFUSED))
                        return false;
                forward(door, message, report);
                door->waiting = WAITING_NOTHING;
                return true;
        case REPORT_RESTORED:
                if (door->waiting != WAITING_RESTORED)
                        return false;
                door->waiting = WAITING_NOTHING;
                return true;
        case REPORT_PIECE:
        case REPORT_CHECKPOINTED:
                break;
        }
        return false;
}

/* One message at most, so that what was printed goes on its way before more is read. -1: it is lost. */
static int hear_inner(struct door *door) {
        struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
        struct report report;
        struct error err;
        int result = lambda_inner_hear(&door->inner, &message, &report, &err);

        if (result > 0 && !take_report(door, &message, &report))
                result = error_set(&err, "the runtime in the environment said what cannot be");
        if (result < 0)
                lose_inner(door, err.message);
        return result < 0 ? -1 : 0;
}

/* Until it says what we wait for: 0. 1: the time is over. -1: it is lost. */
static int wait_for(struct door *door, enum waiting waiting, int64_t until_ms) {
        door->waiting = waiting;
        while (door->waiting != WAITING_NOTHING) {
                bool behind = lambda_stream_backlog(&door->stream) > BACKLOG_MAX;
                bool has_more = door->inner.sent < door->inner.unsent.length;
                int64_t left = until_ms - now_ms();
                struct error err;
                struct pollfd polled[] = {
                        { behind ? -1 : door->inner.socket, (short)(has_more ? POLLIN | POLLOUT : POLLIN),
                          0 },
                        { lambda_stream_backlog(&door->stream) > 0 ? door->stream.socket : -1, POLLOUT, 0 },
                };

                if (left <= 0)
                        return 1;
                if (poll(polled, CONTENT_COUNT(polled), left < 60000 ? (int)left : 60000) < 0 &&
                    errno != EINTR)
                        abort();
                if (polled[1].revents && lambda_stream_send(&door->stream, &err) < 0)
                        complain(err.message);
                if (polled[0].revents & POLLOUT)
                        lambda_inner_send(&door->inner);
                if (polled[0].revents & (POLLIN | POLLHUP | POLLERR) && hear_inner(door) < 0)
                        return -1;
        }
        return 0;
}

/* --- one invocation --- */

/* The runtime has not said how it ended, and is not there any more. */
static void say_cut_off(struct door *door, bool late) {
        const struct report done = { .type = REPORT_DONE,
                                     .n = door->n,
                                     .status = late ? REPORT_TIMEOUT : REPORT_KILLED,
                                     .exit_code = -1,
                                     .error = { .name = "KernelEnded", .value = door->lost },
                                     .ended = door->lost,
                                     .stdout_bytes = door->bytes[0],
                                     .stderr_bytes = door->bytes[1] };

        say_report(door, &done);
}

static const char *why_kernels_are_gone(const struct door *door, const struct invocation *invocation,
                                        enum invocation_was was, struct error *text) {
        const char *why =
                was == INVOCATION_NEW       ? "Lambda runs the session in a new environment"
                : was == INVOCATION_RESET   ? "Lambda has started the runtime again, as it does when a "
                                              "function has taken too long"
                : was == INVOCATION_STALE   ? "the session's last execution ran in another environment of "
                                              "Lambda"
                : was == INVOCATION_CLEANED ? "its environment has served another session meanwhile"
                : door->lost[0]             ? door->lost
                                            : "its runtime has ended";

        if (!invocation->restore_lacks && !invocation->restore)
                return why;
        (void)error_set(text, "%s; %s", why,
                        invocation->restore_lacks ? invocation->restore_lacks
                                                  : "this runtime restores no checkpoints on Lambda");
        text->message[CONTENT_REASON_MAX] = '\0';
        return text->message;
}

/* A runtime that lives, and whose kernels are as the event says that they were, or are known to be lost. */
static int have_runtime(struct door *door, const struct invocation *invocation, enum invocation_was was,
                        struct error *err) {
        struct request restore = { .type = REQUEST_RESTORE,
                                   .max_ms = RESTORE_MS,
                                   .contexts = invocation->contexts };
        struct error text;

        if (door->inner.socket < 0 && lambda_inner_start(&door->inner, err) < 0)
                return -1;
        if (door->inner.used || !invocation->contexts || json_array_size(invocation->contexts) == 0)
                return 0;
        restore.reason = why_kernels_are_gone(door, invocation, was, &text);
        lambda_inner_ask(&door->inner, &restore);
        if (wait_for(door, WAITING_RESTORED, now_ms() + RESTORE_MS) != 0) {
                lose_inner(door, "the runtime did not start");
                return error_set(err, "the runtime did not start: its kernels could not be said to be lost");
        }
        return 0;
}

/* Until Lambda ends the function, or nobody believes the answer any more. */
static int64_t time_left_ms(const struct invocation *invocation, const struct lambda_event *event) {
        int64_t end = invocation_deadline_ms(invocation);

        return (event->deadline_ms < end ? event->deadline_ms : end) - wall_ms();
}

/* What the code gets of the time that is left. */
static int64_t code_ms(const struct invocation *invocation, const struct lambda_event *event) {
        int64_t left = time_left_ms(invocation, event), most;
        int64_t reserve = invocation->workspace || invocation->transfer ? RESERVE_FOR_FILES_MS : RESERVE_MS;

        most = left > 2 * reserve ? left - reserve : left / 2;
        if (most < 1)
                most = 1;
        return invocation->request.timeout_ms > 0 && invocation->request.timeout_ms < most
                       ? invocation->request.timeout_ms
                       : most;
}

static int run(struct door *door, const struct invocation *invocation, const struct lambda_event *event,
               enum invocation_was was, struct error *err) {
        bool executes = invocation->request.type == REQUEST_EXECUTE;
        struct request request = invocation->request;
        int64_t most = OTHERS_MS, before;
        int result;

        if (have_runtime(door, invocation, was, err) < 0)
                return -1;
        if (executes) {
                request.timeout_ms = code_ms(invocation, event);
                most = request.timeout_ms + OVERDUE_MS;
                before = door->environment.last_n;
                door->environment.last_n = invocation->n;
                if (lambda_environment_mark(&door->environment, err) < 0) {
                        door->environment.last_n = before;
                        return -1;
                }
                strbuf_clear(&door->kept);
                door->kept_cut = 0;
                door->kept_whole = false;
                door->n = invocation->n;
        }
        lambda_inner_ask(&door->inner, &request);
        result = wait_for(door, WAITING_END, now_ms() + most);
        if (result > 0)
                lose_inner(door, "it was killed: it did not stop at its deadline");
        if (result != 0 && executes)
                say_cut_off(door, result > 0);
        door->kept_whole = door->kept_whole || executes;
        door->n = 0;
        door->waiting = WAITING_NOTHING;
        return result != 0 && !executes ? error_set(err, "%s", door->lost) : 0;
}

/* --- files --- */

/* Until then files may be moved, of what is left: half of it where code is to follow. */
static int64_t files_until_ms(const struct invocation *invocation, const struct lambda_event *event,
                              bool is_last) {
        int64_t left = time_left_ms(invocation, event);

        return now_ms() + (is_last ? left - 1000 : left / 2);
}

static int bring_in(struct door *door, const struct invocation *invocation, const struct lambda_event *event,
                    bool mine, struct invocation_end *end, struct error *err) {
        int64_t start_ms = now_ms();
        int result;

        if (!invocation->workspace)
                return 0;
        if (lambda_environment_make_workspace(err) < 0)
                return -1;
        result = lambda_transfer_pull(&door->transfer, invocation->workspace, mine,
                                      files_until_ms(invocation, event, false), err);
        say(door, &door->transfer.files);
        end->files_in_ms = now_ms() - start_ms;
        return result < 0 ? error_context(err, "its files could not be brought in") : 0;
}

static void bring_out(struct door *door, const struct invocation *invocation,
                      const struct lambda_event *event, struct invocation_end *end, struct error *why) {
        int64_t start_ms = now_ms();

        if (!invocation->workspace)
                return;
        if (lambda_transfer_push(&door->transfer, invocation->workspace,
                                 files_until_ms(invocation, event, true), why) < 0) {
                end->files_complete = false;
                end->files_reason = why->message;
        }
        say(door, &door->transfer.files);
        end->files_out_ms = now_ms() - start_ms;
}

/*
 * The same answer, to whom the other one does not reach. It says of itself that it is there. Only of what ran: what is refused could be there
 * already, as what came of it when it was asked for first.
 */
static void leave_result(struct door *door, const struct invocation *invocation,
                         const struct lambda_event *event, struct invocation_end *end) {
        struct error why;

        door->records = false;
        if (!invocation->transfer || !door->record_is_whole || end->refusal != INVOCATION_TAKEN)
                return;
        end->left_result = true;
        invocation_end_write(end, &door->record);
        if (lambda_transfer_post(&door->transfer, invocation->transfer, "result", strbuf_text(&door->record),
                                 door->record.length, files_until_ms(invocation, event, true), &why) == 0)
                return;
        end->left_result = false;
        complain(why.message);
}

/* --- whose it is --- */

static uint64_t hash(const char *text) {
        uint64_t result = 14695981039346656037U; /* FNV-1a */

        for (; *text; text++)
                result = (result ^ (unsigned char)*text) * 1099511628211U;
        return result;
}

/* Executions begin once here, also where other sessions were here in between. */
static void remember(struct door *door) {
        if (door->environment.last_n == 0)
                return;
        door->ran[door->ran_count % RAN_MAX].session = hash(door->environment.session);
        door->ran[door->ran_count++ % RAN_MAX].n = door->environment.last_n;
}

static int64_t recall(const struct door *door, const char *session) {
        uint64_t wanted = hash(session);
        int64_t n = 0;

        for (size_t i = 0; i < RAN_MAX && i < door->ran_count; i++) {
                if (door->ran[i].session == wanted && door->ran[i].n > n)
                        n = door->ran[i].n;
        }
        return n;
}

static bool is_the_same(const struct lambda_environment *environment, const struct invocation *invocation) {
        return invocation->previous_n == environment->last_n &&
               (!invocation->previous_boot || strcmp(invocation->previous_boot, environment->boot) == 0);
}

/* Nothing of the session before is left, and the environment is this one's. */
static int give_to(struct door *door, const struct invocation *invocation, struct error *err) {
        remember(door);
        lambda_inner_end(&door->inner);
        door->lost[0] = '\0';
        strbuf_clear(&door->kept);
        door->kept_whole = false;
        lambda_transfer_forget(&door->transfer);
        if (lambda_environment_clean(&door->environment, now_ms() + CLEAN_MS, err) < 0)
                return -1;
        snprintf(door->environment.session, sizeof(door->environment.session), "%s", invocation->session);
        door->environment.last_n = recall(door, invocation->session);
        return 0;
}

/* Whether it may run here at all. */
static enum invocation_refusal admit(const struct door *door, const struct invocation *invocation,
                                     const struct lambda_event *event, struct error *err) {
        const struct lambda_environment *environment = &door->environment;
        int64_t now = wall_ms();
        bool is_ours = strcmp(environment->session, invocation->session) == 0;

        if (event->tenant[0] && strcmp(event->tenant, invocation->session) != 0) {
                (void)error_set(err, "the invocation's tenant is not the event's session");
                return INVOCATION_FOREIGN;
        }
        if (event->tenant[0] && environment->session[0] && environment->has_tenant && !is_ours) {
                (void)error_set(err, "this environment is another tenant's");
                return INVOCATION_FOREIGN;
        }
        if (!event->tenant[0] && (!invocation->shared || environment->has_tenant)) {
                (void)error_set(err,
                                "the function has no tenants, and the event does not say that sessions share "
                                "its environments");
                return INVOCATION_FOREIGN;
        }
        if (invocation->request.type == REQUEST_EXECUTE &&
            invocation->n <= (is_ours ? environment->last_n : recall(door, invocation->session))) {
                (void)error_set(err,
                                "this execution began here before, and how it ended is not known any more");
                return INVOCATION_REPEATED;
        }
        if (now > invocation_deadline_ms(invocation)) {
                (void)error_set(err, "it came %lld ms after its deadline",
                                (long long)(now - invocation_deadline_ms(invocation)));
                return INVOCATION_LATE;
        }
        if (invocation->started_ms > now + INVOCATION_AHEAD_MS) {
                (void)error_set(err, "its start is %lld ms ahead of this clock",
                                (long long)(invocation->started_ms - now));
                return INVOCATION_LATE;
        }
        return INVOCATION_TAKEN;
}

/* Makes the environment the session's, and says what it was. */
static enum invocation_refusal settle(struct door *door, const struct invocation *invocation,
                                      const struct lambda_event *event, enum invocation_was *ret_was,
                                      struct error *err) {
        struct lambda_environment *environment = &door->environment;
        bool is_ours = strcmp(environment->session, invocation->session) == 0;
        bool is_first = !door->settled, was_nobodys = !environment->session[0];

        /* Without a tenant, nobody knows what an earlier start has left here. */
        if ((!is_ours && !was_nobodys) || door->unclean || (!event->tenant[0] && is_first)) {
                *ret_was = environment->starts == 1 && was_nobodys && !door->unclean ? INVOCATION_NEW
                                                                                     : INVOCATION_CLEANED;
                door->unclean = true;
                if (give_to(door, invocation, err) < 0)
                        return INVOCATION_UNCLEAN;
                door->unclean = false;
        } else if (was_nobodys) {
                *ret_was = environment->starts == 1 ? INVOCATION_NEW : INVOCATION_RESET;
                snprintf(environment->session, sizeof(environment->session), "%s", invocation->session);
        } else if (is_first)
                *ret_was = INVOCATION_RESET;
        else if (is_the_same(environment, invocation))
                *ret_was = INVOCATION_KEPT;
        else {
                *ret_was = INVOCATION_STALE;
                if (door->inner.used)
                        lose_inner(door, "the session's last execution was elsewhere");
        }
        environment->has_tenant = event->tenant[0] != '\0';
        door->settled = true;
        return INVOCATION_TAKEN;
}

/* What is known of an execution that was asked for twice. */
static bool say_again(struct door *door, const struct invocation *invocation) {
        if (strcmp(door->environment.session, invocation->session) != 0 || !door->kept_whole ||
            invocation->n != door->environment.last_n)
                return false;
        say(door, &door->kept);
        door->cut = door->kept_cut;
        return true;
}

static int serve_event(struct door *door, const struct lambda_event *event, struct error *err) {
        struct invocation invocation INVOCATION_CLEANUP = INVOCATION_INIT;
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct invocation_end end = { .starts = door->environment.starts,
                                      .idle_ms = door->idle_ms,
                                      .frozen_ms = door->frozen_ms,
                                      .files_complete = true };
        int64_t cpu_ms = descendants_cpu_ms();
        struct error why, files_why;
        bool mine;
        int status;

        end.served = ++door->served;
        if (invocation_read(strbuf_text(&event->body), event->body.length, &invocation, &why) < 0)
                return lambda_api_fail(&door->api, event, "Function.MalformedEvent", why.message, &status,
                                       err);
        if (begin_answer(door, event, &invocation, err) < 0)
                return -1;
        end.n = invocation.n;
        end.was = INVOCATION_KEPT;
        /* What code has changed here counts more than the bucket, where nobody else can have run meanwhile. */
        mine = is_the_same(&door->environment, &invocation);
        end.refusal = admit(door, &invocation, event, &why);
        if (end.refusal == INVOCATION_TAKEN)
                end.refusal = settle(door, &invocation, event, &end.was, &why);
        if (end.refusal == INVOCATION_TAKEN && (bring_in(door, &invocation, event, mine, &end, &why) < 0 ||
                                                run(door, &invocation, event, end.was, &why) < 0))
                end.refusal = INVOCATION_FAILED;
        if (end.refusal != INVOCATION_TAKEN &&
            !(end.refusal == INVOCATION_REPEATED && say_again(door, &invocation))) {
                const struct report refused = { .type = REPORT_REFUSED,
                                                .n = invocation.n,
                                                .reason = why.message };

                say_report(door, &refused);
        }
        memcpy(end.boot, door->environment.boot, sizeof(end.boot));
        end.reason = end.refusal != INVOCATION_TAKEN ? why.message : NULL;
        if (end.refusal == INVOCATION_TAKEN)
                bring_out(door, &invocation, event, &end, &files_why);
        if (invocation.take_bytes > 0)
                end.checkpoint_reason = "this runtime takes no checkpoints on Lambda";
        end.cut_bytes = door->cut;
        cpu_ms = descendants_cpu_ms() - cpu_ms;
        end.cpu_ms = cpu_ms > 0 ? cpu_ms : 0;
        leave_result(door, &invocation, event, &end);
        invocation_end_write(&end, &bytes);
        say(door, &bytes);
        return end_answer(door, event, err);
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
static int next_event(struct door *door, struct lambda_event *ret, struct error *err) {
        int64_t boot_ms = clock_ms(CLOCK_BOOTTIME), real_ms = clock_ms(CLOCK_REALTIME), tick_ms = 0;

        door->frozen_ms = 0;
        if (lambda_api_ask(&door->api, err) < 0)
                return -1;
        for (;;) {
                struct pollfd polled[] = { { door->api.asked, POLLIN, 0 },
                                           { door->inner.socket, POLLIN, 0 } };
                int64_t passed;

                if (poll(polled, CONTENT_COUNT(polled), TICK_MS) < 0 && errno != EINTR)
                        return error_set(err, "cannot wait: %s", strerror(errno));
                passed = passed_ms(boot_ms, real_ms);
                if (passed - tick_ms > 2 * TICK_MS)
                        door->frozen_ms += passed - tick_ms - TICK_MS;
                tick_ms = passed;
                if (polled[1].revents)
                        (void)hear_inner(door);
                if (polled[0].revents)
                        break;
        }
        door->idle_ms = tick_ms > 0 ? tick_ms : 0;
        return lambda_api_take(&door->api, ret, err);
}

/* A kernel that waits for its first code; without Python there is no function. */
static int start(struct door *door, struct error *err) {
        const struct request prepare = { .type = REQUEST_PREPARE, .context = "main" };
        int result = lambda_inner_start(&door->inner, err), status;
        struct error unsaid;

        if (result == 0) {
                lambda_inner_ask(&door->inner, &prepare);
                door->has_python = true;
                result = wait_for(door, WAITING_PREPARED, now_ms() + START_MS);
                door->waiting = WAITING_NOTHING;
                if (result < 0)
                        (void)error_set(err, "%s", door->lost);
        }
        if (result >= 0 && door->has_python)
                return 0;
        if (result >= 0)
                (void)error_set(err, "%s", door->why_no_python);
        if (lambda_api_fail(&door->api, NULL, result < 0 ? "Runtime.NotStarted" : "Runtime.NoPython",
                            err->message, &status, &unsaid) < 0)
                complain(unsaid.message);
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

/* Queues of POSIX have names that nobody can list, and outlive their makers: there are none. */
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
        struct door *door = calloc(1, sizeof(*door));
        int result;

        if (!door)
                abort();
        door->inner = (struct lambda_inner)LAMBDA_INNER_NONE;
        door->stream = (struct lambda_stream)LAMBDA_STREAM_NONE;
        door->transfer.index = -1;
        if (!address)
                result = error_set(
                        err, "AWS_LAMBDA_RUNTIME_API is not set: Lambda starts this, as the entry point of "
                             "a function");
        else
                result = shut_away(err) < 0 || lambda_api_open(address, &door->api, err) < 0 ? -1 : 0;
        if (result == 0) {
                lambda_environment_open(&door->environment);
                result = lambda_environment_mark(&door->environment, err) < 0 ? -1 : start(door, err);
        }
        while (result == 0) {
                struct lambda_event event LAMBDA_EVENT_CLEANUP = { 0 };

                result = next_event(door, &event, err) < 0 ? -1 : serve_event(door, &event, err);
        }
        lambda_inner_end(&door->inner);
        lambda_stream_release(&door->stream);
        strbuf_release(&door->kept);
        strbuf_release(&door->answer);
        strbuf_release(&door->record);
        lambda_transfer_release(&door->transfer);
        close_descriptor(&door->environment.mark);
        free(door);
        return result;
}
