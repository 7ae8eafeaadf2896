/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of what is let through, not of what is refused: the URL goes to libgit2, to libssh2 and, over ssh, to a
 * shell on the server, and each of them reads special characters in its own way. The text that libgit2 gets is put
 * together again from the parts that were checked. No message quotes a URL before user and password are cut off.
 */
#include "gitops/git/url.h"

#include "base/digest.h"

#include "base/text_utf8.h"
#include "gitops/git/git.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#define URL_MAX 2048U

static const struct {
        const char *prefix;
        enum url_scheme scheme;
} schemes[] = {
        { "https://", URL_HTTPS },
        { "ssh://", URL_SSH },
        { "git://", URL_GIT },
        { "file://", URL_FILE },
};
#define SCHEME_COUNT (sizeof(schemes) / sizeof(schemes[0]))

static bool has_control(const char *text) {
        for (; *text; text++) {
                if ((unsigned char)*text < 0x20 || *text == 0x7F)
                        return true;
        }
        return false;
}

/* "[::1]" */
static bool is_bracketed_address(const char *text) {
        char address[INET6_ADDRSTRLEN];
        struct in6_addr ignored;
        size_t length = strlen(text);

        if (length < 2 || length - 2 >= sizeof(address) || text[0] != '[' || text[length - 1] != ']')
                return false;
        memcpy(address, text + 1, length - 2);
        address[length - 2] = '\0';
        return inet_pton(AF_INET6, address, &ignored) == 1;
}

bool url_is_host(const char *text) {
        if (*text == '[')
                return is_bracketed_address(text);
        if (!*text || *text == '-' || *text == '.')
                return false;
        for (const char *at = text; *at; at++) {
                if (!isalnum((unsigned char)*at) && *at != '-' && *at != '.' && *at != '_')
                        return false;
        }
        return true;
}

static bool is_user(const char *text) {
        if (!*text || *text == '-')
                return false;
        for (; *text; text++) {
                if (!isalnum((unsigned char)*text) && !strchr("-._+~@", *text))
                        return false;
        }
        return true;
}

bool url_is_port(const char *text) {
        unsigned long number = 0;

        for (const char *at = text; *at; at++) {
                if (!isdigit((unsigned char)*at) || at - text > 4)
                        return false;
                number = number * 10 + (unsigned long)(*at - '0');
        }
        return number > 0 && number < 65536;
}

/* What a server's shell, or git-upload-pack's own options, could take for something else. */
static const char *path_objection(enum url_scheme scheme, const char *path) {
        if (!*path || strcmp(path, "/") == 0)
                return "names no repository";
        if (scheme != URL_FILE && (*path == '-' || strncmp(path, "/-", 2) == 0))
                return "has a path that looks like an option";
        if (scheme != URL_FILE && strpbrk(path, "?#"))
                return "takes no query and no fragment";
        if (scheme == URL_SSH && strpbrk(path, "'\"`\\!$&;|<>()"))
                return "has a character in its path that a shell on the server would not take literally";
        if (scheme != URL_FILE && strpbrk(path, " \\"))
                return "has a space or backslash in it";
        return NULL;
}

static void lower_case(char *text) {
        for (; *text; text++) {
                if (*text >= 'A' && *text <= 'Z')
                        *text = (char)(*text - 'A' + 'a');
        }
}

/* In place. False where a percent sign is not followed by two digits, or by 00. */
static bool decode_percent(char *text) {
        char *to = text;

        for (; *text; text++) {
                if (*text == '%') {
                        int high = digest_from_hex(text[1]), low = high < 0 ? -1 : digest_from_hex(text[2]);

                        if (low < 0 || high * 16 + low == 0)
                                return false;
                        *to++ = (char)(high * 16 + low);
                        text += 2;
                } else {
                        *to++ = *text;
                }
        }
        *to = '\0';
        return true;
}

static int parse_file(const char *text, struct arena *arena, struct url *url, struct error *err) {
        bool plain = text[0] == '/';
        char *path = arena_strdup(arena, plain ? text : text + strlen("file://"));

        if (!plain && strncmp(path, "localhost/", 10) == 0)
                path += strlen("localhost");
        if (!plain && !decode_percent(path))
                return error_set(
                        err,
                        "the URL of the repository has a %% in it that two hexadecimal digits do not follow");
        if (path[0] != '/')
                return error_set(err, "a repository on this machine is an absolute path or file:///PATH");
        if (has_control(path))
                return error_set(err, "the URL of the repository has a control character in it");
        if (path_objection(URL_FILE, path))
                return error_set(err, "the URL of the repository %s", path_objection(URL_FILE, path));
        url->path = url->text = path;
        return 0;
}

/* USER[:PASSWORD]@HOST[:PORT], cut out of `authority`, which is changed. */
static int parse_authority(char *authority, struct url *url, struct error *err) {
        char *at = strrchr(authority, '@'), *host = at ? at + 1 : authority, *bracket, *colon;

        if (at) {
                *at = '\0';
                if (strchr(authority, ':'))
                        return error_set(err, "the URL of the repository has a password in it: put it into a "
                                              "file, and name that as credentials.passwordFile");
                if (url->scheme == URL_GIT || !is_user(authority))
                        return error_set(err, "the URL of the repository has an unusable user in it");
                url->user = authority;
        }
        bracket = strchr(host, ']');
        colon = strchr(bracket ? bracket : host, ':');
        if (colon) {
                *colon = '\0';
                url->port = colon + 1;
                if (!url_is_port(url->port))
                        return error_set(err, "the URL of the repository has an unusable port in it");
        }
        lower_case(host);
        if (!url_is_host(host))
                return error_set(err, "the URL of the repository has an unusable host in it");
        url->host = host;
        return 0;
}

