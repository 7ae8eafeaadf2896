/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of the stack that is served: the engine with its records, its workspaces and the place where code runs. They begin once
 * the stack has been applied, since only then it is known where things are.
 */
#ifndef BERTH_BROKER_SERVICE_SESSIONS_H
#define BERTH_BROKER_SERVICE_SESSIONS_H

#include "broker/auth/config.h"
#include "broker/service/applied.h"
#include "containers/containers.h"
#include "sessions/engine.h"
#include "sessions/workspace_owner.h"

struct place;
struct metrics;

/* Where a stack's code runs. In the arena. */
struct broker_place {
        struct place *place;
        struct workspaces workspaces; /* where durable workspaces are */
        uint64_t files_max;           /* files and folders in one of them */
        uint64_t folders_max;         /* of these; 0: no bound */
        /* Where records lie that several servers share, open; NULL: on this machine, and this server's alone. Closed before the place. */
        struct session_store *store;
        /*
         * Limits of the checkpoints that are kept of kernels, if the server's file gives none; 0:
         * the engine's defaults.
         */
        uint64_t checkpoint_bytes;
        int64_t checkpoint_ms;
};

/*
 * Given by the code that knows the providers. ERROR_NOT_FOUND where the provider has no place for
 * sessions.
 */
struct broker_places {
        /*
         * `bounds` hold for what sandboxes bring into workspaces too; `applied` and the arena live
         * as long as the place. The caller closes what *ret has after a failure, too.
         */
        int (*open)(void *context, const char *folder, struct applied *applied,
                    const struct applied_stack *stack, const struct workspace_bounds *bounds,
                    struct arena *arena, struct broker_place *ret, struct error *err);
        /* Opens the state, which machines share: applied_new_shared(). NULL: it lies in the folder. */
        applied_open_state *open_state;
        void *context;   /* of both */
        bool keep_apart; /* each session gets a user of the host that no other session has */
};

struct broker_sessions;
struct broker_sessions *broker_sessions_new(const struct broker_config *config, const char *folder,
                                            struct applied *applied, const struct broker_places *places,
                                            struct metrics *metrics);
/* Opens the engine where it is not open and can be. Of the main thread; -1 where it is not: the reason is for the log. */
int broker_sessions_try(struct broker_sessions *sessions, struct error *err) MUST_USE;
/* NULL until it is open. Any thread. */
struct engine *broker_sessions_engine(struct broker_sessions *sessions);
/* The same, and there once the engine is; NULL for good where the place runs no commands. */
struct containers *broker_sessions_containers(struct broker_sessions *sessions);
/* Where files are kept. Once the engine is open. */
const struct workspaces *broker_sessions_workspaces(const struct broker_sessions *sessions);
/* What an owner's workspace of that environment may hold, if that is still applied. */
int broker_sessions_limits(struct broker_sessions *sessions, const char *owner,
                           const struct workspace_row *row, const struct interrupt *interrupt,
                           struct workspace_limits *ret, struct problem *problem) MUST_USE;
/* 1: that agent as it was applied; 0: there is no such agent. */
int broker_sessions_agent(struct broker_sessions *sessions, const char *name, struct arena *arena,
                          struct catalog_agent *ret, struct error *err) MUST_USE;
/* Whether they can do their work, once the engine is open: a record is written, a sandbox could be started, the disk has room. */
int broker_sessions_check_records(struct broker_sessions *sessions, struct error *err) MUST_USE;
int broker_sessions_check_place(struct broker_sessions *sessions, struct error *err) MUST_USE;
int broker_sessions_check_disk(const struct broker_sessions *sessions, struct error *err) MUST_USE;
/* The free bytes on the disk of the workspaces; -1 where that is not known. */
int64_t broker_sessions_free_bytes(const struct broker_sessions *sessions);
/* No request may be under way. NULL is fine. */
void broker_sessions_free(struct broker_sessions *sessions);

#endif
