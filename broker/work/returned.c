/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/work/returned.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/request/answers.h"
#include "broker/work/disposition.h"
#include "broker/work/glob.h"
#include "sessions/record.h"
#include "sessions/workspace_files.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTED_MAX 1000
#define PARTS_MAX 100      /* files of one multipart/mixed, all of which are open at a time */
#define PARTS_OPEN_MAX 256 /* of all: slow clients must not take all descriptors of the server */
#define PAGE 1000
#define BOUNDARY_BYTES 16

static atomic_ullong inlines; /* bytes in all answers that are being made */
static atomic_size_t parts;   /* of all answers that are under way */

struct chosen {
        const char *path;
        uint64_t bytes;
};

struct part {
        int descriptor;
        const char *path;
        uint64_t bytes;
};

bool returned_read(struct server_request *request, const json_t *body, struct returned *ret) {
        const json_t *list = json_object_get(body, "returnFiles"), *pattern;
        size_t index, count = json_array_size(list);
        const char **patterns = arena_array(request->arena, count + 1, sizeof(*patterns));

        json_array_foreach (list, index, pattern) {
                if (json_string_length(pattern) > GLOB_MAX)
                        return call_refuse_value(request, "returnFiles must be texts of at most 512 bytes");
                patterns[index] = arena_strdup(request->arena, json_string_value(pattern));
        }
        *ret = (struct returned){ .patterns = patterns, .count = count };
        return true;
}

/* --- which --- */

static bool fits_earlier(const struct returned *returned, size_t before, const char *path) {
        for (size_t i = 0; i < before; i++) {
                if (glob_fits(returned->patterns[i], path))
                        return true;
        }
        return false;
}

/* False where the list is full, or cannot be read: what was found by then is what there is. */
static bool choose_by(struct server_request *request, const struct returned *returned, size_t which,
                      struct workspace *workspace, struct chosen *ret, size_t *ret_count) {
        const char *pattern = returned->patterns[which];
        char *after TEXT_CLEANUP = NULL;
        bool more = true;

        while (more) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                const struct workspace_page page = { arena_strndup(arena, pattern, glob_prefix(pattern)),
                                                     after, PAGE };
                struct workspace_file *files;
                struct problem problem;
                size_t count;

                if (workspace_files_list(workspace, &page, server_interrupt(request), arena, &files, &count,
                                         &more, &problem) < 0)
                        return problem.code == PROBLEM_INVALID; /* no path can fit such a pattern */
                for (size_t i = 0; i < count; i++) {
                        if (!glob_fits(pattern, files[i].path) ||
                            fits_earlier(returned, which, files[i].path))
                                continue;
                        if (*ret_count == LISTED_MAX)
                                return false;
                        ret[(*ret_count)++] = (struct chosen){ arena_strdup(request->arena, files[i].path),
                                                               files[i].bytes };
                }
                free(after);
                after = record_copy_text(count ? files[count - 1].path : NULL);
        }
        return true;
}

static void add_reason(json_t *list, const char *path, uint64_t bytes, const char *reason) {
        json_add(list,
                 json_pack("{s:s, s:I, s:s}", "path", path, "bytes", (json_int_t)bytes, "reason", reason));
}

/* --- in JSON --- */

/*
 * Files deleted since the listing are left out; what cannot be had for another reason is said to be
 * missing.
 */
static void add_missing(json_t *list, const struct chosen *chosen, const struct problem *problem) {
        if (problem->code != PROBLEM_NOT_FOUND)
                add_reason(list, chosen->path, chosen->bytes, problem->detail);
}

static void add_inline(json_t *list, struct workspace *workspace, const struct chosen *chosen) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct workspace_file file;
        struct problem problem;
        char *text TEXT_CLEANUP = NULL;

        if (workspace_file_open(workspace, chosen->path, &descriptor, &file, &problem) < 0) {
                add_missing(list, chosen, &problem);
                return;
        }
        if (descriptor_read(descriptor, RETURNED_INLINE_MAX, &bytes) != 0) {
                add_reason(list, chosen->path, file.bytes, "it cannot be read: take it from the workspace");
                return;
        }
        text = malloc(4 * ((bytes.length + 2) / 3) + 1);
        if (!text)
                abort();
        digest_base64((const uint8_t *)strbuf_text(&bytes), bytes.length, text);
        json_add(list, json_pack("{s:s, s:s}", "path", chosen->path, "contentBase64", text));
}

