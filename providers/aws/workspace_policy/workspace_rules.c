/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy is several rules, and any of them may have been changed by others. Reading adds them up
 * to one spec that can be compared with the desired one. One rule's actions are the model: the
 * recorded ones where any rule still has them, else the first rule's. A rule that is as the model
 * counts for the environment that its ID names; another one counts as missing, so that it is
 * written again. A rule that no policy would have made is reported under a name that no policy can
 * desire: it is a difference whatever the manifest says, and goes with the next apply.
 */
#include "providers/aws/workspace_policy/workspace_rules.h"

#include "providers/aws/client/texts.h"
#include "providers/aws/shared/lineage.h"

#include <stdlib.h>
#include <string.h>

#define ABORT "abort"
#define FOR_ALL "all"
#define FOR_ENVIRONMENTS "environments"

/* Days first: where S3 lists transitions in another order, they mean the same. */
static int compare_transitions(const void *a, const void *b) {
        int64_t left = value_get_integer(a, "afterDays", 0), right = value_get_integer(b, "afterDays", 0);
        const char *left_class = value_get_text(a, "storageClass"),
                   *right_class = value_get_text(b, "storageClass");

        if (left != right)
                return left < right ? -1 : 1;
        return strcmp(left_class ? left_class : "", right_class ? right_class : "");
}

static struct value sorted_list(const struct value *list, int (*compare)(const void *, const void *),
                                struct arena *arena) {
        struct value copy = value_copy(arena, list);

        if (copy.count > 1)
                qsort(copy.items, copy.count, sizeof(*copy.items), compare);
        return copy;
}

static void set_list(struct value *spec, const char *name, const struct value *list,
                     int (*compare)(const void *, const void *), struct arena *arena) {
        bool some = list && list->type == VALUE_LIST && list->count > 0;

        value_set(arena, spec, name, some ? sorted_list(list, compare, arena) : value_null());
}

static void set_days(struct value *spec, const char *name, int64_t days, struct arena *arena) {
        value_set(arena, spec, name, days >= 0 ? value_integer(days) : value_null());
}

static const char *const day_fields[] = { "expireAfterDays", "noncurrentExpireAfterDays",
                                          "abortIncompleteUploadDays" };
#define DAY_FIELDS (sizeof(day_fields) / sizeof(day_fields[0]))

/* What rules do, without whom they are for. */
static struct value *actions_of(const struct value *spec, struct arena *arena) {
        struct value *ret = value_new_map(arena);

        set_list(ret, "transitions", value_get(spec, "transitions"), compare_transitions, arena);
        for (size_t i = 0; i < DAY_FIELDS; i++)
                set_days(ret, day_fields[i], value_get_integer(spec, day_fields[i], -1), arena);
        return ret;
}

/* No environments and all of them must never look alike: a list that is empty is the same as none. */
static void set_reach(struct value *spec, bool for_all, const struct value *environments,
                      struct arena *arena) {
        value_set_text(arena, spec, "appliesTo", for_all ? FOR_ALL : FOR_ENVIRONMENTS);
        set_list(spec, "environments", environments, texts_compare, arena);
}

struct value *workspace_rules_spec(const struct value *spec, struct arena *arena) {
        struct value *ret = actions_of(spec, arena);

        set_reach(ret, workspace_rules_is_for_all(spec), value_get(spec, "environments"), arena);
        value_set_text(arena, ret, "lineage", value_get_text(spec, "lineage"));
        return ret;
}

bool workspace_rules_is_for_all(const struct value *spec) {
        const char *reach = value_get_text(spec, "appliesTo");

        return reach ? strcmp(reach, FOR_ALL) == 0
                     : value_get_boolean(value_get(spec, "selector"), "all", false);
}

/* What a rule does, without the unfinished uploads, which have a rule of their own. */
static bool has_actions(const struct value *spec) {
        const struct value *transitions = value_get(spec, "transitions");

        return (transitions && transitions->count > 0) ||
               value_get_integer(spec, "expireAfterDays", -1) >= 0 ||
               value_get_integer(spec, "noncurrentExpireAfterDays", -1) >= 0;
}

