/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/unbuilt.h"

#include "base/log.h"

int unbuilt_check(const struct broker_config *config, struct error *err) {
        if (value_get(config->spec, "tls"))
                return error_set(
                        err,
                        "tls is not built into this version: let a proxy have the certificate, and set behindProxy "
                        "instead of tls");
        return 0;
}

void unbuilt_tell(const struct broker_config *config) {
        static const char *const sections[] = { "containers", "shell", "compat" };
        static const char *const of_sessions[] = { "allowShared", NULL };
        const struct value *sessions = value_get(config->spec, "sessions");

        for (size_t i = 0; i < config->client_count; i++) {
                if (!config->clients[i].has_token)
                        log_warning(
                                "client %s: JSON Web Tokens are not built into this version: it cannot call",
                                config->clients[i].name);
        }
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
                "it serves what was applied, sessions and workspaces; containers, the shell and MCP are not built into "
                "this version, and no route has them");
}
