/* SPDX-License-Identifier: Apache-2.0 */
/* The guard has-sessions: an environment in which sessions live is neither deleted nor made anew. */
#include "base/array.h"
#include "base/sorted.h"
#include "base/strbuf.h"
#include "providers/local/provider_local.h"
#include "providers/local/workspaces.h"

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

int local_environment_ask(struct provider *provider, struct change *change, struct arena *arena,
                          struct error *err) {
        const char *workspaces =
                local_workspaces_folder(provider->root, value_get(provider->stack, "local"), arena);
        int64_t now_ms = provider->clock->wall_ms(provider->clock);
        struct local_session *sessions;
        const char **owners = NULL;
        size_t count, living = 0;

        if (change->action != ACTION_DELETE && change->action != ACTION_REPLACE)
                return 0;
        if (local_sessions_list(workspaces, provider->stack_name, arena, &sessions, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (sessions[i].problem || sessions[i].lives_until_ms <= now_ms ||
                    strcmp(sessions[i].environment, change->name) != 0)
                        continue;
                owners = array_grow(arena, owners, living, sizeof(*owners));
                owners[living++] = sessions[i].owner ? sessions[i].owner : "nobody known";
        }
        if (living == 0)
                return 0;
        qsort(owners, living, sizeof(*owners), sorted_compare_texts);
        local_refuse(
                change,
                (struct refusal){
                        .id = "has-sessions",
                        .message = arena_printf(arena, "%zu %s in it, of %s", living,
                                                living == 1 ? "session lives" : "sessions live",
                                                name_owners(owners, living, arena)),
                        .remedy = arena_printf(arena,
                                               "end them first, or --allow has-sessions:%s, which leaves "
                                               "them without their environment",
                                               change->address),
                },
                arena);
        return 0;
}
