/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a session, in this order, whichever server carries it out:
 *
 *      session_end()           the record says `ending`: clients do not find the session any more
 *      session_is_over()       what waits is `killed`; the sandbox is told to end, after it was joined where this server did not have it
 *      session_hear.c          what runs is `killed` when the sandbox has ended
 *      session_clear_if_due()  the workspace hears of it, the place removes what is left, and the record goes
 *
 * A server that dies is followed by one that reads the record and goes on (engine_revive.c, session_far.c).
 */
#include "sessions/engine_seats.h"
#include "sessions/session_far.h"
#include "sessions/session_parts.h"

#include "base/files.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Between two attempts to remove what is left of a session. */
#define CLEAR_AGAIN_MS 60000
#define PAGE 500

/* 1: *ret removes its conversation. 0: it has none; or it has expired, and the conversation has another session already. */
static int conversation_change(struct engine *engine, const struct record_session *record,
                               struct arena *arena, struct session_change *ret, struct error *err) {
        struct session_item item = { 0 };
        int found;

        if (!record->conversation)
                return 0;
        found = engine_get(engine, SESSION_TABLE_CONVERSATIONS, record_conversation_key(record, arena), arena,
                           &item, err);
        if (found <= 0 || strcmp(item.value, record->id) != 0)
                return found < 0 ? -1 : 0;
        *ret = (struct session_change){ SESSION_TABLE_CONVERSATIONS, item.key, NULL, SESSION_EXPECT_NOTHING,
                                        0 };
        return 1;
}