/* Unfinished uploads are parts without an object, so that S3 gives them neither tags nor transitions. */
static bool has_abort(const struct value *spec) {
        return value_get_integer(spec, "abortIncompleteUploadDays", -1) >= 0;
}

size_t workspace_rules_count(const struct value *spec) {
        const struct value *environments = value_get(spec, "environments");

        if (workspace_rules_is_for_all(spec))
                return (size_t)has_actions(spec) + (size_t)has_abort(spec);
        return environments && environments->type == VALUE_LIST && has_actions(spec) ? environments->count
                                                                                     : 0;
}

static void add_number(struct xml_node *parent, const char *name, int64_t number, struct arena *arena) {
        xml_add(parent, name, arena_printf(arena, "%lld", (long long)number));
}

/* <Rule><ID/><Filter/><Status/> of one environment, or of all where that is NULL. */
static struct xml_node *add_rule(struct xml_node *configuration, const char *id, const char *environment) {
        struct xml_node *rule = xml_add(configuration, "Rule", NULL), *filter, *tag;

        xml_add(rule, "ID", id);
        filter = xml_add(rule, "Filter", NULL);
        if (environment)
                filter = xml_add(filter, "And", NULL);
        xml_add(filter, "Prefix", WORKSPACE_PREFIX);
        if (environment) {
                tag = xml_add(filter, "Tag", NULL);
                xml_add(tag, "Key", WORKSPACE_TAG);
                xml_add(tag, "Value", environment);
        }
        xml_add(rule, "Status", "Enabled");
        return rule;
}

static void add_actions(struct xml_node *rule, const struct value *spec, struct arena *arena) {
        const struct value *transitions = value_get(spec, "transitions");
        int64_t expire = value_get_integer(spec, "expireAfterDays", -1);
        int64_t noncurrent = value_get_integer(spec, "noncurrentExpireAfterDays", -1);

        for (uint32_t i = 0; transitions && transitions->type == VALUE_LIST && i < transitions->count; i++) {
                struct xml_node *transition = xml_add(rule, "Transition", NULL);

                add_number(transition, "Days", value_get_integer(&transitions->items[i], "afterDays", 0),
                           arena);
                xml_add(transition, "StorageClass", value_get_text(&transitions->items[i], "storageClass"));
        }
        if (expire >= 0)
                add_number(xml_add(rule, "Expiration", NULL), "Days", expire, arena);
        if (noncurrent >= 0)
                add_number(xml_add(rule, "NoncurrentVersionExpiration", NULL), "NoncurrentDays", noncurrent,
                           arena);
}

void workspace_rules_add(struct xml_node *configuration, const char *stack, const char *policy,
                         const struct value *spec, struct arena *arena) {
        const struct value *environments = value_get(spec, "environments");
        const char *id = arena_printf(arena, "berth:%s:%s", stack, policy),
                   *lineage = value_get_text(spec, "lineage");

        if (workspace_rules_is_for_all(spec)) {
                const char *abort = arena_printf(arena, "%s:" ABORT, id);

                if (has_actions(spec))
                        add_actions(add_rule(configuration, lineage_mark(id, lineage, arena), NULL), spec,
                                    arena);
                if (has_abort(spec))
                        add_number(xml_add(add_rule(configuration, lineage_mark(abort, lineage, arena), NULL),
                                           "AbortIncompleteMultipartUpload", NULL),
                                   "DaysAfterInitiation",
                                   value_get_integer(spec, "abortIncompleteUploadDays", 0), arena);
                return;
        }
        for (uint32_t i = 0; has_actions(spec) && environments && i < environments->count; i++) {
                const char *environment = value_text_of(&environments->items[i]);
                const char *own = arena_printf(arena, "%s:%s", id, environment);

                add_actions(add_rule(configuration, lineage_mark(own, lineage, arena), environment), spec,
                            arena);
        }
}

