/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes from the place was bounded and checked for its form, but an execution may send any amount of it. So what is kept here is
 * bounded by itself: each stream to ENGINE_STREAM_MAX and a half, displays to DISPLAYS_MAX, and events to as many as that allows: from
 * EVENTS_EAGER on, output becomes an event by EVENT_BYTES at a time, else a program that prints single characters would cost
 * a structure for each.
 *
 * Long output. The first ENGINE_STREAM_MAX bytes of a stream are events as they come. Behind them only the last half of that is
 * kept, in `tail`. When the execution ends, an event `gap` tells how many bytes are lost between the two, and the tail follows as
 * events. A result has the first and the last half of its cap.
 */
#include "sessions/execution.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING_KEPT 31 /* halvings of any cap */
#define TAIL_MAX ((size_t)ENGINE_STREAM_MAX / 2)
#define DISPLAYS_MAX ((size_t)16 << 20)
#define EVENTS_EAGER 16384
#define EVENT_BYTES 4096
#define EVENT_BYTES_MAX 262144
#define THIN_TEXT 1024     /* bytes of each text of what is kept of an old one */
#define FILES_STORED 1000  /* of each list, in history */
#define FILES_SKIPPED 1000 /* told with their reasons; the others are counted */

static const char *const stream_names[EXECUTION_STREAMS] = { "stdout", "stderr" };

static void *copy_bytes(const void *bytes, size_t length) {
        char *copy = malloc(length + 1);

        if (!copy)
                abort();
        if (length > 0)
                memcpy(copy, bytes, length);
        copy[length] = '\0';
        return copy;
}

/* How much of it ends on a whole character; what can be none is whole, too. */
static size_t whole_characters(const char *bytes, size_t length) {
        for (size_t back = 1; back <= 3 && back <= length; back++) {
                unsigned char byte = (unsigned char)bytes[length - back];
                size_t size = byte >= 0xf5 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;

                if (byte >= 0x80 && byte < 0xc0)
                        continue; /* goes on with one that began before */
                return size > back ? length - back : length;
        }
        return length;
}

/* Bytes at the start that go on with a character which began before. */
static size_t cut_character(const char *bytes, size_t length) {
        size_t count = 0;

        while (count < 3 && count < length && ((unsigned char)bytes[count] & 0xc0) == 0x80)
                count++;
        return count;
}

size_t execution_asked_bytes(const struct engine_code *code) {
        size_t bytes = code->code_length + code->input_length;
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)(uintptr_t)code->variables, name, value)
                bytes += strlen(name) + json_string_length(value);
        return bytes;
}

struct execution *execution_new(int64_t n, const struct engine_code *code, int64_t now_ms) {
        struct execution *execution = calloc(1, sizeof(*execution));

        if (!execution)
                abort();
        *execution = (struct execution){
                .n = n,
                .references = 1,
                .code = copy_bytes(code->code, code->code_length),
                .code_length = code->code_length,
                .asked_bytes = execution_asked_bytes(code),
                .input = code->input ? copy_bytes(code->input, code->input_length) : NULL,
                .input_length = code->input_length,
                .context = copy_bytes(code->context ? code->context : "main",
                                      strlen(code->context ? code->context : "main")),
                .language = code->language ? (enum request_language)request_language(code->language)
                                           : REQUEST_PYTHON,
                .staged = code->staged ? copy_bytes(code->staged, strlen(code->staged)) : NULL,
                .variables = json_deep_copy(code->variables),
                .timeout_seconds = code->timeout_seconds,
                .interrupt_on_disconnect = code->interrupt_on_disconnect,
                .queued_ms = now_ms,
                .taken_before = n - 1,
                .displays = json_checked(json_array()),
        };
        return execution;
}

void execution_hold(struct execution *execution) {
        execution->references++;
}

