/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffered answer is base64 in JSON, and Lambda takes 6 MiB and 100 bytes of it: 4.5 MiB of messages. Before code has run, files may have
 * little of that; output has 3.25 MiB, or less where the report before it was long; one more report and the end have their places kept
 * free; and files get what is left. So an answer always fits, and what is not in it is counted.
 */
#include "runtime/lambda/lambda_answer.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MAX ((size_t)1 << 20)
/* Of output in one message of what was held back. */
#define PIECE_BYTES ((size_t)64 << 10)
#define ENVELOPE_BYTES ((size_t)64)
#define REPORT_BYTES (MESSAGE_HEAD_MAX + 8)
/* Four reasons and those of eight contexts, each byte of them as \u00XX. */
#define END_BYTES ((size_t)128 << 10)
#define FILES_BEFORE_BYTES ((size_t)256 << 10)

void lambda_answer_release(struct lambda_answer *answer) {
        lambda_stream_release(&answer->stream);
        strbuf_release(&answer->whole);
        strbuf_release(&answer->record);
        strbuf_release(&answer->kept);
        for (size_t i = 0; i < 2; i++)
                strbuf_release(&answer->tails[i]);
}

static void complain(const char *what) {
        (void)fprintf(stderr, "berth-runtime: %s\n", what);
}

static void stream_bytes(struct lambda_answer *answer, const struct strbuf *bytes) {
        if (!answer->buffered) {
                lambda_stream_say(&answer->stream, strbuf_text(bytes), bytes->length);
                return;
        }
        strbuf_append_bytes(&answer->whole, strbuf_text(bytes), bytes->length);
        answer->left -= bytes->length < answer->left ? bytes->length : answer->left;
}

static void record(struct lambda_answer *answer, const struct strbuf *bytes) {
        if (answer->records)
                strbuf_append_bytes(&answer->record, strbuf_text(bytes), bytes->length);
}

static void keep_bytes(struct lambda_answer *answer, const struct strbuf *bytes, int64_t counts) {
        if (bytes->length <= KEPT_MAX - answer->kept.length)
                strbuf_append_bytes(&answer->kept, strbuf_text(bytes), bytes->length);
        else
                answer->kept_cut += counts;
}

/* No more reports follow: files get what is left. */
static void end_reports(struct lambda_answer *answer) {
        if (answer->buffered)
                answer->room.files = answer->left > END_BYTES ? answer->left - END_BYTES : 0;
}

static bool is_last(const struct report *report) {
        return report->type != REPORT_HELLO && report->type != REPORT_STARTED &&
               report->type != REPORT_OUTPUT && report->type != REPORT_DISPLAY;
}

static void keep_last(struct lambda_answer *answer, const struct strbuf *bytes) {
        strbuf_append_bytes(&answer->kept, strbuf_text(bytes), bytes->length);
        answer->kept_whole = true;
}

int lambda_answer_begin(struct lambda_answer *answer, struct lambda_api *api,
                        const struct lambda_event *event, const struct invocation *invocation,
                        struct error *err) {
        const struct report hello = { .type = REPORT_HELLO,
                                      .protocol = REPORT_PROTOCOL,
                                      .version = BERTH_VERSION };
        int64_t most = invocation->answer == INVOCATION_BUFFERED ? INVOCATION_BUFFERED_BYTES_MAX
                                                                 : INVOCATION_STREAM_BYTES_MAX;

        answer->buffered = invocation->answer == INVOCATION_BUFFERED;
        answer->left = (INVOCATION_ANSWER_MAX - ENVELOPE_BYTES) / 4 * 3;
        answer->room = (struct lambda_answer_room){
                .shown = invocation->answer_bytes > 0 && invocation->answer_bytes < most
                                 ? invocation->answer_bytes
                                 : most,
                .files = answer->buffered ? FILES_BEFORE_BYTES : INVOCATION_FILES_BYTES_MAX
        };
        answer->record_room = (struct lambda_answer_room){ .shown = INVOCATION_RESULT_BYTES_MAX,
                                                           .files = INVOCATION_FILES_BYTES_MAX };
        answer->records = invocation->transfer != NULL;
        for (size_t i = 0; i < 2; i++) {
                answer->printed[i] = answer->behind[i] = 0;
                strbuf_clear(&answer->tails[i]);
        }
        answer->skipped = answer->skipped_left_out = 0;
        answer->skipped_room = INVOCATION_SKIPPED_BYTES_MAX;
        strbuf_clear(&answer->whole);
        strbuf_clear(&answer->record);
        if (!answer->buffered && lambda_stream_begin(api, event, &answer->stream, err) < 0)
                return -1;
        lambda_answer_report(answer, &hello);
        return 0;
}

