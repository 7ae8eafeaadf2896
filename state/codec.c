/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each value is a sealed form (sealed_value.h): flags, numbers, texts, in the order that docs/state.md lists. A
 * reader takes as many of them as it knows; a newer Berth may add numbers and texts behind these, and an older one
 * reads past them.
 *
 * Specs are JSON inside a text and stay so until they are asked for (record_decode(),
 * sighting_decode()): a pass over 60,000 records parses the JSON of the few that changed. A record
 * or sighting that was never decoded is written back as the bytes it came in.
 */
#include "state/codec.h"

#include "base/files.h"
#include "base/json.h"
#include "state/state_parts.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE_NUMBERS (SOURCE_SIZE / sizeof(uint64_t))

/* What the flags of a value mean: for each database its own. */
enum { RECORD_INCOMPLETE = 1 };
enum { SIGHTING_EXISTS = 1, SIGHTING_DRIFTED = 2 };
enum { BINDING_ACTIVE = 1 };
enum { JOURNAL_ANSWERED = 1 };

static struct sealed_place sealed_place_of(enum store_database database, const char *key) {
        return (struct sealed_place){ store_database_name(database), key };
}

static const char *json_of(json_t *json, struct arena *arena) {
        json_t *owned JSON_CLEANUP = json;
        char *text TEXT_CLEANUP = json_compact(owned);

        return arena_strdup(arena, text);
}

static const char *json_of_value(const struct value *value, const uint8_t *key, struct arena *arena) {
        return value ? json_of(value_to_json(value, key), arena) : NULL;
}

static int parse_json(const char *text, size_t length, json_t **ret, struct error *err) {
        json_error_t failure;
        json_t *json =
                json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &failure);

        if (!json)
                return error_set(err, "its JSON cannot be read (%s); " STATE_REMEDY, failure.text);
        *ret = json;
        return 0;
}

static int value_of_json(const char *text, size_t length, struct arena *arena, const struct value **ret,
                         struct error *err) {
        json_t *json JSON_CLEANUP = NULL;
        struct value *value;

        if (!text) {
                *ret = NULL;
                return 0;
        }
        if (parse_json(text, length, &json, err) < 0)
                return -1;
        value = arena_alloc(arena, sizeof(*value));
        *value = value_from_json(arena, json);
        *ret = value;
        return 0;
}

/* Records */

int codec_encode_record(const struct record *record, const uint8_t key[SHA256_SIZE], struct arena *arena,
                        uint8_t **ret, size_t *ret_length, struct error *err) {
        struct sealed_value form = { .flags = record->incomplete ? RECORD_INCOMPLETE : 0 };
        uint64_t fingerprint[SHA256_SIZE / sizeof(uint64_t)], source[SOURCE_NUMBERS];

        /* A record that was loaded and not decoded is kept as it was. One with neither would lose what was applied. */
        if (!record->spec && !record->raw)
                return error_set(err, "cannot record %s without a spec", record->address);
        memcpy(fingerprint, record->fingerprint, sizeof(fingerprint));
        sealed_value_add_number(&form, 0);
        sealed_value_add_number(&form, (uint64_t)record->applied_ms);
        for (size_t i = 0; i < sizeof(fingerprint) / sizeof(fingerprint[0]); i++)
                sealed_value_add_number(&form, le64toh(fingerprint[i]));
        memcpy(source, record->source, sizeof(source));
        for (size_t i = 0; i < SOURCE_NUMBERS; i++)
                sealed_value_add_number(&form, le64toh(source[i]));
        sealed_value_add_text(&form, record->provider);
        sealed_value_add_text(&form, record->id);
        if (record->spec)
                sealed_value_add_text(&form, json_of_value(record->spec, key, arena));
        else
                sealed_value_add_bytes(&form, record->raw, record->raw_length);
        return sealed_value_pack(&form, arena, ret, ret_length, err);
}

