/* SPDX-License-Identifier: Apache-2.0 */
/* ASCII armor of OpenPGP keys (RFC 4880, 6.2) taken off: gpgv reads binary keyrings only. */
#include "gitops/git/verify.h"

#include <string.h>

#define BEGIN "-----BEGIN PGP PUBLIC KEY BLOCK-----"
#define END "-----END PGP PUBLIC KEY BLOCK-----"

static int base64_digit(char character) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *found = character ? strchr(digits, character) : NULL;

        return found ? (int)(found - digits) : -1;
}

struct decoder {
        unsigned bits, count; /* of characters in `bits`; 4 make three bytes */
        bool ended;           /* by padding */
};

static bool decode_line(struct decoder *decoder, const char *line, size_t length, struct strbuf *to) {
        for (size_t i = 0; i < length; i++) {
                int digit = base64_digit(line[i]);

                if (line[i] == '=' && decoder->count >= 2) {
                        decoder->ended = true;
                        continue;
                }
                if (digit < 0 || decoder->ended)
                        return false;
                decoder->bits = (decoder->bits << 6 | (unsigned)digit) & 0xFFFFFFU;
                if (++decoder->count == 4) {
                        strbuf_append_char(to, (char)(decoder->bits >> 16));
                        strbuf_append_char(to, (char)(decoder->bits >> 8 & 0xFFU));
                        strbuf_append_char(to, (char)(decoder->bits & 0xFFU));
                        decoder->count = 0;
                }
        }
        if (decoder->ended && decoder->count >= 2) {
                decoder->bits <<= 6 * (4 - decoder->count);
                strbuf_append_char(to, (char)(decoder->bits >> 16));
                if (decoder->count == 3)
                        strbuf_append_char(to, (char)(decoder->bits >> 8 & 0xFFU));
                decoder->count = 0;
        }
        return true;
}

static bool next_line(const char **at, const char *end, const char **ret, size_t *ret_length) {
        const char *stop;

        if (*at >= end)
                return false;
        stop = memchr(*at, '\n', (size_t)(end - *at));
        *ret = *at;
        *ret_length = (size_t)((stop ? stop : end) - *at);
        *at = stop ? stop + 1 : end;
        while (*ret_length > 0 && strchr(" \t\r", (*ret)[*ret_length - 1]))
                --*ret_length;
        return true;
}

static bool is_line(const char *line, size_t length, const char *text) {
        return length == strlen(text) && memcmp(line, text, length) == 0;
}

/* From behind BEGIN to END: headers, an empty line, base64, a checksum. */
static int decode_block(const char **at, const char *end, struct strbuf *keyring, struct error *err) {
        struct decoder decoder = { 0 };
        bool headers = true;
        const char *line;
        size_t length;

        while (next_line(at, end, &line, &length)) {
                if (is_line(line, length, END))
                        return decoder.count == 0 ? 0 : error_set(err, "its armor ends too early");
                if (headers && length > 0 && memchr(line, ':', length))
                        continue;
                headers = headers && length > 0;
                if (length == 5 && line[0] == '=')
                        continue;
                if (!decode_line(&decoder, line, length, keyring))
                        return error_set(err, "its armor is damaged");
        }
        return error_set(err, "its armor has no end");
}

int keyring_add(const char *data, size_t length, struct strbuf *keyring, struct error *err) {
        const char *at = data, *end = data + length, *line;
        size_t line_length, found = 0;

        /* The first byte of a binary keyring has its highest bit set: a packet's tag. */
        if (length > 0 && ((unsigned char)data[0] & 0x80U)) {
                strbuf_append_bytes(keyring, data, length);
                return 0;
        }
        if (memmem(data, length, "PRIVATE KEY BLOCK", 17))
                return error_set(err, "it holds a private key: give the public one (gpg --export --armor)");
        while (next_line(&at, end, &line, &line_length)) {
                if (!is_line(line, line_length, BEGIN))
                        continue;
                found++;
                if (decode_block(&at, end, keyring, err) < 0)
                        return -1;
        }
        return found > 0 ? 0 : error_set(err, "it holds no OpenPGP public key");
}
