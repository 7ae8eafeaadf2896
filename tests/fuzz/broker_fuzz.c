/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to `berth serve`, each a part, by the sockets that it listens on (served.h). A part is a line "WHO METHOD TARGET", lines of
 * headers, an empty line, and the body; the version, Host, the token and, where the input has none of its own, the length are put
 * in. What "raw" sends is sent as it is. Words are replaced in all of them: {id} by a living session of who asks, {ticket}, {etag} and
 * {mcp} by what the last answers had, {desk}, {cron} and {admin} by tokens.
 *
 * Whatever is asked: the answer has one status, which is not 500, headers that this server sends, each once, and one length, behind
 * which nothing comes. JSON is JSON; what the operation's row does not tell is not answered, neither a status nor a code nor a
 * member; and events are lines of JSON. After each input everything is ended and removed, which must work.
 */
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/api/api.h"
#include "broker/api/openapi.h"
#include "broker/request/answers.h"
#include "parts.h"
#include "served.h"
#include "server/chunks.h"
#include "server/head.h"
#include "server/route.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS_MAX 16
#define ROUTES_MAX 64
#define ANSWER_MAX ((size_t)8 << 20)
#define EVENTS_MAX 256
#define FIELDS_MAX 24
#define QUIET_MS 5
#define QUIET_MAX 12000 /* a minute: it does not answer */
#define NO_SESSION "s-aaaaaaaaaaaaaaaaaaaaaaaaaa"

/* An answer. */
struct answer {
        unsigned status;
        struct {
                char *name, *value;
        } fields[FIELDS_MAX];
        size_t field_count;
        struct strbuf body;
        bool whole; /* its end came */
};

/* What later requests of an input may name. */
static struct { char ids[SERVED_WHO_COUNT][64], ticket[128], etag[128], mcp[128]; } known;

static char *shown; /* the request under way, printed with a fault */

static void require_that(bool condition, const char *what) {
        if (condition)
                return;
        fprintf(stderr, "broker_fuzz: %s\n--- request\n%s\n", what, shown ? shown : "");
        abort();
}
#define require(condition) require_that(condition, #condition)

/* --- an answer's bytes --- */

static const char *field_of(const struct answer *answer, const char *name) {
        for (size_t i = 0; i < answer->field_count; i++) {
                if (strcmp(answer->fields[i].name, name) == 0)
                        return answer->fields[i].value;
        }
        return NULL;
}

static void answer_release(struct answer *answer) {
        for (size_t i = 0; i < answer->field_count; i++) {
                free(answer->fields[i].name);
                free(answer->fields[i].value);
        }
        strbuf_release(&answer->body);
        *answer = (struct answer){ .body = STRBUF_INIT };
}
#define ANSWER_CLEANUP __attribute__((cleanup(answer_release)))

static void check_field(const struct answer *answer, const char *name, const char *value) {
        static const char *const names[] = { "Date",
                                             "Connection",
                                             "Transfer-Encoding",
                                             "Content-Length",
                                             "Content-Type",
                                             "Cache-Control",
                                             "X-Content-Type-Options",
                                             "Accept-Ranges",
                                             "Allow",
                                             "Content-Disposition",
                                             "Content-Range",
                                             "Content-Security-Policy",
                                             "Cross-Origin-Opener-Policy",
                                             "Cross-Origin-Resource-Policy",
                                             "ETag",
                                             "Mcp-Session-Id",
                                             "Referrer-Policy",
                                             "Retry-After",
                                             "WWW-Authenticate",
                                             "X-Accel-Buffering" };
        bool is_ours = false;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                is_ours = is_ours || strcmp(names[i], name) == 0;
        require_that(is_ours, name);
        require_that(!field_of(answer, name), name);
        for (; *value; value++)
                require(head_is_text(*value));
}

/* "HTTP/1.1 200 OK" and the fields; the length of it all, 0 where its end did not come. */
static size_t read_head(const char *bytes, size_t length, struct answer *ret) {
        const char *end = memmem(bytes, length, "\r\n\r\n", 4), *line;
        int used = 0;

        if (!end)
                return 0;
        require(!memchr(bytes, '\0', (size_t)(end - bytes)));
        require(sscanf(bytes, "HTTP/1.1 %3u %n", &ret->status, &used) == 1 && used == 13);
        for (line = strstr(bytes, "\r\n") + 2; line < end + 2;) {
                const char *stop = strstr(line, "\r\n"), *colon = memchr(line, ':', (size_t)(stop - line));
                char *name, *value;

                require(colon && colon[1] == ' ' && ret->field_count < FIELDS_MAX);
                name = strndup(line, (size_t)(colon - line));
                value = strndup(colon + 2, (size_t)(stop - colon - 2));
                check_field(ret, name, value);
                ret->fields[ret->field_count].name = name;
                ret->fields[ret->field_count++].value = value;
                line = stop + 2;
        }
        return (size_t)(end + 4 - bytes);
}

