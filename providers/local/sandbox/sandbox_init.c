/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process 1 of the PID namespace around a sandbox. Bubblewrap makes another one within it, whose process 1 is bubblewrap's
 * and of the same user as the program: a program can trace it, rewrite it, and make it forget that it should die. This one it
 * cannot see, and it is not dumpable. When it dies, in whatever way, the kernel kills every process of both namespaces.
 *
 * It dies with bubblewrap, with the worker (PR_SET_PDEATHSIG, and the end of its channel), when the worker kills it, and by a
 * clock of its own a little after the deadline, in case the worker was stopped. It keeps open what `held` names: locks that
 * are free once the run is dead.
 */
#include "base/clock.h"
#include "base/files.h"
#include "base/libc.h"
#include "egress/proxy.h"
#include "process/frame.h"
#include "providers/local/sandbox/sandbox_network.h"
#include "providers/local/sandbox/sandbox_parts.h"
#include "providers/local/sandbox/sandbox_ports.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLED_FIRST "1000" /* proc(5): the most */
#define LEFT_MS 1000
/* Of the proxy: beside standard input, output and errors, which lead nowhere, it has this one. */
#define PROXY_CHANNEL 3
/* Above all that is open before they come. */
#define PORTS_FIRST 200

/* Bubblewrap, and then the sandbox, is started without anything of ours in its environment. */
static char *const no_environment[] = { NULL };

static void give_up(int channel, const struct error *err) __attribute__((noreturn));
static void give_up(int channel, const struct error *err) {
        struct error ignored;

        (void)!frame_send(channel, INIT_FAILED, err->message, strlen(err->message), NULL, 0, &ignored);
        _exit(EXIT_FAILURE);
}

/* The child that becomes bubblewrap. Descriptors 0 to 2 become the program's; the passed ones get the numbers it was told. */
static void become_bubblewrap(const struct sandbox_init *init, const struct frame *go,
                              const char *const *words) __attribute__((noreturn));
static void become_bubblewrap(const struct sandbox_init *init, const struct frame *go,
                              const char *const *words) {
        unsigned last = SANDBOX_DESCRIPTORS_FIRST + (unsigned)go->count - 3;
        struct error err;
        sigset_t none;

        for (int number = 1; number < NSIG; number++)
                signal(number, SIG_DFL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (size_t i = 0; i < go->count; i++) {
                int number = i < 3 ? (int)i : SANDBOX_DESCRIPTORS_FIRST + (int)i - 3;

                if (dup2(go->descriptors[i], number) < 0) {
                        dprintf(STDERR_FILENO,
                                "too few files may be open here: ulimit -n must be %d or more\n",
                                SANDBOX_DESCRIPTORS_FIRST + SANDBOX_DESCRIPTORS_MAX);
                        _exit(EXIT_FAILURE);
                }
        }
        if (close_range(3, SANDBOX_DESCRIPTORS_FIRST - 1, 0) < 0 || close_range(last, ~0U, 0) < 0)
                _exit(EXIT_FAILURE);
        setsid();
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != 1)
                _exit(EXIT_FAILURE);
        if (sandbox_set_limits(init->placing, &err) < 0) {
                dprintf(STDERR_FILENO, "%s\n", err.message);
                _exit(EXIT_FAILURE);
        }
        execve(words[0], (char *const *)words, no_environment);
        dprintf(STDERR_FILENO, "cannot start %s: %s\n", words[0], strerror(errno));
        _exit(EXIT_FAILURE);
}

/*
 * Until bubblewrap has ended, and the processes that it left: in the namespace every orphan becomes
 * a child of ours, the inner process 1 first of all, and only reaped children are counted in the
 * run's usage. A program may hold that one up: not for long, and then it is killed with us.
 */
static void wait_for_the_end(const struct sandbox_init *init, pid_t bubblewrap, pid_t proxy, pid_t ports,
                             int64_t until_ms, int children) __attribute__((noreturn));
