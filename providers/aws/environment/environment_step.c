/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing a function, stage by stage: this file has the table, which says for each stage when it is needed and what it
 * costs; environment_values.c, environment_make.c, environment_update.c, environment_role.c and environment_wait.c carry them out. Only the calls that the fields in
 * question need are made. Each stage may be entered again after a crash: it looks at what is there, or does no harm twice.
 */
#include "providers/aws/environment/environment_stages.h"
#include "providers/aws/shared/aws_tags.h"

static const struct stage stages[ENVIRONMENT_STAGE_ROWS];

/*
 * Variables are replaced as a whole, so what others set must be known; and no function of others is
 * deleted unseen.
 */
static bool needs_look(const struct change *change) {
        return environment_removes(change) ||
               (environment_mends(change) && change_touches(change, "variables"));
}

/* Before anything is deleted. What an update leaves as it is, it takes from the function, once it has looked. */
static bool needs_fetch(const struct change *change) {
        return environment_makes(change) && environment_sets_sources(change);
}

static bool needs_fetch_changed(const struct change *change) {
        return environment_mends(change) && environment_sets_sources(change);
}

static bool needs_gone(const struct change *change) {
        return change->action == ACTION_REPLACE;
}

/* No note says whether Berth made the group: its tags are read before it is deleted. */
static bool needs_look_logs(const struct change *change) {
        return environment_deletes_logs(change) &&
               !value_get_boolean(change->observed->extra, ENVIRONMENT_LOG_GROUP, false);
}

static bool needs_log_group(const struct change *change) {
        const struct value *seen = change->observed->spec;

        if (environment_makes(change))
                return value_get(change->desired, "logRetentionDays") ||
                       value_get(change->desired, "logKmsKey");
        return environment_mends(change) &&
               ((value_get(change->desired, "logRetentionDays") &&
                 change_touches(change, "logRetentionDays") && !value_get(seen, "logRetentionDays")) ||
                (value_get(change->desired, "logKmsKey") && change_touches(change, "logKmsKey") &&
                 !value_get(seen, "logKmsKey")));
}

/* A group that was just made has its key; one that was there already enters the stage out of turn. */
static bool needs_log_key(const struct change *change) {
        return environment_mends(change) && change_touches(change, "logKmsKey") &&
               value_get(change->desired, "logKmsKey");
}

static bool needs_retention(const struct change *change) {
        if (environment_makes(change))
                return value_get(change->desired, "logRetentionDays");
        return environment_mends(change) && change_touches(change, "logRetentionDays");
}

static bool needs_create(const struct change *change) {
        return environment_makes(change);
}

static const struct value *observed_tags(const struct change *change) {
        return value_get(change->observed->spec, "tags");
}

static bool needs_tag(const struct change *change) {
        return environment_mends(change) &&
               aws_any_tag_beyond(value_get(change->desired, "tags"), observed_tags(change), false);
}

/* The observed tags are only those that we desire or once put there. */
static bool needs_untag(const struct change *change) {
        return environment_mends(change) &&
               aws_any_tag_beyond(observed_tags(change), value_get(change->desired, "tags"), true);
}

/*
 * Tags of the function that change are those of its log group as well, which no list shows. The group comes first: as long as the
 * function has the old ones, the next plan has this change again. Of a function that is made, a group that was there already enters
 * these stages out of turn.
 */
static bool needs_log_tags(const struct change *change) {
        return (needs_tag(change) || needs_untag(change)) &&
               (value_get(change->observed->spec, "logRetentionDays") ||
                value_get(change->observed->spec, "logKmsKey") ||
                value_get_boolean(change->observed->extra, ENVIRONMENT_LOG_GROUP, false));
}

static bool needs_concurrency(const struct change *change) {
        if (environment_makes(change))
                return value_get(change->desired, "reservedConcurrency");
        return environment_mends(change) && change_touches(change, "reservedConcurrency");
}

