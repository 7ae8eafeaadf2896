/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/answers.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "broker/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { METRIC_REQUESTS, METRIC_COUNT };

static const struct metrics_family families[METRIC_COUNT] = {
        [METRIC_REQUESTS] = { "berth_serve_requests_total",
                              "Requests that were answered, by route and HTTP status; route is empty where none was found.",
                              { "route", "code" },
                              NULL,
                              METRICS_COUNTER },
};

struct metrics *answers_metrics_new(void) {
        static const struct metrics_table table = { families, METRIC_COUNT, NULL };

        return metrics_new(&table);
}

/* A client's word never becomes a label: the route is the table's. */
void answers_count(const struct server_request *request, unsigned status) {
        const struct broker *broker = request->context;
        char code[16];

        snprintf(code, sizeof(code), "%u", status);
        metrics_add(broker->metrics, METRIC_REQUESTS, 1,
                    (const char *const[]){ request->route ? request->route->path : "", code });
}

static void send_json(struct server_request *request, unsigned status, const char *type, json_t *json) {
        char *text TEXT_CLEANUP = json_compact(json_checked(json));

        json_decref(json);
        if (!call_carry(request, strlen(text))) {
                server_add_header(request, "Retry-After", "1");
                answers_unrouted(request, 503,
                                 "the answers to all requests together are too large: ask again");
                return;
        }
        answers_count(request, status);
        server_answer(request, status, type, text, strlen(text));
}

void answers_json(struct server_request *request, unsigned status, json_t *json) {
        send_json(request, status, "application/json", json);
}

void answers_nothing(struct server_request *request) {
        answers_count(request, 204);
        server_answer(request, 204, "application/json", "", 0);
}

void answers_problem(struct server_request *request, const struct answers_problem *problem) {
        json_t *json = json_checked(json_object());

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
                                 });
}

void answers_state_failed(struct server_request *request, const struct error *err) {
        struct problem problem;

        log_error("%s: %s", request->route->path, err->message);
        (void)problem_set(&problem, PROBLEM_STORE_FAILED,
                          "the state cannot be read: the server's log says why");
        answers_refusal(request, &problem);
}

/* Codes are for programs, and stay; the sentences of `why` are for people, and may change. */
void answers_unrouted(struct server_request *request, unsigned status, const char *why) {
        static const struct {
                unsigned status;
                const char *code, *title;
        } rows[] = {
                { 403, "foreign-origin", "the request comes from a page of another place" },
                { 404, "no-such-route", "there is no such route" },
                { 405, "method-not-allowed", "the route has no such method" },
                { 413, "too-large", "more than can be taken" },
                { 414, "target-too-long", "the target is too long" },
                { 417, "unknown-expectation", "the expectation cannot be met" },
                { 421, "foreign-host", "the server has no such name" },
                { 431, "head-too-large", "the head is too large" },
                { 503, "no-seat", "as many requests are under way as may be" },
                { 505, "unknown-version", "the version of HTTP is not known" },
        };
        struct answers_problem problem = { status, "bad-request", "this is no request that can be understood",
                                           why, NULL };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (rows[i].status != status)
                        continue;
                problem.code = rows[i].code;
                problem.title = rows[i].title;
        }
        answers_problem(request, &problem);
}
