/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `berth serve` in a thread of the fuzzer's process: a scratch folder with a small state that was
 * applied, three clients, and a place without sandboxes (tests/unit/sessions/fake_place.h).
 * Requests reach it through its sockets, as from any client.
 */
#ifndef BERTH_TESTS_FUZZ_SERVED_H
#define BERTH_TESTS_FUZZ_SERVED_H

#include <stdbool.h>

/* The clients. The words are what an input calls them, and beginnings of their tokens. */
enum served_who {
        SERVED_SOCKET, /* "me": by the Unix socket */
        SERVED_DESK,   /* "desk": acts for users */
        SERVED_CRON,   /* "cron": acts for itself, and may name one environment */
        SERVED_ADMIN,  /* "admin": sees all, and ends anything */
        SERVED_NOBODY, /* "nobody": has no token */
        SERVED_RAW,    /* "raw": the input's bytes are the request, as they are */
        SERVED_WHO_COUNT
};
extern const char *const served_names[SERVED_WHO_COUNT];
/* NULL for a client without a token. */
const char *served_token(enum served_who who);

/*
 * Starts it where it does not run; now and then it is stopped first, and begins again with nothing
 * but the state.
 */
void served_begin(void);
/* A connection: by the Unix socket for "me", else by TCP. */
int served_connect(enum served_who who);

/* Code that holds goes on, and none holds any more until served_settle(). */
void served_go_on(void);
/* Between two inputs, when all sessions were ended: the place forgets them. */
void served_settle(void);

#endif
