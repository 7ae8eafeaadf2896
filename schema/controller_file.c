/* SPDX-License-Identifier: Apache-2.0 */
/* What the manifest of a Controller must satisfy beyond its fields, and the file that it stands in. */
#include "base/text.h"
#include "schema/loading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The last "@" before the path, which ends "USER:PASSWORD"; NULL where there is none. A password may hold an "@" itself. */
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
        /* What is quoted of the line may be seen by others: logs, pipelines. */
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

static void check_listen(struct loading *loading, const struct value *listen) {
        const char *colon = strrchr(listen->text, ':');

        if (colon && strtol(colon + 1, NULL, 10) > 65535)
                problem_error(loading, place_of(listen), NULL,
                              "listen must have a port of 0 to 65535, found %s", colon + 1);
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
        }
}

bool controller_file_takes(struct loading *loading, const struct kind *kind, struct place place) {
        bool controller = kind->id == KIND_CONTROLLER;

        if (controller == loading->options->controller)
                return true;
        if (controller)
                problem_error(
                        loading, place,
                        "it stands in a file of its own, outside of the stack's: berth controller -f FILE",
                        "a Controller is no part of a stack");
        else
                problem_error(
                        loading, place,
                        "the manifests of a stack come from the repositories that the Controller's sources name",
                        "the file of a Controller holds nothing else, found %s", kind->name);
        return false;
}

void controller_file_check(struct loading *loading) {
        const struct draft *first = NULL;

        for (size_t i = 0; i < loading->draft_count; i++) {
                const struct draft *draft = &loading->drafts[i];

                if (first) {
                        problem_error(loading, draft->name, "start one berth controller for each",
                                      "a second Controller, %s: the first stands on line %u",
                                      draft->resource.name, first->resource.line);
                        return;
                }
                first = draft;
        }
        if (!first && loading->diagnostics->errors == 0)
                problem_error(loading, (struct place){ 0 },
                              "write kind: Controller; berth explain Controller shows its fields",
                              "no Controller stands in this file");
}
