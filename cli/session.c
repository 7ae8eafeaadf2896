/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order matters: manifests first, so that their mistakes show before anything else can fail; then the provider, by the
 * Stack's name; the state last, since opening may create it. The lease is released before the state is closed.
 */
#include "cli/session.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "controller/stack_state.h"
#include "providers/aws/aws.h"
#include "providers/aws/state_objects.h"
#include "providers/local/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct provider_ops *const providers[] = { &aws_provider_ops, &local_provider_ops };
const struct provider_registry session_registry = { providers, sizeof(providers) / sizeof(providers[0]),
                                                    state_objects_open };

void session_init(struct session *session) {
        *session = (struct session){ .arena = arena_new() };
        diagnostics_init(&session->diagnostics, session->arena);
}

void session_close(struct session *session) {
        if (session->provider_ops)
                session->provider_ops->close(session->provider);
        if (session->leased)
                state_lease_release(session->state);
        state_close(session->state);
        free(session->state_folder);
        arena_free(session->arena);
        *session = (struct session){ 0 };
}

void print_json(json_t *json) {
        char *text TEXT_CLEANUP = NULL;

        if (!json)
                abort();
        text = json_for_eyes(json, 0);
        puts(text);
        json_decref(json);
}

void session_report(struct session *session, const struct options *options, bool failed) {
        diagnostics_sort(&session->diagnostics);
        if (failed && options->json)
                print_json(json_pack("{s:b, s:o}", "valid", 0, "diagnostics",
                                     diagnostics_to_json(&session->diagnostics)));
        else
                diagnostics_print(&session->diagnostics, stderr);
}

struct load_options session_load_options(const struct options *options) {
        return (struct load_options){
                .provider = options->provider,
                .more = options->more,
                .more_count = options->more_count,
        };
}

/* Standard input can be read once. */
static bool reads_input(const struct options *options) {
        for (size_t i = 0; i < options->more_count; i++) {
                if (strcmp(options->more[i], "-") == 0)
                        return true;
        }
        return strcmp(options->path, "-") == 0;
}

/* Whether there is a Stack in any of them, as far as they can be searched. */
static bool may_hold_stack(const struct options *options, struct arena *arena) {
        const char *const *stacks;
        struct error ignored;
        size_t count;

        for (size_t i = 0; i <= options->more_count; i++) {
                const char *path = i == 0 ? options->path : options->more[i - 1];

                if (manifests_find_stacks(path, arena, &stacks, &count, &ignored) == 0 && count > 0)
                        return true;
        }
        return false;
}

static int load_and_report(struct session *session, const struct options *options,
                           const struct load_options *load, struct error *err) {
        int result = manifests_load(options->path, load, session->arena, &session->manifests,
                                    &session->diagnostics, err);

        if (result == 0 || err->kind == ERROR_DIAGNOSED)
                session_report(session, options, result < 0);
        return result;
}

int session_load(struct session *session, const struct options *options, bool missing_environments,
                 struct error *err) {
        struct load_options load = session_load_options(options);

        load.missing_environments = missing_environments;
        return load_and_report(session, options, &load, err);
}

int session_load_offline(struct session *session, const struct options *options, struct error *err) {
        struct load_options load = session_load_options(options);

        load.offline = true;
        return load_and_report(session, options, &load, err);
}

/* ".berth" beside the manifests; where those are not in a folder of files, in this folder. */
static char *default_state(const char *path) {
        struct stat status;
        const char *slash = strrchr(path, '/');
        struct strbuf folder STRBUF_CLEANUP = STRBUF_INIT;

        if (strcmp(path, "-") == 0)
                return path_join(".", ".berth");
        if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
                return path_join(path, ".berth");
        /* A pipe, as `-f <(generate)` gives: its folder is /dev/fd. */
        if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
                return path_join(".", ".berth");
        strbuf_append_bytes(&folder, path, slash ? (size_t)(slash - path) : 0);
        if (slash == path)
                strbuf_append_char(&folder, '/');
        return path_join(strbuf_text(&folder), ".berth");
}

