/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order matters. Limits come first, since they need no right. The rules of Landlock are opened while all files can still be
 * opened, and laid on before the user changes: with no_new_privs neither takes a right. The filter of system calls is last:
 * nothing of the above passes it.
 */
#include "process/cage.h"

#include "base/files.h"
#include "base/libc.h"
#include "process/cage_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/landlock.h, which on Debian 12 ends at version 2. Documentation/userspace-api/landlock.rst says what each is. */
#define LANDLOCK_CREATE_RULESET 444L
#define LANDLOCK_ADD_RULE 445L
#define LANDLOCK_RESTRICT_SELF 446L
#define RULE_PATH 1
#define RULE_PORT 2
#define CREATE_VERSION 1U

#define FS_EXECUTE (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_REMOVE_DIR (1ULL << 4)
#define FS_REMOVE_FILE (1ULL << 5)
#define FS_MAKE_DIR (1ULL << 7)
#define FS_MAKE_REG (1ULL << 8)
#define FS_MAKE_SYM (1ULL << 12)
#define FS_REFER (1ULL << 13)     /* 2 */
#define FS_TRUNCATE (1ULL << 14)  /* 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* 5 */
#define NET_BIND_TCP (1ULL << 0)  /* 4 */
#define NET_CONNECT_TCP (1ULL << 1)
#define SCOPE_ABSTRACT_UNIX (1ULL << 0) /* 6 */
#define SCOPE_SIGNAL (1ULL << 1)

#define OF_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define READING (FS_READ_FILE | FS_READ_DIR)
#define WRITING                                                                                 \
        (READING | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | \
         FS_MAKE_SYM | FS_REFER | FS_TRUNCATE)

struct ruleset {
        uint64_t files, ports, scopes;
};
struct __attribute__((packed)) path_rule {
        uint64_t allowed;
        int32_t folder;
};
struct port_rule {
        uint64_t allowed, port;
};

/* What a program needs that uses shared libraries, resolves names and checks certificates. None of it is secret. */
static const char *const systems[] = {
        "/usr",
        "/lib",
        "/lib32",
        "/lib64",
        "/bin",
        "/etc/ld.so.cache",
        /* certificates and settings of TLS, as distributions place them: never the folders of private keys beside them */
        "/etc/ssl/certs",
        "/etc/ssl/cert.pem",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/openssl.cnf",
        "/etc/pki/ca-trust",
        "/etc/pki/tls/certs",
        "/etc/pki/tls/cert.pem",
        "/etc/pki/tls/openssl.cnf",
        "/etc/pki/tls/openssl.d",
        "/etc/ca-certificates",
        "/etc/crypto-policies",
        "/etc/gcrypt",
        "/etc/nsswitch.conf",
        "/etc/resolv.conf",
        "/etc/hosts",
        "/etc/host.conf",
        "/etc/gai.conf",
        "/etc/services",
        "/etc/protocols",
        "/etc/passwd",
        "/etc/group",
        "/etc/localtime",
        "/dev/urandom",
        "/dev/random",
        "/dev/zero",
        "/proc/sys/crypto",
        "/sys/devices/system/cpu",
        NULL,
};
static const char *const loaders[] = { "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
                                       "/lib/ld-linux.so.2", NULL };

/* In 0x70000000 to 0x7fffffff, which systemd's table of users (UIDS-GIDS.md) calls unused. */
#define USERS_FIRST 0x7b000000U
#define USERS_MASK 0x00ffffffU

unsigned cage_landlock(void) {
        long version = syscall(LANDLOCK_CREATE_RULESET, NULL, 0, CREATE_VERSION);

        return version >= 2 ? (unsigned)version : 0;
}

static uint64_t known_files(unsigned version) {
        unsigned rights = version >= 5 ? 16 : version >= 3 ? 15 : 14;

        return (1ULL << rights) - 1;
}

/* Paths that do not exist need no rule. */
static int permit_paths(int ruleset, const char *const *paths, uint64_t allowed, struct error *err) {
        for (; paths && *paths; paths++) {
                int place DESCRIPTOR_CLEANUP = open(*paths, O_PATH | O_CLOEXEC);
                struct path_rule rule = { .allowed = allowed, .folder = place };
                struct stat status;

                if (place < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
                        continue;
                if (place < 0 || fstat(place, &status) < 0)
                        return error_set(err, "cannot open %s: %s", *paths, strerror(errno));
                if (!S_ISDIR(status.st_mode))
                        rule.allowed &= OF_FILES;
                if (syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PATH, &rule, 0) < 0)
                        return error_set(err, "Landlock takes no rule for %s: %s", *paths, strerror(errno));
        }
        return 0;
}

static int permit_ports(int ruleset, const uint16_t *ports, struct error *err) {
        for (; ports && *ports; ports++) {
                struct port_rule rule = { .allowed = NET_CONNECT_TCP, .port = *ports };

                if (syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PORT, &rule, 0) < 0)
                        return error_set(err, "Landlock takes no rule for port %u: %s", *ports,
                                         strerror(errno));
        }
        return 0;
}

