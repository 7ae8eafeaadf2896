/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the sandbox share with each other and with nobody else. */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_PARTS_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_PARTS_H

#include "providers/local/sandbox/cgroup.h"
#include "providers/local/sandbox/sandbox.h"

#include <signal.h>

/* --- sandbox_host.c: what this machine has --- */

/* The path of a bubblewrap that is new enough. */
int sandbox_find_bubblewrap(struct arena *arena, const char **ret_path, const char **ret_version,
                            struct error *err) MUST_USE;
/* The unprivileged host user that a run is given: one of its own for root, else the caller's. */
void sandbox_choose_user(uid_t *ret_uid, gid_t *ret_gid);
/* The folder over which the child mounts, in a namespace of its own. */
int sandbox_choose_stage(const char *bubblewrap, const char **ret_stage, struct error *err) MUST_USE;

/* --- sandbox_root.c: the words for bubblewrap --- */

#define SANDBOX_DESCRIPTORS_MAX 24

/* Descriptors that bubblewrap gets under the numbers they have here. */
struct sandbox_passed {
        int descriptors[SANDBOX_DESCRIPTORS_MAX];
        size_t count;
};
void sandbox_passed_close(struct sandbox_passed *passed);

struct sandbox_root {
        struct sandbox_passed passed;
        int words; /* bubblewrap's --args: one of the passed */
};
/* `status` is passed to --json-status-fd. On failure too, root->passed must be closed. */
int sandbox_root_prepare(const struct sandbox_spec *spec, const char *stage, int status,
                         struct sandbox_root *root, struct error *err) MUST_USE;

/* --- sandbox_etc.c --- */

/* Makes and fills the folder "etc" in the working directory; -1 with errno. */
int sandbox_etc_make(void) MUST_USE;
/* What stands in passwd, group or hosts there. */
const char *sandbox_etc_text(const char *name);

/* --- sandbox_child.c: between fork and exec --- */

struct sandbox_child {
        const struct sandbox_spec *spec;
        const struct sandbox_root *root;
        const struct cgroup *group;
        bool limited; /* is in the group */
        const char *bubblewrap, *stage;
        uid_t uid;
        gid_t gid;
        int standard[3]; /* what become descriptors 0 to 2 */
        int channel; /* to the parent: the workspace goes up; one byte "go" comes down where it is filled */
        const sigset_t *unmasked; /* the signal mask to run with */
        pid_t parent;
};
/* Never returns. What fails before "go" is told through the channel. */
void sandbox_child_main(const struct sandbox_child *child) __attribute__((noreturn));
/* The parent's side: the workspace's folder as a descriptor, or what the child said. */
int sandbox_child_workspace(int channel, int *ret_folder, struct error *err) MUST_USE;
int sandbox_child_go(int channel, struct error *err) MUST_USE;

/* --- sandbox_watch.c: while it runs --- */

struct sandbox_watch {
        const struct sandbox_spec *spec;
        const struct sandbox_sinks *sinks;
        struct cgroup *group;
        pid_t pid;                 /* bubblewrap, a child of ours */
        int process;               /* its pidfd */
        int input, output, errors; /* our ends of the three pipes; input is -1 where there is none */
        int status;                /* our end of bubblewrap's status pipe */
        const sigset_t *unmasked;
};
struct sandbox_ending {
        bool started;  /* bubblewrap came so far as to start the program */
        int exit_code; /* meaningful where it did */
        bool deadline, interrupted;
        int output_error; /* errno of a sink that took no more, 0: none failed; one whose reader has gone does not count */
        int64_t wall_ms, cpu_ms;
        uint64_t peak_memory_bytes; /* of the largest process */
        struct cgroup_usage usage;
};
/* Relays until the end; when it returns no process of the sandbox is left. Closes the watch's descriptors. */
int sandbox_watch_run(struct sandbox_watch *watch, struct sandbox_ending *ret, struct error *err) MUST_USE;

#endif
