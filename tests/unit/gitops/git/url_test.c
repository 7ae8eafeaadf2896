/* SPDX-License-Identifier: Apache-2.0 */
/* Which URLs are let through to libgit2 and in what form, how messages name them, and which names a tree may hold. */
#include "support.h"

#include "base/files.h"
#include "base/text_utf8.h"
#include "gitops/git/git_parts.h"
#include "gitops/git/url.h"

static const struct {
        const char *given;
        enum url_scheme scheme;
        const char *text, *user, *host, *port;
} good[] = {
        { "https://Example.COM/Team/Agents.git", URL_HTTPS, "https://example.com/Team/Agents.git", NULL,
          "example.com", NULL },
        { "https://bot@example.com:8443/a", URL_HTTPS, "https://example.com:8443/a", "bot", "example.com",
          "8443" },
        { "https://[::1]:8443/a", URL_HTTPS, "https://[::1]:8443/a", NULL, "::1", "8443" },
        { "ssh://git@example.com/a.git", URL_SSH, "ssh://git@example.com/a.git", "git", "example.com", NULL },
        { "ssh://git@example.com:2222/~/a", URL_SSH, "ssh://git@example.com:2222/~/a", "git", "example.com",
          "2222" },
        { "ssh://example.com/a", URL_SSH, "ssh://example.com/a", NULL, "example.com", NULL },
        { "git@Example.com:team/a.git", URL_SSH, "git@example.com:team/a.git", "git", "example.com", NULL },
        { "git@[::1]:team/a.git", URL_SSH, "git@[::1]:team/a.git", "git", "::1", NULL },
        { "git://example.com/a", URL_GIT, "git://example.com/a", NULL, "example.com", NULL },
        { "file:///srv/git/a%20b.git", URL_FILE, "/srv/git/a b.git", NULL, NULL, NULL },
        { "file://localhost/srv/a", URL_FILE, "/srv/a", NULL, NULL, NULL },
        { "/srv/git/a b.git", URL_FILE, "/srv/git/a b.git", NULL, NULL, NULL },
};

static void taken(void **state) {
        (void)state;
        for (size_t i = 0; i < COUNT(good); i++) {
                struct arena *arena = arena_new();
                struct error err = { 0 };
                struct url url;

                if (url_parse(good[i].given, arena, &url, &err) < 0)
                        fail_msg("%s: %s", good[i].given, err.message);
                assert_int_equal(url.scheme, good[i].scheme);
                assert_string_equal(url.text, good[i].text);
                assert_string_equal(url.user ? url.user : "-", good[i].user ? good[i].user : "-");
                assert_string_equal(url.host ? url.host : "-", good[i].host ? good[i].host : "-");
                assert_string_equal(url.port ? url.port : "-", good[i].port ? good[i].port : "-");
                arena_free(arena);
        }
}

static const struct {
        const char *given, *said;
} bad[] = {
        { "", "empty" },
        { "ext::sh -c true", "must be https://" },
        { "ext::ssh git@example.com %S /a", "must be https://" },
        { "fd::3", "must be https://" },
        { "http://example.com/a", "https://" },
        { "ftp://example.com/a", "must be https://" },
        { "HTTPS://example.com/a", "must be https://" },
        { "relative/path", "must be https://" },
        { "-oProxyCommand=true", "must be https://" },
        { "--upload-pack=true", "must be https://" },
        { "file://relative", "absolute" },
        { "file:///a%00b", "hexadecimal" },
        { "file:///a%2", "hexadecimal" },
        { "file:///a%0Ab", "control" },
        { "https://example.com", "names no repository" },
        { "https://example.com/", "names no repository" },
        { "https:///a", "host" },
        { "https://-example.com/a", "host" },
        { "https://exa mple.com/a", "host" },
        { "https://example.com/a b", "space" },
        { "https://example.com/a?x=1", "query" },
        { "https://example.com/a#b", "query" },
        { "ssh://git@[]/a", "host" },
        { "ssh://git@[host]/a", "host" },
        { "ssh://git@[::1]x:22/a", "host" },
        { "git@[]:1]:a", "host" },
        { "https://example.com:0/a", "port" },
        { "https://example.com:65536/a", "port" },
        { "https://example.com:1e3/a", "port" },
        { "https://u:hunter2@example.com/a", "password" },
        { "ssh://u:hunter2@example.com/a", "password" },
        { "u:hunter2@example.com:a", "password" },
        { "git://u@example.com/a", "user" },
        { "ssh://-oProxyCommand=true/a", "host" },
        { "ssh://-l@example.com/a", "user" },
        { "ssh://git@example.com/-a", "option" },
        { "git@example.com:-a", "option" },
        { "git@-example.com:a", "host" },
        { "ssh://git@example.com/a'b", "shell" },
        { "ssh://git@example.com/a$(b)", "shell" },
        { "git@example.com:a;b", "shell" },
        { "https://example.com/a\nb", "control" },
        { "https://example.com/a\x7F", "control" },
        { "https://example.com/\xFF", "control" },
        { "git@example.com:", "names no repository" },
};

