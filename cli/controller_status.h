/* SPDX-License-Identifier: Apache-2.0 */
/* `berth controller status` for people; the document is that of docs/json.md. */
#ifndef BERTH_CLI_CONTROLLER_STATUS_H
#define BERTH_CLI_CONTROLLER_STATUS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/*
 * One row a source, wide messages below, and then what a person has to decide. `where` is what a command needs to find
 * the same controller: "" or " --state DIR" and the like. `now_ms` is wall time.
 */
void controller_status_table(const json_t *document, const char *where, int64_t now_ms, FILE *stream);
/* Everything of each source. */
void controller_status_details(const json_t *document, const char *where, int64_t now_ms, FILE *stream);

/* The condition of that type, borrowed; NULL where the source has none yet. */
const json_t *controller_status_condition(const json_t *source, const char *type);

#endif
