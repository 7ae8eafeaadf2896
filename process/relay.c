/* SPDX-License-Identifier: Apache-2.0 */
#include "process/relay.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PIECE 4096

/* False where there is nothing more at the moment, or ever. */
static bool pass_on(int input) {
        char bytes[PIECE];
        ssize_t count = read(input, bytes, sizeof(bytes));

        if (count < 0 && errno == EINTR)
                return true;
        if (count <= 0)
                return false;
        (void)!descriptor_write(STDERR_FILENO, bytes, (size_t)count);
        return true;
}

static void *run_relay(void *context) {
        const struct relay *relay = context;
        struct pollfd polled[] = { { .fd = relay->input, .events = POLLIN },
                                   { .fd = relay->stop, .events = POLLIN } };

        while (!(polled[1].revents & POLLIN)) {
                if (poll(polled, 2, -1) < 0)
                        continue;
                while (pass_on(relay->input))
                        ;
        }
        return NULL;
}

int relay_start(struct relay *relay, struct error *err) {
        struct relay made = RELAY_NONE;
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_set(err, "cannot make a pipe: %s", strerror(errno));
        made.input = ends[0];
        made.output = ends[1];
        made.stop = eventfd(0, EFD_CLOEXEC);
        /* Only of the end that is read here: programs write to theirs as to any other. */
        if (made.stop < 0 || fcntl(made.input, F_SETFL, O_NONBLOCK) < 0) {
                int reason = errno;

                close_descriptor(&made.input);
                close_descriptor(&made.output);
                close_descriptor(&made.stop);
                return error_set(err, "cannot watch a pipe: %s", strerror(reason));
        }
        *relay = made;
        if (pthread_create(&relay->thread, NULL, run_relay, relay) == 0)
                return 0;
        close_descriptor(&relay->input);
        close_descriptor(&relay->output);
        close_descriptor(&relay->stop);
        return error_set(err, "cannot start a thread");
}

void relay_end(struct relay *relay) {
        const uint64_t one = 1;

        if (relay->input < 0)
                return;
        while (write(relay->stop, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
        pthread_join(relay->thread, NULL);
        close_descriptor(&relay->input);
        close_descriptor(&relay->output);
        close_descriptor(&relay->stop);
}
