/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the operations as documents: OpenAPI 3.1 for programs, docs/api.md for people. */
#ifndef BERTH_BROKER_API_OPENAPI_H
#define BERTH_BROKER_API_OPENAPI_H

#include "base/arena.h"
#include "broker/request/operation.h"

#include <jansson.h>
#include <stdio.h>

/* A new reference; without sessions their operations are left out. */
json_t *openapi_document(bool with_sessions);

/* docs/api.md. */
void openapi_markdown(FILE *stream);

/* --- what both tell of an operation --- */

/* As api_next(), but only what documents tell of. */
const struct operation *openapi_next(size_t *at, bool with_sessions);
/* The codes of the problems that it may answer, by their status; ended by NULL. */
const char *const *openapi_codes(const struct operation *operation, struct arena *arena);
/* "execute", "observe": what a client must be allowed, one of them; ended by NULL, and empty where any client may. */
const char *const *openapi_rights(const struct operation *operation, struct arena *arena);
/* "/v1/workspaces/{id}/files/{path}": the name of the n-th parameter in its path; NULL behind the last. */
const char *openapi_path_parameter(const char *path, size_t n, struct arena *arena);
/* The path, each parameter by its name alone. */
const char *openapi_path(const char *path, struct arena *arena);

#endif
