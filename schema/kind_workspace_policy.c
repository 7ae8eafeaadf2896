/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/fields.h"
#include "schema/loading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IA_DAYS_MIN 30
#define LIFECYCLE_RULES_MAX 1000U /* S3's, a bucket */

#define DAYS_MAX 2147483647 /* S3's */

/* In the order in which S3 moves objects down, and never up: depth_of_class() relies on it. */
static const char *const storage_classes[] = {
        "STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE", NULL
};
static const char *const only_true[] = { "true", NULL };

static const struct field selector_fields[] = {
        {
                .name = "environments",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 1000,
                .item = &environment_name_field,
                .doc = "The environments of these names.",
        },
        {
                .name = "matchLabels",
                .type = FIELD_MAP,
                .keys = &label_key_field,
                .item = &label_value_field,
                .minimum = 1,
                .maximum = 100,
                .doc = "The environments that have all of these labels.",
        },
        {
                .name = "all",
                .type = FIELD_BOOLEAN,
                .choices_text = only_true,
                .doc = "Every workspace, also those whose environment is gone.",
        },
        { 0 },
};

static const char *const selector_names[] = { "environments", "matchLabels", "all", NULL };
static const struct field_group selector_groups[] = { { selector_names, true }, { 0 } };

static const struct field transition_fields[] = {
        {
                .name = "afterDays",
                .type = FIELD_INTEGER,
                .required = true,
                .unit = "days",
                .minimum = 0,
                .maximum = DAYS_MAX,
                .doc = "Days after the file was written. STANDARD_IA and ONEZONE_IA take files of 30 days and more.",
        },
        {
                .name = "storageClass",
                .type = FIELD_TEXT,
                .required = true,
                .choices_text = storage_classes,
                .doc = "The S3 storage class to move to.",
        },
        { 0 },
};

static const struct field transition_field = {
        .name = "transition",
        .type = FIELD_OBJECT,
        .fields = transition_fields,
        .doc = "One move.",
};

static const char *const action_names[] = { "transitions", "expireAfterDays", "noncurrentExpireAfterDays",
                                            "abortIncompleteUploadDays", NULL };
static const struct field_group workspace_policy_groups[] = { { action_names, false }, { 0 } };

static const struct field workspace_policy_fields[] = {
        {
                .name = "selector",
                .type = FIELD_OBJECT,
                .required = true,
                .fields = selector_fields,
                .groups = selector_groups,
                .doc = "Whose workspaces the policy is for. Where several policies fit a file, the shorter expiry wins.",
        },
        {
                .name = "transitions",
                .type = FIELD_LIST,
                .minimum = 1,
                .maximum = 6,
                .item = &transition_field,
                .doc = "Moves to cheaper storage, in the order of their days and of S3's classes.",
        },
        {
                .name = "expireAfterDays",
                .type = FIELD_INTEGER,
                .unit = "days",
                .minimum = 1,
                .maximum = DAYS_MAX,
                .doc = "Files are deleted this many days after they were written; later than the last transition. A "
                       "change that would delete what already exists is refused (expires-existing).",
        },
        {
                .name = "noncurrentExpireAfterDays",
                .type = FIELD_INTEGER,
                .unit = "days",
                .minimum = 1,
                .maximum = DAYS_MAX,
                .doc = "In a bucket with versions: older versions are deleted this many days after they were replaced.",
        },
        {
                .name = "abortIncompleteUploadDays",
                .type = FIELD_INTEGER,
                .unit = "days",
                .minimum = 1,
                .maximum = DAYS_MAX,
                .doc = "Uploads that were begun and not finished are cleared away after this many "
                       "days. Only with selector {all: true}: unfinished uploads have no tags to "
                       "select by.",
        },
        {
                .name = "maxDownloadFileMB",
                .type = FIELD_INTEGER,
                .unit = "MB",
                .minimum = 1,
                .maximum = 10240,
                .default_text = "25",
                .doc = "The largest file that an archive of a workspace (a zip) has; larger ones are left out, and named in it. A file by itself is handed out whatever its size.",
        },
        { 0 },
};

static bool is_infrequent_access(const char *storage_class) {
        return strcmp(storage_class, "STANDARD_IA") == 0 || strcmp(storage_class, "ONEZONE_IA") == 0;
}

/* How far down a class is: its place in the field's choices. */
static size_t depth_of_class(const struct kind *kind, const char *storage_class) {
        const struct field *field = kind_field(kind, "transitions.storageClass");
        size_t depth = 0;

        while (field->choices_text[depth] && strcmp(field->choices_text[depth], storage_class) != 0)
                depth++;
        return depth;
}

