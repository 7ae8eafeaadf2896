/* SPDX-License-Identifier: Apache-2.0 */
/* Which proxy the environment names for a server, by curl's rules, and what becomes of its URL. */
#include "support.h"

#include "gitops/git/proxy.h"

static const struct {
        const char *list, *host;
        bool excepted;
} exceptions[] = {
        { "", "git.example.com", false },
        { "*", "git.example.com", true },
        { "*, other.org", "git.example.com", false }, /* "*" must stand alone */
        { "example.com", "git.example.com", true },
        { ".example.com", "git.example.com", true },
        { ".example.com", "example.com", true },
        { "example.com", "example.com", true },
        { "example.com", "badexample.com", false },
        { "ample.com", "example.com", false },
        { "git.example.com", "example.com", false },
        { "Example.COM", "git.example.com", true },
        { "example.com.", "git.example.com", true },
        { "example.com", "git.example.com.", true },
        { "a.org,example.com", "example.com", true },
        { "a.org  \texample.com ,", "example.com", true },
        { ",,. ,", "example.com", false },
        { "127.0.0.1,::1", "127.0.0.1", true },
        { "127.0.0.1,::1", "::1", true },
        { "com", "example.com", true },
};

static void names_excepted(void **state) {
        (void)state;
        for (size_t i = 0; i < COUNT(exceptions); i++) {
                if (proxy_is_excepted(exceptions[i].list, exceptions[i].host) != exceptions[i].excepted)
                        fail_msg("\"%s\" and %s", exceptions[i].list, exceptions[i].host);
        }
}

static const struct {
        const char *given, *url, *name, *secret;
        uint16_t port;
} good[] = {
        { "http://proxy:3128", "http://proxy:3128", "proxy:3128", NULL, 3128 },
        { "proxy:3128", "http://proxy:3128", "proxy:3128", NULL, 3128 },
        { "proxy", "http://proxy:1080", "proxy:1080", NULL, 1080 },
        { "HTTP://proxy:8080/", "http://proxy:8080", "proxy:8080", NULL, 8080 },
        { "https://proxy", "https://proxy:443", "proxy:443", NULL, 443 },
        { "http://me:p%40ss@proxy:1", "http://me:p%40ss@proxy:1", "proxy:1", "p%40ss", 1 },
        { "http://me@proxy:1", "http://me@proxy:1", "proxy:1", NULL, 1 },
        { "http://[::1]:3128", "http://[::1]:3128", "[::1]:3128", NULL, 3128 },
};

static const struct {
        const char *given, *said;
} bad[] = {
        { "socks5://u:hunter2@proxy:1080", "not an http proxy" },
        { "http://", "not understood" },
        { "http://u:hunter2@", "not understood" },
        { "http://u:hunter2@proxy:0", "not understood" },
        { "http://u:hunter2@proxy:65536", "not understood" },
        { "http://u:hunter2@proxy:1 ", "not understood" },
        { "http://u:hunter2 @proxy:1", "not understood" },
        { "http://u:hunter2@x@proxy:1", "not understood" },
        { "http://u:hunter2%4@proxy:1", "not understood" },
        { "http://u:hunter2\r\nX: y@proxy:1", "not understood" },
        { "http://u:hunter2@-proxy:1", "not understood" },
};

static void urls_read(void **state) {
        struct arena *arena = arena_new();

        (void)state;
        for (size_t i = 0; i < COUNT(good); i++) {
                struct error err = { 0 };
                struct proxy proxy;

                if (proxy_parse(good[i].given, arena, &proxy, &err) < 0)
                        fail_msg("%s: %s", good[i].given, err.message);
                assert_string_equal(proxy.url, good[i].url);
                assert_string_equal(proxy.name, good[i].name);
                assert_string_equal(proxy.secret ? proxy.secret : "-", good[i].secret ? good[i].secret : "-");
                assert_int_equal(proxy.port, good[i].port);
        }
        for (size_t i = 0; i < COUNT(bad); i++) {
                struct error err = { 0 };
                struct proxy proxy;

                if (proxy_parse(bad[i].given, arena, &proxy, &err) == 0)
                        fail_msg("\"%s\" is let through", bad[i].given);
                if (!strstr(err.message, bad[i].said) || strstr(err.message, "hunter2"))
                        fail_msg("\"%s\": %s", bad[i].given, err.message);
        }
        arena_free(arena);
}

/* The variables of one case; all others are not set. */
static const struct {
        const char *set[4][2];
        const char *url, *found;
} environments[] = {
        { { { NULL } }, "https://example.com/a", NULL },
        { { { "https_proxy", "small" }, { "HTTPS_PROXY", "large" } }, "https://example.com/a", "small" },
        { { { "https_proxy", "" }, { "HTTPS_PROXY", "large" } }, "https://example.com/a", "large" },
        { { { "ALL_PROXY", "all" }, { "HTTPS_PROXY", "large" } }, "https://example.com/a", "large" },
        { { { "all_proxy", "all" } }, "https://example.com/a", "all" },
        { { { "ALL_PROXY", "all" } }, "https://example.com/a", "all" },
        { { { "http_proxy", "plain" }, { "HTTP_PROXY", "plain" } }, "https://example.com/a", NULL },
        { { { "all_proxy", "all" } }, "ssh://git@example.com/a", NULL },
        { { { "all_proxy", "all" } }, "git://example.com/a", NULL },
        { { { "all_proxy", "all" } }, "/srv/a", NULL },
        { { { "all_proxy", "all" }, { "no_proxy", "example.com" } }, "https://example.com/a", NULL },
        { { { "all_proxy", "all" }, { "NO_PROXY", "example.com" } }, "https://example.com/a", NULL },
        { { { "all_proxy", "all" }, { "no_proxy", "other" }, { "NO_PROXY", "example.com" } },
          "https://example.com/a",
          "all" },
};

static void variables_chosen(void **state) {
        static const char *const all[] = { "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
                                           "all_proxy",  "ALL_PROXY",  "no_proxy",    "NO_PROXY" };
        struct arena *arena = arena_new();

        (void)state;
        for (size_t i = 0; i < COUNT(environments); i++) {
                struct error err = { 0 };
                struct url url;
                const char *found;

                for (size_t k = 0; k < COUNT(all); k++)
                        unsetenv(all[k]);
                for (size_t k = 0; k < COUNT(environments[i].set) && environments[i].set[k][0]; k++)
                        setenv(environments[i].set[k][0], environments[i].set[k][1], 1);
                assert_int_equal(url_parse(environments[i].url, arena, &url, &err), 0);
                found = proxy_for(&url);
                if (strcmp(found ? found : "-", environments[i].found ? environments[i].found : "-") != 0)
                        fail_msg("case %zu: %s", i, found ? found : "none");
        }
        arena_free(arena);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names_excepted),
                cmocka_unit_test(urls_read),
                cmocka_unit_test(variables_chosen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
