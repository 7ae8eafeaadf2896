/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of the stack's bucket below a prefix, page after page. */
#ifndef BERTH_PROVIDERS_AWS_SHARED_OBJECTS_H
#define BERTH_PROVIDERS_AWS_SHARED_OBJECTS_H

#include "providers/aws/shared/aws_provider.h"

/* One object, for as long as the call lasts; -1 with err ends the walk. */
typedef int objects_visit(void *context, const struct s3_object *object, struct error *err);

/*
 * Calls visit() for each object whose key begins with `prefix`, in the order of the listing; for none where there is no
 * bucket. An object that the listing was not asked for is passed over. Waits by itself.
 */
int objects_each(struct provider *provider, const char *prefix, objects_visit *visit, void *context,
                 struct error *err) MUST_USE;

#endif