/* The folder for what is of this machine, also where the state lies elsewhere. */
const char *session_state_folder(struct session *session, const struct options *options) {
        if (!session->state_folder)
                session->state_folder = options->state && !stack_state_has_scheme(options->state)
                                                ? strdup(options->state)
                                                : default_state(options->path);
        if (!session->state_folder)
                abort();
        return session->state_folder;
}

int session_check_folder(const struct options *options, const char *verb, struct error *err) {
        if (!options->state || !stack_state_has_scheme(options->state))
                return 0;
        return error_set(
                err,
                "berth %s keeps its data in a folder, which --state (BERTH_STATE) names: %s is not a folder",
                verb, options->state);
}

/*
 * For verbs that need no manifests: what the Stack says of the state, and of how AWS is reached. Mistakes are for others to
 * report, and standard input can be read once only. False where there is a Stack, among mistakes.
 */
static bool load_quietly(struct session *session, const struct options *options) {
        struct load_options load = session_load_options(options);
        struct diagnostics ignored;
        struct manifests manifests = { 0 };
        struct error failure;

        if (session->manifests.stack || reads_input(options))
                return true;
        load.missing_environments = true;
        diagnostics_init(&ignored, session->arena);
        if (manifests_load(options->path, &load, session->arena, &manifests, &ignored, &failure) == 0) {
                session->manifests = manifests;
                return true;
        }
        log_debug("the Stack was not read: %s", failure.message);
        return failure.kind != ERROR_DIAGNOSED || !may_hold_stack(options, session->arena);
}

void session_load_quietly(struct session *session, const struct options *options) {
        (void)load_quietly(session, options);
}

/* Whether a state of that folder lives elsewhere now; false where it cannot be opened. */
static bool has_moved_away(const char *folder) {
        struct error ignored;
        struct state *state;
        bool moved;

        if (state_open(folder, STATE_READ, &state, &ignored) < 0)
                return false;
        moved = state_check_lives(state, &ignored) < 0;
        state_close(state);
        return moved;
}

/* Refuses a state in the folder that would never be read again. */
static int refuse_both(const char *folder, const char *place, struct error *err) {
        struct error ignored;
        struct state *state;
        bool lives;

        if (state_open(folder, STATE_READ, &state, &ignored) < 0)
                return 0;
        lives = *state_lineage(state) && state_check_lives(state, &ignored) == 0;
        state_close(state);
        return lives ? error_set(
                               err,
                               "the Stack says that its state lies in %s, but there is one in %s too: move it there (berth "
                               "state migrate --state %s %s), give --state to say which is meant, or remove the folder",
                               place, folder, folder, place)
                     : 0;
}

static bool is_same_file(const char *one, const char *other) {
        struct stat first, second;

        return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
               first.st_ino == second.st_ino;
}

/*
 * After `apply -f agents` a `plan` finds the same Stack from the folder above, and looks for its
 * state there. A user with two states of one Stack is told which one is used, and where the other
 * is.
 */
static void tell_of_other_state(struct session *session, const struct options *options, const char *used) {
        const struct resource *stack = session->manifests.stack;
        const char *folder;
        char *other TEXT_CLEANUP = NULL;
        size_t declared = 0;

        if (stack)
                (void)manifests_of_kind(&session->manifests, KIND_STACK, &declared);
        /* Of a saved plan's manifests there are no files. */
        if (declared == 0 || !session->manifests.files || session->told_of_other_state || options->quiet ||
            reads_input(options) || (options->state && options->state != getenv("BERTH_STATE")))
                return;
        folder = path_folder(session->manifests.files[stack->file], session->arena);
        other = path_join(*folder ? folder : ".", ".berth");
        if (!state_folder_holds(other) || is_same_file(other, used) || has_moved_away(other))
                return;
        session->told_of_other_state = true;
        if (options->state)
                log_warning(
                        "the state is %s, as BERTH_STATE says; another one lies beside the Stack, in %s, and is "
                        "not looked at",
                        used, other);
        else
                log_warning(
                        "the state is %s; another one lies beside the Stack, in %s, and is not looked at: -f %s "
                        "uses that",
                        used, other, *folder ? folder : ".");
}

