/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests in the common layout: the same words, other whitespace. */
#ifndef BERTH_SCHEMA_FORMAT_H
#define BERTH_SCHEMA_FORMAT_H

#include "base/error.h"
#include "base/strbuf.h"

#include <stddef.h>

/*
 * Appends the text of a YAML file in that layout: two spaces a level, lists below their key and two
 * spaces in, one space behind a dash and behind a key's colon, comments where what they speak of
 * stands, at most one empty line, no spaces at the ends of lines, line breaks of one byte. Text in
 * brackets, in block texts and behind a comment's # is left as it was; laid out again it stays.
 *
 * Nothing but whitespace changes, and what the text means does not: both are checked by reading the result. -1 with the line, and
 * nothing appended, where the text is no YAML, or cannot be laid out so.
 */
int format_yaml(const char *text, size_t length, struct strbuf *to, struct error *err) MUST_USE;

#endif
