/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The role that an environment runs with, if that is not the Stack's: one of its own, which Berth
 * makes, or a foreign one.
 *
 * Its own stands in the environment's spec as `ownRole`, beside `role`, the ARN that the function
 * has. It is made before the function is told of it, and goes once the function is gone or runs
 * with another one. A role of that name that is not this stack's is never taken over, whatever was
 * allowed: more rights may hang on it than this environment was given.
 *
 * A foreign role is checked before a function is first given it. A role that cannot be read is
 * assumed to be usable; Lambda says so soon enough.
 */
#include "base/array.h"
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/environment/environment_stages.h"
#include "providers/aws/services/iam.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/execution_role.h"
#include "providers/aws/shared/policy_document.h"
#include "providers/aws/shared/stage_call.h"

#include <stdlib.h>
#include <string.h>

static struct execution_role_of own_role_of(const char *environment) {
        return (struct execution_role_of){ .environment = environment };
}

/* With the sources of its tags. */
static struct execution_role_of wanted_role_of(const char *environment, const struct resource *resource) {
        return (struct execution_role_of){
                .environment = environment,
                .labels = resource ? resource->labels : NULL,
        };
}

/* What a manifest says of it; NULL: nothing, the Stack's. */
static const char *declared_role(const struct resource *resource) {
        return resource ? value_get_text(resource->spec, "executionRole") : NULL;
}

static bool declares_own(const struct resource *resource) {
        return texts_same(declared_role(resource), EXECUTION_ROLE_OWN);
}

static int compare_to_role(const void *name, const void *role) {
        return strcmp(name, ((const struct environment_role *)role)->environment);
}

static const struct environment_role *find_role(const struct provider *provider, const char *environment) {
        return provider->role_count ? bsearch(environment, provider->roles, provider->role_count,
                                              sizeof(*provider->roles), compare_to_role)
                                    : NULL;
}

void environment_desire_role(const struct provider *provider, const struct resource *resource,
                             const struct value *recorded, struct arena *arena, struct value *spec) {
        const char *declared = declared_role(resource),
                   *role = declared ? declared : provider->execution_role;

        if (declares_own(resource)) {
                const struct environment_role *seen = find_role(provider, resource->name);
                struct value *own = execution_role_desire(provider, wanted_role_of(resource->name, resource),
                                                          value_get(recorded, ENVIRONMENT_OWN_ROLE), arena);

                value_set(arena, spec, ENVIRONMENT_OWN_ROLE, *own);
                role = execution_role_wished_arn(provider, own, seen && seen->exists ? seen->arn : NULL,
                                                 arena);
        }
        /* Before identify() the role's ARN is not known, and nothing says that it is another than it was. */
        value_set_text(arena, spec, "role", role ? role : value_get_text(recorded, "role"));
}

/* --- what is there --- */

static bool is_own_wanted(const struct wanted *wanted) {
        return declares_own(wanted->desired) ||
               execution_role_is_made(value_get(wanted->recorded, ENVIRONMENT_OWN_ROLE));
}

static bool is_foreign_new(const struct wanted *wanted) {
        const char *declared = declared_role(wanted->desired);

        return declared && !declares_own(wanted->desired) &&
               (!texts_same(declared, value_get_text(wanted->recorded, "role")) || !wanted->last ||
                !wanted->last->exists);
}

void environment_read_roles_ahead(struct provider *provider, const struct observe_args *args) {
        for (size_t i = 0; i < args->count && provider->account; i++) {
                const struct wanted *wanted = &args->wanted[i];
                bool there = wanted->last && value_get(wanted->last->spec, ENVIRONMENT_OWN_ROLE);

                if (is_own_wanted(wanted))
                        execution_role_read_ahead(
                                provider,
                                execution_role_name(provider, own_role_of(wanted->name), args->arena), there,
                                args->refresh == REFRESH_FULL, args->arena);
        }
}

