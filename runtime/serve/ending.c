/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of kernels that live. One whose socket ends runs what is registered with atexit, flushes files and exits (leave() of
 * kernel.py); what it runs gets SIGINT first. Nothing else is done meanwhile but to read what is printed, since a kernel that
 * cannot write would not come to its end.
 */
#include "base/clock.h"
#include "runtime/serve/runtime_parts.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Waited for in steps: that a child is dead shows in no descriptor while SIGCHLD is pending for others. */
#define STEP_MS 20

static bool has_kernel_died(const struct context *context) {
        siginfo_t info = { 0 };

        return waitid(P_PID, (id_t)context->kernel.process.pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
               info.si_pid != 0;
}

static bool lives_any(struct runtime *runtime, const struct context *only) {
        bool lives = false;

        for (size_t i = 0; i < runtime->context_count; i++) {
                struct context *context = &runtime->contexts[i];

                if ((!only || only == context) && !KERNEL_IS_DEAD(&context->kernel) &&
                    !has_kernel_died(context))
                        lives = true;
        }
        return lives;
}

static void read_meanwhile(struct runtime *runtime) {
        struct pollfd polled[3 + RUNTIME_LINGERING_MAX] = { { runtime->signals, POLLIN, 0 },
                                                            { runtime->execution.pipes[0], POLLIN, 0 },
                                                            { runtime->execution.pipes[1], POLLIN, 0 } };
        size_t lingering = runtime->lingering_count;

        for (size_t i = 0; i < lingering; i++)
                polled[3 + i] = (struct pollfd){ runtime->lingering[i], POLLIN, 0 };
        /*
         * SIGCHLD stays pending for the code that reaps: it ends this wait at once, so that time
         * passes by sleeping only.
         */
        if (poll(polled, (nfds_t)(3 + lingering), STEP_MS) <= 0)
                return;
        for (int i = 0; i < 2; i++) {
                if (polled[1 + i].revents)
                        execution_read(runtime, i);
        }
        for (size_t i = 0; i < lingering; i++) {
                if (polled[3 + i].revents)
                        (void)late_read(runtime, polled[3 + i].fd);
        }
}

void ending_of_kernels(struct runtime *runtime, const struct context *only) {
        int64_t until_ms = clock_now_ms() + RUNTIME_GRACE_MS;

        for (size_t i = 0; i < runtime->context_count; i++) {
                struct context *context = &runtime->contexts[i];
                pid_t pid = context->kernel.process.pid;

                if (KERNEL_IS_DEAD(&context->kernel) || (only && only != context) ||
                    context->kernel.socket < 0)
                        continue;
                /* First, so that a kernel which gets the signal while no code runs finds the end before it runs any. */
                (void)shutdown(context->kernel.socket, SHUT_RDWR);
                if (runtime->execution.n > 0 && runtime->execution.context == context &&
                    runtime->execution.begun)
                        (void)descendants_signal(&runtime->known, pid, pid, SIGINT);
                else
                        kernel_interrupt(&context->kernel);
        }
        while (lives_any(runtime, only) && clock_now_ms() < until_ms)
                read_meanwhile(runtime);
}
