/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a Debian system as a tar, with mmdebstrap in namespaces of its own. Its mounts and processes end with it, even when
 * Berth is killed. An ordinary user can be all users of the system, by the ranges of /etc/subuid.
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
        const char *folder; /* absolute: for temporary files; the caller removes it */
        const char *tar;    /* absolute: the result */
        int64_t dated_s;    /* SOURCE_DATE_EPOCH for the system's programs; no file is dated later */
        int messages;       /* a descriptor for a line on each step; -1: none */
};

/*
 * Takes a minute or more. Where programs are missing, the error names the packages to install; where mmdebstrap fails, the
 * error has its last lines. ERROR_INTERRUPTED soon after the user asks to stop.
 */
int bootstrap_run(const struct bootstrap *bootstrap, struct arena *arena, struct error *err) MUST_USE;

/* Removes a folder with everything in it, even where files belong to users of an ordinary user's ranges. */
int bootstrap_remove(const char *folder, struct error *err) MUST_USE;

#endif
