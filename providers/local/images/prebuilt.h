/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recipes of the prebuilt images that `berth image build` can make, as data. To add an image, add a recipe to
 * the table.
 */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_PREBUILT_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_PREBUILT_H

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

/* Lists are ended by NULL. */
struct prebuilt {
        const char *name; /* NULL ends the table */
        const char *doc;  /* what is in it, one line */
        const char *suite;
        /*
         * Seconds since 1970: no date in the image is later. The same content then has the same digest whenever it is
         * built, and building an image again does not change its environments.
         */
        int64_t dated_s;
        const char *const *packages;
        const char *const *kept_out; /* paths that dpkg does not unpack: its path-exclude and path-include */
        /* Packages that others depend on and nothing here uses: patterns for dpkg-query. */
        const char *const *removed;
        const char *finish;           /* a script for sh, run inside of the finished system; or NULL */
        const char *const *variables; /* NAME=TEXT */
        const char *const *command;   /* the image's default command */
};

extern const struct prebuilt prebuilt_table[];

/* An unknown name is ERROR_NOT_FOUND; the message lists the known ones. */
int prebuilt_find(const char *name, const struct prebuilt **ret, struct error *err) MUST_USE;

/* The recipe whose name is nearest to one that has none, or NULL. */
const char *prebuilt_nearest(const char *name);

/* A shell script that removes the packages and then does what `finish` says. */
const char *prebuilt_script(const struct prebuilt *prebuilt, struct arena *arena);

#endif
