/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a function, taking it away, and its log group.
 *
 * The log group is made before the function, so that Lambda does not make one without retention at
 * the first run; only one that we made is deleted with the function. A name that is taken means
 * that an earlier try made the function and the answer was lost, that another tool was faster, or
 * that Lambda is still deleting one: the stage EXISTING decides which.
 */
#include "providers/aws/environment/environment_stages.h"
#include "providers/aws/services/lambda.h"
#include "providers/aws/services/logs.h"
#include "providers/aws/shared/stage_call.h"

/* How often a name may be taken and not exist, a second apart, as while Lambda deletes what had it. */
#define CONFLICTS_MAX 60
/* How often a log group may be there and not exist, a second apart: it may just have been made, or deleted. */
#define UNKNOWN_MAX 10

int environment_run_delete(struct stage_turn *turn) {
        struct aws_request request =
                lambda_delete_function(environment_function_of(turn), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = environment_call(turn, &request, environment_not_there, &response);

        if (result != 0)
                return result;
        *turn->observed = (struct observation){ .name = turn->change->name };
        return STAGE_OVER;
}

int environment_run_gone(struct stage_turn *turn) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = environment_look(turn, environment_not_there, &response);

        if (result != 0)
                return result;
        if (*response.error_code)
                return STAGE_OVER;
        if (stage_elapsed_ms(turn) >= READY_DEADLINE_MS)
                return error_set(turn->err, "the function %s is still there 5 minutes after it was deleted",
                                 environment_function_of(turn));
        return stage_wait(turn, stage_retry_gap_ms(stage_elapsed_ms(turn)));
}

int environment_run_look_logs(struct stage_turn *turn) {
        struct aws_request request =
                environment_log_group_tags(turn->provider, turn->change->name, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, environment_not_there, &response);

        if (result != 0)
                return result;
        value_set_boolean(turn->progress->arena, stage_data(turn), "foreignLogs",
                          !environment_made_log_group(turn->provider, &response, turn->progress->arena));
        return STAGE_OVER;
}

int environment_run_delete_logs(struct stage_turn *turn) {
        struct aws_request request = logs_delete_group(environment_log_group_of(turn), turn->progress->arena);

        *turn->observed = (struct observation){ .name = turn->change->name };
        if (value_get_boolean(turn->progress->data, "foreignLogs", false))
                return STAGE_OVER;
        return stage_call_over(turn, request, environment_not_there);
}

/* The key's own policy has to name CloudWatch Logs, which KMS asks of no other service here. */
static int explain_log_key(struct stage_turn *turn, const struct aws_response *response) {
        if (!aws_failed_with(response, "InvalidParameterException") ||
            !value_get_text(turn->change->desired, "logKmsKey"))
                return -1;
        return error_context(turn->err,
                             "the policy of aws.kmsKey must let logs.%s use the key for the log group %s",
                             turn->provider->region, environment_log_group_of(turn));
}

/* A group of an earlier function, or of a run that died, has the tags of then. An update that changes tags comes to it by itself. */
static int go_on_to_old_tags(struct stage_turn *turn) {
        return environment_makes(turn->change) ? stage_enter(turn, ENVIRONMENT_STAGE_LOOK_LOG_TAGS)
                                               : STAGE_OVER;
}

int environment_run_log_group(struct stage_turn *turn) {
        static const char *const there[] = { "ResourceAlreadyExistsException", NULL };
        const struct value *desired = turn->change->desired;
        const char *key = value_get_text(desired, "logKmsKey");
        struct aws_request request = logs_create_group(environment_log_group_of(turn), key,
                                                       value_get(desired, "tags"), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, there, &response);

        if (result < 0)
                return explain_log_key(turn, &response);
        if (result != 0)
                return result;
        if (!*response.error_code)
                value_set_boolean(turn->progress->arena, stage_data(turn), ENVIRONMENT_LOG_GROUP, true);
        if (*response.error_code && key)
                return stage_enter(turn, ENVIRONMENT_STAGE_LOG_KEY);
        return *response.error_code ? go_on_to_old_tags(turn) : STAGE_OVER;
}

int environment_run_log_key(struct stage_turn *turn) {
        struct aws_request request =
                logs_associate_key(environment_log_group_of(turn),
                                   value_get_text(turn->change->desired, "logKmsKey"), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, NULL, &response);

        if (result < 0)
                return explain_log_key(turn, &response);
        return result == 0 ? go_on_to_old_tags(turn) : result;
}

int environment_run_retention(struct stage_turn *turn) {
        int64_t days = value_get_integer(turn->change->desired, "logRetentionDays", 0);
        const char *group = environment_log_group_of(turn);
        struct aws_request request = days > 0 ? logs_put_retention(group, days, turn->progress->arena)
                                              : logs_delete_retention(group, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, environment_not_there, &response);

        if (result != 0)
                return result;
        if (!*response.error_code || days <= 0)
                return STAGE_OVER;
        if (stage_start_over(turn, ENVIRONMENT_STAGE_LOG_GROUP, "unknown", UNKNOWN_MAX) == STEP_AGAIN)
                return STEP_AGAIN;
        return error_set(turn->err,
                         "logs PutRetentionPolicy: for ten seconds AWS has not found the log group "
                         "%s, which CreateLogGroup made: it may be deleted by others now; try again "
                         "later",
                         group);
}

int environment_run_create(struct stage_turn *turn) {
        static const char *const taken[] = { "ResourceConflictException", NULL };
        const struct change *change = turn->change;
        struct arena *arena = turn->progress->arena;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        int result;

        if (!environment_image_uri(turn->provider, value_get(change->desired, "image"), arena) ||
            !value_get_text(change->desired, "role"))
                return error_set(turn->err,
                                 "the image's digest or the role is not known: plan with --refresh sweep");
        if (!environment_knows_network(turn->provider, change->desired))
                return error_set(turn->err, ENVIRONMENT_NO_NETWORK);
        request = lambda_create_function(
                environment_create_body(
                        turn->provider, change->name, change->desired,
                        environment_variables(change, value_get(turn->progress->data, ENVIRONMENT_FETCHED),
                                              arena),
                        arena),
                arena);
        result = environment_call(turn, &request, taken, &response);
        if (result != 0)
                return result;
        /* Made by an earlier try whose answer was lost, or by a faster tool. */
        return *response.error_code ? stage_enter(turn, ENVIRONMENT_STAGE_EXISTING) : STAGE_OVER;
}

int environment_run_existing(struct stage_turn *turn) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = environment_look(turn, environment_not_there, &response);

        if (result != 0)
                return result;
        if (*response.error_code) {
                if (stage_start_over(turn, ENVIRONMENT_STAGE_CREATE, "conflicts", CONFLICTS_MAX) ==
                    STEP_AGAIN)
                        return STEP_AGAIN;
                return error_set(turn->err,
                                 "lambda CreateFunction: for a minute AWS has called the name %s taken, and "
                                 "yet there is no such function: it may be deleted by others now; try again "
                                 "later",
                                 environment_function_of(turn));
        }
        if (turn->observed->ownership != OWNER_SELF)
                return error_set(
                        turn->err,
                        "a function %s appeared since the plan, and it is not this stack's (%s): left as it is",
                        environment_function_of(turn),
                        turn->observed->owner ? turn->observed->owner : "without tags");
        return stage_enter(turn, ENVIRONMENT_STAGE_CREATED);
}
