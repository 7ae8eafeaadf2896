/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve_aws.h"

#include "base/clock.h"
#include "base/files.h"
#include "providers/aws/session/place.h"
#include "providers/aws/session_store/session_records.h"
#include "providers/aws/shared/names.h"
#include "providers/aws/workspace/bucket_workspaces.h"

#include <string.h>

#define BYTES_PER_MB (UINT64_C(1024) * 1024)
#define FILES_MAX 20000 /* as many as one invocation tells of */

/* What the place asks for each execution, so that an apply holds from the next one on. */
struct found {
        struct applied *applied;
        const char *prefix;
};

static int find_applied(void *context, const char *name, struct arena *arena,
                        struct aws_place_environment *ret, struct error *err) {
        const struct found *found = context;
        struct applied_environment *environments;
        size_t count;

        if (applied_environments(found->applied, arena, &environments, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                const struct value *spec = environments[i].spec;

                if (strcmp(environments[i].name, name) != 0)
                        continue;
                *ret = (struct aws_place_environment){
                        .function = names_function(found->prefix, name, arena),
                        .tenants = value_get_boolean(spec, "tenantIsolation", false),
                        .timeout_ms = value_get_integer(spec, "timeoutSeconds", 900) * 1000,
                        .files_bytes =
                                (uint64_t)value_get_integer(spec, "workspaceStorageMB", 512) * BYTES_PER_MB,
                };
                return 0;
        }
        return error_set_kind(err, ERROR_NOT_FOUND, "the environment %s is not applied any more", name);
}

/* Before anything is opened, so that this is the mistake that the message reports. */
static int find_table(const struct applied_stack *stack, const char **ret, struct error *err) {
        *ret = value_get_text(value_get(stack->spec, "sessions"), "table");
        if (*ret)
                return 0;
        return error_set_kind(
                err, ERROR_NOT_FOUND,
                "the stack %s has no table for sessions: give its Stack `sessions: {table: NAME}` and "
                "apply it",
                stack->name);
}

int serve_aws_open(const struct value *sessions, const char *folder, struct applied *applied,
                   const struct applied_stack *stack, struct arena *arena, struct broker_place *ret,
                   struct error *err) {
        struct found *found = arena_alloc(arena, sizeof(*found));
        struct aws_place_config config = {
                .allow_shared = value_get_boolean(sessions, "allowShared", false),
                .stack = stack->name,
                .find = find_applied,
                .context = found,
        };
        struct session_records_config records = { .stack = stack->name };
        struct workspace_bucket *where;
        struct workspaces *workspaces;
        const char *principal;

        if (find_table(stack, &records.table, err) < 0 ||
            aws_client_open(value_get(stack->spec, "aws"), &clock_system, &config.client, err) < 0)
                return -1;
        *found = (struct found){ applied, names_prefix(stack->spec) };
        if (aws_client_account(config.client, &config.bucket.account, &principal, err) < 0) {
                aws_client_close(config.client);
                return -1;
        }
        config.bucket.name =
                names_bucket(found->prefix, config.bucket.account, aws_client_region(config.client), arena);
        where = arena_alloc(arena, sizeof(*where));
        *where = (struct workspace_bucket){ config.client, config.bucket, stack->name };
        workspaces = arena_alloc(arena, sizeof(*workspaces));
        *workspaces = bucket_workspaces(where, path_join_in(folder, "spool", arena));
        config.workspaces = workspaces;
        if (aws_place_open(&config, &ret->place, err) < 0)
                return -1;
        records.client = config.client;
        ret->workspaces = *workspaces;
        ret->files_max = FILES_MAX;
        ret->checkpoint_bytes = AWS_PLACE_CHECKPOINT_BYTES;
        ret->checkpoint_ms = AWS_PLACE_CHECKPOINT_MS;
        return session_records_open(&records, &ret->store, err);
}
