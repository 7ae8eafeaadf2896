/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getopt_long() goes over the arguments twice: over those before the verb, and over those behind it, where options may stand before and
 * after operands. Behind the first operand of exec everything is the program's. Which options a verb takes is checked at the end
 * (check_used). Mistakes name the nearest word that exists.
 */
#include "cli/options.h"

#include "base/array.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "controller/apply.h"
#include "controller/state_adopt.h"
#include "gitops/approval.h"
#include "schema/state_place.h"

#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum option_id {
        OPTION_FILE = 'f',
        OPTION_VERBOSE = 'v',
        OPTION_QUIET = 'q',
        OPTION_HELP = 'h',
        OPTION_YES = 'y',
        OPTION_OUTPUT = 'o',
        OPTION_CODE = 'c',
        OPTION_INTERACTIVE = 'i',
        OPTION_STATE = 256,
        OPTION_PROVIDER,
        OPTION_JSON,
        OPTION_NO_COLOR,
        OPTION_FORMAT,
        OPTION_REFRESH,
        OPTION_TARGET,
        OPTION_EXCLUDE,
        OPTION_DETAILED_EXITCODE,
        OPTION_PARALLEL,
        OPTION_LOCK_TIMEOUT,
        OPTION_ALLOW,
        OPTION_SKIP_REFUSED,
        OPTION_FORCE,
        OPTION_DRY_RUN,
        OPTION_ALL,
        OPTION_ENVIRONMENT,
        OPTION_AGENT,
        OPTION_LANGUAGE,
        OPTION_PUT,
        OPTION_OUT,
        OPTION_OUT_OVER,
        OPTION_OUT_DOT,
        OPTION_OUT_EXEC,
        OPTION_TIMEOUT,
        OPTION_ACCEPT_DEGRADED,
        OPTION_LAUNCHER,
        OPTION_SELF_TEST,
        OPTION_AWS,
        OPTION_MIRROR,
        OPTION_PUSH,
        OPTION_PRINT_OPENAPI,
        OPTION_ONCE,
        OPTION_CHECK,
        OPTION_WAIT,
        OPTION_STACKS,
        OPTION_CONVERSATION,
        OPTION_CONTEXT,
        OPTION_LABEL,
        OPTION_VARIABLE,
        OPTION_IDLE,
        OPTION_TTL,
        OPTION_STATUS,
        OPTION_NAME,
        OPTION_SERVICE,
        OPTION_RESTART,
        OPTION_PORT,
        OPTION_FOLLOW,
        OPTION_TAIL,
        OPTION_SINCE,
        OPTION_WATCH,
        OPTION_NOTE,
        OPTION_ATTACHED,
        OPTION_VERSION,
};

#define SHORT_OPTIONS ":f:o:c:ivqhy"
#define UNTIL_OPERAND "+"           /* getopt_long() stops where the first operand stands */
#define SESSION_SECONDS_MAX 1209600 /* 14 days */

