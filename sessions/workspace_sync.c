/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three sorted lists (base, copy, workspace) are walked together, path by path. What is to be done is collected first and done then:
 * removals from the last path to the first, so that folders are empty by their turn; folders from the first to the last; files.
 * Files are written by the batch: all of a batch lie beside the workspace and on disk before the first of them is renamed into
 * its place.
 */
#include "sessions/workspace_sync.h"

#include "base/array.h"
#include "base/files.h"
#include "base/sorted.h"
#include "base/strbuf.h"
#include "sessions/workspace_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH 4096
/* So many files are synced one by one; more by the whole file system at once. */
#define SINGLY_MAX 8
#define PIECE ((size_t)64 << 10)

/* ---- the base ---- */

#define BASE "base"
#define BASE_FORMAT "berth-base-2"

/* This machine's own bytes: the file means nothing on another, nor after the next boot. */
struct base_row {
        uint64_t inodes[2], bytes[2];
        int64_t written_ns[2], changed_ns[2];
        uint32_t flags; /* of each: folder, executable */
        uint32_t path_length;
        char sha256[SHA256_HEX_SIZE - 1]; /* without the NUL: no byte of a row is padding */
};

static unsigned pack_flags(const struct workspace_entry *entry) {
        return (entry->folder ? 1u : 0u) | (entry->executable ? 2u : 0u);
}

static struct workspace_entry unpack(const struct base_row *row, int side, const char *path) {
        unsigned flags = row->flags >> (2 * side);

        return (struct workspace_entry){ .path = path,
                                         .inode = row->inodes[side],
                                         .bytes = row->bytes[side],
                                         .written_ns = row->written_ns[side],
                                         .changed_ns = row->changed_ns[side],
                                         .folder = flags & 1u,
                                         .executable = flags & 2u };
}

static size_t base_head(char head[80], size_t count) {
        char boot[40];

        workspace_boot(boot);
        return (size_t)snprintf(head, 80, BASE_FORMAT " %s %zu\n", boot[0] ? boot : "?", count);
}

/* A file that takes another's place is brought to disk by some file systems before the call returns: not for nothing. */
static bool is_saved(const struct workspace *workspace, const struct strbuf *text) {
        struct strbuf there STRBUF_CLEANUP = STRBUF_INIT;
        struct stat status;
        int descriptor DESCRIPTOR_CLEANUP = workspace_open_regular(workspace->folder, BASE, &status);

        return descriptor >= 0 && (uint64_t)status.st_size == text->length &&
               descriptor_read(descriptor, text->length, &there) == 0 && there.length == text->length &&
               memcmp(there.data, text->data, text->length) == 0;
}

int workspace_base_save(const struct workspace *workspace, const struct workspace_base *base,
                        struct problem *problem) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        char name[WORKSPACE_INCOMING_MAX], head[80];

        strbuf_append_bytes(&text, head, base_head(head, base->count));
        for (size_t i = 0; i < base->count; i++) {
                const struct workspace_entry *copy = &base->items[i].copy, *kept = &base->items[i].kept;
                struct base_row row = { .inodes = { copy->inode, kept->inode },
                                        .bytes = { copy->bytes, kept->bytes },
                                        .written_ns = { copy->written_ns, kept->written_ns },
                                        .changed_ns = { copy->changed_ns, kept->changed_ns },
                                        .flags = pack_flags(copy) | pack_flags(kept) << 2,
                                        .path_length = (uint32_t)strlen(copy->path) };

                memcpy(row.sha256, base->items[i].sha256, sizeof(row.sha256));
                strbuf_append_bytes(&text, &row, sizeof(row));
                strbuf_append_bytes(&text, copy->path, row.path_length + 1);
        }
        if (is_saved(workspace, &text))
                return 0;
        /* Not synced: of another boot it is not believed. */
        if (workspace_incoming_make(workspace, name, &descriptor, problem) < 0)
                return -1;
        if (descriptor_write(descriptor, text.data, text.length) < 0 ||
            renameat(workspace->folder, name, workspace->folder, BASE) < 0) {
                (void)problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                  "cannot write what the workspace was like: %s", strerror(errno));
                (void)unlinkat(workspace->folder, name, 0);
                return -1;
        }
        return 0;
}

