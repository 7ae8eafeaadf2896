/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the verbs `images` and `image`: opening the registry, printing its rows. */
#ifndef BERTH_CLI_REGISTRY_H
#define BERTH_CLI_REGISTRY_H

#include "cli/session.h"
#include "providers/images.h"

/* Opens manifests and provider, and checks that the account is the Stack's. Does not read the state. */
int registry_open(struct session *session, const struct options *options, struct error *err) MUST_USE;

/* A row in the form of docs/json.md; a new reference. */
json_t *registry_row_json(const struct image_row *row);
/* "12.3 MB"; "-" for 0. The buffer takes 16 bytes and more. */
const char *registry_size(int64_t bytes, char *buffer, size_t size);

#endif
