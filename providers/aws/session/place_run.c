/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out a session's requests: one thread at a time for each, which waits as long as Lambda
 * takes. What matters here is what is said of an execution whose answer did not come, or not whole.
 *
 *     Lambda took nothing, or the runtime refused it     `failed`: nothing of it ran. It is as if it had never been
 *     the function failed (Lambda says so)               the result in the bucket, if there is one; else how it failed. It has ended
 *     not known                                          the result in the bucket, as soon as it is there. Until the event's deadline it may
 *                                                        still run, so the session waits as long; then `failed`, which says that
 *     an answer without its end                          the same: what is missing may be what became of its files
 *
 * Nothing is sent twice. An `ok` is one that the runtime gave, with the end of its answer behind it.
 */
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "providers/aws/session/place_parts.h"
#include "providers/aws/workspace/layout.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_MS 60000 /* of what is no execution */
#define LOOK_MS 500      /* between two looks for a result, at first; and at last */
#define LOOK_MAX_MS 5000
#define RESULT_MAX ((size_t)24 << 20)
#define DROPS_MAX 16

/* How an execution ended, as far as that is known. */
struct outcome {
        enum report_status status;
        const char *detail, *ended; /* in the answer's arena; or NULL */
        bool not_taken;
};

static bool is_left(const struct place_session *session) {
        return interrupt_level(&session->left) != INTERRUPT_NONE;
}

/* --- the bucket --- */

/* 1: it was there, and the answer has it; 0: it is not there; -1: not known. */
static int fetch_result(struct place_session *session, struct place_answer *answer, struct error *err) {
        static const char *const absent[] = { "NoSuchKey", NULL };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_get_object(&session->place->config.bucket,
                                                   place_key(session, answer->n, "result", arena), arena);

        request.answer_limit = RESULT_MAX;
        request.ended_by = &session->left;
        if (aws_call_accepting(session->place->config.client, &request, absent, &response, err) < 0) {
                if (!response.too_large)
                        return -1;
                /*
                 * No runtime leaves such a large one, and it does not shrink: waiting is useless.
                 */
                place_answer_again(answer);
                answer->lied = true;
                (void)error_set(&answer->lie, "the result that it left exceeds %zu bytes", RESULT_MAX);
                return 1;
        }
        if (*response.error_code)
                return 0;
        place_answer_again(answer);
        answer->left_ms = response.modified_ms;
        (void)place_answer_take(answer, strbuf_text(&response.body), response.body.length);
        return 1;
}

/* Until then, by AWS's clock: 1 where it came. 0: it has not, and will not; *err says whether that could be seen. */
static int await_result(struct place_session *session, struct place_answer *answer, int64_t deadline_ms,
                        struct error *err) {
        int64_t pause_ms = LOOK_MS;

        for (;;) {
                bool last = aws_client_wall_ms(session->place->config.client) >= deadline_ms;
                struct pollfd left = { .fd = interrupt_descriptor(&session->left, INTERRUPT_NOW),
                                       .events = POLLIN };
                int found;

                err->message[0] = '\0';
                found = fetch_result(session, answer, err);
                if (found > 0 || last || is_left(session))
                        return found > 0;
                poll(&left, 1, (int)pause_ms);
                pause_ms = 2 * pause_ms < LOOK_MAX_MS ? 2 * pause_ms : LOOK_MAX_MS;
        }
}

void place_run_interrupt(struct place_session *session) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct s3_write write = { .body = "stop", .length = 4, .content_type = "text/plain" };
        struct aws_request request;
        struct error err = { 0 };
        int64_t n;

        pthread_mutex_lock(&session->lock);
        /*
         * The request may have waited for its turn so long that the next execution runs already,
         * which must not be stopped.
         */
        n = session->interrupted ? session->running : 0;
        pthread_mutex_unlock(&session->lock);
        if (n == 0 || is_left(session))
                return;
        write.key = place_key(session, n, "interrupt", arena);
        write.tagging = layout_tag_header(session->environment, arena);
        request = s3_write_object(&session->place->config.bucket, &write, arena);
        request.ended_by = &session->left;
        if (aws_call(session->place->config.client, &request, &response, &err) < 0)
                log_warning("session %s: execution %lld is not interrupted: %s", session->id, (long long)n,
                            err.message);
}