void execution_drop(struct execution *execution) {
        if (!execution || --execution->references > 0)
                return;
        for (size_t i = 0; i < execution->event_count; i++)
                json_decref(execution->events[i].data);
        array_free_alone(execution->events);
        for (size_t i = 0; i < EXECUTION_STREAMS; i++) {
                strbuf_release(&execution->streams[i].bytes);
                strbuf_release(&execution->streams[i].tail);
                digest_stream_end(execution->streams[i].digest, NULL);
        }
        json_decref(execution->displays);
        json_decref(execution->state);
        json_decref(execution->result);
        json_decref(execution->variables);
        free(execution->code);
        free(execution->input);
        free(execution->context);
        free(execution->staged);
        free(execution);
}

/* Events */

static struct execution_event *add_event(struct execution *execution) {
        execution->events =
                array_grow_alone(execution->events, execution->event_count, sizeof(*execution->events));
        execution->events[execution->event_count] = (struct execution_event){ 0 };
        return &execution->events[execution->event_count++];
}

/* `data` is taken over. */
static void add_json_event(struct execution *execution, const char *name, json_t *data) {
        struct execution_event *event = add_event(execution);

        event->type = EXECUTION_EVENT_JSON;
        event->name = name;
        event->data = data;
}

/* Makes events of what of the stream no event has told yet; `all`: of an unfinished character too. */
static void tell_output(struct execution *execution, size_t index, bool all) {
        struct execution_stream *stream = &execution->streams[index];
        size_t least = !all && execution->event_count >= EVENTS_EAGER ? EVENT_BYTES : 1;

        while (stream->bytes.length - stream->told >= least) {
                const char *from = stream->bytes.data + stream->told;
                size_t length = stream->bytes.length - stream->told;
                bool cut = length > EVENT_BYTES_MAX;
                struct execution_event *event;

                length = cut ? EVENT_BYTES_MAX : length;
                if (cut || !all)
                        length = whole_characters(from, length);
                if (length == 0)
                        break;
                event = add_event(execution);
                event->type = EXECUTION_EVENT_OUTPUT;
                event->stream = (uint8_t)index;
                event->at = (uint32_t)stream->told;
                event->length = (uint32_t)length;
                stream->told += length;
        }
}

static void tell_all_output(struct execution *execution) {
        for (size_t i = 0; i < EXECUTION_STREAMS; i++)
                tell_output(execution, i, true);
}

/* Keeps the last TAIL_MAX bytes. They are moved only once twice as many are there. */
static void keep_tail(struct strbuf *tail, const char *bytes, size_t length, size_t most) {
        strbuf_append_bytes(tail, bytes, length);
        if (tail->length <= most)
                return;
        memmove(tail->data, tail->data + tail->length - TAIL_MAX, TAIL_MAX);
        tail->length = TAIL_MAX;
        tail->data[TAIL_MAX] = '\0';
}

/* The stream has ended. `said`: how many bytes it had, as the place counts; -1: unknown. */
static void end_stream(struct execution *execution, size_t index, int64_t said) {
        struct execution_stream *stream = &execution->streams[index];
        struct strbuf *head = &stream->bytes, *tail = &stream->tail;
        size_t skipped = 0;

        if (said > 0 && (uint64_t)said > stream->total)
                stream->total = (uint64_t)said;
        keep_tail(tail, "", 0, TAIL_MAX);
        if (stream->total > head->length + tail->length) {
                size_t whole = whole_characters(strbuf_text(head), head->length);

                head->length = whole < stream->told ? stream->told : whole;
                skipped = cut_character(strbuf_text(tail), tail->length);
                stream->gap_at = head->length;
                stream->gap = stream->total - head->length - (tail->length - skipped);
        }
        tell_output(execution, index, true);
        if (stream->gap > 0)
                add_json_event(execution, "gap",
                               json_checked(json_pack("{s:s, s:I}", "stream", stream_names[index], "bytes",
                                                      (json_int_t)stream->gap)));
        strbuf_append_bytes(head, strbuf_text(tail) + skipped, tail->length - skipped);
        strbuf_release(tail);
        tell_output(execution, index, true);
}

json_t *execution_base64(const char *bytes, size_t length) {
        char *text = malloc(4 * ((length + 2) / 3) + 1);
        json_t *json;

        if (!text)
                abort();
        digest_base64((const uint8_t *)bytes, length, text);
        json = json_checked(json_string(text));
        free(text);
        return json;
}

