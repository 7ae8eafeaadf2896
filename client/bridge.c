/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main thread reads, and gives each message a thread of its own, so that a slow one delays no
 * other. Messages under way are in a list under the lock, by the id that the client gave: a
 * cancellation finds them there. In revision 2026-07-28 hanging up cancels; before, the server is
 * told, and the connection ends by itself. Either way nothing more is said of that request.
 */
#include "client/bridge.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "client/events.h"
#include "client/framing.h"
#include "http/http.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERSION_META "io.modelcontextprotocol/protocolVersion"
#define UNDER_WAY_MAX 48 /* fewer than one owner may have */
#define GRACE_MS 1000    /* for what is under way when the input ends */
#define PIECE ((size_t)64 << 10)
#define HEADER_MAX 6000 /* bytes of a value, which the server's limit on heads has room for */
#define VALUE_SIZE 128  /* of what `initialize` brings */

struct bridge {
        const struct bridge_config *config;
        pthread_mutex_t lock; /* of all below */
        pthread_cond_t changed;
        struct carried *first;
        size_t under_way;
        char session[VALUE_SIZE], version[VALUE_SIZE]; /* once there was an `initialize` */
        pthread_mutex_t output_lock, revive_lock;
        bool output_broken; /* under output_lock */
};

/* One message on its way to the server and back. */
struct carried {
        struct bridge *bridge;
        struct carried *next;
        char *line;
        size_t length;
        json_t *id; /* NULL: it is no request, or cannot be read */
        char *method, *name, *version;
        bool is_request, is_read;
        bool cancelled; /* under the bridge's lock */
        struct interrupt interrupt;
        bool answered, is_stream, is_known;
        struct strbuf json;
        struct events events;
};

/* --- the output --- */

/*
 * Whether the output takes something. A slow reader is waited for, unless it has closed our input,
 * or we must end: then it has a second.
 */
static bool await_output(const struct bridge_config *config) {
        struct pollfd polled[] = {
                { .fd = config->output, .events = POLLOUT },
                { .fd = interrupt_descriptor(config->interrupt, INTERRUPT_FINISH), .events = POLLIN },
                { .fd = config->input }, /* its writer has gone: POLLHUP */
        };
        int ready;

        do
                ready = poll(polled, 3, -1);
        while (ready < 0 && errno == EINTR);
        if (!(polled[0].revents & POLLOUT) && (polled[1].revents || polled[2].revents)) {
                do
                        ready = poll(polled, 1, GRACE_MS);
                while (ready < 0 && errno == EINTR);
        }
        return (polled[0].revents & (POLLOUT | POLLERR | POLLNVAL)) == POLLOUT;
}

/* In pieces that a pipe takes whole where it takes anything. */
static bool write_output(const struct bridge_config *config, const char *bytes, size_t length) {
        while (length > 0) {
                size_t piece = length < PIPE_BUF ? length : PIPE_BUF;

                if (!await_output(config) || descriptor_write(config->output, bytes, piece) < 0)
                        return false;
                bytes += piece;
                length -= piece;
        }
        return true;
}

/* JSON that was sent over lines may have line ends of its own: between its values, where a blank is as good. */
static void write_message_line(struct bridge *bridge, char *text, size_t length) {
        for (size_t i = 0; i < length; i++) {
                if (text[i] == '\n' || text[i] == '\r')
                        text[i] = ' ';
        }
        pthread_mutex_lock(&bridge->output_lock);
        if (!bridge->output_broken &&
            !(write_output(bridge->config, text, length) && write_output(bridge->config, "\n", 1)))
                bridge->output_broken = true;
        pthread_mutex_unlock(&bridge->output_lock);
}

static bool is_cancelled(struct carried *carried) {
        bool cancelled;

        pthread_mutex_lock(&carried->bridge->lock);
        cancelled = carried->cancelled;
        pthread_mutex_unlock(&carried->bridge->lock);
        return cancelled;
}

static void write_error(struct bridge *bridge, const json_t *id, int code, const char *why) {
        json_t *error JSON_CLEANUP = json_checked(json_pack("{s:s, s:{s:i, s:o}}", "jsonrpc", "2.0", "error",
                                                            "code", code, "message", json_from_text(why)));
        char *text;

        if (id)
                json_put(error, "id", json_deep_copy(id));
        text = json_compact(error);
        write_message_line(bridge, text, strlen(text));
        free(text);
}

