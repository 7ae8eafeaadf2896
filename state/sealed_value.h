/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of every value in the store: a few numbers and texts behind a header with a version and a checksum, so that
 * a value is read without parsing and a flipped bit is noticed. The bytes, all numbers little-endian:
 *
 *     0  version (1)     1  flags     2  how many numbers     3  how many texts
 *     4  CRC-32C of the database's name, a NUL, the key, and every byte of the value but these four
 *     8  the numbers, 8 bytes each
 *        the texts' lengths, 4 bytes each, 0xffffffff for an absent text
 *        the texts that are there, a NUL after each
 *
 * The key takes part in the checksum: a value that turns up under another key is damaged too.
 */
#ifndef BERTH_STATE_SEALED_VALUE_H
#define BERTH_STATE_SEALED_VALUE_H

#include "base/arena.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define SEALED_NUMBERS_MAX 8
#define SEALED_TEXTS_MAX 6
#define SEALED_TEXT_LIMIT (1U << 30) /* bytes of one text */

struct sealed_value {
        uint8_t flags, number_count, text_count;
        uint64_t numbers[SEALED_NUMBERS_MAX];
        struct sealed_text {
                const char *text; /* NULL where absent; a NUL follows it */
                size_t length;
        } texts[SEALED_TEXTS_MAX];
};

/* Where a value stands: for its checksum, and for messages. */
struct sealed_place {
        const char *database, *key;
};

void sealed_value_add_number(struct sealed_value *form, uint64_t number);
void sealed_value_add_text(struct sealed_value *form, const char *text); /* NULL: absent */
void sealed_value_add_bytes(struct sealed_value *form, const char *text, size_t length);

/* Into the arena, not yet sealed. -1 where a text is over the limit. */
int sealed_value_pack(const struct sealed_value *form, struct arena *arena, uint8_t **ret, size_t *ret_length,
                      struct error *err) MUST_USE;
/* Changes one number of a packed value. */
void sealed_value_set_number(uint8_t *bytes, size_t index, uint64_t number);
/* Writes the checksum. The last thing done to a value. */
void sealed_value_seal(uint8_t *bytes, size_t length, struct sealed_place place);

/*
 * Reads a value; the texts of *ret point into `data`. Fails, naming database and key, where the checksum is another,
 * the parts do not add up to `length`, the version is newer, or there are fewer numbers or texts than asked for.
 */
int sealed_value_parse(const void *data, size_t length, struct sealed_place place, size_t numbers,
                       size_t texts, struct sealed_value *ret, struct error *err) MUST_USE;

/* What to do about damage; ends the message of every error about it. */
#define STATE_REMEDY                                                                                             \
        "restore the state from a backup (a folder made by `berth state backup`): put its data.mdb and lineage " \
        "in place of the damaged ones"

#endif
