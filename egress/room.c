/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct room room_new(size_t size) {
        struct room room = { .bytes = malloc(size), .size = size };

        if (!room.bytes)
                abort();
        return room;
}

size_t room_left(const struct room *room) {
        return room->length - room->at;
}

void room_shift(struct room *room) {
        memmove(room->bytes, room->bytes + room->at, room_left(room));
        room->length -= room->at;
        room->at = 0;
}

void room_tidy(struct room *room) {
        if (room->at == room->length || room->at >= room->size / 2)
                room_shift(room);
}

int room_fill(struct room *room, int socket, size_t most) {
        size_t size = room->size - room->length;
        ssize_t count;

        if (size > most)
                size = most;
        if (size == 0)
                return 0;
        count = recv(socket, room->bytes + room->length, size, MSG_DONTWAIT);
        if (count > 0)
                room->length += (size_t)count;
        return count > 0 ? 1 : count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

ssize_t room_send_some(int socket, const char *bytes, size_t length) {
        ssize_t count = length ? send(socket, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

        return count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : count;
}