/* --- the answer --- */

/* What `initialize` has agreed on goes with all that follows. */
static void keep_version(struct carried *carried, const json_t *answer) {
        const char *version = json_text(json_object_get(answer, "result"), "protocolVersion");

        if (strcmp(carried->method, "initialize") != 0 || !version)
                return;
        pthread_mutex_lock(&carried->bridge->lock);
        snprintf(carried->bridge->version, VALUE_SIZE, "%s", version);
        pthread_mutex_unlock(&carried->bridge->lock);
}

static bool take_server_message(void *context, const char *name, const char *data, size_t length) {
        struct carried *carried = context;
        json_t *message JSON_CLEANUP = json_loadb(data, length, JSON_ALLOW_NUL, NULL);
        char *text;

        (void)name;
        if (!json_is_object(message))
                return true; /* not the server's */
        if (json_object_get(message, "result") || json_object_get(message, "error"))
                carried->answered = true;
        if (is_cancelled(carried))
                return true;
        if (carried->answered && carried->method)
                keep_version(carried, message);
        text = strndup(data, length);
        if (!text)
                abort();
        write_message_line(carried->bridge, text, strlen(text));
        free(text);
        return true;
}

/* JSON begins with a brace, and no line of a stream of events does. */
static bool take_body(void *context, const char *bytes, size_t length) {
        struct carried *carried = context;

        if (!carried->is_known && length > 0) {
                carried->is_known = true;
                carried->is_stream = *bytes != '{';
        }
        if (carried->is_stream)
                return events_take(&carried->events, bytes, length, take_server_message, carried);
        strbuf_append_bytes(&carried->json, bytes, length);
        return !carried->json.overflow;
}

/* --- the request --- */

/* As the revision has it for values that are no plain text. */
static const char *header_value(const char *text, struct strbuf *encoded) {
        size_t length = strlen(text);
        bool plain =
                length > 0 && text[0] != ' ' && text[length - 1] != ' ' && strncmp(text, "=?base64?", 9) != 0;
        char *base64;

        for (size_t i = 0; i < length && plain; i++)
                plain = text[i] >= ' ' && text[i] <= '~';
        if (plain || length == 0)
                return text;
        base64 = malloc(4 * ((length + 2) / 3) + 1);
        if (!base64)
                abort();
        digest_base64((const uint8_t *)text, length, base64);
        strbuf_printf(encoded, "=?base64?%s?=", base64);
        free(base64);
        return strbuf_text(encoded);
}

static void append_header(struct http_header *headers, size_t *count, const char *name, const char *value) {
        if (value && *value)
                headers[(*count)++] = (struct http_header){ name, value };
}

static int post_once(struct carried *carried, struct http_response *response, struct error *err) {
        struct strbuf method STRBUF_CLEANUP = STRBUF_INIT, name STRBUF_CLEANUP = STRBUF_INIT,
                             revision STRBUF_CLEANUP = STRBUF_INIT;
        struct bridge *bridge = carried->bridge;
        char session[VALUE_SIZE], version[VALUE_SIZE];
        struct http_header headers[8];
        struct http_request request = {
                .method = "POST",
                .headers = headers,
                .body = carried->line,
                .body_length = carried->length,
                .once = true,
                .interrupt = &carried->interrupt,
                .sink = take_body,
                .context = carried,
        };

        pthread_mutex_lock(&bridge->lock);
        memcpy(session, bridge->session, sizeof(session));
        memcpy(version, bridge->version, sizeof(version));
        pthread_mutex_unlock(&bridge->lock);
        append_header(headers, &request.header_count, "Content-Type", "application/json");
        append_header(headers, &request.header_count, "Accept", "application/json, text/event-stream");
        if (carried->version) {
                append_header(headers, &request.header_count, "MCP-Protocol-Version",
                              header_value(carried->version, &revision));
                append_header(headers, &request.header_count, "Mcp-Method",
                              header_value(carried->method, &method));
                append_header(headers, &request.header_count, "Mcp-Name",
                              carried->name ? header_value(carried->name, &name) : NULL);
        } else {
                append_header(headers, &request.header_count, "MCP-Protocol-Version", version);
                append_header(headers, &request.header_count, "Mcp-Session-Id", session);
        }
        return client_send(bridge->config->client, "/mcp", &request, response, err);
}

