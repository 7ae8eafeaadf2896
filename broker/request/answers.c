/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/request/answers.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "broker/request/call.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void send_json(struct server_request *request, unsigned status, const char *type, json_t *json) {
        char *text TEXT_CLEANUP = json_compact(json_checked(json));

        json_decref(json);
        if (!call_carry(request, strlen(text))) {
                server_add_header(request, "Retry-After", "1");
                answers_unrouted(
                        request, 503,
                        "the answers to this owner's, this client's or all requests together are too large: ask again");
                return;
        }
        server_answer(request, status, type, text, strlen(text));
}

void answers_json(struct server_request *request, unsigned status, json_t *json) {
        send_json(request, status, "application/json", json);
}

void answers_nothing(struct server_request *request) {
        server_answer(request, 204, "application/json", "", 0);
}

/* NULL: the API's own. */
static const struct answers_form *form_of(const struct server_request *request) {
        const struct broker *broker = request->context;

        for (size_t i = 0; broker && broker->forms && broker->forms[i]; i++) {
                if (broker->forms[i]->is_asked(request))
                        return broker->forms[i];
        }
        return NULL;
}

void answers_problem(struct server_request *request, const struct answers_problem *problem) {
        const struct answers_form *form = form_of(request);
        json_t *json;

        if (problem->retry_seconds > 0)
                server_add_header(request, "Retry-After",
                                  arena_printf(request->arena, "%lld", (long long)problem->retry_seconds));
        if (form) {
                form->problem(request, problem);
                return;
        }
        json = json_checked(json_object());
        json_set_text(json, "code", problem->code);
        json_put(json, "status", json_integer((json_int_t)problem->status));
        json_set_text(json, "title", problem->title);
        json_set_text(json, "detail", problem->detail);
        json_set_text(json, "remedy", problem->remedy);
        send_json(request, problem->status, "application/problem+json", json);
}

void answers_refusal(struct server_request *request, const struct problem *problem) {
        answers_problem(request, &(struct answers_problem){
                                         .status = problem_status(problem->code),
                                         .code = problem_name(problem->code),
                                         .title = problem_title(problem->code),
                                         .detail = problem->detail,
                                         .remedy = problem_remedy(problem->code),
                                         .retry_seconds = problem_retry_seconds(problem),
                                 });
}

void answers_state_failed(struct server_request *request, const struct error *err) {
        struct problem problem;

        log_error("%s: %s", request->route->path, err->message);
        (void)problem_set(&problem, PROBLEM_STORE_FAILED,
                          "the state cannot be read: the server's log says why");
        answers_refusal(request, &problem);
}

/* Codes are for programs, and stay; the sentences are for people, and may change. */
static const struct answers_code own_codes[] = {
        { 400, "bad-request", "this is no request that can be understood", NULL },
        { 400, "owner-required", "the client must say for whom it asks",
          "name the user in the header Berth-Owner" },
        { 400, "owner-invalid", "this is no owner's name", NULL },
        { 401, "unauthenticated", "the server does not know this client",
          "send the client's token: Authorization: Bearer TOKEN" },
        { 401, "token-invalid", "the token is not valid", "get a new one from the issuer" },
        { 403, "owner-not-allowed", "the client may not name an owner", "leave it out" },
        { 403, "not-permitted", "the client may not do this", "see `may` of kind: Server" },
        { 403, "foreign-origin", "the request comes from a page of another place", NULL },
        { 404, "no-such-route", "there is no such route", NULL },
        { 405, "method-not-allowed", "the route has no such method", NULL },
        { 414, "target-too-long", "the target is too long", NULL },
        { 415, "unsupported-media-type", "the body is not of a type that is taken here",
          "send the Content-Type that docs/api.md names" },
        { 417, "unknown-expectation", "the expectation cannot be met", NULL },
        { 421, "foreign-host", "the server has no such name", NULL },
        { 429, "too-many-requests", "the client asks too often", "wait for as long as Retry-After says" },
        { 429, "too-many-under-way", "as many requests are under way as one may have",
          "end one of them, or wait for one to end" },
        { 431, "head-too-large", "the head is too large", NULL },
        { 503, "no-seat", "as many requests are under way as may be", NULL },
        { 409, "no-shell", "there are no commands on the host here", "see `shell` of kind: Server" },
        { 409, "no-containers", "there are no containers where this stack's code runs", NULL },
        { 503, "no-keys", "the token cannot be checked at the moment", "ask again" },
        { 503, "no-sessions", "sessions cannot be had at the moment", NULL },
        { 505, "unknown-version", "the version of HTTP is not known", NULL },
};
#define OWN_COUNT (sizeof(own_codes) / sizeof(own_codes[0]))
_Static_assert(OWN_COUNT + PROBLEM_CODE_COUNT < ANSWERS_CODES_MAX, "all of them");

/* The engine's, once one was asked for. */
static struct answers_code engine_codes[PROBLEM_CODE_COUNT];

static void list_engine_codes(void) {
        for (enum problem_code code = PROBLEM_NONE; code < PROBLEM_CODE_COUNT; code++)
                engine_codes[code] = (struct answers_code){ problem_status(code), problem_name(code),
                                                            problem_title(code), problem_remedy(code) };
}

const struct answers_code *answers_code_at(size_t n) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        pthread_once(&once, list_engine_codes);
        if (n < OWN_COUNT)
                return &own_codes[n];
        n += 1 - OWN_COUNT; /* the first of the engine's stands for no problem */
        return n < PROBLEM_CODE_COUNT ? &engine_codes[n] : NULL;
}

const struct answers_code *answers_code(const char *code) {
        const struct answers_code *found;

        for (size_t i = 0; (found = answers_code_at(i)); i++) {
                if (strcmp(found->code, code) == 0)
                        return found;
        }
        abort();
}

static void send_problem(struct server_request *request, const struct answers_code *code, unsigned status,
                         const char *detail) {
        answers_problem(request, &(struct answers_problem){
                                         .status = status,
                                         .code = code->code,
                                         .title = code->title,
                                         .detail = detail,
                                         .remedy = code->remedy,
                                 });
}

void answers_refuse(struct server_request *request, const char *code, const char *detail) {
        const struct answers_code *found = answers_code(code);

        send_problem(request, found, found->status, detail);
}

void answers_unrouted(struct server_request *request, unsigned status, const char *why) {
        static const struct {
                unsigned status;
                const char *code;
        } rows[] = {
                { 403, "foreign-origin" },  { 404, "no-such-route" },   { 405, "method-not-allowed" },
                { 413, "too-large" },       { 414, "target-too-long" }, { 417, "unknown-expectation" },
                { 421, "foreign-host" },    { 431, "head-too-large" },  { 503, "no-seat" },
                { 505, "unknown-version" },
        };
        const struct answers_form *form = status == 404 || status == 405 ? form_of(request) : NULL;
        const char *code = "bad-request";

        if (form && form->uncovered) {
                form->uncovered(request);
                return;
        }

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (rows[i].status == status)
                        code = rows[i].code;
        }
        send_problem(request, answers_code(code), status, why);
}
