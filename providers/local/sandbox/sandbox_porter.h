/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's part about the files of a session, for a client that gets no descriptor of the
 * workspace: on a socket of their own they are listed, read, replaced and removed while the program
 * runs and after its end. sandbox_messages.h has the messages.
 *
 * One question at a time, and nothing waits: an answer is sent as the client takes it, and until it
 * is sent no question is read. It holds one frame each way, or one folder's list. The worker has
 * the rights of the run's user and no others.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_PORTER_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_PORTER_H

#include "base/error.h"
#include "base/strbuf.h"
#include "process/frame.h"

#include <poll.h>
#include <stdint.h>

struct sandbox_porter {
        int folder;                 /* the workspace's; borrowed */
        struct frame_reader client; /* socket -1: no client */
        struct strbuf outgoing;
        size_t outgoing_at;
        int reading;         /* a file on its way out; -1: none */
        uint64_t left;       /* of it */
        int writing;         /* a file on its way in; -1: none */
        char *name;          /* of that one, while its content comes; also where it could not be made */
        struct error failed; /* why; said when all has come */
};
#define SANDBOX_PORTER_NONE \
        { .folder = -1, .client = FRAME_READER(-1), .reading = -1, .writing = -1 }

/*
 * For a new client, whose end of a new socket *ret_socket is. The client before is not served any
 * more.
 */
int sandbox_porter_begin(struct sandbox_porter *porter, int folder, int *ret_socket,
                         struct error *err) MUST_USE;
struct pollfd sandbox_porter_poll(const struct sandbox_porter *porter);
void sandbox_porter_move(struct sandbox_porter *porter, const struct pollfd *polled);
/* What had come of a file only in part is removed. Harmless when called again. */
void sandbox_porter_end(struct sandbox_porter *porter);

#endif
