/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The routes: what was applied, and how the server does. A client that may name only some agents and environments finds nothing
 * of the others: they are not in its lists, and asked for by name they are not there, as what never was.
 */
#include "broker/api/api.h"

#include "base/json.h"
#include "broker/api/openapi.h"
#include "broker/api/shapes.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"
#include "broker/request/page.h"
#include "broker/service/measures.h"
#include "schema/value.h"

#include <string.h>

/* --- for the server's operators --- */

static void answer_health(struct server_request *request) {
        const struct broker *broker = request->context;
        bool healthy = instance_is_in_place(&broker->instance);

        server_answer_text(request, healthy ? 200 : 503,
                           healthy ? "ok\n" : "not ok: the state's folder was removed or replaced\n");
}

static void answer_readiness(struct server_request *request) {
        struct broker *broker = request->context;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        bool ready = ready_write(&broker->ready, &text);

        server_answer_text(request, ready ? 200 : 503, strbuf_text(&text));
}

static void answer_metrics(struct server_request *request) {
        struct broker *broker = request->context;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        measures_write(broker, &text);
        server_answer(request, 200, "text/plain; version=0.0.4; charset=utf-8", strbuf_text(&text),
                      text.length);
}

/* --- what was applied --- */

static void put_fields(json_t *json, const struct value *spec, const char *const *names) {
        for (; *names; names++) {
                const struct value *value = value_get(spec, *names);

                json_put(json, *names, value ? value_to_json(value, NULL) : json_null());
        }
}

/* What a client needs to choose one. Variables, roles and the like are its platform's business. */
static json_t *environment_json(const struct applied_environment *environment) {
        static const char *const fields[] = { "description",        "image",          "memoryMB",
                                              "workspaceStorageMB", "timeoutSeconds", NULL };
        json_t *json = json_checked(json_object());

        json_set_text(json, "name", environment->name);
        put_fields(json, environment->spec, fields);
        json_put(json, "appliedAt", json_from_time(environment->applied_ms));
        json_put(json, "incomplete", json_boolean(environment->incomplete));
        return json;
}

static json_t *agent_json(const struct applied_agent *agent) {
        json_t *json = json_checked(json_object());

        json_set_text(json, "name", agent->name);
        json_set_text(json, "type", agent->type);
        json_put(json, "environment", json_from_text(agent->environment));
        json_put(json, "inService", json_boolean(agent->in_service));
        json_put(json, "limits", agent->limits ? value_to_json(agent->limits, NULL) : json_null());
        json_put(json, "labels", agent->labels ? value_to_json(agent->labels, NULL) : json_null());
        json_put(json, "appliedAt", json_from_time(agent->applied_ms));
        return json;
}

static void answer_environments(struct server_request *request) {
        const struct broker *broker = request->context;
        struct applied_environment *environments;
        const struct door_caller *caller = &call_of(request)->door;
        struct page page;
        struct error err;
        size_t count;

        page_begin(&page, request);
        if (applied_environments(broker->applied, request->arena, &environments, &count, &err) < 0) {
                json_decref(page.items);
                answers_state_failed(request, &err);
                return;
        }
        for (size_t i = 0; i < count; i++) {
                if (door_lists(caller->environments, environments[i].name) &&
                    page_wants(&page, environments[i].name))
                        page_add(&page, environments[i].name, environment_json(&environments[i]));
        }
        page_end(&page, request);
}

static void answer_environment(struct server_request *request) {
        const struct broker *broker = request->context;
        struct applied_environment *environments;
        const char *name = request->parameters[0];
        const struct door_caller *caller = &call_of(request)->door;
        struct problem problem;
        struct error err;
        size_t count;

        if (applied_environments(broker->applied, request->arena, &environments, &count, &err) < 0) {
                answers_state_failed(request, &err);
                return;
        }
        for (size_t i = 0; i < count; i++) {
                if (strcmp(environments[i].name, name) == 0 && door_lists(caller->environments, name)) {
                        answers_json(request, 200, environment_json(&environments[i]));
                        return;
                }
        }
        (void)problem_set(&problem, PROBLEM_UNKNOWN_ENVIRONMENT, "there is no such environment");
        answers_refusal(request, &problem);
}

