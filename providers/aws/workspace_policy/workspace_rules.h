/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WorkspacePolicy as lifecycle rules of the bucket, and back. Pure.
 *
 * The spec, as desired and observed; absent actions are null, so that one which others add to our
 * rules is a difference; lineage is absent where the rules tell none, or more than one:
 *   appliesTo "all" | "environments", environments [NAME] (null: none, or all), transitions [{afterDays, storageClass}], expireAfterDays,
 *   noncurrentExpireAfterDays, abortIncompleteUploadDays, lineage
 * The rules, all for the prefix workspaces/sessions/:
 *   berth:STACK:POLICY              for all
 *   berth:STACK:POLICY:ENVIRONMENT  by the object tag berth:environment; S3 cannot OR two values of a tag
 *   berth:STACK:POLICY:abort        unfinished uploads; they have no tags to select by
 * Rules have no tags: behind each of these stands "@LINEAGE", the state's that wrote it (189 of the 255 characters that S3 takes).
 */
#ifndef BERTH_PROVIDERS_AWS_WORKSPACE_POLICY_WORKSPACE_RULES_H
#define BERTH_PROVIDERS_AWS_WORKSPACE_POLICY_WORKSPACE_RULES_H

#include "providers/aws/client/xml.h"
#include "schema/value.h"

#include <stdbool.h>

#define WORKSPACE_PREFIX "workspaces/sessions/"
#define WORKSPACE_TAG "berth:environment"
#define WORKSPACE_RULES_MAX 1000 /* a bucket's, S3's limit */

/* The lifecycle part of a spec, or of a manifest, in the form said above: sorted, absent actions null. */
struct value *workspace_rules_spec(const struct value *spec, struct arena *arena);
/* Whether a spec, or a manifest, selects objects of all environments, and of none. */
bool workspace_rules_is_for_all(const struct value *spec);
/* How many rules the spec takes; 0 if it selects environments and no environment exists. */
size_t workspace_rules_count(const struct value *spec);
/* Adds the spec's rules below <LifecycleConfiguration>. */
void workspace_rules_add(struct xml_node *configuration, const char *stack, const char *policy,
                         const struct value *spec, struct arena *arena);

/* A document's rules with their IDs, read once for all policies. */
struct workspace_rules {
        struct workspace_rule {
                const struct xml_node *node;
                const char *id;      /* without its lineage; "" where it has none */
                const char *lineage; /* NULL: it tells none */
        } * items;
        size_t count;
};
struct workspace_rules workspace_rules_index(const struct xml_node *configuration, struct arena *arena);
/* Whether a rule of this ID is one of this policy's. */
bool workspace_rules_owns(const char *id, const char *stack, const char *policy);

/*
 * Copies another's rule, element by element since it may say what Berth does not know. Its prefix goes from the rule, where the
 * first version of these documents had it, into a filter: S3 takes no document with rules of both versions.
 */
void workspace_rules_copy(struct xml_node *configuration, const struct xml_node *rule, struct arena *arena);

/* How many rules of this policy's there are, whatever they do. */
size_t workspace_rules_present(const struct workspace_rules *rules, const char *stack, const char *policy);

/*
 * What this policy's rules in the document amount to: the spec, with those environments only whose rules are as the
 * others; NULL where it has no rule. `recorded` (may be NULL) says which of two rules that disagree is the altered one.
 * A rule that is disabled, selects otherwise or does what no policy can say counts as missing; where `recorded` has no
 * such rule at all it is listed as the environment "NAME (altered)", "* (altered)" being the rule for all: no policy
 * says that, so that it is a difference whatever is desired.
 */
struct value *workspace_rules_read(const struct workspace_rules *rules, const char *stack, const char *policy,
                                   const struct value *recorded, struct arena *arena);

#endif
