/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of the state: the first byte says of which database, the rest is the value. As it
 * comes it fails by its checksum, nearly always; so it is sealed here and read once more. A value
 * that was read must be the same when it is written and read again.
 */
#include "parts.h"
#include "state/codec.h"
#include "state/state_parts.h"

#include <stdlib.h>
#include <string.h>

#define KEY "Environment/a"

static const uint8_t secret_key[SHA256_SIZE] = { 7 };

static void require(bool condition) {
        if (!condition)
                abort();
}

static bool same_text(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

static const uint8_t *sealed(uint8_t *bytes, size_t length, enum store_database database, const char *key) {
        sealed_value_seal(bytes, length, (struct sealed_place){ store_database_name(database), key });
        return bytes;
}

static void record(const uint8_t *bytes, size_t length, struct arena *arena) {
        struct record first, second;
        struct error err;
        uint8_t *again;
        size_t again_length;

        if (codec_decode_record(bytes, length, KEY, &first, &err) < 0)
                return;
        if (record_decode(&first, arena, &err) < 0 || !first.spec)
                return;
        if (codec_encode_record(&first, secret_key, arena, &again, &again_length, &err) < 0)
                abort();
        sealed_value_set_number(again, CODEC_RECORD_SERIAL, first.serial);
        if (codec_decode_record(sealed(again, again_length, STORE_RECORDED, KEY), again_length, KEY, &second,
                                &err) < 0 ||
            record_decode(&second, arena, &err) < 0)
                abort();
        require(value_equal(first.spec, second.spec, secret_key) && first.serial == second.serial);
        require(same_text(first.provider, second.provider) && same_text(first.id, second.id));
        require(memcmp(first.fingerprint, second.fingerprint, SHA256_SIZE) == 0);
}

static void sighting(const uint8_t *bytes, size_t length, struct arena *arena) {
        struct sighting first, second;
        struct error err;
        uint8_t *again;
        size_t again_length;

        if (codec_decode_sighting(bytes, length, KEY, &first, &err) < 0 ||
            sighting_decode(&first, arena, &err) < 0)
                return;
        if (codec_encode_sighting(&first, secret_key, arena, &again, &again_length, &err) < 0 ||
            codec_decode_sighting(sealed(again, again_length, STORE_OBSERVED, KEY), again_length, KEY,
                                  &second, &err) < 0 ||
            sighting_decode(&second, arena, &err) < 0)
                abort();
        require(value_equal(first.spec, second.spec, secret_key) &&
                value_equal(first.extra, second.extra, secret_key));
        require(same_text(first.fingerprint, second.fingerprint) && first.health == second.health);
}

static void journal(const uint8_t *bytes, size_t length, struct arena *arena) {
        struct journal_entry first, second;
        struct error err;
        uint8_t *again;
        size_t again_length;

        if (codec_decode_journal(bytes, length, KEY, arena, &first, &err) < 0)
                return;
        if (codec_encode_journal(&first, secret_key, arena, &again, &again_length, &err) < 0 ||
            codec_decode_journal(sealed(again, again_length, STORE_JOURNAL, KEY), again_length, KEY, arena,
                                 &second, &err) < 0)
                abort();
        require(value_equal(first.data, second.data, secret_key) && first.stage == second.stage &&
                same_text(first.action, second.action));
}

static void history(const uint8_t *bytes, size_t length, struct arena *arena) {
        struct history_entry first, second;
        struct error err;
        uint8_t *again;
        size_t again_length;

        if (codec_decode_history(bytes, length, KEY, arena, &first, &err) < 0)
                return;
        if (codec_encode_history(&first, secret_key, arena, &again, &again_length, &err) < 0 ||
            codec_decode_history(sealed(again, again_length, STORE_HISTORY, KEY), again_length, KEY, arena,
                                 &second, &err) < 0)
                abort();
        require(value_equal(first.detail, second.detail, secret_key) && same_text(first.who, second.who));
}

static void meta(const uint8_t *bytes, size_t length, struct arena *arena) {
        uint64_t numbers[SEALED_NUMBERS_MAX];
        struct error err;
        struct lease lease;
        const char *text;

        (void)arena;
        if (codec_decode_lease(bytes, length, &lease, &err) == 0)
                require(lease.host && lease.boot_id && lease.pid_namespace && lease.command);
        if (codec_decode_text(bytes, length, META_LEASE, &text, &err) == 0)
                require(!text || strlen(text) < length);
        for (size_t count = 0; count <= SEALED_NUMBERS_MAX; count++) {
                if (codec_decode_numbers(bytes, length, META_LEASE, numbers, count, &err) < 0)
                        break;
        }
}

static void binding(const uint8_t *bytes, size_t length, struct arena *arena) {
        struct binding binding;
        struct error err;

        (void)arena;
        if (codec_decode_binding(bytes, length, KEY, &binding, &err) == 0)
                require(binding.environment && strlen(binding.environment) < length);
}

static void override(const uint8_t *bytes, size_t length, struct arena *arena) {
        struct override override;
        struct error err;

        (void)arena;
        if (codec_decode_override(bytes, length, KEY, &override, &err) == 0)
                require(override.environment && strlen(override.environment) < length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static void (*const readers[STORE_DATABASE_COUNT])(const uint8_t *, size_t, struct arena *) = {
                [STORE_META] = meta,         [STORE_RECORDED] = record, [STORE_OBSERVED] = sighting,
                [STORE_BINDINGS] = binding,  [STORE_JOURNAL] = journal, [STORE_HISTORY] = history,
                [STORE_OVERRIDES] = override
        };
        struct arena *arena ARENA_CLEANUP = arena_new();
        enum store_database database;
        size_t length;
        uint8_t *value;

        if (size < 1)
                return 0;
        database = (enum store_database)(data[0] % STORE_DATABASE_COUNT);
        length = size - 1;
        value = malloc(length ? length : 1);
        if (!value)
                abort();
        memcpy(value, data + 1, length);
        readers[database](value, length, arena);
        if (length >= 8) {
                sealed(value, length, database, database == STORE_META ? META_LEASE : KEY);
                readers[database](value, length, arena);
        }
        free(value);
        return 0;
}