/* How much of the bytes is the body. */
static size_t read_chunks(const char *bytes, size_t length, struct answer *ret) {
        struct chunks chunks = { 0 };
        size_t at = 0;

        while (!chunks_ended(&chunks)) {
                const char *data;
                size_t data_length;
                ssize_t used = chunks_take(&chunks, bytes + at, length - at, &data, &data_length);

                require(used >= 0);
                if (used == 0)
                        break;
                strbuf_append_bytes(&ret->body, data, data_length);
                at += (size_t)used;
        }
        ret->whole = chunks_ended(&chunks);
        return at;
}

static size_t read_body(const char *bytes, size_t length, bool of_head, bool ended, struct answer *ret) {
        const char *said = field_of(ret, "Content-Length");
        size_t wanted = said ? strtoul(said, NULL, 10) : 0;

        require(!said || !field_of(ret, "Transfer-Encoding"));
        if (of_head || ret->status == 204 || ret->status == 304) {
                ret->whole = true;
                return 0;
        }
        if (field_of(ret, "Transfer-Encoding"))
                return read_chunks(bytes, length, ret);
        require(said || field_of(ret, "Connection"));
        if (!said)
                wanted = length;
        ret->whole = said ? wanted <= length : ended;
        wanted = wanted < length ? wanted : length;
        strbuf_append_bytes(&ret->body, bytes, wanted);
        return wanted;
}

/* --- what an answer may say --- */

static json_t *parse(const char *text, size_t length) {
        json_t *json =
                json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

        require_that(json, "it is no JSON");
        return json;
}

static bool has_shape(const json_t *json, const struct field *shape) {
        const char *name;
        json_t *member;

        if (!shape)
                return false;
        if (!json_is_object(json) || !shape->fields)
                return !shape->fields;
        for (const struct field *field = shape->fields; field->name; field++) {
                if (field->required && !json_object_get(json, field->name))
                        return false;
        }
        json_object_foreach ((json_t *)json, name, member) {
                if (!field_find(shape->fields, name))
                        return false;
        }
        return true;
}

static bool fits(const json_t *json, const struct operation_answer *told) {
        const json_t *items = json_object_get(json, "items"), *item;
        size_t i;

        if (!told->list)
                return has_shape(json, told->shape) || has_shape(json, told->other);
        if (!json_is_array(items) || !json_object_get(json, "cursor") || json_object_size(json) != 2)
                return false;
        json_array_foreach ((json_t *)items, i, item) {
                if (!has_shape(item, told->shape))
                        return false;
        }
        return true;
}

static bool lists(const char *const *texts, const char *text) {
        for (; *texts; texts++) {
                if (strcmp(*texts, text) == 0)
                        return true;
        }
        return false;
}

static void check_problem(const struct answer *answer, const struct operation *operation,
                          struct arena *arena) {
        json_t *json JSON_CLEANUP = parse(strbuf_text(&answer->body), answer->body.length);
        const char *code = json_text(json, "code");
        const struct answers_code *found = NULL;

        require(code && json_text(json, "title") && json_text(json, "detail"));
        require(json_integer_or(json, "status", 0) == (json_int_t)answer->status);
        for (size_t i = 0; !found && answers_code_at(i); i++) {
                if (strcmp(answers_code_at(i)->code, code) == 0)
                        found = answers_code_at(i);
        }
        require_that(found != NULL, code);
        require(found->status == answer->status || strcmp(code, "bad-request") == 0 ||
                strcmp(code, "no-seat") == 0);
        if (operation && operation->id)
                require_that(lists(openapi_codes(operation, arena), code), code);
}

/* It is one of those that the operation's row tells. */
static void check_told(const struct answer *answer, const struct operation *operation, bool of_head) {
        const char *type = field_of(answer, "Content-Type");
        const struct operation_answer *told;

        for (told = operation->answers; told->status; told++) {
                if (told->status != answer->status || !told->type != !type ||
                    (type && strncmp(type, told->type, strlen(told->type)) != 0))
                        continue;
                if (type && strcmp(type, "application/json") == 0 && !of_head) {
                        json_t *json JSON_CLEANUP = parse(strbuf_text(&answer->body), answer->body.length);

                        if (!fits(json, told))
                                continue;
                }
                return;
        }
        fprintf(stderr, "%u %s\n%s\n", answer->status, type ? type : "", strbuf_text(&answer->body));
        require_that(false, "an answer that the operation's row does not tell");
}

