/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a layer's entries: which are allowed, and which are whiteouts. Pure. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_PATH_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_PATH_H

#include "base/error.h"
#include "base/strbuf.h"
#include "providers/local/images/image_unpack.h"

enum image_path_meaning {
        PATH_ENTRY,
        PATH_WHITEOUT, /* removes what lower layers have under this name */
        PATH_OPAQUE,   /* removes everything that lower layers have in the folder */
        PATH_NOTHING   /* bookkeeping of aufs */
};

struct image_path {
        enum image_path_meaning meaning;
        char folder[UNPACK_PATH_MAX + 1]; /* relative and of plain names; "." for the root itself */
        /* In that folder; "" for the root itself and for PATH_OPAQUE. */
        char name[UNPACK_NAME_MAX + 1];
};

/*
 * Splits a name from an archive, or the target of a hard link. Errors: absolute names, "..", whiteouts of nothing, "." or
 * "..". Parts that are "." or empty are skipped.
 */
int image_path_parse(const char *text, struct image_path *ret, struct error *err) MUST_USE;

/* A name from an archive, in quotes, for people: made safe for terminals, and cut where it is too long. */
void image_path_quote(struct strbuf *to, const char *text);

#endif
