/* SPDX-License-Identifier: Apache-2.0 */
/* Applying a plan with a user in front: asking first, showing progress, printing the result. */
#ifndef BERTH_CLI_PERFORM_H
#define BERTH_CLI_PERFORM_H

#include "cli/options.h"
#include "cli/session.h"

/* Asks on a terminal. An error where the answer is not yes, or where there is no terminal and no --yes. */
int perform_confirm(const struct options *options, const struct plan *plan, bool destroy,
                    struct error *err) MUST_USE;

/* The same of what changes no resource; the text, a sentence or two, says what happens. */
int perform_ask(const struct options *options, const char *text, struct error *err) MUST_USE;

/* Applies, printing each change as it ends and the result. Returns the exit code, or -1. `command` is for the history. */
int perform(struct session *session, const struct options *options, const struct plan_args *planning,
            struct plan *plan, const char *command, struct error *err) MUST_USE;

#endif
