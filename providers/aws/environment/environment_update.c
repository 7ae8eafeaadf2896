/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updating a function in place. RevisionId guards it: it goes with each update, and what is kept of it is the one of the
 * last GetFunction that says Active and Successful, since the one in an update's own answer changes once more.
 */
#include "base/json.h"
#include "providers/aws/environment/environment_stages.h"
#include "providers/aws/services/lambda.h"
#include "providers/aws/services/logs.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/stage_call.h"

#include <string.h>

#define REREADS_MAX 5

const char *const environment_configuration_paths[] = {
        "description", "memoryMB", "workspaceStorageMB", "timeoutSeconds", "role",
        "kmsKey",      "network",  "variables",          "imageConfig",    NULL
};
const char *const environment_code_paths[] = { "image.repository", "image.digest", "architecture", NULL };

/* Whether the function still belongs to whom the plan saw it belong to. */
static bool is_of_the_same_owner(const struct observation *then, const struct observation *now) {
        if (now->ownership == OWNER_SELF)
                return true;
        if (now->ownership != then->ownership)
                return false;
        return now->ownership == OWNER_NONE ||
               (now->owner && then->owner && strcmp(now->owner, then->owner) == 0);
}

/*
 * Variables that neither the manifest names nor we ever set. They go back with the update, and so into the journal,
 * as hashes only: a run that dies after this reads them again.
 */
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
        value_set(arena, stage_data(turn), "foreign", *foreign);
}

int environment_run_look(struct stage_turn *turn) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        bool removes = environment_removes(turn->change);
        int result = environment_look(turn, removes ? environment_not_there : NULL, &response);

        if (result != 0)
                return result;
        if (*response.error_code) {
                *turn->observed = (struct observation){ .name = turn->change->name };
                turn->progress->stage = ENVIRONMENT_STAGE_GONE; /* what follows it is next */
                return STAGE_OVER;
        }
        if (!is_of_the_same_owner(turn->change->observed, turn->observed))
                return error_set(
                        turn->err,
                        "the function %s has another owner than when the plan was made (now %s): left as it is",
                        environment_function_of(turn),
                        turn->observed->owner ? turn->observed->owner : "without tags");
        if (removes)
                return STAGE_OVER;
        if (json_object_get(json_object_get(json_object_get(response.json, "Configuration"), "Environment"),
                            "Error"))
                return error_set(turn->err,
                                 "%s, so they cannot be updated without losing some: nothing was changed",
                                 turn->observed->health_reason ? turn->observed->health_reason
                                                               : "its variables cannot be read");
        keep_foreign_variables(turn);
        environment_keep_standing(turn);
        /* What the plan was made for may have moved on; the update's own check would find the same. */
        if (turn->change->observed->fingerprint && turn->observed->fingerprint &&
            strcmp(turn->change->observed->fingerprint, turn->observed->fingerprint) != 0)
                return stage_enter(turn, ENVIRONMENT_STAGE_LOOK_AGAIN);
        return STAGE_OVER;
}

int environment_run_tag(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const struct value *tags =
                aws_tags_beyond(value_get(turn->change->desired, "tags"),
                                value_get(turn->change->observed->spec, "tags"), false, arena);

        return stage_call_over(turn, lambda_tag_resource(environment_arn_of(turn), tags, arena), NULL);
}

int environment_run_untag(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const struct value *keys = aws_tags_beyond(value_get(turn->change->observed->spec, "tags"),
                                                   value_get(turn->change->desired, "tags"), true, arena);
        uint32_t from = (uint32_t)value_get_integer(turn->progress->data, "untagged", 0);
        struct aws_request request = lambda_untag_resource(environment_arn_of(turn), keys, &from, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, NULL, &response);

        if (result != 0)
                return result;
        value_set_integer(arena, stage_data(turn), "untagged", from);
        return from < keys->count ? STEP_AGAIN : STAGE_OVER;
}

/* An update needs all three stages of the group's tags; where a function is made, one leads to the next. */
static int next_of_log_tags(struct stage_turn *turn, int stage) {
        return environment_makes(turn->change) ? stage_enter(turn, stage) : STAGE_OVER;
}

/* Without one that Berth made, the two stages after this one have nothing to do. */
int environment_run_look_log_tags(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        struct aws_request request = environment_log_group_tags(turn->provider, turn->change->name, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, environment_not_there, &response);

        if (result != 0)
                return result;
        value_unset(stage_data(turn), "logTags");
        if (environment_made_log_group(turn->provider, &response, arena))
                value_set(arena, stage_data(turn), "logTags",
                          *aws_tags_from_json(json_object_get(response.json, "tags"), arena));
        return next_of_log_tags(turn, ENVIRONMENT_STAGE_TAG_LOGS);
}

int environment_run_tag_logs(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const struct value *there = value_get(turn->progress->data, "logTags"),
                           *tags = aws_tags_beyond(value_get(turn->change->desired, "tags"), there, false,
                                                   arena);
        int result = STAGE_OVER;

        if (there && tags->count > 0)
                result = stage_call_over(
                        turn,
                        logs_tag(environment_log_group_arn(turn->provider, turn->change->name, arena), tags,
                                 arena),
                        environment_not_there);
        return result == STAGE_OVER ? next_of_log_tags(turn, ENVIRONMENT_STAGE_UNTAG_LOGS) : result;
}

