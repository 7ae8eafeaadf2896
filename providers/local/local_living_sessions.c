/* SPDX-License-Identifier: Apache-2.0 */
/* Of the guard has-sessions what this machine knows: the records beside the workspaces. */
#include "base/array.h"
#include "providers/living_sessions.h"
#include "providers/local/local_workspaces.h"
#include "providers/local/provider_local.h"

#include <string.h>

int local_environment_ask(struct provider *provider, struct change *change, struct arena *arena,
                          struct error *err) {
        const char *workspaces =
                local_workspaces_folder(provider->root, value_get(provider->stack, "local"), arena);
        int64_t now_ms = provider->clock->wall_ms(provider->clock);
        struct local_session *sessions;
        const char **owners = NULL;
        size_t count, living = 0;

        if (!living_sessions_matter(change))
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
        if (living > 0)
                records_refuse(change, living_sessions_refusal(change, owners, living, arena), arena);
        return 0;
}
