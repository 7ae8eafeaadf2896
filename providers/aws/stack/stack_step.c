/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the Stack's bucket and role what they shall be: one call a stage, only those that something asks for.
 *
 * A bucket's tags, encryption and policy are documents that are replaced whole, and others write in them. So each is read in
 * the stage before the one that writes it, as it is then and not as it was planned, and what is not ours goes back unchanged.
 */
#include "providers/aws/stack/stack.h"

#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/services/iam.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/policy_document.h"
#include "providers/aws/shared/stage.h"
#include "providers/aws/shared/stage_call.h"
#include "providers/aws/stack/isolated_network.h"
#include "providers/aws/stack/session_table.h"

#include <stdlib.h>
#include <string.h>

enum stack_stage {
        STAGE_BEGIN,
        STAGE_CREATE_BUCKET,
        STAGE_READ_TAGS,
        STAGE_WRITE_TAGS,
        STAGE_ADD_TAGS, /* this and the next out of turn */
        STAGE_TAKE_TAGS,
        STAGE_BLOCK_ACCESS,
        STAGE_READ_ENCRYPTION,
        STAGE_ENCRYPT,
        STAGE_READ_POLICY,
        STAGE_WRITE_POLICY,
        STAGE_LINEAGE,
        STAGE_REPLACE_ROLE_POLICY,
        STAGE_REPLACE_ROLE,
        STAGE_CREATE_ROLE,
        STAGE_CHECK_ROLE,
        STAGE_READ_TRUST,
        STAGE_TRUST,
        STAGE_BOUNDARY,
        STAGE_TAG_ROLE,
        STAGE_UNTAG_ROLE,
        STAGE_READ_ROLE_POLICY,
        STAGE_ROLE_POLICY,
        STAGE_SEE_NETWORK,
        STAGE_NETWORK,
        STAGE_SEE_FORMER_NETWORK,
        STAGE_DROP_NETWORK,
        STAGE_DROP_ROLE_POLICY,
        STAGE_DROP_ROLE,
        STAGE_CREATE_TABLE,
        STAGE_CHECK_TABLE, /* out of turn */
        STAGE_WAIT_TABLE,
        STAGE_PROTECT_TABLE,
        STAGE_BILL_TABLE,
        STAGE_TAG_TABLE,
        STAGE_UNTAG_TABLE,
        STAGE_EXPIRE_TABLE,
        STAGE_CHECK_EXPIRY,
        STAGE_ENCRYPT_TABLE,
        STAGE_LOOK_TABLE,
        STAGE_UNPROTECT_TABLE,
        STAGE_DELETE_TABLE,
        STAGE_WAIT_GONE,
        STAGE_COUNT
};

/* Not all of S3 has heard of a new bucket at once, and one of that name may still be on its way out. */
static const struct value *desired_at(const struct change *change, const char *path) {
        return value_path(change->desired, path);
}

static const struct value *observed_at(const struct change *change, const char *path) {
        return value_path(change->observed->spec, path);
}

static bool needs_bucket(const struct change *change) {
        return stack_has_bucket(change->desired) && !stack_has_bucket(change->observed->spec);
}

/* From now on it is ours: made, or taken over. */
static bool takes_bucket(const struct change *change) {
        return stack_has_bucket(change->desired) && (needs_bucket(change) || change->action == ACTION_ADOPT);
}

/* A new bucket is given every setting, whatever AWS's defaults are by then. */
static bool setting_differs(const struct change *change, const char *path) {
        return stack_has_bucket(change->desired) &&
               (needs_bucket(change) ||
                !value_equal(desired_at(change, path), observed_at(change, path), NULL));
}

static bool needs_access_block(const struct change *change) {
        return setting_differs(change, "bucket.publicAccessBlock");
}

static bool needs_encryption(const struct change *change) {
        return setting_differs(change, "bucket.encryption") || setting_differs(change, "bucket.kmsKey") ||
               setting_differs(change, "bucket.bucketKey");
}

static bool needs_tls(const struct change *change) {
        return setting_differs(change, "bucket.tlsOnly");
}

static const struct value *wished_role(const struct change *change) {
        return desired_at(change, "role");
}

static const struct value *seen_role(const struct change *change) {
        return observed_at(change, "role");
}

static bool needs_role(const struct change *change) {
        return execution_role_needs_creation(wished_role(change), seen_role(change));
}

static bool moves_role(const struct change *change) {
        return execution_role_needs_replacement(wished_role(change), seen_role(change));
}

static bool needs_boundary(const struct change *change) {
        return execution_role_needs_boundary(wished_role(change), seen_role(change));
}

