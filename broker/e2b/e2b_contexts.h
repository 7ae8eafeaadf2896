/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of a sandbox: kernels of its session, of which it may have eight. Which of them a client has made stands in the session's
 * labels, so that it is known over restarts: `e2b:c1` to `e2b:c7`, each "RANDOM LANGUAGE FOLDER"; "c1-RANDOM" is the id. The one that
 * is there from the start is "main".
 */
#ifndef BERTH_BROKER_E2B_E2B_CONTEXTS_H
#define BERTH_BROKER_E2B_E2B_CONTEXTS_H

#include "base/arena.h"
#include "server/server.h"
#include "sessions/problem.h"

#include <jansson.h>

#define E2B_CONTEXTS_LABEL "e2b:"

bool e2b_contexts_is_label(const char *name);

struct e2b_context {
        const char *id;
        const char *kernel;   /* as the engine names it */
        const char *language; /* "python" or "bash" */
        const char *folder;   /* of the sandbox, absolute */
};

/* The one that is there from the start. */
#define E2B_CONTEXT_MAIN \
        { "main", "main", "python", "/workspace" }

/* The context of that id, "main" for NULL; in the arena. False where the session has none. */
bool e2b_contexts_find(const json_t *session, const char *id, struct arena *arena, struct e2b_context *ret);
/* What the engine calls the language; NULL where it has none of that name. */
const char *e2b_contexts_language(const char *language);

void e2b_contexts_list(struct server_request *request);
void e2b_contexts_create(struct server_request *request);
void e2b_contexts_restart(struct server_request *request);
void e2b_contexts_remove(struct server_request *request);

#endif
