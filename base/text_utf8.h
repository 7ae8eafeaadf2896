/* SPDX-License-Identifier: Apache-2.0 */
/* Text as UTF-8: its columns, its characters, and its forms that are safe to show. By utf8proc. */
#ifndef BERTH_BASE_TEXT_UTF8_H
#define BERTH_BASE_TEXT_UTF8_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns that UTF-8 text takes; invalid bytes count one each, control characters none. */
int text_columns(const char *text, size_t length);

/* How many of the text's bytes fit into that many columns: whole characters, with what combines with the last of them. */
size_t text_prefix(const char *text, size_t length, int columns);

/* Whether the bytes are valid UTF-8 (no surrogates, no overlong forms). On failure *ret_offset is the bad byte's. */
bool text_is_utf8(const char *text, size_t length, size_t *ret_offset);

/*
 * Whether the text is letters, digits and spaces (of any script, Unicode's categories L, N and Zs) and the ASCII
 * characters in `others`. If not, *ret_codepoint is the first that is something else, or -1 for invalid UTF-8.
 */
bool text_is_words(const char *text, size_t length, const char *others, int32_t *ret_codepoint);

/*
 * What two names have in common that some file system takes for the same: case folded, composed, characters that show
 * nothing left out. To be released with free(); NULL where the bytes are no UTF-8.
 */
char *text_fold(const char *text, size_t length);

/* Appends the text with each byte that is not UTF-8 as \xNN: JSON takes nothing else. */
void text_append_utf8(struct strbuf *to, const char *text);

/*
 * Text from outside, made safe, so that a tag's text, say, cannot drive the user's terminal nor
 * look like something else: control characters (escape sequences, newlines) and invalid bytes
 * appear as \xNN; characters that reorder, hide or break text (categories Cf, Zl and Zp: bidi
 * overrides, zero-width spaces) as \uNNNN. Joiners (U+200C, U+200D) stay as they are behind
 * characters beyond ASCII: scripts and emoji need them there.
 */
void text_append_safe(struct strbuf *to, const char *text);
/* The same for the one character at byte `at` of the text; returns its size in the text, at least 1. */
size_t text_append_safe_character(struct strbuf *to, const char *text, size_t length, size_t at);
/*
 * Text on whose every character a person decides: two that differ do not look the same, as far as
 * characters can tell. Besides the above, joiners, blanks other than the space, variation
 * selectors, fillers, what has no picture and letters that run from right to left appear as \uNNNN,
 * and so does all beyond ASCII in a text that could be written in another way (that is no NFC). A
 * quote (') and a backslash have a backslash before them. Letters of different scripts that look
 * alike stay.
 */
void text_append_exact(struct strbuf *to, const char *text, size_t length);

/*
 * Appends a text in JSON, which is valid UTF-8: DEL, C1 controls and all characters of those categories as JSON's own
 * escapes. In such a text they stand within strings alone, so it means the same.
 */
void text_append_json_safe(struct strbuf *to, const char *json);

/*
 * Appends the text, made safe as above, its first line broken at spaces so that it ends before column `width`: it begins at
 * column `used`, what follows at `indent`. Further lines of the text's own are commands to copy and stay whole.
 */
void text_append_wrapped(struct strbuf *to, const char *text, int width, int used, int indent);

#endif
