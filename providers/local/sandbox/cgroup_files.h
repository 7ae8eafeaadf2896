/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a cgroup's folder; inside of the cgroup module. */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_CGROUP_FILES_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_CGROUP_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Whole small file as text without its last newline; false where it cannot be read. */
bool cgroup_file_read(const char *folder, const char *name, char *buffer, size_t size);
/*
 * The number that is the file, or that stands behind `key` in a file of "KEY NUMBER" lines; 0 if
 * it is missing.
 */
uint64_t cgroup_file_number(const char *folder, const char *name, const char *key);
/* For cgroup_descriptor_number(); -1 with errno. */
int cgroup_file_open(const char *folder, const char *name);
/* The same number of an open file; false if absent. */
bool cgroup_descriptor_number(int file, const char *key, uint64_t *ret);
/*
 * The CPU time used, in microseconds: of an open cpu.stat, or of a cpuacct.usage, which counts
 * nanoseconds.
 */
bool cgroup_descriptor_cpu_us(int file, uint64_t *ret);
/* 0, or -1 with errno. */
int cgroup_file_write(const char *folder, const char *name, const char *text);
int cgroup_file_write_number(const char *folder, const char *name, uint64_t number);

/* Sends SIGKILL to every process in it, and again until none is left (some 2 s at the most). */
void cgroup_folder_kill(const char *folder);
/*
 * rmdir(2) of one. Where it is empty, it gives up its quota of CPUs first: the kernel may keep a removed group for a while, and as long as that
 * has one, no group above it gets less (sched_cfs_schedulable() of version 1).
 */
int cgroup_folder_drop(const char *folder);
/* Removes it once it is empty. */
void cgroup_folder_remove(const char *folder);
/* What the folder of all runs of a service begins with. */
#define CGROUP_SERVICE_PREFIX "of-"
/* What that of a family begins with (cgroup_family.h). */
#define CGROUP_FAMILY_PREFIX "all-"
/*
 * Removes "run-IDENTITY-N" below each of the bases, and below those of services and families there,
 * where its process is known to be dead; and families without members.
 */
void cgroup_folder_sweep(char *const *bases, size_t count);
/* "run-IDENTITY-N" of this process (process/identity.h). */
#define CGROUP_NAME_SIZE 112
void cgroup_folder_name(unsigned number, char *buffer, size_t size);
/* The same of a child that has not been waited for, or of a stranger: false where it is gone. */
bool cgroup_folder_name_of(pid_t child, char *buffer, size_t size);

#endif
