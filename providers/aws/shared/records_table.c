/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/shared/records_table.h"

#include "base/json.h"
#include "providers/aws/client/aws_json.h"

/* Whether an element of `list` has both members. */
static bool has_pair(const json_t *list, const char *first, const char *is, const char *second,
                     const char *also) {
        const json_t *element;
        size_t i;

        json_array_foreach (list, i, element) {
                if (aws_json_says(element, first, is) && aws_json_says(element, second, also))
                        return true;
        }
        return false;
}

int records_table_check_key(const char *name, const json_t *table, struct error *err) {
        const json_t *keys = json_object_get(table, "KeySchema");
        const json_t *types = json_object_get(table, "AttributeDefinitions");

        if (json_array_size(keys) == 2 &&
            has_pair(keys, "AttributeName", RECORDS_TABLE_SHARD, "KeyType", "HASH") &&
            has_pair(keys, "AttributeName", RECORDS_TABLE_ID, "KeyType", "RANGE") &&
            has_pair(types, "AttributeName", RECORDS_TABLE_SHARD, "AttributeType", "S") &&
            has_pair(types, "AttributeName", RECORDS_TABLE_ID, "AttributeType", "S"))
                return 0;
        return error_set(err,
                         "the table %s cannot hold sessions: its partition key has to be the text "
                         "\"" RECORDS_TABLE_SHARD "\" and its sort key the text \"" RECORDS_TABLE_ID
                         "\"; name another table in sessions.table",
                         name);
}