const struct option_row options_rows[] = {
        { OPTION_FILE, "manifests", "PATH", NULL, "manifests: a file, a folder or - (default .); repeats" },
        { OPTION_STATE, "state", "PLACE", NULL, "a folder or s3://BUCKET/PREFIX (or BERTH_STATE)" },
        { OPTION_PROVIDER, "provider", "aws|local", NULL, "use this one, not the Stack's" },
        { OPTION_JSON, "json", NULL, NULL, "results as JSON" },
        { OPTION_NO_COLOR, "no-color", NULL, NULL, "no colour (also NO_COLOR)" },
        { OPTION_VERBOSE, "verbose", NULL, NULL, "show more: every field, every call" },
        { OPTION_QUIET, "quiet", NULL, NULL, "show less: errors, refusals and the last line" },
        { OPTION_HELP, "help", NULL, NULL, "show this help" },
        { OPTION_OUTPUT, "output", "FILE", " plan images get ",
          "file to save to; get: json, yaml, name; images: name" },
        { OPTION_PUSH, "push", NULL, "", "image runtime: to the Stack's registry on AWS" },
        { OPTION_MIRROR, "mirror", "URL", "", "image build: where Debian's packages come from" },
        { OPTION_FORMAT, "format", "FORMAT", " plan map ", "text, json; plan: markdown; map: dot, mermaid" },
        { OPTION_REFRESH, "refresh", "sweep|full|none", " plan apply destroy drift ",
          "read by lists, one by one, or (plan) not at all" },
        { OPTION_TARGET, "target", "ADDR", " plan apply destroy ",
          "only it, what it needs or needs it; repeats, takes *" },
        { OPTION_EXCLUDE, "exclude", "ADDR", " plan apply ", "leave this out; repeats, takes *" },
        { OPTION_STACKS, "stacks", NULL, " plan apply validate drift ",
          "each stack in a folder below -f, side by side" },
        { OPTION_DETAILED_EXITCODE, "detailed-exitcode", NULL, " plan ",
          "exit with 2 where there are changes" },
        { OPTION_YES, "yes", NULL, " apply destroy disassociate reassociate sweep doctor ", "do not ask" },
        { OPTION_PARALLEL, "parallel", "N", " apply destroy disassociate reassociate ",
          "calls at once, 1 to 256 (default 16)" },
        { OPTION_LOCK_TIMEOUT, "lock-timeout", "SECONDS", " apply destroy disassociate reassociate import ",
          "wait this long for a lock that another run holds" },
        { OPTION_ALLOW, "allow", "ID[:ADDR]", " plan apply destroy import ",
          "let this refusal through; repeats" },
        { OPTION_SKIP_REFUSED, "skip-refused", NULL, " apply destroy ",
          "apply what is not refused, and exit with 3" },
        { OPTION_DRY_RUN, "dry-run", NULL, "", "adopt: show what would be taken, and take nothing" },
        { OPTION_FORCE, "force", NULL, "", "lock: though the holder seems alive; files: replace" },
        { OPTION_ALL, "all", NULL, " disassociate reassociate ",
          "disassociate, reassociate: every dependent; approvals list: ended ones, too" },
        { OPTION_ENVIRONMENT, "env", "ENV", " exec ", "the environment to run in (default: the agent's)" },
        { OPTION_AGENT, "agent", "NAME", " exec ", "run for this agent: its limits hold" },
        { OPTION_CODE, "code", "CODE", " exec ", "the code itself, instead of a file" },
        { OPTION_LANGUAGE, "lang", "LANG", " exec ",
          "python, sh or bash (default: by the file's name, else python)" },
        { OPTION_PUT, "file", "NAME=PATH", " exec ", "put a file into the workspace (not -f); repeats" },
        { OPTION_OUT, "out", "DIR", " exec ",
          "bring back what the run left in the workspace: into a new or empty folder" },
        { OPTION_OUT_OVER, "out-over", NULL, " exec ", "--out may replace what is in the folder" },
        { OPTION_OUT_DOT, "out-dot", NULL, " exec ",
          "--out brings back names that begin with a dot, and HEAD" },
        { OPTION_OUT_EXEC, "out-exec", NULL, " exec ", "--out leaves programs executable" },
        { OPTION_TIMEOUT, "timeout", "SECONDS", " exec ", "end the run earlier than the environment does" },
        { OPTION_ACCEPT_DEGRADED, "accept-degraded", NULL, " exec serve mcp ",
          "run even where this machine cannot enforce every limit" },
        { OPTION_LAUNCHER, "launcher", "SOCKET", " exec serve mcp ",
          "have sandboxes made by the berth launcher that listens there" },
        { OPTION_PRINT_OPENAPI, "print-openapi", NULL, " serve ",
          "print the HTTP API as OpenAPI 3.1, and end" },
        { OPTION_SELF_TEST, "self-test", NULL, " doctor ", "also try to break out of a sandbox" },
        { OPTION_AWS, "aws", NULL, " doctor ", "also try in the account what only AWS itself can show" },
        { OPTION_CHECK, "check", NULL, " fmt ", "write nothing; exit code 2 where files would change" },
        { OPTION_ONCE, "once", NULL, "", "reconcile each source once, then exit" },
        { OPTION_WAIT, "wait", NULL, "", "sync, approve: wait for the end, exit with its result" },
        { OPTION_INTERACTIVE, "interactive", NULL, "", "run: a prompt, and one execution after the other" },
        { OPTION_CONVERSATION, "conversation", "NAME", "",
          "create, run: the session of that name, there or new" },
        { OPTION_CONTEXT, "context", "NAME", "", "run, restart: another kernel of the session's" },
        { OPTION_LABEL, "label", "NAME=VALUE", "",
          "create, run: label it so; list: those labelled so; repeats" },
        { OPTION_VARIABLE, "variable", "NAME=VALUE", "",
          "create: set it for all executions; run, exec: set it for this one; repeats" },
        { OPTION_IDLE, "idle", "SECONDS", "", "create, run: it ends when that long nothing runs" },
        { OPTION_TTL, "ttl", "SECONDS", "", "create, run: it ends when it is that old" },
        { OPTION_STATUS, "status", "queued|starting|idle|running|parked|stopped|exited", "",
          "list: only those" },
        { OPTION_NAME, "name", "NAME", "", "run: its name; list: only those" },
        { OPTION_SERVICE, "service", NULL, "", "run: it stays until it is stopped" },
        { OPTION_RESTART, "restart", "never|on-failure|always", "",
          "run: whether a service that has ended is started again" },
        { OPTION_PORT, "port", "PORT[:HOSTPORT]", "",
          "run: where it listens, and at which port of 127.0.0.1 that is reached (0: any); repeats" },
        { OPTION_FOLLOW, "follow", NULL, "",
          "logs: go on with what is printed from now on; stats: every 2 seconds" },
        { OPTION_TAIL, "tail", "N", "", "logs: the last N lines of those that are there" },
        { OPTION_SINCE, "since", "TIME", "", "logs: from that time on, as 2026-01-31T12:00:00Z" },
        { OPTION_WATCH, "watch", NULL, "", "list: go on with those that come, until Ctrl-C" },
        { OPTION_NOTE, "note", "TEXT", "", "approve, deny: a remark for the log" },
        { OPTION_ATTACHED, "attached", NULL, " serve ",
          "listen on the Unix socket alone, until standard input ends" },
        { OPTION_VERSION, "version", NULL, NULL, "print the version" },
        { 0, NULL, NULL, NULL, NULL },
};
#define ROW_COUNT (sizeof(options_rows) / sizeof(options_rows[0]) - 1)

