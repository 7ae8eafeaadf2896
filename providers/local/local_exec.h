/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's code in a fresh sandbox of an environment that was applied; providers/exec.h says what is promised. */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_EXEC_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_EXEC_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/exec.h"

/* What provider.h says of exec_ahead: a sandbox's worker. */
struct exec_ahead *local_exec_ahead(struct arena *arena);
void local_exec_ahead_end(struct exec_ahead *ahead);

/* `root` is the stack's data root: local_layout.h. */
int local_exec(const char *root, const struct exec_request *request, struct arena *arena,
               struct exec_result *ret, struct error *err) MUST_USE;

#endif
