/* SPDX-License-Identifier: Apache-2.0 */
/* Two servers on one store, each with a place of its own. */
#ifndef BERTH_TESTS_UNIT_SESSIONS_MANY_FIXTURE_H
#define BERTH_TESTS_UNIT_SESSIONS_MANY_FIXTURE_H

#include "sessions/engine_fixture.h"
#include "sessions/shared_store.h"

/* One server: a fixture whose store is a view of the one that all have. */
static struct fixture *servers[2];
static struct shared_store *views[2];
static struct session_store *table;

/* How long a seat is kept whose session is unknown; 0: as long as it is in earnest. */
static int64_t ghost_ms;

/* Silence is noticed after that. Long enough for a machine that does much else: a server that lives is never taken for dead in it. */
#define SILENT_MS 4000

static inline void open_server(size_t i) {
        const struct engine_config config = { .store = &views[i]->store,
                                              .place = &servers[i]->place.place,
                                              .catalog = &catalog,
                                              .workspaces = &workspaces,
                                              .clock = &test_clock,
                                              .limits = servers[i]->limits,
                                              .beat_ms = 200,
                                              .silent_ms = SILENT_MS,
                                              .ghost_ms = ghost_ms };
        struct error err = { 0 };

        if (engine_open(&config, &servers[i]->engine, &err) < 0)
                fail_msg("%s", err.message);
}

static inline int setup_many(void **state) {
        struct fixture *first;

        ghost_ms = 0;
        if (setup(state) < 0)
                return -1;
        first = *state;
        engine_close(first->engine);
        table = first->store;
        for (size_t i = 0; i < 2; i++) {
                servers[i] = i == 0 ? first : calloc(1, sizeof(*servers[i]));
                views[i] = shared_store_new(table);
                views[i]->borrowed = true;
                servers[i]->store = &views[i]->store;
                if (i > 0) {
                        servers[i]->arena = arena_new();
                        servers[i]->place.place.class = &fake_class;
                        pthread_mutex_init(&servers[i]->place.lock, NULL);
                }
                servers[i]->place.notes = true;
                open_server(i);
        }
        return 0;
}

static inline int teardown_many(void **state) {
        struct fixture *first = *state;

        for (size_t i = 0; i < 2; i++) {
                atomic_store(&views[i]->down, false);
                engine_close(servers[i]->engine);
                session_store_close(&views[i]->store);
                fake_kill_all(&servers[i]->place);
        }
        arena_free(servers[1]->arena);
        free(servers[1]);
        session_store_close(table);
        folder_remove(first->folder);
        arena_free(first->arena);
        free(first);
        return 0;
}

/* How many items of a table begin so, up to ten. */
static inline size_t count_items(enum session_table of, const char *prefix) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item *items;
        struct error err;
        size_t count;

        assert_int_equal(session_store_list(table, of, prefix, NULL, false, 10, arena, &items, &count, &err),
                         0);
        return count;
}

/* What the record of a session says in the store. */
static inline json_t *record_of(const char *id) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct session_item *items;
        struct error err;
        size_t count;

        assert_int_equal(session_store_list(table, SESSION_TABLE_SESSIONS, "", NULL, false, 1000, arena,
                                            &items, &count, &err),
                         0);
        for (size_t i = 0; i < count; i++) {
                if (*items[i].key != '~' && strstr(items[i].key, id))
                        return json_checked(json_loads(items[i].value, 0, NULL));
        }
        return NULL;
}

static inline void runs(size_t at, const char *id, int64_t n, const char *text) {
        struct engine_follower *follower = NULL;
        const char *code = arena_printf(servers[0]->arena, "say %s", text);
        const char *heard = arena_printf(servers[0]->arena, "started stdout(%s) done(ok)", text);

        assert_int_equal(run_code(servers[at], &alice, id, code, &follower), n);
        assert_string_equal(hear_all(servers[at], follower), heard);
}

/* Runs `hold` at the first server, and returns once it does. */
static inline struct engine_follower *holds_at_first(const char *id, int64_t n, const char *code) {
        struct engine_follower *follower = NULL;

        assert_int_equal(run_code(servers[0], &alice, id, code, &follower), n);
        wait_until_running(servers[0], follower);
        return follower;
}

#define MANY_TEST(function) cmocka_unit_test_setup_teardown(function, setup_many, teardown_many)

#endif
