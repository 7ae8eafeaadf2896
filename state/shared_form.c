/* SPDX-License-Identifier: Apache-2.0 */
#include "state/shared_form.h"

#include "base/json.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANGE_HEAD 8 /* bytes before a change's key */
#define VALUE_MAX ((size_t)1 << 30)

static const char *const names[] = { [SHARED_LOG] = "berth-log", [SHARED_SNAPSHOT] = "berth-snapshot" };

void shared_new_id(char ret[SHARED_ID_SIZE]) {
        uint8_t bytes[16];

        random_bytes(bytes, sizeof(bytes));
        digest_hex(bytes, sizeof(bytes), ret);
}

/* Writing */

static void append_head(const struct shared_entry *entry, struct strbuf *ret) {
        json_t *head JSON_CLEANUP = json_object();
        char hex[SHA256_HEX_SIZE];
        char *text;

        digest_hex(entry->previous, SHA256_SIZE, hex);
        json_set_text(head, "lineage", entry->lineage);
        json_put(head, "number", json_integer((json_int_t)entry->number));
        json_put(head, "epoch", json_integer((json_int_t)entry->epoch));
        json_put(head, "serial", json_integer((json_int_t)entry->serial));
        json_set_text(head, "id", entry->id);
        json_set_text(head, "previous", hex);
        json_put(head, "at", json_integer(entry->at_ms));
        json_put(head, "changes", json_integer((json_int_t)entry->count));
        json_set_text(head, "who", entry->who);
        json_set_text(head, "host", entry->host);
        json_set_text(head, "command", entry->command);
        json_set_text(head, "note", entry->note);
        text = json_compact(head);
        strbuf_printf(ret, "%s %d\n", names[entry->kind], SHARED_FORM_VERSION);
        strbuf_append(ret, text);
        strbuf_append_char(ret, '\n');
        free(text);
}

static int append_change(const struct shared_change *change, struct strbuf *ret, struct error *err) {
        size_t key_length = strlen(change->key);
        uint16_t key_bytes = htole16((uint16_t)key_length);
        uint32_t value_bytes = htole32((uint32_t)change->length);

        if (key_length < 1 || key_length > STORE_KEY_MAX || change->length > VALUE_MAX)
                return error_set(err, "a value of %zu bytes cannot be kept in a shared state",
                                 change->length);
        strbuf_append_char(ret, (char)change->database);
        strbuf_append_char(ret, change->value ? 1 : 0);
        strbuf_append_bytes(ret, &key_bytes, sizeof(key_bytes));
        strbuf_append_bytes(ret, &value_bytes, sizeof(value_bytes));
        strbuf_append_bytes(ret, change->key, key_length);
        if (change->value)
                strbuf_append_bytes(ret, change->value, change->length);
        return 0;
}

int shared_form_write(struct shared_entry *entry, struct strbuf *ret, struct error *err) {
        size_t begin = ret->length;

        append_head(entry, ret);
        for (size_t i = 0; i < entry->count; i++) {
                if (append_change(&entry->changes[i], ret, err) < 0)
                        return -1;
                if (ret->length - begin > SHARED_FORM_MAX - SHA256_SIZE)
                        return error_set(err, "more than %zu MiB cannot be one object of a shared state",
                                         SHARED_FORM_MAX >> 20);
        }
        digest_sha256(ret->data + begin, ret->length - begin, entry->hash);
        strbuf_append_bytes(ret, entry->hash, SHA256_SIZE);
        return 0;
}

/* Reading */

struct reading {
        const char *at, *end; /* what is left of the bytes, without the hash */
        struct arena *arena;
};

/* The next line without its end, or NULL. */
static const char *next_line(struct reading *reading, size_t *ret_length) {
        const char *line = reading->at, *end = memchr(line, '\n', (size_t)(reading->end - line));

        if (!end)
                return NULL;
        reading->at = end + 1;
        *ret_length = (size_t)(end - line);
        return line;
}

bool shared_hash_read(const char *hex, uint8_t ret[SHA256_SIZE]) {
        if (!hex || strlen(hex) != (size_t)2 * SHA256_SIZE)
                return false;
        for (size_t i = 0; i < SHA256_SIZE; i++) {
                int high = digest_from_hex(hex[2 * i]), low = digest_from_hex(hex[2 * i + 1]);

                if (high < 0 || low < 0)
                        return false;
                ret[i] = (uint8_t)(high << 4 | low);
        }
        return true;
}

bool shared_number_read(const json_t *head, const char *name, uint64_t *ret) {
        json_int_t number = json_integer_or(head, name, -1);

        *ret = (uint64_t)number;
        return number >= 0;
}

static bool copy_exact(const json_t *head, const char *name, char *ret, size_t size) {
        const char *text = json_text(head, name);

        if (!text || strlen(text) + 1 != size)
                return false;
        memcpy(ret, text, size);
        return true;
}

