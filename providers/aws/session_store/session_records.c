/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An item of the table is a record:
 *
 *      shard    "STACK/TABLE/C": the partition key. C is the first character of the record's key where that is a hexadecimal digit, as
 *               of all that belongs to an owner, whose digest its keys begin with; else "-"
 *      id       the record's key: the sort key, in whose order a partition is listed
 *      version, value
 *      expires  where the record says when it may go: DynamoDB deletes it some time after that, and until then nobody here sees it
 *
 * So one owner's records of a table lie in one partition key, and a list of them is a Query;
 * sixteen of them have the load of all owners, and DynamoDB divides each further by sort key where
 * it is hot. A list over all owners (an engine that starts) is seventeen lists, in order. There is
 * no Scan.
 *
 * Every write is a transaction, even of one change: by its token a try whose answer was lost is
 * made again as often as needed, and is answered as the first one was. A plain conditional write
 * could not be told from another writer's then. Versions count in the table.
 */
#include "providers/aws/session_store/session_records.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/dynamodb.h"
#include "providers/aws/shared/records_table.h"
#include "sessions/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS "0123456789abcdef"
#define SHARD_OTHER '-'
#define PAGE_MAX 1000
/* Of a write that others' writes of the same items keep from being made: some 3 s. */
#define CONFLICTS_MAX 8
#define CONFLICT_WAIT_MS 25
/* Keys are printable ASCII: nothing printable comes before the one, and DEL after all that begins with a prefix. */
#define FIRST_KEY " "
#define BEHIND_ALL "\x7f"

struct session_records {
        struct session_store store; /* first */
        struct aws_client *client;
        char *table, *stack;
};

static const char *const table_names[SESSION_TABLE_COUNT] = {
        [SESSION_TABLE_SESSIONS] = "sessions",
        [SESSION_TABLE_CONVERSATIONS] = "conversations",
        [SESSION_TABLE_EXECUTIONS] = "executions",
        [SESSION_TABLE_KEYS] = "keys",
};

static char shard_of(const char *key) {
        return *key && strchr(SHARDS, *key) ? *key : SHARD_OTHER;
}

static const char *shard_text(const struct session_records *records, enum session_table table, char shard,
                              struct arena *arena) {
        return arena_printf(arena, "%s/%s/%c", records->stack, table_names[table], shard);
}

static json_t *key_json(const struct session_records *records, enum session_table table, const char *key,
                        struct arena *arena) {
        return json_checked(json_pack("{s:o, s:o}", RECORDS_TABLE_SHARD,
                                      dynamodb_text(shard_text(records, table, shard_of(key), arena)),
                                      RECORDS_TABLE_ID, dynamodb_text(key)));
}

static uint64_t now_seconds(const struct session_records *records) {
        const struct clock *clock = aws_client_clock(records->client);

        return (uint64_t)(clock->wall_ms(clock) / 1000);
}

/* Reading */

/* 1: the item, in the arena; 0: it has expired. */
static int read_item(const struct session_records *records, enum session_table table, const json_t *json,
                     struct arena *arena, struct session_item *ret, struct error *err) {
        const char *key = dynamodb_text_of(json, RECORDS_TABLE_ID);
        const char *value = dynamodb_text_of(json, RECORDS_TABLE_VALUE);
        uint64_t version, expires;

        if (!key || !value || dynamodb_number_of(json, RECORDS_TABLE_VERSION, &version) < 0)
                return error_set(err, "a record of the table %s is corrupt: %s", records->table,
                                 key ? key : "it has no " RECORDS_TABLE_ID);
        if (dynamodb_number_of(json, RECORDS_TABLE_EXPIRES, &expires) == 0 && expires <= now_seconds(records))
                return 0;
        *ret = (struct session_item){ .table = table,
                                      .key = arena_strdup(arena, key),
                                      .value = arena_strdup(arena, value),
                                      .version = version };
        return 1;
}

