/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/service/sessions.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "broker/service/measures.h"
#include "sessions/engine_workspaces.h"
#include "sessions/place.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define BYTES_PER_MB (UINT64_C(1024) * 1024)
#define MIN_FREE_MB \
        500 /* where the manifest does not say: for the records of all, and whatever else is on that disk */

struct broker_sessions {
        struct catalog catalog; /* the first: what the engine has of it */
        const struct broker_config *config;
        const char *folder;
        struct applied *applied;
        const struct broker_places *places;
        struct arena *arena;
        struct workspaces where;
        struct workspace_shared shared;
        struct workspace_bounds bounds;
        uint64_t files_max, folders_max;
        struct engine_folders folders;
        struct engine_workspaces workspaces;
        struct engine_watch watch;
        struct session_store *store;
        struct place *place;
        struct containers *containers; /* once the engine is open */
        _Atomic(struct engine *) engine;
};

/* --- what was applied, for the engine --- */

static int find_environment(struct catalog *catalog, const char *name, struct arena *arena,
                            struct catalog_environment *ret, struct error *err) {
        struct broker_sessions *sessions = (struct broker_sessions *)catalog;
        struct applied_environment *environments;
        size_t count;

        if (applied_environments(sessions->applied, arena, &environments, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (strcmp(environments[i].name, name) != 0)
                        continue;
                *ret = (struct catalog_environment){
                        .name = environments[i].name,
                        .image_digest = value_get_text(value_get(environments[i].spec, "image"), "digest"),
                };
                return 1;
        }
        return 0;
}

static int find_agent(struct catalog *catalog, const char *name, struct arena *arena,
                      struct catalog_agent *ret, struct error *err) {
        struct broker_sessions *sessions = (struct broker_sessions *)catalog;
        struct applied_agent *agents;
        const char *on_limit;
        size_t count;

        if (applied_agents(sessions->applied, arena, &agents, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (strcmp(agents[i].name, name) != 0)
                        continue;
                on_limit = value_get_text(agents[i].limits, "onLimit");
                *ret = (struct catalog_agent){
                        .name = agents[i].name,
                        .environment = agents[i].environment,
                        .in_service = agents[i].in_service,
                        .containers = value_get_integer(agents[i].limits, "containers", 0),
                        .reject = on_limit && strcmp(on_limit, "reject") == 0,
                };
                return 1;
        }
        return 0;
}

/* --- workspaces --- */

const struct workspaces *broker_sessions_workspaces(const struct broker_sessions *sessions) {
        return &sessions->where;
}

int broker_sessions_agent(struct broker_sessions *sessions, const char *name, struct arena *arena,
                          struct catalog_agent *ret, struct error *err) {
        return find_agent(&sessions->catalog, name, arena, ret, err);
}

/* What a workspace of the environment may hold; 0 if there is no such environment. */
static int storage_of(const struct broker_sessions *sessions, const char *environment, uint64_t *ret,
                      struct problem *problem) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct applied_environment *environments;
        struct error err;
        size_t count;

        if (applied_environments(sessions->applied, arena, &environments, &count, &err) < 0)
                return problem_from_error(problem, PROBLEM_STORE_FAILED, &err);
        *ret = 0;
        for (size_t i = 0; i < count; i++) {
                if (strcmp(environments[i].name, environment) == 0)
                        *ret = (uint64_t)value_get_integer(environments[i].spec, "workspaceStorageMB", 0) *
                               BYTES_PER_MB;
        }
        return 0;
}

/* --- those that containers share --- */

/* Whose place has none finds none. */
static int open_shared(void *context, const char *owner, const char *agent, int *ret_folder,
                       struct problem *problem) {
        const struct broker_sessions *sessions = context;
        const struct place_class *class = sessions->place->class;
        const struct place_shared shared = { .agent = agent, .owner = owner };
        struct error err = { 0 };

        if (!class->shared_open)
                return workspace_not_found(problem);
        if (class->shared_open(sessions->place, &shared, ret_folder, &err) == 0)
                return 0;
        return err.kind == ERROR_NOT_FOUND ? workspace_not_found(problem)
                                           : problem_from_error(problem, PROBLEM_WORKSPACE_FAILED, &err);
}

static int list_shared(void *context, const char *owner, struct arena *arena, struct workspace_row **ret,
                       size_t *ret_count, struct problem *problem) {
        const struct broker_sessions *sessions = context;
        const struct place_class *class = sessions->place->class;
        struct error err = { 0 };

        *ret_count = 0;
        return !class->shared_list ||
                               class->shared_list(sessions->place, owner, arena, ret, ret_count, &err) == 0
                       ? 0
                       : problem_from_error(problem, PROBLEM_WORKSPACE_FAILED, &err);
}

/*
 * Whether the owner has room for the agent's workspace. An existing workspace has its room already.
 */
static int may_have_files(void *context, const char *owner, const char *agent, const char *environment,
                          struct problem *problem) {
        const struct broker_sessions *sessions = context;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_row *rows;
        uint64_t bytes;
        size_t count;

        if (!sessions->bounds.owner_max)
                return 0;
        if (list_shared(context, owner, arena, &rows, &count, problem) < 0 ||
            storage_of(sessions, environment, &bytes, problem) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (strcmp(rows[i].agent, agent) == 0)
                        return 0;
        }
        return workspace_check_more(&sessions->where, owner, &sessions->bounds, bytes, problem);
}

static int make_shared(void *context, const char *owner, const char *agent, const char *environment,
                       struct problem *problem) {
        const struct broker_sessions *sessions = context;
        const struct place_class *class = sessions->place->class;
        const struct place_shared shared = { agent, owner, environment };
        int folder DESCRIPTOR_CLEANUP = -1;
        struct error err = { 0 };

        if (!class->shared_open)
                return workspace_not_found(problem);
        if (may_have_files(context, owner, agent, environment, problem) < 0)
                return -1;
        return class->shared_open(sessions->place, &shared, &folder, &err) == 0
                       ? 0
                       : problem_from_error(problem, PROBLEM_WORKSPACE_FAILED, &err);
}

static int remove_shared(void *context, const char *owner, const char *agent, struct problem *problem) {
        const struct broker_sessions *sessions = context;
        const struct place_class *class = sessions->place->class;
        const struct place_shared shared = { .agent = agent, .owner = owner };
        struct error err = { 0 };

        if (!class->shared_remove)
                return workspace_not_found(problem);
        if (containers_have_files(sessions->containers, owner, agent))
                return problem_set(problem, PROBLEM_HAS_SESSIONS,
                                   "containers of the agent %s have it: stop or remove them first", agent);
        if (class->shared_remove(sessions->place, &shared, &err) == 0)
                return 0;
        if (err.kind == ERROR_LOCKED) {
                log_warning("%s", err.message);
                return problem_set(problem, PROBLEM_BUSY,
                                   "something still has the workspace of the agent %s open: try again",
                                   agent);
        }
        return err.kind == ERROR_NOT_FOUND ? workspace_not_found(problem)
                                           : problem_from_error(problem, PROBLEM_WORKSPACE_FAILED, &err);
}

int broker_sessions_limits(struct broker_sessions *sessions, const char *owner,
                           const struct workspace_row *row, const struct interrupt *interrupt,
                           struct workspace_limits *ret, struct problem *problem) {
        struct workspace_limits limits = { .files_max = sessions->files_max,
                                           .folders_max = sessions->folders_max };

        if (storage_of(sessions, row->environment, &limits.bytes_max, problem) < 0)
                return -1;
        if (workspace_bound(&sessions->where, owner, row->id, &sessions->bounds, interrupt, &limits,
                            problem) < 0)
                return -1;
        *ret = limits;
        return 0;
}

/* --- life --- */

struct broker_sessions *broker_sessions_new(const struct broker_config *config, const char *folder,
                                            struct applied *applied, const struct broker_places *places,
                                            struct metrics *metrics) {
        const struct value *bounds = value_get(config->spec, "workspaces");
        struct broker_sessions *sessions = calloc(1, sizeof(*sessions));

        if (!sessions)
                abort();
        sessions->catalog = (struct catalog){ find_environment, find_agent };
        sessions->config = config;
        sessions->folder = folder;
        sessions->applied = applied;
        sessions->places = places;
        sessions->watch = (struct engine_watch){ metrics, measures_execution_ended };
        sessions->arena = arena_new();
        sessions->folders = (struct engine_folders){ &sessions->where, &sessions->bounds, folder };
        sessions->workspaces = engine_workspaces_of(&sessions->folders);
        sessions->bounds = (struct workspace_bounds){
                .owner_max = (uint64_t)value_get_integer(bounds, "perOwnerMB", 0) * BYTES_PER_MB,
                .free_min = (uint64_t)value_get_integer(bounds, "minFreeMB", MIN_FREE_MB) * BYTES_PER_MB,
        };
        return sessions;
}

struct engine *broker_sessions_engine(struct broker_sessions *sessions) {
        return sessions ? atomic_load(&sessions->engine) : NULL;
}

struct containers *broker_sessions_containers(struct broker_sessions *sessions) {
        return broker_sessions_engine(sessions) ? sessions->containers : NULL;
}

static void close_parts(struct broker_sessions *sessions) {
        containers_close(sessions->containers);
        sessions->containers = NULL;
        engine_close(atomic_exchange(&sessions->engine, NULL));
        session_store_close(sessions->store);
        if (sessions->place)
                sessions->place->class->close(sessions->place);
        sessions->store = NULL;
        sessions->place = NULL;
}

static bool make_room(void *context, const char *agent) {
        struct broker_sessions *sessions = context;
        struct engine *engine = broker_sessions_engine(sessions);

        return engine && engine_make_room(engine, agent);
}

static void tell(void *context, const struct container_news *news) {
        struct broker_sessions *sessions = context;
        struct engine *engine = broker_sessions_engine(sessions);

        if (engine)
                engine_tell_beside(engine, &(const struct engine_news){ .name = "container",
                                                                        .of = ENGINE_OF_CONTAINERS,
                                                                        .id = news->id,
                                                                        .owner = news->owner,
                                                                        .environment = news->environment,
                                                                        .agent = news->agent,
                                                                        .status = news->status });
}

static void count_ended(void *context, const char *reason) {
        const struct broker_sessions *sessions = context;

        measures_container_ended(sessions->watch.context, reason);
}

/* Beside the engine, on the same records and in the same place. */
static int open_containers(struct broker_sessions *sessions, struct error *err) {
        char *logs TEXT_CLEANUP = path_join(sessions->folder, "containers");
        const struct containers_config config = {
                .store = sessions->store,
                .place = sessions->place,
                .catalog = &sessions->catalog,
                .clock = &clock_system,
                .folder = logs,
                .total = (size_t)value_get_integer(value_get(sessions->config->spec, "containers"), "total",
                                                   0),
                .make_room = make_room,
                .may_have_files = may_have_files,
                .tell = tell,
                .ended = count_ended,
                .context = sessions,
        };

        return sessions->place->class->runs_commands ? containers_open(&config, &sessions->containers, err)
                                                     : 0;
}

static int open_parts(struct broker_sessions *sessions, struct error *err) {
        const struct value *limits = value_get(sessions->config->spec, "sessions");
        struct applied_stack stack;
        struct broker_place place = { 0 };
        struct engine *engine;
        struct problem left;
        struct error why = { 0 };
        int opened;
        char *records TEXT_CLEANUP = path_join(sessions->folder, "sessions");
        struct engine_config config = {
                .catalog = &sessions->catalog,
                .workspaces = &sessions->workspaces,
                .clock = &clock_system,
                .watch = &sessions->watch,
                .limits = { .idle_seconds = value_get_integer(limits, "idleSeconds", 0),
                            .ttl_seconds = value_get_integer(limits, "ttlSeconds", 0),
                            .park_seconds = value_get_integer(limits, "parkSeconds", 0),
                            .checkpoint_bytes = (uint64_t)value_get_integer(limits, "checkpointMB", 0) << 20,
                            .checkpoint_ms = value_get_integer(limits, "checkpointSeconds", 0) * 1000,
                            .per_owner = (size_t)value_get_integer(limits, "perOwner", 0),
                            .total = (size_t)value_get_integer(limits, "total", 0) },
        };

        arena_clear(sessions->arena); /* of a try before */
        if (applied_stack(sessions->applied, sessions->arena, &stack, err) < 0)
                return -1;
        opened = sessions->places->open(sessions->places->context, sessions->folder, sessions->applied,
                                        &stack, &sessions->bounds, sessions->arena, &place, err);
        config.place = sessions->place = place.place;
        sessions->store = place.store;
        if (opened < 0)
                return -1;
        if (config.limits.checkpoint_bytes == 0)
                config.limits.checkpoint_bytes = place.checkpoint_bytes;
        if (config.limits.checkpoint_ms == 0)
                config.limits.checkpoint_ms = place.checkpoint_ms;
        sessions->where = place.workspaces;
        sessions->shared =
                (struct workspace_shared){ open_shared, make_shared, remove_shared, list_shared, sessions };
        sessions->where.shared = &sessions->shared;
        sessions->files_max = place.files_max;
        sessions->folders_max = place.folders_max;
        /* A folder that cannot be removed is harmless: the next start tries again. */
        if (workspace_recover(&sessions->where, &left) < 0)
                log_warning("workspaces: %s", left.detail);
        if (place.place->class->shared_recover && place.place->class->shared_recover(place.place, &why) < 0)
                log_warning("the index of agents' workspaces: %s", why.message);
        if (!sessions->store && session_store_open(records, &sessions->store, err) < 0)
                return -1;
        config.store = sessions->store;
        if (engine_open(&config, &engine, err) < 0)
                return -1;
        if (open_containers(sessions, err) < 0) {
                engine_close(engine);
                return -1;
        }
        atomic_store(&sessions->engine, engine);
        return 0;
}

/* An idempotency key that no client can have sent: it expires a day after its last use. */
int broker_sessions_check_records(struct broker_sessions *sessions, struct error *err) {
        char value[48];
        const struct session_change change = { SESSION_TABLE_KEYS, "readiness", value, SESSION_EXPECT_NOTHING,
                                               0 };

        snprintf(value, sizeof(value), "{\"at\":%lld}", (long long)clock_wall_ms());
        return session_store_write(sessions->store, &change, 1, err) < 0 ? -1 : 0;
}

int broker_sessions_check_place(struct broker_sessions *sessions, struct error *err) {
        const struct place_class *class = sessions->place->class;

        return class->check ? class->check(sessions->place, err) : 0;
}

int64_t broker_sessions_free_bytes(const struct broker_sessions *sessions) {
        struct statvfs disk;

        /*
         * The folder comes with the first workspace; the state's is on the same disk, unless it was
         * moved.
         */
        if (statvfs(sessions->where.folder, &disk) < 0 && statvfs(sessions->folder, &disk) < 0)
                return -1;
        return (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
}

int broker_sessions_check_disk(const struct broker_sessions *sessions, struct error *err) {
        int64_t free_bytes = broker_sessions_free_bytes(sessions);

        if (free_bytes < 0 || (uint64_t)free_bytes >= sessions->bounds.free_min)
                return 0;
        return error_set(err, "%lld MB are free, and %llu must stay so (workspaces.minFreeMB)",
                         (long long)(free_bytes / (int64_t)BYTES_PER_MB),
                         (unsigned long long)(sessions->bounds.free_min / BYTES_PER_MB));
}

int broker_sessions_try(struct broker_sessions *sessions, struct error *err) {
        if (broker_sessions_engine(sessions))
                return 0;
        if (open_parts(sessions, err) == 0)
                return 0;
        close_parts(sessions);
        return -1;
}

void broker_sessions_free(struct broker_sessions *sessions) {
        if (!sessions)
                return;
        close_parts(sessions);
        arena_free(sessions->arena);
        free(sessions);
}
