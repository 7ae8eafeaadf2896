/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request says of a file: its path, Range, If-Match and If-None-Match, and the file's own tag. Whatever is said, a part lies
 * within the file, a path leads nowhere but down, and without headers every condition holds.
 */
#include "parts.h"
#include "sessions/conditions.h"
#include "sessions/workspace_tree.h"

#include <stdlib.h>
#include <string.h>

static void must(bool holds) {
        if (!holds)
                abort();
}

/* A path that may be has only names, parted by single slashes. */
static void look_at_path(const char *path) {
        const char *at = path;

        if (workspace_path_problem(path))
                return;
        must(strlen(path) > 0 && strlen(path) <= WORKSPACE_PATH_MAX);
        for (;;) {
                size_t length = strcspn(at, "/");

                must(length > 0 && length <= 255 && !(length == 1 && at[0] == '.') &&
                     !(length == 2 && memcmp(at, "..", 2) == 0));
                if (!at[length])
                        return;
                at += length + 1;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const uint64_t sizes[] = { 0, 1, 10, 1000, UINT64_MAX };
        struct parts parts = parts_of(data, size);
        char *path = parts_next_text(&parts), *range = parts_next_text(&parts),
             *match = parts_next_text(&parts), *none = parts_next_text(&parts),
             *tag = parts_next_text(&parts);
        const struct conditions both = { match, none }, neither = { NULL, NULL }, all = { "*", NULL };

        look_at_path(path);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
                uint64_t from = 0, length = 0;

                if (range_read(range, sizes[i], &from, &length) == RANGE_PART)
                        must(length > 0 && from < sizes[i] && length <= sizes[i] - from);
        }
        (void)conditions_judge(&both, tag);
        must(conditions_judge(&both, NULL) != CONDITIONS_MATCHED);
        must(conditions_judge(&neither, tag) == CONDITIONS_HOLD);
        must(conditions_judge(&all, tag) == CONDITIONS_HOLD);
        free(path);
        free(range);
        free(match);
        free(none);
        free(tag);
        return 0;
}
