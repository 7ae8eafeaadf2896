/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of sessions in a table of DynamoDB that any number of servers share: the body of sessions/store.h on AWS. What 1 was
 * returned for is on the disks of several data centres.
 *
 *      session_records_open({client, table, stack}) -> a store like any other
 *
 * A write whose result is unknown after all tries is an error that says so.
 */
#ifndef BERTH_PROVIDERS_AWS_SESSION_STORE_SESSION_RECORDS_H
#define BERTH_PROVIDERS_AWS_SESSION_STORE_SESSION_RECORDS_H

#include "base/error.h"
#include "providers/aws/client/aws_client.h"
#include "sessions/store.h"

struct session_records_config {
        struct aws_client *client; /* borrowed for the store's life */
        const char *table;         /* copied, as the next */
        const char *stack;         /* stacks that share a table do not see one another's records */
};

/* By one call, which checks the table: it must exist, and be one for sessions. */
int session_records_open(const struct session_records_config *config, struct session_store **ret,
                         struct error *err) MUST_USE;

#endif
