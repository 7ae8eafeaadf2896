/* SPDX-License-Identifier: Apache-2.0 */
/* A command on the host, run once: as this user, in this folder, with these variables, until it ends, its time is over, or it is told to stop. */
#ifndef BERTH_APPROVALS_HOST_H
#define BERTH_APPROVALS_HOST_H

#include "approvals/subject.h"

#include <jansson.h>
#include <sys/types.h>

#define HOST_OUTPUT_MAX ((size_t)65536) /* of each stream is kept; the rest is counted */

struct host_user {
        char *name; /* owned */
        char *home;
        uid_t uid;
        gid_t gid;
        json_t *groups;
        bool is_ours; /* this process's own */
};
/* `name` NULL: this process's user. */
int host_user_find(const char *name, struct host_user *ret, struct error *err) MUST_USE;
void host_user_release(struct host_user *user);

/* All the variables that a command has: {PATH, HOME, USER, LOGNAME, LANG}. A new reference. */
json_t *host_variables(const struct host_user *user);

/*
 * The program and the folder of a command: found with the rights of the user, in a process of its
 * own. ERROR_REFUSED, with a line for the caller; any other error: the search itself failed.
 * `state`: the server's, in which nothing is found.
 */
struct host_search {
        const struct host_user *user;
        const json_t *variables;
        const char *name, *folder, *state;
};
int host_find(const struct host_search *search, struct arena *arena, struct subject *ret,
              struct error *err) MUST_USE;

struct host_run {
        const struct subject *subject;
        const struct host_user *user;
        const json_t *command, *variables;
        int64_t timeout_ms;
        int stop; /* once it can be read, the command is killed */
};

/* -1 where it was not begun: the program or the folder are others now. Pass *ret to host_run(). */
struct host_opened {
        int program, folder;
        bool is_script;
};
int host_open(const struct host_run *run, struct host_opened *ret, struct error *err) MUST_USE;

/*
 * Its result: {status: ok | error | timeout | killed | failed, exitCode, detail, stdout, stderr}, a
 * new reference. Closes what was opened. `failed`: it did not run, or its end is unknown; detail
 * says which.
 */
json_t *host_run(const struct host_run *run, struct host_opened *opened);

/* A result of that form for a command that did not run, or whose end was not seen. */
json_t *host_failed(const char *detail);

#endif
