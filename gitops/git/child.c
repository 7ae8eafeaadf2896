/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/git/child.h"

#include "base/clock.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK ((size_t)65536)
#define LOOK_MS 100 /* at interrupts: a signal may hit another thread */

struct run {
        const struct child_args *args;
        struct child_result *result;
        pid_t pid;
        int input, output; /* our ends; -1 once closed */
        size_t given;
        int64_t interrupted_ms; /* when the first interrupt was seen; 0: none yet */
};

/* The descriptors that the child shall have are duplicated onto 0, 1 and 2; all others are closed. */
static int set_actions(posix_spawn_file_actions_t *actions, const struct child_args *args, int input,
                       int output) {
        int result = posix_spawn_file_actions_adddup2(actions, input, STDIN_FILENO);

        if (result == 0)
                result = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
        if (result == 0 && args->quiet)
                result = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (result == 0)
                result = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
        return result;
}

static int set_attributes(posix_spawnattr_t *attributes, const struct child_args *args) {
        sigset_t none, all;
        int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                    (args->own_group ? POSIX_SPAWN_SETPGROUP : 0);
        int result;

        sigemptyset(&none);
        sigfillset(&all);
        sigdelset(&all, SIGKILL);
        sigdelset(&all, SIGSTOP);
        result = posix_spawnattr_setflags(attributes, (short)flags);
        if (result == 0)
                result = posix_spawnattr_setsigmask(attributes, &none);
        if (result == 0)
                result = posix_spawnattr_setsigdefault(attributes, &all);
        if (result == 0)
                result = posix_spawnattr_setpgroup(attributes, 0);
        return result;
}

/* An errno: ENOENT where there is no such program. */
static int spawn(const struct child_args *args, int input, int output, pid_t *ret) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        int result;

        if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0)
                abort();
        result = set_actions(&actions, args, input, output);
        if (result == 0)
                result = set_attributes(&attributes, args);
        if (result == 0)
                result = posix_spawnp(ret, args->arguments[0], &actions, &attributes,
                                      (char *const *)args->arguments, (char *const *)args->environment);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
        return result;
}

static void end_run(struct run *run, enum child_end end) {
        kill(run->args->own_group ? -run->pid : run->pid, SIGKILL);
        run->result->end = end;
        close_descriptor(&run->output);
}

/* Whether it has to go now. */
static bool check_stop(struct run *run, enum child_end *ret_end) {
        int64_t now = clock_system.monotonic_ms(&clock_system);

        if (run->args->interruptible && interrupt_count() > 0 && run->interrupted_ms == 0)
                run->interrupted_ms = now;
        if (now >= run->args->deadline_ms) {
                *ret_end = CHILD_LATE;
                return true;
        }
        *ret_end = CHILD_INTERRUPTED;
        return run->interrupted_ms > 0 &&
               (interrupt_count() > 1 || now - run->interrupted_ms >= run->args->grace_ms);
}

static void give_input(struct run *run) {
        const char *from = (const char *)run->args->input + run->given;
        ssize_t put = write(run->input, from, run->args->input_length - run->given);

        if (put > 0)
                run->given += (size_t)put;
        if ((put < 0 && errno != EAGAIN && errno != EINTR) || run->given == run->args->input_length)
                close_descriptor(&run->input);
}

static void take_output(struct run *run) {
        char chunk[CHUNK];
        ssize_t got = read(run->output, chunk, sizeof(chunk));

        if (got > 0 && run->result->output.length + (size_t)got > run->args->output_max)
                end_run(run, CHILD_TALKATIVE);
        else if (got > 0)
                strbuf_append_bytes(&run->result->output, chunk, (size_t)got);
        else if (got == 0 || (errno != EINTR && errno != EAGAIN))
                close_descriptor(&run->output);
}

/* Until it has closed its output, or has to go. */
static void converse(struct run *run) {
        while (run->output >= 0) {
                struct pollfd descriptors[2] = { { .fd = run->output, .events = POLLIN },
                                                 { .fd = run->input, .events = POLLOUT } };
                enum child_end end;
                int64_t left = run->args->deadline_ms - clock_system.monotonic_ms(&clock_system);

                if (check_stop(run, &end)) {
                        end_run(run, end);
                        break;
                }
                if (left > LOOK_MS)
                        left = LOOK_MS;
                if (poll(descriptors, 2, left > 0 ? (int)left : 0) < 0 && errno != EINTR)
                        abort();
                if (descriptors[1].revents)
                        give_input(run);
                if (descriptors[0].revents)
                        take_output(run);
        }
}

/* One that has closed its output, and stays, is late at the deadline like any other. */
static void wait_for(struct run *run) {
        const struct timespec moment = { .tv_nsec = 1000000 };
        bool ours = run->result->end == CHILD_EXITED;
        siginfo_t info = { 0 };

        while (ours && waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == 0) {
                enum child_end end;

                if (check_stop(run, &end)) {
                        end_run(run, end);
                        return;
                }
                nanosleep(&moment, NULL);
        }
}

static void reap(struct run *run) {
        int status = 0;

        wait_for(run);
        /* What it started itself may still be there; its own id is nobody else's before it is reaped. */
        if (run->args->own_group)
                kill(-run->pid, SIGKILL);
        while (waitpid(run->pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (run->result->end != CHILD_EXITED)
                return;
        run->result->end = WIFEXITED(status) ? CHILD_EXITED : CHILD_KILLED;
        run->result->code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
}

static void run_child(struct run *run) {
        fcntl(run->input, F_SETFL, O_NONBLOCK);
        if (run->args->input_length == 0)
                close_descriptor(&run->input);
        converse(run);
        close_descriptor(&run->input);
        reap(run);
}

int child_run(const struct child_args *args, struct child_result *ret, struct error *err) {
        int to[2] = { -1, -1 }, from[2] = { -1, -1 }, result;
        struct run run = { .args = args, .result = ret };

        *ret = (struct child_result){ .end = CHILD_EXITED };
        result = pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0 ? errno : 0;
        if (result == 0)
                result = spawn(args, to[0], from[1], &run.pid);
        close_descriptor(&to[0]);
        close_descriptor(&from[1]);
        run.input = to[1];
        run.output = from[0];
        if (result == 0)
                run_child(&run);
        close_descriptor(&run.input);
        close_descriptor(&run.output);
        if (result == ENOENT) {
                ret->end = CHILD_ABSENT;
                return 0;
        }
        return result == 0 ? 0
                           : error_set(err, "%s cannot be started: %s", args->arguments[0], strerror(result));
}
