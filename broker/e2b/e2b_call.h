/* SPDX-License-Identifier: Apache-2.0 */
/* What E2B's routes begin with, and read of requests. */
#ifndef BERTH_BROKER_E2B_E2B_CALL_H
#define BERTH_BROKER_E2B_E2B_CALL_H

#include "broker/e2b/e2b.h"
#include "broker/request/call.h"

#define E2B_FOLDER "/workspace" /* what sandboxes call their files' folder */

/* Of the API: by a client's token in X-API-Key. All that the caller sees and ends is its owner's own. */
void e2b_call_begin(struct server_request *request);
/* Of a sandbox, by one of its tokens, which may be no other's. */
void e2b_call_begin_by_access(struct server_request *request);
void e2b_call_begin_by_traffic(struct server_request *request);
/* For a `begin` of its own: false where the request was answered. */
bool e2b_call_admit_by_access(struct server_request *request) MUST_USE;
/* A caller that was not admitted has no call. */
void e2b_call_end(struct server_request *request);
/* The sandbox that a request for one is about. */
const char *e2b_call_sandbox(const struct server_request *request);

/* Whether the session is one that was paused: it is parked, and has no end but that which all have. */
bool e2b_call_is_paused(const json_t *session);

/* A member that a body may have, of that type, or null; the list ends with a NULL name. What else it has is not looked at. */
struct e2b_member {
        const char *name;
        json_type type;
        bool required;
};
/*
 * The body as an object, an empty one if absent; NULL where the request was answered with what is
 * wrong.
 */
const json_t *e2b_call_body(struct server_request *request, const struct e2b_member *members);

/*
 * A path as E2B's clients write it (relative, or of /workspace or /home/user, which is the same folder), as one of the workspace: "" for
 * the folder itself.
 */
int e2b_call_path(const char *path, struct arena *arena, const char **ret, struct problem *problem) MUST_USE;

#endif
