/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two readers of libarchive in a row: one decompresses, the other reads the tar. The bytes between them are counted and
 * hashed, so that a bomb ends at its limit and a layer's diff_id needs no second reading.
 */
#include "providers/local/images/tarball.h"

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

#define PIECE 65536

#define ARCHIVE_SYMBOLS(X)                   \
        X(archive_entry_filetype)            \
        X(archive_entry_hardlink)            \
        X(archive_entry_mode)                \
        X(archive_entry_mtime)               \
        X(archive_entry_mtime_nsec)          \
        X(archive_entry_pathname)            \
        X(archive_entry_size)                \
        X(archive_entry_symlink)             \
        X(archive_entry_xattr_next)          \
        X(archive_entry_xattr_reset)         \
        X(archive_error_string)              \
        X(archive_read_append_filter)        \
        X(archive_read_data_block)           \
        X(archive_read_free)                 \
        X(archive_read_new)                  \
        X(archive_read_next_header)          \
        X(archive_read_open)                 \
        X(archive_read_set_format)           \
        X(archive_read_support_format_empty) \
        X(archive_read_support_format_tar)   \
        X(archive_set_error)

ARCHIVE_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol archive_symbols[] = { ARCHIVE_SYMBOLS(LIBRARY_SYMBOL) };
static struct library archive_library = LIBRARY(ARCHIVE_SONAME, "libarchive13", "images", archive_symbols);

struct tarball {
        struct archive *plain; /* the bytes, uncompressed */
        struct archive *tar;
        struct archive_entry *entry; /* the tar reader's */
        struct digest_stream *digest;
        uint64_t bytes, bytes_max;
        int descriptor;
        char piece[PIECE];
};

static int fail_reading(struct archive *archive, struct error *err) {
        const char *message = sym_archive_error_string(archive);

        if (interrupt_level(interrupt_of_user()) > 0)
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
        return error_set(err, "%s", message ? message : "it cannot be read");
}

static la_ssize_t read_source(struct archive *archive, void *context, const void **ret) {
        struct tarball *tarball = context;
        ssize_t count;

        do {
                if (interrupt_level(interrupt_of_user()) > 0) {
                        sym_archive_set_error(archive, EINTR, "interrupted");
                        return -1;
                }
                count = read(tarball->descriptor, tarball->piece, PIECE);
        } while (count < 0 && errno == EINTR);
        if (count < 0)
                sym_archive_set_error(archive, errno, "it cannot be read: %s", strerror(errno));
        *ret = tarball->piece;
        return count;
}

static la_ssize_t read_plain(struct archive *archive, void *context, const void **ret) {
        struct tarball *tarball = context;
        la_int64_t offset;
        size_t length;
        int result;

        do {
                result = sym_archive_read_data_block(tarball->plain, ret, &length, &offset);
        } while (result == ARCHIVE_OK && length == 0);
        if (result == ARCHIVE_EOF)
                return 0;
        if (result != ARCHIVE_OK) {
                sym_archive_set_error(archive, EIO, "%s", sym_archive_error_string(tarball->plain));
                return -1;
        }
        if (length > tarball->bytes_max - tarball->bytes) {
                sym_archive_set_error(archive, EFBIG, "more than %llu bytes, uncompressed",
                                      (unsigned long long)tarball->bytes_max);
                return -1;
        }
        tarball->bytes += length;
        digest_stream_add(tarball->digest, *ret, length);
        return (la_ssize_t)length;
}

/* At most one compression, told by the first bytes: libarchive by itself would undo any number of them. */
static int append_filter(const struct tarball *tarball, struct error *err) {
        static const unsigned char gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
        off_t start = lseek(tarball->descriptor, 0, SEEK_CUR);
        unsigned char first[4] = { 0 };
        int filter = ARCHIVE_FILTER_NONE;

        if (start < 0 || pread(tarball->descriptor, first, sizeof(first), start) < 0)
                return error_set(err, "it cannot be read: %s", strerror(errno));
        if (memcmp(first, gzip, sizeof(gzip)) == 0)
                filter = ARCHIVE_FILTER_GZIP;
        else if (memcmp(first, zstd, sizeof(zstd)) == 0)
                filter = ARCHIVE_FILTER_ZSTD;
        if (filter != ARCHIVE_FILTER_NONE &&
            sym_archive_read_append_filter(tarball->plain, filter) != ARCHIVE_OK)
                return fail_reading(tarball->plain, err);
        return 0;
}

