/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and containers in one list, and what a container uses, as it changes.
 *
 * The list has the containers first and the sessions behind them, each with its own list's cursor: whose it is, its id says.
 */
#include "broker/api/api.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "broker/api/shapes.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"
#include "containers/containers.h"

#include <string.h>

#define STATS_MS 1000
#define SESSIONS_BEGIN "0.s-22222222222222222222222222" /* before all that there can be */

static struct containers *containers_of(const struct call *call) {
        return broker_sessions_containers(call->broker->sessions);
}

/* --- the list --- */

/* Up to `limit`, behind the cursor (NULL: from the first on). *ret stays NULL where the client sees none. */
static int list_containers(struct server_request *request, const char *cursor, json_t **ret,
                           struct problem *problem) {
        struct call *call = call_of(request);
        const struct container_filter filter = { .statuses = call_texts(request, "status"),
                                                 .types = call_texts(request, "type"),
                                                 .environments = call_texts(request, "environment"),
                                                 .agents = call_texts(request, "agent"),
                                                 .all_owners = call->caller.observes,
                                                 .limit = call_limit(call),
                                                 .cursor = cursor };

        return call->door.rights & (BROKER_CONTAINERS | BROKER_OBSERVE) && containers_of(call)
                       ? containers_list(containers_of(call), &call->caller, &filter, ret, problem)
                       : 0;
}

static int list_sessions(struct server_request *request, const char *cursor, size_t limit, json_t **ret,
                         struct problem *problem) {
        struct call *call = call_of(request);
        const struct engine_filter filter = { .statuses = call_texts(request, "status"),
                                              .environments = call_texts(request, "environment"),
                                              .agents = call_texts(request, "agent"),
                                              .all_owners = call->caller.observes,
                                              .limit = limit,
                                              .cursor = cursor };

        return call->door.rights & (BROKER_EXECUTE | BROKER_OBSERVE) &&
                               text_is_permitted("session", call_texts(request, "type"))
                       ? engine_list(call->engine, &call->caller, &filter, ret, problem)
                       : 0;
}

static json_t *sandbox_json(json_t *item) {
        static const char *const same[] = { "id",    "name",   "owner",         "environment",
                                            "agent", "status", "queuePosition", "createdAt" };
        json_t *json = json_checked(json_object()), *type = json_object_get(item, "type");

        for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
                json_t *value = json_object_get(item, same[i]);

                json_put(json, same[i], value ? json_incref(value) : json_null());
        }
        json_put(json, "type", type ? json_incref(type) : json_string("session"));
        return json;
}

/* The page's items, and the cursor behind them. */
static json_t *add_page(json_t *items, const json_t *page) {
        json_t *item, *cursor = json_object_get(page, "cursor");
        size_t index;

        json_array_foreach (json_object_get(page, "items"), index, item)
                json_add(items, sandbox_json(item));
        return json_is_string(cursor) ? json_incref(cursor) : json_null();
}

