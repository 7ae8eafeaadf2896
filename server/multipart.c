/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A delimiter begins with CRLF, and a boundary has no CR: so bytes that began as one and did not go on are data, and no other
 * delimiter can begin among them but at their end. They need not be kept, since they stand in the delimiter itself.
 */
#include "server/multipart.h"

#include "server/head.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

static ssize_t fail_parsing(struct multipart *multipart, const char *why) {
        multipart->state = MULTIPART_BROKEN;
        multipart->why = why;
        return -1;
}

/* --- parameters: ; NAME=VALUE, the value a token or quoted --- */

/*
 * The next parameter: 1, 0 at the end, -1 if it is malformed. In quotes a backslash stands for what
 * follows it (RFC 9110, 5.6.4): curl writes quotes so, aiohttp blanks too. Browsers write %22,
 * which is left as it is.
 */
static int next_parameter(const char **at, char *name, size_t name_size, char *value, size_t value_size) {
        size_t length;

        *at += strspn(*at, " \t");
        if (**at == '\0')
                return 0;
        if (**at != ';')
                return -1;
        *at += 1 + strspn(*at + 1, " \t");
        length = strcspn(*at, "=; \t");
        if ((*at)[length] != '=' || length >= name_size || !head_is_token(*at, length))
                return -1;
        memcpy(name, *at, length);
        name[length] = '\0';
        *at += length + 1;
        length = 0;
        if (**at != '"') {
                length = strcspn(*at, "; \t");
                if (length >= value_size || !head_is_token(*at, length))
                        return -1;
                memcpy(value, *at, length);
                value[length] = '\0';
                *at += length;
                return 1;
        }
        for (++*at; **at != '"'; ++*at) {
                if (**at == '\\')
                        ++*at;
                if (**at == '\0' || length + 1 >= value_size)
                        return -1;
                value[length++] = **at;
        }
        ++*at;
        value[length] = '\0';
        return 1;
}

/* RFC 8187: UTF-8'LANGUAGE'ESCAPED. Some clients write names so that are not ASCII. */
static bool unescape_extended(const char *text, char *ret, size_t size) {
        const char *at = strncasecmp(text, "utf-8'", 6) == 0 ? strchr(text + 6, '\'') : NULL;
        size_t length = 0;

        if (!at)
                return false;
        for (at++; *at; at++) {
                int high, low;

                if (length + 1 >= size)
                        return false;
                ret[length] = *at;
                if (*at == '%') {
                        if ((high = head_hex_digit(at[1])) < 0 || (low = head_hex_digit(at[2])) < 0 ||
                            (high | low) == 0)
                                return false;
                        ret[length] = (char)(high << 4 | low);
                        at += 2;
                }
                length++;
        }
        ret[length] = '\0';
        return true;
}

bool multipart_boundary(const char *type, char *ret) {
        static const char form[] = "multipart/form-data";
        char name[16], value[MULTIPART_BOUNDARY_MAX + 1];
        const char *at = type + sizeof(form) - 1;
        bool found = false;
        int next;

        if (strncasecmp(type, form, sizeof(form) - 1) != 0)
                return false;
        while ((next = next_parameter(&at, name, sizeof(name), value, sizeof(value))) == 1) {
                size_t length = strlen(value);

                if (strcasecmp(name, "boundary") != 0)
                        continue;
                if (found || length == 0 ||
                    strspn(value, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "'()+_,-./:=? ") != length ||
                    value[length - 1] == ' ')
                        return false;
                found = true;
                memcpy(ret, value, length + 1);
        }
        return next == 0 && found;
}

/* --- the head of a part --- */

