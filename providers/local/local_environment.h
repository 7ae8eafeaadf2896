/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environments and agents as they were applied, read from their records: all that running code needs. Running code never
 * reads manifests or the state.
 */
#ifndef BERTH_PROVIDERS_LOCAL_LOCAL_ENVIRONMENT_H
#define BERTH_PROVIDERS_LOCAL_LOCAL_ENVIRONMENT_H

#include "base/arena.h"
#include "base/error.h"
#include "egress/allow.h"
#include "providers/local/local_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct local_variable {
        const char *name;
        const char *text; /* in clear, even where it is sensitive */
        bool sensitive;   /* must never be shown or logged */
};

struct local_environment {
        const char *stack, *name;

        const char *image;        /* for people: "prebuilt python", "data/etl:stable" */
        const char *image_digest; /* "sha256:..."; NULL: the machine's own /usr */
        const char *image_root;   /* the unpacked image's root folder; NULL: the machine's own /usr */
        const char *const *image_variables; /* "NAME=TEXT", as the image sets them */
        size_t image_variable_count;
        const char *image_problem; /* why nothing can run, and what to do; NULL: all is well */

        int64_t memory_mb;            /* the limit; CPU share is memory_mb / MEMORY_MB_PER_VCPU */
        int64_t storage_mb;           /* the workspace's quota */
        int64_t timeout_s;            /* the deadline of one run */
        int64_t reserved_concurrency; /* the most runs at once, 0 stops it; -1: no limit of its own */
        bool tenant_isolation;

        struct allow_list network; /* what its sandboxes may reach; without entries nothing */
        const struct local_variable *variables;
        size_t variable_count;
        const char *const *elsewhere; /* names of variables whose texts are kept in AWS */
        size_t elsewhere_count;

        const char *workspaces; /* the folder of workspaces: sessions/ID/ is below it */
};

struct local_agent {
        const char *stack, *name;
        const char *environment; /* NULL: bound to none */
        bool specialist, active;
        int64_t cpus, memory_mb, containers; /* limits; -1: none */
        bool reject;                         /* work beyond a limit is turned away; else it waits */
};

/*
 * The environment as it was applied. ERROR_NOT_FOUND where no such environment was (err says to apply); a record that
 * is damaged or not this stack's is an error that names the file. Everything lives in the arena.
 */
int local_environment_load(const char *root, const char *name, struct arena *arena,
                           struct local_environment *ret, struct error *err) MUST_USE;
/* The same for an agent. */
int local_agent_load(const char *root, const char *name, struct arena *arena, struct local_agent *ret,
                     struct error *err) MUST_USE;

#endif