static int open_readers(struct tarball *tarball, struct error *err) {
        struct archive_entry *whole;

        if (append_filter(tarball, err) < 0)
                return -1;
        if (sym_archive_read_set_format(tarball->plain, ARCHIVE_FORMAT_RAW) != ARCHIVE_OK ||
            sym_archive_read_open(tarball->plain, tarball, NULL, read_source, NULL) != ARCHIVE_OK ||
            sym_archive_read_next_header(tarball->plain, &whole) != ARCHIVE_OK)
                return fail_reading(tarball->plain, err);
        if (sym_archive_read_support_format_tar(tarball->tar) != ARCHIVE_OK ||
            sym_archive_read_support_format_empty(tarball->tar) != ARCHIVE_OK ||
            sym_archive_read_open(tarball->tar, tarball, NULL, read_plain, NULL) != ARCHIVE_OK)
                return fail_reading(tarball->tar, err);
        return 0;
}

int tarball_open(int descriptor, uint64_t bytes_max, struct tarball **ret, struct error *err) {
        struct tarball *tarball;

        if (library_load(&archive_library, err) < 0)
                return -1;
        tarball = calloc(1, sizeof(*tarball));
        if (!tarball)
                abort();
        tarball->descriptor = descriptor;
        tarball->bytes_max = bytes_max;
        tarball->digest = digest_stream_new();
        tarball->plain = sym_archive_read_new();
        tarball->tar = sym_archive_read_new();
        if (!tarball->plain || !tarball->tar)
                abort();
        if (open_readers(tarball, err) < 0) {
                tarball_close(tarball);
                return -1;
        }
        *ret = tarball;
        return 0;
}

void tarball_close(struct tarball *tarball) {
        if (!tarball)
                return;
        sym_archive_read_free(tarball->tar);
        sym_archive_read_free(tarball->plain);
        digest_stream_end(tarball->digest, NULL);
        free(tarball);
}

static enum tarball_type type_of(struct archive_entry *entry) {
        if (sym_archive_entry_hardlink(entry))
                return TARBALL_HARD_LINK;
        switch (sym_archive_entry_filetype(entry)) {
        case AE_IFREG:
                return TARBALL_FILE;
        case AE_IFDIR:
                return TARBALL_FOLDER;
        case AE_IFLNK:
                return TARBALL_LINK;
        case AE_IFCHR:
        case AE_IFBLK:
                return TARBALL_DEVICE;
        default:
                return TARBALL_SPECIAL;
        }
}

static bool has_capabilities(struct archive_entry *entry) {
        const char *name;
        const void *value;
        size_t size;

        sym_archive_entry_xattr_reset(entry);
        while (sym_archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
                if (strcmp(name, "security.capability") == 0)
                        return true;
        }
        return false;
}

int tarball_next(struct tarball *tarball, struct tarball_entry *ret, struct error *err) {
        /* ARCHIVE_WARN is about names that the locale cannot show; we use their bytes. */
        int result = sym_archive_read_next_header(tarball->tar, &tarball->entry);
        struct archive_entry *entry = tarball->entry;
        struct tarball_entry found;

        if (result == ARCHIVE_EOF)
                return 0;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
                return fail_reading(tarball->tar, err);
        found = (struct tarball_entry){
                .type = type_of(entry),
                .name = sym_archive_entry_pathname(entry),
                .mode = sym_archive_entry_mode(entry) & 07777,
                .written = { .tv_sec = sym_archive_entry_mtime(entry),
                             .tv_nsec = sym_archive_entry_mtime_nsec(entry) },
                .capabilities = has_capabilities(entry),
        };
        if (found.type == TARBALL_HARD_LINK)
                found.target = sym_archive_entry_hardlink(entry);
        else if (found.type == TARBALL_LINK)
                found.target = sym_archive_entry_symlink(entry);
        else if (found.type == TARBALL_FILE)
                found.bytes = sym_archive_entry_size(entry) < 0 ? UINT64_MAX
                                                                : (uint64_t)sym_archive_entry_size(entry);
        if (!found.name)
                return error_set(err, "it has an entry without a name");
        if (!found.target && (found.type == TARBALL_LINK || found.type == TARBALL_HARD_LINK))
                return error_set(err, "it has a link without a target");
        *ret = found;
        return 1;
}

int tarball_block(struct tarball *tarball, const void **ret_bytes, size_t *ret_length, uint64_t *ret_offset,
                  struct error *err) {
        la_int64_t offset = 0;
        int result = sym_archive_read_data_block(tarball->tar, ret_bytes, ret_length, &offset);

        if (result == ARCHIVE_EOF)
                return 0;
        if ((result != ARCHIVE_OK && result != ARCHIVE_WARN) || offset < 0)
                return fail_reading(tarball->tar, err);
        *ret_offset = (uint64_t)offset;
        return 1;
}

uint64_t tarball_bytes(const struct tarball *tarball) {
        return tarball->bytes;
}

int tarball_finish(struct tarball *tarball, char hex[SHA256_HEX_SIZE], struct error *err) {
        const void *bytes;
        la_ssize_t count;

        do {
                count = read_plain(tarball->tar, tarball, &bytes);
        } while (count > 0);
        if (count < 0)
                return fail_reading(tarball->tar, err);
        digest_stream_end(tarball->digest, hex);
        tarball->digest = NULL;
        return 0;
}
