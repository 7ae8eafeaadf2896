/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the sandbox alone. */
#ifndef BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_PARTS_H
#define BERTH_PROVIDERS_LOCAL_SANDBOX_SANDBOX_PARTS_H

#include "providers/local/sandbox/cgroup.h"
#include "providers/local/sandbox/sandbox.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <signal.h>

/* --- sandbox_host.c: what this machine has --- */

/* The path of a bubblewrap that is new enough. */
int sandbox_find_bubblewrap(struct arena *arena, const char **ret_path, const char **ret_version,
                            struct error *err) MUST_USE;
/* The folder over which the worker mounts, in a namespace of its own. */
int sandbox_choose_stage(const char *bubblewrap, const char **ret_stage, struct error *err) MUST_USE;

/* --- sandbox_root.c: the words for bubblewrap --- */

#define SANDBOX_DESCRIPTORS_MAX 16
/* Bubblewrap gets the passed descriptors under this number and the following ones, whatever they are elsewhere. */
#define SANDBOX_DESCRIPTORS_FIRST 100

struct sandbox_passed {
        int descriptors[SANDBOX_DESCRIPTORS_MAX];
        size_t count;
};
void sandbox_passed_close(struct sandbox_passed *passed);

struct sandbox_root {
        struct sandbox_passed passed;
        int words; /* the number under which bubblewrap finds its --args */
};
/* What of it is seen is worked out from these alone. */
struct sandbox_seen {
        bool image; /* bound on the stage; else the machine's own /usr */
        const char *stage;
        const char *const
                *variables;       /* name, text, name, text ...; those that may not be given are left out */
        size_t variable_count;    /* of both */
        const char *const *files; /* names below /run/berth */
        const int *contents;      /* of each; they become root->passed's, -1 is left here */
        bool executable;          /* these files are programs */
        uint16_t proxy_port;      /* on its loopback device; 0 if absent */
        size_t file_count;
};
/* `status`, which becomes root->passed's, is what bubblewrap tells of itself through. On failure too, root->passed must be closed. */
int sandbox_root_prepare(struct sandbox_seen *seen, int status, struct sandbox_root *root,
                         struct error *err) MUST_USE;

/* --- sandbox_etc.c --- */

/* Makes and fills the folder "etc" in the stage, which is the working directory. */
int sandbox_etc_make(const char *stage, struct error *err) MUST_USE;
/* The content of passwd, group or hosts there. */
const char *sandbox_etc_text(const char *name);
/* The file that becomes /etc/hosts, for an image: beside its root folder, in the stage. */
#define SANDBOX_ETC_HOSTS "hosts"
int sandbox_etc_make_hosts(struct error *err) MUST_USE;
/*
 * Writes hosts again, with these lines behind its own: only names, addresses, spaces. A line with
 * anything else is left out.
 */
void sandbox_etc_name(int hosts, const char *lines, size_t length);

/* --- sandbox_place.c: what takes root's rights --- */

/*
 * New namespaces for this process; its children are in a PID namespace of their own. Of `placing`
 * only user and group are looked at, and by root nothing: that one may enter before it is told
 * PLACE. Another user, if it joins the network of another sandbox (otherwise -1), enters the user
 * namespace that it belongs to.
 */
int sandbox_enter(const struct sandbox_placing *placing, int network, struct error *err) MUST_USE;
/*
 * After it, the places for the sandbox's files, mounted over `stage`. `image` is the image's root folder or -1, `disk` that of the
 * workspace or -1. `bubblewrap` is its path, which becomes a copy's. The workspace's folder and its /etc/hosts, open for writing, are the caller's.
 */
int sandbox_place(const struct sandbox_placing *placing, const char *stage, const char *bubblewrap, int image,
                  int disk, int *ret_workspace, int *ret_names, struct error *err) MUST_USE;
/*
 * From here on the process has no right that an ordinary, unknown user would not have, for good. It
 * forgets its parent-death signal (PR_SET_PDEATHSIG).
 */
int sandbox_drop_rights(const struct sandbox_placing *placing, struct error *err) MUST_USE;
/* For a child about to become bubblewrap. */
int sandbox_set_limits(const struct sandbox_placing *placing, struct error *err) MUST_USE;

/* --- sandbox.c --- */

/* ARGUMENTS, VARIABLES and RUN, to a worker that was placed. */
int sandbox_tell_run(int worker, const struct sandbox_spec *spec, bool session, struct error *err) MUST_USE;

/* --- sandbox_init.c: process 1 of the outer PID namespace --- */

struct sandbox_init {
        const struct sandbox_placing *placing;
        int channel; /* its side of the pair to the worker */
        int proxy;   /* the proxy's side of the one that it has with the worker; -1: there is no way out */
        const struct cgroup_doors *doors;
        int network; /* that of another sandbox, which becomes this one's; -1: it gets one of its own */
        bool born;   /* in its cgroup already */
        const int *unwanted; /* the worker's own descriptors, to be closed */
        size_t unwanted_count;
};
/* Never returns. */
void sandbox_init_main(const struct sandbox_init *init) __attribute__((noreturn));

enum sandbox_init_message {
        INIT_NETWORK =
                1, /* from init: its network namespace, and what sandbox_network_sockets() reads; with a proxy, what that
                             is to listen on, and 2 bytes, its port */
        INIT_PLACED, /* to init: all is mounted that its own mount namespace begins with */
        INIT_READY,  /* from init: it is in its cgroup and has no rights; with its /proc/locks, open */
        INIT_FAILED, /* from init, with a text */
        INIT_PORTS,  /* to init, before GO: 2 bytes for each port; sockets that listen */
        INIT_GO, /* to init: 8 bytes of deadline, NUL-ended words; three standard descriptors, then passed ones */
};
/* This long after the run's deadline, init ends it even if the worker does not. */
#define SANDBOX_INIT_GRACE_MS 2000
/* The exit code of process 1 where its clock ended the run; any other but 0 is a failure of its own. */
#define SANDBOX_INIT_LATE 3

/* Milliseconds of the monotonic clock, the same in every process of the machine. */

#endif
