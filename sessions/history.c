/* SPDX-License-Identifier: Apache-2.0 */
/* A record that cannot be read stays as it is: this is no reason to lose the end of another execution. */
#include "sessions/history.h"

#include <stdlib.h>
#include <string.h>

/* The workspace is told when so much has come or gone: a file is written for that. */
#define WORTH_TELLING 65536
/* A record without much output is no longer than a thin one: reading, thinning and writing it would take longer than all else of an end. */
#define WORTH_THINNING 2048

static bool find(struct engine *engine, const struct session *session, int64_t n, struct arena *arena,
                 struct session_item *ret) {
        struct error ignored;

        return n > 0 &&
               session_store_get(engine->config.store, SESSION_TABLE_EXECUTIONS,
                                 record_execution_key(session->record.owner, session->record.id, n, arena),
                                 arena, ret, &ignored) == 1;
}

void history_trim(struct engine *engine, const struct session *session, int64_t n, struct arena *arena,
                  struct session_change *changes, size_t *count, int64_t *bytes) {
        const struct engine_limits *limits = &engine->config.limits;
        struct session_item item;
        const char *thin;

        if (find(engine, session, n - limits->history_whole, arena, &item) &&
            strlen(item.value) > WORTH_THINNING && (thin = execution_record_thin(item.value, arena))) {
                *bytes -= (int64_t)strlen(item.value) - (int64_t)strlen(thin);
                changes[(*count)++] = (struct session_change){ SESSION_TABLE_EXECUTIONS, item.key, thin,
                                                               SESSION_EXPECT_NOTHING, 0 };
        }
        if (find(engine, session, n - limits->history_most, arena, &item)) {
                *bytes -= (int64_t)strlen(item.value);
                changes[(*count)++] = (struct session_change){ SESSION_TABLE_EXECUTIONS, item.key, NULL,
                                                               SESSION_EXPECT_NOTHING, 0 };
        }
}

void history_count(struct session *session, struct execution *execution, const char *text) {
        int64_t bytes = (int64_t)strlen(text);

        session->record.history_bytes += bytes - execution->record_bytes;
        execution->record_bytes = bytes;
}

static void tell(struct engine *engine, struct session *session, void *context) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        int64_t bytes = session->record.history_bytes;
        struct problem ignored;

        (void)context;
        session->history_told = bytes;
        pthread_mutex_unlock(&engine->lock);
        (void)workspaces->set_history(workspaces->context, session->record.owner, session->record.id,
                                      bytes > 0 ? (uint64_t)bytes : 0, &ignored);
        pthread_mutex_lock(&engine->lock);
}

void history_tell(struct engine *engine, struct session *session, bool all) {
        int64_t change = llabs(session->record.history_bytes - session->history_told);

        if (!engine->config.workspaces->set_history || session->forgotten ||
            change < (all ? 1 : WORTH_TELLING))
                return;
        /* Until it was told, what comes is told with it. */
        session->history_told = session->record.history_bytes;
        engine_job_add(engine, session, session->record.owner, tell, NULL);
}
