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
#include "providers/aws/aws.h"
#include "providers/local/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct provider_ops *const providers[] = { &aws_provider_ops, &local_provider_ops };
const struct provider_registry session_registry = { providers, sizeof(providers) / sizeof(providers[0]) };

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

int session_load(struct session *session, const struct options *options, bool missing_environments,
                 struct error *err) {
        struct load_options load = { .provider = options->provider,
                                     .missing_environments = missing_environments };
        int result = manifests_load(options->path, &load, session->arena, &session->manifests,
                                    &session->diagnostics, err);

        if (result == 0 || err->kind == ERROR_DIAGNOSED)
                session_report(session, options, result < 0);
        return result;
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

const char *session_state_folder(struct session *session, const struct options *options) {
        if (!session->state_folder)
                session->state_folder =
                        options->state ? strdup(options->state) : default_state(options->path);
        if (!session->state_folder)
                abort();
        return session->state_folder;
}

int session_open_state(struct session *session, const struct options *options, enum state_mode mode,
                       struct error *err) {
        return state_open(session_state_folder(session, options), mode, &session->state, err);
}

int session_take_lease(struct session *session, const struct options *options, const char *command,
                       struct error *err) {
        interrupt_on_hangup();
        if (!session->state && session_open_state(session, options, STATE_CREATE, err) < 0)
                return -1;
        if (state_lease_acquire(session->state, command, err) < 0)
                return -1;
        session->leased = true;
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
                              session_state_folder(session, options));
}

int session_open_provider(struct session *session, const struct options *options, struct error *err) {
        const struct stack_provider_args args = {
                .registry = &session_registry,
                .manifests = &session->manifests,
                .provider = options->provider,
                .folder = session_state_folder(session, options),
                .clock = &clock_system,
        };

        return stack_provider_open(&args, &session->provider_ops, &session->provider, err);
}

int session_open(struct session *session, const struct options *options, struct error *err) {
        if (session_load(session, options, true, err) < 0)
                return -1;
        interrupt_install_at_once();
        if (session_open_provider(session, options, err) < 0)
                return -1;
        if (session_open_state(session, options, STATE_CREATE, err) == 0)
                return 0;
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
