/* SPDX-License-Identifier: Apache-2.0 */
/* Connections through a passer of the test's own, in the machine's network: "outside" connects to it, and it to "inside". */
#include "providers/local/sandbox/sandbox_ports.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_S 120
#define MUCH ((size_t)4 << 20)
#define NOBODY 64321 /* a user who has nothing else on this machine */

/* Also more than there are pipes (sandbox_ports.c). */
#define SILENT 12

struct passer {
        pid_t pid;
        int inside; /* listens where it connects to */
        uint16_t port;
};

static int listen_somewhere(uint16_t *ret_port) {
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t length = sizeof(at);
        int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(made >= 0);
        assert_int_equal(bind(made, (struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(listen(made, 128), 0);
        assert_int_equal(getsockname(made, (struct sockaddr *)&at, &length), 0);
        *ret_port = ntohs(at.sin_port);
        return made;
}

/* `number`: 0: where the test listens. `before`, if any, is called in its process first. */
static struct passer start_for(uint16_t number, void (*before)(void)) {
        struct passer passer;
        uint16_t ours;
        int listener;

        passer.inside = listen_somewhere(&ours);
        number = number ? number : ours;
        listener = listen_somewhere(&passer.port);
        passer.pid = fork();
        assert_true(passer.pid >= 0);
        if (passer.pid == 0) {
                close(passer.inside);
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (before)
                        before();
                sandbox_ports_main(&listener, &number, 1);
        }
        close(listener);
        return passer;
}

static struct passer start(void (*before)(void)) {
        return start_for(0, before);
}

static void stop(struct passer *passer) {
        close(passer->inside);
        kill(passer->pid, SIGKILL);
        assert_int_equal(waitpid(passer->pid, NULL, 0), passer->pid);
}

/* Nothing of these tests waits forever. */
static void be_patient(int socket) {
        const struct timeval most = { PATIENCE_S, 0 };

        assert_int_equal(setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)), 0);
        assert_int_equal(setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)), 0);
}

struct pair {
        int outside, inside;
};

