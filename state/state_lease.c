/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease is one value in "meta", read and written inside write transactions, of which LMDB lets one be open at a time
 * in all processes: taking it is atomic. It carries a random token. Every later transaction of its holder looks for that
 * token first, so that a holder from whom the lease was taken writes nothing more.
 *
 * Whether a holder is alive is asked of /proc where it is of this machine, this boot and this PID namespace. Of any other
 * only the heartbeat tells, which a thread of the holder writes every HEARTBEAT_MS. A lease whose heartbeat has stopped
 * for HEARTBEAT_STALE_MS may be taken.
 */
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "process/identity.h"
#include "state/codec.h"
#include "state/shared_state.h"
#include "state/state_parts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEARTBEAT_MS 5000
#define HEARTBEAT_STALE_MS (60 * 1000)

/* This process as a holder */

struct self {
        char host[256], boot_id[64], pid_namespace[64];
};

static void read_self(struct self *ret) {
        struct strbuf boot STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;
        ssize_t length;

        memset(ret, 0, sizeof(*ret));
        if (gethostname(ret->host, sizeof(ret->host) - 1) < 0)
                snprintf(ret->host, sizeof(ret->host), "localhost");
        if (file_read("/proc/sys/kernel/random/boot_id", sizeof(ret->boot_id) - 1, &boot, &ignored) == 0)
                snprintf(ret->boot_id, sizeof(ret->boot_id), "%.*s", (int)strcspn(strbuf_text(&boot), "\n"),
                         strbuf_text(&boot));
        /* Containers of one machine share host name and boot id, yet a pid of one means nothing in another. */
        length = readlink("/proc/self/ns/pid", ret->pid_namespace, sizeof(ret->pid_namespace) - 1);
        ret->pid_namespace[length > 0 ? length : 0] = '\0';
}

static bool process_lives(const struct lease *lease) {
        uint64_t started;
        char letter;

        if (identity_look((pid_t)lease->pid, &letter, &started))
                return letter != 'Z' && letter != 'X' && started == lease->started;
        /* Not in /proc: hidden from us, which kill() sees through, or gone. */
        return kill((pid_t)lease->pid, 0) == 0 || errno == EPERM;
}

static bool is_alive(const struct lease *lease) {
        struct self self;

        read_self(&self);
        if (self.boot_id[0] && strcmp(self.host, lease->host) == 0 &&
            strcmp(self.boot_id, lease->boot_id) == 0 &&
            strcmp(self.pid_namespace, lease->pid_namespace) == 0)
                return process_lives(lease);
        return clock_wall_ms() - (int64_t)lease->heartbeat_ms <= HEARTBEAT_STALE_MS;
}

/* The value */

/* 1 and the lease, whose texts point into the store, or 0. */
static int get_lease(struct store_txn *txn, struct lease *ret, struct error *err) {
        struct slice value;
        int found = store_get(txn, STORE_META, META_LEASE, &value, err);

        if (found <= 0)
                return found;
        return codec_decode_lease(value.data, value.length, ret, err) < 0 ? -1 : 1;
}

static int put_lease(struct store_txn *txn, const struct lease *lease, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        uint8_t *bytes;
        size_t length;

        if (codec_encode_lease(lease, arena, &bytes, &length, err) < 0)
                return -1;
        return state_put_sealed(txn, STORE_META, META_LEASE, bytes, length, err);
}

int lease_is_alive(struct store_txn *txn, bool *ret_alive, struct error *err) {
        struct lease lease;
        int found = get_lease(txn, &lease, err);

        if (found < 0)
                return -1;
        *ret_alive = found && is_alive(&lease);
        return found;
}

static uint64_t own_token(struct state *state) {
        uint64_t token;

        pthread_mutex_lock(&state->lease_lock);
        token = state->lease_token;
        pthread_mutex_unlock(&state->lease_lock);
        return token;
}

