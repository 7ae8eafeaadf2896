/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What history has kept of an execution, read again. A record has the streams and the displays of the result, and in `log` the order
 * of the events: their ids and lengths are as they were, and bytes that are not kept become events `gap`. Records of old executions
 * have no log: there, one event for each stream and display has the last ids, so that a client which has read some repeats rather
 * than misses.
 */
#include "base/json.h"
#include "sessions/execution.h"

#include <stdlib.h>
#include <string.h>

static const char *const stream_names[EXECUTION_STREAMS] = { "stdout", "stderr" };

json_t *execution_kept_result(const json_t *record) {
        json_t *result = json_object_get(record, "result");

        return json_is_object(result) ? json_incref(result) : NULL;
}

json_t *execution_kept_summary(const json_t *record) {
        static const char *const taken[] = { "session", "n",     "status",      "exitCode", "error",
                                             "detail",  "usage", "environment", "state" };
        static const char *const times[][2] = { { "queuedAt", "queuedMs" },
                                                { "startedAt", "begunMs" },
                                                { "endedAt", "endedMs" } };
        json_t *result = json_object_get(record, "result"), *summary = json_checked(json_object());

        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
                json_t *member = json_object_get(result, taken[i]);

                if (member)
                        json_put(summary, taken[i], json_incref(member));
        }
        json_set_text(summary, "language", json_text(record, "language"));
        json_set_text(summary, "context", json_text(record, "context"));
        json_set_text(summary, "code", json_text(record, "code"));
        for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
                json_put(summary, times[i][0], json_from_time(json_integer_or(record, times[i][1], 0)));
        return summary;
}

/* --- events --- */

/* A stream's bytes as they are kept: `at` at the start, the rest at the end, of `total`. */
struct kept_stream {
        struct strbuf decoded;
        const char *bytes;
        size_t length, at;
        uint64_t total, told;
};

static void read_stream(const json_t *json, struct kept_stream *ret) {
        const json_t *content = json_object_get(json, "content"), *gap = json_object_get(json, "gap");
        const char *encoding = json_text(json, "encoding");
        json_int_t total = json_integer_or(json, "bytesTotal", 0), at;

        ret->bytes = json_string_value(content) ? json_string_value(content) : "";
        ret->length = json_string_length(content);
        if (encoding && strcmp(encoding, "base64") == 0) {
                execution_append_base64(&ret->decoded, ret->bytes);
                ret->bytes = strbuf_text(&ret->decoded);
                ret->length = ret->decoded.length;
        }
        at = json_integer_or(gap, "at", (json_int_t)ret->length);
        ret->at = at < 0 || (uint64_t)at > ret->length ? ret->length : (size_t)at;
        ret->total = total < 0 || (uint64_t)total < ret->length ? ret->length : (uint64_t)total;
}

/* Of `length` bytes from `told` on, those that are kept: in the head, or in the tail. 0: none. */
static size_t kept_part(const struct kept_stream *stream, uint64_t length, const char **ret) {
        uint64_t tail = stream->total - (stream->length - stream->at), end = stream->told + length;

        if (stream->told < stream->at) {
                *ret = stream->bytes + stream->told;
                return (size_t)((end < stream->at ? end : stream->at) - stream->told);
        }
        if (end <= tail || end > stream->total)
                return 0;
        *ret = stream->bytes + stream->at + (stream->told < tail ? 0 : stream->told - tail);
        return (size_t)(end - (stream->told < tail ? tail : stream->told));
}

static void add(json_t *events, int64_t id, const char *name, json_t *data) {
        json_add(events, json_pack("{s:I, s:s, s:o}", "id", (json_int_t)id, "name", name, "data", data));
}

/* Bytes of one stream that are missing. */
static void add_gap(json_t *events, int64_t id, const char *stream, uint64_t bytes) {
        add(events, id, "gap", json_pack("{s:s, s:I}", "stream", stream, "bytes", (json_int_t)bytes));
}

static void add_output(json_t *events, int64_t id, const char *name, struct kept_stream *stream,
                       uint64_t length) {
        const char *bytes = NULL;
        size_t kept = kept_part(stream, length, &bytes);
        json_t *text, *data;

        if (kept > 0) {
                text = json_stringn(bytes, kept);
                data = json_checked(
                        text ? json_pack("{s:o}", "text", text)
                             : json_pack("{s:o}", "contentBase64", execution_base64(bytes, kept)));
                /* Its middle or its end is missing: told beside it, since an id is one event's. */
                if (kept < length)
                        json_put(data, "gap",
                                 json_pack("{s:I, s:I}", "at",
                                           (json_int_t)(stream->told < stream->at ? kept : 0), "bytes",
                                           (json_int_t)(length - kept)));
                add(events, id, name, data);
        } else if (length > 0) {
                add_gap(events, id, name, length);
        }
        stream->told += length;
}

static json_t *started_json(const json_t *record) {
        const json_t *result = json_object_get(record, "result");

        return json_checked(json_pack("{s:O, s:s?, s:O}", "n", json_object_get(result, "n"), "context",
                                      json_text(record, "context"), "state",
                                      json_object_get(result, "state")));
}

