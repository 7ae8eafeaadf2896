/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a role what it shall be, one call a stage. IAM takes its time: a role that it says does not exist may just have been
 * made, and one that it calls unmodifiable is being made (passing.c).
 *
 * A document goes from the stage that reads it to the one that writes it in the change's data, as `roleTrust` and `rolePolicy`.
 */
#include "providers/aws/shared/execution_role.h"

#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/iam.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/policy_compare.h"
#include "providers/aws/shared/stage_call.h"

static const char *const no_entity[] = { "NoSuchEntity", NULL };

static bool is_wished_and_there(const struct value *wished, const struct value *seen) {
        return execution_role_is_made(wished) && execution_role_is_made(seen);
}

bool execution_role_needs_replacement(const struct value *wished, const struct value *seen) {
        const char *path = value_get_text(wished, "path");

        return is_wished_and_there(wished, seen) && path && !texts_same(path, value_get_text(seen, "path"));
}

static bool is_kept(const struct value *wished, const struct value *seen) {
        return is_wished_and_there(wished, seen) && !execution_role_needs_replacement(wished, seen);
}

static bool differs(const struct value *wished, const struct value *seen, const char *member) {
        return is_kept(wished, seen) &&
               !value_equal(value_get(wished, member), value_get(seen, member), NULL);
}

bool execution_role_needs_creation(const struct value *wished, const struct value *seen) {
        return execution_role_is_made(wished) && !is_kept(wished, seen);
}

bool execution_role_needs_boundary(const struct value *wished, const struct value *seen) {
        return differs(wished, seen, "permissionsBoundary");
}

bool execution_role_needs_trust(const struct value *wished, const struct value *seen) {
        return differs(wished, seen, "trust");
}

bool execution_role_needs_policy(const struct value *wished, const struct value *seen) {
        return execution_role_needs_creation(wished, seen) || differs(wished, seen, "policy");
}

bool execution_role_replaces_policy(const struct value *wished, const struct value *seen) {
        return differs(wished, seen, "policy") && value_get(seen, "policy");
}

bool execution_role_needs_tags(const struct value *wished, const struct value *seen) {
        return is_kept(wished, seen) &&
               aws_any_tag_beyond(value_get(wished, "tags"), value_get(seen, "tags"), false);
}

bool execution_role_needs_untag(const struct value *wished, const struct value *seen) {
        return is_kept(wished, seen) &&
               aws_any_tag_beyond(value_get(seen, "tags"), value_get(wished, "tags"), true);
}

void execution_role_ask_path(struct change *change, const struct value *wished, const struct value *seen,
                             const char *instead, struct arena *arena) {
        if (!execution_role_needs_replacement(wished, seen))
                return;
        aws_refuse(
                change,
                (struct refusal){
                        .id = "needs-replacement",
                        .message = arena_printf(
                                arena,
                                "the role %s is at the path %s, the Stack says aws.rolePath: %s, and IAM moves no "
                                "role: it would be deleted and made again, and until then no function could run "
                                "with it",
                                value_get_text(wished, "name"), value_get_text(seen, "path"),
                                value_get_text(wished, "path")),
                        .remedy = arena_printf(arena,
                                               "set aws.rolePath back; or %s; or replace it at once: --allow "
                                               "needs-replacement:%s",
                                               instead, change->address),
                },
                arena);
}

static const char *trust_text(const struct stage_turn *turn) {
        return aws_json_text(policy_document_trust(), turn->progress->arena);
}

int execution_role_create(struct stage_turn *turn, struct execution_role_of of, const struct value *wished,
                          bool *ret_taken, const char **ret_id) {
        static const char *const taken[] = { "EntityAlreadyExists", NULL };
        struct arena *arena = turn->progress->arena;
        const char *stack = turn->provider->stack_name;
        const struct iam_new_role role = {
                .name = value_get_text(wished, "name"),
                .trust = trust_text(turn),
                .description = of.environment
                                       ? arena_printf(arena, "Environment %s of the Berth stack %s",
                                                      of.environment, stack)
                                       : arena_printf(arena, "Environments of the Berth stack %s", stack),
                .path = value_get_text(wished, "path"),
                .boundary = value_get_text(wished, "permissionsBoundary"),
                .tags = value_get(wished, "tags"),
        };
        struct aws_request request = iam_create_role(&role, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, taken, &response);

        if (result != 0)
                return result;
        *ret_taken = *response.error_code != '\0';
        *ret_id = *ret_taken ? NULL : iam_read_created_id(&response, arena);
        return STAGE_OVER;
}

/*
 * It was made since it was observed: by an earlier try of ours, whose answer was lost, or by
 * another tool.
 */
int execution_role_check(struct stage_turn *turn, const struct value *wished, const char *instead,
                         const char **ret_id) {
        const char *name = value_get_text(wished, "name"), *owner = NULL;
        struct aws_request request = iam_get_role(name, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, NULL, &response);
        struct iam_role role;

        if (result != 0)
                return result;
        if (iam_read_role(&response, turn->progress->arena, &role, turn->err) < 0)
                return -1;
        if (aws_ownership(turn->provider, role.tags, turn->progress->arena, &owner) != OWNER_SELF)
                return error_set(turn->err, "the role %s was made meanwhile by %s: %s", name,
                                 owner ? owner : "somebody else", instead);
        *ret_id = role.id;
        return STAGE_OVER;
}

