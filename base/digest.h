/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes by OpenSSL's libcrypto, which is loaded by the first of them, and random bytes by the
 * kernel. SHA-256 can only fail by a library that is missing, or configured to have none: that is
 * said, and the program ends. SHA-1 and MD5 are withheld if OpenSSL is configured for FIPS, and
 * their callers must do without.
 */
#ifndef BERTH_BASE_DIGEST_H
#define BERTH_BASE_DIGEST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHA256_SIZE 32
#define SHA256_HEX_SIZE 65 /* with the NUL */
#define MD5_SIZE 16
#define SHA1_SIZE 20

void digest_sha256(const void *data, size_t length, uint8_t digest[SHA256_SIZE]);
void digest_sha256_hex(const void *data, size_t length, char hex[SHA256_HEX_SIZE]);
/* For names that others have given, never to vouch for anything; false where OpenSSL has none, `digest` untouched. */
bool digest_sha1(const void *data, size_t length, uint8_t digest[SHA1_SIZE]) MUST_USE;
bool digest_md5(const void *data, size_t length, uint8_t digest[MD5_SIZE]) MUST_USE;
void digest_hmac_sha256(const void *key, size_t key_length, const void *data, size_t length,
                        uint8_t mac[SHA256_SIZE]);

/* HMAC-SHA-256 of bytes that come piece by piece. */
struct digest_mac;
struct digest_mac *digest_mac_new(const void *key, size_t key_length);
void digest_mac_add(struct digest_mac *mac, const void *data, size_t length);
/* Of all bytes so far; releases it, the key wiped. `hex` may be NULL: release only. NULL `mac` is fine then. */
void digest_mac_end(struct digest_mac *mac, char hex[SHA256_HEX_SIZE]);

/* SHA-256 of bytes that come piece by piece. */
struct digest_stream;
struct digest_stream *digest_stream_new(void);
void digest_stream_add(struct digest_stream *stream, const void *data, size_t length);
/* Of all bytes so far; ends the stream and releases it. `hex` may be NULL: release only. NULL stream is fine then. */
void digest_stream_end(struct digest_stream *stream, char hex[SHA256_HEX_SIZE]);

/* Lower-case hex; `hex` takes 2 * length + 1 bytes. */
void digest_hex(const uint8_t *bytes, size_t length, char *hex);
/* What one digit of either case means: 0 to 15, or -1. */
int digest_from_hex(char digit);
/* Base64 with padding; `text` takes 4 * ((length + 2) / 3) + 1 bytes. */
void digest_base64(const uint8_t *bytes, size_t length, char *text);
/*
 * What such a text stands for, by the letter: in whole groups, with padding, and no blanks. How many bytes that are, at most
 * length / 4 * 3; -1 where it is no base64, `bytes` undefined.
 */
ssize_t digest_from_base64(const char *text, size_t length, uint8_t *bytes) MUST_USE;
/* Base64url without padding (RFC 4648, 5); `text` takes 4 * ((length + 2) / 3) + 1 bytes. */
void digest_base64url(const uint8_t *bytes, size_t length, char *text);
/*
 * What such a text stands for, of which each number of bytes has one form only: at most length / 4
 * * 3 + 2 bytes; -1 if it is invalid, `bytes` undefined.
 */
ssize_t digest_from_base64url(const char *text, size_t length, uint8_t *bytes) MUST_USE;

void random_bytes(void *bytes, size_t length);
/* Uniform in [0, 1); not for secrets. */
double random_unit(void);

#endif
