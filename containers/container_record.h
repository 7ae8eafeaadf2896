/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a container that are kept, as text for the store and back; keys, ids. */
#ifndef BERTH_CONTAINERS_CONTAINER_RECORD_H
#define BERTH_CONTAINERS_CONTAINER_RECORD_H

#include "base/arena.h"
#include "base/error.h"
#include "sessions/engine.h"
#include "sessions/store.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum container_status {
        CONTAINER_QUEUED, /* must be started, as soon as it may */
        CONTAINER_RUNNING,
        CONTAINER_STOPPED, /* by request */
        CONTAINER_EXITED   /* by itself, or by what befell it */
};
enum container_restart { CONTAINER_NEVER, CONTAINER_ON_FAILURE, CONTAINER_ALWAYS };
/* Why it does not run any more. */
enum container_reason {
        CONTAINER_NO_REASON,   /* it runs, or was never started */
        CONTAINER_ENDED,       /* its command ended by itself: exitCode says how */
        CONTAINER_BY_REQUEST,  /* it was stopped */
        CONTAINER_KILLED,      /* by a signal, or its sandbox was */
        CONTAINER_MEMORY,      /* its memory limit was exceeded */
        CONTAINER_DEADLINE,    /* its time was over */
        CONTAINER_NOT_STARTED, /* it could not be */
        CONTAINER_LOST         /* it went while no server was there: its end was not seen */
};

struct container_record {
        char id[ENGINE_ID_SIZE];
        char *owner, *agent, *environment, *name; /* owned; the name may be NULL */
        bool service;
        json_t *arguments; /* the command: a list of texts */
        json_t *variables; /* NULL: none */
        json_t *ports;     /* container_ports.h */
        enum container_restart restart;
        int64_t timeout_seconds; /* of one run of a temporary one; 0: none */
        enum container_status status;
        enum container_reason reason;
        char *detail;                             /* of the reason, for people; or NULL */
        int64_t exit_code;                        /* -1: none */
        int64_t created_ms, started_ms, ended_ms; /* 0: not yet */
        int64_t starts;                           /* how often its command was begun */
        int64_t failures;                         /* restarts since it last ran for a while */
        bool sandbox;                             /* something of one may be there */
        bool stops; /* told to stop, and its command has not ended: a server that finds it again goes on */
        bool again; /* it is started again once it has */
        bool gone;  /* removed: no caller finds it, and it waits for the end of its sandbox */
        uint64_t version;
        size_t bytes; /* as it was written last */
};
#define CONTAINER_NAME_MAX 63

void container_record_dispose(struct container_record *record);
/* To be released with free(). */
char *container_record_to_text(const struct container_record *record);
/* *ret is all zero where it fails: a record that makes no sense is damage. */
int container_record_from_text(const struct session_item *item, struct container_record *ret,
                               struct error *err) MUST_USE;

void container_new_id(char id[ENGINE_ID_SIZE]);
bool container_is_id(const char *id);

/* In the table of sessions, beside them. In the arena. */
#define CONTAINER_RECORDS "~container/"
const char *container_record_key(const char *owner, const char *id, struct arena *arena);

const char *container_reason_name(enum container_reason reason); /* NULL for none */
const char *container_restart_name(enum container_restart restart);
/* -1: there is no policy of that name. */
int container_restart_find(const char *name);

#endif
