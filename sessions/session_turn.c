/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns. A store that servers share takes milliseconds for each call, and half a minute when it is out of order: nobody waits for that
 * with the engine's lock, but for him who asked. So whoever may write has the session's turn, from the moment he finds it until he is done
 * with it, and the lock is released around each call of the store. What he had looked at is as it was when the call returns: nobody
 * else changes the session, is given its sandbox's events, or frees it. Others' sessions go on.
 *
 * What takes long for other reasons (a sandbox that is opened, files) lets go of the turn as well: meanwhile the session may be changed as
 * ever, and its phase says what must not be done.
 *
 * A store of this machine's writes in microseconds: there the lock is held, as long as the turn is, and the turn is nothing.
 */
#include "sessions/engine_parts.h"
#include "sessions/servers.h"
#include "sessions/session_far.h"

#include <stdlib.h>
#include <string.h>

static bool is_shared(const struct session *session) {
        return session->engine->config.store->class->shared;
}

static void wait_for_turns(struct engine *engine) {
        if (pthread_cond_wait(&engine->turns, &engine->lock) != 0)
                abort();
}

void session_turn_take(struct session *session) {
        if (!is_shared(session))
                return;
        session->takers++;
        while (session->taken)
                wait_for_turns(session->engine);
        session->takers--;
        session->taken = true;
}

/* Its sandbox was not listened to meanwhile. */
void session_turn_give(struct session *session) {
        if (!is_shared(session))
                return;
        session->taken = false;
        pthread_cond_broadcast(&session->engine->turns);
        if (session->place)
                engine_wake(session->engine);
}

static struct session *find(struct engine *engine, const struct engine_caller *caller, const char *id,
                            bool any_owner, struct problem *problem) {
        return any_owner ? engine_find_any(engine, caller, id, problem)
                         : engine_find(engine, caller, id, problem);
}

/* What is in memory may be old, its age too: so nothing but whose it is is looked at before. */
static struct session *find_shared(struct engine *engine, const struct engine_caller *caller, const char *id,
                                   bool any_owner, enum session_look look, struct problem *problem) {
        for (;;) {
                struct session *session = record_is_id(id) ? engine_find_id(engine, id) : NULL;

                if (!session) {
                        if (session_far_load(engine, any_owner ? NULL : caller->owner, id, problem) <= 0)
                                return NULL;
                        continue;
                }
                if (!any_owner && (!caller->owner || strcmp(session->record.owner, caller->owner) != 0)) {
                        engine_not_found(problem);
                        return NULL;
                }
                if (session->taken) {
                        wait_for_turns(engine);
                        continue;
                }
                session_turn_take(session);
                if (session_far_needs_look(session, look) && session_far_look(engine, session, problem) < 0) {
                        session_turn_give(session);
                        return NULL;
                }
                if (find(engine, caller, id, any_owner, problem) == session)
                        return session;
                session_turn_give(session);
                return NULL;
        }
}

struct session *session_turn_find(struct engine *engine, const struct engine_caller *caller, const char *id,
                                  bool any_owner, enum session_look look, struct problem *problem) {
        return engine->servers ? find_shared(engine, caller, id, any_owner, look, problem)
                               : find(engine, caller, id, any_owner, problem);
}

bool session_may_act(struct session *session) {
        struct servers *servers = session->engine->servers;
        uint64_t term;

        /* Without a record no other server can have it. */
        if (!servers || session->end == SESSION_OVER)
                return true;
        term = servers_term(servers);
        if (term != 0 && session->term == term)
                return true;
        session->stale = true;
        return false;
}

void session_turn_leave(struct engine *engine, struct session *session) {
        if (session)
                session_turn_give(session);
        pthread_mutex_unlock(&engine->lock);
}

void session_turn_return(struct engine *engine, struct session *session) {
        pthread_mutex_lock(&engine->lock);
        if (session)
                session_turn_take(session);
}

int engine_get(struct engine *engine, enum session_table table, const char *key, struct arena *arena,
               struct session_item *ret, struct error *err) {
        bool shared = engine->config.store->class->shared;
        int found;

        if (shared)
                pthread_mutex_unlock(&engine->lock);
        found = session_store_get(engine->config.store, table, key, arena, ret, err);
        if (shared)
                pthread_mutex_lock(&engine->lock);
        return found;
}

int engine_write(struct engine *engine, const struct session_change *changes, size_t count,
                 struct error *err) {
        bool shared = engine->config.store->class->shared;
        int stored;

        if (shared)
                pthread_mutex_unlock(&engine->lock);
        stored = session_store_write(engine->config.store, changes, count, err);
        if (shared)
                pthread_mutex_lock(&engine->lock);
        return stored;
}
