/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that may open a daemon's Unix socket, in its state's folder, mode 0600, may ask it for
 * all: one JSON object and a line end each way, then the connection ends.
 *
 *     -> {"command": "approve", "source": "research", "plan": "3f2a...", "allow": ["has-dependents:Environment/x"]}
 *     <- {"ok": true, "message": "..."} or {"ok": false, "error": "...", "refused": false}; status: {"ok": true, "sources": [...]}
 */
#ifndef BERTH_SERVER_CONTROL_H
#define BERTH_SERVER_CONTROL_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct control_daemon {
        /* "controller": its socket is NAME.sock, and NAME.lock names the process that runs */
        const char *name;
        /* for clients that find none: "start it with berth controller -f FILE" */
        const char *how_to_start;
};

struct control;
/*
 * Listens on FOLDER/NAME.sock (a stale one is replaced, a live one is ERROR_LOCKED) and answers
 * each request by `answer`, which gets a borrowed request and returns a new reference; it is called
 * on a thread of its own, one request at a time. The request's "by" is the name of the user that
 * asks, as the kernel has it.
 */
int control_listen(const char *folder, const struct control_daemon *daemon,
                   json_t *(*answer)(void *context, json_t *request), void *context, struct control **ret,
                   struct error *err) MUST_USE;
/* Whether the folder is the one that was locked, and locked it is: false where it was removed or replaced. Any thread. */
bool control_is_in_place(const struct control *control);
void control_close(struct control *control); /* NULL is fine; removes the socket */

/* Takes over the reference to `request`. ERROR_NOT_FOUND where no such daemon listens there; waits 30 s at most. */
int control_ask(const char *folder, const struct control_daemon *daemon, json_t *request, json_t **ret,
                struct error *err) MUST_USE;

#endif