static int connect_outside(const struct passer *passer) {
        struct sockaddr_in at = { .sin_family = AF_INET,
                                  .sin_port = htons(passer->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(made >= 0);
        assert_int_equal(connect(made, (struct sockaddr *)&at, sizeof(at)), 0);
        be_patient(made);
        return made;
}

static struct pair connect_through(const struct passer *passer) {
        struct pair pair = { .outside = connect_outside(passer) };

        pair.inside = accept4(passer->inside, NULL, NULL, SOCK_CLOEXEC);
        assert_true(pair.inside >= 0);
        be_patient(pair.inside);
        return pair;
}

static void close_pair(struct pair *pair) {
        close(pair->outside);
        close(pair->inside);
}

static void reset(int socket) {
        const struct linger at_once = { 1, 0 };

        assert_int_equal(setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
        close(socket);
}

/* The byte at a place of a stream of its own, so that none can be missing, or another's. */
static unsigned char byte_at(size_t at, unsigned char key) {
        return (unsigned char)((at * 2654435761U >> 13) ^ key);
}

/*
 * So many bytes of the stream from one end to the other, both kept full; what comes must be it. Of the pieces that are sent, each
 * `urgent`-th is one urgent byte; 0: none.
 */
static void pump(int from, int to, size_t bytes, unsigned char key, size_t urgent) {
        static unsigned char piece[(size_t)256 << 10];
        size_t sent = 0, received = 0, pieces = 0;

        while (received < bytes) {
                struct pollfd polled[] = { { .fd = to, .events = POLLIN },
                                           { .fd = from, .events = sent < bytes ? POLLOUT : 0 } };
                ssize_t count;

                assert_true(poll(polled, 2, PATIENCE_S * 1000) > 0);
                if (polled[1].revents & POLLOUT) {
                        bool now = urgent && ++pieces % urgent == 0;
                        size_t length = bytes - sent < sizeof(piece) ? bytes - sent : sizeof(piece);

                        length = now ? 1 : length;
                        for (size_t i = 0; i < length; i++)
                                piece[i] = byte_at(sent + i, key);
                        count = send(from, piece, length, MSG_DONTWAIT | MSG_NOSIGNAL | (now ? MSG_OOB : 0));
                        assert_true(count > 0 || errno == EAGAIN);
                        sent += count > 0 ? (size_t)count : 0;
                }
                if (polled[0].revents) {
                        count = recv(to, piece, sizeof(piece), MSG_DONTWAIT);
                        assert_true(count > 0);
                        for (ssize_t i = 0; i < count; i++)
                                assert_int_equal(piece[i], byte_at(received++, key));
                }
        }
}

static void assert_end(int socket) {
        char byte;

        assert_int_equal(recv(socket, &byte, 1, 0), 0);
}

/* Until no more seems to be taken anywhere on the way. */
static size_t fill(int from) {
        static const char piece[64 << 10];
        size_t sent = 0;

        for (;;) {
                struct pollfd polled = { .fd = from, .events = POLLOUT };
                ssize_t count;

                if (poll(&polled, 1, 100) <= 0)
                        return sent;
                count = send(from, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);
                assert_true(count > 0 || errno == EAGAIN);
                sent += count > 0 ? (size_t)count : 0;
        }
}

static void test_each_byte_comes_and_each_end(void **state) {
        struct passer passer = start(NULL);
        struct pair pair = connect_through(&passer);

        (void)state;
        pump(pair.outside, pair.inside, MUCH, 1, 0);
        pump(pair.inside, pair.outside, MUCH, 2, 0);
        /* Half-closed, one after the other, with much in the other direction. */
        assert_int_equal(shutdown(pair.outside, SHUT_WR), 0);
        assert_end(pair.inside);
        pump(pair.inside, pair.outside, MUCH, 3, 0);
        assert_int_equal(shutdown(pair.inside, SHUT_WR), 0);
        assert_end(pair.outside);
        close_pair(&pair);
        pair = connect_through(&passer);
        assert_int_equal(shutdown(pair.inside, SHUT_WR), 0);
        assert_end(pair.outside);
        pump(pair.outside, pair.inside, MUCH, 4, 0);
        close(pair.outside);
        assert_end(pair.inside);
        close(pair.inside);
        stop(&passer);
}

static void test_urgent_bytes_lose_nothing(void **state) {
        struct passer passer = start(NULL);

        (void)state;
        for (size_t urgent = 1; urgent < 8; urgent++) {
                struct pair pair = connect_through(&passer);

                pump(pair.outside, pair.inside, urgent == 1 ? 5000 : MUCH, 5, urgent);
                pump(pair.inside, pair.outside, urgent == 1 ? 5000 : MUCH, 6, urgent);
                close_pair(&pair);
        }
        stop(&passer);
}

/* There, where the end has come as well, splice(2) says what it says at the end. */
static void test_an_urgent_byte_is_no_end(void **state) {
        static char piece[64 << 10];
        struct passer passer = start(NULL);
        int status;

        (void)state;
        for (int round = 0; round < 8; round++) {
                struct pair pair = connect_through(&passer);
                int from = round & 1 ? pair.outside : pair.inside,
                    to = round & 1 ? pair.inside : pair.outside;

                pump(from, to, MUCH, 7, 0);
                assert_int_equal(kill(passer.pid, SIGSTOP), 0);
                assert_int_equal(waitpid(passer.pid, &status, WUNTRACED), passer.pid);
                assert_int_equal(send(from, piece, 30000, MSG_DONTWAIT), 30000);
                assert_int_equal(send(from, piece, 1, MSG_DONTWAIT | MSG_OOB), 1);
                assert_int_equal(send(from, piece, 1000, MSG_DONTWAIT), 1000);
                assert_int_equal(shutdown(from, SHUT_WR), 0);
                assert_int_equal(kill(passer.pid, SIGCONT), 0);
                assert_int_equal(recv(to, piece, sizeof(piece), MSG_WAITALL), 31001);
                close_pair(&pair);
        }
        stop(&passer);
}

static void assert_broken(int socket) {
        static char piece[64 << 10];
        ssize_t count;

        do
                count = recv(socket, piece, sizeof(piece), 0);
        while (count > 0);
        assert_int_equal(count, -1);
        assert_int_equal(errno, ECONNRESET);
}

/* It is no end, and the next connection has nothing of what was on its way. */
static void test_what_breaks_is_broken_for_the_other(void **state) {
        struct passer passer = start(NULL);

        (void)state;
        for (int round = 0; round < 24; round++) {
                struct pair pair = connect_through(&passer);
                bool outside = round & 1, stalls = round & 2;
                int breaks = outside ? pair.outside : pair.inside,
                    hears = outside ? pair.inside : pair.outside;

                pump(breaks, hears, MUCH, 7, 0);
                if (stalls)
                        (void)fill(breaks);
                else
                        assert_int_equal(send(breaks, "more", 4, 0), 4);
                reset(breaks);
                assert_broken(hears);
                close(hears);
                pair = connect_through(&passer);
                pump(pair.outside, pair.inside, MUCH, 8, 0);
                pump(pair.inside, pair.outside, MUCH, 9, 0);
                close_pair(&pair);
        }
        stop(&passer);
}

/*
 * A client that has said that it sends no more, and does not read, hears of a break: and its
 * connection is not kept forever.
 */
static void test_who_does_not_read_hears_of_a_break(void **state) {
        struct passer passer = start(NULL);

        (void)state;
        for (int round = 0; round < 4; round++) {
                struct pair pair = connect_through(&passer);
                bool outside = round & 1;
                int breaks = outside ? pair.outside : pair.inside,
                    hears = outside ? pair.inside : pair.outside;
                struct pollfd polled = { .fd = hears };

                assert_int_equal(shutdown(hears, SHUT_WR), 0);
                assert_end(breaks);
                (void)fill(breaks);
                reset(breaks);
                assert_int_equal(poll(&polled, 1, PATIENCE_S * 1000), 1);
                assert_true(polled.revents & POLLERR);
                close(hears);
        }
        stop(&passer);
}

/* What the kernel says of a process, behind its name (proc(5)). */
static const char *read_stat(pid_t pid, char *line, int size) {
        char path[64];
        const char *end;
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        file = fopen(path, "re");
        assert_non_null(file);
        assert_non_null(fgets(line, size, file));
        fclose(file);
        end = strrchr(line, ')');
        assert_non_null(end);
        return end + 1;
}

/* In clock ticks. */
static unsigned long time_used(pid_t pid) {
        unsigned long user = 0, system = 0;
        char line[1024];
        const char *stat = read_stat(pid, line, sizeof(line));

        assert_int_equal(sscanf(stat, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system),
                         2);
        return user + system;
}

/*
 * A passer that spins has no half second without: a passer that waits has some at last, on any
 * machine.
 */
static void assert_waits(pid_t pid) {
        const struct timespec while_ = { 0, 500 * 1000 * 1000 };

        for (int i = 0; i < 2 * PATIENCE_S; i++) {
                unsigned long before = time_used(pid);

                nanosleep(&while_, NULL);
                if (time_used(pid) == before)
                        return;
        }
        fail_msg("it never waits");
}

/* Both ends said, and what is on its way not taken: such a socket is always ready for something. */
static void test_nobody_spins(void **state) {
        struct passer passer = start(NULL);
        struct pair pair = connect_through(&passer);
        size_t left;

        (void)state;
        assert_int_equal(shutdown(pair.outside, SHUT_WR), 0);
        assert_end(pair.inside);
        left = fill(pair.inside);
        assert_waits(passer.pid);
        assert_int_equal(shutdown(pair.inside, SHUT_WR), 0);
        assert_waits(passer.pid);
        while (left > 0) {
                static char piece[64 << 10];
                ssize_t count = recv(pair.outside, piece, sizeof(piece), 0);

                assert_true(count > 0);
                left -= (size_t)count;
        }
        assert_end(pair.outside);
        close_pair(&pair);
        stop(&passer);
}

/*
 * More clients that do not read than there are pipes: each keeps what was sent to it, and others go
 * on.
 */
static void test_who_does_not_read_holds_up_nobody_else(void **state) {
        struct passer passer = start(NULL);
        struct pair silent[SILENT], pair;
        size_t sent[SILENT];

        (void)state;
        for (size_t i = 0; i < SILENT; i++) {
                silent[i] = connect_through(&passer);
                pump(silent[i].inside, silent[i].outside, MUCH, 10, 0);
                sent[i] = fill(silent[i].inside);
        }
        pair = connect_through(&passer);
        pump(pair.outside, pair.inside, MUCH, 11, 0);
        pump(pair.inside, pair.outside, MUCH, 12, 0);
        close_pair(&pair);
        for (size_t i = 0; i < SILENT; i++) {
                static char piece[64 << 10];
                ssize_t count;

                assert_int_equal(shutdown(silent[i].inside, SHUT_WR), 0);
                while ((count = recv(silent[i].outside, piece, sizeof(piece), 0)) > 0)
                        sent[i] -= (size_t)count;
                assert_int_equal(count, 0);
                assert_int_equal(sent[i], 0);
                close_pair(&silent[i]);
        }
        stop(&passer);
}

/* A server that closes before reading all breaks the connection; and has answered. */
static void test_an_answer_before_a_break_comes(void **state) {
        struct passer passer = start(NULL);

        (void)state;
        for (int round = 0; round < 4; round++) {
                struct pair pair = connect_through(&passer);
                char answer[7];

                (void)fill(pair.outside);
                assert_int_equal(send(pair.inside, "enough!", 7, 0), 7);
                close(pair.inside);
                assert_int_equal(recv(pair.outside, answer, sizeof(answer), MSG_WAITALL), 7);
                assert_memory_equal(answer, "enough!", 7);
                assert_broken(pair.outside);
                close(pair.outside);
        }
        stop(&passer);
}

static char state_of(pid_t pid) {
        char line[1024];

        return read_stat(pid, line, sizeof(line))[1];
}

/* With bytes still on their way: the reader must not take a part for the whole. */
static void test_a_passer_that_is_killed_breaks_what_it_has(void **state) {
        struct passer passer = start(NULL);
        struct pair pair = connect_through(&passer), idle = connect_through(&passer);
        struct pollfd polled = { .fd = pair.inside, .events = POLLOUT };

        (void)state;
        pump(idle.inside, idle.outside, MUCH, 15, 0);
        /* It has something for `outside` once it waits and reads no more. */
        do
                (void)fill(pair.inside);
        while (poll(&polled, 1, 0) != 0 || state_of(passer.pid) != 'S' || poll(&polled, 1, 0) != 0);
        stop(&passer);
        assert_broken(pair.outside);
        assert_end(idle.outside);
        close_pair(&pair);
        close_pair(&idle);
}

static uint16_t itself;

/* A network of its own, where a port for oneself is this one or none. */
static void have_one_port(void) {
        char range[32];
        struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };
        int made, file;

        if (unshare(CLONE_NEWNET) < 0)
                return;
        made = socket(AF_INET, SOCK_DGRAM, 0);
        (void)ioctl(made, SIOCSIFFLAGS, &loopback);
        close(made);
        file = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
        (void)snprintf(range, sizeof(range), "%u %u", itself, itself);
        (void)!write(file, range, strlen(range));
        close(file);
}

/* Where no program listens, no client hears itself. */
static void test_nobody_is_connected_to_himself(void **state) {
        struct passer passer;
        int made = listen_somewhere(&itself);

        (void)state;
        close(made);
        passer = start_for(itself, have_one_port);
        made = connect_outside(&passer);
        (void)send(made, "myself?", 7, MSG_NOSIGNAL);
        assert_broken(made);
        close(made);
        stop(&passer);
}

static void have_few_descriptors(void) {
        const struct rlimit few = { 40, 40 };

        if (setrlimit(RLIMIT_NOFILE, &few) < 0)
                _exit(EXIT_FAILURE);
}

/* As a user whose limit of pipe pages is used up. */
static void have_no_pipes(void) {
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                _exit(EXIT_FAILURE);
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
                _exit(EXIT_FAILURE);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* which a change of user forgets */
        for (rlim_t i = 0; i < 20 && i * 2 + 200 < files.rlim_max; i++) {
                int ends[2];

                if (pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[0], F_SETPIPE_SZ, 1 << 20) < 0)
                        return;
        }
        for (rlim_t i = 0; i < 5000 && i * 2 + 300 < files.rlim_max; i++) {
                int ends[2];

                if (pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[0], F_GETPIPE_SZ) < (16 << 10))
                        return;
        }
}