int environment_run_untag_logs(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const struct change *change = turn->change;
        const struct value *there = value_get(turn->progress->data, "logTags"),
                           *desired = value_get(change->desired, "tags"),
                           *ours = aws_tags_of_ours(there, desired, value_get(change->recorded, "tags"),
                                                    arena),
                           *tags = aws_tags_beyond(ours, desired, true, arena);

        if (tags->count == 0)
                return STAGE_OVER;
        return stage_call_over(
                turn, logs_untag(environment_log_group_arn(turn->provider, change->name, arena), tags, arena),
                environment_not_there);
}

int environment_run_concurrency(struct stage_turn *turn) {
        const struct value *reserved = value_get(turn->change->desired, "reservedConcurrency");
        struct arena *arena = turn->progress->arena;
        struct aws_request request =
                reserved ? lambda_put_concurrency(environment_function_of(turn), reserved->integer, arena)
                         : lambda_delete_concurrency(environment_function_of(turn), arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = environment_call(turn, &request, NULL, &response);

        return result == 0 ? STAGE_OVER : result;
}

/* An update: over, later, failed; or, where the function has moved, look again and come back here. */
static int send_update(struct stage_turn *turn, const struct aws_request *request) {
        static const char *const moved[] = { "PreconditionFailedException", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = environment_call(turn, request, moved, &response);

        if (result != 0)
                return result;
        if (!*response.error_code)
                return STAGE_OVER;
        value_set_integer(turn->progress->arena, stage_data(turn), "again", turn->progress->stage);
        return stage_enter(turn, ENVIRONMENT_STAGE_LOOK_AGAIN);
}

int environment_run_configure(struct stage_turn *turn) {
        const struct value *variables = environment_variables(
                turn->change, value_get(turn->progress->data, ENVIRONMENT_FETCHED), turn->progress->arena);
        struct aws_request request;
        json_t *body;

        if (change_touches(turn->change, "network") &&
            !environment_knows_network(turn->provider, turn->change->desired))
                return error_set(turn->err, ENVIRONMENT_NO_NETWORK);
        body = environment_configuration_body(turn->provider, turn->change, variables,
                                              value_get(turn->progress->data, "foreign"),
                                              environment_revision(turn));
        request = lambda_update_configuration(environment_function_of(turn), body, turn->progress->arena);
        return send_update(turn, &request);
}

int environment_run_code(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        struct aws_request request;

        if (!environment_image_uri(turn->provider, value_get(turn->change->desired, "image"), arena))
                return error_set(turn->err, "the image's digest is not known: plan with --refresh sweep");
        request = lambda_update_code(environment_function_of(turn),
                                     environment_code_body(turn->provider, turn->change->desired,
                                                           environment_revision(turn), arena),
                                     arena);
        return send_update(turn, &request);
}

/* Whether all fields under `paths` are, in what was just read, as `after` (or else as `before`) the change. */
static bool stands_at(const struct stage_turn *turn, const char *const *paths, bool after) {
        const struct value *wish = environment_applied(
                turn->change, value_get(turn->progress->data, ENVIRONMENT_FETCHED), turn->progress->arena);

        for (size_t i = 0; i < turn->change->field_count; i++) {
                const struct field_change *field = &turn->change->fields[i];
                const struct value *applied = after ? value_path(wish, field->path) : NULL;
                const struct value *expected = applied ? applied : after ? field->after : field->before;
                const struct value *now = value_path(turn->observed->spec, field->path);
                bool matters = false;

                for (const char *const *path = paths; *path && !matters; path++)
                        matters = strncmp(field->path, *path, strlen(*path)) == 0;
                /* Only the hash of a secret was kept: the texts cannot be compared. */
                if (!matters || (expected && expected->type == VALUE_SECRET))
                        continue;
                if (!value_equal(now, expected, NULL))
                        return false;
        }
        return true;
}

/*
 * The function moved: by our own update whose answer was lost, by Lambda itself, or by another
 * tool. Only in the last case, and only if it concerns this change, is it given up.
 */
int environment_run_look_again(struct stage_turn *turn) {
        int64_t times = value_get_integer(turn->progress->data, "rereads", 0);
        int again = (int)value_get_integer(turn->progress->data, "again", 0);
        const char *const *paths =
                again == ENVIRONMENT_STAGE_CODE ? environment_code_paths : environment_configuration_paths;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = environment_look(turn, NULL, &response);

        if (result != 0)
                return result;
        if (turn->observed->health == HEALTH_PENDING && stage_elapsed_ms(turn) < READY_DEADLINE_MS)
                return stage_wait(turn,
                                  environment_poll_gap_ms(stage_elapsed_ms(turn),
                                                          atomic_load(&turn->provider->usual_wait_ms[1])));
        if (again && environment_update_failed(turn->observed))
                return error_set(turn->err, "Lambda could not update the function %s: %s",
                                 environment_function_of(turn), turn->observed->health_reason);
        if (again && stands_at(turn, paths, true)) {
                environment_keep_revision(turn);
                turn->progress->stage =
                        again + 1; /* past the stage that waits for it: that has just been done here */
                return STAGE_OVER;
        }
        if (!stands_at(turn, paths, false) || (!again && !stands_at(turn, environment_code_paths, false)) ||
            times >= REREADS_MAX)
                return error_set(turn->err,
                                 "the function %s was changed outside of Berth since the plan: nothing more "
                                 "was done to it; plan again",
                                 environment_function_of(turn));
        value_set_integer(turn->progress->arena, stage_data(turn), "rereads", times + 1);
        environment_keep_revision(turn);
        if (change_touches(turn->change, "variables")) {
                keep_foreign_variables(turn);
                environment_keep_standing(turn);
        }
        if (again)
                return stage_enter(turn, again);
        turn->progress->stage = ENVIRONMENT_STAGE_LOOK;
        return STAGE_OVER;
}
