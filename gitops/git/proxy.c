/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules are curl's (curl(1), "ENVIRONMENT"). Lowercase variables come before uppercase ones, and an empty variable counts as
 * unset. An entry of no_proxy covers its name and all names below it; a leading dot changes nothing.
 */
#include "gitops/git/proxy.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PROXY_MAX 2048U
#define SEPARATORS ", \t"

static const char *first_set(const char *const *names) {
        for (; *names; names++) {
                const char *text = getenv(*names);

                if (text && *text)
                        return text;
        }
        return NULL;
}

/* A name that is fully qualified may end with a dot. */
static size_t length_without_dot(const char *name, size_t length) {
        return length > 0 && name[length - 1] == '.' ? length - 1 : length;
}

static bool covers(const char *entry, size_t length, const char *host) {
        size_t host_length = length_without_dot(host, strlen(host));

        if (length > 0 && *entry == '.') {
                entry++;
                length--;
        }
        length = length_without_dot(entry, length);
        if (length == 0 || length > host_length ||
            strncasecmp(host + host_length - length, entry, length) != 0)
                return false;
        return length == host_length || host[host_length - length - 1] == '.';
}

bool proxy_is_excepted(const char *list, const char *host) {
        if (strcmp(list, "*") == 0)
                return true;
        while (*list) {
                size_t length = strcspn(list, SEPARATORS);

                if (covers(list, length, host))
                        return true;
                list += length;
                list += strspn(list, SEPARATORS);
        }
        return false;
}

const char *proxy_for(const struct url *url) {
        static const char *const proxies[] = { "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", NULL };
        static const char *const exceptions[] = { "no_proxy", "NO_PROXY", NULL };
        const char *list = first_set(exceptions);

        if (url->scheme != URL_HTTPS || (list && proxy_is_excepted(list, url->host)))
                return NULL;
        return first_set(proxies);
}

/* USER or USER:PASSWORD, as a URL may have them (RFC 3986, 3.2.1): what is special is written as %XX. */
static bool is_userinfo(const char *text) {
        for (; *text; text++) {
                if (*text == '%') {
                        if (!isxdigit((unsigned char)text[1]) || !isxdigit((unsigned char)text[2]))
                                return false;
                        text += 2;
                } else if (!isalnum((unsigned char)*text) && !strchr("-._~!$&'()*+,;=:", *text)) {
                        return false;
                }
        }
        return true;
}

static int fail_form(const char *what, struct error *err) {
        return error_set(err,
                         "the proxy that HTTPS_PROXY or ALL_PROXY names %s: it must be "
                         "http://[USER:PASSWORD@]HOST[:PORT], special characters written as %%XX",
                         what);
}

int proxy_parse(const char *text, struct arena *arena, struct proxy *ret, struct error *err) {
        const char *scheme = "http", *mark = strstr(text, "://"), *port = NULL;
        char *authority, *at, *host, *colon;

        if (mark && strncasecmp(text, "https://", 8) == 0)
                scheme = "https";
        else if (mark && strncasecmp(text, "http://", 7) != 0)
                return fail_form("is not an http proxy", err);
        if (strlen(text) > PROXY_MAX)
                return fail_form("is too long", err);
        authority = arena_strdup(arena, mark ? mark + 3 : text);
        authority[strcspn(authority, "/?#")] = '\0';
        at = strrchr(authority, '@');
        host = at ? at + 1 : authority;
        if (at)
                *at = '\0';
        colon = strchr(host[0] == '[' && strchr(host, ']') ? strchr(host, ']') : host, ':');
        if (colon) {
                *colon = '\0';
                port = colon + 1;
        }
        if (!url_is_host(host) || (port && !url_is_port(port)) || (at && !is_userinfo(authority)))
                return fail_form("is not understood", err);
        if (!port)
                port = strcmp(scheme, "https") == 0 ? "443" : "1080";
        *ret = (struct proxy){
                .url = arena_printf(arena, "%s://%s%s%s:%s", scheme, at ? authority : "", at ? "@" : "", host,
                                    port),
                .name = arena_printf(arena, "%s:%s", host, port),
                .secret = at && strchr(authority, ':') ? strchr(authority, ':') + 1 : NULL,
                .port = (uint16_t)strtoul(port, NULL, 10),
        };
        return 0;
}
