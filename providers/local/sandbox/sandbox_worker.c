/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_worker.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/libc.h"
#include "egress/proxy.h"
#include "process/frame.h"
#include "providers/local/sandbox/sandbox_files.h"
#include "providers/local/sandbox/sandbox_keeper.h"
#include "providers/local/sandbox/sandbox_locks.h"
#include "providers/local/sandbox/sandbox_network.h"
#include "providers/local/sandbox/sandbox_parts.h"
#include "providers/local/sandbox/sandbox_porter.h"
#include "providers/local/sandbox/sandbox_ports.h"
#include "providers/local/sandbox/sandbox_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_MAX 4096
/* How long processes that were killed may take to vanish. */
#define DYING_MS 10000
#define PIPES 3
#define LAST_WORDS_MS 5000
/*
 * After SIGTERM this is the time to be parked, beside the time for the checkpoint; unacknowledged
 * bytes are kept this long, too.
 */
#define LEAVING_MS 20000
#define PARK_AGAIN_MS 500
/*
 * After a request to end: a server that asked for the end and died is back by then, or will not
 * come.
 */
#define CANCELLED_MS 600000
/* How often what no limit of the kernel's counts is counted; and of a session that has been quiet for a while. */
#define LOOK_MS 200
#define QUIET_LOOK_MS 1000
#define QUIET_MS 5000
/* How often one whose sandbox is dead sees whether it can still be found. */
#define FORSAKEN_LOOK_MS 1000

struct worker {
        struct arena *arena;
        struct frame_reader reader; /* of keeper and client */
        struct sandbox_placing placing;
        int64_t patience_until_ms; /* for the client's next words */
        int64_t life_until_ms;     /* of a lasting one */
        int listener;              /* where such a one is found again */
        int address;          /* the file in which that listens: while it has a name, a client may come */
        int kept[2];          /* its own ends of output and errors, for the next client */
        struct cgroup *group; /* where this process made it itself */
        const char *bubblewrap, *stage;
        int image, disk, workspace;
        int joins;          /* the network of another sandbox, to be joined */
        int network;        /* its own, for a client of one that shares it */
        int names;          /* its /etc/hosts, open for writing; -1: it has none of ours */
        struct frame ports; /* what comes from outside */
        bool shares;        /* others may have its network */
        int sockets;        /* tells how many there are in the sandbox */
        int lock;           /* what a client gave it to hold, which is free when it ends */
        struct cgroup_doors doors;
        int held[SANDBOX_HELD_MAX];
        /* Process 1: a child of ours. */
        pid_t init;
        int init_process, channel;
        /*
         * For a sandbox with a way out: its proxy's reports, and the part of them that no client
         * has got yet.
         */
        struct {
                struct frame_reader reader;
                uint16_t port;
                struct tally unheard;
        } proxy;
        FILE *locks; /* of its PID namespace */
        struct {
                unsigned sockets, locks; /* as they were counted last */
                int64_t stirred_ms; /* when their number was another, or the program said or read something */
                int64_t due_ms;
        } hoards;
        /* The run. */
        struct sandbox_running running;
        struct frame arguments, variables; /* memory that the words lie in */
        const char *const *argv;
        size_t argument_count;
        struct sandbox_root root;
        int pipes[PIPES][2]; /* input, output, errors; [0] is read from */
        int status;          /* our end of what bubblewrap tells */
        char told[STATUS_MAX];
        size_t told_length;
        bool killed; /* by us */
        struct sandbox_ending ending;
        struct sandbox_relay relay;   /* of a session */
        struct sandbox_porter porter; /* of one whose client gets no folder */
        struct cgroup_gauges gauges;  /* for the same */
        int64_t leaves_ms;            /* it got SIGTERM: when it ends, parked or not; INT64_MAX: it did not */
        bool parks;                   /* by itself: no client is let in any more */
        int64_t park_ms;              /* when it tries that next */
};

/* --- before anything else --- */

/*
 * What the environment held is overwritten, too: /proc shows the memory in which it came. Only systemd-run is started with
 * one, and hands it on.
 */
static void forget_environment(void) {
        for (char **text = environ; text && *text; text++)
                memset(*text, 0, strlen(*text));
        clearenv();
}

/* SIGTERM makes it readable. A signal mask would go on to the program. */
static int told_to_leave = -1;

static void on_leave(int number) {
        int saved = errno;
        uint64_t one = 1;

        (void)number;
        (void)!write(told_to_leave, &one, sizeof(one));
        errno = saved;
}

static void be_a_session(void) {
        sigset_t none;

        for (int number = 1; number < NSIG; number++)
                signal(number, SIG_DFL);
        signal(SIGPIPE, SIG_IGN);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setsid();
}

/* --- PLACE --- */

/* Until RUN the socket blocks, unless its client is not the keeper that placed this worker. */
static int receive_next(struct worker *worker, struct frame *ret, struct error *err) {
        struct pollfd polled = { .fd = worker->reader.socket, .events = POLLIN };
        int answer;

        while ((answer = frame_receive(&worker->reader, ret, err)) == FRAME_WAIT) {
                int64_t left = worker->patience_until_ms - clock_now_ms();

                if (left <= 0)
                        return error_set(err, "the sandbox was not used in time: its client said nothing");
                (void)poll(&polled, 1, left < INT_MAX ? (int)left : INT_MAX);
        }
        if (answer == FRAME_CLOSED)
                _exit(EXIT_SUCCESS); /* no client is left to be told anything; process 1 ends with us */
        return answer < 0 ? -1 : 0;
}

static int receive_frame(struct worker *worker, unsigned type, struct frame *ret, struct error *err) {
        if (receive_next(worker, ret, err) < 0)
                return -1;
        if (ret->type == type)
                return 0;
        (void)error_set(err, "a message of type %u where %u should be", ret->type, type);
        frame_release(ret);
        return -1;
}

