/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing a repository's settings. What a change lets go of (on deletion, or when the Image now names another
 * repository) comes first: a repository that Berth made is deleted if it is empty; one that holds images is kept, and
 * only Berth's policy and tags are taken off it. Nothing here ever deletes an image.
 */
#include "providers/aws/image/image.h"
#include "providers/aws/services/ecr.h"
#include "providers/aws/shared/stage.h"
#include "providers/aws/shared/stage_call.h"

#include "base/json.h"
#include "providers/aws/registry/ecr_uri.h"
#include "providers/aws/shared/aws_tags.h"

#include <string.h>

enum {
        STAGE_CHECK_OWNER = 1,
        STAGE_DELETE,
        STAGE_CHECK_POLICY,
        STAGE_DELETE_POLICY,
        STAGE_DISOWN,
        STAGE_CREATE,
        STAGE_SCANNING,
        STAGE_MUTABILITY,
        STAGE_POLICY,
        STAGE_TAG,
        STAGE_UNTAG,
        STAGE_COUNT,
        /* Entered from STAGE_CREATE alone, and in no change's cost. */
        STAGE_EXISTING = STAGE_COUNT,
        STAGE_ROWS
};

/* Findings of a stage, for those after it: "gone", "kept", and "policy", which is ours to delete. */
static bool is_remembered(const struct stage_turn *turn, const char *name) {
        return value_get_boolean(turn->progress->data, name, false);
}

static void set_mark(struct stage_turn *turn, const char *name) {
        value_set_boolean(turn->progress->arena, stage_data(turn), name, true);
}

static const char *repository_of(const struct stage_turn *turn) {
        return value_get_text(turn->change->desired, "repository");
}

static const char *const no_repository[] = { "RepositoryNotFoundException", NULL };
static const char *const no_policy[] = { "LifecyclePolicyNotFoundException", NULL };

/* --- letting go --- */

static const char *released_arn(const struct stage_turn *turn) {
        return ecr_repository_arn(turn->provider, image_released(turn->change), turn->progress->arena);
}

/* Whose the repository is now, not when it was observed: it is about to be deleted. */
static int check_released_owner(struct stage_turn *turn) {
        struct aws_request request = ecr_list_tags(released_arn(turn), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, no_repository, &response);
        const char *owner;
        enum ownership ownership;

        if (result != 0)
                return result;
        if (*response.error_code) {
                set_mark(turn, "gone");
                return STAGE_OVER;
        }
        ownership = aws_ownership(
                turn->provider,
                aws_tags_from_json(json_object_get(response.json, "tags"), turn->progress->arena),
                turn->progress->arena, &owner);
        /* Others took our tags away, or put theirs there: it is not ours to delete any more. */
        if (ownership != OWNER_SELF)
                set_mark(turn, "kept");
        return STAGE_OVER;
}

