/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions that another server has, as who asks here follows them: what they have said lies in the store in pieces, written by their
 * server about once a second as soon as somebody wants it, and their end is in their record. So a stream is told a little later than there,
 * and its result has what history keeps. Where that server dies, who takes over tells all of it again: pieces of a stream may be
 * missing or come twice then, and the result has what is known.
 */
#include "sessions/engine_parts.h"
#include "sessions/session_far.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE_SECONDS 3600             /* that a piece is kept */
#define PIECE_MAX ((size_t)256 << 10) /* bytes of events, before what JSON makes of them */
#define PIECES_AT_ONCE 8
#define LOOK_MS 800

struct far_execution {
        char *owner;
        char id[ENGINE_ID_SIZE];
        int64_t n;
        int64_t piece;     /* the first event of the last piece that was read; 0: none was */
        json_t *events;    /* [[id, name, data]] that were read and not told */
        bool looking;      /* a job is about it */
        bool closed;       /* and nobody follows it any more: the job frees it */
        bool wanted;       /* its server was told that somebody follows its events */
        int64_t looked_ms; /* by the clock of waits */
        char *lost;        /* why it cannot be followed any more; or NULL */
};

/* Telling */

bool far_publishes(const struct session *session, const struct execution *execution) {
        return session->engine->servers && execution->n == session->record.followed_n && !session->forgotten;
}

/* Events from the next one on; NULL: there is none. The last event, with the result, is in the record. */
static json_t *next_piece(const struct execution *execution, int64_t *last) {
        json_t *events = json_checked(json_array());
        struct engine_event event;
        size_t bytes = 0;

        while (bytes < PIECE_MAX && execution_event(execution, *last + 1, &event)) {
                char *text = strcmp(event.name, "done") != 0 ? json_compact(event.data) : NULL;

                if (!text) {
                        json_decref(event.data);
                        break;
                }
                bytes += strlen(text) + 64;
                free(text);
                json_add(events, json_pack("[I, s, o]", (json_int_t)event.id, event.name, event.data));
                (*last)++;
        }
        if (json_array_size(events) > 0)
                return events;
        json_decref(events);
        return NULL;
}

/* What cannot be written, or is longer than a record may be, is missing in the stream: the result has it. */
void far_publish(struct engine *engine, struct session *session, struct execution *execution) {
        json_t *events;
        int64_t last = execution->published;

        execution_hold(execution);
        for (int i = 0; i < PIECES_AT_ONCE && (events = next_piece(execution, &last)); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                json_t *json JSON_CLEANUP =
                        json_checked(json_pack("{s:I, s:i, s:o}", "at", (json_int_t)engine_now(engine),
                                               "keepSeconds", LIVE_SECONDS, "events", events));
                char *text = json_compact(json);
                const struct session_change change = { SESSION_TABLE_KEYS,
                                                       record_live_key(session->record.id, execution->n,
                                                                       execution->published + 1, arena),
                                                       text, SESSION_EXPECT_NOTHING, 0 };
                struct error err;

                execution->published = last;
                if (strlen(text) <= SESSION_VALUE_MAX && engine_write(engine, &change, 1, &err) < 0)
                        log_debug("session %s: %s", session->record.id, err.message);
                free(text);
        }
        execution_drop(execution);
}

/* By a thread. */
static void publish(struct engine *engine, struct session *session, void *context) {
        (void)context;
        if (session->running && session_lives(session) && far_publishes(session, session->running))
                far_publish(engine, session, session->running);
}

/* Following */

static void follow_from_afar(struct engine_follower *follower, const char *owner, const char *id, int64_t n) {
        struct engine *engine = follower->engine;
        struct far_execution *far = calloc(1, sizeof(*far));

        if (!far)
                abort();
        far->owner = record_copy_text(owner);
        snprintf(far->id, sizeof(far->id), "%s", id);
        far->n = n;
        far->events = json_checked(json_array());
        far->looked_ms = INT64_MIN / 2;
        follower->far = far;
        follower->next = engine->far_followers;
        engine->far_followers = follower;
}

void far_follower_begin(struct engine_follower *follower, const char *owner, const char *id, int64_t n,
                        int64_t from) {
        engine_follower_begin(follower, NULL, NULL, from);
        follow_from_afar(follower, owner, id, n);
}