/* Downwards, with one exception: what lies in one zone alone goes to no class that is read at once. */
static bool s3_moves(const struct kind *kind, const char *from, const char *to) {
        return depth_of_class(kind, to) > depth_of_class(kind, from) &&
               !(strcmp(from, "ONEZONE_IA") == 0 && strcmp(to, "GLACIER_IR") == 0);
}

/*
 * S3's rules for two moves of the same object (Amazon S3 User Guide, "Transitioning objects using Amazon S3
 * Lifecycle"): only down, later than the move before, and not before 30 days in an infrequent access class are over.
 */
static void check_transition_pair(struct loading *loading, const struct kind *kind,
                                  const struct value *before, const struct value *after) {
        const char *from = value_get_text(before, "storageClass"),
                   *to = value_get_text(after, "storageClass");
        const struct value *from_days = typed_member(before, "afterDays", VALUE_INTEGER);
        const struct value *to_days = typed_member(after, "afterDays", VALUE_INTEGER);

        if (!from || !to || !from_days || !to_days)
                return;
        if (!s3_moves(kind, from, to))
                problem_error(
                        loading, place_of(value_get(after, "storageClass")),
                        "the order is STANDARD_IA, INTELLIGENT_TIERING, ONEZONE_IA or GLACIER_IR, GLACIER, "
                        "DEEP_ARCHIVE",
                        "S3 moves nothing from %s to %s", from, to);
        if (to_days->integer <= from_days->integer)
                problem_error(loading, place_of(to_days), NULL,
                              "afterDays is %" PRId64 ", not after the transition before it, %" PRId64,
                              to_days->integer, from_days->integer);
        else if (is_infrequent_access(from) && to_days->integer - from_days->integer < IA_DAYS_MIN)
                problem_error(
                        loading, place_of(to_days), NULL,
                        "S3 keeps files in %s for %d days before it moves them on: afterDays must be at least %" PRId64
                        ", found %" PRId64,
                        from, IA_DAYS_MIN, from_days->integer + IA_DAYS_MIN, to_days->integer);
}

static void check_transitions(struct loading *loading, const struct draft *draft,
                              const struct value *transitions) {
        for (uint32_t i = 0; i < transitions->count; i++) {
                const struct value *transition = &transitions->items[i];
                const char *storage_class = value_get_text(transition, "storageClass");
                const struct value *days = typed_member(transition, "afterDays", VALUE_INTEGER);

                if (storage_class && days && is_infrequent_access(storage_class) &&
                    days->integer < IA_DAYS_MIN)
                        problem_error(loading, place_of(days), NULL,
                                      "S3 moves files to %s after %d days at the earliest, found %" PRId64,
                                      storage_class, IA_DAYS_MIN, days->integer);
                if (i > 0)
                        check_transition_pair(loading, draft->resource.kind, &transitions->items[i - 1],
                                              transition);
        }
}

static void check_workspace_policy(struct loading *loading, const struct draft *draft) {
        const struct value *spec = draft->resource.spec;
        const struct value *transitions = typed_member(spec, "transitions", VALUE_LIST);
        const struct value *expire = typed_member(spec, "expireAfterDays", VALUE_INTEGER);
        const struct value *abort_days = typed_member(spec, "abortIncompleteUploadDays", VALUE_INTEGER);
        const struct value *selector = typed_member(spec, "selector", VALUE_MAP);

        check_names_once(loading, typed_member(selector, "environments", VALUE_LIST));
        if (abort_days && selector && !value_get(selector, "all"))
                problem_error(
                        loading, place_of(abort_days), "put it into a policy with selector {all: true}",
                        "abortIncompleteUploadDays needs selector {all: true}: unfinished uploads have no tags "
                        "to select by");
        if (!transitions || transitions->count == 0)
                return;
        check_transitions(loading, draft, transitions);
        if (expire) {
                const struct value *last =
                        typed_member(&transitions->items[transitions->count - 1], "afterDays", VALUE_INTEGER);

                if (last && expire->integer <= last->integer)
                        problem_error(loading, place_of(expire), NULL,
                                      "expireAfterDays is %" PRId64
                                      ", not after the last transition, %" PRId64,
                                      expire->integer, last->integer);
        }
}

static int compare_names(const void *a, const void *b) {
        return strcmp(((const struct value *)a)->text, ((const struct value *)b)->text);
}

/* The environments that a policy's selector names, declared or not; sorted. */
static struct value selected_by_name(struct loading *loading, const struct value *names) {
        struct value selected = { .type = VALUE_LIST };

        for (uint32_t i = 0; i < names->count; i++) {
                if (value_text_of(&names->items[i]))
                        value_append(loading->arena, &selected, names->items[i]);
        }
        if (selected.count > 1)
                qsort(selected.items, selected.count, sizeof(*selected.items), compare_names);
        return selected;
}

