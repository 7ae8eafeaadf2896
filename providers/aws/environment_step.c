/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing a function, stage by stage. Only the calls that the fields in question need are made; each stage may be
 * entered again after a crash, since it looks at what is there or does no harm twice.
 *
 * RevisionId guards updates: it goes with each, and what is kept of it is the one of the last GetFunction that says
 * Active and Successful, since the one in an update's own answer changes once more.
 */
#include "providers/aws/environment.h"
#include "providers/aws/lambda.h"
#include "providers/aws/logs.h"
#include "providers/aws/stages.h"

#include "base/json.h"

#include <string.h>

/* As long as the SDKs' waiters wait. */
#define READY_DEADLINE_MS (300 * 1000)
/* How long a new role may take to be known to Lambda. */
#define ROLE_DEADLINE_MS (60 * 1000)
/* How long a function that was just made may be unknown to the next call. */
#define UNKNOWN_DEADLINE_MS (10 * 1000)
#define REREADS_MAX 5

/* The numbers are in journals: new stages go at the end of their group only together with the state's format. */
enum {
        STAGE_LOOK = 1,
        STAGE_DELETE,
        STAGE_GONE,
        STAGE_LOG_GROUP,
        STAGE_RETENTION,
        STAGE_CREATE,
        STAGE_CREATED,
        STAGE_TAG,
        STAGE_UNTAG,
        STAGE_CONCURRENCY,
        STAGE_CONFIGURE,
        STAGE_CONFIGURED,
        STAGE_CODE,
        STAGE_CODED,
        STAGE_READ,
        STAGE_DELETE_LOGS,
        STAGE_COUNT,
        STAGE_EXISTING = STAGE_COUNT,
        STAGE_LOOK_AGAIN,
        STAGE_ROWS
};

static const struct stage stages[STAGE_ROWS];

/* What later stages need, kept between turns. */
static struct value *data(struct stage_turn *turn) {
        if (!turn->progress->data)
                turn->progress->data = value_new_map(turn->progress->arena);
        return turn->progress->data;
}

static const char *function_of(const struct stage_turn *turn) {
        return environment_function(turn->provider, turn->change->name, turn->progress->arena);
}

static const char *log_group_of(const struct stage_turn *turn) {
        return environment_log_group(turn->provider, turn->change->name, turn->progress->arena);
}

static const char *arn_of(const struct stage_turn *turn) {
        return arena_printf(turn->progress->arena, "arn:%s:lambda:%s:%s:function:%s",
                            turn->provider->partition, turn->provider->region, turn->provider->account,
                            function_of(turn));
}

static int call(struct stage_turn *turn, const struct aws_request *request, struct aws_response *response,
                struct error *err) {
        return aws_step_call(turn->provider->client, request, turn->progress, response, err);
}

static bool makes(const struct change *change) {
        return change->action == ACTION_CREATE || change->action == ACTION_REPLACE;
}

static bool mends(const struct change *change) {
        return change->action == ACTION_UPDATE || change->action == ACTION_ADOPT;
}

static bool removes(const struct change *change) {
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
        };
        int64_t days = value_get_integer(change->desired, "logRetentionDays", 0);

        environment_observation(turn->provider, change->name, function, &known, days, turn->progress->arena,
                                turn->observed);
        turn->observed->extra = change->observed->extra;
        if (value_get_boolean(turn->progress->data, "logGroup", false)) {
                struct value *extra = value_new_map(turn->progress->arena);

                value_set_boolean(turn->progress->arena, extra, "logGroup", true);
                turn->observed->extra = extra;
        }
}

static void keep_revision(struct stage_turn *turn) {
        value_set_text(turn->progress->arena, data(turn), "revision", turn->observed->fingerprint);
}

static const char *revision_of(struct stage_turn *turn) {
        const char *revision = value_get_text(turn->progress->data, "revision");

        return revision ? revision : turn->change->observed->fingerprint;
}

/* GetFunction; *turn->observed is what it shows. ERROR_NOT_FOUND where there is no such function. */
static int look(struct stage_turn *turn, struct aws_response *response, struct error *err) {
        struct aws_request request = lambda_get_function(function_of(turn), turn->progress->arena);
        int result = call(turn, &request, response, err);

        if (result == STEP_DONE)
                observe_answer(turn, response->json);
        else if (result < 0 && aws_failed_with(response, "ResourceNotFoundException"))
                err->kind = ERROR_NOT_FOUND;
        return result;
}