/* The role goes into the spec; where there is no function yet, into the notes. */
static void put_role(struct observation *seen, const struct value *role, struct arena *arena) {
        struct value *spec, *extra;

        if (seen->exists) {
                spec = value_new_map(arena);
                *spec = value_copy(arena, seen->spec);
                value_unset(spec, ENVIRONMENT_OWN_ROLE);
                if (role)
                        value_set(arena, spec, ENVIRONMENT_OWN_ROLE, *role);
                seen->spec = spec;
        }
        if (value_get(seen->extra, ENVIRONMENT_OWN_ROLE) || (role && !seen->exists)) {
                extra = value_new_map(arena);
                if (seen->extra)
                        *extra = value_copy(arena, seen->extra);
                value_unset(extra, ENVIRONMENT_OWN_ROLE);
                if (role && !seen->exists)
                        value_set(arena, extra, ENVIRONMENT_OWN_ROLE, *role);
                seen->extra = extra;
        }
}

/* What others did to it is told beside what they did to the function, of one that is ours and was applied. */
static void put_left(const struct wanted *wanted, const struct execution_role_sight *sight,
                     struct observation *seen, struct arena *arena) {
        struct left_drift_list left = { seen->left, seen->left_count };

        if (!seen->exists || seen->ownership != OWNER_SELF || !wanted->recorded)
                return;
        for (size_t i = 0; i < sight->left.count; i++)
                aws_leave(&left, NULL, "", sight->left.items[i], arena);
        seen->left = left.items;
        seen->left_count = left.count;
        if (sight->unknown)
                aws_warn(seen,
                         arena_printf(arena, "whether others gave its own role more rights is not known: %s",
                                      sight->unknown),
                         arena);
}

static int observe_own(struct provider *provider, const struct observe_args *args,
                       const struct wanted *wanted, struct environment_role *role, struct observation *seen,
                       struct error *err) {
        struct arena *arena = args->arena;
        const struct value *recorded = value_get(wanted->recorded, ENVIRONMENT_OWN_ROLE);
        const struct execution_role_of of = wanted_role_of(wanted->name, wanted->desired);
        bool wished = declares_own(wanted->desired);
        const struct value *wish = execution_role_desire(provider, of, recorded, arena);
        const struct execution_role_look look = {
                .of = of,
                .name = execution_role_name(provider, of, arena),
                .recorded = recorded,
                .wished = wished ? wish : NULL,
                .full = args->refresh == REFRESH_FULL,
                .member = ENVIRONMENT_OWN_ROLE,
                .accept = "accept",
                .accepted = wished ? value_get(wanted->desired->spec, "accept") : NULL,
        };
        struct execution_role_sight sight;

        role->arn = execution_role_arn(provider, value_get_text(wish, "path"), look.name, provider->arena);
        if (execution_role_read(provider, &look, arena, &sight, err) < 0)
                return -1;
        role->exists = sight.exists;
        if (sight.exists) {
                role->ownership = sight.ownership;
                role->of_lineage = aws_is_of_lineage(provider, sight.tags);
                role->owner = arena_strdup(provider->arena, sight.owner);
                role->arn = arena_strdup(provider->arena, sight.arn);
                role->id = arena_strdup(provider->arena, sight.id);
        }
        /* A role that was given up and is not ours any more does not matter. */
        if (sight.exists && !wished && role->ownership != OWNER_SELF)
                sight.spec = NULL;
        put_role(seen, sight.exists ? sight.spec : NULL, arena);
        put_left(wanted, &sight, seen, arena);
        if (sight.exists && wished && !seen->over_quota) {
                seen->over_quota =
                        aws_too_many_tags(sight.tags, execution_role_tags(provider, of, arena), arena);
                seen->over_quota_remedy = AWS_FEWER_TAGS;
        }
        return 0;
}

static bool says(const json_t *texts, const char *wanted) {
        const json_t *text;
        size_t i;

        if (json_is_string(texts))
                return strcmp(json_string_value(texts), wanted) == 0;
        json_array_foreach (texts, i, text) {
                if (json_is_string(text) && strcmp(json_string_value(text), wanted) == 0)
                        return true;
        }
        return false;
}