static bool read_disposition(struct multipart *multipart, const char *at) {
        char name[32], value[MULTIPART_NAME_MAX + 1];
        bool plain = false, extended = false, named = false, named_extended = false;
        int next;

        if (strncasecmp(at, "form-data", 9) != 0)
                return false;
        at += 9;
        multipart->filename[0] = '\0';
        while ((next = next_parameter(&at, name, sizeof(name), value, sizeof(value))) == 1) {
                if (strcasecmp(name, "name") == 0) {
                        if (plain)
                                return false;
                        plain = true;
                        if (!extended)
                                memcpy(multipart->name, value, strlen(value) + 1);
                } else if (strcasecmp(name, "name*") == 0) {
                        if (extended || !unescape_extended(value, multipart->name, sizeof(multipart->name)))
                                return false;
                        extended = true;
                } else if (strcasecmp(name, "filename") == 0) {
                        if (named)
                                return false;
                        named = true;
                        if (!named_extended)
                                memcpy(multipart->filename, value, strlen(value) + 1);
                } else if (strcasecmp(name, "filename*") == 0) {
                        if (named_extended)
                                return false;
                        named_extended =
                                unescape_extended(value, multipart->filename, sizeof(multipart->filename));
                }
        }
        return next == 0 && (plain || extended) && multipart->name[0];
}

/* `line` ends with a NUL. */
static const char *read_field(struct multipart *multipart, char *line, bool *disposed) {
        char *colon = strchr(line, ':');

        if (!colon || !head_is_token(line, (size_t)(colon - line)))
                return "a header field of a part is malformed";
        for (const char *at = colon; *at; at++) {
                if (!head_is_text(*at))
                        return "a header field of a part has a control character";
        }
        if (colon - line == 19 && strncasecmp(line, "Content-Disposition", 19) == 0) {
                colon += 1 + strspn(colon + 1, " \t");
                if (*disposed || !read_disposition(multipart, colon))
                        return "a part's Content-Disposition must be form-data with one name";
                *disposed = true;
        }
        if (colon - line == 25 && strncasecmp(line, "Content-Transfer-Encoding", 25) == 0 &&
            strcasecmp(colon + 1 + strspn(colon + 1, " \t"), "binary") != 0 &&
            strcasecmp(colon + 1 + strspn(colon + 1, " \t"), "8bit") != 0)
                return "a part may have no Content-Transfer-Encoding";
        return NULL;
}

/* It is all there, CRLF and the empty line with it. */
static const char *read_part_head(struct multipart *multipart) {
        char *line = multipart->head;
        bool disposed = false;

        multipart->head[multipart->head_length] = '\0';
        for (;;) {
                char *end = strstr(line, "\r\n");
                const char *why;

                if (end == line)
                        break;
                *end = '\0';
                why = read_field(multipart, line, &disposed);
                if (why)
                        return why;
                line = end + 2;
        }
        return disposed ? NULL : "a part has no Content-Disposition";
}

/* --- the bytes --- */

void multipart_begin(struct multipart *multipart, const char *boundary) {
        memset(multipart, 0, sizeof(*multipart));
        multipart->state = MULTIPART_IN_DATA;
        memcpy(multipart->delimiter, "\r\n--", 4);
        strncat(multipart->delimiter, boundary, MULTIPART_BOUNDARY_MAX);
        multipart->delimiter_length = strlen(multipart->delimiter);
        multipart->matched = 2;
}

static ssize_t take_data(struct multipart *multipart, const char *bytes, size_t length,
                         struct multipart_event *ret) {
        size_t used = 0;

        while (multipart->matched > 0 && used < length) {
                if (bytes[used] == multipart->delimiter[multipart->matched]) {
                        used++;
                        if (++multipart->matched < multipart->delimiter_length)
                                continue;
                        multipart->matched = 0;
                        multipart->tail_length = 0;
                        multipart->state = MULTIPART_AFTER_DELIMITER;
                        ret->type = multipart->in_part ? MULTIPART_PART_END : MULTIPART_NOTHING;
                        multipart->in_part = false;
                        return (ssize_t)used;
                }
                if (!multipart->in_part)
                        return fail_parsing(multipart, "the body does not begin with its boundary");
                *ret = (struct multipart_event){ MULTIPART_DATA, multipart->delimiter, multipart->matched };
                multipart->matched = 0;
                return (ssize_t)used; /* the rest is parsed again */
        }
        if (used == length)
                return (ssize_t)used;
        {
                const char *from = bytes + used, *cr = memchr(from, '\r', length - used);
                size_t count = cr ? (size_t)(cr - from) : length - used;

                if (count > 0)
                        *ret = (struct multipart_event){ MULTIPART_DATA, from, count };
                multipart->matched = cr ? 1 : 0;
                return (ssize_t)(used + count + (cr ? 1 : 0));
        }
}