/* An agent stands for its environment: one that the client may not name is of no use to it. */
static bool finds_agent(const struct door_caller *caller, const char *name, const char *environment) {
        return door_lists(caller->agents, name) &&
               (!environment || door_lists(caller->environments, environment));
}

static void answer_agents(struct server_request *request) {
        const struct broker *broker = request->context;
        struct applied_agent *agents;
        const struct door_caller *caller = &call_of(request)->door;
        struct page page;
        struct error err;
        size_t count;

        page_begin(&page, request);
        if (applied_agents(broker->applied, request->arena, &agents, &count, &err) < 0) {
                json_decref(page.items);
                answers_state_failed(request, &err);
                return;
        }
        for (size_t i = 0; i < count; i++) {
                if (finds_agent(caller, agents[i].name, agents[i].environment) &&
                    page_wants(&page, agents[i].name))
                        page_add(&page, agents[i].name, agent_json(&agents[i]));
        }
        page_end(&page, request);
}

/* Swarms are of many agents: a client that may name only some finds none. */
static bool finds_dependent(const struct door_caller *caller, const char *address) {
        const char *name = strchr(address, '/') + 1;

        return !caller->agents || (strncmp(address, "Agent/", 6) == 0 && door_lists(caller->agents, name));
}

static void keep_what_is_found(const struct door_caller *caller, struct map *map) {
        size_t kept = 0;

        for (size_t i = 0; i < map->count; i++) {
                struct map_environment *environment = &map->environments[i];
                size_t dependents = 0;

                if (!door_lists(caller->environments, environment->name))
                        continue;
                for (size_t k = 0; k < environment->dependent_count; k++) {
                        if (finds_dependent(caller, environment->dependents[k].address))
                                environment->dependents[dependents++] = environment->dependents[k];
                }
                environment->dependent_count = dependents;
                map->environments[kept++] = *environment;
        }
        map->count = kept;
}

static void answer_map(struct server_request *request) {
        const struct broker *broker = request->context;
        struct error err;
        struct map map;

        if (applied_map(broker->applied, request->arena, &map, &err) < 0) {
                answers_state_failed(request, &err);
                return;
        }
        keep_what_is_found(&call_of(request)->door, &map);
        answers_json(request, 200, map_json(&map));
}

/* --- the API itself --- */

static void answer_document(struct server_request *request) {
        const struct broker *broker = request->context;

        answers_json(request, 200, openapi_document(broker->sessions != NULL));
}

static const struct operation_answer document_answers[] = {
        { .status = 200,
          .doc = "The description of this API.",
          .type = "application/json",
          .shape = &shape_document },
        { 0 },
};
static const struct operation_answer health_answers[] = {
        { .status = 200, .doc = "It does.", .type = "text/plain" },
        { .status = 503, .doc = "The server is not ready; the text says why.", .type = "text/plain" },
        { 0 }
};
static const struct operation_answer metrics_answers[] = {
        { .status = 200, .doc = "In Prometheus' text form.", .type = "text/plain" }, { 0 }
};
static const struct operation_answer environments_answers[] = {
        { .status = 200,
          .doc = "By name.",
          .type = "application/json",
          .shape = &shape_environment,
          .list = true },
        { 0 },
};
static const struct operation_answer environment_answers[] = {
        { .status = 200, .doc = "The environment.", .type = "application/json", .shape = &shape_environment },
        { 0 },
};
static const struct operation_answer agents_answers[] = {
        { .status = 200, .doc = "By name.", .type = "application/json", .shape = &shape_agent, .list = true },
        { 0 },
};
static const struct operation_answer map_answers[] = {
        { .status = 200,
          .doc = "As `berth map --json` has it.",
          .type = "application/json",
          .shape = &shape_map },
        { 0 },
};
static const char *const environment_problems[] = { "unknown-environment", NULL };

