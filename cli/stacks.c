/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --stacks: one verb for every stack below a folder, side by side.
 *
 * Each stack is a process of its own, this same program with -f and --json. So a stack has its own state, lease, memory and
 * interrupts as it has when it is alone, and one that fails, or is killed, is no other's trouble. Only their pace is common to all,
 * by account and region: AWS counts their calls together. They lead groups of
 * their own: a Ctrl-C reaches this program, which passes it on to each once. The second one kills them, as kill -9 does.
 *
 * Threads only wait. Their output is printed at the end, in the folders' order.
 */
#include "cli/stacks.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/text_utf8.h"
#include "cli/session.h"
#include "process/run.h"
#include "providers/aws/aws.h"
#include "schema/manifests.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIDE_BY_SIDE 16 /* they mostly wait for a network, and take some ten megabytes each */
#define PACE_DESCRIPTOR 3
#define OUTPUT_MAX ((size_t)256 * 1024 * 1024)

struct stack_run {
        const char *folder;
        json_t *document; /* what it printed, or NULL */
        char *said;       /* the end of what it wrote to standard error; owned */
        int code;
};

struct crew {
        const struct options *options;
        const char *verb;
        struct stack_run *runs;
        size_t count, next;
        const char *const *environment;
        int pace; /* descriptor of what they pace their calls by; -1: each by itself */
        pthread_mutex_t lock;
};

static void add_pair(const char **arguments, size_t *count, const char *name, const char *value) {
        arguments[(*count)++] = name;
        arguments[(*count)++] = value;
}

/* The command line of one stack: what was given here, but for -f. */
static const char *const *arguments_of(const struct crew *crew, const char *folder, struct arena *arena) {
        static const char *const refreshes[] = { "sweep", "full", "none" };
        const struct options *options = crew->options;
        const char **arguments = arena_array(
                arena, 24 + 2 * (options->target_count + options->exclude_count + options->allowance_count),
                sizeof(*arguments));
        bool plans = strcmp(crew->verb, "validate") != 0;
        size_t count = 0;

        arguments[count++] = "/proc/self/exe";
        arguments[count++] = crew->verb;
        arguments[count++] = "--json";
        add_pair(arguments, &count, "-f", folder);
        if (options->provider)
                add_pair(arguments, &count, "--provider", options->provider);
        if (plans)
                add_pair(arguments, &count, "--refresh", refreshes[options->refresh]);
        if (strcmp(crew->verb, "plan") == 0)
                arguments[count++] = "--detailed-exitcode";
        if (strcmp(crew->verb, "apply") == 0) {
                arguments[count++] = "--yes";
                add_pair(arguments, &count, "--parallel", arena_printf(arena, "%u", options->parallel));
                if (options->skip_refused)
                        arguments[count++] = "--skip-refused";
        }
        for (size_t i = 0; i < options->target_count; i++)
                add_pair(arguments, &count, "--target", options->targets[i]);
        for (size_t i = 0; i < options->exclude_count; i++)
                add_pair(arguments, &count, "--exclude", options->excludes[i]);
        for (size_t i = 0; i < options->allowance_count; i++) {
                const struct allowance *allowed = &options->allowances[i];

                add_pair(arguments, &count, "--allow",
                         arena_printf(arena, "%s%s%s", allowed->id, allowed->address ? ":" : "",
                                      allowed->address ? allowed->address : ""));
        }
        arguments[count] = NULL;
        return arguments;
}