/* "--" behind the last, CRLF behind all others. */
static ssize_t take_tail(struct multipart *multipart, const char *bytes) {
        multipart->tail[multipart->tail_length++] = *bytes;
        if (multipart->tail_length < 2)
                return 1;
        if (memcmp(multipart->tail, "--", 2) == 0) {
                multipart->state = MULTIPART_AT_END;
                multipart->tail_length = 0;
                return 1;
        }
        if (memcmp(multipart->tail, "\r\n", 2) != 0)
                return fail_parsing(multipart, "a boundary is not followed by CRLF");
        if (++multipart->parts > MULTIPART_PARTS_MAX)
                return fail_parsing(multipart, "there are too many parts");
        multipart->state = MULTIPART_IN_HEAD;
        multipart->head_length = 0;
        return 1;
}

static ssize_t take_head(struct multipart *multipart, const char *bytes, size_t length,
                         struct multipart_event *ret) {
        const char *why;

        for (size_t i = 0; i < length; i++) {
                size_t at = multipart->head_length;

                if (at == MULTIPART_HEAD_MAX)
                        return fail_parsing(multipart, "the head of a part is too long");
                if (bytes[i] == '\0' || (bytes[i] == '\n') != (at > 0 && multipart->head[at - 1] == '\r'))
                        return fail_parsing(multipart,
                                            "a line of a part's head does not end with CRLF, or has a NUL");
                multipart->head[at] = bytes[i];
                multipart->head_length = at + 1;
                if (bytes[i] != '\n' ||
                    !(at == 1 || (at >= 3 && memcmp(multipart->head + at - 3, "\r\n\r", 3) == 0)))
                        continue;
                if ((why = read_part_head(multipart)))
                        return fail_parsing(multipart, why);
                multipart->state = MULTIPART_IN_DATA;
                multipart->in_part = true;
                multipart->matched = 0;
                ret->type = MULTIPART_PART;
                return (ssize_t)i + 1;
        }
        return (ssize_t)length;
}

/* A CRLF may follow the last boundary: some clients send one. */
static ssize_t take_end(struct multipart *multipart, const char *bytes) {
        if (multipart->tail_length < 2 && *bytes == "\r\n"[multipart->tail_length]) {
                multipart->tail_length++;
                return 1;
        }
        return fail_parsing(multipart, "something follows the last boundary");
}

ssize_t multipart_take(struct multipart *multipart, const char *bytes, size_t length,
                       struct multipart_event *ret) {
        *ret = (struct multipart_event){ MULTIPART_NOTHING, NULL, 0 };
        if (length == 0)
                return 0;
        switch (multipart->state) {
        case MULTIPART_IN_DATA:
                return take_data(multipart, bytes, length, ret);
        case MULTIPART_AFTER_DELIMITER:
                return take_tail(multipart, bytes);
        case MULTIPART_IN_HEAD:
                return take_head(multipart, bytes, length, ret);
        case MULTIPART_AT_END:
                return take_end(multipart, bytes);
        case MULTIPART_BROKEN:
        default:
                return -1;
        }
}

bool multipart_ended(const struct multipart *multipart) {
        return multipart->state == MULTIPART_AT_END;
}
