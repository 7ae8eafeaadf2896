/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions/once_share.h"

#include "base/text.h"
#include "sessions/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS ((int64_t)3600 * 1000)
/* The hours that may have a key of the last ENGINE_KEY_SECONDS: those of a day, and the one that has begun. */
#define HOURS (ENGINE_KEY_SECONDS / 3600 + 1)

struct once_share {
        struct once_share *next;
        char owner[RECORD_DIGEST_SIZE];
        struct {
                int64_t hour; /* since 1970 */
                uint64_t bytes;
        } hours[HOURS]; /* each at the rest of its number by HOURS */
};

/* An hour to come, by a clock that was set back, counts until it is over. */
static bool counts(const struct once_share *share, size_t i, int64_t now_ms) {
        return share->hours[i].bytes > 0 && share->hours[i].hour > now_ms / HOUR_MS - HOURS;
}

static bool is_empty(const struct once_share *share, int64_t now_ms) {
        for (size_t i = 0; i < HOURS; i++) {
                if (counts(share, i, now_ms))
                        return false;
        }
        return true;
}

static size_t bucket_of(const char *owner) {
        return text_hash(owner) % ONCE_SHARE_BUCKETS;
}

static struct once_share *share_of(const struct once_shares *shares, const char *owner) {
        struct once_share *share = shares->buckets[bucket_of(owner)];

        while (share && strcmp(share->owner, owner) != 0)
                share = share->next;
        return share;
}

/* A new one takes the place of those beside it that are empty, so that owners who come no more are forgotten. */
static struct once_share *make_share(struct once_shares *shares, const char *owner, int64_t now_ms) {
        struct once_share **link = &shares->buckets[bucket_of(owner)], *share;

        while ((share = *link)) {
                if (!is_empty(share, now_ms)) {
                        link = &share->next;
                        continue;
                }
                *link = share->next;
                free(share);
        }
        share = calloc(1, sizeof(*share));
        if (!share)
                abort();
        snprintf(share->owner, sizeof(share->owner), "%s", owner);
        *link = share;
        return share;
}

void once_share_add(struct once_shares *shares, const char *owner, uint64_t bytes, int64_t at_ms,
                    int64_t now_ms) {
        int64_t hour = at_ms / HOUR_MS;
        struct once_share *share;
        size_t i;

        if (at_ms < 0 || hour <= now_ms / HOUR_MS - HOURS)
                return;
        i = (size_t)(hour % HOURS);
        share = share_of(shares, owner);
        if (!share)
                share = make_share(shares, owner, now_ms);
        if (!counts(share, i, now_ms))
                share->hours[i].bytes = 0;
        if (share->hours[i].bytes == 0 || share->hours[i].hour < hour)
                share->hours[i].hour = hour;
        share->hours[i].bytes += bytes;
}

void once_share_take(struct once_shares *shares, const char *owner, uint64_t bytes) {
        struct once_share *share = share_of(shares, owner);

        while (share && bytes > 0) {
                size_t last = 0;
                uint64_t part;

                for (size_t i = 1; i < HOURS; i++) {
                        if (share->hours[last].bytes == 0 ||
                            (share->hours[i].bytes > 0 && share->hours[i].hour > share->hours[last].hour))
                                last = i;
                }
                part = share->hours[last].bytes < bytes ? share->hours[last].bytes : bytes;
                if (part == 0)
                        return;
                share->hours[last].bytes -= part;
                bytes -= part;
        }
}

uint64_t once_share_bytes(const struct once_shares *shares, const char *owner, int64_t now_ms,
                          int64_t *ret_frees_ms) {
        const struct once_share *share = share_of(shares, owner);
        int64_t first = INT64_MAX;
        uint64_t total = 0;

        for (size_t i = 0; share && i < HOURS; i++) {
                if (!counts(share, i, now_ms))
                        continue;
                total += share->hours[i].bytes;
                first = share->hours[i].hour < first ? share->hours[i].hour : first;
        }
        *ret_frees_ms = total > 0 ? (first + HOURS) * HOUR_MS : now_ms;
        return total;
}

void once_shares_clear(struct once_shares *shares) {
        for (size_t i = 0; i < ONCE_SHARE_BUCKETS; i++) {
                struct once_share *share = shares->buckets[i], *next;

                for (; share; share = next) {
                        next = share->next;
                        free(share);
                }
                shares->buckets[i] = NULL;
        }
}
