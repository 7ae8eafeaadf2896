/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a layer's entries: what they may be, and what those of whiteouts mean. Pure. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_PATH_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_PATH_H

#include "base/error.h"
#include "base/strbuf.h"
#include "providers/local/images/image_unpack.h"

enum image_path_meaning {
        PATH_ENTRY,
        PATH_WHITEOUT, /* what of this name lower layers had is gone */
        PATH_OPAQUE,   /* all that lower layers had in the folder is gone */
        PATH_NOTHING   /* bookkeeping of aufs */
};

struct image_path {
        enum image_path_meaning meaning;
        char folder[UNPACK_PATH_MAX + 1]; /* relative, "." for the root itself; of plain names */
        /* In it; "" where the entry is the root itself, and for PATH_OPAQUE. */
        char name[UNPACK_NAME_MAX + 1];
};

/*
 * The parts of a name as it stands in an archive. Absolute names, "..", and whiteouts of nothing, "." or ".." are errors;
 * "." and empty parts mean nothing. `ret` is also for the targets of hard links.
 */
int image_path_parse(const char *text, struct image_path *ret, struct error *err) MUST_USE;

/* A name from an archive for people, in quotes: nothing in it drives a terminal, and it is not too long. */
void image_path_quote(struct strbuf *to, const char *text);

#endif
