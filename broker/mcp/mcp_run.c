/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer is small by the measure of models: 64 KiB of each stream and of displays as text.
 * Images are given once, as content that models see; the displays name the files that they are in.
 * The whole output is in no file: code that needs more writes one.
 */
#include "broker/mcp/mcp_run.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/mcp/mcp.h"
#include "broker/mcp/mcp_files.h"
#include "broker/mcp/mcp_flight.h"
#include "broker/mcp/mcp_sessions.h"
#include "broker/mcp/mcp_text.h"
#include "broker/request/answers.h"
#include "broker/request/events.h"
#include "broker/work/execute.h"

#include <string.h>

#define STREAM_MAX ((size_t)65536)   /* bytes of each that are told */
#define DISPLAYS_MAX ((size_t)65536) /* bytes of texts in displays */
#define IMAGES_MAX ((size_t)8 << 20) /* bytes of all images, in base64 */
#define TOLD_MS 1000                 /* progress is told no more often */
#define QUIET_MS 2000                /* and that often where nothing is said: clients wait 5 s and more */
#define LINE_MAX_BYTES ((size_t)200) /* of output in a message of progress */
#define TIMEOUT_SECONDS 300          /* the engine's, if the client does not say */

/* --- what is told of a result --- */

/* Whole characters. */
static size_t cut_at(const char *text, size_t most) {
        while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
                most--;
        return most;
}

/* Characters of a group, and the bytes that it stands for. */
#define BASE64_UNIT 4
#define BASE64_BYTES 3

/*
 * The first and the last half of what fits. Base64 is cut between groups, which have no padding but at the end. Bytes that were
 * missing before are in the gap, too.
 */
static void cut_stream(json_t *result, const char *name) {
        const json_t *stream = json_object_get(result, name), *content = json_object_get(stream, "content");
        const char *encoding = json_text(stream, "encoding"), *text = json_string_value(content);
        bool base64 = encoding && strcmp(encoding, "base64") == 0;
        size_t length = json_string_length(content),
               most = base64 ? STREAM_MAX / BASE64_BYTES * BASE64_UNIT : STREAM_MAX, head, tail, bytes, at;
        struct strbuf shorter STRBUF_CLEANUP = STRBUF_INIT;
        json_t *cut;

        if (length <= most)
                return;
        at = (size_t)json_integer_or(json_object_get(stream, "gap"), "at", (json_int_t)length);
        at = base64 ? at / BASE64_BYTES * BASE64_UNIT : at;
        head = at < most / 2 ? at : most / 2;
        tail = length - most / 2;
        if (json_object_get(stream, "gap") && tail < at)
                tail = at < length ? at : length;
        if (base64) {
                head -= head % BASE64_UNIT;
                tail += (BASE64_UNIT - tail % BASE64_UNIT) % BASE64_UNIT;
        } else {
                head = cut_at(text, head);
                tail = cut_at(text, tail + 3 < length ? tail + 3 : length);
        }
        strbuf_append_bytes(&shorter, text, head);
        strbuf_append_bytes(&shorter, text + tail, length - tail);
        bytes = shorter.length;
        if (base64)
                bytes = bytes / BASE64_UNIT * BASE64_BYTES - (text[length - 1] == '=') -
                        (text[length - 2] == '=');
        at = base64 ? head / BASE64_UNIT * BASE64_BYTES : head;
        cut = json_checked(json_copy((json_t *)(uintptr_t)stream));
        json_put(cut, "content", json_stringn(strbuf_text(&shorter), shorter.length));
        json_put(cut, "bytesReturned", json_integer((json_int_t)bytes));
        json_put(cut, "truncated", json_true());
        json_put(cut, "gap",
                 json_pack("{s:I, s:I}", "at", (json_int_t)at, "bytes",
                           json_integer_or(stream, "bytesTotal", 0) - (json_int_t)bytes));
        json_put(result, name, cut);
}

static bool is_seen(const char *type) {
        return strcmp(type, "image/png") == 0 || strcmp(type, "image/jpeg") == 0 ||
               strcmp(type, "image/gif") == 0 || strcmp(type, "image/webp") == 0;
}

/* Without what became content, and without what is too long to be read. */
static json_t *show_display(const json_t *display, size_t *text_room, size_t *image_room, json_t *content) {
        json_t *shown = json_checked(json_copy((json_t *)(uintptr_t)display)),
               *mime = json_checked(json_object()), *text;
        const char *type;

        json_object_foreach (json_object_get(display, "mime"), type, text) {
                size_t length = json_string_length(text);

                if (is_seen(type) && length <= *image_room) {
                        *image_room -= length;
                        json_add(content, json_pack("{s:s, s:O, s:s}", "type", "image", "data", text,
                                                    "mimeType", type));
                } else if (!is_seen(type) && length <= *text_room) {
                        *text_room -= length;
                        json_put(mime, type, json_incref(text));
                } else {
                        json_put(shown, "truncated", json_true());
                }
        }
        json_put(shown, "mime", mime);
        return shown;
}

