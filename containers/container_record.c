/* SPDX-License-Identifier: Apache-2.0 */
#include "containers/container_record.h"

#include "base/json.h"
#include "containers/container_ports.h"
#include "runtime/protocol/request.h"
#include "sessions/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const status_names[] = { "queued", "running", "stopped", "exited", NULL };
static const char *const restart_names[] = { "never", "on-failure", "always", NULL };
static const char *const reason_names[] = { "",         "exited",          "stopped", "killed", "memory",
                                            "deadline", "could-not-start", "lost",    NULL };

static int find_name(const char *const *names, const char *name) {
        for (int i = 0; name && names[i]; i++) {
                if (strcmp(names[i], name) == 0)
                        return i;
        }
        return -1;
}

const char *container_reason_name(enum container_reason reason) {
        return reason == CONTAINER_NO_REASON ? NULL : reason_names[reason];
}

const char *container_restart_name(enum container_restart restart) {
        return restart_names[restart];
}

int container_restart_find(const char *name) {
        return find_name(restart_names, name);
}

void container_record_dispose(struct container_record *record) {
        free(record->owner);
        free(record->agent);
        free(record->environment);
        free(record->name);
        free(record->detail);
        json_decref(record->arguments);
        json_decref(record->variables);
        json_decref(record->ports);
        *record = (struct container_record){ 0 };
}

char *container_record_to_text(const struct container_record *record) {
        json_t *json JSON_CLEANUP = json_checked(
                json_pack("{s:s, s:s, s:s, s:s, s:s?, s:b, s:O, s:O?, s:s, s:s, s:s}", "id", record->id,
                          "owner", record->owner, "agent", record->agent, "environment", record->environment,
                          "name", record->name, "service", record->service, "arguments", record->arguments,
                          "variables", record->variables, "restart", restart_names[record->restart], "status",
                          status_names[record->status], "reason", reason_names[record->reason]));

        /* The sandbox's text may be wrong, or cut in the middle of a character. */
        json_set_text(json, "detail", record->detail);
        json_put(json, "ports", json_incref(record->ports));
        json_put(json, "timeoutSeconds", json_integer(record->timeout_seconds));
        json_put(json, "exitCode", json_integer(record->exit_code));
        json_put(json, "createdMs", json_integer(record->created_ms));
        json_put(json, "startedMs", json_integer(record->started_ms));
        json_put(json, "endedMs", json_integer(record->ended_ms));
        json_put(json, "starts", json_integer(record->starts));
        json_put(json, "failures", json_integer(record->failures));
        json_put(json, "sandbox", json_boolean(record->sandbox));
        json_put(json, "stops", json_boolean(record->stops));
        json_put(json, "again", json_boolean(record->again));
        json_put(json, "gone", json_boolean(record->gone));
        return json_plain(json);
}

int container_record_from_text(const struct session_item *item, struct container_record *ret,
                               struct error *err) {
        json_t *json JSON_CLEANUP = json_loads(item->value, JSON_REJECT_DUPLICATES, NULL);
        const char *id = json_text(json, "id"), *owner = json_text(json, "owner");
        const char *agent = json_text(json, "agent"), *environment = json_text(json, "environment");
        json_t *arguments = json_object_get(json, "arguments"),
               *variables = json_object_get(json, "variables"), *ports = json_object_get(json, "ports");
        int status = find_name(status_names, json_text(json, "status"));
        int restart = find_name(restart_names, json_text(json, "restart"));
        int reason = find_name(reason_names, json_text(json, "reason"));

        if (!id || !container_is_id(id) || !owner || !agent || !environment || status < 0 || restart < 0 ||
            reason < 0 || !request_is_arguments(arguments) || (ports && !container_ports_are(ports)))
                return error_set(err, "the record of the container %s is corrupt", item->key);
        *ret = (struct container_record){
                .owner = record_copy_text(owner),
                .agent = record_copy_text(agent),
                .environment = record_copy_text(environment),
                .name = record_copy_text(json_text(json, "name")),
                .service = json_is_true(json_object_get(json, "service")),
                .arguments = json_incref(arguments),
                .variables = json_is_object(variables) ? json_incref(variables) : NULL,
                .ports = ports ? json_incref(ports) : json_checked(json_array()),
                .restart = (enum container_restart)restart,
                .timeout_seconds = json_integer_or(json, "timeoutSeconds", 0),
                .status = (enum container_status)status,
                .reason = (enum container_reason)reason,
                .detail = record_copy_text(json_text(json, "detail")),
                .exit_code = json_integer_or(json, "exitCode", -1),
                .created_ms = json_integer_or(json, "createdMs", 0),
                .started_ms = json_integer_or(json, "startedMs", 0),
                .ended_ms = json_integer_or(json, "endedMs", 0),
                .starts = json_integer_or(json, "starts", 0),
                .failures = json_integer_or(json, "failures", 0),
                .sandbox = json_is_true(json_object_get(json, "sandbox")),
                .stops = json_is_true(json_object_get(json, "stops")),
                .again = json_is_true(json_object_get(json, "again")),
                .gone = json_is_true(json_object_get(json, "gone")),
                .version = item->version,
                .bytes = strlen(item->value),
        };
        snprintf(ret->id, sizeof(ret->id), "%s", id);
        return 0;
}

/* As a session's, but for the first letter: one place has both, and no two may have the same. */
void container_new_id(char id[ENGINE_ID_SIZE]) {
        record_new_id(id);
        id[0] = 'c';
}

bool container_is_id(const char *id) {
        char as_session[ENGINE_ID_SIZE];

        if (strlen(id) != ENGINE_ID_SIZE - 1 || id[0] != 'c')
                return false;
        memcpy(as_session, id, sizeof(as_session));
        as_session[0] = 's';
        return record_is_id(as_session);
}

const char *container_record_key(const char *owner, const char *id, struct arena *arena) {
        return arena_printf(arena, CONTAINER_RECORDS "%s", record_session_key(owner, id, arena));
}