static bool read_base(const char *at, size_t left, struct arena *arena, struct workspace_base *ret) {
        const char *end = memchr(at, '\n', left < 79 ? left : 79), *number;
        struct workspace_base base = { 0 };
        char head[80];
        size_t count, length;

        if (!end)
                return false;
        for (number = end; number > at && number[-1] != ' ';)
                number--;
        count = strtoull(number, NULL, 10);
        length = base_head(head, count);
        if (length != (size_t)(end + 1 - at) || memcmp(head, at, length) != 0 ||
            count > left / sizeof(struct base_row))
                return false;
        at += length;
        left -= length;
        base.items = arena_array(arena, count + 1, sizeof(*base.items));
        for (; base.count < count; base.count++) {
                struct base_row row;
                const char *path;

                if (left < sizeof(row))
                        return false;
                memcpy(&row, at, sizeof(row));
                at += sizeof(row);
                left -= sizeof(row);
                if (row.path_length >= left || strnlen(at, left) != row.path_length ||
                    workspace_path_problem(at))
                        return false;
                path = arena_strndup(arena, at, row.path_length);
                if (base.count > 0 && strcmp(base.items[base.count - 1].copy.path, path) >= 0)
                        return false;
                base.items[base.count] = (struct workspace_agreed){ .copy = unpack(&row, 0, path),
                                                                    .kept = unpack(&row, 1, path) };
                memcpy(base.items[base.count].sha256, row.sha256, sizeof(row.sha256));
                at += row.path_length + 1;
                left -= row.path_length + 1;
        }
        *ret = base;
        return left == 0;
}

int workspace_base_load(const struct workspace *workspace, struct arena *arena, struct workspace_base *ret) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_base base = { 0 };
        struct stat status;
        int descriptor DESCRIPTOR_CLEANUP = workspace_open_regular(workspace->folder, BASE, &status);

        if (descriptor < 0 && errno != ENOENT && errno != EINVAL && errno != ELOOP)
                return -1;
        if (descriptor < 0 || descriptor_read(descriptor, (size_t)2 << 30, &text) != 0 || !text.length ||
            !read_base(text.data, text.length, arena, &base))
                base = (struct workspace_base){ 0 };
        *ret = base;
        return 0;
}

/* ---- three lists, path by path ---- */

struct walk {
        const struct workspace_base *base;
        const struct workspace_tree *copy, *kept;
        size_t at_base, at_copy, at_kept;
};

struct step {
        const char *path;
        const struct workspace_agreed *agreed; /* each NULL where it does not have the path */
        const struct workspace_entry *copy, *kept;
        bool copy_changed, kept_changed;
};

static const char *lesser(const char *a, const char *b) {
        return !a || (b && strcmp(b, a) < 0) ? b : a;
}

static bool changed_since(const struct workspace_entry *before, const struct workspace_entry *now) {
        return before && now ? !workspace_entry_same(before, now) : before || now;
}

static bool next_step(struct walk *walk, struct step *ret) {
        const struct workspace_agreed *agreed =
                walk->at_base < walk->base->count ? &walk->base->items[walk->at_base] : NULL;
        const struct workspace_entry *copy =
                walk->at_copy < walk->copy->count ? &walk->copy->entries[walk->at_copy] : NULL;
        const struct workspace_entry *kept =
                walk->at_kept < walk->kept->count ? &walk->kept->entries[walk->at_kept] : NULL;
        const char *path = lesser(lesser(agreed ? agreed->copy.path : NULL, copy ? copy->path : NULL),
                                  kept ? kept->path : NULL);

        if (!path)
                return false;
        *ret = (struct step){ .path = path };
        if (agreed && strcmp(agreed->copy.path, path) == 0) {
                ret->agreed = agreed;
                walk->at_base++;
        }
        if (copy && strcmp(copy->path, path) == 0) {
                ret->copy = copy;
                walk->at_copy++;
        }
        if (kept && strcmp(kept->path, path) == 0) {
                ret->kept = kept;
                walk->at_kept++;
        }
        ret->copy_changed = changed_since(ret->agreed ? &agreed->copy : NULL, ret->copy);
        ret->kept_changed = changed_since(ret->agreed ? &agreed->kept : NULL, ret->kept);
        return true;
}

/* ---- out of the copy ---- */