static bool lets_lambda_in(const json_t *statement) {
        const json_t *action = json_object_get(statement, "Action");
        const json_t *service = json_object_get(json_object_get(statement, "Principal"), "Service");

        return says(json_object_get(statement, "Effect"), "Allow") && says(service, "lambda.amazonaws.com") &&
               (says(action, "sts:AssumeRole") || says(action, "sts:*") || says(action, "*"));
}

/* Whether Lambda may assume a role with this trust policy; conditions are Lambda's to judge. */
bool environment_role_trusts_lambda(const char *trust) {
        json_t *document JSON_CLEANUP = policy_document_parse(trust);
        const json_t *statements = json_object_get(document, "Statement"), *statement;
        size_t i;

        if (json_is_object(statements))
                return lets_lambda_in(statements);
        json_array_foreach (statements, i, statement) {
                if (lets_lambda_in(statement))
                        return true;
        }
        return false;
}

/* The problem of a foreign role, NULL if none is known. */
static int judge_foreign(struct provider *provider, const char *arn, struct arena *arena, const char **ret,
                         const char **ret_unknown, struct error *err) {
        static const char *const codes[] = { "NoSuchEntity", "AccessDenied", "AccessDeniedException", NULL };
        const char *in_arn = strstr(arn, ":iam::");
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        struct iam_role role;

        *ret = NULL;
        *ret_unknown = NULL;
        if (in_arn && strncmp(in_arn + strlen(":iam::"), provider->account, strlen(provider->account)) != 0) {
                *ret = arena_printf(
                        arena,
                        "the role %s is in account %.12s, the stack in %s: functions run with roles "
                        "of their own account alone",
                        arn, in_arn + strlen(":iam::"), provider->account);
                return 0;
        }
        request = iam_get_role(execution_role_name_in(arn), arena);
        if (aws_ask_fact(provider, &request, codes, &response, ret_unknown, arena, err) < 0)
                return error_context(err, "role %s", arn);
        if (aws_failed_with(&response, "NoSuchEntity"))
                *ret = arena_printf(arena, "there is no role %s", arn);
        if (*ret_unknown || *response.error_code)
                return 0;
        if (iam_read_role(&response, arena, &role, err) < 0)
                return error_context(err, "role %s", arn);
        if (!texts_same(role.arn, arn))
                *ret = arena_printf(arena, "there is no role %s; the one of that name is %s", arn, role.arn);
        else if (!environment_role_trusts_lambda(role.trust))
                *ret = arena_printf(
                        arena,
                        "the role %s does not let lambda.amazonaws.com assume it: its trust policy has "
                        "no statement that says so",
                        arn);
        return 0;
}

/* Many environments may name one role: it is looked at once. */
static int observe_foreign(struct provider *provider, const struct observe_args *args, size_t i,
                           struct environment_role *roles, struct observation *observations,
                           struct error *err) {
        const char *declared = declared_role(args->wanted[i].desired), *problem, *unknown;

        for (size_t k = 0; k < i; k++) {
                if (roles[k].judged && texts_same(declared, declared_role(args->wanted[k].desired))) {
                        roles[i].judged = true;
                        roles[i].problem = roles[k].problem;
                        return 0;
                }
        }
        if (judge_foreign(provider, declared, args->arena, &problem, &unknown, err) < 0)
                return -1;
        if (unknown)
                aws_warn(&observations[i],
                         arena_printf(args->arena, "whether Lambda may assume the role %s is not known: %s",
                                      declared, unknown),
                         args->arena);
        roles[i].judged = true;
        roles[i].problem = arena_strdup(provider->arena, problem);
        return 0;
}