static int take_descriptors(struct worker *worker, struct frame *frame, struct error *err) {
        const struct sandbox_placing *placing = &worker->placing;
        size_t at = 0;

        if (frame->count != (size_t)placing->image + placing->born + placing->entries + placing->held +
                                    (placing->lasts ? 2U : 0U) + (placing->gauges ? 4U : 0U) + placing->disk +
                                    placing->joins)
                return error_set(err, "a message has %zu descriptors that it does not describe",
                                 frame->count);
        if (placing->image)
                worker->image = frame_take(frame, at++);
        if (placing->born)
                worker->doors.folder = frame_take(frame, at++);
        for (unsigned i = 0; i < placing->entries; i++)
                worker->doors.entries[worker->doors.count++] = frame_take(frame, at++);
        for (unsigned i = 0; i < placing->held; i++)
                worker->held[i] = frame_take(frame, at++);
        if (placing->lasts) {
                worker->listener = frame_take(frame, at++);
                worker->address = frame_take(frame, at++);
        }
        if (placing->gauges) {
                worker->gauges.memory = frame_take(frame, at++);
                worker->gauges.kills = frame_take(frame, at++);
                worker->gauges.cpu = frame_take(frame, at++);
                worker->gauges.used = frame_take(frame, at++);
        }
        if (placing->disk)
                worker->disk = frame_take(frame, at++);
        if (placing->joins)
                worker->joins = frame_take(frame, at++);
        worker->life_until_ms = placing->lasts ? clock_now_ms() + placing->limits.deadline_ms : INT64_MAX;
        return 0;
}

/* In a scope of the user's systemd that is delegated to us: the run gets a group below it, and we another. */
static int make_group(struct worker *worker, struct error *err) {
        const struct sandbox_family none = { .name = NULL }; /* the scope is in its family's slice */
        const struct cgroup_limits limits =
                sandbox_keeper_limits(&worker->placing.limits, &none, worker->arena);

        worker->group = cgroup_make_in_scope(&limits, worker->arena);
        if (!worker->group)
                return error_set(
                        err,
                        "the scope that systemd made has no memory, cpu and pids controllers for "
                        "groups below it, though the manager that made it has: berth run as the only process of "
                        "a service with Delegate=yes makes its groups itself");
        if (cgroup_doors_open(worker->group, &worker->doors) < 0)
                return error_set(err, "cannot open the cgroup: %s", strerror(errno));
        worker->placing.born = worker->doors.folder >= 0;
        worker->placing.entries = (unsigned)worker->doors.count;
        return 0;
}

static int start_init(struct worker *worker, struct error *err) {
        int pair[2], to_proxy[2] = { -1, -1 },
                     unwanted[] = { worker->reader.socket, worker->image,         worker->listener,
                                    worker->address,       worker->gauges.memory, worker->gauges.kills,
                                    worker->gauges.cpu,    worker->gauges.used,   worker->disk };
        struct sandbox_init init = {
                .placing = &worker->placing,
                .doors = &worker->doors,
                .network = worker->joins,
                .unwanted = unwanted,
                .unwanted_count = sizeof(unwanted) / sizeof(unwanted[0]),
        };

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
            (worker->placing.network.count > 0 &&
             socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, to_proxy) < 0))
                return error_set(err, "cannot make a socket: %s", strerror(errno));
        init.channel = pair[1];
        init.proxy = to_proxy[1];
        worker->proxy.reader.socket = to_proxy[0];
        worker->init = cgroup_fork(&worker->doors, &init.born);
        if (worker->init == 0) {
                close(pair[0]);
                close_descriptor(&to_proxy[0]);
                sandbox_init_main(&init);
        }
        close(pair[1]);
        close_descriptor(&to_proxy[1]);
        worker->channel = pair[0];
        if (worker->init < 0)
                return error_set(err, "cannot start a process: %s", strerror(errno));
        worker->init_process = pidfd_open(worker->init, 0);
        if (worker->init_process < 0)
                return error_set(err, "cannot watch a process: %s", strerror(errno));
        /* Process 1 has what is held as well: a slot is not free before the run is dead, whatever becomes of us. */
        cgroup_doors_close(&worker->doors);
        return 0;
}

/* The proxy waits for what it is to listen on. */
static int hand_to_proxy(struct worker *worker, struct frame *answer, struct error *err) {
        if (worker->placing.network.count == 0)
                return 0;
        if (answer->payload.length != sizeof(worker->proxy.port))
                return error_set(err, "process 1 of the sandbox does not speak as it should");
        memcpy(&worker->proxy.port, answer->payload.data, sizeof(worker->proxy.port));
        return frame_send_now(worker->proxy.reader.socket, PROXY_LISTENER, NULL, 0, &answer->descriptors[2],
                              1, err);
}

static int hear_init(const struct worker *worker, unsigned type, size_t count, struct frame *ret,
                     struct error *err) {
        struct frame_reader reader FRAME_READER_CLEANUP = FRAME_READER(worker->channel);

        if (frame_receive(&reader, ret, err) != FRAME_WHOLE)
                return error_set(err, "process 1 of the sandbox died before it was set up");
        if (ret->type == INIT_FAILED)
                return error_set(err, "%s", strbuf_text(&ret->payload));
        return ret->type == type && ret->count == count
                       ? 0
                       : error_set(err, "process 1 of the sandbox does not speak as it should");
}

/* Into its network namespace, so that we too have no other network. */
static int follow_init(struct worker *worker, struct error *err) {
        struct frame answer FRAME_CLEANUP = { 0 };

        if (hear_init(worker, INIT_NETWORK, worker->placing.network.count > 0 ? 3 : 2, &answer, err) < 0)
                return -1;
        if (setns(answer.descriptors[0], CLONE_NEWNET) < 0)
                return error_set(err, "cannot enter a network namespace: %s", strerror(errno));
        worker->network = frame_take(&answer, 0);
        worker->sockets = frame_take(&answer, 1);
        return hand_to_proxy(worker, &answer, err);
}

/* In its cgroup, with a /proc of its own, and without rights. */
static int await_init(struct worker *worker, struct error *err) {
        struct frame answer FRAME_CLEANUP = { 0 };

        if (hear_init(worker, INIT_READY, 1, &answer, err) < 0)
                return -1;
        if (!(worker->locks = fdopen(answer.descriptors[0], "re")))
                return error_set(err, "cannot count the locks of a PID namespace: %s", strerror(errno));
        (void)frame_take(&answer, 0);
        return 0;
}

/*
 * With the rights that this process was started with; when it returns they are gone. Root enters its namespaces while PLACE is
 * still worked out.
 */
