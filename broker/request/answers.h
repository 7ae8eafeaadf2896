/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers as clients get them: JSON, and problems as application/problem+json (RFC 9457) with a stable code.
 */
#ifndef BERTH_BROKER_REQUEST_ANSWERS_H
#define BERTH_BROKER_REQUEST_ANSWERS_H

#include "server/server.h"
#include "sessions/problem.h"

#include <jansson.h>

/*
 * The meaning of a code; of the engine's (sessions/problem.h) and of the server's own. Aborts for
 * an unknown name.
 */
struct answers_code {
        unsigned status;
        const char *code, *title;
        const char *remedy; /* or NULL */
};
#define ANSWERS_CODES_MAX 64 /* that there can be, and one */
const struct answers_code *answers_code(const char *code);
/* The n-th of all; NULL behind the last. */
const struct answers_code *answers_code_at(size_t n);
/* Answers with it; `detail` is of this request, and may quote it. */
void answers_refuse(struct server_request *request, const char *code, const char *detail);

struct answers_problem {
        unsigned status;
        const char *code, *title; /* the title is of the code, the same each time */
        const char *detail;       /* of this request; may quote it */
        const char *remedy;       /* or NULL */
        int64_t retry_seconds;    /* Retry-After; 0: none, or the request has it already */
};

/* An interface whose clients read errors in a form of their own. struct broker lists those that are served. */
struct answers_form {
        bool (*is_asked)(const struct server_request *request); /* whether this request is one of theirs */
        void (*problem)(struct server_request *request, const struct answers_problem *problem);
        void (*uncovered)(struct server_request *request); /* no such route or method; NULL: as a problem */
};

/* Gives the reference away. */
void answers_json(struct server_request *request, unsigned status, json_t *json);
void answers_problem(struct server_request *request, const struct answers_problem *problem);
/* 204: it is done, and there is nothing to say. */
void answers_nothing(struct server_request *request);
/* A problem of the engine's. */
void answers_refusal(struct server_request *request, const struct problem *problem);
/* The state cannot be read: why stands in the log, and is no client's business. */
void answers_state_failed(struct server_request *request, const struct error *err);
/* A refusal before routing, or for a path without a route: server_config.say. */
void answers_unrouted(struct server_request *request, unsigned status, const char *why);

#endif
