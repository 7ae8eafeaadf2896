/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of an agent's seats:
 *
 *      {agent, seats: {SERVER: [SESSION]}, line: [[SERVER, TICKET]], next: TICKET, at, keepSeconds}
 *
 * Each write makes this server's part what it is in memory (own_seats()), whatever it was about: so a write whose answer was lost, or a
 * session that was let go, is put right by the next one, and `dirty` says that there is to be one. All of an agent's are made one
 * after the other here, and against other servers by the record's version.
 *
 * Who holds a seat must not lose it unseen. Others may take this server for dead when it was silent for too long, and give its idle
 * sessions' seats to theirs: servers_lapses() counts such times, and a seat from before one is worth nothing unless something runs in its
 * session, whose record keeps it. That is looked at once more after the record says that something runs, and before it does
 * (give_next() in session_place.c). From then on nobody frees it.
 */
#include "sessions/engine_seats.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "sessions/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 10
#define ATTEMPT_WAIT_MS 10  /* doubled each time, to some 5 s in all */
#define SEATS_JOBS "~seats" /* no owner has that name */
#define LOOKED_AT_MAX 16    /* of others' sessions, whether one is idle, or is no more */
#define LOOK_AGAIN_MS 30000 /* after which who finds no seat looks at them again, and gives word again */
#define RECORD_BYTES_MAX (SESSION_VALUE_MAX - 4096)
#define LINE_MAX 256 /* servers in line: more are none */
/* Longer than any session lives: as old as that no seat is one. */
#define KEEP_SECONDS ((int64_t)15 * 86400)

/* A session without a record, or with one that makes no sense, that another server has a seat for. */
struct ghost {
        char id[ENGINE_ID_SIZE];
        int64_t since_ms; /* when that was seen first, by the monotonic clock */
};

struct agent_seats {
        struct agent_seats *next;
        char *agent;
        bool taken;     /* somebody is about the record */
        bool in_line;   /* this server stands in its line */
        bool come;      /* and others have what is idle */
        bool called;    /* others stand there, and there is too little room for them */
        uint64_t calls; /* how often they said so */
        bool dirty;     /* the record may say something else than this server knows */
        bool tended;    /* a job is about that */
        int64_t looked_ms; /* when it was looked whether seats of living servers are anybody's, by the monotonic clock; 0: never */
        size_t looked_at; /* so many of them, since it was begun with the first */
        json_t *over;     /* ids of sessions that are over, whoever had a seat for them; NULL: none */
        struct ghost *ghosts;
        size_t ghost_count;
};

/* What one write is about. */
struct seating {
        struct session *wants; /* NULL: nobody wants one */
        int64_t limit;         /* 0: there is none (any more) */
        bool keeps;            /* it has one already, or another server had it for it */
        bool waits;            /* where there is none, this server joins the line */
        bool asks;             /* the same, where others have something that is idle */
};

/* --- what is known here --- */

static bool is_of(const struct session *session, const char *agent) {
        return session->record.agent && strcmp(session->record.agent, agent) == 0;
}

static int64_t limit_of(struct engine *engine, const char *agent, bool *ret_reject) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct catalog_agent found = { 0 };
        struct error ignored;

        if (engine->config.catalog->agent(engine->config.catalog, agent, arena, &found, &ignored) != 1)
                return 0;
        if (ret_reject)
                *ret_reject = found.reject;
        return found.containers < ENGINE_SEATS_MAX ? found.containers : ENGINE_SEATS_MAX;
}

static struct agent_seats *find(const struct engine *engine, const char *agent) {
        struct agent_seats *seats = engine->seats;

        while (seats && strcmp(seats->agent, agent) != 0)
                seats = seats->next;
        return seats;
}

static struct agent_seats *find_or_add(struct engine *engine, const char *agent) {
        struct agent_seats *seats = find(engine, agent);

        if (seats)
                return seats;
        seats = calloc(1, sizeof(*seats));
        if (!seats)
                abort();
        seats->agent = record_copy_text(agent);
        seats->next = engine->seats;
        engine->seats = seats;
        return seats;
}

static bool is_current(const struct session *session) {
        return session->seat_lapses == servers_lapses(session->engine->servers);
}

/* A seat from before this server was out of touch counts only while its session's record says that something runs. */
static bool has_seat(const struct session *session) {
        return session->seated && (is_current(session) || session->running || session->unwritten);
}

