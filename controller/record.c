/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each end of a change means for the state:
 *
 *     applied    record, sighting, binding; the journal's entry goes
 *     begun      a creation only: an incomplete record, so that its parts can be found and deleted should this run die
 *     withdrawn  the above undone, but for what an even earlier run had left
 *     failed     the older record, marked as incomplete, so that the next plan reads the resource; of the sighting only the
 *                provider's notes count until then
 *     forgotten  record, sighting, binding and override go
 */
#include "controller/record.h"

#include "controller/planning.h"
#include "controller/sighting.h"

#include <string.h>

/* RECORD_WRITER_MAX is the most that any of the functions below adds. */
static void add_op(struct record_writer *writer, struct state_op op) {
        writer->ops[writer->count++] = op;
}

static void add_address(struct record_writer *writer, enum state_op_type type,
                        const struct subject *subject) {
        add_op(writer, (struct state_op){ .type = type, .address = subject->address });
}

void record_writer_init(struct record_writer *writer, const char *provider, int64_t wall_ms) {
        memset(writer, 0, sizeof(*writer));
        writer->provider = provider;
        writer->wall_ms = wall_ms;
}

static void put_record(struct record_writer *writer, const struct subject *subject, const char *id,
                       const struct value *spec, const uint8_t fingerprint[SHA256_SIZE],
                       const uint8_t source[SOURCE_SIZE], bool incomplete) {
        writer->record = (struct record){
                .address = subject->address,
                .provider = writer->provider,
                .id = id,
                .spec = spec,
                .applied_ms = writer->wall_ms,
                .incomplete = incomplete,
        };
        memcpy(writer->record.fingerprint, fingerprint, SHA256_SIZE);
        memcpy(writer->record.source, source, SOURCE_SIZE);
        add_op(writer, (struct state_op){ .type = STATE_PUT_RECORD, .record = &writer->record });
}

static bool may_bind(const struct subject *subject) {
        return kind_binding(subject->kind) != NULL;
}

static void put_binding(struct record_writer *writer, const struct subject *subject) {
        /* A dependent that was disassociated keeps its binding, as an inactive one: its reference still guards. */
        const char *environment = bound_environment(subject->kind, subject->declared->spec);

        if (!may_bind(subject))
                return;
        if (!environment) {
                add_address(writer, STATE_DELETE_BINDING, subject);
                return;
        }
        writer->binding = (struct binding){
                .environment = environment,
                .dependent = subject->address,
                .active = !subject->override && value_get_boolean(subject->desired->spec, "active", true),
        };
        add_op(writer, (struct state_op){ .type = STATE_PUT_BINDING, .binding = &writer->binding });
}

void record_applied(struct record_writer *writer, const struct subject *subject,
                    const struct observation *observed, const uint8_t *key) {
        uint8_t fingerprint[SHA256_SIZE];

        memcpy(fingerprint, subject->fingerprint, sizeof(fingerprint));
        if (observed->applied)
                value_fingerprint(observed->applied, key, fingerprint);
        put_record(writer, subject, observed->id, observed->applied ? observed->applied : subject->wish,
                   fingerprint, subject->source, false);
        sighting_of(observed, subject->address, writer->wall_ms, &writer->sighting);
        add_op(writer, (struct state_op){ .type = STATE_PUT_SIGHTING, .sighting = &writer->sighting });
        put_binding(writer, subject);
        add_address(writer, STATE_JOURNAL_END, subject);
}

void record_adopted(struct record_writer *writer, const struct subject *subject,
                    const struct value *nothing) {
        static const uint8_t unknown[SOURCE_SIZE];
        uint8_t fingerprint[SHA256_SIZE];

        value_fingerprint(nothing, NULL, fingerprint);
        put_record(writer, subject, subject->observed->id, nothing, fingerprint, unknown, false);
        put_binding(writer, subject);
}

void record_found(struct record_writer *writer, const struct subject *subject, const struct value *spec,
                  const uint8_t *key) {
        static const uint8_t unknown[SOURCE_SIZE];
        uint8_t fingerprint[SHA256_SIZE];
        const char *environment = bound_environment(subject->kind, spec);

        value_fingerprint(spec, key, fingerprint);
        put_record(writer, subject, subject->observed->id, spec, fingerprint, unknown, false);
        if (!may_bind(subject) || !environment)
                return;
        writer->binding = (struct binding){ .environment = environment,
                                            .dependent = subject->address,
                                            .active = value_get_boolean(spec, "active", true) };
        add_op(writer, (struct state_op){ .type = STATE_PUT_BINDING, .binding = &writer->binding });
}

void record_forget(struct record_writer *writer, const struct subject *subject) {
        if (subject->record)
                add_address(writer, STATE_DELETE_RECORD, subject);
        add_address(writer, STATE_DELETE_SIGHTING, subject);
        if (may_bind(subject))
                add_address(writer, STATE_DELETE_BINDING, subject);
        if (subject->override)
                add_address(writer, STATE_DELETE_OVERRIDE, subject);
        add_address(writer, STATE_JOURNAL_END, subject);
}

static bool is_first_creation(const struct subject *subject) {
        return subject->change->action == ACTION_CREATE && !subject->record;
}

void record_begun(struct record_writer *writer, const struct subject *subject) {
        if (is_first_creation(subject))
                put_record(writer, subject, NULL, subject->wish, subject->fingerprint, subject->source, true);
}

void record_withdrawn(struct record_writer *writer, const struct subject *subject) {
        /* What an earlier run left half-way still is: the journal's entry, which says so, stays. */
        if (subject->unfinished)
                return;
        if (is_first_creation(subject))
                add_address(writer, STATE_DELETE_RECORD, subject);
        add_address(writer, STATE_JOURNAL_END, subject);
}

void record_failed(struct record_writer *writer, const struct subject *subject) {
        /*
         * Of a creation there is the record that was written when it began. An older record stays what it was: fields that it
         * has and the manifest has no longer must still be undone.
         */
        if (subject->record)
                put_record(writer, subject, subject->record->id, subject->record->spec,
                           subject->record->fingerprint, subject->record->source, true);
        add_address(writer, STATE_JOURNAL_END, subject);
}

bool record_is_stale(const struct subject *subject) {
        const struct record *record = subject->record;

        if (!subject->settled)
                return false;
        if (!subject->desired)
                return subject->unfinished;
        return !record || subject->unfinished ||
               memcmp(record->fingerprint, subject->fingerprint, sizeof(subject->fingerprint)) != 0 ||
               memcmp(record->source, subject->source, sizeof(subject->source)) != 0;
}
