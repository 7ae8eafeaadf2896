/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/image_unpack.h"

#include "base/beneath.h"
#include "base/clock.h"
#include "base/files.h"
#include "providers/image_rules.h"
#include "providers/local/images/image_path.h"
#include "providers/local/images/tarball.h"
#include "providers/local/images/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct unpack_limits unpack_limits_default = {
        .entries = 500000,
        .bytes = IMAGE_RULES_SIZE_MAX,
        .file_bytes = UINT64_C(4) << 30,
        .top_entries = 200,
};

/*
 * Of all layers together. Headers and padding of a tar come on top of the files' bytes: some 2 KB for each entry, however
 * long its name is.
 */
static uint64_t stream_limit(const struct unpack_limits *limits) {
        return limits->bytes + limits->entries * 2048 + (1 << 20);
}

static const char *path_failure(int error) {
        switch (error) {
        case ELOOP:
                return "it stands behind symbolic links that lead to each other";
        case EEXIST:
                return "it stands behind a symbolic link that leads to nothing in the image";
        case ENAMETOOLONG:
                return "it stands behind a symbolic link, too deep in the image";
        case ENOTDIR:
                return "it stands in what is no folder";
        default:
                return strerror(error);
        }
}

/* --- parents --- */

static int open_beneath(int parent, const char *path) {
        return beneath_open(parent, path, O_RDONLY | O_DIRECTORY);
}

static bool is_same_inode(const struct stat *one, const struct stat *other) {
        return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

/* Whether something may stand in the folder: links could else lead deeper and deeper, name by name. */
static bool has_depth_left(int root, int folder) {
        struct stat top, status;
        int at = openat(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        bool left = false;

        if (fstat(root, &top) < 0)
                close_descriptor(&at);
        for (unsigned depth = 0; at >= 0 && depth < UNPACK_DEPTH_MAX && fstat(at, &status) == 0; depth++) {
                int above;

                left = is_same_inode(&status, &top);
                if (left)
                        break;
                above = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
                close_descriptor(&at);
                at = above;
        }
        close_descriptor(&at);
        return left;
}

/*
 * As programs in the image would see the path: a later layer writes lib/x where /lib has long been a link to usr/lib. The
 * kernel keeps the image's root for the root of everything, wherever links lead.
 */
static int open_within(int root, const char *path) {
        int folder = open_beneath(root, path);

        if (folder >= 0 || errno != ELOOP)
                return folder;
        folder = beneath_follow(root, path, O_RDONLY | O_DIRECTORY);
        if (folder >= 0 && !has_depth_left(root, folder)) {
                close_descriptor(&folder);
                errno = ENAMETOOLONG;
        }
        return folder;
}

/*
 * A new one, which all users may enter whatever the umask is: a user who runs in the image is
 * neither root nor its owner.
 */
static int make_image_folder(int parent, const char *name) {
        int folder DESCRIPTOR_CLEANUP = -1;

        if (mkdirat(parent, name, 0755) < 0 || (folder = open_beneath(parent, name)) < 0)
                return -1;
        return fchmod(folder, 0755);
}

/* Part by part, making what lacks; what is made counts as an entry. */
static int make_parents(struct unpack *unpack, const char *path) {
        char upto[UNPACK_PATH_MAX + 1];
        int at = open_beneath(unpack->root, ".");
        size_t length = 0;

        while (at >= 0 && path[length]) {
                size_t part = length;
                int next;

                length += strcspn(path + length, "/");
                memcpy(upto, path, length);
                upto[length] = '\0';
                next = open_within(unpack->root, upto);
                if (next < 0 && errno == ENOENT && make_image_folder(at, upto + part) == 0) {
                        unpack->tally.entries++;
                        next = open_within(unpack->root, upto);
                }
                close(at);
                at = next;
                length += path[length] == '/';
        }
        return at;
}

static int open_parent(struct unpack *unpack, const struct image_path *path) {
        int parent = open_within(unpack->root, path->folder);

        return parent < 0 && errno == ENOENT ? make_parents(unpack, path->folder) : parent;
}

/* --- what lower layers had --- */

/* What a later layer takes away of earlier ones; what is not there is away already. */
static int apply_whiteout(const struct unpack *unpack, const struct image_path *path, struct error *err) {
        int folder DESCRIPTOR_CLEANUP = open_within(unpack->root, path->folder);

        if (folder < 0)
                return errno == ENOENT || errno == ENOTDIR ? 0 : error_set(err, "%s", path_failure(errno));
        if ((path->meaning == PATH_OPAQUE ? tree_empty(folder) : tree_remove(folder, path->name)) < 0)
                return error_set(err, "what it hides cannot be removed: %s", strerror(errno));
        return 0;
}

/* --- entries --- */

static int put_folder(int parent, const char *name, const struct tarball_entry *entry, struct error *err) {
        int folder DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (!name[0]) /* the root itself, which all users may read */
                return 0;
        if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode) &&
            tree_remove(parent, name) < 0)
                return error_set(err, "%s", path_failure(errno));
        if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
                return error_set(err, "%s", path_failure(errno));
        folder = open_beneath(parent, name);
        /* Its owner can always write into it, or the image could not be removed. */
        if (folder < 0 || fchmod(folder, (entry->mode & 0777) | 0700) < 0)
                return error_set(err, "%s", path_failure(errno));
        return 0;
}

