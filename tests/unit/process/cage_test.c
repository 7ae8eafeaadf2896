/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From within a cage: what an attacker who has taken the process over would try, and what the
 * process itself needs.
 */
#include "folder.h"

#include "base/files.h"
#include "process/cage.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true /* no filter of calls, no limit of memory: see cage.c */
#else
#define SANITIZED false
#endif
#define MEMORY ((uint64_t)64 * 1024 * 1024)

static rlim_t cores_before; /* the limit of core files that this process was started with */

/* A machine about to be attacked: a secret, a folder to write in, listeners. */
struct place {
        char folder[64];
        char secret[128], inside[128], socket_path[108];
        int unix_listener, abstract_listener, tcp_listener, other_listener;
        uint16_t port, other_port;
};

static int listen_tcp(uint16_t *ret_port) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(address);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 4) == 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
        *ret_port = ntohs(address.sin_port);
        return listener;
}

/* The name with a NUL before it is abstract. */
static int listen_unix(const char *name, size_t length) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        memcpy(address.sun_path, name, length);
        assert_int_equal(bind(listener, (struct sockaddr *)&address,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                         0);
        assert_int_equal(listen(listener, 4), 0);
        return listener;
}

static int begin(void **state) {
        struct place *place = calloc(1, sizeof(*place));
        char name[64];

        assert_non_null(place);
        folder_make_temporary(place->folder);
        folder_write(place->folder, "credentials", "aws_secret_access_key");
        snprintf(place->secret, sizeof(place->secret), "%s/credentials", place->folder);
        snprintf(place->inside, sizeof(place->inside), "%s/inside", place->folder);
        snprintf(place->socket_path, sizeof(place->socket_path), "%s/socket", place->folder);
        assert_int_equal(mkdir(place->inside, 0700), 0);
        place->unix_listener = listen_unix(place->socket_path, strlen(place->socket_path) + 1);
        snprintf(name, sizeof(name), "%cberth-cage-%d", 0, getpid());
        place->abstract_listener = listen_unix(name, 1 + strlen(name + 1));
        place->tcp_listener = listen_tcp(&place->port);
        place->other_listener = listen_tcp(&place->other_port);
        *state = place;
        return 0;
}

static int end(void **state) {
        struct place *place = *state;

        close(place->unix_listener);
        close(place->abstract_listener);
        close(place->tcp_listener);
        close(place->other_listener);
        folder_remove(place->folder);
        free(place);
        return 0;
}

static struct cage cage_for(const struct place *place, enum cage_calls calls, const char *const write[2],
                            const uint16_t ports[2]) {
        (void)place;
        return (struct cage){
                .calls = calls,
                .write = write,
                .ports = ports,
                .data_bytes = MEMORY,
                .file_bytes = 1024 * 1024,
                .files_open = 32,
                .cpu_seconds = 60,
        };
}