bool engine_seat_is_needed(struct engine *engine, const struct session *session) {
        return engine->servers && session->record.agent && limit_of(engine, session->record.agent, NULL) > 0;
}

bool engine_seat_is_lost(const struct session *session) {
        return session->engine->servers && (session->seat_lost || (session->seated && !is_current(session)));
}

bool engine_seat_is_to_go(const struct session *session) {
        const struct agent_seats *seats;

        if (engine_seat_is_lost(session))
                return true;
        /* Who got it waited for it himself: something may run first. */
        if (!session->seated || (session_wants(session) && !session->seat_used))
                return false;
        seats = find(session->engine, session->record.agent);
        return seats && seats->called;
}

void engine_seat_look(struct session *session, int64_t limit) {
        if (session->engine->servers && !session->far && session->phase == SESSION_OPEN && !session->seated)
                session->seat_lost = limit > 0;
}

bool engine_seats_may_come(const struct engine *engine, const char *agent) {
        const struct agent_seats *seats = engine->servers ? find(engine, agent) : NULL;

        return seats && seats->come;
}

static bool waits_here(const struct engine *engine, const char *agent, const struct session *but) {
        for (const struct session *session = engine->first; session; session = session->next) {
                if (session != but && session_lives(session) && session->in_line > 0 && is_of(session, agent))
                        return true;
        }
        return false;
}

/* --- the record --- */

/* Lists of texts are short enough to be looked through: a record has as many as fit. */
static bool has_id(const json_t *list, const char *id) {
        const json_t *item;
        size_t index;

        json_array_foreach (list, index, item) {
                if (json_string_value(item) && strcmp(json_string_value(item), id) == 0)
                        return true;
        }
        return false;
}

static void remove_id(json_t *list, const char *id) {
        for (size_t i = json_array_size(list); i > 0; i--) {
                const char *text = json_string_value(json_array_get(list, i - 1));

                if (!text || strcmp(text, id) == 0)
                        json_array_remove(list, i - 1);
        }
}

static bool others_have(const struct engine *engine, json_t *all, const char *id) {
        const char *server;
        json_t *ids;

        json_object_foreach (all, server, ids) {
                if (strcmp(server, engine->number) != 0 && has_id(ids, id))
                        return true;
        }
        return false;
}

static void remove_from_others(const struct engine *engine, json_t *all, const char *id) {
        const char *server;
        json_t *ids;

        json_object_foreach (all, server, ids) {
                if (strcmp(server, engine->number) != 0)
                        remove_id(ids, id);
        }
}

static size_t count_seats(json_t *all) {
        const char *server;
        json_t *ids;
        size_t count = 0;

        json_object_foreach (all, server, ids)
                count += json_array_size(ids);
        return count;
}

/* Of what this server has: that of `wants` is not among them, and what another has taken over by now is his. */
static json_t *own_seats(const struct engine *engine, const struct agent_seats *seats,
                         const struct session *wants, json_t *all) {
        json_t *own = json_checked(json_array());

        for (const struct session *session = engine->first; session; session = session->next) {
                if (session != wants && is_of(session, seats->agent) && has_seat(session) &&
                    !others_have(engine, all, session->record.id))
                        json_add(own, json_string(session->record.id));
        }
        return own;
}

/* --- servers that are no more --- */

static bool is_dead(struct engine *engine, const char *server) {
        struct error ignored;
        int lives;

        if (strcmp(server, engine->number) == 0)
                return false;
        pthread_mutex_unlock(&engine->lock);
        lives = servers_lives(engine->servers, server, &ignored);
        pthread_mutex_lock(&engine->lock);
        return lives == 0;
}

static void forget_ghost(struct agent_seats *seats, const char *id) {
        for (size_t i = 0; i < seats->ghost_count; i++) {
                if (strcmp(seats->ghosts[i].id, id) == 0)
                        seats->ghosts[i--] = seats->ghosts[--seats->ghost_count];
        }
}

static int64_t ghost_ms(const struct engine *engine) {
        return engine->config.ghost_ms ? engine->config.ghost_ms : ENGINE_SEAT_GHOST_MS;
}