struct outgoing {
        struct workspace *workspace;
        const struct workspace_source *source;
        struct workspace_limits limits;
        const struct interrupt *interrupt;
        struct arena *arena;
        bool singly; /* few changes: each is made to last by itself */
        struct workspace_usage usage;
        uint64_t coming;            /* bytes of the workspace once all that lies beside it is in its place */
        struct workspace_base base; /* what both agree on by now; sorted at the end */
        struct step *removals, *folders, *files;
        size_t removal_count, folder_count, file_count;
        struct workspace_changes changes;
        struct problem *problem;
};

#define APPEND(outgoing, list, count, item)                                               \
        do {                                                                              \
                (list) = array_grow((outgoing)->arena, (list), (count), sizeof(*(list))); \
                (list)[(count)++] = (item);                                               \
        } while (0)

static void agree(struct outgoing *outgoing, const struct workspace_agreed *agreed) {
        APPEND(outgoing, outgoing->base.items, outgoing->base.count, *agreed);
}

static void skip(struct outgoing *outgoing, const char *path, const char *reason) {
        const struct workspace_skipped row = { .path = path,
                                               .reason = arena_strdup(outgoing->arena, reason) };

        APPEND(outgoing, outgoing->changes.skipped, outgoing->changes.skipped_count, row);
}

/* The same, and what was agreed on before holds on: it is still a change of the copy's, and of nobody else's. */
static void leave_path(struct outgoing *outgoing, const struct step *step, const char *reason) {
        skip(outgoing, step->path, reason);
        if (step->agreed)
                agree(outgoing, step->agreed);
}

static void conflict(struct outgoing *outgoing, const char *path) {
        APPEND(outgoing, outgoing->changes.conflict, outgoing->changes.conflict_count, path);
}

/* Whether the path may still be in the copy, in a part of it that could not be read. */
static bool may_be_there(const struct workspace_tree *tree, const char *path) {
        if (tree->cut || tree->skipped_count == WORKSPACE_SKIPPED_MAX)
                return true;
        for (size_t i = 0; i < tree->skipped_count; i++) {
                const struct workspace_skipped *skipped = &tree->skipped[i];
                size_t length = strlen(skipped->path);

                if (skipped->unread && strncmp(path, skipped->path, length) == 0 &&
                    (path[length] == '/' || !path[length]))
                        return true;
        }
        return false;
}

/* Reads both, or with b < 0 the one, to the end, or until they differ: false. Interrupted, they do. */
static bool same_content(int a, int b, const struct interrupt *interrupt, struct digest_stream *digest) {
        char *pieces TEXT_CLEANUP = malloc(2 * PIECE);
        off_t at = 0;

        if (!pieces)
                abort();
        for (;;) {
                ssize_t got = pread(a, pieces, PIECE, at), there = b < 0 ? got : 0;

                if (interrupt_level(interrupt) > INTERRUPT_NONE)
                        return false;
                while (got > 0 && there < got) {
                        ssize_t more = pread(b, pieces + PIECE + there, (size_t)(got - there), at + there);

                        if (more <= 0)
                                return false;
                        there += more;
                }
                if (got <= 0)
                        return got == 0;
                if (b >= 0 && memcmp(pieces, pieces + PIECE, (size_t)got) != 0)
                        return false;
                digest_stream_add(digest, pieces, (size_t)got);
                at += got;
        }
}

static bool looks_like(const struct workspace_entry *a, const struct workspace_entry *b) {
        return !a->folder && !b->folder && a->bytes == b->bytes && a->executable == b->executable;
}

/* Of the whole copy, where it could be read, and is what the other has, if there is one (kept >= 0). */
static bool digest_copy(const struct outgoing *outgoing, const char *path, int kept,
                        char sha256[SHA256_HEX_SIZE]) {
        int copy DESCRIPTOR_CLEANUP = outgoing->source->open(outgoing->source->context, path);
        struct digest_stream *digest = digest_stream_new();
        bool same = copy >= 0 && same_content(copy, kept, outgoing->interrupt, digest);

        digest_stream_end(digest, sha256);
        return same;
}

/* Touched, or written anew as it was: of the two the workspace alone has changed since they agreed, and brings that into the copy. */
static bool was_only_touched(const struct outgoing *outgoing, const struct step *step) {
        const struct workspace_agreed *agreed = step->agreed;
        char sha256[SHA256_HEX_SIZE];

        return step->kept_changed && agreed && agreed->sha256[0] && looks_like(&agreed->copy, step->copy) &&
               digest_copy(outgoing, step->path, -1, sha256) && strcmp(sha256, agreed->sha256) == 0;
}