/* A child in the cage: 0 where every attempt of its came to what it should, else the line of the first that did not. */
static void check(const struct place *place, const struct cage *cage,
                  int (*attempts)(const struct place *place)) {
        pid_t child = fork();
        int status;

        if (child == 0) {
                const char *weak;
                struct error err;

                if (cage_enter(cage, &weak, &err) < 0) {
                        dprintf(STDERR_FILENO, "%s\n", err.message);
                        _exit(255);
                }
                status = attempts(place);
                if (status)
                        dprintf(STDERR_FILENO, "line %d: %s\n", status, strerror(errno));
                _exit(status ? 1 : 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail_msg("the child in the cage ended with status %#x", (unsigned)status);
}

#define MUST(condition)                  \
        do {                             \
                if (!(condition))        \
                        return __LINE__; \
        } while (0)

static int try_files(const struct place *place) {
        char path[160];
        int file;

        /* Others' files, other processes' memory and environment, devices, the host's names for sockets. */
        MUST(open(place->secret, O_RDONLY) < 0 && errno == EACCES);
        MUST(open("/etc/shadow", O_RDONLY) < 0);
        MUST(open("/root/.aws/credentials", O_RDONLY) < 0);
        snprintf(path, sizeof(path), "/proc/%d/environ", getppid());
        MUST(open(path, O_RDONLY) < 0);
        MUST(open("/proc/self/mem", O_RDWR) < 0);
        MUST(open("/dev/kmsg", O_RDONLY) < 0);
        /* Writing beside, by a link, by a rename, to where programs are taken from. */
        snprintf(path, sizeof(path), "%s/new", place->folder);
        MUST(open(path, O_WRONLY | O_CREAT, 0600) < 0);
        MUST(open("/usr/bin/berth-was-here", O_WRONLY | O_CREAT, 0755) < 0);
        snprintf(path, sizeof(path), "%s/link", place->inside);
        MUST(link(place->secret, path) < 0);
        MUST(symlink(place->secret, path) == 0 && open(path, O_RDONLY) < 0);
        MUST(rename(place->secret, path) < 0);
        MUST(mkfifo(path, 0600) < 0 && mknod(path, S_IFCHR | 0600, 0x103) < 0);
        /* The purpose of the cage. */
        snprintf(path, sizeof(path), "%s/file", place->inside);
        file = open(path, O_RDWR | O_CREAT, 0600);
        MUST(file >= 0 && write(file, "x", 1) == 1 && unlink(path) == 0);
        signal(SIGXFSZ, SIG_IGN);
        MUST(ftruncate(file, 2 * 1024 * 1024) < 0 && errno == EFBIG);
        MUST(open("/usr/lib", O_RDONLY | O_DIRECTORY) >= 0);
        MUST(open("/dev/null", O_WRONLY) >= 0);
        return 0;
}

static int try_processes(const struct place *place) {
        char byte;
        struct iovec ours = { &byte, 1 }, theirs = { &byte, 1 };

        (void)place;
        MUST(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL) < 0);
        MUST(process_vm_readv(getppid(), &ours, 1, &theirs, 1, 0) < 0);
        MUST(kill(getppid(), 0) < 0);
        MUST(kill(-1, 0) < 0);
        MUST(syscall(SYS_tgkill, getppid(), getppid(), 0) < 0);
        MUST(syscall(SYS_pidfd_open, getppid(), 0) < 0);
        MUST(fork() < 0);
        MUST(execl("/bin/true", "true", NULL) < 0);
        MUST(unshare(CLONE_NEWUSER) < 0);
        MUST(mount("none", "/tmp", "tmpfs", 0, NULL) < 0);
        MUST(setuid(0) < 0);
        MUST(syscall(SYS_bpf, 0, NULL, 0) < 0);
        MUST(syscall(SYS_io_uring_setup, 1, NULL) < 0);
        MUST(syscall(SYS_add_key, "user", "x", "y", 1, -3) < 0);
        return 0;
}

static int try_memory(const struct place *place) {
        struct rlimit core;
        void *block;

        (void)place;
        MUST(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == (cores_before > 0 ? 1 : 0));
        MUST(malloc(2 * MEMORY) == NULL);
        MUST(mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
        MUST(syscall(SYS_memfd_create, "x", 0) < 0);
        MUST(syscall(SYS_shmget, 0, MEMORY, 0600) < 0);
        block = malloc(MEMORY / 8);
        MUST(block != NULL);
        free(block);
        return 0;
}

static int connect_tcp(uint16_t port) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                       .sin_port = htons(port) };
        int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        return one < 0 ? -1 : connect(one, (struct sockaddr *)&address, sizeof(address));
}

static int try_no_network(const struct place *place) {
        MUST(connect_tcp(place->port) < 0);
        MUST(socket(AF_UNIX, SOCK_STREAM, 0) < 0);
        MUST(socket(AF_NETLINK, SOCK_RAW, 0) < 0);
        MUST(socket(AF_INET, SOCK_DGRAM, 0) < 0);
        return 0;
}

static int try_network(const struct place *place) {
        MUST(connect_tcp(place->port) == 0);
        MUST(cage_landlock() < 4 || (connect_tcp(place->other_port) < 0 && errno == EACCES));
        MUST(socket(AF_UNIX, SOCK_STREAM, 0) < 0);
        MUST(socket(AF_PACKET, SOCK_RAW, 0) < 0);
        MUST(listen(socket(AF_INET, SOCK_STREAM, 0), 1) < 0);
        return 0;
}

static int run_true(void) {
        pid_t child = fork();
        int status = -1;

        if (child == 0) {
                execl("/usr/bin/true", "true", NULL);
                _exit(127);
        }
        return child < 0 || waitpid(child, &status, 0) < 0 ? -1 : WEXITSTATUS(status);
}

static int try_as_judge(const struct place *place) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        MUST(run_true() == 0);
        MUST(open(place->secret, O_RDONLY) < 0 && connect_tcp(place->port) < 0);
        MUST(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL) < 0);
        MUST(cage_landlock() < 6 || (kill(getppid(), 0) < 0 && errno == EPERM));
        memcpy(address.sun_path, place->socket_path, strlen(place->socket_path) + 1);
        MUST(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof(address)) < 0);
        return 0;
}

static int try_as_judge_with_names(const struct place *place) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "berth-cage-%d", getppid());
        int one = socket(AF_UNIX, SOCK_STREAM, 0);

        (void)place;
        MUST(one >= 0);
        MUST(cage_landlock() < 6 ||
             connect(one, (struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) < 0);
        MUST(socket(AF_INET, SOCK_STREAM, 0) < 0);
        return 0;
}

static void nothing_is_in_reach(void **state) {
        struct place *place = *state;
        const char *write[] = { place->inside, NULL };
        struct cage cage = cage_for(place, CAGE_OFFLINE, write, NULL);

        if (cage_landlock() == 0)
                skip();
        check(place, &cage, try_files);
        if (SANITIZED)
                return;
        check(place, &cage, try_processes);
        check(place, &cage, try_memory);
        check(place, &cage, try_no_network);
}

