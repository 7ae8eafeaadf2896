/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program and the folder of a command on the host, found once, when it is asked for, and held
 * against what is there when it is to run: the same file by its bytes, the same folder by its place
 * and identity. The file that is checked is open, and the open file is the one that runs.
 */
#ifndef BERTH_APPROVALS_SUBJECT_H
#define BERTH_APPROVALS_SUBJECT_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define SUBJECT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define SUBJECT_PROGRAM_MAX ((uint64_t)512 << 20)

struct subject {
        const char *program; /* from the root, no link in it */
        char sha256[SHA256_HEX_SIZE];
        const char *folder; /* the same */
        uint64_t folder_device, folder_inode;
};

/* Users that may own a program: root, this process's user, and this one. */
struct subject_rules {
        uint32_t user;
        const char *state; /* NULL, or the server's, without links: nothing in it is found */
};

/*
 * `name`: argv[0]. With a slash it is a path, from the folder where it is not from the root; else
 * it is looked for in SUBJECT_PATH. All in the arena. A file that others than its owner may write,
 * or that belongs to another user, is refused: that user could put other bytes there between two
 * looks.
 */
int subject_find(const char *name, const char *folder, const struct subject_rules *rules, struct arena *arena,
                 struct subject *ret, struct error *err) MUST_USE;

/* Opens both, or -1 where one of them is not what it was. The caller's to close. */
int subject_open(const struct subject *subject, const struct subject_rules *rules, int *ret_program,
                 bool *ret_is_script, int *ret_folder, struct error *err) MUST_USE;

/* Whether the path is the folder or lies beneath it; both from the root, without links. */
bool subject_is_beneath(const char *path, const char *folder);

#endif