void mcp_run_show(const json_t *result, bool tells_session, struct mcp_answer *ret) {
        json_t *data = json_checked(json_copy((json_t *)(uintptr_t)result)),
               *displays = json_checked(json_array());
        json_t *content = json_checked(json_array()), *display;
        const char *status = json_text(result, "status");
        size_t text_room = DISPLAYS_MAX, image_room = IMAGES_MAX, index;

        cut_stream(data, "stdout");
        cut_stream(data, "stderr");
        json_array_foreach (json_object_get(result, "displays"), index, display)
                json_add(displays, show_display(display, &text_room, &image_room, content));
        json_put(data, "displays", displays);
        *ret = (struct mcp_answer){ .data = data,
                                    .text = mcp_text_run(data, tells_session),
                                    .content = content,
                                    .failed = status && strcmp(status, "failed") == 0 };
}

/* --- what is run --- */

struct run {
        const struct mcp_message *message;
        const char *mcp_session, *note;
        bool tells_session; /* the call named none */
        struct mcp_flight flight;
        const json_t *progress; /* the token that it is told under; NULL: it is not */
        int64_t timeout_seconds;
        int64_t began_ms, told_ms;
        double told; /* the last progress, which has to rise */
        char line[LINE_MAX_BYTES + 1];
};

static int begin_code(const struct mcp_call *call, const struct mcp_message *message, const json_t *arguments,
                      const char *session, int64_t *ret, struct engine_follower **ret_follower,
                      struct problem *problem) {
        const json_t *code = json_object_get(arguments, "code");
        const struct engine_code wish = {
                .code = json_string_value(code),
                .code_length = json_string_length(code),
                .language = json_text(arguments, "language"),
                .timeout_seconds = json_integer_or(arguments, "timeoutSeconds", 0),
                .interrupt_on_disconnect = message->newest,
        };
        struct problem why;

        if (engine_execute(call->call->engine, &call->caller, session, &wish, ret, ret_follower, &why) >= 0)
                return 0;
        if (why.code == PROBLEM_NOT_FOUND)
                return problem_set(
                        problem, why.code,
                        "%s; if it has ended, leave session_id out: its files can be copied into a new one",
                        why.detail);
        *problem = why;
        return -1;
}

static int begin(const struct mcp_call *call, const struct mcp_message *message, const json_t *arguments,
                 const char **ret_session, int64_t *ret, struct engine_follower **ret_follower,
                 struct problem *problem) {
        struct problem ignored;
        const char *session;
        bool made;

        if (mcp_sessions_open(call, arguments, &session, &made, problem) < 0)
                return -1;
        if (begin_code(call, message, arguments, session, ret, ret_follower, problem) < 0) {
                if (made)
                        (void)!engine_end(call->call->engine, &call->caller, session, &ignored);
                return -1;
        }
        *ret_session = session;
        return 0;
}

/* --- how it is told --- */

static bool write_message(struct server_request *request, json_t *message, struct strbuf *to) {
        json_t *json JSON_CLEANUP = message;
        char *text TEXT_CLEANUP = json_compact(json);

        if (request && !call_carry(request, strlen(text)))
                return false;
        strbuf_append(to, "event: message\ndata: ");
        strbuf_append(to, text);
        strbuf_append(to, "\n\n");
        return true;
}

static void write_progress(struct run *run, struct strbuf *to) {
        int64_t now = clock_now_ms();
        double seconds = (double)(now - run->began_ms) / 1000;
        json_t *params;

        if (seconds <= run->told)
                seconds = run->told + 0.001;
        run->told = seconds;
        run->told_ms = now;
        params = json_checked(json_pack("{s:O, s:f, s:I}", "progressToken", run->progress, "progress",
                                        seconds, "total", (json_int_t)run->timeout_seconds));
        if (seconds > (double)run->timeout_seconds)
                json_object_del(params, "total"); /* it has waited in line */
        if (run->line[0])
                json_put(params, "message", json_from_text(run->line));
        (void)write_message(NULL, mcp_message_notification("notifications/progress", params), to);
}

/* The last line of a piece of output that has anything on it, for the message of progress. */
static void keep_line(struct run *run, const json_t *data) {
        const char *text = json_text(data, "text"), *begin;
        size_t length = text ? strlen(text) : 0;

        while (length > 0 && strchr("\r\n \t", text[length - 1]))
                length--;
        if (length == 0)
                return;
        begin = text + length;
        while (begin > text && begin[-1] != '\n' && begin[-1] != '\r')
                begin--;
        length -= (size_t)(begin - text);
        if (length > LINE_MAX_BYTES)
                length = cut_at(begin, LINE_MAX_BYTES);
        memcpy(run->line, begin, length);
        run->line[length] = '\0';
}

