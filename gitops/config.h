/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's own manifest: one document of kind Controller, in a file of its own. */
#ifndef BERTH_GITOPS_CONFIG_H
#define BERTH_GITOPS_CONFIG_H

#include "base/arena.h"
#include "base/error.h"
#include "controller/plan.h"
#include "gitops/git/git.h"
#include "schema/diagnostics.h"

enum source_mode {
        SOURCE_APPLY,   /* apply what is planned; refused changes wait for a person */
        SOURCE_APPROVE, /* every plan that changes something waits until exactly that plan is approved */
        SOURCE_PLAN     /* only report */
};

struct source_config {
        const char *name; /* DNS label; of a child "SOURCE/FOLDER" */
        const char *url, *branch, *tag, *path;
        bool pattern;              /* `path` has * or ?: each folder that matches is a child (children.c) */
        const char *parent;        /* of a child: the source whose pattern it came from; else NULL */
        int64_t interval_ms;       /* between polls */
        int64_t drift_interval_ms; /* between full looks at what exists, where no commit came */
        enum source_mode mode;
        bool correct_drift; /* put back what others changed; false: report it */
        bool fast_forward_only;
        struct git_credentials credentials;
        const char *const *gpg_keys;
        size_t gpg_key_count;
        const char *ssh_allowed_signers;
        const struct value *pins,
                *may; /* of the manifest, as the field tables say: pins.h; NULL where absent */
        struct allowance *allowances; /* `allow`: refusals that never stop this source */
        size_t allowance_count;
        const char *state; /* "s3://BUCKET/PREFIX"; NULL: as the Stack says, else the source's folder */
        bool suspended;    /* from the start; `resume` overrides it */
};

enum notify_event {
        NOTIFY_APPLIED = 1 << 0,  /* changes were made */
        NOTIFY_FAILED = 1 << 1,   /* source, manifests, plan or apply failed */
        NOTIFY_REFUSED = 1 << 2,  /* a guard refused, a person has to decide */
        NOTIFY_APPROVAL = 1 << 3, /* a plan waits for approval */
        NOTIFY_DRIFT = 1 << 4,    /* a change by others was found */
        NOTIFY_RECOVERED = 1 << 5 /* a source that failed is ready again */
};
const char *config_event_name(enum notify_event event); /* "applied", ...: as manifests write it */

struct notify_target {
        const char *url;
        unsigned events;         /* of enum notify_event */
        const char *secret_file; /* signs each POST; NULL: unsigned */
};

struct controller_config {
        const char *name;
        const char *listen;       /* "127.0.0.1:9470", "[::1]:9470", ":9470"; "": no HTTP */
        const char *const *hosts; /* names that clients call it by */
        size_t host_count;
        const char *webhook_secret_file; /* or NULL: no hooks */
        struct notify_target *targets;
        size_t target_count;
        struct source_config *sources; /* by name */
        size_t source_count;
};

/*
 * Reads and checks `path`, a file. As manifests_load(): ERROR_DIAGNOSED with everything that is wrong in `diagnostics`. Paths of
 * files in it are relative to its folder; one that
 * names no file is an error or, with `elsewhere` (the controller runs on another machine), a warning.
 */
int controller_config_load(const char *path, bool elsewhere, struct arena *arena,
                           struct controller_config *ret, struct diagnostics *diagnostics,
                           struct error *err) MUST_USE;

#endif
