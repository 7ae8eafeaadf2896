/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A family of groups: those of one name share a quota of CPUs, whichever process makes them, beside
 * the one that each has. On disk it is a folder "all-NAME" between a base and the folders of its
 * runs, which goes with the last of them. Inside of the cgroup module.
 */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_CGROUP_FAMILY_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_CGROUP_FAMILY_H

#include "base/arena.h"
#include "providers/local/sandbox/cgroup.h"

#include <stdbool.h>

/* Whether it can be the name of one: letters, digits and dashes, 64 at most. */
bool cgroup_family_is_name(const char *name);
/* Its folder below `base`. */
const char *cgroup_family_folder(const char *base, const struct cgroup_family *family, struct arena *arena);
/*
 * On version 1: the path of a run's folder in that of the family. It ends with what the run may use
 * by itself, so that what was lowered with its family can be raised with it. An existing group of
 * that run gets that name.
 */
const char *cgroup_family_run(const char *folder, const char *run, unsigned cpu_millis, struct arena *arena);
/*
 * Of a folder that is there. On version 1 no group may have more than the family, so those that have get less first, and their own again
 * when the family gets more. -1 with errno where it is not held.
 */
int cgroup_family_hold_v1(const char *folder, const struct cgroup_family *family);
/* A run's own quota, or as much of it as its family has; `folder` is the family's, or NULL. */
int cgroup_family_hold_run_v1(const char *folder, const char *run, unsigned cpu_millis);
int cgroup_family_hold_v2(const char *folder, const struct cgroup_family *family);
/*
 * Of a user's systemd: a slice of its own, for `systemd-run --slice`, and its quota. False where systemd does not take it. `manager` is
 * the folder of the user's manager.
 */
const char *cgroup_family_slice(const struct cgroup_family *family, struct arena *arena);
bool cgroup_family_hold_slice(const char *manager, const struct cgroup_family *family, struct arena *arena);

#endif
