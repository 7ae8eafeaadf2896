/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values as JSON, and the canonical form that fingerprints are made of.
 *
 * A member name that begins with "$" gets one more in front, so that no map is taken for {"$secret": ...}.
 */
#include "base/json.h"
#include "base/strbuf.h"
#include "schema/value.h"
#include "schema/value_internal.h"

#include <stdlib.h>
#include <string.h>

#define SECRET "$secret"

void value_secret_hex(const struct value *text, const uint8_t key[SHA256_SIZE], char hex[SHA256_HEX_SIZE]) {
        uint8_t mac[SHA256_SIZE];

        digest_hmac_sha256(key, SHA256_SIZE, text->text, text->count, mac);
        digest_hex(mac, sizeof(mac), hex);
}

/* Text from outside may be no UTF-8, which JSON cannot hold: its bytes beyond ASCII become "?" then. */
static json_t *text_to_json(const struct value *text) {
        json_t *json = json_stringn(text->text, text->count);
        struct strbuf plain STRBUF_CLEANUP = STRBUF_INIT;

        if (json)
                return json;
        for (uint32_t i = 0; i < text->count; i++)
                strbuf_append_char(&plain, (unsigned char)text->text[i] < 0x80 ? text->text[i] : '?');
        return json_stringn(strbuf_text(&plain), plain.length);
}

static json_t *secret_to_json(const struct value *value, const uint8_t *key) {
        char hex[SHA256_HEX_SIZE];

        if (!key)
                return json_null();
        if (value->type == VALUE_SECRET)
                return json_checked(json_pack("{s:s#}", SECRET, value->text, (int)value->count));
        /* That a text is empty is no secret, and empty must stay equal to absent. */
        if (value->count == 0)
                return json_checked(json_string(""));
        value_secret_hex(value, key, hex);
        return json_checked(json_pack("{s:s}", SECRET, hex));
}

static json_t *map_to_json(const struct value *map, const uint8_t *key) {
        json_t *json = json_checked(json_object());

        for (uint32_t i = 0; i < map->count; i++) {
                const struct member *member = &map->members[i];
                json_t *value = value_to_json(&member->value, key);
                struct strbuf escaped STRBUF_CLEANUP = STRBUF_INIT;
                const char *name = member->name;

                if (name[0] == '$') {
                        strbuf_printf(&escaped, "$%s", name);
                        name = strbuf_text(&escaped);
                }
                if (json_object_set_new(json, name, value) != 0)
                        abort();
        }
        return json;
}

static json_t *list_to_json(const struct value *list, const uint8_t *key) {
        json_t *json = json_checked(json_array());

        for (uint32_t i = 0; i < list->count; i++) {
                if (json_array_append_new(json, value_to_json(&list->items[i], key)) != 0)
                        abort();
        }
        return json;
}

json_t *value_to_json(const struct value *value, const uint8_t key[SHA256_SIZE]) {
        if (!value)
                return json_null();
        switch (value->type) {
        case VALUE_BOOLEAN:
                return json_boolean(value->boolean);
        case VALUE_INTEGER:
                return json_checked(json_integer(value->integer));
        case VALUE_TEXT:
                return value->sensitive ? secret_to_json(value, key) : json_checked(text_to_json(value));
        case VALUE_SECRET:
                return secret_to_json(value, key);
        case VALUE_LIST:
                return list_to_json(value, key);
        case VALUE_MAP:
                return map_to_json(value, key);
        default:
                return json_null();
        }
}

static struct value text_from_json(struct arena *arena, const json_t *json, uint8_t type) {
        size_t length = json_string_length(json);

        return (struct value){
                .type = type,
                .count = (uint32_t)length,
                .text = arena_strndup(arena, json_string_value(json), length),
        };
}

static struct value map_from_json(struct arena *arena, const json_t *json) {
        const json_t *secret = json_object_get(json, SECRET);
        struct value map = { .type = VALUE_MAP };
        const char *name;
        json_t *member_json;

        if (json_is_string(secret) && json_object_size(json) == 1)
                return text_from_json(arena, secret, VALUE_SECRET);
        map.members = arena_array(arena, value_capacity(json_object_size(json)), sizeof(*map.members));
        json_object_foreach ((json_t *)json, name, member_json) {
                bool escaped = name[0] == '$' && name[1] == '$';
                struct member *member;

                /*
                 * A map has each name once. Berth writes no "$x", only "$$x" for it; if the file
                 * has it nevertheless, "$x" stands, and "$$x" beside it is left out. "$$$x" is
                 * "$$x", and no such case.
                 */
                if (escaped && name[2] != '$' && json_object_get(json, name + 1))
                        continue;
                member = &map.members[map.count++];
                member->name = arena_strdup(arena, escaped ? name + 1 : name);
                member->value = value_from_json(arena, member_json);
        }
        return map;
}

