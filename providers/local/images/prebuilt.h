/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prebuilt images that `berth image build` can make, as data: what is in them and what is not. To add one: a recipe in
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
         * Seconds since 1970: no date in the image is later. What is the same has the same digest, whenever it was built,
         * and an environment does not change because somebody built its image once more.
         */
        int64_t dated_s;
        const char *const *packages;
        const char *const *kept_out; /* paths that dpkg does not unpack: its path-exclude and path-include */
        /* Packages that others demand and nothing here uses: patterns for dpkg-query. */
        const char *const *removed;
        const char *finish;           /* for sh, inside of the finished system; or NULL */
        const char *const *variables; /* NAME=TEXT */
        const char *const *command;   /* what runs where nobody says anything else */
};

extern const struct prebuilt prebuilt_table[];

/* An unknown name is ERROR_NOT_FOUND, and the message lists those there are. */
int prebuilt_find(const char *name, const struct prebuilt **ret, struct error *err) MUST_USE;

/* A shell script that removes the packages and then does what `finish` says. */
const char *prebuilt_script(const struct prebuilt *prebuilt, struct arena *arena);

#endif