static int place_worker(struct worker *worker, struct error *err) {
        struct sandbox_placing *placing = &worker->placing;
        struct frame frame FRAME_CLEANUP = { 0 };
        bool root = geteuid() == 0;
        struct error unsent;
        int sent;

        if ((root && sandbox_enter(placing, -1, err) < 0) ||
            receive_frame(worker, MESSAGE_PLACE, &frame, err) < 0 ||
            sandbox_placing_read(frame.payload.data, frame.payload.length, worker->arena, placing, err) < 0 ||
            take_descriptors(worker, &frame, err) < 0)
                return -1;
        if (root && (placing->uid == 0 || placing->gid == 0))
                return error_set(err, "nothing is run as root");
        if (placing->dies_with_parent)
                prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (placing->scope && make_group(worker, err) < 0)
                return -1;
        if (sandbox_find_bubblewrap(worker->arena, &worker->bubblewrap, NULL, err) < 0 ||
            sandbox_choose_stage(worker->bubblewrap, &worker->stage, err) < 0 ||
            (!root && sandbox_enter(placing, worker->joins, err) < 0) || start_init(worker, err) < 0 ||
            sandbox_place(placing, worker->stage, worker->bubblewrap, worker->image, worker->disk,
                          &worker->workspace, &worker->names, err) < 0)
                return -1;
        close_descriptor(&worker->image);
        close_descriptor(&worker->disk);
        close_descriptor(&worker->joins);
        /* Process 1 mounts its /proc meanwhile. If it is dead, this fails, and follow_init() returns the error that it left. */
        sent = frame_send(worker->channel, INIT_PLACED, NULL, 0, NULL, 0, &unsent);
        if (follow_init(worker, err) < 0)
                return -1;
        if (sent < 0)
                return error_set(err, "%s", unsent.message);
        if (sandbox_drop_rights(placing, err) < 0)
                return -1;
        if (placing->for_another) {
                fcntl(worker->reader.socket, F_SETFL, O_NONBLOCK);
                worker->patience_until_ms = clock_now_ms() + placing->patience_ms;
        }
        /* Again: the change of user forgot it. A parent that died meanwhile is seen by the socket's end. */
        if (placing->dies_with_parent)
                prctl(PR_SET_PDEATHSIG, SIGKILL);
        return 0;
}

/* --- RUN: from here on this process has no rights --- */

/* The words lie in the frame, which is kept. No descriptors belong to them: a run would have them open until its end. */
static int receive_words(struct worker *worker, unsigned type, struct frame *frame, const char *const **ret,
                         size_t *ret_count, struct error *err) {
        if (receive_frame(worker, type, frame, err) < 0)
                return -1;
        if (frame->count > 0)
                return error_set(err, "a message of type %u has %zu descriptors", type, frame->count);
        return sandbox_words_read(frame->payload.data, frame->payload.length, worker->arena, ret, ret_count,
                                  err);
}

/* Frames about what it shares with others come before the program, if there are any. */
static int receive_run(struct worker *worker, struct frame *ret, struct error *err) {
        struct frame *ports = &worker->ports;

        if (receive_next(worker, ret, err) < 0)
                return -1;
        if (ret->type == MESSAGE_PORTS) {
                *ports = *ret;
                *ret = (struct frame){ 0 };
                worker->shares = true;
                if (ports->count > SANDBOX_PORTS_MAX ||
                    ports->payload.length != ports->count * sizeof(uint16_t))
                        return error_set(err, "a message has %zu descriptors for its ports", ports->count);
                if (receive_next(worker, ret, err) < 0)
                        return -1;
        }
        return ret->type == MESSAGE_RUN
                       ? 0
                       : error_set(err, "a message of type %u where RUN should be", ret->type);
}

static int read_program(struct worker *worker, struct error *err) {
        struct frame frame FRAME_CLEANUP = { 0 };
        struct sandbox_running *running = &worker->running;
        struct sandbox_seen seen = { .image = worker->placing.image,
                                     .stage = worker->stage,
                                     .proxy_port = worker->proxy.port };
        int contents[SANDBOX_FILES_MAX], status[2];

        if (receive_words(worker, MESSAGE_ARGUMENTS, &worker->arguments, &worker->argv,
                          &worker->argument_count, err) < 0 ||
            receive_words(worker, MESSAGE_VARIABLES, &worker->variables, &seen.variables,
                          &seen.variable_count, err) < 0 ||
            receive_run(worker, &frame, err) < 0 ||
            sandbox_running_read(frame.payload.data, frame.payload.length, worker->arena, running, err) < 0)
                return -1;
        if (frame.count != running->file_count)
                return error_set(err, "a message has %zu descriptors for %zu files", frame.count,
                                 running->file_count);
        if (worker->argument_count == 0)
                return error_set(err, "a message says no program");
        if (seen.variable_count % 2)
                return error_set(err, "a message has a variable without a text");
        if (running->session && (!worker->placing.lasts || running->waits))
                return error_set(err, "a session is a worker's that lasts");
        if (running->deadline_ms > worker->placing.limits.deadline_ms)
                running->deadline_ms = worker->placing.limits.deadline_ms;
        for (size_t i = 0; i < running->file_count; i++)
                contents[i] = frame_take(&frame, i);
        seen.files = running->files;
        seen.contents = contents;
        seen.file_count = running->file_count;
        seen.executable = running->session;
        if (pipe2(status, O_CLOEXEC) < 0)
                return error_set(err, "cannot make a pipe: %s", strerror(errno));
        worker->status = status[0];
        return sandbox_root_prepare(&seen, status[1], &worker->root, err);
}

/*
 * READY of a session. Its folder is for a client that could keep the workspace's memory in another
 * way as well: root, or the user that the program runs as. A launcher's client is neither: it asks
 * for files, and is given what tells what the run has used.
 */
static int tell_session_ready(struct worker *worker, int client, struct error *err) {
        bool trusted = worker->placing.owner == 0 || worker->placing.owner == worker->placing.uid;
        int asks DESCRIPTOR_CLEANUP = -1;
        int given[] = { worker->workspace,  worker->gauges.memory, worker->gauges.kills,
                        worker->gauges.cpu, worker->gauges.used,   -1 };
        size_t count = !trusted && worker->placing.gauges ? 5 : 1;
        char ready[SANDBOX_RELAY_STATE_SIZE];

        if (!trusted && sandbox_porter_begin(&worker->porter, worker->workspace, &asks, err) < 0)
                return -1;
        if (!trusted)
                given[0] = asks;
        if (worker->shares)
                given[count++] = worker->network;
        sandbox_relay_meet(&worker->relay, ready);
        return frame_send_now(client, MESSAGE_READY, ready, sizeof(ready), given, count, err);
}

