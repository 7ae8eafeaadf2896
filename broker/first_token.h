/* SPDX-License-Identifier: Apache-2.0 */
/* The token of a server that has no file of its own: made at the first start, in the state's folder. */
#ifndef BERTH_BROKER_FIRST_TOKEN_H
#define BERTH_BROKER_FIRST_TOKEN_H

#include "base/digest.h"
#include "base/error.h"

/* The hash of what FOLDER/serve.token holds; where there is no such file it is made, mode 0600. One process at a time. */
int first_token(const char *folder, uint8_t ret[SHA256_SIZE], struct error *err) MUST_USE;

#endif
