/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libssh2 1.10 reads plain names and hashed ones only. So the lines for one host are chosen here as OpenSSH would
 * choose them (patterns, negation, ports, revoked keys), and written out under the plain name that libssh2 will look
 * for.
 */
#include "gitops/git/known_hosts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct part {
        const char *text;
        size_t length;
};

struct line {
        struct part marker, hosts, type, key;
};

static struct part next_word(const char **at, const char *end) {
        struct part word;

        while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r'))
                ++*at;
        word.text = *at;
        while (*at < end && **at != ' ' && **at != '\t' && **at != '\r')
                ++*at;
        word.length = (size_t)(*at - word.text);
        return word;
}

/* False for empty lines, comments, and what is no line of a known_hosts file. */
static bool split_line(const char *text, size_t length, struct line *ret) {
        const char *at = text, *end = text + length;

        ret->hosts = next_word(&at, end);
        ret->marker = (struct part){ 0 };
        if (ret->hosts.length == 0 || ret->hosts.text[0] == '#')
                return false;
        if (ret->hosts.text[0] == '@') {
                ret->marker = ret->hosts;
                ret->hosts = next_word(&at, end);
        }
        ret->type = next_word(&at, end);
        ret->key = next_word(&at, end);
        return ret->key.length > 0;
}

static bool part_is(struct part part, const char *text) {
        return part.length == strlen(text) && memcmp(part.text, text, part.length) == 0;
}

/* `*` and `?`, without regard to case. */
static bool pattern_matches(const char *pattern, size_t length, const char *text) {
        size_t at = 0, star = length, again = 0, place = 0;

        while (text[place]) {
                if (at < length && pattern[at] == '*') {
                        star = at++;
                        again = place;
                } else if (at < length &&
                           (pattern[at] == '?' || strncasecmp(&pattern[at], &text[place], 1) == 0)) {
                        at++;
                        place++;
                } else if (star < length) {
                        at = star + 1;
                        place = ++again;
                } else {
                        return false;
                }
        }
        while (at < length && pattern[at] == '*')
                at++;
        return at == length;
}

/* True if a pattern matches, and none that begins with an exclamation mark. */
static bool names_host(struct part hosts, const char *target) {
        const char *at = hosts.text, *end = hosts.text + hosts.length;
        bool found = false;

        while (at < end) {
                const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
                bool negated = *at == '!';

                if (pattern_matches(at + negated, (size_t)(stop - at) - negated, target)) {
                        if (negated)
                                return false;
                        found = true;
                }
                at = comma ? comma + 1 : end;
        }
        return found;
}

static bool is_revoked(const char *text, struct part key) {
        struct line line;

        while (*text) {
                size_t length = strcspn(text, "\n");

                if (split_line(text, length, &line) && part_is(line.marker, "@revoked") &&
                    line.key.length == key.length && memcmp(line.key.text, key.text, key.length) == 0)
                        return true;
                text += length + (text[length] != '\0');
        }
        return false;
}

size_t known_hosts_select(const char *text, const char *host, const char *port, const char *type,
                          struct strbuf *ret) {
        struct strbuf target STRBUF_CLEANUP = STRBUF_INIT;
        const char *at = text;
        size_t count = 0;

        if (port && strcmp(port, "22") != 0)
                strbuf_printf(&target, "[%s]:%s", host, port);
        else
                strbuf_append(&target, host);
        while (*at) {
                size_t length = strcspn(at, "\n");
                struct line line;
                bool hashed;

                if (split_line(at, length, &line) && line.marker.length == 0 &&
                    (!type || part_is(line.type, type))) {
                        hashed = line.hosts.text[0] == '|';
                        if ((hashed || names_host(line.hosts, strbuf_text(&target))) &&
                            !is_revoked(text, line.key)) {
                                strbuf_append_bytes(ret, hashed ? line.hosts.text : strbuf_text(&target),
                                                    hashed ? line.hosts.length : target.length);
                                strbuf_printf(ret, " %.*s %.*s\n", (int)line.type.length, line.type.text,
                                              (int)line.key.length, line.key.text);
                                count++;
                        }
                }
                at += length + (at[length] != '\0');
        }
        return count;
}
