/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a function while it changes, and waiting until it is ready.
 *
 * GetFunction is allowed a hundred times a second for the whole account, and a thousand functions may be pending. So how long
 * the last waits took is remembered for all of a run, one figure for new functions and one for updates, and the next look
 * comes shortly before that time is over.
 */
#include "providers/aws/environment/environment_stages.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/services/lambda.h"
#include "providers/aws/shared/stage_call.h"

#include <string.h>

const char *environment_function_of(const struct stage_turn *turn) {
        return environment_function(turn->provider, turn->change->name, turn->progress->arena);
}

const char *environment_log_group_of(const struct stage_turn *turn) {
        return environment_log_group(turn->provider, turn->change->name, turn->progress->arena);
}

const char *environment_arn_of(const struct stage_turn *turn) {
        return arena_printf(turn->progress->arena, "arn:%s:lambda:%s:%s:function:%s",
                            turn->provider->partition, turn->provider->region, turn->provider->account,
                            environment_function_of(turn));
}

bool environment_makes(const struct change *change) {
        return change->action == ACTION_CREATE || change->action == ACTION_REPLACE;
}

bool environment_mends(const struct change *change) {
        return change->action == ACTION_UPDATE || change->action == ACTION_ADOPT;
}

bool environment_removes(const struct change *change) {
        return change->action == ACTION_DELETE || change->action == ACTION_REPLACE;
}

/* The answer to GetFunction as what step() will return. */
static void observe_answer(struct stage_turn *turn, const json_t *function) {
        const struct change *change = turn->change;
        const struct environment_known known = {
                .variables = value_get(change->desired, "variables"),
                .recorded_variables = value_get(change->recorded, "variables"),
                .tags = value_get(change->desired, "tags"),
                .recorded_tags = value_get(change->recorded, "tags"),
                .recorded_key = value_get_text(change->recorded, "kmsKey"),
                .recorded_log_key = value_get_text(change->recorded, "logKmsKey"),
                .log_key = value_get_text(change->desired, "logKmsKey"),
                .fetched_variables = value_get(turn->progress->data, ENVIRONMENT_FETCHED),
                .recorded_network = value_get(change->recorded, "network"),
                .says_network =
                        change->resource && environment_says_network(turn->provider, change->resource->spec),
        };
        int64_t days = value_get_integer(change->desired, "logRetentionDays", 0);

        environment_observation(turn->provider, change->name, function, &known, days, turn->progress->arena,
                                turn->observed);
        turn->observed->extra = change->observed->extra;
        if (value_get_boolean(turn->progress->data, ENVIRONMENT_LOG_GROUP, false)) {
                struct value *extra = value_new_map(turn->progress->arena);

                if (change->observed->extra)
                        *extra = value_copy(turn->progress->arena, change->observed->extra);
                value_set_boolean(turn->progress->arena, extra, ENVIRONMENT_LOG_GROUP, true);
                turn->observed->extra = extra;
        }
        /*
         * Setting role, key or variables makes Lambda create its grants again, for the role as it
         * is now.
         */
        if (environment_makes(change) || change_touches(change, "role") || change_touches(change, "kmsKey") ||
            change_touches(change, "variables"))
                environment_keep_role(turn->observed, environment_role_id(turn), turn->progress->arena);
}

void environment_keep_revision(struct stage_turn *turn) {
        value_set_text(turn->progress->arena, stage_data(turn), "revision", turn->observed->fingerprint);
}

const char *environment_revision(struct stage_turn *turn) {
        const char *revision = value_get_text(turn->progress->data, "revision");

        return revision ? revision : turn->change->observed->fingerprint;
}

const char *const environment_not_there[] = { "ResourceNotFoundException", NULL };

int environment_look(struct stage_turn *turn, const char *const *codes, struct aws_response *response) {
        struct aws_request request =
                lambda_get_function(environment_function_of(turn), turn->progress->arena);
        int result = stage_call(turn, &request, codes, response);

        if (result != 0 || *response->error_code)
                return result;
        if (environment_check_answer(response->json, environment_function_of(turn), turn->err) < 0)
                return -1;
        observe_answer(turn, response->json);
        return 0;
}

