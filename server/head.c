/* SPDX-License-Identifier: Apache-2.0 */
#include "server/head.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BAD_REQUEST 400U
#define FORBIDDEN 403U
#define MISDIRECTED 421U
#define URI_TOO_LONG 414U
#define EXPECTATION_FAILED 417U
#define FIELDS_TOO_LARGE 431U
#define VERSION_NOT_SUPPORTED 505U
#define TARGET_MAX 8192
#define QUERY_MAX 64
#define LENGTH_DIGITS_MAX 18

/* --- texts --- */

bool head_is_token(const char *text, size_t length) {
        for (size_t i = 0; i < length; i++) {
                unsigned char c = (unsigned char)text[i];

                if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c))
                        return false;
        }
        return length > 0;
}

bool head_is_text(char byte) {
        unsigned char c = (unsigned char)byte;

        return c == '\t' || (c >= ' ' && c != 0x7f);
}

int head_hex_digit(char digit) {
        static const char digits[] = "0123456789abcdef";
        const char *at = digit ? strchr(digits, digit | 0x20) : NULL;

        return at ? (int)(at - digits) : -1;
}

/* Resolves escapes. NULL where one is broken, or stands for a NUL. *ret_slash: the first slash that was escaped, or NULL. */
static char *unescape_percent(const char *text, size_t length, bool in_path, struct arena *arena,
                              const char **ret_slash) {
        char *plain = arena_alloc(arena, length + 1), *to = plain;

        *ret_slash = NULL;
        for (size_t i = 0; i < length; i++) {
                int high, low;

                if (text[i] != '%') {
                        *to++ = (char)(text[i] == '+' && !in_path ? ' ' : text[i]);
                        continue;
                }
                if (i + 2 >= length || (high = head_hex_digit(text[i + 1])) < 0 ||
                    (low = head_hex_digit(text[i + 2])) < 0)
                        return NULL;
                *to = (char)(high << 4 | low);
                if (*to == '\0')
                        return NULL;
                if (*to == '/' && !*ret_slash)
                        *ret_slash = to;
                to++;
                i += 2;
        }
        *to = '\0';
        return plain;
}

/* --- lines --- */

ssize_t head_end(const char *bytes, size_t length, size_t *seen) {
        for (size_t i = *seen; i < length; i++) {
                bool after_cr = i > 0 && bytes[i - 1] == '\r';

                if (bytes[i] == '\0' || (bytes[i] == '\n') != after_cr)
                        return -1;
                if (bytes[i] == '\n' && i >= 3 && bytes[i - 2] == '\n')
                        return (ssize_t)i + 1;
        }
        *seen = length;
        return 0;
}

/* Cuts the line off that the text begins with, and its CRLF; NULL at the empty line. */
static char *cut_line(char **text) {
        char *line = *text, *end = strstr(line, "\r\n");

        if (!end || end == line)
                return NULL;
        *end = '\0';
        *text = end + 2;
        return line;
}

/* "METHOD TARGET HTTP/1.1": with one space, nothing more, between them. */
static unsigned parse_request_line(char *line, struct head *head) {
        char *target = line ? strchr(line, ' ') : NULL, *version = target ? strchr(target + 1, ' ') : NULL;

        if (!version || !head_is_token(line, (size_t)(target - line)))
                return BAD_REQUEST;
        *target++ = '\0';
        *version++ = '\0';
        head->method = line;
        head->target = target;
        head->old = strcmp(version, "HTTP/1.0") == 0;
        if (head->old || strcmp(version, "HTTP/1.1") == 0)
                return 0;
        return strncmp(version, "HTTP/", 5) == 0 && strspn(version + 5, "0123456789.") == 3 &&
                               version[6] == '.' && version[8] == '\0'
                       ? VERSION_NOT_SUPPORTED
                       : BAD_REQUEST;
}

/*
 * "NAME:VALUE", blanks around the value. Nothing before the name (a line that begins with a blank was once the rest of the one
 * above it), nothing between it and the colon.
 */
static bool parse_field(char *line, struct head_field *ret) {
        char *colon = strchr(line, ':'), *value, *end;

        if (!colon || !head_is_token(line, (size_t)(colon - line)))
                return false;
        *colon = '\0';
        value = colon + 1 + strspn(colon + 1, " \t");
        for (end = value; *end; end++) {
                if (!head_is_text(*end))
                        return false;
        }
        while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
        *end = '\0';
        *ret = (struct head_field){ line, value };
        return true;
}