static int records_get(struct session_store *store, enum session_table table, const char *key,
                       struct arena *arena, struct session_item *ret, struct error *err) {
        struct session_records *records = (struct session_records *)store;
        struct aws_request request =
                dynamodb_get_item(records->table, key_json(records, table, key, arena), arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const json_t *item;

        if (aws_call(records->client, &request, &response, err) < 0)
                return error_context(err, "sessions' records");
        item = json_object_get(response.json, "Item");
        if (!item)
                return 0;
        if (!texts_same(dynamodb_text_of(item, RECORDS_TABLE_ID), key))
                return error_set(err, "the table %s gave another record than %s", records->table, key);
        return read_item(records, table, item, arena, ret, err);
}

struct listing {
        struct session_records *records;
        enum session_table table;
        const char *prefix, *after; /* `after` may be NULL */
        bool backwards;
        size_t limit;
        struct arena *arena;
        struct session_item *items;
        size_t count;
};

/* The bounds of a Query, both of them within it; false where nothing can lie between them. */
static bool bounds_of(const struct listing *listing, const char **ret_low, const char **ret_high) {
        const char *low = *listing->prefix ? listing->prefix : FIRST_KEY;
        const char *high = arena_printf(listing->arena, "%s" BEHIND_ALL, listing->prefix);
        const char *after = listing->after;

        if (after && !listing->backwards && strcmp(after, low) > 0)
                low = after;
        if (after && listing->backwards && strcmp(after, high) < 0)
                high = after;
        *ret_low = low;
        *ret_high = high;
        return strcmp(low, high) <= 0;
}

/* Takes one page. `last` is the key that the page before ended with; *ret_last of this one, NULL where it is the last page. */
static int list_page(struct listing *listing, char shard, const char *low, const char *high, size_t want,
                     const char *last, const char **ret_last, struct error *err) {
        struct session_records *records = listing->records;
        const char *text = shard_text(records, listing->table, shard, listing->arena);
        const struct dynamodb_query query = {
                .table = records->table,
                .condition = "#s = :s AND #i BETWEEN :l AND :h",
                .names = json_pack("{s:s, s:s}", "#s", RECORDS_TABLE_SHARD, "#i", RECORDS_TABLE_ID),
                .values = json_pack("{s:o, s:o, s:o}", ":s", dynamodb_text(text), ":l", dynamodb_text(low),
                                    ":h", dynamodb_text(high)),
                .after = last ? json_pack("{s:o, s:o}", RECORDS_TABLE_SHARD, dynamodb_text(text),
                                          RECORDS_TABLE_ID, dynamodb_text(last))
                              : NULL,
                .backwards = listing->backwards,
                .limit = want < PAGE_MAX ? want : PAGE_MAX,
        };
        struct aws_request request = dynamodb_query(&query, listing->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const json_t *items, *item;
        const char *next;
        size_t i;

        if (aws_call(records->client, &request, &response, err) < 0)
                return error_context(err, "sessions' records");
        items = json_object_get(response.json, "Items");
        if (!json_is_array(items))
                return error_set(err, "the answer to dynamodb Query has no Items");
        json_array_foreach (items, i, item) {
                const char *key = dynamodb_text_of(item, RECORDS_TABLE_ID);
                struct session_item read;
                int found;

                if (!key || strcmp(key, low) < 0 || strcmp(key, high) > 0)
                        return error_set(err, "the table %s gave other records than were asked for",
                                         records->table);
                if (listing->count == listing->limit || !text_begins_with(key, listing->prefix) ||
                    (listing->after && strcmp(key, listing->after) == 0))
                        continue;
                found = read_item(records, listing->table, item, listing->arena, &read, err);
                if (found < 0)
                        return -1;
                if (found == 0)
                        continue;
                listing->items =
                        array_grow(listing->arena, listing->items, listing->count, sizeof(*listing->items));
                listing->items[listing->count++] = read;
        }
        next = dynamodb_text_of(json_object_get(response.json, "LastEvaluatedKey"), RECORDS_TABLE_ID);
        /* Onwards, whatever the answer says: else it would have no end. */
        if (next && last && (listing->backwards ? strcmp(next, last) >= 0 : strcmp(next, last) <= 0))
                return error_set(err, "the table %s gives the same records again", records->table);
        *ret_last = next ? arena_strdup(listing->arena, next) : NULL;
        return 0;
}

/* Adds what the shard has, until `limit` is reached. */
static int list_shard(struct listing *listing, char shard, struct error *err) {
        const char *low, *high, *last = NULL;

        if (!bounds_of(listing, &low, &high))
                return 0;
        do {
                /* Both bounds are within a Query, `after` is not asked for. */
                size_t want = listing->limit - listing->count + (listing->after && !last ? 1 : 0);

                if (list_page(listing, shard, low, high, want, last, &last, err) < 0)
                        return -1;
        } while (last && listing->count < listing->limit);
        return 0;
}

static int compare_items(const void *a, const void *b) {
        return strcmp(((const struct session_item *)a)->key, ((const struct session_item *)b)->key);
}

static int compare_keys_backwards(const void *a, const void *b) {
        return compare_items(b, a);
}

/*
 * Of all shards. Those of the digits follow one another in the order of keys; what the other one has lies anywhere between them, so
 * as much of it is read as may be needed, and put in its place.
 */
static int list_all(struct listing *listing, struct error *err) {
        struct listing others = *listing;
        size_t shards = strlen(SHARDS);

        if (list_shard(&others, SHARD_OTHER, err) < 0)
                return -1;
        for (size_t i = 0; i < shards && listing->count < listing->limit; i++) {
                char shard = listing->backwards ? SHARDS[shards - 1 - i] : SHARDS[i];

                if (listing->after &&
                    (listing->backwards ? shard > *listing->after : shard < *listing->after))
                        continue;
                if (list_shard(listing, shard, err) < 0)
                        return -1;
        }
        for (size_t i = 0; i < others.count; i++) {
                listing->items =
                        array_grow(listing->arena, listing->items, listing->count, sizeof(*listing->items));
                listing->items[listing->count++] = others.items[i];
        }
        if (listing->count > 0)
                qsort(listing->items, listing->count, sizeof(*listing->items),
                      listing->backwards ? compare_keys_backwards : compare_items);
        if (listing->count > listing->limit)
                listing->count = listing->limit;
        return 0;
}

static int records_list(struct session_store *store, enum session_table table, const char *prefix,
                        const char *after, bool backwards, size_t limit, struct arena *arena,
                        struct session_item **ret, size_t *ret_count, struct error *err) {
        struct listing listing = {
                .records = (struct session_records *)store,
                .table = table,
                .prefix = prefix,
                .after = after,
                .backwards = backwards,
                .limit = limit,
                .arena = arena,
        };

        if (limit > 0 &&
            (*prefix ? list_shard(&listing, shard_of(prefix), err) : list_all(&listing, err)) < 0)
                return -1;
        *ret = listing.items;
        *ret_count = listing.count;
        return 0;
}

/* Writing */

static void add_name(json_t *names, const char *placeholder, const char *name) {
        json_put(names, placeholder, json_string(name));
}

/* An expired record does not exist, whether or not DynamoDB has deleted it. NULL: no condition. */
static const char *condition_of(const struct session_records *records, const struct session_change *change,
                                json_t *names, json_t *values) {
        if (change->expect == SESSION_EXPECT_NOTHING)
                return NULL;
        add_name(names, "#x", RECORDS_TABLE_EXPIRES);
        json_put(values, ":now", dynamodb_number(now_seconds(records)));
        if (change->expect == SESSION_EXPECT_ABSENT) {
                add_name(names, "#i", RECORDS_TABLE_ID);
                return "attribute_not_exists(#i) OR #x <= :now";
        }
        add_name(names, "#n", RECORDS_TABLE_VERSION);
        json_put(values, ":n", dynamodb_number(change->version));
        return "#n = :n AND (attribute_not_exists(#x) OR #x > :now)";
}

/* Sets the version to what is known to come, and counts it up in the table where nothing is known of it. */
static const char *update_of(const struct session_change *change, json_t *names, json_t *values,
                             struct arena *arena) {
        int64_t expires_ms = record_expires_ms(change->table, change->value);
        bool counts = change->expect == SESSION_EXPECT_NOTHING;
        uint64_t version = change->expect == SESSION_EXPECT_VERSION ? change->version + 1 : 1;

        add_name(names, "#n", RECORDS_TABLE_VERSION);
        add_name(names, "#v", RECORDS_TABLE_VALUE);
        add_name(names, "#x", RECORDS_TABLE_EXPIRES);
        json_put(values, ":v", dynamodb_text(change->value));
        json_put(values, counts ? ":one" : ":to", dynamodb_number(version));
        if (expires_ms > 0)
                json_put(values, ":x", dynamodb_number((uint64_t)(expires_ms + 999) / 1000));
        return arena_printf(arena, "SET #v = :v%s%s%s%s", counts ? "" : ", #n = :to",
                            expires_ms > 0 ? ", #x = :x" : "", expires_ms > 0 ? "" : " REMOVE #x",
                            counts ? " ADD #n :one" : "");
}

static json_t *change_json(const struct session_records *records, const struct session_change *change,
                           struct arena *arena) {
        json_t *names = json_checked(json_object()), *values = json_checked(json_object());
        const char *condition = condition_of(records, change, names, values);
        json_t *body = json_checked(json_pack("{s:s, s:o}", "TableName", records->table, "Key",
                                              key_json(records, change->table, change->key, arena)));

        if (change->value)
                json_put(body, "UpdateExpression", json_string(update_of(change, names, values, arena)));
        if (condition)
                json_put(body, "ConditionExpression", json_string(condition));
        /* Empty ones are not taken. */
        if (json_object_size(names) > 0)
                json_put(body, "ExpressionAttributeNames", json_incref(names));
        if (json_object_size(values) > 0)
                json_put(body, "ExpressionAttributeValues", json_incref(values));
        json_decref(names);
        json_decref(values);
        return json_checked(json_pack("{s:o}", change->value ? "Update" : "Delete", body));
}

/* A token that cannot be made twice. */
static const char *new_token(struct arena *arena) {
        uint8_t bytes[16];
        char *text = arena_alloc(arena, 2 * sizeof(bytes) + 1);

        random_bytes(bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++)
                snprintf(text + 2 * i, 3, "%02x", bytes[i]);
        return text;
}

/* Others' writes of the same items were under way, or there were too many: nothing was written, and it may be the next time. */
static bool may_be_made_later(const struct aws_response *response) {
        static const char *const codes[] = { DYNAMODB_REASON_CONFLICT, "ThrottlingError",
                                             "ProvisionedThroughputExceeded" };

        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                if (dynamodb_canceled_by(response, codes[i]))
                        return true;
        }
        return false;
}

/*
 * What AWS has against it does not pass by itself. Missing rights or a missing table may be mended
 * meanwhile.
 */
static bool is_refused(const struct aws_response *response) {
        static const char *const codes[] = { DYNAMODB_INVALID, DYNAMODB_NO_TABLE, "AccessDeniedException",
                                             "ItemCollectionSizeLimitExceededException", NULL };
        static const char *const reasons[] = { "ValidationError", "ItemCollectionSizeLimitExceeded" };

        if (aws_failed_with_any(response, codes))
                return true;
        for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
                if (aws_failed_with(response, DYNAMODB_CANCELED) &&
                    dynamodb_canceled_by(response, reasons[i]))
                        return true;
        }
        return false;
}