static void free_far(struct engine_follower *follower) {
        struct engine_follower **link = &follower->engine->far_followers;
        struct far_execution *far = follower->far;

        while (*link != follower)
                link = &(*link)->next;
        *link = follower->next;
        json_decref(far->events);
        free(far->owner);
        free(far->lost);
        free(far);
        follower->far = NULL;
}

/* Reads the pieces that have come since. */
static int read_pieces(struct engine *engine, struct far_execution *far, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *prefix = record_live_prefix(far->id, far->n, arena);
        const char *after = far->piece > 0 ? record_live_key(far->id, far->n, far->piece, arena) : NULL;
        struct session_item *items = NULL;
        size_t count = 0;
        int listed;

        pthread_mutex_unlock(&engine->lock);
        listed = session_store_list(engine->config.store, SESSION_TABLE_KEYS, prefix, after, false,
                                    4 * (size_t)PIECES_AT_ONCE, arena, &items, &count, err);
        pthread_mutex_lock(&engine->lock);
        for (size_t i = 0; listed == 0 && i < count; i++) {
                json_t *json JSON_CLEANUP = json_loads(items[i].value, JSON_ALLOW_NUL, NULL), *event;
                size_t index;

                far->piece = strtoll(items[i].key + strlen(prefix), NULL, 10);
                json_array_foreach (json_object_get(json, "events"), index, event)
                        json_add(far->events, json_incref(event));
        }
        return listed < 0 ? -1 : count == 4 * (size_t)PIECES_AT_ONCE;
}

/* 1: its record says that it has ended, and has all; 0: it has not; -1. A new reference. */
static int read_end(struct engine *engine, const struct far_execution *far, json_t **ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item item = { 0 };
        json_t *json;
        int found = engine_get(engine, SESSION_TABLE_EXECUTIONS,
                               record_execution_key(far->owner, far->id, far->n, arena), arena, &item, err);

        if (found < 0)
                return -1;
        json = found > 0 ? execution_read_record(item.value) : NULL;
        if (found > 0 && !json_object_get(json_object_get(json, "result"), "exitCode")) {
                json_decref(json);
                return 0;
        }
        *ret = json;
        return 1;
}

/* Its server is told that somebody wants to know what it says: once for each execution. */
static void want(struct engine *engine, struct far_execution *far) {
        const struct engine_caller caller = { .owner = far->owner };
        struct problem ignored;
        struct session *session =
                session_turn_find(engine, &caller, far->id, false, SESSION_AS_STORED, &ignored);

        if (!session)
                return;
        if (session->record.followed_n == far->n) {
                far->wanted = true;
        } else if (far->n <= session->record.taken_n || far->n == session->record.taken_n + 1) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct session_change word;
                int64_t before = session->record.followed_n;

                if (session->far)
                        word = session_far_word(session, arena);
                session->record.followed_n = far->n;
                far->wanted = session_try_record(engine, session, session->far ? &word : NULL, session->far,
                                                 &ignored) > 0;
                if (!far->wanted)
                        session->record.followed_n = before;
        }
        session_turn_give(session);
}

/* By a thread. Whoever closes it meanwhile leaves it to this one. */
static void look(struct engine *engine, struct session *none, void *context) {
        struct engine_follower *follower = context;
        struct far_execution *far = follower->far;
        json_t *end = NULL;
        struct error err;
        int ended = 0;

        (void)none;
        if (!far->closed && !engine->stopping) {
                ended = read_end(engine, far, &end, &err);
                if (ended == 0 && !follower->only_end && !far->wanted)
                        want(engine, far);
                /* After the end was seen: by then they are all there. */
                while (ended >= 0 && !follower->only_end && !far->closed &&
                       read_pieces(engine, far, &err) > 0)
                        continue;
        }
        far->looking = false;
        far->looked_ms = clock_now_ms();
        if (far->closed) {
                json_decref(end);
                free_far(follower);
                close_descriptor(&follower->descriptor);
                free(follower);
                return;
        }
        if (ended > 0) {
                follower->kept = end;
                if (!end)
                        far->lost = record_copy_text("it is not kept any more");
        }
        if (ended > 0 || json_array_size(far->events) > 0)
                engine_follower_raise(follower);
}

