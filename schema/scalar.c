/* SPDX-License-Identifier: Apache-2.0 */
/* The core schema of YAML 1.2, section 10.3: libyaml leaves plain scalars unresolved. */
#include "schema/node.h"

#include <string.h>

static bool is_one_of(const char *text, const char *a, const char *b, const char *c) {
        return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

static bool all_in(const char *text, const char *characters) {
        return *text && text[strspn(text, characters)] == '\0';
}

static bool is_integer(const char *text) {
        if (text[0] == '0' && text[1] == 'x')
                return all_in(text + 2, "0123456789abcdefABCDEF");
        if (text[0] == '0' && text[1] == 'o')
                return all_in(text + 2, "01234567");
        if (*text == '-' || *text == '+')
                text++;
        return all_in(text, "0123456789");
}

/* [-+]? ( "." [0-9]+ | [0-9]+ ( "." [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?, and the infinities. */
static bool is_float(const char *text) {
        static const char digits[] = "0123456789";
        size_t before, after = 0;

        if (is_one_of(text, ".nan", ".NaN", ".NAN"))
                return true;
        if (*text == '-' || *text == '+')
                text++;
        if (is_one_of(text, ".inf", ".Inf", ".INF"))
                return true;
        before = strspn(text, digits);
        text += before;
        if (*text == '.') {
                after = strspn(++text, digits);
                text += after;
        }
        if (before + after == 0)
                return false;
        if (*text == 'e' || *text == 'E') {
                text++;
                if (*text == '-' || *text == '+')
                        text++;
                return all_in(text, digits);
        }
        return *text == '\0';
}

static enum scalar_type resolve_plain(const char *text, size_t length) {
        /* Most texts: longer than any word of the schema, and no number. */
        if (length > 5 && ((text[0] >= 'A' && text[0] <= 'Z') || (text[0] >= 'a' && text[0] <= 'z')))
                return SCALAR_TEXT;
        switch (text[0]) {
        case '\0':
                return SCALAR_NULL;
        case '~':
                return text[1] == '\0' ? SCALAR_NULL : SCALAR_TEXT;
        case 'n':
        case 'N':
                return is_one_of(text, "null", "Null", "NULL") ? SCALAR_NULL : SCALAR_TEXT;
        case 't':
        case 'T':
                return is_one_of(text, "true", "True", "TRUE") ? SCALAR_BOOLEAN : SCALAR_TEXT;
        case 'f':
        case 'F':
                return is_one_of(text, "false", "False", "FALSE") ? SCALAR_BOOLEAN : SCALAR_TEXT;
        default:
                if (!strchr("0123456789+-.", text[0]))
                        return SCALAR_TEXT;
                if (is_integer(text))
                        return SCALAR_INTEGER;
                return is_float(text) ? SCALAR_FLOAT : SCALAR_TEXT;
        }
}

enum scalar_type scalar_type_of(const struct node *scalar) {
        enum scalar_type resolved;

        if (scalar->tag == TAG_TEXT || (scalar->tag == TAG_NONE && !scalar->plain))
                return SCALAR_TEXT;
        /* A tag is believed only where the text allows: !!int abc is a text, and refused where an integer belongs. */
        resolved = resolve_plain(scalar->text, scalar->count);
        if (scalar->tag == TAG_NONE || (scalar->tag == TAG_INTEGER && resolved == SCALAR_INTEGER) ||
            (scalar->tag == TAG_BOOLEAN && resolved == SCALAR_BOOLEAN) ||
            (scalar->tag == TAG_NULL && resolved == SCALAR_NULL))
                return resolved;
        return SCALAR_TEXT;
}

bool scalar_boolean(const struct node *scalar) {
        return scalar->text[0] == 't' || scalar->text[0] == 'T';
}

static unsigned digit_value(char digit) {
        if (digit <= '9')
                return (unsigned)(digit - '0');
        return (unsigned)((digit | 0x20) - 'a') + 10;
}

bool scalar_integer(const struct node *scalar, int64_t *ret) {
        const char *text = scalar->text;
        bool negative = *text == '-';
        int64_t base = 10, number = 0;

        if (*text == '-' || *text == '+')
                text++;
        if (text[0] == '0' && (text[1] == 'x' || text[1] == 'o')) {
                base = text[1] == 'x' ? 16 : 8;
                text += 2;
        }
        for (; *text; text++) {
                int64_t digit = digit_value(*text);

                /* Towards the negative side, which reaches one further. */
                if (__builtin_mul_overflow(number, base, &number) ||
                    __builtin_sub_overflow(number, digit, &number))
                        return false;
        }
        if (negative) {
                *ret = number;
                return true;
        }
        return !__builtin_sub_overflow((int64_t)0, number, ret);
}
