/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's part in a session: it stands between the program's pipes and the server that opens
 * the session, and keeps bytes that were not acknowledged. sandbox_messages.h has the messages. It
 * does not interpret the program's bytes: they have numbers.
 *
 * Nothing here waits. What it keeps is bounded: beyond SANDBOX_RELAY_MAX no more is read, and the
 * program waits in its next write.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_RELAY_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_RELAY_H

#include "base/error.h"
#include "base/strbuf.h"
#include "process/frame.h"
#include "providers/local/sandbox/sandbox_checkpoint.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More than the longest message of the runtime's (17 MiB), or it could never be heard. */
#define SANDBOX_RELAY_MAX ((size_t)20 << 20)
/* A message to the program: its head and body. */
#define SANDBOX_RELAY_MESSAGE_MAX ((size_t)18 << 20)
#define SANDBOX_RELAY_PIPES 3
/* Output that no client has acknowledged keeps an idle sandbox alive for this long beyond its idle time. */
#define SANDBOX_RELAY_UNHEARD_MS 20000

struct sandbox_relay {
        int input, output, errors; /* our ends of the program's pipes; -1: closed */
        /* From the program. */
        struct strbuf kept;
        size_t dropped; /* bytes at its beginning that were heard */
        uint64_t first; /* the number of the first byte that was not */
        uint64_t told;  /* the number of the first byte that this client was not told */
        /* To it. */
        struct strbuf coming; /* pieces of a message that is not whole */
        struct strbuf asked;  /* whole ones */
        size_t asked_at;
        int64_t mark;         /* of the last whole one that had any */
        struct strbuf urgent; /* what the worker asks by itself, while `asked` waits */
        size_t urgent_at;
        /* The memory of its kernels, taken or given back. */
        struct sandbox_checkpoint checkpoint;
        bool for_client;          /* it is taken for the client that is there */
        int spare;                /* the file for a checkpoint that is taken without a request; -1: none */
        struct sandbox_wish wish; /* of that one */
        /* When the sandbox is to end, as LIFE said: sandbox_relay_over_ms(). INT64_MAX: it said nothing. */
        int64_t age_ms, idle_ms;
        /* To the client. */
        struct strbuf outgoing; /* frames */
        size_t outgoing_at;
        struct strbuf entries; /* of a walk, still to be sent */
        size_t entries_at;
        bool walks;
        int file; /* being read for the client; -1: none */
};
#define SANDBOX_RELAY_NONE                                                                                   \
        {                                                                                                    \
                .input = -1, .output = -1, .errors = -1, .checkpoint = SANDBOX_CHECKPOINT_NONE, .spare = -1, \
                .age_ms = INT64_MAX, .idle_ms = INT64_MAX                                                    \
        }

/* READY's payload. */
struct sandbox_relay_state {
        uint64_t first, end;
        int64_t mark;
};
#define SANDBOX_RELAY_STATE_SIZE 24

/* Takes our ends of the pipes. */
void sandbox_relay_begin(struct sandbox_relay *relay, int input, int output, int errors);
/* For a new client: what the last one was about to be told or had begun to ask is forgotten. */
void sandbox_relay_meet(struct sandbox_relay *relay, char ret_ready[SANDBOX_RELAY_STATE_SIZE]);
/* What to poll the pipes for; and for what the client. */
void sandbox_relay_poll(const struct sandbox_relay *relay, struct pollfd ret[SANDBOX_RELAY_PIPES]);
bool sandbox_relay_wants_to_tell(const struct sandbox_relay *relay);
/* After the poll. */
void sandbox_relay_move(struct sandbox_relay *relay, const struct pollfd polled[SANDBOX_RELAY_PIPES]);
/* All that the program's pipes still hold, once it is dead, as far as there is room. */
void sandbox_relay_drain(struct sandbox_relay *relay);
/*
 * A frame of the client's. 1: it was one of a session's; 0: another frame, for the caller; -1: it
 * is malformed.
 */
int sandbox_relay_hear(struct sandbox_relay *relay, struct frame *frame, int64_t now_ms);
/*
 * When the sandbox must end by itself; INT64_MAX: no LIFE was received. Its idleness counts only while no client is connected. A server that
 * dies before it acknowledges a result may have stored it: the worker cannot know, so the result waits for a bounded time.
 */
int64_t sandbox_relay_over_ms(const struct sandbox_relay *relay, bool has_client);
/*
 * Takes the checkpoint that ARM has prepared, for the next server: checkpoint.ended and .whole say
 * how that went. False where none was prepared, or one is under way.
 */
bool sandbox_relay_park(struct sandbox_relay *relay, int64_t now_ms);
/* A checkpoint for the client has ended: it is told. */
void sandbox_relay_tell_parked(struct sandbox_relay *relay);
/* Whether all that the program has said was heard. */
bool sandbox_relay_is_heard(const struct sandbox_relay *relay);
/* Sends as much as the client takes at once; -1 where it is gone. */
int sandbox_relay_tell(struct sandbox_relay *relay, int client);
/* A frame behind all that is still to be told. */
void sandbox_relay_append(struct sandbox_relay *relay, unsigned type, const void *payload, size_t length);

#endif
