/* SPDX-License-Identifier: Apache-2.0 */
/* What the state is told when a change has ended: one batch of operations for one resource. */
#ifndef BERTH_CONTROLLER_RECORD_H
#define BERTH_CONTROLLER_RECORD_H

#include "controller/plan.h"

#define RECORD_WRITER_MAX 5

/* Holds what its operations point to: do not copy or move it before they are committed. */
struct record_writer {
        struct state_op ops[RECORD_WRITER_MAX];
        size_t count;
        struct record record;
        struct sighting sighting;
        struct binding binding;
        const char *provider;
        int64_t wall_ms;
};

void record_writer_init(struct record_writer *writer, const char *provider, int64_t wall_ms);
/* The subject is now as it shall be, and `observed` is what is there. `key` is the state's, for hashes of what is sensitive. */
void record_applied(struct record_writer *writer, const struct subject *subject,
                    const struct observation *observed, const uint8_t *key);
/* The subject exists and is ours from now on; of its fields none was set by us yet (`nothing`: an empty map). */
void record_adopted(struct record_writer *writer, const struct subject *subject, const struct value *nothing);
/*
 * The subject exists and is ours, and was applied as `spec` says: as it is there, in the form of what is wished for. Its
 * source is not known.
 */
void record_found(struct record_writer *writer, const struct subject *subject, const struct value *spec,
                  const uint8_t *key);
/* The subject exists no more. */
void record_forget(struct record_writer *writer, const struct subject *subject);
/* A change is about to make its first call: a creation is recorded, as incomplete, by what it is to become. */
void record_begun(struct record_writer *writer, const struct subject *subject);
/* It was queued, and made no call after all. */
void record_withdrawn(struct record_writer *writer, const struct subject *subject);
/* A change failed, and what was known of the resource is not to be trusted any more. */
void record_failed(struct record_writer *writer, const struct subject *subject);
/* Whether a settled subject's record says something else than what is there and shall be there. */
bool record_is_stale(const struct subject *subject);

#endif