int environment_observe_roles(struct provider *provider, const struct observe_args *args,
                              const struct environment_role_use *uses, size_t use_count,
                              struct observation *observations, struct error *err) {
        struct environment_role *roles = arena_array(provider->arena, args->count + 1, sizeof(*roles));

        for (size_t i = 0; i < args->count; i++) {
                const struct wanted *wanted = &args->wanted[i];
                const char *name;

                roles[i].environment = arena_strdup(provider->arena, wanted->name);
                if (is_own_wanted(wanted) &&
                    observe_own(provider, args, wanted, &roles[i], &observations[i], err) < 0)
                        return -1;
                if (is_foreign_new(wanted) &&
                    observe_foreign(provider, args, i, roles, observations, err) < 0)
                        return -1;
                if (!roles[i].exists)
                        continue;
                name = execution_role_name_in(roles[i].arn);
                for (size_t k = 0; k < use_count; k++) {
                        if (strcmp(uses[k].role, name) != 0 ||
                            strcmp(uses[k].function,
                                   environment_function(provider, wanted->name, args->arena)) == 0)
                                continue;
                        roles[i].users = array_grow(provider->arena, roles[i].users, roles[i].user_count,
                                                    sizeof(*roles[i].users));
                        roles[i].users[roles[i].user_count++] =
                                arena_printf(provider->arena, "function %s", uses[k].function);
                }
        }
        provider->roles = roles;
        provider->role_count = args->count;
        return 0;
}

bool environment_role_now(const struct provider *provider, const struct wanted *wanted,
                          struct environment_role_now *ret) {
        const char *declared = declared_role(wanted->desired);

        if (declares_own(wanted->desired)) {
                const struct environment_role *role = find_role(provider, wanted->name);

                if (!role || !role->arn)
                        return false;
                *ret = (struct environment_role_now){ .arn = role->arn, .id = role->id };
                return true;
        }
        if (declared || !provider->manages_role || (!provider->role_missing && !*provider->role_id))
                return false;
        *ret = (struct environment_role_now){
                .arn = provider->execution_role,
                .id = *provider->role_id ? provider->role_id : NULL,
        };
        return true;
}

/* --- what a plan says --- */

static const struct value *wished_role(const struct change *change) {
        return value_get(change->desired, ENVIRONMENT_OWN_ROLE);
}

static const struct value *seen_role(const struct change *change) {
        const struct observation *observed = change->observed;

        return value_get(observed->exists ? observed->spec : observed->extra, ENVIRONMENT_OWN_ROLE);
}

void environment_ask_role(struct provider *provider, struct change *change, struct arena *arena) {
        const struct environment_role *role = find_role(provider, change->name);
        bool keeps = execution_role_is_made(value_get(change->desired, ENVIRONMENT_OWN_ROLE));

        if (!role)
                return;
        if (keeps && role->exists && role->ownership != OWNER_SELF)
                aws_refuse(change,
                           (struct refusal){
                                   .id = "not-owned",
                                   .message = arena_printf(
                                           arena, "the role %s exists and belongs to %s", role->arn,
                                           role->owner ? role->owner : "no stack that Berth knows"),
                                   .remedy = arena_printf(
                                           arena,
                                           "delete that role, or name the one that the environment shall run "
                                           "with in its executionRole%s",
                                           role->of_lineage ? AWS_LOST_STATE
                                                            : "; Berth takes no such role over"),
                           },
                           arena);
        execution_role_ask_path(
                change, wished_role(change), seen_role(change),
                "let the environment run with the Stack's role, apply, and let it have its own again", arena);
        if (!keeps && role->user_count > 0 && environment_drops_role(change))
                aws_refuse(change,
                           (struct refusal){
                                   .id = "has-dependents",
                                   .message = arena_printf(arena,
                                                           "the role %s, which would be deleted, is what %zu "
                                                           "other %s with",
                                                           role->arn, role->user_count,
                                                           role->user_count == 1 ? "function runs"
                                                                                 : "functions run"),
                                   .remedy = "give those functions another role first",
                                   .dependents = role->users,
                                   .dependent_count = role->user_count < ENVIRONMENT_USERS_NAMED
                                                              ? role->user_count
                                                              : ENVIRONMENT_USERS_NAMED,
                           },
                           arena);
        if (role->problem && change->action != ACTION_DELETE &&
            (environment_makes(change) || change_touches(change, "role")))
                aws_refuse(change,
                           (struct refusal){
                                   .id = "role-unusable",
                                   .message = role->problem,
                                   .remedy = "name a role of this account that trusts lambda.amazonaws.com "
                                             "(sts:AssumeRole), or let Berth make one: executionRole: own",
                           },
                           arena);
}

