/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons of signatures and secrets that take the same time wherever texts differ. */
#ifndef BERTH_GITOPS_SIGNATURE_H
#define BERTH_GITOPS_SIGNATURE_H

#include <stdbool.h>

bool signature_same(const char *text, const char *other);

#endif
