/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two writers of libarchive in a row: one makes the tar, the other compresses. Both results are hashed: an image's
 * configuration names the tar's digest, its manifest the stored file's.
 */
#include "providers/local/images/tarball_write.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/library.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARCHIVE_SYMBOLS(X)                         \
        X(archive_entry_free)                      \
        X(archive_entry_new)                       \
        X(archive_entry_set_filetype)              \
        X(archive_entry_set_hardlink)              \
        X(archive_entry_set_mtime)                 \
        X(archive_entry_set_pathname)              \
        X(archive_entry_set_perm)                  \
        X(archive_entry_set_size)                  \
        X(archive_entry_set_symlink)               \
        X(archive_error_string)                    \
        X(archive_set_error)                       \
        X(archive_write_add_filter_gzip)           \
        X(archive_write_close)                     \
        X(archive_write_data)                      \
        X(archive_write_free)                      \
        X(archive_write_header)                    \
        X(archive_write_new)                       \
        X(archive_write_open)                      \
        X(archive_write_set_bytes_in_last_block)   \
        X(archive_write_set_filter_option)         \
        X(archive_write_set_format_pax_restricted) \
        X(archive_write_set_format_raw)

ARCHIVE_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol archive_symbols[] = { ARCHIVE_SYMBOLS(LIBRARY_SYMBOL) };
static struct library archive_library = LIBRARY(ARCHIVE_SONAME, "libarchive13", "images", archive_symbols);

struct tarball_writer {
        struct archive *tar;
        struct archive *packed; /* NULL: the tar is stored as it is */
        struct digest_stream *plain, *stored;
        uint64_t plain_bytes, stored_bytes;
        int descriptor;
};

static int fail_writing(struct archive *archive, struct error *err) {
        const char *message = sym_archive_error_string(archive);

        if (interrupt_level(interrupt_of_user()) > 0)
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
        return error_set(err, "%s", message ? message : "it cannot be written");
}

/* May write less than asked: libarchive calls again with the rest. */
static la_ssize_t write_stored(struct archive *archive, void *context, const void *bytes, size_t length) {
        struct tarball_writer *writer = context;
        ssize_t count;

        do {
                if (interrupt_level(interrupt_of_user()) > 0) {
                        sym_archive_set_error(archive, EINTR, "interrupted");
                        return -1;
                }
                count = write(writer->descriptor, bytes, length);
        } while (count < 0 && errno == EINTR);
        if (count < 0) {
                sym_archive_set_error(archive, errno, "it cannot be written: %s", strerror(errno));
                return -1;
        }
        digest_stream_add(writer->stored, bytes, (size_t)count);
        writer->stored_bytes += (uint64_t)count;
        return count;
}

static la_ssize_t write_plain(struct archive *archive, void *context, const void *bytes, size_t length) {
        struct tarball_writer *writer = context;
        la_ssize_t count = writer->packed ? sym_archive_write_data(writer->packed, bytes, length)
                                          : write_stored(archive, writer, bytes, length);

        if (count < 0 && writer->packed)
                sym_archive_set_error(archive, EIO, "%s", sym_archive_error_string(writer->packed));
        if (count > 0) {
                digest_stream_add(writer->plain, bytes, (size_t)count);
                writer->plain_bytes += (uint64_t)count;
        }
        return count;
}

/* Level 3: a tenth larger than the usual 6, in half the time. No date and no name, which would change the digest. */
static int open_packed(struct tarball_writer *writer, struct error *err) {
        struct archive *packed = writer->packed = sym_archive_write_new();
        struct archive_entry *whole = sym_archive_entry_new();
        int result;

        if (!packed || !whole)
                abort();
        sym_archive_entry_set_pathname(whole, "layer");
        sym_archive_entry_set_filetype(whole, AE_IFREG);
        if (sym_archive_write_set_format_raw(packed) != ARCHIVE_OK ||
            sym_archive_write_add_filter_gzip(packed) != ARCHIVE_OK ||
            sym_archive_write_set_filter_option(packed, "gzip", "compression-level", "3") != ARCHIVE_OK ||
            sym_archive_write_set_filter_option(packed, "gzip", "timestamp", NULL) != ARCHIVE_OK ||
            sym_archive_write_set_bytes_in_last_block(packed, 1) != ARCHIVE_OK ||
            sym_archive_write_open(packed, writer, NULL, write_stored, NULL) != ARCHIVE_OK)
                result = fail_writing(packed, err);
        else
                result =
                        sym_archive_write_header(packed, whole) == ARCHIVE_OK ? 0 : fail_writing(packed, err);
        sym_archive_entry_free(whole);
        return result;
}

