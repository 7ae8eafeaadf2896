/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no stand-in can show of AWS, tried in the account itself: `berth doctor --aws`.
 *
 * Some forty small calls and five invocations of a second each. All that is made is called so that nothing else can have the name, and is
 * removed at the end, also after an interrupt; what a death left is removed by the next one:
 *
 *     {namePrefix}-doctor                                 a function, and a repository of ECR, with the tag berth:doctor
 *     workspaces/sessions/doctor_{stack}_*                objects in the stack's bucket
 *     (doctor, {stack}-*)                                 records in the Stack's table for sessions
 *
 * A resource with one of these names and without the tag is another owner's, and stays. The
 * checklist is in docs/aws.md.
 */
#ifndef BERTH_PROVIDERS_AWS_CHECKLIST_CHECKLIST_H
#define BERTH_PROVIDERS_AWS_CHECKLIST_CHECKLIST_H

#include "providers/examine.h"
#include "providers/provider.h"

struct aws_checklist {
        struct provider *provider; /* after identify() */
        /* Environments that were applied: the first whose function serves sessions lends its image, role and network. */
        const char *const *environments;
        size_t environment_count;
};

/*
 * At most `max` findings, in the arena; AWS_CHECKLIST_MAX are enough. An optional one that does not
 * work was not tried: its detail says why. Everything else that does not work has failed.
 */
#define AWS_CHECKLIST_MAX 16
void aws_checklist_run(const struct aws_checklist *asked, struct arena *arena, struct finding *ret,
                       size_t max, size_t *ret_count);

#endif
