/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What code runs in, worked out from the records of earlier applies, not from manifests: what was declared and never applied cannot
 * be run. A run and a session begin with the same.
 */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_PROGRAM_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_PROGRAM_H

#include "providers/local/local_environment.h"
#include "providers/local/sandbox/sandbox.h"

#define LOCAL_PROCESSES_MAX 512
#define LOCAL_FILES_MAX 200000
/* Of them. To look into a folder costs several times what a file does, with each execution. */
#define LOCAL_FOLDERS_MAX 30000
#define LOCAL_BYTES_PER_MB (UINT64_C(1024) * 1024)

struct local_program {
        struct local_environment environment;
        struct local_agent agent;      /* limits of -1 without one */
        int64_t memory_mb, cpu_millis; /* one run may take all of its agent's share, and never more */
        int64_t own_cpu_millis; /* what its environment gives one: the family bounds it, and may be raised as it runs */
        struct sandbox_family family; /* of all that runs for its agent; none without one */
};

/* `environment` may be NULL where `agent`'s own is meant, and `agent` for none. In the arena. */
int local_program_load(const char *root, const char *environment, const char *agent, struct arena *arena,
                       struct local_program *ret, struct error *err) MUST_USE;

/*
 * A description without what is run: image, variables, limits. Names of variables that code does not get are listed for people,
 * who may wonder; their texts never are, they may be secrets.
 */
void local_program_describe(const struct local_program *program, int64_t deadline_ms, struct arena *arena,
                            struct sandbox_spec *ret, const char *const **ret_withheld,
                            size_t *ret_withheld_count);

/*
 * The name by which runs share an agent's CPUs: all runs for the agent of that name which have this
 * very folder as `root`, whichever process starts them and by whatever path. In the arena.
 */
void local_program_share(const char *root, const struct local_agent *agent, const char *name,
                         struct arena *arena, struct sandbox_family *ret);

/* A negative limit means no limit. */
int64_t local_least(int64_t value, int64_t limit);

#endif