static void assert_passes_much(void (*before)(void)) {
        struct passer passer = start(before);
        struct pair pair = connect_through(&passer);

        pump(pair.outside, pair.inside, MUCH, 13, 0);
        pump(pair.inside, pair.outside, MUCH, 14, 0);
        close_pair(&pair);
        stop(&passer);
}

static void test_without_pipes_there_is_a_buffer(void **state) {
        (void)state;
        assert_passes_much(have_few_descriptors);
        if (geteuid() == 0)
                assert_passes_much(have_no_pipes);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_byte_comes_and_each_end),
                cmocka_unit_test(test_urgent_bytes_lose_nothing),
                cmocka_unit_test(test_an_urgent_byte_is_no_end),
                cmocka_unit_test(test_what_breaks_is_broken_for_the_other),
                cmocka_unit_test(test_who_does_not_read_hears_of_a_break),
                cmocka_unit_test(test_nobody_spins),
                cmocka_unit_test(test_who_does_not_read_holds_up_nobody_else),
                cmocka_unit_test(test_an_answer_before_a_break_comes),
                cmocka_unit_test(test_a_passer_that_is_killed_breaks_what_it_has),
                cmocka_unit_test(test_nobody_is_connected_to_himself),
                cmocka_unit_test(test_without_pipes_there_is_a_buffer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
