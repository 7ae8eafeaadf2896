/* SPDX-License-Identifier: Apache-2.0 */
/* Makes system calls for a berth under Valgrind, which does not know them: asked by valgrind_preload.c over socket 0. */
#define _GNU_SOURCE
#include "valgrind_calls.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
        struct call call;
        int folder;

        signal(SIGINT, SIG_IGN); /* a signal to the group is not for this one, which ends with the socket */
        signal(SIGTERM, SIG_IGN);
        while (message_receive(STDIN_FILENO, &call, sizeof(call), &folder) == 0) {
                long made = call.number == SYS_openat2
                                    ? syscall(SYS_openat2, folder, call.path, &call.how, sizeof(call.how))
                                    : syscall(SYS_pidfd_open, call.pid, call.pid_flags);
                struct answer answer = { .descriptor_errno = errno };
                int sent = message_send(STDIN_FILENO, &answer, sizeof(answer), (int)made);

                if (made >= 0)
                        close((int)made);
                if (folder >= 0)
                        close(folder);
                if (sent < 0)
                        break;
        }
        return 0;
}