int place_delete(struct aws_place *place, const struct s3_object *objects, size_t count,
                 const struct interrupt *ended_by, struct arena *arena, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_delete_objects(&place->config.bucket, objects, count, arena);

        request.ended_by = ended_by;
        return aws_call(place->config.client, &request, &response, err) < 0 ||
                               s3_read_deleted(&response, arena, err) < 0
                       ? -1
                       : 0;
}

/* The others go with the session, or by a lifecycle rule. */
void place_run_drop(struct place_session *session) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct s3_object objects[DROPS_MAX] = { 0 };
        json_t *drops JSON_CLEANUP = NULL;
        struct error err;
        size_t count = 0;

        pthread_mutex_lock(&session->lock);
        drops = session->drops;
        session->drops = NULL;
        pthread_mutex_unlock(&session->lock);
        for (; count < json_array_size(drops) && count < DROPS_MAX; count++)
                objects[count].key = json_string_value(json_array_get(drops, count));
        if (count > 0 && !is_left(session) &&
            place_delete(session->place, objects, count, &session->left, arena, &err) < 0)
                log_debug("session %s: %s", session->id, err.message);
}

int place_run_clear(struct aws_place *place, const char *id, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *prefix = layout_transfers(id, arena);
        struct s3_page page = { 0 };

        do {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct aws_request request = s3_list_objects(&place->config.bucket, prefix, page.next);

                if (aws_call(place->config.client, &request, &response, err) < 0 ||
                    s3_read_objects(&response, arena, &page, err) < 0 ||
                    (page.count > 0 && place_delete(place, page.objects, page.count, NULL, arena, err) < 0))
                        return -1;
        } while (page.next);
        return 0;
}

/* --- what is remembered, and said --- */

static void drop_later(struct place_session *session, int64_t n, const char *name) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        pthread_mutex_lock(&session->lock);
        if (!session->drops)
                session->drops = json_checked(json_array());
        json_add(session->drops, json_string(place_key(session, n, name, arena)));
        /* Whatever is heard until its event is in the line, and has a number, is of what came before: place_say() may wait long. */
        session->drops_id = UINT64_MAX;
        pthread_mutex_unlock(&session->lock);
}

static void set_lacks(struct place_memory *memory, const char *why) {
        json_t *text JSON_CLEANUP = invocation_text(why, sizeof(memory->lacks) - 1);

        snprintf(memory->lacks, sizeof(memory->lacks), "%s", json_string_value(text));
}

static void take_contexts(struct place_memory *memory, const struct place_answer *answer) {
        const json_t *generation, *row;
        const char *name;
        size_t index;

        json_object_foreach (answer->contexts, name, generation)
                json_put(memory->contexts, name, json_deep_copy(generation));
        json_array_foreach (answer->has_end ? answer->end.checkpoint_contexts : NULL, index, row) {
                if (json_integer_or(row, "generation", 0) > 0)
                        json_put(memory->contexts, json_text(row, "context"),
                                 json_integer(json_integer_or(row, "generation", 0)));
        }
        /* There are eight at once: what is more is of environments that are no more. */
        while (json_object_size(memory->contexts) > PLACE_CONTEXTS_MAX)
                json_object_del(memory->contexts, json_object_iter_key(json_object_iter(memory->contexts)));
}

