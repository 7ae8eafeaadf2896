/* SPDX-License-Identifier: Apache-2.0 */
/* The engine against a place without sandboxes and a store of its own: what all tests of it begin with. */
#ifndef BERTH_TESTS_UNIT_SESSIONS_ENGINE_FIXTURE_H
#define BERTH_TESTS_UNIT_SESSIONS_ENGINE_FIXTURE_H

#include "sessions/engine.h"

#include "sessions/fake_place.h"

#include "base/json.h"
#include "folder.h"

#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Long enough for any machine: nothing here waits that long unless it is broken. */
#define PATIENCE_MS 60000

struct fixture {
        char folder[sizeof(FOLDER_TEMPLATE)];
        struct session_store *store;
        struct engine *engine;
        struct fake_place place;
        struct engine_limits limits;
        int64_t thread_idle_ms;
        struct arena *arena;
};

static atomic_llong now_ms;
static atomic_bool in_service, reject;
static atomic_int environments_asked; /* of the catalog */
static atomic_llong containers; /* of the agent, as the catalog has it; the place counts by its own number */

/* Bytes; 0 with a sanitizer, and where the C library does not count them (musl). */
static inline size_t heap_in_use(void) {
#ifdef BERTH_HAS_MALLOC_TRIM
        return mallinfo2().uordblks;
#else
        return 0;
#endif
}

static inline int64_t test_wall_ms(const struct clock *clock) {
        (void)clock;
        return atomic_load(&now_ms);
}
static const struct clock test_clock = { .wall_ms = test_wall_ms };

static inline int find_environment(struct catalog *catalog, const char *name, struct arena *arena,
                                   struct catalog_environment *ret, struct error *err) {
        (void)catalog;
        (void)arena;
        (void)err;
        atomic_fetch_add(&environments_asked, 1);
        if (strcmp(name, "python") != 0 && strcmp(name, "other") != 0)
                return 0;
        *ret = (struct catalog_environment){ name, "sha256:abc" };
        return 1;
}

static inline int find_agent(struct catalog *catalog, const char *name, struct arena *arena,
                             struct catalog_agent *ret, struct error *err) {
        (void)catalog;
        (void)arena;
        (void)err;
        if (strcmp(name, "analyst") != 0)
                return 0;
        *ret = (struct catalog_agent){ .name = name,
                                       .environment = "python",
                                       .in_service = atomic_load(&in_service),
                                       .containers = atomic_load(&containers),
                                       .reject = atomic_load(&reject) };
        return 1;
}
static struct catalog catalog = { find_environment, find_agent };

static struct fake_gate files_made = { .shut = PTHREAD_MUTEX_INITIALIZER };
static struct fake_gate files_removed = { .shut = PTHREAD_MUTEX_INITIALIZER };
static atomic_int workspace_count, stages_dropped;

static inline int make_workspace(void *context, const char *owner, const char *id, const char *environment,
                                 const char *agent, int64_t created_ms, int64_t lives_until_ms,
                                 struct problem *problem) {
        (void)context;
        (void)agent;
        (void)problem;
        assert_non_null(owner);
        assert_non_null(id);
        assert_non_null(environment);
        assert_true(lives_until_ms > created_ms);
        fake_pass(&files_made, owner);
        atomic_fetch_add(&workspace_count, 1);
        return 0;
}

static inline int remove_workspace(void *context, const char *owner, const char *id,
                                   struct problem *problem) {
        (void)context;
        (void)id;
        (void)problem;
        fake_pass(&files_removed, owner);
        atomic_fetch_sub(&workspace_count, 1);
        return 0;
}

static inline void drop_staged(void *context, const char *owner, const char *id, const char *staged) {
        (void)context;
        (void)id;
        assert_non_null(staged);
        fake_pass(&files_removed, owner);
        atomic_fetch_add(&stages_dropped, 1);
}

static inline int stage_request(void *context, const char *owner, const char *id, const char *bytes,
                                size_t length, struct arena *arena, const char **staged,
                                struct problem *problem) {
        (void)context;
        (void)owner;
        (void)id;
        (void)bytes;
        (void)length;
        (void)problem;
        *staged = arena_strdup(arena, "request");
        return 0;
}

