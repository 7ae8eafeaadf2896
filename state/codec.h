/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the structures of state.h and the bytes in the store. Values that are often compared or
 * listed stand in the form's numbers and texts; specs and details are JSON in one text, so that
 * they need not be parsed to be carried around. Which number and text means what: docs/state.md.
 *
 * Encoders return bytes in the arena, not yet sealed. Decoders point into the bytes given, which must live as long.
 */
#ifndef BERTH_STATE_CODEC_H
#define BERTH_STATE_CODEC_H

#include "state/sealed_value.h"
#include "state/state.h"

#define CODEC_RECORD_SERIAL 0 /* the number of a record that is its serial, known only when it is written */

struct lease {
        uint64_t pid, token, since_ms, heartbeat_ms;
        uint64_t started; /* the process's start, in clock ticks since boot */
        const char *host, *boot_id, *pid_namespace, *command;
};

int codec_encode_record(const struct record *record, const uint8_t key[SHA256_SIZE], struct arena *arena,
                        uint8_t **ret, size_t *ret_length, struct error *err) MUST_USE;
int codec_encode_sighting(const struct sighting *sighting, const uint8_t key[SHA256_SIZE],
                          struct arena *arena, uint8_t **ret, size_t *ret_length, struct error *err) MUST_USE;
int codec_encode_binding(const struct binding *binding, struct arena *arena, uint8_t **ret,
                         size_t *ret_length, struct error *err) MUST_USE;
int codec_encode_journal(const struct journal_entry *entry, const uint8_t key[SHA256_SIZE],
                         struct arena *arena, uint8_t **ret, size_t *ret_length, struct error *err) MUST_USE;
int codec_encode_history(const struct history_entry *entry, const uint8_t key[SHA256_SIZE],
                         struct arena *arena, uint8_t **ret, size_t *ret_length, struct error *err) MUST_USE;
int codec_encode_lease(const struct lease *lease, struct arena *arena, uint8_t **ret, size_t *ret_length,
                       struct error *err) MUST_USE;
int codec_encode_text(const char *text, struct arena *arena, uint8_t **ret, size_t *ret_length,
                      struct error *err) MUST_USE;
int codec_encode_numbers(const uint64_t *numbers, size_t count, struct arena *arena, uint8_t **ret,
                         size_t *ret_length, struct error *err) MUST_USE;

int codec_decode_record(const void *bytes, size_t length, const char *address, struct record *ret,
                        struct error *err) MUST_USE;
int codec_decode_sighting(const void *bytes, size_t length, const char *address, struct sighting *ret,
                          struct error *err) MUST_USE;
int codec_decode_binding(const void *bytes, size_t length, const char *dependent, struct binding *ret,
                         struct error *err) MUST_USE;
int codec_encode_override(const struct override *override, struct arena *arena, uint8_t **ret,
                          size_t *ret_length, struct error *err) MUST_USE;
int codec_decode_override(const void *bytes, size_t length, const char *dependent, struct override *ret,
                          struct error *err) MUST_USE;
/* These two parse JSON at once: there are few of them. */
int codec_decode_journal(const void *bytes, size_t length, const char *address, struct arena *arena,
                         struct journal_entry *ret, struct error *err) MUST_USE;
int codec_decode_history(const void *bytes, size_t length, const char *key, struct arena *arena,
                         struct history_entry *ret, struct error *err) MUST_USE;
int codec_decode_lease(const void *bytes, size_t length, struct lease *ret, struct error *err) MUST_USE;
int codec_decode_text(const void *bytes, size_t length, const char *key, const char **ret,
                      struct error *err) MUST_USE;
int codec_decode_numbers(const void *bytes, size_t length, const char *key, uint64_t *ret, size_t count,
                         struct error *err) MUST_USE;

/* The key of a run in the history: its number in 20 digits, so that keys sort as numbers do. */
#define CODEC_RUN_KEY_SIZE 21
void codec_run_key(uint64_t run, char key[CODEC_RUN_KEY_SIZE]);

#endif
