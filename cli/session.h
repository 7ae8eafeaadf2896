/* SPDX-License-Identifier: Apache-2.0 */
/* How most verbs begin: load the manifests, open the state, open the provider. */
#ifndef BERTH_CLI_SESSION_H
#define BERTH_CLI_SESSION_H

#include "cli/options.h"
#include "controller/plan.h"
#include "controller/stack_provider.h"
#include "schema/manifests.h"
#include "state/state.h"

struct session {
        struct arena *arena;
        struct manifests manifests;
        struct diagnostics diagnostics;
        struct state *state;
        bool leased;
        bool gone_too; /* open also a state that has moved elsewhere: to check, copy or release it */
        const struct provider_ops *provider_ops;
        struct provider *provider;
        char *state_folder; /* owned; NULL until it is needed */
        bool told_of_other_state;
};

/* Always ends with session_close(), also after a failure. */
void session_init(struct session *session);
void session_close(struct session *session);
#define SESSION_CLEANUP __attribute__((cleanup(session_close)))

/* Prints the diagnostics to stderr; as JSON to stdout where the verb failed and --json was given. */
void session_report(struct session *session, const struct options *options, bool failed);

/* How the manifests that -f names are loaded. */
struct load_options session_load_options(const struct options *options);
/*
 * Loads the manifests, and prints all warnings and errors by session_report(). Where there are errors, returns -1 with
 * ERROR_DIAGNOSED.
 */
int session_load(struct session *session, const struct options *options, bool missing_environments,
                 struct error *err) MUST_USE;
/*
 * The same for a verb that does not ask the provider what exists: texts that look mistyped are
 * warned of as well (load_options.offline).
 */
int session_load_offline(struct session *session, const struct options *options, struct error *err) MUST_USE;
/*
 * The state's folder, as --state, BERTH_STATE or the manifests' place say; borrowed. Where the state lies in S3: the folder beside
 * the manifests, for what is of this machine.
 */
const char *session_state_folder(struct session *session, const struct options *options);
/* For daemons, which keep what they have in a folder: fails where --state or BERTH_STATE names a place of another kind. */
int session_check_folder(const struct options *options, const char *verb, struct error *err) MUST_USE;
/* For verbs that need no manifests: loads them where there are any without mistakes, without a word. */
void session_load_quietly(struct session *session, const struct options *options);
/*
 * Where the state lies: as --state or BERTH_STATE say, else as the Stack says, else the folder. Loads the manifests, without a word
 * about their mistakes, where they are not loaded and are needed for that.
 */
int session_state_place(struct session *session, const struct options *options, const char **ret,
                        struct error *err) MUST_USE;
/* A state that has moved elsewhere is an error that says where, unless `gone_too` is set. */
int session_open_state(struct session *session, const struct options *options, enum state_mode mode,
                       struct error *err) MUST_USE;
struct lock_wait {
        bool begun;
        int64_t until_ms;
};
/* 0 after a moment, to try again; -1 and `failure` where that is of no lock, or --lock-timeout is over. Begins with zeroes. */
int session_wait_for_lock(const struct options *options, struct lock_wait *wait, const struct error *failure,
                          struct error *err) MUST_USE;
/*
 * Takes the state's lease until session_close(), opening the state to change it where it is not open yet. Others who find
 * the lease taken are told `command`. From here on a terminal that goes away is an interrupt.
 */
int session_take_lease(struct session *session, const struct options *options, const char *command,
                       struct error *err) MUST_USE;
/*
 * Opens a state that must exist, to read it: ERROR_NOT_FOUND where the folder has none, as with a mistyped --state.
 */
int session_open_existing(struct session *session, const struct options *options, struct error *err) MUST_USE;
/* The providers that this program has. */
extern const struct provider_registry session_registry;
/* After session_load(): the provider that --provider or the Stack names. */
int session_open_provider(struct session *session, const struct options *options, struct error *err) MUST_USE;

/*
 * Opens what a plan needs: the manifests (session_plan() reports references to unknown environments), the provider, and the
 * state without its lease. Interrupts are counted from the end of loading on. Until then they end the program, which may be
 * waiting for its input.
 */
int session_open(struct session *session, const struct options *options, struct error *err) MUST_USE;

/* The arguments of a plan, from the options. */
struct plan_args session_plan_args(const struct session *session, const struct options *options,
                                   bool destroy);
/* plan_make(); references to unknown environments are reported as diagnostics. */
int session_plan(struct session *session, const struct plan_args *args, const struct options *options,
                 struct plan *ret, struct error *err) MUST_USE;

/*
 * Writes JSON and a newline to standard output, and drops the reference. Aborts for NULL, which json_pack() returns for
 * texts that are not UTF-8: use json_from_text() for those.
 */
void print_json(json_t *json);

#endif
