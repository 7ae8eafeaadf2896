/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/cgroup.h"

#include "base/files.h"
#include "providers/local/sandbox/cgroup_family.h"
#include "providers/local/sandbox/cgroup_files.h"
#include "providers/local/sandbox/cgroup_v2.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <mntent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FOLDERS_MAX 4
#define FOLDER_TRIES 20
/*
 * Version 1: one part in SOCKETS_SHARE of the memory limit, at most SOCKETS_BYTES_MAX, may wait in
 * sockets, besides.
 */
#define SOCKETS_SHARE 8
#define SOCKETS_BYTES_MAX (UINT64_C(64) << 20)

enum method { METHOD_NONE, METHOD_V1, METHOD_V2, METHOD_SCOPE };

static const char *const no_launcher[] = { NULL };

/* --- mount points --- */

enum hierarchy { UNIFIED, MEMORY, CPU, PIDS, ACCOUNT, HIERARCHIES };

/* Where cgroup2 and the v1 hierarchies are mounted; NULL where they are not. */
struct mounts {
        const char *at[HIERARCHIES];
};

static void note_mount(const struct mntent *entry, struct mounts *ret, struct arena *arena) {
        static const char *const controllers[] = {
                [MEMORY] = "memory", [CPU] = "cpu", [PIDS] = "pids", [ACCOUNT] = "cpuacct"
        };

        if (!ret->at[UNIFIED] && strcmp(entry->mnt_type, "cgroup2") == 0)
                ret->at[UNIFIED] = arena_strdup(arena, entry->mnt_dir);
        if (strcmp(entry->mnt_type, "cgroup") != 0)
                return;
        for (size_t i = MEMORY; i < HIERARCHIES; i++) {
                if (!ret->at[i] && hasmntopt(entry, controllers[i]))
                        ret->at[i] = arena_strdup(arena, entry->mnt_dir);
        }
}

/* One pass: on a busy machine the kernel takes long to list its mounts. */
static struct mounts find_mounts(struct arena *arena) {
        FILE *file = setmntent("/proc/self/mounts", "re");
        struct mounts found = { 0 };
        struct mntent entry;
        char buffer[8192];

        while (file && getmntent_r(file, &entry, buffer, sizeof(buffer)))
                note_mount(&entry, &found, arena);
        if (file)
                endmntent(file);
        return found;
}

struct cgroup {
        char name[CGROUP_NAME_SIZE]; /* of its folders */
        enum method method;
        unsigned enforced;
        const char *problem;
        char *folders[FOLDERS_MAX]; /* v2: one; v1: one for each controller */
        size_t count;
        const char *memory, *cpu; /* the folders that tell usage; NULL: none do */
        const char *const *launcher;
        struct mounts mounts;
        char *bases[FOLDERS_MAX]; /* where runs' folders are, ours among them */
        size_t base_count;
        const char *family; /* the folder of our family; NULL: we are of none */
        struct arena *arena;
};

/* --- version 2 --- */

/* This process's own group below the mount, "" for the root. */
static const char *own_path(struct arena *arena) {
        char text[8192], *line, *rest = text;

        if (!cgroup_file_read("/proc/self", "cgroup", text, sizeof(text)))
                return "";
        while ((line = strsep(&rest, "\n"))) {
                /* With "..": it is not below what is mounted here. */
                if (strncmp(line, "0::/", 4) == 0)
                        return line[4] && !strstr(line, "/..") ? arena_strdup(arena, line + 3) : "";
        }
        return "";
}

/* One process may make many. */
static void choose_name(struct cgroup *group) {
        static atomic_uint number;

        cgroup_folder_name(atomic_fetch_add(&number, 1), group->name, sizeof(group->name));
}

static bool make_v2(struct cgroup *group, const struct cgroup_limits *limits, bool service) {
        struct cgroup_v2_place place = { .mount = group->mounts.at[UNIFIED],
                                         .root = geteuid() == 0,
                                         .service = service };
        const char *folder, *base;

        if (!place.mount)
                return false;
        place.name = group->name;
        place.own = own_path(group->arena);
        place.family = &group->family;
        folder = cgroup_v2_make(&place, limits, group->arena, &base);
        if (!folder)
                return false;
        group->method = METHOD_V2;
        group->enforced = CGROUP_EVERYTHING;
        group->folders[group->count++] = arena_strdup(group->arena, folder);
        group->bases[group->base_count++] = arena_strdup(group->arena, base);
        group->memory = group->cpu = folder;
        return true;
}