/* Each line is a field of an event, and what it says is JSON. The last may have been cut off. */
static void check_events(const struct answer *answer) {
        const char *line = strbuf_text(&answer->body), *end;

        for (; (end = strchr(line, '\n')); line = end + 1) {
                if (*line == ':' || line == end || strncmp(line, "id: ", 4) == 0 ||
                    strncmp(line, "event: ", 7) == 0)
                        continue;
                require_that(strncmp(line, "data: ", 6) == 0, "a line of no event");
                json_decref(parse(line + 6, (size_t)(end - line - 6)));
        }
}

static void remember(const struct answer *answer) {
        const char *etag = field_of(answer, "ETag"), *mcp = field_of(answer, "Mcp-Session-Id"), *address;
        json_t *json JSON_CLEANUP = NULL;

        if (etag)
                snprintf(known.etag, sizeof(known.etag), "%s", etag);
        if (mcp)
                snprintf(known.mcp, sizeof(known.mcp), "%s", mcp);
        if (answer->status != 201)
                return;
        json = json_loadb(strbuf_text(&answer->body), answer->body.length, 0, NULL);
        address = json_text(json, "address");
        if (address)
                snprintf(known.ticket, sizeof(known.ticket), "%s", strrchr(address, '/') + 1);
}

static void check_answer(const struct answer *answer, const struct operation *operation, bool of_head,
                         struct arena *arena) {
        const char *type = field_of(answer, "Content-Type");

        require(answer->status >= 200 && answer->status < 600 && answer->status != 500);
        if (!answer->whole || of_head) {
                if (answer->whole && operation && operation->id && answer->status < 400)
                        check_told(answer, operation, true);
                return;
        }
        remember(answer);
        if (type && strcmp(type, "application/problem+json") == 0)
                check_problem(answer, operation, arena);
        else if (operation && operation->id)
                check_told(answer, operation, false);
        if (type && strcmp(type, "application/json") == 0 &&
            !(answer->status == 202 && answer->body.length == 0))
                json_decref(parse(strbuf_text(&answer->body), answer->body.length));
}

/* --- one exchange --- */

static bool is_stream(const struct strbuf *bytes) {
        const char *end = bytes->length ? memmem(bytes->data, bytes->length, "\r\n\r\n", 4) : NULL;

        return end && memmem(bytes->data, (size_t)(end - bytes->data), "text/event-stream", 17);
}

static size_t count_events(const struct strbuf *bytes) {
        size_t count = 0;

        for (size_t i = 1; i < bytes->length; i++)
                count += bytes->data[i] == '\n' && bytes->data[i - 1] == '\n';
        return count;
}

/*
 * All that comes until it ends. Where nothing comes, code that holds is let go on; and where nothing comes still, a stream was read.
 * How long that took decides nothing else.
 */
static bool receive(int descriptor, struct strbuf *ret) {
        struct pollfd polled = { .fd = descriptor, .events = POLLIN };
        char piece[16384];
        unsigned quiet = 0;

        for (;;) {
                ssize_t count;

                if (poll(&polled, 1, QUIET_MS) == 0) {
                        served_go_on();
                        require_that(++quiet < QUIET_MAX, "it does not answer");
                        if (quiet > 1 && is_stream(ret))
                                return false;
                        continue;
                }
                count = recv(descriptor, piece, sizeof(piece), 0);
                if (count <= 0)
                        return true;
                quiet = 0;
                strbuf_append_bytes(ret, piece, (size_t)count);
                require(ret->length < ANSWER_MAX);
                if (is_stream(ret) && count_events(ret) > EVENTS_MAX)
                        return false;
        }
}

/* Where it ends early the server has answered already, or hung up. */
static void send_all(int descriptor, const char *bytes, size_t length) {
        while (length > 0) {
                ssize_t count = send(descriptor, bytes, length, MSG_NOSIGNAL);

                if (count <= 0)
                        return;
                bytes += count;
                length -= (size_t)count;
        }
}

