/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files behind containers.h share. Everything is guarded by one lock, which is held while a sandbox is spoken to: that returns
 * at once. What may take long (place.h says what) is done without it, by a pool of threads or by who asked.
 */
#ifndef BERTH_CONTAINERS_CONTAINERS_PARTS_H
#define BERTH_CONTAINERS_CONTAINERS_PARTS_H

#include "containers/container_log.h"
#include "containers/container_ports.h"
#include "containers/container_record.h"
#include "containers/containers.h"
#include "jobs/jobs.h"
#include "sessions/execution.h"
#include "sessions/place.h"

#include <pthread.h>

enum container_phase {
        CONTAINER_NO_PLACE,
        CONTAINER_OPENING, /* a thread works on it, without the lock */
        CONTAINER_OPEN,
        CONTAINER_LEAVING /* as OPENING */
};

struct container {
        struct containers *containers;
        struct container *next;
        struct container_record record;
        enum container_phase phase;
        struct place_session *place;          /* in CONTAINER_OPEN alone */
        struct container_listeners listeners; /* made, and not given to its place yet */
        char *names;                          /* that its sandbox was told; NULL: none */
        uint64_t names_version;    /* when they were looked at last: containers.names_version then */
        struct container_log *log; /* NULL: nothing was looked at yet */
        struct container_watch *watches;
        bool rejoins;    /* it ran when this server started: a sandbox is found, and none is made */
        bool opened;     /* the place has said so */
        bool ends;       /* the place was told to end it */
        bool overdue;    /* its time was over */
        bool full;       /* there was no room for its agent: it stands in line */
        int64_t command; /* the number of its command in the sandbox; 0: it does not run there */
        int64_t last_n;  /* the newest number in the sandbox */
        int64_t stops_ms; /* when the sandbox is ended, since SIGTERM was not heard; 0: never. Monotonic, as the next two */
        int64_t not_before_ms; /* it is not started before */
        int64_t rests_ms;      /* it has said so much that nothing of it is read before */
        size_t budget;         /* bytes that it may still say in this turn */
        int64_t counted_ms;
        struct execution *exec;                               /* runs beside the command; held */
        struct container_watch *first_waiting, *last_waiting; /* whose code comes next */
        struct container_sample {
                int64_t at_ms; /* monotonic; 0: no reading */
                struct place_usage usage;
        } sample, sample_before; /* the newest, and the one before, of the sandbox that is open */
        const char *told;        /* the status that followers know; NULL: none */
        bool unwritten;          /* its record must be written: the store has not taken it yet */
        bool full_log;           /* that its log cannot be written was said */
};

struct container_watch {
        struct container *container; /* NULL: it is forgotten */
        struct container_watch *next;
        struct containers *containers;
        int descriptor;
        struct execution *execution; /* what it runs; held. NULL: nothing */
        bool waits;                  /* in its container's line */
        struct container_watch *next_waiting;
};

struct containers {
        struct containers_config config;
        char *folder;
        pthread_mutex_t lock;
        pthread_t thread;
        int wake; /* eventfd */
        bool started, stopping;
        uint64_t cpu_us;                 /* that containers have used, as far as this server saw */
        struct container *first, **last; /* in the order in which they were made */
        size_t count;
        pthread_cond_t
                settled; /* some container has a sandbox, or has none, where that was not known before */
        uint64_t names_version; /* rises with each name that comes or goes */
        struct jobs *jobs;
};

/* --- containers.c --- */

void containers_wake(struct containers *containers);
typedef void container_work(struct containers *containers, struct container *container);
/* Has it done soon, by another thread, which calls it with the lock. Work that has not begun when all is closed is left undone. */
void containers_job_add(struct containers *containers, struct container *container, container_work *work);
int64_t containers_now(const struct containers *containers); /* wall time */
/* The one of that owner and id that the caller may use, or of any owner; NULL: PROBLEM_NOT_FOUND. */
struct container *containers_find(struct containers *containers, const struct engine_caller *caller,
                                  const char *id, bool any_owner, struct problem *problem);
