/* SPDX-License-Identifier: Apache-2.0 */
/* What had not ended of a session when the engine that had it died, or was put in its line by another server: read in, and gone on with. */
#include "sessions/engine_parts.h"
#include "sessions/engine_seats.h"
#include "sessions/session_parts.h"

#include "base/digest.h"
#include "base/json.h"
#include "base/log.h"

#include <string.h>

/* Of one that waited: all of its request is known, and nothing that it was to end with has ended. */
static const char *why_not_begun(const struct execution *execution) {
        return execution->cut ? "nothing of it ran: the server was restarted while it waited, and what "
                                "was asked was not kept"
               : execution->connected ? "nothing of it ran: its client's connection ended with the server"
                                      : NULL;
}

static struct execution *revive(struct engine *engine, const struct record_session *record, int64_t n,
                                const json_t *json) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        const char *sha256 = execution_request_elsewhere(json), *staged = json_text(json, "staged");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_t *request JSON_CLEANUP = NULL;
        char found[SHA256_HEX_SIZE];

        if (sha256 && staged && workspaces->staged_request &&
            workspaces->staged_request(workspaces->context, record->owner, record->id, staged, &text) == 0) {
                digest_sha256_hex(strbuf_text(&text), text.length, found);
                if (strcmp(found, sha256) == 0)
                        request =
                                json_loads(strbuf_text(&text), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        }
        return execution_revive(n, json, request);
}

static void keep_staged(struct engine *engine, const struct session *session) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        const char *names[ENGINE_QUEUE_MAX + 2];
        size_t count = 0;

        if (session->running && session->running->staged)
                names[count++] = session->running->staged;
        for (const struct execution *waiting = session->first_waiting;
             waiting && count < ENGINE_QUEUE_MAX + 2; waiting = waiting->next) {
                if (waiting->staged)
                        names[count++] = waiting->staged;
        }
        if (workspaces->keep_staged)
                workspaces->keep_staged(workspaces->context, session->record.owner, session->record.id, names,
                                        count);
}

/*
 * What had not ended when the last engine died. What its sandbox was given last may run on, if that lives: the place will say.
 * What waited was given to no sandbox, and waits on: it is begun once, by this engine or by one that comes after it.
 */
static int revive_executions(struct engine *engine, struct session *session, struct error *err) {
        const struct record_session *record = &session->record;
        int64_t last_n = record->last_n;

        session->unknown = 0;
        for (int64_t n = record->oldest_n; n <= last_n; n++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct execution_owner owner = { record->id, record->environment, NULL };
                struct session_item item = { 0 };
                json_t *json JSON_CLEANUP = NULL;
                struct execution *execution;
                int found = engine_get(engine, SESSION_TABLE_EXECUTIONS,
                                       record_execution_key(record->owner, record->id, n, arena), arena,
                                       &item, err);

                if (found < 0)
                        return -1;
                json = found ? execution_read_record(item.value) : NULL;
                if (!json || json_object_get(json_object_get(json, "result"), "exitCode"))
                        continue;
                execution = revive(engine, record, n, json);
                if (execution)
                        execution->record_bytes = (int64_t)strlen(item.value);
                if (!execution)
                        return error_set(err, "the record of execution %lld of session %s is corrupt",
                                         (long long)n, record->id);
                if (n == record->taken_n) {
                        execution->status = EXECUTION_RUNNING;
                        execution->interrupted = execution->connected;
                        session->running = execution;
                        continue;
                }
                if (!why_not_begun(execution) && n > record->taken_n) {
                        session_wait(session, execution);
                        continue;
                }
                execution_cut_off(execution, &owner,
                                  execution->connected && !execution->cut ? REPORT_INTERRUPTED
                                                                          : REPORT_FAILED,
                                  why_not_begun(execution), engine_now(engine));
                session_execution_ended(engine, session, execution);
        }
        /* Beyond a network that takes a while, for each of thousands: what a death has left of an idle one goes with it at its end. */
        if (!engine->config.store->class->shared || record->oldest_n <= last_n)
                keep_staged(engine, session);
        return 0;
}

/* Others have put it in line: nobody has begun it. One that cannot be begun ends. */
static int revive_unknown(struct engine *engine, struct session *session, int64_t n, struct error *err) {
        const struct record_session *record = &session->record;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item item = { 0 };
        struct execution *execution;
        json_t *json JSON_CLEANUP = NULL;
        int found = engine_get(engine, SESSION_TABLE_EXECUTIONS,
                               record_execution_key(record->owner, record->id, n, arena), arena, &item, err);

        if (found <= 0)
                return found;
        json = execution_read_record(item.value);
        if (!json || json_object_get(json_object_get(json, "result"), "exitCode"))
                return 0;
        execution = revive(engine, record, n, json);
        if (!execution)
                return error_set(err, "the record of execution %lld of session %s is corrupt", (long long)n,
                                 record->id);
        execution->record_bytes = (int64_t)strlen(item.value);
        execution->taken_before = record->taken_n;
        execution->connected = false; /* it is at another server, which says when it ends */
        if (execution->cut)
                session_end_waiting(engine, session, execution, REPORT_FAILED,
                                    "nothing of it ran: what was asked was not kept");
        else
                session_wait(session, execution);
        return 1;
}

bool engine_revive_unknown(struct engine *engine, struct session *session) {
        struct error err;

        while (session->unknown > 0) {
                int64_t n = session->record.last_n + 1 - session->unknown;

                if (revive_unknown(engine, session, n, &err) < 0) {
                        log_warning("session %s: execution %lld cannot be read: %s", session->record.id,
                                    (long long)n, err.message);
                        return false;
                }
                session->unknown--;
        }
        return true;
}

/*
 * Joins the sandbox, if it lives: that of one which is parked does where the last engine died between its record and the end of the
 * sandbox. Nothing is started.
 */
int engine_revive(struct engine *engine, struct session *session, struct error *err) {
        struct error failure = { 0 };

        if (revive_executions(engine, session, err) < 0)
                return -1;
        session->ever_open = true; /* before this engine was */
        if (session->record.ending)
                session_is_over(engine, session, SESSION_ENDS);
        /* What has not begun needs a seat like anything else, and waits for it where it stood. */
        else if (!session->running && engine_seat_is_needed(engine, session)) {
                if (session_wants(session))
                        engine_line_again(engine, session);
                return 0;
        }
        if (session->end == SESSION_IS_SOUGHT)
                session->end = SESSION_ENDS; /* it is joined next */
        if (session_open_place(engine, session, true, &failure) == 0)
                engine_leave_line(engine, session);
        else if (session->stale)
                return *err = failure, -1;
        /* Of one that is parked nothing ran. */
        else if (!session->record.parked || session->running)
                session_died_alone(
                        engine, session,
                        failure.kind == ERROR_NOT_FOUND
                                ? "cut off: the server was restarted, and its sandbox did not live any more"
                                : "cut off: the server was restarted, and its sandbox cannot be found");
        return 0;
}
