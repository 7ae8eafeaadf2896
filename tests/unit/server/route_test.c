/* SPDX-License-Identifier: Apache-2.0 */
/* Paths against patterns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/route.h"

#include <string.h>

static const struct server_route routes[] = {
        { .method = "GET", .path = "/healthz" },
        { .method = "POST", .path = "/hooks/{name}" },
        { .method = "GET", .path = "/v1/sessions/{id}" },
        { .method = "DELETE", .path = "/v1/sessions/{id}" },
        { .method = "POST", .path = "/v1/sessions/{id}/executions" },
        { .method = "GET", .path = "/v1/sessions/{id}/files/{path...}" },
        { .method = "PUT", .path = "/v1/sessions/{id}/files/{path...}" },
        { .method = "GET", .path = "/v1/{what}/all" },
        { .method = "GET", .path = "/" },
};

static void requests_find_their_routes(void **state) {
        static const struct {
                const char *method, *path;
                int route; /* -1: none */
                const char *first, *second, *allow;
        } cases[] = {
                { "GET", "/", 8, NULL, NULL, NULL },
                { "GET", "/healthz", 0, NULL, NULL, NULL },
                { "HEAD", "/healthz", 0, NULL, NULL, NULL },
                { "POST", "/healthz", -1, NULL, NULL, "GET, HEAD" },
                { "get", "/healthz", -1, NULL, NULL, "GET, HEAD" },
                { "GET", "/healthz/", -1, NULL, NULL, NULL },
                { "GET", "/health", -1, NULL, NULL, NULL },
                { "GET", "/healthzz", -1, NULL, NULL, NULL },
                { "POST", "/hooks/a b", 1, "a b", NULL, NULL },
                { "HEAD", "/hooks/a", -1, NULL, NULL, "POST" },
                { "POST", "/hooks/", -1, NULL, NULL, NULL },
                { "POST", "/hooks/a/", -1, NULL, NULL, NULL },
                { "POST", "/hooks/a/b", -1, NULL, NULL, NULL },
                { "POST", "//hooks/a", -1, NULL, NULL, NULL },
                { "DELETE", "/v1/sessions/s-1", 3, "s-1", NULL, NULL },
                { "PATCH", "/v1/sessions/s-1", -1, NULL, NULL, "GET, HEAD, DELETE" },
                { "POST", "/v1/sessions/s-1/executions", 4, "s-1", NULL, NULL },
                { "PUT", "/v1/sessions/s-1/files/a/b//c.txt", 6, "s-1", "a/b//c.txt", NULL },
                { "GET", "/v1/sessions/s-1/files/", -1, NULL, NULL, NULL },
                { "GET", "/v1/sessions//files/a", -1, NULL, NULL, NULL },
                { "GET", "/v1/sessions/all", 2, "all", NULL, NULL },
                { "GET", "/v1/others/all", 7, "others", NULL, NULL },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                const char *parameters[SERVER_PARAMETERS] = { NULL }, *allow = NULL;
                const struct server_route *route =
                        route_find(routes, sizeof(routes) / sizeof(routes[0]), cases[i].method, cases[i].path,
                                   arena, parameters, &allow);

                if (cases[i].route < 0) {
                        if (route)
                                fail_msg("%s fits %s", cases[i].path, route->path);
                        assert_int_equal(allow == NULL, cases[i].allow == NULL);
                        if (allow)
                                assert_string_equal(allow, cases[i].allow);
                        continue;
                }
                if (route != &routes[cases[i].route])
                        fail_msg("%s %s fits %s", cases[i].method, cases[i].path,
                                 route ? route->path : "nothing");
                if (cases[i].first)
                        assert_string_equal(parameters[0], cases[i].first);
                if (cases[i].second)
                        assert_string_equal(parameters[1], cases[i].second);
        }
}

static void only_the_rest_has_escaped_slashes(void **state) {
        static const struct {
                const char *path;
                size_t slash;
                bool takes;
        } cases[] = {
                { "/v1/sessions/s-1/files/a/b", 24, true },  { "/v1/sessions/s-1/files//b", 23, true },
                { "/v1/sessions/s-1/files/a/b", 22, false }, { "/v1/sessions/s-1/files/a/b", 16, false },
                { "/v1/sessions/s-1/files/a/b", 12, false }, { "/v1/sessions/s-1/files/a/b", 0, false },
                { "/v1/sessions/s-1", 12, false },           { "/", 0, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                const char *parameters[SERVER_PARAMETERS] = { NULL }, *allow = NULL;
                const struct server_route *route =
                        route_find(routes, sizeof(routes) / sizeof(routes[0]), "GET", cases[i].path, arena,
                                   parameters, &allow);

                assert_non_null(route);
                if (route_takes_slash(route, (const char *const *)parameters, cases[i].path,
                                      cases[i].path + cases[i].slash) != cases[i].takes)
                        fail_msg("%s at %zu", cases[i].path, cases[i].slash);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(requests_find_their_routes),
                                            cmocka_unit_test(only_the_rest_has_escaped_slashes) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