/* Whether something that is shown has room there, which it takes then: else it is cut, with all that comes behind it. */
static bool take_room(struct lambda_answer_room *room, size_t length, int64_t counts) {
        if ((int64_t)length > room->shown) {
                room->cut += counts;
                room->shown = 0;
                return false;
        }
        room->shown -= (int64_t)length;
        return true;
}

/* Something that is shown, into each copy that has room for it. */
static void show(struct lambda_answer *answer, const struct strbuf *bytes, int64_t counts) {
        if (answer->buffered && bytes->length + REPORT_BYTES + END_BYTES > answer->left)
                answer->room.shown = 0;
        if (take_room(&answer->room, bytes->length, counts))
                stream_bytes(answer, bytes);
        if (take_room(&answer->record_room, bytes->length, counts))
                record(answer, bytes);
}

static void drop_front(struct strbuf *tail) {
        memmove(tail->data, tail->data + tail->length - INVOCATION_TAIL_BYTES, INVOCATION_TAIL_BYTES);
        tail->length = INVOCATION_TAIL_BYTES;
}

/* False: it is among the first bytes of its stream, and is sent at once. Bytes are moved only where twice as many are held as are kept. */
static bool hold_back(struct lambda_answer *answer, const struct report *report) {
        struct strbuf *tail = &answer->tails[report->is_stderr];

        if (answer->printed[report->is_stderr] < (int64_t)INVOCATION_HEAD_BYTES)
                return false;
        answer->n = report->n;
        answer->behind[report->is_stderr] += (int64_t)report->length;
        strbuf_append_bytes(tail, report->bytes, report->length);
        if (tail->length > 2 * INVOCATION_TAIL_BYTES)
                drop_front(tail);
        return true;
}

/* The streams have ended: what was held back follows, and what was not kept is counted. */
static void say_tails(struct lambda_answer *answer) {
        for (size_t i = 0; i < 2; i++) {
                struct strbuf *tail = &answer->tails[i];
                int64_t dropped;

                if (tail->length > INVOCATION_TAIL_BYTES)
                        drop_front(tail);
                dropped = answer->behind[i] - (int64_t)tail->length;
                answer->room.cut += dropped;
                answer->record_room.cut += dropped;
                answer->kept_cut += dropped;
                for (size_t at = 0; at < tail->length; at += PIECE_BYTES) {
                        size_t left = tail->length - at;
                        const struct report report = { .type = REPORT_OUTPUT,
                                                       .n = answer->n,
                                                       .is_stderr = i == 1,
                                                       .bytes = tail->data + at,
                                                       .length = left < PIECE_BYTES ? left : PIECE_BYTES };
                        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;

                        report_write(&report, &bytes);
                        show(answer, &bytes, (int64_t)report.length);
                        keep_bytes(answer, &bytes, (int64_t)report.length);
                }
                answer->behind[i] = 0;
                strbuf_clear(tail);
        }
}

void lambda_answer_report(struct lambda_answer *answer, const struct report *report) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;

        if (report->type == REPORT_DONE)
                say_tails(answer);
        report_write(report, &bytes);
        stream_bytes(answer, &bytes);
        record(answer, &bytes);
        if (report->type == REPORT_DONE)
                keep_last(answer, &bytes);
        if (is_last(report))
                end_reports(answer);
}