/* What both have is no change, whoever came to have it. */
static bool is_as_kept(const struct outgoing *outgoing, const struct step *step,
                       char sha256[SHA256_HEX_SIZE]) {
        int kept DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (!step->kept || !looks_like(step->kept, step->copy))
                return false;
        kept = workspace_open_regular(outgoing->workspace->files, step->path, &status);
        return kept >= 0 && digest_copy(outgoing, step->path, kept, sha256);
}

/* The kept file gets the copy's date, where code has touched it. */
static void date_kept(const struct outgoing *outgoing, const struct step *step,
                      struct workspace_agreed *agreed) {
        struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
        int kept DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (step->kept->written_ns == step->copy->written_ns ||
            workspace_date_read(step->copy->written_ns, &times[1]) < 0)
                return;
        kept = workspace_open_regular(outgoing->workspace->files, step->path, &status);
        if (kept >= 0 && futimens(kept, times) == 0 && fstat(kept, &status) == 0)
                agreed->kept = workspace_entry_of(step->path, &status);
}

static void plan_step(struct outgoing *outgoing, const struct step *step) {
        struct workspace_agreed agreed = { 0 };

        if (!step->copy_changed) {
                if (step->agreed)
                        agree(outgoing, step->agreed);
                return;
        }
        if (!step->copy) {
                if (may_be_there(outgoing->source->tree, step->path))
                        agree(outgoing, step->agreed);
                else if (step->kept)
                        APPEND(outgoing, outgoing->removals, outgoing->removal_count, *step);
                return;
        }
        if (step->copy->folder && step->kept && step->kept->folder) {
                agree(outgoing, &(struct workspace_agreed){ .copy = *step->copy, .kept = *step->kept });
                return;
        }
        if (!step->copy->folder) {
                if (was_only_touched(outgoing, step)) {
                        agreed = *step->agreed;
                        agreed.copy = *step->copy;
                        agree(outgoing, &agreed);
                        return;
                }
                if (is_as_kept(outgoing, step, agreed.sha256)) {
                        agreed.copy = *step->copy;
                        agreed.kept = *step->kept;
                        date_kept(outgoing, step, &agreed);
                        agree(outgoing, &agreed);
                        return;
                }
                APPEND(outgoing, outgoing->files, outgoing->file_count, *step);
        } else {
                APPEND(outgoing, outgoing->folders, outgoing->folder_count, *step);
        }
        /* What is of another type has to go first. */
        if (step->kept && step->kept->folder != step->copy->folder)
                APPEND(outgoing, outgoing->removals, outgoing->removal_count, *step);
}

static void remove_path(struct outgoing *outgoing, const struct step *step) {
        /* A folder into which somebody put a file meanwhile stays; so does everything that was put there. */
        if (workspace_path_remove(outgoing->workspace, step->path, false, outgoing->singly,
                                  &outgoing->usage) < 0) {
                if (!step->kept->folder && errno != ENOENT)
                        skip(outgoing, step->path, strerror(errno));
                return;
        }
        if (step->kept->folder || step->copy)
                return;
        APPEND(outgoing, outgoing->changes.deleted, outgoing->changes.deleted_count, step->path);
        if (step->kept_changed)
                conflict(outgoing, step->path);
}

static void make_folder(struct outgoing *outgoing, const struct step *step) {
        const struct workspace_agreed agreed = { .copy = *step->copy,
                                                 .kept = { .path = step->path, .folder = true } };
        struct problem problem;

        if (outgoing->limits.files_max && outgoing->usage.files >= outgoing->limits.files_max)
                leave_path(outgoing, step, "the workspace holds as many files and folders as it may");
        else if (workspace_folder_make(outgoing->workspace, step->path, outgoing->singly, &outgoing->limits,
                                       &outgoing->usage, &problem) < 0)
                leave_path(outgoing, step, problem.detail);
        else
                agree(outgoing, &agreed);
}

/* What one file cannot do is said of it; what nobody can do any more ends all. */
static int leave_out(struct outgoing *outgoing, const struct step *step, const struct problem *problem) {
        if (problem->code == PROBLEM_STOPPING || problem->code == PROBLEM_NOT_FOUND) {
                *outgoing->problem = *problem;
                return -1;
        }
        if (problem->code == PROBLEM_CONFLICT)
                conflict(outgoing, step->path);
        leave_path(outgoing, step, problem->detail);
        return 0;
}

