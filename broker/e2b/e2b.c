/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/e2b/e2b.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/auth/first_token.h"
#include "broker/e2b/e2b_call.h"
#include "broker/e2b/e2b_contexts.h"
#include "broker/e2b/e2b_files.h"
#include "broker/e2b/e2b_filesystem.h"
#include "broker/e2b/e2b_list.h"
#include "broker/e2b/e2b_run.h"
#include "broker/e2b/e2b_sandboxes.h"
#include "broker/request/answers.h"
#include "broker/request/body.h"
#include "broker/request/call.h"

#include <stdlib.h>
#include <string.h>

int e2b_new(const struct broker_config *config, const char *folder, struct e2b **ret, struct error *err) {
        const struct value *compat = value_get(config->spec, "compat");
        struct e2b *e2b;

        *ret = NULL;
        if (!value_get_boolean(compat, "e2b", false))
                return 0;
        e2b = calloc(1, sizeof(*e2b));
        if (!e2b || pthread_mutex_init(&e2b->labels, NULL) != 0)
                abort();
        *ret = e2b;
        e2b->template_name = value_get_text(compat, "e2bTemplate");
        return first_token(folder, "e2b.key", e2b->key, err);
}

void e2b_free(struct e2b *e2b) {
        if (!e2b)
                return;
        explicit_bzero(e2b->key, sizeof(e2b->key));
        pthread_mutex_destroy(&e2b->labels);
        free(e2b);
}

#define END_OF_STREAM 0x02 /* a flag of an enveloped message */

/* --- errors --- */

/* Connect's procedures: their errors carry words, all others numbers. */
static const char *const procedures[] = { "/filesystem.Filesystem/", "/process.Process/" };

static bool begins_with(const char *path, const char *beginning) {
        return path && strncmp(path, beginning, strlen(beginning)) == 0;
}

static bool is_procedure(const struct server_request *request) {
        for (size_t i = 0; i < sizeof(procedures) / sizeof(procedures[0]); i++) {
                if (begins_with(request->path, procedures[i]))
                        return true;
        }
        return false;
}

static bool is_asked(const struct server_request *request) {
        static const char *const paths[] = { "/v2/sandboxes", "/sandboxes", "/execute",
                                             "/contexts",     "/files",     "/health" };
        static const char *const headers[] = { "X-API-Key", "E2b-Sandbox-Id", "X-Access-Token" };
        const struct broker *broker = request->context;

        if (!broker || !broker->e2b)
                return false;
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                size_t length = strlen(paths[i]);

                if (begins_with(request->path, paths[i]) &&
                    (request->path[length] == '\0' || request->path[length] == '/'))
                        return true;
        }
        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
                if (server_has_header(request, headers[i]))
                        return true;
        }
        return is_procedure(request);
}

/* connectrpc.com, "Error Codes". */
static const char *word_of(unsigned status) {
        static const struct {
                unsigned status;
                const char *word;
        } words[] = {
                { 400, "invalid_argument" },   { 401, "unauthenticated" },    { 403, "permission_denied" },
                { 404, "not_found" },          { 409, "already_exists" },     { 413, "resource_exhausted" },
                { 429, "resource_exhausted" }, { 501, "unimplemented" },      { 502, "unavailable" },
                { 503, "unavailable" },        { 507, "resource_exhausted" },
        };

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                if (words[i].status == status)
                        return words[i].word;
        }
        return status < 500 ? "invalid_argument" : "internal";
}

/* connectrpc.com, "Streaming": the request is enveloped messages, and "connect+json" or "connect+proto" says in what. */
static const char *stream_type(const struct server_request *request) {
        static const char *const types[] = { "application/connect+json", "application/connect+proto" };

        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
                if (body_is_type(request, types[i]))
                        return types[i];
        }
        return NULL;
}

/*
 * A stream is answered by 200 whatever became of it. Its last message, marked as such by a flag, is JSON in both encodings, and has the
 * error.
 */
static void answer_end_of_stream(struct server_request *request, const char *type, json_t *error) {
        json_t *end JSON_CLEANUP = json_checked(json_pack("{s:o}", "error", error));
        char *text TEXT_CLEANUP = json_compact(end);
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        size_t length = strlen(text);

        strbuf_append_char(&bytes, END_OF_STREAM);
        for (int shift = 24; shift >= 0; shift -= 8)
                strbuf_append_char(&bytes, (char)(length >> shift & 0xff));
        strbuf_append(&bytes, text);
        server_answer(request, 200, type, strbuf_text(&bytes), bytes.length);
}

