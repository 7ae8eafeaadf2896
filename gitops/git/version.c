/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Semantic versions (semver.org 2.0.0) and the patterns of npm and Masterminds/semver, which people know from
 * elsewhere. A pattern is a list of alternatives ("||"), each a list of comparisons that must all hold. Each short
 * form becomes one or two comparisons: 1.x is >=1.0.0 and below 2.0.0, where "below 2.0.0" also leaves out
 * prereleases of 2.0.0.
 *
 * Prereleases match only if the pattern names one, as in npm: an author who writes 1.x does not
 * want 2.0.0-alpha, or 1.3.0-rc1.
 */
#include "gitops/git/version.h"

#include "gitops/git/git.h"

#include <string.h>

#define PATTERN_MAX 256U
#define NUMBER_MAX ((uint64_t)1 << 53)

enum relation { LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER_EQUAL, GREATER };

/* One comparison; a wildcard is a pair of them. The bound's own prerelease counts. */
struct comparison {
        enum relation relation;
        struct version bound;
};

#define COMPARISONS_MAX 32U

struct alternative {
        struct comparison comparisons[COMPARISONS_MAX];
        size_t count;
        bool prereleases; /* one of the comparisons names one */
        bool with_v;
        struct alternative *next;
};

struct version_pattern {
        const struct alternative *first;
};

/* A version as a pattern writes it: fewer numbers, or wildcards from some place on. */
struct partial {
        struct version version;
        unsigned given; /* numbers that are there */
};

static bool is_digit(char character) {
        return character >= '0' && character <= '9';
}

static bool is_identifier(char character) {
        return is_digit(character) || (character >= 'a' && character <= 'z') ||
               (character >= 'A' && character <= 'Z') || character == '-';
}

static bool is_wildcard(char character) {
        return character == 'x' || character == 'X' || character == '*';
}

static bool parse_number(const char **at, uint64_t *ret) {
        uint64_t number = 0;
        const char *text = *at;

        /* Numbers with leading zeros are parts of dates: 2025.01.15 is no version (semver.org, 2). */
        if (!is_digit(*text) || (*text == '0' && is_digit(text[1])))
                return false;
        for (; is_digit(*text); text++) {
                number = number * 10 + (uint64_t)(*text - '0');
                if (number > NUMBER_MAX)
                        return false;
        }
        *at = text;
        *ret = number;
        return true;
}

/* Dot-separated identifiers, none of them empty; the text's part. */
static bool parse_identifiers(const char **at, const char **ret, size_t *ret_length) {
        const char *start = *at, *text = start;

        for (;; text++) {
                if (!is_identifier(*text))
                        return false;
                while (is_identifier(*text))
                        text++;
                if (*text != '.')
                        break;
        }
        *at = text;
        *ret = start;
        *ret_length = (size_t)(text - start);
        return true;
}

static bool parse_suffixes(const char **at, struct version *version) {
        const char *build;
        size_t length;

        if (**at == '-') {
                ++*at;
                if (!parse_identifiers(at, &version->prerelease, &version->prerelease_length))
                        return false;
        }
        if (**at == '+') {
                ++*at;
                return parse_identifiers(at, &build, &length);
        }
        return true;
}

bool version_parse(const char *text, struct version *ret) {
        struct version version = { .has_v = *text == 'v' };
        unsigned given = 0;

        text += version.has_v;
        do {
                if (!parse_number(&text, &version.number[given]))
                        return false;
        } while (++given < 3 && *text == '.' && text++);
        if (!parse_suffixes(&text, &version) || *text)
                return false;
        /* A number alone is a date or a build's number: 20250101. */
        if (given == 1 && !version.has_v)
                return false;
        *ret = version;
        return true;
}

static int compare_numbers(uint64_t a, uint64_t b) {
        return (a > b) - (a < b);
}

/* Of digits alone, without a limit on how many. */
static int compare_digits(const char *a, size_t a_length, const char *b, size_t b_length) {
        int order;

        for (; a_length > 0 && *a == '0'; a_length--)
                a++;
        for (; b_length > 0 && *b == '0'; b_length--)
                b++;
        if (a_length != b_length)
                return a_length < b_length ? -1 : 1;
        order = memcmp(a, b, a_length);
        return order;
}

static size_t identifier_length(const char *text, size_t left, bool *ret_numeric) {
        size_t length = 0;

        *ret_numeric = true;
        for (; length < left && text[length] != '.'; length++)
                *ret_numeric &= is_digit(text[length]);
        return length;
}

