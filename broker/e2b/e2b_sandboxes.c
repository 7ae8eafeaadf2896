/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/e2b/e2b_sandboxes.h"

#include "base/clock.h"
#include "base/json.h"
#include "broker/e2b/e2b_call.h"
#include "broker/e2b/e2b_contexts.h"
#include "broker/e2b/e2b_token.h"
#include "broker/request/answers.h"
#include "broker/work/execute.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_SECONDS 300              /* of who does not say */
#define TIMEOUT_MAX (ENGINE_AGE_MAX - 1) /* what has ENGINE_AGE_MAX is paused */
#define BUSY_MS 30000                    /* that a pause waits for what runs */
/*
 * Never null: an SDK without a domain takes e2b.app's, and would send code and the sandbox's tokens to that company. No name below
 * "invalid" is ever resolved (RFC 6761, 6.4).
 */
#define DOMAIN "sandbox.invalid"
#define METADATA_MAX 56      /* labels; the rest is for contexts */
#define ENVD_VERSION "0.5.6" /* newer ones make the SDK send what is not taken here: gzip, X-Metadata-* */

/* --- as clients see them --- */

static const char *token_of(const struct server_request *request, enum e2b_token_kind kind,
                            const char *sandbox) {
        const struct call *call = request->data;

        return e2b_token_make(call->broker->e2b->key, kind,
                              door_client(call->broker->door, call->door.client), call->caller.owner,
                              call->door.until_s, sandbox, request->arena);
}

static void answer_sandbox(struct server_request *request, unsigned status, json_t *session) {
        const char *id = json_text(session, "id"), *environment = json_text(session, "environment");
        json_t *json = json_checked(
                json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "templateID", environment, "sandboxID", id,
                          "clientID", call_of(request)->caller.client, "envdVersion", ENVD_VERSION,
                          "envdAccessToken", token_of(request, E2B_TOKEN_ACCESS, id), "trafficAccessToken",
                          token_of(request, E2B_TOKEN_TRAFFIC, id), "domain", DOMAIN));

        json_decref(session);
        answers_json(request, status, json);
}

bool e2b_sandboxes_environments(struct server_request *request, struct e2b_environments *ret) {
        struct error err;

        if (applied_environments(call_of(request)->broker->applied, request->arena, &ret->items, &ret->count,
                                 &err) == 0)
                return true;
        answers_state_failed(request, &err);
        return false;
}

static json_t *metadata_of(const json_t *session) {
        json_t *metadata = json_checked(json_object()), *value;
        const char *name;

        json_object_foreach (json_object_get(session, "labels"), name, value) {
                if (!e2b_contexts_is_label(name))
                        json_put(metadata, name, json_incref(value));
        }
        return metadata;
}

static const char *state_of(const json_t *session) {
        return e2b_call_is_paused(session) ? "paused" : "running";
}

json_t *e2b_sandboxes_info(const json_t *session, const struct e2b_environments *environments) {
        const char *environment = json_text(session, "environment");
        const struct value *spec = NULL;
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);

        for (size_t i = 0; i < environments->count; i++) {
                if (strcmp(environments->items[i].name, environment) == 0)
                        spec = environments->items[i].spec;
        }
        return json_checked(json_pack(
                "{s:s, s:s, s:s, s:O, s:O, s:s, s:I, s:I, s:I, s:s, s:o, s:s}", "templateID", environment,
                "sandboxID", json_text(session, "id"), "clientID", json_text(session, "owner"), "startedAt",
                json_object_get(session, "createdAt"), "endAt", json_object_get(session, "expiresAt"),
                "envdVersion", ENVD_VERSION, "cpuCount", (json_int_t)(cpus > 0 ? cpus : 1), "memoryMB",
                (json_int_t)value_get_integer(spec, "memoryMB", 0), "diskSizeMB",
                (json_int_t)value_get_integer(spec, "workspaceStorageMB", 0), "state", state_of(session),
                "metadata", metadata_of(session), "domain", DOMAIN));
}

static bool find(struct server_request *request, json_t **ret) {
        struct call *call = call_of(request);
        struct problem problem;

        return engine_show(call->engine, &call->caller, request->parameters[0], ret, &problem) == 0 ||
               call_refuse(request, &problem);
}

void e2b_sandboxes_show(struct server_request *request) {
        struct e2b_environments environments;
        json_t *session JSON_CLEANUP = NULL;

        if (find(request, &session) && e2b_sandboxes_environments(request, &environments))
                answers_json(request, 200, e2b_sandboxes_info(session, &environments));
}

/* --- making one --- */

