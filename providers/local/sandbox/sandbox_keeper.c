/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_keeper.h"

#include "base/files.h"
#include "process/frame.h"
#include "providers/local/sandbox/sandbox_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Behind systemd-run, /proc/self/exe would be that. */
#define PROGRAM_DESCRIPTOR 4
#define PROGRAM_PATH "/proc/self/fd/4"

/* systemd-run finds the user's manager by these, and passes them on to the worker, which forgets them at once. */
static void add_bus_variables(const char *list[3], char texts[2][512]) {
        static const char *const names[] = { "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS" };
        size_t count = 0;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const char *text = getenv(names[i]);

                if (text && snprintf(texts[count], 512, "%s=%s", names[i], text) < 512) {
                        list[count] = texts[count];
                        count++;
                }
        }
}

static int errors = STDERR_FILENO;

void sandbox_keeper_errors_to(int descriptor) {
        errors = descriptor;
}

int sandbox_keeper_start(struct sandbox_keeper *ret, const char *const *launcher, struct error *err) {
        int theirs DESCRIPTOR_CLEANUP = -1, program DESCRIPTOR_CLEANUP = -1, pair[2];
        const char *words[16] = { NULL }, *environment[3] = { NULL };
        char texts[2][512];
        size_t count = 0;
        struct process_args args = { .arguments = words, .environment = environment };

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, "cannot make a socket: %s", strerror(errno));
        ret->socket = pair[0];
        theirs = pair[1];
        program = open("/proc/self/exe", O_PATH | O_CLOEXEC);
        if (program < 0)
                return error_set(err, "cannot open this program: %s", strerror(errno));
        args.descriptors[args.descriptor_count++] = (struct process_descriptor){ errors, STDERR_FILENO };
        args.descriptors[args.descriptor_count++] =
                (struct process_descriptor){ theirs, SANDBOX_WORKER_SOCKET };
        while (launcher[count] && count < 12) {
                words[count] = launcher[count];
                count++;
        }
        if (count > 0) {
                args.descriptors[args.descriptor_count++] =
                        (struct process_descriptor){ program, PROGRAM_DESCRIPTOR };
                add_bus_variables(environment, texts);
        } else {
                args.program = "/proc/self/exe";
        }
        words[count++] = args.program ? "berth" : PROGRAM_PATH;
        words[count] = SANDBOX_WORKER_VERB;
        return process_start(&args, &ret->worker, err);
}

struct cgroup_limits sandbox_keeper_limits(const struct sandbox_limits *limits,
                                           const struct sandbox_family *family, struct arena *arena) {
        struct cgroup_limits of_group = { .memory_bytes = limits->memory_bytes,
                                          .cpu_millis = limits->cpu_millis,
                                          .processes = limits->processes };

        if (family->name)
                of_group.family = (struct cgroup_family){
                        arena_printf(arena, "%u-%s", (unsigned)family->owner, family->name),
                        family->cpu_millis ? family->cpu_millis : CGROUP_CPU_UNBOUND
                };
        return of_group;
}

/*
 * RLIMIT_NPROC does for processes what a cgroup would, where it counts this run's alone: root's runs have a user each, and
 * since Linux 5.14 it counts within the user namespace that the others have each.
 */
static bool counts_processes(void) {
        struct utsname system;
        int major, minor;

        return geteuid() == 0 ||
               (uname(&system) == 0 && sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
                (major > 5 || (major == 5 && minor >= 14)));
}

unsigned sandbox_keeper_missing(const struct cgroup *group) {
        return cgroup_missing(group) & (counts_processes() ? ~(unsigned)CGROUP_PROCESSES : ~0U);
}

/* The file in which it listens: a worker sees its links, though it sees neither the folder nor has rights there. */
static int open_address(int listener, int *ret, struct error *err) {
        struct sockaddr_un address = { 0 };
        socklen_t length = sizeof(address) - 1;

        if (getsockname(listener, (struct sockaddr *)&address, &length) < 0 ||
            (*ret = open(address.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC)) < 0)
                return error_set(err, "cannot open the socket of a worker: %s", strerror(errno));
        return 0;
}