static void wait_for_the_end(const struct sandbox_init *init, pid_t bubblewrap, pid_t proxy, pid_t ports,
                             int64_t until_ms, int children) {
        struct pollfd polled[] = { { .fd = children, .events = POLLIN },
                                   { .fd = init->channel, .events = POLLIN } };

        for (;;) {
                int64_t left = until_ms - clock_now_ms();
                struct signalfd_siginfo ignored;
                struct error lost;
                pid_t ended;

                if (left <= 0)
                        _exit(bubblewrap == 0 ? EXIT_SUCCESS : SANDBOX_INIT_LATE);
                if (poll(polled, 2, left < INT_MAX ? (int)left : INT_MAX) < 0 && errno != EINTR)
                        _exit(EXIT_FAILURE);
                /* The worker has nothing more to say: it is gone. */
                if (polled[1].revents)
                        _exit(EXIT_FAILURE);
                if (polled[0].revents)
                        (void)!read(children, &ignored, sizeof(ignored));
                while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) {
                        if (ended == bubblewrap) {
                                bubblewrap = 0;
                                until_ms = clock_now_ms() + LEFT_MS;
                                /* It tells what it has not told yet. */
                                if (proxy > 0)
                                        kill(proxy, SIGTERM);
                                if (ports > 0)
                                        kill(ports, SIGKILL);
                        }
                        /*
                         * New connections would wait forever: the sandbox ends, and may be started
                         * again.
                         */
                        if (ended == ports && bubblewrap != 0) {
                                (void)error_set(&lost, "what passes on its ports was killed");
                                give_up(init->channel, &lost);
                        }
                        if (ended == proxy)
                                proxy = 0;
                }
                if (bubblewrap == 0 && ended < 0)
                        _exit(EXIT_SUCCESS);
        }
}

/*
 * Lasting namespaces have inodes, which can be locked and watched: that of time would be the machine's. It holds for processes that
 * are started from here on. Kernels without such a namespace have no such inode.
 */
static int leave_time(struct error *err) {
        return unshare(CLONE_NEWTIME) < 0 && errno != EINVAL
                       ? error_set(
                                 err,
                                 "cannot make a time namespace (user.max_time_namespaces above 0 is needed): %s",
                                 strerror(errno))
                       : 0;
}

/*
 * A /proc of this PID namespace: bubblewrap looks its own child up there, and in the outer /proc
 * that id is another process's, or in a container mostly unused. In a mount namespace apart, since
 * the worker, which shares the other one, is not in this PID namespace and needs a /proc where it
 * is.
 */
static int mount_proc(struct error *err) {
        if (unshare(CLONE_NEWNS) < 0 ||
            mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
                return error_set(
                        err,
                        "cannot mount a /proc (%s): a container must be allowed to, and see all of its own "
                        "(docker: --privileged, or --security-opt systempaths=unconfined)",
                        strerror(errno));
        return 0;
}

/*
 * The way out, made before the network is another one: so the proxy is in the machine's, and yet within this PID namespace and this
 * cgroup. It ends with us, what it keeps is counted against the run, and nothing in the sandbox sees it. Of all that we hold it keeps
 * its channel alone.
 */
static pid_t start_proxy(const struct sandbox_init *init) {
        pid_t pid = init->proxy < 0 ? 0 : fork();
        struct error err;
        int null;

        if (init->proxy < 0 || pid != 0)
                return pid;
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
            dup2(null, STDERR_FILENO) < 0 || (!init->born && cgroup_enter(init->doors) < 0) ||
            sandbox_drop_rights(init->placing, &err) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
            getppid() != 1 || dup2(init->proxy, PROXY_CHANNEL) < 0 ||
            close_range(PROXY_CHANNEL + 1, ~0U, 0) < 0)
                _exit(EXIT_FAILURE);
        proxy_main(PROXY_CHANNEL, &init->placing->network);
}

/* It takes as long as all of the worker's mounts, and goes on beside them. The worker comes after us into it. */
static int make_network(const struct sandbox_init *init, int ret[3], uint16_t *ret_port, struct error *err) {
        if ((init->network >= 0 ? sandbox_network_join(init->network, &ret[1], err)
                                : sandbox_network_make(&ret[1], err)) < 0 ||
            (init->proxy >= 0 && proxy_listen(&ret[2], ret_port, err) < 0))
                return -1;
        ret[0] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        return ret[0] < 0 ? error_set(err, "cannot open a network namespace: %s", strerror(errno)) : 0;
}

/*
 * The process that passes on connections from outside: in the sandbox's network, which this process
 * has joined already, in its cgroup and without rights. Of our descriptors it keeps the sockets
 * alone.
 */
static pid_t start_ports(const struct sandbox_init *init, const struct frame *frame) {
        size_t count = frame->count;
        uint16_t ports[SANDBOX_PORTS_MAX];
        int listeners[SANDBOX_PORTS_MAX], null;
        pid_t pid;

        if (count == 0 || count > SANDBOX_PORTS_MAX || frame->payload.length != count * sizeof(*ports))
                return -1;
        memcpy(ports, frame->payload.data, frame->payload.length);
        pid = fork();
        if (pid != 0)
                return pid;
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != 1 || null < 0 ||
            dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
                _exit(EXIT_FAILURE);
        close(init->channel);
        for (size_t i = 0; i < count; i++) {
                listeners[i] = fcntl(frame->descriptors[i], F_DUPFD_CLOEXEC, PORTS_FIRST);
                if (listeners[i] < 0)
                        _exit(EXIT_FAILURE);
        }
        if (close_range(STDERR_FILENO + 1, PORTS_FIRST - 1, 0) < 0)
                _exit(EXIT_FAILURE);
        sandbox_ports_main(listeners, ports, count);
}

