/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the client can ask its user (`input_required`), the call is not over before a person has
 * decided: the user is told what waits, and the client calls again with the state that came with
 * it, the approval's id and a digest of the arguments. That state is not secret and grants nothing:
 * the id is looked up as any other, by its owner, and the request stands in the log. A call that
 * comes with one asks for no command, whatever else is in it.
 *
 * What the user answers there decides nothing. It comes by the client that asked, which may have no
 * user at all.
 */
#include "broker/mcp/mcp_shell.h"

#include "approvals/words.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "broker/work/approvals.h"

#include <string.h>

#define WAIT_MS 20000 /* for a decision, once the user has said that there is one: people press too early */
/* bytes of a command that is shown here: the person who decides sees all of it */
#define SHOWN_MAX 1000
#define QUESTION "approval" /* its key among the client's */

/* What a model does next is said in words: it knows nothing of approvals. */
static void add_next(json_t *approval, struct arena *arena) {
        const char *status = json_text(approval, "status"), *id = json_text(approval, "id");
        const char *next = NULL;

        if (strcmp(status, "pending") == 0)
                next = arena_printf(
                        arena,
                        "A person decides on it. Tell them that %s waits for approval; then, and not at once, ask again "
                        "with {\"approval\": \"%s\"}.",
                        id, id);
        else if (strcmp(status, "approved") == 0)
                next = arena_printf(arena, "It runs. Ask again with {\"approval\": \"%s\"}.", id);
        else if (strcmp(status, "denied") == 0)
                next = "It was denied and never runs. Do not ask for the same again.";
        json_put(approval, "next", json_from_text(next));
}

/* --- asked by the client, of its user --- */

static const char *state_of(const char *id, const json_t *arguments, struct arena *arena) {
        char *text TEXT_CLEANUP = json_compact(arguments);
        char digest[SHA256_HEX_SIZE];

        digest_sha256_hex(text, strlen(text), digest);
        return arena_printf(arena, "%s.%s", id, digest);
}

/* The approval that an earlier call of the same arguments came to. */
static int id_of_state(const json_t *state, const json_t *arguments, struct arena *arena, const char **ret,
                       struct problem *problem) {
        const char *text = json_is_string(state) ? json_string_value(state) : "", *id;

        id = arena_strndup(arena, text, strcspn(text, "."));
        if (!approvals_is_id(id) || strcmp(text, state_of(id, arguments, arena)) != 0)
                return problem_set(problem, PROBLEM_INVALID,
                                   "requestState is not that of an earlier call with these arguments");
        *ret = id;
        return 0;
}

static void ask_user(const json_t *approval, const json_t *arguments, struct arena *arena,
                     struct mcp_answer *ret) {
        struct strbuf command STRBUF_CLEANUP = STRBUF_INIT, folder STRBUF_CLEANUP = STRBUF_INIT;
        const char *id = json_text(approval, "id");

        words_show(json_object_get(approval, "command"), &command);
        words_show_text(json_text(approval, "cwd"), &folder);
        ret->state = state_of(id, arguments, arena);
        ret->asks = json_checked(json_pack(
                "{s:{s:s, s:{s:s, s:s, s:{s:s, s:{}}}}}", QUESTION, "method", "elicitation/create", "params",
                "mode", "form", "message",
                arena_printf(
                        arena,
                        "%s waits until a person approves or denies it, on the page of the server or by `berth approvals`: %s, in %s as %s. "
                        "An answer here decides nothing: accept once it is decided, to have what became of it; decline to go on without.",
                        id,
                        command.length <= SHOWN_MAX ? strbuf_text(&command)
                                                    : "a command that is longer than fits here",
                        strbuf_text(&folder), json_text(approval, "user")),
                "requestedSchema", "type", "object", "properties"));
}

/* Whether the user goes on without. */
static bool has_declined(const json_t *responses) {
        const char *action = json_text(json_object_get(responses, QUESTION), "action");

        return action && strcmp(action, "accept") != 0;
}

/* --- the tool --- */

int mcp_shell_run(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                  struct problem *problem) {
        struct server_request *request = call->request;
        struct approvals_caller caller = broker_approvals_caller(request, &call->call->door);
        const json_t *params = call->message->params,
                     *state = call->message->newest ? json_object_get(params, "requestState") : NULL;
        const char *id = json_text(arguments, "approval");
        bool asks = mcp_message_may_ask(call->message) && !id;
        int result;

        caller.sees_all = false; /* an owner's, whatever else the client may */
        if (state) {
                if (id_of_state(state, arguments, request->arena, &id, problem) < 0)
                        return -1;
                asks = asks && !has_declined(json_object_get(params, "inputResponses"));
                result = broker_approvals_wait(request, &caller, id, asks ? WAIT_MS : 0, &ret->data, problem);
        } else if (id) {
                result = broker_approvals_wait(request, &caller, id, 0, &ret->data, problem);
        } else if (!json_text(arguments, "agent") || !json_text(arguments, "cwd")) {
                result = problem_set(problem, PROBLEM_INVALID, "run_shell: a command needs agent and cwd");
        } else {
                result = broker_approvals_ask(request, &caller, arguments, NULL, &ret->data, problem);
        }
        if (result < 0)
                return -1;
        if (asks && strcmp(json_text(ret->data, "status"), "pending") == 0)
                ask_user(ret->data, arguments, request->arena, ret);
        add_next(ret->data, request->arena);
        ret->for_eyes = true;
        return 0;
}