static bool needs_trust(const struct change *change) {
        return execution_role_needs_trust(wished_role(change), seen_role(change));
}

/* An empty tag is a tag: maps of tags are never compared as values, for which it would be as good as none. */
static bool tags_differ(const struct change *change, const char *path) {
        return aws_any_tag_beyond(desired_at(change, path), observed_at(change, path), false) ||
               aws_any_tag_beyond(observed_at(change, path), desired_at(change, path), true);
}

static bool needs_bucket_tags(const struct change *change) {
        return stack_has_bucket(change->desired) &&
               (needs_bucket(change) || tags_differ(change, "bucket.tags"));
}

static bool needs_role_tags(const struct change *change) {
        return execution_role_needs_tags(wished_role(change), seen_role(change));
}

static bool needs_role_untag(const struct change *change) {
        return execution_role_needs_untag(wished_role(change), seen_role(change));
}

/* The role that we made is wanted neither as ours nor as one that is still in use. */
static bool drops_role(const struct change *change) {
        return stack_own_role(change->observed->spec) && !stack_own_role(change->desired);
}

static bool needs_role_policy(const struct change *change) {
        return execution_role_needs_policy(wished_role(change), seen_role(change));
}

static bool replaces_role_policy(const struct change *change) {
        return execution_role_replaces_policy(wished_role(change), seen_role(change));
}

/*
 * With its tags, so that there is no moment in which it has no owner, and policies that demand tags
 * of new buckets are content. That takes the right s3:TagResource. Without that right, and on
 * servers that do not know such tags, the bucket is tagged in a later stage.
 */