static bool is_ghost(const struct engine *engine, struct agent_seats *seats, const char *id) {
        for (size_t i = 0; i < seats->ghost_count; i++) {
                if (strcmp(seats->ghosts[i].id, id) == 0)
                        return clock_now_ms() - seats->ghosts[i].since_ms < ghost_ms(engine);
        }
        seats->ghosts = array_grow_alone(seats->ghosts, seats->ghost_count, sizeof(*seats->ghosts));
        snprintf(seats->ghosts[seats->ghost_count].id, ENGINE_ID_SIZE, "%s", id);
        seats->ghosts[seats->ghost_count++].since_ms = clock_now_ms();
        return true;
}

static void forget_ghosts_without_seat(const struct engine *engine, struct agent_seats *seats, json_t *all) {
        for (size_t i = 0; i < seats->ghost_count; i++) {
                if (!others_have(engine, all, seats->ghosts[i].id))
                        seats->ghosts[i--] = seats->ghosts[--seats->ghost_count];
        }
}

/*
 * 1: something of it runs, as its record says; 0: nothing, though something may wait for whoever takes it over; 2: it has none, or none that
 * says anything; -1: the store does not say.
 */
static int find_running(struct engine *engine, const char *id) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item item = { 0 };
        struct record_session record;
        struct error ignored;
        int found = engine_get(engine, SESSION_TABLE_SESSIONS, arena_printf(arena, RECORD_OWNER "%s", id),
                               arena, &item, &ignored);

        if (found > 0)
                found = engine_get(engine, SESSION_TABLE_SESSIONS, record_session_key(item.value, id, arena),
                                   arena, &item, &ignored);
        if (found <= 0)
                return found < 0 ? -1 : 2;
        if (record_from_text(&item, &record, &ignored) < 0)
                return 2;
        found = record.taken_n >= record.oldest_n && record.oldest_n <= record.last_n;
        record_dispose(&record);
        return found;
}

/*
 * What does not run needs none: what waits there takes one where it is taken over, behind who came before it. Until there are fewer
 * than `enough` in all: each costs two calls of the store, and meanwhile others change the record.
 */
static void free_seats_of_one(struct engine *engine, struct agent_seats *seats, json_t *all, json_t *ids,
                              size_t enough) {
        for (size_t i = json_array_size(ids); i > 0 && count_seats(all) >= enough; i--) {
                const char *id = json_string_value(json_array_get(ids, i - 1));
                int open = id && record_is_id(id) ? find_running(engine, id) : 0;

                bool is_over = open == 0 || (open == 2 && !is_ghost(engine, seats, id));

                if (id && (is_over || open == 1))
                        forget_ghost(seats, id);
                if (is_over)
                        json_array_remove(ids, i - 1);
        }
}

static void free_dead_seats(struct engine *engine, struct agent_seats *seats, json_t *all, size_t enough) {
        const char *server;
        json_t *ids;

        json_object_foreach (all, server, ids) {
                if (count_seats(all) >= enough && json_array_size(ids) > 0 && is_dead(engine, server))
                        free_seats_of_one(engine, seats, all, ids, enough);
        }
}

/*
 * A living server's seats are its own to give back, and it does so when it has word. But of a session without a record nothing can begin: for
 * that nobody holds one, once what ran has to be over. Each time some more are looked at.
 */
static void free_seats_of_none(struct engine *engine, struct agent_seats *seats, json_t *all) {
        size_t at = 0, looked = 0;
        const char *server;
        json_t *ids;

        json_object_foreach (all, server, ids) {
                for (size_t i = 0; i < json_array_size(ids) && looked < LOOKED_AT_MAX; i++) {
                        const char *id = json_string_value(json_array_get(ids, i));
                        int open;

                        if (strcmp(server, engine->number) == 0 || at++ < seats->looked_at || !id)
                                continue;
                        looked++;
                        open = find_running(engine, id);
                        if (open < 0 || (open == 2 && is_ghost(engine, seats, id)))
                                continue;
                        forget_ghost(seats, id);
                        if (open == 2)
                                json_array_remove(ids, i--);
                }
        }
        seats->looked_at = looked == LOOKED_AT_MAX ? seats->looked_at + looked : 0;
}

/* Some session of another server's is idle, as far as the first ones tell. */
static bool others_are_idle(struct engine *engine, json_t *all) {
        const char *server;
        const json_t *item;
        size_t index, looked_at = 0;
        json_t *ids;

        json_object_foreach (all, server, ids) {
                if (strcmp(server, engine->number) == 0)
                        continue;
                json_array_foreach (ids, index, item) {
                        if (looked_at++ == LOOKED_AT_MAX)
                                return false;
                        if (json_string_value(item) && find_running(engine, json_string_value(item)) == 0)
                                return true;
                }
        }
        return false;
}

