/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mke2fs is asked once for each size: what it writes are some hundred KB, which are kept, and written into each further image. Without a
 * journal, since nothing in it needs to survive a crash (one that stays has one), and with tables that are not written before they are
 * needed: in a new file they read as zeros.
 *
 * An image is larger than its workspace by what ext4 needs for itself. Of the rest, what is beyond
 * the quota is reserved for root, which no sandbox has: so what a program can fill is the quota, to
 * the block.
 */
#include "providers/local/sandbox/sandbox_disk.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/libc.h"
#include "process/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define INODE 256
/* For groups, bitmaps and the like, and what the kernel keeps back for itself. */
#define OVERHEAD ((uint64_t)32 << 20)
#define OVERHEAD_SHARE 512
/*
 * Of all blocks the kernel keeps one part in KEPT_SHARE back, and at most KEPT_MAX:
 * ext4_calculate_resv_clusters().
 */
#define KEPT_SHARE 50
#define KEPT_MAX 4096
/* Blocks of a folder that is made with it, and removed when it is mounted. */
#define LOST_AND_FOUND 4
/* Of a disk, this part stays for others. */
#define DISK_SHARE 10
#define ATTEMPTS 64
#define BUSY_MS 50
#define LETTING_GO 20
#define MKE2FS_MS 20000 /* a launcher's client waits for longer */
#define IMAGE_DESCRIPTOR 3
#define TEMPLATES 8
/* ext2fs/ext2_fs.h: where the superblock has these numbers. */
#define SUPERBLOCK 1024
#define BLOCKS_AT (SUPERBLOCK + 4)
#define RESERVED_AT (SUPERBLOCK + 8)
#define FREE_AT (SUPERBLOCK + 12)

/* The journal of an image that stays. */
#define JOURNAL ((uint64_t)8 << 20)
#define JOURNAL_OPTIONS "size=8"

#define FEATURES "extent,filetype,dir_index,sparse_super,large_file,huge_file,flex_bg,extra_isize,uninit_bg"

/*
 * The bytes that mke2fs writes for one size. A template in the list is never changed, and its last
 * holder frees it.
 */
struct template {
        unsigned references;
        struct size {
                uint64_t bytes, files;
                bool stays;
        } size;
        struct piece {
                off_t at;
                size_t length;
                char *data;
        } * pieces;
        size_t count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct template *templates[TEMPLATES];
static size_t template_count;

static int cannot(struct error *err, const char *why) {
        return error_set_kind(err, ERROR_NOT_FOUND, "%s", why);
}

static uint64_t image_size(const struct size *size) {
        uint64_t bytes = size->bytes + size->bytes / OVERHEAD_SHARE + size->files * INODE + OVERHEAD +
                         (size->stays ? JOURNAL : 0);

        return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* --- the template --- */

static int run_mke2fs(int file, const struct size *size, struct error *err) {
        char inodes[32], path[32];
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *words[] = {
                "mke2fs", "-q",   "-F",
                "-t",     "ext4", "-O",
                "",       "-b",   "4096",
                "-I",     "256",  "-m",
                "0",      "-E",   "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0",
                "-N",     inodes, path,
                NULL,     NULL,   NULL
        };
        struct run_args args = { .process = { .arguments = words },
                                 .output_max = 4096,
                                 .deadline_ms = clock_now_ms() + MKE2FS_MS };
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;

        args.process.program = process_find_program("mke2fs", PROCESS_SYSTEM_FOLDERS, arena);
        if (!args.process.program)
                return cannot(err, "mke2fs is not installed (e2fsprogs)");
        words[6] = size->stays ? "none,has_journal," FEATURES : "none," FEATURES;
        if (size->stays) {
                words[17] = "-J";
                words[18] = JOURNAL_OPTIONS;
                words[19] = path;
        }
        snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)size->files);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", IMAGE_DESCRIPTOR);
        args.process.descriptors[args.process.descriptor_count++] =
                (struct process_descriptor){ file, IMAGE_DESCRIPTOR };
        if (run_to_end(&args, &result, err) < 0 || run_check(&result, "mke2fs", err) < 0) {
                err->kind = ERROR_NOT_FOUND;
                return -1;
        }
        return 0;
}