bool execution_event(const struct execution *execution, int64_t id, struct engine_event *ret) {
        const struct execution_event *event;
        const char *bytes;
        json_t *text;

        if (id < 1 || (uint64_t)id > execution->event_count - execution->unwritten)
                return false;
        event = &execution->events[id - 1];
        if (event->type == EXECUTION_EVENT_JSON) {
                *ret = (struct engine_event){ id, event->name, json_incref(event->data) };
                return true;
        }
        bytes = execution->streams[event->stream].bytes.data + event->at;
        text = json_stringn(bytes, event->length); /* NULL: it is no UTF-8 */
        *ret = (struct engine_event){
                id,
                stream_names[event->stream],
                json_checked(
                        text ? json_pack("{s:o}", "text", text)
                             : json_pack("{s:o}", "contentBase64", execution_base64(bytes, event->length))),
        };
        return true;
}

json_t *execution_pending(const struct execution *execution, const char *session, size_t position) {
        return json_checked(
                json_pack("{s:s, s:I, s:s, s:o}", "session", session, "n", (json_int_t)execution->n, "status",
                          execution->status == EXECUTION_QUEUED ? "queued" : "running", "queuePosition",
                          position ? json_integer((json_int_t)position) : json_null()));
}

/* What the place says */

static json_t *list_or_empty(const json_t *list) {
        return list ? json_checked(json_deep_copy(list)) : json_checked(json_array());
}

void execution_started(struct execution *execution, const struct place_event *event, int64_t now_ms) {
        static const char *const was[] = { [PLACE_NEW] = "new",
                                           [PLACE_KEPT] = "kept",
                                           [PLACE_RESTORED] = "restored",
                                           [PLACE_LOST] = "lost" };
        json_t *state = json_null();

        execution->status = EXECUTION_RUNNING;
        execution->begun_ms = execution->begun_ms ? execution->begun_ms : now_ms;
        if (event->generation > 0) {
                state = json_checked(json_pack(
                        "{s:I, s:s, s:s?, s:o, s:o, s:n}", "generation", (json_int_t)event->generation, "was",
                        was[event->was], "reason", event->reason, "restored", list_or_empty(event->restored),
                        "lost", list_or_empty(event->lost), "ended"));
                json_decref(execution->state);
                execution->state = json_incref(state);
        }
        add_json_event(execution, "started",
                       json_checked(json_pack("{s:I, s:s?, s:o}", "n", (json_int_t)execution->n, "context",
                                              event->context, "state", state)));
}

void execution_output(struct execution *execution, bool is_stderr, const char *bytes, size_t length) {
        size_t index = is_stderr ? EXECUTION_STDERR : EXECUTION_STDOUT;
        struct execution_stream *stream = &execution->streams[index];
        size_t room = ENGINE_STREAM_MAX - stream->bytes.length, kept = length < room ? length : room;

        stream->total += length;
        if (!stream->digest && !stream->unseen)
                stream->digest = digest_stream_new();
        if (stream->digest)
                digest_stream_add(stream->digest, bytes, length);
        if (execution->head_lost)
                return;
        strbuf_append_bytes(&stream->bytes, bytes, kept);
        tell_output(execution, index, false);
        if (length > kept)
                keep_tail(&stream->tail, bytes + kept, length - kept, 2 * TAIL_MAX);
}

/* Images are base64 but for SVG, which is text like all else; what should be text and is no UTF-8 is base64 as well. */
static json_t *part_json(const struct content_part *part) {
        json_t *text = NULL;

        if (!text_begins_with(part->type, "image/") || strcmp(part->type, "image/svg+xml") == 0)
                text = json_stringn(part->bytes, part->length);
        return text ? text : execution_base64(part->bytes, part->length);
}

