/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the table, mending it, and taking it down.
 *
 * A table that is not ACTIVE takes no change (ResourceInUseException), and UpdateTable takes one at
 * a time, each of which makes it UPDATING for a while. So a change is tried again for a minute, and
 * a slow one, another key, comes last. What CreateTable makes has all of its settings and tags but
 * for the expiry, which has a call of its own.
 */
#include "providers/aws/stack/session_table.h"

#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/dynamodb.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/records_table.h"
#include "providers/aws/shared/stage_call.h"

#define DEADLINE_MS (10 * 60 * 1000)
#define POLL_MS 1000
/* How often a table that goes again and again is waited for. */
#define AGAIN_MAX 20

static const char *const gone[] = { DYNAMODB_NO_TABLE, NULL };
static const char *const busy[] = { DYNAMODB_IN_USE, NULL };

static const char *wished_name(const struct change *change) {
        return value_text_of(value_path(change->desired, SESSIONS_TABLE));
}

/* Made new, under this name: what there is has another one, or no table is there. */
bool session_table_needs_creation(const struct change *change) {
        return session_table_has_settings(change->desired) &&
               !(session_table_own(change->observed->spec) &&
                 texts_same(session_table_own(change->observed->spec), wished_name(change)));
}

/* Of a table that is there. */
static bool setting_differs(const struct change *change, const char *path) {
        return session_table_has_settings(change->desired) && !session_table_needs_creation(change) &&
               !value_equal(value_path(change->desired, path), value_path(change->observed->spec, path),
                            NULL);
}

bool session_table_needs_protection(const struct change *change) {
        return setting_differs(change, SESSIONS ".deletionProtection");
}

bool session_table_needs_billing(const struct change *change) {
        return setting_differs(change, SESSIONS ".onDemand");
}

bool session_table_needs_expiry(const struct change *change) {
        return session_table_needs_creation(change) || setting_differs(change, SESSIONS ".expires");
}

bool session_table_needs_key(const struct change *change) {
        return setting_differs(change, SESSIONS ".encryption") || setting_differs(change, SESSIONS ".kmsKey");
}

static bool tags_differ(const struct change *change, bool keys_only) {
        const struct value *desired = value_path(change->desired, SESSIONS_TAGS),
                           *observed = value_path(change->observed->spec, SESSIONS_TAGS);

        if (!session_table_has_settings(change->desired) || session_table_needs_creation(change))
                return false;
        return keys_only ? aws_any_tag_beyond(observed, desired, true)
                         : aws_any_tag_beyond(desired, observed, false);
}

bool session_table_needs_tags(const struct change *change) {
        return tags_differ(change, false);
}

bool session_table_needs_untag(const struct change *change) {
        return tags_differ(change, true);
}

/* Ours, and wanted neither as managed nor as one that is kept in mind. */
bool session_table_needs_removal(const struct change *change) {
        const char *own = session_table_own(change->observed->spec);

        return own && !texts_same(own, session_table_own(change->desired));
}

bool session_table_is_there(const struct change *change) {
        return session_table_own(change->observed->spec) != NULL;
}

static int explain(struct stage_turn *turn, const char *name) {
        return error_context(turn->err, "table %s", name);
}