static const struct operation *operation_asked(const char *bytes, size_t length, struct arena *arena,
                                               bool *ret_head) {
        static const struct head_hosts any = { .any = true };
        static struct server_route routes[ROUTES_MAX];
        static size_t route_count;
        static bool is_first = true;
        const struct operation *operation;
        const char *why, *allow, *parameters[SERVER_PARAMETERS];
        const struct server_route *route;
        struct head_parts parts;
        struct head head;
        size_t seen = 0;
        ssize_t end = head_end(bytes, length, &seen);

        for (size_t at = 0; is_first && (operation = api_next(&at, true));) {
                require(route_count < ROUTES_MAX);
                routes[route_count] = operation->route;
                routes[route_count++].about = operation;
        }
        is_first = false;
        *ret_head = strncmp(bytes, "HEAD ", 5) == 0 || strncmp(bytes, "\r\nHEAD ", 7) == 0;
        if (end <= 0 || head_parse(arena_strndup(arena, bytes, (size_t)end), arena, &head, &why) != 0)
                return NULL;
        if (head_read(&head, &any, arena, &parts, &why) != 0)
                return NULL;
        route = route_find(routes, route_count, head.method, parts.path, arena, parameters, &allow);
        return route ? route->about : NULL;
}

/*
 * Sends the bytes, and judges what comes back. `ends`: the client says no more, so that the server may be left with half a request, and
 * what comes need not be whole. *ret is the first answer.
 */
static void exchange(enum served_who who, const char *bytes, size_t length, bool ends, struct answer *ret) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct strbuf came STRBUF_CLEANUP = STRBUF_INIT;
        bool of_head, ended;
        const struct operation *operation = operation_asked(bytes, length, arena, &of_head);
        int descriptor = served_connect(who);

        shown = arena_strndup(arena, bytes, length);
        send_all(descriptor, bytes, length);
        if (ends)
                shutdown(descriptor, SHUT_WR);
        ended = receive(descriptor, &came);
        close(descriptor);
        require(ends || came.length > 0);
        for (size_t at = 0; at < came.length;) {
                struct answer answer ANSWER_CLEANUP = { .body = STRBUF_INIT };
                size_t used = read_head(came.data + at, came.length - at, &answer);

                require(used > 0 || ends);
                if (used == 0)
                        break;
                at += used;
                if (answer.status == 100)
                        continue;
                at += read_body(came.data + at, came.length - at, of_head, ended, &answer);
                if (getenv("FUZZ_SHOW_REQUESTS"))
                        fprintf(stderr, "%.*s: %u %.300s\n", (int)strcspn(shown, "\r\n"), shown,
                                answer.status, strbuf_text(&answer.body));
                if (is_stream(&came))
                        check_events(&answer);
                else
                        require(answer.whole || ends);
                check_answer(&answer, operation, of_head, arena);
                require_that(ends || at == came.length, "bytes behind the answer");
                if (ret->status == 0) {
                        answer_release(ret);
                        *ret = answer;
                        answer = (struct answer){ .body = STRBUF_INIT };
                }
                /* What a pipeline's later requests were is not followed. */
                operation = NULL;
                if (of_head)
                        break;
        }
        shown = NULL;
}

/* --- requests --- */

static bool has_own_length(const char *line, size_t length) {
        static const char *const names[] = { "Content-Length", "Transfer-Encoding" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                size_t name = strlen(names[i]);

                if (length > name && strncasecmp(line, names[i], name) == 0)
                        return true;
        }
        return false;
}

