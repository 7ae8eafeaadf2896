/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/work/approvals.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "broker/service/broker.h"

#include <string.h>

#define FIRST_PAUSE_MS 5
#define LAST_PAUSE_MS 200

static void tell(void *context, const struct approvals_news *news) {
        struct engine *engine = broker_sessions_engine(context);

        if (engine)
                engine_tell_beside(engine, &(const struct engine_news){ .name = "approval",
                                                                        .of = ENGINE_OF_APPROVALS,
                                                                        .id = news->id,
                                                                        .owner = news->owner,
                                                                        .agent = news->agent,
                                                                        .status = news->status });
}

int broker_approvals_open(const struct broker_config *config, const char *folder,
                          struct broker_sessions *sessions, struct approvals **ret, struct error *err) {
        const struct value *shell = value_get(config->spec, "shell"), *trusted = value_get(shell, "trusted");
        json_t *list JSON_CLEANUP = trusted ? value_to_json(trusted, NULL) : json_array();
        struct approvals_config opened = { .state = folder,
                                           .user = value_get_text(shell, "user"),
                                           .expiry_seconds =
                                                   value_get_integer(shell, "approvalSeconds", 3600),
                                           .trusted = list,
                                           .tell = tell,
                                           .context = sessions };

        if (!value_get_boolean(shell, "enabled", false)) {
                *ret = NULL;
                return 0;
        }
        if (approvals_open(&opened, ret, err) < 0)
                return error_context(err, "shell");
        log_warning("shell: commands run on this host once a person has approved them%s",
                    json_array_size(list) > 0 ? ", and those that are trusted without" : "");
        return 0;
}

static const char *const *names_of(const struct value *list, struct arena *arena) {
        const char **names;

        if (!list)
                return NULL;
        names = arena_array(arena, (size_t)list->count + 1, sizeof(*names));
        for (uint32_t i = 0; i < list->count; i++)
                names[i] = value_text_of(&list->items[i]);
        return names;
}

static bool sees_all(struct server_request *request, const struct door_caller *door) {
        return (door->rights & (BROKER_APPROVE | BROKER_OBSERVE)) &&
               !server_has_header(request, "Berth-Owner");
}

unsigned broker_approvals_followed(struct server_request *request, const struct door_caller *door) {
        const struct broker *broker = request->context;

        if (!broker->approvals || !(door->rights & (BROKER_SHELL | BROKER_APPROVE | BROKER_OBSERVE)))
                return 0;
        return ENGINE_OF_APPROVALS | (sees_all(request, door) ? ENGINE_OF_ALL_APPROVALS : 0);
}

struct approvals_caller broker_approvals_caller(struct server_request *request,
                                                const struct door_caller *door) {
        uid_t user;

        return (struct approvals_caller){
                .client = door->client,
                .owner = door->owner,
                .on_socket = server_peer_user(request, &user),
                .sees_all = sees_all(request, door),
                .agents = names_of(door->agents, request->arena),
        };
}

/* A name that this caller may not use is unknown to it. */
static int check_agent(struct server_request *request, const struct approvals_caller *caller,
                       const char *name, struct problem *problem) {
        struct broker *broker = request->context;
        struct applied_agent *agents;
        struct error err;
        size_t count, at = 0;
        bool named = !caller->agents;

        for (const char *const *agent = caller->agents; agent && *agent; agent++)
                named = named || strcmp(*agent, name) == 0;
        if (applied_agents(broker->applied, request->arena, &agents, &count, &err) < 0) {
                log_error("%s: %s", request->path, err.message);
                return problem_set(problem, PROBLEM_STORE_FAILED,
                                   "the state cannot be read: the server's log says why");
        }
        while (at < count && strcmp(agents[at].name, name) != 0)
                at++;
        if (at == count || !named)
                return problem_set(problem, PROBLEM_UNKNOWN_AGENT, "there is no agent %s", name);
        if (!agents[at].in_service)
                return problem_set(problem, PROBLEM_AGENT_OUT_OF_SERVICE,
                                   "the agent %s is not active, or was taken from its environment", name);
        return 0;
}

static bool is(const json_t *approval, const char *status) {
        return strcmp(json_text(approval, "status"), status) == 0;
}

/*
 * Waits while it has that status, and no longer than that (-1: without a limit); also no longer
 * than the client waits for the answer. Looks at growing intervals.
 */
static int wait_while(struct server_request *request, const struct approvals_caller *caller,
                      const char *status, int64_t most_ms, json_t **approval, struct problem *problem) {
        const struct broker *broker = request->context;
        const char *id = arena_strdup(request->arena, json_text(*approval, "id"));
        int64_t until_ms = most_ms < 0 ? INT64_MAX : clock_now_ms() + most_ms;
        int pause_ms = FIRST_PAUSE_MS;

        while (is(*approval, status) && clock_now_ms() < until_ms) {
                enum server_wait waited = server_wait(request, -1, 0, pause_ms);
                json_t *now;

                if (waited == SERVER_LEFT || waited == SERVER_STOPS)
                        return 0;
                if (approvals_show(broker->approvals, caller, id, &now, problem) < 0)
                        return -1;
                json_decref(*approval);
                *approval = now;
                pause_ms = 2 * pause_ms < LAST_PAUSE_MS ? 2 * pause_ms : LAST_PAUSE_MS;
        }
        return 0;
}

int broker_approvals_ask(struct server_request *request, const struct approvals_caller *caller,
                         const json_t *body, const char *key, json_t **ret, struct problem *problem) {
        const struct broker *broker = request->context;
        const struct approvals_wish wish = {
                .agent = json_text(body, "agent"),
                .command = json_object_get(body, "command"),
                .cwd = json_text(body, "cwd"),
                .reason = json_text(body, "reason"),
                .timeout_seconds = json_integer_or(body, "timeoutSeconds", APPROVALS_TIMEOUT),
                .key = key,
        };
        json_t *approval;
        struct error err;

        /*
         * A request and its output stay in the log for good: an agent must not fill the disk with
         * them.
         */
        if (broker_sessions_check_disk(broker->sessions, &err) < 0)
                return problem_from_error(problem, PROBLEM_WORKSPACE_FULL, &err);
        if (check_agent(request, caller, wish.agent, problem) < 0 ||
            approvals_ask(broker->approvals, caller, &wish, &approval, problem) < 0)
                return -1;
        if (wait_while(request, caller, "approved", -1, &approval, problem) < 0) {
                json_decref(approval);
                return -1;
        }
        *ret = approval;
        return 0;
}

int broker_approvals_wait(struct server_request *request, const struct approvals_caller *caller,
                          const char *id, int decision_ms, json_t **ret, struct problem *problem) {
        const struct broker *broker = request->context;
        json_t *approval;

        if (approvals_show(broker->approvals, caller, id, &approval, problem) < 0)
                return -1;
        if (decision_ms > 0 && (wait_while(request, caller, "pending", decision_ms, &approval, problem) < 0 ||
                                wait_while(request, caller, "approved", -1, &approval, problem) < 0)) {
                json_decref(approval);
                return -1;
        }
        *ret = approval;
        return 0;
}
