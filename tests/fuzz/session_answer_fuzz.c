/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Lambda answers to the execution 3 of a session: a stream of messages that the code which ran may have made. The first byte says
 * what was asked and how it comes; the rest are messages as parts, a head and a body each, whose lengths are made to fit, or the bytes of
 * the stream themselves.
 *
 * The engine hears the same whatever the pieces, as a stream or in a buffered answer; and where an
 * answer was cut off and comes once more from the bucket, nothing is said twice and nothing is left
 * out. Events concern this execution alone, a lie has a reason, and a file that is said to be kept
 * has a path that a workspace may have.
 */
#include "base/digest.h"
#include "base/json.h"
#include "parts.h"
#include "providers/aws/session/place_parts.h"
#include "sessions/workspace_tree.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define N 3
enum { EXECUTES = 1, RAW = 2, SHORT_PIECES = 4 };

static void must(bool holds) {
        if (!holds)
                abort();
}

static void session_begin(struct place_session *session) {
        struct error err;

        *session = (struct place_session){ .id = "s-1" };
        pthread_mutex_init(&session->lock, NULL);
        pthread_cond_init(&session->changed, NULL);
        must(interrupt_init(&session->left, &err) == 0);
        session->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        must(session->wake >= 0);
        place_memory_begin(&session->memory, NULL);
}

static void session_end(struct place_session *session) {
        while (session->first_item) {
                struct place_item *item = session->first_item;

                session->first_item = item->next;
                place_item_free(item);
        }
        place_memory_release(&session->memory);
        interrupt_dispose(&session->left);
        close(session->wake);
        pthread_cond_destroy(&session->changed);
        pthread_mutex_destroy(&session->lock);
}

static void put_text(struct strbuf *to, const char *text) {
        strbuf_printf(to, "%s|", text ? text : "-");
}