unsigned head_parse(char *text, struct arena *arena, struct head *ret, const char **ret_why) {
        struct head head = { 0 };
        size_t lines = 0;
        unsigned status;
        char *line;

        if (strncmp(text, "\r\n", 2) == 0) /* RFC 9112, 2.2: some clients send one behind a body */
                text += 2;
        for (const char *at = text; (at = strchr(at, '\n')); at++)
                lines++;
        *ret_why = "the request line is malformed: METHOD TARGET HTTP/1.1";
        if ((status = parse_request_line(cut_line(&text), &head)) != 0)
                return status;
        *ret_why = "there are too many header fields";
        if (lines > HEAD_FIELDS_MAX + 2)
                return FIELDS_TOO_LARGE;
        head.fields = arena_array(arena, lines, sizeof(head.fields[0]));
        *ret_why = "a header field is malformed";
        while ((line = cut_line(&text))) {
                if (!parse_field(line, &head.fields[head.field_count++]))
                        return BAD_REQUEST;
        }
        *ret_why = NULL;
        *ret = head;
        return 0;
}

/* --- fields --- */

static size_t count_of(const struct head *head, const char *name, const struct head_field **ret) {
        size_t count = 0;

        *ret = NULL;
        for (size_t i = 0; i < head->field_count; i++) {
                if (strcasecmp(head->fields[i].name, name) == 0) {
                        *ret = &head->fields[i];
                        count++;
                }
        }
        return count;
}

bool head_has_field(const struct head *head, const char *name) {
        const struct head_field *field;

        return count_of(head, name, &field) > 0;
}

const char *head_field(const struct head *head, const char *name) {
        const struct head_field *field;

        return count_of(head, name, &field) == 1 ? field->value : NULL;
}

/* Where the body ends must be said once, in one way (RFC 9112, 6.3): a proxy in front may have read it otherwise. */
static const char *read_framing(const struct head *head, struct head_parts *parts) {
        const struct head_field *length, *coding;
        size_t lengths = count_of(head, "Content-Length", &length),
               codings = count_of(head, "Transfer-Encoding", &coding);

        if (lengths > 1)
                return "there is more than one Content-Length";
        if (lengths && codings)
                return "Content-Length and Transfer-Encoding contradict each other";
        if (codings > 1 || (codings && strcasecmp(coding->value, "chunked") != 0))
                return "the only Transfer-Encoding here is chunked";
        if (codings && head->old)
                return "Transfer-Encoding came with HTTP/1.1";
        if (lengths && (length->value[0] == '\0' || strlen(length->value) > LENGTH_DIGITS_MAX ||
                        strspn(length->value, "0123456789") != strlen(length->value)))
                return "Content-Length is no number";
        parts->length = lengths ? strtoull(length->value, NULL, 10) : 0;
        parts->chunked = codings > 0;
        parts->has_body = parts->chunked || parts->length > 0;
        return NULL;
}

/* --- the server that the request is for --- */

/* The length of the host in "host:port" or "[address]:port"; 0 where it is neither. */
static size_t host_length(const char *authority) {
        size_t length = *authority == '[' ? strcspn(authority, "]") + 1 : strcspn(authority, ":");

        if (length > strlen(authority) ||
            strspn(authority, "0123456789abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._:[]") != strlen(authority))
                return 0;
        if (authority[length] == '\0')
                return length;
        return authority[length] == ':' &&
                               strspn(authority + length + 1, "0123456789") == strlen(authority + length + 1)
                       ? length
                       : 0;
}

/*
 * Names that mean this machine with any resolver: another site's page cannot be loaded from them.
 */
static bool is_loopback(const char *host) {
        size_t length = strlen(host);
        struct in_addr four;

        if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
                return true;
        if (length > 10 && strcasecmp(host + length - 10, ".localhost") == 0)
                return true;
        return inet_pton(AF_INET, host, &four) == 1 && ntohl(four.s_addr) >> 24 == 127;
}

static bool is_own_host(const char *host, const struct head_hosts *hosts) {
        for (size_t i = 0; i < hosts->count; i++) {
                if (strcasecmp(hosts->names[i], host) == 0)
                        return true;
        }
        return hosts->any || is_loopback(host);
}

/* SCHEME://HOST[:PORT], to the letter: a browser sends both in one form. By https TLS is reached, or a proxy in front. */
static bool is_same_place(const char *origin, const char *host, const struct head_hosts *hosts) {
        const char *at = strstr(origin, "://");

        if (!at || strcasecmp(at + 3, host) != 0)
                return false;
        if (strncasecmp(origin, "https://", 8) == 0)
                return hosts->by_tls || hosts->behind_proxy;
        return !hosts->by_tls && strncasecmp(origin, "http://", 7) == 0;
}

