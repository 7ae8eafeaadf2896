/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state is looked at each second; a record is written, the place asked and the disk measured every LOOK_MS. Whether a sandbox
 * starts in the end is only known by starting one, which a probe is not worth: what is asked is what all of them need.
 */
#include "broker/ready.h"

#include "base/clock.h"
#include "base/log.h"
#include "broker/broker.h"

#define LOOK_MS 5000

static const struct {
        const char *name, *says;
} checks[READY_CHECKS] = {
        [READY_STATE] = { "state", "the state cannot be read" },
        [READY_SESSIONS] = { "sessions", "sessions cannot be opened" },
        [READY_RECORDS] = { "records", "records cannot be written" },
        [READY_PLACE] = { "place", "no sandbox can be started" },
        [READY_DISK] = { "disk", "the disk of the workspaces has less free than minFreeMB" },
};

bool ready_is(const struct ready *ready, enum ready_check check) {
        return !(atomic_load(&ready->failing) >> check & 1);
}

const char *ready_name(enum ready_check check) {
        return checks[check].name;
}

static void note(struct ready *ready, enum ready_check check, bool works, const struct error *why) {
        unsigned bit = 1U << check;

        if (works == ready_is(ready, check))
                return;
        if (works) {
                atomic_fetch_and(&ready->failing, ~bit);
                log_info("ready again: %s", checks[check].name);
        } else {
                atomic_fetch_or(&ready->failing, bit);
                log_error("not ready: %s: %s", checks[check].says, why->message);
        }
}

void ready_look(struct ready *ready, struct broker *broker, const struct error *no_sessions) {
        int64_t now_ms = clock_system.monotonic_ms(&clock_system);
        struct error err = { 0 };

        note(ready, READY_STATE, applied_check(broker->applied, &err) == 0, &err);
        /* Before the first apply, and of a stack whose code runs elsewhere, there is nothing to be ready for. */
        note(ready, READY_SESSIONS,
             !no_sessions || no_sessions->kind == ERROR_NOT_FOUND || !ready_is(ready, READY_STATE),
             no_sessions);
        if (no_sessions || !broker->sessions)
                return;
        if (now_ms < ready->next_ms && atomic_load(&ready->failing) == 0)
                return;
        ready->next_ms = now_ms + LOOK_MS;
        note(ready, READY_RECORDS, broker_sessions_check_records(broker->sessions, &err) == 0, &err);
        note(ready, READY_PLACE, broker_sessions_check_place(broker->sessions, &err) == 0, &err);
        note(ready, READY_DISK, broker_sessions_check_disk(broker->sessions, &err) == 0, &err);
}

bool ready_write(const struct ready *ready, struct strbuf *ret) {
        bool all = true;

        for (enum ready_check check = 0; check < READY_CHECKS; check++) {
                if (ready_is(ready, check))
                        continue;
                strbuf_printf(ret, "not ok: %s\n", checks[check].says);
                all = false;
        }
        if (all)
                strbuf_append(ret, "ok\n");
        return all;
}
