/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `berth controller status|sync|suspend|resume|approve` speak to the running controller through a Unix socket in its state's
 * folder, mode 0600: one JSON object and a line end each way, then the connection ends. Who may open the socket may do all.
 *
 *     -> {"command": "approve", "source": "research", "plan": "3f2a...", "allow": ["has-dependents:Environment/x"]}
 *     <- {"ok": true, "message": "..."} or {"ok": false, "error": "...", "refused": false}; status: {"ok": true, "sources": [...]}
 */
#ifndef BERTH_GITOPS_CONTROL_H
#define BERTH_GITOPS_CONTROL_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

#define CONTROL_SOCKET "controller.sock"

struct control;
/*
 * Listens on FOLDER/controller.sock (a stale one is replaced, a live one is ERROR_LOCKED) and answers each request by
 * `answer`, which gets a borrowed request and returns a new reference; it is called on a thread of its own, one
 * request at a time. The request's "by" is the name of the user who asks, as the kernel has it.
 */
int control_listen(const char *folder, json_t *(*answer)(void *context, json_t *request), void *context,
                   struct control **ret, struct error *err) MUST_USE;
/* Whether the folder is the one that was locked, and locked it is: false where it was removed or replaced. Any thread. */
bool control_is_in_place(const struct control *control);
void control_close(struct control *control); /* NULL is fine; removes the socket */

/* Takes over the reference to `request`. ERROR_NOT_FOUND where no controller listens there; waits 30 s at most. */
int control_ask(const char *folder, json_t *request, json_t **ret, struct error *err) MUST_USE;

#endif