static void free_template(struct template *template) {
        for (size_t i = 0; i < template->count; i++)
                free(template->pieces[i].data);
        free(template->pieces);
        free(template);
}

/* With the lock. */
static void drop_template(struct template *template) {
        if (--template->references == 0)
                free_template(template);
}

static int read_pieces(int file, struct template *template, struct error *err) {
        off_t at = 0, end;

        while ((at = lseek(file, at, SEEK_DATA)) >= 0) {
                struct piece *piece;

                end = lseek(file, at, SEEK_HOLE);
                template->pieces = realloc(template->pieces, (template->count + 1) * sizeof(*piece));
                if (end < 0 || !template->pieces)
                        break;
                piece = &template->pieces[template->count++];
                *piece = (struct piece){ at, (size_t)(end - at), malloc((size_t)(end - at)) };
                if (!piece->data || pread(file, piece->data, piece->length, at) != (ssize_t)piece->length)
                        break;
                at = end;
        }
        return at < 0 && errno == ENXIO ? 0 : cannot(err, "the file system that mke2fs makes cannot be read");
}

/*
 * Free blocks beyond the quota are root's. Their number is in the first piece, with the superblock.
 */
static int reserve_blocks(struct template *template, struct error *err) {
        struct piece *first = template->count > 0 ? template->pieces : NULL;
        uint32_t blocks, all, kept, wanted = (uint32_t)(template->size.bytes / BLOCK);

        if (!first || first->at != 0 || first->length < FREE_AT + sizeof(blocks))
                return cannot(err, "the file system that mke2fs makes is not as it should be");
        memcpy(&blocks, first->data + FREE_AT, sizeof(blocks));
        memcpy(&all, first->data + BLOCKS_AT, sizeof(all));
        kept = all / KEPT_SHARE < KEPT_MAX ? all / KEPT_SHARE : KEPT_MAX;
        if (blocks < wanted + kept)
                return cannot(err, "the file system that mke2fs makes is too small");
        blocks += LOST_AND_FOUND;
        blocks -= wanted + kept;
        memcpy(first->data + RESERVED_AT, &blocks, sizeof(blocks));
        return 0;
}

static int make_template(int folder, const struct size *size, struct template **ret, struct error *err) {
        int file DESCRIPTOR_CLEANUP = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        struct template *made;

        if (file < 0 || ftruncate(file, (off_t)image_size(size)) < 0)
                return cannot(err, "the disk has no files without a name");
        if (run_mke2fs(file, size, err) < 0)
                return -1;
        made = calloc(1, sizeof(*made));
        if (!made)
                abort();
        *made = (struct template){ .references = 1, .size = *size };
        if (read_pieces(file, made, err) < 0 || reserve_blocks(made, err) < 0) {
                free_template(made);
                return -1;
        }
        *ret = made;
        return 0;
}

/* With the lock: one that is there, for the caller to drop; or NULL. */
static struct template *hold_template(const struct size *size) {
        for (size_t i = 0; i < template_count; i++) {
                const struct size *other = &templates[i]->size;

                if (other->bytes == size->bytes && other->files == size->files &&
                    other->stays == size->stays) {
                        templates[i]->references++;
                        return templates[i];
                }
        }
        return NULL;
}

/*
 * mke2fs may take its time, and a caller that wants another size need not wait for it. Two that
 * want the same at once may both ask it: one of the two is kept. The oldest gives way.
 */
static int find_template(int folder, const struct size *size, struct template **ret, struct error *err) {
        struct template *made = NULL, *there;

        pthread_mutex_lock(&lock);
        there = hold_template(size);
        pthread_mutex_unlock(&lock);
        if (!there && make_template(folder, size, &made, err) < 0)
                return -1;
        pthread_mutex_lock(&lock);
        if (made && (there = hold_template(size)))
                drop_template(made);
        if (!there) {
                if (template_count == TEMPLATES) {
                        drop_template(templates[0]);
                        memmove(templates, templates + 1, (TEMPLATES - 1) * sizeof(*templates));
                        template_count--;
                }
                templates[template_count++] = there = made;
                there->references++;
        }
        pthread_mutex_unlock(&lock);
        *ret = there;
        return 0;
}

