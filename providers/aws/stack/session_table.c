/* SPDX-License-Identifier: Apache-2.0 */
/* The table for sessions' records: what it shall be, what it is, and whether it holds anything. */
#include "providers/aws/stack/session_table.h"

#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/dynamodb.h"
#include "providers/aws/services/tagging.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/records_table.h"
#include "providers/aws/shared/stage_call.h"
#include "providers/aws/stack/stack.h"

#include <inttypes.h>
#include <string.h>

#define ENCRYPTION "KMS"

const char *session_table_declared(const struct provider *provider) {
        return value_text_of(value_path(provider->stack, SESSIONS_TABLE));
}

bool session_table_is_managed(const struct provider *provider) {
        return session_table_declared(provider) &&
               value_get_boolean(value_get(provider->stack, SESSIONS), "createTable", true);
}

bool session_table_has_settings(const struct value *spec) {
        return value_path(spec, SESSIONS ".expires") != NULL;
}

const char *session_table_own(const struct value *spec) {
        return session_table_has_settings(spec) ? value_text_of(value_path(spec, SESSIONS_TABLE))
                                                : value_get_text(spec, STACK_FORMER_TABLE);
}

void session_table_desire(const struct provider *provider, const struct observation *observed,
                          const struct value *recorded, struct arena *arena, struct value *spec) {
        const char *name = session_table_declared(provider), *own = session_table_own(recorded);
        struct value *sessions = value_new_map(arena);

        if (!name)
                return;
        value_set_text(arena, sessions, "table", name);
        if (session_table_is_managed(provider)) {
                const char *key =
                        aws_desired_key(provider, value_text_of(value_path(recorded, SESSIONS ".kmsKey")));

                value_set_boolean(arena, sessions, "onDemand", true);
                value_set_boolean(arena, sessions, "expires", true);
                value_set_boolean(arena, sessions, "deletionProtection", true);
                value_set_text(arena, sessions, "encryption", ENCRYPTION);
                value_set_text(arena, sessions, "kmsKey", key);
                value_set(arena, sessions, "tags", *stack_tags(provider, arena));
        } else if (texts_same(own, name) && (!observed->spec || session_table_own(observed->spec))) {
                value_set_text(arena, spec, STACK_FORMER_TABLE, own);
        }
        value_set(arena, spec, SESSIONS, *sessions);
}

/* Reading */

static const char *const no_table[] = { DYNAMODB_NO_TABLE, NULL };

const char *session_table_arn(const struct provider *provider, const char *name, struct arena *arena) {
        return arena_printf(arena, "arn:%s:dynamodb:%s:%s:table/%s", provider->partition, provider->region,
                            provider->account, name);
}

/* *ret is left NULL where there is no such table, or it is on its way out. Borrowed from the response. */
static int describe_table(struct provider *provider, const char *name, struct aws_response *response,
                          struct arena *arena, const json_t **ret, struct error *err) {
        struct aws_request request = dynamodb_describe_table(name, arena);
        const json_t *table;

        if (aws_call_accepting(provider->client, &request, no_table, response, err) < 0)
                return -1;
        if (*response->error_code)
                return 0;
        table = json_object_get(response->json, "Table");
        if (!json_text(table, "TableStatus"))
                return error_set(err, "the answer to dynamodb DescribeTable says nothing of the table %s",
                                 name);
        if (!aws_json_says(table, "TableStatus", "DELETING"))
                *ret = table;
        return 0;
}

static void set_settings(const struct provider *provider, const json_t *table, const struct value *recorded,
                         struct arena *arena, struct value *spec) {
        const json_t *billing = json_object_get(table, "BillingModeSummary"),
                     *sse = json_object_get(table, "SSEDescription");
        bool encrypted = sse && !aws_json_says(sse, "Status", "DISABLED") &&
                         !aws_json_says(sse, "Status", "DISABLING");

        value_set_boolean(arena, spec, "onDemand", aws_json_says(billing, "BillingMode", "PAY_PER_REQUEST"));
        value_set_boolean(arena, spec, "deletionProtection",
                          json_is_true(json_object_get(table, "DeletionProtectionEnabled")));
        value_set_text(arena, spec, "encryption", encrypted ? ENCRYPTION : NULL);
        value_set_text(arena, spec, "kmsKey",
                       aws_observed_key(provider, encrypted ? json_text(sse, "KMSMasterKeyArn") : NULL,
                                        value_get_text(recorded, "kmsKey")));
}