static const struct e2b_member create_members[] = {
        { "templateID", JSON_STRING, true }, { "timeout", JSON_INTEGER, false },
        { "metadata", JSON_OBJECT, false },  { "envVars", JSON_OBJECT, false },
        { "autoPause", JSON_TRUE, false },   { "allow_internet_access", JSON_TRUE, false },
        { NULL, JSON_NULL, false },
};

/* What would be left undone without a word, if it were taken. */
static const char *uncovered(const json_t *body) {
        static const char *const names[] = { "mcp", "network", "iam", "volumeMounts" };

        if (json_is_true(json_object_get(body, "autoPause")))
                return "autoPause is not there: a sandbox ends at its timeout; pause it before";
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const json_t *value = json_object_get(body, names[i]);

                if (json_object_size(value) > 0 || json_array_size(value) > 0)
                        return "mcp, network, iam and volumeMounts are not there: see docs/e2b.md";
        }
        return NULL;
}

static const char *metadata_problem(const json_t *metadata) {
        const char *name;
        json_t *value;

        if (json_object_size(metadata) > METADATA_MAX)
                return "metadata may have 56 names";
        json_object_foreach ((json_t *)(uintptr_t)metadata, name, value) {
                if (e2b_contexts_is_label(name))
                        return "names of metadata may not begin with " E2B_CONTEXTS_LABEL;
        }
        return NULL;
}

/* -1 where there is no such time: of an end that lies `timeout` seconds from now, as ttlSeconds. */
static int64_t ttl_of(int64_t created_ms, int64_t timeout) {
        int64_t age_ms = clock_wall_ms() - created_ms, age;

        age = age_ms > 0 ? (age_ms + 999) / 1000 : 0;
        if (timeout < 0 || timeout > TIMEOUT_MAX || age + timeout > TIMEOUT_MAX)
                return -1;
        return age + timeout > 0 ? age + timeout : 1;
}

static bool refuse_timeout(struct server_request *request) {
        return call_refuse_value(
                request, "timeout must be 0 to 1209599 seconds, and no sandbox lives for more than 14 days");
}

/*
 * The SDKs' own names, of the code interpreter and of the core, stand for a program that names no template. An environment that
 * has the name is meant. NULL where the request was answered.
 */
static const char *template_of(struct server_request *request, const char *named) {
        const struct call *call = call_of(request);
        struct e2b_environments environments;

        if (strcmp(named, "code-interpreter-v1") != 0 && strcmp(named, "base") != 0)
                return named;
        if (!e2b_sandboxes_environments(request, &environments))
                return NULL;
        for (size_t i = 0; i < environments.count; i++) {
                if (strcmp(environments.items[i].name, named) == 0)
                        return named;
        }
        if (call->broker->e2b->template_name)
                return call->broker->e2b->template_name;
        for (size_t i = 0; i < environments.count; i++) {
                if (door_lists(call->door.environments, environments.items[i].name))
                        return environments.items[i].name;
        }
        e2b_answer_error(request, 404, "no environment was applied yet that this client may use");
        return NULL;
}

void e2b_sandboxes_create(struct server_request *request) {
        struct call *call = call_of(request);
        const json_t *body = e2b_call_body(request, create_members), *metadata;
        struct engine_wish wish;
        struct problem problem;
        json_t *session;
        const char *wrong;

        if (!body)
                return;
        if ((wrong = uncovered(body))) {
                e2b_answer_error(request, 501, wrong);
                return;
        }
        metadata = call_object(body, "metadata");
        wish = (struct engine_wish){
                .labels = metadata,
                .variables = call_object(body, "envVars"),
                .idle_seconds = ENGINE_AGE_MAX,
                .ttl_seconds = json_integer_or(body, "timeout", TIMEOUT_SECONDS),
                .once = call_once(request, call->body.hash),
        };
        if ((wrong = metadata_problem(metadata))) {
                (void)call_refuse_value(request, wrong);
                return;
        }
        if (wish.ttl_seconds < 0 || wish.ttl_seconds > TIMEOUT_MAX) {
                (void)refuse_timeout(request);
                return;
        }
        wish.ttl_seconds += wish.ttl_seconds == 0;
        if (!(wish.environment = template_of(request, json_text(body, "templateID"))))
                return;
        if (engine_create(call->engine, &call->caller, &wish, &session, &problem) < 0)
                answers_refusal(request, &problem);
        else
                answer_sandbox(request, 201, session);
}

/* --- changing one --- */

static const struct e2b_member timeout_members[] = {
        { "timeout", JSON_INTEGER, false },
        { NULL, JSON_NULL, false },
};