static int compare_identifiers(const char *a, size_t a_left, const char *b, size_t b_left) {
        while (a_left > 0 && b_left > 0) {
                bool a_numeric, b_numeric;
                size_t a_length = identifier_length(a, a_left, &a_numeric);
                size_t b_length = identifier_length(b, b_left, &b_numeric);
                size_t shorter = a_length < b_length ? a_length : b_length;
                int order;

                if (a_numeric && b_numeric)
                        order = compare_digits(a, a_length, b, b_length);
                else if (a_numeric != b_numeric)
                        return a_numeric ? -1 : 1;
                else if ((order = memcmp(a, b, shorter)) == 0)
                        order = (a_length > b_length) - (a_length < b_length);
                if (order != 0)
                        return order;
                a_length += a_length < a_left;
                b_length += b_length < b_left;
                a += a_length, a_left -= a_length;
                b += b_length, b_left -= b_length;
        }
        return (a_left > 0) - (b_left > 0);
}

int version_compare(const struct version *a, const struct version *b) {
        for (size_t i = 0; i < 3; i++) {
                int order = compare_numbers(a->number[i], b->number[i]);

                if (order != 0)
                        return order;
        }
        if (!a->prerelease || !b->prerelease)
                return (a->prerelease == NULL) - (b->prerelease == NULL);
        return compare_identifiers(a->prerelease, a->prerelease_length, b->prerelease, b->prerelease_length);
}

static bool parse_partial(const char **at, struct partial *ret) {
        struct partial partial = { .version.has_v = **at == 'v' || **at == 'V' };
        const char *text = *at + partial.version.has_v;
        bool wild = false;

        for (unsigned place = 0; place < 3; place++) {
                if (is_wildcard(*text)) {
                        wild = true;
                        text++;
                } else if (wild || !parse_number(&text, &partial.version.number[place])) {
                        return false;
                } else {
                        partial.given = place + 1;
                }
                if (*text != '.' || place == 2)
                        break;
                text++;
        }
        /*
         * A pattern without a third number has no prerelease of its own, but for ">=1.2-0", which
         * is common.
         */
        if (!wild && !parse_suffixes(&text, &partial.version))
                return false;
        *at = text;
        *ret = partial;
        return true;
}

static bool add_comparison(struct alternative *alternative, enum relation relation, struct version bound) {
        if (alternative->count == COMPARISONS_MAX)
                return false;
        alternative->prereleases |= bound.prerelease_length > 0;
        alternative->with_v |= bound.has_v;
        alternative->comparisons[alternative->count++] =
                (struct comparison){ .relation = relation, .bound = bound };
        return true;
}

/* A version before all prereleases of these numbers: "below 2" excludes 2.0.0-alpha. */
static struct version lowest_of(struct version version) {
        version.prerelease = "";
        version.prerelease_length = 0;
        return version;
}

/* The first version beyond those with the same numbers up to `place`. */
static struct version first_beyond(struct version version, unsigned place) {
        version.number[place]++;
        for (unsigned i = place + 1; i < 3; i++)
                version.number[i] = 0;
        return lowest_of(version);
}

/* Any version with the numbers given. */
static bool add_same(struct alternative *alternative, const struct partial *partial) {
        struct version lowest = partial->version;

        if (partial->given == 3 || lowest.prerelease)
                return add_comparison(alternative, EQUAL, lowest);
        if (partial->given == 0)
                return add_comparison(alternative, GREATER_EQUAL, lowest);
        return add_comparison(alternative, GREATER_EQUAL, lowest) &&
               add_comparison(alternative, LESS, first_beyond(lowest, partial->given - 1));
}

static bool add_tilde(struct alternative *alternative, const struct partial *partial) {
        if (partial->given == 0)
                return add_same(alternative, partial);
        return add_comparison(alternative, GREATER_EQUAL, partial->version) &&
               add_comparison(alternative, LESS, first_beyond(partial->version, partial->given > 1 ? 1 : 0));
}

/* Up to the next change of the leftmost number that is not 0. */
static bool add_caret(struct alternative *alternative, const struct partial *partial) {
        unsigned place = 0;

        if (partial->given == 0)
                return add_same(alternative, partial);
        while (place + 1 < partial->given && partial->version.number[place] == 0)
                place++;
        return add_comparison(alternative, GREATER_EQUAL, partial->version) &&
               add_comparison(alternative, LESS, first_beyond(partial->version, place));
}

/* ">1.2" is beyond all of 1.2, "<=1.2" includes all of it. */
static bool add_compared(struct alternative *alternative, enum relation relation,
                         const struct partial *partial) {
        bool whole = partial->given == 3 || partial->version.prerelease;

        if (partial->given == 0)
                return (relation == GREATER_EQUAL || relation == LESS_EQUAL) &&
                       add_same(alternative, partial);
        if (!whole && relation == GREATER) {
                struct version bound = first_beyond(partial->version, partial->given - 1);

                bound.prerelease = NULL;
                return add_comparison(alternative, GREATER_EQUAL, bound);
        }
        if (!whole && relation == LESS_EQUAL)
                return add_comparison(alternative, LESS, first_beyond(partial->version, partial->given - 1));
        if (!whole && relation == LESS)
                return add_comparison(alternative, LESS, lowest_of(partial->version));
        return add_comparison(alternative, relation, partial->version);
}