static json_t *all_inline(struct workspace *workspace, const struct chosen *chosen, size_t count) {
        json_t *list = json_checked(json_array());
        uint64_t room = RETURNED_INLINE_MAX;

        for (size_t i = 0; i < count; i++) {
                if (chosen[i].bytes > room) {
                        add_reason(
                                list, chosen[i].path, chosen[i].bytes,
                                "more than JSON carries: take it from the workspace, or accept multipart/mixed");
                } else if (atomic_fetch_add(&inlines, chosen[i].bytes) + chosen[i].bytes >
                           RETURNED_INLINES_MAX) {
                        atomic_fetch_sub(&inlines, chosen[i].bytes);
                        add_reason(list, chosen[i].path, chosen[i].bytes,
                                   "the server carries too many at the moment: take it from the workspace");
                } else {
                        add_inline(list, workspace, &chosen[i]);
                        atomic_fetch_sub(&inlines, chosen[i].bytes);
                        room -= chosen[i].bytes;
                }
        }
        return list;
}

/* --- as parts --- */

struct mixed {
        struct strbuf text; /* between the files: heads, ends */
        size_t sent;
        struct part parts[PARTS_MAX];
        size_t count, next; /* the one that is being sent is that before `next` */
        bool in_file, ended;
        const char *boundary;
};

static void write_part_head(struct mixed *mixed, const char *type, const char *path) {
        strbuf_printf(&mixed->text, "\r\n--%s\r\nContent-Type: %s\r\n", mixed->boundary, type);
        if (path) {
                strbuf_append(&mixed->text, "Content-Disposition: ");
                disposition_write(path, &mixed->text);
                strbuf_append(&mixed->text, "\r\n");
        }
        strbuf_append(&mixed->text, "\r\n");
}

static void write_next(struct mixed *mixed) {
        strbuf_clear(&mixed->text);
        mixed->sent = 0;
        mixed->in_file = mixed->next < mixed->count;
        if (mixed->in_file) {
                write_part_head(mixed, "application/octet-stream", mixed->parts[mixed->next++].path);
                return;
        }
        strbuf_printf(&mixed->text, "\r\n--%s--\r\n", mixed->boundary);
        mixed->ended = true;
}

static ssize_t read_mixed(void *context, struct server_request *request, char *buffer, size_t size) {
        struct mixed *mixed = context;

        (void)request;
        for (;;) {
                size_t left = mixed->text.length - mixed->sent;

                if (left > 0) {
                        size_t count = left < size ? left : size;

                        memcpy(buffer, mixed->text.data + mixed->sent, count);
                        mixed->sent += count;
                        return (ssize_t)count;
                }
                if (mixed->in_file) {
                        ssize_t count;

                        do
                                count = read(mixed->parts[mixed->next - 1].descriptor, buffer, size);
                        while (count < 0 && errno == EINTR);
                        if (count != 0)
                                return count;
                        close_descriptor(&mixed->parts[mixed->next - 1].descriptor);
                }
                if (mixed->ended)
                        return 0;
                write_next(mixed);
        }
}

static void end_mixed(void *context) {
        struct mixed *mixed = context;

        for (size_t i = 0; i < mixed->count; i++)
                close_descriptor(&mixed->parts[i].descriptor);
        atomic_fetch_sub(&parts, mixed->count);
        strbuf_release(&mixed->text);
}

static json_t *open_parts(struct mixed *mixed, struct workspace *workspace, const struct chosen *chosen,
                          size_t count) {
        json_t *list = json_checked(json_array());
        uint64_t room = CALL_TRANSFER_MAX;

        for (size_t i = 0; i < count; i++) {
                struct part *part = &mixed->parts[mixed->count];
                struct workspace_file file;
                struct problem problem;

                if (mixed->count == PARTS_MAX || chosen[i].bytes > room) {
                        add_reason(list, chosen[i].path, chosen[i].bytes,
                                   "more than one answer carries: take it from the workspace");
                        continue;
                }
                if (atomic_fetch_add(&parts, 1) >= PARTS_OPEN_MAX) {
                        atomic_fetch_sub(&parts, 1);
                        add_reason(list, chosen[i].path, chosen[i].bytes,
                                   "the server carries too many at the moment: take it from the workspace");
                        continue;
                }
                *part = (struct part){ .descriptor = -1, .path = chosen[i].path };
                if (workspace_file_open(workspace, chosen[i].path, &part->descriptor, &file, &problem) < 0) {
                        atomic_fetch_sub(&parts, 1);
                        add_missing(list, &chosen[i], &problem);
                        continue;
                }
                part->bytes = file.bytes;
                room -= file.bytes < room ? file.bytes : room;
                mixed->count++;
                json_add(list, json_pack("{s:s, s:I, s:I}", "path", part->path, "bytes",
                                         (json_int_t)part->bytes, "part", (json_int_t)mixed->count));
        }
        return list;
}