static bool touches_any(const struct change *change, const char *const *paths) {
        for (; *paths; paths++) {
                if (change_touches(change, *paths))
                        return true;
        }
        return false;
}

static bool needs_configure(const struct change *change) {
        return environment_mends(change) && touches_any(change, environment_configuration_paths);
}

static bool needs_code(const struct change *change) {
        return environment_mends(change) && touches_any(change, environment_code_paths);
}

/* Needed where no stage before it has ended with a GetFunction: what step() returns must be what is there now. */
static bool needs_read(const struct change *change) {
        int last = stage_next(stages, ENVIRONMENT_STAGE_READ, change, 0), next;

        if (change->action == ACTION_DELETE || last == ENVIRONMENT_STAGE_READ)
                return false;
        while ((next = stage_next(stages, ENVIRONMENT_STAGE_READ, change, last)) < ENVIRONMENT_STAGE_READ)
                last = next;
        return last != ENVIRONMENT_STAGE_CREATED && last != ENVIRONMENT_STAGE_CONFIGURED &&
               last != ENVIRONMENT_STAGE_CODED;
}

static const char control[] = "lambda", reads[] = "lambda GetFunction", roles[] = "iam";
/* The retention is one call or the other, with the same quota. */
static const char log_group[] = "logs CreateLogGroup", retention[] = "logs PutRetentionPolicy",
                  no_log_group[] = "logs DeleteLogGroup", log_key[] = "logs AssociateKmsKey",
                  log_tags[] = "logs ListTagsForResource", tag_logs[] = "logs TagResource",
                  untag_logs[] = "logs UntagResource";