void workspace_rules_copy(struct xml_node *configuration, const struct xml_node *rule, struct arena *arena) {
        struct xml_node *copy = xml_add(configuration, "Rule", NULL);
        bool has_filter = xml_child(rule, "Filter");

        for (const struct xml_node *child = xml_child(rule, NULL); child; child = xml_next(child, NULL)) {
                bool old = strcmp(xml_name(child), "Prefix") == 0;

                if (old && !has_filter)
                        xml_add(xml_add(copy, "Filter", NULL), "Prefix", xml_text(child, "", arena));
                else if (!old ||
                         *xml_text(child, "", arena)) /* beside a filter an empty prefix says nothing */
                        xml_add_copy(copy, child);
        }
        if (!has_filter && !xml_child(rule, "Prefix"))
                xml_add(copy, "Filter", NULL);
}

struct workspace_rules workspace_rules_index(const struct xml_node *configuration, struct arena *arena) {
        struct workspace_rules rules = { 0 };
        size_t count = 0;

        for (const struct xml_node *rule = xml_child(configuration, "Rule"); rule;
             rule = xml_next(rule, "Rule"))
                count++;
        rules.items = arena_array(arena, count, sizeof(*rules.items));
        for (const struct xml_node *rule = xml_child(configuration, "Rule"); rule;
             rule = xml_next(rule, "Rule")) {
                const char *id = xml_text(rule, "ID", arena), *lineage;

                id = lineage_unmark(id ? id : "", arena, &lineage);
                rules.items[rules.count++] = (struct workspace_rule){ rule, id, lineage };
        }
        return rules;
}

/*
 * The text behind `part` at the start of a text; NULL where the text begins otherwise, or is NULL
 * itself.
 */
static const char *skip_prefix(const char *text, const char *part) {
        size_t length = strlen(part);

        return text && strncmp(text, part, length) == 0 ? text + length : NULL;
}

/* Behind "berth:STACK:POLICY" in an ID: "" or ":NAME"; NULL where the rule is not this policy's. */
static const char *id_rest(const char *id, const char *stack, const char *policy) {
        const char *rest =
                skip_prefix(skip_prefix(skip_prefix(skip_prefix(id, "berth:"), stack), ":"), policy);

        return rest && (*rest == '\0' || *rest == ':') ? rest : NULL;
}

bool workspace_rules_owns(const char *id, const char *stack, const char *policy) {
        return id_rest(id, stack, policy) != NULL;
}

/* Days as a number; -1 if it is not a number, or negative. */
static int64_t days_of(const char *text) {
        char *end;
        long long days;

        if (!text || !*text)
                return -1;
        days = strtoll(text, &end, 10);
        return *end || days < 0 ? -1 : days;
}

/*
 * Servers write down settings that are off: ExpiredObjectDeleteMarker false, NewerNoncurrentVersions 0,
 * ObjectSizeGreaterThan 0 in every And. Those mean what leaving them out means, so they are no difference.
 */
static bool says_nothing(const struct xml_node *element, struct arena *arena) {
        const char *text = xml_text(element, "", arena);

        return !xml_child(element, NULL) && (!*text || strcmp(text, "false") == 0 || strcmp(text, "0") == 0);
}

/* The element's only child that says anything is `name`, a number; -1 for anything else. */
static int64_t only_days(const struct xml_node *element, const char *name, struct arena *arena) {
        for (const struct xml_node *child = xml_child(element, NULL); child; child = xml_next(child, NULL)) {
                if (strcmp(xml_name(child), name) != 0 && !says_nothing(child, arena))
                        return -1;
        }
        return days_of(xml_text(element, name, arena));
}

/* On a date, or after a number of days: a policy knows days only. */
static bool read_transition(const struct xml_node *element, struct value *transitions, struct arena *arena) {
        const char *class = xml_text(element, "StorageClass", arena);
        int64_t days = days_of(xml_text(element, "Days", arena));
        struct value *transition = value_new_map(arena);

        if (days < 0 || !class || xml_child(element, "Date"))
                return false;
        value_set_integer(arena, transition, "afterDays", days);
        value_set_text(arena, transition, "storageClass", class);
        value_append(arena, transitions, *transition);
        return true;
}

static bool read_days(const struct xml_node *element, const char *child, struct value *actions,
                      const char *field, struct arena *arena) {
        int64_t days = only_days(element, child, arena);

        if (days < 0)
                return false;
        value_set_integer(arena, actions, field, days);
        return true;
}