static int restrict_files(const struct cage *cage, unsigned version, struct error *err) {
        static const char *const nothing[] = { "/dev/null", NULL };
        uint64_t known = known_files(version);
        struct ruleset rules = {
                .files = known,
                .ports = version >= 4 ? NET_BIND_TCP | NET_CONNECT_TCP : 0,
                .scopes = version >= 6 ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0,
        };
        /* An older kernel takes a shorter form. */
        size_t size = version >= 6 ? sizeof(rules) : version >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
        int ruleset DESCRIPTOR_CLEANUP = (int)syscall(LANDLOCK_CREATE_RULESET, &rules, size, 0);

        if (ruleset < 0)
                return error_set(err, "Landlock gives no set of rules: %s", strerror(errno));
        if (permit_paths(ruleset, systems, READING, err) < 0 ||
            permit_paths(ruleset, nothing, FS_READ_FILE | FS_WRITE_FILE, err) < 0 ||
            permit_paths(ruleset, cage->read, READING, err) < 0 ||
            permit_paths(ruleset, cage->write, WRITING & known, err) < 0 ||
            permit_paths(ruleset, cage->run, FS_EXECUTE | FS_READ_FILE, err) < 0 ||
            (cage->run && permit_paths(ruleset, loaders, FS_EXECUTE | FS_READ_FILE, err) < 0) ||
            (version >= 4 && permit_ports(ruleset, cage->ports, err) < 0))
                return -1;
        if (syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) < 0)
                return error_set(err, "Landlock does not take the rules: %s", strerror(errno));
        return 0;
}

static bool are_readable(const char *const *paths) {
        for (; paths && *paths; paths++) {
                if (faccessat(AT_FDCWD, *paths, R_OK, AT_EACCESS) < 0 && errno == EACCES)
                        return false;
        }
        return true;
}

static int set_capabilities(uint32_t permitted, uint32_t effective, struct error *err) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct rights[2] = { { .permitted = permitted, .effective = effective } };

        if (syscall(SYS_capset, &header, rights) < 0)
                return error_set(err, "the capabilities cannot be given up: %s", strerror(errno));
        return 0;
}

/*
 * Gives up all capabilities, but the one to read root's folders where what the cage names cannot be read without: with it, root's own
 * files below /usr could be read as well. With no_new_privs no program that is started gets any back.
 */
static int drop_rights(const struct cage *cage, struct error *err) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct rights[2] = { 0 };
        uint32_t kept;

        if (syscall(SYS_capget, &header, rights) < 0)
                return error_set(err, "the capabilities cannot be read: %s", strerror(errno));
        /*
         * Root of a container often has not this one but the wider one, which Landlock bounds as
         * well.
         */
        kept = rights[0].permitted & 1U << CAP_DAC_READ_SEARCH;
        if (!kept)
                kept = rights[0].permitted & 1U << CAP_DAC_OVERRIDE;
        if (set_capabilities(kept, 0, err) < 0)
                return -1;
        if (are_readable(cage->read) && are_readable(cage->write) && are_readable(cage->run))
                kept = 0;
        return set_capabilities(kept, kept, err);
}

/*
 * The capabilities stay as they are when the user changes, and drop_rights() follows. Without SECBIT_NO_SETUID_FIXUP access(2)
 * would not count them, and libgit2 asks access(2) what it may open.
 */
static int become_user(uid_t user, struct error *err) {
        if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
            setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0)
                return error_set(err, "cannot become user %u: %s", user, strerror(errno));
        return 0;
}

static int limit(resource_limit resource, uint64_t value, struct error *err) {
        struct rlimit now;

        /* A limit that is lower already stays; an ordinary user may not raise one anyway. */
        if (getrlimit(resource, &now) < 0)
                return error_set(err, "a limit cannot be read: %s", strerror(errno));
        if (now.rlim_max != RLIM_INFINITY && now.rlim_max < value)
                value = now.rlim_max;
        if (setrlimit(resource, &(struct rlimit){ value, value }) < 0)
                return error_set(err, "a limit cannot be set: %s", strerror(errno));
        return 0;
}

