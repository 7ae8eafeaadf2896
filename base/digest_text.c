/* SPDX-License-Identifier: Apache-2.0 */
/* What of digest.h takes no library: digests and bytes as text, and random bytes. */
#include "base/digest.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void digest_hex(const uint8_t *bytes, size_t length, char *hex) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < length; i++) {
                hex[2 * i] = digits[bytes[i] >> 4];
                hex[2 * i + 1] = digits[bytes[i] & 15];
        }
        hex[2 * length] = '\0';
}

int digest_from_hex(char digit) {
        if (digit >= '0' && digit <= '9')
                return digit - '0';
        if (digit >= 'a' && digit <= 'f')
                return digit - 'a' + 10;
        if (digit >= 'A' && digit <= 'F')
                return digit - 'A' + 10;
        return -1;
}

/* OpenSSL has it as well, but the program that runs in sandboxes is without. */
void digest_base64(const uint8_t *bytes, size_t length, char *text) {
        for (size_t at = 0; at < length; at += 3) {
                size_t held = length - at < 3 ? length - at : 3;
                uint32_t group = 0;

                for (size_t i = 0; i < 3; i++)
                        group = group << 8 | (i < held ? bytes[at + i] : 0);
                for (size_t i = 0; i < 4; i++)
                        *text++ = i <= held ? base64_digits[group >> (18 - 6 * i) & 63] : '=';
        }
        *text = '\0';
}

void digest_base64url(const uint8_t *bytes, size_t length, char *text) {
        digest_base64(bytes, length, text);
        for (; *text && *text != '='; text++) {
                if (*text == '+')
                        *text = '-';
                else if (*text == '/')
                        *text = '_';
        }
        *text = '\0';
}

ssize_t digest_from_base64(const char *text, size_t length, uint8_t *bytes) {
        size_t padding = 0, used = 0;

        if (length % 4 != 0)
                return -1;
        while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
                padding++;
        for (size_t at = 0; at < length; at += 4) {
                uint32_t group = 0;

                for (size_t i = 0; i < 4; i++) {
                        const char *digit = at + i < length - padding && text[at + i]
                                                    ? strchr(base64_digits, text[at + i])
                                                    : NULL;

                        if (!digit && at + i < length - padding)
                                return -1;
                        group = group << 6 | (digit ? (uint32_t)(digit - base64_digits) : 0);
                }
                for (int shift = 16; shift >= 0; shift -= 8)
                        bytes[used++] = (uint8_t)(group >> shift);
        }
        return (ssize_t)(used - padding);
}

ssize_t digest_from_base64url(const char *text, size_t length, uint8_t *bytes) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        uint32_t bits = 0; /* that are no whole byte yet */
        unsigned held = 0;
        size_t used = 0;

        for (size_t i = 0; i < length; i++) {
                const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

                if (!digit)
                        return -1;
                bits = bits << 6 | (uint32_t)(digit - digits);
                held += 6;
                if (held >= 8) {
                        held -= 8;
                        bytes[used++] = (uint8_t)(bits >> held);
                        bits &= (UINT32_C(1) << held) - 1;
                }
        }
        return length % 4 == 1 || bits != 0 ? -1 : (ssize_t)used;
}

void random_bytes(void *bytes, size_t length) {
        /* The kernel's own: libcrypto would only stretch it. getentropy() gives 256 at the most. */
        for (uint8_t *at = bytes; length > 0;) {
                size_t piece = length < 256 ? length : 256;

                if (getentropy(at, piece) != 0)
                        abort();
                at += piece;
                length -= piece;
        }
}

double random_unit(void) {
        uint32_t bits;

        random_bytes(&bits, sizeof(bits));
        return (double)bits / 4294967296.0;
}