static const struct stage stages[ENVIRONMENT_STAGE_ROWS] = {
        /* Their calls are several: environment_cost_sources(). */
        [ENVIRONMENT_STAGE_FETCH] = { NULL, NULL, needs_fetch, environment_run_fetch },
        [ENVIRONMENT_STAGE_FETCH_CHANGED] = { NULL, NULL, needs_fetch_changed, environment_run_fetch },
        [ENVIRONMENT_STAGE_LOOK] = { reads, NULL, needs_look, environment_run_look },
        [ENVIRONMENT_STAGE_DELETE] = { control, NULL, environment_removes, environment_run_delete },
        [ENVIRONMENT_STAGE_GONE] = { reads, "to be gone", needs_gone, environment_run_gone },
        [ENVIRONMENT_STAGE_REPLACE_ROLE_POLICY] = { roles, NULL, environment_replaces_role,
                                                    environment_run_replace_role_policy },
        [ENVIRONMENT_STAGE_REPLACE_ROLE] = { roles, NULL, environment_replaces_role,
                                             environment_run_replace_role },
        [ENVIRONMENT_STAGE_ROLE_BOUNDARY] = { roles, NULL, environment_needs_role_boundary,
                                              environment_run_role_boundary },
        [ENVIRONMENT_STAGE_MAKE_ROLE] = { roles, "for its role", environment_needs_role,
                                          environment_run_make_role },
        [ENVIRONMENT_STAGE_FETCH_ROLE_TRUST] = { roles, NULL, environment_needs_role_trust,
                                                 environment_run_fetch_role_trust },
        [ENVIRONMENT_STAGE_ROLE_TRUST] = { roles, NULL, environment_needs_role_trust,
                                           environment_run_role_trust },
        [ENVIRONMENT_STAGE_ROLE_TAG] = { roles, NULL, environment_needs_role_tags, environment_run_role_tag },
        [ENVIRONMENT_STAGE_ROLE_UNTAG] = { roles, NULL, environment_needs_role_untag,
                                           environment_run_role_untag },
        [ENVIRONMENT_STAGE_FETCH_ROLE_POLICY] = { roles, NULL, environment_replaces_role_policy,
                                                  environment_run_fetch_role_policy },
        [ENVIRONMENT_STAGE_ROLE_POLICY] = { roles, NULL, environment_needs_role_policy,
                                            environment_run_role_policy },
        [ENVIRONMENT_STAGE_LOG_GROUP] = { log_group, NULL, needs_log_group, environment_run_log_group },
        [ENVIRONMENT_STAGE_LOG_KEY] = { log_key, NULL, needs_log_key, environment_run_log_key },
        [ENVIRONMENT_STAGE_LOOK_LOG_TAGS] = { log_tags, NULL, needs_log_tags, environment_run_look_log_tags },
        [ENVIRONMENT_STAGE_TAG_LOGS] = { tag_logs, NULL, needs_log_tags, environment_run_tag_logs },
        [ENVIRONMENT_STAGE_UNTAG_LOGS] = { untag_logs, NULL, needs_log_tags, environment_run_untag_logs },
        [ENVIRONMENT_STAGE_RETENTION] = { retention, NULL, needs_retention, environment_run_retention },
        [ENVIRONMENT_STAGE_CREATE] = { control, NULL, needs_create, environment_run_create },
        [ENVIRONMENT_STAGE_CREATED] = { reads, "to become active", needs_create, environment_run_created },
        [ENVIRONMENT_STAGE_TAG] = { control, NULL, needs_tag, environment_run_tag },
        [ENVIRONMENT_STAGE_UNTAG] = { control, NULL, needs_untag, environment_run_untag },
        [ENVIRONMENT_STAGE_CONCURRENCY] = { control, NULL, needs_concurrency, environment_run_concurrency },
        [ENVIRONMENT_STAGE_CONFIGURE] = { control, NULL, needs_configure, environment_run_configure },
        [ENVIRONMENT_STAGE_CONFIGURED] = { reads, "to take its new configuration", needs_configure,
                                           environment_run_updated },
        [ENVIRONMENT_STAGE_CODE] = { control, NULL, needs_code, environment_run_code },
        [ENVIRONMENT_STAGE_CODED] = { reads, "to take its new image", needs_code, environment_run_updated },
        [ENVIRONMENT_STAGE_LOOK_ROLE] = { roles, NULL, environment_drops_role, environment_run_look_role },
        [ENVIRONMENT_STAGE_DROP_ROLE_POLICY] = { roles, NULL, environment_drops_role,
                                                 environment_run_drop_role_policy },
        [ENVIRONMENT_STAGE_DROP_ROLE] = { roles, NULL, environment_drops_role, environment_run_drop_role },
        [ENVIRONMENT_STAGE_READ] = { reads, NULL, needs_read, environment_run_read },
        [ENVIRONMENT_STAGE_LOOK_LOGS] = { log_tags, NULL, needs_look_logs, environment_run_look_logs },
        [ENVIRONMENT_STAGE_DELETE_LOGS] = { no_log_group, NULL, environment_deletes_logs,
                                            environment_run_delete_logs },
        [ENVIRONMENT_STAGE_EXISTING] = { NULL, NULL, NULL, environment_run_existing },
        [ENVIRONMENT_STAGE_CHECK_ROLE] = { NULL, NULL, NULL, environment_run_check_role },
        [ENVIRONMENT_STAGE_LOOK_AGAIN] = { NULL, "to settle", NULL, environment_run_look_again },
};

int environment_step(struct provider *provider, const struct change *change, struct progress *progress,
                     struct observation *ret, struct error *err) {
        struct observation observed = { .name = change->name };
        struct stage_turn turn = { provider, change, progress, &observed, err };
        int result;

        if (aws_need_account(provider, err) < 0)
                return -1;
        result = stage_step(stages, ENVIRONMENT_STAGE_COUNT, &turn);
        if (result != STEP_DONE)
                return result;
        environment_add_role(change, &observed, progress->arena);
        *ret = observed;
        ret->applied =
                environment_applied(change, value_get(progress->data, ENVIRONMENT_FETCHED), progress->arena);
        return result;
}

void environment_cost(const struct provider *provider, const struct change *change, struct cost *ret) {
        (void)provider;
        stage_cost(stages, ENVIRONMENT_STAGE_COUNT, change, ret);
        environment_cost_sources(change, ret);
}