int sandbox_keeper_place(const struct sandbox_keeper *keeper, const struct cgroup *group,
                         struct sandbox_placing *placing, int image, int listener, int disk, int network,
                         const int *held, size_t held_count, struct error *err) {
        struct cgroup_doors doors __attribute__((cleanup(cgroup_doors_close))) = CGROUP_DOORS_NONE;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct cgroup_gauges gauges __attribute__((cleanup(cgroup_gauges_close))) = CGROUP_GAUGES_NONE;
        int descriptors[FRAME_DESCRIPTORS_MAX], address DESCRIPTOR_CLEANUP = -1;
        size_t count = 0;

        if (cgroup_doors_open(group, &doors) < 0)
                return error_set(err, "cannot open the cgroup: %s", strerror(errno));
        if (listener >= 0 && open_address(listener, &address, err) < 0)
                return -1;
        placing->image = image >= 0;
        placing->born = doors.folder >= 0;
        placing->entries = (unsigned)doors.count;
        placing->held = (unsigned)held_count;
        placing->scope = cgroup_launcher(group)[0] != NULL;
        if (image >= 0)
                descriptors[count++] = image;
        if (doors.folder >= 0)
                descriptors[count++] = doors.folder;
        for (size_t i = 0; i < doors.count; i++)
                descriptors[count++] = doors.entries[i];
        for (size_t i = 0; i < held_count; i++)
                descriptors[count++] = held[i];
        placing->lasts = listener >= 0;
        if (listener >= 0) {
                descriptors[count++] = listener;
                descriptors[count++] = address;
                cgroup_gauges_open(group, &gauges);
        }
        placing->gauges = gauges.kills >= 0;
        if (placing->gauges) {
                descriptors[count++] = gauges.memory;
                descriptors[count++] = gauges.kills;
                descriptors[count++] = gauges.cpu;
                descriptors[count++] = gauges.used;
        }
        placing->disk = disk >= 0;
        if (disk >= 0)
                descriptors[count++] = disk;
        placing->joins = network >= 0;
        if (network >= 0)
                descriptors[count++] = network;
        sandbox_placing_write(placing, &text);
        if (frame_send(keeper->socket, MESSAGE_PLACE, text.data, text.length, descriptors, count, err) < 0)
                return sandbox_keeper_heed(keeper->socket, err);
        return 0;
}

int sandbox_keeper_heed(int socket, struct error *err) {
        struct frame_reader reader FRAME_READER_CLEANUP = FRAME_READER(socket);
        struct frame frame FRAME_CLEANUP = { 0 };
        struct error ignored;

        fcntl(socket, F_SETFL, O_NONBLOCK);
        if (frame_receive(&reader, &frame, &ignored) == FRAME_WHOLE && frame.type == MESSAGE_FAILED)
                return error_set(err, "%s", strbuf_text(&frame.payload));
        return -1;
}

int sandbox_keeper_explain(struct sandbox_keeper *keeper, struct error *err) {
        struct process_status status = process_reap(&keeper->worker);

        if (status.signalled)
                return error_set(err, "the sandbox was killed from outside: its worker ended by signal %d",
                                 status.code);
        return error_set(err, "the sandbox's worker ended without a word (exit code %d)", status.code);
}

void sandbox_keeper_end(struct sandbox_keeper *keeper, int patience_ms) {
        struct pollfd polled = { .fd = keeper->worker.pidfd, .events = POLLIN };

        close_descriptor(&keeper->socket);
        if (keeper->worker.pid > 0 && poll(&polled, 1, patience_ms) == 1)
                (void)process_reap(&keeper->worker);
        process_end(&keeper->worker);
}
