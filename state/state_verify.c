/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `berth state verify`: everything there is, read and decoded. Faults are listed, and the reading
 * goes on; only a store that cannot be read at all is an error. Beside the form of each value it
 * compares what must agree between them: serials and run numbers with the state's own, fingerprints
 * with specs, bindings with the records of their dependents.
 */
#include "base/array.h"
#include "state/codec.h"
#include "state/shared_state.h"
#include "state/shared_verify.h"
#include "state/state_parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct verify {
        struct state *state;
        struct arena *arena; /* for the problems */
        const char **problems;
        size_t count;
        uint64_t serial, last_run;
};

static void add_problem(struct verify *verify, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_problem(struct verify *verify, const char *format, ...) {
        char text[2048];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        verify->problems =
                array_grow(verify->arena, verify->problems, verify->count, sizeof(*verify->problems));
        verify->problems[verify->count++] = arena_strdup(verify->arena, text);
}

static bool is_address(const char *key) {
        const char *slash = strchr(key, '/');

        return slash && slash > key && slash[1];
}

/* Each returns -1 where the value itself cannot be read. */

static int check_record(struct verify *verify, struct arena *arena, const char *key, const char *bytes,
                        size_t length, struct error *err) {
        uint8_t fingerprint[SHA256_SIZE];
        struct record record;

        if (codec_decode_record(bytes, length, key, &record, err) < 0 ||
            record_decode(&record, arena, err) < 0)
                return -1;
        if (!is_address(key))
                add_problem(verify, "recorded \"%s\": not an address", key);
        if (record.serial > verify->serial)
                add_problem(verify, "recorded \"%s\": its serial %" PRIu64 " is above the state's, %" PRIu64,
                            key, record.serial, verify->serial);
        value_fingerprint(record.spec, verify->state->secret_key, fingerprint);
        if (memcmp(fingerprint, record.fingerprint, sizeof(fingerprint)) != 0)
                add_problem(verify, "recorded \"%s\": its fingerprint is not that of its spec", key);
        return 0;
}

static int check_sighting(struct verify *verify, struct arena *arena, const char *key, const char *bytes,
                          size_t length, struct error *err) {
        struct sighting sighting;

        if (codec_decode_sighting(bytes, length, key, &sighting, err) < 0 ||
            sighting_decode(&sighting, arena, err) < 0)
                return -1;
        if (!is_address(key))
                add_problem(verify, "observed \"%s\": not an address", key);
        return 0;
}

/* The environment may be gone: it was deleted with --allow has-dependents. */
static int check_binding(struct verify *verify, struct store_txn *txn, const char *key, const char *bytes,
                         size_t length, struct error *err) {
        struct binding binding;
        struct slice ignored;
        int has_dependent;

        if (codec_decode_binding(bytes, length, key, &binding, err) < 0)
                return -1;
        has_dependent = store_get(txn, STORE_RECORDED, key, &ignored, err);
        if (has_dependent < 0)
                return -1;
        if (!has_dependent)
                add_problem(verify, "bindings \"%s\": there is no record of the dependent", key);
        return 0;
}

static int check_journal(struct verify *verify, struct arena *arena, const char *key, const char *bytes,
                         size_t length, struct error *err) {
        struct journal_entry entry;

        if (codec_decode_journal(bytes, length, key, arena, &entry, err) < 0)
                return -1;
        if (entry.run > verify->last_run)
                add_problem(verify, "journal \"%s\": run %" PRIu64 " has not begun yet", key, entry.run);
        return 0;
}

static int check_history(struct verify *verify, struct arena *arena, const char *key, const char *bytes,
                         size_t length, struct error *err) {
        char expected[CODEC_RUN_KEY_SIZE];
        struct history_entry entry;

        if (codec_decode_history(bytes, length, key, arena, &entry, err) < 0)
                return -1;
        codec_run_key(entry.run, expected);
        if (strcmp(expected, key) != 0)
                add_problem(verify, "history \"%s\": its value is that of run %" PRIu64, key, entry.run);
        if (entry.run > verify->last_run)
                add_problem(verify, "history \"%s\": run %" PRIu64 " has not begun yet", key, entry.run);
        return 0;
}

static int check_entry(struct verify *verify, struct store_txn *txn, struct arena *arena,
                       enum store_database database, const char *key, const char *bytes, size_t length,
                       struct error *err) {
        struct sealed_value form;

        switch (database) {
        case STORE_RECORDED:
                return check_record(verify, arena, key, bytes, length, err);
        case STORE_OBSERVED:
                return check_sighting(verify, arena, key, bytes, length, err);
        case STORE_BINDINGS:
                return check_binding(verify, txn, key, bytes, length, err);
        case STORE_OVERRIDES:
                return codec_decode_override(bytes, length, key, &(struct override){ 0 }, err);
        case STORE_JOURNAL:
                return check_journal(verify, arena, key, bytes, length, err);
        case STORE_HISTORY:
                return check_history(verify, arena, key, bytes, length, err);
        default:
                return sealed_value_parse(bytes, length,
                                          (struct sealed_place){ store_database_name(database), key }, 0, 0,
                                          &form, err);
        }
}

static int check_database(struct verify *verify, struct store_txn *txn, enum store_database database,
                          struct error *err) {
        struct store_cursor *cursor STORE_CURSOR_CLEANUP = NULL;
        struct slice key, value;
        int more;

        if (store_cursor_open(txn, database, false, &cursor, err) < 0)
                return -1;
        while ((more = store_cursor_next(cursor, &key, &value, err)) == 1) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                const char *name = arena_strndup(arena, key.data, key.length);
                const char *bytes = arena_strndup(arena, value.data, value.length);
                struct error failure;

                if (check_entry(verify, txn, arena, database, name, bytes, value.length, &failure) < 0)
                        add_problem(verify, "%s", failure.message);
        }
        return more;
}