static int set_limits(const struct cage *cage, struct error *err) {
        /* 1 and not 0: where core_pattern begins with "|", only that keeps the kernel from starting its program (core(5)). */
        if (limit(RLIMIT_CORE, 1, err) < 0 || limit(RLIMIT_NOFILE, cage->files_open, err) < 0 ||
            limit(RLIMIT_CPU, cage->cpu_seconds, err) < 0 || limit(RLIMIT_FSIZE, cage->file_bytes, err) < 0)
                return -1;
                /* The sanitizers' own memory is many times the program's. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        return 0;
#else
        return limit(RLIMIT_DATA, cage->data_bytes, err);
#endif
}

static int filter_calls(enum cage_calls calls, struct error *err) {
        const struct cage_filter *filter = &cage_filters[calls];
        struct sock_fprog program = { .len = (unsigned short)filter->count,
                                      .filter = (struct sock_filter *)filter->instructions };

        /* The sanitizers stop and trace their own process at its end. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        (void)program;
        (void)err;
#else
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                return error_set(err, "the kernel takes no filter of system calls: %s", strerror(errno));
#endif
        return 0;
}

/*
 * The kernel forgets the signal that comes with a parent's death when the user or the capabilities
 * change (prctl(2)). Without it a caged process would live on to its deadline, and hold its
 * folder's lock, after a controller that was killed.
 */
static int die_with_parent_again(int signal, pid_t parent, struct error *err) {
        if (signal != 0 && prctl(PR_SET_PDEATHSIG, signal) < 0)
                return error_set(err, "this process cannot be tied to its parent's life: %s",
                                 strerror(errno));
        if (signal != 0 && getppid() != parent)
                return error_set(err, "the process that started this one has died");
        return 0;
}

int cage_enter(const struct cage *cage, const char **ret_weak, struct error *err) {
        unsigned version = cage_landlock();
        bool root = geteuid() == 0;
        pid_t parent = getppid();
        int signal_of_death = 0;

        *ret_weak = NULL;
        if (root && version == 0)
                return error_set(
                        err,
                        "this kernel has no Landlock, which keeps what reads strangers' data from root's "
                        "files: use another user than root, or a kernel from 5.19 on with lsm=landlock");
        if (version == 0)
                *ret_weak =
                        "this kernel has no Landlock: what reads strangers' data could read and write all files that "
                        "its user can";
        if (prctl(PR_GET_PDEATHSIG, &signal_of_death) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_set(err, "rights cannot be given up: %s", strerror(errno));
        if (set_limits(cage, err) < 0 || (version > 0 && restrict_files(cage, version, err) < 0) ||
            (root && cage->user != 0 && become_user(cage->user, err) < 0) ||
            (root && drop_rights(cage, err) < 0) || die_with_parent_again(signal_of_death, parent, err) < 0)
                return -1;
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_set(err, "this process cannot be closed to others: %s", strerror(errno));
        return filter_calls(cage->calls, err);
}

/* nftw() passes no context to its function. */
static uid_t given_to;

static int give_file(const char *path, const struct stat *status, int type, struct FTW *where) {
        (void)type;
        (void)where;
        return status->st_uid == given_to ? 0 : lchown(path, given_to, given_to);
}

/* Whether this namespace has that user at all: one of a container may have a few thousand. Where that is not known, nothing runs as root. */
static int find_mapped(uid_t user, bool *ret, struct error *err) {
        FILE *map = fopen("/proc/self/uid_map", "re");
        unsigned long inside, outside, count;
        bool found = false;

        if (!map)
                return error_set(err, "cannot read /proc/self/uid_map: %s", strerror(errno));
        while (!found && fscanf(map, "%lu %lu %lu", &inside, &outside, &count) == 3)
                found = user >= inside && user - inside < count;
        fclose(map);
        *ret = found;
        return 0;
}

int cage_user_of(const char *folder, uid_t *ret, struct error *err) {
        struct stat status;
        bool mapped;
        uid_t user;

        *ret = 0;
        if (folder_make(folder, err) < 0)
                return -1;
        if (geteuid() != 0)
                return 0;
        if (stat(folder, &status) < 0)
                return error_set(err, "cannot look at %s: %s", folder, strerror(errno));
        user = USERS_FIRST + (uid_t)(status.st_ino & USERS_MASK);
        if (find_mapped(user, &mapped, err) < 0)
                return -1;
        if (!mapped)
                return 0;
        /*
         * Each time: in a folder that was restored, or that root wrote to once, some files may be
         * the user's and some not.
         */
        given_to = user;
        if (nftw(folder, give_file, 16, FTW_PHYS | FTW_DEPTH) != 0)
                return error_set(err, "cannot give %s to the user who shall read there: %s", folder,
                                 strerror(errno));
        *ret = user;
        return 0;
}

const char *const *cage_environment(struct arena *arena) {
        static const char *const passed_on[] = { "PATH",         "ASAN_OPTIONS",     "UBSAN_OPTIONS",
                                                 "LSAN_OPTIONS", "TSAN_OPTIONS",     "LLVM_PROFILE_FILE",
                                                 "GCOV_PREFIX",  "GCOV_PREFIX_STRIP" };
        size_t count = sizeof(passed_on) / sizeof(passed_on[0]), filled = 0;
        const char **environment = arena_array(arena, count + 2, sizeof(*environment));

        environment[filled++] = "LC_ALL=C.UTF-8";
        for (size_t i = 0; i < count; i++) {
                const char *value = getenv(passed_on[i]);

                if (value)
                        environment[filled++] = arena_printf(arena, "%s=%s", passed_on[i], value);
        }
        return environment;
}
