/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the server's refs is followed: the branch of that name, or the highest version among the
 * tags that match. If none matches, the message names those that are there.
 */
#include "gitops/git/choose_ref.h"

#include "base/suggest.h"

#include <string.h>

#define SUGGESTIONS_MAX 1000U
#define SHOWN_MAX 256U

bool choose_is_branch_name(const char *name) {
        size_t length = strlen(name);

        for (const char *at = name; *at; at++) {
                if ((unsigned char)*at <= 0x20 || *at == 0x7F || strchr("~^:?*[\\", *at))
                        return false;
        }
        return length > 0 && length < 256 && name[0] != '-' && name[0] != '/' && name[length - 1] != '/' &&
               !strstr(name, "..") && !strstr(name, "@{") && !strstr(name, "//");
}

int choose_branch(const char *branch, const struct remote_ref *refs, size_t count, struct arena *arena,
                  struct remote_ref *ret, enum git_failure *ret_failure, struct error *err) {
        const char *wanted = arena_printf(arena, "refs/heads/%s", branch), *near;
        const char **names = arena_array(arena, count, sizeof(*names));
        size_t branches = 0;

        for (size_t i = 0; i < count; i++) {
                if (strcmp(refs[i].name, wanted) == 0) {
                        *ret = refs[i];
                        return 0;
                }
                if (strncmp(refs[i].name, "refs/heads/", 11) == 0 && branches < SUGGESTIONS_MAX)
                        names[branches++] = refs[i].name + 11;
        }
        near = suggest_nearest(branch, names, branches);
        /* A server may say anything. */
        near = near ? git_clean_text(arena, near, SHOWN_MAX) : NULL;
        return FAIL(GIT_NOT_FOUND, "there is no branch %s%s%s%s", branch,
                    near         ? "; did you mean "
                    : count == 0 ? "; the repository is empty"
                                 : "",
                    near ? near : "", near ? "?" : "");
}

int choose_tag(const struct version_pattern *pattern, const char *text, const struct remote_ref *refs,
               size_t count, struct remote_ref *ret, enum git_failure *ret_failure, struct error *err) {
        const struct remote_ref *best = NULL;
        struct version highest = { 0 };
        size_t tags = 0;

        for (size_t i = 0; i < count; i++) {
                struct version version;

                if (strncmp(refs[i].name, "refs/tags/", 10) != 0)
                        continue;
                tags++;
                if (!version_parse(refs[i].name + 10, &version) ||
                    !version_pattern_matches(pattern, &version))
                        continue;
                if (!best || version_compare(&version, &highest) >= 0) {
                        best = &refs[i];
                        highest = version;
                }
        }
        if (!best)
                return FAIL(GIT_NOT_FOUND, "none of %zu tags matches \"%s\"", tags, text);
        *ret = *best;
        return 0;
}

bool choose_is_higher_tag(const char *ref, const char *than) {
        struct version version, before;

        return strncmp(ref, "refs/tags/", 10) == 0 && than && strncmp(than, "refs/tags/", 10) == 0 &&
               version_parse(ref + 10, &version) && version_parse(than + 10, &before) &&
               version_compare(&version, &before) > 0;
}
