/* SPDX-License-Identifier: Apache-2.0 */
#include "server/route.h"

#include "base/strbuf.h"

#include <stdbool.h>
#include <string.h>

/*
 * "{name}" is one part of the path, "{name...}", which stands last, is all that is left, with its slashes; neither is empty. The
 * rest is compared as it stands: "/a/" is not "/a".
 */
static bool matches_pattern(const char *pattern, const char *path, struct arena *arena,
                            const char *parameters[SERVER_PARAMETERS]) {
        size_t count = 0;

        while (*pattern) {
                const char *end;
                bool rest;
                size_t length;

                if (*pattern != '{') {
                        if (*pattern++ != *path++)
                                return false;
                        continue;
                }
                end = strchr(pattern, '}');
                rest = end - pattern > 3 && strncmp(end - 3, "...", 3) == 0;
                length = rest ? strlen(path) : strcspn(path, "/");
                if (length == 0 || count == SERVER_PARAMETERS)
                        return false;
                parameters[count++] = arena_strndup(arena, path, length);
                path += length;
                pattern = end + 1;
        }
        return *path == '\0';
}

bool route_takes_slash(const struct server_route *route, const char *const parameters[SERVER_PARAMETERS],
                       const char *path, const char *slash) {
        size_t count = 0;

        if (!strstr(route->path, "...}"))
                return false;
        for (const char *at = route->path; (at = strchr(at, '{')); at++)
                count++;
        return slash >= path + strlen(path) - strlen(parameters[count - 1]);
}

/* A path that has GET also has HEAD. */
static bool has_method(const struct server_route *route, const char *method) {
        return strcmp(route->method, method) == 0 ||
               (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

const struct server_route *route_find(const struct server_route *routes, size_t count, const char *method,
                                      const char *path, struct arena *arena,
                                      const char *parameters[SERVER_PARAMETERS], const char **ret_allow) {
        struct strbuf allow STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < count; i++) {
                if (!matches_pattern(routes[i].path, path, arena, parameters))
                        continue;
                if (has_method(&routes[i], method))
                        return &routes[i];
                strbuf_printf(&allow, "%s%s%s", allow.length ? ", " : "", routes[i].method,
                              strcmp(routes[i].method, "GET") == 0 ? ", HEAD" : "");
        }
        *ret_allow = allow.length ? arena_strdup(arena, strbuf_text(&allow)) : NULL;
        return NULL;
}
