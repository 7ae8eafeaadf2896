/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheme is what RFC 3986 calls so, with ":" behind it: "s3:", "https:", "file:". A path may
 * begin like that as well, but that is never meant: a slash or the end must follow, or the scheme
 * is one that Berth knows ("s3:bucket" lacks its slashes).
 */
#include "schema/state_place.h"

#include "base/text.h"

#include <ctype.h>
#include <string.h>

#define S3_SCHEME "s3"
#define TAKEN "a state is in a folder (PATH), or in S3 (s3://BUCKET/PREFIX)"

static bool is_lower_or_digit(char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

/* Length of the scheme's name, 0 where the text has none. */
static size_t scheme_length(const char *text) {
        size_t length = 0;

        if (!isalpha((unsigned char)text[0]))
                return 0;
        while (isalnum((unsigned char)text[length]) || (text[length] && strchr("+-.", text[length])))
                length++;
        if (text[length] != ':')
                return 0;
        return text[length + 1] == '/' || !text[length + 1] ||
                               (length == strlen(S3_SCHEME) && strncmp(text, S3_SCHEME, length) == 0)
                       ? length
                       : 0;
}

/* Four numbers with dots between them: S3 has no such name. */
static bool is_like_an_address(const char *name) {
        size_t dots = 0;

        for (; *name; name++) {
                if (*name == '.')
                        dots++;
                else if (*name < '0' || *name > '9')
                        return false;
        }
        return dots == 3;
}

/* The fault of a bucket's name, or NULL. */
static const char *problem_of_bucket(const char *name) {
        static const char *const beginnings[] = { "xn--", "sthree-", "amzn-s3-demo-" };
        static const char *const endings[] = { "-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3" };
        size_t length = strlen(name);

        if (length < 3 || length > 63)
                return "a bucket's name has 3 to 63 characters";
        for (size_t i = 0; i < length; i++) {
                if (!is_lower_or_digit(name[i]) && name[i] != '-' && name[i] != '.')
                        return "a bucket's name is of lower-case letters, digits, - and .";
        }
        if (!is_lower_or_digit(name[0]) || !is_lower_or_digit(name[length - 1]))
                return "a bucket's name begins and ends with a letter or a digit";
        if (strstr(name, "..") || is_like_an_address(name))
                return "a bucket's name has no two dots side by side and is no IP address";
        for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
                if (text_begins_with(name, beginnings[i]))
                        return "S3 keeps names with that beginning for itself";
        }
        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
                if (text_ends_with(name, endings[i]))
                        return "that is no general purpose bucket, and only those have what a state needs";
        }
        return NULL;
}

static bool is_dots(const char *part, size_t length) {
        return (length == 1 && part[0] == '.') || (length == 2 && strncmp(part, "..", 2) == 0);
}

/* The same of a prefix, whose last slash is gone. */
static const char *problem_of_prefix(const char *prefix) {
        size_t length = strlen(prefix);

        if (length == 0)
                return "a prefix is missing, under which the state's objects are kept: s3://BUCKET/PREFIX";
        if (length > STATE_PLACE_PREFIX_MAX)
                return "a prefix has 512 characters at the most";
        for (size_t i = 0; i < length; i++) {
                if (!isalnum((unsigned char)prefix[i]) && !strchr("-_.=/", prefix[i]))
                        return "a prefix is of letters, digits, - _ . = and /";
        }
        for (const char *part = prefix;; part++) {
                size_t part_length = strcspn(part, "/");

                if (part_length == 0)
                        return "a prefix has no two slashes side by side";
                if (is_dots(part, part_length))
                        return "a prefix has no part that is . or ..";
                part += part_length;
                if (!*part)
                        return NULL;
        }
}

static int parse_s3(const char *text, struct arena *arena, struct state_place *ret, struct error *err) {
        const char *rest = text + strlen(S3_SCHEME ":"), *problem, *slash;
        char *bucket, *prefix;

        if (!text_begins_with(rest, "//"))
                return error_set(
                        err, "the state %s: s3: is followed by two slashes, as in s3://BUCKET/PREFIX", text);
        rest += 2;
        slash = strchr(rest, '/');
        bucket = slash ? arena_strndup(arena, rest, (size_t)(slash - rest)) : arena_strdup(arena, rest);
        prefix = arena_strdup(arena, slash ? slash + 1 : "");
        if (text_ends_with(prefix, "/"))
                prefix[strlen(prefix) - 1] = '\0';
        problem = problem_of_bucket(bucket);
        if (!problem)
                problem = problem_of_prefix(prefix);
        if (problem)
                return error_set(err, "the state %s: %s", text, problem);
        *ret = (struct state_place){
                .type = STATE_PLACE_S3,
                .text = arena_printf(arena, S3_SCHEME "://%s/%s", bucket, prefix),
                .bucket = bucket,
                .prefix = prefix,
        };
        return 0;
}

int state_place_parse(const char *text, struct arena *arena, struct state_place *ret, struct error *err) {
        size_t scheme = scheme_length(text);

        if (!*text)
                return error_set(err, "where the state is must not be empty: " TAKEN);
        if (scheme == strlen(S3_SCHEME) && strncmp(text, S3_SCHEME, scheme) == 0)
                return parse_s3(text, arena, ret, err);
        if (scheme > 0)
                return error_set(err,
                                 "the state %s: Berth knows no state in %.*s: " TAKEN
                                 "; a folder of that name is ./%s",
                                 text, (int)scheme, text, text);
        *ret = (struct state_place){ .type = STATE_PLACE_FOLDER,
                                     .text = arena_strdup(arena, text),
                                     .folder = arena_strdup(arena, text) };
        return 0;
}
