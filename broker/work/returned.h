/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that an execution's result is to bring along: those of the workspace that fit a pattern (glob.h) when the result is told. In
 * JSON up to RETURNED_INLINE_MAX; more of them as parts of a multipart/mixed, where the client takes that; what goes neither way
 * is named, with the reason, and lies in the workspace.
 */
#ifndef BERTH_BROKER_WORK_RETURNED_H
#define BERTH_BROKER_WORK_RETURNED_H

#include "broker/request/call.h"

#include <jansson.h>

#define RETURNED_PATTERNS_MAX 32
#define RETURNED_INLINE_MAX ((uint64_t)16 << 20) /* bytes of files in one answer of JSON */
#define RETURNED_INLINES_MAX \
        ((uint64_t)64 << 20) /* in all that are under way: each byte takes about five of memory */

struct returned {
        const char *session;
        const char **patterns;
        size_t count;
};

/* The member returnFiles. False where the request was answered. */
bool returned_read(struct server_request *request, const json_t *body, struct returned *ret) MUST_USE;

/* The result with what is returned in it, as JSON alone; gives the reference away, and is a new one. */
json_t *returned_add(struct server_request *request, const struct returned *returned, json_t *result);

/* Answers with the result, in the form that the client takes. Gives the reference away. */
void returned_answer(struct server_request *request, const struct returned *returned, json_t *result);

#endif
