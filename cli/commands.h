/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of those verbs that have some (`berth session list`): a table for each verb, from which the check of a command line, its
 * help, completions and the manual come. What a command does is in its verb's file.
 */
#ifndef BERTH_CLI_COMMANDS_H
#define BERTH_CLI_COMMANDS_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

struct options;
struct option_row;
struct verb;

struct verb_command {
        const char *name; /* "": the verb without any of its commands */
        const char *
                operands; /* for the usage line, "" for none: alternatives in lower case, the user's own words in capitals */
        const char *takes; /* " env label ": the options that it takes, besides those that every verb does */
        const char *doc;   /* one line */
        /* It passes a program's exit code on: 1 would be taken for the program's. */
        bool is_program;
};

/* Each is ended by a NULL name. */
extern const struct verb_command commands_of_image[], commands_of_state[], commands_of_lock[],
        commands_of_controller[], commands_of_session[], commands_of_containers[], commands_of_approvals[],
        commands_of_audit[];

/* NULL where the verb has no commands, or none of that name. */
const struct verb_command *commands_find(const struct verb *verb, const char *name);
/* The command that these operands name: "" counts where a verb has no commands. NULL as above. */
const struct verb_command *commands_of_line(const struct verb *verb, const struct options *options);
bool commands_take(const struct verb_command *command, const struct option_row *row);
/* Whether one of the verb's commands does. */
bool commands_any_takes(const struct verb *verb, const struct option_row *row);
/* "session create, session run" */
void commands_list_takers(const struct verb *verb, const struct option_row *row, struct strbuf *ret);
/* What follows a verb on its usage line: its operands, or the names of its commands ("show|release"). */
void commands_print_operands(const struct verb *verb, struct strbuf *ret);

/*
 * -1 where there are fewer operands behind the command than `least`, or more than `most`: it shows the usage. `options` are those of
 * a line that names one of the verb's commands; `verb` is its name.
 */
int commands_check_operands(const char *verb, const struct options *options, size_t least, size_t most,
                            struct error *err) MUST_USE;

#endif
