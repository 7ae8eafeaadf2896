/* SPDX-License-Identifier: Apache-2.0 */
/* What a role that Berth makes shall be. */
#include "providers/aws/shared/execution_role.h"

#include "base/digest.h"
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/shared/aws_tags.h"

#include <string.h>

#define NAME_MAX_LENGTH 64 /* IAM's */
#define DIGEST_LENGTH 12

const char *execution_role_name(const struct provider *provider, struct execution_role_of of,
                                struct arena *arena) {
        char digest[SHA256_HEX_SIZE];
        const char *name;

        if (!of.environment)
                return arena_printf(arena, "%s-execution-%s", provider->prefix, provider->region);
        name = arena_printf(arena, "%s-env-%s-%s", provider->prefix, of.environment, provider->region);
        if (strlen(name) <= NAME_MAX_LENGTH)
                return name;
        digest_sha256_hex(name, strlen(name), digest);
        return arena_printf(arena, "%.*s-%.*s", NAME_MAX_LENGTH - 1 - DIGEST_LENGTH, name, DIGEST_LENGTH,
                            digest);
}

/* What the Stack says of the roles that Berth makes; NULL: nothing. */
static const char *setting(const struct provider *provider, const char *name) {
        return value_get_text(value_get(provider->stack, "aws"), name);
}

const char *execution_role_arn(const struct provider *provider, const char *path, const char *name,
                               struct arena *arena) {
        if (!provider->account)
                return NULL;
        return arena_printf(arena, "arn:%s:iam::%s:role%s%s", provider->partition, provider->account,
                            path ? path : "/", name);
}

const char *execution_role_wished_arn(const struct provider *provider, const struct value *wished,
                                      const char *seen_arn, struct arena *arena) {
        const char *path = value_get_text(wished, "path"),
                   *arn = execution_role_arn(provider, path, value_get_text(wished, "name"), arena);

        return seen_arn && !path ? seen_arn : arn;
}

const char *execution_role_name_in(const char *arn) {
        const char *slash = strrchr(arn, '/');

        return slash ? slash + 1 : arn;
}

bool execution_role_is_made(const struct value *role) {
        return value_get(role, "tags") != NULL;
}

void execution_role_set_document(struct value *map, const char *name, json_t *document, struct arena *arena) {
        json_t *owned JSON_CLEANUP = document;
        json_t *normal JSON_CLEANUP = owned ? policy_document_normalise(owned) : NULL;

        if (normal)
                value_set(arena, map, name, value_from_json(arena, normal));
}

struct value *execution_role_tags(const struct provider *provider, struct execution_role_of of,
                                  struct arena *arena) {
        return of.environment ? aws_tags_of(provider, "Environment", of.environment, of.labels, arena)
                              : aws_tags_for(provider, "Stack", provider->stack_name, arena);
}

struct policy_place execution_role_place(const struct provider *provider, struct execution_role_of of) {
        return (struct policy_place){
                .partition = provider->partition,
                .region = provider->region,
                .account = provider->account,
                .prefix = provider->prefix,
                .environment = of.environment,
        };
}

json_t *execution_role_own_deny(const struct provider *provider, const char *member) {
        const struct policy_place place = execution_role_place(provider, (struct execution_role_of){ 0 });

        return strcmp(member, "policy") == 0 ? policy_document_network_deny(&place) : NULL;
}

/* As with keys, a manifest that says nothing of networks takes nothing away from functions that are in one. */
static bool attaches(const struct provider *provider, const struct value *recorded_policy) {
        const struct value *statements = value_get(recorded_policy, "Statement");

        if (value_path(provider->stack, "aws.network"))
                return true;
        for (uint32_t i = 0; statements && statements->type == VALUE_LIST && i < statements->count; i++) {
                if (texts_same(value_get_text(&statements->items[i], "Sid"), POLICY_NETWORK_SID))
                        return true;
        }
        return false;
}

struct value *execution_role_desire(const struct provider *provider, struct execution_role_of of,
                                    const struct value *recorded, struct arena *arena) {
        struct policy_place place = execution_role_place(provider, of);
        const struct value *policy = value_get(recorded, "policy");
        const char *path = setting(provider, "rolePath");
        struct value *role = value_new_map(arena);

        place.attaches = attaches(provider, policy);
        value_set_text(arena, role, "name",
                       provider->region ? execution_role_name(provider, of, arena)
                                        : value_get_text(recorded, "name"));
        value_set_text(arena, role, "path", path ? path : value_get_text(recorded, "path"));
        execution_role_set_document(role, "trust", policy_document_trust(), arena);
        if (provider->account)
                execution_role_set_document(role, "policy", policy_document_execution(&place), arena);
        else if (policy)
                value_set(arena, role, "policy", *policy);
        value_set_text(arena, role, "permissionsBoundary", setting(provider, "permissionsBoundary"));
        value_set(arena, role, "tags", *execution_role_tags(provider, of, arena));
        return role;
}
