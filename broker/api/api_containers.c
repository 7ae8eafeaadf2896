/* SPDX-License-Identifier: Apache-2.0 */
/* Containers over HTTP: what comes is put into their terms, and what they say is handed on. */
#include "broker/api/api.h"

#include "base/clock.h"
#include "base/json.h"
#include "broker/api/shapes.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"
#include "broker/work/container_logs.h"
#include "containers/containers.h"

#include <poll.h>
#include <string.h>

#define PRINTED_MAX ((size_t)65536)
#define STOPPING_MS (CONTAINERS_STOP_MS + 20000) /* what a stop may take, until it is told as it is */

static struct containers *containers_of(const struct call *call) {
        return broker_sessions_containers(call->broker->sessions);
}

/* The request was let in, and there are containers. */
static void begin(struct server_request *request) {
        if (call_admit(request) && !containers_of(call_of(request)))
                answers_refuse(
                        request, "no-containers",
                        "a container needs a sandbox of this machine: a stack of the provider local has them");
}

#define OF_CONTAINERS(rights) .mark = (rights), .begin = begin, .end = call_end
#define OF_CONTAINERS_WITH_JSON(rights) OF_CONTAINERS(rights), .body_max = BODY_MAX, .take = call_take

/* --- made --- */

/* False where there is nobody to answer, or the time is over, or the server stops: *ret_over says whether it has come to its end. */
static bool await_end(struct server_request *request, struct container_watch *watch, int64_t wait_ms,
                      bool *ret_over) {
        int64_t until_ms = clock_now_ms() + wait_ms, left_ms;

        for (;;) {
                container_watch_calm(watch);
                *ret_over = container_watch_is_over(watch);
                left_ms = until_ms - clock_now_ms();
                if (*ret_over || left_ms <= 0)
                        return true;
                switch (server_wait(request, container_watch_descriptor(watch), POLLIN, (int)left_ms)) {
                case SERVER_LEFT:
                        return false;
                case SERVER_STOPS:
                        return true;
                case SERVER_TIME:
                case SERVER_READY:
                default:
                        break;
                }
        }
}

/* The container as it is after that time, with what it printed where it has ended; NULL: the request was answered, or its client left. */
static json_t *wait_for(struct server_request *request, const char *id, int64_t wait_ms, bool with_output,
                        unsigned *ret_status) {
        const struct call *call = call_of(request);
        struct container_watch *watch;
        struct problem problem;
        json_t *container = NULL;
        bool over = false, there;

        if (container_watch_open(containers_of(call), &call->caller, id, &watch, &problem) < 0) {
                answers_refusal(request, &problem);
                return NULL;
        }
        there = await_end(request, watch, wait_ms, &over);
        if (there && containers_show(containers_of(call), &call->caller, id, &container, &problem) < 0)
                answers_refusal(request, &problem);
        if (container && over) {
                *ret_status = 200;
                if (with_output)
                        container_logs_add(watch, PRINTED_MAX, container);
        }
        container_watch_close(watch);
        return container;
}

static struct container_wish read_wish(const json_t *body) {
        const char *type = json_text(body, "type");
        const json_t *code = json_object_get(body, "code");

        return (struct container_wish){
                .agent = json_text(body, "agent"),
                .name = json_text(body, "name"),
                .service = type && strcmp(type, "service") == 0,
                .command = json_object_get(body, "command"),
                .code = json_string_value(code),
                .code_length = json_string_length(code),
                .language = json_text(body, "language"),
                .variables = call_object(body, "variables"),
                .ports = json_object_get(body, "ports"),
                .restart = json_text(body, "restart"),
                .timeout_seconds = json_integer_or(body, "timeoutSeconds", 0),
        };
}

