/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <string.h>

bool text_begins_with(const char *text, const char *beginning) {
        return strncmp(text, beginning, strlen(beginning)) == 0;
}

bool text_ends_with(const char *text, const char *ending) {
        size_t length = strlen(text), ending_length = strlen(ending);

        return length >= ending_length && strcmp(text + length - ending_length, ending) == 0;
}

bool text_is_among(const char *text, const char *const *list) {
        for (; *list; list++) {
                if (strcmp(text, *list) == 0)
                        return true;
        }
        return false;
}

bool text_equal(const char *one, const char *other) {
        return one == other || (one && other && strcmp(one, other) == 0);
}

bool text_is_permitted(const char *text, const char *const *list) {
        return !list || (text && text_is_among(text, list));
}

int text_compare(const void *one, const void *other) {
        return strcmp(*(const char *const *)one, *(const char *const *)other);
}

uint64_t text_hash_bytes(const void *bytes, size_t length) {
        uint64_t hash = UINT64_C(14695981039346656037);

        for (size_t i = 0; i < length; i++)
                hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
        return hash;
}

uint64_t text_hash(const char *text) {
        return text_hash_bytes(text, strlen(text));
}

static bool is_alphanumeric(char character) {
        return (character >= 'a' && character <= 'z') || (character >= '0' && character <= '9');
}

bool text_is_label(const char *text, size_t most) {
        size_t length = 0;

        for (; text[length]; length++) {
                if (!is_alphanumeric(text[length]) && text[length] != '-')
                        return false;
        }
        return length > 0 && length <= most && text[0] != '-' && text[length - 1] != '-';
}

size_t text_characters(const char *text, size_t length) {
        size_t count = 0;

        /* 10xxxxxx continues the character before it. */
        for (size_t i = 0; i < length; i++)
                count += ((unsigned char)text[i] & 0xC0) != 0x80;
        return count;
}

const char *text_field(const char *text, char separator, unsigned number, size_t *ret_length) {
        for (; number > 0; number--) {
                text = strchr(text, separator);
                if (!text)
                        return NULL;
                text++;
        }
        *ret_length = strcspn(text, (const char[]){ separator, '\0' });
        return text;
}