/* One element of a rule into the actions; false where no policy can say it. */
static bool read_element(const struct xml_node *element, struct value *actions, struct value *transitions,
                         struct arena *arena) {
        const char *name = xml_name(element);

        if (strcmp(name, "ID") == 0 || strcmp(name, "Filter") == 0)
                return true;
        if (strcmp(name, "Status") == 0)
                return strcmp(xml_text(element, "", arena), "Enabled") == 0;
        if (strcmp(name, "Transition") == 0)
                return read_transition(element, transitions, arena);
        if (strcmp(name, "Expiration") == 0)
                return read_days(element, "Days", actions, "expireAfterDays", arena);
        if (strcmp(name, "NoncurrentVersionExpiration") == 0)
                return read_days(element, "NoncurrentDays", actions, "noncurrentExpireAfterDays", arena);
        if (strcmp(name, "AbortIncompleteMultipartUpload") == 0)
                return read_days(element, "DaysAfterInitiation", actions, "abortIncompleteUploadDays", arena);
        /* An old form's prefix, or whatever comes. */
        return says_nothing(element, arena);
}

/* One rule of a policy. */
struct rule {
        const char *rest;        /* of its ID */
        const char *environment; /* that it selects by tag, or NULL */
        struct value *actions;   /* NULL where it is of no use: disabled, or not what its ID promises */
};

/* What the filter selects: false where it is not our prefix, with our tag at the most. */
static bool read_filter(const struct xml_node *rule, const char **ret_environment, struct arena *arena) {
        const struct xml_node *filter = xml_child(rule, "Filter"), *and = xml_child(filter, "And");
        const struct xml_node *tag;
        const char *prefix, *key;
        size_t conditions = 0;

        if (and)
                filter = and;
        prefix = xml_text(filter, "Prefix", arena);
        tag = xml_child(filter, "Tag");
        if (tag && says_nothing(tag, arena))
                tag = NULL;
        key = xml_text(tag, "Key", arena);
        for (const struct xml_node *child = xml_child(filter, NULL); child; child = xml_next(child, NULL))
                conditions += !says_nothing(child, arena);
        if (!prefix || strcmp(prefix, WORKSPACE_PREFIX) != 0 || conditions != (tag ? 2U : 1U))
                return false;
        if (tag && (!key || strcmp(key, WORKSPACE_TAG) != 0))
                return false;
        *ret_environment = xml_text(tag, "Value", arena);
        return true;
}

static void read_rule(const struct xml_node *element, const char *rest, struct rule *ret,
                      struct arena *arena) {
        struct value *actions = value_new_map(arena), *transitions = value_new_list(arena);
        bool usable;

        *ret = (struct rule){ .rest = rest };
        usable = read_filter(element, &ret->environment, arena);
        for (const struct xml_node *child = xml_child(element, NULL); usable && child;
             child = xml_next(child, NULL))
                usable = read_element(child, actions, transitions, arena);
        if (ret->environment)
                usable = usable && *rest == ':' && strcmp(rest + 1, ret->environment) == 0;
        else if (*rest)
                usable = usable && strcmp(rest, ":" ABORT) == 0;
        if (!usable)
                return;
        value_set(arena, actions, "transitions", *transitions);
        ret->actions = actions_of(actions, arena);
}

/* What a rule of this kind should do by the record: all of it, or the unfinished uploads alone, or all but those. */
static struct value *part_of(const struct value *spec, bool abort, struct arena *arena) {
        struct value *part = actions_of(spec, arena);

        if (abort) {
                value_set(arena, part, "transitions", value_null());
                value_set(arena, part, "expireAfterDays", value_null());
                value_set(arena, part, "noncurrentExpireAfterDays", value_null());
        } else {
                value_set(arena, part, "abortIncompleteUploadDays", value_null());
        }
        return part;
}

static bool is_abort(const struct rule *rule) {
        return !rule->environment && strcmp(rule->rest, ":" ABORT) == 0;
}