static int open_tar(struct tarball_writer *writer, struct error *err) {
        struct archive *tar = writer->tar = sym_archive_write_new();

        if (!tar)
                abort();
        /* Plain ustar where that can hold the entry, pax headers elsewhere. */
        if (sym_archive_write_set_format_pax_restricted(tar) != ARCHIVE_OK ||
            sym_archive_write_set_bytes_in_last_block(tar, 1) != ARCHIVE_OK ||
            sym_archive_write_open(tar, writer, NULL, write_plain, NULL) != ARCHIVE_OK)
                return fail_writing(tar, err);
        return 0;
}

int tarball_writer_open(int descriptor, bool compress, struct tarball_writer **ret, struct error *err) {
        struct tarball_writer *writer;

        if (library_load(&archive_library, err) < 0)
                return -1;
        writer = calloc(1, sizeof(*writer));
        if (!writer)
                abort();
        writer->descriptor = descriptor;
        writer->plain = digest_stream_new();
        writer->stored = digest_stream_new();
        if ((compress && open_packed(writer, err) < 0) || open_tar(writer, err) < 0) {
                tarball_writer_close(writer);
                return -1;
        }
        *ret = writer;
        return 0;
}

void tarball_writer_close(struct tarball_writer *writer) {
        if (!writer)
                return;
        /* In this order: the first one's last bytes go into the second. */
        sym_archive_write_free(writer->tar);
        sym_archive_write_free(writer->packed);
        digest_stream_end(writer->plain, NULL);
        digest_stream_end(writer->stored, NULL);
        free(writer);
}

static int fill_entry(struct archive_entry *to, const struct tarball_entry *entry, struct error *err) {
        sym_archive_entry_set_pathname(to, entry->name);
        sym_archive_entry_set_perm(to, entry->mode);
        sym_archive_entry_set_mtime(to, entry->written.tv_sec, entry->written.tv_nsec);
        switch (entry->type) {
        case TARBALL_FILE:
                sym_archive_entry_set_filetype(to, AE_IFREG);
                sym_archive_entry_set_size(to, (la_int64_t)entry->bytes);
                return 0;
        case TARBALL_FOLDER:
                sym_archive_entry_set_filetype(to, AE_IFDIR);
                return 0;
        case TARBALL_LINK:
                sym_archive_entry_set_filetype(to, AE_IFLNK);
                sym_archive_entry_set_symlink(to, entry->target);
                return 0;
        case TARBALL_HARD_LINK:
                sym_archive_entry_set_filetype(to, AE_IFREG);
                sym_archive_entry_set_hardlink(to, entry->target);
                return 0;
        case TARBALL_DEVICE:
        case TARBALL_SPECIAL:
        default:
                return error_set(err, "%s is not a file, folder or link", entry->name);
        }
}

int tarball_writer_add(struct tarball_writer *writer, const struct tarball_entry *entry, struct error *err) {
        struct archive_entry *to = sym_archive_entry_new();
        int result;

        if (!to)
                abort();
        result = fill_entry(to, entry, err);
        if (result == 0 && sym_archive_write_header(writer->tar, to) < ARCHIVE_WARN)
                result = fail_writing(writer->tar, err);
        sym_archive_entry_free(to);
        return result;
}

int tarball_writer_bytes(struct tarball_writer *writer, const void *bytes, size_t length, struct error *err) {
        const char *at = bytes;

        while (length > 0) {
                la_ssize_t count = sym_archive_write_data(writer->tar, at, length);

                if (count < 0)
                        return fail_writing(writer->tar, err);
                if (count == 0)
                        return error_set(err, "a file is longer than its declared size");
                at += count;
                length -= (size_t)count;
        }
        return 0;
}

int tarball_writer_finish(struct tarball_writer *writer, struct tarball_written *ret, struct error *err) {
        struct tarball_written written;

        if (sym_archive_write_close(writer->tar) != ARCHIVE_OK)
                return fail_writing(writer->tar, err);
        if (writer->packed && sym_archive_write_close(writer->packed) != ARCHIVE_OK)
                return fail_writing(writer->packed, err);
        written.plain_bytes = writer->plain_bytes;
        written.stored_bytes = writer->stored_bytes;
        digest_stream_end(writer->plain, written.plain);
        digest_stream_end(writer->stored, written.stored);
        writer->plain = writer->stored = NULL;
        *ret = written;
        return 0;
}
