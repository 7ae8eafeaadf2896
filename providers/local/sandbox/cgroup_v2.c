/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/cgroup_v2.h"

#include "providers/local/sandbox/cgroup_family.h"
#include "providers/local/sandbox/cgroup_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PERIOD_US 100000U
/* While processes are moved others are born: at most this many rounds move those as well. */
#define MOVES_MAX 20

static bool has_word(const char *list, const char *word) {
        size_t length = strlen(word);

        for (const char *at = list; (at = strstr(at, word)); at += length) {
                if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' '))
                        return true;
        }
        return false;
}

bool cgroup_v2_lists(const char *folder, const char *file) {
        char text[1024];

        return cgroup_file_read(folder, file, text, sizeof(text)) && has_word(text, "memory") &&
               has_word(text, "cpu") && has_word(text, "pids");
}

/* Whether groups below `base` get the controllers, switched on where we may. */
static bool enable(const char *base) {
        if (cgroup_v2_lists(base, "cgroup.subtree_control"))
                return true;
        if (!cgroup_v2_lists(base, "cgroup.controllers"))
                return false;
        return cgroup_file_write(base, "cgroup.subtree_control", "+memory +cpu +pids") == 0;
}

static bool make_group(const char *path) {
        return mkdir(path, 0755) == 0 || errno == EEXIST;
}

/* --- the group --- */

static int set_limits(const char *folder, const struct cgroup_limits *limits) {
        char cpu[64];

        snprintf(cpu, sizeof(cpu), "%u %u", limits->cpu_millis * (PERIOD_US / 1000), PERIOD_US);
        /* Without swap accounting there is no such file, and nothing to limit. */
        if (cgroup_file_write(folder, "memory.swap.max", "0") < 0 && errno != ENOENT)
                return -1;
        if (cgroup_file_write_number(folder, "memory.max", limits->memory_bytes) < 0 ||
            cgroup_file_write(folder, "memory.oom.group", "1") < 0 ||
            cgroup_file_write_number(folder, "pids.max", limits->processes) < 0 ||
            cgroup_file_write(folder, "cpu.max", cpu) < 0)
                return -1;
        return 0;
}

/* Where others remove the family in between, as its last one went, it is made again. */
static const char *make_in_family(const char *base, const struct cgroup_v2_place *place,
                                  const struct cgroup_limits *limits, struct arena *arena) {
        const char *family = cgroup_family_folder(base, &limits->family, arena),
                   *folder = arena_printf(arena, "%s/%s", family, place->name);

        for (int tries = 0; tries < MOVES_MAX; tries++) {
                if (!make_group(family))
                        return NULL;
                if (!enable(family)) {
                        if (access(family, F_OK) == 0)
                                return NULL;
                        continue;
                }
                if (make_group(folder)) {
                        if (place->family)
                                *place->family = family;
                        return cgroup_family_hold_v2(family, &limits->family) == 0 ? folder : NULL;
                }
                if (errno != ENOENT)
                        return NULL;
        }
        return NULL;
}

static const char *make_in(const char *base, const struct cgroup_v2_place *place,
                           const struct cgroup_limits *limits, struct arena *arena, const char **ret_base) {
        const char *folder;

        if (!enable(base))
                return NULL;
        if (limits->family.name) {
                folder = make_in_family(base, place, limits, arena);
                if (!folder)
                        return NULL;
        } else {
                folder = arena_printf(arena, "%s/%s", base, place->name);
                if (!make_group(folder))
                        return NULL;
        }
        if (set_limits(folder, limits) < 0) {
                rmdir(folder);
                return NULL;
        }
        *ret_base = base;
        return folder;
}

/* --- room for it --- */

/* Moves every process of the group into `leaf`; 0 where that is done, 1 where there were some, -1 where one cannot be. */
static int move_all(const char *group, const char *leaf) {
        char text[65536], *line, *rest = text;
        int moved = 0;

        if (!cgroup_file_read(group, "cgroup.procs", text, sizeof(text)))
                return -1;
        while ((line = strsep(&rest, "\n"))) {
                if (!*line)
                        continue;
                /*
                 * 0 is a process outside of this PID namespace. A process that has ended meanwhile
                 * need not be moved.
                 */
                if (strcmp(line, "0") == 0 ||
                    (cgroup_file_write(leaf, "cgroup.procs", line) < 0 && errno != ESRCH))
                        return -1;
                moved = 1;
        }
        return moved;
}

/* We are the only process of the group. */
static bool is_alone(const char *group) {
        char text[64], own[32];

        snprintf(own, sizeof(own), "%ld", (long)getpid());
        return cgroup_file_read(group, "cgroup.procs", text, sizeof(text)) && strcmp(text, own) == 0;
}

/* A group of our own, delegated with no other process in it: this process moves to a leaf of it. */
static bool make_room_alone(const char *own, struct arena *arena) {
        const char *leaf = arena_printf(arena, "%s/berth", own);

        return is_alone(own) && make_group(leaf) && move_all(own, leaf) > 0;
}

