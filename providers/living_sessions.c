/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/living_sessions.h"

#include "base/sorted.h"
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

#define OWNERS_NAMED 5

/* "app/alice (2), app/bob and 3 others", of owners in order. */
static const char *name_owners(const char **owners, size_t count, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        size_t named = 0, others = 0;

        for (size_t i = 0, end; i < count; i = end) {
                for (end = i + 1; end < count && strcmp(owners[end], owners[i]) == 0;)
                        end++;
                if (named++ >= OWNERS_NAMED) {
                        others++;
                        continue;
                }
                strbuf_printf(&text, "%s%s", named > 1 ? ", " : "", owners[i]);
                if (end - i > 1)
                        strbuf_printf(&text, " (%zu)", end - i);
        }
        if (others > 0)
                strbuf_printf(&text, " and %zu %s", others, others == 1 ? "other" : "others");
        return arena_strdup(arena, strbuf_text(&text));
}

bool living_sessions_matter(const struct change *change) {
        return change->action == ACTION_DELETE || change->action == ACTION_REPLACE;
}

struct refusal living_sessions_refusal(const struct change *change, const char **owners, size_t count,
                                       struct arena *arena) {
        qsort(owners, count, sizeof(*owners), sorted_compare_texts);
        return (struct refusal){
                .id = "has-sessions",
                .message = arena_printf(arena, "%zu %s in it, of %s", count,
                                        count == 1 ? "session lives" : "sessions live",
                                        name_owners(owners, count, arena)),
                .remedy = arena_printf(arena,
                                       "end them first, or --allow has-sessions:%s, which leaves "
                                       "them without their environment",
                                       change->address),
        };
}
