/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/work/glob.h"

#include <fnmatch.h>
#include <limits.h>
#include <string.h>

/* The first part, without its slash; what follows it, or NULL. */
static const char *cut_part(const char *text, char *part, size_t size) {
        size_t length = strcspn(text, "/");

        if (length >= size)
                length = size - 1;
        memcpy(part, text, length);
        part[length] = '\0';
        text += strcspn(text, "/");
        return *text ? text + 1 : NULL;
}

/*
 * Where a part does not fit, the last `**` takes one folder more: only the last, since what an earlier one could take it can take
 * as well. So the time is a product of the lengths, whatever the pattern.
 */
bool glob_fits(const char *pattern, const char *path) {
        const char *after_stars = NULL, *retry = NULL;
        char wanted[GLOB_MAX + 1], name[NAME_MAX + 1];

        while (path) {
                if (pattern) {
                        const char *next = cut_part(pattern, wanted, sizeof(wanted));

                        if (strcmp(wanted, "**") == 0) {
                                after_stars = pattern = next;
                                retry = path;
                                if (!next)
                                        return true;
                                continue;
                        }
                        {
                                const char *rest = cut_part(path, name, sizeof(name));

                                /* Both end here, or neither does. */
                                if ((!next) == (!rest) && fnmatch(wanted, name, 0) == 0) {
                                        if (!next)
                                                return true;
                                        pattern = next;
                                        path = rest;
                                        continue;
                                }
                        }
                }
                if (!retry)
                        return false;
                retry = cut_part(retry, name, sizeof(name));
                path = retry;
                pattern = after_stars;
        }
        return false;
}

size_t glob_prefix(const char *pattern) {
        size_t length = strcspn(pattern, "*?[\\");

        while (length > 0 && pattern[length - 1] != '/')
                length--;
        return length;
}