static void answer_sandboxes(struct server_request *request) {
        const struct call *call = call_of(request);
        const char *cursor = json_text(call->query, "cursor"), *point = cursor ? strchr(cursor, '.') : NULL;
        bool only_sessions = point && point[1] == 's';
        size_t limit = call_limit(call);
        json_t *containers JSON_CLEANUP = NULL, *sessions JSON_CLEANUP = NULL,
                           *items JSON_CLEANUP = json_checked(json_array()), *next;
        struct problem problem;

        if (!only_sessions && list_containers(request, cursor, &containers, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        next = add_page(items, containers);
        if (json_is_null(next) && json_array_size(items) == limit) {
                next = json_checked(json_string(SESSIONS_BEGIN));
        } else if (json_is_null(next)) {
                if (list_sessions(request, only_sessions ? cursor : NULL, limit - json_array_size(items),
                                  &sessions, &problem) < 0) {
                        answers_refusal(request, &problem);
                        return;
                }
                next = add_page(items, sessions);
        }
        answers_json(request, 200, json_checked(json_pack("{s:O, s:o}", "items", items, "cursor", next)));
}

/* --- what one uses --- */

struct stats {
        struct container_watch *watch;
        const char *id;
        struct strbuf text;
        size_t sent;
        int64_t told;
        bool over;
};

/* False: it is gone. */
static bool tell_stats(struct server_request *request, struct stats *stats) {
        const struct call *call = call_of(request);
        json_t *container JSON_CLEANUP = NULL, *told JSON_CLEANUP = NULL;
        char *data TEXT_CLEANUP = NULL;
        struct problem gone;

        if (containers_show(containers_of(call), &call->caller, stats->id, &container, &gone) < 0)
                return false;
        told = json_checked(json_pack(
                "{s:s, s:o, s:O, s:O}", "event", "stats", "at", json_from_time(clock_wall_ms()), "status",
                json_object_get(container, "status"), "usage", json_object_get(container, "usage")));
        data = json_compact(told);
        strbuf_printf(&stats->text, "id: %lld\nevent: stats\ndata: ", (long long)++stats->told);
        strbuf_append(&stats->text, data);
        strbuf_append(&stats->text, "\n\n");
        return true;
}

static ssize_t read_stats(void *context, struct server_request *request, char *buffer, size_t size) {
        struct stats *stats = context;
        size_t count;

        if (stats->sent == stats->text.length && !stats->over) {
                enum server_wait waited =
                        stats->told == 0 ? SERVER_TIME : server_wait(request, -1, 0, STATS_MS);

                if (waited == SERVER_LEFT || waited == SERVER_STOPS)
                        return -1;
                strbuf_clear(&stats->text);
                stats->sent = 0;
                /* Asked first: what is told last is what it was at its end. */
                stats->over = container_watch_is_over(stats->watch);
                stats->over = !tell_stats(request, stats) || stats->over;
        }
        count = stats->text.length - stats->sent < size ? stats->text.length - stats->sent : size;
        memcpy(buffer, strbuf_text(&stats->text) + stats->sent, count);
        stats->sent += count;
        return (ssize_t)count;
}

static void end_stats(void *context) {
        struct stats *stats = context;

        container_watch_close(stats->watch);
        strbuf_release(&stats->text);
}

static void answer_stats(struct server_request *request) {
        const struct call *call = call_of(request);
        struct stats *stats = arena_alloc(request->arena, sizeof(*stats));
        const struct server_stream stream = { stats, read_stats, end_stats, -1 };
        struct problem problem;

        *stats = (struct stats){ .id = request->parameters[0], .text = STRBUF_INIT };
        if (!containers_of(call))
                answers_refuse(request, "no-containers", "there are no containers here");
        else if (container_watch_open(containers_of(call), &call->caller, stats->id, &stats->watch,
                                      &problem) < 0)
                answers_refusal(request, &problem);
        else
                server_answer_stream(request, 200, "text/event-stream", &stream);
}

/* --- the operations --- */

static const struct operation_answer sandboxes_answers[] = {
        { .status = 200,
          .doc = "Containers, then sessions, each newest last.",
          .type = "application/json",
          .shape = &shape_sandbox,
          .list = true },
        { 0 },
};
static const struct operation_answer stats_answers[] = {
        { .status = 200,
          .doc = "`stats`: ContainerStats, once a second.",
          .type = "text/event-stream",
          .events = &shape_stats_events },
        { 0 },
};
static const char *const stats_problems[] = { "not-found", "server-limit", "no-containers", NULL };

const struct operation api_sandboxes_operations[] = {
        { .route = { .method = "GET",
                     .path = "/v1/containers/{container}/stats",
                     .answer = answer_stats,
                     CALL(BROKER_CONTAINERS) },
          .id = "containerStats",
          .tag = "Containers",
          .title = "Follow a container's usage",
          .doc = "Now and each second, until the container has ended: `{at, status, usage}`, with "
                 "the `usage` that the container has.",
          .answers = stats_answers,
          .problems = stats_problems },
        { .route = { .method = "GET",
                     .path = "/v1/sandboxes",
                     .answer = answer_sandboxes,
                     CALL(BROKER_EXECUTE | BROKER_CONTAINERS | BROKER_OBSERVE) },
          .id = "listSandboxes",
          .tag = "Containers",
          .title = "List sessions and containers",
          .doc = "The owner's sessions and containers; every owner's for a client that may observe "
                 "and names no owner. Filters may stand several times.",
          .query = shape_sandboxes_query,
          .answers = sandboxes_answers },
};
const size_t api_sandboxes_operation_count =
        sizeof(api_sandboxes_operations) / sizeof(api_sandboxes_operations[0]);