void execution_display(struct execution *execution, const struct place_event *event) {
        json_t *mime, *display;
        size_t bytes = 0;

        for (size_t i = 0; i < event->display->count; i++)
                bytes += event->display->parts[i].length;
        if (bytes > DISPLAYS_MAX - execution->displays_bytes || execution->head_lost)
                return;
        execution->displays_bytes += bytes;
        mime = json_checked(json_object());
        for (size_t i = 0; i < event->display->count; i++)
                json_put(mime, event->display->parts[i].type, part_json(&event->display->parts[i]));
        display = json_checked(json_pack("{s:o, s:b}", "mime", mime, "main", event->is_main));
        if (event->file)
                json_put(display, "file", json_from_text(event->file));
        json_add(execution->displays, json_incref(display));
        tell_all_output(execution);
        add_json_event(execution, "display", display);
}

/* Results */

/*
 * At most `cap` bytes: the first and the last half of them, where there are more. `gap` tells at which byte of the content how many
 * are missing.
 */
static json_t *stream_json(const struct execution_stream *stream, size_t cap, const char *sha256) {
        const char *bytes = strbuf_text(&stream->bytes), *encoding = "utf-8";
        size_t length = stream->bytes.length, head = stream->gap > 0 ? stream->gap_at : length,
               tail = length - head;
        struct strbuf cut STRBUF_CLEANUP = STRBUF_INIT;
        uint64_t missing = stream->total > length ? stream->total - length : 0;
        json_t *content, *json;

        if (length > cap) {
                size_t most = head > cap / 2 ? cap / 2 : cap - head;

                tail = stream->gap == 0 || tail > most ? most : tail;
                head = whole_characters(bytes, head > cap - tail ? cap - tail : head);
                tail -= cut_character(bytes + length - tail, tail);
                strbuf_append_bytes(&cut, bytes, head);
                strbuf_append_bytes(&cut, bytes + length - tail, tail);
                missing += length - cut.length;
                bytes = strbuf_text(&cut);
                length = cut.length;
        }
        content = json_stringn(bytes, length);
        if (!content) {
                content = execution_base64(bytes, length);
                encoding = "base64";
        }
        json = json_checked(json_pack("{s:I, s:I, s:b, s:s?, s:s, s:o}", "bytesTotal",
                                      (json_int_t)stream->total, "bytesReturned", (json_int_t)length,
                                      "truncated", missing > 0, "sha256", sha256, "encoding", encoding,
                                      "content", content));
        if (missing > 0)
                json_put(json, "gap",
                         json_pack("{s:I, s:I}", "at", (json_int_t)head, "bytes", (json_int_t)missing));
        return json;
}

/* Bytes that were not seen here have no digest. */
static json_t *whole_stream_json(struct execution *execution, size_t index, int64_t said) {
        struct execution_stream *stream = &execution->streams[index];
        char sha256[SHA256_HEX_SIZE];
        bool whole = !stream->unseen && (said < 0 || (uint64_t)said == stream->total);

        end_stream(execution, index, said);
        if (stream->digest)
                digest_stream_end(stream->digest, sha256);
        else if (whole)
                digest_sha256_hex("", 0, sha256);
        stream->digest = NULL;
        stream->unseen = true;
        return stream_json(stream, ENGINE_STREAM_MAX, whole ? sha256 : NULL);
}

static json_t *files_json(const struct place_file_list *list, size_t most, bool reasons, bool digests) {
        json_t *json = json_checked(json_array());

        for (size_t i = 0; i < list->count && i < most; i++) {
                const struct place_file *file = &list->items[i];

                if (digests)
                        json_add(json, json_pack("{s:o, s:I, s:s?}", "path", json_from_text(file->path),
                                                 "bytes", (json_int_t)file->bytes, "sha256", file->sha256));
                else if (reasons)
                        json_add(json, json_pack("{s:o, s:o}", "path", json_from_text(file->path), "reason",
                                                 json_from_text(file->reason)));
                else
                        json_add(json, json_from_text(file->path));
        }
        return json;
}

static void end_with(struct execution *execution, json_t *result, int64_t now_ms) {
        execution->ended_ms = now_ms;
        execution->status = EXECUTION_ENDED;
        execution->result = result;
        tell_all_output(execution);
        add_json_event(execution, "done", json_incref(result));
}

