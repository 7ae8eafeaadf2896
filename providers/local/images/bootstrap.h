/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Debian system as a tar, by mmdebstrap in namespaces of its own: mounts and processes end with it, also when Berth is
 * killed, and an ordinary user has all the users of the system by the ranges of /etc/subuid.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_BOOTSTRAP_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_BOOTSTRAP_H

#include "base/arena.h"
#include "base/error.h"
#include "providers/local/images/prebuilt.h"

#include <stdint.h>

struct bootstrap {
        const struct prebuilt *prebuilt;
        const char *mirror; /* a URL; NULL: Debian's, with its updates and security */
        const char *folder; /* absolute, for what is made on the way; the caller removes it */
        const char *tar;    /* absolute: what comes to be */
        int64_t dated_s;    /* what the system's programs are told to be the date; no file's is later */
        int messages;       /* a line for each step; -1: nowhere */
};

/*
 * Takes a minute or more. Where programs are missing, the error names the packages to install; where mmdebstrap fails, it
 * has the last lines of what that said. ERROR_INTERRUPTED soon after the user asks to stop.
 */
int bootstrap_run(const struct bootstrap *bootstrap, struct arena *arena, struct error *err) MUST_USE;

/* Removes the folder with all in it, which may be owned by users of an ordinary user's ranges. */
int bootstrap_remove(const char *folder, struct error *err) MUST_USE;

#endif