/* A server that could not be reached has not begun: it is asked again once one runs. */
static int post(struct carried *carried, struct http_response *response, struct error *err) {
        const struct bridge_config *config = carried->bridge->config;
        int result = post_once(carried, response, err);

        if (result == 0 || err->kind != ERROR_NOT_FOUND)
                return result;
        pthread_mutex_lock(&carried->bridge->revive_lock);
        result = config->revive(config->context, err);
        pthread_mutex_unlock(&carried->bridge->revive_lock);
        return result < 0 ? -1 : post_once(carried, response, err);
}

/*
 * A refusal of a request that the server has not read has null as id; here it is known which one was sent. Where the line has no id
 * either, the answer has none: on standard output an id is a text or a number.
 */
static void take_answer(struct carried *carried, json_t *answer, const struct strbuf *body) {
        const char *why = json_text(json_object_get(answer, "error"), "message");
        char *text TEXT_CLEANUP = NULL;

        if (!json_is_null(json_object_get(answer, "id"))) {
                (void)take_server_message(carried, "", strbuf_text(body), body->length);
        } else if (!carried->is_request) {
                log_warning("%s", why ? why : "the server has refused a notification");
        } else {
                json_object_del(answer, "id");
                if (carried->id)
                        json_put(answer, "id", json_deep_copy(carried->id));
                text = json_compact(answer);
                (void)take_server_message(carried, "", text, strlen(text));
        }
}

/* Whatever it was, a request that was not cancelled is answered. */
static void finish_request(struct carried *carried, const struct http_response *response, int result,
                           const struct error *err) {
        struct bridge *bridge = carried->bridge;
        const struct strbuf *body = carried->json.length ? &carried->json : &response->body;
        json_t *problem JSON_CLEANUP = NULL;
        const char *why = err->message;
        char session[VALUE_SIZE];

        if (result == 0 && http_header(response, "mcp-session-id", session, sizeof(session))) {
                pthread_mutex_lock(&bridge->lock);
                memcpy(bridge->session, session, sizeof(session));
                pthread_mutex_unlock(&bridge->lock);
        }
        if (result == 0 && body->length > 0) {
                problem = json_loadb(strbuf_text(body), body->length, JSON_ALLOW_NUL, NULL);
                if (json_text(problem, "jsonrpc"))
                        take_answer(carried, problem, body);
                why = json_text(problem, "detail") ? json_text(problem, "detail")
                                                   : "the server's answer is invalid";
        } else if (result == 0) {
                why = "the server ended before its answer did";
        }
        if (carried->answered || is_cancelled(carried))
                return;
        if (carried->is_request)
                write_error(bridge, carried->id, -32603, why);
        else if (result < 0)
                log_warning("%s", why);
}

static void free_carried(struct carried *carried) {
        struct bridge *bridge = carried->bridge;

        pthread_mutex_lock(&bridge->lock);
        for (struct carried **link = &bridge->first; *link; link = &(*link)->next) {
                if (*link == carried) {
                        *link = carried->next;
                        break;
                }
        }
        bridge->under_way--;
        interrupt_dispose(&carried->interrupt); /* under the lock: no other thread raises it any more */
        pthread_cond_signal(&bridge->changed);
        pthread_mutex_unlock(&bridge->lock);
        events_release(&carried->events);
        strbuf_release(&carried->json);
        json_decref(carried->id);
        free(carried->line);
        free(carried->method);
        free(carried->name);
        free(carried->version);
        free(carried);
}

static void *carry(void *context) {
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct carried *carried = context;
        struct error err = { 0 };
        int result = post(carried, &response, &err);

        finish_request(carried, &response, result, &err);
        free_carried(carried);
        return NULL;
}

/* --- what comes in --- */

static char *duplicate_text(const char *text) {
        char *copy = text ? strdup(text) : NULL;

        if (text && !copy)
                abort();
        return copy;
}

