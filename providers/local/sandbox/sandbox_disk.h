/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace on a disk, whose size the kernel holds: a file system of its own (ext4) in a file, through a loop device. The file has no
 * name and is as large from the beginning as it can ever be, so that a full disk is said when it is made and not when code writes.
 *
 * Nothing of it outlives its use, however that ends: the mount goes with its namespace, the device
 * with the mount, and the file with the device, but for one that stays. Only this program makes
 * what is mounted: a sandbox writes files in it, and never the file that it lies in.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_DISK_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_DISK_H

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * An image of this size and number of files, on the disk that `folder` lies on. ERROR_NOT_FOUND if
 * this host cannot (the message says why), or if too little of the disk would be left: the
 * workspace is in memory then.
 */
int sandbox_disk_make(const char *folder, uint64_t bytes, uint64_t files, int *ret,
                      struct error *err) MUST_USE;
/* With root's rights: it is mounted at `path`, which is the user's then and empty. */
int sandbox_disk_mount(int image, const char *path, uid_t uid, gid_t gid, struct error *err) MUST_USE;
/*
 * An image that stays: under a name in a folder, and with a journal, so that what was synced in it
 * survives a crash. An existing one of that name stays as it is, of whatever size. Fails as above.
 * Here and below the caller guarantees that no other user put that folder there (base/guarded.h).
 */
int sandbox_disk_keep(int folder, const char *name, uint64_t bytes, uint64_t files,
                      struct error *err) MUST_USE;
/*
 * With root's rights: a mount of it that is attached nowhere yet, and ends with its last
 * descriptor. All mounts of one image are one file system, whichever process opens them.
 */
int sandbox_disk_open(int folder, const char *name, int *ret_mount, struct error *err) MUST_USE;
/*
 * It goes with all that is in it. ERROR_LOCKED where a mount has it.
 *
 * To be opened or removed it must be a file of the caller's, of one name, that no other user may
 * write: otherwise ERROR_REFUSED. ERROR_NOT_FOUND if it was removed meanwhile.
 */
int sandbox_disk_remove(int folder, const char *name, struct error *err) MUST_USE;
/* For doctor. 0: it can be done here. */
int sandbox_disk_try(const char *folder, struct error *err) MUST_USE;

#endif
