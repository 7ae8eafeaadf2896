/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stages of changing a function: what environment_step.c (the table), environment_make.c, environment_update.c,
 * environment_role.c and environment_wait.c share.
 */
#ifndef BERTH_PROVIDERS_AWS_ENVIRONMENT_ENVIRONMENT_STAGES_H
#define BERTH_PROVIDERS_AWS_ENVIRONMENT_ENVIRONMENT_STAGES_H

#include "providers/aws/environment/environment.h"
#include "providers/aws/shared/stage.h"

/* In the order in which they come; a change needs some of them. */
enum {
        ENVIRONMENT_STAGE_FETCH = 1,
        ENVIRONMENT_STAGE_LOOK,
        ENVIRONMENT_STAGE_FETCH_CHANGED,
        ENVIRONMENT_STAGE_DELETE,
        ENVIRONMENT_STAGE_GONE,
        ENVIRONMENT_STAGE_REPLACE_ROLE_POLICY,
        ENVIRONMENT_STAGE_REPLACE_ROLE,
        ENVIRONMENT_STAGE_MAKE_ROLE,
        ENVIRONMENT_STAGE_FETCH_ROLE_TRUST,
        ENVIRONMENT_STAGE_ROLE_TRUST,
        ENVIRONMENT_STAGE_ROLE_BOUNDARY,
        ENVIRONMENT_STAGE_ROLE_TAG,
        ENVIRONMENT_STAGE_ROLE_UNTAG,
        ENVIRONMENT_STAGE_FETCH_ROLE_POLICY,
        ENVIRONMENT_STAGE_ROLE_POLICY,
        ENVIRONMENT_STAGE_LOG_GROUP,
        ENVIRONMENT_STAGE_LOG_KEY,
        ENVIRONMENT_STAGE_LOOK_LOG_TAGS,
        ENVIRONMENT_STAGE_TAG_LOGS,
        ENVIRONMENT_STAGE_UNTAG_LOGS,
        ENVIRONMENT_STAGE_RETENTION,
        ENVIRONMENT_STAGE_CREATE,
        ENVIRONMENT_STAGE_CREATED,
        ENVIRONMENT_STAGE_TAG,
        ENVIRONMENT_STAGE_UNTAG,
        ENVIRONMENT_STAGE_CONCURRENCY,
        ENVIRONMENT_STAGE_CONFIGURE,
        ENVIRONMENT_STAGE_CONFIGURED,
        ENVIRONMENT_STAGE_CODE,
        ENVIRONMENT_STAGE_CODED,
        ENVIRONMENT_STAGE_LOOK_ROLE,
        ENVIRONMENT_STAGE_DROP_ROLE_POLICY,
        ENVIRONMENT_STAGE_DROP_ROLE,
        ENVIRONMENT_STAGE_READ,
        ENVIRONMENT_STAGE_LOOK_LOGS,
        ENVIRONMENT_STAGE_DELETE_LOGS,
        ENVIRONMENT_STAGE_COUNT,
        ENVIRONMENT_STAGE_EXISTING = ENVIRONMENT_STAGE_COUNT, /* entered out of turn only */
        ENVIRONMENT_STAGE_LOOK_AGAIN,
        ENVIRONMENT_STAGE_CHECK_ROLE,
        ENVIRONMENT_STAGE_ROWS
};

/* As long as the SDKs' waiters wait. */
#define READY_DEADLINE_MS (300 * 1000)

#define ENVIRONMENT_NO_NETWORK \
        "the stack's isolated network is not known: apply the Stack as well, and plan with --refresh sweep"

/* environment_wait.c */
const char *environment_function_of(const struct stage_turn *turn);
const char *environment_log_group_of(const struct stage_turn *turn);
const char *environment_arn_of(const struct stage_turn *turn);

bool environment_makes(const struct change *change);   /* create, replace */
bool environment_mends(const struct change *change);   /* update, adopt */
bool environment_removes(const struct change *change); /* delete, replace */

