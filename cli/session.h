/* SPDX-License-Identifier: Apache-2.0 */
/* What most verbs begin with: manifests loaded, state open, provider open. */
#ifndef BERTH_CLI_SESSION_H
#define BERTH_CLI_SESSION_H

#include "cli/options.h"
#include "controller/plan.h"
#include "controller/stack_provider.h"
#include "schema/manifest.h"
#include "state/state.h"

struct session {
        struct arena *arena;
        struct manifests manifests;
        struct diagnostics diagnostics;
        struct state *state;
        bool leased;
        const struct provider_ops *provider_ops;
        struct provider *provider;
        char *state_folder; /* owned; NULL until it is needed */
};

/* Always ends with session_close(), also after a failure. */
void session_init(struct session *session);
void session_close(struct session *session);
#define SESSION_CLEANUP __attribute__((cleanup(session_close)))

/* What is wrong, to stderr; with --json, where it failed, as data to stdout. */
void session_report(struct session *session, const struct options *options, bool failed);

/*
 * Loads the manifests; warnings are printed, and where there are errors all of them are (standard error, or standard
 * output as JSON with --json) and -1 is returned with ERROR_DIAGNOSED.
 */
int session_load(struct session *session, const struct options *options, bool missing_environments,
                 struct error *err) MUST_USE;
/* The state's folder, as --state, BERTH_STATE or the manifests' place say; borrowed. */
const char *session_state_folder(struct session *session, const struct options *options);
int session_open_state(struct session *session, const struct options *options, enum state_mode mode,
                       struct error *err) MUST_USE;
/*
 * Opens the state to change it where it is not open yet, and takes its lease until session_close(); `command` is what
 * others are told. From here on a terminal that goes away is an interrupt.
 */
int session_take_lease(struct session *session, const struct options *options, const char *command,
                       struct error *err) MUST_USE;
/*
 * To look into a state that must be there: an error where the folder has none, which is what a mistyped --state looks like.
 */
int session_open_existing(struct session *session, const struct options *options, struct error *err) MUST_USE;
/* The providers that this program has. */
extern const struct provider_registry session_registry;
/* After session_load(): the provider that --provider or the Stack names. */
int session_open_provider(struct session *session, const struct options *options, struct error *err) MUST_USE;

/*
 * What looking takes: the manifests, with references to unknown environments left to session_plan(), their provider,
 * and the state without its lease. Interrupts are counted once the manifests were read: before, they end the program,
 * which may wait for its input.
 */
int session_open(struct session *session, const struct options *options, struct error *err) MUST_USE;

/* The arguments of a plan as the options say. */
struct plan_args session_plan_args(const struct session *session, const struct options *options,
                                   bool destroy);
/* plan_make(), reporting references to unknown environments as the diagnostics they are. */
int session_plan(struct session *session, const struct plan_args *args, const struct options *options,
                 struct plan *ret, struct error *err) MUST_USE;

/*
 * Writes JSON and a newline to standard output, and gives up the reference. Aborts for NULL, which is what json_pack() makes
 * of texts that are not UTF-8: json_from_text() is for those.
 */
void print_json(json_t *json);

#endif
