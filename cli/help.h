/* SPDX-License-Identifier: Apache-2.0 */
/* What --help prints. */
#ifndef BERTH_CLI_HELP_H
#define BERTH_CLI_HELP_H

#include "cli/options.h"

#include <stdio.h>

void help_print(FILE *stream);
/* Of a verb, or of one of its commands alone; `command` may be NULL. */
void help_print_verb(const struct verb *verb, const struct verb_command *command, FILE *stream);

#endif
