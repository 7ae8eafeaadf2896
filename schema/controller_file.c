/* SPDX-License-Identifier: Apache-2.0 */
/* What the manifest of a Controller must satisfy beyond its fields. */
#include "base/text.h"
#include "schema/loading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PART_MAX 512U

/*
 * The last "@" before the path, which ends "USER:PASSWORD"; NULL without one. A password may hold
 * an "@" itself.
 */
static const char *user_end(const char *authority) {
        size_t length = strcspn(authority, "/");

        for (size_t i = length; i-- > 0;) {
                if (authority[i] == '@')
                        return authority + i;
        }
        return NULL;
}

static void check_url_secret(struct loading *loading, const struct value *url) {
        const char *scheme = strstr(url->text, "://");
        const char *end = scheme ? user_end(scheme + 3) : NULL;

        if (!end || !memchr(scheme + 3, ':', (size_t)(end - (scheme + 3))))
                return;
        /* The quoted part of the line may be seen by others: logs, pipelines. */
        problem_add_secret(loading, (struct secret_place){ .file = url->file,
                                                           .line = url->line,
                                                           .column = url->column,
                                                           .end_line = url->line,
                                                           .end_column = UINT32_MAX });
        problem_error(loading, place_of(url),
                      "write it into a file, and name that as credentials.passwordFile",
                      "url must not hold a password");
}

/* As Git takes URLs: HOST:PATH without a scheme is ssh, a path is a path. */
static bool is_ssh(const char *url) {
        return text_begins_with(url, "ssh://") || !(strstr(url, "://") || url[0] == '/');
}

/* Credentials for another kind of server than the url's would silently not be used. */
static void check_credentials(struct loading *loading, const struct value *source, const struct value *url) {
        static const struct {
                const char *name;
                bool ssh;
        } fields[] = {
                { "usernameFile", false }, { "passwordFile", false },  { "caFile", false },
                { "sshKeyFile", true },    { "knownHostsFile", true },
        };
        const struct value *credentials = typed_member(source, "credentials", VALUE_MAP);
        bool ssh = is_ssh(url->text), https = text_begins_with(url->text, "https://");

        if (ssh && !value_get(credentials, "knownHostsFile"))
                problem_error(
                        loading, place_of(url),
                        "ssh-keyscan HOST prints its keys: compare them with what the server's owner says",
                        "a source by ssh needs credentials.knownHostsFile");
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                const struct value *given = value_get(credentials, fields[i].name);

                if (given && given->line > 0 && (fields[i].ssh ? !ssh : !https))
                        problem_error(loading, place_of(given), NULL, "%s means nothing to a source by %s",
                                      fields[i].name,
                                      ssh                                     ? "ssh"
                                      : https                                 ? "https"
                                      : text_begins_with(url->text, "git://") ? "git"
                                                                              : "file");
        }
}

static bool is_pattern(const char *path) {
        return strpbrk(path, "*?") != NULL;
}

/* The folder must lie within the repository: no path from the root, and no step "..". */
static void check_path(struct loading *loading, const struct value *path) {
        bool good = path->text[0] != '/';

        for (const char *part = path->text; good && part; part = strchr(part, '/')) {
                part += *part == '/';
                good = !(part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == '\0'));
        }
        if (!good)
                problem_error(loading, place_of(path), NULL,
                              "path must be a folder within the repository, found \"%.100s\"", path->text);
        else if (is_pattern(path->text) && (strpbrk(path->text, "[\\") || strstr(path->text, "**")))
                problem_error(loading, place_of(path), "stacks/*/prod matches stacks/eu/prod",
                              "a pattern is made of * and ?, which a slash ends, found \"%.100s\"",
                              path->text);
}

static void check_branch(struct loading *loading, const struct value *branch) {
        if (text_begins_with(branch->text, "refs/"))
                problem_error(loading, place_of(branch), "write main, not refs/heads/main",
                              "branch must be a branch's own name, found \"%.100s\"", branch->text);
}

static void check_source(struct loading *loading, const struct value *source) {
        const struct value *url = typed_member(source, "url", VALUE_TEXT);
        const struct value *path = typed_member(source, "path", VALUE_TEXT);
        const struct value *branch = typed_member(source, "branch", VALUE_TEXT);

        if (url) {
                check_url_secret(loading, url);
                check_credentials(loading, source, url);
        }
        if (path)
                check_path(loading, path);
        if (branch)
                check_branch(loading, branch);
}

/* Compared pair by pair: there are 500 sources at the most. */
static void check_unique(struct loading *loading, const struct value *sources, uint32_t at) {
        const struct value *name = typed_member(&sources->items[at], "name", VALUE_TEXT);

        for (uint32_t i = 0; name && i < at; i++) {
                const struct value *other = typed_member(&sources->items[i], "name", VALUE_TEXT);

                if (!other || strcmp(other->text, name->text) != 0)
                        continue;
                problem_error(loading, place_of(name), NULL, "two sources are named %s, the first on line %u",
                              name->text, other->line);
                return;
        }
}