static void answer_mixed(struct server_request *request, struct mixed *mixed, const json_t *result) {
        struct server_stream stream = { mixed, read_mixed, end_mixed, -1 };
        uint8_t random[BOUNDARY_BYTES];
        char hex[2 * BOUNDARY_BYTES + 1];
        char *text TEXT_CLEANUP = json_compact(result);

        random_bytes(random, sizeof(random));
        digest_hex(random, sizeof(random), hex);
        mixed->boundary = arena_printf(request->arena, "berth-%s", hex);
        strbuf_clear(&mixed->text);
        write_part_head(mixed, "application/json", NULL);
        strbuf_append(&mixed->text, text);
        server_answer_stream(request, 200,
                             arena_printf(request->arena, "multipart/mixed; boundary=%s", mixed->boundary),
                             &stream);
}

/* --- all of it --- */

static struct chosen *choose(struct server_request *request, const struct returned *returned,
                             struct workspace *workspace, size_t *ret_count, bool *ret_more) {
        struct chosen *chosen = arena_array(request->arena, LISTED_MAX, sizeof(*chosen));

        *ret_count = 0;
        *ret_more = false;
        for (size_t i = 0; i < returned->count && !*ret_more; i++)
                *ret_more = !choose_by(request, returned, i, workspace, chosen, ret_count);
        return chosen;
}

/* With a `mixed` the files become parts of it where the client takes no JSON, or there is too much of them for that. */
static json_t *add(struct server_request *request, const struct returned *returned, json_t *result,
                   struct mixed *mixed, bool json_too, bool *ret_mixed) {
        const struct call *call = call_of(request);
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        json_t *with = json_checked(json_copy(result)), *list;
        struct problem problem;
        struct chosen *chosen;
        uint64_t total = 0;
        size_t count;
        bool more;

        json_decref(result);
        *ret_mixed = mixed && !json_too;
        if (workspace_open(broker_sessions_workspaces(call->broker->sessions), call->caller.owner,
                           returned->session, &workspace, &problem) < 0) {
                if (problem.code != PROBLEM_NOT_FOUND) {
                        list = json_checked(json_array());
                        add_reason(list, ".", 0, problem.detail);
                        json_put(with, "returned", list);
                }
                return with;
        }
        chosen = choose(request, returned, &workspace, &count, &more);
        for (size_t i = 0; i < count; i++)
                total += chosen[i].bytes;
        *ret_mixed = mixed && (!json_too || total > RETURNED_INLINE_MAX);
        list = *ret_mixed ? open_parts(mixed, &workspace, chosen, count)
                          : all_inline(&workspace, chosen, count);
        if (more)
                add_reason(list, ".", 0, "there are others, which are not listed");
        json_put(with, "returned", list);
        return with;
}

json_t *returned_add(struct server_request *request, const struct returned *returned, json_t *result) {
        bool ignored;

        return returned->count > 0 ? add(request, returned, result, NULL, true, &ignored) : result;
}

void returned_answer(struct server_request *request, const struct returned *returned, json_t *result) {
        bool takes_mixed = call_header_has(request, "Accept", "multipart/mixed"), is_mixed;
        bool takes_json =
                call_header_has(request, "Accept", "json") || call_header_has(request, "Accept", "*/*");
        struct mixed *mixed;

        if (returned->count == 0) {
                answers_json(request, 200, result);
                return;
        }
        mixed = arena_alloc(request->arena, sizeof(*mixed));
        *mixed = (struct mixed){ .text = STRBUF_INIT };
        result = add(request, returned, result, takes_mixed ? mixed : NULL, takes_json || !takes_mixed,
                     &is_mixed);
        if (!is_mixed) {
                answers_json(request, 200, result);
                return;
        }
        answer_mixed(request, mixed, result);
        json_decref(result);
}