static const struct option_row *row_of(int id) {
        for (size_t i = 0; i < ROW_COUNT; i++) {
                if (options_rows[i].id == id)
                        return &options_rows[i];
        }
        return NULL;
}

bool options_row_takes(const struct option_row *row, const struct verb *verb) {
        const char *at = row->verbs ? strstr(row->verbs, verb->name) : NULL;

        if (verb->commands)
                return commands_any_takes(verb, row);
        return !row->verbs || (at && at[-1] == ' ' && at[strlen(verb->name)] == ' ');
}

/* Options that need no code of their own: a flag or a text, and the member that keeps it. */
static const struct {
        int id;
        size_t offset;
} plain_options[] = {
        { OPTION_STATE, offsetof(struct options, state) },
        { OPTION_PROVIDER, offsetof(struct options, provider) },
        { OPTION_JSON, offsetof(struct options, json) },
        { OPTION_VERBOSE, offsetof(struct options, verbose) },
        { OPTION_QUIET, offsetof(struct options, quiet) },
        { OPTION_HELP, offsetof(struct options, help) },
        { OPTION_OUTPUT, offsetof(struct options, output) },
        { OPTION_MIRROR, offsetof(struct options, mirror) },
        { OPTION_PUSH, offsetof(struct options, push) },
        { OPTION_DETAILED_EXITCODE, offsetof(struct options, detailed_exitcode) },
        { OPTION_YES, offsetof(struct options, yes) },
        { OPTION_SKIP_REFUSED, offsetof(struct options, skip_refused) },
        { OPTION_FORCE, offsetof(struct options, force) },
        { OPTION_DRY_RUN, offsetof(struct options, dry_run) },
        { OPTION_ALL, offsetof(struct options, all) },
        { OPTION_ENVIRONMENT, offsetof(struct options, environment) },
        { OPTION_AGENT, offsetof(struct options, agent) },
        { OPTION_CODE, offsetof(struct options, code) },
        { OPTION_LANGUAGE, offsetof(struct options, language) },
        { OPTION_OUT, offsetof(struct options, out) },
        { OPTION_OUT_OVER, offsetof(struct options, out_over) },
        { OPTION_OUT_DOT, offsetof(struct options, out_dot) },
        { OPTION_OUT_EXEC, offsetof(struct options, out_exec) },
        { OPTION_ACCEPT_DEGRADED, offsetof(struct options, accept_degraded) },
        { OPTION_LAUNCHER, offsetof(struct options, launcher) },
        { OPTION_SELF_TEST, offsetof(struct options, self_test) },
        { OPTION_AWS, offsetof(struct options, aws) },
        { OPTION_PRINT_OPENAPI, offsetof(struct options, print_openapi) },
        { OPTION_CHECK, offsetof(struct options, check) },
        { OPTION_ONCE, offsetof(struct options, once) },
        { OPTION_WAIT, offsetof(struct options, wait) },
        { OPTION_STACKS, offsetof(struct options, stacks) },
        { OPTION_INTERACTIVE, offsetof(struct options, interactive) },
        { OPTION_CONVERSATION, offsetof(struct options, conversation) },
        { OPTION_CONTEXT, offsetof(struct options, context) },
        { OPTION_STATUS, offsetof(struct options, status) },
        { OPTION_NAME, offsetof(struct options, name) },
        { OPTION_SERVICE, offsetof(struct options, service) },
        { OPTION_RESTART, offsetof(struct options, restart) },
        { OPTION_FOLLOW, offsetof(struct options, follow) },
        { OPTION_TAIL, offsetof(struct options, tail) },
        { OPTION_SINCE, offsetof(struct options, since) },
        { OPTION_WATCH, offsetof(struct options, watch) },
        { OPTION_NOTE, offsetof(struct options, note) },
        { OPTION_ATTACHED, offsetof(struct options, attached) },
};