/* The pipes stay ours: the client gets what comes out of them as messages. */
static int begin_session(struct worker *worker, struct error *err) {
        sandbox_relay_begin(&worker->relay, worker->pipes[0][1], worker->pipes[1][0], worker->pipes[2][0]);
        worker->pipes[0][1] = worker->pipes[1][0] = worker->pipes[2][0] = -1;
        return tell_session_ready(worker, worker->reader.socket, err);
}

static int make_pipes(struct worker *worker, struct error *err) {
        for (size_t i = 0; i < PIPES; i++) {
                if (pipe2(worker->pipes[i], O_CLOEXEC) < 0)
                        return error_set(err, "cannot make a pipe: %s", strerror(errno));
        }
        return 0;
}

/* The client's ends of the pipes go to it, with the workspace where it is ours: it reads and writes them itself, when it likes. */
static int tell_ready(struct worker *worker, struct error *err) {
        int descriptors[1 + PIPES];
        size_t count = 0;

        if (worker->running.session)
                return begin_session(worker, err);
        if (!worker->placing.for_another)
                descriptors[count++] = worker->workspace;
        descriptors[count++] = worker->pipes[0][1];
        descriptors[count++] = worker->pipes[1][0];
        descriptors[count++] = worker->pipes[2][0];
        for (size_t i = 0; i < 2 && worker->placing.lasts; i++)
                worker->kept[i] = fcntl(worker->pipes[1 + i][0], F_DUPFD_CLOEXEC, 0);
        if (frame_send_now(worker->reader.socket, MESSAGE_READY, NULL, 0, descriptors, count, err) < 0)
                return -1;
        if (!worker->placing.for_another)
                close_descriptor(&worker->workspace);
        close_descriptor(&worker->pipes[0][1]);
        close_descriptor(&worker->pipes[1][0]);
        close_descriptor(&worker->pipes[2][0]);
        return 0;
}

/*
 * Where RUN asked for it: files come before it, where the client cannot put them in itself. A client may change its mind before
 * the program begins, and one that takes longer than its program may is no use.
 */
static int wait_for_go(struct worker *worker, struct error *err) {
        worker->patience_until_ms = clock_now_ms() + worker->running.deadline_ms;
        while (worker->running.waits) {
                struct frame frame FRAME_CLEANUP = { 0 };

                if (receive_next(worker, &frame, err) < 0)
                        return -1;
                if (frame.type == MESSAGE_PUT && worker->placing.for_another) {
                        if (sandbox_files_receive(worker->workspace, worker->reader.socket, &frame, err) < 0)
                                return -1;
                        continue;
                }
                worker->ending.cancelled = frame.type == MESSAGE_CANCEL;
                return frame.type == MESSAGE_GO || frame.type == MESSAGE_CANCEL
                               ? 0
                               : error_set(err, "a message of type %u where GO should be", frame.type);
        }
        return 0;
}

static void add_word(struct strbuf *words, const char *word) {
        strbuf_append_bytes(words, word, strlen(word) + 1);
}

static int start_program(struct worker *worker, int64_t until_ms, struct error *err) {
        struct strbuf message STRBUF_CLEANUP = STRBUF_INIT;
        int64_t init_until_ms = until_ms + SANDBOX_INIT_GRACE_MS;
        int descriptors[PIPES + SANDBOX_DESCRIPTORS_MAX] = { worker->pipes[0][0], worker->pipes[1][1],
                                                             worker->pipes[2][1] };
        char number[16];

        snprintf(number, sizeof(number), "%d", worker->root.words);
        strbuf_append_bytes(&message, &init_until_ms, sizeof(init_until_ms));
        add_word(&message, worker->bubblewrap);
        add_word(&message, "--args");
        add_word(&message, number);
        add_word(&message, "--");
        for (size_t i = 0; i < worker->argument_count; i++)
                add_word(&message, worker->argv[i]);
        memcpy(descriptors + PIPES, worker->root.passed.descriptors, worker->root.passed.count * sizeof(int));
        if (message.length > FRAME_PAYLOAD_MAX)
                return error_set(err, "the program's arguments are too long");
        if (worker->ports.count > 0 &&
            frame_send(worker->channel, INIT_PORTS, worker->ports.payload.data, worker->ports.payload.length,
                       worker->ports.descriptors, worker->ports.count, err) < 0)
                return -1;
        frame_release(&worker->ports);
        if (frame_send(worker->channel, INIT_GO, message.data, message.length, descriptors,
                       PIPES + worker->root.passed.count, err) < 0)
                return -1;
        sandbox_passed_close(&worker->root.passed);
        close_descriptor(&worker->pipes[0][0]);
        close_descriptor(&worker->pipes[1][1]);
        close_descriptor(&worker->pipes[2][1]);
        return 0;
}

/* --- while it runs --- */

/* Process 1 takes all others with it: that is the kernel's work, which no process in there can hold up. */
static void kill_all(struct worker *worker) {
        worker->killed = true;
        (void)pidfd_send_signal(worker->init_process, SIGKILL, NULL, 0);
        if (worker->group)
                cgroup_kill(worker->group);
}

/* Bubblewrap tells one JSON object a line: {"child-pid": 7, ...} and {"exit-code": 0}. */
static void read_status(struct worker *worker) {
        ssize_t count = read(worker->status, worker->told + worker->told_length,
                             STATUS_MAX - 1 - worker->told_length);
        const char *at;

        if (count < 0 && errno == EINTR)
                return;
        if (count <= 0) {
                close_descriptor(&worker->status);
                return;
        }
        worker->told_length += (size_t)count;
        worker->told[worker->told_length] = '\0';
        at = strstr(worker->told, "\"exit-code\"");
        if (at && (at = strchr(at, ':')) && sscanf(at + 1, "%d", &worker->ending.exit_code) == 1)
                worker->ending.started = true;
}

/*
 * A client comes to the socket of a lasting sandbox. Only its owner is let in, and replaces the
 * client before: a client that hangs must not keep its successor out.
 */
