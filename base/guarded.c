/* SPDX-License-Identifier: Apache-2.0 */
#include "base/guarded.h"

#include "base/files.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Of a list that the kernel keeps: 64 KB, the most that an attribute can have (XATTR_SIZE_MAX). */
#define LIST_MAX ((size_t)64 << 10)

static bool is_trusted_user(uid_t user) {
        return user == 0 || user == geteuid();
}

/* The group of root is root. */
static bool lets_write(const struct posix_acl_xattr_entry *entry, gid_t group) {
        uid_t id = le32toh(entry->e_id);

        switch (le16toh(entry->e_tag)) {
        case ACL_USER:
                return !is_trusted_user(id);
        case ACL_GROUP:
                return id != 0;
        case ACL_GROUP_OBJ:
                return group != 0;
        case ACL_OTHER:
                return true;
        default:
                return false; /* the owner, and the mask, which gives nothing */
        }
}

/*
 * Whether a list lets another write: 1, 0, or -1 with errno. The mask bounds what all but the owner and strangers are given; here an entry
 * counts whatever the mask says, since chmod(2) lifts that. A list in a form that is not known may say anything.
 */
static int list_lets_write(int folder, const char *name, gid_t group) {
        char *bytes TEXT_CLEANUP = malloc(LIST_MAX);
        const struct posix_acl_xattr_header *header = (const struct posix_acl_xattr_header *)(void *)bytes;
        const struct posix_acl_xattr_entry *entries;
        ssize_t length;

        if (!bytes)
                abort();
        length = fgetxattr(folder, name, bytes, LIST_MAX);
        if (length < 0)
                return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1;
        if ((size_t)length < sizeof(*header) || le32toh(header->a_version) != POSIX_ACL_XATTR_VERSION ||
            ((size_t)length - sizeof(*header)) % sizeof(*entries) != 0)
                return 1;
        entries = (const struct posix_acl_xattr_entry *)(void *)(bytes + sizeof(*header));
        for (size_t i = 0; i < ((size_t)length - sizeof(*header)) / sizeof(*entries); i++) {
                if ((le16toh(entries[i].e_perm) & ACL_WRITE) && lets_write(&entries[i], group))
                        return 1;
        }
        return 0;
}

static int lists_let_write(int folder, gid_t group) {
        int result = list_lets_write(folder, "system.posix_acl_access", group);

        return result ? result : list_lets_write(folder, "system.posix_acl_default", group);
}

static int open_step(int from, const char *name, bool make) {
        int opened = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (opened >= 0 || errno != ENOENT || !make || (mkdirat(from, name, 0700) < 0 && errno != EEXIST))
                return opened;
        return openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* A part of the path, as messages name it. */
struct part {
        const char *path;
        size_t length;
};

static int refuse_unguarded(const struct part *part, const struct stat *status, bool listed,
                            struct error *err) {
        return error_set_kind(
                err, ERROR_REFUSED,
                "%.*s belongs to user %u and has mode %04o%s: another user than root and this one "
                "could replace what lies below. It must be a folder of root's that only root may "
                "write to",
                (int)part->length, part->path, (unsigned)status->st_uid, (unsigned)(status->st_mode & 07777),
                listed ? ", and a list of who else may write (getfacl)" : "");
}

static int check_step(int opened, bool last, const struct part *part, struct error *err) {
        struct stat status;
        bool writable, listed;
        int lists;

        if (fstat(opened, &status) < 0 || (lists = lists_let_write(opened, status.st_gid)) < 0)
                return error_set(err, "%.*s: %s", (int)part->length, part->path, strerror(errno));
        listed = lists > 0;
        writable = (status.st_mode & S_IWOTH) || ((status.st_mode & S_IWGRP) && status.st_gid != 0);
        if (!is_trusted_user(status.st_uid) ||
            ((writable || listed) && (last || !(status.st_mode & S_ISVTX))))
                return refuse_unguarded(part, &status, listed, err);
        return 0;
}

static int step(int from, const char *name, bool last, bool make, const struct part *part,
                struct error *err) {
        int opened DESCRIPTOR_CLEANUP = open_step(from, name, make), result;

        if (opened < 0 && (errno == ELOOP || errno == ENOTDIR))
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "%.*s is a link, or no folder: what is below it may be another's work. Name the "
                        "folder itself",
                        (int)part->length, part->path);
        if (opened < 0)
                return error_set_kind(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_FAILED, "%.*s: %s",
                                      (int)part->length, part->path, strerror(errno));
        if (check_step(opened, last, part, err) < 0)
                return -1;
        result = opened;
        opened = -1;
        return result;
}

/* By whatever path the process was started with. */
static char *whole_path(const char *path) {
        char *here TEXT_CLEANUP = NULL;

        if (path[0] == '/')
                return strdup(path);
        here = getcwd(NULL, 0);
        return here ? path_join(here, path) : NULL;
}

static int walk(const char *path, bool make, int *ret, struct error *err) {
        char *whole TEXT_CLEANUP = whole_path(path);
        int folder DESCRIPTOR_CLEANUP = -1;

        if (!whole)
                return error_set(err, "%s: %s", path, strerror(errno));
        folder = step(AT_FDCWD, "/", !whole[strspn(whole, "/")], false, &(struct part){ "/", 1 }, err);
        for (char *at = whole + strspn(whole, "/"); folder >= 0 && *at;) {
                size_t length = strcspn(at, "/");
                char *next = at + length + strspn(at + length, "/");
                char *name TEXT_CLEANUP = strndup(at, length);
                const struct part part = { whole, (size_t)(at - whole) + length };
                int below;

                if (!name)
                        abort();
                below = step(folder, name, !*next, make, &part, err);
                close_descriptor(&folder);
                folder = below;
                at = next;
        }
        if (folder < 0)
                return -1;
        *ret = folder;
        folder = -1;
        return 0;
}

int guarded_folder_open(const char *path, int *ret, struct error *err) {
        return walk(path, false, ret, err);
}

int guarded_folder_make(const char *path, int *ret, struct error *err) {
        return walk(path, true, ret, err);
}
