/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of an invocation as events. It comes out of a sandbox: each message is bounded and checked by itself (runtime/protocol/report.h,
 * runtime/protocol/invocation.h), and here against what is known, which is that one execution was asked for and has not ended. Output is passed on as it
 * comes. Its end waits for the end of the whole answer, which alone knows of files and of the environment.
 *
 * The same answer may come twice, where the first was cut off: from the bucket then. Events are not
 * repeated: for one session and number messages always come in the same order, and a copy can only
 * miss some at its end.
 */
#include "base/array.h"
#include "base/digest.h"
#include "base/json.h"
#include "providers/aws/session/place_parts.h"
#include "sessions/workspace_tree.h"

#include <stdlib.h>
#include <string.h>

/* Of a buffered answer: what Lambda gives, and its base64. */
#define WHOLE_MAX ((size_t)8 << 20)

void place_answer_begin(struct place_answer *answer, struct place_session *session, int64_t n,
                        bool is_execution, bool buffered) {
        *answer = (struct place_answer){ .session = session,
                                         .n = n,
                                         .is_execution = is_execution,
                                         .buffered = buffered,
                                         .whole = { .limit = WHOLE_MAX },
                                         .arena = arena_new(),
                                         .contexts = json_checked(json_object()) };
}

void place_answer_release(struct place_answer *answer) {
        strbuf_release(&answer->whole);
        message_reader_release(&answer->reader);
        message_release(&answer->done_message);
        message_release(&answer->end_message);
        json_decref(answer->contexts);
        arena_free(answer->arena);
        *answer = (struct place_answer){ 0 };
}

void place_answer_again(struct place_answer *answer) {
        struct place_answer fresh;

        place_answer_begin(&fresh, answer->session, answer->n, answer->is_execution, false);
        fresh.shown_before = answer->shown > answer->shown_before ? answer->shown : answer->shown_before;
        fresh.deaf = answer->deaf;
        place_answer_release(answer);
        *answer = fresh;
}

/* Puts the message into the session's line, unless it was there before; it is the line's then. */
static int queue_report(struct place_answer *answer, enum place_event_type type, struct message *message,
                        const struct report *report) {
        static const enum place_was was[] = { [REPORT_NEW] = PLACE_NEW,
                                              [REPORT_KEPT] = PLACE_KEPT,
                                              [REPORT_WAS_RESTORED] = PLACE_RESTORED,
                                              [REPORT_LOST] = PLACE_LOST };
        struct place_item *item;
        struct place_event *event;

        if (answer->shown++ < answer->shown_before)
                return 0;
        item = place_item_new(type, report->n);
        item->message = *message;
        *message = (struct message)MESSAGE_INIT;
        item->report = *report;
        item->bytes += item->message.body.length;
        event = &item->event;
        event->context = report->context;
        event->generation = report->generation;
        event->was = was[report->was];
        event->reason = report->reason;
        event->restored = report->restored;
        event->lost = report->lost;
        event->is_stderr = report->is_stderr;
        event->bytes = report->bytes;
        event->length = report->length;
        event->is_main = report->is_main;
        event->file = report->file;
        event->display = type == PLACE_DISPLAY ? &item->report.display : NULL;
        if (type == PLACE_STARTED && report->was == REPORT_WAS_RESTORED) {
                const struct place_memory *memory = &answer->session->memory;

                item->arena = arena_new();
                event->says_why = true;
                event->reason = arena_printf(
                        item->arena,
                        "its environment was not there any more; this is what was kept after execution %lld%s%s%s%s%s",
                        (long long)memory->checkpoint_n,
                        memory->lacks[0] ? ", and what came after it is lost: " : "", memory->lacks,
                        report->reason ? "; " : "", report->reason ? report->reason : "", "");
        }
        if (place_say(answer->session, item) < 0) {
                answer->deaf = true;
                return -1;
        }
        return 0;
}

static int hear_started(struct place_answer *answer, struct message *message, const struct report *report,
                        struct error *err) {
        if (answer->started || answer->has_done)
                return error_set(err, "it began what was not asked of it");
        answer->started = true;
        if (report->generation > 0)
                json_put(answer->contexts, report->context, json_integer(report->generation));
        return queue_report(answer, PLACE_STARTED, message, report);
}

