/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs, one file each; see struct verb for what they return. */
#ifndef BERTH_CLI_VERBS_H
#define BERTH_CLI_VERBS_H

#include "cli/options.h"

int verb_fmt(const struct options *options, struct error *err);
int verb_validate(const struct options *options, struct error *err);
int verb_plan(const struct options *options, struct error *err);
int verb_apply(const struct options *options, struct error *err);
int verb_destroy(const struct options *options, struct error *err);
int verb_drift(const struct options *options, struct error *err);
int verb_refresh(const struct options *options, struct error *err);
int verb_map(const struct options *options, struct error *err);
int verb_disassociate(const struct options *options, struct error *err);
int verb_reassociate(const struct options *options, struct error *err);
int verb_images(const struct options *options, struct error *err);
int verb_image(const struct options *options, struct error *err);
int verb_exec(const struct options *options, struct error *err);
/* The same as berth VERB --help. */
int verb_help(const struct options *options, struct error *err);
int verb_import(const struct options *options, struct error *err);
int verb_init(const struct options *options, struct error *err);
int verb_manual(const struct options *options, struct error *err);
int verb_approvals(const struct options *options, struct error *err);
int verb_audit(const struct options *options, struct error *err);
int verb_completion(const struct options *options, struct error *err);
int verb_containers(const struct options *options, struct error *err);
int verb_controller(const struct options *options, struct error *err);
int verb_doctor(const struct options *options, struct error *err);
int verb_get(const struct options *options, struct error *err);
int verb_session(const struct options *options, struct error *err);
int verb_mcp(const struct options *options, struct error *err);
int verb_serve(const struct options *options, struct error *err);
int verb_schema(const struct options *options, struct error *err);
int verb_explain(const struct options *options, struct error *err);
/* state migrate: the state goes to another place. */
int verb_state_migrate(const struct options *options, struct error *err);

/* state adopt: a lost state made again. */
int verb_state_adopt(const struct options *options, struct error *err);
int verb_state(const struct options *options, struct error *err);
int verb_lock(const struct options *options, struct error *err);
int verb_sweep(const struct options *options, struct error *err);
int verb_version(const struct options *options, struct error *err);

#endif