static int read_expiry(struct provider *provider, const char *name, struct arena *arena, struct value *spec,
                       struct error *err) {
        struct aws_request request = dynamodb_describe_expiry(name, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const json_t *expiry;
        bool on;

        if (aws_call(provider->client, &request, &response, err) < 0)
                return -1;
        expiry = json_object_get(response.json, "TimeToLiveDescription");
        on = aws_json_says(expiry, "TimeToLiveStatus", "ENABLED") ||
             aws_json_says(expiry, "TimeToLiveStatus", "ENABLING");
        value_set_boolean(arena, spec, "expires",
                          on && aws_json_says(expiry, "AttributeName", RECORDS_TABLE_EXPIRES));
        return 0;
}

static int read_table_tags(struct provider *provider, const char *name, struct arena *arena,
                           struct value **ret, struct error *err) {
        const char *arn = session_table_arn(provider, name, arena);
        struct aws_paging paging = { 0 };
        struct value *tags = value_new_map(arena);

        do {
                struct aws_request request = dynamodb_list_tags(arn, paging.token, arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const struct value *page;

                if (aws_call(provider->client, &request, &response, err) < 0)
                        return -1;
                page = aws_tags_from_json(json_object_get(response.json, "Tags"), arena);
                for (uint32_t i = 0; i < page->count; i++)
                        value_set(arena, tags, page->members[i].name, page->members[i].value);
                if (aws_next_page(&response, "NextToken", &paging, arena, err) < 0)
                        return -1;
        } while (paging.token);
        *ret = tags;
        return 0;
}

int session_table_read(struct provider *provider, const char *name, const struct value *recorded,
                       struct arena *arena, struct session_table_sight *ret, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct value *spec = value_new_map(arena), *tags;
        const json_t *table = NULL;

        *ret = (struct session_table_sight){ 0 };
        if (describe_table(provider, name, &response, arena, &table, err) < 0)
                return error_context(err, "table %s", name);
        if (!table)
                return 0;
        if (texts_same(name, session_table_declared(provider)) &&
            records_table_check_key(name, table, err) < 0)
                return -1;
        value_set_text(arena, spec, "table", name);
        set_settings(provider, table, recorded, arena, spec);
        if (read_expiry(provider, name, arena, spec, err) < 0 ||
            read_table_tags(provider, name, arena, &tags, err) < 0)
                return error_context(err, "table %s", name);
        *ret = (struct session_table_sight){ spec, tags };
        return 0;
}

void session_table_note(struct provider *provider, const struct value *recorded) {
        const char *own = session_table_own(recorded),
                   *last = own ? own : value_text_of(value_path(recorded, SESSIONS_TABLE));

        provider->recorded_table = last ? arena_strdup(provider->arena, last) : NULL;
}

void session_table_read_ahead(struct provider *provider, const struct value *recorded, struct arena *arena) {
        const char *own = session_table_own(recorded);
        const char *name = own ? own : session_table_declared(provider);

        if (name) {
                const struct aws_request requests[] = {
                        dynamodb_describe_table(name, arena),
                        dynamodb_describe_expiry(name, arena),
                        dynamodb_list_tags(session_table_arn(provider, name, arena), NULL, arena),
                };

                for (size_t i = 0; i < (own ? sizeof(requests) / sizeof(requests[0]) : 1); i++)
                        aws_ahead(provider->client, &requests[i]);
        }
}

int session_table_check(struct provider *provider, const char *name, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const json_t *table = NULL;

        if (describe_table(provider, name, &response, arena, &table, err) < 0)
                return error_context(err, "table %s", name);
        if (table)
                return records_table_check_key(name, table, err);
        return error_set(
                err,
                "the table %s does not exist, and this stack does not make it (sessions.createTable: "
                "false): apply the stack that owns it first, or set createTable: true",
                name);
}

int session_table_note_orphans(struct provider *provider, const char *own, struct arena *arena,
                               struct error *err) {
        struct tagged_resource *resources;
        size_t count;

        if (tagging_list(provider->client, "dynamodb:table", provider->stack_name, arena, &resources, &count,
                         err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                const char *place = strstr(resources[i].arn, ":table/");
                const char *name = place ? place + strlen(":table/") : NULL;
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const json_t *table = NULL;

                if (!name || texts_same(name, own) || texts_same(name, session_table_declared(provider)) ||
                    !aws_tags_name(resources[i].tags, "Stack", provider->stack_name))
                        continue;
                /* The index knows a table for a while after it is gone. */
                if (describe_table(provider, name, &response, arena, &table, err) < 0)
                        return error_context(err, "table %s", name);
                if (table)
                        lineage_orphan(provider,
                                       &(struct orphan){ .kind = KIND_STACK,
                                                         .name = provider->stack_name,
                                                         .part = arena_printf(arena, "table %s", name),
                                                         .id = resources[i].arn,
                                                         .lineage = aws_lineage_of(resources[i].tags) });
        }
        return 0;
}

/* The guard */

static struct aws_request count_request(const char *name, json_t *after, struct arena *arena) {
        return dynamodb_count(name, "attribute_not_exists(#x)",
                              json_pack("{s:s}", "#x", RECORDS_TABLE_EXPIRES), after, arena);
}

/* Records that last: an Idempotency-Key is gone within a day by itself. Counts up to the first page that has any. */
static int count_records(struct provider *provider, const char *name, struct arena *arena,
                         int64_t *ret_records, bool *ret_more, struct error *err) {
        json_t *last = NULL;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_paging paging = { 0 };

        *ret_records = 0;
        do {
                struct aws_request request = count_request(name, json_incref(last), arena);
                const char *place;

                aws_response_release(&response);
                if (aws_call_accepting(provider->client, &request, no_table, &response, err) < 0)
                        return error_context(err, "table %s", name);
                *ret_records += json_integer_or(response.json, "Count", 0);
                last = json_object_get(response.json, "LastEvaluatedKey");
                *ret_more = last != NULL;
                place = last ? aws_json_text(json_incref(last), arena) : NULL;
                if (aws_paging_next(&paging, place, arena, err) < 0)
                        return -1;
        } while (last && *ret_records == 0);
        return 0;
}

int session_table_ask(struct provider *provider, struct change *change, struct arena *arena,
                      struct error *err) {
        const char *name = session_table_own(change->observed->spec);
        int64_t records;
        bool more = false;

        provider->table_in_use = false;
        if (!name || (change->action != ACTION_DELETE && !session_table_needs_removal(change)))
                return 0;
        if (count_records(provider, name, arena, &records, &more, err) < 0)
                return -1;
        if (records == 0)
                return 0;
        provider->table_in_use = true;
        aws_refuse(
                change,
                (struct refusal){
                        .id = "table-not-empty",
                        .message = arena_printf(
                                arena, "the table %s holds %s%" PRId64 " %s of sessions and what ran in them",
                                name, more ? "at least " : "", records, records == 1 ? "record" : "records"),
                        .remedy = arena_printf(
                                arena,
                                "end those sessions and delete their workspaces, or delete the table with "
                                "everything in it: --allow table-not-empty:%s",
                                change->address),
                },
                arena);
        return 0;
}

/*
 * A record that came between the question and the deletion must not be deleted. Records that were
 * reported go, as it was allowed. A page a turn.
 */
int session_table_look(struct stage_turn *turn) {
        const char *name = session_table_own(turn->change->observed->spec);
        struct arena *arena = turn->progress->arena;
        const char *place = value_get_text(turn->progress->data, "tablePlace");
        struct aws_request request = count_request(name, place ? json_loads(place, 0, NULL) : NULL, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        json_t *last;
        int result;

        if (turn->provider->table_in_use)
                return STAGE_OVER;
        result = stage_call(turn, &request, no_table, &response);
        if (result != 0)
                return result;
        if (json_integer_or(response.json, "Count", 0) > 0)
                return error_set(
                        turn->err,
                        "the table %s is not empty: a session began since it was looked at; do it again to "
                        "see how much there is",
                        name);
        last = json_object_get(response.json, "LastEvaluatedKey");
        if (!last)
                return STAGE_OVER;
        value_unset(stage_data(turn), "tablePlace");
        value_set_text(arena, stage_data(turn), "tablePlace", aws_json_text(json_incref(last), arena));
        return stage_enter(turn, turn->progress->stage);
}