static int write_at(int file, const char *bytes, size_t length, uint64_t offset) {
        while (length > 0) {
                ssize_t count = pwrite(file, bytes, length, (off_t)offset);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0)
                        return -1;
                bytes += count;
                offset += (uint64_t)count;
                length -= (size_t)count;
        }
        return 0;
}

static int write_content(struct tarball *tarball, int file, uint64_t bytes, struct error *err) {
        uint64_t offset, end = 0;
        const void *piece;
        size_t length;
        int more;

        while ((more = tarball_block(tarball, &piece, &length, &offset, err)) > 0) {
                if (offset > bytes || length > bytes - offset)
                        return error_set(err, "it is larger than it says");
                if (write_at(file, piece, length, offset) < 0)
                        return error_set(err, "%s", path_failure(errno));
                end = offset + length > end ? offset + length : end;
        }
        if (more < 0)
                return -1;
        if (end < bytes && ftruncate(file, (off_t)bytes) < 0)
                return error_set(err, "%s", path_failure(errno));
        return 0;
}

static int count_bytes(struct unpack *unpack, uint64_t bytes, struct error *err) {
        if (bytes > unpack->limits.file_bytes)
                return error_set(err, "it has more than %" PRIu64 " bytes", unpack->limits.file_bytes);
        if (bytes > unpack->limits.bytes - unpack->tally.bytes)
                return error_set_kind(err, ERROR_REFUSED,
                                      "with it the image has more than %" PRIu64 " bytes unpacked",
                                      unpack->limits.bytes);
        unpack->tally.bytes += bytes;
        return 0;
}