static atomic_bool disk_full;
static atomic_llong history_told; /* of the session that was told of last */

static inline int check_room(void *context, const char *owner, const char *id, struct problem *problem) {
        (void)context;
        (void)owner;
        (void)id;
        return atomic_load(&disk_full) ? problem_set(problem, PROBLEM_WORKSPACE_FULL, "the disk is full") : 0;
}

static inline int set_history(void *context, const char *owner, const char *id, uint64_t bytes,
                              struct problem *problem) {
        (void)context;
        (void)owner;
        (void)id;
        (void)problem;
        atomic_store(&history_told, (long long)bytes);
        return 0;
}

/* While it is locked, a caller works on the files of a workspace. */
static pthread_mutex_t files_in_use = PTHREAD_MUTEX_INITIALIZER;
static atomic_int lives_asked;

static inline int set_life(void *context, const char *owner, const char *id, int64_t lives_until_ms,
                           struct problem *problem) {
        (void)context;
        (void)owner;
        (void)id;
        (void)lives_until_ms;
        (void)problem;
        atomic_fetch_add(&lives_asked, 1);
        pthread_mutex_lock(&files_in_use);
        pthread_mutex_unlock(&files_in_use);
        return 0;
}

static inline const char *path_of(void *context, const char *id, struct arena *arena) {
        (void)context;
        return arena_printf(arena, "/nowhere/%s", id);
}
static const struct engine_workspaces workspaces = { .make = make_workspace,
                                                     .remove = remove_workspace,
                                                     .set_life = set_life,
                                                     .path = path_of,
                                                     .drop_staged = drop_staged,
                                                     .stage_request = stage_request,
                                                     .check_room = check_room,
                                                     .set_history = set_history };

static inline void start(struct fixture *fixture) {
        const struct engine_config config = { .store = fixture->store,
                                              .place = &fixture->place.place,
                                              .catalog = &catalog,
                                              .workspaces = &workspaces,
                                              .clock = &test_clock,
                                              .limits = fixture->limits,
                                              .thread_idle_ms = fixture->thread_idle_ms };
        struct error err = { 0 };

        if (engine_open(&config, &fixture->engine, &err) < 0)
                fail_msg("%s", err.message);
}

static inline void restart(struct fixture *fixture) {
        engine_close(fixture->engine);
        start(fixture);
}

static inline int setup(void **state) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));
        struct error err;

        folder_make_temporary(fixture->folder);
        fixture->arena = arena_new();
        fixture->place.place.class = &fake_class;
        pthread_mutex_init(&fixture->place.lock, NULL);
        atomic_store(&now_ms, 1700000000000);
        atomic_store(&in_service, true);
        atomic_store(&reject, false);
        atomic_store(&containers, 0);
        atomic_store(&workspace_count, 0);
        atomic_store(&disk_full, false);
        if (session_store_open(fixture->folder, &fixture->store, &err) < 0)
                return -1;
        start(fixture);
        *state = fixture;
        return 0;
}

static inline int teardown(void **state) {
        struct fixture *fixture = *state;

        engine_close(fixture->engine);
        session_store_close(fixture->store);
        fake_kill_all(&fixture->place);
        folder_remove(fixture->folder);
        arena_free(fixture->arena);
        free(fixture);
        return 0;
}

static const struct engine_caller alice __attribute__((unused)) = { .client = "app", .owner = "app/alice" };
static const struct engine_caller bob __attribute__((unused)) = { .client = "app", .owner = "app/bob" };

/* Shorthands */

static inline const char *make(struct fixture *fixture, const struct engine_caller *caller,
                               const struct engine_wish *wish, int expected) {
        struct problem problem = { 0 };
        json_t *json JSON_CLEANUP = NULL;

        assert_int_equal(engine_create(fixture->engine, caller, wish, &json, &problem), expected);
        return expected < 0 ? arena_strdup(fixture->arena, problem_name(problem.code))
                            : arena_strdup(fixture->arena, json_text(json, "id"));
}

