/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WorkspacePolicy: what its lifecycle rules shall be, and what they are. One GET serves all policies.
 *
 * Rules carry no tags: whose they are their IDs say, by stack, policy and lineage. Those of an older Berth tell no lineage: of a
 * policy that was never applied, the notes of lineages say whose they may be (find_rivals).
 */
#include "providers/aws/workspace_policy/workspace_policy.h"

#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/stage_call.h"
#include "providers/aws/workspace_policy/workspace_rules.h"

#include <string.h>

/* S3 has no place for these. */
static const char *const recorded_only[] = { "selector", "maxDownloadFileMB", NULL };
static const char *const free_maps[] = { "selector.matchLabels", NULL };

static int workspace_policy_desire(const struct provider *provider, const struct resource *resource,
                                   const struct observation *observed, const struct value *recorded,
                                   struct arena *arena, struct value **ret, struct error *err) {
        struct value *spec = workspace_rules_spec(resource->spec, arena);
        const struct value *selector = value_get(resource->spec, "selector");
        int64_t download = value_get_integer(resource->spec, "maxDownloadFileMB", -1);

        (void)observed;
        (void)recorded;
        (void)err;
        value_set_text(arena, spec, "lineage", provider->lineage.id);
        if (selector)
                value_set(arena, spec, "selector", *selector);
        if (download >= 0)
                value_set_integer(arena, spec, "maxDownloadFileMB", download);
        *ret = spec;
        return 0;
}

/* `rules` is kept beside the spec: whether there is anything to delete must not hang on what the record says. */
struct observation workspace_policy_seen(const struct provider *provider, const char *name,
                                         const struct value *spec, size_t rules, struct arena *arena) {
        struct value *extra = value_new_map(arena);

        value_set_integer(arena, extra, "rules", (int64_t)rules);
        return (struct observation){
                .name = name,
                .exists = true,
                .id = arena_printf(arena, "berth:%s:%s", provider->stack_name, name),
                .ownership = OWNER_SELF,
                .spec = spec,
                .extra = extra,
        };
}

int64_t workspace_policy_rules(const struct observation *observed) {
        return observed->exists ? value_get_integer(observed->extra, "rules", -1) : 0;
}

const char *workspace_policy_rival(const struct provider *provider, const struct workspace_rules *rules,
                                   const char *policy) {
        for (size_t i = 0; i < rules->count; i++) {
                const struct workspace_rule *rule = &rules->items[i];

                if (rule->lineage && !lineage_is_ours(provider, rule->lineage) &&
                    workspace_rules_owns(rule->id, provider->stack_name, policy))
                        return rule->lineage;
        }
        return NULL;
}

static void set_rival(const struct provider *provider, const char *lineage, struct arena *arena,
                      struct observation *ret) {
        ret->ownership = OWNER_OTHER;
        ret->owner = lineage_owner(provider->stack_name, lineage, arena);
        aws_set_lineage(arena_printf(arena, "WorkspacePolicy/%s", ret->name), lineage, arena, ret);
}

/*
 * A policy that selects environments of which none exists has no rule to be seen by: it is as it
 * was recorded. Everything else without a rule does not exist.
 */
static void observe_policy(const struct provider *provider, const struct wanted *wanted,
                           const struct workspace_rules *rules, struct arena *arena,
                           struct observation *ret) {
        const char *stack = provider->stack_name,
                   *rival = workspace_policy_rival(provider, rules, wanted->name);
        const struct value *spec = workspace_rules_read(rules, stack, wanted->name, wanted->recorded, arena);

        if (!spec && wanted->recorded && !wanted->must_read && workspace_rules_count(wanted->recorded) == 0)
                spec = workspace_rules_spec(wanted->recorded, arena);
        if (!spec)
                return;
        /* The same spec as last time is handed back as it was: nothing new to be stored. */
        if (wanted->last && value_equal(wanted->last->spec, spec, NULL))
                spec = wanted->last->spec;
        *ret = workspace_policy_seen(provider, wanted->name, spec,
                                     workspace_rules_present(rules, stack, wanted->name), arena);
        if (rival)
                set_rival(provider, rival, arena, ret);
}

static void workspace_policy_read_ahead(struct provider *provider, const struct observe_args *args) {
        const struct s3_bucket bucket = aws_bucket(provider);
        struct aws_request request = s3_get_lifecycle(&bucket);

        if (provider->bucket && args->count > 0)
                aws_ahead(provider->client, &request);
}

/* An older Berth's rules, which tell no lineage, of a policy that this state never applied. */
static bool may_have_rival(const struct observation *seen, const struct wanted *wanted) {
        return seen->exists && !wanted->recorded && !value_get(seen->spec, "lineage") &&
               seen->ownership == OWNER_SELF;
}

