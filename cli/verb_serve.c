/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve: the server of a stack, by the file of a Server or, given a folder of manifests, without one. Here it gets the place of
 * sessions, since it knows no provider.
 */
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "broker/api/openapi.h"
#include "broker/serve.h"
#include "cli/launcher.h"
#include "cli/serve_aws.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/stack_state.h"
#include "process/relay.h"
#include "providers/local/local_layout.h"
#include "providers/local/local_program.h"
#include "providers/local/sandbox/sandbox_keeper.h"
#include "providers/local/session/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the server itself has open, connections, and some sessions: docs/serve.md. */
#define OPEN_FILES_MIN 256
#define OPEN_FILES 65536

/* Warnings are printed as well, where the file could be loaded. */
static int load_config(struct session *session, const struct options *options, struct broker_config *ret,
                       struct error *err) {
        struct stat status;
        int result;

        if (stat(options->path, &status) == 0 && S_ISDIR(status.st_mode)) {
                broker_config_without_file(options->path, session->arena, ret);
                return 0;
        }
        result = broker_config_load(options->path, false, session->arena, ret, &session->diagnostics, err);
        if (result == 0 || err->kind == ERROR_DIAGNOSED) {
                diagnostics_sort(&session->diagnostics);
                diagnostics_print(&session->diagnostics, stderr);
        }
        return result;
}

/* The folder of the workers' sockets: short, since a socket's name is, and the same whenever the same state is served. */
static const char *sockets_folder(const char *lineage, struct arena *arena) {
        const char *own = getenv("XDG_RUNTIME_DIR");

        if (geteuid() == 0)
                return arena_printf(arena, "/run/berth/s-%.12s", lineage);
        if (own && *own == '/' && strlen(own) < 24)
                return arena_printf(arena, "%s/berth/s-%.12s", own, lineage);
        /* A fixed name in /tmp, whose sticky bit keeps other users from renaming it. */
        return arena_printf(arena, "/tmp/berth-s-%.12s", lineage);
}

/* What the place and the configuration have in common. */
struct place_context {
        const struct options *options;
        const char *state;                 /* where it lies, with a scheme; NULL: in the folder */
        const struct manifests *manifests; /* of the stack: how AWS is reached */
        const struct value *sessions;      /* of the Server's spec; or NULL */
};

static void log_line(bool trouble, const char *line) {
        if (trouble)
                log_warning("%s", line);
        else
                log_info("%s", line);
}

/* Sandboxes that are kept ready, and what they have imported. */
static void read_warm(const struct value *sessions, struct arena *arena,
                      struct session_place_config *config) {
        const struct value *warm = value_get(sessions, "warm"), *preload = value_get(sessions, "preload");
        struct session_place_warm *list = arena_array(arena, warm ? warm->count + 1 : 1, sizeof(*list));
        const char **modules = arena_array(arena, preload ? preload->count + 1 : 1, sizeof(*modules));

        for (uint32_t i = 0; warm && i < warm->count; i++)
                list[config->warm_count++] =
                        (struct session_place_warm){ warm->members[i].name,
                                                     (size_t)warm->members[i].value.integer };
        for (uint32_t i = 0; preload && i < preload->count; i++)
                modules[i] = value_text_of(&preload->items[i]);
        config->warm = list;
        config->preload = modules;
        config->tell = log_line;
}

/*
 * Root needs no launcher. Any other user gets one by default only where sessions would otherwise be
 * refused: not if the configuration lets all owners share a user, and not without a configuration,
 * where there is one owner.
 */
static const char *find_launcher(const struct options *options, const struct broker_config *config) {
        bool shares = config->own_token ||
                      value_get_boolean(value_get(config->spec, "sessions"), "sharedUser", false);

        return options->launcher || shares ? options->launcher : launcher_usual();
}

static int open_local(const struct place_context *place, const char *folder,
                      const struct applied_stack *stack, const struct workspace_bounds *bounds,
                      struct arena *arena, struct broker_place *ret, struct error *err) {
        const char *root = local_root(folder, stack->name, arena);
        struct session_place_config config = {
                .root = root,
                .folder = sockets_folder(stack->lineage, arena),
                .launcher = place->options->launcher,
                .workspaces = local_workspaces_folder(root, stack->spec, arena),
                .stack = stack->name,
                .accept_degraded = place->options->accept_degraded,
                .bounds = *bounds,
        };

        read_warm(place->sessions, arena, &config);
        ret->workspaces = (struct workspaces){ .folder = local_workspaces_folder(root, stack->spec, arena),
                                               .stack = stack->name };
        ret->files_max = LOCAL_FILES_MAX;
        ret->folders_max = LOCAL_FOLDERS_MAX;
        return session_place_open(&config, &ret->place, err);
}