static int hear_report(struct place_answer *answer, struct message *message, struct error *err) {
        struct report report;
        bool ours;

        if (report_read(message, &report, err) < 0)
                return -1;
        ours = answer->is_execution && report.n == answer->n;
        switch (report.type) {
        case REPORT_HELLO:
                if (answer->greeted || report.protocol != REPORT_PROTOCOL)
                        return error_set(err, "it speaks protocol %lld, and this program speaks %d",
                                         (long long)report.protocol, REPORT_PROTOCOL);
                answer->greeted = true;
                return 0;
        case REPORT_STARTED:
                return ours ? hear_started(answer, message, &report, err)
                            : error_set(err, "it began what was not asked of it");
        case REPORT_OUTPUT:
        case REPORT_DISPLAY:
                if (!ours || answer->has_done)
                        return error_set(err, "it showed something of what does not run");
                return queue_report(answer, report.type == REPORT_OUTPUT ? PLACE_OUTPUT : PLACE_DISPLAY,
                                    message, &report);
        case REPORT_DONE:
                if (!ours || answer->has_done)
                        return error_set(err, "it ended what does not run");
                answer->has_done = true;
                answer->done_message = *message;
                *message = (struct message)MESSAGE_INIT;
                answer->done = report;
                return 0;
        case REPORT_RESTARTED:
                answer->restarted = true;
                return 0;
        case REPORT_REFUSED:
                answer->refused = arena_strdup(answer->arena, report.reason);
                return 0;
        default:
                return 0;
        }
}

static int hear_file(struct place_answer *answer, const struct message *message, struct error *err) {
        static const int lists[] = { [INVOCATION_CHANGED] = PLACE_FILES_CHANGED,
                                     [INVOCATION_DELETED] = PLACE_FILES_DELETED,
                                     [INVOCATION_GONE] = PLACE_FILES_GONE,
                                     [INVOCATION_SKIPPED] = PLACE_FILES_SKIPPED };
        struct invocation_file file;
        const char *wrong;
        int list;

        if (invocation_file_read(message, &file, err) < 0)
                return -1;
        /*
         * With a path that no workspace can have, the index could not be read any more, not even to
         * remove the file.
         */
        wrong = file.fate == INVOCATION_CHANGED ? workspace_path_problem(file.path) : NULL;
        list = wrong ? PLACE_FILES_SKIPPED : lists[file.fate];
        if (answer->counts[list] >= INVOCATION_FILES_MAX)
                return error_set(err, "it tells of more files than there can be");
        answer->files[list] = array_grow(answer->arena, answer->files[list], answer->counts[list],
                                         sizeof(struct place_file));
        answer->files[list][answer->counts[list]++] =
                (struct place_file){ arena_strdup(answer->arena, file.path), file.bytes,
                                     arena_strdup(answer->arena, wrong ? NULL : file.sha256),
                                     arena_strdup(answer->arena, wrong ? wrong : file.reason) };
        return 0;
}

static int hear_message(struct place_answer *answer, struct message *message, struct error *err) {
        if (answer->has_end)
                return error_set(err, "it said something behind its end");
        switch (invocation_said(message)) {
        case INVOCATION_FILE:
                return hear_file(answer, message, err);
        case INVOCATION_END:
                if (invocation_end_read(message, &answer->end, err) < 0)
                        return -1;
                if (answer->end.n != answer->n)
                        return error_set(err, "its end is another event's");
                answer->has_end = true;
                answer->end_message = *message;
                *message = (struct message)MESSAGE_INIT;
                return 0;
        default:
                return hear_report(answer, message, err);
        }
}

static bool hear_bytes(struct place_answer *answer, const char *bytes, size_t length) {
        while (length > 0) {
                struct message message MESSAGE_CLEANUP = MESSAGE_INIT;
                size_t used;
                int whole = message_read(&answer->reader, bytes, length, &used, &message, &answer->lie);

                if (whole < 0 ||
                    (whole == MESSAGE_WHOLE && hear_message(answer, &message, &answer->lie) < 0)) {
                        answer->lied = !answer->deaf;
                        return false;
                }
                bytes += used;
                length -= used;
        }
        return true;
}

bool place_answer_take(void *context, const void *bytes, size_t length) {
        struct place_answer *answer = context;

        if (answer->lied || answer->deaf)
                return false;
        if (!answer->buffered)
                return hear_bytes(answer, bytes, length);
        strbuf_append_bytes(&answer->whole, bytes, length);
        return !answer->whole.overflow;
}

void place_answer_end(struct place_answer *answer) {
        json_t *json JSON_CLEANUP = NULL;
        const char *messages;
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        ssize_t count;

        if (!answer->buffered)
                return;
        if (json_measure(strbuf_text(&answer->whole), answer->whole.length).depth <= 4)
                json = json_loadb(strbuf_text(&answer->whole), answer->whole.length, JSON_REJECT_DUPLICATES,
                                  NULL);
        messages = json_text(json, "messages");
        if (!messages || json_integer_or(json, "berth", 0) != INVOCATION_VERSION ||
            !strbuf_reserve(&bytes, strlen(messages) / 4 * 3 + 1) ||
            (count = digest_from_base64(messages, strlen(messages), (uint8_t *)bytes.data)) < 0) {
                (void)error_set(&answer->lie, "its answer is not the runtime's");
                answer->lied = true;
                return;
        }
        (void)hear_bytes(answer, bytes.data, (size_t)count);
}