void containers_add(struct containers *containers, struct container *container);
/*
 * Closes its log if it has no reader and nothing is printed: containers that have ended are kept by
 * the thousand.
 */
void containers_rest_log(struct container *container);
/* Frees it, with its log. No thread may work on it. */
void containers_forget(struct containers *containers, struct container *container);
const char *containers_log_path(const struct container *container, struct arena *arena);

/* --- container_usage.c --- */

#define CONTAINER_OFTEN_MS 1000
#define CONTAINER_SELDOM_MS 5000
/* Reads what its sandbox uses, if the last reading is that old or older. */
void container_sample(struct container *container, int64_t age_ms);
/* Its sandbox is gone: the next one counts from zero. */
void container_forget_samples(struct container *container);
/*
 * {cpuPercent, cpuMs, memoryBytes, peakMemoryBytes} by the last readings; null where nothing runs,
 * or the use is unknown.
 */
json_t *container_usage_json(const struct container *container);
/* Followers hear of its status, where that is another than they know. */
void container_tell(struct container *container);

/* --- container_network.c: what containers of one owner, agent and environment have together --- */

bool container_is_neighbour(const struct container *one, const struct container *other);
/* Whose neighbours' network is not known yet, and may be there: it waits, or it would get another one. */
bool container_waits_for_neighbours(const struct container *container);
/* The text that says which network is its own. In the arena. */
const char *container_network_name(const struct container *container, struct arena *arena);
/* Tells its sandbox what its neighbours are called, where that is not as it was told last. */
void container_tell_names(struct container *container);

/* --- container.c: one container's life --- */

/* Which of them is next in line for its agent's limits, from 1; 0: it waits for no other. */
size_t container_queue_position(const struct container *container);
const char *container_status_name(const struct container *container);
json_t *container_json(const struct container *container);
/* Its record, as it is now: -1 where the store did not take it. */
int container_store(struct container *container, struct error *err) MUST_USE;
/* The same, tried again later where it failed. */
void container_keep(struct container *container);
/* Wakes those that watch it. */
void container_changed(struct container *container);
/* What its place says, as far as its budget goes. */
void container_hear(struct container *container);
/* Its command runs no more, or will not: what follows is decided and written down. */
void container_finish_command(struct container *container, enum container_reason reason, int64_t exit_code,
                              const char *detail);
/* Executions that run beside it, or wait, are over. */
void container_cut_off_all(struct container *container, const char *detail);
/* Whether the other one stands in line for the limits of the same agent. */
bool container_waits_before(const struct container *other, const struct container *container);
/* Begins to stop what runs. */
void container_stop(struct container *container);
/* Kills what there is. */
void container_kill(struct container *container);
/* Opens its log where that is not open. */
int container_log_ready(struct container *container, struct error *err) MUST_USE;
/* The next of those that wait for its sandbox is begun. */
void container_run_next(struct container *container);
/* It is over before its sandbox said so. */
void container_cut_off(struct container *container, struct execution *execution, enum report_status status,
                       const char *detail);

/* --- container_go_on.c: what it needs next --- */

/* Opens its sandbox, without the lock meanwhile: ERROR_LOCKED where there is no room for its agent. */
int container_open(struct container *container, struct error *err) MUST_USE;
/* Listens at its ports of this machine, unless it already does. ERROR_REFUSED: one is taken. */
int container_listen(struct container *container, struct error *err) MUST_USE;
/*
 * Does what is due, by time or by its record: it is opened, stopped, ended, left, forgotten. True:
 * it was forgotten.
 */
bool container_go_on(struct container *container);
/* Milliseconds until container_go_on() has something to do; -1: it does not know. */
int64_t container_patience_ms(const struct container *container);

#endif
