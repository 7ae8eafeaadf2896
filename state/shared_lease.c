/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease's text is JSON, for people too:
 *
 *     {"command":"apply","formatVersion":"1","host":"ci-7","id":"...","pid":4711,"process":"4711-...","renewals":3,
 *      "since":1769860800000,"who":"anna"}
 *
 * and {"formatVersion":"1","id":""...} where it is free. A writing whose answer is lost is looked for by id and renewals.
 */
#include "state/shared_lease.h"

#include "base/json.h"
#include "base/log.h"
#include "process/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEASE_FORMAT "1"
#define TAKES_MAX 4

/* The text */

static char *lease_text(const struct shared_lease *lease, bool released) {
        json_t *body JSON_CLEANUP = json_object();

        json_set_text(body, "formatVersion", LEASE_FORMAT);
        json_set_text(body, "id", released ? "" : lease->id);
        /* so that two that release do not write the same bytes */
        json_set_text(body, "last", lease->id);
        json_put(body, "renewals", json_integer((json_int_t)lease->renewals));
        json_set_text(body, "process", lease->process);
        json_set_text(body, "who", lease->who);
        json_set_text(body, "host", lease->host);
        json_set_text(body, "command", lease->command);
        json_put(body, "pid", json_integer(lease->pid));
        json_put(body, "since", json_integer(lease->since_ms));
        return json_compact(body);
}

/* *ret_damaged if it is not a lock of any Berth: no process can hold by it. */
static int parse_lease(const struct object_store *store, const struct object_answer *answer,
                       struct arena *arena, struct shared_lease_seen *ret, bool *ret_damaged,
                       struct error *err) {
        json_t *body JSON_CLEANUP =
                json_loadb(strbuf_text(&answer->body), answer->body.length, JSON_REJECT_DUPLICATES, NULL);
        const char *format = json_text(body, "formatVersion"), *id = json_text(body, "id"),
                   *process = json_text(body, "process");
        json_int_t renewals = json_integer_or(body, "renewals", -1);

        if (format && strcmp(format, LEASE_FORMAT) != 0)
                return error_set(err, "%s/" SHARED_LEASE_KEY " is of a newer Berth: use that one",
                                 store->place);
        *ret_damaged =
                !format || !id || !process || renewals < 0 || (*id && strlen(id) != SHARED_ID_SIZE - 1);
        if (*ret_damaged)
                return error_set(err,
                                 "%s/" SHARED_LEASE_KEY
                                 " is not a lock of Berth's, or was cut off: try again, or have it written "
                                 "again by `berth lock release --force`",
                                 store->place);
        *ret = (struct shared_lease_seen){
                .renewals = (uint64_t)renewals,
                .process = arena_strdup(arena, process),
                .who = arena_strdup(arena, json_text(body, "who")),
                .host = arena_strdup(arena, json_text(body, "host")),
                .command = arena_strdup(arena, json_text(body, "command")),
                .pid = (long)json_integer_or(body, "pid", 0),
                .since_ms = json_integer_or(body, "since", 0),
                .age_ms = -1,
        };
        snprintf(ret->id, sizeof(ret->id), "%s", id);
        snprintf(ret->etag, sizeof(ret->etag), "%s", answer->etag);
        return 0;
}

/* Looking */

/* What could not be read there (zero) is no place to compare with: two machines without /proc would pass for one. */
static bool is_dead_here(const char *process) {
        struct process_identity identity;
        const char *end;

        return identity_read(process, &identity, &end) && !*end && identity.boot && identity.namespace &&
               identity.start && identity_life(&identity) == IDENTITY_DEAD;
}