/* --- the line --- */

/* How many stand there before this server does, or in all where it does not. */
static size_t count_before(const struct engine *engine, const json_t *line, bool *ret_in_line) {
        const json_t *entry;
        size_t index;

        *ret_in_line = false;
        json_array_foreach (line, index, entry) {
                const char *server = json_string_value(json_array_get(entry, 0));

                if (server && strcmp(server, engine->number) == 0) {
                        *ret_in_line = true;
                        return index;
                }
        }
        return index;
}

static bool is_own(struct engine *engine, const char *server) {
        return strcmp(server, engine->number) == 0;
}

/* Whoever leaves; and what names no server. */
static void leave_line(struct engine *engine, json_t *line, bool (*leaves)(struct engine *, const char *)) {
        for (size_t i = json_array_size(line); i > 0; i--) {
                const char *server = json_string_value(json_array_get(json_array_get(line, i - 1), 0));

                if (!server || leaves(engine, server))
                        json_array_remove(line, i - 1);
        }
}

static void join_line(const struct engine *engine, json_t *record, json_t *line) {
        json_int_t ticket = json_integer_or(record, "next", 1);

        json_add(line, json_pack("[s, I]", engine->number, ticket));
        json_put(record, "next", json_integer(ticket > 0 && ticket < INT64_MAX ? ticket + 1 : 1));
}

/* To each other server that has seats; what cannot be one's number is nobody's. */
static size_t add_words(const struct engine *engine, const struct agent_seats *seats, json_t *all,
                        struct session_change *changes, size_t count, struct arena *arena) {
        char digest[RECORD_DIGEST_SIZE];
        const char *server;
        json_t *ids;

        record_digest((const char *const[]){ seats->agent }, 1, digest);
        json_object_foreach (all, server, ids) {
                if (count == SESSION_CHANGES_MAX || strcmp(server, engine->number) == 0 ||
                    strlen(server) >= sizeof(engine->number) || json_array_size(ids) == 0)
                        continue;
                changes[count++] =
                        (struct session_change){ SESSION_TABLE_SESSIONS,
                                                 arena_printf(arena, RECORD_WORD "%s/" ENGINE_SEATS_WORD "%s",
                                                              server, digest),
                                                 seats->agent, SESSION_EXPECT_NOTHING, 0 };
        }
        return count;
}

/* --- one change --- */

static bool is_number(const struct engine *engine, const char *text) {
        return text && strlen(text) == strlen(engine->number) &&
               strspn(text, "0123456789abcdef") == strlen(text);
}

/* Each session once, in the order in which they stood. */
static json_t *seats_of_one(json_t *ids) {
        json_t *result = json_checked(json_array()), *seen JSON_CLEANUP = json_checked(json_object());
        const json_t *id;
        size_t index;

        json_array_foreach (ids, index, id) {
                const char *text = json_string_value(id);

                if (!text || !record_is_id(text) || json_object_get(seen, text))
                        continue;
                json_put(seen, text, json_true());
                json_add(result, json_string(text));
        }
        return result;
}

/* Each server once. */
static json_t *line_of(const struct engine *engine, const json_t *line) {
        json_t *result = json_checked(json_array()), *seen JSON_CLEANUP = json_checked(json_object());
        const json_t *entry;
        size_t index;

        json_array_foreach (line, index, entry) {
                const char *server = json_string_value(json_array_get(entry, 0));

                if (json_array_size(result) == LINE_MAX || !is_number(engine, server) ||
                    json_object_get(seen, server))
                        continue;
                json_put(seen, server, json_true());
                json_add(result, json_pack("[s, I]", server, json_integer_value(json_array_get(entry, 1))));
        }
        return result;
}

static bool fits(const json_t *record) {
        char *text TEXT_CLEANUP = json_plain(record);

        return strlen(text) <= RECORD_BYTES_MAX;
}

/* More than servers can have put there: what is of none that is known to live goes, and if that is not enough, all but this one's own. */
static void cut_to_size(const struct engine *engine, const struct agent_seats *seats, json_t *record) {
        json_t *all = json_object_get(record, "seats"), *ids;
        const char *server;
        void *next;

        for (int attempt = 0; attempt < 2 && !fits(record); attempt++) {
                log_warning("the record of the seats of Agent/%s has more than it can hold: %s", seats->agent,
                            attempt == 0 ? "what is of no server that is known goes" : "it is made anew");
                json_object_foreach_safe (all, next, server, ids) {
                        if (strcmp(server, engine->number) != 0 &&
                            (attempt > 0 || !servers_know(engine->servers, server)))
                                json_object_del(all, server);
                }
        }
}