static void take_checkpoint(struct place_session *session, const struct place_answer *answer,
                            bool is_python) {
        struct place_memory *memory = &session->memory;
        const struct invocation_end *end = &answer->end;

        if (end->restore == INVOCATION_UNUSABLE)
                memory->checkpoint = (struct place_checkpoint){ 0 };
        if (end->checkpoint_sha256) {
                if (memory->checkpoint.digest[0])
                        drop_later(session, memory->checkpoint_n, "checkpoint");
                snprintf(memory->checkpoint.digest, sizeof(memory->checkpoint.digest), "%s",
                         end->checkpoint_sha256);
                memory->checkpoint.bytes = (uint64_t)end->checkpoint_bytes;
                memory->checkpoint_n = answer->n;
                memory->lacks[0] = '\0';
        } else if (is_python) {
                set_lacks(memory,
                          end->checkpoint_reason ? end->checkpoint_reason : "no checkpoint was taken");
        }
}

static void remember_outcome(struct place_session *session, const struct place_answer *answer,
                             const struct outcome *outcome, bool is_python) {
        struct place_memory *memory = &session->memory;

        if (outcome->not_taken)
                return;
        take_contexts(memory, answer);
        memory->n = answer->n;
        memory->boot[0] = '\0';
        if (answer->has_end) {
                memcpy(memory->boot, answer->end.boot, sizeof(memory->boot));
                take_checkpoint(session, answer, is_python);
                if (answer->end.left_result)
                        drop_later(session, answer->n, "result");
        } else if (json_object_size(memory->contexts) > 0) {
                set_lacks(memory,
                          outcome->detail ? outcome->detail : "how its last execution ended is not known");
        }
}

static struct place_file_list file_list(const struct place_answer *answer, int which) {
        return (struct place_file_list){ answer->files[which], answer->counts[which] };
}

/* The last event of an execution. It refers to memory of the answer, which is freed with it. */
static void say_done(struct place_session *session, struct place_answer *answer,
                     const struct outcome *outcome) {
        struct place_item *item = place_item_new(PLACE_DONE, answer->n);
        struct place_event *event = &item->event;

        if (answer->has_done) {
                const struct report *done = &answer->done;

                event->exit_code = done->exit_code;
                event->value = done->value;
                event->error = done->error;
                event->ended = done->ended;
                event->wall_ms = done->wall_ms;
                event->stdout_bytes = done->stdout_bytes;
                event->stderr_bytes = done->stderr_bytes;
                event->displays_dropped = done->displays_dropped;
                event->left = done->left;
        }
        event->status = outcome->status;
        if (!answer->has_done || outcome->status != answer->done.status)
                event->exit_code = -1;
        event->detail = outcome->detail;
        event->ended = outcome->ended ? outcome->ended : event->ended;
        event->not_taken = outcome->not_taken;
        if (answer->has_end && !outcome->not_taken) {
                event->cpu_ms = answer->end.cpu_ms;
                event->peak_memory_bytes = (uint64_t)answer->end.peak_memory_bytes;
                event->checkpoint_bytes = (uint64_t)answer->end.checkpoint_bytes;
                event->checkpoint_ms = answer->end.checkpoint_ms;
                event->changed = file_list(answer, PLACE_FILES_CHANGED);
                event->deleted = file_list(answer, PLACE_FILES_DELETED);
                event->conflict = file_list(answer, PLACE_FILES_CONFLICT);
                event->skipped = file_list(answer, PLACE_FILES_SKIPPED);
        }
        event->note = item->note = place_memory_note(&session->memory);
        item->message = answer->done_message;
        answer->done_message = (struct message)MESSAGE_INIT;
        item->arena = answer->arena;
        answer->arena = NULL;
        (void)place_say(session, item);
}

/* --- how it ended --- */

static struct outcome nothing_ran(struct place_answer *answer, const char *why) {
        return (struct outcome){ .status = REPORT_FAILED,
                                 .detail = arena_printf(answer->arena, "nothing of it ran: %s", why),
                                 .not_taken = true };
}