static json_t *result_message(const struct run *run, const json_t *result) {
        struct mcp_answer answer;

        mcp_run_show(result, run->tells_session, &answer);
        return mcp_message_result(run->message, mcp_tool_result(&answer, run->note));
}

static bool write_event(void *context, struct server_request *request, const struct engine_event *event,
                        struct strbuf *to) {
        json_t *data JSON_CLEANUP = event->data;
        struct run *run = context;

        if (mcp_flight_is_cancelled(&run->flight))
                return true; /* no client waits for it */
        if (strcmp(event->name, "done") == 0)
                return write_message(request, result_message(run, data), to);
        if (!run->progress)
                return true;
        keep_line(run, data);
        if (strcmp(event->name, "started") == 0 || clock_now_ms() - run->told_ms >= TOLD_MS)
                write_progress(run, to);
        return true;
}

static void write_quiet(void *context, struct strbuf *to) {
        struct run *run = context;

        if (run->progress && !mcp_flight_is_cancelled(&run->flight))
                write_progress(run, to);
        else
                strbuf_append(to, ":\n\n");
}

static void stopping(struct mcp_fault *fault) {
        (void)mcp_fault_set(fault, MCP_INTERNAL_ERROR, 503,
                            "the server stops: the session stays, ask again once the server is back");
}

static void write_stop(void *context, struct strbuf *to) {
        const struct run *run = context;
        struct mcp_fault fault;

        stopping(&fault);
        (void)write_message(NULL, mcp_message_fault(run->message->id, &fault), to);
}

static void end_run(void *context) {
        struct run *run = context;

        mcp_flight_end(&run->flight);
}

/* For a client that takes no streams. */
static void answer_at_once(const struct mcp_call *call, struct run *run, struct engine_follower *follower,
                           int64_t n) {
        enum server_wait waited = execute_await(call->request, follower);
        struct mcp_fault fault;
        struct problem problem;
        json_t *result;

        if (waited == SERVER_STOPS) {
                stopping(&fault);
                mcp_answer_fault(call->request, run->message, &fault);
        } else if (waited == SERVER_READY && engine_result(call->call->engine, &call->caller,
                                                           run->flight.session, n, &result, &problem) < 0) {
                mcp_answer_result(call->request, run->message, mcp_tool_problem(&problem));
        } else if (waited == SERVER_READY) {
                answers_json(call->request, 200, result_message(run, result));
                json_decref(result);
        }
        mcp_flight_end(&run->flight);
        engine_follower_close(follower);
}

static const json_t *progress_token(const struct mcp_message *message) {
        const json_t *token = json_object_get(message->meta, "progressToken");

        /* A longer token is ignored: it would be repeated with each of the messages. */
        return json_is_integer(token) || (json_is_string(token) && json_string_length(token) <= MCP_ID_MAX)
                       ? token
                       : NULL;
}

void mcp_run_answer(const struct mcp_call *call, const struct mcp_message *message, const json_t *arguments,
                    const char *mcp_session) {
        struct run *run = arena_alloc(call->request->arena, sizeof(*run));
        struct engine_follower *follower = NULL;
        struct problem problem;
        const char *session = NULL;
        int64_t n = 0;

        if (begin(call, message, arguments, &session, &n, &follower, &problem) < 0) {
                mcp_answer_result(call->request, message, mcp_tool_problem(&problem));
                return;
        }
        *run = (struct run){
                .message = message,
                .note = call->note,
                .tells_session = !json_text(arguments, "session_id") &&
                                 !json_text(arguments, "conversation") && !call->conversation,
                .flight = { .client = call->caller.client,
                            .owner = call->caller.owner,
                            .mcp_session = mcp_session,
                            .id = message->id,
                            .session = session,
                            .n = n },
                .progress = progress_token(message),
                .timeout_seconds = json_integer_or(arguments, "timeoutSeconds", TIMEOUT_SECONDS),
                .began_ms = clock_now_ms(),
        };
        if (!message->newest)
                mcp_flight_begin(&run->flight);
        if (!call_header_has(call->request, "Accept", "text/event-stream")) {
                answer_at_once(call, run, follower, n);
                return;
        }
        server_add_header(call->request, "X-Accel-Buffering", "no");
        events_answer_as(call->request, follower,
                         &(const struct events_form){ .context = run,
                                                      .write = write_event,
                                                      .quiet = write_quiet,
                                                      .quiet_ms = QUIET_MS,
                                                      .stop = write_stop,
                                                      .end = end_run });
}
