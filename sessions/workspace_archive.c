/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes are known when a file's header is written: what is open stays one version, since files are replaced and never written. Each
 * thread that writes one has a locale of its own meanwhile, since libarchive marks names as UTF-8 only where the locale is.
 */
#include "sessions/workspace_archive.h"

#include "base/files.h"
#include "base/library.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"
#include "sessions/record.h"
#include "sessions/workspace_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 1000
#define PIECE ((size_t)128 << 10)
#define LEFT_OUT_MAX ((size_t)1 << 20)

#define ARCHIVE_SYMBOLS(X)                       \
        X(archive_entry_free)                    \
        X(archive_entry_new)                     \
        X(archive_entry_set_filetype)            \
        X(archive_entry_set_mtime)               \
        X(archive_entry_set_pathname)            \
        X(archive_entry_set_perm)                \
        X(archive_entry_set_size)                \
        X(archive_error_string)                  \
        X(archive_write_close)                   \
        X(archive_write_data)                    \
        X(archive_write_free)                    \
        X(archive_write_header)                  \
        X(archive_write_new)                     \
        X(archive_write_open)                    \
        X(archive_write_set_bytes_in_last_block) \
        X(archive_write_set_bytes_per_block)     \
        X(archive_write_set_format_option)       \
        X(archive_write_set_format_zip)

ARCHIVE_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol archive_symbols[] = { ARCHIVE_SYMBOLS(LIBRARY_SYMBOL) };
static struct library archive_library =
        LIBRARY(ARCHIVE_SONAME, "libarchive13", "archives of workspaces", archive_symbols);

struct writing {
        struct workspace *workspace;
        const struct workspace_archive *request;
        struct archive *zip;
        struct strbuf left_out;
        uint64_t total;
        bool stopped;
        struct problem *problem;
};

/*
 * libarchive is never told that nobody listens: where its output fails in the middle of a file, it forgets what its compression
 * holds, a quarter of a megabyte each time. What comes then is thrown away, and we stop by ourselves.
 */
static la_ssize_t write_out(struct archive *zip, void *context, const void *bytes, size_t length) {
        struct writing *writing = context;

        (void)zip;
        if (!writing->stopped)
                writing->stopped = interrupt_level(writing->request->interrupt) > INTERRUPT_NONE ||
                                   writing->request->write(writing->request->context, bytes, length) < 0;
        return (la_ssize_t)length;
}

static int fail_archive(struct writing *writing) {
        const char *message = sym_archive_error_string(writing->zip);

        if (writing->stopped)
                return problem_set(writing->problem, PROBLEM_STOPPING, "interrupted");
        return problem_set(writing->problem, PROBLEM_WORKSPACE_FAILED, "cannot write the zip: %s",
                           message ? message : "libarchive does not say why");
}

static int write_bytes(struct writing *writing, const void *bytes, size_t length) {
        const char *at = bytes;

        while (length > 0) {
                la_ssize_t count = sym_archive_write_data(writing->zip, at, length);

                if (count <= 0 || writing->stopped)
                        return fail_archive(writing);
                at += count;
                length -= (size_t)count;
        }
        return 0;
}

static int write_head(struct writing *writing, const char *path, const struct workspace_file *file) {
        struct archive_entry *entry = sym_archive_entry_new();
        int result;

        if (!entry)
                abort();
        sym_archive_entry_set_pathname(entry, path);
        sym_archive_entry_set_filetype(entry, AE_IFREG);
        sym_archive_entry_set_perm(entry, file->executable ? 0755 : 0644);
        sym_archive_entry_set_size(entry, (la_int64_t)file->bytes);
        sym_archive_entry_set_mtime(entry, (time_t)(file->written_ms / 1000), 0);
        result = sym_archive_write_header(writing->zip, entry) < ARCHIVE_WARN || writing->stopped
                         ? fail_archive(writing)
                         : 0;
        sym_archive_entry_free(entry);
        return result;
}

static void leave_out(struct writing *writing, const char *path, const char *reason) {
        struct strbuf *list = &writing->left_out;

        if (list->length > LEFT_OUT_MAX)
                return;
        text_append_safe(list, path);
        strbuf_printf(list, ": %s\n", reason);
        if (list->length > LEFT_OUT_MAX)
                strbuf_append(list, "... and others\n");
}

