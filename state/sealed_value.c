/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value's bytes, all numbers little-endian:
 *
 *     0  version, flags, count of numbers, count of texts: a byte each
 *     4  CRC-32C, 4 bytes
 *     8  the numbers, 8 bytes each
 *        the lengths of the texts, 4 bytes each; 0xffffffff where a text is absent
 *        the texts, each with a NUL behind it
 *
 * The checksum is also over the names of the database and of the key, so that a value that ends up under another key
 * does not pass for that one's.
 */
#include "state/sealed_value.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define VERSION 1
#define HEADER 8
#define ABSENT UINT32_MAX
#define CRC_OFFSET 4

/*
 * CRC-32C (Castagnoli), eight bytes at a time. Every value that a pass loads goes through it, 60,000 in a large stack:
 * the general digests of libcrypto take several times as long for values of a few hundred bytes.
 */
static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_build(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
                uint32_t crc = byte;

                for (int bit = 0; bit < 8; bit++)
                        crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78U : 0);
                crc_table[0][byte] = crc;
        }
        for (size_t slice = 1; slice < 8; slice++) {
                for (size_t byte = 0; byte < 256; byte++) {
                        uint32_t crc = crc_table[slice - 1][byte];

                        crc_table[slice][byte] = (crc >> 8) ^ crc_table[0][crc & 255];
                }
        }
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *bytes, size_t length) {
        for (; length >= 8; bytes += 8, length -= 8) {
                uint64_t word;

                memcpy(&word, bytes, sizeof(word));
                word = le64toh(word) ^ crc;
                crc = crc_table[7][word & 255] ^ crc_table[6][(word >> 8) & 255] ^
                      crc_table[5][(word >> 16) & 255] ^ crc_table[4][(word >> 24) & 255] ^
                      crc_table[3][(word >> 32) & 255] ^ crc_table[2][(word >> 40) & 255] ^
                      crc_table[1][(word >> 48) & 255] ^ crc_table[0][word >> 56];
        }
        for (; length > 0; bytes++, length--)
                crc = (crc >> 8) ^ crc_table[0][(crc ^ *bytes) & 255];
        return crc;
}

#if defined(__x86_64__)
/* By the instruction that SSE 4.2 has for this very polynomial: ten times as fast. */
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *bytes,
                                                                     size_t length) {
        uint64_t wide = crc;

        for (; length >= 8; bytes += 8, length -= 8) {
                uint64_t word;

                memcpy(&word, bytes, sizeof(word));
                wide = __builtin_ia32_crc32di(wide, word);
        }
        crc = (uint32_t)wide;
        for (; length > 0; bytes++, length--)
                crc = __builtin_ia32_crc32qi(crc, *bytes);
        return crc;
}
#endif

static uint32_t (*crc_add)(uint32_t crc, const uint8_t *bytes, size_t length) = crc_by_table;

static void crc_prepare(void) {
#if defined(__x86_64__)
        if (__builtin_cpu_supports("sse4.2")) {
                crc_add = crc_by_instruction;
                return;
        }
#endif
        crc_build();
}

static uint32_t checksum(const uint8_t *bytes, size_t length, struct sealed_place place) {
        uint32_t crc = UINT32_MAX;

        pthread_once(&crc_once, crc_prepare);
        crc = crc_add(crc, (const uint8_t *)place.database, strlen(place.database) + 1);
        crc = crc_add(crc, (const uint8_t *)place.key, strlen(place.key));
        crc = crc_add(crc, bytes, CRC_OFFSET);
        crc = crc_add(crc, bytes + HEADER, length - HEADER);
        return ~crc;
}

static void put32(uint8_t *at, uint32_t number) {
        number = htole32(number);
        memcpy(at, &number, sizeof(number));
}

static void put64(uint8_t *at, uint64_t number) {
        number = htole64(number);
        memcpy(at, &number, sizeof(number));
}

static uint32_t get32(const uint8_t *at) {
        uint32_t number;

        memcpy(&number, at, sizeof(number));
        return le32toh(number);
}

static uint64_t get64(const uint8_t *at) {
        uint64_t number;

        memcpy(&number, at, sizeof(number));
        return le64toh(number);
}

void sealed_value_add_number(struct sealed_value *form, uint64_t number) {
        form->numbers[form->number_count++] = number;
}