/* --- before anything else --- */

/* Variables are replaced as a whole, so what others set must be known; and nobody's function is deleted unseen. */
static bool needs_look(const struct change *change) {
        return removes(change) || (mends(change) && change_touches(change, "variables"));
}

/* Whether it is in the hands in which the plan saw it. */
static bool same_hands(const struct observation *then, const struct observation *now) {
        if (now->ownership == OWNER_SELF)
                return true;
        if (now->ownership != then->ownership)
                return false;
        return now->ownership == OWNER_NONE ||
               (now->owner && then->owner && strcmp(now->owner, then->owner) == 0);
}

static void keep_foreign_variables(struct stage_turn *turn) {
        const struct value *there = value_get(turn->observed->spec, "variables");
        struct arena *arena = turn->progress->arena;
        struct value *foreign = value_new_map(arena);

        for (uint32_t i = 0; there && there->type == VALUE_MAP && i < there->count; i++) {
                const char *name = there->members[i].name;
                struct value text = there->members[i].value;

                if (value_get(value_get(turn->change->desired, "variables"), name) ||
                    value_get(value_get(turn->change->recorded, "variables"), name))
                        continue;
                text.sensitive = true; /* the journal gets a hash */
                value_set(arena, foreign, name, text);
        }
        value_set(arena, data(turn), "foreign", *foreign);
}

static int run_look(struct stage_turn *turn) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        int result = look(turn, &response, &failure);

        if (result == STEP_AGAIN)
                return result;
        if (result < 0) {
                if (failure.kind == ERROR_NOT_FOUND && removes(turn->change)) {
                        *turn->observed = (struct observation){ .name = turn->change->name };
                        turn->progress->stage = STAGE_GONE; /* what follows it is next */
                        return STAGE_OVER;
                }
                *turn->err = failure;
                return -1;
        }
        if (!same_hands(turn->change->observed, turn->observed))
                return error_set(
                        turn->err, "the function %s has changed hands since the plan (now %s): left as it is",
                        function_of(turn), turn->observed->owner ? turn->observed->owner : "without tags");
        if (removes(turn->change))
                return STAGE_OVER;
        if (json_object_get(json_object_get(json_object_get(response.json, "Configuration"), "Environment"),
                            "Error"))
                return error_set(turn->err,
                                 "%s, so they cannot be updated without losing some: nothing was changed",
                                 turn->observed->health_reason ? turn->observed->health_reason
                                                               : "its variables cannot be read");
        keep_foreign_variables(turn);
        /* What the plan was made for may have moved on; the update's own check would find the same. */
        if (turn->change->observed->fingerprint && turn->observed->fingerprint &&
            strcmp(turn->change->observed->fingerprint, turn->observed->fingerprint) != 0)
                return stage_enter(turn, STAGE_LOOK_AGAIN);
        return STAGE_OVER;
}

/* --- delete --- */

static int run_delete(struct stage_turn *turn) {
        struct aws_request request = lambda_delete_function(function_of(turn), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        int result = call(turn, &request, &response, &failure);

        if (result == STEP_AGAIN)
                return result;
        if (result < 0 && aws_failed_with(&response, "ResourceConflictException") &&
            stage_elapsed_ms(turn) < READY_DEADLINE_MS)
                return stage_wait(turn, stage_retry_gap_ms(stage_elapsed_ms(turn)));
        if (result < 0 && !aws_failed_with(&response, "ResourceNotFoundException")) {
                *turn->err = failure;
                return -1;
        }
        *turn->observed = (struct observation){ .name = turn->change->name };
        return STAGE_OVER;
}

static bool needs_gone(const struct change *change) {
        return change->action == ACTION_REPLACE;
}

static int run_gone(struct stage_turn *turn) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        int result = look(turn, &response, &failure);

        if (result == STEP_AGAIN)
                return result;
        if (result < 0) {
                if (failure.kind == ERROR_NOT_FOUND)
                        return STAGE_OVER;
                *turn->err = failure;
                return -1;
        }
        if (stage_elapsed_ms(turn) >= READY_DEADLINE_MS)
                return error_set(turn->err, "the function %s is still there 5 minutes after it was deleted",
                                 function_of(turn));
        return stage_wait(turn, stage_retry_gap_ms(stage_elapsed_ms(turn)));
}

