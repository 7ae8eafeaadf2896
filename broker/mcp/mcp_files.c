/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file is given as text where it is UTF-8 without NUL, else in base64. A piece of a text ends
 * between two characters, unless nothing would be left of it. Contents and names of files were
 * written by untrusted code: here they are data, and no byte decides more than whether a file is
 * text, or an image.
 */
#include "broker/mcp/mcp_files.h"

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"
#include "broker/mcp/mcp_sessions.h"
#include "broker/mcp/mcp_uri.h"
#include "broker/request/base64.h"
#include "broker/work/copy.h"
#include "broker/work/files.h"
#include "broker/work/opened.h"
#include "sessions/workspace_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_LIMIT 100
#define READ_DEFAULT 65536
#define WORKSPACES_MAX 50 /* that are looked into for one page of resources */

static int open_session(const struct mcp_call *call, const json_t *arguments, struct opened *ret,
                        struct problem *problem) {
        const char *id;

        return mcp_sessions_named(call, arguments, &id, problem) < 0
                       ? -1
                       : opened_find(call->call, id, false, call->request->arena, ret, problem);
}

/* Before files are put: a conversation may begin with them. */
static int make_session(const struct mcp_call *call, const json_t *arguments, struct opened *ret,
                        struct problem *problem) {
        const char *id;
        bool made;

        if (!json_text(arguments, "conversation") && !call->conversation)
                return open_session(call, arguments, ret, problem);
        return mcp_sessions_open(call, arguments, &id, &made, problem) < 0
                       ? -1
                       : opened_find(call->call, id, false, call->request->arena, ret, problem);
}

int mcp_files_list(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                   struct problem *problem) {
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        const struct workspace_page page = {
                .prefix = json_text(arguments, "prefix"),
                .after = json_text(arguments, "cursor"),
                .limit = (size_t)json_integer_or(arguments, "limit", LIST_LIMIT),
        };

        if (open_session(call, arguments, &opened, problem) < 0)
                return -1;
        if (opened_bring(call->request, opened.row.id, problem) < 0)
                return -1;
        return files_list(&opened, &page, server_interrupt(call->request), call->request->arena, &ret->data,
                          problem);
}

/* --- reading --- */

const char *mcp_files_image_type(const void *bytes, size_t length) {
        static const struct {
                const char *type;
                size_t at;
                const char *magic;
                size_t length;
        } formats[] = {
                { "image/png", 0, "\x89PNG\r\n\x1a\n", 8 },
                { "image/jpeg", 0, "\xff\xd8\xff", 3 },
                { "image/gif", 0, "GIF87a", 6 },
                { "image/gif", 0, "GIF89a", 6 },
                { "image/webp", 8, "WEBP", 4 },
        };

        for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
                if (length >= formats[i].at + formats[i].length &&
                    memcmp((const char *)bytes + formats[i].at, formats[i].magic, formats[i].length) == 0 &&
                    (formats[i].at == 0 || memcmp(bytes, "RIFF", 4) == 0))
                        return formats[i].type;
        }
        return NULL;
}

static json_t *base64_json(const struct strbuf *bytes) {
        char *text TEXT_CLEANUP = malloc(4 * ((bytes->length + 2) / 3) + 1);

        if (!text)
                abort();
        digest_base64((const uint8_t *)strbuf_text(bytes), bytes->length, text);
        return json_checked(json_string(text));
}

/*
 * How many bytes are text from the beginning on; 0 if the first is not text. `whole`: nothing
 * follows them.
 */
static size_t text_length(const struct strbuf *bytes, bool whole) {
        size_t bad = bytes->length;

        if (bytes->length > 0 && memchr(bytes->data, '\0', bytes->length))
                return 0;
        if (text_is_utf8(strbuf_text(bytes), bytes->length, &bad))
                return bytes->length;
        return !whole && bytes->length - bad < 4 ? bad : 0;
}

static int read_at(int descriptor, uint64_t offset, size_t length, struct strbuf *ret,
                   struct problem *problem) {
        if (!strbuf_reserve(ret, length + 1))
                abort();
        while (ret->length < length) {
                ssize_t count = pread(descriptor, ret->data + ret->length, length - ret->length,
                                      (off_t)(offset + ret->length));

                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0)
                        return problem_set(problem, PROBLEM_WORKSPACE_FAILED, "the file cannot be read: %s",
                                           strerror(errno));
                if (count == 0)
                        break;
                ret->length += (size_t)count;
        }
        ret->data[ret->length] = '\0';
        return 0;
}

static int open_file(const struct mcp_call *call, struct opened *opened, const char *path,
                     int *ret_descriptor, struct workspace_file *ret, struct problem *problem) {
        if (opened_bring(call->request, opened->row.id, problem) < 0)
                return -1;
        return workspace_file_open(&opened->workspace, path, ret_descriptor, ret, problem);
}