/* `text`: "METHOD TARGET\nName: value\n\nbody". */
static void ask(enum served_who who, const char *text, size_t length, struct answer *ret) {
        struct strbuf request STRBUF_CLEANUP = STRBUF_INIT;
        const char *end = text + length, *stop = memchr(text, '\n', length);
        bool own_length = false;

        stop = stop ? stop : end;
        strbuf_append_bytes(&request, text, (size_t)(stop - text));
        strbuf_append(&request, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        if (served_token(who))
                strbuf_printf(&request, "Authorization: Bearer %s\r\n", served_token(who));
        for (text = stop < end ? stop + 1 : end; text < end && *text != '\n';
             text = stop < end ? stop + 1 : end) {
                stop = memchr(text, '\n', (size_t)(end - text));
                stop = stop ? stop : end;
                own_length = own_length || has_own_length(text, (size_t)(stop - text));
                strbuf_append_bytes(&request, text, (size_t)(stop - text));
                strbuf_append(&request, "\r\n");
        }
        text += text < end;
        if (!own_length && text < end)
                strbuf_printf(&request, "Content-Length: %zu\r\n", (size_t)(end - text));
        strbuf_append(&request, "\r\n");
        strbuf_append_bytes(&request, text, (size_t)(end - text));
        exchange(who, strbuf_text(&request), request.length, own_length, ret);
}

static void ask_text(enum served_who who, const char *text, struct answer *ret) {
        ask(who, text, strlen(text), ret);
}

/* A session of who asks; those who can have none name the desk's. */
static const char *session_of(enum served_who who) {
        struct answer answer ANSWER_CLEANUP = { .body = STRBUF_INIT };
        json_t *json JSON_CLEANUP = NULL;
        const char *id;
        char text[256];

        if (who != SERVED_SOCKET && who != SERVED_CRON)
                who = SERVED_DESK;
        if (known.ids[who][0])
                return known.ids[who];
        snprintf(text, sizeof(text),
                 "POST /v1/sessions\nContent-Type: application/json\n%s\n"
                 "{\"environment\": \"python\", \"conversation\": \"fuzz\"}",
                 who == SERVED_DESK ? "Berth-Owner: alice\n" : "");
        ask_text(who, text, &answer);
        json = json_loadb(strbuf_text(&answer.body), answer.body.length, 0, NULL);
        id = json_text(json, "id");
        snprintf(known.ids[who], sizeof(known.ids[who]), "%s", id ? id : NO_SESSION);
        return known.ids[who];
}

static const char *word_of(enum served_who who, const char *at, size_t *ret_length) {
        const struct {
                const char *word, *text;
        } words[] = { { "{id}", NULL },
                      { "{ticket}", known.ticket },
                      { "{etag}", known.etag },
                      { "{mcp}", known.mcp },
                      { "{desk}", served_token(SERVED_DESK) },
                      { "{cron}", served_token(SERVED_CRON) },
                      { "{admin}", served_token(SERVED_ADMIN) } };

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                *ret_length = strlen(words[i].word);
                if (strncmp(at, words[i].word, *ret_length) == 0)
                        return words[i].text ? words[i].text : session_of(who);
        }
        return NULL;
}

/* `part` has a NUL behind it. */
static void send_part(const char *part, size_t length) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct answer answer ANSWER_CLEANUP = { .body = STRBUF_INIT };
        size_t name = strcspn(part, " \n"), who = 0;

        while (who < SERVED_WHO_COUNT &&
               (strlen(served_names[who]) != name || strncmp(served_names[who], part, name) != 0))
                who++;
        if (who == SERVED_WHO_COUNT || name == length)
                return;
        for (const char *at = part + name + 1, *end = part + length; at < end;) {
                size_t used;
                const char *word = *at == '{' ? word_of((enum served_who)who, at, &used) : NULL;

                if (word)
                        strbuf_append(&text, word);
                else
                        strbuf_append_char(&text, *at);
                at += word ? used : 1;
        }
        if (who == SERVED_RAW)
                exchange(SERVED_RAW, strbuf_text(&text), text.length, true, &answer);
        else
                ask((enum served_who)who, strbuf_text(&text), text.length, &answer);
}

/* --- after it --- */

static void remove_all(const char *path) {
        struct answer answer ANSWER_CLEANUP = { .body = STRBUF_INIT };
        json_t *json JSON_CLEANUP = NULL, *item;
        char text[256];
        size_t i;

        snprintf(text, sizeof(text), "GET %s?limit=1000", path);
        ask_text(SERVED_ADMIN, text, &answer);
        require(answer.status == 200);
        json = parse(strbuf_text(&answer.body), answer.body.length);
        json_array_foreach (json_object_get(json, "items"), i, item) {
                struct answer removed ANSWER_CLEANUP = { .body = STRBUF_INIT };

                snprintf(text, sizeof(text), "DELETE %s/%s", path, json_text(item, "id"));
                ask_text(SERVED_ADMIN, text, &removed);
                require(removed.status == 204 || removed.status == 404 || removed.status == 409);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct parts parts = parts_of(data, size);

        served_begin();
        memset(&known, 0, sizeof(known));
        for (size_t i = 0; i < REQUESTS_MAX && parts.left > 0; i++) {
                struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
                size_t length;
                char *part = parts_next(&parts, &length);

                strbuf_append_bytes(&text, part, length);
                free(part);
                send_part(strbuf_text(&text), length);
        }
        served_go_on();
        remove_all("/v1/sessions");
        remove_all("/v1/workspaces");
        served_settle();
        return 0;
}
