/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All from /proc. A value that cannot be read there is 0, and compares as unknown rather than as
 * equal.
 */
#include "process/identity.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_small(const char *path, char *text, size_t size) {
        int file DESCRIPTOR_CLEANUP = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = file < 0 ? -1 : read(file, text, size - 1);

        text[length > 0 ? length : 0] = '\0';
        return length > 0;
}

/*
 * proc(5): the second field of stat, a name in parentheses, may hold anything; the state is the
 * third, the start the 22nd. It is read of the process's first thread, which is as old. A process
 * that reads its own /proc/PID/stat gets, under qemu-user, the values of the thread that asks, by a
 * clock of its own: others, and other threads, would take it for dead.
 */
bool identity_look(pid_t pid, char *ret_state, uint64_t *ret_start) {
        char path[64], text[1024], *at, state;

        snprintf(path, sizeof(path), "/proc/%ld/task/%ld/stat", (long)pid, (long)pid);
        if (!read_small(path, text, sizeof(text)) || !(at = strrchr(text, ')')) || at[1] != ' ')
                return false;
        state = at[2];
        for (int field = 2; field < 22 && at; field++)
                at = strchr(at + 1, ' ');
        if (!at)
                return false;
        *ret_state = state;
        *ret_start = strtoull(at, NULL, 10);
        return true;
}

/*
 * The boot and the PID namespace are the same for all processes that can see each other by their ids. The boot is read once: a process
 * does not outlive it, and is asked for the life of each sandbox on the machine.
 */
static uint64_t boot_of_machine(void) {
        static _Atomic uint64_t known;
        char text[64], digits[17];
        size_t count = 0;

        if (known)
                return known;
        if (!read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text)))
                return 0;
        for (const char *at = text; *at && count < 16; at++) {
                if (*at != '-')
                        digits[count++] = *at;
        }
        digits[count] = '\0';
        known = strtoull(digits, NULL, 16);
        return known;
}

static uint64_t own_namespace(void) {
        struct stat status;

        return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

struct process_identity identity_of_self(void) {
        struct process_identity own = { .pid = getpid(),
                                        .boot = boot_of_machine(),
                                        .namespace = own_namespace() };
        char ignored;

        (void)identity_look(own.pid, &ignored, &own.start);
        return own;
}

void identity_write(const struct process_identity *identity, char text[IDENTITY_TEXT_SIZE]) {
        snprintf(text, IDENTITY_TEXT_SIZE, "%ld-%" PRIu64 "-%" PRIx64 "-%" PRIx64, (long)identity->pid,
                 identity->start, identity->boot, identity->namespace);
}

bool identity_read(const char *text, struct process_identity *ret, const char **ret_end) {
        struct process_identity identity;
        int length = 0;
        long pid;

        if (sscanf(text, "%ld-%" SCNu64 "-%" SCNx64 "-%" SCNx64 "%n", &pid, &identity.start, &identity.boot,
                   &identity.namespace, &length) != 4 ||
            length == 0 || pid < 1 || pid > INT32_MAX)
                return false;
        identity.pid = (pid_t)pid;
        *ret = identity;
        *ret_end = text + length;
        return true;
}

enum identity_life identity_process_life(pid_t pid, uint64_t start) {
        uint64_t found;
        char state;

        if (identity_look(pid, &state, &found))
                return found == start && state != 'Z' && state != 'X' ? IDENTITY_ALIVE : IDENTITY_DEAD;
        /* Where /proc hides others' processes, there may be one nevertheless. */
        return kill(pid, 0) == 0 || errno == EPERM ? IDENTITY_UNKNOWN : IDENTITY_DEAD;
}

enum identity_life identity_life(const struct process_identity *identity) {
        if (identity->boot != boot_of_machine() || identity->namespace != own_namespace())
                return IDENTITY_UNKNOWN;
        return identity_process_life(identity->pid, identity->start);
}
