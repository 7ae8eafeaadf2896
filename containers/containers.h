/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers: sandboxes with a command of their own, for an agent and one owner. A temporary one runs and ends; a service stays until it is
 * stopped. They are run by the places that sessions have (sessions/place.h), and kept in the same store; nothing else is known here of
 * either.
 *
 *      containers_open -> containers_create -> container_watch_open / containers_show ... containers_stop, containers_remove
 *
 * What engine.h says of owners, callers, records and threads holds here: another's is not there, a record is written before what it
 * says is answered, nothing waits for code to run, and all functions may be called by many threads at once.
 *
 * Nothing is lost of a sandbox that outlives its server: the next server finds it by its worker's
 * socket, and hears what was not heard yet. A temporary one that went while no server was there is
 * `lost`, and never run twice; a service is started again.
 */
#ifndef BERTH_CONTAINERS_CONTAINERS_H
#define BERTH_CONTAINERS_CONTAINERS_H

#include "base/strbuf.h"
#include "sessions/engine.h"

#define CONTAINERS_OWNER_MAX 1000 /* of one owner, those that have ended and are kept too */
#define CONTAINERS_OWNER_BYTES \
        ((size_t)32 << 20)       /* of their records: commands and variables, which stay in memory */
#define CONTAINERS_STOP_MS 10000 /* between SIGTERM and the end of the sandbox */
#define CONTAINERS_KEPT_MS ((int64_t)3600 * 1000) /* a temporary one's record and log, behind its end */
#define CONTAINERS_TIMEOUT 86400                  /* seconds, of a temporary one that does not say */

struct containers;

/* A container's status has changed. Borrowed for the call, but for the status, which is static: of clients' or CONTAINER_REMOVED_STATUS. */
struct container_news {
        const char *id, *owner, *environment, *agent, *status;
};
#define CONTAINER_REMOVED_STATUS "removed"

/* All borrowed, and to outlive it. */
struct containers_config {
        struct session_store *store;
        struct place *place;
        struct catalog *catalog;
        const struct clock *clock;
        const char *folder; /* of logs; made where it is missing */
        size_t total;       /* of all owners, that have not ended; 0: no limit */
        /* Asked once there is no room for one of that agent: whether some is being made, by parking a session. Or NULL. */
        bool (*make_room)(void *context, const char *agent);
        /* Asked before one is made: -1 where the owner has no room for the workspace that it would need. Or NULL. */
        int (*may_have_files)(void *context, const char *owner, const char *agent, const char *environment,
                              struct problem *problem);
        /* Told what changes, at once: nothing of this header may be called meanwhile. Or NULL. */
        void (*tell)(void *context, const struct container_news *news);
        /* A command has ended, for that reason: static, of `reason` below. Or NULL. */
        void (*ended)(void *context, const char *reason);
        void *context;
};

int containers_open(const struct containers_config *config, struct containers **ret,
                    struct error *err) MUST_USE;
/* Sandboxes live on. No call may be under way, and no watch open. NULL is fine. */
void containers_close(struct containers *containers);

struct container_wish {
        const char *agent;
        const char *name; /* NULL: none. Unique for the owner and the agent */
        bool service;
        const json_t *command;       /* a list of texts; or */
        const char *code, *language; /* a program of "python", "sh" or "bash", NULL for the first */
        size_t code_length;
        const json_t *variables; /* an object of texts, or NULL */
        const json_t *ports;     /* container_ports_read(), or NULL */
        const char
                *restart; /* NULL: "always" of a service, "never" of a temporary one, which knows no other */
        int64_t timeout_seconds; /* of a temporary one: 1 to ENGINE_AGE_MAX; 0: CONTAINERS_TIMEOUT */
};

