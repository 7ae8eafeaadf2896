/* SPDX-License-Identifier: Apache-2.0 */
/* What workspace_policy.c (desired and observed) and workspace_policy_step.c (making it so) share. */
#ifndef BERTH_PROVIDERS_AWS_WORKSPACE_POLICY_WORKSPACE_POLICY_H
#define BERTH_PROVIDERS_AWS_WORKSPACE_POLICY_WORKSPACE_POLICY_H

#include "providers/aws/shared/aws_provider.h"
#include "providers/aws/workspace_policy/workspace_rules.h"

extern const struct kind_ops aws_workspace_policy_ops;

/* What exists where `spec` stands for that many rules. */
struct observation workspace_policy_seen(const struct provider *provider, const char *name,
                                         const struct value *spec, size_t rules, struct arena *arena);
/* The first lineage among the policy's rules that is another state's; NULL: none. */
const char *workspace_policy_rival(const struct provider *provider, const struct workspace_rules *rules,
                                   const char *policy);
/* How many rules of the policy were in the bucket when it was observed, whatever they do; -1 where that is not known. */
int64_t workspace_policy_rules(const struct observation *observed);

/* workspace_policy_ask.c: the refusal expires-existing. */
int workspace_policy_ask(struct provider *provider, struct change *change, struct arena *arena,
                         struct error *err);

/* workspace_policy_step.c */
void workspace_policy_cost(const struct provider *provider, const struct change *change, struct cost *ret);
int workspace_policy_step(struct provider *provider, const struct change *change, struct progress *progress,
                          struct observation *ret_observed, struct error *err);
/* Lets the next change of this process have its turn at the lifecycle. */
void workspace_policy_abandon(struct provider *provider, const struct change *change);

#endif
