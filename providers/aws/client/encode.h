/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding as AWS wants it: all bytes but RFC 3986's unreserved ones, upper-case hex, a space as %20; and back. */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_ENCODE_H
#define BERTH_PROVIDERS_AWS_CLIENT_ENCODE_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

/* Appends `length` bytes of `text`, encoded; with `keep_slash` a "/" stays as it is. */
void encode_percent(struct strbuf *ret, const char *text, size_t length, bool keep_slash);

/*
 * Takes the encoding off again, in place; a "%" that two hex digits do not follow stays as it is. With `plus` a "+" is a
 * space, as S3 writes it in listings.
 */
void encode_undo(char *text, bool plus);

#endif