static int write_file(struct writing *writing, const char *path, char *piece) {
        const struct workspace_archive *request = writing->request;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct workspace_file file;
        struct problem problem;
        char reason[128];

        if (strchr(path, '\\') || strchr(path, ':')) {
                leave_out(writing, path, "other systems take a part of its name for a folder or a drive");
                return 0;
        }
        if (strcasecmp(path, WORKSPACE_LEFT_OUT) == 0) {
                leave_out(writing, path, "this list has its name");
                return 0;
        }
        if (workspace_file_open(writing->workspace, path, &descriptor, &file, &problem) < 0) {
                if (problem.code != PROBLEM_NOT_FOUND) /* else it was deleted meanwhile */
                        leave_out(writing, path, "it cannot be read");
                return 0;
        }
        if (request->file_max && file.bytes > request->file_max) {
                snprintf(reason, sizeof(reason), "%" PRIu64 " bytes, and %" PRIu64 " may be downloaded",
                         file.bytes, request->file_max);
                leave_out(writing, path, reason);
                return 0;
        }
        if (request->total_max &&
            (writing->total > request->total_max || file.bytes > request->total_max - writing->total)) {
                leave_out(writing, path, "with it the archive would be larger than it may be");
                return 0;
        }
        writing->total += file.bytes;
        if (write_head(writing, path, &file) < 0)
                return -1;
        for (uint64_t left = file.bytes; left > 0;) {
                ssize_t count = read(descriptor, piece, left < PIECE ? (size_t)left : PIECE);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return problem_set(writing->problem, PROBLEM_WORKSPACE_FAILED,
                                           "a file cannot be read: %s",
                                           count < 0 ? strerror(errno) : "it ends early");
                if (write_bytes(writing, piece, (size_t)count) < 0)
                        return -1;
                left -= (uint64_t)count;
        }
        return 0;
}

static int write_files(struct writing *writing) {
        char *piece TEXT_CLEANUP = malloc(PIECE), *after TEXT_CLEANUP = NULL;
        bool more = true;

        if (!piece)
                abort();
        while (more) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                const struct workspace_page page = { writing->request->prefix, after, PAGE };
                struct workspace_file *files;
                size_t count;

                if (workspace_files_list(writing->workspace, &page, writing->request->interrupt, arena,
                                         &files, &count, &more, writing->problem) < 0)
                        return -1;
                for (size_t i = 0; i < count; i++) {
                        if (interrupt_level(writing->request->interrupt) > INTERRUPT_NONE)
                                return problem_set(writing->problem, PROBLEM_STOPPING, "interrupted");
                        if (write_file(writing, files[i].path, piece) < 0)
                                return -1;
                }
                free(after);
                after = record_copy_text(count ? files[count - 1].path : NULL);
        }
        return 0;
}

static int write_left_out(struct writing *writing) {
        struct workspace_file file = { .bytes = writing->left_out.length };

        if (!writing->left_out.length)
                return 0;
        return write_head(writing, WORKSPACE_LEFT_OUT, &file) < 0
                       ? -1
                       : write_bytes(writing, writing->left_out.data, writing->left_out.length);
}

static int write_all(struct writing *writing) {
        struct archive *zip = writing->zip;

        /* Level 3: about a tenth larger than the usual 6, in half the time. */
        if (sym_archive_write_set_format_zip(zip) != ARCHIVE_OK ||
            sym_archive_write_set_format_option(zip, "zip", "compression-level", "3") != ARCHIVE_OK ||
            sym_archive_write_set_bytes_per_block(zip, (int)PIECE) != ARCHIVE_OK ||
            sym_archive_write_set_bytes_in_last_block(zip, 1) != ARCHIVE_OK ||
            sym_archive_write_open(zip, writing, NULL, write_out, NULL) != ARCHIVE_OK)
                return fail_archive(writing);
        if (write_files(writing) < 0 || write_left_out(writing) < 0)
                return -1;
        return sym_archive_write_close(zip) == ARCHIVE_OK && !writing->stopped ? 0 : fail_archive(writing);
}

int workspace_archive_write(struct workspace *workspace, const struct workspace_archive *archive,
                            struct problem *problem) {
        struct writing writing = { .workspace = workspace, .request = archive, .problem = problem };
        locale_t own, before = (locale_t)0;
        struct error err;
        int result;

        if (library_load(&archive_library, &err) < 0)
                return problem_from_error(problem, PROBLEM_WORKSPACE_FAILED, &err);
        own = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
        if (own)
                before = uselocale(own);
        writing.zip = sym_archive_write_new();
        if (!writing.zip)
                abort();
        result = write_all(&writing);
        /* What is unfinished is finished into nobody's hands. */
        writing.stopped = writing.stopped || result < 0;
        if (result < 0)
                (void)sym_archive_write_close(writing.zip);
        sym_archive_write_free(writing.zip);
        strbuf_release(&writing.left_out);
        if (own) {
                uselocale(before);
                freelocale(own);
        }
        return result;
}
