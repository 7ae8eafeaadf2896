/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/e2b_sandboxes.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/terminal.h"
#include "broker/answers.h"
#include "broker/e2b_call.h"
#include "broker/e2b_contexts.h"
#include "broker/e2b_token.h"
#include "broker/execute.h"
#include "server/head.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_SECONDS 300              /* of who does not say */
#define TIMEOUT_MAX (ENGINE_AGE_MAX - 1) /* what has ENGINE_AGE_MAX is paused */
#define BUSY_MS 30000                    /* that a pause waits for what runs */
#define METADATA_MAX 56                  /* labels; the rest is for contexts */
#define PAGE_MAX 1000
#define ENVD_VERSION "0.5.6" /* newer ones make the SDK send what is not taken here: gzip, X-Metadata-* */

/* --- as clients see them --- */

static const char *token_of(const struct server_request *request, enum e2b_token_kind kind,
                            const char *sandbox) {
        const struct call *call = request->data;

        return e2b_token_make(call->broker->e2b->key, kind,
                              door_client(call->broker->door, call->door.client), call->caller.owner, sandbox,
                              request->arena);
}

static void answer_sandbox(struct server_request *request, unsigned status, json_t *session) {
        const char *id = json_text(session, "id"), *environment = json_text(session, "environment");
        json_t *json = json_checked(
                json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:n}", "templateID", environment, "sandboxID", id,
                          "clientID", call_of(request)->caller.client, "envdVersion", ENVD_VERSION,
                          "envdAccessToken", token_of(request, E2B_TOKEN_ACCESS, id), "trafficAccessToken",
                          token_of(request, E2B_TOKEN_TRAFFIC, id), "domain"));

        json_decref(session);
        answers_json(request, status, json);
}

struct environments {
        struct applied_environment *items;
        size_t count;
};

static bool read_environments(struct server_request *request, struct environments *ret) {
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

static json_t *info_json(const json_t *session, const struct environments *environments) {
        const char *environment = json_text(session, "environment");
        const struct value *spec = NULL;
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);

        for (size_t i = 0; i < environments->count; i++) {
                if (strcmp(environments->items[i].name, environment) == 0)
                        spec = environments->items[i].spec;
        }
        return json_checked(json_pack(
                "{s:s, s:s, s:s, s:O, s:O, s:s, s:I, s:I, s:I, s:s, s:o}", "templateID", environment,
                "sandboxID", json_text(session, "id"), "clientID", json_text(session, "owner"), "startedAt",
                json_object_get(session, "createdAt"), "endAt", json_object_get(session, "expiresAt"),
                "envdVersion", ENVD_VERSION, "cpuCount", (json_int_t)(cpus > 0 ? cpus : 1), "memoryMB",
                (json_int_t)value_get_integer(spec, "memoryMB", 0), "diskSizeMB",
                (json_int_t)value_get_integer(spec, "workspaceStorageMB", 0), "state", state_of(session),
                "metadata", metadata_of(session)));
}

static bool find(struct server_request *request, json_t **ret) {
        struct call *call = call_of(request);
        struct problem problem;

        return engine_show(call->engine, &call->caller, request->parameters[0], ret, &problem) == 0 ||
               call_refuse(request, &problem);
}

void e2b_sandboxes_show(struct server_request *request) {
        struct environments environments;
        json_t *session JSON_CLEANUP = NULL;

        if (find(request, &session) && read_environments(request, &environments))
                answers_json(request, 200, info_json(session, &environments));
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
        int64_t age_ms = clock_system.wall_ms(&clock_system) - created_ms, age;

        age = age_ms > 0 ? (age_ms + 999) / 1000 : 0;
        if (timeout < 0 || timeout > TIMEOUT_MAX || age + timeout > TIMEOUT_MAX)
                return -1;
        return age + timeout > 0 ? age + timeout : 1;
}

static bool refuse_timeout(struct server_request *request) {
        return call_refuse_value(
                request, "timeout must be 0 to 1209599 seconds, and no sandbox lives for more than 14 days");
}