/* false where the option is not one of those. */
static bool set_plain(struct options *options, int id, const char *argument) {
        for (size_t i = 0; i < sizeof(plain_options) / sizeof(plain_options[0]); i++) {
                void *place = (char *)options + plain_options[i].offset;

                if (plain_options[i].id != id)
                        continue;
                if (row_of(id)->argument)
                        *(const char **)place = argument;
                else
                        *(bool *)place = true;
                return true;
        }
        return false;
}

static void append_text(struct arena *arena, const char ***list, size_t *count, const char *text) {
        *list = array_grow(arena, *list, *count, sizeof(**list));
        (*list)[(*count)++] = text;
}

static void push_path(struct arena *arena, struct options *options, const char *path) {
        if (options->has_path) {
                append_text(arena, &options->more, &options->more_count, path);
                return;
        }
        options->path = path;
        options->has_path = true;
}

static int push_allowance(struct arena *arena, struct options *options, const char *text, struct error *err) {
        options->allowances = array_grow(arena, options->allowances, options->allowance_count,
                                         sizeof(*options->allowances));
        return approval_parse(text, arena, &options->allowances[options->allowance_count++], err);
}

static int set_refresh(struct options *options, const char *text, struct error *err) {
        static const char *const names[] = { "sweep", "full", "none" };

        for (size_t i = 0; i < 3; i++) {
                if (strcmp(text, names[i]) == 0) {
                        options->refresh = (enum plan_refresh)i;
                        return 0;
                }
        }
        return error_set(err, "--refresh takes sweep, full or none, not \"%s\"", text);
}

static int set_parallel(struct options *options, const char *text, struct error *err) {
        char *end;
        long number = strtol(text, &end, 10);

        if (!*text || *end || number < 1 || number > APPLY_PARALLEL_MAX)
                return error_set(err, "--parallel takes a whole number from 1 to %d, not \"%s\"",
                                 APPLY_PARALLEL_MAX, text);
        options->parallel = (unsigned)number;
        return 0;
}

static int set_seconds(const char *name, const char *text, unsigned most, unsigned *ret, struct error *err) {
        char *end;
        long number = strtol(text, &end, 10);

        if (!*text || *end || number < 1 || number > (long)most)
                return error_set(err, "--%s takes whole seconds from 1 to %u, not \"%s\"", name, most, text);
        *ret = (unsigned)number;
        return 0;
}