static void let_in(struct worker *worker) {
        int client DESCRIPTOR_CLEANUP = accept4(worker->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct ucred peer;
        socklen_t length = sizeof(peer);
        struct error ignored;

        if (client < 0 || getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
            peer.uid != worker->placing.owner)
                return;
        if ((worker->running.session
                     ? tell_session_ready(worker, client, &ignored)
                     : frame_send_now(client, MESSAGE_READY, NULL, 0, worker->kept, 2, &ignored)) < 0)
                return;
        frame_reader_release(&worker->reader);
        close_descriptor(&worker->reader.socket);
        worker->reader = (struct frame_reader)FRAME_READER(client);
        client = -1;
}

/*
 * No client is there, and none can come: the name of its socket is gone, with its folder perhaps.
 * Waiting for the deadline, which may be days away, would serve no client.
 */
static bool is_forsaken(const struct worker *worker) {
        struct stat status;

        return worker->address >= 0 && worker->reader.socket < 0 && fstat(worker->address, &status) == 0 &&
               status.st_nlink == 0;
}

static void drop_client(struct worker *worker) {
        sandbox_porter_end(&worker->porter);
        frame_reader_release(&worker->reader);
        close_descriptor(&worker->reader.socket);
}

/* A frame for the session itself: true. A client that says it wrongly is let go, and may come again. */
static bool hear_for_session(struct worker *worker, struct frame *frame) {
        int heard;

        if (!worker->running.session)
                return false;
        if (frame->type == MESSAGE_HOLD && frame->count == 1 && worker->lock < 0) {
                worker->lock = frame_take(frame, 0);
                return true;
        }
        if (frame->type == MESSAGE_NAMES && frame->count == 0 && worker->shares) {
                sandbox_etc_name(worker->names, frame->payload.data, frame->payload.length);
                return true;
        }
        heard = sandbox_relay_hear(&worker->relay, frame, clock_now_ms());
        if (heard < 0)
                drop_client(worker);
        return heard != 0;
}

/*
 * Messages of the client while it runs: it should end, or the client went. Acknowledgements and the
 * sandbox's lifetime come, as a rule, in front of another message.
 */
static void read_client(struct worker *worker) {
        struct frame frame FRAME_CLEANUP = { 0 };
        struct error ignored;
        int answer = frame_receive(&worker->reader, &frame, &ignored);

        for (int more = 0;
             more < 2 && answer == FRAME_WHOLE &&
             (frame.type == MESSAGE_HEARD || frame.type == MESSAGE_LIFE) && hear_for_session(worker, &frame);
             more++) {
                if (worker->reader.socket < 0)
                        return;
                frame_release(&frame);
                answer = frame_receive(&worker->reader, &frame, &ignored);
        }
        if (answer == FRAME_WAIT || (answer == FRAME_WHOLE && hear_for_session(worker, &frame)))
                return;
        /* Anything else than a well-formed CANCEL comes from a client that is not ours: the same end. */
        if (answer != FRAME_WHOLE)
                close_descriptor(&worker->reader.socket);
        if (answer != FRAME_WHOLE && worker->placing.lasts) {
                frame_reader_release(&worker->reader);
                return;
        }
        worker->ending.cancelled = !worker->ending.deadline;
        kill_all(worker);
}

/* --- parking a session --- */

/* Without it, SIGTERM would end the worker of a session at once, and what is in memory with it. */
static int heed_leave(struct worker *worker, struct error *err) {
        struct sigaction action = { .sa_handler = on_leave, .sa_flags = SA_RESTART };

        if (!worker->running.session)
                return 0;
        told_to_leave = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (told_to_leave < 0)
                return error_set(err, "cannot make an eventfd: %s", strerror(errno));
        (void)sigaction(SIGTERM, &action, NULL);
        return 0;
}

/* The client that is there is asked to park it: it has the files, and the record. */
static void begin_to_leave(struct worker *worker) {
        uint64_t ignored;

        (void)!read(told_to_leave, &ignored, sizeof(ignored));
        if (worker->leaves_ms < INT64_MAX)
                return;
        worker->leaves_ms = clock_now_ms() + LEAVING_MS + worker->relay.wish.time_max_ms;
        if (worker->reader.socket >= 0)
                sandbox_relay_append(&worker->relay, MESSAGE_LEAVING, NULL, 0);
}

/* True: the sandbox must be killed. */
static bool go_on_parking(struct worker *worker) {
        struct sandbox_checkpoint *checkpoint = &worker->relay.checkpoint;
        int64_t now_ms = clock_now_ms();

        if (checkpoint->takes && now_ms >= checkpoint->until_ms)
                return true; /* a runtime that does not come to its end */
        if (checkpoint->ended) {
                checkpoint->ended = false;
                /* What runs may come to its end while there is time. */
                if (worker->parks && checkpoint->whole)
                        return true;
                worker->park_ms = now_ms + PARK_AGAIN_MS;
                worker->parks = false;
                sandbox_relay_tell_parked(&worker->relay);
        }
        if (now_ms >= worker->leaves_ms)
                return true;
        if (worker->leaves_ms == INT64_MAX || worker->reader.socket >= 0 || worker->parks ||
            now_ms < worker->park_ms || sandbox_checkpoint_is_under_way(checkpoint))
                return false;
        worker->parks = sandbox_relay_park(&worker->relay, now_ms);
        return !worker->parks;
}

/* When go_on_parking() has something to do. */
static int64_t parking_due_ms(const struct worker *worker) {
        const struct sandbox_checkpoint *checkpoint = &worker->relay.checkpoint;

        int64_t due_ms = checkpoint->takes && checkpoint->until_ms < worker->leaves_ms ? checkpoint->until_ms
                                                                                       : worker->leaves_ms;

        return worker->leaves_ms < INT64_MAX && worker->reader.socket < 0 && !worker->parks &&
                               worker->park_ms < due_ms
                       ? worker->park_ms
                       : due_ms;
}

/* --- what goes through its proxy --- */

/* A client that is absent gets it later: added up, it does not grow. */
static void tell_reached(struct worker *worker) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;

        if (worker->proxy.unheard.count == 0 || worker->reader.socket < 0)
                return;
        tally_write(&worker->proxy.unheard, &text);
        if (worker->running.session)
                sandbox_relay_append(&worker->relay, MESSAGE_REACHED, text.data, text.length);
        else if (frame_send_now(worker->reader.socket, MESSAGE_REACHED, text.data, text.length, NULL, 0,
                                &ignored) < 0)
                return;
        worker->proxy.unheard.count = 0;
}