static bool wait_after_conflict(const struct session_records *records, unsigned tries) {
        const struct clock *clock = aws_client_clock(records->client);
        int64_t wait_ms = (int64_t)((0.5 + random_unit()) * (double)(CONFLICT_WAIT_MS << tries));

        return clock->sleep_until(clock, clock->monotonic_ms(clock) + wait_ms) == 0;
}

static int write_once(const struct session_records *records, json_t *changes, struct aws_response *response,
                      struct arena *arena, struct error *err) {
        struct aws_request request = dynamodb_transact_write(json_incref(changes), new_token(arena), arena);
        struct error failure = { 0 };

        /* A write that was sent is finished: without its answer the record's content is unknown. */
        request.finishes = true;
        if (aws_call(records->client, &request, response, &failure) == 0)
                return 1;
        if (aws_failed_with(response, DYNAMODB_CANCELED) &&
            dynamodb_canceled_by(response, DYNAMODB_REASON_CONDITION))
                return 0;
        *err = failure;
        if (is_refused(response))
                err->kind = ERROR_REFUSED;
        if (response->status == 0 || response->status >= 500)
                (void)error_context(err, "whether it was written is not known");
        return error_context(err, "sessions' records");
}

static int records_write(struct session_store *store, const struct session_change *changes, size_t count,
                         struct error *err) {
        struct session_records *records = (struct session_records *)store;
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *list JSON_CLEANUP = json_checked(json_array());

        for (size_t i = 0; i < count; i++) {
                json_t *text JSON_CLEANUP = json_string(changes[i].value ? changes[i].value : "");

                if (!text)
                        return error_set_kind(err, ERROR_REFUSED, "a record of a session is no UTF-8");
                json_add(list, change_json(records, &changes[i], arena));
        }
        for (unsigned tries = 0; count > 0; tries++) {
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error failure = { 0 };
                int written = write_once(records, list, &response, arena, &failure);

                if (written >= 0)
                        return written;
                if (aws_failed_with(&response, DYNAMODB_CANCELED) && may_be_made_later(&response) &&
                    tries < CONFLICTS_MAX - 1 && wait_after_conflict(records, tries))
                        continue;
                *err = failure;
                return -1;
        }
        return 1;
}

