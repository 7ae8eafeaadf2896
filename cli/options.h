/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line as data: a table of options, each with the verbs that take it, and a table of verbs. Parsing
 * (getopt_long), help, completion and manual pages come from these tables.
 */
#ifndef BERTH_CLI_OPTIONS_H
#define BERTH_CLI_OPTIONS_H

#include "base/error.h"
#include "controller/plan.h"

#include <stdbool.h>
#include <stddef.h>

struct verb_command;

struct options {
        const char *path;  /* -f, the first one; "." */
        const char **more; /* the other ones */
        size_t more_count;
        bool has_path;        /* -f was given */
        const char *state;    /* --state or BERTH_STATE; NULL: beside the manifests */
        const char *provider; /* --provider, or NULL */
        const char *output;   /* -o, or NULL */
        const char *mirror;   /* --mirror, or NULL */
        const char *format;   /* --format, or NULL; each verb checks it */
        bool push;            /* --push */
        bool json, verbose, quiet, help;
        bool stacks;
        bool yes, force, all, detailed_exitcode, skip_refused, dry_run;
        enum plan_refresh refresh;
        unsigned parallel;
        const char **targets, **excludes;
        size_t target_count, exclude_count;
        struct allowance *allowances;
        size_t allowance_count;
        const char *environment, *agent, *code, *language, *out; /* exec: or NULL */
        unsigned timeout_s;                                      /* exec: 0: the environment's own */
        bool out_over, out_dot, out_exec;                        /* exec */
        const char *launcher;
        bool accept_degraded, self_test, aws;
        bool check;                   /* fmt */
        bool print_openapi, attached; /* serve */
        bool once, wait;              /* controller */
        unsigned lock_timeout_s;      /* 0: not at all */
        /* session: or NULL, 0 */
        const char *conversation, *context, *status;
        const char **labels, **variables; /* NAME=VALUE */
        size_t label_count, variable_count;
        unsigned idle_s, ttl_s;
        bool interactive;
        bool watch;                                /* approvals */
        const char *note;                          /* approvals: or NULL */
        const char *name, *restart, *tail, *since; /* containers: or NULL */
        const char **ports;                        /* PORT or PORT:HOSTPORT, as they were typed */
        size_t port_count;
        bool service, follow;
        const char **files; /* NAME=PATH */
        size_t file_count;
        const char *const *operands;
        size_t operand_count;
        const struct verb_command
                *command; /* the verb's, that the first operand names; NULL: none, or an unknown one */
};

enum verb_trait {
        VERB_STATELESS = 1 << 0, /* what BERTH_STATE says is nothing to it */
        VERB_ONE_PATH = 1 << 1,  /* -f names another thing than manifests: there is one */
        VERB_RUNS_PROGRAM =
                1 << 2 /* behind its first operand all is a program's, whose exit code it passes on */
};

struct verb {
        const char *name;
        const char *
                operands; /* for the usage line, "" for none; behind the commands' names, where it has some */
        size_t operands_min, operands_max;
        const char *doc; /* one line */
        /* Returns the exit code, or -1 with err. Writes results to standard output. */
        int (*run)(const struct options *options, struct error *err);
        unsigned traits;                     /* enum verb_trait */
        const struct verb_command *commands; /* cli/commands.h; NULL: it has none */
};

extern const struct verb verbs[]; /* ended by a NULL name */

struct option_row {
        int id;
        const char *name;
        const char *argument; /* for help, NULL for a flag */
        const char *verbs;    /* " plan apply ": the verbs without commands that take it; NULL: all verbs */
        const char *doc;
};

extern const struct option_row options_rows[]; /* ended by a NULL name */
bool options_row_takes(const struct option_row *row, const struct verb *verb);

enum exit_code {
        EXIT_DONE = 0,
        EXIT_ERROR = 1,
        EXIT_CHANGES = 2,
        EXIT_REFUSED = 3,
        EXIT_LOCKED = 4,
        /* exec's own failure; otherwise it passes the program's code on */
        EXIT_EXEC_FAILED = 125
};

/*
 * Parses all of argv. The result borrows from argv and lives in the arena. *ret_verb is NULL where none was given.
 */
int options_parse(int argc, char **argv, struct arena *arena, struct options *ret,
                  const struct verb **ret_verb, struct error *err) MUST_USE;

/*
 * Whether a command line that options_parse() refused is one of those that pass a program's exit code on, where 1 would be taken for
 * the program's: exec, session run.
 */
bool options_pass_code_on(int argc, char **argv);

/* The error names the nearest verb that there is. */
int options_find_verb(const char *name, const struct verb **ret, struct error *err) MUST_USE;

#endif
