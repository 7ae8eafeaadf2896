/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/unbuilt.h"

#include "base/log.h"

void unbuilt_tell(const struct broker_config *config) {
        static const char *const of_sessions[] = { "allowShared", NULL };
        const struct value *sessions = value_get(config->spec, "sessions");

        for (const char *const *name = of_sessions; *name; name++) {
                const struct value *value = value_get(sessions, *name);

                if (value && value->line > 0)
                        log_warning("sessions.%s: not built into this version: what it says does nothing yet",
                                    *name);
        }
}