static void read_message(struct carried *carried, const json_t *message) {
        const json_t *params = json_object_get(message, "params"), *id = json_object_get(message, "id");
        const char *name = json_text(params, "name"), *method = json_text(message, "method");

        carried->is_read = json_is_object(message) && method;
        /*
         * A message that is neither is answered too, with its error; an answer to nothing that was
         * asked is passed over.
         */
        carried->is_request =
                carried->is_read ? id != NULL
                                 : !json_object_get(message, "result") && !json_object_get(message, "error");
        carried->id = json_is_string(id) || json_is_integer(id) ? json_deep_copy(id) : NULL;
        carried->method = duplicate_text(method ? method : "");
        if (strlen(carried->method) > HEADER_MAX)
                carried->method[HEADER_MAX] = '\0'; /* it is not a known one */
        if (!carried->is_read)
                return;
        carried->version = duplicate_text(json_text(json_object_get(params, "_meta"), VERSION_META));
        if (carried->version && strlen(carried->version) > VALUE_SIZE)
                carried->version[VALUE_SIZE] = '\0';
        carried->name =
                duplicate_text(strcmp(method, "resources/read") == 0 ? json_text(params, "uri") : name);
        if (carried->name && strlen(carried->name) > HEADER_MAX)
                carried->name[HEADER_MAX] = '\0';
}

/* -1: it could not be begun, and what asked for it was told. */
static int begin_call(struct bridge *bridge, const char *line, size_t length, const json_t *message) {
        struct carried *carried = calloc(1, sizeof(*carried));
        pthread_attr_t attributes;
        struct error err;
        pthread_t thread;
        bool begun;

        if (!carried)
                abort();
        carried->bridge = bridge;
        carried->interrupt.reached[0] = carried->interrupt.reached[1] = -1; /* until it is made */
        carried->events = (struct events)EVENTS_INIT;
        carried->json.limit = EVENTS_LINE_MAX;
        read_message(carried, message);
        carried->line = malloc(length + 1);
        if (!carried->line)
                abort();
        memcpy(carried->line, line, length);
        carried->line[length] = '\0';
        carried->length = length;
        pthread_mutex_lock(&bridge->lock);
        begun = bridge->under_way < UNDER_WAY_MAX && interrupt_init(&carried->interrupt, &err) == 0;
        bridge->under_way++; /* free_carried() takes it back */
        if (begun) {
                carried->next = bridge->first;
                bridge->first = carried;
        }
        pthread_mutex_unlock(&bridge->lock);
        if (begun) {
                if (pthread_attr_init(&attributes) != 0 ||
                    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) != 0)
                        abort();
                begun = pthread_create(&thread, &attributes, carry, carried) == 0;
                pthread_attr_destroy(&attributes);
        }
        if (begun)
                return 0;
        if (carried->is_request)
                write_error(bridge, carried->id, -32603,
                            "too many requests are under way: wait for one to end");
        free_carried(carried);
        return -1;
}

/* Whether the server has to be told of it. */
static bool cancel(struct bridge *bridge, const json_t *id) {
        bool tell = false;

        pthread_mutex_lock(&bridge->lock);
        for (struct carried *carried = bridge->first; carried; carried = carried->next) {
                if (!carried->id || !id || !json_equal(carried->id, id))
                        continue;
                carried->cancelled = true;
                if (carried->version)
                        interrupt_raise_to(&carried->interrupt, INTERRUPT_NOW);
                else
                        tell = true;
        }
        pthread_mutex_unlock(&bridge->lock);
        return tell;
}

static void take_message_line(void *context, const char *line, size_t length) {
        struct bridge *bridge = context;
        json_t *message JSON_CLEANUP = NULL;
        const char *method;

        if (!line) {
                write_error(bridge, NULL, -32700, "Parse error: a message may have 32 MiB");
                return;
        }
        message = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
        method = json_text(message, "method");
        if (method && strcmp(method, "notifications/cancelled") == 0 && !json_object_get(message, "id") &&
            !cancel(bridge, json_object_get(json_object_get(message, "params"), "requestId")))
                return;
        (void)!begin_call(bridge, line, length, message);
}

/* --- life --- */