/* A proxy that does not speak as it should is heard no more, and ends: its channel is closed. */
static bool hear_proxy(struct worker *worker) {
        struct frame frame FRAME_CLEANUP = { 0 };
        struct tally told = { 0 };
        struct error ignored;
        int answer;

        if (worker->proxy.reader.socket < 0)
                return false;
        answer = frame_receive(&worker->proxy.reader, &frame, &ignored);
        if (answer == FRAME_WAIT)
                return false;
        if (answer != FRAME_WHOLE || frame.type != PROXY_TALLY ||
            tally_read(frame.payload.data, frame.payload.length, &told, &ignored) < 0) {
                frame_reader_release(&worker->proxy.reader);
                close_descriptor(&worker->proxy.reader.socket);
                return false;
        }
        for (size_t i = 0; i < told.count; i++)
                tally_add(&worker->proxy.unheard, &told.lines[i]);
        return true;
}

/* Process 1 gave up before bubblewrap was started, and says why by the channel that it had. */
static int explain_init(const struct worker *worker, struct error *err) {
        struct frame_reader reader FRAME_READER_CLEANUP = FRAME_READER(worker->channel);
        struct frame answer FRAME_CLEANUP = { 0 };

        if (frame_receive(&reader, &answer, err) == FRAME_WHOLE && answer.type == INIT_FAILED)
                return error_set(err, "%s", strbuf_text(&answer.payload));
        return error_set(err, "process 1 of the sandbox failed");
}