/* One stack, in the thread that calls: what it printed, what it said, how it ended. An error of ours is its error. */
static void run_stack(const struct crew *crew, struct stack_run *run) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        struct error err = { 0 };
        const char *said = NULL;
        const struct run_args args = {
                .process = { .arguments = arguments_of(crew, run->folder, arena),
                             .environment = crew->environment,
                             .group = PROCESS_OWN_GROUP,
                             .descriptors = { { crew->pace, PACE_DESCRIPTOR } },
                             .descriptor_count = crew->pace >= 0 },
                .output_max = OUTPUT_MAX,
                .errors = RUN_ERRORS_KEPT,
                .deadline_ms = RUN_NO_DEADLINE,
                .interrupt = interrupt_of_user(),
                .ask = SIGINT,
                .grace_ms = INT64_MAX,
        };

        run->code = EXIT_ERROR;
        if (interrupt_level(args.interrupt) > INTERRUPT_NONE) {
                said = "not begun: interrupted";
        } else if (run_to_end(&args, &result, &err) < 0) {
                said = err.message;
        } else if (result.end != RUN_EXITED) {
                if (run_check(&result, "its run", &err) < 0)
                        said = err.message;
        } else {
                run->code = result.code;
                run->document = json_loadb(strbuf_text(&result.output), result.output.length, 0, NULL);
                said = strbuf_text(&result.said);
                said += text_begins_with(said, "error: ") ? strlen("error: ") : 0;
                /*
                 * A plan exits with EXIT_CHANGES under --detailed-exitcode; here that option was
                 * given for all stacks together.
                 */
                if (run->code == EXIT_CHANGES && strcmp(crew->verb, "plan") == 0 &&
                    !crew->options->detailed_exitcode)
                        run->code = EXIT_DONE;
        }
        if (said && !(run->said = strdup(said)))
                abort();
}

/* Ours, with the pace's place in it. */
static const char *const *environment_of(bool paced, struct arena *arena) {
        const char **variables;
        size_t count = 0, kept = 0;

        while (environ[count])
                count++;
        variables = arena_array(arena, count + 2, sizeof(*variables));
        for (size_t i = 0; i < count; i++) {
                if (!text_begins_with(environ[i], AWS_PACE_VARIABLE "="))
                        variables[kept++] = environ[i];
        }
        if (paced)
                variables[kept++] = arena_printf(arena, AWS_PACE_VARIABLE "=%d", PACE_DESCRIPTOR);
        variables[kept] = NULL;
        return variables;
}

static void *run_stacks_in_turn(void *argument) {
        struct crew *crew = argument;

        for (;;) {
                size_t number;

                pthread_mutex_lock(&crew->lock);
                number = crew->next++;
                pthread_mutex_unlock(&crew->lock);
                if (number >= crew->count)
                        return NULL;
                run_stack(crew, &crew->runs[number]);
        }
}

/* Our own thread works as well, so that all are run even where no thread can be made. */
static void run_side_by_side(struct crew *crew) {
        pthread_t threads[SIDE_BY_SIDE - 1];
        size_t started = 0;

        while (started < SIDE_BY_SIDE - 1 && started + 1 < crew->count &&
               pthread_create(&threads[started], NULL, run_stacks_in_turn, crew) == 0)
                started++;
        run_stacks_in_turn(crew);
        while (started > 0)
                pthread_join(threads[--started], NULL);
}

/* From good to bad: an error says least of what is there now. */
static int worse_of(int a, int b) {
        static const int ranks[] = {
                [EXIT_DONE] = 0, [EXIT_ERROR] = 4, [EXIT_CHANGES] = 1, [EXIT_REFUSED] = 2, [EXIT_LOCKED] = 3
        };

        return ranks[a] >= ranks[b] ? a : b;
}

/* As text */

static const char *text_or_empty(const json_t *object, const char *name) {
        const char *text = json_text(object, name);

        return text ? text : "";
}

static void append_refusals(const json_t *list, const char *address, struct strbuf *out) {
        const json_t *refusal;
        size_t i;

        json_array_foreach (list, i, refusal)
                strbuf_printf(out, "  refused%s%s: %s: %s\n", *address ? " " : "", address,
                              text_or_empty(refusal, "id"), text_or_empty(refusal, "message"));
}