int lease_check(struct state *state, struct store_txn *txn, struct error *err) {
        uint64_t token = own_token(state);
        struct lease lease;
        int found;

        if (!token)
                return 0;
        found = get_lease(txn, &lease, err);
        if (found < 0)
                return -1;
        if (found && lease.token == token)
                return 0;
        if (!found)
                return error_set_kind(
                        err, ERROR_LOCKED,
                        "the lock of the state in %s was taken from this run (`berth lock release`): "
                        "it records nothing more; run it again",
                        state->folder);
        return error_set_kind(
                err, ERROR_LOCKED,
                "the lock of the state in %s was taken from this run and is held by process %llu on "
                "%s (%s) now: it records nothing more; run it again when that one has ended",
                state->folder, (unsigned long long)lease.pid, lease.host, lease.command);
}

/* Heartbeat */

static int write_heartbeat(struct store_txn *txn, void *context, struct error *err) {
        struct state *state = context;
        struct lease lease;

        if (lease_check(state, txn, err) < 0 || get_lease(txn, &lease, err) <= 0)
                return -1;
        lease.heartbeat_ms = (uint64_t)clock_wall_ms();
        return put_lease(txn, &lease, err);
}

/*
 * A beat that fails (a full disk) is tried again at the next turn; a lease that was taken away shows at the next commit,
 * which is where it matters.
 */
static void *keep_lease(void *context) {
        struct state *state = context;
        struct timespec until = clock_after_ms(HEARTBEAT_MS);

        pthread_mutex_lock(&state->lease_lock);
        while (!state->lease_stopping) {
                struct error failure;

                if (pthread_cond_timedwait(&state->lease_stop, &state->lease_lock, &until) != ETIMEDOUT)
                        continue;
                pthread_mutex_unlock(&state->lease_lock);
                if (store_write(state->store, write_heartbeat, state, &failure) < 0)
                        log_debug("state: heartbeat: %s", failure.message);
                until = clock_after_ms(HEARTBEAT_MS);
                pthread_mutex_lock(&state->lease_lock);
        }
        pthread_mutex_unlock(&state->lease_lock);
        return NULL;
}

/* Signals are for the program's own threads. */
static int start_keeper(struct state *state, struct error *err) {
        sigset_t all, before;
        int code;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        code = pthread_create(&state->lease_thread, NULL, keep_lease, state);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return code == 0 ? 0
                         : error_set(err, "cannot start the thread that keeps the lock: %s", strerror(code));
}

/* Taking and giving back */

struct taking {
        struct state *state;
        const char *command;
        uint64_t token;
};

static int refuse_held(const struct state *state, const struct lease *lease, struct error *err) {
        char since[32];

        clock_format((int64_t)lease->since_ms, since, sizeof(since));
        return error_set_kind(
                err, ERROR_LOCKED,
                "the state in %s is locked by process %llu on %s (%s, since %s): wait until it has "
                "ended; if it never will, release the lock with `berth lock release --force`",
                state->folder, (unsigned long long)lease->pid, lease->host, lease->command, since);
}

static int take_lease_txn(struct store_txn *txn, void *context, struct error *err) {
        const struct taking *taking = context;
        struct lease lease;
        struct self self;
        char letter;
        int found = get_lease(txn, &lease, err);

        if (found < 0 || state_move_check(taking->state, txn, err) < 0)
                return -1;
        if (found && is_alive(&lease))
                return refuse_held(taking->state, &lease, err);
        if (found)
                log_debug("state: process %llu on %s died and loses the lock", (unsigned long long)lease.pid,
                          lease.host);
        read_self(&self);
        lease = (struct lease){
                .pid = (uint64_t)getpid(),
                .token = taking->token,
                .since_ms = (uint64_t)clock_wall_ms(),
                .heartbeat_ms = (uint64_t)clock_wall_ms(),
                .host = self.host,
                .boot_id = self.boot_id,
                .pid_namespace = self.pid_namespace,
                .command = taking->command,
        };
        if (!identity_look((pid_t)lease.pid, &letter, &lease.started))
                lease.started = 0;
        return put_lease(txn, &lease, err);
}

static int drop_lease_txn(struct store_txn *txn, void *context, struct error *err) {
        const uint64_t *token = context;
        struct lease lease;
        int found = get_lease(txn, &lease, err);

        if (found < 0)
                return -1;
        /* A lease of another holder is not ours to drop. */
        return found && lease.token == *token ? store_delete(txn, STORE_META, META_LEASE, err) : 0;
}

