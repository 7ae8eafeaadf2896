/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state is looked at each second; a record is written, the place asked and the disk measured on
 * request. Whether a sandbox starts in the end is only known by starting one, which a probe is not
 * worth: what is asked is what all of them need.
 */
#include "broker/service/ready.h"

#include "base/clock.h"
#include "base/log.h"
#include "broker/service/broker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

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

int ready_open(struct ready *ready, struct error *err) {
        pthread_condattr_t monotonic;

        ready->wakes = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (ready->wakes < 0)
                return error_set(err, "cannot make an eventfd: %s", strerror(errno));
        atomic_init(&ready->failing, 0);
        ready->looked_ms = -1;
        if (pthread_mutex_init(&ready->lock, NULL) != 0 || pthread_condattr_init(&monotonic) != 0 ||
            pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&ready->looked, &monotonic) != 0)
                abort();
        pthread_condattr_destroy(&monotonic);
        return 0;
}

void ready_end(struct ready *ready) {
        if (ready->wakes < 0)
                return;
        pthread_mutex_lock(&ready->lock);
        ready->ended = true;
        pthread_cond_broadcast(&ready->looked);
        pthread_mutex_unlock(&ready->lock);
}

void ready_close(struct ready *ready) {
        if (ready->wakes < 0)
                return;
        pthread_cond_destroy(&ready->looked);
        pthread_mutex_destroy(&ready->lock);
        close(ready->wakes);
        ready->wakes = -1;
}

int ready_descriptor(const struct ready *ready) {
        return ready->wakes;
}

/* With the lock held: whether what was found holds still. */
static bool is_fresh(const struct ready *ready) {
        return ready->looked_ms >= 0 && clock_now_ms() - ready->looked_ms < READY_FRESH_MS;
}

bool ready_ask(struct ready *ready) {
        struct timespec until;
        int64_t until_ms;
        uint64_t seen;
        bool done;

        pthread_mutex_lock(&ready->lock);
        seen = ready->looks;
        done = is_fresh(ready);
        if (!done && !ready->asked) {
                ready->asked = true;
                ready->asked_ms = clock_now_ms();
                eventfd_write(ready->wakes, 1);
        }
        until_ms = ready->asked_ms + READY_WAIT_MS;
        until = (struct timespec){ .tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000 };
        for (int code = 0; !done && code == 0 && !ready->ended; done = ready->looks != seen)
                code = pthread_cond_timedwait(&ready->looked, &ready->lock, &until);
        pthread_mutex_unlock(&ready->lock);
        return done;
}

static bool is_asked(struct ready *ready) {
        eventfd_t count;
        bool asked;

        pthread_mutex_lock(&ready->lock);
        (void)eventfd_read(ready->wakes, &count);
        asked = ready->asked;
        pthread_mutex_unlock(&ready->lock);
        return asked;
}

static void tell_looked(struct ready *ready) {
        pthread_mutex_lock(&ready->lock);
        ready->asked = false;
        ready->looked_ms = clock_now_ms();
        ready->looks++;
        pthread_cond_broadcast(&ready->looked);
        pthread_mutex_unlock(&ready->lock);
}

static void look_closely(struct ready *ready, struct broker *broker) {
        struct error err = { 0 };

        note(ready, READY_RECORDS, broker_sessions_check_records(broker->sessions, &err) == 0, &err);
        note(ready, READY_PLACE, broker_sessions_check_place(broker->sessions, &err) == 0, &err);
        note(ready, READY_DISK, broker_sessions_check_disk(broker->sessions, &err) == 0, &err);
}

void ready_look(struct ready *ready, struct broker *broker, const struct error *no_sessions) {
        bool asked = is_asked(ready);
        struct error err = { 0 };

        note(ready, READY_STATE, applied_check(broker->applied, &err) == 0, &err);
        /* Before the first apply, and of a stack whose code runs elsewhere, there is nothing to be ready for. */
        note(ready, READY_SESSIONS,
             !no_sessions || no_sessions->kind == ERROR_NOT_FOUND || !ready_is(ready, READY_STATE),
             no_sessions);
        if (!asked && atomic_load(&ready->failing) == 0)
                return;
        if (!no_sessions && broker->sessions)
                look_closely(ready, broker);
        tell_looked(ready);
}

bool ready_write(struct ready *ready, struct strbuf *ret) {
        bool all = ready_ask(ready);

        if (!all)
                strbuf_append(ret, "not ok: the checks do not come to an end\n");

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
