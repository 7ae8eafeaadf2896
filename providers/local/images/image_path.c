/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part by part: the last part is `name`, those before it are `folder`. Only once another part follows do we know that a part is
 * a folder's; a whiteout (".wh.NAME") means something in the last part only. ".wh..wh." begins the bookkeeping of aufs, which
 * is skipped, but for ".wh..wh..opq", the opaque marker.
 */
#include "providers/local/images/image_path.h"

#include "base/text_utf8.h"

#include <string.h>

#define WHITEOUT ".wh."
#define AUFS ".wh..wh."
#define OPAQUE ".wh..wh..opq"
#define QUOTED_MAX 256

static bool begins(const char *part, size_t length, const char *with) {
        return length >= strlen(with) && memcmp(part, with, strlen(with)) == 0;
}

static bool part_is(const char *part, size_t length, const char *text) {
        return length == strlen(text) && memcmp(part, text, length) == 0;
}

/* Another part follows, so the part before it is a folder. */
static int move_name_to_folder(struct image_path *path, struct error *err) {
        size_t used = strlen(path->folder);

        if (path->name[0] == '\0')
                return 0;
        if (begins(path->name, strlen(path->name), AUFS)) {
                path->meaning = PATH_NOTHING;
                return 0;
        }
        if (begins(path->name, strlen(path->name), WHITEOUT))
                return error_set(err, "it is inside of a whiteout");
        if (used + 1 + strlen(path->name) > UNPACK_PATH_MAX)
                return error_set(err, "its path is longer than %d bytes", UNPACK_PATH_MAX);
        if (used > 0)
                path->folder[used++] = '/';
        memcpy(path->folder + used, path->name, strlen(path->name) + 1);
        return 0;
}

static int add_part(struct image_path *path, const char *part, size_t length, struct error *err) {
        if (length == 0 || part_is(part, length, "."))
                return 0;
        if (part_is(part, length, ".."))
                return error_set(err, "its path leads upwards (..)");
        if (length > UNPACK_NAME_MAX)
                return error_set(err, "a part of its path is longer than %d bytes", UNPACK_NAME_MAX);
        if (move_name_to_folder(path, err) < 0)
                return -1;
        memcpy(path->name, part, length);
        path->name[length] = '\0';
        return 0;
}

static int read_whiteout(struct image_path *path, struct error *err) {
        const char *name = path->name;
        size_t length = strlen(name), marker = strlen(WHITEOUT);

        if (path->meaning == PATH_NOTHING || !begins(name, length, WHITEOUT))
                return 0;
        if (part_is(name, length, OPAQUE)) {
                path->meaning = PATH_OPAQUE;
                path->name[0] = '\0';
        } else if (begins(name, length, AUFS)) {
                path->meaning = PATH_NOTHING;
        } else if (part_is(name + marker, length - marker, "") ||
                   part_is(name + marker, length - marker, ".") ||
                   part_is(name + marker, length - marker, "..")) {
                return error_set(err, "it is a whiteout that names no file");
        } else {
                path->meaning = PATH_WHITEOUT;
                memmove(path->name, name + marker, length - marker + 1);
        }
        return 0;
}

int image_path_parse(const char *text, struct image_path *ret, struct error *err) {
        unsigned depth = 0;

        ret->meaning = PATH_ENTRY;
        ret->folder[0] = ret->name[0] = '\0';
        if (text[0] == '/')
                return error_set(err, "its path is absolute");
        for (const char *at = text; *at;) {
                size_t length = strcspn(at, "/");

                if (++depth > UNPACK_DEPTH_MAX)
                        return error_set(err, "its path has more than %d parts", UNPACK_DEPTH_MAX);
                if (add_part(ret, at, length, err) < 0)
                        return -1;
                at += length;
                at += *at == '/';
        }
        if (!ret->folder[0])
                memcpy(ret->folder, ".", 2);
        return read_whiteout(ret, err);
}

void image_path_quote(struct strbuf *to, const char *text) {
        size_t length = strlen(text);

        strbuf_append_char(to, '"');
        for (size_t at = 0; at < length;) {
                if (at >= QUOTED_MAX) {
                        strbuf_append(to, "...");
                        break;
                }
                at += text_append_safe_character(to, text, length, at);
        }
        strbuf_append_char(to, '"');
}