/* Until nothing is under way, or a moment has passed. */
static void await_carried(struct bridge *bridge) {
        const struct timespec until = clock_after_ms(GRACE_MS);
        int code = 0;

        pthread_mutex_lock(&bridge->lock);
        while (bridge->under_way > 0 && code == 0)
                code = pthread_cond_timedwait(&bridge->changed, &bridge->lock, &until);
        pthread_mutex_unlock(&bridge->lock);
}

/* Clients of before 2026-07-28 would have said so themselves, had they had the time. */
static void tell_cancelled(struct bridge *bridge) {
        json_t *ids JSON_CLEANUP = json_checked(json_array()), *id;
        size_t index;

        pthread_mutex_lock(&bridge->lock);
        for (struct carried *carried = bridge->first; carried; carried = carried->next) {
                if (carried->id && !carried->version)
                        json_add(ids, json_deep_copy(carried->id));
        }
        pthread_mutex_unlock(&bridge->lock);
        json_array_foreach (ids, index, id) {
                json_t *message JSON_CLEANUP =
                        json_checked(json_pack("{s:s, s:s, s:{s:O}}", "jsonrpc", "2.0", "method",
                                               "notifications/cancelled", "params", "requestId", id));
                char *text TEXT_CLEANUP = json_compact(message);

                take_message_line(bridge, text, strlen(text));
        }
        if (json_array_size(ids) > 0)
                await_carried(bridge);
}

static void end_all(struct bridge *bridge, bool grace) {
        if (grace)
                await_carried(bridge);
        tell_cancelled(bridge);
        pthread_mutex_lock(&bridge->lock);
        for (struct carried *carried = bridge->first; carried; carried = carried->next) {
                carried->cancelled = true;
                interrupt_raise_to(&carried->interrupt, INTERRUPT_NOW);
        }
        pthread_mutex_unlock(&bridge->lock);
        await_carried(bridge);
        pthread_mutex_lock(&bridge->lock);
        /* a thread is blocked in a write that is never read: nothing more can be said */
        if (bridge->under_way > 0)
                _exit(0);
        pthread_mutex_unlock(&bridge->lock);
}

/* 1: the input has ended; 2: the reader is gone. */
static int receive_input(struct bridge *bridge, struct framing *framing, char *piece) {
        const struct bridge_config *config = bridge->config;
        struct pollfd polled[] = {
                { .fd = config->input, .events = POLLIN },
                { .fd = config->output }, /* its reader has gone: POLLERR */
                { .fd = interrupt_descriptor(config->interrupt, INTERRUPT_FINISH), .events = POLLIN },
        };
        ssize_t count;

        if (poll(polled, 3, -1) < 0)
                return errno == EINTR ? 0 : 2;
        if (polled[2].revents || polled[1].revents & (POLLERR | POLLNVAL))
                return 2;
        if (!polled[0].revents)
                return 0;
        count = read(config->input, piece, PIECE);
        if (count < 0)
                return errno == EINTR || errno == EAGAIN ? 0 : 1;
        if (count == 0)
                return 1;
        framing_take(framing, piece, (size_t)count, take_message_line, bridge);
        return 0;
}

void bridge_run(const struct bridge_config *config) {
        struct framing framing FRAMING_CLEANUP = FRAMING_INIT;
        struct bridge bridge = { .config = config };
        char *piece TEXT_CLEANUP = malloc(PIECE);
        pthread_condattr_t attributes;
        int ended = 0;

        if (!piece || pthread_mutex_init(&bridge.lock, NULL) != 0 ||
            pthread_mutex_init(&bridge.output_lock, NULL) != 0 ||
            pthread_mutex_init(&bridge.revive_lock, NULL) != 0 || pthread_condattr_init(&attributes) != 0 ||
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&bridge.changed, &attributes) != 0)
                abort();
        pthread_condattr_destroy(&attributes);
        while (ended == 0)
                ended = receive_input(&bridge, &framing, piece);
        if (ended == 1)
                framing_end(&framing, take_message_line, &bridge);
        end_all(&bridge, ended == 1);
        pthread_cond_destroy(&bridge.changed);
        pthread_mutex_destroy(&bridge.revive_lock);
        pthread_mutex_destroy(&bridge.output_lock);
        pthread_mutex_destroy(&bridge.lock);
}