/* What of it makes sense, and nothing else: whatever somebody has put there, it can be written again. */
static json_t *sense_of(const struct engine *engine, const struct agent_seats *seats, const json_t *found) {
        static const char *const numbers[] = { "next", "at", "keepSeconds" };
        json_t *record = json_checked(json_object()), *all = json_checked(json_object()), *ids;
        const char *server;

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                if (json_is_integer(json_object_get(found, numbers[i])))
                        json_put(record, numbers[i], json_incref(json_object_get(found, numbers[i])));
        }
        if (json_object_get(found, "agent"))
                json_put(record, "agent", json_string(seats->agent));
        json_object_foreach (json_object_get(found, "seats"), server, ids) {
                if (is_number(engine, server) && json_is_array(ids))
                        json_put(all, server, seats_of_one(ids));
        }
        json_put(record, "seats", all);
        json_put(record, "line", line_of(engine, json_object_get(found, "line")));
        return record;
}

/* As it is, which is NULL where there is none or it is not even an object, and what of it makes sense. */
static int read_seats(struct engine *engine, const struct agent_seats *seats, struct arena *arena,
                      struct session_item *item, json_t **ret_found, json_t **ret, struct error *err) {
        char digest[RECORD_DIGEST_SIZE];
        const char *key;
        int found;

        record_digest((const char *const[]){ seats->agent }, 1, digest);
        *item = (struct session_item){ 0 };
        key = arena_printf(arena, ENGINE_SEATS_KEY "%s", digest);
        found = engine_get(engine, SESSION_TABLE_KEYS, key, arena, item, err);
        if (found < 0)
                return -1;
        if (found == 0)
                item->key = key;
        else
                *ret_found = json_loads(item->value, JSON_REJECT_DUPLICATES, NULL);
        if (found > 0 && !json_is_object(*ret_found))
                log_warning("the record of the seats of Agent/%s is corrupt, and is written again",
                            seats->agent);
        *ret = sense_of(engine, seats, *ret_found);
        if (found > 0 && strlen(item->value) > RECORD_BYTES_MAX / 2)
                cut_to_size(engine, seats, *ret);
        return 0;
}

/* Lists that are empty are nobody's. */
static void tidy(json_t *all) {
        const char *server;
        json_t *ids;
        void *next;

        json_object_foreach_safe (all, next, server, ids) {
                if (!json_is_array(ids) || json_array_size(ids) == 0)
                        json_object_del(all, server);
        }
}

/* What is to be written, as it is made out. */
struct draft {
        json_t *record, *all, *line; /* the last two are borrowed from it */
        size_t had;                  /* in line, before this server joins it */
        bool room, waits, in_line, joins;
        bool again; /* it waits for so long that others are to have word again */
};

/* Whether others are to have word again, and their seats to be looked at: long after the first time, which is noted here, or the last. */
static bool is_due_again(const struct engine *engine, struct agent_seats *seats) {
        int64_t now_ms = clock_now_ms(),
                after_ms = ghost_ms(engine) < LOOK_AGAIN_MS ? ghost_ms(engine) : LOOK_AGAIN_MS;
        bool again = seats->looked_ms > 0 && now_ms - seats->looked_ms >= after_ms;

        if (again || seats->looked_ms == 0)
                seats->looked_ms = now_ms;
        return again;
}

/* Whether there is a seat for `wants`, and whether somebody waits here; servers that are dead are looked at where there is none. */
static void find_room(struct engine *engine, struct agent_seats *seats, const struct seating *seating,
                      struct draft *draft) {
        const struct session *wants = seating->wants;
        size_t ahead;

        json_put(draft->all, engine->number, own_seats(engine, seats, wants, draft->all));
        ahead = count_before(engine, draft->line, &draft->in_line);
        if (wants && !seating->keeps && (int64_t)(count_seats(draft->all) + ahead) >= seating->limit) {
                leave_line(engine, draft->line, is_dead);
                ahead = count_before(engine, draft->line, &draft->in_line);
                if ((int64_t)ahead < seating->limit)
                        free_dead_seats(engine, seats, draft->all, (size_t)seating->limit - ahead);
                draft->again = (int64_t)(count_seats(draft->all) + ahead) >= seating->limit &&
                               is_due_again(engine, seats);
                if (draft->again)
                        free_seats_of_none(engine, seats, draft->all);
        }
        draft->room = !wants || seating->keeps || (int64_t)(count_seats(draft->all) + ahead) < seating->limit;
        draft->waits =
                waits_here(engine, seats->agent, wants) ||
                (!draft->room && (seating->waits || (seating->asks && others_are_idle(engine, draft->all))));
}

