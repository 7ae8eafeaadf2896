/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/breaks.h"

#include <stdio.h>
#include <string.h>

#define CANDIDATES 16U

/* Stand-ins are looked for from `first` on: letters of the same size in UTF-8, with codes of digits only. */
static const struct {
        const char *bytes;
        unsigned first;
} foreign[BREAKS_COUNT] = { { "\xC2\x85", 0x710 }, { "\xE2\x80\xA8", 0x3410 }, { "\xE2\x80\xA9", 0x3430 } };

static const char *find_bytes(const char *text, size_t length, const char *bytes) {
        return memmem(text, length, bytes, strlen(bytes));
}

bool breaks_found(const char *text, size_t length) {
        for (size_t i = 0; i < BREAKS_COUNT; i++) {
                if (find_bytes(text, length, foreign[i].bytes))
                        return true;
        }
        return false;
}

static void encode(unsigned code, char ret[4]) {
        if (code < 0x800)
                snprintf(ret, 4, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 0x3F)));
        else
                snprintf(ret, 4, "%c%c%c", (int)(0xE0 | code >> 12), (int)(0x80 | (code >> 6 & 0x3F)),
                         (int)(0x80 | (code & 0x3F)));
}

/* A character that the text has neither as it is nor escaped (\u3410, \U00003410). Ten codes of digits, six with letters. */
static bool choose_marker(const struct strbuf *text, unsigned first, char ret[4]) {
        for (unsigned code = first; code < first + CANDIDATES; code++) {
                char bytes[4], digits[12];

                if ((code & 0xF) > 9)
                        continue;
                encode(code, bytes);
                snprintf(digits, sizeof(digits), "%04x", code);
                if (!find_bytes(text->data, text->length, bytes) &&
                    !find_bytes(text->data, text->length, digits)) {
                        memcpy(ret, bytes, sizeof(bytes));
                        return true;
                }
        }
        return false;
}

static void replace(char *text, size_t length, const char *bytes, const char *other) {
        size_t size = strlen(bytes);
        char *end = text + length, *at = text;

        while ((at = memmem(at, (size_t)(end - at), bytes, size))) {
                memcpy(at, other, size);
                at += size;
        }
}

bool breaks_hide(struct strbuf *text, struct breaks *ret) {
        memset(ret, 0, sizeof(*ret));
        for (size_t i = 0; i < BREAKS_COUNT; i++) {
                if (text->length == 0 || !find_bytes(text->data, text->length, foreign[i].bytes))
                        continue;
                if (!choose_marker(text, foreign[i].first, ret->stand_in[i]))
                        return false;
                replace(text->data, text->length, foreign[i].bytes, ret->stand_in[i]);
        }
        return true;
}

void breaks_restore(const struct breaks *breaks, char *text, size_t length) {
        for (size_t i = 0; i < BREAKS_COUNT; i++) {
                if (breaks->stand_in[i][0])
                        replace(text, length, breaks->stand_in[i], foreign[i].bytes);
        }
}
