/* SPDX-License-Identifier: Apache-2.0 */
/* The controller, and the commands to a running one. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "cli/controller_status.h"
#include "cli/session.h"
#include "cli/shell.h"
#include "cli/verbs.h"
#include "gitops/follow.h"
#include "server/control.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define POLL_MS 100

/* Running it */

/*
 * The other verbs take folders, so this mistake is likely, and the loader's own message would not name the way out.
 */
static int check_file(const struct options *options, struct error *err) {
        struct stat status;

        if (strcmp(options->path, "-") != 0 && stat(options->path, &status) == 0 && S_ISDIR(status.st_mode))
                return error_set(
                        err,
                        "%s is a folder: name the file of the Controller, berth controller -f FILE (berth explain "
                        "Controller shows its fields)",
                        options->path);
        return 0;
}

/* Warnings are printed as well, where the file could be loaded. */
static int load_config(struct session *session, const struct options *options, struct controller_config *ret,
                       struct error *err) {
        int result =
                controller_config_load(options->path, false, session->arena, ret, &session->diagnostics, err);

        if (result == 0 || err->kind == ERROR_DIAGNOSED) {
                diagnostics_sort(&session->diagnostics);
                diagnostics_print(&session->diagnostics, stderr);
        }
        return result;
}

static int run_controller(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct controller_config config;
        struct follow_args args = {
                .config = &config,
                .provider = options->provider,
                .registry = &session_registry,
                .once = options->once,
                .parallel = options->parallel,
                .clock = &clock_system,
        };
        int code;

        session_init(&session);
        if (session_check_folder(options, "controller", err) < 0 || check_file(options, err) < 0 ||
            load_config(&session, options, &config, err) < 0)
                return -1;
        if (options->provider && !stack_provider_find(&session_registry, options->provider))
                return error_set(err, "there is no provider \"%s\": it is aws or local", options->provider);
        args.folder = session_state_folder(&session, options);
        log_set_json(options->json);
        interrupt_install();
        interrupt_on_hangup();
        return follow_run(&args, &code, err) < 0 ? -1 : code;
}

/* Commands to it */

struct control_call {
        const struct options *options;
        const char *command, *name, *plan;
        const char *folder;
};

/* The daemon's answer says "ok", or "error" and whether it was a refusal, which is exit code 3 as everywhere. */
static int send_request(const struct control_call *call, json_t *request, json_t **ret, struct error *err) {
        json_t *answer;

        if (control_ask(call->folder, &follow_daemon, request, &answer, err) < 0)
                return -1;
        if (json_is_true(json_object_get(answer, "ok"))) {
                json_object_del(answer, "ok");
                *ret = answer;
                return 0;
        }
        (void)error_set(err, "%s",
                        json_text(answer, "error") ? json_text(answer, "error") : "the controller refused");
        if (json_is_true(json_object_get(answer, "refused")))
                err->kind = ERROR_REFUSED;
        json_decref(answer);
        return -1;
}

static json_t *control_request(const struct control_call *call) {
        const struct options *options = call->options;
        json_t *request = json_object(), *allow = json_array();
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        json_set_text(request, "command", call->command);
        json_set_text(request, "source", call->name);
        json_set_text(request, "plan", call->plan);
        for (size_t i = 0; i < options->allowance_count; i++) {
                const struct allowance *allowance = &options->allowances[i];

                strbuf_clear(&text);
                strbuf_printf(&text, "%s%s%s", allowance->id, allowance->address ? ":" : "",
                              allowance->address ? allowance->address : "");
                json_array_append_new(allow, json_from_text(strbuf_text(&text)));
        }
        json_object_set_new(request, "allow", allow);
        return request;
}

/* What a running controller does for `status NAME`, with a document that was read without one. */
static int keep_source(json_t *document, const char *name, struct error *err) {
        json_t *sources = json_object_get(document, "sources");

        for (size_t i = json_array_size(sources); name && i-- > 0;) {
                const json_t *source = json_array_get(sources, i);
                const char *parent = json_text(source, "parent");

                if (strcmp(json_text(source, "name"), name) != 0 && !(parent && strcmp(parent, name) == 0))
                        json_array_remove(sources, i);
        }
        return name && json_array_size(sources) == 0 ? error_set(err, "there is no source \"%s\"", name) : 0;
}

/* The options that make a printed command reach this same controller. */
static const char *place_options(const struct options *options, struct strbuf *text) {
        const char *environment = getenv("BERTH_STATE");

        if (options->state && (!environment || strcmp(options->state, environment) != 0)) {
                strbuf_append(text, " --state ");
                shell_append_word(text, options->state);
        } else if (!options->state && strcmp(options->path, ".") != 0) {
                strbuf_append(text, " -f ");
                shell_append_word(text, options->path);
        }
        return strbuf_text(text);
}

static void print_status(const struct control_call *call, json_t *document) {
        struct strbuf place STRBUF_CLEANUP = STRBUF_INIT;
        const char *where = place_options(call->options, &place);
        int64_t now_ms = clock_wall_ms();

        if (call->options->json) {
                json_object_set_new(document, "formatVersion", json_string("1"));
                print_json(json_incref(document));
        } else if (call->name) {
                controller_status_details(document, where, now_ms, stdout);
        } else {
                controller_status_table(document, where, now_ms, stdout);
        }
}

/*
 * A running controller knows best. Without one the states are read; the last status is printed and
 * still counts as an error, because nothing updates it.
 */
