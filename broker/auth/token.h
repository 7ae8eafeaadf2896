/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens by which clients prove who they are. The server keeps their hashes, never themselves. */
#ifndef BERTH_BROKER_AUTH_TOKEN_H
#define BERTH_BROKER_AUTH_TOKEN_H

#include "base/digest.h"
#include "base/error.h"

#define TOKEN_MIN 16 /* characters: fewer can be guessed */

void token_hash(const char *token, uint8_t ret[SHA256_SIZE]);

/* In a time that tells nothing of either. */
bool token_is_same(const uint8_t one[SHA256_SIZE], const uint8_t two[SHA256_SIZE]);

/*
 * The hash of the first line of a file that only its owner can read. -1 if it cannot be read, is
 * open to all users, or holds no valid token: TOKEN_MIN characters at least, all of them such as
 * the header Authorization takes (RFC 6750: letters, digits and -._~+/=).
 */
int token_hash_file(const char *path, uint8_t ret[SHA256_SIZE], struct error *err) MUST_USE;

#endif