void execution_done(struct execution *execution, const struct execution_owner *owner,
                    const struct place_event *event, int64_t now_ms) {
        int64_t begun_ms = execution->begun_ms ? execution->begun_ms : now_ms;
        json_t *value = content_value_json(&event->value), *error = content_error_json(&event->error), *usage;
        json_t *result = json_checked(json_pack("{s:s, s:I, s:s}", "session", owner->session, "n",
                                                (json_int_t)execution->n, "status",
                                                report_status_name(event->status)));

        json_put(result, "exitCode",
                 event->exit_code < 0 || (event->status == REPORT_OK) != (event->exit_code == 0)
                         ? json_null()
                         : json_integer(event->exit_code));
        json_put(result, "stdout", whole_stream_json(execution, EXECUTION_STDOUT, event->stdout_bytes));
        json_put(result, "stderr", whole_stream_json(execution, EXECUTION_STDERR, event->stderr_bytes));
        json_put(result, "value", value);
        json_put(result, "displays", json_incref(execution->displays));
        if (event->displays_dropped > 0)
                json_put(result, "displaysDropped", json_integer(event->displays_dropped));
        json_put(result, "error", error);
        json_put(result, "detail", json_from_text(event->detail));
        json_put(result, "files",
                 json_pack("{s:o, s:o, s:o, s:o, s:I}", "changed",
                           files_json(&event->changed, SIZE_MAX, false, true), "deleted",
                           files_json(&event->deleted, SIZE_MAX, false, false), "conflict",
                           files_json(&event->conflict, SIZE_MAX, false, false), "skipped",
                           files_json(&event->skipped, FILES_SKIPPED, true, false), "skippedTotal",
                           (json_int_t)event->skipped.count));
        json_put(result, "returned", json_array());
        usage = json_checked(json_pack("{s:I, s:I, s:I, s:I}", "queuedMs",
                                       (json_int_t)(begun_ms - execution->queued_ms), "wallMs",
                                       (json_int_t)event->wall_ms, "cpuMs", (json_int_t)event->cpu_ms,
                                       "peakMemoryBytes", (json_int_t)event->peak_memory_bytes));
        if (event->checkpoint_bytes > 0 || event->checkpoint_ms > 0) {
                json_put(usage, "checkpointBytes", json_integer((json_int_t)event->checkpoint_bytes));
                json_put(usage, "checkpointMs", json_integer(event->checkpoint_ms));
        }
        json_put(result, "usage", usage);
        if (execution->state && event->ended)
                json_put(execution->state, "ended", json_from_text(event->ended));
        json_put(result, "state", execution->state ? json_incref(execution->state) : json_null());
        json_put(result, "environment",
                 json_pack("{s:s, s:s?}", "name", owner->environment, "imageDigest", owner->image_digest));
        end_with(execution, result, now_ms);
}

void execution_cut_off(struct execution *execution, const struct execution_owner *owner,
                       enum report_status status, const char *detail, int64_t now_ms) {
        struct place_event event = {
                .n = execution->n,
                .status = status,
                .exit_code = -1,
                .detail = detail,
                .wall_ms = execution->begun_ms ? now_ms - execution->begun_ms : 0,
                .stdout_bytes = -1,
                .stderr_bytes = -1,
        };

        execution_done(execution, owner, &event, now_ms);
}

/* The last event has the same object. */
void execution_give_up(struct execution *execution, const char *why) {
        struct strbuf detail STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&detail, "it ended as %s, and its result cannot be kept: %s",
                      json_text(execution->result, "status"), why);
        execution->unkept = true;
        json_put(execution->result, "status", json_string(report_status_name(REPORT_FAILED)));
        json_put(execution->result, "exitCode", json_null());
        json_put(execution->result, "value", json_null());
        json_put(execution->result, "error", json_null());
        json_put(execution->result, "detail", json_from_text(strbuf_text(&detail)));
}

/* History */

static void cut_list(json_t *object, const char *name, size_t most) {
        json_t *list = json_object_get(object, name), *shorter;

        if (json_array_size(list) <= most)
                return;
        shorter = json_checked(json_array());
        for (size_t i = 0; i < most; i++)
                json_add(shorter, json_incref(json_array_get(list, i)));
        json_put(object, name, shorter);
        json_put(object, "truncated", json_true());
}