static bool needs_delete_logs(const struct change *change) {
        return change->action == ACTION_DELETE &&
               (value_get(change->recorded, "logRetentionDays") ||
                value_get_boolean(change->observed->extra, "logGroup", false));
}

static int run_delete_logs(struct stage_turn *turn) {
        struct aws_request request = logs_delete_group(log_group_of(turn), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        int result = call(turn, &request, &response, &failure);

        if (result == STEP_AGAIN)
                return result;
        if (result < 0 && !aws_failed_with(&response, "ResourceNotFoundException")) {
                *turn->err = failure;
                return -1;
        }
        *turn->observed = (struct observation){ .name = turn->change->name };
        return STAGE_OVER;
}

/* --- logs --- */

static bool needs_log_group(const struct change *change) {
        if (!value_get(change->desired, "logRetentionDays"))
                return false;
        return makes(change) || (mends(change) && change_touches(change, "logRetentionDays") &&
                                 !value_get(change->observed->spec, "logRetentionDays"));
}

static int run_log_group(struct stage_turn *turn) {
        struct aws_request request = logs_create_group(
                log_group_of(turn), value_get(turn->change->desired, "tags"), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        int result = call(turn, &request, &response, &failure);

        if (result == STEP_AGAIN)
                return result;
        if (result < 0 && !aws_failed_with(&response, "ResourceAlreadyExistsException")) {
                *turn->err = failure;
                return -1;
        }
        if (result == STEP_DONE)
                value_set_boolean(turn->progress->arena, data(turn), "logGroup", true);
        return STAGE_OVER;
}

static bool needs_retention(const struct change *change) {
        if (makes(change))
                return value_get(change->desired, "logRetentionDays");
        return mends(change) && change_touches(change, "logRetentionDays");
}

static int run_retention(struct stage_turn *turn) {
        int64_t days = value_get_integer(turn->change->desired, "logRetentionDays", 0);
        const char *group = log_group_of(turn);
        struct aws_request request = days > 0 ? logs_put_retention(group, days, turn->progress->arena)
                                              : logs_delete_retention(group, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        int result = call(turn, &request, &response, &failure);

        if (result == STEP_DONE)
                return STAGE_OVER;
        if (result < 0 && aws_failed_with(&response, "ResourceNotFoundException"))
                return days > 0 && stage_elapsed_ms(turn) < UNKNOWN_DEADLINE_MS
                               ? stage_enter(turn, STAGE_LOG_GROUP)
                               : STAGE_OVER;
        if (result < 0)
                *turn->err = failure;
        return result;
}

/* --- create --- */

/* Lambda learns of a new role some seconds after IAM has made it. */
static bool role_unknown(const struct aws_response *response) {
        return aws_failed_with(response, "InvalidParameterValueException") &&
               strstr(response->error_message, "cannot be assumed by Lambda");
}

static bool role_may_come(struct stage_turn *turn) {
        const struct clock *clock = aws_client_clock(turn->provider->client);
        int64_t now = clock->monotonic_ms(clock),
                since = value_get_integer(turn->progress->data, "roleSince", 0);

        if (since == 0) {
                value_set_integer(turn->progress->arena, data(turn), "roleSince", now);
                since = now;
        }
        return now - since < ROLE_DEADLINE_MS;
}

static bool needs_create(const struct change *change) {
        return makes(change);
}

static int run_create(struct stage_turn *turn) {
        const struct change *change = turn->change;
        struct arena *arena = turn->progress->arena;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        struct error failure;
        int result;

        if (!environment_image_uri(turn->provider, value_get(change->desired, "image"), arena) ||
            !value_get_text(change->desired, "role"))
                return error_set(turn->err,
                                 "the image's digest or the role is not known: plan with --refresh sweep");
        request = lambda_create_function(
                environment_create_body(turn->provider, change->name, change->desired, arena), arena);
        result = call(turn, &request, &response, &failure);
        if (result == STEP_DONE)
                return STAGE_OVER;
        if (result == STEP_AGAIN)
                return result;
        /* Made by an earlier try whose answer was lost, or somebody was faster. */
        if (aws_failed_with(&response, "ResourceConflictException"))
                return stage_enter(turn, STAGE_EXISTING);
        if (role_unknown(&response) && role_may_come(turn))
                return stage_wait(turn, 2000);
        *turn->err = failure;
        return -1;
}

static int run_existing(struct stage_turn *turn) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        int result = look(turn, &response, &failure);

        if (result == STEP_AGAIN)
                return result;
        if (result < 0) {
                if (failure.kind == ERROR_NOT_FOUND)
                        return stage_enter(turn, STAGE_CREATE);
                *turn->err = failure;
                return -1;
        }
        if (turn->observed->ownership != OWNER_SELF)
                return error_set(
                        turn->err,
                        "a function %s appeared since the plan, and it is not this stack's (%s): left as it is",
                        function_of(turn), turn->observed->owner ? turn->observed->owner : "without tags");
        return stage_enter(turn, STAGE_CREATED);
}

/* --- waiting --- */

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
static void learn(atomic_llong *usual, int64_t taken_ms) {
        long long before = atomic_load(usual);

        atomic_store(usual, before == 0 ? taken_ms : (3 * before + taken_ms) / 4);
}

static int wait_ready(struct stage_turn *turn, atomic_llong *usual) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int64_t elapsed = stage_elapsed_ms(turn);
        struct error failure;
        int result;

        if (!value_get_boolean(turn->progress->data, "looked", false)) {
                value_set_boolean(turn->progress->arena, data(turn), "looked", true);
                return stage_wait(turn, environment_poll_gap_ms(0, atomic_load(usual)));
        }
        result = look(turn, &response, &failure);
        if (result == STEP_AGAIN)
                return result;
        if (result < 0) {
                if (failure.kind == ERROR_NOT_FOUND && elapsed < UNKNOWN_DEADLINE_MS)
                        return stage_wait(turn, stage_retry_gap_ms(elapsed));
                *turn->err = failure;
                return -1;
        }
        if (turn->observed->health == HEALTH_PENDING) {
                if (elapsed < READY_DEADLINE_MS)
                        return stage_wait(turn, environment_poll_gap_ms(elapsed, atomic_load(usual)));
                return error_set(turn->err, "the function %s is not ready after 5 minutes%s%s",
                                 function_of(turn), turn->observed->health_reason ? ": " : "",
                                 turn->observed->health_reason ? turn->observed->health_reason : "");
        }
        value_unset(data(turn), "looked");
        if (turn->observed->health == HEALTH_FAILED)
                return error_set(turn->err, "Lambda could not make the function %s ready: %s",
                                 function_of(turn), turn->observed->health_reason);
        if (turn->observed->health_reason &&
            strncmp(turn->observed->health_reason, "its last update failed", 22) == 0)
                return error_set(turn->err, "Lambda could not update the function %s: %s", function_of(turn),
                                 turn->observed->health_reason);
        learn(usual, elapsed);
        keep_revision(turn);
        return STAGE_OVER;
}

static int run_created(struct stage_turn *turn) {
        return wait_ready(turn, &turn->provider->usual_wait_ms[0]);
}

static int run_updated(struct stage_turn *turn) {
        return wait_ready(turn, &turn->provider->usual_wait_ms[1]);
}

/* --- tags and concurrency --- */

static const struct value *observed_tags(const struct change *change) {
        return value_get(change->observed->spec, "tags");
}

static bool needs_tag(const struct change *change) {
        return mends(change) &&
               aws_any_tag_beyond(value_get(change->desired, "tags"), observed_tags(change), false);
}

static int run_tag(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const struct value *tags = aws_tags_beyond(value_get(turn->change->desired, "tags"),
                                                   observed_tags(turn->change), false, arena);
        struct aws_request request = lambda_tag_resource(arn_of(turn), tags, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = call(turn, &request, &response, turn->err);

        return result == STEP_DONE ? STAGE_OVER : result;
}

/* The observed tags are only those that we desire or once put there. */
static bool needs_untag(const struct change *change) {
        return mends(change) &&
               aws_any_tag_beyond(observed_tags(change), value_get(change->desired, "tags"), true);
}

static int run_untag(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const struct value *keys = aws_tags_beyond(observed_tags(turn->change),
                                                   value_get(turn->change->desired, "tags"), true, arena);
        uint32_t from = (uint32_t)value_get_integer(turn->progress->data, "untagged", 0);
        struct aws_request request = lambda_untag_resource(arn_of(turn), keys, &from, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = call(turn, &request, &response, turn->err);

        if (result != STEP_DONE)
                return result;
        value_set_integer(arena, data(turn), "untagged", from);
        return from < keys->count ? STEP_AGAIN : STAGE_OVER;
}

static bool needs_concurrency(const struct change *change) {
        if (makes(change))
                return value_get(change->desired, "reservedConcurrency");
        return mends(change) && change_touches(change, "reservedConcurrency");
}

static int run_concurrency(struct stage_turn *turn) {
        const struct value *reserved = value_get(turn->change->desired, "reservedConcurrency");
        struct arena *arena = turn->progress->arena;
        struct aws_request request =
                reserved ? lambda_put_concurrency(function_of(turn), reserved->integer, arena)
                         : lambda_delete_concurrency(function_of(turn), arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        int result = call(turn, &request, &response, &failure);

        if (result == STEP_DONE)
                return STAGE_OVER;
        if (result < 0 && aws_failed_with(&response, "ResourceConflictException") &&
            stage_elapsed_ms(turn) < READY_DEADLINE_MS)
                return stage_wait(turn, stage_retry_gap_ms(stage_elapsed_ms(turn)));
        if (result < 0)
                *turn->err = failure;
        return result;
}

/* --- configuration and code --- */

static const char *const configuration_paths[] = {
        "description", "memoryMB", "workspaceStorageMB", "timeoutSeconds", "role", "variables", NULL
};
static const char *const code_paths[] = { "image.repository", "image.digest", "architecture", NULL };

static bool touches_any(const struct change *change, const char *const *paths) {
        for (; *paths; paths++) {
                if (change_touches(change, *paths))
                        return true;
        }
        return false;
}

static bool needs_configure(const struct change *change) {
        return mends(change) && touches_any(change, configuration_paths);
}

static bool needs_code(const struct change *change) {
        return mends(change) && touches_any(change, code_paths);
}

/* An update's answer: over, later, failed; or, where the function has moved, look again and come back here. */
static int take_update(struct stage_turn *turn, const struct aws_request *request) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error failure;
        int result = call(turn, request, &response, &failure);

        if (result == STEP_DONE)
                return STAGE_OVER;
        if (result == STEP_AGAIN)
                return result;
        if (aws_failed_with(&response, "PreconditionFailedException")) {
                value_set_integer(turn->progress->arena, data(turn), "again", turn->progress->stage);
                return stage_enter(turn, STAGE_LOOK_AGAIN);
        }
        if (aws_failed_with(&response, "ResourceConflictException") &&
            stage_elapsed_ms(turn) < READY_DEADLINE_MS)
                return stage_wait(turn, stage_retry_gap_ms(stage_elapsed_ms(turn)));
        if (role_unknown(&response) && role_may_come(turn))
                return stage_wait(turn, 2000);
        *turn->err = failure;
        return -1;
}

static int run_configure(struct stage_turn *turn) {
        json_t *body = environment_configuration_body(
                turn->change, value_get(turn->progress->data, "foreign"), revision_of(turn));
        struct aws_request request =
                lambda_update_configuration(function_of(turn), body, turn->progress->arena);

        return take_update(turn, &request);
}

static int run_code(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        struct aws_request request;

        if (!environment_image_uri(turn->provider, value_get(turn->change->desired, "image"), arena))
                return error_set(turn->err, "the image's digest is not known: plan with --refresh sweep");
        request = lambda_update_code(
                function_of(turn),
                environment_code_body(turn->provider, turn->change->desired, revision_of(turn), arena),
                arena);
        return take_update(turn, &request);
}

/* Whether all fields under `paths` are, in what was just read, as `after` (or else as `before`) the change. */
static bool stands_at(const struct stage_turn *turn, const char *const *paths, bool after) {
        for (size_t i = 0; i < turn->change->field_count; i++) {
                const struct field_change *field = &turn->change->fields[i];
                const struct value *expected = after ? field->after : field->before;
                const struct value *now = value_path(turn->observed->spec, field->path);
                bool matters = false;

                for (const char *const *path = paths; *path && !matters; path++)
                        matters = strncmp(field->path, *path, strlen(*path)) == 0;
                /* Of a secret only the hash was kept: nobody can tell. */
                if (!matters || (expected && expected->type == VALUE_SECRET))
                        continue;
                if (!value_equal(now, expected, NULL))
                        return false;
        }
        return true;
}

/*
 * The function moved: by our own update whose answer was lost, by Lambda itself, or by somebody else. Only in the last
 * case, and only where it concerns what this change is about, is it given up.
 */
static int run_look_again(struct stage_turn *turn) {
        int64_t times = value_get_integer(turn->progress->data, "rereads", 0);
        int again = (int)value_get_integer(turn->progress->data, "again", 0);
        const char *const *paths = again == STAGE_CODE ? code_paths : configuration_paths;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = look(turn, &response, turn->err);

        if (result != STEP_DONE)
                return result;
        if (turn->observed->health == HEALTH_PENDING && stage_elapsed_ms(turn) < READY_DEADLINE_MS)
                return stage_wait(turn,
                                  environment_poll_gap_ms(stage_elapsed_ms(turn),
                                                          atomic_load(&turn->provider->usual_wait_ms[1])));
        if (again && stands_at(turn, paths, true)) {
                keep_revision(turn);
                turn->progress->stage = again + 1; /* its wait has just been waited */
                return STAGE_OVER;
        }
        if (!stands_at(turn, paths, false) || (!again && !stands_at(turn, code_paths, false)) ||
            times >= REREADS_MAX)
                return error_set(
                        turn->err,
                        "somebody else changed the function %s since the plan: nothing more was done to it; "
                        "plan again",
                        function_of(turn));
        value_set_integer(turn->progress->arena, data(turn), "rereads", times + 1);
        keep_revision(turn);
        if (again)
                return stage_enter(turn, again);
        turn->progress->stage = STAGE_LOOK;
        return STAGE_OVER;
}

static bool needs_read(const struct change *change) {
        int last = stages_next(stages, STAGE_READ, change, 0), next;

        if (change->action == ACTION_DELETE || last == STAGE_READ)
                return false;
        while ((next = stages_next(stages, STAGE_READ, change, last)) < STAGE_READ)
                last = next;
        return last != STAGE_CREATED && last != STAGE_CONFIGURED && last != STAGE_CODED;
}

static int run_read(struct stage_turn *turn) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = look(turn, &response, turn->err);

        return result == STEP_DONE ? STAGE_OVER : result;
}

static const char control[] = "lambda", reads[] = "lambda GetFunction", logs[] = "logs";

static const struct stage stages[STAGE_ROWS] = {
        [STAGE_LOOK] = { reads, NULL, needs_look, run_look },
        [STAGE_DELETE] = { control, NULL, removes, run_delete },
        [STAGE_GONE] = { reads, "to be gone", needs_gone, run_gone },
        [STAGE_LOG_GROUP] = { logs, NULL, needs_log_group, run_log_group },
        [STAGE_RETENTION] = { logs, NULL, needs_retention, run_retention },
        [STAGE_CREATE] = { control, NULL, needs_create, run_create },
        [STAGE_CREATED] = { reads, "to become active", needs_create, run_created },
        [STAGE_TAG] = { control, NULL, needs_tag, run_tag },
        [STAGE_UNTAG] = { control, NULL, needs_untag, run_untag },
        [STAGE_CONCURRENCY] = { control, NULL, needs_concurrency, run_concurrency },
        [STAGE_CONFIGURE] = { control, NULL, needs_configure, run_configure },
        [STAGE_CONFIGURED] = { reads, "to take its new configuration", needs_configure, run_updated },
        [STAGE_CODE] = { control, NULL, needs_code, run_code },
        [STAGE_CODED] = { reads, "to take its new image", needs_code, run_updated },
        [STAGE_READ] = { reads, NULL, needs_read, run_read },
        [STAGE_DELETE_LOGS] = { logs, NULL, needs_delete_logs, run_delete_logs },
        [STAGE_EXISTING] = { NULL, NULL, NULL, run_existing },
        [STAGE_LOOK_AGAIN] = { NULL, "to settle", NULL, run_look_again },
};

int environment_step(struct provider *provider, const struct change *change, struct progress *progress,
                     struct observation *ret, struct error *err) {
        struct observation observed = { .name = change->name };
        struct stage_turn turn = { .provider = provider,
                                   .change = change,
                                   .progress = progress,
                                   .observed = &observed,
                                   .err = err };
        int result;

        if (!provider->account)
                return error_set(err, "the account is not known: plan with --refresh sweep");
        result = stages_step(stages, STAGE_COUNT, &turn);
        if (result == STEP_DONE)
                *ret = observed;
        return result;
}

void environment_cost(const struct provider *provider, const struct change *change, struct cost *ret) {
        (void)provider;
        stages_cost(stages, STAGE_COUNT, change, ret);
}