static int run_status(const struct control_call *call, struct error *err) {
        json_t *document JSON_CLEANUP = NULL;
        struct error absent = { 0 };

        if (send_request(call, control_request(call), &document, &absent) == 0) {
                print_status(call, document);
                return EXIT_DONE;
        }
        if (absent.kind != ERROR_NOT_FOUND) {
                *err = absent;
                return -1;
        }
        if (follow_persisted(call->folder, &document, err) < 0 || keep_source(document, call->name, err) < 0)
                return -1;
        print_status(call, document);
        fflush(stdout);
        return error_set(err, "no controller runs in %s: this is its last status", call->folder);
}

/*
 * Whether the source has finished that many rounds, and its folders, where its path is a pattern, those that it caused; if so, *ret
 * is the list of their statuses, its own first.
 */
static int has_finished_round(const struct control_call *call, const char *name, json_int_t round,
                              json_t **ret, struct error *err) {
        json_t *document JSON_CLEANUP = NULL, *sources;
        json_t *request = json_pack("{s:s, s:o}", "command", "status", "source", json_from_text(name));

        if (send_request(call, request, &document, err) < 0)
                return -1;
        sources = json_object_get(document, "sources");
        if (json_integer_or(json_array_get(sources, 0), "rounds", 0) < round)
                return 0;
        for (size_t i = 1; i < json_array_size(sources); i++) {
                if (json_is_true(json_object_get(json_array_get(sources, i), "busy")))
                        return 0;
        }
        *ret = json_incref(sources);
        return 1;
}

/* A source that waits for a person is a refusal, as a plan of berth apply's would be. */
static int exit_code_of_source(const json_t *source) {
        const json_t *ready = controller_status_condition(source, "Ready");
        const char *reason = json_text(ready, "reason");

        if (json_is_true(json_object_get(ready, "status")))
                return EXIT_DONE;
        if (reason && (strcmp(reason, "Refused") == 0 || strcmp(reason, "WaitingForApproval") == 0 ||
                       strcmp(reason, "HistoryRewritten") == 0 || strcmp(reason, "FolderGone") == 0))
                return EXIT_REFUSED;
        return EXIT_ERROR;
}

/* Waits until each source has finished the round that this command asked for. */
static int wait_for_rounds(const struct control_call *call, const json_t *answer, struct error *err) {
        json_t *document JSON_CLEANUP = json_pack("{s:[]}", "sources");
        struct strbuf place STRBUF_CLEANUP = STRBUF_INIT;
        int worst = EXIT_DONE;
        const char *name;
        json_t *round;

        json_object_foreach (json_object_get(answer, "rounds"), name, round) {
                json_t *sources = NULL, *source;
                int ended = 0, code;
                size_t i;

                while (ended == 0 && interrupt_level(interrupt_of_user()) == INTERRUPT_NONE) {
                        ended = has_finished_round(call, name, json_integer_value(round), &sources, err);
                        if (ended == 0)
                                (void)clock_system.sleep_until(&clock_system, clock_now_ms() + POLL_MS);
                }
                if (ended < 0)
                        return -1;
                if (ended == 0)
                        return error_set_kind(err, ERROR_INTERRUPTED,
                                              "no longer waiting; the controller goes on");
                json_array_foreach (sources, i, source) {
                        code = exit_code_of_source(source);
                        if (code == EXIT_ERROR || worst == EXIT_DONE)
                                worst = code;
                }
                json_array_extend(json_object_get(document, "sources"), sources);
                json_decref(sources);
        }
        if (call->options->json)
                print_json(json_incref(document));
        else
                controller_status_table(document, place_options(call->options, &place), clock_wall_ms(),
                                        stdout);
        return worst;
}

/* `sync` and `approve` can wait for the round that they cause; all others are done when they are answered. */
static int run_command(const struct control_call *call, struct error *err) {
        json_t *answer JSON_CLEANUP = NULL;

        if (send_request(call, control_request(call), &answer, err) < 0)
                return -1;
        if (call->options->wait) {
                interrupt_install();
                return wait_for_rounds(call, answer, err);
        }
        if (call->options->json)
                print_json(json_incref(answer));
        else
                printf("%s%s%s.\n", call->name ? call->name : "", call->name ? ": " : "",
                       json_text(answer, "message"));
        return EXIT_DONE;
}

static const struct command {
        const char *name;
        bool plan;
        int (*run)(const struct control_call *call, struct error *err);
} commands[] = {
        { "status", false, run_status },  { "sync", false, run_command },   { "suspend", false, run_command },
        { "resume", false, run_command }, { "approve", true, run_command },
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* Operands that belong to another of the commands are mistakes here, and never ignored. */
static int check_use(const struct options *options, const struct command *command, struct error *err) {
        if (options->operand_count > 2 && !command->plan)
                return error_set(err, "berth controller %s: \"%s\" is one too many", command->name,
                                 options->operands[2]);
        if (command->plan && options->operand_count < 2)
                return error_set(err, "berth controller %s needs the name of a source", command->name);
        return 0;
}

int verb_controller(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP = { 0 };
        const struct command *command;
        struct control_call call = { .options = options };

        if (options->operand_count == 0)
                return run_controller(options, err);
        command = suggest_row("berth controller", options->operands[0], commands, COMMAND_COUNT,
                              sizeof(*commands), err);
        if (!command || check_use(options, command, err) < 0)
                return -1;
        session_init(&session);
        call.command = command->name;
        call.name = options->operand_count > 1 ? options->operands[1] : NULL;
        call.plan = options->operand_count > 2 ? options->operands[2] : NULL;
        call.folder = session_state_folder(&session, options);
        return command->run(&call, err);
}
