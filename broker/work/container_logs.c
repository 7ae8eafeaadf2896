/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log comes in pieces, of both streams in the order in which they were printed. Here they become
 * lines: a line without an end waits for it, while more may come. A line has the time at which it
 * began.
 *
 * For the last lines of a log it is gone through twice: to count them, and to tell them. Where the ring turns in between, once more.
 */
#include "broker/work/container_logs.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text_utf8.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS 3
#define AT_ONCE ((size_t)64 << 10)

struct lines {
        const struct container_logs *wanted;
        struct part {
                const char *stream; /* NULL: none yet */
                int64_t at_ms;
                struct strbuf text;
        } parts[STREAMS];
        int64_t skip;      /* lines that are left out */
        int64_t count;     /* that there were, to be told or not */
        bool counts;       /* and nothing is told */
        struct strbuf *to; /* where they are told */
};

static void lines_release(struct lines *lines) {
        for (size_t i = 0; i < STREAMS; i++)
                strbuf_release(&lines->parts[i].text);
}

/* A new reference: text that may be any bytes. */
static json_t *json_of_bytes(const char *bytes, size_t length) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        size_t ignored;

        if (text_is_utf8(bytes, length, &ignored) && !memchr(bytes, '\0', length))
                return json_checked(json_stringn(bytes, length));
        for (size_t i = 0; i < length; i++) {
                if (bytes[i])
                        strbuf_append_char(&text, bytes[i]);
                else
                        strbuf_append(&text, "\\x00");
        }
        return json_from_text(strbuf_text(&text));
}

/* One line; `ended`: with an end of its own. */
static void tell_line(struct lines *lines, struct part *part, bool ended) {
        bool wanted = part->at_ms >= lines->wanted->since_ms;

        lines->count += wanted;
        if (wanted && lines->skip > 0)
                lines->skip--;
        else if (wanted && !lines->counts && lines->wanted->json) {
                char at[32];
                json_t *json JSON_CLEANUP = NULL;
                char *text TEXT_CLEANUP = NULL;

                clock_format(part->at_ms, at, sizeof(at));
                json = json_checked(json_pack("{s:s, s:s}", "at", at, "stream", part->stream));
                json_put(json, "text", json_of_bytes(strbuf_text(&part->text), part->text.length));
                if (!ended)
                        json_put(json, "partial", json_true());
                text = json_compact(json);
                strbuf_append(lines->to, text);
                strbuf_append_char(lines->to, '\n');
        } else if (wanted && !lines->counts) {
                strbuf_append_bytes(lines->to, strbuf_text(&part->text), part->text.length);
                if (ended)
                        strbuf_append_char(lines->to, '\n');
        }
        strbuf_clear(&part->text);
}

static struct part *part_of(struct lines *lines, const char *stream) {
        struct part *part = lines->parts;

        while (part->stream && strcmp(part->stream, stream) != 0)
                part++;
        part->stream = stream;
        return part;
}

static void add_piece(struct lines *lines, const struct container_line *line, const struct strbuf *bytes) {
        struct part *part = part_of(lines, line->stream);
        const char *at = strbuf_text(bytes), *end = at + bytes->length;

        while (at < end) {
                size_t room = CONTAINER_LOGS_LINE_MAX - part->text.length;
                size_t left = (size_t)(end - at) < room ? (size_t)(end - at) : room;
                const char *newline = memchr(at, '\n', left);
                size_t length = newline ? (size_t)(newline - at) : left;

                if (part->text.length == 0)
                        part->at_ms = line->at_ms;
                strbuf_append_bytes(&part->text, at, length);
                at += length + (newline != NULL);
                if (newline || part->text.length == CONTAINER_LOGS_LINE_MAX)
                        tell_line(lines, part, newline != NULL);
        }
}

/* Nothing more comes: what has no end is told as it is. */
static void tell_rest(struct lines *lines) {
        for (size_t i = 0; i < STREAMS; i++) {
                if (lines->parts[i].text.length > 0)
                        tell_line(lines, &lines->parts[i], false);
        }
}

/* Some was overwritten before it was read: a line that it cut off ends here, and what comes next is no part of it. */
static void tell_gap(struct lines *lines, int64_t at_ms) {
        struct part *part = part_of(lines, "berth");

        tell_rest(lines);
        if (!lines->wanted->json && lines->to->length > 0 && lines->to->data[lines->to->length - 1] != '\n')
                strbuf_append_char(lines->to, '\n');
        part->at_ms = at_ms;
        strbuf_append(&part->text, "some of the output is not here: it was overwritten before it was read");
        tell_line(lines, part, true);
}

/*
 * How many lines there are, those that are left out among them; meanwhile the ring may turn, and
 * then the count is wrong.
 */
static int64_t count_lines(struct container_watch *watch, const struct container_logs *wanted) {
        struct lines lines = { .wanted = wanted, .counts = true };
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct container_line line;
        uint64_t position = 0;
        struct error ignored;

        while (container_watch_read(watch, position, &line, &bytes, &ignored) == 1) {
                if (line.gap)
                        lines.count = 0;
                add_piece(&lines, &line, &bytes);
                position = line.next;
        }
        if (!wanted->follow || container_watch_is_over(watch))
                tell_rest(&lines);
        lines_release(&lines);
        return lines.count;
}

/* --- the answer --- */

struct logs {
        struct container_watch *watch;
        struct container_logs wanted;
        struct lines lines;
        struct strbuf text;
        size_t sent;
        uint64_t position;
        bool over;
};

