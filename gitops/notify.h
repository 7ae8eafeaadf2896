/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: POSTs of JSON to the URLs that the Controller names, by a thread of their own. The loop never waits for
 * them: a queue of 256 a target; when it is full the oldest goes, and is counted as dropped. Retried with backoff and
 * jitter for up to an hour; 4xx other than 408 and 429 is final.
 *
 * Signed, where the target has a secret: `X-Berth-Timestamp: SECONDS`, `X-Berth-Signature: sha256=HEX`, an HMAC-SHA-256
 * of "SECONDS.BODY". Each has an `X-Berth-Delivery` id that stays the same over retries.
 */
#ifndef BERTH_GITOPS_NOTIFY_H
#define BERTH_GITOPS_NOTIFY_H

#include "gitops/config.h"
#include "gitops/metrics.h"

#include <jansson.h>

struct notifier;
/* -1 where a secret's file cannot be read, or a URL is none. Everything is borrowed for the notifier's life. */
int notifier_start(const struct notify_target *targets, size_t count, struct metrics *metrics,
                   struct notifier **ret, struct error *err) MUST_USE;
/* Queues `document` for every target that asked for `event`; takes over the reference. Never blocks. */
void notifier_post(struct notifier *notifier, enum notify_event event, json_t *document);
/* Gives what is queued `grace_ms` to go out, then ends the thread. NULL is fine. */
void notifier_stop(struct notifier *notifier, int64_t grace_ms);

#endif