/*
 * *ret is the container: {id, name, agent, owner, environment, type, status, exitCode, reason, detail, restart, restarts, timeoutSeconds,
 * queuePosition, usage, ports, createdAt, startedAt, endedAt}; usage is null or {cpuPercent, cpuMs, memoryBytes, peakMemoryBytes},
 * cpuPercent null until there are two readings. PROBLEM_AGENT_LIMIT where the agent's limits turn work away; PROBLEM_CONFLICT where
 * another has its name or a port.
 */
int containers_create(struct containers *containers, const struct engine_caller *caller,
                      const struct container_wish *wish, json_t **ret, struct problem *problem) MUST_USE;
int containers_show(struct containers *containers, const struct engine_caller *caller, const char *id,
                    json_t **ret, struct problem *problem) MUST_USE;

struct container_filter {
        const char *const *statuses,
                *const *types, *const *environments, *const *agents, *const *names; /* as engine_filter's */
        bool all_owners;
        size_t limit;
        const char *cursor;
};
int containers_list(struct containers *containers, const struct engine_caller *caller,
                    const struct container_filter *filter, json_t **ret, struct problem *problem) MUST_USE;

/*
 * Begins to stop it, to start it, or to do the one after the other; what it is then is in *ret.
 * PROBLEM_CONFLICT if a temporary one must be started. A container that is as it should be stays
 * so.
 */
enum container_order { CONTAINER_STOP, CONTAINER_START, CONTAINER_RESTART };
int containers_order(struct containers *containers, const struct engine_caller *caller, const char *id,
                     enum container_order order, json_t **ret, struct problem *problem) MUST_USE;
/* It is gone when this returns, with its record and log; what runs in it is killed. */
int containers_remove(struct containers *containers, const struct engine_caller *caller, const char *id,
                      struct problem *problem) MUST_USE;

/* Whether one that has not ended has the workspace of that agent for that owner. */
bool containers_have_files(struct containers *containers, const char *owner, const char *agent);

/* --- for metrics --- */

#define CONTAINERS_STATUSES 5
extern const char *const containers_statuses[CONTAINERS_STATUSES];
struct containers_measures {
        size_t containers[CONTAINERS_STATUSES];
        uint64_t memory_bytes; /* of all that run, now */
        uint64_t cpu_us;       /* that all of them have used since this server began */
};
void containers_measure(struct containers *containers, struct containers_measures *ret);

/* --- waiting for it --- */

struct container_watch;
/* Its descriptor can be read once something is another than before: the status, the log, what is run in it; or it is gone. */
int container_watch_open(struct containers *containers, const struct engine_caller *caller, const char *id,
                         struct container_watch **ret, struct problem *problem) MUST_USE;
int container_watch_descriptor(const struct container_watch *watch);
void container_watch_calm(struct container_watch *watch);  /* before it is looked at what there is */
void container_watch_close(struct container_watch *watch); /* NULL is fine */
/* It neither runs nor is to: what it has come to stands in its record. Also of one that is gone. */
bool container_watch_is_over(struct container_watch *watch);

/* --- its log --- */

struct container_line {
        int64_t at_ms;
        const char *stream; /* "stdout", "stderr", "berth": static */
        uint64_t next;
        bool gap; /* some that came before have gone meanwhile */
};
/*
 * 1: the piece of the log at `position` (0: the first that is kept), as it was printed; 0: nothing
 * there yet; -1: it cannot be read.
 */
int container_watch_read(struct container_watch *watch, uint64_t position, struct container_line *ret,
                         struct strbuf *bytes, struct error *err) MUST_USE;

/* --- more that runs in it --- */

/*
 * Runs code beside the command of one that runs: one at a time, others wait in line. `command`, a list of texts, stands for code. PROBLEM_NOT_RUNNING.
 * Its number is in *ret_n: it is the watch's, and is interrupted with that.
 */
int container_watch_exec(struct container_watch *watch, const struct engine_code *code, const json_t *command,
                         struct problem *problem) MUST_USE;
/* Its result, as an execution's, a new reference; NULL: it has none yet. */
json_t *container_watch_result(struct container_watch *watch);

#endif
