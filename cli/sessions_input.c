/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes with code to a server: text. Standard input is read where it is a pipe or a file: a terminal is for who types, and of a
 * socket, as some programs give it to each of their children, no end may ever come. Source in another encoding says so as Python
 * wants it (PEP 263), and is converted.
 */
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/sessions.h"

#include <errno.h>
#include <iconv.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX ((size_t)32 << 20)
#define ENCODING_MAX 40

int sessions_input(json_t *body, struct error *err) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct stat status;
        json_t *text;
        int result;

        if (fstat(STDIN_FILENO, &status) < 0 || (!S_ISFIFO(status.st_mode) && !S_ISREG(status.st_mode)))
                return 0;
        result = descriptor_read(STDIN_FILENO, INPUT_MAX, &bytes);
        if (result < 0)
                return error_set(err, "cannot read standard input: %s", strerror(errno));
        if (result > 0)
                return error_set(err,
                                 "standard input is larger than 32 MiB: put it into the workspace as a file");
        text = json_stringn(strbuf_text(&bytes), bytes.length);
        if (!text)
                return error_set(err, "standard input is not UTF-8: put it into the workspace as a file");
        json_put(body, "stdin", text);
        return 0;
}

/* The name behind "coding" in a comment that is all of the line, or "". */
static bool read_comment(const char *line, size_t length, char ret[ENCODING_MAX + 1]) {
        size_t at = strspn(line, " \t\f"), count;
        const char *found;

        *ret = '\0';
        if (at >= length || line[at] != '#')
                return at >= length || line[at] == '\r';
        for (found = line + at; (found = memmem(found, length - (size_t)(found - line), "coding", 6));) {
                found += 6;
                if (*found != ':' && *found != '=')
                        continue;
                found++;
                found += strspn(found, " \t");
                count = strspn(found, "-_.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
                if (count > 0 && count <= ENCODING_MAX) {
                        memcpy(ret, found, count);
                        ret[count] = '\0';
                }
                break;
        }
        return true;
}

/* Of the first line, or of the second where the first is a comment or empty. */
static void find_encoding(const char *code, char ret[ENCODING_MAX + 1]) {
        for (int i = 0; i < 2; i++) {
                size_t length = strcspn(code, "\n");

                if (!read_comment(code, length, ret) || *ret || code[length] == '\0')
                        return;
                code += length + 1;
        }
}

int sessions_decode(struct strbuf *code, struct error *err) {
        char name[ENCODING_MAX + 1], buffer[4096], *from = code->data;
        struct strbuf decoded STRBUF_CLEANUP = STRBUF_INIT;
        size_t left = code->length;
        iconv_t converter;

        if (code->length == 0 || strncmp(strbuf_text(code), "\xef\xbb\xbf", 3) == 0)
                return 0;
        find_encoding(strbuf_text(code), name);
        if (!*name || strncasecmp(name, "utf", 3) == 0 || strcasecmp(name, "ascii") == 0)
                return 0;
        if (strncasecmp(name, "latin", 5) == 0 && (name[5] == '-' || name[5] == '_')) /* Python's spelling */
                memmove(name + 5, name + 6, strlen(name + 5));
        converter = iconv_open("UTF-8", name);
        if (converter == (iconv_t)-1)
                return error_set(err, "the code says that its encoding is %s, which is not known here", name);
        while (left > 0) {
                char *to = buffer;
                size_t room = sizeof(buffer);
                size_t done = iconv(converter, &from, &left, &to, &room);

                strbuf_append_bytes(&decoded, buffer, sizeof(buffer) - room);
                if (done == (size_t)-1 && errno != E2BIG) {
                        (void)iconv_close(converter);
                        return error_set(err, "the code says that its encoding is %s, and is not in it",
                                         name);
                }
        }
        (void)iconv_close(converter);
        strbuf_clear(code);
        strbuf_append_bytes(code, strbuf_text(&decoded), decoded.length);
        return 0;
}