/* A UUID, and so no path: the copy on a machine lies in a folder of that name. */
static bool is_lineage(const char *text) {
        return strspn(text, "0123456789abcdef-") == SHARED_LINEAGE_SIZE - 1;
}

static bool read_entry_head(struct reading *reading, struct shared_entry *ret) {
        size_t length;
        const char *line = next_line(reading, &length);
        json_t *head JSON_CLEANUP = line ? json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL) : NULL;
        uint64_t changes;

        if (!json_is_object(head) || !copy_exact(head, "lineage", ret->lineage, sizeof(ret->lineage)) ||
            !is_lineage(ret->lineage) || !copy_exact(head, "id", ret->id, sizeof(ret->id)) ||
            !shared_number_read(head, "number", &ret->number) ||
            !shared_number_read(head, "epoch", &ret->epoch) ||
            !shared_number_read(head, "serial", &ret->serial) ||
            !shared_number_read(head, "changes", &changes) ||
            !shared_hash_read(json_text(head, "previous"), ret->previous))
                return false;
        /* Each has a head at least: a number of them that the bytes cannot hold is not allocated for. */
        if (changes > (uint64_t)(reading->end - reading->at) / CHANGE_HEAD)
                return false;
        ret->at_ms = json_integer_or(head, "at", 0);
        ret->who = arena_strdup(reading->arena, json_text(head, "who"));
        ret->host = arena_strdup(reading->arena, json_text(head, "host"));
        ret->command = arena_strdup(reading->arena, json_text(head, "command"));
        ret->note = arena_strdup(reading->arena, json_text(head, "note"));
        ret->count = (size_t)changes;
        return true;
}

static bool read_change(struct reading *reading, struct shared_change *ret) {
        size_t left = (size_t)(reading->end - reading->at), key_length, length;
        const char *at = reading->at;
        uint16_t key_bytes;
        uint32_t value_bytes;

        if (left < CHANGE_HEAD || (unsigned char)at[0] >= STORE_DATABASE_COUNT || (unsigned char)at[1] > 1)
                return false;
        memcpy(&key_bytes, at + 2, sizeof(key_bytes));
        memcpy(&value_bytes, at + 4, sizeof(value_bytes));
        key_length = le16toh(key_bytes);
        length = le32toh(value_bytes);
        if (key_length < 1 || key_length > STORE_KEY_MAX || left - CHANGE_HEAD < key_length ||
            left - CHANGE_HEAD - key_length < length || (!at[1] && length > 0) ||
            memchr(at + CHANGE_HEAD, '\0', key_length))
                return false;
        ret->database = (enum store_database)at[0];
        ret->key = arena_strndup(reading->arena, at + CHANGE_HEAD, key_length);
        ret->value = at[1] ? at + CHANGE_HEAD + key_length : NULL;
        ret->length = length;
        reading->at = at + CHANGE_HEAD + key_length + length;
        return true;
}

static bool read_changes(struct reading *reading, struct shared_entry *ret) {
        struct shared_change *changes = arena_array(reading->arena, ret->count + 1, sizeof(*changes));

        for (size_t i = 0; i < ret->count; i++) {
                if (!read_change(reading, &changes[i]))
                        return false;
        }
        ret->changes = changes;
        return reading->at == reading->end;
}

int shared_form_read(const char *bytes, size_t length, enum shared_kind kind, const char *place,
                     struct arena *arena, struct shared_entry *ret, struct error *err) {
        struct reading reading = { .at = bytes, .end = bytes, .arena = arena };
        struct shared_entry entry = { .kind = kind };
        size_t name_length = strlen(names[kind]), line_length;
        const char *line;

        if (length > SHA256_SIZE)
                reading.end = bytes + length - SHA256_SIZE;
        line = next_line(&reading, &line_length);
        if (!line || line_length <= name_length || memcmp(line, names[kind], name_length) != 0 ||
            line[name_length] != ' ')
                return error_set(err, "%s is no %s of Berth's, or was cut off", place, names[kind]);
        digest_sha256(bytes, length - SHA256_SIZE, entry.hash);
        if (memcmp(entry.hash, bytes + length - SHA256_SIZE, SHA256_SIZE) != 0)
                return error_set(err, "%s is damaged or was cut off: its bytes and its checksum differ",
                                 place);
        if (line_length != name_length + 2 || line[name_length + 1] != '0' + SHARED_FORM_VERSION)
                return error_set(err, "%s is newer than this Berth (%.*s): use the Berth that wrote it",
                                 place, (int)(line_length < 40 ? line_length : 40), line);
        if (!read_entry_head(&reading, &entry) || !read_changes(&reading, &entry))
                return error_set(err, "%s is corrupt, though its checksum is right", place);
        *ret = entry;
        return 0;
}