int session_table_create(struct stage_turn *turn, int check) {
        const struct value *wish = value_get(turn->change->desired, SESSIONS);
        const struct dynamodb_table table = {
                .name = wished_name(turn->change),
                .partition = RECORDS_TABLE_SHARD,
                .sort = RECORDS_TABLE_ID,
                .kms_key = value_get_text(wish, "kmsKey"),
                .tags = value_get(wish, "tags"),
                .protected = true,
        };
        struct aws_request request = dynamodb_create_table(&table, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        /* An earlier try of ours may have made it: whose it is, its tags say. */
        int result = stage_call(turn, &request, busy, &response);

        if (result < 0)
                return explain(turn, table.name);
        if (result > 0)
                return result;
        return *response.error_code ? stage_enter(turn, check) : STAGE_OVER;
}

int session_table_check_owner(struct stage_turn *turn) {
        const char *name = wished_name(turn->change), *owner = NULL;
        struct arena *arena = turn->progress->arena;
        struct aws_request request =
                dynamodb_list_tags(session_table_arn(turn->provider, name, arena), NULL, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        /*
         * A table that is being deleted has no tags any more: the next stage sees that, and comes
         * back.
         */
        int result = stage_call(turn, &request, gone, &response);

        if (result < 0)
                return explain(turn, name);
        if (result > 0 || *response.error_code)
                return result > 0 ? result : STAGE_OVER;
        if (aws_ownership(turn->provider, aws_tags_from_json(json_object_get(response.json, "Tags"), arena),
                          arena, &owner) == OWNER_SELF)
                return STAGE_OVER;
        return error_set(
                turn->err,
                "the table %s already exists and belongs to %s: name another one in sessions.table, or use "
                "it as it is (sessions.createTable: false)",
                name, owner ? owner : "no stack that Berth knows");
}

int session_table_wait(struct stage_turn *turn, int create) {
        const char *name = wished_name(turn->change);
        struct aws_request request = dynamodb_describe_table(name, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, gone, &response);
        const json_t *table = json_object_get(response.json, "Table");

        if (result < 0)
                return explain(turn, name);
        if (result > 0)
                return result;
        if (*response.error_code) {
                /*
                 * It was being deleted when it should be made; or was just made, and not all of AWS
                 * has heard of it.
                 */
                result = stage_start_over(turn, create, "tableAgain", AGAIN_MAX);
                if (result != STAGE_OVER)
                        return result;
                return error_set(turn->err, "the table %s does not appear: try again later", name);
        }
        if (aws_json_says(table, "TableStatus", "ACTIVE"))
                return records_table_check_key(name, table, turn->err) < 0 ? -1 : STAGE_OVER;
        if (stage_elapsed_ms(turn) > DEADLINE_MS)
                return error_set(
                        turn->err, "the table %s is still %s after 10 minutes: try again later", name,
                        json_text(table, "TableStatus") ? json_text(table, "TableStatus") : "not there");
        return stage_wait(turn, POLL_MS);
}

/* A change of what is there already. */
static int update(struct stage_turn *turn, struct aws_request request) {
        int result = stage_call_over(turn, request, NULL);

        return result < 0 ? explain(turn, wished_name(turn->change)) : result;
}

int session_table_protect(struct stage_turn *turn) {
        return update(turn, dynamodb_protect_table(wished_name(turn->change), true, turn->progress->arena));
}

int session_table_bill(struct stage_turn *turn) {
        return update(turn, dynamodb_pay_per_request(wished_name(turn->change), turn->progress->arena));
}

int session_table_encrypt(struct stage_turn *turn) {
        return update(turn, dynamodb_encrypt_table(
                                    wished_name(turn->change),
                                    value_text_of(value_path(turn->change->desired, SESSIONS ".kmsKey")),
                                    turn->progress->arena));
}

/* ValidationException says that it is on already, and as well that it cannot be: the next stage sees which. */
int session_table_expire(struct stage_turn *turn) {
        static const char *const invalid[] = { DYNAMODB_INVALID, NULL };
        const char *name = wished_name(turn->change);
        int result = stage_call_over(
                turn, dynamodb_set_expiry(name, RECORDS_TABLE_EXPIRES, true, turn->progress->arena), invalid);

        return result < 0 ? explain(turn, name) : result;
}

int session_table_check_expiry(struct stage_turn *turn) {
        const char *name = wished_name(turn->change);
        struct aws_request request = dynamodb_describe_expiry(name, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, NULL, &response);
        const json_t *expiry = json_object_get(response.json, "TimeToLiveDescription");

        if (result < 0)
                return explain(turn, name);
        if (result > 0)
                return result;
        if (aws_json_says(expiry, "AttributeName", RECORDS_TABLE_EXPIRES) &&
            (aws_json_says(expiry, "TimeToLiveStatus", "ENABLED") ||
             aws_json_says(expiry, "TimeToLiveStatus", "ENABLING")))
                return STAGE_OVER;
        return error_set(
                turn->err,
                "the table %s cannot be told now to delete what has expired: DynamoDB takes a change of a "
                "table's TTL once an hour, and one attribute at a time; it has \"%s\" (%s). Switch that off "
                "where it is another one, and apply again later",
                name, json_text(expiry, "AttributeName") ? json_text(expiry, "AttributeName") : "none",
                json_text(expiry, "TimeToLiveStatus") ? json_text(expiry, "TimeToLiveStatus") : "?");
}

int session_table_tag(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const char *arn = session_table_arn(turn->provider, wished_name(turn->change), arena);
        const struct value *tags =
                aws_tags_beyond(value_path(turn->change->desired, SESSIONS_TAGS),
                                value_path(turn->change->observed->spec, SESSIONS_TAGS), false, arena);

        return update(turn, dynamodb_tag(arn, tags, arena));
}

int session_table_untag(struct stage_turn *turn) {
        struct arena *arena = turn->progress->arena;
        const char *arn = session_table_arn(turn->provider, wished_name(turn->change), arena);
        const struct value *tags =
                aws_tags_beyond(value_path(turn->change->observed->spec, SESSIONS_TAGS),
                                value_path(turn->change->desired, SESSIONS_TAGS), true, arena);

        return update(turn, dynamodb_untag(arn, tags, arena));
}

/* Taking it down */

static const char *own_name(const struct stage_turn *turn) {
        return session_table_own(turn->change->observed->spec);
}

/* A table in use is waited for by the last of these stages, which comes back here. */
static const char *const gone_or_busy[] = { DYNAMODB_NO_TABLE, DYNAMODB_IN_USE, NULL };

int session_table_unprotect(struct stage_turn *turn) {
        int result = stage_call_over(
                turn, dynamodb_protect_table(own_name(turn), false, turn->progress->arena), gone_or_busy);

        return result < 0 ? explain(turn, own_name(turn)) : result;
}

int session_table_delete(struct stage_turn *turn) {
        int result = stage_call_over(turn, dynamodb_delete_table(own_name(turn), turn->progress->arena),
                                     gone_or_busy);

        return result < 0 ? explain(turn, own_name(turn)) : result;
}

int session_table_wait_gone(struct stage_turn *turn, int unprotect) {
        const char *name = own_name(turn);
        struct aws_request request = dynamodb_describe_table(name, turn->progress->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, gone, &response);

        if (result < 0)
                return explain(turn, name);
        if (result > 0 || *response.error_code)
                return result > 0 ? result : STAGE_OVER;
        if (aws_json_says(json_object_get(response.json, "Table"), "TableStatus", "ACTIVE")) {
                result = stage_start_over(turn, unprotect, "tableStays", AGAIN_MAX);
                if (result != STAGE_OVER)
                        return result;
                return error_set(turn->err,
                                 "the table %s stays: DynamoDB says that it is deleted, and it is not", name);
        }
        if (stage_elapsed_ms(turn) > DEADLINE_MS)
                return error_set(turn->err, "the table %s is not gone after 10 minutes: do it again later",
                                 name);
        return stage_wait(turn, POLL_MS);
}