void e2b_answer_error(struct server_request *request, unsigned status, const char *message) {
        json_t *json = json_checked(json_object());
        const char *type = is_procedure(request) ? stream_type(request) : NULL;

        if (is_procedure(request))
                json_set_text(json, "code", word_of(status));
        else
                json_put(json, "code", json_integer((json_int_t)status));
        json_set_text(json, "message", message);
        if (type)
                answer_end_of_stream(request, type, json);
        else
                answers_json(request, status, json);
}

static void answer_problem(struct server_request *request, const struct answers_problem *problem) {
        e2b_answer_error(request, problem->status, problem->detail);
}

static void answer_uncovered(struct server_request *request) {
        e2b_answer_error(
                request, 501,
                "berth does not have this part of E2B's interface: docs/e2b.md names the parts that it has");
}

const struct answers_form e2b_form = { is_asked, answer_problem, answer_uncovered };

/* --- routes --- */

static void answer_health(struct server_request *request) {
        answers_nothing(request);
}

#define API(verb, where, function)                                                                    \
        {                                                                                             \
                .method = (verb), .path = (where), .answer = (function), .mark = BROKER_EXECUTE,      \
                .begin = e2b_call_begin, .end = e2b_call_end, .body_max = BODY_MAX, .take = call_take \
        }
#define SANDBOX(verb, where, function, by)                                                       \
        {                                                                                        \
                .method = (verb), .path = (where), .answer = (function), .mark = BROKER_EXECUTE, \
                .begin = (by), .end = e2b_call_end, .body_max = BODY_MAX, .take = call_take      \
        }

const struct server_route e2b_routes[] = {
        API("POST", "/v2/sandboxes", e2b_sandboxes_create),
        API("GET", "/v2/sandboxes", e2b_list_answer),
        API("POST", "/v2/sandboxes/{id}/connect", e2b_sandboxes_connect),
        /* As SDKs before 2.51 ask. */
        API("POST", "/sandboxes", e2b_sandboxes_create),
        API("GET", "/sandboxes", e2b_list_answer_running),
        API("POST", "/sandboxes/{id}/connect", e2b_sandboxes_connect),
        API("POST", "/sandboxes/{id}/resume", e2b_sandboxes_resume),
        API("GET", "/sandboxes/{id}", e2b_sandboxes_show),
        API("DELETE", "/sandboxes/{id}", e2b_sandboxes_kill),
        API("POST", "/sandboxes/{id}/timeout", e2b_sandboxes_set_timeout),
        API("POST", "/sandboxes/{id}/pause", e2b_sandboxes_pause),
        SANDBOX("POST", "/execute", e2b_run_answer, e2b_call_begin_by_access),
        SANDBOX("GET", "/contexts", e2b_contexts_list, e2b_call_begin_by_traffic),
        SANDBOX("POST", "/contexts", e2b_contexts_create, e2b_call_begin_by_traffic),
        SANDBOX("POST", "/contexts/{id}/restart", e2b_contexts_restart, e2b_call_begin_by_traffic),
        SANDBOX("DELETE", "/contexts/{id}", e2b_contexts_remove, e2b_call_begin_by_traffic),
        SANDBOX("POST", "/filesystem.Filesystem/Stat", e2b_filesystem_stat, e2b_call_begin_by_access),
        SANDBOX("POST", "/filesystem.Filesystem/ListDir", e2b_filesystem_list, e2b_call_begin_by_access),
        SANDBOX("POST", "/filesystem.Filesystem/MakeDir", e2b_filesystem_make, e2b_call_begin_by_access),
        SANDBOX("POST", "/filesystem.Filesystem/Move", e2b_filesystem_move, e2b_call_begin_by_access),
        SANDBOX("POST", "/filesystem.Filesystem/Remove", e2b_filesystem_remove, e2b_call_begin_by_access),
        SANDBOX("GET", "/health", answer_health, e2b_call_begin_by_access),
        SANDBOX("GET", "/files", e2b_files_answer_get, e2b_call_begin_by_access),
        { .method = "POST",
          .path = "/files",
          .mark = BROKER_EXECUTE,
          .body_max = CALL_TRANSFER_MAX,
          .begin = e2b_files_begin_put,
          .take = e2b_files_take_put,
          .answer = e2b_files_answer_put,
          .end = e2b_files_end_put },
};
const size_t e2b_route_count = sizeof(e2b_routes) / sizeof(e2b_routes[0]);