/* --- version 1 --- */

/* The run's folder below `base`, which is made with it where it is the first, as the family is between them. */
static bool make_run_folder(const char *base, const char *family, const char *folder) {
        const char *const above[] = { base, family };

        for (int tries = 0; tries < FOLDER_TRIES; tries++) {
                if (mkdir(folder, 0755) == 0 || errno == EEXIST)
                        return true;
                if (errno != ENOENT)
                        return false;
                for (size_t i = 0; i < 2; i++) {
                        if (above[i] && mkdir(above[i], 0755) < 0 && errno != EEXIST && errno != ENOENT)
                                return false;
                }
        }
        return false;
}

/* A hierarchy of two controllers has one folder for both: that of a family where one of them is CPU's. */
static const char *make_v1_folder(struct cgroup *group, enum hierarchy hierarchy,
                                  const struct cgroup_limits *limits) {
        const struct cgroup_family *family = &limits->family;
        const char *mount = group->mounts.at[hierarchy], *cpu = group->mounts.at[CPU], *of_family = NULL;
        char *base, *folder;

        if (!mount)
                return NULL;
        base = arena_printf(group->arena, "%s/berth", mount);
        if (family->name && cpu && strcmp(mount, cpu) == 0)
                of_family = cgroup_family_folder(base, family, group->arena);
        folder = of_family ? arena_strdup(group->arena, cgroup_family_run(of_family, group->name,
                                                                          limits->cpu_millis, group->arena))
                           : arena_printf(group->arena, "%s/%s", base, group->name);
        for (size_t i = 0; i < group->count; i++) {
                if (strcmp(group->folders[i], folder) == 0)
                        return group->folders[i];
        }
        if (!make_run_folder(base, of_family, folder))
                return NULL;
        if (of_family)
                group->family = of_family;
        group->folders[group->count++] = folder;
        group->bases[group->base_count++] = base;
        return folder;
}

/* The family's first: on version 1 no member may have more. */
static bool set_v1_cpu(const struct cgroup *group, const char *folder, const struct cgroup_limits *limits) {
        if (group->family && cgroup_family_hold_v1(group->family, &limits->family) < 0)
                return false;
        return cgroup_family_hold_run_v1(group->family, folder, limits->cpu_millis) == 0;
}

/*
 * On version 1 buffers of TCP and UDP sockets do not count as memory but in a limit of their own, which is not in force until
 * it is set; a kernel without it (ENOENT) cannot hold them.
 */
static bool set_v1_memory(const char *folder, uint64_t bytes) {
        uint64_t buffers =
                bytes / SOCKETS_SHARE < SOCKETS_BYTES_MAX ? bytes / SOCKETS_SHARE : SOCKETS_BYTES_MAX;

        if (cgroup_file_write_number(folder, "memory.limit_in_bytes", bytes) < 0)
                return false;
        if (cgroup_file_write_number(folder, "memory.kmem.tcp.limit_in_bytes", buffers) < 0 &&
            errno != ENOENT)
                return false;
        return cgroup_file_write_number(folder, "memory.memsw.limit_in_bytes", bytes) == 0 || errno == ENOENT;
}

static bool make_v1(struct cgroup *group, const struct cgroup_limits *limits) {
        const char *memory = make_v1_folder(group, MEMORY, limits), *cpu = make_v1_folder(group, CPU, limits),
                   *pids = make_v1_folder(group, PIDS, limits),
                   *account = make_v1_folder(group, ACCOUNT, limits);

        if (memory && set_v1_memory(memory, limits->memory_bytes))
                group->enforced |= CGROUP_MEMORY;
        if (cpu && set_v1_cpu(group, cpu, limits))
                group->enforced |= CGROUP_CPU;
        if (pids && cgroup_file_write_number(pids, "pids.max", limits->processes) == 0)
                group->enforced |= CGROUP_PROCESSES;
        if (group->count == 0)
                return false;
        group->memory = memory;
        group->cpu = account;
        group->method = METHOD_V1;
        return true;
}

/* --- a scope of the user's systemd --- */

