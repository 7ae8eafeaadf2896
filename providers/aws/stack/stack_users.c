/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other users of what this stack made. They need not register: a stack that shares the bucket may
 * have no agents, and so no records in it. Whatever it does have leaves a trace somewhere:
 * functions that run with the role, rules in the bucket's lifecycle, the note that its applies
 * renew. All three are looked at before the bucket or the role goes.
 */
#include "providers/aws/stack/stack.h"

#include "base/array.h"
#include "base/json.h"
#include "base/sorted.h"
#include "providers/aws/services/lambda.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/stack/isolated_network.h"

#include <stdlib.h>
#include <string.h>

/* Users that a plan names; the rest it counts. */
#define NAMED 20

struct users {
        struct arena *arena;
        const char **names;
        size_t count;
};

static void add_user(struct users *users, const char *name) {
        users->names = array_grow(users->arena, users->names, users->count, sizeof(*users->names));
        users->names[users->count++] = name;
}

int stack_role_functions(struct provider *provider, const char *role, struct arena *arena, const char ***ret,
                         size_t *ret_count, struct error *err) {
        struct aws_paging paging = { 0 };
        struct users users = { .arena = arena };

        do {
                struct aws_request request = lambda_list_functions(paging.token);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const json_t *function;
                size_t i;

                if (aws_call(provider->client, &request, &response, err) < 0)
                        return error_context(err, "who uses the role %s", role);
                json_array_foreach (json_object_get(response.json, "Functions"), i, function) {
                        const char *arn = json_text(function, "Role");

                        if (arn && strcmp(execution_role_name_in(arn), role) == 0 &&
                            json_text(function, "FunctionName"))
                                add_user(&users, arena_strdup(arena, json_text(function, "FunctionName")));
                }
                if (aws_next_page(&response, "NextMarker", &paging, arena, err) < 0)
                        return -1;
        } while (paging.token);
        *ret = users.names;
        *ret_count = users.count;
        return 0;
}

/* Whether it is one of this stack's environments, which are judged by themselves. */
static bool is_own_function(const struct provider *provider, const char *name) {
        return provider->function_count > 0 && bsearch(&name, provider->functions, provider->function_count,
                                                       sizeof(*provider->functions), sorted_compare_texts);
}

/* Functions of others that run with the role: they would fail at their next start. */
static int add_functions(struct provider *provider, const char *role, struct users *users,
                         struct error *err) {
        const char **functions;
        size_t count;

        if (stack_role_functions(provider, role, users->arena, &functions, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (!is_own_function(provider, functions[i]))
                        add_user(users, arena_printf(users->arena, "function %s", functions[i]));
        }
        return 0;
}

/* Rules of Berth's form with another stack's name, or another lineage. What people put there by hand says nothing about who uses the bucket. */
static int add_rules(struct provider *provider, struct users *users, struct error *err) {
        static const char *const none[] = { "NoSuchBucket", "NoSuchLifecycleConfiguration", NULL };
        const struct s3_bucket bucket = aws_bucket(provider);
        const char *own = arena_printf(users->arena, "berth:%s:", provider->stack_name);
        struct xml_document *document XML_CLEANUP = NULL;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_get_lifecycle(&bucket);

        if (aws_call_accepting(provider->client, &request, none, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        if (s3_read_lifecycle(&response, &document, err) < 0)
                return -1;
        for (const struct xml_node *rule = xml_child(xml_root(document), "Rule"); rule;
             rule = xml_next(rule, "Rule")) {
                const char *id = xml_text(rule, "ID", users->arena), *lineage;

                if (!id || strncmp(id, "berth:", 6) != 0)
                        continue;
                id = lineage_unmark(id, users->arena, &lineage);
                if (strncmp(id, own, strlen(own)) != 0 || (lineage && !lineage_is_ours(provider, lineage)))
                        add_user(users, arena_printf(users->arena, "lifecycle rule %s", id));
        }
        return 0;
}

/* Stacks of other lineages that have applied to this bucket, and have not been taken over since. */
static int add_stacks(struct provider *provider, struct users *users, struct error *err) {
        struct lineage_note *notes;
        size_t count;

        if (lineage_others(provider, users->arena, &notes, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++)
                add_user(users, arena_printf(users->arena, "stack %s, last applied by %s at %s from %s",
                                             notes[i].stack, notes[i].who ? notes[i].who : "?",
                                             notes[i].at ? notes[i].at : "?",
                                             notes[i].folder ? notes[i].folder : "?"));
        return 0;
}

/* Other interfaces in the isolated VPC, which would keep it from being deleted. */
static int add_interfaces(struct provider *provider, struct users *users, struct error *err) {
        struct isolated_interfaces interfaces;

        if (isolated_network_interfaces(provider, provider->isolated.vpc, users->arena, &interfaces, err) < 0)
                return -1;
        for (size_t i = 0; i < interfaces.other_count; i++)
                add_user(users, interfaces.others[i]);
        return 0;
}

int stack_ask_users(struct provider *provider, struct change *change, struct arena *arena,
                    struct error *err) {
        const char *role = stack_own_role(change->observed->spec),
                   *bucket = stack_own_bucket(change->observed->spec);
        struct users users = { .arena = arena };

        if (bucket && (add_stacks(provider, &users, err) < 0 || add_rules(provider, &users, err) < 0))
                return error_context(err, "who uses the bucket %s", bucket);
        if (role && add_functions(provider, role, &users, err) < 0)
                return -1;
        if (*provider->isolated.vpc && add_interfaces(provider, &users, err) < 0)
                return -1;
        if (users.count == 0)
                return 0;
        /* In one order, whatever order the answers had: the plan must read the same twice. */
        qsort(users.names, users.count, sizeof(*users.names), sorted_compare_texts);
        aws_refuse(
                change,
                (struct refusal){
                        .id = "has-dependents",
                        .message = arena_printf(
                                arena, "%zu %s not this stack's still %s the bucket, the role or the network",
                                users.count, users.count == 1 ? "user that is" : "users that are",
                                users.count == 1 ? "needs" : "need"),
                        .remedy = "destroy those stacks first, or give them a bucket and a role of their own",
                        .dependents = users.names,
                        .dependent_count = users.count < NAMED ? users.count : NAMED,
                },
                arena);
        return 0;
}
