/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that a commit may not choose by itself. A commit's Stack says which endpoint this
 * machine's credentials sign requests for, whose profile and role they are, and which folders are
 * written: an author of the repository could point them anywhere, without any question before the
 * first call. So the Controller holds these fast, per source, and a commit that names anything else
 * is refused before a provider is opened. Pure: nothing is read, resolved or called.
 *
 *     pins_hold(config, &manifests, &diagnostics)
 *
 * | of the Stack                                    | may be                                             |
 * |-------------------------------------------------|----------------------------------------------------|
 * | provider                                        | pins.provider, where that is given                 |
 * | aws.profile, aws.assumeRole, aws.endpointUrl    | the pin; not pinned: nothing                       |
 * | aws.kmsKey                                      | likewise                                           |
 * | aws.region, aws.account, aws.namePrefix,        | the pin; not pinned: anything                      |
 * | aws.permissionsBoundary, aws.rolePath           |                                                    |
 * | aws.network, and an Environment's, as a word    | isolated, or the pin; not pinned: open too         |
 * | the same, as subnets and security groups        | all of them in may.subnets, may.securityGroups     |
 * | {secret: ARN}, {parameter: ARN} of variables    | what a pattern of may.secrets, may.parameters matches |
 * | aws.executionRole, and an Environment's         | what a pattern of may.executionRoles matches; of   |
 * |                                                 | an Environment also own                            |
 * | registry of images                              | what a pattern of may.registries matches           |
 * | state                                           | the source's state; without one, what a pattern of  |
 * |                                                 | may.states matches                                 |
 * | local.images, local.workspaces                  | one of may.images, may.workspaces                  |
 *
 * All of these may be absent: then the pin is used, or what the field's absence means.
 */
#ifndef BERTH_GITOPS_PINS_H
#define BERTH_GITOPS_PINS_H

#include "gitops/config.h"
#include "schema/manifests.h"

#define PINS_REASON "NotPermitted" /* of the condition Ready */

/*
 * Whether the manifests name nothing that they may not. Where it does, `diagnostics` has an error for each, with its place. Else
 * the pins stand in the Stack's spec from here on, as if the commit had said them.
 */
bool pins_hold(const struct source_config *config, struct manifests *manifests,
               struct diagnostics *diagnostics);

#endif