int codec_decode_record(const void *bytes, size_t length, const char *address, struct record *ret,
                        struct error *err) {
        uint64_t fingerprint[SHA256_SIZE / sizeof(uint64_t)], source[SOURCE_NUMBERS];
        struct sealed_value form;

        if (sealed_value_parse(bytes, length, sealed_place_of(STORE_RECORDED, address), 6, 3, &form, err) < 0)
                return -1;
        if (!form.texts[0].text || !form.texts[2].text)
                return error_set(
                        err,
                        "the record of \"%s\" in the state names no provider or has no spec; " STATE_REMEDY,
                        address);
        for (size_t i = 0; i < sizeof(fingerprint) / sizeof(fingerprint[0]); i++)
                fingerprint[i] = htole64(form.numbers[2 + i]);
        /* An earlier version wrote none; zeroes then. */
        for (size_t i = 0; i < SOURCE_NUMBERS; i++)
                source[i] = htole64(form.number_count > 6 + i ? form.numbers[6 + i] : 0);
        *ret = (struct record){
                .address = address,
                .provider = form.texts[0].text,
                .id = form.texts[1].text,
                .raw = form.texts[2].text,
                .raw_length = form.texts[2].length,
                .serial = form.numbers[CODEC_RECORD_SERIAL],
                .applied_ms = (int64_t)form.numbers[1],
                .incomplete = form.flags & RECORD_INCOMPLETE,
        };
        memcpy(ret->fingerprint, fingerprint, sizeof(ret->fingerprint));
        memcpy(ret->source, source, sizeof(ret->source));
        return 0;
}

int record_decode(struct record *record, struct arena *arena, struct error *err) {
        if (record->spec)
                return 0;
        if (value_of_json(record->raw, record->raw_length, arena, &record->spec, err) < 0)
                return error_context(err, "the state's record of %s", record->address);
        return 0;
}

/* Sightings: spec and extra in one JSON object */

static const char *sighting_json(const struct sighting *sighting, const uint8_t *key, struct arena *arena) {
        json_t *json = json_object();

        if (!json)
                abort();
        if (sighting->spec)
                json_object_set_new(json, "spec", value_to_json(sighting->spec, key));
        if (sighting->extra)
                json_object_set_new(json, "extra", value_to_json(sighting->extra, key));
        return json_of(json, arena);
}

int codec_encode_sighting(const struct sighting *sighting, const uint8_t key[SHA256_SIZE],
                          struct arena *arena, uint8_t **ret, size_t *ret_length, struct error *err) {
        struct sealed_value form = { .flags = (sighting->exists ? SIGHTING_EXISTS : 0) |
                                              (sighting->drifted ? SIGHTING_DRIFTED : 0) };

        sealed_value_add_number(&form, (uint64_t)sighting->seen_ms);
        sealed_value_add_number(&form, (uint64_t)(int64_t)sighting->ownership);
        sealed_value_add_number(&form, (uint64_t)(int64_t)sighting->health);
        sealed_value_add_text(&form, sighting->id);
        sealed_value_add_text(&form, sighting->fingerprint);
        sealed_value_add_text(&form, sighting->owner);
        sealed_value_add_text(&form, sighting->health_reason);
        if (sighting->raw && !sighting->spec && !sighting->extra)
                sealed_value_add_bytes(&form, sighting->raw, sighting->raw_length);
        else
                sealed_value_add_text(&form, sighting_json(sighting, key, arena));
        return sealed_value_pack(&form, arena, ret, ret_length, err);
}

int codec_decode_sighting(const void *bytes, size_t length, const char *address, struct sighting *ret,
                          struct error *err) {
        struct sealed_value form;

        if (sealed_value_parse(bytes, length, sealed_place_of(STORE_OBSERVED, address), 3, 5, &form, err) < 0)
                return -1;
        *ret = (struct sighting){
                .address = address,
                .exists = form.flags & SIGHTING_EXISTS,
                .drifted = form.flags & SIGHTING_DRIFTED,
                .id = form.texts[0].text,
                .fingerprint = form.texts[1].text,
                .owner = form.texts[2].text,
                .health_reason = form.texts[3].text,
                .ownership = (int)(int64_t)form.numbers[1],
                .health = (int)(int64_t)form.numbers[2],
                .raw = form.texts[4].text,
                .raw_length = form.texts[4].length,
                .seen_ms = (int64_t)form.numbers[0],
        };
        return 0;
}

int sighting_decode(struct sighting *sighting, struct arena *arena, struct error *err) {
        const struct value *both;

        if (sighting->spec || sighting->extra || !sighting->raw)
                return 0;
        if (value_of_json(sighting->raw, sighting->raw_length, arena, &both, err) < 0)
                return error_context(err, "what the state last saw of %s", sighting->address);
        sighting->spec = value_get(both, "spec");
        sighting->extra = value_get(both, "extra");
        return 0;
}