static struct value list_from_json(struct arena *arena, const json_t *json) {
        size_t count = json_array_size(json);
        struct value list = { .type = VALUE_LIST, .count = (uint32_t)count };

        list.items = arena_array(arena, value_capacity(count), sizeof(*list.items));
        for (size_t i = 0; i < count; i++)
                list.items[i] = value_from_json(arena, json_array_get(json, i));
        return list;
}

/* Values know no fractions: one that comes (Berth writes none) stays legible as text. */
static struct value real_from_json(struct arena *arena, const json_t *json) {
        double real = json_real_value(json);

        if (real >= -9007199254740992.0 && real <= 9007199254740992.0 && (double)(int64_t)real == real)
                return value_integer((int64_t)real);
        return value_text(arena, arena_printf(arena, "%.17g", real));
}

struct value value_from_json(struct arena *arena, const json_t *json) {
        switch (json ? json_typeof(json) : JSON_NULL) {
        case JSON_OBJECT:
                return map_from_json(arena, json);
        case JSON_ARRAY:
                return list_from_json(arena, json);
        case JSON_STRING:
                return text_from_json(arena, json, VALUE_TEXT);
        case JSON_INTEGER:
                return value_integer(json_integer_value(json));
        case JSON_REAL:
                return real_from_json(arena, json);
        case JSON_TRUE:
        case JSON_FALSE:
                return value_boolean(json_is_true(json));
        default:
                return value_null();
        }
}

/* The canonical form: a letter for the type, then fixed-width numbers and counted bytes. */
static void put_number(struct strbuf *form, char letter, uint64_t number) {
        unsigned char bytes[9] = { (unsigned char)letter };

        for (size_t i = 0; i < 8; i++)
                bytes[1 + i] = (unsigned char)(number >> (8 * i));
        strbuf_append_bytes(form, bytes, sizeof(bytes));
}

static void put_text(struct strbuf *form, char letter, const char *text, size_t length) {
        put_number(form, letter, length);
        strbuf_append_bytes(form, text, length);
}

struct canon {
        const uint8_t *key;
        bool exact; /* empties count */
};

static void put_value(struct strbuf *form, const struct value *value, const struct canon *canon);

static void put_map(struct strbuf *form, const struct value *map, const struct canon *canon) {
        const struct member *small[32];
        const struct member **members = value_member_list(map, small, 32);
        size_t count = value_sorted_members(map, canon->exact, members);

        put_number(form, 'm', count);
        for (size_t i = 0; i < count; i++) {
                put_text(form, 'k', members[i]->name, strlen(members[i]->name));
                put_value(form, &members[i]->value, canon);
        }
        if (members != small)
                free(members);
}

static void put_sensitive(struct strbuf *form, const struct value *text, const uint8_t *key) {
        static const uint8_t no_key[SHA256_SIZE];
        char hex[SHA256_HEX_SIZE];

        value_secret_hex(text, key ? key : no_key, hex);
        put_text(form, 's', hex, sizeof(hex) - 1);
}

static void put_value(struct strbuf *form, const struct value *value, const struct canon *canon) {
        if (!value || value->type == VALUE_NULL || (!canon->exact && value_is_empty(value))) {
                strbuf_append_char(form, 'n');
                return;
        }
        switch (value->type) {
        case VALUE_BOOLEAN:
                put_number(form, 'b', value->boolean);
                break;
        case VALUE_INTEGER:
                put_number(form, 'i', (uint64_t)value->integer);
                break;
        case VALUE_TEXT:
                if (value->sensitive)
                        put_sensitive(form, value, canon->key);
                else
                        put_text(form, 't', value->text, value->count);
                break;
        case VALUE_SECRET:
                put_text(form, 's', value->text, value->count);
                break;
        case VALUE_LIST:
                put_number(form, 'l', value->count);
                for (uint32_t i = 0; i < value->count; i++)
                        put_value(form, &value->items[i], canon);
                break;
        default:
                put_map(form, value, canon);
        }
}

static void digest_canonical_form(const struct value *value, const struct canon *canon,
                                  uint8_t ret[SHA256_SIZE]) {
        struct strbuf form STRBUF_CLEANUP = STRBUF_INIT;

        put_value(&form, value, canon);
        digest_sha256(form.data, form.length, ret);
}

void value_fingerprint(const struct value *value, const uint8_t key[SHA256_SIZE], uint8_t ret[SHA256_SIZE]) {
        digest_canonical_form(value, &(struct canon){ .key = key }, ret);
}

void value_fingerprint_exact(const struct value *value, const uint8_t key[SHA256_SIZE],
                             uint8_t ret[SHA256_SIZE]) {
        digest_canonical_form(value, &(struct canon){ .key = key, .exact = true }, ret);
}