static void answer_create(struct server_request *request) {
        struct call *call = call_of(request);
        struct container_wish wish;
        struct engine_once once;
        struct problem problem;
        const json_t *body;
        json_t *container;
        unsigned status;
        int64_t wait_ms;
        int seen;

        if (!(body = body_object(&call->body, request)))
                return;
        wish = read_wish(body);
        wait_ms = json_integer_or(body, "waitSeconds", 0) * 1000;
        status = wish.service ? 201 : 202;
        if (wish.service && wait_ms > 0) {
                (void)call_refuse_value(
                        request,
                        "waitSeconds is for a temporary container: a service has no end to wait for");
                return;
        }
        seen = call_once_look(request, "", &once, &container, &status);
        if (seen < 0)
                return;
        if (seen == 0 &&
            containers_create(containers_of(call), &call->caller, &wish, &container, &problem) < 0) {
                call_once_end(request, "", &once, 0, NULL);
                answers_refusal(request, &problem);
                return;
        }
        /* Kept before the end is waited for: a request that comes again waits for the same container. */
        if (seen == 0)
                call_once_end(request, "", &once, status, container);
        if (wait_ms > 0) {
                const char *id = arena_strdup(request->arena, json_text(container, "id"));

                json_decref(container);
                container = wait_for(request, id, wait_ms, true, &status);
        }
        if (container)
                answers_json(request, status, container);
}

/* --- seen --- */