static int push_pair(struct arena *arena, const char *name, const char *text, const char ***list,
                     size_t *count, struct error *err) {
        if (!strchr(text, '=') || *text == '=')
                return error_set(err, "--%s takes NAME=VALUE, not \"%s\"", name, text);
        append_text(arena, list, count, text);
        return 0;
}

static int set_option(struct arena *arena, struct options *options, int id, const char *argument,
                      struct error *err) {
        if (set_plain(options, id, argument))
                return 0;
        switch ((enum option_id)id) {
        case OPTION_FILE:
                push_path(arena, options, argument);
                break;
        case OPTION_NO_COLOR:
                terminal_disable_colour();
                break;
        case OPTION_FORMAT:
                options->format = argument;
                options->json |= strcmp(argument, "json") == 0;
                break;
        case OPTION_REFRESH:
                return set_refresh(options, argument, err);
        case OPTION_PARALLEL:
                return set_parallel(options, argument, err);
        case OPTION_TIMEOUT:
                return set_seconds("timeout", argument, 86400, &options->timeout_s, err);
        case OPTION_LOCK_TIMEOUT:
                return set_seconds("lock-timeout", argument, 86400, &options->lock_timeout_s, err);
        case OPTION_IDLE:
                return set_seconds("idle", argument, SESSION_SECONDS_MAX, &options->idle_s, err);
        case OPTION_TTL:
                return set_seconds("ttl", argument, SESSION_SECONDS_MAX, &options->ttl_s, err);
        case OPTION_LABEL:
                return push_pair(arena, "label", argument, &options->labels, &options->label_count, err);
        case OPTION_VARIABLE:
                return push_pair(arena, "variable", argument, &options->variables, &options->variable_count,
                                 err);
        case OPTION_ALLOW:
                return push_allowance(arena, options, argument, err);
        case OPTION_TARGET:
                append_text(arena, &options->targets, &options->target_count, argument);
                break;
        case OPTION_EXCLUDE:
                append_text(arena, &options->excludes, &options->exclude_count, argument);
                break;
        case OPTION_PORT:
                append_text(arena, &options->ports, &options->port_count, argument);
                break;
        case OPTION_PUT:
                append_text(arena, &options->files, &options->file_count, argument);
                break;
        default:
                break;
        }
        return 0;
}

/* The error for an option that getopt_long() did not take; `typed` is the argument with it, as far as that is known. */
static int fail_unknown_option(const char *typed, struct error *err) {
        const char *names[ROW_COUNT], *near;
        const struct option_row *row = row_of(optopt);

        /* One letter of several ("-vx"): we do not know in which argument it is. */
        if (optopt > 0 && !row)
                return error_set(err, "there is no option -%c; berth --help lists them", optopt);
        if (row)
                return error_set(err, "--%s takes no value", row->name);
        for (size_t i = 0; i < ROW_COUNT; i++)
                names[i] = options_rows[i].name;
        near = suggest_nearest(typed + strspn(typed, "-"), names, ROW_COUNT);
        if (near)
                return error_set(err, "there is no option %s; did you mean --%s?", typed, near);
        return error_set(err, "there is no option %s; berth --help lists them", typed);
}

int options_find_verb(const char *name, const struct verb **ret, struct error *err) {
        const char *names[64], *near;
        size_t count = 0;

        for (const struct verb *verb = verbs; verb->name; verb++) {
                if (strcmp(verb->name, name) == 0) {
                        *ret = verb;
                        return 0;
                }
                if (count < 64)
                        names[count++] = verb->name;
        }
        near = suggest_nearest(name, names, count);
        if (near)
                return error_set(err, "there is no verb \"%s\"; did you mean \"%s\"?", name, near);
        return error_set(err, "there is no verb \"%s\"; berth --help lists them", name);
}

/*
 * Where the state is must be a place that there is, before anything is made in it. What BERTH_STATE says is nothing to verbs
 * that have no state.
 */
static int check_state(const struct options *options, const struct verb *verb, bool named,
                       struct arena *arena, struct error *err) {
        struct state_place place;

        if (!options->state || options->help || (!named && (verb->traits & VERB_STATELESS)))
                return 0;
        if (state_place_parse(options->state, arena, &place, err) < 0)
                return error_context(err, named ? "--state" : "BERTH_STATE");
        return 0;
}