int session_state_place(struct session *session, const struct options *options, const char **ret,
                        struct error *err) {
        const char *folder = session_state_folder(session, options), *declared;

        if (options->state) {
                if (stack_state_has_scheme(options->state))
                        session_load_quietly(session, options);
                tell_of_other_state(session, options, options->state);
                *ret = options->state;
                return 0;
        }
        if (!load_quietly(session, options) && !state_folder_holds(folder))
                return error_set(
                        err,
                        "there is no state in %s, and whether the Stack says that it lies elsewhere is not known: the "
                        "manifests in %s have mistakes (berth validate shows them). Mend them, or give --state",
                        folder, options->path);
        declared = stack_state_declared(&session->manifests);
        if (declared && refuse_both(folder, declared, err) < 0)
                return -1;
        *ret = declared ? declared : folder;
        tell_of_other_state(session, options, *ret);
        return 0;
}

/*
 * Where the Stack names a place that has no state yet, none begins there as long as one that is in the folder has moved elsewhere, or
 * cannot be read: a mistyped place would pass for a new stack.
 */
static int check_beginning(struct session *session, const struct options *options, struct error *err) {
        const char *folder = session_state_folder(session, options), *place = state_folder(session->state);
        struct error failure;
        struct state *state;
        int result;

        if (options->state || !stack_state_has_scheme(place) ||
            (*state_lineage(session->state) && !state_is_unmade(session->state)))
                return 0;
        if (state_open(folder, STATE_READ, &state, &failure) < 0)
                return error_set(err,
                                 "the Stack's state should be in %s, which has none yet, and what is in %s "
                                 "cannot be read: %s",
                                 place, folder, failure.message);
        result = state_check_lives(state, err);
        state_close(state);
        return result < 0 ? error_context(err, "the Stack's state should be in %s, which has none", place)
                          : 0;
}

int session_open_state(struct session *session, const struct options *options, enum state_mode mode,
                       struct error *err) {
        struct stack_state_args args = {
                .registry = &session_registry,
                .clock = &clock_system,
        };

        if (session_state_place(session, options, &args.place, err) < 0)
                return -1;
        args.manifests = &session->manifests;
        args.gone_too = session->gone_too;
        if (stack_state_open(&args, mode, &session->state, err) < 0)
                return -1;
        if (check_beginning(session, options, err) == 0)
                return 0;
        state_close(session->state);
        session->state = NULL;
        return -1;
}

#define LOCK_LOOK_MS 1000 /* between two looks at a lock that another run holds */

int session_wait_for_lock(const struct options *options, struct lock_wait *wait, const struct error *failure,
                          struct error *err) {
        const struct clock *clock = &clock_system;
        int64_t now_ms = clock->monotonic_ms(clock);

        if (!wait->begun)
                wait->until_ms = now_ms + (int64_t)options->lock_timeout_s * 1000;
        if (failure->kind != ERROR_LOCKED || now_ms >= wait->until_ms) {
                *err = *failure;
                return -1;
        }
        if (!wait->begun && !options->quiet)
                log_info("%s. Waiting for it, %u s at the most", failure->message, options->lock_timeout_s);
        wait->begun = true;
        if (clock->sleep_until(clock, now_ms + LOCK_LOOK_MS < wait->until_ms ? now_ms + LOCK_LOOK_MS
                                                                             : wait->until_ms) < 0)
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted while waiting for the lock");
        return 0;
}

/*
 * A lock that is held is waited for as long as --lock-timeout says. A state that does not exist yet
 * is opened again each time: the run that holds its lock creates it.
 */