/* Opening and closing */

static void records_close(struct session_store *store) {
        struct session_records *records = (struct session_records *)store;

        free(records->table);
        free(records->stack);
        free(records);
}

static const struct session_store_class records_class = {
        .get = records_get,
        .write = records_write,
        .list = records_list,
        .close = records_close,
        .shared = true,
        .expires = true,
};

static int check_table(const struct session_records_config *config, struct error *err) {
        static const char *const no_table[] = { DYNAMODB_NO_TABLE, NULL };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct aws_request request = dynamodb_describe_table(config->table, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const json_t *table;

        if (aws_call_accepting(config->client, &request, no_table, &response, err) < 0)
                return error_context(err, "sessions' records");
        if (*response.error_code)
                return error_set_kind(err, ERROR_NOT_FOUND,
                                      "there is no table %s for sessions' records: `berth apply` makes it",
                                      config->table);
        table = json_object_get(response.json, "Table");
        return records_table_check_key(config->table, table, err);
}

int session_records_open(const struct session_records_config *config, struct session_store **ret,
                         struct error *err) {
        struct session_records *records;

        if (check_table(config, err) < 0)
                return -1;
        records = calloc(1, sizeof(*records));
        if (!records)
                abort();
        records->store.class = &records_class;
        records->client = config->client;
        records->table = strdup(config->table);
        records->stack = strdup(config->stack);
        if (!records->table || !records->stack)
                abort();
        *ret = &records->store;
        return 0;
}