static int put_file(struct unpack *unpack, struct tarball *tarball, int parent, const char *name,
                    const struct tarball_entry *entry, struct error *err) {
        struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, entry->written };
        int file DESCRIPTOR_CLEANUP = -1;

        if (count_bytes(unpack, entry->bytes, err) < 0)
                return -1;
        if (tree_remove(parent, name) < 0 ||
            (file = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
                return error_set(err, "%s", path_failure(errno));
        if (write_content(tarball, file, entry->bytes, err) < 0)
                return -1;
        /* Python compares the times of its sources with those that its caches name. */
        if (fchmod(file, entry->mode & 0777) < 0 || futimens(file, times) < 0)
                return error_set(err, "%s", path_failure(errno));
        unpack->tally.privileged += (entry->mode & 07000) != 0;
        unpack->tally.capabilities += entry->capabilities;
        return 0;
}

static int put_link(int parent, const char *name, const struct tarball_entry *entry, struct error *err) {
        if (tree_remove(parent, name) < 0 || symlinkat(entry->target, parent, name) < 0)
                return error_set(err, "%s", path_failure(errno));
        return 0;
}

static int put_hard_link(const struct unpack *unpack, int parent, const char *name,
                         const struct tarball_entry *entry, struct error *err) {
        struct image_path path;
        int folder DESCRIPTOR_CLEANUP = -1;
        struct stat target, present;

        if (image_path_parse(entry->target, &path, err) < 0)
                return error_context(err, "the target of its hard link");
        if (path.meaning != PATH_ENTRY || !path.name[0])
                return error_set(err, "its hard link names no file");
        folder = open_within(unpack->root, path.folder);
        if (folder < 0 || fstatat(folder, path.name, &target, AT_SYMLINK_NOFOLLOW) < 0)
                return error_set(err, "the target of its hard link is not there: %s", path_failure(errno));
        if (!S_ISREG(target.st_mode) && !S_ISLNK(target.st_mode))
                return error_set(err, "the target of its hard link is not a file");
        if (fstatat(parent, name, &present, AT_SYMLINK_NOFOLLOW) == 0 && is_same_inode(&present, &target))
                return 0;
        if (tree_remove(parent, name) < 0 || linkat(folder, path.name, parent, name, 0) < 0)
                return error_set(err, "%s", path_failure(errno));
        return 0;
}

static int put_entry(struct unpack *unpack, struct tarball *tarball, const struct image_path *path,
                     const struct tarball_entry *entry, struct error *err) {
        int parent DESCRIPTOR_CLEANUP = open_parent(unpack, path);

        if (parent < 0)
                return error_set(err, "%s", path_failure(errno));
        if (!path->name[0] && entry->type != TARBALL_FOLDER)
                return error_set(err, "it replaces the root folder, and is not a folder");
        switch (entry->type) {
        case TARBALL_FOLDER:
                return put_folder(parent, path->name, entry, err);
        case TARBALL_FILE:
                return put_file(unpack, tarball, parent, path->name, entry, err);
        case TARBALL_LINK:
                return put_link(parent, path->name, entry, err);
        case TARBALL_HARD_LINK:
                return put_hard_link(unpack, parent, path->name, entry, err);
        case TARBALL_DEVICE:
                unpack->tally.devices++;
                return 0;
        case TARBALL_SPECIAL:
        default:
                unpack->tally.specials++;
                return 0;
        }
}

/* --- layers --- */

/* A layer's whiteouts hide what is below it, never what is in it: they are applied first, by a reading of their own. */
enum pass { PASS_WHITEOUTS, PASS_ENTRIES };

static int unpack_entry(struct unpack *unpack, struct tarball *tarball, const struct tarball_entry *entry,
                        enum pass pass, struct error *err) {
        struct strbuf quoted STRBUF_CLEANUP = STRBUF_INIT;
        bool hides;
        struct image_path path;
        int result = image_path_parse(entry->name, &path, err);

        hides = path.meaning == PATH_WHITEOUT || path.meaning == PATH_OPAQUE;
        if (result == 0 && pass == PASS_WHITEOUTS && hides)
                result = apply_whiteout(unpack, &path, err);
        else if (result == 0 && pass == PASS_ENTRIES && path.meaning == PATH_ENTRY)
                result = put_entry(unpack, tarball, &path, entry, err);
        if (result == 0 || err->kind == ERROR_INTERRUPTED)
                return result;
        image_path_quote(&quoted, entry->name);
        return error_context(err, "entry %s", strbuf_text(&quoted));
}

static int read_layer(struct unpack *unpack, struct tarball *tarball, enum pass pass, struct error *err) {
        struct tarball_entry entry;
        int more;

        while ((more = tarball_next(tarball, &entry, err)) > 0) {
                if (pass == PASS_ENTRIES && unpack->tally.entries++ >= unpack->limits.entries)
                        return error_set(err, "the image has more than %" PRIu64 " entries",
                                         unpack->limits.entries);
                if (unpack_entry(unpack, tarball, &entry, pass, err) < 0)
                        return -1;
        }
        return more;
}

static int apply_pass(struct unpack *unpack, int descriptor, enum pass pass, const char *diff_id,
                      struct error *err) {
        struct tarball *tarball;
        char hex[SHA256_HEX_SIZE];
        int result;

        if (lseek(descriptor, 0, SEEK_SET) < 0)
                return error_set(err, "it cannot be read: %s", strerror(errno));
        if (tarball_open(descriptor, stream_limit(&unpack->limits) - unpack->streamed, &tarball, err) < 0)
                return -1;
        result = read_layer(unpack, tarball, pass, err);
        if (result == 0)
                result = tarball_finish(tarball, hex, err);
        unpack->streamed += pass == PASS_ENTRIES ? tarball_bytes(tarball) : 0;
        tarball_close(tarball);
        if (result == 0 && diff_id && (strncmp(diff_id, "sha256:", 7) != 0 || strcmp(diff_id + 7, hex) != 0))
                return error_set(
                        err, "its content is not what the configuration says: sha256:%s, not %s (diff_id)",
                        hex, diff_id);
        return result;
}

int image_unpack_layer(struct unpack *unpack, int descriptor, bool lowest, const char *diff_id,
                       struct error *err) {
        if (!lowest && apply_pass(unpack, descriptor, PASS_WHITEOUTS, diff_id, err) < 0)
                return -1;
        return apply_pass(unpack, descriptor, PASS_ENTRIES, diff_id, err);
}

int image_unpack_archive(struct unpack *unpack, int descriptor, struct error *err) {
        return apply_pass(unpack, descriptor, PASS_ENTRIES, NULL, err);
}

/* --- what a sandbox mounts over --- */

static int make_file(int folder, const char *name) {
        int file DESCRIPTOR_CLEANUP =
                openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

        if (file < 0)
                return errno == EEXIST ? 0 : -1;
        return fchmod(file, 0644);
}

static int make_places(int root) {
        static const char *const files[] = { "passwd", "group", "hosts" };
        int etc DESCRIPTOR_CLEANUP = -1, var DESCRIPTOR_CLEANUP = -1;
        struct stat status;

        if (fstatat(root, "etc", &status, AT_SYMLINK_NOFOLLOW) < 0 && make_image_folder(root, "etc") < 0)
                return -1;
        if (fstatat(root, "var", &status, AT_SYMLINK_NOFOLLOW) < 0 && make_image_folder(root, "var") < 0)
                return -1;
        etc = open_beneath(root, "etc");
        var = open_beneath(root, "var");
        for (size_t i = 0; etc >= 0 && i < sizeof(files) / sizeof(files[0]); i++) {
                if (make_file(etc, files[i]) < 0)
                        return -1;
        }
        if (var >= 0 && fstatat(var, "tmp", &status, AT_SYMLINK_NOFOLLOW) < 0)
                return make_image_folder(var, "tmp");
        return 0;
}

static int count_top(int root, unsigned *ret) {
        int again = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *folder = again < 0 ? NULL : fdopendir(again);

        if (!folder) {
                close_descriptor(&again);
                return -1;
        }
        *ret = 0;
        while (readdir(folder))
                ++*ret;
        closedir(folder);
        *ret -= 2;
        return 0;
}

int image_unpack_finish(struct unpack *unpack, struct error *err) {
        unsigned count;

        if (make_places(unpack->root) < 0 || count_top(unpack->root, &count) < 0)
                return error_set(err, "cannot finish the image's folder: %s", strerror(errno));
        if (count > unpack->limits.top_entries)
                return error_set(err, "its root folder has %u entries, and a sandbox takes at most %u", count,
                                 unpack->limits.top_entries);
        return 0;
}
