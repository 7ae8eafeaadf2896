/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of agents and swarms in the bucket that this plan knows nothing of: of a state that was
 * lost, of other stacks, or written by hand. Runners of agents go by the records, so that these
 * count when an environment is deleted, whoever wrote them.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_BOUND_RECORDS_H
#define BERTH_PROVIDERS_AWS_SHARED_BOUND_RECORDS_H

#include "providers/aws/shared/aws_provider.h"

#define REGISTRY "registry/"

/* A plan begins: what the last one found is forgotten. */
void bound_records_forget(struct provider *provider);
/* This object's record belongs to a resource of the plan, which the controller judges. For observe. */
void bound_records_know(struct provider *provider, const char *key);
/*
 * Adds the refusal has-dependents to the deletion of an environment whose function other records name. The first that
 * asks in a plan has the whole registry listed, and reads what the plan does not know.
 */
int bound_records_ask(struct provider *provider, struct change *change, const char *function,
                      struct arena *arena, struct error *err) MUST_USE;

#endif