/* Of the workspace's bytes, once all that lies aside is in its place: those that the file does not replace. */
static uint64_t bytes_beside(const struct outgoing *outgoing, const struct step *step) {
        uint64_t old = step->kept ? step->kept->bytes : 0;

        return outgoing->coming > old ? outgoing->coming - old : 0;
}

/* Why a file of that many bytes cannot be placed; NULL where it can. */
static const char *room_problem(const struct outgoing *outgoing, const struct step *step, uint64_t bytes) {
        const struct workspace_limits *limits = &outgoing->limits;
        uint64_t without = bytes_beside(outgoing, step);

        if (!limits->bytes_max || (without <= limits->bytes_max && bytes <= limits->bytes_max - without))
                return NULL;
        return limits->owner_max           ? "the owner's workspaces have no room for it together"
               : bytes > limits->bytes_max ? "it is larger than the workspace may be"
                                           : "the workspace has no room for it";
}

/*
 * 1: it lies beside the workspace; 0: it was left out. Nothing is opened, which may bring it from elsewhere, or written that would
 * find no room: of names for one file, or of files that are holes, there can be so many that they would fill the disk before the
 * first of them is refused its place.
 */
static int write_aside(struct outgoing *outgoing, const struct step *step, struct workspace_put *put) {
        const char *why = room_problem(outgoing, step, step->copy->bytes);
        int from DESCRIPTOR_CLEANUP =
                why ? -1 : outgoing->source->open(outgoing->source->context, step->path);
        struct workspace_limits limits = outgoing->limits;
        struct problem problem;
        struct stat status;

        if (!why && from < 0)
                why = errno == ENOENT ? "it was removed meanwhile" : "it cannot be read";
        else if (!why && (fstat(from, &status) < 0 || !S_ISREG(status.st_mode)))
                why = "it cannot be read";
        else if (!why)
                why = room_problem(outgoing, step, (uint64_t)status.st_size);
        if (why) {
                leave_path(outgoing, step, why);
                return 0;
        }
        if (workspace_put_begin(outgoing->workspace, step->path, &(struct conditions){ 0 }, &limits,
                                outgoing->interrupt, put, &problem) < 0)
                return leave_out(outgoing, step, &problem);
        put->executable = step->copy->executable;
        put->written_ns = step->copy->written_ns;
        /* What it grows by meanwhile comes the next time. */
        if (workspace_put_copy(put, from, (uint64_t)status.st_size, true, &problem) < 0 ||
            workspace_put_settle(put, outgoing->singly, &problem) < 0) {
                workspace_put_close(put);
                return leave_out(outgoing, step, &problem);
        }
        outgoing->coming = bytes_beside(outgoing, step) + put->bytes;
        return 1;
}

static int place_file(struct outgoing *outgoing, const struct step *step, struct workspace_put *put) {
        struct workspace_changed changed = { .path = step->path };
        struct workspace_agreed agreed = { .copy = *step->copy };
        struct problem problem;
        struct stat status;
        bool replaced;

        if (workspace_put_place(put, outgoing->singly, &outgoing->usage, &status, &replaced, &problem) < 0)
                return leave_out(outgoing, step, &problem);
        agreed.kept = workspace_entry_of(step->path, &status);
        memcpy(agreed.sha256, put->sha256, sizeof(agreed.sha256));
        changed.bytes = agreed.kept.bytes;
        changed.sha256 = arena_strdup(outgoing->arena, put->sha256);
        APPEND(outgoing, outgoing->changes.changed, outgoing->changes.changed_count, changed);
        if (step->kept_changed)
                conflict(outgoing, step->path);
        agree(outgoing, &agreed);
        return 0;
}

static int write_batch(struct outgoing *outgoing, const struct step *steps, size_t count) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace_put *puts = arena_array(arena, count, sizeof(*puts));
        bool *ready = arena_array(arena, count, sizeof(*ready));
        int result = 0;

        for (size_t i = 0; i < count; i++)
                puts[i] = (struct workspace_put)WORKSPACE_PUT_INIT;
        outgoing->coming = outgoing->usage.bytes;
        for (size_t i = 0; i < count && result == 0; i++) {
                int written = write_aside(outgoing, &steps[i], &puts[i]);

                ready[i] = written > 0;
                result = written < 0 ? -1 : 0;
                /* The workspace's lock says that somebody is about it. */
                close_descriptor(&puts[i].descriptor);
        }
        if (result == 0 && !outgoing->singly && syncfs(outgoing->workspace->folder) < 0)
                result = problem_set(outgoing->problem, PROBLEM_WORKSPACE_FAILED,
                                     "cannot write the workspace: %s", strerror(errno));
        for (size_t i = 0; i < count; i++) {
                if (result == 0 && ready[i])
                        result = place_file(outgoing, &steps[i], &puts[i]);
                workspace_put_close(&puts[i]);
        }
        return result;
}