/* Displays as far as there is room: one that has none keeps its file, and says what is missing. */
static json_t *cut_displays(const json_t *displays, size_t room) {
        json_t *kept = json_checked(json_array()), *display, *text;
        size_t index;

        json_array_foreach (displays, index, display) {
                json_t *copy = json_checked(json_copy(display)), *mime = json_checked(json_object());
                const char *type;

                json_object_foreach (json_object_get(display, "mime"), type, text) {
                        size_t length = json_string_length(text);

                        if (length > room) {
                                json_put(copy, "truncated", json_true());
                                continue;
                        }
                        room -= length;
                        json_put(mime, type, json_incref(text));
                }
                json_put(copy, "mime", mime);
                json_add(kept, copy);
        }
        return kept;
}

static json_t *cut_text(const json_t *text, size_t most) {
        const char *bytes = json_string_value(text);
        size_t length = json_string_length(text);

        if (!bytes || length <= most)
                return json_deep_copy(text);
        return json_stringn(bytes, whole_characters(bytes, most));
}

static json_t *cut_result(const struct execution *execution, size_t cap, size_t files) {
        json_t *result = json_checked(json_copy(execution->result));
        json_t *lists = json_checked(json_copy(json_object_get(result, "files")));
        static const char *const names[] = { "changed", "deleted", "conflict", "skipped" };

        for (size_t i = 0; i < EXECUTION_STREAMS; i++) {
                const struct execution_stream *stream = &execution->streams[i];

                json_put(result, stream_names[i],
                         stream_json(stream, cap,
                                     json_text(json_object_get(result, stream_names[i]), "sha256")));
        }
        json_put(result, "displays", cut_displays(execution->displays, cap));
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                cut_list(lists, names[i], files);
        json_put(result, "files", lists);
        if (cap < ENGINE_STREAM_STORED / 2) {
                json_t *value = json_copy(json_object_get(result, "value"));
                json_t *error = json_copy(json_object_get(result, "error"));
                json_t *state = json_copy(json_object_get(result, "state"));

                if (json_is_object(value))
                        json_put(value, "text", cut_text(json_object_get(value, "text"), cap));
                if (json_is_object(error)) {
                        json_put(error, "value", cut_text(json_object_get(error, "value"), cap));
                        json_put(error, "traceback", json_array());
                }
                if (json_is_object(state)) {
                        cut_list(state, "restored", files);
                        cut_list(state, "lost", files);
                }
                json_put(result, "value", value);
                json_put(result, "error", error);
                json_put(result, "state", state);
        }
        return result;
}

static json_t *times_json(const struct execution *execution, const char *environment, const char *agent) {
        return json_checked(json_pack(
                "{s:I, s:I, s:I, s:s, s:s?, s:s, s:s?}", "queuedMs", (json_int_t)execution->queued_ms,
                "begunMs", (json_int_t)execution->begun_ms, "endedMs", (json_int_t)execution->ended_ms,
                "environment", environment, "agent", agent, "language",
                request_language_name(execution->language), "context", execution->context));
}

static json_t *code_json(const struct execution *execution, size_t cap) {
        size_t length = execution->code_length;
        json_t *json;

        length = length > cap ? whole_characters(execution->code, cap) : length;
        json = json_stringn(execution->code ? execution->code : "", execution->code ? length : 0);
        return json ? json : json_null();
}

/*
 * The order of its events, for execution_kept_event(): a letter for each, and behind output and gaps how many bytes. No more than
 * 100 KiB, as there are never more than EVENTS_EAGER short ones.
 */
static json_t *log_json(const struct execution *execution) {
        struct strbuf log STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < execution->event_count; i++) {
                const struct execution_event *event = &execution->events[i];

                if (event->type == EXECUTION_EVENT_OUTPUT)
                        strbuf_printf(&log, "%c%" PRIu32, EXECUTION_LOG_OUTPUT[event->stream], event->length);
                else if (strcmp(event->name, "gap") == 0)
                        strbuf_printf(
                                &log, "%c%" JSON_INTEGER_FORMAT,
                                EXECUTION_LOG_GAP[strcmp(json_text(event->data, "stream"), "stderr") == 0],
                                json_integer_or(event->data, "bytes", 0));
                else if (strcmp(event->name, "done") != 0)
                        strbuf_append_char(&log, event->name[0]);
        }
        return json_checked(json_string(strbuf_text(&log)));
}