/* systemd-run speaks to the user's bus, and to nothing else. */
static bool has_user_bus(struct arena *arena) {
        const char *runtime = getenv("XDG_RUNTIME_DIR"), *address = getenv("DBUS_SESSION_BUS_ADDRESS");

        return (address && *address) ||
               (runtime && *runtime && access(arena_printf(arena, "%s/bus", runtime), F_OK) == 0);
}

/* systemd-run takes limits that its manager cannot enforce without a word: what was delegated to it is looked at. */
static const char *user_manager(const char *mount, struct arena *arena) {
        return arena_printf(arena, "%s/user.slice/user-%lu.slice/user@%lu.service", mount,
                            (unsigned long)geteuid(), (unsigned long)geteuid());
}

static bool make_scope(struct cgroup *group, const struct cgroup_family *family) {
        const char *mount = group->mounts.at[UNIFIED], *manager;

        if (!mount || geteuid() == 0 || access("/usr/bin/systemd-run", X_OK) < 0 ||
            !has_user_bus(group->arena))
                return false;
        manager = user_manager(mount, group->arena);
        if (!cgroup_v2_lists(manager, "cgroup.controllers"))
                return false;
        group->launcher = cgroup_scope_words(family, group->arena);
        group->method = METHOD_SCOPE;
        group->enforced = CGROUP_EVERYTHING;
        if (family->name && !cgroup_family_hold_slice(manager, family, group->arena))
                group->enforced &= ~(unsigned)CGROUP_CPU;
        return true;
}

/* --- the module --- */

static const char *problem_of(const struct cgroup *group) {
        if (group->enforced == CGROUP_EVERYTHING)
                return "";
        if (group->method == METHOD_SCOPE)
                return "systemd gives no quota to the slice that an agent's runs share (systemctl --user set-property)";
        if (geteuid() == 0)
                return "the controllers memory, cpu and pids are not all mounted writable here: give this machine or "
                       "container its own cgroups (docker: --privileged or --cgroupns=private with a writable "
                       "/sys/fs/cgroup)";
        return "no cgroup was delegated to this user: run below systemd (systemd-run --user --scope -p Delegate=yes "
               "berth ...; a login session with user services), or as root";
}

static struct cgroup *make_cgroup(const struct cgroup_limits *limits, pid_t child, bool service,
                                  struct arena *arena) {
        struct cgroup *group = arena_alloc(arena, sizeof(*group));

        *group = (struct cgroup){ .arena = arena, .launcher = no_launcher, .mounts = find_mounts(arena) };
        /*
         * A worker that was found is not a child of this process: it may be gone already. A group
         * made then belongs to this process, and ends with it.
         */
        if (child <= 0 || !cgroup_folder_name_of(child, group->name, sizeof(group->name)))
                choose_name(group);
        if (!make_v2(group, limits, service) && (geteuid() != 0 || !make_v1(group, limits)))
                make_scope(group, &limits->family);
        group->problem = problem_of(group);
        return group;
}

struct cgroup *cgroup_make(const struct cgroup_limits *limits, struct arena *arena) {
        return make_cgroup(limits, 0, false, arena);
}

struct cgroup *cgroup_make_for_service(const struct cgroup_limits *limits, pid_t child, struct arena *arena) {
        return make_cgroup(limits, child, true, arena);
}

/* Of each base where it may be: one that is not there has no groups. */
bool cgroup_family_set(const struct cgroup_family *family, bool service, struct arena *arena) {
        struct cgroup group = { .arena = arena, .mounts = find_mounts(arena) };
        const char *unified = group.mounts.at[UNIFIED], *cpu = group.mounts.at[CPU], *bases[4] = { NULL };
        struct cgroup_v2_place place = { .mount = unified, .own = own_path(arena) };
        const char *own = unified ? arena_printf(arena, "%s%s", unified, place.own) : NULL;
        bool held = true;
        size_t count = 0;

        if (cpu && geteuid() == 0) {
                const char *folder =
                        cgroup_family_folder(arena_printf(arena, "%s/berth", cpu), family, arena);

                if (access(folder, F_OK) == 0)
                        held = cgroup_family_hold_v1(folder, family) == 0;
        }
        if (!unified)
                return held;
        if (geteuid() == 0)
                bases[count++] = arena_printf(arena, "%s/berth", unified);
        if (geteuid() == 0 && service && place.own[0])
                bases[count++] = cgroup_v2_service_folder(&place, arena);
        if (geteuid() != 0 && place.own[0]) {
                bases[count++] = own;
                bases[count++] = arena_strndup(arena, own, (size_t)(strrchr(own, '/') - own));
        }
        for (size_t i = 0; i < count; i++) {
                const char *folder = cgroup_family_folder(bases[i], family, arena);

                if (access(folder, F_OK) == 0)
                        held = cgroup_family_hold_v2(folder, family) == 0 && held;
        }
        if (geteuid() != 0 && has_user_bus(arena)) {
                const char *manager = user_manager(unified, arena);

                if (access(arena_printf(arena, "%s/" CGROUP_SLICE "/%s", manager,
                                        cgroup_family_slice(family, arena)),
                           F_OK) == 0)
                        held = cgroup_family_hold_slice(manager, family, arena) && held;
        }
        return held;
}