static void answer_container(struct server_request *request) {
        struct call *call = call_of(request);
        struct problem problem;
        json_t *container;

        if (containers_show(containers_of(call), &call->caller, request->parameters[0], &container,
                            &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, container);
}

static void answer_list(struct server_request *request) {
        struct call *call = call_of(request);
        const struct container_filter filter = { .statuses = call_texts(request, "status"),
                                                 .types = call_texts(request, "type"),
                                                 .agents = call_texts(request, "agent"),
                                                 .names = call_texts(request, "name"),
                                                 .all_owners = call->caller.observes,
                                                 .limit = call_limit(call),
                                                 .cursor = json_text(call->query, "cursor") };
        struct problem problem;
        json_t *list;

        if (containers_list(containers_of(call), &call->caller, &filter, &list, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_json(request, 200, list);
}

static void answer_logs(struct server_request *request) {
        struct call *call = call_of(request);
        const char *follow = json_text(call->query, "follow"), *since = json_text(call->query, "since");
        struct container_logs wanted = { .follow = follow && strcmp(follow, "true") == 0,
                                         .json = call_header_has(request, "Accept", "application/jsonl"),
                                         .tail = json_integer_or(call->query, "tail", -1),
                                         .since_ms = since ? clock_parse(since) : 0 };
        struct container_watch *watch;
        struct problem problem;

        if (wanted.since_ms < 0) {
                (void)call_refuse_value(request, "since is no time");
                return;
        }
        if (container_watch_open(containers_of(call), &call->caller, request->parameters[0], &watch,
                                 &problem) < 0)
                answers_refusal(request, &problem);
        else
                container_logs_answer(request, watch, &wanted);
}

/* --- changed --- */

static void answer_order(struct server_request *request, enum container_order order) {
        struct call *call = call_of(request);
        bool waits = !call_header_has(request, "Prefer", "respond-async") && order == CONTAINER_STOP;
        const char *id = request->parameters[0];
        unsigned status = 202;
        struct problem problem;
        json_t *container;

        if (!body_object(&call->body, request))
                return;
        if (containers_order(containers_of(call), &call->caller, id, order, &container, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        /* Who stops another's, as he may, cannot wait for it: for him it is not there. */
        if (waits && call->caller.owner && strcmp(json_text(container, "owner"), call->caller.owner) == 0) {
                json_decref(container);
                container = wait_for(request, id, STOPPING_MS, false, &status);
        }
        if (container)
                answers_json(request, status, container);
}

static void answer_stop(struct server_request *request) {
        answer_order(request, CONTAINER_STOP);
}

static void answer_start(struct server_request *request) {
        answer_order(request, CONTAINER_START);
}

static void answer_restart(struct server_request *request) {
        answer_order(request, CONTAINER_RESTART);
}

static void answer_remove(struct server_request *request) {
        struct call *call = call_of(request);
        struct problem problem;

        if (containers_remove(containers_of(call), &call->caller, request->parameters[0], &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}

/* --- more that runs in one --- */

static json_t *await_result(struct server_request *request, struct container_watch *watch,
                            struct problem *problem) {
        json_t *result;

        for (;;) {
                container_watch_calm(watch);
                if ((result = container_watch_result(watch)))
                        return result;
                switch (server_wait(request, container_watch_descriptor(watch), POLLIN, -1)) {
                case SERVER_LEFT:
                        return NULL;
                case SERVER_STOPS:
                        (void)problem_set(problem, PROBLEM_STOPPING,
                                          "the execution is interrupted, since its client is gone");
                        answers_refusal(request, problem);
                        return NULL;
                case SERVER_TIME:
                case SERVER_READY:
                default:
                        break;
                }
        }
}

static void answer_exec(struct server_request *request) {
        struct call *call = call_of(request);
        struct container_watch *watch;
        struct engine_code code;
        struct problem problem;
        const json_t *body, *text, *input;
        json_t *result = NULL;

        if (!(body = body_object(&call->body, request)))
                return;
        text = json_object_get(body, "code");
        input = json_object_get(body, "stdin");
        code = (struct engine_code){ .code = json_string_value(text),
                                     .code_length = json_string_length(text),
                                     .language = json_text(body, "language"),
                                     .variables = call_object(body, "variables"),
                                     .input = json_string_value(input),
                                     .input_length = json_string_length(input),
                                     .timeout_seconds = json_integer_or(body, "timeoutSeconds", 0) };
        if (container_watch_open(containers_of(call), &call->caller, request->parameters[0], &watch,
                                 &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        if (container_watch_exec(watch, &code, json_object_get(body, "command"), &problem) < 0)
                answers_refusal(request, &problem);
        else
                result = await_result(request, watch, &problem);
        container_watch_close(watch);
        if (result)
                answers_json(request, 200, result);
}

/* --- the operations --- */

#define CONTAINERS "Containers"
#define JSON "application/json"

static const struct operation_answer create_answers[] = {
        { .status = 201,
          .doc = "A service, which is being started.",
          .type = JSON,
          .shape = &shape_container },
        { .status = 202,
          .doc = "A temporary container, which is being started or waits for room.",
          .type = JSON,
          .shape = &shape_container },
        { .status = 200,
          .doc = "A temporary container that has ended within `waitSeconds`.",
          .type = JSON,
          .shape = &shape_container_ended },
        { 0 },
};
static const struct operation_answer container_answers[] = {
        { .status = 200, .doc = "The container.", .type = JSON, .shape = &shape_container }, { 0 }
};
static const struct operation_answer list_answers[] = {
        { .status = 200,
          .doc = "Containers, newest last.",
          .type = JSON,
          .shape = &shape_container,
          .list = true },
        { 0 },
};
static const struct operation_answer stop_answers[] = {
        { .status = 200, .doc = "The container has ended.", .type = JSON, .shape = &shape_container },
        { .status = 202, .doc = "The container is being stopped.", .type = JSON, .shape = &shape_container },
        { 0 },
};
static const struct operation_answer order_answers[] = {
        { .status = 202, .doc = "The server is doing it.", .type = JSON, .shape = &shape_container }, { 0 }
};
static const struct operation_answer nothing_answers[] = { { .status = 204, .doc = "Done." }, { 0 } };
static const struct operation_answer logs_answers[] = {
        { .status = 200, .doc = "The container's output.", .type = "text/plain" },
        { .status = 200,
          .doc = "The same, as one JSON object a line.",
          .type = "application/jsonl",
          .shape = &shape_log_line },
        { 0 },
};
static const struct operation_answer exec_answers[] = {
        { .status = 200,
          .doc = "The execution has ended; `session` is the container's id.",
          .type = JSON,
          .shape = &shape_execution },
        { 0 },
};

static const char *const create_problems[] = {
        "unknown-agent", "unknown-environment",    "agent-out-of-service",  "conflict",       "busy",
        "not-found",     "idempotency-key-reused", "idempotency-keys-full", "owner-limit",    "server-limit",
        "agent-limit",   "place-failed",           "no-containers",         "workspace-full", NULL
};
static const char *const list_problems[] = { "no-containers", NULL };
static const char *const found_problems[] = { "not-found", "no-containers", NULL };
static const char *const watch_problems[] = { "not-found", "server-limit", "no-containers", NULL };
static const char *const start_problems[] = { "not-found", "conflict", "no-containers", NULL };
static const char *const exec_problems[] = { "not-found",    "not-running",   "queue-full", "too-large",
                                             "server-limit", "no-containers", NULL };

const struct operation api_containers_operations[] = {
        { .route = { .method = "POST",
                     .path = "/v1/containers",
                     .answer = answer_create,
                     OF_CONTAINERS_WITH_JSON(BROKER_CONTAINERS) },
          .id = "createContainer",
          .tag = CONTAINERS,
          .title = "Run a container",
          .doc = "A sandbox with a command of its own, for an agent and one owner. The record and "
                 "log of a temporary container stay for an hour after its end.",
          .headers = shape_once_headers,
          .body = &shape_container_wish,
          .example =
                  "{\"agent\": \"analyst\", \"command\": [\"python3\", \"-c\", \"print(6 * 7)\"], \"waitSeconds\": 60}",
          .answers = create_answers,
          .problems = create_problems },
        { .route = { .method = "GET",
                     .path = "/v1/containers",
                     .answer = answer_list,
                     OF_CONTAINERS(BROKER_CONTAINERS | BROKER_OBSERVE) },
          .id = "listContainers",
          .tag = CONTAINERS,
          .title = "List containers",
          .doc = "The owner's containers; every owner's for a client that may observe and names no "
                 "owner. Filters may stand several times.",
          .query = shape_containers_query,
          .answers = list_answers,
          .problems = list_problems },
        { .route = { .method = "GET",
                     .path = "/v1/containers/{container}",
                     .answer = answer_container,
                     OF_CONTAINERS(BROKER_CONTAINERS | BROKER_OBSERVE | BROKER_ADMINISTER) },
          .id = "getContainer",
          .tag = CONTAINERS,
          .title = "Get a container",
          .answers = container_answers,
          .problems = found_problems },
        { .route = { .method = "DELETE",
                     .path = "/v1/containers/{container}",
                     .answer = answer_remove,
                     OF_CONTAINERS(BROKER_CONTAINERS | BROKER_ADMINISTER) },
          .id = "removeContainer",
          .tag = CONTAINERS,
          .title = "Remove a container",
          .doc = "Its processes are killed; its record and its log are deleted.",
          .answers = nothing_answers,
          .problems = found_problems },
        { .route = { .method = "GET",
                     .path = "/v1/containers/{container}/logs",
                     .answer = answer_logs,
                     OF_CONTAINERS(BROKER_CONTAINERS) },
          .id = "containerLogs",
          .tag = CONTAINERS,
          .title = "Read a container's log",
          .doc = "The last 5 to 10 MiB of both streams, also of earlier runs of a service. Lines of the stream `berth` are the server's.",
          .query = shape_logs_query,
          .headers = shape_logs_headers,
          .answers = logs_answers,
          .problems = watch_problems },
        { .route = { .method = "POST",
                     .path = "/v1/containers/{container}/stop",
                     .answer = answer_stop,
                     OF_CONTAINERS_WITH_JSON(BROKER_CONTAINERS | BROKER_ADMINISTER) },
          .id = "stopContainer",
          .tag = CONTAINERS,
          .title = "Stop a container",
          .doc = "Its command gets SIGTERM, and is killed ten seconds later. The answer waits for "
                 "that, unless the request says otherwise.",
          .headers = shape_stop_headers,
          .body = &shape_nothing,
          .answers = stop_answers,
          .problems = watch_problems },
        { .route = { .method = "POST",
                     .path = "/v1/containers/{container}/start",
                     .answer = answer_start,
                     OF_CONTAINERS_WITH_JSON(BROKER_CONTAINERS) },
          .id = "startContainer",
          .tag = CONTAINERS,
          .title = "Start a service",
          .doc = "Deletes a service that was stopped or has ended. A running service goes on.",
          .body = &shape_nothing,
          .answers = order_answers,
          .problems = start_problems },
        { .route = { .method = "POST",
                     .path = "/v1/containers/{container}/restart",
                     .answer = answer_restart,
                     OF_CONTAINERS_WITH_JSON(BROKER_CONTAINERS) },
          .id = "restartContainer",
          .tag = CONTAINERS,
          .title = "Restart a service",
          .doc = "Only for a service.",
          .body = &shape_nothing,
          .answers = order_answers,
          .problems = start_problems },
        { .route = { .method = "POST",
                     .path = "/v1/containers/{container}/exec",
                     .answer = answer_exec,
                     OF_CONTAINERS_WITH_JSON(BROKER_CONTAINERS) },
          .id = "execInContainer",
          .tag = CONTAINERS,
          .title = "Execute code in a container",
          .doc = "One execution runs at a time, eight wait in line. It shares the container's "
                 "processes, files and limits. A client that disconnects interrupts it.",
          .body = &shape_container_exec,
          .example = "{\"command\": [\"ps\", \"aux\"]}",
          .answers = exec_answers,
          .problems = exec_problems },
};
const size_t api_containers_operation_count =
        sizeof(api_containers_operations) / sizeof(api_containers_operations[0]);