/* Whatever a verb's document has of these: no verb has all of them. */
static void append_changes(const json_t *document, struct strbuf *out) {
        const json_t *item;
        size_t i;

        append_refusals(json_object_get(document, "refusals"), "", out);
        json_array_foreach (json_object_get(document, "changes"), i, item) {
                const char *address = text_or_empty(item, "address"), *outcome = json_text(item, "outcome"),
                           *error = json_text(item, "error");

                strbuf_printf(out, "  %s %s%s%s%s%s\n", text_or_empty(item, "action"), address,
                              outcome ? ": " : "", outcome ? outcome : "", error ? ": " : "",
                              error ? error : "");
                append_refusals(json_object_get(item, "refusals"), address, out);
        }
        json_array_foreach (json_object_get(document, "drift"), i, item) {
                const json_t *field;
                size_t k;

                strbuf_printf(out, "  drifted %s%s", text_or_empty(item, "address"),
                              json_is_true(json_object_get(item, "gone")) ? ": gone" : "");
                json_array_foreach (json_object_get(item, "fields"), k, field)
                        strbuf_printf(out, "%s%s", k ? ", " : ": ", text_or_empty(field, "path"));
                strbuf_append_char(out, '\n');
        }
        json_array_foreach (json_object_get(document, "diagnostics"), i, item)
                strbuf_printf(out, "  %s:%" JSON_INTEGER_FORMAT ":%" JSON_INTEGER_FORMAT ": %s: %s\n",
                              text_or_empty(item, "file"), json_integer_or(item, "line", 0),
                              json_integer_or(item, "column", 0), text_or_empty(item, "severity"),
                              text_or_empty(item, "message"));
}

/* What the summary counts, by the words of its JSON; without one, all there is to say in a word. */
static void append_counts(const struct stack_run *run, struct strbuf *out) {
        const json_t *document = run->document, *drift = json_object_get(document, "drift");
        const char *name, *between = "";
        json_t *count;

        json_object_foreach (json_object_get(document, "summary"), name, count) {
                if (json_integer_value(count) == 0)
                        continue;
                strbuf_printf(out, "%s%" JSON_INTEGER_FORMAT " %s", between, json_integer_value(count), name);
                between = ", ";
        }
        if (json_array_size(drift) > 0)
                strbuf_printf(out, "%s%zu drifted", between, json_array_size(drift));
        else if (!*between)
                strbuf_append(out, json_is_true(json_object_get(document, "valid")) ? "valid"
                                   : json_object_get(document, "diagnostics")       ? "not valid"
                                   : run->code == EXIT_DONE                         ? "nothing"
                                                                                    : "");
}

/* The line of a stack: "stacks/eu  eu  aws 111122223333 eu-central-1  3 create, 1 refused". */
static void append_line(const struct stack_run *run, int width, struct strbuf *out) {
        static const char *const ends[] = { [EXIT_DONE] = "",
                                            [EXIT_ERROR] = "failed",
                                            [EXIT_CHANGES] = "",
                                            [EXIT_REFUSED] = "refused",
                                            [EXIT_LOCKED] = "locked" };
        static const char *const parts[] = { "stack", "provider", "account", "region" };
        struct strbuf counts STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(out, "%-*s", width, run->folder);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
                const char *text = json_text(run->document, parts[i]);

                if (text && *text)
                        strbuf_printf(out, " %s", text);
        }
        append_counts(run, &counts);
        strbuf_printf(out, ": %s%s%s%s%s\n", ends[run->code], *ends[run->code] && counts.length ? ", " : "",
                      strbuf_text(&counts),
                      run->code != EXIT_DONE && run->code != EXIT_CHANGES && run->said && *run->said ? ": "
                                                                                                     : "",
                      run->code == EXIT_DONE || run->code == EXIT_CHANGES || !run->said ? "" : run->said);
}

static void print_stacks(const struct crew *crew, int code) {
        struct strbuf out STRBUF_CLEANUP = STRBUF_INIT, safe STRBUF_CLEANUP = STRBUF_INIT;
        int width = 0;

        for (size_t i = 0; i < crew->count; i++) {
                const struct stack_run *run = &crew->runs[i];
                struct strbuf changes STRBUF_CLEANUP = STRBUF_INIT;
                int length = (int)strlen(run->folder);

                width = length > width ? length : width;
                append_changes(run->document, &changes);
                if (changes.length && !crew->options->quiet)
                        strbuf_printf(&out, "%s\n%s\n", run->folder, strbuf_text(&changes));
        }
        for (size_t i = 0; i < crew->count; i++)
                append_line(&crew->runs[i], width, &out);
        strbuf_printf(&out, "%zu %s%s\n", crew->count, crew->count == 1 ? "stack" : "stacks",
                      code == EXIT_DONE || code == EXIT_CHANGES ? "." : ", not all of them well.");
        /* Names and messages come from manifests and providers; line breaks are ours. */
        for (char *at = out.data, *end; *at; at = end + 1) {
                end = at + strcspn(at, "\n");
                *end = '\0';
                text_append_safe(&safe, at);
                strbuf_append_char(&safe, '\n');
        }
        fputs(strbuf_text(&safe), stdout);
}

