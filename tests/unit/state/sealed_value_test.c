/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum is what every file of a state has, whichever machine wrote it: it is CRC-32C, written here a second time and bit by bit,
 * however the processor that runs this computes it.
 */
#include "state/sealed_value.h"

#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HEADER 8
#define CRC_OFFSET 4

static uint32_t add_bits(uint32_t crc, const void *bytes, size_t length) {
        const uint8_t *at = bytes;

        for (size_t i = 0; i < length; i++) {
                crc ^= at[i];
                for (int bit = 0; bit < 8; bit++)
                        crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78U : 0);
        }
        return crc;
}

static void the_polynomial_is_castagnolis(void **state) {
        (void)state;
        assert_int_equal(~add_bits(UINT32_MAX, "123456789", 9),
                         0xe3069283U); /* its check value, as all catalogues have it */
}

static void any_length_has_the_checksum(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        char text[70];

        (void)state;
        for (size_t length = 0; length < sizeof(text); length++) {
                const struct sealed_place place = { "sessions", length % 2 ? "k" : "a/longer-key" };
                struct sealed_value form = { 0 }, read;
                struct error err;
                size_t size;
                uint8_t *bytes;
                uint32_t crc = UINT32_MAX;

                for (size_t i = 0; i < length; i++)
                        text[i] = (char)('a' + (i * 7 + length) % 26);
                sealed_value_add_number(&form, UINT64_C(0xfedcba9876543210) + length);
                sealed_value_add_bytes(&form, text, length);
                assert_int_equal(sealed_value_pack(&form, arena, &bytes, &size, &err), 0);
                sealed_value_seal(bytes, size, place);
                crc = add_bits(crc, place.database, strlen(place.database) + 1);
                crc = add_bits(crc, place.key, strlen(place.key));
                crc = add_bits(crc, bytes, CRC_OFFSET);
                crc = ~add_bits(crc, bytes + HEADER, size - HEADER);
                for (int i = 0; i < 4; i++)
                        assert_int_equal(bytes[CRC_OFFSET + i], crc >> (8 * i) & 255);
                assert_int_equal(sealed_value_parse(bytes, size, place, 1, 1, &read, &err), 0);
                bytes[size - 1] ^= 1;
                assert_int_equal(sealed_value_parse(bytes, size, place, 1, 1, &read, &err), -1);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_polynomial_is_castagnolis),
                cmocka_unit_test(any_length_has_the_checksum),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