/* In the order of the log; what it says beyond what the record has is dropped. */
static void add_logged(const json_t *record, const char *log, struct kept_stream *streams, json_t *events) {
        const json_t *result = json_object_get(record, "result"),
                     *displays = json_object_get(result, "displays");
        size_t shown = 0;
        int64_t id = 0;

        while (*log) {
                char letter = *log++, *end = (char *)(uintptr_t)log;
                uint64_t bytes = *log >= '0' && *log <= '9' ? strtoull(log, &end, 10) : 0;
                const char *output = strchr(EXECUTION_LOG_OUTPUT, letter),
                           *gap = strchr(EXECUTION_LOG_GAP, letter);

                log = end;
                bytes = bytes > (uint64_t)INT64_MAX / 4 ? 0 : bytes;
                id++;
                if (output) {
                        size_t index = (size_t)(output - EXECUTION_LOG_OUTPUT);

                        add_output(events, id, stream_names[index], &streams[index], bytes);
                } else if (gap) {
                        size_t index = (size_t)(gap - EXECUTION_LOG_GAP);

                        add_gap(events, id, stream_names[index], bytes);
                        streams[index].told += bytes;
                } else if (letter == 's') {
                        add(events, id, "started", started_json(record));
                } else if (json_array_get(displays, shown)) {
                        add(events, id, "display", json_incref(json_array_get(displays, shown++)));
                }
        }
}

static void add_unordered(const json_t *record, struct kept_stream *streams, int64_t last, json_t *events) {
        const json_t *result = json_object_get(record, "result");
        json_t *display, *event;
        int64_t id = 0;
        size_t index;

        if (json_object_get(result, "state") && !json_is_null(json_object_get(result, "state")))
                add(events, ++id, "started", started_json(record));
        for (size_t i = 0; i < EXECUTION_STREAMS; i++) {
                if (streams[i].total > 0)
                        add_output(events, ++id, stream_names[i], &streams[i], streams[i].total);
        }
        json_array_foreach (json_object_get(result, "displays"), index, display)
                add(events, ++id, "display", json_incref(display));
        json_array_foreach (events, index, event)
                json_put(event, "id", json_integer((json_int_t)(last - id + (int64_t)index)));
}

/* All events in front of `done`. */
static json_t *kept_events(const json_t *record, int64_t last) {
        const json_t *result = json_object_get(record, "result");
        struct kept_stream streams[EXECUTION_STREAMS] = { 0 };
        const char *log = json_text(record, "log");
        json_t *events = json_checked(json_array());

        for (size_t i = 0; i < EXECUTION_STREAMS; i++)
                read_stream(json_object_get(result, stream_names[i]), &streams[i]);
        if (log)
                add_logged(record, log, streams, events);
        else
                add_unordered(record, streams, last, events);
        for (size_t i = 0; i < EXECUTION_STREAMS; i++)
                strbuf_release(&streams[i].decoded);
        return events;
}

/* The name of an event, which outlives the record. */
static const char *static_name(const char *text) {
        static const char *const names[] = { "started", "stdout", "stderr", "display", "gap" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (strcmp(names[i], text) == 0)
                        return names[i];
        }
        return "done";
}

/* Gaps of one stream that follow one another are one, with the last one's id. */
static struct engine_event event_at(const json_t *events, size_t index) {
        const json_t *event = json_array_get(events, index);
        json_t *data = json_object_get(event, "data"), *all;
        const char *name = static_name(json_text(event, "name")), *stream = json_text(data, "stream");
        json_int_t bytes = json_integer_or(data, "bytes", 0), id = json_integer_or(event, "id", 0);

        if (strcmp(name, "gap") != 0)
                return (struct engine_event){ id, name, json_incref(data) };
        for (index++; index < json_array_size(events); index++) {
                event = json_array_get(events, index);
                data = json_object_get(event, "data");
                if (strcmp(json_text(event, "name"), "gap") != 0 ||
                    strcmp(json_text(data, "stream"), stream) != 0)
                        break;
                id = json_integer_or(event, "id", 0);
                bytes += json_integer_or(data, "bytes", 0);
        }
        all = json_checked(json_pack("{s:s, s:I}", "stream", stream, "bytes", bytes));
        return (struct engine_event){ id, name, all };
}

bool execution_kept_event(json_t *record, int64_t from, struct engine_event *ret) {
        int64_t last = json_integer_or(record, "events", 1);
        const json_t *events = json_object_get(record, "told");
        size_t low = 0, high;

        if (from > last || from < 0)
                return false;
        if (!events) {
                json_put(record, "told", kept_events(record, last));
                events = json_object_get(record, "told");
        }
        for (high = json_array_size(events); low < high;) {
                size_t middle = low + (high - low) / 2;

                if (json_integer_or(json_array_get(events, middle), "id", 0) < from)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low < json_array_size(events) && json_integer_or(json_array_get(events, low), "id", 0) < last) {
                *ret = event_at(events, low);
                return true;
        }
        *ret = (struct engine_event){ last, "done", execution_kept_result(record) };
        return true;
}