static void put_json(struct strbuf *to, const json_t *json) {
        char *text = json ? json_dumps(json, JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;

        put_text(to, text);
        free(text);
}

/* What the engine hears. */
static void put_event(struct strbuf *to, const struct place_event *event) {
        must(event->n == N && event->id > 0);
        must(event->type == PLACE_STARTED || event->type == PLACE_OUTPUT || event->type == PLACE_DISPLAY);
        strbuf_printf(to, "%d %d %lld|", (int)event->type, (int)event->was, (long long)event->generation);
        put_text(to, event->context);
        put_text(to, event->reason);
        put_json(to, event->restored);
        put_json(to, event->lost);
        put_text(to, event->file);
        if (event->type == PLACE_OUTPUT)
                strbuf_append_bytes(to, event->bytes, event->length);
        for (size_t i = 0; event->display && i < event->display->count; i++) {
                put_text(to, event->display->parts[i].type);
                strbuf_append_bytes(to, event->display->parts[i].bytes, event->display->parts[i].length);
        }
        strbuf_append_char(to, '\n');
}

static void put_files(struct strbuf *to, const struct place_answer *answer) {
        for (size_t list = 0; list < sizeof(answer->counts) / sizeof(*answer->counts); list++) {
                must(answer->counts[list] <= INVOCATION_FILES_MAX);
                for (size_t i = 0; i < answer->counts[list]; i++) {
                        const struct place_file *file = &answer->files[list][i];

                        must(file->path != NULL);
                        if (list == PLACE_FILES_CHANGED)
                                must(!workspace_path_problem(file->path) && file->sha256 &&
                                     strlen(file->sha256) == SHA256_HEX_SIZE - 1);
                        if (list == PLACE_FILES_SKIPPED)
                                must(file->reason != NULL);
                        strbuf_printf(to, "%zu %llu|", list, (unsigned long long)file->bytes);
                        put_text(to, file->path);
                        put_text(to, file->sha256);
                        put_text(to, file->reason);
                }
        }
}

/* All that was heard, what came of it, and whether it was a lie. */
static void put_all(struct strbuf *to, const struct place_session *session,
                    const struct place_answer *answer) {
        for (const struct place_item *item = session->first_item; item; item = item->next)
                put_event(to, &item->event);
        must(!answer->deaf && (!answer->lied || answer->lie.message[0]));
        put_text(to, answer->lied ? answer->lie.message : NULL);
        put_json(to, answer->contexts);
        put_text(to, answer->refused);
        put_files(to, answer);
        strbuf_printf(to, "%d %d %d", answer->greeted, answer->started, answer->restarted);
        if (answer->has_done) {
                must(answer->is_execution && answer->done.type == REPORT_DONE && answer->done.n == N);
                strbuf_printf(to, " done %d %lld|", (int)answer->done.status,
                              (long long)answer->done.exit_code);
                put_text(to, answer->done.detail);
                put_text(to, answer->done.value.text);
        }
        if (answer->has_end) {
                must(answer->end.n == N && strlen(answer->end.boot) == INVOCATION_BOOT_SIZE - 1);
                must(!answer->end.checkpoint_sha256 ||
                     strlen(answer->end.checkpoint_sha256) == SHA256_HEX_SIZE - 1);
                strbuf_printf(to, " end %d %d|", (int)answer->end.was, (int)answer->end.refusal);
                put_text(to, answer->end.reason);
                put_text(to, answer->end.files_reason);
        }
}

static void take(struct place_answer *answer, const struct strbuf *bytes, size_t length, size_t step) {
        for (size_t at = 0; at < length; at += step) {
                if (!place_answer_take(answer, bytes->data + at, length - at < step ? length - at : step))
                        break;
        }
        place_answer_end(answer);
}

/*
 * As a stream, in pieces; the first time cut off behind `cut` bytes, where it then comes once more.
 */
static void hear_stream(const struct strbuf *bytes, bool executes, size_t step, size_t cut,
                        struct strbuf *ret) {
        struct place_session session;
        struct place_answer answer;

        session_begin(&session);
        place_answer_begin(&answer, &session, N, executes, false);
        if (cut > 0) {
                take(&answer, bytes, cut, step);
                place_answer_again(&answer);
        }
        take(&answer, bytes, bytes->length, step);
        put_all(ret, &session, &answer);
        place_answer_release(&answer);
        session_end(&session);
}

static void hear_buffered(const struct strbuf *body, bool executes, size_t step, struct strbuf *ret) {
        struct place_session session;
        struct place_answer answer;

        session_begin(&session);
        place_answer_begin(&answer, &session, N, executes, true);
        take(&answer, body, body->length, step);
        put_all(ret, &session, &answer);
        place_answer_release(&answer);
        session_end(&session);
}

static void must_be_same(const struct strbuf *first, const struct strbuf *second) {
        must(first->length == second->length &&
             memcmp(strbuf_text(first), strbuf_text(second), first->length) == 0);
}

static void put_length(struct strbuf *to, size_t length) {
        for (int shift = 24; shift >= 0; shift -= 8)
                strbuf_append_char(to, (char)(length >> shift & 0xff));
}

static void put_messages(const uint8_t *data, size_t size, struct strbuf *to) {
        struct parts parts = parts_of(data, size);

        while (!parts.over) {
                size_t head_length, body_length;
                char *head = parts_next(&parts, &head_length), *body = parts_next(&parts, &body_length);

                put_length(to, head_length);
                put_length(to, body_length);
                strbuf_append_bytes(to, head, head_length);
                strbuf_append_bytes(to, body, body_length);
                free(head);
                free(body);
        }
}

/* {berth: 1, messages: BASE64} */
static void put_buffered(const struct strbuf *bytes, struct strbuf *to) {
        char *text = malloc((bytes->length + 2) / 3 * 4 + 1);

        must(text != NULL);
        digest_base64((const uint8_t *)strbuf_text(bytes), bytes->length, text);
        strbuf_printf(to, "{\"berth\":%d,\"messages\":\"%s\"}", INVOCATION_VERSION, text);
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT, body STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT, pieces STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf again STRBUF_CLEANUP = STRBUF_INIT, buffered STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf hostile STRBUF_CLEANUP = STRBUF_INIT;
        bool executes;
        size_t step;

        if (size < 2)
                return 0;
        executes = data[0] & EXECUTES;
        step = data[0] & SHORT_PIECES ? 1 + data[0] / 8 % 8U : 1 + data[0] * (size_t)4;
        if (data[0] & RAW)
                strbuf_append_bytes(&bytes, data + 2, size - 2);
        else
                put_messages(data + 2, size - 2, &bytes);
        if (bytes.length == 0)
                return 0;
        hear_stream(&bytes, executes, bytes.length, 0, &whole);
        hear_stream(&bytes, executes, step, 0, &pieces);
        must_be_same(&whole, &pieces);
        hear_stream(&bytes, executes, step, data[1] * bytes.length / 255, &again);
        must_be_same(&whole, &again);
        put_buffered(&bytes, &body);
        hear_buffered(&body, executes, step, &buffered);
        must_be_same(&whole, &buffered);
        if (data[0] & RAW)
                hear_buffered(&bytes, executes, step, &hostile);
        return 0;
}
