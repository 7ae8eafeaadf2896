/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel: python3 with kernel.py in it, and the socket to it. What it says is read by kernel_word.h.
 *
 *     kernel_start(&kernel, &args, &err)
 *     kernel_send(&kernel, head, body, length, pipes)       poll kernel.socket: POLLIN, and POLLOUT while kernel_is_behind()
 *     while (kernel_receive(&kernel, &message, &err) == MESSAGE_WHOLE) ...
 *     kernel_reap(&kernel)                                  once it is known to be dead
 */
#ifndef BERTH_RUNTIME_SERVE_KERNEL_H
#define BERTH_RUNTIME_SERVE_KERNEL_H

#include "process/process.h"
#include "runtime/protocol/message.h"

/* Most of what it says is short: one read has all of it. */
#define KERNEL_AHEAD_MAX 2048

struct kernel {
        struct process process; /* pid 0: none lives */
        int socket;
        bool ready;      /* it has said so: Python runs, and the kernel in it */
        char python[33]; /* its version, from then on */
        struct message_reader reader;
        char ahead[KERNEL_AHEAD_MAX]; /* what came with a message, and belongs to the next ones */
        size_t ahead_at, ahead_length;
        struct strbuf unsent;
        size_t sent; /* bytes of `unsent` that are gone */
        int pipes
                [2]; /* to go with the first byte of the message at `pipes_at`; -1: none; the second may be missing */
        size_t pipes_at; /* in `unsent` */
};
#define KERNEL_NONE                                                        \
        {                                                                  \
                .process = PROCESS_NONE, .socket = -1, .pipes = { -1, -1 } \
        }
#define KERNEL_IS_DEAD(kernel) ((kernel)->process.pid == 0)

struct kernel_args {
        const char *python;             /* its path */
        const char *const *environment; /* ended by NULL */
        int output, errors;             /* what Python says before it is ready; borrowed */
        size_t memory_max;              /* bytes of data that each of its processes may have; 0: any */
};
int kernel_start(const struct kernel_args *args, struct kernel *ret, struct error *err) MUST_USE;

/*
 * `pipes`: NULL, or the two that become the kernel's standard output and error, or one that a
 * checkpoint is written to, and -1; the kernel's own then. At most one message with pipes at a time
 * is on its way. Bytes that are not taken at once wait; what cannot be sent at all shows in the
 * kernel's end.
 */
void kernel_send(struct kernel *kernel, const json_t *head, const void *body, size_t length,
                 const int *pipes);
void kernel_send_more(struct kernel *kernel); /* when the socket takes more */
bool kernel_is_behind(const struct kernel *kernel);
/* Bytes that it was sent and that its socket has not taken. */
size_t kernel_backlog(const struct kernel *kernel);

enum kernel_answer { KERNEL_WAIT = 0, KERNEL_WHOLE = 1, KERNEL_CLOSED = 2 };
/*
 * One message, or none yet. -1: it is invalid, and the kernel must be killed. Reads at most one
 * message's bytes, and KERNEL_AHEAD_MAX: as long as kernel_has_ahead(), there is more than the
 * socket shows.
 */
int kernel_receive(struct kernel *kernel, struct message *ret, struct error *err) MUST_USE;

bool kernel_has_ahead(const struct kernel *kernel);

/*
 * SIGINT for its process alone. It stops a task that goes on between executions; whatever else the kernel does by itself goes on. Before it is
 * ready the kernel gets none.
 */
void kernel_interrupt(const struct kernel *kernel);
/*
 * Takes the status of a kernel that is dead, and releases it. Processes that it has left behind
 * live on.
 */
struct process_status kernel_reap(struct kernel *kernel);

/*
 * Starts a program as a child in a session of its own, with the limit on its data. Processes that
 * it leaves behind are not killed with it.
 */
int kernel_start_process(const struct process_args *args, size_t memory_max, struct process *ret,
                         struct error *err) MUST_USE;

/* Generated: kernel.py as compile.py compiles it, and each of the sources by gzip. */
extern const unsigned char kernel_compiled[], kernel_source[], notebook_source[], checkpoint_source[],
        cloudpickle_source[], transfer_source[];
extern const size_t kernel_compiled_size, kernel_source_size, notebook_source_size, checkpoint_source_size,
        cloudpickle_source_size, transfer_source_size;

#endif
