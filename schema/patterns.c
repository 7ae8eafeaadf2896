/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts against the patterns of the field tables.
 *
 * The C library's matcher takes microseconds, and a large stack has a hundred thousand texts. So
 * the pattern of names is matched by hand, and a text that matched a moment ago is not matched
 * again: variables and tags repeat from one resource to the next. The memory is a table of
 * REMEMBERED slots, in which a newer text takes an older one's place.
 *
 * Patterns are told apart by their address: they are the tables' own static texts.
 */
#include "base/text.h"
#include "schema/fields.h"
#include "schema/loading.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERNS_MAX 32U
#define REMEMBERED 512U

struct compiled {
        const char *pattern;
        bool is_name;
        regex_t regex;
};

struct patterns {
        struct compiled compiled[PATTERNS_MAX];
        size_t count;
        struct {
                const char *pattern, *text;
        } remembered[REMEMBERED];
};

struct patterns *patterns_new(struct arena *arena) {
        return arena_alloc(arena, sizeof(struct patterns));
}

void patterns_release(struct patterns *patterns) {
        for (size_t i = 0; patterns && i < patterns->count; i++) {
                if (!patterns->compiled[i].is_name)
                        regfree(&patterns->compiled[i].regex);
        }
        if (patterns)
                patterns->count = 0;
}

static const struct compiled *compile(struct patterns *patterns, const char *pattern) {
        struct compiled *compiled;
        char whole[512];

        for (size_t i = 0; i < patterns->count; i++) {
                if (patterns->compiled[i].pattern == pattern)
                        return &patterns->compiled[i];
        }
        if (patterns->count == PATTERNS_MAX || strlen(pattern) + 5 > sizeof(whole))
                abort(); /* the tables' patterns are known */
        compiled = &patterns->compiled[patterns->count++];
        compiled->pattern = pattern;
        compiled->is_name = strcmp(pattern, NAME_PATTERN) == 0;
        snprintf(whole, sizeof(whole), "^(%s)$", pattern);
        if (!compiled->is_name && regcomp(&compiled->regex, whole, REG_EXTENDED | REG_NOSUB) != 0)
                abort();
        return compiled;
}

static size_t slot_of(const char *pattern, const char *text) {
        uint64_t hash = text_hash(text) ^ (uintptr_t)pattern >> 4;

        return (size_t)((hash ^ hash >> 32) % REMEMBERED);
}

bool patterns_match(struct patterns *patterns, const char *pattern, const char *text) {
        const struct compiled *compiled = compile(patterns, pattern);
        size_t slot;
        int result;

        if (compiled->is_name)
                return text_is_label(text, SIZE_MAX);
        slot = slot_of(pattern, text);
        if (patterns->remembered[slot].pattern == pattern &&
            strcmp(patterns->remembered[slot].text, text) == 0)
                return true;
        result = regexec(&compiled->regex, text, 0, NULL, 0);
        if (result != 0 && result != REG_NOMATCH)
                abort(); /* no memory: that is no word on the text */
        if (result != 0)
                return false;
        patterns->remembered[slot].pattern = pattern;
        patterns->remembered[slot].text = text;
        return true;
}