/* The answer is whole. */
static struct outcome judge_end(struct place_answer *answer) {
        const struct invocation_end *end = &answer->end;
        const char *reason = end->reason       ? end->reason
                             : answer->refused ? answer->refused
                                               : "the runtime does not say why";
        struct outcome outcome = { .status = REPORT_FAILED };

        if (end->refusal != INVOCATION_TAKEN && end->refusal != INVOCATION_REPEATED)
                return nothing_ran(answer, arena_printf(answer->arena, "%s (%s)", reason,
                                                        invocation_refusal_name(end->refusal)));
        if (!answer->has_done) {
                outcome.detail = arena_printf(answer->arena, "how it ended is not known: %s", reason);
                return outcome;
        }
        outcome.status = answer->done.status;
        outcome.detail = arena_strdup(answer->arena, answer->done.detail);
        if (!end->files_complete || end->files_left_out > 0)
                outcome.detail = arena_printf(
                        answer->arena, "%s%snot all of its files were kept: %s",
                        outcome.detail ? outcome.detail : "", outcome.detail ? "; " : "",
                        end->files_reason ? end->files_reason
                        : end->files_complete
                                ? arena_printf(answer->arena, "its answer has no room for %lld more of them",
                                               (long long)end->files_left_out)
                                : "the runtime does not say why");
        return outcome;
}

/* Lambda says that the function failed, and it left no result. */
static struct outcome judge_failure(struct place_answer *answer, const struct invoke_result *result) {
        static const char *const never[] = { "Runtime.NoPython",          "Runtime.InvalidEntrypoint",
                                             "Runtime.InvalidWorkingDir", "Runtime.InvalidTaskConfig",
                                             "Function.MalformedEvent",   "Runtime.DockerUnavailable",
                                             "Sandbox.InitError",         NULL };
        bool timeout = strstr(result->code, "Timedout") || strstr(result->details, "timed out");
        bool memory = strstr(result->code, "OutOfMemory") != NULL;
        const char *said = arena_printf(answer->arena, "%s%s%s", result->code, *result->details ? ": " : "",
                                        result->details);
        struct outcome outcome = { .status = timeout  ? REPORT_TIMEOUT
                                             : memory ? REPORT_MEMORY
                                                      : REPORT_KILLED };

        if (!answer->started &&
            (text_is_among(result->code, never) || text_begins_with(result->code, "Extension.")))
                return nothing_ran(answer, said);
        outcome.ended = outcome.detail = arena_printf(
                answer->arena,
                timeout ? "Lambda ended it at the function's own timeout: %s" : "its environment ended: %s",
                said);
        return outcome;
}

static struct outcome not_known(struct place_answer *answer, const char *why, const struct error *look) {
        return (struct outcome){
                .status = REPORT_FAILED,
                .detail = arena_printf(
                        answer->arena,
                        "how far it came is not known, nor which of its files were kept: %s; %s%s", why,
                        look->message[0] ? "its result cannot be read: "
                                         : "and it left no result until its time was over",
                        look->message),
        };
}

/* What speaks in the runtime's stead can say anything, but not be believed. */
static struct outcome judge_lie(struct place_answer *answer) {
        const char *why =
                arena_printf(answer->arena, "what its runtime said cannot be: %s", answer->lie.message);

        return (struct outcome){ .status = REPORT_KILLED, .detail = why, .ended = why };
}

static struct outcome judge_unknown(struct place_session *session, struct place_answer *answer,
                                    const char *why, int64_t deadline_ms) {
        struct error look = { 0 };

        if (await_result(session, answer, deadline_ms, &look) > 0 && !answer->deaf) {
                if (answer->lied)
                        return judge_lie(answer);
                if (answer->has_end)
                        return judge_end(answer);
                why = "the result that it left is not whole";
        }
        return not_known(answer, why, &look);
}

/*
 * An answer has less room for files than the result, which has them all as a rule. If that cannot
 * be had, the answer's files stay: the end says how many are missing.
 */