void sealed_value_add_bytes(struct sealed_value *form, const char *text, size_t length) {
        form->texts[form->text_count++] = (struct sealed_text){ text, length };
}

void sealed_value_add_text(struct sealed_value *form, const char *text) {
        sealed_value_add_bytes(form, text, text ? strlen(text) : 0);
}

int sealed_value_pack(const struct sealed_value *form, struct arena *arena, uint8_t **ret, size_t *ret_length,
                      struct error *err) {
        size_t length = HEADER + 8U * form->number_count + 4U * form->text_count;
        uint8_t *bytes, *at;

        for (size_t i = 0; i < form->text_count; i++) {
                if (form->texts[i].text && form->texts[i].length > SEALED_TEXT_LIMIT)
                        return error_set(err, "a text of %zu bytes is too large for the state",
                                         form->texts[i].length);
                length += form->texts[i].text ? form->texts[i].length + 1 : 0;
        }
        bytes = arena_alloc(arena, length);
        bytes[0] = VERSION;
        bytes[1] = form->flags;
        bytes[2] = form->number_count;
        bytes[3] = form->text_count;
        at = bytes + HEADER;
        for (size_t i = 0; i < form->number_count; i++, at += 8)
                put64(at, form->numbers[i]);
        for (size_t i = 0; i < form->text_count; i++, at += 4)
                put32(at, form->texts[i].text ? (uint32_t)form->texts[i].length : ABSENT);
        for (size_t i = 0; i < form->text_count; i++) {
                if (!form->texts[i].text)
                        continue;
                memcpy(at, form->texts[i].text, form->texts[i].length);
                at += form->texts[i].length + 1;
        }
        *ret = bytes;
        *ret_length = length;
        return 0;
}

void sealed_value_set_number(uint8_t *bytes, size_t index, uint64_t number) {
        put64(bytes + HEADER + 8 * index, number);
}

void sealed_value_seal(uint8_t *bytes, size_t length, struct sealed_place place) {
        put32(bytes + CRC_OFFSET, checksum(bytes, length, place));
}

static int damaged(struct sealed_place place, const char *how, struct error *err) {
        return error_set(err,
                         "the value of \"%s\" in the state's database \"%s\" is damaged (%s); " STATE_REMEDY,
                         place.key, place.database, how);
}

/* The texts follow the table of their lengths; together with what came before they are the whole value. */
static bool parse_texts(const uint8_t *bytes, size_t length, const uint8_t *table, struct sealed_value *ret) {
        size_t offset = (size_t)(table - bytes) + 4U * ret->text_count;

        for (size_t i = 0; i < ret->text_count; i++) {
                uint32_t size = get32(table + 4 * i);

                ret->texts[i] = (struct sealed_text){ NULL, 0 };
                if (size == ABSENT)
                        continue;
                if (size >= length - offset || bytes[offset + size] != '\0')
                        return false;
                ret->texts[i] = (struct sealed_text){ (const char *)bytes + offset, size };
                offset += (size_t)size + 1;
        }
        return offset == length;
}

int sealed_value_parse(const void *data, size_t length, struct sealed_place place, size_t numbers,
                       size_t texts, struct sealed_value *ret, struct error *err) {
        const uint8_t *bytes = data;
        struct sealed_value form = { 0 };

        if (length < HEADER)
                return damaged(place, "it is too short", err);
        if (get32(bytes + CRC_OFFSET) != checksum(bytes, length, place))
                return damaged(place, "its checksum does not match", err);
        if (bytes[0] != VERSION)
                return error_set(err,
                                 "the value of \"%s\" in the state's database \"%s\" has version %d: it was "
                                 "written by a newer Berth; use that one",
                                 place.key, place.database, bytes[0]);
        form.flags = bytes[1];
        form.number_count = bytes[2];
        form.text_count = bytes[3];
        if (form.number_count < numbers || form.text_count < texts ||
            form.number_count > SEALED_NUMBERS_MAX || form.text_count > SEALED_TEXTS_MAX ||
            length < HEADER + 8U * form.number_count + 4U * form.text_count)
                return damaged(place, "it is not what belongs there", err);
        for (size_t i = 0; i < form.number_count; i++)
                form.numbers[i] = get64(bytes + HEADER + 8 * i);
        if (!parse_texts(bytes, length, bytes + HEADER + 8U * form.number_count, &form))
                return damaged(place, "its parts do not add up", err);
        *ret = form;
        return 0;
}
