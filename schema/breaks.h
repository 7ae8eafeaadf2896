/* SPDX-License-Identifier: Apache-2.0 */
/*
 * U+0085, U+2028 and U+2029: libyaml takes them for line breaks, as YAML 1.1 did. YAML 1.2, editors
 * and reviewers take them for characters like others, so that libyaml would read as a field what
 * readers see as the end of a comment. Each is replaced, before libyaml reads a text, by a
 * character of the same size that the text does not have; in what libyaml found it is put back.
 * Places in the text remain the same.
 */
#ifndef BERTH_SCHEMA_BREAKS_H
#define BERTH_SCHEMA_BREAKS_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

#define BREAKS_COUNT 3

struct breaks {
        char stand_in[BREAKS_COUNT][4]; /* UTF-8; empty for a character that the text does not have */
};

/* Whether a UTF-8 text has one. */
bool breaks_found(const char *text, size_t length);
/*
 * Replaces them in a UTF-8 text without NULs. False where no character is left to stand for one: a text that was made for it,
 * changed in part then.
 */
bool breaks_hide(struct strbuf *text, struct breaks *ret);
void breaks_restore(const struct breaks *breaks, char *text, size_t length);

#endif