/* For the worker, which counts them: what this /proc shows is the locks of this PID namespace. */
static int open_locks(int *ret, struct error *err) {
        *ret = open("/proc/locks", O_RDONLY | O_CLOEXEC);
        return *ret < 0 ? error_set(err, "cannot open /proc/locks: %s", strerror(errno)) : 0;
}

/*
 * Where the machine itself runs out of memory, sandboxes go before what is not in one: the server,
 * its workers, whatever else the machine does. All behind us have it, and none can take it back. An
 * ordinary user's worker cannot: the kernel gives this file of an undumpable process to root.
 */
static void be_killed_first(void) {
        int file DESCRIPTOR_CLEANUP = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

        (void)!write(file, KILLED_FIRST, strlen(KILLED_FIRST));
}

void sandbox_init_main(const struct sandbox_init *init) {
        struct frame_reader reader = FRAME_READER(init->channel);
        struct frame placed, go;
        struct arena *arena = arena_new();
        const char *const *words;
        struct error err;
        int64_t until_ms;
        sigset_t children;
        int signals, locks, network[3]; /* its namespace, its count of sockets, what the proxy listens on */
        size_t count, shown = init->proxy >= 0 ? 3 : 2;
        uint16_t port = 0;
        pid_t pid, ports = 0, proxy;

        be_killed_first();
        proxy = start_proxy(init);
        for (size_t i = 0; i < init->unwanted_count; i++)
                close(init->unwanted[i]);
        if (proxy < 0) {
                (void)error_set(&err, "cannot start a process: %s", strerror(errno));
                give_up(init->channel, &err);
        }
        if (init->proxy >= 0)
                close(init->proxy);
        if (make_network(init, network, &port, &err) < 0)
                give_up(init->channel, &err);
        if (frame_send(init->channel, INIT_NETWORK, &port, sizeof(port), network, shown, &err) < 0)
                _exit(EXIT_FAILURE);
        for (size_t i = 0; i < shown; i++)
                close(network[i]);
        if (init->network >= 0)
                close(init->network);
        if (!init->born && cgroup_enter(init->doors) < 0) {
                (void)error_set(&err, "cannot enter the cgroup that was made for it: %s", strerror(errno));
                give_up(init->channel, &err);
        }
        if (frame_receive(&reader, &placed, &err) != FRAME_WHOLE || placed.type != INIT_PLACED)
                _exit(EXIT_FAILURE);
        frame_release(&placed);
        if (mount_proc(&err) < 0 || leave_time(&err) < 0 || open_locks(&locks, &err) < 0 ||
            sandbox_drop_rights(init->placing, &err) < 0)
                give_up(init->channel, &err);
        /* After the change of user, which forgets it. A worker that died before is seen by its end of the channel. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                _exit(EXIT_FAILURE);
        sigemptyset(&children);
        sigaddset(&children, SIGCHLD);
        sigprocmask(SIG_BLOCK, &children, NULL);
        signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signals < 0 || frame_send(init->channel, INIT_READY, NULL, 0, &locks, 1, &err) < 0)
                _exit(EXIT_FAILURE);
        close(locks);
        if (frame_receive(&reader, &go, &err) != FRAME_WHOLE)
                _exit(EXIT_FAILURE);
        if (go.type == INIT_PORTS) {
                ports = start_ports(init, &go);
                frame_release(&go);
                if (ports < 0) {
                        err = (struct error){ 0 };
                        (void)error_set(&err, "cannot start what passes on its ports: %s", strerror(errno));
                        give_up(init->channel, &err);
                }
                if (frame_receive(&reader, &go, &err) != FRAME_WHOLE)
                        _exit(EXIT_FAILURE);
        }
        if (go.type != INIT_GO || go.count < 3 || go.payload.length < sizeof(until_ms))
                _exit(EXIT_FAILURE);
        memcpy(&until_ms, go.payload.data, sizeof(until_ms));
        if (sandbox_words_read(go.payload.data + sizeof(until_ms), go.payload.length - sizeof(until_ms),
                               arena, &words, &count, &err) < 0 ||
            count == 0)
                _exit(EXIT_FAILURE);
        pid = fork();
        if (pid == 0)
                become_bubblewrap(init, &go, words);
        if (pid < 0) {
                (void)error_set(&err, "cannot start a process: %s", strerror(errno));
                give_up(init->channel, &err);
        }
        frame_release(&go);
        wait_for_the_end(init, pid, proxy, ports, until_ms, signals);
}
