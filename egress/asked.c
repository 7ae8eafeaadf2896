/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/asked.h"

#include "server/head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BAD_REQUEST 400U
#define FORBIDDEN 403U
#define LENGTH_REQUIRED 411U
#define FIELDS_TOO_LARGE 431U
#define HTTP_PORT 80
#define LENGTH_DIGITS_MAX 15

/* Of this connection, or of this proxy: RFC 9110, 7.6.1. Host is written again. */
static const char *const left_out[] = { "Connection",
                                        "Keep-Alive",
                                        "Proxy-Authenticate",
                                        "Host",
                                        "Proxy-Authorization",
                                        "Proxy-Connection",
                                        "TE",
                                        "Trailer",
                                        "Transfer-Encoding",
                                        "Upgrade",
                                        "HTTP2-Settings",
                                        NULL };

static bool is_left_out(const char *name) {
        for (const char *const *other = left_out; *other; other++) {
                if (strcasecmp(*other, name) == 0)
                        return true;
        }
        return false;
}

static size_t count_of(const struct head *head, const char *name) {
        size_t count = 0;

        for (size_t i = 0; i < head->field_count; i++)
                count += strcasecmp(head->fields[i].name, name) == 0;
        return count;
}

/* "HOST", "HOST:PORT": 0 for an invalid port, *ret_port unchanged if none is given. */
static bool read_authority(const char *text, size_t length, char host[ALLOW_HOST_MAX + 1],
                           uint16_t *ret_port) {
        const char *colon = memchr(text, ':', length);
        size_t host_length = colon ? (size_t)(colon - text) : length, digits = length - host_length;
        unsigned long port;

        if (host_length > ALLOW_HOST_MAX)
                return false;
        for (size_t i = 0; i < host_length; i++)
                host[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
        host[host_length] = '\0';
        if (!allow_is_host(host))
                return false;
        if (!colon)
                return true;
        if (digits < 2 || digits > 6 || strspn(colon + 1, "0123456789") < digits - 1 || colon[1] == '0')
                return false;
        port = strtoul(colon + 1, NULL, 10);
        if (port > UINT16_MAX)
                return false;
        *ret_port = (uint16_t)port;
        return true;
}

/* Clients send the target's again (RFC 9112, 3.2.2). Another one would be believed by some servers, and not by others. */
static bool host_is_the_same(const struct head *head, const struct asked *asked) {
        const char *said = head_field(head, "Host");
        char host[ALLOW_HOST_MAX + 1];
        uint16_t port = asked->tunnel ? asked->port : HTTP_PORT;

        if (!head_has_field(head, "Host"))
                return head->old;
        /* For a tunnel some send the name without the port. */
        return said && read_authority(said, strlen(said), host, &port) && strcmp(host, asked->host) == 0 &&
               port == asked->port;
}

/* What a path and a query are made of: no blank, no control character, nothing beyond ASCII, no fragment. */
static bool is_path(const char *text) {
        for (; *text; text++) {
                if (*text <= ' ' || *text >= 0x7f || strchr("\"#<>\\^`{|}", *text))
                        return false;
        }
        return true;
}

static unsigned read_body_length(const struct head *head, unsigned long long *ret, const char **ret_why) {
        const char *length = head_field(head, "Content-Length");

        *ret_why = "a body must have a Content-Length: chunks are not passed on over plain HTTP";
        if (head_has_field(head, "Transfer-Encoding"))
                return LENGTH_REQUIRED;
        *ret_why = "Content-Length is given twice, or is no number";
        if (count_of(head, "Content-Length") > 1 ||
            (length && (length[0] == '\0' || strlen(length) > LENGTH_DIGITS_MAX ||
                        strspn(length, "0123456789") != strlen(length))))
                return BAD_REQUEST;
        *ret = length ? strtoull(length, NULL, 10) : 0;
        return 0;
}

/*
 * Host and Connection are written again, also if they were missing: the result must not be longer
 * than the input.
 */
static bool has_room_for_fields(const struct head *head) {
        size_t count = 2;

        for (size_t i = 0; i < head->field_count; i++)
                count += !is_left_out(head->fields[i].name);
        return count <= HEAD_FIELDS_MAX;
}

static void write_onward(const struct head *head, const struct asked *asked, const char *path,
                         struct strbuf *onward) {
        strbuf_printf(onward, "%s %s%s HTTP/1.1\r\nHost: %s", head->method, path[0] == '/' ? "" : "/", path,
                      asked->host);
        if (asked->port != HTTP_PORT)
                strbuf_printf(onward, ":%u", asked->port);
        strbuf_append(onward, "\r\nConnection: close\r\n");
        for (size_t i = 0; i < head->field_count; i++) {
                if (!is_left_out(head->fields[i].name))
                        strbuf_printf(onward, "%s: %s\r\n", head->fields[i].name, head->fields[i].value);
        }
        strbuf_append(onward, "\r\n");
}

static unsigned read_tunnel(const struct head *head, struct asked *asked, const char **ret_why) {
        *ret_why = "CONNECT is for HOST:PORT, a name and not an address";
        asked->tunnel = true;
        if (!read_authority(head->target, strlen(head->target), asked->host, &asked->port) ||
            asked->port == 0)
                return BAD_REQUEST;
        *ret_why = "CONNECT has no body";
        return head_has_field(head, "Transfer-Encoding") ||
                               (head_has_field(head, "Content-Length") &&
                                (!head_field(head, "Content-Length") ||
                                 strcmp(head_field(head, "Content-Length"), "0") != 0))
                       ? BAD_REQUEST
                       : 0;
}

static unsigned read_plain_target(const struct head *head, struct asked *asked, const char **ret_path,
                                  const char **ret_why) {
        const char *authority = head->target + strlen("http://");
        size_t length;

        *ret_why = "this is a proxy: the target is http://HOST/PATH, or CONNECT HOST:PORT for all else";
        if (strncasecmp(head->target, "http://", strlen("http://")) != 0)
                return BAD_REQUEST;
        *ret_why = "the target has no name of a host: addresses and users are not taken";
        length = strcspn(authority, "/?");
        asked->port = HTTP_PORT;
        if (!read_authority(authority, length, asked->host, &asked->port))
                return BAD_REQUEST;
        *ret_why = "the target has characters that must be escaped";
        *ret_path = authority + length;
        return is_path(*ret_path) ? read_body_length(head, &asked->body, ret_why) : BAD_REQUEST;
}

unsigned asked_read(char *text, struct arena *arena, struct asked *ret, struct strbuf *onward,
                    const char **ret_why) {
        struct asked asked = { 0 };
        const char *path = "";
        struct head head;
        unsigned status = head_parse(text, arena, &head, ret_why);

        if (status == 0)
                status = strcmp(head.method, "CONNECT") == 0
                                 ? read_tunnel(&head, &asked, ret_why)
                                 : read_plain_target(&head, &asked, &path, ret_why);
        if (status != 0)
                return status;
        *ret_why = "Host is not the target's, or is given twice";
        if (!host_is_the_same(&head, &asked))
                return BAD_REQUEST;
        *ret_why = "there are too many header fields";
        if (!asked.tunnel && !has_room_for_fields(&head))
                return FIELDS_TOO_LARGE;
        if (!asked.tunnel)
                write_onward(&head, &asked, path, onward);
        asked.awaits_go_ahead = !asked.tunnel && asked.body > 0 && head_field(&head, "Expect") &&
                                strcasecmp(head_field(&head, "Expect"), "100-continue") == 0;
        *ret_why = NULL;
        *ret = asked;
        return 0;
}

/* Of a line that was folded, which servers of old may still send, the rest goes the way of its beginning. */
bool asked_answer(char *text, struct strbuf *ret) {
        static const char *const dropped[] = { "Connection:", "Proxy-Connection:", "Keep-Alive:" };
        bool first = true, drops = false;

        if (strncmp(text, "HTTP/1.1 1", 10) == 0)
                return false;
        for (char *end; (end = strstr(text, "\r\n")) && end != text; text = end + 2) {
                if (text[0] != ' ' && text[0] != '\t')
                        drops = false;
                for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
                        drops = drops || strncasecmp(text, dropped[i], strlen(dropped[i])) == 0;
                if (!drops)
                        strbuf_append_bytes(ret, text, (size_t)(end + 2 - text));
                if (first)
                        strbuf_append(ret, "Connection: close\r\n");
                first = false;
        }
        strbuf_append(ret, "\r\n");
        return true;
}
