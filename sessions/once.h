/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency-Keys: what was made under one is given again, by the record that was written in the same step as what it made. */
#ifndef BERTH_SESSIONS_ONCE_H
#define BERTH_SESSIONS_ONCE_H

#include "sessions/engine_parts.h"

struct once_answer {
        const char *session; /* in the arena */
        int64_t n;           /* of the execution; 0: the session itself */
        const char *
                answer; /* of what engine_once_end() has ended; in the arena. NULL: it was no such thing, or is not kept */
        bool begun;      /* it was begun, and not ended yet */
        bool by_another; /* that was an engine that is no more, so nobody is about it */
        const char *key; /* the record, in the arena */
        uint64_t version;
};

/*
 * 1: the key was used, and this is what it made; 0: it was not, or there is none, or it is older than a day. PROBLEM_KEY_REUSED where
 * it was used for another body.
 */
int once_look(struct engine *engine, const struct engine_caller *caller, const struct engine_once *once,
              struct arena *arena, struct once_answer *ret, struct problem *problem) MUST_USE;
/* What writes it down, on the condition that nobody else has. In the arena. */
struct session_change once_change(const struct engine *engine, const struct engine_caller *caller,
                                  const struct engine_once *once, const char *session, int64_t n,
                                  int64_t now_ms, struct arena *arena);

/*
 * With the lock, before anything is done under a new key. PROBLEM_KEYS_FULL where the owner's keys take up as much as they may.
 * Over a store that servers share, each counts what it has written itself.
 */
int once_check_room(const struct engine *engine, const struct engine_caller *caller,
                    const struct engine_once *once, struct problem *problem) MUST_USE;
/* With the lock: what once_change() has made was written. */
void once_count(struct engine *engine, const struct engine_caller *caller, const struct engine_once *once);
/* With the lock: an item of the store that was written before this engine began; of what it has written itself nothing is added. */
void once_count_item(struct engine *engine, const struct session_item *item);

/* With the lock. Ends that the store did not take, until it does not take one again. */
void once_write_ends(struct engine *engine);
void once_forget_ends(struct engine *engine);

#endif
