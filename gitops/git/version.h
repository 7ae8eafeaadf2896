/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Semantic versions (semver.org 2.0) of tags, and the patterns that choose among them.
 *
 * A version: an optional "v", one to three numbers ("v1.4" is 1.4.0), "-prerelease", "+build". A number has no leading zeros,
 * and one number alone needs the "v": dates (2025.01.15, 20250101) are no versions. A pattern: comparisons that all hold, separated by spaces or commas; "||" between alternatives.
 *
 *     1.2.3   =1.2.3   that one            1.x  1.2.*  1  *   any with these numbers
 *     >=1.2  <2  !=1.4.1                   ~1.2  1.2.x        ^1.2  from it, below 2 (^0.2: below 0.3)
 *     1.2 - 1.4        both included, 1.4.9 too
 *
 * Prereleases match only where an alternative's own comparison names one (">=1.2-0"). A "v" in the pattern asks for tags
 * with a "v"; without it both forms match.
 */
#ifndef BERTH_GITOPS_GIT_VERSION_H
#define BERTH_GITOPS_GIT_VERSION_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct version {
        uint64_t number[3];
        const char *prerelease; /* points into the text parsed, not terminated */
        size_t prerelease_length;
        bool has_v;
};

struct version_pattern;

/* False where the text is no version. */
bool version_parse(const char *text, struct version *ret);
/* By precedence; negative, 0 or positive. */
int version_compare(const struct version *a, const struct version *b);

/* `text` must live as long as the pattern does. */
int version_pattern_parse(const char *text, struct arena *arena, const struct version_pattern **ret,
                          struct error *err) MUST_USE;
bool version_pattern_matches(const struct version_pattern *pattern, const struct version *version);

#endif