static void skip_spaces(const char **at) {
        while (**at == ' ')
                ++*at;
}

static bool parse_comparison(const char **at, struct alternative *alternative) {
        static const struct {
                const char *sign;
                enum relation relation;
        } signs[] = { { "<=", LESS_EQUAL }, { ">=", GREATER_EQUAL }, { "!=", NOT_EQUAL },
                      { "=<", LESS_EQUAL }, { "=>", GREATER_EQUAL }, { "<", LESS },
                      { ">", GREATER } };
        struct partial partial;
        char sign = **at;

        for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
                if (strncmp(*at, signs[i].sign, strlen(signs[i].sign)) != 0)
                        continue;
                *at += strlen(signs[i].sign);
                skip_spaces(at);
                return parse_partial(at, &partial) &&
                       (signs[i].relation != NOT_EQUAL || partial.given == 3) &&
                       add_compared(alternative, signs[i].relation, &partial);
        }
        if (sign == '~' || sign == '^' || sign == '=') {
                *at += 1;
                if (sign == '~' && **at == '>')
                        ++*at;
                skip_spaces(at);
        }
        if (!parse_partial(at, &partial))
                return false;
        if (sign == '~')
                return add_tilde(alternative, &partial);
        if (sign == '^')
                return add_caret(alternative, &partial);
        if (strncmp(*at, " - ", 3) == 0 && sign != '=') {
                *at += 3;
                skip_spaces(at);
                return add_compared(alternative, GREATER_EQUAL, &partial) && parse_partial(at, &partial) &&
                       add_compared(alternative, LESS_EQUAL, &partial);
        }
        return add_same(alternative, &partial);
}

static bool parse_alternative(const char **at, struct alternative *alternative) {
        for (;;) {
                skip_spaces(at);
                if (!parse_comparison(at, alternative))
                        return false;
                if (**at && **at != ' ' && **at != ',' && **at != '|')
                        return false;
                skip_spaces(at);
                if (**at == ',')
                        ++*at;
                else if (**at == '\0' || **at == '|')
                        return true;
        }
}

int version_pattern_parse(const char *text, struct arena *arena, const struct version_pattern **ret,
                          struct error *err) {
        struct version_pattern *pattern = arena_alloc(arena, sizeof(*pattern));
        const char *at = text;

        if (strlen(text) > PATTERN_MAX)
                return error_set(err, "the pattern for tags is longer than %u characters", PATTERN_MAX);
        for (;;) {
                struct alternative *alternative = arena_alloc(arena, sizeof(*alternative));

                if (!parse_alternative(&at, alternative))
                        return error_set(err,
                                         "\"%s\" is no pattern of semantic versions: write 1.x, ~1.2, ^1.2, "
                                         "\">=1.2 <2\", v1.4.0 or *",
                                         text);
                alternative->next = (struct alternative *)pattern->first;
                pattern->first = alternative;
                if (!*at)
                        break;
                if (at[1] != '|')
                        return error_set(err, "\"%s\": alternatives are separated by ||", text);
                at += 2;
        }
        *ret = pattern;
        return 0;
}

static bool comparison_holds(const struct comparison *comparison, const struct version *version) {
        int order = version_compare(version, &comparison->bound);

        switch (comparison->relation) {
        case LESS:
                return order < 0;
        case LESS_EQUAL:
                return order <= 0;
        case EQUAL:
                return order == 0;
        case NOT_EQUAL:
                return order != 0;
        case GREATER_EQUAL:
                return order >= 0;
        case GREATER:
        default:
                return order > 0;
        }
}

static bool alternative_matches(const struct alternative *alternative, const struct version *version) {
        if ((version->prerelease && !alternative->prereleases) || (alternative->with_v && !version->has_v))
                return false;
        for (size_t i = 0; i < alternative->count; i++) {
                if (!comparison_holds(&alternative->comparisons[i], version))
                        return false;
        }
        return true;
}

bool version_pattern_matches(const struct version_pattern *pattern, const struct version *version) {
        for (const struct alternative *one = pattern->first; one; one = one->next) {
                if (alternative_matches(one, version))
                        return true;
        }
        return false;
}

int git_tag_check(const char *pattern, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct version_pattern *parsed;

        return version_pattern_parse(pattern, arena, &parsed, err);
}