/* Those are another lineage's where the notes in the bucket tell of one whose stack has the same name. */
static int find_rivals(struct provider *provider, const struct observe_args *args, struct observation *ret,
                       struct error *err) {
        struct lineage_note *notes;
        size_t count, rival = 0;
        bool any = false;

        for (size_t i = 0; i < args->count; i++)
                any |= may_have_rival(&ret[i], &args->wanted[i]);
        if (!any || !provider->lineage.id)
                return 0;
        if (lineage_others(provider, args->arena, &notes, &count, err) < 0)
                return -1;
        while (rival < count && strcmp(notes[rival].stack, provider->stack_name) != 0)
                rival++;
        for (size_t i = 0; rival < count && i < args->count; i++) {
                if (may_have_rival(&ret[i], &args->wanted[i]))
                        set_rival(provider, notes[rival].lineage, args->arena, &ret[i]);
        }
        return 0;
}

/*
 * Rules of all stacks that share the bucket, and of all others, count together; `validate` counts
 * the stack's own. Those of another lineage's policy of the same name stay, or where that is
 * allowed are replaced: the more of the two count.
 */
static void check_rules(const struct provider *provider, const struct observe_args *args,
                        const struct workspace_rules *rules, struct observation *ret) {
        size_t foreign = rules->count, wanted = 0;

        for (size_t i = 0; i < args->count; i++) {
                const struct resource *desired = args->wanted[i].desired;
                size_t there = workspace_rules_present(rules, provider->stack_name, args->wanted[i].name),
                       own = desired ? workspace_rules_count(workspace_rules_spec(desired->spec, args->arena))
                                     : 0;

                if (ret[i].exists && ret[i].ownership == OWNER_OTHER && there >= own)
                        continue;
                foreign -= there;
                wanted += own;
        }
        for (size_t i = 0; i < args->count && foreign + wanted > WORKSPACE_RULES_MAX; i++) {
                ret[i].over_quota = arena_printf(
                        args->arena,
                        "the bucket %s has %zu lifecycle rules that are not this stack's, and its own would be %zu: S3 "
                        "takes %d a bucket",
                        provider->bucket, foreign, wanted, WORKSPACE_RULES_MAX);
                ret[i].over_quota_remedy = "select all environments, which takes one rule, or fewer of them";
        }
}

/* Rules of this stack's form whose policy no manifest and no record of the state names. */
static void note_orphan_rules(struct provider *provider, const struct observe_args *args,
                              const struct workspace_rules *rules) {
        const char *prefix = arena_printf(args->arena, "berth:%s:", provider->stack_name);

        for (size_t i = 0; i < rules->count; i++) {
                const char *rest, *name;
                size_t known = 0;

                if (strncmp(rules->items[i].id, prefix, strlen(prefix)) != 0)
                        continue;
                rest = rules->items[i].id + strlen(prefix);
                /* The part behind a second colon is an environment, or "abort": of the same policy. */
                name = arena_strndup(args->arena, rest, strcspn(rest, ":"));
                while (known < args->count && strcmp(args->wanted[known].name, name) != 0)
                        known++;
                if (*name && !strchr(name, '@') && known == args->count)
                        lineage_orphan(provider, &(struct orphan){ .kind = KIND_WORKSPACE_POLICY,
                                                                   .name = name,
                                                                   .id = arena_printf(args->arena, "%s%s",
                                                                                      prefix, name),
                                                                   .lineage = rules->items[i].lineage });
        }
}

static int workspace_policy_observe(struct provider *provider, const struct observe_args *args,
                                    struct observation *ret, struct error *err) {
        static const char *const none[] = { "NoSuchBucket", "NoSuchLifecycleConfiguration", NULL };
        const struct s3_bucket bucket = aws_bucket(provider);
        struct xml_document *document XML_CLEANUP = NULL;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_get_lifecycle(&bucket);
        struct workspace_rules rules = { 0 };

        for (size_t i = 0; i < args->count; i++)
                ret[i] = (struct observation){ .name = args->wanted[i].name };
        if (!provider->bucket || (args->count == 0 && args->refresh != REFRESH_FULL))
                return 0;
        if (aws_call_accepting(provider->client, &request, none, &response, err) < 0)
                return -1;
        if (aws_failed_with(&response, "NoSuchBucket"))
                return 0;
        if (!*response.error_code) {
                if (s3_read_lifecycle(&response, &document, err) < 0)
                        return -1;
                rules = workspace_rules_index(xml_root(document), args->arena);
        }
        for (size_t i = 0; i < args->count; i++)
                observe_policy(provider, &args->wanted[i], &rules, args->arena, &ret[i]);
        note_orphan_rules(provider, args, &rules);
        if (find_rivals(provider, args, ret, err) < 0)
                return -1;
        check_rules(provider, args, &rules, ret);
        aws_warn_of_old_marks(provider, "WorkspacePolicy", NULL, ret, args->count, args->arena);
        return 0;
}

const struct kind_ops aws_workspace_policy_ops = {
        .kind = KIND_WORKSPACE_POLICY,
        .recorded_only = recorded_only,
        .free_maps = free_maps,
        .desire = workspace_policy_desire,
        .cost = workspace_policy_cost,
        .read_ahead = workspace_policy_read_ahead,
        .observe = workspace_policy_observe,
        .ask = workspace_policy_ask,
        .step = workspace_policy_step,
        .abandon = workspace_policy_abandon,
};