static int create_bucket(struct stage_turn *turn) {
        static const char *const mine[] = { "BucketAlreadyOwnedByYou", NULL };
        static const char *const mine_or_untagged[] = { "BucketAlreadyOwnedByYou", "AccessDenied",
                                                        "MalformedXML", NULL };
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct arena *arena = turn->progress->arena;
        bool tagged = !value_get_boolean(turn->progress->data, "untagged", false);
        struct aws_request request =
                s3_create_bucket(&bucket, turn->provider->region,
                                 tagged ? desired_at(turn->change, "bucket.tags") : NULL, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        /* An earlier try of ours may have made it: whose it is, its tags say in the next stage. */
        int result = stage_call(turn, &request, tagged ? mine_or_untagged : mine, &response);

        if (result == 0 && *response.error_code && !aws_failed_with(&response, mine[0])) {
                value_set_boolean(arena, stage_data(turn), "untagged", true);
                return stage_enter(turn, STAGE_CREATE_BUCKET);
        }
        if (result < 0 && aws_failed_with(&response, "BucketAlreadyExists"))
                return error_set(turn->err,
                                 "the bucket name %s is taken by another account: choose another namePrefix",
                                 bucket.name);
        return result == 0 ? STAGE_OVER : result;
}

/* The tags that the bucket shall have: PutBucketTagging replaces all, so other people's are carried along. */
static const struct value *merged_tags(const struct change *change, const struct value *there,
                                       struct arena *arena) {
        const struct value *ours = desired_at(change, "bucket.tags");
        const struct value *before = observed_at(change, "bucket.tags");
        struct value *merged = value_new_map(arena);

        for (uint32_t i = 0; i < there->count; i++) {
                const char *key = there->members[i].name;

                if (value_get(ours, key) || !value_get(before, key))
                        value_set(arena, merged, key, there->members[i].value);
        }
        for (uint32_t i = 0; i < ours->count; i++)
                value_set(arena, merged, ours->members[i].name, ours->members[i].value);
        return merged;
}

static int read_tags(struct stage_turn *turn) {
        static const char *const none[] = { "NoSuchTagSet", NULL };
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct arena *arena = turn->progress->arena;
        struct aws_request request = s3_get_bucket_tagging(&bucket);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct value *tags = value_new_map(arena);
        int result = stage_call(turn, &request, none, &response);
        const char *owner;

        if (result != 0)
                return result;
        if (!*response.error_code && s3_read_tagging(&response, arena, &tags, turn->err) < 0)
                return -1;
        if (needs_bucket(turn->change) && aws_ownership(turn->provider, tags, arena, &owner) == OWNER_OTHER)
                return error_set(
                        turn->err,
                        "the bucket %s was made meanwhile by %s: give this stack another namePrefix, or let "
                        "it share the bucket (createBucket: false)",
                        bucket.name, owner);
        value_set(arena, stage_data(turn), "tags", *merged_tags(turn->change, tags, arena));
        value_set(arena, stage_data(turn), "tagsBefore", *tags);
        return STAGE_OVER;
}

/*
 * A bucket with access control by tags (ABAC) refuses this, with a code that no document names. So whatever refuses it, S3 Control
 * is asked next, which any bucket takes; who has no right to that is told both refusals.
 */
static int write_tags(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        const struct value *tags = value_get(turn->progress->data, "tags");
        struct aws_request request = s3_put_bucket_tagging(&bucket, tags, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct error refusal = { 0 };
        struct stage_turn quiet = *turn;
        int result;

        quiet.err = &refusal;
        result = stage_call(&quiet, &request, NULL, &response);
        if (result == 0)
                return STAGE_OVER;
        if (result > 0)
                return result;
        if (response.status < 400 || response.status >= 500 || response.status == 404) {
                *turn->err = refusal;
                return -1;
        }
        value_set_text(turn->progress->arena, stage_data(turn), "tagRefusal", refusal.message);
        return stage_enter(turn, STAGE_ADD_TAGS);
}

static int explain_both(struct stage_turn *turn) {
        return error_context(
                turn->err,
                "%s; by TagResource and UntagResource, which a bucket with access control by tags (ABAC) takes "
                "alone",
                value_get_text(turn->progress->data, "tagRefusal"));
}

static int add_bucket_tags(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct arena *arena = turn->progress->arena;
        const struct value *tags =
                aws_tags_beyond(desired_at(turn->change, "bucket.tags"),
                                value_get(turn->progress->data, "tagsBefore"), false, arena);
        int result = STAGE_OVER;

        if (tags->count > 0)
                result = stage_call_over(
                        turn, s3_tag_resource(&bucket, turn->provider->partition, tags, arena), NULL);
        if (result < 0)
                return explain_both(turn);
        return result == STAGE_OVER ? stage_enter(turn, STAGE_TAKE_TAGS) : result;
}

/* Those that were there and are not among what the bucket shall have. */
static int take_tags(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct arena *arena = turn->progress->arena;
        const struct value *tags = aws_tags_beyond(value_get(turn->progress->data, "tagsBefore"),
                                                   value_get(turn->progress->data, "tags"), true, arena);
        uint32_t from = (uint32_t)value_get_integer(turn->progress->data, "tagsTaken", 0);
        struct aws_request request =
                s3_untag_resource(&bucket, turn->provider->partition, tags, &from, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result;

        if (tags->count == 0)
                return STAGE_OVER;
        result = stage_call(turn, &request, NULL, &response);
        if (result < 0)
                return explain_both(turn);
        if (result > 0)
                return result;
        value_set_integer(arena, stage_data(turn), "tagsTaken", from);
        return from < tags->count ? STEP_AGAIN : STAGE_OVER;
}

static int block_access(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);

        return stage_call_over(turn, s3_put_public_access_block(&bucket, turn->progress->arena), NULL);
}

/*
 * If a key of KMS was set since the plan, as a rule of the organisation does with new buckets, it
 * stays, unless the Stack names one. What may not come encrypted otherwise goes back with the new
 * setting, which replaces all of it.
 */
static int read_encryption(struct stage_turn *turn) {
        static const char *const none[] = { "ServerSideEncryptionConfigurationNotFoundError", NULL };
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct aws_request request = s3_get_bucket_encryption(&bucket);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, none, &response);
        struct value *encryption = NULL;
        const char *algorithm;

        if (result != 0)
                return result;
        if (!*response.error_code &&
            s3_read_encryption(&response, turn->progress->arena, &encryption, turn->err) < 0)
                return -1;
        algorithm = value_get_text(encryption, "algorithm");
        if (value_get(encryption, "blocked"))
                value_set(turn->progress->arena, stage_data(turn), "blocked",
                          *value_get(encryption, "blocked"));
        value_set_boolean(turn->progress->arena, stage_data(turn), "encrypted",
                          algorithm && *algorithm && strcmp(algorithm, STACK_ENCRYPTION) != 0);
        return STAGE_OVER;
}

static int encrypt(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);

        const char *key = value_text_of(desired_at(turn->change, "bucket.kmsKey"));

        if (!turn->provider->kms_key && value_get_boolean(turn->progress->data, "encrypted", false))
                return STAGE_OVER;
        return stage_call_over(turn,
                               s3_put_bucket_encryption(&bucket, key,
                                                        value_get(turn->progress->data, "blocked"),
                                                        turn->progress->arena),
                               NULL);
}

static int read_policy(struct stage_turn *turn) {
        static const char *const none[] = { "NoSuchBucketPolicy", NULL };
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct aws_request request = s3_get_bucket_policy(&bucket);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, none, &response);

        if (result != 0)
                return result;
        value_set_text(turn->progress->arena, stage_data(turn), "policy",
                       *response.error_code ? NULL : strbuf_text(&response.body));
        return STAGE_OVER;
}