/* The actions that the policy's rules stand for: the recorded ones where any rule has them, else the first rule's. */
static const struct value *find_model(const struct rule *rules, size_t count, const struct value *recorded,
                                      struct arena *arena) {
        const struct value *expected = part_of(recorded, false, arena), *model = NULL;

        for (size_t i = 0; i < count; i++) {
                if (!rules[i].actions || is_abort(&rules[i]))
                        continue;
                if (value_equal(rules[i].actions, expected, NULL))
                        return expected;
                if (!model)
                        model = rules[i].actions;
        }
        return model;
}

/* What the rules of one policy add up to. */
struct sum {
        const struct value *recorded, *model;
        struct value *environments;
        bool for_all;        /* a rule for all that is as the model */
        bool aborts;         /* the rule for unfinished uploads, of use */
        bool by_environment; /* there are rules by environment */
        int64_t abort_days;
};

/* A rule that is not as it should be: missing where one was recorded, else one that no policy asked for. */
static void add_altered(struct sum *sum, const char *name, bool is_recorded, struct arena *arena) {
        if (!is_recorded)
                value_append(arena, sum->environments,
                             value_text(arena, arena_printf(arena, "%s (altered)", name)));
}

static void add_rule_up(struct sum *sum, const struct rule *rule, struct arena *arena) {
        bool as_model = rule->actions && sum->model && value_equal(rule->actions, sum->model, NULL);

        if (is_abort(rule)) {
                if (!rule->actions || !value_equal(rule->actions, part_of(rule->actions, true, arena), NULL))
                        return;
                sum->aborts = true;
                sum->abort_days = value_get_integer(rule->actions, "abortIncompleteUploadDays", -1);
        } else if (*rule->rest) {
                sum->by_environment = true;
                if (as_model)
                        value_append(arena, sum->environments, value_text(arena, rule->environment));
                else
                        add_altered(sum, rule->rest + 1,
                                    texts_have(value_get(sum->recorded, "environments"), rule->rest + 1),
                                    arena);
        } else if (as_model) {
                sum->for_all = true;
        } else {
                add_altered(sum, "*", workspace_rules_is_for_all(sum->recorded), arena);
        }
}

/* The rules of one policy as one spec: actions of the model, and whom the rules that do as it does are for. */
static struct value *combine(const struct rule *rules, size_t count, const struct value *recorded,
                             struct arena *arena) {
        struct sum sum = { .recorded = recorded,
                           .model = find_model(rules, count, recorded, arena),
                           .environments = value_new_list(arena),
                           .abort_days = -1 };
        struct value *spec = actions_of(sum.model, arena);
        bool none_says;

        for (size_t i = 0; i < count; i++)
                add_rule_up(&sum, &rules[i], arena);
        if (sum.aborts)
                set_days(spec, "abortIncompleteUploadDays", sum.abort_days, arena);
        /* The rule for unfinished uploads is made for all only; alone, it stands for a policy for all. */
        none_says = !sum.for_all && !sum.by_environment;
        set_reach(spec, sum.for_all || (none_says && (sum.aborts || workspace_rules_is_for_all(recorded))),
                  sum.environments, arena);
        return spec;
}

size_t workspace_rules_present(const struct workspace_rules *rules, const char *stack, const char *policy) {
        size_t count = 0;

        for (size_t i = 0; i < rules->count; i++)
                count += workspace_rules_owns(rules->items[i].id, stack, policy);
        return count;
}

struct value *workspace_rules_read(const struct workspace_rules *rules, const char *stack, const char *policy,
                                   const struct value *recorded, struct arena *arena) {
        size_t count = workspace_rules_present(rules, stack, policy);
        const char *lineage = NULL;
        struct value *spec;
        struct rule *own;
        bool one = true;

        if (count == 0)
                return NULL;
        own = arena_array(arena, count, sizeof(*own));
        count = 0;
        for (size_t i = 0; i < rules->count; i++) {
                const char *rest = id_rest(rules->items[i].id, stack, policy);

                if (!rest)
                        continue;
                one &= count == 0 || texts_same(lineage, rules->items[i].lineage);
                lineage = rules->items[i].lineage;
                read_rule(rules->items[i].node, rest, &own[count++], arena);
        }
        spec = combine(own, count, recorded, arena);
        value_set_text(arena, spec, "lineage", one ? lineage : NULL);
        return spec;
}
