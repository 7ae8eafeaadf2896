/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two locks, both flock(2), so that a dead process holds none. The file `lock` is held for moments,
 * while something moves into or out of its place or the index is written. Each work folder is
 * locked while its process lives: a process that can lock one may remove it. Making a work folder
 * and removing dead ones both happen under `lock`, else a new folder could be taken for a dead one
 * before it is locked.
 *
 * An import is visible only at its end: syncfs(2) first, then blobs, then the root, then the name in the index, so that a name
 * never leads to something that a power failure has left in pieces. A removal goes the other way: name, root, blobs. A root
 * disappears by one rename into the work folder, where removing its files may take as long as it needs.
 *
 * A blob's content is hashed while it is copied. An existing blob is linked instead, after its
 * bytes have been checked: the file may have been changed since.
 */
#include "providers/local/images/image_store.h"

#include "base/beneath.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "providers/image_rules.h"
#include "providers/local/images/image_index.h"
#include "providers/local/images/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORK "work"
#define LOCK "lock"
#define PIECE ((size_t)256 * 1024)

static int fail_store(const struct image_store *store, const char *what, struct error *err) {
        return error_set(err, "image store %s: cannot %s: %s", store->folder, what, strerror(errno));
}

/* --- one at a time --- */

/* The lock on the store: held for moments, so this waits. It ends with the descriptor. */
static int lock_store(const struct image_store *store, struct error *err) {
        int lock = openat(store->top, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (lock < 0) {
                (void)fail_store(store, "open its lock", err);
                return -1;
        }
        if (descriptor_lock(lock, interrupt_of_user()) < 0) {
                if (errno == EINTR)
                        (void)error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
                else
                        (void)fail_store(store, "lock it", err);
                close(lock);
                return -1;
        }
        return lock;
}

/* --- the work folder --- */

/* Removes the work folders of dead processes, which are not locked. */
static void remove_dead_works(int works) {
        int again = openat(works, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = again < 0 ? NULL : fdopendir(again);
        const struct dirent *entry;

        if (!folder) {
                close_descriptor(&again);
                return;
        }
        while ((entry = readdir(folder))) {
                int work DESCRIPTOR_CLEANUP = -1;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                work = beneath_open(works, entry->d_name, O_RDONLY | O_DIRECTORY);
                /*
                 * A folder that cannot be removed costs only space: the next process tries again.
                 */
                if (work < 0 || flock(work, LOCK_EX | LOCK_NB) == 0)
                        (void)!tree_remove(works, entry->d_name);
        }
        closedir(folder);
}

static int make_inner(const struct image_store *store, const char *name, mode_t mode, int *ret) {
        if (mkdirat(store->work, name, mode) < 0)
                return -1;
        *ret = beneath_open(store->work, name, O_RDONLY | O_DIRECTORY);
        return *ret < 0 ? -1 : fchmod(*ret, mode);
}

static int make_work(struct image_store *store) {
        int works DESCRIPTOR_CLEANUP = -1;
        uint8_t number[8];
        char hex[2 * sizeof(number) + 1];

        if ((mkdirat(store->top, WORK, 0700) < 0 && errno != EEXIST) ||
            (works = openat(store->top, WORK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
                return -1;
        remove_dead_works(works);
        /* We hold the store's lock: no other process makes or removes a work folder now. */
        random_bytes(number, sizeof(number));
        digest_hex(number, sizeof(number), hex);
        snprintf(store->work_name, sizeof(store->work_name), "import-%s", hex);
        if (mkdirat(works, store->work_name, 0700) < 0 ||
            (store->work = beneath_open(works, store->work_name, O_RDONLY | O_DIRECTORY)) < 0 ||
            flock(store->work, LOCK_EX | LOCK_NB) < 0)
                return -1;
        if (make_inner(store, "archive", 0700, &store->archive) < 0 ||
            make_inner(store, "blobs", 0700, &store->blobs) < 0)
                return -1;
        return make_inner(store, "root", 0755, &store->root);
}

/* The folders that every store has, and the file that makes it an OCI layout for skopeo. */
static int make_store_folders(const struct image_store *store, struct error *err) {
        static const char layout[] = "{\"imageLayoutVersion\": \"1.0.0\"}\n";
        static const char *const folders[] = { "blobs", LOCAL_IMAGES_BLOBS, "roots", LOCAL_IMAGES_ROOTS };
        char *path TEXT_CLEANUP = path_join(store->folder, "oci-layout");

        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
                if (mkdirat(store->top, folders[i], 0700) < 0 && errno != EEXIST)
                        return fail_store(store, "make its folders", err);
        }
        if (faccessat(store->top, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        return file_write_atomic(path, layout, strlen(layout), 0600, err);
}

int image_store_open(const char *folder, struct image_store *ret, struct error *err) {
        struct image_store store = IMAGE_STORE_INIT;
        int lock DESCRIPTOR_CLEANUP = -1;

        store.folder = folder;
        if (folder_make(folder, err) < 0)
                return -1;
        store.top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (store.top < 0)
                return fail_store(&store, "open it", err);
        lock = lock_store(&store, err);
        if (lock < 0 || make_store_folders(&store, err) < 0) {
                image_store_close(&store);
                return -1;
        }
        if (make_work(&store) < 0) {
                (void)fail_store(&store, "make a work folder", err);
                image_store_close(&store);
                return -1;
        }
        *ret = store;
        return 0;
}

void image_store_close(struct image_store *store) {
        int works DESCRIPTOR_CLEANUP = -1;

        if (store->work >= 0) {
                works = openat(store->top, WORK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (works >= 0)
                        (void)!tree_remove(works, store->work_name);
        }
        close_descriptor(&store->archive);
        close_descriptor(&store->blobs);
        close_descriptor(&store->root);
        close_descriptor(&store->work);
        close_descriptor(&store->top);
        *store = (struct image_store)IMAGE_STORE_INIT;
}

/* --- blobs --- */

#define BLOB_PATH_SIZE (sizeof(LOCAL_IMAGES_BLOBS) + 1 + 64)

static void blob_path(const char *digest, char buffer[BLOB_PATH_SIZE]) {
        snprintf(buffer, BLOB_PATH_SIZE, "%s/%s", LOCAL_IMAGES_BLOBS, digest + 7);
}

#define ROOT_PATH_SIZE (sizeof(LOCAL_IMAGES_ROOTS) + 1 + 64)

static void root_path(const char *digest, char buffer[ROOT_PATH_SIZE]) {
        snprintf(buffer, ROOT_PATH_SIZE, "%s/%s", LOCAL_IMAGES_ROOTS, digest + 7);
}

/* Hashes what it reads, and writes it where `to` is not -1. Stops as soon as there are more than `size` bytes. */
static int copy_and_hash(const struct image_store *store, int from, int to, uint64_t size,
                         char hex[SHA256_HEX_SIZE], uint64_t *ret_bytes, struct error *err) {
        char *piece TEXT_CLEANUP = malloc(PIECE);
        struct digest_stream *stream = digest_stream_new();
        uint64_t bytes = 0;
        ssize_t count = 0;
        int result = 0;

        if (!piece)
                abort();
        while (result == 0 && bytes <= size && (count = read(from, piece, PIECE)) != 0) {
                if (interrupt_level(interrupt_of_user()) > 0)
                        result = error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
                else if (count < 0 && errno != EINTR)
                        result = error_set(err, "it cannot be read: %s", strerror(errno));
                else if (count > 0 && to >= 0 && descriptor_write(to, piece, (size_t)count) < 0)
                        result = fail_store(store, "write a blob", err);
                if (result < 0 || count < 0)
                        continue;
                digest_stream_add(stream, piece, (size_t)count);
                bytes += (uint64_t)count;
        }
        digest_stream_end(stream, hex);
        *ret_bytes = bytes;
        return result;
}

static int check_bytes(const char *hex, uint64_t bytes, const char *digest, uint64_t size,
                       struct error *err) {
        if (bytes > size)
                return error_set(err, "it is longer than its declared size of %llu bytes",
                                 (unsigned long long)size);
        if (bytes < size)
                return error_set(err, "it has %llu bytes of its declared %llu: it was cut short",
                                 (unsigned long long)bytes, (unsigned long long)size);
        if (strcmp(hex, digest + 7) != 0)
                return error_set(err, "its bytes do not match its digest: they are sha256:%s", hex);
        return 0;
}

/* Links a blob that an earlier import brought, after checking that it still has the bytes of its digest. */
static bool link_present_blob(const struct image_store *store, const char *digest, uint64_t size) {
        char path[BLOB_PATH_SIZE], hex[SHA256_HEX_SIZE];
        struct error ignored;
        uint64_t bytes;
        int file DESCRIPTOR_CLEANUP = -1;

        blob_path(digest, path);
        if (linkat(store->top, path, store->blobs, digest + 7, 0) < 0)
                return false;
        file = beneath_open(store->blobs, digest + 7, O_RDONLY | O_NOFOLLOW);
        if (file >= 0 && copy_and_hash(store, file, -1, size, hex, &bytes, &ignored) == 0 &&
            check_bytes(hex, bytes, digest, size, &ignored) == 0)
                return true;
        unlinkat(store->blobs, digest + 7, 0);
        return false;
}

int image_store_stage(struct image_store *store, int from, const char *digest, uint64_t size,
                      struct error *err) {
        int file DESCRIPTOR_CLEANUP = -1;
        char hex[SHA256_HEX_SIZE];
        uint64_t bytes;

        if (!image_rules_is_digest(digest))
                return error_set(err, "it is named by no digest of SHA-256");
        if (faccessat(store->blobs, digest + 7, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        if (link_present_blob(store, digest, size))
                return 0;
        file = openat(store->blobs, digest + 7, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0)
                return fail_store(store, "make a blob", err);
        if (copy_and_hash(store, from, file, size, hex, &bytes, err) < 0 ||
            check_bytes(hex, bytes, digest, size, err) < 0) {
                unlinkat(store->blobs, digest + 7, 0);
                return -1;
        }
        return 0;
}

int image_store_stage_bytes(struct image_store *store, const void *bytes, size_t length, const char *digest,
                            struct error *err) {
        int file DESCRIPTOR_CLEANUP = -1;

        file = openat(store->blobs, digest + 7, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0 || descriptor_write(file, bytes, length) < 0)
                return fail_store(store, "write a blob", err);
        return 0;
}

int image_store_blob(const struct image_store *store, const char *digest) {
        return beneath_open(store->blobs, digest + 7, O_RDONLY | O_NOFOLLOW);
}

bool image_store_has(const struct image_store *store, const char *digest) {
        char path[ROOT_PATH_SIZE];
        struct stat status;

        root_path(digest, path);
        return fstatat(store->top, path, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

/* --- into place --- */

static int sync_folder(const struct image_store *store, const char *path) {
        int folder DESCRIPTOR_CLEANUP = beneath_open(store->top, path, O_RDONLY | O_DIRECTORY);

        return folder < 0 ? -1 : fsync(folder);
}

static int move_blobs(const struct image_store *store) {
        int again = openat(store->blobs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int target DESCRIPTOR_CLEANUP = beneath_open(store->top, LOCAL_IMAGES_BLOBS, O_RDONLY | O_DIRECTORY);
        DIR *folder = again < 0 ? NULL : fdopendir(again);
        const struct dirent *entry;
        int result = 0, reason;

        if (!folder || target < 0) {
                close_descriptor(&again);
                return -1;
        }
        /* A blob linked from the store is the same file: rename(2) then leaves both names, and ours goes with the work folder. */
        while (result == 0 && (entry = readdir(folder))) {
                if (entry->d_name[0] != '.')
                        result = renameat(store->blobs, entry->d_name, target, entry->d_name);
        }
        reason = errno;
        closedir(folder);
        errno = reason;
        return result;
}

static int move_root(const struct image_store *store, const char *digest) {
        char path[ROOT_PATH_SIZE];

        root_path(digest, path);
        if (renameat(store->work, "root", store->top, path) == 0)
                return 0;
        /* Another import was faster. A folder with something in it is never replaced. */
        return errno == EEXIST || errno == ENOTEMPTY ? 0 : -1;
}

int image_store_commit(struct image_store *store, const char *name, const char *digest, bool unpacked,
                       struct arena *arena, struct error *err) {
        int lock DESCRIPTOR_CLEANUP = -1;

        /* Everything is on the disk before anything gets its final name. A full disk may show only here. */
        if (syncfs(store->work) < 0)
                return fail_store(store, "write to the disk", err);
        lock = lock_store(store, err);
        if (lock < 0)
                return -1;
        if (!unpacked && !image_store_has(store, digest))
                return error_set(err, "the image was removed while it was imported: import it again");
        if (move_blobs(store) < 0 || sync_folder(store, LOCAL_IMAGES_BLOBS) < 0)
                return fail_store(store, "move blobs into place", err);
        if ((unpacked && move_root(store, digest) < 0) || sync_folder(store, LOCAL_IMAGES_ROOTS) < 0)
                return fail_store(store, "move the image into place", err);
        if (image_index_set(store->folder, name, digest, arena, err) < 0)
                return -1;
        image_index_prune(store->folder, store->top, arena);
        return 0;
}

/* --- removing --- */

/* Locks the root against runs, which hold a shared lock. The lock ends with the descriptor. */
static int lock_root(const struct image_store *store, const struct image_removal *removal, int *ret,
                     struct error *err) {
        char path[ROOT_PATH_SIZE];

        root_path(removal->digest, path);
        *ret = beneath_open(store->top, path, O_RDONLY | O_DIRECTORY);
        if (*ret >= 0 && flock(*ret, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
                return error_set_kind(err, ERROR_REFUSED,
                                      "image-in-use: a run uses %s: try again when it has ended",
                                      removal->digest);
        return *ret >= 0 || errno == ENOENT ? 0 : fail_store(store, "open the image", err);
}

/*
 * Gone at once for all processes. Its content is removed with the work folder, by us or by the next
 * process.
 */
static int move_root_out(const struct image_store *store, const char *digest) {
        char path[ROOT_PATH_SIZE];

        root_path(digest, path);
        return renameat(store->top, path, store->work, digest + 7) == 0 || errno == ENOENT ? 0 : -1;
}

static int find_other_name(const struct image_store *store, const struct image_removal *removal,
                           struct arena *arena, const char **ret, struct error *err) {
        struct local_images images;
        const char *leads_to;

        if (local_images_open(store->folder, arena, &images, err) < 0)
                return -1;
        leads_to = removal->name ? value_get_text(images.tags, removal->name) : removal->digest;
        if (!leads_to || strcmp(leads_to, removal->digest) != 0)
                return error_set(err, "%s %s: try again", removal->name,
                                 leads_to ? "leads to another image now" : "was removed by another process");
        *ret = arena_strdup(arena, image_index_name_of(&images, removal->digest, removal->name));
        return 0;
}

int image_store_remove(struct image_store *store, const struct image_removal *removal, struct arena *arena,
                       const char **ret_other_name, struct error *err) {
        int lock DESCRIPTOR_CLEANUP = lock_store(store, err);
        int root DESCRIPTOR_CLEANUP = -1;
        const char *other_name;

        if (lock < 0 || find_other_name(store, removal, arena, &other_name, err) < 0)
                return -1;
        if (!other_name && removal->users)
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "image-in-use: %s (%s) is the image of %s: point it at another image, or "
                        "destroy it, and apply that first",
                        removal->name ? removal->name : "an image without a name", removal->digest,
                        removal->users);
        if (!other_name && lock_root(store, removal, &root, err) < 0)
                return -1;
        if (removal->name && image_index_set(store->folder, removal->name, NULL, arena, err) < 0)
                return -1;
        if (!other_name) {
                if (move_root_out(store, removal->digest) < 0)
                        return fail_store(store, "move the image out of its place", err);
                image_index_prune(store->folder, store->top, arena);
        }
        *ret_other_name = other_name;
        return 0;
}