/* Who got a seat goes to the end of the line with the next of his. */
static void fill_seat_and_line(struct engine *engine, struct agent_seats *seats,
                               const struct seating *seating, struct draft *draft) {
        const struct session *wants = seating->wants;
        bool takes = draft->room && wants;
        json_t *own;

        /* What was released meanwhile is seen to by who released it: he comes after us. */
        own = own_seats(engine, seats, wants, draft->all);
        if (takes)
                json_add(own, json_string(wants->record.id));
        json_put(draft->all, engine->number, own);
        if (takes || !draft->waits)
                leave_line(engine, draft->line, is_own);
        draft->joins = draft->waits && (!draft->in_line || takes);
        draft->had = json_array_size(draft->line);
        if (draft->joins)
                join_line(engine, draft->record, draft->line);
        tidy(draft->all);
}

/* 1: it is written; 0: somebody was faster. What says nothing any more is deleted. */
static int write_draft(struct engine *engine, const struct agent_seats *seats, const struct seating *seating,
                       const struct draft *draft, const struct session_item *item, struct arena *arena,
                       struct error *err) {
        struct session_change changes[SESSION_CHANGES_MAX];
        char *text TEXT_CLEANUP = NULL;
        size_t count = 1;

        changes[0] = (struct session_change){ SESSION_TABLE_KEYS, item->key, NULL,
                                              item->version ? SESSION_EXPECT_VERSION : SESSION_EXPECT_ABSENT,
                                              item->version };
        if (json_object_size(draft->all) > 0 || json_array_size(draft->line) > 0) {
                json_put(draft->record, "agent", json_string(seats->agent));
                json_put(draft->record, "at", json_integer(engine_now(engine)));
                json_put(draft->record, "keepSeconds", json_integer(KEEP_SECONDS));
                changes[0].value = text = json_plain(draft->record);
        } else if (!item->version) {
                return 1;
        }
        if ((draft->joins || draft->again) &&
            (int64_t)(count_seats(draft->all) + draft->had) >= seating->limit)
                count = add_words(engine, seats, draft->all, changes, count, arena);
        return engine_write(engine, changes, count, err);
}

/*
 * A seat moves to this server only together with its session. Of a session with something open, session_may_act()
 * tells whether this server still has it. Any other session may have been taken by another server meanwhile, which only
 * its record tells.
 */
static int check_holder(struct engine *engine, struct session *session, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct record_session *record = &session->record;
        struct session_item item = { 0 };
        int found;

        if (session_may_act(session) && record_is_open(record))
                return 0;
        found = session->stale
                        ? 0
                        : engine_get(engine, SESSION_TABLE_SESSIONS,
                                     record_session_key(record->owner, record->id, arena), arena, &item, err);
        if (found < 0)
                return -1;
        session->stale = session->stale || (found > 0 && item.version != record->version);
        return session_may_act(session) && !session->stale
                       ? 0
                       : error_set(err,
                                   "another server may already have session %s: its record is read first",
                                   record->id);
}

/*
 * Makes the record say what is so, and gives `wants` a seat where there is one. 1: it has one, or nobody wanted one; 0: there is none; 2:
 * somebody was faster; -1: the store does not say what was written, or the session may be another server's.
 */
