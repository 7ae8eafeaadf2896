/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request, as the HTTP library hands it over: the first line is a version, the second a target, the others are
 * fields, with a NUL where one stands. What is not refused has a path without surprises, one host of ours, and one length.
 */
#include "parts.h"
#include "server/head.h"
#include "server/route.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELDS_MAX 128

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

/* Up to a line end or the end, as memory of exactly that size and a NUL. */
static char *next_line(const char **at, size_t *left, size_t *ret_length) {
        const char *end = memchr(*at, '\n', *left);
        size_t length = end ? (size_t)(end - *at) : *left;
        char *line = malloc(length + 1);

        if (!line)
                abort();
        memcpy(line, *at, length);
        line[length] = '\0';
        *at += length + (end != NULL);
        *left -= length + (end != NULL);
        *ret_length = length;
        return line;
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

static void check(const struct head *head, const struct head_hosts *hosts) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *why = NULL, *allow = NULL, *parameters[SERVER_PARAMETERS];
        struct head_parts parts;
        unsigned status = head_read(head, hosts, arena, &parts, &why);
        const struct server_route *route;

        if (status != 0) {
                require(status >= 400 && status < 500 && why && *why);
                return;
        }
        require(parts.path[0] == '/' && head->target[0] == '/');
        require(count_slashes(parts.path, strlen(parts.path)) ==
                count_slashes(head->target, strcspn(head->target, "?")));
        require(count_fields(head, "Host") <= 1 && count_fields(head, "Content-Length") <= 1);
        require(count_fields(head, "Transfer-Encoding") + count_fields(head, "Content-Length") <= 1);
        require(parts.has_body || (parts.length == 0 && count_fields(head, "Transfer-Encoding") == 0));
        for (size_t i = 0; i < parts.query_count; i++)
                require(parts.query[i].name && parts.query[i].value);
        route = route_find(routes, sizeof(routes) / sizeof(routes[0]), "GET", parts.path, arena, parameters,
                           &allow);
        if (route == &routes[2])
                require(*parameters[0] && *parameters[1] && !strchr(parameters[0], '/'));
        require(route || !allow || strcmp(allow, "POST") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const names[] = { "berth.example.com", "[2001:db8::1]" };
        static const struct head_hosts listed = { names, 2, false }, any = { NULL, 0, true };
        const char *at = (const char *)data;
        struct head_field fields[FIELDS_MAX];
        size_t left = size, length;
        char *version = next_line(&at, &left, &length), *target = next_line(&at, &left, &length);
        char *lines[FIELDS_MAX];
        struct head head = { version, target, fields, 0 };

        while (left > 0 && head.field_count < FIELDS_MAX) {
                char *line = next_line(&at, &left, &length), *colon = memchr(line, ':', length);
                size_t name = colon ? (size_t)(colon - line) : length;

                line[name] = '\0';
                lines[head.field_count] = line;
                fields[head.field_count++] = (struct head_field){ line, colon ? colon + 1 : line + length,
                                                                  name, colon ? length - name - 1 : 0 };
        }
        check(&head, &listed);
        check(&head, &any);
        for (size_t i = 0; i < head.field_count; i++)
                free(lines[i]);
        free(target);
        free(version);
        return 0;
}
