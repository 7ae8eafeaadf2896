/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include "base/strbuf.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#define LONGEST 64 /* a longer name is not compared */
#define ROWS_MAX 64

static unsigned least(unsigned a, unsigned b) {
        return a < b ? a : b;
}

/* Half edits: another letter costs two of them, the same letter in another case one. */
static unsigned substitution(char a, char b) {
        if (a == b)
                return 0;
        return tolower((unsigned char)a) == tolower((unsigned char)b) ? 1 : 2;
}

/* The restricted Damerau-Levenshtein distance, three rows at a time. */
static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
        unsigned rows[3][LONGEST + 1];

        for (size_t j = 0; j <= b_length; j++)
                rows[0][j] = (unsigned)j * 2;
        for (size_t i = 1; i <= a_length; i++) {
                unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

                row[0] = (unsigned)i * 2;
                for (size_t j = 1; j <= b_length; j++) {
                        row[j] = least(least(above[j] + 2, row[j - 1] + 2),
                                       above[j - 1] + substitution(a[i - 1], b[j - 1]));
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                row[j] = least(row[j], two_above[j - 2] + 2);
                }
        }
        return rows[a_length % 3][b_length];
}

const char *suggest_nearest(const char *typed, const char *const *names, size_t count) {
        size_t length = strlen(typed);
        const char *nearest = NULL;
        unsigned best = (unsigned)(length / 3 > 0 ? length / 3 : 1) * 2 + 1;

        if (length > LONGEST)
                return NULL;
        for (size_t i = 0; i < count; i++) {
                size_t name_length = strlen(names[i]);
                unsigned edits;

                if (name_length > LONGEST)
                        continue;
                edits = edit_distance(typed, length, names[i], name_length);
                if (edits < best) {
                        best = edits;
                        nearest = names[i];
                }
        }
        return nearest;
}

static int fail_no_row(const char *of, const char *typed, const char *const *names, size_t count,
                       struct error *err) {
        struct strbuf list STRBUF_CLEANUP = STRBUF_INIT;
        const char *near = suggest_nearest(typed, names, count);

        for (size_t i = 0; i < count; i++)
                strbuf_printf(&list, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", names[i]);
        return near ? error_set(err, "there is no \"%s %s\"; did you mean %s? It takes %s", of, typed, near,
                                strbuf_text(&list))
                    : error_set(err, "there is no \"%s %s\": it takes %s", of, typed, strbuf_text(&list));
}

const void *suggest_row(const char *of, const char *typed, const void *rows, size_t count, size_t size,
                        struct error *err) {
        const char *names[ROWS_MAX] = { 0 };

        assert(count <= ROWS_MAX);
        for (size_t i = 0; i < count; i++) {
                const char *row = (const char *)rows + i * size;

                memcpy(&names[i], row, sizeof(names[i]));
                if (strcmp(names[i], typed) == 0)
                        return row;
        }
        fail_no_row(of, typed, names, count, err);
        return NULL;
}
