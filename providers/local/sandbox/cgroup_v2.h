/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Version 2 of cgroups: where below the mount a run's group may be made, and making it. Inside of the cgroup module.
 *
 * Three rules of the kernel (Documentation/admin-guide/cgroup-v2.rst) and one of systemd
 * (CGROUP_DELEGATION.md) decide: controllers reach a group's children only where
 * cgroup.subtree_control of it names them; but for the true root, a group has either processes or
 * such children; a process that moves another must be able to write cgroup.procs of the group that
 * both places have in common; and below systemd only what it delegated is ours: it takes
 * controllers away from its own slices whenever none of its units wants them, and with them our
 * limits.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_CGROUP_V2_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_CGROUP_V2_H

#include "base/arena.h"
#include "providers/local/sandbox/cgroup.h"

#include <stdbool.h>

struct cgroup_v2_place {
        const char *mount;
        const char *name;    /* of the new group's folder */
        const char *own;     /* this process's group below it, "/a/b"; "" is the top */
        bool root;           /* this process's rights */
        bool service;        /* root's: all its groups together are held to what its own group may use */
        const char **family; /* where the folder of the limits' family goes, once it is there; or NULL */
};

/*
 * A new folder with the limits set, below *ret_base, where other runs' are, too; NULL where there is no place for it.
 * Moves this process into a group beside the new one where it is the only one in a group of its own; and in a container,
 * root may move all processes of the top.
 */
const char *cgroup_v2_make(const struct cgroup_v2_place *place, const struct cgroup_limits *limits,
                           struct arena *arena, const char **ret_base);

/* The same below this process's own group, in which it must be the only process. */
const char *cgroup_v2_make_below(const struct cgroup_v2_place *place, const struct cgroup_limits *limits,
                                 struct arena *arena, const char **ret_base);

/* Where the groups of a service are that is held to something; removed by its owner. */
const char *cgroup_v2_service_folder(const struct cgroup_v2_place *place, struct arena *arena);

/* Whether the three controllers are in the list that the file is. */
bool cgroup_v2_lists(const char *folder, const char *file);

/* --- a scope of the user's systemd, for users without a group of their own --- */

/* All scopes of ours are in it. */
#define CGROUP_SLICE_PREFIX "berth"
#define CGROUP_SLICE CGROUP_SLICE_PREFIX ".slice"

/*
 * The command to be put in front of another, ended by NULL: the scope is delegated, and limits are set below it. `family`: whose slice it is
 * in, or NULL.
 */
const char *const *cgroup_scope_words(const struct cgroup_family *family, struct arena *arena);

#endif