/* The top of a container's own cgroups, which is not the true root: only that has no cgroup.type. */
static bool make_room_at_top(const char *mount, struct arena *arena) {
        const char *leaf = arena_printf(arena, "%s/rest", mount);
        int moved = 1;

        if (access(arena_printf(arena, "%s/cgroup.type", mount), F_OK) < 0 ||
            !cgroup_v2_lists(mount, "cgroup.controllers") || !make_group(leaf))
                return false;
        for (int tries = 0; moved > 0 && tries < MOVES_MAX; tries++)
                moved = move_all(mount, leaf);
        return moved == 0;
}

/* --- where --- */

/* Groups that systemd keeps for itself: its slices, and the service that is a user's whole manager. */
static bool is_systemds(const char *group) {
        const char *name = strrchr(group, '/');
        size_t length;

        name = name ? name + 1 : group;
        length = strlen(name);
        return (length > 6 && strcmp(name + length - 6, ".slice") == 0) ||
               (strncmp(name, "user@", 5) == 0 && length > 8 && strcmp(name + length - 8, ".service") == 0);
}

/* Both the folder and the right to move processes to and fro below it. */
static bool is_writable_group(const char *group, struct arena *arena) {
        return faccessat(AT_FDCWD, group, W_OK, AT_EACCESS) == 0 &&
               faccessat(AT_FDCWD, arena_printf(arena, "%s/cgroup.procs", group), W_OK, AT_EACCESS) == 0;
}

const char *cgroup_v2_service_folder(const struct cgroup_v2_place *place, struct arena *arena) {
        return arena_printf(arena, "%s/berth/" CGROUP_SERVICE_PREFIX "%s", place->mount,
                            strrchr(place->own, '/') + 1);
}

/*
 * What a service's own group may use, given to the folder of its runs. They are not below the group
 * itself: while a run that lasts has limits there, the kernel would let no process into it, and
 * systemd could not start the service again. Each run reads them again, since `systemctl
 * set-property` changes a service that runs.
 */
static bool copy_bounds(const char *own, const char *folder) {
        static const char *const files[] = { "memory.max", "memory.high", "cpu.max", "pids.max" };
        char bound[64], now[64];

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                if (!cgroup_file_read(own, files[i], bound, sizeof(bound)))
                        snprintf(bound, sizeof(bound), "max"); /* it has not the controller */
                if (!cgroup_file_read(folder, files[i], now, sizeof(now)))
                        return false;
                if (strcmp(bound, now) == 0 || (strncmp(bound, "max", 3) == 0 && strncmp(now, "max", 3) == 0))
                        continue;
                if (cgroup_file_write(folder, files[i], bound) < 0)
                        return false;
        }
        return true;
}

/* Root makes a group of its own below the top, for all its runs; a service has another one below that. */
static const char *make_at_top(const struct cgroup_v2_place *place, const struct cgroup_limits *limits,
                               struct arena *arena, const char **ret_base) {
        const char *base = arena_printf(arena, "%s/berth", place->mount);

        if (!enable(place->mount) &&
            (place->own[0] || !make_room_at_top(place->mount, arena) || !enable(place->mount)))
                return NULL;
        if (!make_group(base))
                return NULL;
        if (place->service && place->own[0]) {
                const char *own = arena_printf(arena, "%s%s", place->mount, place->own);

                if (!enable(base))
                        return NULL;
                base = cgroup_v2_service_folder(place, arena);
                if (!make_group(base) || !copy_bounds(own, base))
                        return NULL;
        }
        return make_in(base, place, limits, arena, ret_base);
}

const char *cgroup_v2_make_below(const struct cgroup_v2_place *place, const struct cgroup_limits *limits,
                                 struct arena *arena, const char **ret_base) {
        const char *own = arena_printf(arena, "%s%s", place->mount, place->own);

        return place->own[0] && is_writable_group(own, arena) && make_room_alone(own, arena)
                       ? make_in(own, place, limits, arena, ret_base)
                       : NULL;
}

const char *cgroup_v2_make(const struct cgroup_v2_place *place, const struct cgroup_limits *limits,
                           struct arena *arena, const char **ret_base) {
        const char *own = arena_printf(arena, "%s%s", place->mount, place->own), *above, *made = NULL;

        if (place->root)
                made = make_at_top(place, limits, arena, ret_base);
        if (made || !place->own[0])
                return made;
        /*
         * Beside our own group: that is a leaf, made for us by a delegation or by an earlier run.
         */
        above = arena_strndup(arena, own, (size_t)(strrchr(own, '/') - own));
        if (!is_systemds(above) && is_writable_group(above, arena))
                made = make_in(above, place, limits, arena, ret_base);
        if (made)
                return made;
        return cgroup_v2_make_below(place, limits, arena, ret_base);
}

/* --- systemd --- */

const char *const *cgroup_scope_words(const struct cgroup_family *family, struct arena *arena) {
        const char *slice = family && family->name ? cgroup_family_slice(family, arena) : CGROUP_SLICE;
        const char *const words[] = { "/usr/bin/systemd-run",
                                      "--user",
                                      "--scope",
                                      "--quiet",
                                      "--collect",
                                      arena_printf(arena, "--slice=%s", slice),
                                      "--property=Delegate=yes",
                                      "--" };
        const char **list = arena_array(arena, sizeof(words) / sizeof(words[0]) + 1, sizeof(*list));

        memcpy(list, words, sizeof(words));
        return list;
}