/* A number that cannot be read is found again, and reported, when its database is read. */
static uint64_t number_or(struct store_txn *txn, const char *key, uint64_t otherwise) {
        struct error ignored;
        uint64_t number;

        return meta_numbers(txn, key, &number, 1, &ignored) == 1 ? number : otherwise;
}

static int check_meta(struct verify *verify, struct store_txn *txn, struct error *err) {
        static const char *const keys[] = { META_FORMAT, META_LINEAGE, META_SERIAL, META_RUN, META_SECRET };

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
                struct slice value;
                int found = store_get(txn, STORE_META, keys[i], &value, err);

                if (found < 0)
                        return -1;
                if (!found)
                        add_problem(verify, "meta \"%s\": it is missing", keys[i]);
        }
        return 0;
}

static int check_all(struct store_txn *txn, void *context, struct error *err) {
        struct verify *verify = context;

        verify->serial = number_or(txn, META_SERIAL, UINT64_MAX);
        verify->last_run = number_or(txn, META_RUN, UINT64_MAX);
        if (check_meta(verify, txn, err) < 0)
                return -1;
        for (int database = 0; database < STORE_DATABASE_COUNT; database++) {
                if (check_database(verify, txn, (enum store_database)database, err) < 0)
                        return -1;
        }
        return 0;
}

static void add_problem_text(void *verify, const char *text) {
        add_problem(verify, "%s", text);
}

int state_verify(struct state *state, struct arena *arena, const char ***ret_problems, size_t *ret_count,
                 struct error *err) {
        struct verify verify = { .state = state, .arena = arena };

        if (state->store &&
            (store_check(state->store, err) < 0 || store_read(state->store, check_all, &verify, err) < 0))
                return -1;
        /* The copy alone says nothing of what another machine would find. */
        if (state->shared && !shared_is_unmade(state->shared) &&
            shared_verify(shared_objects(state->shared), shared_copy(state->shared), add_problem_text,
                          &verify, err) < 0)
                return -1;
        *ret_problems = verify.problems;
        *ret_count = verify.count;
        return 0;
}
