/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/tenancy.h"

bool tenancy_desired(const struct value *spec, const struct observation *observed,
                     const struct value *recorded) {
        const struct value *said = value_get(spec, TENANCY_MEMBER);

        if (said && said->type == VALUE_BOOLEAN)
                return said->boolean;
        if (observed && !observed->exists)
                return true;
        if (observed && observed->spec)
                return value_get_boolean(observed->spec, TENANCY_MEMBER, false);
        return value_get_boolean(recorded, TENANCY_MEMBER, true);
}

int64_t tenancy_environments(int64_t concurrency) {
        if (concurrency <= 0)
                return 0;
        return concurrency > INT64_MAX / 5 ? INT64_MAX / 2 : concurrency * 5 / 2;
}