/* The next part of a path, as it will be read: "./a//b" has two. Its length is 0 at the end. */
static const char *next_part(const char **at, size_t *ret_length) {
        const char *part;

        do {
                part = *at += strspn(*at, "/");
                *ret_length = strcspn(part, "/");
                *at += *ret_length;
        } while (*ret_length == 1 && *part == '.');
        return part;
}

/*
 * Whether some name is matched by both. Like the table of an edit distance: a place in it is true where the beginnings of both, up
 * to there, match a common text. Names have 255 bytes at most, and between each two a pattern can have one star.
 */
static bool parts_meet(const char *a, size_t a_length, const char *b, size_t b_length) {
        bool before[PART_MAX + 1] = { true }, now[PART_MAX + 1];

        if (a_length > PART_MAX || b_length > PART_MAX)
                return false;
        for (size_t k = 1; k <= b_length && b[k - 1] == '*'; k++)
                before[k] = true;
        for (size_t i = 1; i <= a_length; i++) {
                bool star = a[i - 1] == '*', any = a[i - 1] == '?';

                now[0] = star && before[0];
                for (size_t k = 1; k <= b_length; k++) {
                        char other = b[k - 1];

                        if (star || other == '*')
                                now[k] = before[k] || now[k - 1] || before[k - 1];
                        else
                                now[k] = before[k - 1] && (any || other == '?' || other == a[i - 1]);
                }
                memcpy(before, now, (b_length + 1) * sizeof(*now));
        }
        return before[b_length];
}

/* Whether some folder could be what both are about. */
static bool paths_meet(const char *a, const char *b) {
        for (;;) {
                size_t a_length, b_length;
                const char *a_part = next_part(&a, &a_length), *b_part = next_part(&b, &b_length);

                if (a_length == 0 || b_length == 0)
                        return a_length == b_length;
                if (!parts_meet(a_part, a_length, b_part, b_length))
                        return false;
        }
}

static bool is_same_field(const struct value *source, const struct value *other, const char *name) {
        const char *a = value_get_text(source, name), *b = value_get_text(other, name);

        return text_equal(a, b);
}

/* A folder that two patterns match would be two sources, each with a state, of one stack. */
static void check_patterns(struct loading *loading, const struct value *sources, uint32_t at) {
        const struct value *source = &sources->items[at], *path = typed_member(source, "path", VALUE_TEXT);

        for (uint32_t i = 0; path && i < at; i++) {
                const struct value *other = &sources->items[i],
                                   *other_path = typed_member(other, "path", VALUE_TEXT);

                if (!other_path || !(is_pattern(path->text) || is_pattern(other_path->text)) ||
                    !is_same_field(source, other, "url") || !is_same_field(source, other, "branch") ||
                    !is_same_field(source, other, "tag") || !paths_meet(path->text, other_path->text))
                        continue;
                problem_error(loading, place_of(path), "no folder may be two sources",
                              "%.100s and %.100s, on line %u, can match the same folder", path->text,
                              other_path->text, other_path->line);
                return;
        }
}

/* A state is of one stack. */
static void check_states(struct loading *loading, const struct value *sources, uint32_t at) {
        const struct value *source = &sources->items[at], *state = typed_member(source, "state", VALUE_TEXT);
        const struct value *path = typed_member(source, "path", VALUE_TEXT);

        if (state && path && is_pattern(path->text))
                problem_error(loading, place_of(state),
                              "let each folder's Stack name its own (spec.state), under may.states",
                              "the path is a pattern, of which each folder has a state of its own");
        for (uint32_t i = 0; state && i < at; i++) {
                const struct value *other = typed_member(&sources->items[i], "state", VALUE_TEXT);

                if (!other || strcmp(other->text, state->text) != 0)
                        continue;
                problem_error(loading, place_of(state), "give each source a prefix of its own",
                              "%.200s is the state of the source on line %u already", state->text,
                              other->line);
                return;
        }
}

void check_controller(struct loading *loading, const struct draft *draft) {
        const struct value *spec = draft->resource.spec;
        const struct value *sources = typed_member(spec, "sources", VALUE_LIST);
        const struct value *listen = typed_member(spec, "listen", VALUE_TEXT);

        if (listen)
                check_listen(loading, listen);
        for (uint32_t i = 0; sources && i < sources->count; i++) {
                check_source(loading, &sources->items[i]);
                check_unique(loading, sources, i);
                check_patterns(loading, sources, i);
                check_states(loading, sources, i);
        }
}