/* Asked before, so that nothing is written where the state has moved away, and behind the lease: then it stays as it is. */
static int acquire_shared(struct state *state, const char *command, struct error *err) {
        bool lives = state->moving;

        if ((!lives && state_check_lives(state, err) < 0) ||
            shared_acquire(state->shared, state->lineage, command, false, err) < 0)
                return -1;
        if (lives || state_check_lives(state, err) == 0)
                return 0;
        shared_release(state->shared);
        return -1;
}

int state_lease_acquire(struct state *state, const char *command, struct error *err) {
        struct taking taking = { .state = state, .command = command };
        struct error ignored;

        if (state_check_writable(state, err) < 0)
                return -1;
        if (state->shared)
                return acquire_shared(state, command, err);
        if (state->lease_held)
                return error_set(err, "this run holds the lock of the state in %s already", state->folder);
        while (taking.token == 0)
                random_bytes(&taking.token, sizeof(taking.token));
        if (store_write(state->store, take_lease_txn, &taking, err) < 0)
                return -1;
        state->lease_stopping = false;
        state->lease_token = taking.token;
        if (start_keeper(state, err) < 0) {
                state->lease_token = 0;
                if (store_write(state->store, drop_lease_txn, &taking.token, &ignored) < 0)
                        log_debug("state: %s", ignored.message);
                return -1;
        }
        state->lease_held = true;
        return 0;
}

void state_lease_release(struct state *state) {
        struct error failure;
        uint64_t token;

        if (state->shared)
                shared_release(state->shared);
        if (!state->lease_held)
                return;
        pthread_mutex_lock(&state->lease_lock);
        state->lease_stopping = true;
        token = state->lease_token;
        pthread_cond_signal(&state->lease_stop);
        pthread_mutex_unlock(&state->lease_lock);
        pthread_join(state->lease_thread, NULL);
        /* Where this fails the lease ends with the process. */
        if (store_write(state->store, drop_lease_txn, &token, &failure) < 0)
                log_debug("state: %s", failure.message);
        state->lease_held = false;
        state->lease_token = 0;
}

int state_lease_check(struct state *state, struct error *err) {
        return state->shared ? shared_check(state->shared, err) : 0;
}

/* Looking, and breaking */

struct showing {
        struct arena *arena;
        struct lease_holder *holder;
};

static int read_holder(struct store_txn *txn, void *context, struct error *err) {
        struct showing *showing = context;
        struct lease lease;
        int found = get_lease(txn, &lease, err);

        if (found <= 0)
                return found;
        showing->holder = arena_alloc(showing->arena, sizeof(*showing->holder));
        *showing->holder = (struct lease_holder){
                .pid = (long)lease.pid,
                .host = arena_strdup(showing->arena, lease.host),
                .boot_id = arena_strdup(showing->arena, lease.boot_id),
                .command = arena_strdup(showing->arena, lease.command),
                .since_ms = (int64_t)lease.since_ms,
                .heartbeat_ms = (int64_t)lease.heartbeat_ms,
                .alive = is_alive(&lease),
        };
        return 0;
}

int state_lease_show(struct state *state, struct arena *arena, struct lease_holder **ret, struct error *err) {
        struct showing showing = { .arena = arena };

        if (state->shared)
                return shared_show(state->shared, arena, ret, err);
        if (state->store && state_read(state, read_holder, &showing, err) < 0)
                return -1;
        *ret = showing.holder;
        return 0;
}

struct breaking {
        struct state *state;
        bool force;
};

static int break_lease(struct store_txn *txn, void *context, struct error *err) {
        const struct breaking *breaking = context;
        struct lease lease;
        int found = get_lease(txn, &lease, err);

        if (found <= 0)
                return found;
        if (!breaking->force && is_alive(&lease))
                return refuse_held(breaking->state, &lease, err);
        return store_delete(txn, STORE_META, META_LEASE, err);
}

int state_lease_break(struct state *state, bool force, struct error *err) {
        struct breaking breaking = { .state = state, .force = force };

        if (!state->store)
                return 0;
        if (state_check_writable(state, err) < 0)
                return -1;
        if (state->shared)
                return shared_break(state->shared, state->lineage, force, err);
        return store_write(state->store, break_lease, &breaking, err) < 0 ? -1 : 0;
}