/* Lambda denies us what another account's repository denies Lambda, which it reads when a function is given an image. */
static void explain_denied_image(struct stage_turn *turn, const struct aws_request *request,
                                 const struct aws_response *response) {
        const char *repository = value_get_text(value_get(turn->change->desired, "image"), "repository");
        const char *other = repository ? ecr_other_account(repository, turn->progress->arena) : NULL;

        if (!other || !aws_code_is_denied(response->error_code) ||
            (strcmp(request->operation, "CreateFunction") != 0 &&
             strcmp(request->operation, "UpdateFunctionCode") != 0))
                return;
        (void)error_context(
                turn->err,
                "the image is account %s's, whose repository must have the policy that this prints: "
                "berth image instructions %s",
                other, repository);
}

int environment_call(struct stage_turn *turn, const struct aws_request *request, const char *const *codes,
                     struct aws_response *response) {
        int result = stage_call(turn, request, codes, response);

        if (result >= 0)
                return result;
        explain_denied_image(turn, request, response);
        environment_withhold(environment_variables(turn->change,
                                                   value_get(turn->progress->data, ENVIRONMENT_FETCHED),
                                                   turn->progress->arena),
                             value_get(turn->progress->data, "foreign"), turn->err);
        return -1;
}

int64_t environment_poll_gap_ms(int64_t elapsed_ms, int64_t usual_ms) {
        int64_t gap;

        if (usual_ms <= 0 || elapsed_ms > 2 * usual_ms)
                return stage_retry_gap_ms(elapsed_ms);
        /* Not much before the usual time is up; then closely, so that the usual time can shrink again. */
        if (elapsed_ms < usual_ms * 8 / 10)
                gap = usual_ms * 8 / 10 - elapsed_ms;
        else
                gap = usual_ms / 10;
        return gap < 250 ? 250 : gap;
}

/* What the next waits are expected to take: mostly what the last ones took. */
static void learn_usual_wait(atomic_llong *usual, int64_t taken_ms) {
        long long before = atomic_load(usual);

        atomic_store(usual, before == 0 ? taken_ms : (3 * before + taken_ms) / 4);
}

/* One poll. The first one of a stage asks nothing: a function that was just told to change is never ready at once. */
static int wait_ready(struct stage_turn *turn, atomic_llong *usual) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int64_t elapsed = stage_elapsed_ms(turn);
        int result;

        if (!value_get_boolean(turn->progress->data, "looked", false)) {
                value_set_boolean(turn->progress->arena, stage_data(turn), "looked", true);
                return stage_wait(turn, environment_poll_gap_ms(0, atomic_load(usual)));
        }
        result = environment_look(turn, NULL, &response);
        if (result != 0)
                return result;
        if (turn->observed->health == HEALTH_PENDING) {
                if (elapsed < READY_DEADLINE_MS)
                        return stage_wait(turn, environment_poll_gap_ms(elapsed, atomic_load(usual)));
                return error_set(turn->err, "the function %s is not ready after 5 minutes%s%s",
                                 environment_function_of(turn), turn->observed->health_reason ? ": " : "",
                                 turn->observed->health_reason ? turn->observed->health_reason : "");
        }
        value_unset(stage_data(turn), "looked");
        if (turn->observed->health == HEALTH_FAILED)
                return error_set(turn->err, "Lambda could not make the function %s ready: %s",
                                 environment_function_of(turn), turn->observed->health_reason);
        if (environment_update_failed(turn->observed))
                return error_set(turn->err, "Lambda could not update the function %s: %s",
                                 environment_function_of(turn), turn->observed->health_reason);
        learn_usual_wait(usual, elapsed);
        environment_keep_revision(turn);
        return STAGE_OVER;
}

int environment_run_created(struct stage_turn *turn) {
        return wait_ready(turn, &turn->provider->usual_wait_ms[0]);
}

int environment_run_updated(struct stage_turn *turn) {
        return wait_ready(turn, &turn->provider->usual_wait_ms[1]);
}

int environment_run_read(struct stage_turn *turn) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = environment_look(turn, NULL, &response);

        return result == 0 ? STAGE_OVER : result;
}
