/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers that share one store: each says again and again that it lives, and looks who else does. What a server holds is its own as long
 * as it lives; where it has fallen silent, the others take it over.
 *
 *      servers_open -> servers_hold() before anything is begun that others must not begin, servers_lives() of who holds a session
 *                   -> servers_close
 *
 * No two clocks are compared. A server lives until its record has not changed for SERVERS_SILENT_MS by the clock of who looks; it stops by its
 * own clock earlier than that, whether or not it was suspended meanwhile. So at no moment do two believe to hold the same. On
 * one machine (one kernel, one namespace of processes) a process that is no more is seen at once.
 */
#ifndef BERTH_SESSIONS_SERVERS_H
#define BERTH_SESSIONS_SERVERS_H

#include "base/error.h"
#include "sessions/store.h"

#include <stdbool.h>
#include <stdint.h>

#define SERVERS_BEAT_MS 5000 /* between two records of one server, each of which is a write and a list */
#define SERVERS_SILENT_MS \
        20000 /* after so long without a new one it does not live any more; a fifth earlier it has stopped by itself */
/* In the table of sessions: one record for each server, by its number. */
#define SERVERS_PREFIX "~server/"

struct servers;

struct servers_config {
        struct session_store *store; /* borrowed; a shared one */
        const char *number;          /* this server's: 128 random bits in hex */
        int64_t beat_ms, silent_ms;  /* 0: as above. For tests: a spare fifth of the latter */
        /* Another server has ended, or this one may hold again what it could not: by a thread of this, without any lock. */
        void (*changed)(void *context);
        void *context;
};

/* Its record is written by then. */
int servers_open(const struct servers_config *config, struct servers **ret, struct error *err) MUST_USE;
/* Its record goes: others take over at once what it held. NULL is fine. */
void servers_close(struct servers *servers);
/* Any thread. False: others may take it for dead by now, or soon. What must be done by one server alone is not begun. */
bool servers_hold(struct servers *servers);
/*
 * How often that was so: where it has not changed since something was this server's, nobody has taken the server for dead in between. Any
 * thread.
 */
uint64_t servers_lapses(struct servers *servers);
/*
 * The time since the last of these, as a number: 0 where servers_hold() is false. What was written in one is this server's alone as long as the
 * number is the same: whoever lapsed in between and recovered since has another. Any thread.
 */
uint64_t servers_term(struct servers *servers);
/* 1: that server lives, as far as is known; 0: it does not, or others may take it for dead; -1: the store does not say. */
int servers_lives(struct servers *servers, const char *number, struct error *err) MUST_USE;
/* By what was seen last, without a call: that server, another one, lives. */
bool servers_know(struct servers *servers, const char *number);
/* No other lives, so nobody can have left word. */
bool servers_alone(struct servers *servers);

#endif