static void have_all_files(struct place_session *session, struct place_answer *answer) {
        struct place_answer whole;
        struct error look;

        if (!answer->has_end || answer->end.files_left_out == 0 || !answer->end.left_result)
                return;
        place_answer_begin(&whole, session, answer->n, answer->is_execution, false);
        whole.shown = answer->shown;
        whole.shown_before = answer->shown_before;
        if (fetch_result(session, &whole, &look) > 0 && whole.has_end && !whole.lied && !whole.deaf) {
                struct place_answer first = *answer;

                *answer = whole;
                whole = first;
        }
        place_answer_release(&whole);
}

static struct outcome outcome_of_call(struct place_session *session, struct place_answer *answer,
                                      const struct invoke_result *result, const struct place_call *call) {
        struct error look = { 0 };

        /* Of any other end the body, if there is one, is Lambda's. */
        if (result->end == INVOKE_DONE)
                place_answer_end(answer);
        if (answer->lied)
                return judge_lie(answer);
        have_all_files(session, answer);
        switch (result->end) {
        case INVOKE_THROTTLED:
                return nothing_ran(
                        answer,
                        arena_printf(answer->arena, "throttled: Lambda takes no more at the moment%s%s: %s",
                                     *result->reason ? ", by " : "", result->reason, result->details));
        case INVOKE_REFUSED:
                return nothing_ran(
                        answer,
                        result->tenant_unexpected
                                ? arena_printf(answer->arena,
                                               "the function %s was changed outside of Berth, and its "
                                               "tenant isolation is not what was applied: `berth drift` "
                                               "shows it: %s",
                                               call->environment.function, result->details)
                                : result->details);
        case INVOKE_FAILED:
                if (answer->has_end && answer->has_done)
                        return judge_end(answer);
                if (fetch_result(session, answer, &look) > 0 && answer->has_end && !answer->lied)
                        return judge_end(answer);
                return judge_failure(answer, result);
        case INVOKE_DONE:
                if (answer->has_end)
                        return judge_end(answer);
                return judge_unknown(session, answer, "its answer has no end", call->deadline_ms);
        case INVOKE_UNKNOWN:
        default:
                return answer->has_end ? judge_end(answer)
                                       : judge_unknown(session, answer, result->details, call->deadline_ms);
        }
}

/* --- what is asked --- */

static struct invoke_call call_of(struct place_session *session, const struct place_call *call,
                                  struct place_answer *answer, const struct interrupt *stop) {
        return (struct invoke_call){
                .function = call->environment.function,
                .tenant = call->tenant,
                .payload = strbuf_text(&call->event),
                .length = call->event.length,
                .timeout_ms = call->environment.timeout_ms,
                .throttled_ms = session->place->config.throttled_ms,
                .buffered = answer->buffered,
                .sink = place_answer_take,
                .context = answer,
                .ended_by = &session->left,
                .unsent_by = stop,
        };
}

/* False: it was asked to stop before, and is not sent. */
static bool may_send(struct place_session *session) {
        bool may;

        pthread_mutex_lock(&session->lock);
        may = !session->interrupted;
        session->sent = may;
        pthread_mutex_unlock(&session->lock);
        return may;
}

static void say_lost(struct place_answer *answer, struct outcome *outcome, const struct error *why) {
        outcome->detail = arena_printf(answer->arena, "%s%snot all of its files were kept: %s",
                                       outcome->detail ? outcome->detail : "", outcome->detail ? "; " : "",
                                       why->message);
}

/* What the workspace has not heard of is not said to be kept. */
static void lose_files(struct place_answer *answer, struct outcome *outcome, const struct error *why) {
        say_lost(answer, outcome, why);
        answer->counts[PLACE_FILES_CHANGED] = answer->counts[PLACE_FILES_DELETED] = 0;
}