static int take_or_wait(struct session *session, const char *command, const struct options *options,
                        struct error *err) {
        struct lock_wait wait = { 0 };
        struct error failure = { 0 };

        while (state_lease_acquire(session->state, command, &failure) < 0) {
                if (session_wait_for_lock(options, &wait, &failure, err) < 0)
                        return -1;
                if (!state_is_unmade(session->state))
                        continue;
                state_close(session->state);
                session->state = NULL;
                if (session_open_state(session, options, STATE_CREATE, err) < 0)
                        return -1;
        }
        return 0;
}

int session_take_lease(struct session *session, const struct options *options, const char *command,
                       struct error *err) {
        interrupt_on_hangup();
        if (!session->state && session_open_state(session, options, STATE_CREATE, err) < 0)
                return -1;
        if (take_or_wait(session, command, options, err) < 0)
                return -1;
        session->leased = true;
        if (state_keeps_versions(session->state) == 0)
                log_warning(
                        "the bucket of %s keeps no older versions of its objects: what is deleted there by mistake "
                        "is lost; turn versioning on",
                        state_folder(session->state));
        return 0;
}

int session_open_existing(struct session *session, const struct options *options, struct error *err) {
        if (session_open_state(session, options, STATE_READ, err) < 0)
                return -1;
        if (state_lineage(session->state)[0])
                return 0;
        return error_set_kind(err, ERROR_NOT_FOUND,
                              "there is no state in %s: nothing was applied from here yet, or --state "
                              "(BERTH_STATE) or -f names the wrong place",
                              state_folder(session->state));
}

/* Whether the state lies elsewhere than in a folder; after session_load(). */
static bool session_is_shared(const struct session *session, const struct options *options) {
        return options->state ? stack_state_has_scheme(options->state)
                              : stack_state_declared(&session->manifests) != NULL;
}

int session_open_provider(struct session *session, const struct options *options, struct error *err) {
        const struct stack_provider_args args = {
                .registry = &session_registry,
                .manifests = &session->manifests,
                .provider = options->provider,
                .folder = session_state_folder(session, options),
                .clock = &clock_system,
        };

        const char *place;

        if (stack_provider_open(&args, &session->provider_ops, &session->provider, err) < 0)
                return -1;
        if (session_state_place(session, options, &place, err) < 0)
                return -1;
        return stack_state_check_provider(place, session->provider_ops, err);
}

int session_open(struct session *session, const struct options *options, struct error *err) {
        if (session_load(session, options, true, err) < 0)
                return -1;
        interrupt_install_at_once();
        if (session_open_provider(session, options, err) < 0)
                return -1;
        if (session_open_state(session, options, STATE_CREATE, err) == 0)
                return 0;
        if (session_is_shared(session, options))
                return -1;
        if (access(session_state_folder(session, options), W_OK) < 0 && (errno == EACCES || errno == EROFS))
                return error_context(
                        err,
                        "a plan keeps what it read in the state's folder, which must be writable: use a copy of it (--state)");
        return -1;
}

struct plan_args session_plan_args(const struct session *session, const struct options *options,
                                   bool destroy) {
        return (struct plan_args){
                .manifests = &session->manifests,
                .registry = &session_registry,
                .state = session->state,
                .provider_ops = session->provider_ops,
                .provider = session->provider,
                .clock = &clock_system,
                .refresh = options->refresh,
                .destroy = destroy,
                .targets = options->targets,
                .target_count = options->target_count,
                .excludes = options->excludes,
                .exclude_count = options->exclude_count,
                .allowances = options->allowances,
                .allowance_count = options->allowance_count,
        };
}

int session_plan(struct session *session, const struct plan_args *args, const struct options *options,
                 struct plan *ret, struct error *err) {
        const struct manifests *manifests = &session->manifests;

        if (plan_make(args, session->arena, ret, err) == 0)
                return 0;
        if (err->kind != ERROR_DIAGNOSED)
                return -1;
        for (size_t i = 0; i < manifests->missing_count; i++)
                diagnostics_add(&session->diagnostics, manifests->missing[i].diagnostic);
        session_report(session, options, true);
        return -1;
}