/* --- the image --- */

/* Any that is free; -1 with errno. It may be another's by the time that it is configured. */
static int open_device(int *ret_number) {
        int control DESCRIPTOR_CLEANUP = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
        int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
        char path[32];

        if (number < 0)
                return -1;
        *ret_number = number;
        snprintf(path, sizeof(path), "/dev/loop%d", number);
        return open(path, O_RDWR | O_CLOEXEC);
}

static int check_host(int folder, uint64_t size, struct error *err) {
        struct statfs status;
        int device DESCRIPTOR_CLEANUP = -1, number;

        if (geteuid() != 0)
                return cannot(err, "only root can mount a file system on a disk");
        device = open_device(&number);
        if (device < 0)
                return cannot(err, "no loop device can be had here");
        if (fstatfs(folder, &status) < 0)
                return cannot(err, "its folder cannot be looked at");
        if (status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC)
                return cannot(err, "its folder is in memory itself");
        if ((uint64_t)status.f_bavail * (uint64_t)status.f_bsize <
            size + (uint64_t)status.f_blocks / DISK_SHARE * (uint64_t)status.f_bsize)
                return cannot(err, "less than a tenth of the disk would be left");
        return 0;
}

/* One at a time: many that look at once would each find the same room. */
static int take_room(int folder, const struct size *of, int *ret, struct error *err) {
        static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
        uint64_t size = image_size(of);
        int image = -1, reason = 0, result;

        pthread_mutex_lock(&one);
        result = check_host(folder, size, err);
        if (result == 0) {
                image = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
                reason = image >= 0 && fallocate(image, 0, 0, (off_t)size) < 0 ? errno : 0;
        }
        pthread_mutex_unlock(&one);
        if (result == 0 && image < 0)
                return cannot(err, "the disk has no files without a name");
        *ret = image;
        if (reason == EOPNOTSUPP)
                return cannot(err, "the disk cannot set room aside");
        return reason ? error_set(err, "the disk has no room for a workspace of %llu MB: %s",
                                  (unsigned long long)(of->bytes >> 20), strerror(reason))
                      : result;
}

static int make_image(int folder, const struct size *of, int *ret, struct error *err) {
        int image DESCRIPTOR_CLEANUP = -1, result = 0;
        struct template *template;

        if (take_room(folder, of, &image, err) < 0)
                return -1;
        if (find_template(folder, of, &template, err) < 0)
                return -1;
        for (size_t i = 0; result == 0 && i < template->count; i++) {
                const struct piece *piece = &template->pieces[i];

                if (pwrite(image, piece->data, piece->length, piece->at) != (ssize_t)piece->length)
                        result =
                                error_set(err, "cannot write a workspace's file system: %s", strerror(errno));
        }
        pthread_mutex_lock(&lock);
        drop_template(template);
        pthread_mutex_unlock(&lock);
        if (result < 0)
                return -1;
        *ret = image;
        image = -1;
        return 0;
}

int sandbox_disk_make(const char *folder, uint64_t bytes, uint64_t files, int *ret, struct error *err) {
        int opened DESCRIPTOR_CLEANUP = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return opened < 0 ? cannot(err, "its folder cannot be looked at")
                          : make_image(opened, &(struct size){ bytes, files, false }, ret, err);
}

