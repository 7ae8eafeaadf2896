/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host users for runs that root starts: used by nothing else, and each run's own. They come from a
 * range, one file for each number in a folder that only root may enter:
 *
 *     /run/berth/users/1900000007    empty, and locked (flock) by the run that has the user
 *
 * The lock is passed to the run's process 1: a user is free when the last process that could have
 * it is dead. A file that is not empty names the owner that keeps the user, while files of that
 * user exist; such a one is not given to a run.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_USERS_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_USERS_H

#include "base/error.h"

#include <sys/types.h>

struct sandbox_users {
        const char *folder;
        unsigned first, count;
};
/*
 * Above what distributions give to people, services (to 65535), containers (to 1879048191) and below what systemd keeps
 * for foreign images (from 2147352576).
 */
#define SANDBOX_USERS_DEFAULT \
        { "/run/berth/users", 1900000000U, 65536U }

struct sandbox_user {
        uid_t uid;
        gid_t gid;
        int lock; /* owned; -1: there is nothing to lock */
};
#define SANDBOX_USER_NONE \
        { .lock = -1 }

/*
 * The first that is free. A caller that is not root gets its own. In a container whose user
 * namespace has none of the range it is 65534, whom all runs then share.
 */
int sandbox_user_take(const struct sandbox_users *users, struct sandbox_user *ret,
                      struct error *err) MUST_USE;

#endif