/* Bindings, under their dependent: each has one environment at the most */

int codec_encode_binding(const struct binding *binding, struct arena *arena, uint8_t **ret,
                         size_t *ret_length, struct error *err) {
        struct sealed_value form = { .flags = binding->active ? BINDING_ACTIVE : 0 };

        sealed_value_add_text(&form, binding->environment);
        return sealed_value_pack(&form, arena, ret, ret_length, err);
}

static int decode_binding_in(enum store_database database, const void *bytes, size_t length,
                             const char *dependent, struct binding *ret, struct error *err) {
        struct sealed_value form;

        if (sealed_value_parse(bytes, length, sealed_place_of(database, dependent), 0, 1, &form, err) < 0)
                return -1;
        if (!form.texts[0].text)
                return error_set(err,
                                 "the binding of \"%s\" in the state names no environment; " STATE_REMEDY,
                                 dependent);
        *ret = (struct binding){
                .environment = form.texts[0].text,
                .dependent = dependent,
                .active = form.flags & BINDING_ACTIVE,
        };
        return 0;
}

int codec_decode_binding(const void *bytes, size_t length, const char *dependent, struct binding *ret,
                         struct error *err) {
        return decode_binding_in(STORE_BINDINGS, bytes, length, dependent, ret, err);
}

/* Overrides remember a binding, in the same form */

int codec_encode_override(const struct override *override, struct arena *arena, uint8_t **ret,
                          size_t *ret_length, struct error *err) {
        return codec_encode_binding(&(struct binding){ .environment = override->environment }, arena, ret,
                                    ret_length, err);
}

int codec_decode_override(const void *bytes, size_t length, const char *dependent, struct override *ret,
                          struct error *err) {
        struct binding binding;

        if (decode_binding_in(STORE_OVERRIDES, bytes, length, dependent, &binding, err) < 0)
                return -1;
        *ret = (struct override){ .dependent = binding.dependent, .environment = binding.environment };
        return 0;
}

/* Journal and history */

int codec_encode_journal(const struct journal_entry *entry, const uint8_t key[SHA256_SIZE],
                         struct arena *arena, uint8_t **ret, size_t *ret_length, struct error *err) {
        struct sealed_value form = { .flags = entry->answered ? JOURNAL_ANSWERED : 0 };

        sealed_value_add_number(&form, entry->run);
        sealed_value_add_number(&form, (uint64_t)(int64_t)entry->stage);
        sealed_value_add_number(&form, (uint64_t)entry->at_ms);
        sealed_value_add_text(&form, entry->action);
        sealed_value_add_text(&form, json_of_value(entry->data, key, arena));
        return sealed_value_pack(&form, arena, ret, ret_length, err);
}

int codec_decode_journal(const void *bytes, size_t length, const char *address, struct arena *arena,
                         struct journal_entry *ret, struct error *err) {
        struct journal_entry entry;
        struct sealed_value form;

        if (sealed_value_parse(bytes, length, sealed_place_of(STORE_JOURNAL, address), 3, 2, &form, err) < 0)
                return -1;
        entry = (struct journal_entry){
                .run = form.numbers[0],
                .address = address,
                .action = form.texts[0].text ? form.texts[0].text : "",
                .stage = (int)(int64_t)form.numbers[1],
                .answered = form.flags & JOURNAL_ANSWERED,
                .at_ms = (int64_t)form.numbers[2],
        };
        if (value_of_json(form.texts[1].text, form.texts[1].length, arena, &entry.data, err) < 0)
                return error_context(err, "the journal's entry of %s", address);
        *ret = entry;
        return 0;
}

void codec_run_key(uint64_t run, char key[CODEC_RUN_KEY_SIZE]) {
        snprintf(key, CODEC_RUN_KEY_SIZE, "%020" PRIu64, run);
}

int codec_encode_history(const struct history_entry *entry, const uint8_t key[SHA256_SIZE],
                         struct arena *arena, uint8_t **ret, size_t *ret_length, struct error *err) {
        struct sealed_value form = { 0 };

        sealed_value_add_number(&form, entry->run);
        sealed_value_add_number(&form, (uint64_t)entry->at_ms);
        sealed_value_add_number(&form, entry->serial);
        sealed_value_add_text(&form, entry->who);
        sealed_value_add_text(&form, entry->command);
        sealed_value_add_text(&form, entry->commit);
        sealed_value_add_text(&form, entry->outcome);
        sealed_value_add_text(&form, json_of_value(entry->detail, key, arena));
        return sealed_value_pack(&form, arena, ret, ret_length, err);
}