static int delete_released(struct stage_turn *turn) {
        static const char *const kept_or_gone[] = { "RepositoryNotEmptyException",
                                                    "RepositoryNotFoundException", NULL };
        struct aws_request request =
                ecr_delete_repository(image_released(turn->change), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result;

        if (is_remembered(turn, "gone") || is_remembered(turn, "kept"))
                return STAGE_OVER;
        result = stage_call(turn, &request, kept_or_gone, &response);
        if (result != 0)
                return result;
        if (!aws_failed_with(&response, "RepositoryNotEmptyException"))
                set_mark(turn, "gone");
        return STAGE_OVER;
}

/* The policy goes only if it is still the one that we put there. */
static bool lets_policy_go(const struct change *change) {
        return image_released(change) && value_get(change->recorded, "retain");
}

static int check_released_policy(struct stage_turn *turn) {
        static const char *const neither[] = { "LifecyclePolicyNotFoundException",
                                               "RepositoryNotFoundException", NULL };
        struct aws_request request =
                ecr_get_lifecycle_policy(image_released(turn->change), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const char *text;
        int result;

        if (is_remembered(turn, "gone"))
                return STAGE_OVER;
        result = stage_call(turn, &request, neither, &response);
        if (result != 0)
                return result;
        text = *response.error_code ? NULL : json_text(response.json, "lifecyclePolicyText");
        if (text && value_equal(image_policy_read(text, turn->progress->arena),
                                value_get(turn->change->recorded, "retain"), NULL))
                set_mark(turn, "policy");
        return STAGE_OVER;
}

static int delete_released_policy(struct stage_turn *turn) {
        struct aws_request request =
                ecr_delete_lifecycle_policy(image_released(turn->change), turn->progress->arena);

        if (!is_remembered(turn, "policy"))
                return STAGE_OVER;
        return stage_call_over(turn, request, no_policy);
}

/* A repository that is kept, for the images in it, loses our tags: the next plan must not take it for a leftover. */
static int disown_released(struct stage_turn *turn) {
        const struct value *tags = value_get(turn->change->recorded, "tags");
        struct aws_request request;

        if (is_remembered(turn, "gone") || is_remembered(turn, "kept"))
                return STAGE_OVER;
        if (!tags)
                tags = value_get(turn->change->observed->spec, "tags");
        if (!tags || tags->count == 0)
                return STAGE_OVER;
        request = ecr_untag(released_arn(turn), tags, turn->progress->arena);
        return stage_call_over(turn, request, no_repository);
}

/* --- making --- */

static bool is_elsewhere(const struct change *change) {
        const char *repository = value_get_text(change->desired, "repository");

        return repository && ecr_registry_in_front(repository);
}

static bool needs_create(const struct change *change) {
        return change->action == ACTION_CREATE && !is_elsewhere(change) &&
               value_get_boolean(change->desired, "createRepository", false);
}

static struct ecr_mutability mutability_of(const struct change *change) {
        return (struct ecr_mutability){ value_get(change->desired, "immutableTags"),
                                        value_get(change->desired, "mutableTags") };
}

static int create_repository(struct stage_turn *turn) {
        static const char *const taken[] = { "RepositoryAlreadyExistsException", NULL };
        const struct value *spec = turn->change->desired;
        struct aws_request request = ecr_create_repository(
                repository_of(turn), value_get(spec, "tags"), value_get(spec, "scanOnPush"),
                mutability_of(turn->change), turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, taken, &response);

        if (result != 0)
                return result;
        return *response.error_code ? stage_enter(turn, STAGE_EXISTING) : STAGE_OVER;
}

/* Made by an earlier try whose answer was lost, or by a faster tool. */
static int check_existing(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        struct aws_request request =
                ecr_list_tags(ecr_repository_arn(turn->provider, repository_of(turn), arena), arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, NULL, &response);
        const char *owner;

        if (result != 0)
                return result;
        if (aws_ownership(turn->provider, aws_tags_from_json(json_object_get(response.json, "tags"), arena),
                          arena, &owner) != OWNER_SELF)
                return error_set(
                        turn->err,
                        "a repository %s appeared since the plan, and it is not this stack's (%s): left as "
                        "it is",
                        repository_of(turn), owner ? owner : "without tags");
        /* On with what follows the creation, as if this run had made it. */
        turn->progress->stage = STAGE_CREATE;
        return STAGE_OVER;
}

/* --- settings --- */

static bool keeps_repository(const struct change *change) {
        if (is_elsewhere(change))
                return false;
        return change->action == ACTION_UPDATE || change->action == ACTION_ADOPT;
}

/* A new repository is created with its settings; later they are calls of their own. */
static bool is_set(const struct change *change, const char *name) {
        return !is_elsewhere(change) && value_get(change->desired, name) && change->action != ACTION_DELETE &&
               !needs_create(change) && change_touches(change, name);
}

static bool needs_scanning(const struct change *change) {
        return is_set(change, "scanOnPush");
}

static int set_scanning(struct stage_turn *turn) {
        struct aws_request request = ecr_put_scanning(
                repository_of(turn), value_get_boolean(turn->change->desired, "scanOnPush", false),
                turn->progress->arena);

        return stage_call_over(turn, request, NULL);
}

/* Both are one setting: exceptions that the manifest no longer has are taken away where it still sets immutableTags. */
static bool needs_mutability(const struct change *change) {
        return is_set(change, "immutableTags") ||
               (value_get(change->desired, "immutableTags") && keeps_repository(change) &&
                change_touches(change, "mutableTags"));
}

static int set_mutability(struct stage_turn *turn) {
        struct aws_request request =
                ecr_put_mutability(repository_of(turn), mutability_of(turn->change), turn->progress->arena);

        return stage_call_over(turn, request, NULL);
}

/* CreateRepository takes no policy, so that one is set after it too. Into another registry nothing is ever written. */
static bool needs_policy(const struct change *change) {
        return change->action != ACTION_DELETE && !is_elsewhere(change) && change_touches(change, "retain");
}

static int set_policy(struct stage_turn *turn) {
        const struct value *retain = value_get(turn->change->desired, "retain");
        struct arena *arena = turn->progress->arena;
        struct aws_request request =
                retain ? ecr_put_lifecycle_policy(repository_of(turn), image_policy_text(retain, arena),
                                                  arena)
                       : ecr_delete_lifecycle_policy(repository_of(turn), arena);

        return stage_call_over(turn, request, retain ? NULL : no_policy);
}

static const struct value *observed_tags(const struct change *change) {
        return value_get(change->observed->spec, "tags");
}

static bool needs_tag(const struct change *change) {
        return keeps_repository(change) &&
               aws_any_tag_beyond(value_get(change->desired, "tags"), observed_tags(change), false);
}

static int tag_repository(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const struct value *tags = aws_tags_beyond(value_get(turn->change->desired, "tags"),
                                                   observed_tags(turn->change), false, arena);
        struct aws_request request =
                ecr_tag(ecr_repository_arn(turn->provider, repository_of(turn), arena), tags, arena);

        return stage_call_over(turn, request, NULL);
}

static bool needs_untag(const struct change *change) {
        return keeps_repository(change) &&
               aws_any_tag_beyond(observed_tags(change), value_get(change->desired, "tags"), true);
}

static int untag_repository(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const struct value *keys = aws_tags_beyond(observed_tags(turn->change),
                                                   value_get(turn->change->desired, "tags"), true, arena);
        struct aws_request request =
                ecr_untag(ecr_repository_arn(turn->provider, repository_of(turn), arena), keys, arena);

        return stage_call_over(turn, request, NULL);
}

static const struct stage stages[STAGE_ROWS] = {
        [STAGE_CHECK_OWNER] = { "ecr", NULL, image_releases_repository, check_released_owner },
        [STAGE_DELETE] = { "ecr", NULL, image_releases_repository, delete_released },
        [STAGE_CHECK_POLICY] = { "ecr", NULL, lets_policy_go, check_released_policy },
        [STAGE_DELETE_POLICY] = { "ecr", NULL, lets_policy_go, delete_released_policy },
        [STAGE_DISOWN] = { NULL, NULL, image_releases_repository, disown_released },
        [STAGE_CREATE] = { "ecr", NULL, needs_create, create_repository },
        [STAGE_SCANNING] = { "ecr", NULL, needs_scanning, set_scanning },
        [STAGE_MUTABILITY] = { "ecr", NULL, needs_mutability, set_mutability },
        [STAGE_POLICY] = { "ecr", NULL, needs_policy, set_policy },
        [STAGE_TAG] = { "ecr", NULL, needs_tag, tag_repository },
        [STAGE_UNTAG] = { "ecr", NULL, needs_untag, untag_repository },
        [STAGE_EXISTING] = { NULL, NULL, NULL, check_existing },
};

/* Every call was taken, so what exists is what was there with what was set laid over it. */
static void conclude_change(const struct stage_turn *turn, struct observation *ret) {
        static const char *const set[] = { "scanOnPush", "immutableTags", "mutableTags", "retain", "tags" };
        const struct change *change = turn->change;
        struct arena *arena = turn->progress->arena;
        struct value *spec;

        *ret = (struct observation){ .name = change->name };
        if (change->action == ACTION_DELETE)
                return;
        spec = value_new_map(arena);
        value_set_text(arena, spec, "repository", repository_of(turn));
        for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++) {
                const struct value *member = value_get(change->desired, set[i]);

                /* A setting without default that was not given stays; retain and tags that are not given go. */
                if (!member && is_elsewhere(change))
                        continue;
                if (!member && (i < 2 || (i == 2 && !needs_mutability(change)) ||
                                (i == 3 && !change_touches(change, "retain"))))
                        member = value_get(change->observed->spec, set[i]);
                if (member)
                        value_set(arena, spec, set[i], *member);
        }
        ret->exists = true;
        ret->id = ecr_repository_arn(turn->provider, repository_of(turn), arena);
        ret->ownership = OWNER_SELF;
        ret->owner = arena_printf(arena, "stack %s", turn->provider->stack_name);
        ret->spec = spec;
}

int image_step(struct provider *provider, const struct change *change, struct progress *progress,
               struct observation *ret, struct error *err) {
        struct observation observed = { .name = change->name };
        struct stage_turn turn = { provider, change, progress, &observed, err };
        int result;

        if (aws_need_account(provider, err) < 0)
                return -1;
        result = stage_step(stages, STAGE_COUNT, &turn);
        if (result == STEP_DONE)
                conclude_change(&turn, ret);
        return result;
}

void image_cost(const struct provider *provider, const struct change *change, struct cost *ret) {
        (void)provider;
        stage_cost(stages, STAGE_COUNT, change, ret);
}