/* `mends`: what is damaged counts as free. */
static int read_lease(struct object_store *store, bool mends, struct arena *arena,
                      struct shared_lease_seen *ret, struct error *err) {
        struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
        struct shared_lease_seen seen = { 0 };
        struct error failure = { 0 };
        bool damaged = false;
        int outcome = store->ops->get(store, SHARED_LEASE_KEY, &answer, err);

        if (outcome == OBJECT_ABSENT)
                return 0;
        if (outcome != OBJECT_DONE)
                return -1;
        if (parse_lease(store, &answer, arena, &seen, &damaged, &failure) < 0) {
                if (!damaged || !mends) {
                        *err = failure;
                        return -1;
                }
                seen = (struct shared_lease_seen){ .process = "" };
                snprintf(seen.etag, sizeof(seen.etag), "%s", answer.etag);
        }
        if (answer.date_ms > 0 && answer.modified_ms > 0 &&
            answer.modified_ms <= answer.date_ms + SHARED_LEASE_SECOND_MS)
                seen.age_ms = answer.date_ms - answer.modified_ms;
        seen.alive = *seen.id && seen.age_ms <= SHARED_LEASE_MS + SHARED_LEASE_SECOND_MS &&
                     !is_dead_here(seen.process);
        *ret = seen;
        return 1;
}

int shared_lease_look(struct object_store *store, struct arena *arena, struct shared_lease_seen *ret,
                      struct error *err) {
        return read_lease(store, false, arena, ret, err);
}

const char *shared_lease_holder(const struct shared_lease_seen *seen, struct arena *arena) {
        char since[32];

        clock_format(seen->since_ms, since, sizeof(since));
        return arena_printf(arena, "process %ld on %s (%s: %s, since %s)", seen->pid,
                            seen->host ? seen->host : "?", seen->who ? seen->who : "?",
                            seen->command ? seen->command : "?", since);
}

static int refuse_held(const struct object_store *store, const struct shared_lease_seen *seen,
                       struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        return error_set_kind(
                err, ERROR_LOCKED,
                "the state in %s is locked by %s: wait until it has ended; a run that died loses the lock %d s "
                "later by itself; if it never will end, release the lock with `berth lock release --force`",
                store->place, shared_lease_holder(seen, arena), SHARED_LEASE_MS / 1000);
}

static int fail_lost(struct shared_lease *lease, const struct shared_lease_seen *seen, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        lease->held = false;
        if (!seen || !*seen->id)
                return error_set_kind(
                        err, ERROR_LOCKED,
                        "the lock of the state in %s was taken from this run (`berth lock release`): "
                        "it records nothing more; run it again",
                        lease->store->place);
        return error_set_kind(err, ERROR_LOCKED,
                              "the lock of the state in %s was taken from this run and is held by %s now: it "
                              "records nothing more; run it again when that one has ended",
                              lease->store->place, shared_lease_holder(seen, arena));
}

/* Writing */

/*
 * The machine's monotonic clock stands still while it is suspended, and the lease ends
 * nevertheless: there CLOCK_BOOTTIME counts.
 */
