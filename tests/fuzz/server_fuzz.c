/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's bytes: heads and bodies, as a client sends them. A request that is not refused has
 * lines that end with CRLF, a path without surprises, one host of ours, and one length; and it is
 * read as the same in whatever pieces it comes.
 */
#include "base/strbuf.h"
#include "parts.h"
#include "server/chunks.h"
#include "server/head.h"
#include "server/route.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct server_route routes[] = {
        { .method = "GET", .path = "/healthz" },
        { .method = "POST", .path = "/hooks/{name}" },
        { .method = "GET", .path = "/v1/{id}/files/{path...}" },
        { .method = "PUT", .path = "/v1/{id}/files/{path...}" },
};

static void require(bool condition) {
        if (!condition)
                abort();
}

static size_t count_fields(const struct head *head, const char *name) {
        size_t count = 0;

        for (size_t i = 0; i < head->field_count; i++)
                count += strcasecmp(head->fields[i].name, name) == 0;
        return count;
}

static size_t count_slashes(const char *text, size_t length) {
        size_t count = 0;

        for (size_t i = 0; i < length; i++)
                count += text[i] == '/';
        return count;
}

/* A text whose lines are what they are to every reader. */
static void check_grammar(const char *text, size_t length, const struct head *head) {
        for (size_t i = 0; i < length; i++) {
                require(text[i] != '\0');
                require((text[i] == '\n') == (i > 0 && text[i - 1] == '\r'));
        }
        for (size_t i = 0; i < head->field_count; i++) {
                require(head_is_token(head->fields[i].name, strlen(head->fields[i].name)));
                for (const char *at = head->fields[i].value; *at; at++)
                        require(head_is_text(*at));
        }
}

static void check_parts(const struct head *head, const struct head_parts *parts, struct arena *arena) {
        const char *allow = NULL, *parameters[SERVER_PARAMETERS];
        const struct server_route *route;

        require(parts->path[0] == '/' && head->target[0] == '/');
        /* A slash that was escaped is known as such: without one the target has as many as the path. */
        require((parts->slash == NULL) == (count_slashes(parts->path, strlen(parts->path)) ==
                                           count_slashes(head->target, strcspn(head->target, "?"))));
        require(!parts->slash || (*parts->slash == '/' && parts->slash > parts->path));
        require(count_fields(head, "Host") <= 1 && count_fields(head, "Content-Length") <= 1);
        require(count_fields(head, "Transfer-Encoding") + count_fields(head, "Content-Length") <= 1);
        require(parts->chunked == (count_fields(head, "Transfer-Encoding") == 1));
        require(parts->has_body == (parts->chunked || parts->length > 0));
        for (size_t i = 0; i < parts->query_count; i++)
                require(parts->query[i].name && parts->query[i].value);
        route = route_find(routes, sizeof(routes) / sizeof(routes[0]), "GET", parts->path, arena, parameters,
                           &allow);
        if (route == &routes[2])
                require(*parameters[0] && *parameters[1] && !strchr(parameters[0], '/'));
        if (route && parts->slash &&
            route_takes_slash(route, (const char *const *)parameters, parts->path, parts->slash))
                require(route == &routes[2] && parts->slash >= parts->path + strlen("/v1/a/files/"));
        require(route || !allow || strcmp(allow, "POST") == 0);
}

/*
 * The body in pieces of `step` bytes; -1 where it is invalid. *ret_used is all that it takes, 0
 * where it has not ended.
 */
static int read_chunks(const char *bytes, size_t length, size_t step, struct strbuf *ret, size_t *ret_used) {
        struct chunks chunks = { 0 };
        size_t at = 0, come = 0;

        while (!chunks_ended(&chunks)) {
                const char *data;
                size_t data_length;
                ssize_t used = chunks_take(&chunks, bytes + at, come - at, &data, &data_length);

                if (used < 0)
                        return -1;
                require((size_t)used <= come - at && data_length <= (size_t)used);
                require(data >= bytes + at && data + data_length <= bytes + at + used);
                strbuf_append_bytes(ret, data, data_length);
                at += (size_t)used;
                if (used > 0)
                        continue;
                if (come == length)
                        break;
                come = step < length - come ? come + step : length;
        }
        *ret_used = chunks_ended(&chunks) ? at : 0;
        return 0;
}

static size_t check_chunks(const char *bytes, size_t length) {
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT, pieces STRBUF_CLEANUP = STRBUF_INIT;
        size_t used = 0, used_by_pieces = 0;
        int result = read_chunks(bytes, length, length, &whole, &used);

        require(read_chunks(bytes, length, 3, &pieces, &used_by_pieces) == result);
        require(used == used_by_pieces && whole.length == pieces.length);
        require(whole.length == 0 || memcmp(whole.data, pieces.data, whole.length) == 0);
        return result < 0 ? 0 : used;
}

/* How much of the bytes is one request, 0 where they are not a request, or not all of one. */
static size_t check_request(const char *bytes, size_t length, const struct head_hosts *hosts) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        size_t seen = 0, by_pieces = 0, body;
        ssize_t end = head_end(bytes, length, &seen), found = 0;
        const char *why = NULL;
        struct head_parts parts;
        struct head head;
        unsigned status;

        for (size_t come = 1; come <= length && found == 0; come++)
                found = head_end(bytes, come, &by_pieces);
        require(found == end);
        if (end <= 0)
                return 0;
        status = head_parse(arena_strndup(arena, bytes, (size_t)end), arena, &head, &why);
        if (status == 0) {
                check_grammar(bytes, (size_t)end, &head);
                status = head_read(&head, hosts, arena, &parts, &why);
        }
        if (status != 0) {
                require(status >= 400 && status < 600 && why && *why);
                return 0;
        }
        check_parts(&head, &parts, arena);
        if (!parts.chunked)
                return parts.length <= length - (size_t)end ? (size_t)end + (size_t)parts.length : 0;
        body = check_chunks(bytes + end, length - (size_t)end);
        return body ? (size_t)end + body : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const names[] = { "berth.example.com", "[2001:db8::1]" };
        static const struct head_hosts listed = { .names = names, .count = 2 }, any = { .any = true };
        const char *bytes = (const char *)data;
        size_t used;

        check_chunks(bytes, size);
        for (size_t at = 0; (used = check_request(bytes + at, size - at, &listed)) > 0; at += used)
                ;
        check_request(bytes, size, &any);
        return 0;
}