void cgroup_leave_service(void) {
        struct arena *arena = arena_new();
        struct cgroup_v2_place place = { .mount = find_mounts(arena).at[UNIFIED], .own = own_path(arena) };

        if (place.mount && geteuid() == 0 && place.own[0])
                (void)rmdir(cgroup_v2_service_folder(&place, arena));
        arena_free(arena);
}

unsigned cgroup_missing(const struct cgroup *group) {
        return CGROUP_EVERYTHING & ~group->enforced;
}

const char *cgroup_problem(const struct cgroup *group) {
        return group->problem;
}

const char *cgroup_method(const struct cgroup *group) {
        static const char *const names[] = { "none", "cgroup v1", "cgroup v2", "systemd scope" };

        return names[group->method];
}

const char *const *cgroup_launcher(const struct cgroup *group) {
        return group->launcher;
}

struct cgroup *cgroup_make_in_scope(const struct cgroup_limits *limits, struct arena *arena) {
        struct cgroup *group = arena_alloc(arena, sizeof(*group));
        struct cgroup_v2_place place;
        const char *folder, *base;

        *group = (struct cgroup){
                .arena = arena, .launcher = no_launcher, .problem = "", .mounts = find_mounts(arena)
        };
        choose_name(group);
        place = (struct cgroup_v2_place){ .name = group->name,
                                          .mount = group->mounts.at[UNIFIED],
                                          .own = own_path(arena) };
        if (!place.mount || !(folder = cgroup_v2_make_below(&place, limits, arena, &base)))
                return NULL;
        group->method = METHOD_V2;
        group->enforced = CGROUP_EVERYTHING;
        group->folders[group->count++] = arena_strdup(arena, folder);
        group->memory = group->cpu = folder;
        return group;
}

/* "tasks" moves a single thread, which a process is at birth. */
int cgroup_doors_open(const struct cgroup *group, struct cgroup_doors *ret) {
        const char *file = group->method == METHOD_V1 ? "tasks" : "cgroup.procs";
        struct cgroup_doors doors = CGROUP_DOORS_NONE;

        if (group->method == METHOD_V2)
                doors.folder = open(group->folders[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < group->count; i++) {
                char *path TEXT_CLEANUP = path_join(group->folders[i], file);

                doors.entries[doors.count] = open(path, O_WRONLY | O_CLOEXEC);
                if (doors.entries[doors.count] < 0) {
                        cgroup_doors_close(&doors);
                        return -1;
                }
                doors.count++;
        }
        *ret = doors;
        return 0;
}

void cgroup_doors_close(struct cgroup_doors *doors) {
        close_descriptor(&doors->folder);
        while (doors->count > 0)
                close_descriptor(&doors->entries[--doors->count]);
}

pid_t cgroup_fork(const struct cgroup_doors *doors, bool *ret_born) {
        struct clone_args arguments = {
                .flags = CLONE_INTO_CGROUP,
                .exit_signal = SIGCHLD,
                .cgroup = (unsigned)doors->folder,
        };
        pid_t pid = doors->folder < 0 ? -1 : (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));

        *ret_born = pid >= 0;
        return pid >= 0 ? pid : fork();
}

int cgroup_enter(const struct cgroup_doors *doors) {
        for (size_t i = 0; i < doors->count; i++) {
                if (write(doors->entries[i], "0", 1) != 1)
                        return -1;
        }
        return 0;
}

/* A process is in all folders or in none: one tells of all. */
void cgroup_kill(struct cgroup *group) {
        if (group->count > 0)
                cgroup_folder_kill(group->folders[0]);
}

