/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that the server makes itself, at its first start, in the state's folder: the token of one without a file, the key of others. */
#ifndef BERTH_BROKER_AUTH_FIRST_TOKEN_H
#define BERTH_BROKER_AUTH_FIRST_TOKEN_H

#include "base/digest.h"
#include "base/error.h"

#define FIRST_TOKEN_FILE "serve.token"

/*
 * The hash of what the folder's file of that name holds; a missing file is made, mode 0600. One
 * process at a time.
 */
int first_token(const char *folder, const char *name, uint8_t ret[SHA256_SIZE], struct error *err) MUST_USE;

#endif