static int write_policy(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        const char *before = value_get_text(turn->progress->data, "policy");
        json_t *statement JSON_CLEANUP =
                policy_document_tls_statement(turn->provider->partition, turn->provider->bucket);
        char *text = policy_document_with(before, statement);
        const char *kept = arena_strdup(turn->progress->arena, text);

        free(text);
        if (!kept)
                return error_set(turn->err, "the policy of the bucket %s is not a policy document: %.200s",
                                 bucket.name, before);
        return stage_call_over(turn, s3_put_bucket_policy(&bucket, kept), NULL);
}

static int create_role(struct stage_turn *turn) {
        const char *id = NULL;
        bool taken = false;
        int result = execution_role_create(turn, STACK_ROLE, wished_role(turn->change), &taken, &id);

        if (result != STAGE_OVER)
                return result;
        if (taken)
                return stage_enter(turn, STAGE_CHECK_ROLE);
        stack_note_role(turn->provider, id);
        return STAGE_OVER;
}

static int check_role(struct stage_turn *turn) {
        const char *id = NULL;
        int result = execution_role_check(
                turn, wished_role(turn->change),
                "give this stack another namePrefix, or name the role in executionRole", &id);

        if (result == STAGE_OVER)
                stack_note_role(turn->provider, id);
        return result;
}

/* As execution_role.h has it. */
static const struct value *applied_role(const struct change *change) {
        const struct value *recorded = value_get(change->recorded, "role");

        if (execution_role_is_made(recorded))
                return recorded;
        return change->observed->ownership == OWNER_SELF ? wished_role(change) : NULL;
}

static int fetch_trust(struct stage_turn *turn) {
        return execution_role_fetch_trust(turn, wished_role(turn->change));
}

static int write_trust(struct stage_turn *turn) {
        return execution_role_write_trust(turn, wished_role(turn->change), applied_role(turn->change));
}

static int fetch_role_policy(struct stage_turn *turn) {
        return execution_role_fetch_policy(turn, wished_role(turn->change));
}

static int write_boundary(struct stage_turn *turn) {
        return execution_role_write_boundary(turn, wished_role(turn->change));
}

static int tag_role(struct stage_turn *turn) {
        return execution_role_tag(turn, wished_role(turn->change), seen_role(turn->change));
}

static int untag_role(struct stage_turn *turn) {
        return execution_role_untag(turn, wished_role(turn->change), seen_role(turn->change));
}

static int write_role_policy(struct stage_turn *turn) {
        return execution_role_write_policy(turn, wished_role(turn->change), applied_role(turn->change));
}

static int make_network(struct stage_turn *turn) {
        return isolated_network_make(turn, STAGE_SEE_NETWORK);
}

static int drop_network(struct stage_turn *turn) {
        return isolated_network_remove(turn, STAGE_SEE_FORMER_NETWORK);
}

static int create_table(struct stage_turn *turn) {
        return session_table_create(turn, STAGE_CHECK_TABLE);
}

static int wait_for_table(struct stage_turn *turn) {
        return session_table_wait(turn, STAGE_CREATE_TABLE);
}

static int wait_until_gone(struct stage_turn *turn) {
        return session_table_wait_gone(turn, STAGE_UNPROTECT_TABLE);
}

static const char for_interfaces[] = "for Lambda to let go of its network interfaces";

static const char for_table[] = "for the table to take another change";

