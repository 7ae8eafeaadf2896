/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket is reached through the descriptor of its folder, since a socket's name has 107 bytes
 * and states lie deeper than that. A folder without a socket, or with one at which no process
 * listens, means that no server runs: both have the same message.
 */
#include "client/client.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)64 << 20) /* the largest that docs/serve.md allows is half of it */
#define QUIET_MS 60000                /* a stream says something each 10 s */
#define SOCKET_NAME "serve.sock"

struct client {
        struct http_pool *pool;
        int folder;
        char socket[64];
        char *place, *command; /* for messages */
};

static char *copy_of(const char *text) {
        char *copy = strdup(text);

        if (!copy)
                abort();
        return copy;
}

static int fail_nobody(const char *place, const char *command, struct error *err) {
        return error_set_kind(err, ERROR_NOT_FOUND, "no server runs for the state in %s: start it with %s",
                              place, command);
}

int client_open(const char *folder, const char *command, struct client **ret, struct error *err) {
        int place DESCRIPTOR_CLEANUP = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct client *client;
        struct stat status;

        if (place < 0 && (errno == ENOENT || errno == ENOTDIR))
                return fail_nobody(folder, command, err);
        if (place < 0)
                return error_set(err, "cannot look into %s: %s", folder, strerror(errno));
        if (fstatat(place, SOCKET_NAME, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? fail_nobody(folder, command, err)
                                       : error_set(err, "cannot look into %s: %s", folder, strerror(errno));
        if (faccessat(place, SOCKET_NAME, W_OK, AT_EACCESS) < 0 && errno == EACCES)
                return error_set(
                        err,
                        "the server of the state in %s is another user's, and its socket is for that user alone",
                        folder);
        client = calloc(1, sizeof(*client));
        if (!client)
                abort();
        client->pool = http_pool_new(NULL);
        client->folder = place;
        place = -1;
        snprintf(client->socket, sizeof(client->socket), "/proc/self/fd/%d/" SOCKET_NAME, client->folder);
        client->place = copy_of(folder);
        client->command = copy_of(command);
        *ret = client;
        return 0;
}

void client_closep(struct client **client) {
        if (!*client)
                return;
        http_pool_free((*client)->pool);
        close_descriptor(&(*client)->folder);
        free((*client)->place);
        free((*client)->command);
        free(*client);
        *client = NULL;
}

/* Nothing of an answer that is no JSON is shown: it may be anything, and long. */
static int fail_problem(int status, const struct strbuf *body, struct error *err) {
        json_t *problem JSON_CLEANUP = json_loadb(strbuf_text(body), body->length, 0, NULL);
        const char *detail = json_text(problem, "detail"), *title = json_text(problem, "title"),
                   *remedy = json_text(problem, "remedy");

        if (!detail && !title)
                return error_set(err, "the server refused, with HTTP status %d and no reason", status);
        return error_set_kind(err, status == 404 ? ERROR_NOT_FOUND : ERROR_FAILED, "%s%s%s",
                              detail ? detail : title, remedy ? "; " : "", remedy ? remedy : "");
}

static int fail_request(const struct client *client, enum http_failure failure, struct error *err) {
        switch (failure) {
        case HTTP_UNREACHABLE:
                return fail_nobody(client->place, client->command, err);
        case HTTP_BROKEN:
                return error_set_kind(err, ERROR_UNREACHABLE,
                                      "the server of the state in %s ended before its answer did",
                                      client->place);
        case HTTP_TIMED_OUT:
                return error_set_kind(err, ERROR_UNREACHABLE,
                                      "the server of the state in %s says nothing more", client->place);
        case HTTP_INTERRUPTED:
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
        case HTTP_TOO_LARGE:
                return error_set(err, "the server's answer is larger than anything that it may say");
        case HTTP_ANSWERED:
        case HTTP_TLS:
        case HTTP_REFUSED:
        default:
                return error_context(err, "cannot ask the server");
        }
}

int client_send(struct client *client, const char *path, struct http_request *request,
                struct http_response *ret, struct error *err) {
        struct strbuf url STRBUF_CLEANUP = STRBUF_INIT;
        enum http_failure failure;
        int result;

        strbuf_printf(&url, "http://localhost%s", path);
        request->url = strbuf_text(&url);
        request->answer_limit = ANSWER_MAX;
        request->socket = client->socket;
        request->quiet_ms = QUIET_MS;
        result = http_send(client->pool, request, ret, &failure, err);
        request->url = NULL;
        return result < 0 ? fail_request(client, failure, err) : 0;
}

int client_ask(struct client *client, const struct client_call *call, json_t **ret, struct error *err) {
        struct http_response response HTTP_RESPONSE_CLEANUP = HTTP_RESPONSE_INIT;
        struct http_header headers[4];
        struct http_request request = {
                .method = call->method,
                .headers = headers,
                .once = strcmp(call->method, "GET") != 0,
                .interrupt = call->interrupt,
                .source_length = call->source_length,
                .source = call->source,
                .sink = call->sink,
                .context = call->context,
        };
        char *body TEXT_CLEANUP = call->body ? json_compact(call->body) : NULL;
        json_t *answer = NULL;

        if (body) {
                request.body = body;
                request.body_length = strlen(body);
        }
        if (body || call->source)
                headers[request.header_count++] =
                        (struct http_header){ "Content-Type",
                                              body ? "application/json" : "application/octet-stream" };
        if (call->does_not_wait)
                headers[request.header_count++] = (struct http_header){ "Prefer", "respond-async" };
        if (call->accept)
                headers[request.header_count++] = (struct http_header){ "Accept", call->accept };
        if (call->if_none_match)
                headers[request.header_count++] =
                        (struct http_header){ "If-None-Match", call->if_none_match };
        if (client_send(client, call->path, &request, &response, err) < 0)
                return -1;
        if (response.status < 200 || response.status > 299)
                return fail_problem(response.status, &response.body, err);
        if (response.body.length > 0) {
                answer = json_loadb(strbuf_text(&response.body), response.body.length, JSON_ALLOW_NUL, NULL);
                if (!answer)
                        return error_set(err, "the server's answer is no JSON");
        }
        if (call->ret_status)
                *call->ret_status = response.status;
        if (ret)
                *ret = answer;
        else
                json_decref(answer);
        return 0;
}

bool client_is_id(const char *text) {
        return strlen(text) == CLIENT_ID_LENGTH && text[0] == 's' && text[1] == '-' &&
               strspn(text + 2, "abcdefghijklmnopqrstuvwxyz234567") == CLIENT_ID_LENGTH - 2;
}

void client_append_escaped(struct strbuf *to, const char *text, bool slashes) {
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

        for (; *text; text++) {
                if (strchr(plain, *text) || (slashes && *text == '/'))
                        strbuf_append_char(to, *text);
                else
                        strbuf_printf(to, "%%%02X", (unsigned)(unsigned char)*text);
        }
}
