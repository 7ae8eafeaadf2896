/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that waits for a result holds its connection's thread, which checks that the client is
 * still there; the execution goes on after a client has left. A session that was made for one
 * execution lives no longer than that could take, even without a client to end it.
 */
#include "broker/work/execute.h"

#include "base/json.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"
#include "broker/request/events.h"
#include "broker/work/inputs.h"
#include "broker/work/returned.h"

#include <poll.h>
#include <string.h>

#define ALONE_IDLE_SECONDS 60 /* between being made and being put to work, and behind that */
#define TIMEOUT_SECONDS 300   /* the engine's, if the client does not say */

struct executing {
        struct inputs inputs;
        struct returned returned;
        const char *session; /* NULL: none yet */
        bool alone;
};

static struct executing *of(struct server_request *request) {
        return call_of(request)->more;
}

static struct executing *begin(struct server_request *request) {
        struct executing *executing = arena_alloc(request->arena, sizeof(*executing));

        *executing = (struct executing){ .inputs = INPUTS_INIT };
        if (!call_admit(request))
                return NULL;
        call_of(request)->more = executing;
        return executing;
}

/*
 * A caller that does not own it gets the same answer as for one that never was, whatever it sends.
 */
void execute_begin(struct server_request *request) {
        struct executing *executing = begin(request);
        const struct call *call = call_of(request);
        struct problem problem;

        if (!executing)
                return;
        executing->session = request->parameters[0];
        if (engine_show(call->engine,
                        &(struct engine_caller){ .owner = call->caller.owner,
                                                 .environments = call->caller.environments,
                                                 .agents = call->caller.agents },
                        executing->session, NULL, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        (void)!inputs_begin(&executing->inputs, request, executing->session);
}

void execute_begin_alone(struct server_request *request) {
        struct executing *executing = begin(request);

        if (executing)
                executing->alone = true;
}

void execute_take(struct server_request *request, const void *bytes, size_t length) {
        (void)!inputs_take(&of(request)->inputs, request, bytes, length);
}

void execute_end(struct server_request *request) {
        struct executing *executing = of(request);

        if (executing)
                inputs_end(&executing->inputs);
        call_end(request);
}

/* --- what is asked --- */

static struct engine_code read_code(const json_t *body) {
        const char *on = json_text(body, "onDisconnect");
        const json_t *code = json_object_get(body, "code"), *input = json_object_get(body, "stdin");

        return (struct engine_code){ .code = json_string_value(code),
                                     .code_length = json_string_length(code),
                                     .language = json_text(body, "language"),
                                     .context = json_text(body, "context"),
                                     .variables = call_object(body, "variables"),
                                     .input = json_string_value(input),
                                     .input_length = json_string_length(input),
                                     .timeout_seconds = json_integer_or(body, "timeoutSeconds", 0),
                                     .interrupt_on_disconnect = on && strcmp(on, "interrupt") == 0 };
}

/* One for this execution: its variables are the execution's. */
static bool make_session(struct server_request *request, const json_t *body, const struct engine_code *code) {
        const struct call *call = call_of(request);
        struct engine_wish wish = {
                .environment = json_text(body, "environment"),
                .agent = json_text(body, "agent"),
                .labels = call_object(body, "labels"),
                .idle_seconds = ALONE_IDLE_SECONDS,
                .ttl_seconds = (code->timeout_seconds ? code->timeout_seconds : TIMEOUT_SECONDS) +
                               2 * ALONE_IDLE_SECONDS,
        };
        struct problem problem;
        json_t *session;

        if (engine_create(call->engine, &call->caller, &wish, &session, &problem) < 0)
                return call_refuse(request, &problem);
        of(request)->session = arena_strdup(request->arena, json_text(session, "id"));
        json_decref(session);
        return true;
}

static void end_session(const struct call *call, const char *session) {
        struct problem ignored;

        (void)!engine_end(call->engine, &call->caller, session, &ignored);
}

/* --- its end --- */

enum server_wait execute_await(struct server_request *request, struct engine_follower *follower) {
        struct engine_event event;
        enum server_wait waited;

        engine_follower_await_end(follower);
        for (;;) {
                switch (engine_follower_next(follower, &event)) {
                case ENGINE_EVENT:
                        json_decref(event.data);
                        continue;
                case ENGINE_ENDED:
                        return SERVER_READY;
                case ENGINE_NOTHING:
                default:
                        break;
                }
                waited = server_wait(request, engine_follower_descriptor(follower), POLLIN, -1);
                if (waited == SERVER_LEFT || waited == SERVER_STOPS)
                        return waited;
        }
}

bool execute_await_parked(struct server_request *request, const char *id) {
        const struct call *call = call_of(request);
        struct engine_follower *follower;
        struct engine_event event;
        struct problem problem;
        bool there = true;

        if (engine_follow_session(call->engine, &call->caller, id, &follower, &problem) < 0)
                return call_refuse(request, &problem);
        while (there && engine_is_parking(call->engine, &call->caller, id)) {
                if (engine_follower_next(follower, &event) == ENGINE_EVENT) {
                        json_decref(event.data);
                        continue;
                }
                switch (server_wait(request, engine_follower_descriptor(follower), POLLIN, -1)) {
                case SERVER_LEFT:
                        there = false;
                        break;
                case SERVER_STOPS:
                        (void)problem_set(&problem, PROBLEM_STOPPING, "the session is being parked");
                        there = call_refuse(request, &problem);
                        break;
                case SERVER_TIME:
                case SERVER_READY:
                default:
                        break;
                }
        }
        engine_follower_close(follower);
        return there;
}

/* False if the client has left, or the server stops, which was answered. */
static bool wait_for_result(struct server_request *request, struct engine_follower *follower) {
        enum server_wait waited = execute_await(request, follower);
        struct problem problem;

        if (waited != SERVER_STOPS)
                return waited == SERVER_READY;
        (void)problem_set(
                &problem, PROBLEM_STOPPING,
                "what runs goes on, unless onDisconnect says otherwise: ask for the result once the server is back");
        return call_refuse(request, &problem);
}

/* The last event of a stream: what it returns is in it, and a session for it alone ends. */
static json_t *finish_event(void *context, struct server_request *request, json_t *result) {
        const struct executing *executing = context;

        result = returned_add(request, &executing->returned, result);
        if (executing->alone)
                end_session(call_of(request), executing->session);
        return result;
}

static void answer_result(struct server_request *request, unsigned status, int64_t n) {
        const struct call *call = call_of(request);
        const struct executing *executing = of(request);
        struct problem problem;
        json_t *result;

        if (engine_result(call->engine, &call->caller, executing->session, n, &result, &problem) < 0)
                answers_refusal(request, &problem);
        else if (status == 200)
                returned_answer(request, &executing->returned, result);
        else
                answers_json(request, status, result);
}

static void tell_end(struct server_request *request, struct engine_follower *follower, int64_t n) {
        struct executing *executing = of(request);

        if (call_header_has(request, "Accept", "text/event-stream")) {
                events_answer(request, follower, finish_event, executing);
                return;
        }
        if (wait_for_result(request, follower)) {
                answer_result(request, 200, n);
                if (executing->alone)
                        end_session(call_of(request), executing->session);
        }
        engine_follower_close(follower);
}

static bool waits(const struct server_request *request) {
        return !call_header_has(request, "Prefer", "respond-async");
}

/* The execution that the key has made, in a session that may have ended since. */
static void repeat(struct server_request *request, const char *session, int64_t n) {
        const struct call *call = call_of(request);
        struct executing *executing = of(request);
        struct engine_follower *follower;
        struct problem problem;

        executing->session = executing->returned.session = session;
        executing->alone = false; /* its maker ends it */
        if (!waits(request))
                answer_result(request, 202, n);
        else if (engine_follow(call->engine, &call->caller, session, n, 0, &follower, &problem) < 0)
                answers_refusal(request, &problem);
        else
                tell_end(request, follower, n);
}

static void run(struct server_request *request, const struct engine_code *code) {
        const struct call *call = call_of(request);
        struct executing *executing = of(request);
        struct engine_follower *follower = NULL;
        struct problem problem, ignored;
        const char *session;
        int64_t n, first;
        int made = engine_execute(call->engine, &call->caller, executing->session, code, &n,
                                  waits(request) ? &follower : NULL, &problem);

        if (made == 1)
                inputs_keep(&executing->inputs);
        /* Two that asked at the same time have made a session each: the key is one's alone. */
        if (executing->alone && made != 1) {
                if (made == 0)
                        (void)problem_set(&problem, PROBLEM_BUSY, "the same request is under way");
                end_session(call, executing->session);
                engine_follower_close(follower);
                if (engine_repeats(call->engine, &call->caller, &code->once, request->arena, &session, &first,
                                   &ignored) == 1)
                        repeat(request, session, first);
                else
                        answers_refusal(request, &problem);
                return;
        }
        if (made < 0)
                answers_refusal(request, &problem);
        else if (!waits(request))
                answer_result(request, 202, n);
        else
                tell_end(request, follower, n);
}

/* False where the request was answered: by what the key has made, or with what is wrong. */
static bool begin_alone(struct server_request *request, const json_t *body, const struct engine_code *code) {
        const struct call *call = call_of(request);
        const struct engine_once once = call_once(request, call->body.hash);
        struct problem problem;
        const char *session;
        int64_t n;
        int seen;

        seen = engine_repeats(call->engine, &call->caller, &once, request->arena, &session, &n, &problem);
        if (seen < 0)
                return call_refuse(request, &problem);
        if (seen == 1) {
                repeat(request, session, n);
                return false;
        }
        return make_session(request, body, code);
}

static void put_to_work(struct server_request *request, const json_t *body, struct engine_code *code) {
        struct executing *executing = of(request);

        executing->returned.session = executing->session;
        if (inputs_finish(&executing->inputs, request, executing->session, json_object_get(body, "files"),
                          &code->staged)) {
                code->once = call_once(request, executing->alone ? call_of(request)->body.hash
                                                                 : executing->inputs.hash);
                run(request, code);
        } else if (executing->alone) {
                end_session(call_of(request), executing->session);
        }
}

void execute_answer(struct server_request *request) {
        struct executing *executing = of(request);
        struct engine_code code;
        const json_t *body = inputs_object(&executing->inputs, request);

        if (!body || !returned_read(request, body, &executing->returned))
                return;
        code = read_code(body);
        if (!executing->alone || begin_alone(request, body, &code))
                put_to_work(request, body, &code);
}