static void look_soon(struct engine *engine, struct engine_follower *follower) {
        follower->far->looking = true;
        engine_job_add(engine, NULL, follower->far->owner, look, follower);
}

void far_look(struct engine *engine) {
        int64_t now_ms = clock_now_ms();

        for (struct engine_follower *follower = engine->far_followers; follower; follower = follower->next) {
                const struct far_execution *far = follower->far;

                if (!far->looking && !far->closed && !follower->kept && !far->lost && !engine->stopping &&
                    now_ms >= far->looked_ms + LOOK_MS)
                        look_soon(engine, follower);
        }
        for (struct session *session = engine->first; session; session = session->next) {
                if (session->running && !session->taken && session_lives(session) &&
                    far_publishes(session, session->running))
                        engine_job_add(engine, session, session->record.owner, publish, NULL);
        }
}

/* What came out of the store is one of these, or nothing. */
static const char *event_name(const char *text) {
        static const char *const names[] = { "started", "stdout", "stderr", "display", "gap" };

        for (size_t i = 0; text && i < sizeof(names) / sizeof(names[0]); i++) {
                if (strcmp(names[i], text) == 0)
                        return names[i];
        }
        return NULL;
}

enum engine_next far_follower_next(struct engine_follower *follower, struct engine_event *ret) {
        struct far_execution *far = follower->far;

        while (!follower->only_end && json_array_size(far->events) > 0) {
                json_t *event = json_array_get(far->events, 0);
                int64_t id = json_integer_value(json_array_get(event, 0));
                const char *name = event_name(json_string_value(json_array_get(event, 1)));

                if (id >= follower->from && name) {
                        *ret = (struct engine_event){ id, name, json_incref(json_array_get(event, 2)) };
                        follower->from = id + 1;
                        json_array_remove(far->events, 0);
                        return ENGINE_EVENT;
                }
                json_array_remove(far->events, 0);
        }
        if (far->lost)
                return ENGINE_ENDED;
        if (follower->kept) {
                if (follower->only_end || !execution_kept_event(follower->kept, follower->from, ret))
                        return ENGINE_ENDED;
                follower->from = ret->id + 1;
                return ENGINE_EVENT;
        }
        return ENGINE_NOTHING;
}

struct wish_to_end {
        char *owner;
        char id[ENGINE_ID_SIZE];
        int64_t n;
};

/* By a thread. */
static void interrupt(struct engine *engine, struct session *none, void *context) {
        struct wish_to_end *wish = context;
        const struct engine_caller caller = { .owner = wish->owner };
        struct problem problem;

        (void)none;
        pthread_mutex_unlock(&engine->lock);
        if (engine_interrupt(engine, &caller, wish->id, wish->n, &problem) < 0)
                log_debug("session %s: %s", wish->id, problem.detail);
        pthread_mutex_lock(&engine->lock);
        free(wish->owner);
        free(wish);
}

static void interrupt_soon(struct engine *engine, const struct far_execution *far) {
        struct wish_to_end *wish = calloc(1, sizeof(*wish));

        if (!wish)
                abort();
        wish->owner = record_copy_text(far->owner);
        memcpy(wish->id, far->id, sizeof(wish->id));
        wish->n = far->n;
        engine_job_add(engine, NULL, far->owner, interrupt, wish);
}

bool far_follower_close(struct engine_follower *follower) {
        struct far_execution *far = follower->far;

        if (follower->disconnects && !follower->kept && !far->lost)
                interrupt_soon(follower->engine, far);
        far->closed = far->looking;
        if (far->closed)
                return true;
        free_far(follower);
        return false;
}

void far_follow_instead(struct engine *engine, struct session *session) {
        struct engine_follower **link = &session->followers;

        (void)engine;
        while (*link) {
                struct engine_follower *follower = *link;
                int64_t n;

                if (!follower->execution ||
                    (follower->execution->result && !follower->execution->unwritten)) {
                        link = &follower->next;
                        continue;
                }
                *link = follower->next;
                n = follower->execution->n;
                execution_drop(follower->execution);
                follower->execution = NULL;
                follower->session = NULL;
                follow_from_afar(follower, session->record.owner, session->record.id, n);
        }
}