/* From this write on, the next server goes on with the end where this one dies. The end of a far session is left to its holder. */
int session_end(struct engine *engine, struct session *session, enum record_ending why,
                struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct record_session *record = &session->record;
        struct session_change changes[2];
        size_t count = 0;
        struct error err;
        int found, written;

        if (!session->far && session->unknown > 0 && !engine_revive_unknown(engine, session))
                return problem_set(problem, PROBLEM_STORE_FAILED, "the session's executions cannot be read");
        found = conversation_change(engine, record, arena, &changes[0], &err);
        if (found < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        count += (size_t)found;
        if (session->far)
                changes[count++] = session_far_word(session, arena);
        record->ending = why;
        written = session_try_record(engine, session, changes, count, problem);
        if (written <= 0) {
                record->ending = RECORD_LIVES;
                return -1;
        }
        if (!session->far && !session->place && !session_busy(session))
                engine_seat_forget(engine, session);
        session_is_over(engine, session, session->far ? SESSION_OVER : SESSION_ENDS);
        return 0;
}

/* A server that neither has its sandbox nor is opening one cannot know that none lives. */
void session_is_over(struct engine *engine, struct session *session, enum session_end end) {
        bool knows = session->place || session->phase != SESSION_NO_PLACE;

        engine->count -= session->end == SESSION_LIVES;
        session->end = end == SESSION_ENDS && !knows ? SESSION_IS_SOUGHT : end;
        session->park_after_ms = 0;
        engine_leave_line(engine, session);
        session_forget_restarts(session);
        while (session->waiting > 0)
                session_end_waiting(engine, session, session_next_waiting(session), REPORT_KILLED,
                                    record_why_ended(session->record.ending));
        session_go_on(engine, session);
        session_changed(session);
        engine_wake(engine);
}

/* What is left */

/* Tells the workspace that the session has ended, and how large its history is. A session that never began leaves no workspace. */
static void tell_workspace(struct engine *engine, struct session *session) {
        const struct engine_workspaces *workspaces = engine->config.workspaces;
        const struct record_session *record = &session->record;
        bool unmade = record->ending == RECORD_UNMADE && record->last_n == 0 && workspaces->remove;
        bool counts = workspaces->set_history && record->history_bytes != session->history_told;
        uint64_t bytes = record->history_bytes > 0 ? (uint64_t)record->history_bytes : 0;
        struct problem ignored;

        if (unmade)
                (void)workspaces->remove(workspaces->context, record->owner, record->id, &ignored);
        if (unmade || session->forgotten)
                return;
        engine_tell_life(engine, record->owner, record->id);
        if (counts)
                (void)workspaces->set_history(workspaces->context, record->owner, record->id, bytes,
                                              &ignored);
}

/* The last step. Where another server has written the record since, the session is looked at again. */
static void remove_record(struct engine *engine, struct session *session) {
        const struct record_session *record = &session->record;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change changes[2] = {
                { SESSION_TABLE_SESSIONS, record_session_key(record->owner, record->id, arena), NULL,
                  SESSION_EXPECT_VERSION, record->version },
                { SESSION_TABLE_SESSIONS, arena_printf(arena, RECORD_OWNER "%s", record->id), NULL,
                  SESSION_EXPECT_NOTHING, 0 },
        };
        struct error err = { 0 };
        int written = engine_write(engine, changes, engine->servers ? 2 : 1, &err);

        if (written > 0)
                session->end = SESSION_OVER;
        else
                session->stale = engine->servers != NULL;
        if (written < 0) {
                session->park_after_ms = engine_now(engine) + CLEAR_AGAIN_MS;
                log_warning("session %s: its record cannot be removed: %s", record->id, err.message);
        }
}

/* All ends are recorded, and this server has no sandbox of it. */
static bool is_to_be_cleared(const struct session *session) {
        return (session->end == SESSION_IS_SOUGHT || session->end == SESSION_ENDS) && !session->far &&
               !session->stale && !session->running && !session->unwritten &&
               session->phase == SESSION_NO_PLACE;
}

/* True: a sandbox that this server did not know lives, and was joined: clear() would kill its kernels before they flush their files. */
static bool seek(struct engine *engine, struct session *session) {
        struct error ignored;

        if (session->end != SESSION_IS_SOUGHT)
                return false;
        session->end = SESSION_ENDS;
        return session_open_place(engine, session, true, &ignored) == 0;
}

/* By a thread: removes what is left of a session that has ended (a checkpoint, files of its sandbox), and its record last. */
static void clear_session(struct engine *engine, struct session *session, void *context) {
        struct error err;
        int cleared;

        (void)context;
        if (engine->stopping || !is_to_be_cleared(session) || seek(engine, session) ||
            !session_may_act(session))
                return;
        session_turn_leave(engine, session);
        tell_workspace(engine, session);
        cleared = engine->config.place->class->clear(engine->config.place, session->record.id, &err);
        session_turn_return(engine, session);
        if (cleared < 0) {
                session->park_after_ms = engine_now(engine) + CLEAR_AGAIN_MS;
                log_warning("session %s: %s", session->record.id, err.message);
        } else if (is_to_be_cleared(session)) {
                remove_record(engine, session);
        }
}

void session_clear_if_due(struct engine *engine, struct session *session) {
        if (is_to_be_cleared(session) && session->jobs == 0 && !session->taken &&
            engine_now(engine) >= session->park_after_ms)
                engine_job_add(engine, session, session->record.owner, clear_session, NULL);
}

/* Records of servers from before `ending` */

/* Its sandbox has ended. */
static void forget_ending(struct engine *engine, const char *id) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_change change = { SESSION_TABLE_SESSIONS, arena_printf(arena, RECORD_ENDING "%s", id),
                                         NULL, SESSION_EXPECT_NOTHING, 0 };
        struct error err;

        if (engine_write(engine, &change, 1, &err) < 0)
                log_warning("session %s: %s", id, err.message);
}

struct ended {
        char *id, *owner;
};

/* By a thread: ends the sandbox, and tells the workspace, which may not have heard of it. */
static void end_what_was_ending(struct engine *engine, struct session *session, void *context) {
        struct ended *ended = context;
        struct error err;
        int cleared;

        (void)session;
        pthread_mutex_unlock(&engine->lock);
        engine_tell_life(engine, ended->owner, ended->id);
        cleared = engine->config.place->class->clear(engine->config.place, ended->id, &err);
        pthread_mutex_lock(&engine->lock);
        if (cleared < 0)
                log_warning("session %s: %s", ended->id, err.message);
        else
                forget_ending(engine, ended->id);
        free_text(&ended->owner);
        free_text(&ended->id);
        free(ended);
}

int session_find_endings(struct engine *engine, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *after = NULL;
        struct session_item *items;
        size_t count;

        do {
                if (session_store_list(engine->config.store, SESSION_TABLE_SESSIONS, RECORD_ENDING, after,
                                       false, PAGE, arena, &items, &count, err) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        struct ended *ended = calloc(1, sizeof(*ended));

                        if (!ended)
                                abort();
                        after = items[i].key;
                        ended->id = record_copy_text(after + strlen(RECORD_ENDING));
                        ended->owner = record_copy_text(items[i].value);
                        engine_job_add(engine, NULL, ended->owner, end_what_was_ending, ended);
                }
        } while (count == PAGE);
        return 0;
}
