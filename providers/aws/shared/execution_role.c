/* SPDX-License-Identifier: Apache-2.0 */
/* What a role that Berth makes shall be, and what it is. */
#include "providers/aws/shared/execution_role.h"

#include "base/digest.h"
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/iam.h"
#include "providers/aws/shared/tags.h"

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

/* "/a/b/" of "arn:aws:iam::ACCOUNT:role/a/b/NAME". */
static const char *path_in(const char *arn, struct arena *arena) {
        const char *path = strstr(arn, ":role/");

        if (!path)
                return NULL;
        path += strlen(":role");
        return arena_strndup(arena, path, (size_t)(execution_role_name_in(arn) - path));
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
                .bucket = provider->bucket,
                .key = of.key,
                .environment = of.environment,
        };
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

bool execution_role_put_settings(const struct provider *provider, const struct iam_role *role,
                                 const struct value *recorded, struct arena *arena, struct value *spec) {
        bool ours = setting(provider, "permissionsBoundary") ||
                    texts_same(role->boundary, value_get_text(recorded, "permissionsBoundary"));

        value_set_text(arena, spec, "path", path_in(role->arn, arena));
        value_set_text(arena, spec, "permissionsBoundary", ours ? role->boundary : NULL);
        return role->boundary && !ours;
}

static int read_policy(struct provider *provider, const char *name, struct arena *arena, struct value *spec,
                       struct error *err) {
        static const char *const absent[] = { "NoSuchEntity", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = iam_get_role_policy(name, EXECUTION_ROLE_POLICY, arena);
        const char *text = NULL;

        if (aws_call_accepting(provider->client, &request, absent, &response, err) < 0)
                return -1;
        if (!*response.error_code && iam_read_role_policy(&response, arena, &text, err) < 0)
                return -1;
        execution_role_set_document(spec, "policy", policy_document_parse(text), arena);
        return 0;
}

int execution_role_read(struct provider *provider, struct execution_role_of of, const char *name,
                        const struct value *recorded, struct arena *arena, struct execution_role_sight *ret,
                        struct error *err) {
        static const char *const absent[] = { "NoSuchEntity", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = iam_get_role(name, arena);
        struct execution_role_sight sight = { .exists = true };
        struct iam_role role;

        if (aws_call_accepting(provider->client, &request, absent, &response, err) < 0)
                return error_context(err, "role %s", name);
        if (*response.error_code) {
                *ret = (struct execution_role_sight){ 0 };
                return 0;
        }
        if (iam_read_role(&response, arena, &role, err) < 0)
                return error_context(err, "role %s", name);
        sight.arn = role.arn;
        sight.id = role.id;
        sight.tags = role.tags;
        sight.spec = value_new_map(arena);
        value_set_text(arena, sight.spec, "name", name);
        execution_role_put_settings(provider, &role, recorded, arena, sight.spec);
        execution_role_set_document(sight.spec, "trust", policy_document_parse(role.trust), arena);
        value_set(arena, sight.spec, "tags",
                  *aws_tags_of_ours(role.tags, execution_role_tags(provider, of, arena),
                                    value_get(recorded, "tags"), arena));
        if (read_policy(provider, name, arena, sight.spec, err) < 0)
                return error_context(err, "role %s", name);
        *ret = sight;
        return 0;
}

void execution_role_read_ahead(struct provider *provider, const char *name, bool policy,
                               struct arena *arena) {
        struct aws_request role = iam_get_role(name, arena);
        struct aws_request role_policy = iam_get_role_policy(name, EXECUTION_ROLE_POLICY, arena);

        aws_ahead(provider->client, &role);
        if (policy)
                aws_ahead(provider->client, &role_policy);
}
