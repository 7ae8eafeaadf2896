/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: POSTs of JSON to the URLs that the Controller names, by a thread a target. The loop never waits for
 * them: a queue of 256 a target; when it is full the oldest goes, and is counted as dropped. In order, each retried with
 * backoff and jitter (Retry-After is heeded) until it is an hour old; answers 3xx, and 4xx other than 408 and 429, are
 * final.
 *
 * Signed, where the target has a secret: `X-Berth-Timestamp: SECONDS`, of this try, and `X-Berth-Signature: sha256=HEX`,
 * an HMAC-SHA-256 of "SECONDS.BODY". Each has `X-Berth-Event`, and an `X-Berth-Delivery` id that stays the same over
 * retries. URLs may hold secrets (those of chat services do): only scheme and host are ever logged.
 */
#ifndef BERTH_GITOPS_NOTIFIER_H
#define BERTH_GITOPS_NOTIFIER_H

#include "gitops/config.h"
#include "gitops/controller_metrics.h"

#include <jansson.h>

#define NOTIFY_QUEUE 256

/* What only tests decide. */
struct notify_pace {
        int64_t first_wait_ms, longest_wait_ms; /* between tries */
        int64_t give_up_ms;                     /* the age at which one is dropped */
        int64_t timeout_ms;                     /* of one try */
};

struct notifier;
/*
 * -1 if a secret's file cannot be read or is empty, or a URL is invalid. Targets, metrics and
 * `interrupt` are borrowed for the notifier's life: at INTERRUPT_NOW no answer is waited for any
 * more; NULL never comes. A secret's file is read here, once.
 */
int notifier_start(const struct notify_target *targets, size_t count, struct metrics *metrics,
                   const struct interrupt *interrupt, struct notifier **ret, struct error *err) MUST_USE;
int notifier_start_with(const struct notify_target *targets, size_t count, struct metrics *metrics,
                        const struct interrupt *interrupt, const struct notify_pace *pace,
                        struct notifier **ret, struct error *err) MUST_USE;
/*
 * Queues `document`, with `formatVersion` added, for every target that asked for `event`; takes
 * over the reference. Never waits. Events after the beginning of notifier_stop() are dropped.
 */
void notifier_post(struct notifier *notifier, enum notify_event event, json_t *document);
/*
 * Gives what is queued `grace_ms` to go out, then ends the threads; a request that is under way
 * then may take 10 s more. The rest is counted as dropped. NULL is fine.
 */
void notifier_stop(struct notifier *notifier, int64_t grace_ms);

#endif