static int carry_out(struct outgoing *outgoing) {
        for (size_t i = outgoing->removal_count; i-- > 0;)
                remove_path(outgoing, &outgoing->removals[i]);
        for (size_t i = 0; i < outgoing->folder_count; i++)
                make_folder(outgoing, &outgoing->folders[i]);
        for (size_t i = 0; i < outgoing->file_count; i += BATCH) {
                size_t left = outgoing->file_count - i;

                if (write_batch(outgoing, outgoing->files + i, left < BATCH ? left : BATCH) < 0)
                        return -1;
        }
        return 0;
}

static int by_copy_path(const void *a, const void *b) {
        return strcmp(((const struct workspace_agreed *)a)->copy.path,
                      ((const struct workspace_agreed *)b)->copy.path);
}

static int by_changed_path(const void *a, const void *b) {
        return strcmp(((const struct workspace_changed *)a)->path,
                      ((const struct workspace_changed *)b)->path);
}

static void sort_all(struct outgoing *outgoing) {
        struct workspace_changes *changes = &outgoing->changes;

        if (outgoing->base.count)
                qsort(outgoing->base.items, outgoing->base.count, sizeof(*outgoing->base.items),
                      by_copy_path);
        if (changes->changed_count)
                qsort(changes->changed, changes->changed_count, sizeof(*changes->changed), by_changed_path);
        if (changes->deleted_count)
                qsort(changes->deleted, changes->deleted_count, sizeof(*changes->deleted),
                      sorted_compare_texts);
        if (changes->conflict_count)
                qsort(changes->conflict, changes->conflict_count, sizeof(*changes->conflict),
                      sorted_compare_texts);
}

/* What was not reached stays as it was agreed on, and is found again the next time. */
static void keep_agreed(struct outgoing *outgoing, const struct workspace_base *before) {
        const size_t known = outgoing->base.count;

        sort_all(outgoing);
        for (size_t i = 0; i < before->count; i++) {
                const struct workspace_agreed *agreed = &before->items[i];

                if (!known || !bsearch(agreed, outgoing->base.items, known, sizeof(*agreed), by_copy_path))
                        APPEND(outgoing, outgoing->base.items, outgoing->base.count, *agreed);
        }
        sort_all(outgoing);
}

static int read_kept(struct workspace *workspace, const struct interrupt *interrupt, struct arena *arena,
                     struct workspace_tree *ret, struct problem *problem) {
        struct error err;

        if (workspace_tree_read(workspace->files, 0, 0, interrupt, arena, ret, &err) < 0)
                return problem_from_error(
                        problem, err.kind == ERROR_INTERRUPTED ? PROBLEM_STOPPING : PROBLEM_WORKSPACE_FAILED,
                        &err);
        return 0;
}

int workspace_outgoing(struct workspace *workspace, const struct workspace_source *source,
                       const struct workspace_limits *limits, const struct interrupt *interrupt,
                       struct arena *arena, struct workspace_base *base, struct workspace_changes *ret,
                       struct problem *problem) {
        struct outgoing outgoing = { .workspace = workspace,
                                     .source = source,
                                     .limits = *limits,
                                     .interrupt = interrupt,
                                     .arena = arena,
                                     .problem = problem };
        struct workspace_tree kept;
        struct walk walk = { .base = base, .copy = source->tree, .kept = &kept };
        struct step step;
        int result = -1;

        if (workspace_lock(workspace, interrupt, problem) < 0)
                return -1;
        if (read_kept(workspace, interrupt, arena, &kept, problem) == 0) {
                for (size_t i = 0; i < source->tree->skipped_count; i++)
                        skip(&outgoing, source->tree->skipped[i].path, source->tree->skipped[i].reason);
                if (source->tree->cut)
                        skip(&outgoing, ".", "there are more files than are looked at");
                while (next_step(&walk, &step))
                        plan_step(&outgoing, &step);
                result = 0;
                outgoing.singly =
                        outgoing.removal_count + outgoing.folder_count + outgoing.file_count <= SINGLY_MAX;
                if (outgoing.removal_count || outgoing.folder_count || outgoing.file_count) {
                        result = workspace_usage_begin(workspace, interrupt, &outgoing.usage, problem);
                        if (result == 0) {
                                result = carry_out(&outgoing);
                                if (!outgoing.singly && syncfs(workspace->folder) < 0 && result == 0)
                                        result = problem_set(problem, PROBLEM_WORKSPACE_FAILED,
                                                             "cannot write the workspace: %s",
                                                             strerror(errno));
                                workspace_usage_end(workspace, &outgoing.usage);
                        }
                }
                if (result < 0)
                        keep_agreed(&outgoing, base);
                sort_all(&outgoing);
                *base = outgoing.base;
        }
        workspace_unlock(workspace);
        if (result == 0)
                *ret = outgoing.changes;
        return result;
}

