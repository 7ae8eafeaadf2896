/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/conditions.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const char *skip_blanks(const char *at) {
        return at + strspn(at, " \t");
}

/*
 * One entity tag: [W/] and what stands between two quotes, of which no escape changes the meaning. Where it ends, or NULL where it is
 * none.
 */
static const char *read_tag(const char *at, bool *ret_weak, const char **ret_tag, size_t *ret_length) {
        const char *end;

        *ret_weak = at[0] == 'W' && at[1] == '/';
        at += *ret_weak ? 2 : 0;
        if (*at != '"')
                return NULL;
        for (end = at + 1; *end != '"'; end++) {
                if ((unsigned char)*end < 0x21 || *end == 0x7f)
                        return NULL;
        }
        *ret_tag = at;
        *ret_length = (size_t)(end + 1 - at);
        return end + 1;
}

/* 1: the list names the tag; 0: it does not; -1: it is no list. Empty elements are allowed, as HTTP says. */
static int list_names_tag(const char *list, const char *etag, bool weak_too) {
        const char *at = skip_blanks(list);
        bool found = false;
        size_t count = 0;

        if (at[0] == '*' && !*skip_blanks(at + 1))
                return etag != NULL;
        while (*at) {
                const char *tag;
                size_t length;
                bool weak;

                if (*at == ',') {
                        at = skip_blanks(at + 1);
                        continue;
                }
                at = read_tag(at, &weak, &tag, &length);
                if (!at)
                        return -1;
                count++;
                if (etag && (!weak || weak_too) && strlen(etag) == length && memcmp(etag, tag, length) == 0)
                        found = true;
                at = skip_blanks(at);
                if (*at && *at != ',')
                        return -1;
        }
        return count ? found : -1;
}

enum conditions_verdict conditions_judge(const struct conditions *conditions, const char *etag) {
        int match = conditions->if_match ? list_names_tag(conditions->if_match, etag, false) : 1;
        int none = conditions->if_none_match ? list_names_tag(conditions->if_none_match, etag, true) : 0;

        if (match < 0 || none < 0)
                return CONDITIONS_BAD;
        if (!match)
                return CONDITIONS_FAIL;
        return none ? CONDITIONS_MATCHED : CONDITIONS_HOLD;
}

/* Digits up to the first other byte; more than fits is UINT64_MAX, which is behind every file's end. NULL where there are none. */
static const char *read_number(const char *at, uint64_t *ret) {
        const char *from = at;
        uint64_t number = 0;

        for (; *at >= '0' && *at <= '9'; at++) {
                if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
                    __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number)) {
                        number = UINT64_MAX;
                        at += strspn(at, "0123456789");
                        break;
                }
        }
        *ret = number;
        return at == from ? NULL : at;
}

enum range_verdict range_read(const char *range, uint64_t bytes, uint64_t *ret_from, uint64_t *ret_length) {
        uint64_t first, last = UINT64_MAX;
        const char *at;

        if (!range || strncasecmp(range, "bytes=", 6) != 0)
                return RANGE_WHOLE;
        range = skip_blanks(range + 6);
        if (*range == '-') {
                /* The last so many. */
                at = read_number(range + 1, &last);
                if (!at || *skip_blanks(at))
                        return RANGE_WHOLE;
                if (last == 0 || bytes == 0)
                        return RANGE_BEHIND;
                *ret_length = last < bytes ? last : bytes;
                *ret_from = bytes - *ret_length;
                return RANGE_PART;
        }
        at = read_number(range, &first);
        if (!at || *at != '-')
                return RANGE_WHOLE;
        if (at[1] >= '0' && at[1] <= '9')
                at = read_number(at + 1, &last);
        else
                at++;
        if (*skip_blanks(at) || last < first)
                return RANGE_WHOLE;
        if (first >= bytes)
                return RANGE_BEHIND;
        *ret_from = first;
        *ret_length = (last < bytes - 1 ? last : bytes - 1) - first + 1;
        return RANGE_PART;
}