/* What has many control characters grows in JSON: where it does not fit, all caps are halved. */
char *execution_record(const struct execution *execution, const char *environment, const char *agent) {
        for (int halvings = execution->unkept ? NOTHING_KEPT : 0;; halvings++) {
                size_t cap = (size_t)ENGINE_STREAM_STORED >> halvings;
                json_t *json JSON_CLEANUP = times_json(execution, environment, agent);
                char *text;

                json_put(json, "result", cut_result(execution, cap, FILES_STORED >> halvings));
                json_put(json, "events", json_integer((json_int_t)execution->event_count));
                if (!execution->unkept)
                        json_put(json, "log", log_json(execution));
                json_put(json, "code", code_json(execution, cap));
                text = json_plain(json);
                if (strlen(text) <= SESSION_VALUE_MAX || halvings >= 12)
                        return text;
                free(text);
        }
}

/* Code is UTF-8 that was checked; standard input may be any bytes. */
static json_t *request_json(const struct execution *execution) {
        json_t *json = json_checked(
                json_pack("{s:s%, s:O?, s:b, s:b}", "code", execution->code ? execution->code : "",
                          execution->code_length, "variables", execution->variables, "interruptOnDisconnect",
                          execution->interrupt_on_disconnect, "connected", execution->connected));
        json_t *input = json_stringn(execution->input ? execution->input : "", execution->input_length);

        if (execution->input && input)
                json_put(json, "input", json_incref(input));
        else if (execution->input)
                json_put(json, "inputBase64", execution_base64(execution->input, execution->input_length));
        json_decref(input);
        return json;
}

char *execution_request(const struct execution *execution) {
        json_t *json JSON_CLEANUP = request_json(execution);

        return json_compact(json);
}

char *execution_record_pending(const struct execution *execution, const char *session,
                               const char *environment, const char *agent) {
        json_t *json JSON_CLEANUP = times_json(execution, environment, agent);

        json_put(json, "result", execution_pending(execution, session, 0));
        json_set_text(json, "staged", execution->staged);
        if (execution->request_sha256[0])
                json_put(json, "requestSha256", json_string(execution->request_sha256));
        else if (execution->status == EXECUTION_QUEUED)
                json_put(json, "request", request_json(execution));
        json_put(json, "timeoutSeconds", json_integer(execution->timeout_seconds));
        json_put(json, "code", code_json(execution, ENGINE_STREAM_STORED / 4));
        for (size_t i = 0; execution->heard_early && i < EXECUTION_STREAMS; i++)
                json_put(json, stream_names[i],
                         execution_base64(strbuf_text(&execution->streams[i].bytes),
                                          execution->streams[i].bytes.length > ENGINE_STREAM_STORED
                                                  ? ENGINE_STREAM_STORED
                                                  : execution->streams[i].bytes.length));
        return json_plain(json);
}

void execution_append_base64(struct strbuf *to, const char *text) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        uint32_t bits = 0;
        unsigned held = 0;

        for (; *text && *text != '='; text++) {
                const char *letter = strchr(letters, *text);

                if (!letter)
                        return;
                bits = bits << 6 | (uint32_t)(letter - letters);
                held += 6;
                if (held >= 8) {
                        held -= 8;
                        strbuf_append_char(to, (char)(bits >> held & 255));
                }
        }
}

const char *execution_request_elsewhere(const json_t *record) {
        return json_text(record, "requestSha256");
}