static void refused(void **state) {
        char long_one[4096];

        (void)state;
        for (size_t i = 0; i < COUNT(bad); i++) {
                struct error err = { 0 };

                if (git_url_check(bad[i].given, &err) == 0)
                        fail_msg("\"%s\" is let through", bad[i].given);
                if (!strstr(err.message, bad[i].said))
                        fail_msg("\"%s\": %s", bad[i].given, err.message);
                assert_null(strstr(err.message, "hunter2"));
        }
        memset(long_one, 'a', sizeof(long_one) - 1);
        long_one[0] = '/';
        long_one[sizeof(long_one) - 1] = '\0';
        assert_int_equal(git_url_check(long_one, &(struct error){ 0 }), -1);
}

static const struct {
        const char *url, *name;
} names[] = {
        { "git@host:team/agents.git", "host/team/agents.git" },
        { "https://u:p@host/team/agents.git", "host/team/agents.git" },
        { "https://u:p/w@host/team/agents.git", "host/team/agents.git" },
        { "https://u:p@w@host/team/agents.git/", "host/team/agents.git" },
        { "https://host:8443/team/agents", "host:8443/team/agents" },
        { "ssh://git@host:2222/a", "host:2222/a" },
        { "git://host/a", "host/a" },
        { "file:///srv/a.git", "/srv/a.git" },
        { "/srv/a@b.git", "/srv/a@b.git" },
        { "https://host/a@b", "host/a@b" },
        { "https://host:8443/a@b", "host:8443/a@b" },
        { "u:p@host:a", "host/a" },
        { "git@host:a@b", "host/a@b" },
        { "https://host/\x1b[31m", "host/?[31m" },
        { "https://host/\xFF", "host/\\xFF" },
        { "", "" },
};

static void displayed(void **state) {
        struct arena *arena = arena_new();

        (void)state;
        for (size_t i = 0; i < COUNT(names); i++)
                assert_string_equal(git_display_name(names[i].url, arena), names[i].name);
        arena_free(arena);
}

static const struct {
        const char *name;
        bool good;
} entries[] = {
        { "agents.yaml", true },
        { ".github", true },
        { "..a", true },
        { "a..", true },
        { ".gitignore", true },
        { "git", true },
        { "a b", true },
        { "\xC3\xA4.yaml", true },
        { "dev-disk-by\\x2dlabel.swap", true },
        { "gitfile", true },
        { "", false },
        { ".", false },
        { "..", false },
        { "a/b", false },
        { "/a", false },
        { "a\nb", false },
        { "a\x7F", false },
        { "a\tb", false },
        { ".git", false },
        { ".GIT", false },
        { ".Git", false },
        { ".g\xE2\x80\x8Cit", false },
        { "\xEF\xBB\xBF.git", false },
        { ".git ", false },
        { ".git.", false },
        { ".git . .", false },
        { "git~1", false },
        { "GIT~1", false },
        { ".git::$INDEX_ALLOCATION", false },
        { ".git:x", false },
        { "a\\.git", false },
        { ".git\\config", false },
        { "\xFF", false },
        { "\xED\xA0\x80", false },
};

static void names_in_trees(void **state) {
        char long_one[300];

        (void)state;
        for (size_t i = 0; i < COUNT(entries); i++) {
                const char *said = git_name_objection(entries[i].name, strlen(entries[i].name));

                if ((said == NULL) != entries[i].good)
                        fail_msg("\"%s\": %s", entries[i].name, said ? said : "no objection");
        }
        memset(long_one, 'a', sizeof(long_one));
        assert_null(git_name_objection(long_one, 255));
        assert_non_null(git_name_objection(long_one, 256));
}

static void paths(void **state) {
        (void)state;
        assert_null(git_path_objection("a"));
        assert_null(git_path_objection("a/b/c.yaml"));
        assert_non_null(git_path_objection("/a"));
        assert_non_null(git_path_objection("a//b"));
        assert_non_null(git_path_objection("a/"));
        assert_non_null(git_path_objection("a/../b"));
        assert_non_null(git_path_objection("a/.git/config"));
        assert_non_null(git_path_objection(""));
}

static void manifest_names(void **state) {
        static const char *const yes[] = { "a.yaml", "a.yml", "a.b.yaml", "a.yaml.yml" };
        static const char *const no[] = { ".yaml", ".a.yaml", "yaml", "a.YAML", "a.yaml~", "a.json", "" };

        (void)state;
        for (size_t i = 0; i < COUNT(yes); i++)
                assert_true(git_is_manifest_name(yes[i]));
        for (size_t i = 0; i < COUNT(no); i++)
                assert_false(git_is_manifest_name(no[i]));
}

/* Pairs that some file system takes for one name. */
static void twins(void **state) {
        static const char *const pairs[][2] = { { "README.yaml", "readme.YAML" },
                                                { "\xC3\x84", "\xC3\xA4" },
                                                { "a\xCC\x88", "\xC3\xA4" },
                                                { "stra\xC3\x9F"
                                                  "e",
                                                  "STRASSE" },
                                                { "a\xE2\x80\x8B"
                                                  "b",
                                                  "AB" } };

        (void)state;
        for (size_t i = 0; i < COUNT(pairs); i++) {
                char *a TEXT_CLEANUP = text_fold(pairs[i][0], strlen(pairs[i][0]));
                char *b TEXT_CLEANUP = text_fold(pairs[i][1], strlen(pairs[i][1]));

                assert_string_equal(a, b);
        }
        assert_null(text_fold("\xFF", 1));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(taken),          cmocka_unit_test(refused), cmocka_unit_test(displayed),
                cmocka_unit_test(names_in_trees), cmocka_unit_test(paths),   cmocka_unit_test(manifest_names),
                cmocka_unit_test(twins),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