static void of_the_network_one_port_is(void **state) {
        struct place *place = *state;
        const char *write[] = { place->inside, NULL };
        const uint16_t ports[] = { place->port, 0 };
        struct cage cage = cage_for(place, CAGE_ONLINE, write, ports);

        if (cage_landlock() == 0 || SANITIZED)
                skip();
        check(place, &cage, try_files);
        check(place, &cage, try_processes);
        check(place, &cage, try_network);
}

static void judges_start_programs_and_no_more(void **state) {
        struct place *place = *state;
        const char *write[] = { place->inside, NULL };
        static const char *const run[] = { "/usr/bin", NULL };
        struct cage cage = cage_for(place, CAGE_JUDGES, write, NULL);

        if (cage_landlock() == 0 || SANITIZED)
                skip();
        cage.run = run;
        check(place, &cage, try_as_judge);
        check(place, &cage, try_files);
        cage.calls = CAGE_JUDGES_NAMES;
        check(place, &cage, try_as_judge_with_names);
}

static uid_t expected_user;

/* Through root's folder to what it may read, and root no more. */
static int try_as_user(const struct place *place) {
        char path[160], status[4096];
        int file = open("/proc/self/status", O_RDONLY);

        MUST(getuid() == expected_user && getgid() == expected_user && getgroups(0, NULL) == 0);
        snprintf(path, sizeof(path), "%s/readable", place->folder);
        MUST(open(path, O_RDONLY) >= 0 && access(path, R_OK) == 0);
        MUST(open(path, O_RDWR) < 0 && access(path, W_OK) < 0);
        MUST(open(place->secret, O_RDONLY) < 0);
        MUST(open("/etc/ssl/private", O_RDONLY | O_DIRECTORY) < 0);
        MUST(open("/etc/ssl/certs", O_RDONLY | O_DIRECTORY) >= 0 || errno == ENOENT);
        snprintf(path, sizeof(path), "%s/ours", place->inside);
        MUST(open(path, O_WRONLY | O_CREAT, 0600) >= 0);
        MUST(setuid(0) < 0 && chown(path, 0, 0) < 0);
        MUST(file < 0 || read(file, status, sizeof(status)) < 0);
        return 0;
}

/* As a user that reaches all that it is given: a file of root's own beside it stays closed, though Landlock would let it be read. */
static int try_without_rights(const struct place *place) {
        char path[160];

        snprintf(path, sizeof(path), "%s/readable", place->folder);
        MUST(open(path, O_RDONLY) >= 0);
        MUST(open(place->secret, O_RDONLY) < 0 && errno == EACCES);
        return 0;
}

static void root_keeps_no_right_that_it_does_not_need(void **state) {
        struct place *place = *state;
        const char *write[] = { place->inside, NULL }, *read[] = { place->folder, NULL };
        struct cage cage = cage_for(place, CAGE_OFFLINE, write, NULL);
        char path[160];
        struct error err;

        folder_write(place->folder, "readable", "x");
        snprintf(path, sizeof(path), "%s/readable", place->folder);
        assert_int_equal(chmod(path, 0644), 0);
        assert_int_equal(chmod(place->folder, 0755), 0);
        assert_int_equal(chmod(place->secret, 0600), 0);
        assert_int_equal(cage_user_of(place->inside, &cage.user, &err), 0);
        if (cage.user == 0 || cage_landlock() == 0)
                skip();
        cage.read = read;
        check(place, &cage, try_without_rights);
}

static void root_gives_itself_up(void **state) {
        struct place *place = *state;
        const char *write[] = { place->inside, NULL };
        char path[160];
        const char *read[] = { path, NULL };
        struct cage cage = cage_for(place, CAGE_OFFLINE, write, NULL);
        struct stat status;
        struct error err;

        folder_write(place->folder, "readable", "x");
        snprintf(path, sizeof(path), "%s/readable", place->folder);
        folder_write(place->inside, "before", "x");
        assert_int_equal(chmod(place->folder, 0700), 0);
        assert_int_equal(cage_user_of(place->inside, &cage.user, &err), 0);
        if (cage.user == 0 || cage_landlock() == 0)
                skip();
        expected_user = cage.user;
        cage.read = read;
        /* Files that were in the folder are the caged process's as well. */
        snprintf(path, sizeof(path), "%s/before", place->inside);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_uid, cage.user);
        snprintf(path, sizeof(path), "%s/readable", place->folder);
        check(place, &cage, try_as_user);
}

int main(void) {
        struct rlimit core = { 0, 0 };
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(nothing_is_in_reach, begin, end),
                cmocka_unit_test_setup_teardown(of_the_network_one_port_is, begin, end),
                cmocka_unit_test_setup_teardown(judges_start_programs_and_no_more, begin, end),
                cmocka_unit_test_setup_teardown(root_gives_itself_up, begin, end),
                cmocka_unit_test_setup_teardown(root_keeps_no_right_that_it_does_not_need, begin, end),
        };

        getrlimit(RLIMIT_CORE, &core);
        cores_before = core.rlim_max;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
