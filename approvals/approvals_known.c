/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The approvals in memory: a list, the newest first, and a tree by id.
 *
 * Each change is first an entry of the log and then a change in memory, by the function by which a
 * start reads the log (apply_log_entry()): so both give the same. Where the entry cannot be written
 * nothing has changed, except for ends (approvals_end_unwritten()): an ended command stays ended.
 */
#include "approvals/approvals_parts.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

const char *const approvals_status_names[] = { "pending", "approved", "denied", "expired", "done", NULL };

static int by_id(const void *one, const void *other) {
        return strcmp(((const struct approval *)one)->id, ((const struct approval *)other)->id);
}

struct approval *approvals_find(const struct approvals *approvals, const char *id) {
        const struct approval wanted = { .id = id };
        void *found = tfind(&wanted, &approvals->by_id, by_id);

        return found ? *(struct approval **)found : NULL;
}

/* An approval that is no longer in the list. */
static void free_approval(struct approvals *approvals, struct approval *approval) {
        tdelete(approval, &approvals->by_id, by_id);
        approvals->count--;
        approvals->bytes -= approval->bytes;
        json_decref(approval->asked);
        json_decref(approval->decided);
        json_decref(approval->result);
        free(approval);
}

void approvals_forget_old(struct approvals *approvals) {
        int64_t oldest_ms = clock_wall_ms() - APPROVALS_KEPT_MS;
        struct approval **at = &approvals->newest;
        size_t count = 0, bytes = 0;

        while (*at) {
                struct approval *approval = *at;
                bool ended = approval->status != PENDING && approval->status != APPROVED;

                count++;
                bytes += approval->bytes;
                if (ended && (approval->ended_ms < oldest_ms || count > APPROVALS_KEPT_MAX ||
                              bytes > APPROVALS_KEPT_BYTES)) {
                        *at = approval->next;
                        free_approval(approvals, approval);
                } else {
                        at = &approval->next;
                }
        }
}

void approvals_forget_all(struct approvals *approvals) {
        while (approvals->newest) {
                struct approval *next = approvals->newest->next;

                free_approval(approvals, approvals->newest);
                approvals->newest = next;
        }
}

/* --- entries --- */

size_t approvals_words_bytes(const json_t *command) {
        size_t bytes = 0, index;
        const json_t *word;

        json_array_foreach (command, index, word)
                bytes += json_string_length(word) + 1;
        return bytes;
}

static void take_asked(struct approvals *approvals, json_t *entry) {
        struct approval *approval = calloc(1, sizeof(*approval));
        int64_t left_ms;

        if (!approval)
                abort();
        approval->asked = json_incref(entry);
        approval->id = json_text(entry, "id");
        approval->owner = json_text(entry, "owner");
        approval->agent = json_text(entry, "agent");
        approval->expires_ms = clock_parse(json_text(entry, "expiresAt"));
        left_ms = approval->expires_ms - clock_wall_ms();
        if (left_ms > approvals->expiry_seconds * 1000)
                left_ms = approvals->expiry_seconds * 1000;
        approval->until_ms = clock_now_ms() + left_ms;
        approval->status = json_is_true(json_object_get(entry, "trusted")) ? APPROVED : PENDING;
        approval->bytes = approvals_words_bytes(json_object_get(entry, "command")) +
                          json_string_length(json_object_get(entry, "reason"));
        approval->next = approvals->newest;
        approvals->newest = approval;
        approvals->count++;
        approvals->bytes += approval->bytes;
        if (!tsearch(approval, &approvals->by_id, by_id))
                abort();
}

static void mark_ended(struct approval *approval, enum approval_status status, const json_t *entry) {
        approval->status = status;
        approval->ended_ms = clock_parse(json_text(entry, "at"));
}

static void take_result(struct approvals *approvals, struct approval *approval, const json_t *entry) {
        json_t *result = json_object_get(entry, "result");
        size_t bytes = (size_t)json_integer_or(json_object_get(result, "stdout"), "bytesReturned", 0) +
                       (size_t)json_integer_or(json_object_get(result, "stderr"), "bytesReturned", 0);

        mark_ended(approval, DONE, entry);
        approval->result = json_incref(result);
        approval->bytes += bytes;
        approvals->bytes += bytes;
}

/* What the entry says becomes what is known. */
static void apply_log_entry(struct approvals *approvals, json_t *entry) {
        const char *event = json_text(entry, "event"), *id = json_text(entry, "id");
        struct approval *approval;

        if (!event || !id || !approvals_is_id(id))
                return;
        if (strcmp(event, "asked") == 0) {
                take_asked(approvals, entry);
                return;
        }
        approval = approvals_find(approvals, id);
        if (!approval)
                return;
        if (strcmp(event, "approved") == 0 || strcmp(event, "denied") == 0) {
                approval->decided = json_incref(entry);
                if (*event == 'a')
                        approval->status = APPROVED;
                else
                        mark_ended(approval, DENIED, entry);
        } else if (strcmp(event, "expired") == 0) {
                mark_ended(approval, EXPIRED, entry);
        } else if (strcmp(event, "began") == 0) {
                approval->began = true;
        } else if (strcmp(event, "ended") == 0) {
                take_result(approvals, approval, entry);
        }
}

/* A log of a week may have more in it than is kept. */
bool approvals_take_entry(void *context, const json_t *entry) {
        struct approvals *approvals = context;

        apply_log_entry(approvals, (json_t *)entry);
        if (approvals->count >= (size_t)2 * APPROVALS_KEPT_MAX ||
            approvals->bytes >= 2 * APPROVALS_KEPT_BYTES)
                approvals_forget_old(approvals);
        return true;
}

static void tell_followers(const struct approvals *approvals, const char *id) {
        const struct approval *approval = approvals_find(approvals, id);

        if (approvals->tell && approval)
                approvals->tell(approvals->context,
                                &(const struct approvals_news){ id, approval->owner, approval->agent,
                                                                approvals_status_names[approval->status] });
}

int approvals_write(struct approvals *approvals, json_t *entry, struct error *err) {
        json_t *owned JSON_CLEANUP = json_checked(entry);

        if (audit_append(approvals->audit, json_incref(owned), err) < 0) {
                log_error("audit: %s", err->message);
                return -1;
        }
        apply_log_entry(approvals, owned);
        if (strcmp(json_text(owned, "event"), "began") != 0)
                tell_followers(approvals, json_text(owned, "id"));
        return 0;
}

void approvals_end_unwritten(struct approvals *approvals, struct approval *approval,
                             enum approval_status status) {
        approval->status = status;
        approval->ended_ms = clock_wall_ms();
        tell_followers(approvals, approval->id);
}