/* It has its name once all of it is on the disk: a death before that leaves nothing. Of two that make it at once, one is. */
int sandbox_disk_keep(int folder, const char *name, uint64_t bytes, uint64_t files, struct error *err) {
        int image DESCRIPTOR_CLEANUP = -1;
        char own[32];

        if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return 0;
        if (make_image(folder, &(struct size){ bytes, files, true }, &image, err) < 0)
                return -1;
        snprintf(own, sizeof(own), "/proc/self/fd/%d", image);
        if (fsync(image) < 0 ||
            (linkat(AT_FDCWD, own, folder, name, AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST) ||
            fsync(folder) < 0)
                return error_set(err, "%s: %s", name, strerror(errno));
        return 0;
}

/* --- the mount --- */

/* Where the disk's own blocks do not fit to direct I/O, what is written is in memory twice. */
static int configure(int device, int image) {
        struct loop_config config = { .fd = (uint32_t)image,
                                      .block_size = BLOCK,
                                      .info = { .lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO } };

        if (ioctl(device, LOOP_CONFIGURE, &config) == 0)
                return 0;
        if (errno != EINVAL)
                return -1;
        config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
        return ioctl(device, LOOP_CONFIGURE, &config);
}

/* The device is free again when the last process that has it open, or has it mounted, is gone. */
static int attach_loop(int image, char path[32], int *ret, struct error *err) {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
                int number = 0, device DESCRIPTOR_CLEANUP = open_device(&number);

                if (device >= 0 && configure(device, image) == 0) {
                        snprintf(path, 32, "/dev/loop%d", number);
                        *ret = device;
                        device = -1;
                        return 0;
                }
                if (errno != EBUSY && errno != ENXIO)
                        break;
        }
        return error_set(err, "cannot have a loop device for the workspace: %s", strerror(errno));
}

/*
 * The device that has this image already, or -1. Held open it stays that: it is taken from its
 * image by the last who closes it. Opening for reading alone makes no event for programs that watch
 * for changed devices.
 */
static int find_device(const struct stat *image, char path[32]) {
        DIR *devices = opendir("/dev");
        const struct dirent *entry;
        int found = -1;

        while (devices && found < 0 && (entry = readdir(devices))) {
                struct loop_info64 info;
                unsigned number;
                int device DESCRIPTOR_CLEANUP = -1;

                if (sscanf(entry->d_name, "loop%u", &number) != 1)
                        continue;
                snprintf(path, 32, "/dev/loop%u", number);
                device = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
                if (device < 0 || ioctl(device, LOOP_GET_STATUS64, &info) < 0 ||
                    info.lo_inode != image->st_ino || info.lo_device != image->st_dev)
                        continue;
                found = device;
                device = -1;
        }
        if (devices)
                closedir(devices);
        return found;
}

/* A device's file system, of which fsmount() makes mounts; `reads`: for reading alone. -1 with errno. */
static int prepare_mount(const char *path, bool reads) {
        int context DESCRIPTOR_CLEANUP = fsopen("ext4", FSOPEN_CLOEXEC), result;

        if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "source", path, 0) < 0 ||
            fsconfig(context, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0 ||
            fsconfig(context, FSCONFIG_SET_STRING, "errors", "remount-ro", 0) < 0 ||
            (reads && fsconfig(context, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0) ||
            fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
                return -1;
        result = context;
        context = -1;
        return result;
}

/* A file system that met an error can only be read while any holder remains. */
static int explain_busy(const char *path, struct error *err) {
        int context DESCRIPTOR_CLEANUP = prepare_mount(path, true);

        return error_set(err, "cannot mount the workspace's file system: %s",
                         context < 0
                                 ? strerror(EBUSY)
                                 : "it met an error, of its own or of the disk's, and can only be read. End "
                                   "the containers that have it and look at the kernel's log; e2fsck on the "
                                   "image says what is damaged");
}

/* Until the kernel has let go of one that was mounted a moment ago, the same device is not free for another. */
static int mount_device(const char *path, struct error *err) {
        static const struct timespec pause = { .tv_nsec = BUSY_MS * 1000000 };

        for (int attempt = 0;; attempt++) {
                int context DESCRIPTOR_CLEANUP = prepare_mount(path, false), made;

                if (context < 0 && errno == EBUSY && attempt == LETTING_GO)
                        return explain_busy(path, err);
                if (context < 0 && errno == EBUSY) {
                        (void)nanosleep(&pause, NULL);
                        continue;
                }
                if (context < 0)
                        return error_set(err, "cannot mount the workspace's file system: %s",
                                         strerror(errno));
                made = fsmount(context, FSMOUNT_CLOEXEC,
                               MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
                return made >= 0 ? made
                                 : error_set(err, "cannot mount the workspace's file system: %s",
                                             strerror(errno));
        }
}

/*
 * The image, locked until the descriptor is closed: two that look for a device at once would have
 * two. It has one name, and only this program can have written it: the kernel must not mount a file
 * system of another author.
 */
static int lock_image(int folder, const char *name, struct stat *status, struct error *err) {
        int locked DESCRIPTOR_CLEANUP = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC),
                   result;

        if (locked < 0 || flock(locked, LOCK_EX) < 0 || fstat(locked, status) < 0)
                return errno == ENOENT
                               ? error_set_kind(err, ERROR_NOT_FOUND, "%s: it was removed meanwhile", name)
                               : error_set(err, "%s: %s", name, strerror(errno));
        if (status->st_nlink == 0)
                return error_set_kind(err, ERROR_NOT_FOUND, "%s: it was removed meanwhile", name);
        if (!S_ISREG(status->st_mode) || status->st_uid != geteuid() || status->st_nlink != 1 ||
            (status->st_mode & (S_IWGRP | S_IWOTH)))
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "%s is not as Berth made it: a file of its own user's, with one name, that "
                        "only this user may write. It is not mounted",
                        name);
        result = locked;
        locked = -1;
        return result;
}