/*
 * The text that shall replace `before`, which was just read: the wished document, without those
 * rights of Berth's that others took away. NULL with the turn's error where that cannot be told.
 */
static const char *narrowed_text(struct stage_turn *turn, const struct value *wished,
                                 const struct value *applied, const char *member, const char *before) {
        const struct value *last = value_get(applied, member);
        json_t *ours JSON_CLEANUP = value_to_json(value_get(wished, member), NULL);
        json_t *there JSON_CLEANUP = policy_document_parse(before);
        json_t *given JSON_CLEANUP = last ? value_to_json(last, NULL) : NULL;
        json_t *own_deny JSON_CLEANUP = execution_role_own_deny(turn->provider, member);
        struct arena *arena = turn->progress->arena;
        struct policy_comparison comparison;

        if (!there)
                return aws_json_text(json_incref(ours), arena);
        policy_compare(there, given, ours, own_deny, arena, &comparison);
        if (comparison.target)
                return aws_json_text(comparison.target, arena);
        error_set(
                turn->err,
                "the %s of the role %s was changed outside of Berth since the plan, in a way that Berth would undo: plan again",
                member, value_get_text(wished, "name"));
        return NULL;
}

int execution_role_fetch_trust(struct stage_turn *turn, const struct value *wished) {
        struct arena *arena = turn->progress->arena;
        struct aws_request request = iam_get_role(value_get_text(wished, "name"), arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, NULL, &response);
        struct iam_role role;

        if (result != 0)
                return result;
        if (iam_read_role(&response, arena, &role, turn->err) < 0)
                return -1;
        value_set_text(arena, stage_data(turn), "roleTrust", role.trust);
        return STAGE_OVER;
}

int execution_role_write_trust(struct stage_turn *turn, const struct value *wished,
                               const struct value *applied) {
        const char *text = narrowed_text(turn, wished, applied, "trust",
                                         value_get_text(turn->progress->data, "roleTrust"));

        if (!text)
                return -1;
        return stage_call_over(
                turn, iam_update_trust(value_get_text(wished, "name"), text, turn->progress->arena), NULL);
}

int execution_role_write_boundary(struct stage_turn *turn, const struct value *wished) {
        const char *name = value_get_text(wished, "name"),
                   *boundary = value_get_text(wished, "permissionsBoundary");
        struct arena *arena = turn->progress->arena;

        return stage_call_over(turn,
                               boundary ? iam_put_role_boundary(name, boundary, arena)
                                        : iam_delete_role_boundary(name, arena),
                               NULL);
}

int execution_role_tag(struct stage_turn *turn, const struct value *wished, const struct value *seen) {
        const struct value *tags = aws_tags_beyond(value_get(wished, "tags"), value_get(seen, "tags"), false,
                                                   turn->progress->arena);

        return stage_call_over(
                turn, iam_tag_role(value_get_text(wished, "name"), tags, turn->progress->arena), NULL);
}

int execution_role_untag(struct stage_turn *turn, const struct value *wished, const struct value *seen) {
        const struct value *tags = aws_tags_beyond(value_get(seen, "tags"), value_get(wished, "tags"), true,
                                                   turn->progress->arena);

        return stage_call_over(
                turn, iam_untag_role(value_get_text(wished, "name"), tags, turn->progress->arena), NULL);
}

int execution_role_fetch_policy(struct stage_turn *turn, const struct value *wished) {
        struct arena *arena = turn->progress->arena;
        struct aws_request request =
                iam_get_role_policy(value_get_text(wished, "name"), EXECUTION_ROLE_POLICY, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, no_entity, &response);
        const char *text = NULL;

        if (result != 0)
                return result;
        if (!*response.error_code && iam_read_role_policy(&response, arena, &text, turn->err) < 0)
                return -1;
        value_set_text(arena, stage_data(turn), "rolePolicy", text);
        return STAGE_OVER;
}

int execution_role_write_policy(struct stage_turn *turn, const struct value *wished,
                                const struct value *applied) {
        const char *text = narrowed_text(turn, wished, applied, "policy",
                                         value_get_text(turn->progress->data, "rolePolicy"));

        if (!text)
                return -1;
        return stage_call_over(turn,
                               iam_put_role_policy(value_get_text(wished, "name"), EXECUTION_ROLE_POLICY,
                                                   text, turn->progress->arena),
                               NULL);
}

int execution_role_delete_policy(struct stage_turn *turn, const char *name) {
        return stage_call_over(
                turn, iam_delete_role_policy(name, EXECUTION_ROLE_POLICY, turn->progress->arena), no_entity);
}

int execution_role_delete(struct stage_turn *turn, const char *name) {
        struct aws_request request = iam_delete_role(name, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, no_entity, &response);

        if (result < 0 && aws_failed_with(&response, "DeleteConflict"))
                return error_context(
                        turn->err,
                        "policies were attached to the role %s outside of Berth: detach them first", name);
        return result == 0 ? STAGE_OVER : result;
}