/* Several -f are one stack's. Where -f names something else, there is one. */
static int check_paths(const struct options *options, const struct verb *verb, struct error *err) {
        bool has_input = strcmp(options->path, "-") == 0;

        if (options->more_count == 0)
                return 0;
        if (verb->traits & VERB_ONE_PATH)
                return error_set(err, "berth %s takes one -f, and there is a second: %s", verb->name,
                                 options->more[0]);
        if (options->stacks)
                return error_set(err, "--stacks takes one -f, a folder of stacks, and there is a second: %s",
                                 options->more[0]);
        for (size_t i = 0; i < options->more_count; i++) {
                if (strcmp(options->more[i], "-") != 0)
                        continue;
                if (has_input)
                        return error_set(err, "-f - was given twice: standard input can be read once");
                has_input = true;
        }
        return 0;
}

/* An option that belongs to another of the verb's commands is a mistake, and never ignored. */
static int check_command(const struct options *options, const struct verb *verb, const bool *used,
                         struct error *err) {
        struct strbuf takers STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; options->command && i < ROW_COUNT; i++) {
                if (!used[i] || commands_take(options->command, &options_rows[i]))
                        continue;
                commands_list_takers(verb, &options_rows[i], &takers);
                return error_set(err, "berth %s%s%s takes no --%s: it goes with %s", verb->name,
                                 options->command->name[0] ? " " : "", options->command->name,
                                 options_rows[i].name, strbuf_text(&takers));
        }
        return 0;
}

/* Refuses options that were accepted before the verb was known. */
static int check_used(const struct options *options, const struct verb *verb, const bool *used,
                      struct error *err) {
        struct strbuf operands STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < ROW_COUNT; i++) {
                if (used[i] && !options_row_takes(&options_rows[i], verb))
                        return error_set(err, "berth %s takes no --%s", verb->name, options_rows[i].name);
        }
        /* Help is of the verb where no command is named. */
        if (!(options->help && options->operand_count == 0) && check_command(options, verb, used, err) < 0)
                return -1;
        if (options->help)
                return 0;
        for (size_t i = 0; i < options->allowance_count; i++) {
                if (strcmp(options->allowances[i].id, LINEAGE_LIVES) == 0 && strcmp(verb->name, "state") != 0)
                        return error_set(err, "--allow " LINEAGE_LIVES " goes with berth state adopt");
                if (strcmp(options->allowances[i].id, HISTORY_REWRITTEN) == 0 &&
                    strcmp(verb->name, "controller") != 0)
                        return error_set(err,
                                         "--allow " HISTORY_REWRITTEN " goes with berth controller approve");
        }
        if (check_paths(options, verb, err) < 0)
                return -1;
        commands_print_operands(verb, &operands);
        if (options->operand_count < verb->operands_min)
                return error_set(err, "berth %s needs an argument: berth %s %s", verb->name, verb->name,
                                 strbuf_text(&operands));
        if (options->operand_count > verb->operands_max)
                return error_set(err, "berth %s: \"%s\" is one too many; usage: berth %s%s%s", verb->name,
                                 options->operands[verb->operands_max], verb->name,
                                 operands.length ? " " : "", strbuf_text(&operands));
        return 0;
}

/* With exec, --file is a file for the workspace. With other verbs it means -f, as in many programs. */
static int check_files(struct options *options, const struct verb *verb, struct arena *arena, bool *used,
                       struct error *err) {
        if (options->file_count == 0)
                return 0;
        if (!(verb->traits & VERB_RUNS_PROGRAM)) {
                for (size_t i = 0; i < options->file_count; i++)
                        push_path(arena, options, options->files[i]);
                options->file_count = 0;
                used[row_of(OPTION_PUT) - options_rows] = false;
        }
        for (size_t i = 0; i < options->file_count; i++) {
                if (!strchr(options->files[i], '='))
                        return error_set(err,
                                         "--file takes NAME=PATH (a file for the workspace), not \"%s\"; "
                                         "for manifests, use -f",
                                         options->files[i]);
        }
        return 0;
}

static void fill_long_options(struct option *longs) {
        for (size_t i = 0; i < ROW_COUNT; i++) {
                longs[i] = (struct option){
                        .name = options_rows[i].name,
                        .has_arg = options_rows[i].argument ? required_argument : no_argument,
                        .val = options_rows[i].id,
                };
        }
}