static int collect_end(struct worker *worker, int64_t started_ms, struct error *err) {
        struct sandbox_ending *ending = &worker->ending;
        struct rusage usage;
        int status;

        if (wait4(worker->init, &status, 0, &usage) < 0)
                return error_set(err, "cannot wait for process 1 of the sandbox: %s", strerror(errno));
        /* Process 1 closes its files before the kernel ends its namespace: until it is reaped, others may live under its user. */
        for (unsigned i = 0; i < worker->placing.held; i++)
                close_descriptor(&worker->held[i]);
        while (worker->status >= 0)
                read_status(worker);
        while (hear_proxy(worker))
                ;
        tell_reached(worker);
        if (worker->group)
                cgroup_measure(worker->group, &ending->usage);
        ending->wall_ms = clock_now_ms() - started_ms;
        ending->cpu_ms = (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
        ending->peak_memory_bytes = (uint64_t)usage.ru_maxrss * 1024;
        if (WIFSIGNALED(status) && !worker->killed)
                ending->killed_by = WTERMSIG(status);
        if (!WIFEXITED(status) || WEXITSTATUS(status) == 0 || worker->killed)
                return 0;
        if (WEXITSTATUS(status) != SANDBOX_INIT_LATE)
                return explain_init(worker, err);
        /* Its own clock ended it: we were stopped, and go on now. */
        ending->deadline = true;
        return 0;
}

/*
 * No limit of the kernel's counts sockets or locks of files, so they are looked at, from time to time. Until the next look a
 * run gets no further than this: of sockets, those that keep the most, some 30 KB, are made at 20,000 a second at most; of
 * locks, 200 bytes each, a processor makes a million a second: 40 MB, and a run has as many gigabytes as processors, or more. To read the
 * locks the kernel waits for every processor, some 10 ms, so that short runs are spared it.
 *
 * Sessions are many, and nearly always idle. One whose numbers stay and that says nothing is looked at once a second: it gets five times as
 * far by surprise, once.
 */
static bool look_for_hoards(struct worker *worker) {
        unsigned sockets, locks = worker->hoards.locks;
        int64_t now_ms = clock_now_ms(), pause_ms = LOOK_MS;

        if (now_ms < worker->hoards.due_ms)
                return false;
        sockets = sandbox_network_sockets(worker->sockets);
        worker->ending.sockets = sockets > SANDBOX_SOCKETS_MAX;
        /*
         * A run with too many sockets must not go on for as long as reading the locks takes, which
         * on a busy machine is long.
         */
        if (!worker->ending.sockets)
                locks = sandbox_locks_count(worker->locks, SANDBOX_LOCKS_MAX);
        worker->ending.locks = locks > SANDBOX_LOCKS_MAX;
        if (sockets != worker->hoards.sockets || locks != worker->hoards.locks)
                worker->hoards.stirred_ms = now_ms;
        worker->hoards.sockets = sockets;
        worker->hoards.locks = locks;
        if (sockets > SANDBOX_SOCKETS_MAX / 4)
                pause_ms = LOOK_MS / 4;
        else if (worker->running.session && now_ms - worker->hoards.stirred_ms > QUIET_MS)
                pause_ms = QUIET_LOOK_MS;
        worker->hoards.due_ms = clock_now_ms() + pause_ms;
        return worker->ending.sockets || worker->ending.locks;
}

/* It is looked at soon again, not only once its quiet look is due. */
static void note_stir(struct worker *worker, const struct pollfd pipes[SANDBOX_RELAY_PIPES]) {
        int64_t now_ms = clock_now_ms();

        for (size_t i = 0; i < SANDBOX_RELAY_PIPES; i++) {
                if (!pipes[i].revents)
                        continue;
                worker->hoards.stirred_ms = now_ms;
                if (worker->hoards.due_ms > now_ms + LOOK_MS)
                        worker->hoards.due_ms = now_ms + LOOK_MS;
        }
}

static short client_events(const struct worker *worker) {
        return worker->running.session && sandbox_relay_wants_to_tell(&worker->relay) ? POLLIN | POLLOUT
                                                                                      : POLLIN;
}

static void tell_client(struct worker *worker, int events) {
        if (events & POLLOUT && sandbox_relay_tell(&worker->relay, worker->reader.socket) < 0)
                drop_client(worker);
}

/* Bytes that came go on at once, as far as they are taken. */
static void pass_on(struct worker *worker) {
        struct pollfd pipes[SANDBOX_RELAY_PIPES];

        if (!worker->running.session || worker->killed)
                return;
        if (worker->reader.socket >= 0)
                tell_client(worker, client_events(worker));
        sandbox_relay_poll(&worker->relay, pipes);
        for (size_t i = 0; i < SANDBOX_RELAY_PIPES; i++)
                pipes[i].revents = pipes[i].fd >= 0 ? pipes[i].events & POLLOUT : 0;
        note_stir(worker, pipes);
        sandbox_relay_move(&worker->relay, pipes);
}

static int64_t session_over_ms(const struct worker *worker) {
        return sandbox_relay_over_ms(&worker->relay, worker->reader.socket >= 0);
}

static int watch_run(struct worker *worker, int64_t started_ms, struct error *err) {
        int64_t until_ms = started_ms + worker->running.deadline_ms;

        worker->hoards.stirred_ms = started_ms;
        worker->hoards.due_ms = started_ms + LOOK_MS;
        if (worker->life_until_ms < until_ms)
                until_ms = worker->life_until_ms;
        for (;;) {
                struct pollfd polled[7 + SANDBOX_RELAY_PIPES] = {
                        { .fd = worker->init_process, .events = POLLIN },
                        { .fd = worker->status, .events = POLLIN },
                        { .fd = worker->reader.socket, .events = client_events(worker) },
                        { .fd = worker->parks ? -1 : worker->listener, .events = POLLIN },
                        sandbox_porter_poll(&worker->porter),
                        { .fd = told_to_leave, .events = POLLIN },
                        { .fd = worker->proxy.reader.socket, .events = POLLIN },
                };
                int64_t over_ms = worker->killed ? INT64_MAX : session_over_ms(worker), pause_ms;
                int64_t left = (over_ms < until_ms ? over_ms : until_ms) - clock_now_ms();

                sandbox_relay_poll(&worker->relay, polled + 7);
                if (left <= 0 && worker->killed)
                        return error_set(err, "processes of the sandbox did not die within %d s",
                                         DYING_MS / 1000);
                if (left <= 0) {
                        worker->ending.deadline = true;
                        kill_all(worker);
                        until_ms = clock_now_ms() + DYING_MS;
                        continue;
                }
                if (!worker->killed &&
                    (is_forsaken(worker) || (worker->running.session && go_on_parking(worker))))
                        worker->ending.cancelled = true;
                if (!worker->killed && (worker->ending.cancelled || look_for_hoards(worker))) {
                        kill_all(worker);
                        until_ms = clock_now_ms() + DYING_MS;
                        continue;
                }
                pause_ms = parking_due_ms(worker) < worker->hoards.due_ms ? parking_due_ms(worker)
                                                                          : worker->hoards.due_ms;
                pause_ms -= clock_now_ms();
                if (!worker->killed && pause_ms < left)
                        left = pause_ms > 0 ? pause_ms : 0;
                if (poll(polled, 7 + SANDBOX_RELAY_PIPES, left < INT_MAX ? (int)left : INT_MAX) < 0 &&
                    errno != EINTR)
                        return error_set(err, "cannot wait for the sandbox: %s", strerror(errno));
                note_stir(worker, polled + 7);
                sandbox_relay_move(&worker->relay, polled + 7);
                sandbox_porter_move(&worker->porter, &polled[4]);
                if (polled[1].revents)
                        read_status(worker);
                if (polled[6].revents && hear_proxy(worker))
                        tell_reached(worker);
                if (polled[0].revents)
                        return collect_end(worker, started_ms, err);
                /* What a client has said counts, also where it has gone since and can be told nothing. */
                if (!(polled[2].revents & ~POLLOUT)) {
                        tell_client(worker, polled[2].revents);
                } else if (!worker->killed) {
                        read_client(worker);
                        if (worker->killed)
                                until_ms = clock_now_ms() + DYING_MS;
                }
                pass_on(worker);
                if (polled[3].revents) {
                        let_in(worker);
                        tell_reached(worker);
                }
                if (polled[5].revents)
                        begin_to_leave(worker);
        }
}

/*
 * The outcome, told to the client that is there. A lasting sandbox whose client did not confirm it
 * waits for another, within its own time.
 */
static int tell_ended(struct worker *worker, struct error *err) {
        struct strbuf ended STRBUF_CLEANUP = STRBUF_INIT;
        bool taken = false, told;

        sandbox_ending_write(&worker->ending, &ended);
        while (!taken) {
                struct pollfd polled = { .fd = worker->listener, .events = POLLIN };
                int64_t left;

                told = worker->reader.socket >= 0 &&
                       frame_send_now(worker->reader.socket, MESSAGE_ENDED, ended.data, ended.length, NULL, 0,
                                      err) == 0;
                if (told && worker->placing.for_another)
                        taken = sandbox_files_serve(worker->workspace, &worker->reader);
                if (!worker->placing.lasts)
                        return told || worker->reader.socket < 0 ? 0 : -1;
                /* A client that took the outcome and sees the line end finds no worker any more. */
                if (taken)
                        close_descriptor(&worker->listener);
                frame_reader_release(&worker->reader);
                close_descriptor(&worker->reader.socket);
                for (left = 0; !taken && worker->reader.socket < 0; let_in(worker)) {
                        left = worker->life_until_ms - clock_now_ms();
                        if (left <= 0 || is_forsaken(worker))
                                return 0;
                        (void)poll(&polled, 1, left < FORSAKEN_LOOK_MS ? (int)left : FORSAKEN_LOOK_MS);
                }
        }
        return 0;
}

/*
 * The same of a session: what was not heard is told first, then ENDED, to each client that comes, until one has taken it. The files are
 * there as long.
 */
static void tell_session_ended(struct worker *worker) {
        struct strbuf ended STRBUF_CLEANUP = STRBUF_INIT;
        int64_t left, over_ms;
        bool appended = false;

        /* After its deadline, the last words of its killed processes are not kept for a client. */
        over_ms = worker->ending.deadline ? clock_now_ms() : session_over_ms(worker);
        if (over_ms < worker->life_until_ms)
                worker->life_until_ms = over_ms;
        if (worker->ending.cancelled && worker->life_until_ms > clock_now_ms() + CANCELLED_MS)
                worker->life_until_ms = clock_now_ms() + CANCELLED_MS;
        /*
         * After SIGTERM it waits for no client, unless there are unacknowledged bytes; a second one
         * ends it at once.
         */
        signal(SIGTERM, SIG_DFL);
        if (worker->leaves_ms < INT64_MAX) {
                left = clock_now_ms() + (sandbox_relay_is_heard(&worker->relay) ? 0 : LEAVING_MS);
                worker->life_until_ms = left < worker->life_until_ms ? left : worker->life_until_ms;
        }
        /* A client that is there at the end should be notified. */
        if (worker->reader.socket >= 0 && worker->life_until_ms < clock_now_ms() + LAST_WORDS_MS)
                worker->life_until_ms = clock_now_ms() + LAST_WORDS_MS;
        sandbox_ending_write(&worker->ending, &ended);
        sandbox_relay_drain(&worker->relay);
        while ((left = worker->life_until_ms - clock_now_ms()) > 0 && !is_forsaken(worker)) {
                struct pollfd polled[] = { { .fd = worker->listener, .events = POLLIN },
                                           { .fd = -1 },
                                           sandbox_porter_poll(&worker->porter) };
                struct frame frame FRAME_CLEANUP = { 0 };
                struct error ignored;
                int answer;

                if (!appended && worker->reader.socket >= 0)
                        sandbox_relay_append(&worker->relay, MESSAGE_ENDED, ended.data, ended.length);
                appended = worker->reader.socket >= 0;
                polled[1] = (struct pollfd){ .fd = worker->reader.socket, .events = client_events(worker) };
                (void)poll(polled, 3, left < FORSAKEN_LOOK_MS ? (int)left : FORSAKEN_LOOK_MS);
                sandbox_porter_move(&worker->porter, &polled[2]);
                if (polled[0].revents) {
                        let_in(worker);
                        appended = false;
                        continue;
                }
                /*
                 * A client that confirmed the outcome, and went, reads no more of it: its message
                 * comes first.
                 */
                answer = polled[1].revents & ~POLLOUT ? FRAME_WHOLE : FRAME_WAIT;
                while (answer == FRAME_WHOLE && worker->reader.socket >= 0) {
                        frame_release(&frame);
                        answer = frame_receive(&worker->reader, &frame, &ignored);
                        if (answer == FRAME_WAIT ||
                            (answer == FRAME_WHOLE && hear_for_session(worker, &frame)))
                                continue;
                        if (answer == FRAME_WHOLE && frame.type == MESSAGE_TAKEN)
                                return;
                        if (answer != FRAME_WHOLE || frame.type != MESSAGE_CANCEL)
                                drop_client(worker);
                }
                if (worker->reader.socket >= 0)
                        tell_client(worker, polled[1].revents);
        }
}

/*
 * Process 1 reads GO once it is set up, in its cgroup and without rights. Where no client fills the workspace first, GO is sent before
 * that, and process 1 starts the program at once.
 */
static int begin_sandbox(struct worker *worker, int64_t *ret_started_ms, struct error *err) {
        struct error failed;
        int started = 0;

        if (heed_leave(worker, err) < 0)
                return -1;
        *ret_started_ms = clock_now_ms();
        if (!worker->running.waits)
                started = start_program(worker, *ret_started_ms + worker->running.deadline_ms, &failed);
        /* What process 1 says comes first: one that is dead can be sent nothing. */
        if (await_init(worker, err) < 0)
                return -1;
        if (started < 0)
                return error_set(err, "%s", failed.message);
        if (tell_ready(worker, err) < 0 || wait_for_go(worker, err) < 0)
                return -1;
        if (!worker->running.waits || worker->ending.cancelled)
                return 0;
        *ret_started_ms = clock_now_ms();
        return start_program(worker, *ret_started_ms + worker->running.deadline_ms, err);
}

static int run_worker(struct worker *worker, struct error *err) {
        int64_t started_ms;

        /* Process 1 is set up while the places are mounted and the program is read. */
        if (place_worker(worker, err) < 0 || read_program(worker, err) < 0 || make_pipes(worker, err) < 0 ||
            begin_sandbox(worker, &started_ms, err) < 0 ||
            (!worker->ending.cancelled && watch_run(worker, started_ms, err) < 0))
                return -1;
        cgroup_close(worker->group);
        worker->group = NULL;
        close_descriptor(&worker->lock);
        if (!worker->running.session)
                return tell_ended(worker, err);
        tell_session_ended(worker);
        return 0;
}

int sandbox_worker_main(void) {
        struct worker worker = {
                .arena = arena_new(),
                .reader = FRAME_READER(SANDBOX_WORKER_SOCKET),
                .image = -1,
                .disk = -1,
                .joins = -1,
                .network = -1,
                .names = -1,
                .workspace = -1,
                .sockets = -1,
                .lock = -1,
                .listener = -1,
                .address = -1,
                .kept = { -1, -1 },
                .doors = CGROUP_DOORS_NONE,
                .init_process = -1,
                .channel = -1,
                .proxy = { .reader = FRAME_READER(-1) },
                .pipes = { { -1, -1 }, { -1, -1 }, { -1, -1 } },
                .status = -1,
                .relay = SANDBOX_RELAY_NONE,
                .porter = SANDBOX_PORTER_NONE,
                .gauges = CGROUP_GAUGES_NONE,
                .leaves_ms = INT64_MAX,
        };
        struct error err, ignored;
        int result;

        forget_environment();
        be_a_session();
        if (close_range(SANDBOX_WORKER_SOCKET + 1, ~0U, 0) < 0 ||
            fcntl(SANDBOX_WORKER_SOCKET, F_SETFD, FD_CLOEXEC) < 0)
                return EXIT_FAILURE;
        result = run_worker(&worker, &err);
        close_descriptor(&worker.listener);
        if (result < 0 && worker.reader.socket >= 0)
                (void)!frame_send_now(worker.reader.socket, MESSAGE_FAILED, err.message, strlen(err.message),
                                      NULL, 0, &ignored);
        if (worker.init_process >= 0)
                (void)pidfd_send_signal(worker.init_process, SIGKILL, NULL, 0);
        cgroup_close(worker.group);
        frame_release(&worker.arguments);
        frame_release(&worker.variables);
        arena_free(worker.arena);
        /* At once: a sanitizer that looks for leaks at the end cannot trace a process without rights, and would say so. */
        _exit(result < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}
