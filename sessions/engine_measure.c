/* SPDX-License-Identifier: Apache-2.0 */
/* How many sessions there are and what they do: for metrics. */
#include "sessions/engine_parts.h"

#include "base/json.h"

#include <string.h>

const char *const engine_statuses[ENGINE_STATUSES] = { "starting", "queued", "idle", "running", "parked" };

void engine_measure(struct engine *engine, struct engine_measures *ret) {
        struct engine_measures found = { 0 };

        pthread_mutex_lock(&engine->lock);
        for (const struct session *session = engine->first; session; session = session->next) {
                const char *status;

                if (!session_lives(session))
                        continue;
                status = session_status(session);
                for (size_t i = 0; i < ENGINE_STATUSES; i++)
                        found.sessions[i] += strcmp(engine_statuses[i], status) == 0;
                found.running += session->running != NULL;
                found.waiting += session->waiting;
        }
        pthread_mutex_unlock(&engine->lock);
        *ret = found;
}

void engine_watch_end(const struct engine *engine, const struct execution *execution) {
        const struct engine_watch *watch = engine->config.watch;
        const json_t *usage = json_object_get(execution->result, "usage");
        const char *status = json_text(execution->result, "status");

        if (watch && status)
                watch->ended(watch->context, status, json_integer_or(usage, "queuedMs", 0),
                             json_integer_or(usage, "wallMs", 0));
}
