/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers around jansson; json_t values here are owned unless a comment says borrowed. */
#ifndef BERTH_BASE_JSON_H
#define BERTH_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Jansson's own json_decrefp(). */
#define JSON_CLEANUP __attribute__((cleanup(json_decrefp)))

/*
 * A program that uses this file ends where jansson finds no memory, as Berth does in general: otherwise a NULL of jansson's is
 * "not JSON" as well, or "no such member", and a client would be told so.
 *
 * Between json_secret_begin() and json_secret_end(), jansson overwrites all memory that it frees in this thread: what it parses,
 * writes or frees there may hold secrets. They nest.
 */
void json_secret_begin(void);
void json_secret_end(void);
/* Of an object or NULL that may hold secrets: json_decref() between the two. */
void json_forget(json_t *json);

/* Borrowed text of an object's member, or NULL where it is absent or no text. Both accept a NULL object. */
const char *json_text(const json_t *object, const char *name);
/* The member's integer, or `otherwise`. */
json_int_t json_integer_or(const json_t *object, const char *name, json_int_t otherwise);

/* The same value; aborts where it is NULL, as json_pack() and the like return it when out of memory. */
json_t *json_checked(json_t *json);

/* Both give the reference away, and abort where it is NULL: that is memory, or a text that is no UTF-8. */
void json_put(json_t *object, const char *name, json_t *value);
void json_add(json_t *array, json_t *value);

/* A new reference: the text, each byte that is not UTF-8 as \xNN; null for NULL. Aborts when out of memory. */
json_t *json_from_text(const char *text);
/* A new reference: the time as clock_format() writes it; null for 0 and less, which is no time. */
json_t *json_from_time(int64_t wall_ms);
/* A new list of such texts. */
json_t *json_from_texts(const char *const *texts, size_t count);
/* Sets a member from text as above; NULL text leaves it out. */
void json_set_text(json_t *object, const char *name, const char *text);

/*
 * How deep a text nests, and how many values it has at the most, without parsing it. Jansson calls itself for each level, and threads
 * have little stack; and of "[[],[],..." it makes forty times the text: what strangers send is measured first.
 */
struct json_extent {
        unsigned depth;
        size_t values;
};
struct json_extent json_measure(const char *text, size_t length);

/*
 * Indented, for standard output; to be released with free(). It parses to the same values, but
 * characters that a terminal would act on or not show (DEL, C1 controls, bidi marks, zero-width
 * characters, line separators) are written as \uXXXX: a person sees what it holds. `flags` are
 * jansson's, beside the indentation. Aborts when out of memory.
 */
char *json_for_eyes(const json_t *json, size_t flags);

/* Compact, keys in order; to be released with free(). Aborts when out of memory. */
char *json_compact(const json_t *json);
/* The same with members in the order in which they were set: in half the time, for what is only read again. */
char *json_plain(const json_t *json);

#endif