void lambda_answer_forward(struct lambda_answer *answer, const struct message *message,
                           const struct report *report, bool is_execution) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        bool shows = report->type == REPORT_OUTPUT || report->type == REPORT_DISPLAY;
        bool held = is_execution && report->type == REPORT_OUTPUT && hold_back(answer, report);
        int64_t counts = (int64_t)message->body.length;

        if (report->type == REPORT_OUTPUT)
                answer->printed[report->is_stderr] += (int64_t)report->length;
        if (held)
                return;
        if (is_execution && is_last(report))
                say_tails(answer);
        message_write(&bytes, message->head, strbuf_text(&message->body), message->body.length);
        if (shows) {
                show(answer, &bytes, counts);
        } else {
                stream_bytes(answer, &bytes);
                record(answer, &bytes);
        }
        if (is_execution && is_last(report))
                keep_last(answer, &bytes);
        else if (is_execution)
                keep_bytes(answer, &bytes, counts);
        if (is_last(report))
                end_reports(answer);
}

static bool take_files_room(struct lambda_answer_room *room, size_t length) {
        if (length > room->files) {
                room->files_left_out++;
                return false;
        }
        room->files -= length;
        return true;
}

void lambda_answer_file(struct lambda_answer *answer, const struct invocation_file *file) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;

        invocation_file_write(file, &bytes);
        if (file->fate == INVOCATION_SKIPPED) {
                bool fits = answer->skipped < INVOCATION_SKIPPED_MAX &&
                            bytes.length <= answer->skipped_room && bytes.length <= answer->room.files;

                if (!fits) {
                        answer->skipped_left_out++;
                        return;
                }
                answer->skipped++;
                answer->skipped_room -= bytes.length;
        }
        if (take_files_room(&answer->room, bytes.length))
                stream_bytes(answer, &bytes);
        if (take_files_room(&answer->record_room, bytes.length))
                record(answer, &bytes);
}

void lambda_answer_keep_anew(struct lambda_answer *answer) {
        strbuf_clear(&answer->kept);
        answer->kept_cut = 0;
        answer->kept_whole = false;
}

void lambda_answer_forget(struct lambda_answer *answer) {
        lambda_answer_keep_anew(answer);
        strbuf_release(&answer->kept);
}

bool lambda_answer_say_again(struct lambda_answer *answer) {
        if (!answer->kept_whole)
                return false;
        stream_bytes(answer, &answer->kept);
        answer->room.cut = answer->kept_cut;
        return true;
}

static void write_answer_end(const struct lambda_answer *answer, const struct lambda_answer_room *room,
                             const struct invocation_end *end, struct strbuf *to) {
        struct invocation_end said = *end;

        said.cut_bytes = room->cut;
        said.files_left_out = room->files_left_out;
        said.skipped_left_out = answer->skipped_left_out;
        invocation_end_write(&said, to);
}

const struct strbuf *lambda_answer_result(struct lambda_answer *answer, const struct invocation_end *end) {
        answer->records = false;
        write_answer_end(answer, &answer->record_room, end, &answer->record);
        return &answer->record;
}

static int give_buffered(struct lambda_answer *answer, struct lambda_api *api,
                         const struct lambda_event *event, int *ret_status, struct error *err) {
        char *text TEXT_CLEANUP = malloc(4 * ((answer->whole.length + 2) / 3) + 1),
                   *whole TEXT_CLEANUP = NULL;
        json_t *json JSON_CLEANUP = NULL;

        if (!text)
                abort();
        digest_base64((const uint8_t *)strbuf_text(&answer->whole), answer->whole.length, text);
        strbuf_release(&answer->whole);
        json = json_checked(json_pack("{s:i, s:s}", "berth", INVOCATION_VERSION, "messages", text));
        whole = json_compact(json);
        return lambda_api_answer(api, event, whole, strlen(whole), ret_status, err);
}

int lambda_answer_end(struct lambda_answer *answer, struct lambda_api *api, const struct lambda_event *event,
                      const struct invocation_end *end, struct error *err) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        int status;

        write_answer_end(answer, &answer->room, end, &bytes);
        stream_bytes(answer, &bytes);
        if (answer->buffered) {
                if (give_buffered(answer, api, event, &status, err) < 0)
                        return -1;
        } else if (lambda_stream_end(&answer->stream, NULL, NULL, &status, err) < 0) {
                /* This answer is lost, but there may be another event. */
                complain(err->message);
                return 0;
        }
        if (status != 202) {
                struct error refused;

                (void)error_set(&refused, "the Runtime API does not take the answer: %d", status);
                complain(refused.message);
        }
        return 0;
}