/* No device gets the descriptor that holds the lock, or it would be locked for as long as that is mounted. */
int sandbox_disk_open(int folder, const char *name, int *ret, struct error *err) {
        struct stat status;
        int locked DESCRIPTOR_CLEANUP = lock_image(folder, name, &status, err), image DESCRIPTOR_CLEANUP = -1,
                   device DESCRIPTOR_CLEANUP = -1, made;
        char device_path[32];

        if (locked < 0)
                return -1;
        snprintf(device_path, sizeof(device_path), "/proc/self/fd/%d", locked);
        image = open(device_path, O_RDWR | O_CLOEXEC);
        if (image < 0)
                return error_set(err, "%s: %s", name, strerror(errno));
        device = find_device(&status, device_path);
        made = device < 0 && attach_loop(image, device_path, &device, err) < 0
                       ? -1
                       : mount_device(device_path, err);
        if (made < 0)
                return error_context(err, "%s", name);
        *ret = made;
        return 0;
}

int sandbox_disk_remove(int folder, const char *name, struct error *err) {
        struct stat status;
        char device_path[32];
        int locked DESCRIPTOR_CLEANUP = lock_image(folder, name, &status, err),
                   device DESCRIPTOR_CLEANUP = -1;

        if (locked < 0)
                return -1;
        device = find_device(&status, device_path);
        if (device >= 0)
                return error_set_kind(err, ERROR_LOCKED, "%s is in use: end what has it, and remove it then",
                                      name);
        return unlinkat(folder, name, 0) < 0 ? error_set(err, "%s: %s", name, strerror(errno)) : 0;
}

int sandbox_disk_mount(int image, const char *path, uid_t uid, gid_t gid, struct error *err) {
        int device DESCRIPTOR_CLEANUP = -1, folder DESCRIPTOR_CLEANUP = -1;
        char name[32];

        if (attach_loop(image, name, &device, err) < 0)
                return -1;
        if (mount(name, path, "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME,
                  "noinit_itable,nobarrier,errors=remount-ro") < 0)
                return error_set(err, "cannot mount a file system for the workspace: %s", strerror(errno));
        folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0 || unlinkat(folder, "lost+found", AT_REMOVEDIR) < 0 || fchmod(folder, 0700) < 0 ||
            fchown(folder, uid, gid) < 0)
                return error_set(err, "cannot give the workspace to its user: %s", strerror(errno));
        return 0;
}

int sandbox_disk_try(const char *folder, struct error *err) {
        int image DESCRIPTOR_CLEANUP = -1;

        return sandbox_disk_make(folder, (uint64_t)1 << 20, 64, &image, err);
}