int codec_decode_history(const void *bytes, size_t length, const char *key, struct arena *arena,
                         struct history_entry *ret, struct error *err) {
        struct history_entry entry;
        struct sealed_value form;

        if (sealed_value_parse(bytes, length, sealed_place_of(STORE_HISTORY, key), 2, 5, &form, err) < 0)
                return -1;
        if (!form.texts[0].text || !form.texts[1].text || !form.texts[3].text)
                return error_set(err,
                                 "the history of run %" PRIu64 " does not say who did what; " STATE_REMEDY,
                                 form.numbers[0]);
        entry = (struct history_entry){
                .run = form.numbers[0],
                .at_ms = (int64_t)form.numbers[1],
                .serial = form.number_count > 2 ? form.numbers[2] : 0,
                .who = form.texts[0].text,
                .command = form.texts[1].text,
                .commit = form.texts[2].text,
                .outcome = form.texts[3].text,
        };
        if (value_of_json(form.texts[4].text, form.texts[4].length, arena, &entry.detail, err) < 0)
                return error_context(err, "the history of run %" PRIu64, entry.run);
        *ret = entry;
        return 0;
}

/* Meta */

int codec_encode_lease(const struct lease *lease, struct arena *arena, uint8_t **ret, size_t *ret_length,
                       struct error *err) {
        struct sealed_value form = { 0 };

        sealed_value_add_number(&form, lease->pid);
        sealed_value_add_number(&form, lease->token);
        sealed_value_add_number(&form, lease->since_ms);
        sealed_value_add_number(&form, lease->heartbeat_ms);
        sealed_value_add_number(&form, lease->started);
        sealed_value_add_text(&form, lease->host);
        sealed_value_add_text(&form, lease->boot_id);
        sealed_value_add_text(&form, lease->pid_namespace);
        sealed_value_add_text(&form, lease->command);
        return sealed_value_pack(&form, arena, ret, ret_length, err);
}

int codec_decode_lease(const void *bytes, size_t length, struct lease *ret, struct error *err) {
        struct sealed_value form;

        if (sealed_value_parse(bytes, length, sealed_place_of(STORE_META, META_LEASE), 5, 4, &form, err) < 0)
                return -1;
        *ret = (struct lease){
                .pid = form.numbers[0],
                .token = form.numbers[1],
                .since_ms = form.numbers[2],
                .heartbeat_ms = form.numbers[3],
                .started = form.numbers[4],
                .host = form.texts[0].text ? form.texts[0].text : "",
                .boot_id = form.texts[1].text ? form.texts[1].text : "",
                .pid_namespace = form.texts[2].text ? form.texts[2].text : "",
                .command = form.texts[3].text ? form.texts[3].text : "",
        };
        return 0;
}

int codec_encode_text(const char *text, struct arena *arena, uint8_t **ret, size_t *ret_length,
                      struct error *err) {
        struct sealed_value form = { 0 };

        sealed_value_add_text(&form, text);
        return sealed_value_pack(&form, arena, ret, ret_length, err);
}

int codec_decode_text(const void *bytes, size_t length, const char *key, const char **ret,
                      struct error *err) {
        struct sealed_value form;

        if (sealed_value_parse(bytes, length, sealed_place_of(STORE_META, key), 0, 1, &form, err) < 0)
                return -1;
        *ret = form.texts[0].text;
        return 0;
}

int codec_encode_numbers(const uint64_t *numbers, size_t count, struct arena *arena, uint8_t **ret,
                         size_t *ret_length, struct error *err) {
        struct sealed_value form = { 0 };

        for (size_t i = 0; i < count; i++)
                sealed_value_add_number(&form, numbers[i]);
        return sealed_value_pack(&form, arena, ret, ret_length, err);
}

int codec_decode_numbers(const void *bytes, size_t length, const char *key, uint64_t *ret, size_t count,
                         struct error *err) {
        struct sealed_value form;

        if (sealed_value_parse(bytes, length, sealed_place_of(STORE_META, key), count, 0, &form, err) < 0)
                return -1;
        memcpy(ret, form.numbers, count * sizeof(*ret));
        return 0;
}