static json_t *report_json(const struct crew *crew, int code) {
        json_t *object = json_object(), *list = json_array();

        for (size_t i = 0; i < crew->count; i++) {
                const struct stack_run *run = &crew->runs[i];
                json_t *item = json_object();

                json_put(item, "folder", json_from_text(run->folder));
                json_put(item, "exitCode", json_integer(run->code));
                json_put(item, "error",
                         run->code == EXIT_ERROR || run->code == EXIT_LOCKED ? json_from_text(run->said)
                                                                             : json_null());
                json_put(item, "result", run->document ? json_incref(run->document) : json_null());
                json_add(list, item);
        }
        json_put(object, "formatVersion", json_string("1"));
        json_put(object, "verb", json_string(crew->verb));
        json_put(object, "exitCode", json_integer(code));
        json_put(object, "stacks", list);
        return object;
}

/* Refuses options that make no sense for many stacks at once. */
static int check_options(const char *verb, const struct options *options, struct error *err) {
        struct stat status;

        if (stat(options->path, &status) < 0 || !S_ISDIR(status.st_mode))
                return error_set(err, "--stacks takes a folder of stacks; %s is not a folder", options->path);
        if (options->state)
                return error_set(err,
                                 "with --stacks each stack has a state of its own, beside its manifests: "
                                 "--state and BERTH_STATE name one for all");
        if (options->output || options->operand_count > 0)
                return error_set(err, "a saved plan is of one stack: leave --stacks out");
        if (options->format && strcmp(options->format, "text") != 0 && strcmp(options->format, "json") != 0)
                return error_set(err, "berth plan --stacks: --format takes text or json, not \"%s\"",
                                 options->format);
        if (strcmp(verb, "apply") == 0 && !options->yes)
                return error_set(err,
                                 "apply --stacks asks nothing: look at berth plan --stacks, then give --yes");
        return 0;
}

int stacks_run(const char *verb, const struct options *options, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct crew crew = {
                .options = options, .verb = verb, .pace = -1, .lock = PTHREAD_MUTEX_INITIALIZER
        };
        const char *const *folders;
        struct error unpaced;
        int code = EXIT_DONE;

        if (check_options(verb, options, err) < 0 ||
            manifests_find_stacks(options->path, arena, &folders, &crew.count, err) < 0)
                return -1;
        if (crew.count == 0)
                return error_set_kind(err, ERROR_NOT_FOUND, "no folder in %s holds a Stack", options->path);
        crew.runs = arena_array(arena, crew.count, sizeof(*crew.runs));
        for (size_t i = 0; i < crew.count; i++)
                crew.runs[i] = (struct stack_run){ .folder = folders[i] };
        if (aws_pace_new(&crew.pace, &unpaced) < 0)
                log_warning("%s: each stack keeps to the quotas by itself alone", unpaced.message);
        crew.environment = environment_of(crew.pace >= 0, arena);
        interrupt_install();
        interrupt_on_hangup();
        run_side_by_side(&crew);
        if (crew.pace >= 0)
                close(crew.pace);
        for (size_t i = 0; i < crew.count; i++) {
                int one = crew.runs[i].code;

                /* Whatever else it ended with is nothing that a verb ends with. */
                if (one < EXIT_DONE || one > EXIT_LOCKED)
                        crew.runs[i].code = EXIT_ERROR;
                code = worse_of(code, crew.runs[i].code);
        }
        if (options->json)
                print_json(report_json(&crew, code));
        else
                print_stacks(&crew, code);
        for (size_t i = 0; i < crew.count; i++) {
                json_decref(crew.runs[i].document);
                free(crew.runs[i].said);
        }
        return code;
}
