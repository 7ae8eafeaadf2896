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

/* So many records are looked at for one write: two changes each, and the session's own. */
#define AT_ONCE ((SESSION_CHANGES_MAX - 1) / 2)

/* Not more at once than the session may keep beyond what it has to. */
static int64_t batch_of(const struct engine_limits *limits) {
        int64_t batch = limits->history_whole / 16;

        return batch < 1 ? 1 : batch < AT_ONCE ? batch : AT_ONCE;
}

/* In one write no record becomes thin and goes as well. */
static int64_t most_at_once(const struct engine_limits *limits) {
        int64_t between = limits->history_most - limits->history_whole;

        return between < 1 ? 1 : between < AT_ONCE ? between : AT_ONCE;
}

/* What becomes of older ones when n has ended. Without the lock. -> bytes that come free. */
static int64_t trim_one(struct engine *engine, const struct session *session, int64_t n, struct arena *arena,
                        struct session_change *changes, size_t *count) {
        const struct engine_limits *limits = &engine->config.limits;
        struct session_item item;
        const char *thin;
        int64_t bytes = 0;

        if (limits->history_most > limits->history_whole &&
            find(engine, session, n - limits->history_whole, arena, &item) &&
            strlen(item.value) > WORTH_THINNING && (thin = execution_record_thin(item.value, arena))) {
                bytes += (int64_t)strlen(item.value) - (int64_t)strlen(thin);
                changes[(*count)++] = (struct session_change){ SESSION_TABLE_EXECUTIONS, item.key, thin,
                                                               SESSION_EXPECT_VERSION, item.version };
        }
        if (find(engine, session, n - limits->history_most, arena, &item)) {
                bytes += (int64_t)strlen(item.value);
                changes[(*count)++] = (struct session_change){ SESSION_TABLE_EXECUTIONS, item.key, NULL,
                                                               SESSION_EXPECT_VERSION, item.version };
        }
        return bytes;
}

/* What was trimmed up to n. The record says so in the same write; where there is nothing to write, with its next one. */
static int write_trimmed(struct engine *engine, struct session *session, int64_t n,
                         struct session_change *changes, size_t count, int64_t bytes) {
        int64_t before = session->record.trimmed_n;
        struct problem ignored;
        struct error err;

        session->record.trimmed_n = n;
        if (count == 0)
                return 0;
        session->record.history_bytes -= bytes;
        if (session->end != SESSION_OVER
                    ? session_store_record(engine, session, changes, count, &ignored) == 0
                    : engine_write(engine, changes, count, &err) == 1)
                return 0;
        session->record.history_bytes += bytes;
        session->record.trimmed_n = before;
        return -1;
}

/* Whoever else ends meanwhile is seen in the next turn. What cannot be written now is tried again with the next end. */
static void trim(struct engine *engine, struct session *session, void *context) {
        (void)context;
        while (session->record.trimmed_n < session->ended_n && !session->forgotten) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct session_change changes[SESSION_CHANGES_MAX];
                int64_t n = session->record.trimmed_n, until = n + most_at_once(&engine->config.limits),
                        bytes = 0;
                size_t count = 0;

                until = until < session->ended_n ? until : session->ended_n;
                session_turn_leave(engine, session);
                while (n < until)
                        bytes += trim_one(engine, session, ++n, arena, changes, &count);
                session_turn_return(engine, session);
                if (session->forgotten || write_trimmed(engine, session, n, changes, count, bytes) < 0)
                        break;
        }
        session->trimming = false;
        history_tell(engine, session, false);
}

void history_trim(struct engine *engine, struct session *session, int64_t n) {
        int64_t batch = batch_of(&engine->config.limits);

        session->ended_n = n > session->ended_n ? n : session->ended_n;
        if (session->trimming || session->ended_n - session->record.trimmed_n < batch ||
            session->ended_n <= engine->config.limits.history_whole)
                return;
        session->trimming = true;
        engine_job_add(engine, session, session->record.owner, trim, NULL);
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
        session_turn_leave(engine, session);
        (void)workspaces->set_history(workspaces->context, session->record.owner, session->record.id,
                                      bytes > 0 ? (uint64_t)bytes : 0, &ignored);
        session_turn_return(engine, session);
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
