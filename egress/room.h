/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way from one socket to another, in memory of a fixed size. Sockets are never waited for. */
#ifndef BERTH_EGRESS_ROOM_H
#define BERTH_EGRESS_ROOM_H

#include <stddef.h>
#include <sys/types.h>

/* Those from `at` on, up to `length`, have not left. The caller frees `bytes` with free(). */
struct room {
        char *bytes;
        size_t at, length, size;
};

struct room room_new(size_t size);
/* How many have not left. */
size_t room_left(const struct room *room);
/* Bytes that have left give their room to the others. */
void room_shift(struct room *room);
/* The same, but not for each few bytes. */
void room_tidy(struct room *room);
/*
 * Receives at most `most` bytes. 1: some came; 0: not now, or no room; -1: nothing more comes, or
 * the socket broke.
 */
int room_fill(struct room *room, int socket, size_t most);

/* How many of these left by the socket; 0: none now; -1: it broke. */
ssize_t room_send_some(int socket, const char *bytes, size_t length);

#endif