static inline const char *session_of(struct fixture *fixture, const struct engine_caller *caller) {
        return make(fixture, caller, &(struct engine_wish){ .environment = "python" }, 1);
}

static inline int64_t run_code(struct fixture *fixture, const struct engine_caller *caller, const char *id,
                               const char *code, struct engine_follower **ret) {
        const struct engine_code wanted = { .code = code, .code_length = strlen(code) };
        struct problem problem = { 0 };
        int64_t n = 0;

        if (engine_execute(fixture->engine, caller, id, &wanted, &n, ret, &problem) < 0)
                return -(int64_t)problem.code;
        return n;
}

/* Its events, one after another: "started stdout(hi) done(ok)". Closes the follower. */
static inline const char *hear_all(struct fixture *fixture, struct engine_follower *follower) {
        struct strbuf heard STRBUF_CLEANUP = STRBUF_INIT;
        struct engine_event event;

        for (;;) {
                enum engine_next next = engine_follower_next(follower, &event);

                if (next == ENGINE_ENDED)
                        break;
                if (next == ENGINE_NOTHING) {
                        struct pollfd ready = { engine_follower_descriptor(follower), POLLIN, 0 };

                        assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
                        continue;
                }
                strbuf_printf(&heard, "%s%s", heard.length ? " " : "", event.name);
                if (json_text(event.data, "text"))
                        strbuf_printf(&heard, "(%s)", json_text(event.data, "text"));
                if (strcmp(event.name, "done") == 0)
                        strbuf_printf(&heard, "(%s)", json_text(event.data, "status"));
                json_decref(event.data);
        }
        engine_follower_close(follower);
        return arena_strdup(fixture->arena, strbuf_text(&heard));
}

static inline void wait_for(struct fixture *fixture, const struct engine_caller *caller, const char *id,
                            const char *status) {
        struct engine_follower *follower = NULL;
        struct problem problem;
        struct engine_event event;
        bool seen = false;

        if (engine_follow_session(fixture->engine, caller, id, &follower, &problem) < 0) {
                assert_null(status);
                return;
        }
        while (!seen) {
                enum engine_next next = engine_follower_next(follower, &event);

                if (next == ENGINE_ENDED) {
                        assert_null(status);
                        break;
                }
                if (next == ENGINE_EVENT) {
                        seen = status && strcmp(json_text(event.data, "status"), status) == 0;
                        json_decref(event.data);
                } else {
                        struct pollfd ready = { engine_follower_descriptor(follower), POLLIN, 0 };

                        assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
                }
        }
        engine_follower_close(follower);
}

static inline json_t *result_of(struct fixture *fixture, const struct engine_caller *caller, const char *id,
                                int64_t n) {
        struct problem problem;
        json_t *json = NULL;

        assert_int_equal(engine_result(fixture->engine, caller, id, n, &json, &problem), 0);
        return json;
}

static inline const char *status_of(struct fixture *fixture, const struct engine_caller *caller,
                                    const char *id, int64_t n) {
        json_t *json JSON_CLEANUP = result_of(fixture, caller, id, n);

        return arena_strdup(fixture->arena, json_text(json, "status"));
}

/* Until the code in it holds, which it does soon after it was begun. */
static inline void release_when_held(struct fixture *fixture, const char *id) {
        for (int i = 0; i < PATIENCE_MS && !fake_release(&fixture->place, id); i++)
                usleep(1000);
}

static inline void wait_until_running(struct fixture *fixture, struct engine_follower *follower) {
        struct engine_event event;
        enum engine_next next;

        (void)fixture;
        while ((next = engine_follower_next(follower, &event)) == ENGINE_NOTHING) {
                struct pollfd ready = { engine_follower_descriptor(follower), POLLIN, 0 };

                assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
        }
        assert_int_equal(next, ENGINE_EVENT);
        assert_string_equal(event.name, "started");
        json_decref(event.data);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