/* *session becomes what it is then; false where the request was answered. */
static bool patch(struct server_request *request, int64_t ttl_seconds, json_t **session) {
        struct call *call = call_of(request);
        const struct engine_patch patch = { .idle_seconds = ENGINE_AGE_MAX, .ttl_seconds = ttl_seconds };
        struct problem problem;
        json_t *changed;

        if (engine_patch(call->engine, &call->caller, request->parameters[0], &patch, &changed, &problem) < 0)
                return call_refuse(request, &problem);
        json_decref(*session);
        *session = changed;
        return true;
}

/* Its memory comes back with the next execution. */
static void wake(struct server_request *request, bool only_paused, unsigned status) {
        const json_t *body = e2b_call_body(request, timeout_members);
        json_t *session JSON_CLEANUP = NULL;
        int64_t ttl, old;

        if (!body || !find(request, &session))
                return;
        if (only_paused && !e2b_call_is_paused(session)) {
                e2b_answer_error(request, 409, "the sandbox is running already");
                return;
        }
        ttl = ttl_of(clock_parse(json_text(session, "createdAt")),
                     json_integer_or(body, "timeout", TIMEOUT_SECONDS));
        old = json_integer_or(session, "ttlSeconds", 0);
        if (ttl < 0) {
                (void)refuse_timeout(request);
                return;
        }
        if (!e2b_call_is_paused(session) && ttl < old)
                ttl = old;
        if (patch(request, ttl, &session))
                answer_sandbox(request, status, json_incref(session));
}

void e2b_sandboxes_connect(struct server_request *request) {
        wake(request, false, 200);
}

void e2b_sandboxes_resume(struct server_request *request) {
        wake(request, true, 201);
}

void e2b_sandboxes_set_timeout(struct server_request *request) {
        const json_t *body = e2b_call_body(request, timeout_members);
        json_t *session JSON_CLEANUP = NULL;
        int64_t ttl;

        if (!body || !find(request, &session))
                return;
        ttl = ttl_of(clock_parse(json_text(session, "createdAt")), json_integer_or(body, "timeout", -1));
        if (ttl < 0)
                (void)refuse_timeout(request);
        else if (e2b_call_is_paused(session))
                e2b_answer_error(request, 409, "the sandbox is paused: connect to it");
        else if (patch(request, ttl, &session))
                answers_nothing(request);
}

/* What runs, or a sandbox that is only starting, is waited for; false where the request was answered, or its client has left. */
static bool begin_to_park(struct server_request *request) {
        struct call *call = call_of(request);
        const char *id = request->parameters[0];
        int64_t until_ms = clock_now_ms() + BUSY_MS;
        struct engine_follower *follower;
        enum server_wait waited = SERVER_READY;
        struct engine_event event;
        struct problem problem;
        bool parks = false;

        if (engine_follow_session(call->engine, &call->caller, id, &follower, &problem) < 0)
                return call_refuse(request, &problem);
        while (waited == SERVER_READY &&
               !(parks = engine_park(call->engine, &call->caller, id, &problem) == 0) &&
               problem.code == PROBLEM_BUSY) {
                int64_t left_ms = until_ms - clock_now_ms();

                while (engine_follower_next(follower, &event) == ENGINE_EVENT)
                        json_decref(event.data);
                waited = server_wait(request, engine_follower_descriptor(follower), POLLIN,
                                     left_ms > 0 ? (int)left_ms : 0);
        }
        engine_follower_close(follower);
        if (parks || waited == SERVER_LEFT)
                return parks;
        if (problem.code == PROBLEM_BUSY) {
                server_add_header(request, "Should-Retry", "false");
                e2b_answer_error(request, 503, "something runs in the sandbox, which cannot be paused then");
                return false;
        }
        return call_refuse(request, &problem);
}

void e2b_sandboxes_pause(struct server_request *request) {
        json_t *session JSON_CLEANUP = NULL;
        const char *status;

        if (!find(request, &session))
                return;
        if (e2b_call_is_paused(session)) {
                e2b_answer_error(request, 409, "the sandbox is paused already");
                return;
        }
        if (!begin_to_park(request) || !execute_await_parked(request, request->parameters[0]))
                return;
        json_decref(session);
        session = NULL;
        if (!find(request, &session))
                return;
        status = json_text(session, "status");
        if (!status || strcmp(status, "parked") != 0) {
                server_add_header(request, "Should-Retry", "false");
                e2b_answer_error(request, 503,
                                 "the sandbox could not be paused: its memory could not be kept, or code "
                                 "was run in it meanwhile");
        } else if (patch(request, ENGINE_AGE_MAX, &session)) {
                answers_nothing(request);
        }
}

void e2b_sandboxes_kill(struct server_request *request) {
        struct call *call = call_of(request);
        struct problem problem;

        if (engine_end(call->engine, &call->caller, request->parameters[0], &problem) < 0)
                answers_refusal(request, &problem);
        else
                answers_nothing(request);
}