/* USER@HOST:PATH, as scp writes it; no port. */
static int parse_scp(const char *text, struct arena *arena, struct url *url, struct error *err) {
        const char *start = strchr(text, '['), *colon;

        start = start && start == strchr(text, '@') + 1 ? strchr(start, ']') : text;
        colon = start ? strchr(start, ':') : NULL;
        if (!colon)
                return error_set(err, "the URL of the repository has an unusable host in it");
        if (strchr(text, '@') > colon)
                return error_set(err, "the URL of the repository has a password in it, or none of the forms "
                                      "https://, ssh://, user@host:path, git://, file://");
        url->scheme = URL_SSH;
        if (parse_authority(arena_strndup(arena, text, (size_t)(colon - text)), url, err) < 0)
                return -1;
        if (path_objection(URL_SSH, colon + 1))
                return error_set(err, "the URL of the repository %s", path_objection(URL_SSH, colon + 1));
        url->text = arena_printf(arena, "%s@%s:%s", url->user, url->host, colon + 1);
        url->path = arena_strdup(arena, colon + 1);
        return 0;
}

static int parse_scheme(const char *rest, const char *prefix, struct arena *arena, struct url *url,
                        struct error *err) {
        const char *path = strchr(rest, '/');
        size_t length = path ? (size_t)(path - rest) : strlen(rest);
        bool with_user;

        if (parse_authority(arena_strndup(arena, rest, length), url, err) < 0)
                return -1;
        if (!path || path_objection(url->scheme, path))
                return error_set(err, "the URL of the repository %s",
                                 path ? path_objection(url->scheme, path) : "names no repository");
        with_user = url->user && url->scheme == URL_SSH;
        url->path = arena_strdup(arena, path);
        url->text = arena_printf(arena, "%s%s%s%s%s%s%s", prefix, with_user ? url->user : "",
                                 with_user ? "@" : "", url->host, url->port ? ":" : "",
                                 url->port ? url->port : "", path);
        return 0;
}

/* Without the brackets, which only URLs need. */
static void bare_host(struct arena *arena, struct url *url) {
        if (url->host && url->host[0] == '[')
                url->host = arena_strndup(arena, url->host + 1, strlen(url->host) - 2);
}

int url_parse(const char *text, struct arena *arena, struct url *ret, struct error *err) {
        struct url url = { 0 };
        const char *at = strchr(text, '@');
        size_t offset;
        int result = 1;

        if (!*text || strlen(text) > URL_MAX)
                return error_set(err, "the URL of the repository is %s", *text ? "too long" : "empty");
        if (has_control(text) || !text_is_utf8(text, strlen(text), &offset))
                return error_set(err, "the URL of the repository has a control character in it");
        if (text[0] == '/') {
                url.scheme = URL_FILE;
                result = parse_file(text, arena, &url, err);
        }
        for (size_t i = 0; i < SCHEME_COUNT && result > 0; i++) {
                size_t length = strlen(schemes[i].prefix);

                if (strncmp(text, schemes[i].prefix, length) != 0)
                        continue;
                url.scheme = schemes[i].scheme;
                result = url.scheme == URL_FILE
                                 ? parse_file(text, arena, &url, err)
                                 : parse_scheme(text + length, schemes[i].prefix, arena, &url, err);
        }
        if (result > 0 && strncmp(text, "http://", 7) == 0)
                return error_set(
                        err,
                        "http:// shows passwords and manifests to every machine on the way: use https://");
        if (result > 0 && at && !strstr(text, "://") && (!strstr(text, "::") || strstr(text, "@[")))
                result = parse_scp(text, arena, &url, err);
        if (result > 0)
                return error_set(err, "the URL of the repository must be https://, ssh://, user@host:path,"
                                      " git://, file:// or an absolute path");
        if (result < 0)
                return -1;
        bare_host(arena, &url);
        *ret = url;
        return 0;
}

int git_url_check(const char *url, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct url parsed;

        return url_parse(url, arena, &parsed, err);
}

const char *git_url_warning(const char *url, bool verified) {
        if (strncmp(url, "git://", strlen("git://")) != 0)
                return NULL;
        return verified ? "git:// is not encrypted, and only the commit's signature is checked: any "
                          "machine on the way could answer, and could hold back newer commits"
                        : "git:// is not encrypted and not authenticated: any machine on the way can "
                          "put in commits; use https or ssh, or verify signatures";
}

/* USER:PASS/WORD@HOST: an unescaped slash. What follows the colon of a port is digits. */
static bool holds_password(const char *start, const char *slash) {
        const char *colon = strchr(start, ':');

        return colon && colon < slash && strspn(colon + 1, "0123456789") != (size_t)(slash - colon - 1);
}

/* Also of what url_parse() refuses: it stands in messages that say so. */
const char *git_display_name(const char *url, struct arena *arena) {
        const char *start = strstr(url, "://"), *at, *slash;
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT;
        bool scp = !start && url[0] != '/';
        char *name;
        size_t length;

        start = start ? start + 3 : url;
        slash = strchr(start, '/');
        at = scp ? strchr(start, '@') : strrchr(start, '@');
        if (at && url[0] != '/' && (!slash || at < slash || holds_password(start, slash))) {
                start = at + 1;
        }
        slash = strpbrk(start, scp ? ":/" : "/");
        name = arena_strdup(arena, start);
        if (scp && slash && *slash == ':')
                name[slash - start] = '/';
        for (char *character = name; *character; character++) {
                if ((unsigned char)*character < 0x20 || *character == 0x7F)
                        *character = '?';
        }
        length = strlen(name);
        while (length > 1 && name[length - 1] == '/')
                name[--length] = '\0';
        text_append_utf8(&safe, name);
        return arena_strdup(arena, strbuf_text(&safe));
}