static bool repeats(int id) {
        return id == OPTION_FILE || id == OPTION_TARGET || id == OPTION_EXCLUDE || id == OPTION_ALLOW ||
               id == OPTION_PUT || id == OPTION_LABEL || id == OPTION_VARIABLE || id == OPTION_PORT;
}

/* Passes over the options in front of the first operand that this part of a command line has; NULL: it has none. */
static const char *first_operand(int *argc, char ***argv, const char *short_options) {
        struct option longs[ROW_COUNT + 1] = { 0 };

        fill_long_options(longs);
        opterr = 0;
        optind = 0;
        while (getopt_long(*argc, *argv, short_options, longs, NULL) != -1)
                continue;
        *argc -= optind;
        *argv += optind;
        return *argc > 0 ? (*argv)[0] : NULL;
}

bool options_pass_code_on(int argc, char **argv) {
        const char *name = first_operand(&argc, &argv, UNTIL_OPERAND SHORT_OPTIONS);
        const struct verb_command *command;
        const struct verb *verb;
        struct error ignored;

        if (!name || options_find_verb(name, &verb, &ignored) < 0)
                return false;
        if (!verb->commands)
                return verb->traits & VERB_RUNS_PROGRAM;
        name = first_operand(&argc, &argv, SHORT_OPTIONS);
        command = name ? commands_find(verb, name) : NULL;
        return command && command->is_program;
}

/* The arguments behind argv[0], up to the first operand or all of them. 1: one of them was --version. */
static int parse_part(int argc, char **argv, bool until_operand, struct arena *arena, struct options *options,
                      bool *used, struct error *err) {
        struct option longs[ROW_COUNT + 1] = { 0 };
        int id;

        fill_long_options(longs);
        opterr = 0;
        optind = 0;
        while ((id = getopt_long(argc, argv, until_operand ? UNTIL_OPERAND SHORT_OPTIONS : SHORT_OPTIONS,
                                 longs, NULL)) != -1) {
                const struct option_row *row = row_of(id);

                if (id == ':')
                        return error_set(err, "%s needs a value", argv[optind - 1]);
                if (!row)
                        return fail_unknown_option(argv[optind - 1], err);
                if (id == OPTION_VERSION)
                        return 1;
                /* An option that does not repeat must not silently take its second value. */
                if (used[row - options_rows] && row->argument && !repeats(id))
                        return error_set(err, "--%s was given twice", row->name);
                if (row->argument && !*optarg)
                        return error_set(err, "--%s needs a value that is not empty", row->name);
                used[row - options_rows] = true;
                if (set_option(arena, options, id, optarg, err) < 0)
                        return -1;
        }
        return 0;
}

int options_parse(int argc, char **argv, struct arena *arena, struct options *ret,
                  const struct verb **ret_verb, struct error *err) {
        struct options options = { .path = ".",
                                   .parallel = APPLY_PARALLEL_DEFAULT,
                                   .state = getenv("BERTH_STATE") };
        const struct verb *verb = NULL;
        bool used[ROW_COUNT] = { false };
        int version;

        if (options.state && !options.state[0])
                options.state = NULL;
        version = parse_part(argc, argv, true, arena, &options, used, err);
        if (version == 0 && optind < argc) {
                if (options_find_verb(argv[optind], &verb, err) < 0)
                        return -1;
                argc -= optind;
                argv += optind;
                version =
                        parse_part(argc, argv, verb->traits & VERB_RUNS_PROGRAM, arena, &options, used, err);
                options.operands = (const char *const *)argv + optind;
                options.operand_count = (size_t)(argc - optind);
        }
        if (version < 0)
                return -1;
        if (version) {
                options.operand_count = 0;
                if (options_find_verb("version", &verb, err) < 0)
                        return -1;
        }
        if (verb)
                options.command = commands_of_line(verb, &options);
        if (verb && check_files(&options, verb, arena, used, err) < 0)
                return -1;
        if (verb && check_used(&options, verb, used, err) < 0)
                return -1;
        if (verb && check_state(&options, verb, used[row_of(OPTION_STATE) - options_rows], arena, err) < 0)
                return -1;
        *ret = options;
        *ret_verb = verb;
        return 0;
}