/* An image that was asked for as a whole is shown; of all other files a piece is given. */
static bool is_shown(int descriptor, const struct workspace_file *file, const json_t *arguments) {
        char head[16];
        ssize_t count = pread(descriptor, head, sizeof(head), 0);

        return !json_is_integer(json_object_get(arguments, "offset")) &&
               !json_is_integer(json_object_get(arguments, "length")) && file->bytes <= MCP_FILES_WHOLE_MAX &&
               count > 0 && mcp_files_image_type(head, (size_t)count);
}

static void put_piece(json_t *json, struct strbuf *bytes, bool whole) {
        size_t text = text_length(bytes, whole);

        if (text > 0 || bytes->length == 0) {
                json_put(json, "length", json_integer((json_int_t)text));
                json_put(json, "content", json_stringn(strbuf_text(bytes), text));
        } else {
                json_put(json, "length", json_integer((json_int_t)bytes->length));
                json_put(json, "contentBase64", base64_json(bytes));
        }
}

int mcp_files_read(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                   struct problem *problem) {
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        uint64_t offset = (uint64_t)json_integer_or(arguments, "offset", 0);
        size_t length = (size_t)json_integer_or(arguments, "length", READ_DEFAULT);
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        const char *path = json_text(arguments, "path");
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct workspace_file file;
        bool shown;

        if (open_session(call, arguments, &opened, problem) < 0 ||
            open_file(call, &opened, path, &descriptor, &file, problem) < 0)
                return -1;
        if (offset > file.bytes)
                return problem_set(problem, PROBLEM_RANGE, "the file has %" PRIu64 " bytes", file.bytes);
        shown = is_shown(descriptor, &file, arguments);
        if (shown)
                length = (size_t)file.bytes;
        if (length > file.bytes - offset)
                length = (size_t)(file.bytes - offset);
        if (read_at(descriptor, offset, length, &bytes, problem) < 0)
                return -1;
        ret->data = files_json(&file, path);
        json_put(ret->data, "offset", json_integer((json_int_t)offset));
        if (!shown) {
                put_piece(ret->data, &bytes, offset + length == file.bytes);
                return 0;
        }
        json_put(ret->data, "length", json_integer((json_int_t)bytes.length));
        ret->content =
                json_checked(json_pack("[{s:s, s:o, s:s}]", "type", "image", "data", base64_json(&bytes),
                                       "mimeType", mcp_files_image_type(bytes.data, bytes.length)));
        return 0;
}

/* --- writing --- */

static int write_piece(void *context, const void *bytes, size_t length, struct problem *problem) {
        return workspace_put_write(context, bytes, length, problem);
}

int mcp_files_write(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                    struct problem *problem) {
        const json_t *text = json_object_get(arguments, "content"),
                     *base64 = json_object_get(arguments, "contentBase64");
        struct opened opened OPENED_CLEANUP = OPENED_INIT; /* closed after what is put into it */
        struct workspace_put put WORKSPACE_PUT_CLEANUP = WORKSPACE_PUT_INIT;
        const char *path = json_text(arguments, "path");
        const struct conditions none = { 0 };
        const struct interrupt *interrupt = server_interrupt(call->request);
        struct workspace_limits limits;
        char sha256[SHA256_HEX_SIZE];
        struct workspace_file file;
        bool made;

        if (make_session(call, arguments, &opened, problem) < 0 ||
            opened_bound(call->call, &opened, interrupt, &limits, problem) < 0 ||
            workspace_put_begin(&opened.workspace, path, &none, &limits, interrupt, &put, problem) < 0)
                return -1;
        if (json_is_string(base64) ? base64_write(json_string_value(base64), json_string_length(base64),
                                                  write_piece, &put, problem) < 0
                                   : workspace_put_write(&put, json_string_value(text),
                                                         json_string_length(text), problem) < 0)
                return -1;
        if (workspace_put_finish(&put, &file, sha256, &made, problem) < 0)
                return -1;
        ret->data = files_json(&file, path);
        json_set_text(ret->data, "sha256", sha256);
        return 0;
}

int mcp_files_copy(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                   struct problem *problem) {
        struct opened target OPENED_CLEANUP = OPENED_INIT;

        if (make_session(call, arguments, &target, problem) < 0)
                return -1;
        return copy_run(call->request, &target, arguments, &ret->data, problem);
}

/* --- resources --- */