/*
 * A name that resolves to this address only since its owner says so (DNS rebinding) makes a stranger's page one of ours to a
 * browser. Origin, which a browser adds where a page asks another place, must be the place that is asked.
 */
static unsigned check_places(const struct head *head, const struct head_hosts *hosts, struct arena *arena,
                             const char **ret_why) {
        const struct head_field *host, *origin;
        size_t count = count_of(head, "Host", &host), length;

        *ret_why = "there must be one Host";
        if (count > 1 || (count == 0 && !head->old))
                return BAD_REQUEST;
        if (host) {
                *ret_why = "Host is no host";
                if ((length = host_length(host->value)) == 0)
                        return BAD_REQUEST;
                *ret_why = "unknown Host: add it to `hosts` in the Server's manifest";
                if (!is_own_host(arena_strndup(arena, host->value, length), hosts))
                        return MISDIRECTED;
        }
        if (count_of(head, "Origin", &origin) == 0)
                return 0;
        *ret_why = "a page of another Origin may not ask here";
        return count_of(head, "Origin", &origin) == 1 && host &&
                               is_same_place(origin->value, host->value, hosts)
                       ? 0
                       : FORBIDDEN;
}

/* --- the target --- */

static const char *read_query(const char *text, struct arena *arena, struct head_parts *parts) {
        parts->query = arena_array(arena, QUERY_MAX, sizeof(parts->query[0]));
        while (*text) {
                size_t length = strcspn(text, "&"), name = strcspn(text, "=&");
                const char *ignored;
                struct head_pair pair = { unescape_percent(text, name, false, arena, &ignored), "" };

                if (name < length)
                        pair.value =
                                unescape_percent(text + name + 1, length - name - 1, false, arena, &ignored);
                if (!pair.name || !pair.value)
                        return "an escape in the query is broken, or a NUL";
                if (parts->query_count == QUERY_MAX)
                        return "the query has too many parts";
                if (length > 0)
                        parts->query[parts->query_count++] = pair;
                text += length + (text[length] == '&');
        }
        return NULL;
}

static unsigned read_target(const char *target, struct arena *arena, struct head_parts *parts,
                            const char **ret_why) {
        size_t length = strlen(target), path = strcspn(target, "?");

        *ret_why = "the target is too long";
        if (length > TARGET_MAX)
                return URI_TOO_LONG;
        *ret_why = "the target must be a path, of visible ASCII characters: escape others with %";
        if (*target != '/')
                return BAD_REQUEST;
        for (size_t i = 0; i < length; i++) {
                if (target[i] <= ' ' || target[i] >= 0x7f || target[i] == '#')
                        return BAD_REQUEST;
        }
        *ret_why = "an escape in the path is broken, or stands for a NUL";
        if (!(parts->path = unescape_percent(target, path, true, arena, &parts->slash)))
                return BAD_REQUEST;
        *ret_why = target[path] ? read_query(target + path + 1, arena, parts) : NULL;
        return *ret_why ? BAD_REQUEST : 0;
}

/* --- the connection --- */

/* Whether a field of that name, each a list, names the token. */
static bool field_lists(const struct head *head, const char *name, const char *token) {
        for (size_t i = 0; i < head->field_count; i++) {
                const char *at = head->fields[i].value;

                while (strcasecmp(head->fields[i].name, name) == 0 && *(at += strspn(at, " \t,"))) {
                        size_t length = strcspn(at, " \t,");

                        if (length == strlen(token) && strncasecmp(at, token, length) == 0)
                                return true;
                        at += length;
                }
        }
        return false;
}

unsigned head_read(const struct head *head, const struct head_hosts *hosts, struct arena *arena,
                   struct head_parts *ret, const char **ret_why) {
        const struct head_field *expected;
        unsigned status;

        *ret = (struct head_parts){ .path = "/" };
        ret->last = head->old || field_lists(head, "Connection", "close");
        if ((*ret_why = read_framing(head, ret)))
                return BAD_REQUEST;
        if ((status = read_target(head->target, arena, ret, ret_why)) != 0 ||
            (status = check_places(head, hosts, arena, ret_why)) != 0)
                return status;
        if (head->old || count_of(head, "Expect", &expected) == 0)
                return 0;
        *ret_why = "nothing can be expected here but 100-continue";
        ret->awaits_go_ahead = strcasecmp(expected->value, "100-continue") == 0;
        return ret->awaits_go_ahead ? 0 : EXPECTATION_FAILED;
}
