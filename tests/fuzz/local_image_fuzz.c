/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images from outside. The parts: a letter for the form (o an OCI layout, d skopeo's dir:, D a
 * docker-archive unpacked into a folder's tar, a any file), the index (or manifest.json), the
 * manifest, the configuration, one layer; for a the file alone. Digests must fit to get anywhere,
 * so that in these texts "@M" means the manifest's digest and "@m" its size, "@C" and "@c" the
 * configuration's, "@L" and "@l" the layer's.
 *
 * Whatever comes in, nothing is written outside of the store.
 */
#include "base/files.h"
#include "parts.h"
#include "providers/local/images/local_image_import.h"
#include "providers/local/images/local_images.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define CANARY "nobody writes here\n"

struct blob {
        char *bytes;
        size_t length;
        char digest[8 + SHA256_HEX_SIZE];
};

static void name_blob(struct blob *blob) {
        memcpy(blob->digest, "sha256:", 8);
        digest_sha256_hex(blob->bytes, blob->length, blob->digest + 7);
}

/* "@C" and the like replaced by what `inner` is called, as far as text goes. */
static void refer(struct blob *blob, char letter, const struct blob *inner) {
        struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < blob->length; i++) {
                char next = i + 1 < blob->length ? blob->bytes[i + 1] : '\0';

                if (blob->bytes[i] == '@' && next == letter)
                        strbuf_append(&text, inner->digest);
                else if (blob->bytes[i] == '@' && next == letter + ('a' - 'A'))
                        strbuf_printf(&text, "%zu", inner->length);
                else {
                        strbuf_append_char(&text, blob->bytes[i]);
                        continue;
                }
                i++;
        }
        free(blob->bytes);
        blob->length = text.length;
        blob->bytes = strbuf_take(&text);
}

static void put(const char *path, const char *bytes, size_t length) {
        int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        if (descriptor < 0 || write(descriptor, bytes, length) != (ssize_t)length)
                abort();
        close(descriptor);
}

static void put_blob(const char *folder, const struct blob *blob) {
        char path[160];

        snprintf(path, sizeof(path), "%s%s", folder, blob->digest + 7);
        put(path, blob->bytes, blob->length);
}

static void start_anew(void) {
        struct error err;

        scratch_remove("store");
        scratch_remove("source");
        if (folder_make("source/blobs/sha256", &err) < 0)
                abort();
}

static void set_up(void) {
        struct rlimit files = { 64 << 20, 64 << 20 };

        signal(SIGXFSZ, SIG_IGN);
        if (chdir(scratch_folder()) < 0 || setrlimit(RLIMIT_FSIZE, &files) < 0)
                abort();
        put("canary", CANARY, sizeof(CANARY) - 1);
}

static void check_outside(void) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        DIR *listing = opendir(".");
        struct dirent *entry;
        size_t entries = 0;
        struct error err;

        while (listing && (entry = readdir(listing)))
                entries += entry->d_name[0] != '.';
        if (listing)
                closedir(listing);
        if (entries > 4 || file_read("canary", 4096, &text, &err) < 0 ||
            strcmp(strbuf_text(&text), CANARY) != 0)
                abort();
}

/* docker save's: manifest.json beside files that it names. */
static void make_archive(const struct blob *index, const struct blob *config, const struct blob *layer) {
        const struct {
                const char *name;
                const struct blob *blob;
        } members[] = { { "manifest.json", index }, { "config.json", config }, { "layer.tar", layer } };
        struct archive *archive = archive_write_new();

        if (!archive || archive_write_set_format_ustar(archive) != ARCHIVE_OK ||
            archive_write_open_filename(archive, "source/archive") != ARCHIVE_OK)
                abort();
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
                struct archive_entry *entry = archive_entry_new();

                archive_entry_set_pathname(entry, members[i].name);
                archive_entry_set_filetype(entry, AE_IFREG);
                archive_entry_set_perm(entry, 0600);
                archive_entry_set_size(entry, (la_int64_t)members[i].blob->length);
                if (archive_write_header(archive, entry) != ARCHIVE_OK)
                        abort();
                (void)archive_write_data(archive, members[i].blob->bytes, members[i].blob->length);
                archive_entry_free(entry);
        }
        archive_write_free(archive);
}

static const char *lay_out(char form, struct parts *parts) {
        static const char layout[] = "{\"imageLayoutVersion\": \"1.0.0\"}";
        struct blob blobs[4] = { { 0 } }; /* index, manifest, configuration, layer */
        const char *path = "source";

        for (size_t i = 0; i < 4; i++)
                blobs[i].bytes = parts_next(parts, &blobs[i].length);
        name_blob(&blobs[3]);
        refer(&blobs[2], 'L', &blobs[3]);
        name_blob(&blobs[2]);
        refer(&blobs[1], 'C', &blobs[2]);
        refer(&blobs[1], 'L', &blobs[3]);
        name_blob(&blobs[1]);
        refer(&blobs[0], 'M', &blobs[1]);
        if (form == 'a') {
                path = "source/file";
                put(path, blobs[0].bytes, blobs[0].length);
        } else if (form == 'D') {
                path = "source/archive";
                make_archive(&blobs[0], &blobs[2], &blobs[3]);
        } else if (form == 'd') {
                put("source/version", "Directory Transport Version: 1.1\n", 33);
                put("source/manifest.json", blobs[1].bytes, blobs[1].length);
                put_blob("source/", &blobs[2]);
                put_blob("source/", &blobs[3]);
        } else {
                put("source/oci-layout", layout, sizeof(layout) - 1);
                put("source/index.json", blobs[0].bytes, blobs[0].length);
                for (size_t i = 1; i < 4; i++)
                        put_blob("source/blobs/sha256/", &blobs[i]);
        }
        for (size_t i = 0; i < 4; i++)
                free(blobs[i].bytes);
        return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static bool ready;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct parts parts = parts_of(data, size);
        char *form = parts_next_text(&parts);
        struct local_images images;
        struct local_image image;
        struct image_row row;
        struct error err = { 0 };
        const char *path;

        if (!ready)
                set_up();
        ready = true;
        start_anew();
        path = lay_out(form[0], &parts);
        if (local_image_import_here("store", "team/app:one", path, arena, &row, &err) < 0) {
                if (err.message[0] == '\0')
                        abort();
        } else if (local_images_open("store", arena, &images, &err) < 0 ||
                   local_image_find(&images, "team/app", "one", NULL, arena, &image) ==
                           (row.problem != NULL)) {
                abort();
        }
        check_outside();
        free(form);
        return 0;
}
