/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of DynamoDB that the records of sessions lie in: its key, and the attribute by which
 * DynamoDB deletes what has expired. Its content belongs to session_store/.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_RECORDS_TABLE_H
#define BERTH_PROVIDERS_AWS_SHARED_RECORDS_TABLE_H

#include "base/error.h"

#include <jansson.h>

#define RECORDS_TABLE_SHARD "shard"
#define RECORDS_TABLE_ID "id"
#define RECORDS_TABLE_VERSION "version"
#define RECORDS_TABLE_VALUE "value"
#define RECORDS_TABLE_EXPIRES "expires" /* seconds since 1970 */

/* Of DescribeTable's `Table`: fails where its key is not the one above, which no table's can become. */
int records_table_check_key(const char *name, const json_t *table, struct error *err) MUST_USE;

#endif