static void settle_files(struct place_session *session, struct place_answer *answer,
                         const struct place_files *files, struct outcome *outcome) {
        struct error err = { 0 };

        if (place_files_settle(session, files, answer, &err) < 0)
                say_lost(answer, outcome, &err);
}

static struct outcome interrupted_before(struct place_answer *answer) {
        struct outcome outcome = nothing_ran(answer, "it was interrupted before Lambda had it");

        outcome.status = REPORT_INTERRUPTED;
        return outcome;
}

static struct outcome run_execution(struct place_session *session, const struct place_task *task,
                                    struct place_answer *answer) {
        const struct place_execution *execution = &task->execution;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct place_call call = PLACE_CALL_INIT;
        const struct request request = {
                .type = REQUEST_EXECUTE,
                .n = execution->n,
                .context = execution->context,
                .language = execution->language,
                .timeout_ms = execution->timeout_ms,
                .variables = execution->variables,
                .code = execution->code,
                .code_length = execution->code_length,
                .input = execution->input,
                .input_length = execution->input_length,
        };
        struct invoke_result result;
        struct invoke_call sent;
        struct outcome outcome;
        struct error err = { 0 };

        if (place_call_make(session, &request, execution->staged, execution->n, execution->timeout_ms, arena,
                            &call, &err) < 0) {
                outcome = nothing_ran(answer, err.message);
        } else if (!may_send(session)) {
                outcome = interrupted_before(answer);
        } else if (session->may_begin && !session->may_begin(session->may_begin_context, execution->term)) {
                /*
                 * The server that has the session now waits only for an event of this moment: a
                 * later one may run beside another.
                 */
                outcome =
                        nothing_ran(answer, "this server was out of touch, and others may have the session");
        } else {
                answer->buffered = atomic_load(&session->place->streams_missing);
                sent = call_of(session, &call, answer, &task->stop);
                invoke(session->place->config.client, &sent, &result);
                if (result.streams_missing)
                        atomic_store(&session->place->streams_missing, true);
                if (interrupt_level(&task->stop) != INTERRUPT_NONE &&
                    (result.end == INVOKE_THROTTLED || (result.end == INVOKE_REFUSED && !*result.code)))
                        outcome = interrupted_before(answer);
                else
                        outcome = outcome_of_call(session, answer, &result, &call);
                /*
                 * Otherwise one file that came into the bucket by other ways would block all
                 * executions, for a day.
                 */
                if (outcome.not_taken && answer->has_end && answer->end.refusal == INVOCATION_FAILED &&
                    call.files.kept && !is_left(session))
                        place_files_check(session, call.environment.files_bytes);
                else
                        session->count_due = place_files_is_count_due(session, &call.files);
                session->files_bytes = call.environment.files_bytes;
                if (answer->has_end && !is_left(session))
                        settle_files(session, answer, &call.files, &outcome);
                place_files_skip(answer, call.skipped);
        }
        if (call.files.listed_apart)
                drop_later(session, execution->n, "files");
        if (call.has_body)
                drop_later(session, execution->n, "body");
        place_call_release(&call);
        return outcome;
}

/*
 * An execution of a server that died: its files are reported to the workspace here, and nowhere
 * else.
 */
static struct outcome await_other(struct place_session *session, const struct place_task *task,
                                  struct place_answer *answer) {
        int64_t deadline_ms =
                aws_client_wall_ms(session->place->config.client) + task->await_ms + INVOCATION_LATE_MS;
        struct outcome outcome =
                judge_unknown(session, answer, "the server that had begun it died", deadline_ms);
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct place_files files = { 0 };
        struct error err = { 0 };

        if (!answer->has_end || is_left(session))
                return outcome;
        files.of_now = true;
        files.since_ms = answer->left_ms;
        if (place_files_find(session, arena, &files, &err) < 0)
                lose_files(answer, &outcome, &err);
        else
                settle_files(session, answer, &files, &outcome);
        return outcome;
}

