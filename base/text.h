/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about texts that the C library does not answer; what concerns columns and UTF-8 is in text_utf8.h. */
#ifndef BERTH_BASE_TEXT_H
#define BERTH_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool text_begins_with(const char *text, const char *beginning);
/* A text that is nothing but the ending ends with it as well. */
bool text_ends_with(const char *text, const char *ending);
/* Either may be NULL, which equals NULL alone. */
bool text_equal(const char *one, const char *other);
/* `list` ends with NULL. */
bool text_is_among(const char *text, const char *const *list);
/* The same of a list that may be NULL, which then permits every text; NULL is in no list. */
bool text_is_permitted(const char *text, const char *const *list);
/* For qsort() and bsearch() of an array of texts: in the order of their bytes. */
int text_compare(const void *one, const void *other);
/* FNV-1a, 64 bits: for tables in memory, and for names that no stranger chooses. */
uint64_t text_hash(const char *text);
uint64_t text_hash_bytes(const void *bytes, size_t length);
/* 1 to `most` of a-z, 0-9 and hyphens, without a hyphen at either end: a label of DNS, as names are here. */
bool text_is_label(const char *text, size_t most);
/* Characters in UTF-8; of other bytes as many as there are that do not continue one. */
size_t text_characters(const char *text, size_t length);
/*
 * The field of that number, from 0, of a text whose fields `separator` parts: where it begins in
 * `text`, and its length. NULL if there are fewer; *ret_length is untouched then.
 */
const char *text_field(const char *text, char separator, unsigned number, size_t *ret_length);

#endif