/* --- making it so --- */

bool environment_needs_role(const struct change *change) {
        return execution_role_needs_creation(wished_role(change), seen_role(change));
}

bool environment_replaces_role(const struct change *change) {
        return execution_role_needs_replacement(wished_role(change), seen_role(change));
}

bool environment_needs_role_boundary(const struct change *change) {
        return execution_role_needs_boundary(wished_role(change), seen_role(change));
}

bool environment_needs_role_trust(const struct change *change) {
        return execution_role_needs_trust(wished_role(change), seen_role(change));
}

bool environment_needs_role_tags(const struct change *change) {
        return execution_role_needs_tags(wished_role(change), seen_role(change));
}

bool environment_needs_role_untag(const struct change *change) {
        return execution_role_needs_untag(wished_role(change), seen_role(change));
}

bool environment_needs_role_policy(const struct change *change) {
        return execution_role_needs_policy(wished_role(change), seen_role(change));
}

bool environment_replaces_role_policy(const struct change *change) {
        return execution_role_replaces_policy(wished_role(change), seen_role(change));
}

/*
 * The role's name where it is given up; NULL if it is kept, or did not exist. A manifest that names
 * it by its ARN from now on keeps it.
 */
static const char *dropped_role(const struct change *change) {
        const struct value *own = seen_role(change);
        const char *name, *role = value_get_text(change->desired, "role");

        if (!own && change->action == ACTION_DELETE)
                own = value_get(change->recorded, ENVIRONMENT_OWN_ROLE);
        name = value_get_text(own, "name");
        if (!name || execution_role_is_made(wished_role(change)))
                return NULL;
        return role && strcmp(execution_role_name_in(role), name) == 0 ? NULL : name;
}

bool environment_drops_role(const struct change *change) {
        return dropped_role(change) != NULL;
}

static void keep_id(struct stage_turn *turn, const char *id) {
        value_set_text(turn->progress->arena, stage_data(turn), ENVIRONMENT_ROLE_ID, id);
}

const char *environment_role_id(const struct stage_turn *turn) {
        const struct provider *provider = turn->provider;
        const struct resource *resource = turn->change->resource;
        const char *made = value_get_text(turn->progress->data, ENVIRONMENT_ROLE_ID);
        const struct environment_role *role;

        if (declares_own(resource)) {
                role = find_role(provider, turn->change->name);
                return made ? made : role ? role->id : NULL;
        }
        return provider->manages_role && !declared_role(resource) && *provider->role_id ? provider->role_id
                                                                                        : NULL;
}

void environment_add_role(const struct change *change, struct observation *observed, struct arena *arena) {
        if (observed->exists)
                put_role(observed, wished_role(change), arena);
}

int environment_run_make_role(struct stage_turn *turn) {
        const char *id = NULL;
        bool taken = false;
        int result = execution_role_create(turn, own_role_of(turn->change->name), wished_role(turn->change),
                                           &taken, &id);

        if (result != STAGE_OVER)
                return result;
        if (taken)
                return stage_enter(turn, ENVIRONMENT_STAGE_CHECK_ROLE);
        keep_id(turn, id);
        return STAGE_OVER;
}

int environment_run_check_role(struct stage_turn *turn) {
        const char *id = NULL;
        int result = execution_role_check(
                turn, wished_role(turn->change),
                "left as it is; delete it, or name the role in the environment's executionRole", &id);

        if (result != STAGE_OVER)
                return result;
        keep_id(turn, id);
        turn->progress->stage = ENVIRONMENT_STAGE_MAKE_ROLE; /* what follows it is next */
        return STAGE_OVER;
}