static int64_t lease_now_ms(const struct clock *clock) {
        struct timespec now;

        if (clock->monotonic_ms != clock_system.monotonic_ms || clock_gettime(CLOCK_BOOTTIME, &now) < 0)
                return clock->monotonic_ms(clock);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* One conditional write, with its outcome; `etag` NULL: there must be none. */
static int put(const struct shared_lease *lease, const char *etag, bool released,
               struct object_answer *answer, struct error *err) {
        char *text = lease_text(lease, released);
        struct object_store *store = lease->store;
        int outcome =
                etag ? store->ops->put_if_match(store, SHARED_LEASE_KEY, etag, text, strlen(text), answer,
                                                err)
                     : store->ops->put_if_absent(store, SHARED_LEASE_KEY, text, strlen(text), answer, err);

        free(text);
        return outcome;
}

static void note_written(struct shared_lease *lease, const char *etag, int64_t asked_ms) {
        snprintf(lease->etag, sizeof(lease->etag), "%s", etag);
        lease->asked_ms = asked_ms;
        lease->held = true;
}

static void describe_holder(struct shared_lease *lease, const char *who, const char *command) {
        struct process_identity self = identity_of_self();
        char process[IDENTITY_TEXT_SIZE];

        identity_write(&self, process);
        snprintf(lease->process, sizeof(lease->process), "%s", process);
        if (gethostname(lease->host, sizeof(lease->host) - 1) < 0)
                snprintf(lease->host, sizeof(lease->host), "localhost");
        snprintf(lease->who, sizeof(lease->who), "%s", who);
        snprintf(lease->command, sizeof(lease->command), "%s", command);
        lease->pid = (long)getpid();
        lease->since_ms = lease->clock->wall_ms(lease->clock);
        shared_new_id(lease->id);
}

/*
 * Look, then write on condition that it is as it was seen. Where the answer does not tell, the next look does: our id means that it
 * is ours, whichever of our writings arrived.
 */
int shared_lease_take(struct object_store *store, const struct clock *clock, const char *who,
                      const char *command, bool force, struct shared_lease *ret, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct shared_lease lease = { .store = store, .clock = clock };
        int64_t asked_ms = lease_now_ms(clock); /* of the first writing that may count */
        struct error failure = { 0 };

        describe_holder(&lease, who, command);
        for (int times = 0; times < TAKES_MAX; times++) {
                struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
                struct shared_lease_seen seen = { 0 };
                int found = read_lease(store, force, arena, &seen, err), outcome;

                if (found < 0)
                        return -1;
                if (found && strcmp(seen.id, lease.id) == 0) {
                        note_written(&lease, seen.etag, asked_ms);
                        *ret = lease;
                        return 0;
                }
                if (found && seen.alive && !force)
                        return refuse_held(store, &seen, err);
                if (found && *seen.id)
                        log_debug("state: %s loses the lock", shared_lease_holder(&seen, arena));
                if (times == 0)
                        asked_ms = lease_now_ms(clock);
                outcome = put(&lease, found ? seen.etag : NULL, false, &answer, &failure);
                if (outcome == OBJECT_DONE && *answer.etag) {
                        note_written(&lease, answer.etag, asked_ms);
                        *ret = lease;
                        return 0;
                }
                if (outcome < 0) {
                        *err = failure;
                        return error_context(err, "the lock of the state in %s", store->place);
                }
                if (outcome == OBJECT_MOVED || outcome == OBJECT_ABSENT)
                        error_set_kind(&failure, ERROR_LOCKED,
                                       "others take the lock of the state in %s at the same time: try again",
                                       store->place);
        }
        *err = failure;
        return -1;
}

int shared_lease_renew(struct shared_lease *lease, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
        struct shared_lease_seen seen = { 0 };
        int64_t asked_ms = lease_now_ms(lease->clock);
        struct error failure = { 0 };
        int outcome, found;

        if (!lease->held)
                return fail_lost(lease, NULL, err);
        lease->renewals++; /* of each try: what is found later must tell which of them it was, and so from when it counts */
        outcome = put(lease, lease->etag, false, &answer, &failure);
        if (outcome == OBJECT_DONE && *answer.etag) {
                note_written(lease, answer.etag, asked_ms);
                return 0;
        }
        if (outcome < 0) {
                *err = failure;
                return -1;
        }
        found = shared_lease_look(lease->store, arena, &seen, err);
        if (found < 0)
                return -1;
        if (!found || strcmp(seen.id, lease->id) != 0)
                return fail_lost(lease, found ? &seen : NULL, err);
        /*
         * Ours. Written by this call where it says so. Else it is an earlier try's, of which no answer came, and counts from then on;
         * the next try has its ETag to go on from.
         */
        snprintf(lease->etag, sizeof(lease->etag), "%s", seen.etag);
        if (seen.renewals == lease->renewals) {
                lease->asked_ms = asked_ms;
                return 0;
        }
        return error_set(err, "the lock of the state in %s was not renewed", lease->store->place);
}

int64_t shared_lease_left_ms(const struct shared_lease *lease) {
        int64_t left =
                lease->asked_ms + SHARED_LEASE_MS - SHARED_LEASE_MARGIN_MS - lease_now_ms(lease->clock);

        return lease->held && left > 0 ? left : 0;
}

void shared_lease_release(struct shared_lease *lease) {
        struct object_answer answer OBJECT_ANSWER_CLEANUP = OBJECT_ANSWER_INIT;
        struct error failure = { 0 };
        int outcome;

        if (!lease->held)
                return;
        lease->held = false;
        outcome = put(lease, lease->etag, true, &answer, &failure);
        if (outcome != OBJECT_DONE)
                log_debug("state: the lock of %s was not given back: %s", lease->store->place,
                          outcome < 0 || outcome == OBJECT_UNKNOWN ? failure.message : "it is another's");
}