/* ---- into the copy ---- */

int workspace_incoming(struct workspace *workspace, const struct workspace_base *base,
                       const struct workspace_tree *copy, const struct interrupt *interrupt,
                       struct arena *arena, struct workspace_arrival **ret, size_t *ret_count,
                       struct problem *problem) {
        struct workspace_arrival *arrivals = NULL;
        struct workspace_tree kept;
        struct walk walk = { .base = base, .copy = copy, .kept = &kept };
        struct step step, *steps = NULL;
        size_t count = 0, step_count = 0;

        if (read_kept(workspace, interrupt, arena, &kept, problem) < 0)
                return -1;
        while (next_step(&walk, &step)) {
                /* What the copy's code changed since is for the next outgoing to say. */
                if (!step.kept_changed || step.copy_changed)
                        continue;
                steps = array_grow(arena, steps, step_count, sizeof(*steps));
                steps[step_count++] = step;
        }
        arrivals = arena_array(arena, 2 * step_count + 1, sizeof(*arrivals));
        for (size_t i = step_count; i-- > 0;) {
                if (steps[i].copy && (!steps[i].kept || steps[i].kept->folder != steps[i].copy->folder))
                        arrivals[count++] =
                                (struct workspace_arrival){ .entry = *steps[i].copy, .removed = true };
        }
        for (size_t i = 0; i < step_count; i++) {
                if (steps[i].kept)
                        arrivals[count++] = (struct workspace_arrival){ .entry = *steps[i].kept };
        }
        *ret = arrivals;
        *ret_count = count;
        return 0;
}

static int by_arrival_path(const void *sought, const void *item) {
        return strcmp(sought, ((const struct workspace_agreed *)item)->copy.path);
}

void workspace_settle(const struct workspace_arrival *arrivals, size_t count,
                      const struct workspace_tree *copy, struct arena *arena, struct workspace_base *base) {
        struct workspace_base settled = { .items = arena_array(arena, base->count + count + 1,
                                                               sizeof(*settled.items)) };
        const size_t known = base->count;

        /* What arrived replaces what was agreed on; what was removed is agreed on no more. */
        for (size_t i = 0; i < known; i++)
                settled.items[settled.count++] = base->items[i];
        for (size_t i = 0; i < count; i++) {
                const struct workspace_entry *entry = &arrivals[i].entry,
                                             *there = workspace_tree_find(copy, entry->path);
                struct workspace_agreed *agreed =
                        known ? bsearch(entry->path, settled.items, known, sizeof(*agreed), by_arrival_path)
                              : NULL;

                if (!there) {
                        /* Also of what did not fit: that it is missing in the copy is not the code's wish, and is no removal. */
                        if (agreed)
                                agreed->kept.path = NULL; /* marked: the other is searched by */
                } else if (arrivals[i].removed) {
                        continue;
                } else if (there && there->folder == entry->folder && there->bytes == entry->bytes) {
                        if (!agreed)
                                agreed = &settled.items[settled.count++];
                        *agreed = (struct workspace_agreed){ .copy = *there, .kept = *entry };
                }
        }
        base->items = settled.items;
        base->count = 0;
        for (size_t i = 0; i < settled.count; i++) {
                if (settled.items[i].kept.path)
                        base->items[base->count++] = settled.items[i];
        }
        if (base->count)
                qsort(base->items, base->count, sizeof(*base->items), by_copy_path);
}

int workspace_source_open(void *context, const char *path) {
        struct stat status;

        return workspace_open_regular(*(const int *)context, path, &status);
}