/* Where what was asked for is no longer, or not yet, there: for stage_call.h, and the two below. */
extern const char *const environment_not_there[];
/* GetFunction, as stage_call(); *turn->observed is what it shows where it shows any. */
int environment_look(struct stage_turn *turn, const char *const *codes,
                     struct aws_response *response) MUST_USE;
/*
 * A call that changes the function: as stage_call(), whose error then says what another account's repository lacks, and holds
 * no value of a variable.
 */
int environment_call(struct stage_turn *turn, const struct aws_request *request, const char *const *codes,
                     struct aws_response *response) MUST_USE;
/* Of a function that was just looked at: keeps the texts of variables that the change leaves as they are, to be sent back. */
void environment_keep_standing(struct stage_turn *turn);
/* The RevisionId that the next update shall carry: of what was last seen; before that, of the plan. */
void environment_keep_revision(struct stage_turn *turn);
const char *environment_revision(struct stage_turn *turn);

/* environment_update.c: the fields of UpdateFunctionConfiguration and of UpdateFunctionCode, ended by NULL. */
extern const char *const environment_configuration_paths[];
extern const char *const environment_code_paths[];

/* environment_role.c: which of a role's stages a change needs. */
bool environment_needs_role(const struct change *change);
bool environment_replaces_role(const struct change *change);
bool environment_needs_role_boundary(const struct change *change);
bool environment_needs_role_trust(const struct change *change);
bool environment_needs_role_tags(const struct change *change);
bool environment_needs_role_untag(const struct change *change);
bool environment_needs_role_policy(const struct change *change);
bool environment_replaces_role_policy(const struct change *change);
bool environment_drops_role(const struct change *change);
/* The id of the role that the function shall run with, where Berth makes it; NULL: not known. */
const char *environment_role_id(const struct stage_turn *turn);
/* What step() returns has the environment's own role as it was made. */
void environment_add_role(const struct change *change, struct observation *observed, struct arena *arena);

/* The stages' `run`. */
int environment_run_fetch(struct stage_turn *turn);
int environment_run_replace_role_policy(struct stage_turn *turn);
int environment_run_replace_role(struct stage_turn *turn);
int environment_run_role_boundary(struct stage_turn *turn);
int environment_run_make_role(struct stage_turn *turn);
int environment_run_check_role(struct stage_turn *turn);
int environment_run_fetch_role_trust(struct stage_turn *turn);
int environment_run_role_trust(struct stage_turn *turn);
int environment_run_role_tag(struct stage_turn *turn);
int environment_run_role_untag(struct stage_turn *turn);
int environment_run_fetch_role_policy(struct stage_turn *turn);
int environment_run_role_policy(struct stage_turn *turn);
int environment_run_look_role(struct stage_turn *turn);
int environment_run_drop_role_policy(struct stage_turn *turn);
int environment_run_drop_role(struct stage_turn *turn);
int environment_run_look(struct stage_turn *turn);
int environment_run_delete(struct stage_turn *turn);
int environment_run_gone(struct stage_turn *turn);
int environment_run_look_logs(struct stage_turn *turn);
int environment_run_delete_logs(struct stage_turn *turn);
int environment_run_log_group(struct stage_turn *turn);
int environment_run_log_key(struct stage_turn *turn);
int environment_run_retention(struct stage_turn *turn);
int environment_run_create(struct stage_turn *turn);
int environment_run_existing(struct stage_turn *turn);
int environment_run_created(struct stage_turn *turn);
int environment_run_updated(struct stage_turn *turn);
int environment_run_tag(struct stage_turn *turn);
int environment_run_untag(struct stage_turn *turn);
int environment_run_look_log_tags(struct stage_turn *turn);
int environment_run_tag_logs(struct stage_turn *turn);
int environment_run_untag_logs(struct stage_turn *turn);
int environment_run_concurrency(struct stage_turn *turn);
int environment_run_configure(struct stage_turn *turn);
int environment_run_code(struct stage_turn *turn);
int environment_run_look_again(struct stage_turn *turn);
int environment_run_read(struct stage_turn *turn);

#endif