static struct value selected_by_labels(struct loading *loading, const struct value *labels) {
        struct drafts environments = drafts_of(loading, KIND_ENVIRONMENT);
        struct value selected = { .type = VALUE_LIST };

        for (size_t i = 0; i < environments.count; i++) {
                const struct resource *environment = &environments.items[i].resource;

                if (labels_match(environment->labels, labels))
                        value_append(loading->arena, &selected,
                                     value_text(loading->arena, environment->name));
        }
        return selected;
}

/* How many lifecycle rules a policy becomes: one for all or one for each environment, and one for unfinished uploads. */
static size_t count_rules(const struct value *spec) {
        bool acts = value_get(spec, "transitions") || value_get(spec, "expireAfterDays") ||
                    value_get(spec, "noncurrentExpireAfterDays");
        const struct value *environments = value_get(spec, "environments");
        size_t each = environments ? environments->count : 1;

        return (acts ? each : 0) + (value_get(spec, "abortIncompleteUploadDays") ? 1 : 0);
}

static void resolve_selector(struct loading *loading, const struct draft *policy) {
        const struct value *selector = typed_member(policy->resource.spec, "selector", VALUE_MAP);
        const struct value *names = typed_member(selector, "environments", VALUE_LIST);
        const struct value *labels = typed_member(selector, "matchLabels", VALUE_MAP);
        struct value selected;

        if (!names && !labels)
                return;
        selected = names ? selected_by_name(loading, names) : selected_by_labels(loading, labels);
        /* Where a document could not be read, the environment that has these labels may stand in it. */
        if (selected.count == 0 && labels && loading->diagnostics->errors == 0)
                problem_warning(loading, place_of(labels), NULL, "no Environment has these labels");
        value_set(loading->arena, draft_spec(policy), "environments", selected);
}

static void resolve_policies(struct loading *loading) {
        struct drafts policies = drafts_of(loading, KIND_WORKSPACE_POLICY);
        const struct draft *beyond = NULL;
        size_t rules = 0;

        for (size_t i = 0; i < policies.count; i++) {
                loading->address = policies.items[i].resource.address;
                resolve_selector(loading, &policies.items[i]);
                rules += count_rules(policies.items[i].resource.spec);
                if (rules > LIFECYCLE_RULES_MAX && !beyond)
                        beyond = &policies.items[i];
        }
        if (!beyond)
                return;
        loading->address = beyond->resource.address;
        problem_error(loading, beyond->name,
                      "selector {all: true} takes one rule, any other one for each environment",
                      "the workspace policies become %zu lifecycle rules, S3 takes %u a bucket", rules,
                      LIFECYCLE_RULES_MAX);
}

static void summarise_policy(const struct value *spec, const struct value *wish, struct strbuf *out) {
        const struct value *environments = value_get(spec, "environments");
        int64_t expire = value_get_integer(spec, "expireAfterDays", 0);
        const struct value *transitions = value_get(spec, "transitions");

        (void)wish;
        if (environments)
                strbuf_printf(out, "%u %s", environments->count,
                              environments->count == 1 ? "environment" : "environments");
        else
                strbuf_append(out, "all environments");
        if (transitions && transitions->count)
                strbuf_printf(out, ", moved after %" PRId64 " days",
                              value_get_integer(&transitions->items[0], "afterDays", 0));
        if (expire)
                strbuf_printf(out, ", deleted after %" PRId64 " days", expire);
}

static const char *const short_names[] = { "policy", "policies", "workspacepolicies", NULL };
static const struct kind_reference references[] = {
        { .path = "selector.environments[]", .kind = KIND_ENVIRONMENT, .late = true },
        { 0 },
};

const struct kind workspace_policy_kind = {
        .id = KIND_WORKSPACE_POLICY,
        .name = "WorkspacePolicy",
        .short_names = short_names,
        .doc = "How long the files of sessions are kept, and where. In AWS, lifecycle rules of the workspace "
               "bucket.",
        .fields = workspace_policy_fields,
        .groups = workspace_policy_groups,
        .schema_rules =
                "{\"allOf\": ["
                "{\"if\": {\"required\": [\"abortIncompleteUploadDays\"]}, \"then\": "
                "{\"properties\": {\"selector\": {\"required\": [\"all\"]}}}},"
                "{\"properties\": {\"transitions\": {\"items\": {"
                "\"if\": {\"properties\": {\"storageClass\": {\"enum\": [\"STANDARD_IA\", \"ONEZONE_IA\"]}}, "
                "\"required\": [\"storageClass\"]}, "
                "\"then\": {\"properties\": {\"afterDays\": {\"minimum\": 30}}}}}}}]}",
        .managed = true,
        .lane = 3,
        .references = references,
        .check = check_workspace_policy,
        .resolve = resolve_policies,
        .summarise = summarise_policy,
};
