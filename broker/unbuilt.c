/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/unbuilt.h"

#include "base/log.h"

void unbuilt_tell(const struct broker_config *config) {
        static const char *const sections[] = { "containers", "shell" };
        static const char *const of_sessions[] = { "allowShared", NULL };
        const struct value *sessions = value_get(config->spec, "sessions");

        for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
                if (value_get(config->spec, sections[i]))
                        log_warning("%s: not built into this version: what it says does nothing yet",
                                    sections[i]);
        }
        for (const char *const *name = of_sessions; *name; name++) {
                const struct value *value = value_get(sessions, *name);

                if (value && value->line > 0)
                        log_warning("sessions.%s: not built into this version: what it says does nothing yet",
                                    *name);
        }
        log_info(
                "it serves what was applied, sessions and workspaces, by HTTP and MCP; containers and the shell are not built into "
                "this version, and no route has them");
}