struct execution *execution_revive(int64_t n, const json_t *record, const json_t *request) {
        const char *language = json_text(record, "language"), *context = json_text(record, "context");
        const json_t *whole = request ? request : json_object_get(record, "request");
        const json_t *input = json_object_get(whole, "input"),
                     *variables = json_object_get(whole, "variables");
        const char *code = json_text(whole ? whole : record, "code"),
                   *bytes = json_text(whole, "inputBase64");
        struct strbuf decoded STRBUF_CLEANUP = STRBUF_INIT;
        struct engine_code again = {
                .code = code ? code : "",
                .code_length = code ? strlen(code) : 0,
                .language = language,
                .context = context,
                .variables = json_is_object(variables) ? variables : NULL,
                .input = json_string_value(input),
                .input_length = json_string_length(input),
                .interrupt_on_disconnect = json_is_true(json_object_get(whole, "interruptOnDisconnect")),
                .staged = json_text(record, "staged"),
                .timeout_seconds = json_integer_or(record, "timeoutSeconds", ENGINE_TIMEOUT_MAX),
        };
        struct execution *execution;

        /* A newer server that shares the records may know more languages. */
        if (!language || request_language(language) < 0 || !context)
                return NULL;
        if (bytes) {
                execution_append_base64(&decoded, bytes);
                again.input = strbuf_text(&decoded);
                again.input_length = decoded.length;
        }
        execution = execution_new(n, &again, json_integer_or(record, "queuedMs", 0));
        execution->cut = !whole;
        execution->connected = json_is_true(json_object_get(whole, "connected"));
        if (request)
                snprintf(execution->request_sha256, sizeof(execution->request_sha256), "%s",
                         execution_request_elsewhere(record));
        execution->begun_ms = json_integer_or(record, "begunMs", 0);
        for (size_t i = 0; i < EXECUTION_STREAMS; i++) {
                struct execution_stream *stream = &execution->streams[i];
                const char *head = json_text(record, stream_names[i]);

                if (!head)
                        continue;
                execution->head_lost = true;
                execution_append_base64(&stream->bytes, head);
                stream->total = stream->bytes.length;
                stream->unseen = true;
                tell_output(execution, i, true);
        }
        return execution;
}

json_t *execution_read_record(const char *text) {
        return json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
}

/* What was there is counted still, and so is its digest. */
static void empty_stream(json_t *result, const char *name) {
        json_t *stream = json_object_get(result, name);

        if (!json_is_object(stream))
                return;
        json_put(stream, "truncated", json_boolean(json_integer_or(stream, "bytesTotal", 0) > 0));
        json_put(stream, "bytesReturned", json_integer(0));
        json_put(stream, "encoding", json_string("utf-8"));
        json_put(stream, "content", json_string(""));
        if (json_integer_or(stream, "bytesTotal", 0) > 0)
                json_put(stream, "gap",
                         json_pack("{s:I, s:o}", "at", (json_int_t)0, "bytes",
                                   json_incref(json_object_get(stream, "bytesTotal"))));
}

static void cut_member(json_t *object, const char *name) {
        if (json_is_string(json_object_get(object, name)))
                json_put(object, name, cut_text(json_object_get(object, name), THIN_TEXT));
}

const char *execution_record_thin(const char *text, struct arena *arena) {
        json_t *record JSON_CLEANUP = execution_read_record(text);
        json_t *result = json_object_get(record, "result"), *error = json_object_get(result, "error");
        json_t *state = json_object_get(result, "state"), *files = json_object_get(result, "files");
        static const char *const lists[] = { "changed", "deleted", "conflict", "skipped" };
        const char *thin;
        char *compact;

        if (!json_object_get(result, "exitCode") || json_is_true(json_object_get(record, "thin")))
                return NULL;
        json_put(record, "thin", json_true());
        json_object_del(record, "log");
        cut_member(record, "code");
        for (size_t i = 0; i < EXECUTION_STREAMS; i++)
                empty_stream(result, stream_names[i]);
        json_put(result, "displays", json_array());
        cut_member(result, "detail");
        cut_member(json_object_get(result, "value"), "text");
        cut_member(error, "value");
        if (json_is_object(error))
                json_put(error, "traceback", json_array());
        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
                cut_list(files, lists[i], 0);
        cut_member(state, "reason");
        cut_list(state, "restored", 0);
        cut_list(state, "lost", 0);
        compact = json_plain(record);
        thin = arena_strdup(arena, compact);
        free(compact);
        return thin;
}