static int change_once(struct engine *engine, struct agent_seats *seats, const struct seating *seating,
                       struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint64_t lapses = servers_lapses(engine->servers), calls = seats->calls;
        json_t *record JSON_CLEANUP = NULL, *before JSON_CLEANUP = NULL;
        struct session *wants = seating->wants;
        struct session_item item;
        struct draft draft = { 0 };
        const json_t *over;
        size_t index, over_count;
        int written = 1;

        if (read_seats(engine, seats, arena, &item, &before, &record, err) < 0 ||
            (wants && check_holder(engine, wants, err) < 0))
                return -1;
        draft = (struct draft){ .record = record,
                                .all = json_object_get(record, "seats"),
                                .line = json_object_get(record, "line") };
        over_count = json_array_size(seats->over);
        json_array_foreach (seats->over, index, over) {
                remove_from_others(engine, draft.all, json_string_value(over));
                forget_ghost(seats, json_string_value(over));
        }
        if (wants)
                remove_from_others(engine, draft.all, wants->record.id);
        find_room(engine, seats, seating, &draft);
        fill_seat_and_line(engine, seats, seating, &draft);
        forget_ghosts_without_seat(engine, seats, draft.all);
        /* Others were asked meanwhile, which takes its time. */
        if (wants && draft.room && !session_may_act(wants))
                return 2;
        if (!json_equal(record, before) || (draft.again && draft.in_line))
                written = write_draft(engine, seats, seating, &draft, &item, arena, err);
        if (written <= 0)
                return written < 0 ? -1 : 2;
        while (over_count > 0)
                json_array_remove(seats->over, --over_count);
        seats->in_line = draft.waits && (draft.joins || draft.in_line);
        seats->come = !draft.room && draft.waits;
        /* Word that came meanwhile is newer than what was read. */
        if (seats->calls == calls)
                seats->called =
                        seating->limit > 0 && (int64_t)(count_seats(draft.all) + draft.had -
                                                        (seats->in_line && !draft.joins)) > seating->limit;
        if (draft.room && wants) {
                wants->seated = true;
                wants->seat_lost = wants->seat_used = false;
                wants->seat_lapses = lapses;
        }
        return draft.room;
}

static void wait_a_little(struct engine *engine, unsigned attempt) {
        double wait_ms = (0.5 + random_unit()) * (double)(ATTEMPT_WAIT_MS << attempt);

        pthread_mutex_unlock(&engine->lock);
        (void)clock_system.sleep_until(&clock_system, clock_now_ms() + (int64_t)wait_ms);
        pthread_mutex_lock(&engine->lock);
}

/* As change_once(), but for 2: as often as others may be faster. With the lock, which is released; of each agent one at a time. */
static int change(struct engine *engine, struct agent_seats *seats, const struct seating *seating,
                  struct error *err) {
        int result = 2;

        while (seats->taken) {
                if (pthread_cond_wait(&engine->turns, &engine->lock) != 0)
                        abort();
        }
        seats->taken = true;
        seats->dirty = false;
        for (unsigned attempt = 0; result == 2 && attempt < ATTEMPTS; attempt++) {
                if (attempt > 0)
                        wait_a_little(engine, attempt - 1);
                result = change_once(engine, seats, seating, err);
        }
        if (result == 2)
                result = error_set_kind(err, ERROR_LOCKED,
                                        "too many servers change what runs for Agent/%s at the same time",
                                        seats->agent);
        if (result < 0)
                seats->dirty = true;
        seats->taken = false;
        pthread_cond_broadcast(&engine->turns);
        return result;
}

/* --- what is asked --- */

/* Something of this server's own that is idle, and makes room before others' is asked for. */
static bool has_idle(const struct engine *engine, const char *agent) {
        for (const struct session *session = engine->first; session; session = session->next) {
                if (is_of(session, agent) && session->seated &&
                    (session->phase == SESSION_PARKING || engine_can_make_room(session)))
                        return true;
        }
        return false;
}

int engine_seat_take(struct engine *engine, struct session *session, struct error *err) {
        const char *agent = session->record.agent;
        struct seating seating = { .wants = session };
        struct error failure = { 0 };
        bool reject = false;
        int taken;

        if (!engine->servers || !agent)
                return 0;
        seating.limit = limit_of(engine, agent, &reject);
        session->seat_lost = false;
        if (seating.limit == 0)
                return 0;
        /* What waits already waits on, and is looked at again. */
        if (!servers_hold(engine->servers))
                return error_set_kind(
                        err,
                        session->in_line > 0 || session_wants(session) ? ERROR_LOCKED : ERROR_UNREACHABLE,
                        "this server is out of touch with the others: what runs for Agent/%s is not known",
                        agent);
        seating.waits = (!reject || session->in_line > 0) && !has_idle(engine, agent);
        seating.asks = reject && !has_idle(engine, agent);
        taken = change(engine, find_or_add(engine, agent), &seating, &failure);
        if (taken > 0)
                return 0;
        if (taken < 0) {
                *err = failure;
                /* What waits already waits on, and is looked at again: nothing is decided by a store that does not answer. */
                if ((session->in_line > 0 || session_wants(session)) && failure.kind != ERROR_REFUSED &&
                    !session->stale)
                        err->kind = ERROR_LOCKED;
                return -1;
        }
        return error_set_kind(err, ERROR_LOCKED,
                              "Agent/%s has reached its limit of %lld containers with what is open now",
                              agent, (long long)seating.limit);
}