static json_t *resource_json(const char *id, const struct workspace_file *file) {
        const char *slash = strrchr(file->path, '/');
        struct strbuf uri STRBUF_CLEANUP = STRBUF_INIT;
        json_t *json = json_checked(json_object());

        mcp_uri_write(id, file->path, &uri);
        json_set_text(json, "uri", strbuf_text(&uri));
        json_set_text(json, "name", slash ? slash + 1 : file->path);
        json_set_text(json, "title", file->path);
        json_put(json, "size", json_integer((json_int_t)file->bytes));
        json_put(json, "annotations", json_pack("{s:o}", "lastModified", json_from_time(file->written_ms)));
        return json;
}

/* The files of one workspace behind `after`. False where the page is full, and *ret_cursor is where the next one begins. */
static bool add_workspace(const struct mcp_call *call, const char *id, const char *after, json_t *items,
                          const char **ret_cursor) {
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        size_t room = LIST_LIMIT - json_array_size(items), count;
        const struct workspace_page page = { .after = after, .limit = room };
        struct arena *arena = call->request->arena;
        struct strbuf uri STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_file *files;
        struct problem gone;
        bool more;

        /* A workspace that has gone meanwhile, or cannot be read, has no files. */
        if (room == 0 || opened_find(call->call, id, false, arena, &opened, &gone) < 0 ||
            workspace_files_list(&opened.workspace, &page, server_interrupt(call->request), arena, &files,
                                 &count, &more, &gone) < 0)
                return room > 0;
        for (size_t i = 0; i < count; i++)
                json_add(items, resource_json(id, &files[i]));
        if (!more || count == 0)
                return true;
        mcp_uri_write(id, files[count - 1].path, &uri);
        *ret_cursor = arena_strdup(arena, strbuf_text(&uri));
        return false;
}

/* A cursor is the last file's name, or the id of a workspace that was told whole. */
int mcp_files_resources(const struct mcp_call *call, const char *cursor, json_t **ret,
                        struct problem *problem) {
        const struct workspaces *workspaces = broker_sessions_workspaces(call->call->broker->sessions);
        struct arena *arena = call->request->arena;
        json_t *items JSON_CLEANUP = json_checked(json_array());
        const char *id = cursor ? cursor : "", *path, *next = NULL;
        struct workspace_row *rows;
        bool more = false, room = true;
        size_t count;

        if (cursor && strncmp(cursor, "berth:", 6) == 0) {
                if (!mcp_uri_read(cursor, arena, &id, &path))
                        return problem_set(problem, PROBLEM_INVALID, "the cursor is of no list");
                room = add_workspace(call, id, path, items, &next);
        }
        if (room) {
                if (workspace_list(workspaces, call->caller.owner, id, WORKSPACES_MAX, arena, &rows, &count,
                                   &more, problem) < 0)
                        return -1;
                for (size_t i = 0; i < count && room; i++) {
                        room = add_workspace(call, rows[i].id, NULL, items, &next);
                        if (!room && !next)
                                next = i > 0 ? rows[i - 1].id : id;
                }
                if (room && more)
                        next = rows[count - 1].id;
        }
        *ret = json_checked(json_pack("{s:O}", "resources", items));
        if (next)
                json_put(*ret, "nextCursor", json_from_text(next));
        return 0;
}

int mcp_files_resource(const struct mcp_call *call, const char *uri, json_t **ret, struct problem *problem) {
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        const char *id, *path, *image;
        struct workspace_file file;
        json_t *json;

        if (!mcp_uri_read(uri, call->request->arena, &id, &path))
                return problem_set(problem, PROBLEM_NOT_FOUND, "there is no such resource");
        if (opened_find(call->call, id, false, call->request->arena, &opened, problem) < 0 ||
            open_file(call, &opened, path, &descriptor, &file, problem) < 0)
                return -1;
        if (file.bytes > MCP_FILES_WHOLE_MAX)
                return problem_set(problem, PROBLEM_TOO_LARGE,
                                   "the file has %" PRIu64
                                   " bytes, and a resource at most %zu: use read_file",
                                   file.bytes, MCP_FILES_WHOLE_MAX);
        if (read_at(descriptor, 0, (size_t)file.bytes, &bytes, problem) < 0)
                return -1;
        image = mcp_files_image_type(strbuf_text(&bytes), bytes.length);
        json = json_checked(json_pack("{s:s}", "uri", uri));
        if (text_length(&bytes, true) == bytes.length) {
                json_set_text(json, "mimeType", "text/plain");
                json_put(json, "text", json_stringn(strbuf_text(&bytes), bytes.length));
        } else {
                json_set_text(json, "mimeType", image ? image : "application/octet-stream");
                json_put(json, "blob", base64_json(&bytes));
        }
        *ret = json_checked(json_pack("{s:[o]}", "contents", json));
        return 0;
}