#define APPLIED "What was applied"
#define SERVER "The server"

const struct operation api_operations[] = {
        { .route = { .method = "GET", .path = "/v1/environments", .answer = answer_environments, CALL(0) },
          .needs = OPERATION_NEEDS_OWNER,
          .id = "listEnvironments",
          .tag = APPLIED,
          .title = "List environments",
          .doc = "The environments that the client may name; never their variables or roles.",
          .query = shape_page_query,
          .answers = environments_answers },
        { .route = { .method = "GET",
                     .path = "/v1/environments/{name}",
                     .answer = answer_environment,
                     CALL(0) },
          .needs = OPERATION_NEEDS_OWNER,
          .id = "getEnvironment",
          .tag = APPLIED,
          .title = "Get an environment",
          .answers = environment_answers,
          .problems = environment_problems },
        { .route = { .method = "GET", .path = "/v1/agents", .answer = answer_agents, CALL(0) },
          .needs = OPERATION_NEEDS_OWNER,
          .id = "listAgents",
          .tag = APPLIED,
          .title = "List agents",
          .doc = "The agents that the client may name, if it may name their environment too.",
          .query = shape_page_query,
          .answers = agents_answers },
        { .route = { .method = "GET", .path = "/v1/map", .answer = answer_map, CALL(0) },
          .needs = OPERATION_NEEDS_OWNER,
          .id = "getMap",
          .tag = APPLIED,
          .title = "Get the map of users",
          .answers = map_answers },
        { .route = { .method = "GET", .path = "/openapi.json", .answer = answer_document, CALL(0) },
          .needs = OPERATION_NEEDS_CLIENT,
          .id = "getOpenapi",
          .tag = SERVER,
          .title = "Get the API's description",
          .doc = "OpenAPI 3.1, as `berth serve --print-openapi` prints it.",
          .answers = document_answers },
        { .route = { .method = "GET", .path = "/healthz", .seat = SERVER_PROBE, .answer = answer_health },
          .needs = OPERATION_NEEDS_NOTHING,
          .id = "getHealth",
          .tag = SERVER,
          .title = "Check that the server lives",
          .answers = health_answers },
        { .route = { .method = "GET", .path = "/readyz", .seat = SERVER_PROBE, .answer = answer_readiness },
          .needs = OPERATION_NEEDS_NOTHING,
          .id = "getReadiness",
          .tag = SERVER,
          .title = "Check that the server is ready",
          .answers = health_answers },
        { .route = { .method = "GET", .path = "/metrics", .answer = answer_metrics, CALL(0) },
          .needs = OPERATION_NEEDS_CLIENT,
          .id = "getMetrics",
          .tag = SERVER,
          .title = "Get metrics",
          .answers = metrics_answers },
};
const size_t api_operation_count = sizeof(api_operations) / sizeof(api_operations[0]);

/* --- all tables --- */

const struct field *api_path_field(const char *name) {
        static const struct field *const alone[] = { &shape_container_path, &shape_approval_path };

        for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
                if (strcmp(name, alone[i]->name) == 0)
                        return alone[i];
        }
        return field_find(shape_path_fields, name);
}

const struct operation *api_next(size_t *at, bool with_sessions) {
        const struct {
                const struct operation *rows;
                size_t count;
                bool of_sessions;
        } tables[] = {
                { api_sessions_operations, api_sessions_operation_count, true },
                { api_containers_operations, api_containers_operation_count, true },
                { api_sandboxes_operations, api_sandboxes_operation_count, true },
                { api_approvals_operations, api_approvals_operation_count, true },
                { api_workspaces_operations, api_workspaces_operation_count, true },
                { api_downloads_operations, api_downloads_operation_count, true },
                { api_operations, api_operation_count, false },
        };
        size_t number = (*at)++;

        for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
                if (tables[i].of_sessions && !with_sessions)
                        continue;
                if (number < tables[i].count)
                        return &tables[i].rows[number];
                number -= tables[i].count;
        }
        return NULL;
}