static const struct stage stages[STAGE_COUNT] = {
        [STAGE_CREATE_BUCKET] = { "s3", "for the bucket", needs_bucket, create_bucket },
        [STAGE_READ_TAGS] = { "s3", NULL, needs_bucket_tags, read_tags },
        [STAGE_WRITE_TAGS] = { "s3", NULL, needs_bucket_tags, write_tags },
        [STAGE_ADD_TAGS] = { NULL, NULL, NULL, add_bucket_tags },
        [STAGE_TAKE_TAGS] = { NULL, NULL, NULL, take_tags },
        [STAGE_BLOCK_ACCESS] = { "s3", NULL, needs_access_block, block_access },
        [STAGE_READ_ENCRYPTION] = { "s3", NULL, needs_encryption, read_encryption },
        [STAGE_ENCRYPT] = { "s3", NULL, needs_encryption, encrypt },
        [STAGE_READ_POLICY] = { "s3", NULL, needs_tls, read_policy },
        [STAGE_WRITE_POLICY] = { "s3", NULL, needs_tls, write_policy },
        [STAGE_LINEAGE] = { "s3", NULL, takes_bucket, lineage_stage_write },
        [STAGE_REPLACE_ROLE_POLICY] = { "iam", NULL, moves_role, stack_delete_role_policy },
        [STAGE_REPLACE_ROLE] = { "iam", NULL, moves_role, stack_delete_role },
        [STAGE_CREATE_ROLE] = { "iam", "for the role", needs_role, create_role },
        [STAGE_CHECK_ROLE] = { NULL, NULL, NULL, check_role },
        [STAGE_READ_TRUST] = { "iam", NULL, needs_trust, fetch_trust },
        [STAGE_TRUST] = { "iam", NULL, needs_trust, write_trust },
        [STAGE_BOUNDARY] = { "iam", NULL, needs_boundary, write_boundary },
        [STAGE_TAG_ROLE] = { "iam", NULL, needs_role_tags, tag_role },
        [STAGE_UNTAG_ROLE] = { "iam", NULL, needs_role_untag, untag_role },
        [STAGE_READ_ROLE_POLICY] = { "iam", NULL, replaces_role_policy, fetch_role_policy },
        [STAGE_ROLE_POLICY] = { "iam", NULL, needs_role_policy, write_role_policy },
        [STAGE_SEE_NETWORK] = { NULL, "for the isolated network", isolated_network_needs_make,
                                isolated_network_look },
        [STAGE_NETWORK] = { NULL, "for the isolated network", isolated_network_needs_make, make_network },
        [STAGE_SEE_FORMER_NETWORK] = { NULL, for_interfaces, isolated_network_needs_removal,
                                       isolated_network_look },
        [STAGE_DROP_NETWORK] = { NULL, for_interfaces, isolated_network_needs_removal, drop_network },
        [STAGE_DROP_ROLE_POLICY] = { "iam", NULL, drops_role, stack_delete_role_policy },
        [STAGE_DROP_ROLE] = { "iam", NULL, drops_role, stack_delete_role },
        [STAGE_CREATE_TABLE] = { "dynamodb", "for the table", session_table_needs_creation, create_table },
        [STAGE_CHECK_TABLE] = { NULL, NULL, NULL, session_table_check_owner },
        [STAGE_WAIT_TABLE] = { "dynamodb", "for the table", session_table_needs_creation, wait_for_table },
        [STAGE_PROTECT_TABLE] = { "dynamodb", for_table, session_table_needs_protection,
                                  session_table_protect },
        [STAGE_BILL_TABLE] = { "dynamodb", for_table, session_table_needs_billing, session_table_bill },
        [STAGE_TAG_TABLE] = { "dynamodb", for_table, session_table_needs_tags, session_table_tag },
        [STAGE_UNTAG_TABLE] = { "dynamodb", for_table, session_table_needs_untag, session_table_untag },
        [STAGE_EXPIRE_TABLE] = { "dynamodb", for_table, session_table_needs_expiry, session_table_expire },
        [STAGE_CHECK_EXPIRY] = { "dynamodb", NULL, session_table_needs_expiry, session_table_check_expiry },
        [STAGE_ENCRYPT_TABLE] = { "dynamodb", for_table, session_table_needs_key, session_table_encrypt },
        [STAGE_LOOK_TABLE] = { "dynamodb", NULL, session_table_needs_removal, session_table_look },
        [STAGE_UNPROTECT_TABLE] = { "dynamodb", NULL, session_table_needs_removal, session_table_unprotect },
        [STAGE_DELETE_TABLE] = { "dynamodb", NULL, session_table_needs_removal, session_table_delete },
        [STAGE_WAIT_GONE] = { "dynamodb", "for the table to go", session_table_needs_removal,
                              wait_until_gone },
};

void stack_make_cost(const struct change *change, struct cost *ret) {
        stage_cost(stages, STAGE_COUNT, change, ret);
        isolated_network_cost(change, ret);
}

int stack_make_step(struct provider *provider, const struct change *change, struct progress *progress,
                    struct observation *ret_observed, struct error *err) {
        struct observation observed = { 0 };
        struct stage_turn turn = { provider, change, progress, &observed, err };
        int result = stage_step(stages, STAGE_COUNT, &turn);

        if (result != STEP_DONE)
                return result;
        *ret_observed = (struct observation){
                .name = change->name,
                .exists = true,
                .id = provider->bucket,
                .ownership = OWNER_SELF,
                .spec = change->desired,
        };
        if (*provider->isolated.vpc) {
                struct value *extra = value_new_map(progress->arena);

                value_set_text(progress->arena, extra, ISOLATED_VPC_ID, provider->isolated.vpc);
                ret_observed->extra = extra;
        }
        return STEP_DONE;
}
