/* SPDX-License-Identifier: Apache-2.0 */
/* What valgrind_preload.c asks of valgrind_calls.c: a system call, and the descriptor that it gives. */
#ifndef VALGRIND_CALLS_H
#define VALGRIND_CALLS_H

#include <linux/openat2.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

struct call {
        long number; /* SYS_openat2, with a folder's descriptor; SYS_pidfd_open */
        struct open_how how;
        char path[4096];
        pid_t pid;
        unsigned pid_flags;
};

struct answer {
        int descriptor_errno; /* where no descriptor comes with it */
};

union control {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
};

/* A descriptor of -1: none. */
static inline int message_send(int socket, const void *data, size_t length, int descriptor) {
        struct iovec part = { (void *)data, length };
        union control control = { 0 };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

        if (descriptor >= 0) {
                message.msg_control = control.space;
                message.msg_controllen = sizeof(control.space);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(int));
        }
        return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)length ? 0 : -1;
}

static inline int message_receive(int socket, void *data, size_t length, int *ret_descriptor) {
        struct iovec part = { data, length };
        union control control = { 0 };
        struct msghdr message = { .msg_iov = &part,
                                  .msg_iovlen = 1,
                                  .msg_control = control.space,
                                  .msg_controllen = sizeof(control.space) };

        if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != (ssize_t)length)
                return -1;
        *ret_descriptor = -1;
        if (CMSG_FIRSTHDR(&message))
                memcpy(ret_descriptor, CMSG_DATA(&control.header), sizeof(int));
        return 0;
}

#endif
