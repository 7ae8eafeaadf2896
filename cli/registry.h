/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs about images share. */
#ifndef BERTH_CLI_REGISTRY_H
#define BERTH_CLI_REGISTRY_H

#include "cli/session.h"
#include "providers/images.h"

/* Opens manifests and provider, and makes sure that it is the Stack's account. The state is not looked at. */
int registry_open(struct session *session, const struct options *options, struct error *err) MUST_USE;

/* A row as docs/json.md says; a new reference. */
json_t *registry_row_json(const struct image_row *row);
/* "12.3 MB"; "-" for 0. The buffer takes 16 bytes and more. */
const char *registry_size(int64_t bytes, char *buffer, size_t size);

#endif