void cgroup_measure(struct cgroup *group, struct cgroup_usage *ret) {
        *ret = (struct cgroup_usage){ 0 };
        if (!group->memory || !group->cpu)
                return;
        if (group->method == METHOD_V1) {
                ret->memory_bytes = cgroup_file_number(group->memory, "memory.usage_in_bytes", NULL);
                ret->peak_memory_bytes = cgroup_file_number(group->memory, "memory.max_usage_in_bytes", NULL);
                ret->memory_kills = cgroup_file_number(group->memory, "memory.oom_control", "oom_kill");
                ret->cpu_us = cgroup_file_number(group->cpu, "cpuacct.usage", NULL) / 1000;
                ret->known = true;
                return;
        }
        ret->memory_bytes = cgroup_file_number(group->memory, "memory.current", NULL);
        ret->memory_kills = cgroup_file_number(group->memory, "memory.events", "oom_kill");
        ret->peak_memory_bytes = cgroup_file_number(group->memory, "memory.peak", NULL);
        ret->cpu_us = cgroup_file_number(group->cpu, "cpu.stat", "usage_usec");
        ret->known = true;
}

void cgroup_gauges_open(const struct cgroup *group, struct cgroup_gauges *ret) {
        bool v1 = group->method == METHOD_V1;
        struct cgroup_gauges gauges = CGROUP_GAUGES_NONE;

        if (group->memory && group->cpu) {
                gauges.memory =
                        cgroup_file_open(group->memory, v1 ? "memory.max_usage_in_bytes" : "memory.peak");
                gauges.kills = cgroup_file_open(group->memory, v1 ? "memory.oom_control" : "memory.events");
                gauges.cpu = cgroup_file_open(group->cpu, v1 ? "cpuacct.usage" : "cpu.stat");
                gauges.used =
                        cgroup_file_open(group->memory, v1 ? "memory.usage_in_bytes" : "memory.current");
        }
        /* No peak before Linux 5.19: what stands in for it has no number to begin with. */
        if (gauges.memory < 0 && gauges.kills >= 0)
                gauges.memory = fcntl(gauges.kills, F_DUPFD_CLOEXEC, 0);
        if (gauges.memory < 0 || gauges.kills < 0 || gauges.cpu < 0 || gauges.used < 0)
                cgroup_gauges_close(&gauges);
        *ret = gauges;
}

/* Nanoseconds alone are what version 1 says of CPUs. Where the group is gone, so is what it knew. */
void cgroup_gauges_measure(const struct cgroup_gauges *gauges, struct cgroup_usage *ret) {
        *ret = (struct cgroup_usage){ 0 };
        ret->known = cgroup_descriptor_number(gauges->kills, "oom_kill", &ret->memory_kills);
        if (!ret->known)
                return;
        if (!cgroup_descriptor_number(gauges->memory, NULL, &ret->peak_memory_bytes))
                ret->peak_memory_bytes = 0;
        if (!cgroup_descriptor_number(gauges->used, NULL, &ret->memory_bytes))
                ret->memory_bytes = 0;
        if (!cgroup_descriptor_cpu_us(gauges->cpu, &ret->cpu_us))
                ret->cpu_us = 0;
}

void cgroup_gauges_close(struct cgroup_gauges *gauges) {
        close_descriptor(&gauges->memory);
        close_descriptor(&gauges->kills);
        close_descriptor(&gauges->cpu);
        close_descriptor(&gauges->used);
}

static void remove_empty_groups(struct cgroup *group) {
        while (group->count > 0 &&
               (cgroup_folder_drop(group->folders[group->count - 1]) == 0 || errno == ENOENT))
                group->count--;
}

/* Removes cgroups that dead runs left. It comes after this run's own work, so that no client waits for it. */
static void sweep_once(struct cgroup *group) {
        cgroup_folder_sweep(group->bases, group->base_count);
        group->base_count = 0;
}

void cgroup_vacate(struct cgroup *group) {
        if (!group)
                return;
        remove_empty_groups(group);
        sweep_once(group);
}

void cgroup_close(struct cgroup *group) {
        if (!group)
                return;
        for (remove_empty_groups(group); group->count > 0; remove_empty_groups(group)) {
                cgroup_folder_kill(group->folders[group->count - 1]);
                cgroup_folder_remove(group->folders[--group->count]);
        }
        if (group->family)
                (void)rmdir(group->family);
        sweep_once(group);
}