static int open_place(void *context, const char *folder, struct applied *applied,
                      const struct applied_stack *stack, const struct workspace_bounds *bounds,
                      struct arena *arena, struct broker_place *ret, struct error *err) {
        const struct place_context *place = context;

        if (strcmp(stack->provider, "local") == 0)
                return open_local(place, folder, stack, bounds, arena, ret, err);
        if (strcmp(stack->provider, "aws") == 0)
                return serve_aws_open(place->sessions, folder, applied, stack, arena, ret, err);
        return error_set_kind(err, ERROR_NOT_FOUND, "the stack %s is of provider %s, which has no sessions",
                              stack->name, stack->provider);
}

/* What the API is takes no server, and no stack. */
static int print_openapi(struct error *err) {
        json_t *document JSON_CLEANUP = openapi_document(true);
        char *text TEXT_CLEANUP = json_for_eyes(document, 0);

        if (puts(text) == EOF || fflush(stdout) == EOF)
                return error_set(err, "standard output: %s", strerror(errno));
        return EXIT_DONE;
}

/* The process that started us holds the other end of our input: we end with it, however it ends. */
static void *end_with_input(void *context) {
        char bytes[256];
        ssize_t count;

        do
                count = read(STDIN_FILENO, bytes, sizeof(bytes));
        while (count > 0 || (count < 0 && errno == EINTR));
        interrupt_raise_to(interrupt_of_user(), INTERRUPT_FINISH);
        return context;
}

static int follow_input(struct broker_config *config, struct error *err) {
        pthread_t thread;
        int code;

        config->listen = "";
        (void)interrupt_of_user(); /* made before there are two threads that may ask for it */
        code = pthread_create(&thread, NULL, end_with_input, NULL);
        if (code != 0)
                return error_set(err, "cannot start a thread: %s", strerror(code));
        pthread_detach(thread);
        return 0;
}

static int open_state(void *context, struct state **ret, struct error *err) {
        const struct place_context *place = context;
        const struct stack_state_args args = { .registry = &session_registry,
                                               .manifests = place->manifests,
                                               .place = place->state,
                                               .clock = &clock_system,
                                               .aside = true };

        return stack_state_open(&args, STATE_READ, ret, err);
}

/* --state, or what the Stack says, where that is no folder. */
static int find_state(struct session *session, const struct options *options, struct broker_places *places,
                      struct place_context *context, struct error *err) {
        const char *place;

        if (session_state_place(session, options, &place, err) < 0)
                return -1;
        if (!stack_state_has_scheme(place))
                return 0;
        context->state = place;
        context->manifests = &session->manifests;
        places->open_state = open_state;
        return 0;
}

int verb_serve(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct session stack SESSION_CLEANUP;
        struct options of_stack = *options;
        struct broker_config config;
        struct place_context context = { .options = &of_stack };
        struct broker_places places = { .open = open_place, .context = &context };
        struct relay relay = RELAY_NONE;
        int result;

        session_init(&session);
        session_init(&stack);
        if (options->print_openapi)
                return print_openapi(err);
        if (descriptors_need(OPEN_FILES_MIN, OPEN_FILES, err) < 0)
                return -1;
        if (load_config(&session, options, &config, err) < 0)
                return -1;
        of_stack.path = config.stack;
        if (find_state(&stack, &of_stack, &places, &context, err) < 0)
                return -1;
        context.sessions = value_get(config.spec, "sessions");
        of_stack.launcher = find_launcher(options, &config);
        places.keep_apart = geteuid() == 0 || of_stack.launcher;
        log_set_json(options->json);
        interrupt_install();
        interrupt_on_hangup();
        if (options->attached && follow_input(&config, err) < 0)
                return -1;
        if (relay_start(&relay, err) < 0)
                return -1;
        sandbox_keeper_errors_to(relay.output); /* sandboxes outlive us */
        result = serve_run(&config, session_state_folder(&session, &of_stack), &places, err);
        sandbox_keeper_errors_to(STDERR_FILENO);
        relay_end(&relay);
        return result < 0 ? -1 : EXIT_DONE;
}