static void run_task(struct place_session *session, struct place_task *task) {
        const struct place_execution *execution = &task->execution;
        struct place_answer answer;
        struct outcome outcome;
        bool interrupted;

        place_answer_begin(&answer, session, execution->n, true, false);
        if (task->only_await)
                outcome = await_other(session, task, &answer);
        else
                outcome = run_execution(session, task, &answer);
        pthread_mutex_lock(&session->lock);
        interrupted = session->interrupted && session->sent;
        session->task = NULL;
        session->running = 0;
        session->sent = false;
        pthread_mutex_unlock(&session->lock);
        if (!is_left(session)) {
                if (interrupted)
                        drop_later(session, execution->n, "interrupt");
                remember_outcome(session, &answer, &outcome,
                                 task->only_await || execution->language == REQUEST_PYTHON);
                say_done(session, &answer, &outcome);
        }
        place_answer_release(&answer);
        place_task_free(task);
        /* It has been answered: who waits for this is the next one alone. */
        if (session->count_due && !is_left(session))
                place_files_check(session, session->files_bytes);
        session->count_due = false;
}

/*
 * No execution may find that kernel again: if Lambda cannot be told so, all kernels end before the
 * next execution.
 */
static void restart_context(struct place_session *session, const char *context) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct place_memory *memory = &session->memory;
        const struct request request = { .type = REQUEST_RESTART, .context = context };
        struct place_item *item = place_item_new(PLACE_RESTARTED, 0);
        struct place_call call = PLACE_CALL_INIT;
        struct place_answer answer;
        struct invoke_result result;
        struct error err = { 0 };

        place_answer_begin(&answer, session, memory->n, false, atomic_load(&session->place->streams_missing));
        if (json_object_get(memory->contexts, context)) {
                bool told = false;

                if (place_call_make(session, &request, NULL, memory->n, REQUEST_MS, arena, &call, &err) ==
                    0) {
                        struct invoke_call sent = call_of(session, &call, &answer, NULL);

                        invoke(session->place->config.client, &sent, &result);
                        if (result.end == INVOKE_DONE)
                                place_answer_end(&answer);
                        told = result.end == INVOKE_DONE && answer.restarted && answer.has_end &&
                               !answer.lied && strcmp(answer.end.boot, memory->boot) == 0;
                }
                if (!told)
                        snprintf(memory->boot, sizeof(memory->boot), "%032d", 0);
                if (json_object_size(memory->contexts) == 1 && memory->checkpoint.digest[0]) {
                        drop_later(session, memory->checkpoint_n, "checkpoint");
                        memory->checkpoint = (struct place_checkpoint){ 0 };
                        set_lacks(memory, "its kernel was restarted");
                }
        }
        item->event.context = arena_strdup(item->arena = arena_new(), context);
        item->event.note = item->note = place_memory_note(memory);
        (void)place_say(session, item);
        place_call_release(&call);
        place_answer_release(&answer);
}

/* The next work: a kernel's restart comes before the execution in it. False: nothing. */
static bool take_next(struct place_session *session, char **ret_restart, struct place_task **ret_task) {
        bool works;

        pthread_mutex_lock(&session->lock);
        *ret_restart = NULL;
        *ret_task = NULL;
        if (json_array_size(session->restarts) > 0) {
                *ret_restart = strdup(json_string_value(json_array_get(session->restarts, 0)));
                if (!*ret_restart)
                        abort();
                json_array_remove(session->restarts, 0);
        } else {
                *ret_task = session->task;
        }
        works = session->works = (*ret_restart || *ret_task) && !is_left(session);
        pthread_mutex_unlock(&session->lock);
        return works;
}

void place_run(struct place_session *session) {
        struct place_task *task;
        char *context;

        while (take_next(session, &context, &task)) {
                if (context)
                        restart_context(session, context);
                else
                        run_task(session, task);
                free(context);
        }
        free(context); /* of one that was left meanwhile */
}