/* NULL where the request was answered. */
static const char *template_of(struct server_request *request, const char *named) {
        const struct call *call = call_of(request);
        struct environments environments;

        if (strcmp(named, "code-interpreter-v1") != 0)
                return named;
        if (call->broker->e2b->template_name)
                return call->broker->e2b->template_name;
        if (!read_environments(request, &environments))
                return NULL;
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
void e2b_sandboxes_connect(struct server_request *request) {
        const json_t *body = e2b_call_body(request, timeout_members);
        json_t *session JSON_CLEANUP = NULL;
        int64_t ttl, old;

        if (!body || !find(request, &session))
                return;
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
                answer_sandbox(request, 200, json_incref(session));
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
        int64_t until_ms = clock_system.monotonic_ms(&clock_system) + BUSY_MS;
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
                int64_t left_ms = until_ms - clock_system.monotonic_ms(&clock_system);

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

/* --- lists --- */

/* What a list is to have. */
struct wanted {
        const char **labels; /* "NAME=VALUE", ended by NULL; or NULL */
        const char *const *environments;
        bool running, paused;
        int64_t after_ms; /* started later than that */
        bool newest_first;
        size_t limit;
        const char *behind; /* the last sandbox of the page before; NULL: from the first */
};

/* "a%20b+c" as it is meant; NULL where it is no such text. */
static const char *unescape(const char *text, size_t length, struct arena *arena) {
        char *plain = arena_alloc(arena, length + 1), *to = plain;
        size_t ignored;

        for (size_t i = 0; i < length; i++) {
                int high, low;

                if (text[i] != '%') {
                        *to++ = (char)(text[i] == '+' ? ' ' : text[i]);
                        continue;
                }
                if (i + 2 >= length || (high = head_hex_digit(text[i + 1])) < 0 ||
                    (low = head_hex_digit(text[i + 2])) < 0 || (high | low) == 0)
                        return NULL;
                *to++ = (char)(high << 4 | low);
                i += 2;
        }
        *to = '\0';
        return text_is_utf8(plain, (size_t)(to - plain), &ignored) ? plain : NULL;
}

static const char *unescape_twice(const char *text, size_t length, struct arena *arena) {
        const char *once = unescape(text, length, arena);

        return once ? unescape(once, strlen(once), arena) : NULL;
}

/* A form in the value of a parameter, whose names and values the SDK has escaped before. */
static bool read_metadata(const char *form, struct arena *arena, const char ***ret) {
        size_t count = 1;

        for (const char *at = form; *at; at++)
                count += *at == '&';
        *ret = arena_array(arena, count + 1, sizeof(**ret));
        for (count = 0; *form;) {
                size_t length = strcspn(form, "&"), equals = strcspn(form, "=&");
                const char *name, *value;

                if (length > 0) {
                        if (equals >= length || !(name = unescape_twice(form, equals, arena)) ||
                            !(value = unescape_twice(form + equals + 1, length - equals - 1, arena)))
                                return false;
                        (*ret)[count++] = arena_printf(arena, "%s=%s", name, value);
                }
                form += length;
                form += *form == '&';
        }
        (*ret)[count] = NULL;
        return true;
}

static bool read_states(const char *states, struct wanted *wanted) {
        wanted->running = wanted->paused = false;
        while (*states) {
                size_t length = strcspn(states, ",");

                if (length == 7 && memcmp(states, "running", 7) == 0)
                        wanted->running = true;
                else if (length == 6 && memcmp(states, "paused", 6) == 0)
                        wanted->paused = true;
                else
                        return false;
                states += length;
                states += *states == ',';
        }
        return true;
}

/* "2026-01-31T12:00:00.123+00:00" too: what is less than a second is passed over, and other zones are not known. */
static bool read_time(const char *text, struct arena *arena, int64_t *ret) {
        const char *tail = strlen(text) > 19 ? text + 19 : "Z";

        if (*tail == '.')
                tail += 1 + strspn(tail + 1, "0123456789");
        if (strcmp(tail, "Z") != 0 && strcmp(tail, "+00:00") != 0 && strcmp(tail, " 00:00") != 0)
                return false;
        *ret = clock_parse(arena_printf(arena, "%.19sZ", text));
        return *ret >= 0;
}

/* NULL, or what is wrong. */
static const char *read_wanted(const struct server_request *request, struct wanted *ret) {
        const char *limit = server_query(request, "limit"), *metadata = server_query(request, "metadata"),
                   *state = server_query(request, "state"), *order = server_query(request, "order"),
                   *after = server_query(request, "startedAfter"),
                   *template = server_query(request, "template");

        *ret = (struct wanted){ .running = true,
                                .paused = true,
                                .after_ms = -1,
                                .limit = CALL_LIMIT,
                                .behind = server_query(request, "nextToken") };
        if (limit) {
                ret->limit = strspn(limit, "0123456789") == strlen(limit) && strlen(limit) <= 4
                                     ? strtoul(limit, NULL, 10)
                                     : 0;
                if (ret->limit < 1 || ret->limit > PAGE_MAX)
                        return "limit must be 1 to 1000";
        }
        if (metadata && !read_metadata(metadata, request->arena, &ret->labels))
                return "metadata must be NAME=VALUE, joined by &, each escaped twice";
        if (state && *state && !read_states(state, ret))
                return "state must be running, paused, or both with a comma";
        if (after && !read_time(after, request->arena, &ret->after_ms))
                return "startedAfter must be a time as 2026-01-31T12:00:00Z";
        if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
                return "order must be asc or desc";
        ret->newest_first = order && strcmp(order, "desc") == 0;
        if (template) {
                const char **names = arena_array(request->arena, 2, sizeof(*names));

                names[0] = template;
                names[1] = NULL;
                ret->environments = names;
        }
        return NULL;
}

static bool is_wanted(const json_t *session, const struct wanted *wanted) {
        return (e2b_call_is_paused(session) ? wanted->paused : wanted->running) &&
               clock_parse(json_text(session, "createdAt")) > wanted->after_ms;
}

/* All of the owner's that are wanted, in order: as many as `sessions.perOwner` lets him have. */
static int gather(const struct call *call, const struct wanted *wanted, json_t *ret,
                  struct problem *problem) {
        struct engine_filter filter = { .environments = wanted->environments,
                                        .labels = wanted->labels,
                                        .limit = ENGINE_LIST_MAX };
        json_t *list JSON_CLEANUP = NULL, *session;
        size_t index;

        do {
                json_t *page;

                if (engine_list(call->engine, &call->caller, &filter, &page, problem) < 0)
                        return -1;
                json_decref(list);
                list = page;
                json_array_foreach (json_object_get(list, "items"), index, session) {
                        if (is_wanted(session, wanted))
                                json_array_insert(ret, wanted->newest_first ? 0 : json_array_size(ret),
                                                  session);
                }
                filter.cursor = json_text(list, "cursor");
        } while (filter.cursor);
        return 0;
}

void e2b_sandboxes_list(struct server_request *request) {
        const struct call *call = call_of(request);
        struct environments environments;
        struct wanted wanted;
        const char *wrong = read_wanted(request, &wanted);
        json_t *sessions JSON_CLEANUP = json_checked(json_array());
        json_t *items, *session;
        struct problem problem;
        size_t index, from = 0;

        if (wrong) {
                (void)call_refuse_value(request, wrong);
                return;
        }
        if (gather(call, &wanted, sessions, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        if (!read_environments(request, &environments))
                return;
        json_array_foreach (sessions, index, session) {
                if (wanted.behind && strcmp(json_text(session, "id"), wanted.behind) == 0)
                        from = index + 1;
        }
        if (wanted.behind && from == 0) {
                (void)call_refuse_value(request, "nextToken is none of this list any more: list them anew");
                return;
        }
        items = json_checked(json_array());
        for (index = from; index < json_array_size(sessions) && index - from < wanted.limit; index++)
                json_add(items, info_json(json_array_get(sessions, index), &environments));
        if (index < json_array_size(sessions))
                server_add_header(request, "x-next-token",
                                  json_text(json_array_get(sessions, index - 1), "id"));
        answers_json(request, 200, items);
}
