/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs requests given as lines of JSON, for comparison with another signer:
 *
 *     {"method", "url", "headers": {name: value | [values]}, "body", "service", "region", "access_key", "secret_key",
 *      "token": text | null, "date": "20260131T120000Z"}
 *     -> {"authorization", "canonical_request", "string_to_sign"}
 *
 * The URL is taken apart as it stands; `host` is added where the headers lack it.
 */
#include "base/json.h"
#include "providers/aws/client/sigv4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEADERS_MAX 64

struct parts {
        char *host;
        char *path;
        char *query;
};

static char *piece(const char *start, size_t length) {
        char *text = strndup(start, length);

        if (!text)
                abort();
        return text;
}

/* The host without a default port, the path and the query. */
static struct parts split(const char *url) {
        const char *host = strstr(url, "://"), *rest, *query;
        bool secure = strncmp(url, "https", 5) == 0;
        struct parts parts;
        size_t length;

        host = host ? host + 3 : url;
        length = strcspn(host, "/?");
        rest = host + length;
        query = strchr(rest, '?');
        parts.host = piece(host, length);
        parts.path = piece(rest, query ? (size_t)(query - rest) : strlen(rest));
        parts.query = piece(query ? query + 1 : "", query ? strlen(query + 1) : 0);
        length = strlen(parts.host);
        if (secure && length > 4 && strcmp(parts.host + length - 4, ":443") == 0)
                parts.host[length - 4] = '\0';
        else if (!secure && length > 3 && strcmp(parts.host + length - 3, ":80") == 0)
                parts.host[length - 3] = '\0';
        return parts;
}

static size_t collect(const json_t *input, const char *host, struct sigv4_header *headers) {
        json_t *given = json_object_get(input, "headers"), *value, *item;
        const char *name;
        size_t count = 0, i;
        bool hosted = false;

        json_object_foreach (given, name, value) {
                hosted |= strcasecmp(name, "host") == 0;
                if (json_is_string(value) && count < HEADERS_MAX - 1)
                        headers[count++] = (struct sigv4_header){ name, json_string_value(value) };
                json_array_foreach (value, i, item) {
                        if (count < HEADERS_MAX - 1)
                                headers[count++] = (struct sigv4_header){ name, json_string_value(item) };
                }
        }
        if (!hosted)
                headers[count++] = (struct sigv4_header){ "host", host };
        return count;
}

static const char *text_or_empty(const json_t *input, const char *name) {
        const char *text = json_text(input, name);

        return text ? text : "";
}

static void sign_line(const json_t *input) {
        struct sigv4_result result SIGV4_RESULT_CLEANUP = SIGV4_RESULT_INIT;
        struct parts parts = split(text_or_empty(input, "url"));
        struct sigv4_header headers[HEADERS_MAX];
        const json_t *body = json_object_get(input, "body");
        json_t *output JSON_CLEANUP = json_object();
        char *text;

        sigv4_sign(
                &(struct sigv4_request){
                        .method = text_or_empty(input, "method"),
                        .path = parts.path,
                        .query = parts.query,
                        .headers = headers,
                        .header_count = collect(input, parts.host, headers),
                        .body = json_string_value(body),
                        .body_length = json_string_length(body),
                        .service = text_or_empty(input, "service"),
                        .region = text_or_empty(input, "region"),
                },
                &(struct sigv4_keys){
                        .access_key = text_or_empty(input, "access_key"),
                        .secret_key = text_or_empty(input, "secret_key"),
                        .token = json_text(input, "token"),
                },
                text_or_empty(input, "date"), &result);
        json_set_text(output, "authorization", strbuf_text(&result.authorization));
        json_set_text(output, "canonical_request", strbuf_text(&result.canonical_request));
        json_set_text(output, "string_to_sign", strbuf_text(&result.string_to_sign));
        text = json_compact(output);
        puts(text);
        free(text);
        free(parts.host);
        free(parts.path);
        free(parts.query);
}

int main(void) {
        char *line = NULL;
        size_t size = 0;
        ssize_t length;

        while ((length = getline(&line, &size, stdin)) > 0) {
                json_error_t problem;
                json_t *input JSON_CLEANUP = json_loadb(line, (size_t)length, JSON_ALLOW_NUL, &problem);

                if (!input) {
                        fprintf(stderr, "not JSON: %s\n", problem.text);
                        free(line);
                        return 1;
                }
                sign_line(input);
                fflush(stdout);
        }
        free(line);
        return 0;
}