/*
 * Where nobody knows whether that was written, this server's seat or the dead one's stands for it as long as something runs; then it is left,
 * and has to take one.
 */
void engine_seat_keep(struct engine *engine, struct session *session) {
        struct seating seating = { .wants = session, .keeps = true };
        struct error err = { 0 };

        if (!engine_seat_is_needed(engine, session))
                return;
        seating.limit = limit_of(engine, session->record.agent, NULL);
        if (change(engine, find_or_add(engine, session->record.agent), &seating, &err) < 0) {
                log_warning("session %s: its seat is not kept: %s", session->record.id, err.message);
                session->seated = session->seat_lost = true;
                session->seat_lapses = servers_lapses(engine->servers);
        }
}

static void change_or_later(struct engine *engine, struct agent_seats *seats) {
        const struct seating seating = { .limit = limit_of(engine, seats->agent, NULL) };
        struct error err = { 0 };

        if (change(engine, seats, &seating, &err) < 0)
                log_warning("what runs for Agent/%s is not written down: %s", seats->agent, err.message);
}

/* Where many go at once, they do not wait for one another: all of them are written with the next change. */
void engine_seat_give(struct engine *engine, struct session *session) {
        struct agent_seats *seats;
        bool had = session->seated;

        session->seated = session->seat_lost = false;
        if (!had)
                return;
        seats = find_or_add(engine, session->record.agent);
        if (seats->taken)
                seats->dirty = true;
        else
                change_or_later(engine, seats);
}

void engine_seat_drop(struct engine *engine, struct session *session) {
        if (session->seated)
                find_or_add(engine, session->record.agent)->dirty = true;
        session->seated = session->seat_lost = false;
}

void engine_seat_forget(struct engine *engine, const struct session *session) {
        struct agent_seats *seats;

        if (!engine_seat_is_needed(engine, session))
                return;
        seats = find_or_add(engine, session->record.agent);
        if (!seats->over)
                seats->over = json_checked(json_array());
        json_add(seats->over, json_string(session->record.id));
        seats->dirty = true;
}

void engine_seats_called(struct engine *engine, const char *agent) {
        bool limited = limit_of(engine, agent, NULL) > 0;
        struct agent_seats *seats = limited ? find_or_add(engine, agent) : find(engine, agent);

        /* What stands there for this server holds others up: it is to be no more than it has. */
        if (seats)
                seats->dirty = true;
        if (!limited)
                return;
        seats->called = true;
        seats->calls++;
        (void)engine_make_room_now(engine, agent);
}

/* --- each second --- */

static void tend_one(struct engine *engine, struct session *none, void *context) {
        struct agent_seats *seats = context;

        (void)none;
        if (!engine->stopping)
                change_or_later(engine, seats);
        seats->tended = false;
}

void engine_seats_tend(struct engine *engine) {
        for (struct agent_seats *seats = engine->seats; seats; seats = seats->next) {
                bool leaves = seats->in_line && !waits_here(engine, seats->agent, NULL);

                if (seats->called)
                        (void)engine_make_room_now(engine, seats->agent);
                if ((!seats->dirty && !leaves) || seats->tended || seats->taken || engine->stopping)
                        continue;
                seats->tended = true;
                engine_job_add(engine, NULL, SEATS_JOBS, tend_one, seats);
        }
}

void engine_seats_close(struct engine *engine) {
        for (struct session *session = engine->first; session; session = session->next) {
                if (session->seated && !session_busy(session))
                        engine_seat_drop(engine, session);
        }
        while (engine->seats) {
                struct agent_seats *seats = engine->seats;

                if (seats->dirty || seats->in_line)
                        change_or_later(engine, seats);
                engine->seats = seats->next;
                array_free_alone(seats->ghosts);
                json_decref(seats->over);
                free_text(&seats->agent);
                free(seats);
        }
}