/* What there is now, up to some of it. False: nothing more is there now. */
static bool read_more(struct logs *logs) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct container_line line;
        struct error err;
        int found = 1;

        while (logs->text.length < AT_ONCE &&
               (found = container_watch_read(logs->watch, logs->position, &line, &bytes, &err)) == 1) {
                if (line.gap)
                        tell_gap(&logs->lines, line.at_ms);
                add_piece(&logs->lines, &line, &bytes);
                logs->position = line.next;
        }
        if (found < 0) {
                log_warning("the log of a container: %s", err.message);
                logs->over = true;
        }
        return found == 1;
}

static ssize_t read_logs(void *context, struct server_request *request, char *buffer, size_t size) {
        struct logs *logs = context;
        size_t count;

        while (logs->sent == logs->text.length && !logs->over) {
                bool ended;

                strbuf_clear(&logs->text);
                logs->sent = 0;
                container_watch_calm(logs->watch);
                /* Asked first: what it printed before it ended is there by then. */
                ended = !logs->wanted.follow || container_watch_is_over(logs->watch);
                if (read_more(logs) || logs->text.length > 0)
                        continue;
                if (ended && !logs->over) {
                        tell_rest(&logs->lines);
                        logs->over = true;
                        continue;
                }
                if (logs->over)
                        return -1;
                switch (server_wait(request, container_watch_descriptor(logs->watch), POLLIN, -1)) {
                case SERVER_LEFT:
                case SERVER_STOPS:
                        return -1;
                case SERVER_TIME:
                case SERVER_READY:
                default:
                        break;
                }
        }
        count = logs->text.length - logs->sent < size ? logs->text.length - logs->sent : size;
        memcpy(buffer, strbuf_text(&logs->text) + logs->sent, count);
        logs->sent += count;
        return (ssize_t)count;
}

static void end_logs(void *context) {
        struct logs *logs = context;

        container_watch_close(logs->watch);
        lines_release(&logs->lines);
        strbuf_release(&logs->text);
}

void container_logs_answer(struct server_request *request, struct container_watch *watch,
                           const struct container_logs *wanted) {
        struct logs *logs = arena_alloc(request->arena, sizeof(*logs));
        const struct server_stream stream = { logs, read_logs, end_logs, -1 };

        *logs = (struct logs){ .watch = watch, .wanted = *wanted, .text = STRBUF_INIT };
        logs->lines = (struct lines){ .wanted = &logs->wanted, .to = &logs->text };
        if (wanted->tail >= 0) {
                int64_t count = count_lines(watch, wanted);

                logs->lines.skip = count > wanted->tail ? count - wanted->tail : 0;
        }
        server_answer_stream(request, 200, wanted->json ? "application/jsonl" : "text/plain; charset=utf-8",
                             &stream);
}

/* --- the end of it --- */

static void keep_end(struct strbuf *text, size_t most) {
        memmove(text->data, text->data + text->length - most, most);
        text->length = most;
        text->data[most] = '\0';
}

void container_logs_add_lines(struct container_watch *watch, const struct container_logs *wanted, size_t most,
                              json_t *to) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct container_logs plain = { .tail = wanted->tail, .since_ms = wanted->since_ms };
        struct lines lines = { .wanted = &plain, .to = &text };
        int64_t count = count_lines(watch, &plain);
        struct container_line line;
        bool truncated = false;
        uint64_t position = 0;
        struct error ignored;

        if (plain.tail >= 0 && count > plain.tail) {
                lines.skip = count - plain.tail;
                truncated = true;
        }
        while (container_watch_read(watch, position, &line, &bytes, &ignored) == 1) {
                truncated = truncated || line.gap;
                add_piece(&lines, &line, &bytes);
                position = line.next;
                if (text.length > 2 * most) {
                        keep_end(&text, most);
                        truncated = true;
                }
        }
        tell_rest(&lines);
        if (text.length > most) {
                keep_end(&text, most);
                truncated = true;
        }
        json_put(to, "text", json_of_bytes(strbuf_text(&text), text.length));
        json_put(to, "truncated", json_boolean(truncated));
        lines_release(&lines);
}

void container_logs_add(struct container_watch *watch, size_t most, json_t *to) {
        struct strbuf ends[2] = { STRBUF_INIT, STRBUF_INIT }, bytes STRBUF_CLEANUP = STRBUF_INIT;
        static const char *const names[] = { "stdout", "stderr" };
        struct container_line line;
        uint64_t position = 0;
        bool truncated = false;
        struct error ignored;

        while (container_watch_read(watch, position, &line, &bytes, &ignored) == 1) {
                struct strbuf *end = strcmp(line.stream, names[0]) == 0   ? &ends[0]
                                     : strcmp(line.stream, names[1]) == 0 ? &ends[1]
                                                                          : NULL;

                truncated = truncated || line.gap || !end;
                position = line.next;
                if (!end)
                        continue;
                strbuf_append_bytes(end, strbuf_text(&bytes), bytes.length);
                if (end->length <= most)
                        continue;
                truncated = true;
                memmove(end->data, end->data + end->length - most, most);
                end->length = most;
                end->data[most] = '\0';
        }
        for (size_t i = 0; i < 2; i++) {
                json_put(to, names[i], json_of_bytes(strbuf_text(&ends[i]), ends[i].length));
                strbuf_release(&ends[i]);
        }
        json_put(to, "truncated", json_boolean(truncated));
}