/* A foreign role is never changed, whatever the plan was allowed. */
static bool may_change(struct stage_turn *turn) {
        const struct environment_role *role = find_role(turn->provider, turn->change->name);

        if (!role || !role->exists || role->ownership == OWNER_SELF || role->of_lineage)
                return true;
        error_set(turn->err, "the role %s belongs to %s: left as it is", role->arn,
                  role->owner ? role->owner : "no stack that Berth knows");
        return false;
}

/* As execution_role.h has it. */
static const struct value *applied_role(const struct stage_turn *turn) {
        const struct value *recorded = value_get(turn->change->recorded, ENVIRONMENT_OWN_ROLE);
        const struct environment_role *role = find_role(turn->provider, turn->change->name);

        if (recorded)
                return recorded;
        return role && role->ownership == OWNER_SELF ? wished_role(turn->change) : NULL;
}

int environment_run_fetch_role_trust(struct stage_turn *turn) {
        return may_change(turn) ? execution_role_fetch_trust(turn, wished_role(turn->change)) : -1;
}

int environment_run_role_trust(struct stage_turn *turn) {
        return may_change(turn)
                       ? execution_role_write_trust(turn, wished_role(turn->change), applied_role(turn))
                       : -1;
}

int environment_run_role_boundary(struct stage_turn *turn) {
        return may_change(turn) ? execution_role_write_boundary(turn, wished_role(turn->change)) : -1;
}

int environment_run_replace_role_policy(struct stage_turn *turn) {
        const char *name = value_get_text(seen_role(turn->change), "name");

        return may_change(turn) ? execution_role_delete_policy(turn, name) : -1;
}

int environment_run_replace_role(struct stage_turn *turn) {
        return execution_role_delete(turn, value_get_text(seen_role(turn->change), "name"));
}

int environment_run_role_tag(struct stage_turn *turn) {
        return may_change(turn) ? execution_role_tag(turn, wished_role(turn->change), seen_role(turn->change))
                                : -1;
}

int environment_run_role_untag(struct stage_turn *turn) {
        return may_change(turn)
                       ? execution_role_untag(turn, wished_role(turn->change), seen_role(turn->change))
                       : -1;
}

int environment_run_fetch_role_policy(struct stage_turn *turn) {
        return may_change(turn) ? execution_role_fetch_policy(turn, wished_role(turn->change)) : -1;
}

int environment_run_role_policy(struct stage_turn *turn) {
        return may_change(turn)
                       ? execution_role_write_policy(turn, wished_role(turn->change), applied_role(turn))
                       : -1;
}

/* Just before its deletion: it may be gone, or another owner's. */
int environment_run_look_role(struct stage_turn *turn) {
        static const char *const gone[] = { "NoSuchEntity", NULL };
        struct arena *arena = turn->progress->arena;
        struct aws_request request = iam_get_role(dropped_role(turn->change), arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, gone, &response);
        const char *owner;
        struct iam_role role = { 0 };

        if (result != 0)
                return result;
        if (!*response.error_code && iam_read_role(&response, arena, &role, turn->err) < 0)
                return -1;
        value_set_boolean(arena, stage_data(turn), "roleStays",
                          aws_ownership(turn->provider, role.tags, arena, &owner) != OWNER_SELF);
        return STAGE_OVER;
}

static bool role_stays(const struct stage_turn *turn) {
        return value_get_boolean(turn->progress->data, "roleStays", false);
}

int environment_run_drop_role_policy(struct stage_turn *turn) {
        return role_stays(turn) ? STAGE_OVER : execution_role_delete_policy(turn, dropped_role(turn->change));
}

int environment_run_drop_role(struct stage_turn *turn) {
        return role_stays(turn) ? STAGE_OVER : execution_role_delete(turn, dropped_role(turn->change));
}
