/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox.h"

#include "base/clock.h"
#include "base/files.h"
#include "providers/local/sandbox/sandbox_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEGRADED_MAX 4

/* Everything of one run that must be undone whatever happens. */
struct run {
        const struct sandbox_spec *spec;
        struct arena *arena;
        struct cgroup *group;
        struct sandbox_root root;
        struct sandbox_workspace workspace;
        const char *bubblewrap, *stage;
        int input[2], output[2], errors[2], status[2], channel[2]; /* [0] is read from; channel[0] is ours */
        pid_t pid;                                                 /* 0: no child to wait for */
        sigset_t mask;                                             /* the caller's */
        int adopts;                                                /* whether the caller takes orphans */
        struct output said; /* what bubblewrap says where the caller does not keep it */
};

static void close_pair(int pair[2]) {
        close_descriptor(&pair[0]);
        close_descriptor(&pair[1]);
}

static void end_run(struct run *run) {
        if (run->pid > 0) {
                kill(run->pid, SIGKILL);
                waitpid(run->pid, NULL, 0);
        }
        cgroup_close(run->group);
        sandbox_passed_close(&run->root.passed);
        close_pair(run->input);
        close_pair(run->output);
        close_pair(run->errors);
        close_pair(run->status);
        close_pair(run->channel);
        close_descriptor(&run->workspace.folder);
        output_release(&run->said);
        sigprocmask(SIG_SETMASK, &run->mask, NULL);
        prctl(PR_SET_CHILD_SUBREAPER, run->adopts, 0, 0, 0);
}

/* --- what this host cannot enforce --- */

static const char *lacking(unsigned limit, const struct run *run) {
        static const char *const what[] = { [CGROUP_MEMORY] = "the memory limit of all processes together",
                                            [CGROUP_CPU] = "the CPU share",
                                            [CGROUP_PROCESSES] = "the number of processes" };

        return arena_printf(run->arena, "%s cannot be enforced: %s", what[limit], cgroup_problem(run->group));
}

/*
 * RLIMIT_NPROC does for processes what a cgroup would, where it counts this run's alone: root's runs have a user each, and
 * since Linux 5.14 it counts within the user namespace that the others have each.
 */
static bool counts_processes(void) {
        struct utsname system;
        int major, minor;

        return geteuid() == 0 ||
               (uname(&system) == 0 && sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
                (major > 5 || (major == 5 && minor >= 14)));
}

static int check_degraded(struct run *run, struct sandbox_result *result, struct error *err) {
        unsigned missing =
                cgroup_missing(run->group) & (counts_processes() ? ~(unsigned)CGROUP_PROCESSES : ~0U);
        const char **list = arena_array(run->arena, DEGRADED_MAX, sizeof(*list));

        for (unsigned limit = CGROUP_MEMORY; limit <= CGROUP_PROCESSES; limit <<= 1) {
                if (missing & limit)
                        list[result->degraded_count++] = lacking(limit, run);
        }
        result->degraded = list;
        if (result->degraded_count > 0 && !run->spec->accept_degraded)
                return error_set(err, "%s%s; --accept-degraded runs without, and the result says so", list[0],
                                 result->degraded_count > 1 ? " (and more: berth doctor)" : "");
        return 0;
}

/* --- start --- */

static int make_pipes(struct run *run, struct error *err) {
        if (pipe2(run->input, O_CLOEXEC) < 0 || pipe2(run->output, O_CLOEXEC) < 0 ||
            pipe2(run->errors, O_CLOEXEC) < 0 || pipe2(run->status, O_CLOEXEC) < 0 ||
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, run->channel) < 0)
                return error_set(err, "cannot make pipes: %s", strerror(errno));
        /* Only our end: a program that does not read its input must not stop us. */
        fcntl(run->input[1], F_SETFL, O_NONBLOCK);
        return 0;
}

/* Signals that end us are looked at between two waits only, so that none is lost between a look and a wait. */
static void block_signals(struct run *run) {
        sigset_t ends;

        sigemptyset(&ends);
        sigaddset(&ends, SIGINT);
        sigaddset(&ends, SIGTERM);
        sigaddset(&ends, SIGHUP);
        sigprocmask(SIG_BLOCK, &ends, &run->mask);
}

/* So that the sandbox's process 1, which outlives bubblewrap by a moment, is ours to reap. */
static void adopt_orphans(struct run *run) {
        prctl(PR_GET_CHILD_SUBREAPER, &run->adopts, 0, 0, 0);
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static int fork_child(struct run *run, struct error *err) {
        struct sandbox_child child = {
                .spec = run->spec,
                .root = &run->root,
                .group = run->group,
                .bubblewrap = run->bubblewrap,
                .stage = run->stage,
                .uid = run->workspace.uid,
                .gid = run->workspace.gid,
                .standard = { run->input[0], run->output[1], run->errors[1] },
                .channel = run->channel[1],
                .unmasked = &run->mask,
                .parent = getpid(),
        };
        pid_t pid = cgroup_fork(run->group, &child.limited);

        if (pid < 0)
                return error_set(err, "cannot start a process: %s", strerror(errno));
        if (pid == 0)
                sandbox_child_main(&child);
        run->pid = pid;
        close_descriptor(&run->input[0]);
        close_descriptor(&run->output[1]);
        close_descriptor(&run->errors[1]);
        close_descriptor(&run->channel[1]);
        return 0;
}

/* The child waits with its mounts made while its workspace is filled, and goes on by itself where nothing is put in. */
static int prepare_child(struct run *run, struct error *err) {
        const struct sandbox_spec *spec = run->spec;

        if (sandbox_child_workspace(run->channel[0], &run->workspace.folder, err) < 0)
                return -1;
        if (!spec->fill)
                return 0;
        return spec->fill(spec->context, &run->workspace, err) < 0 ? -1
                                                                   : sandbox_child_go(run->channel[0], err);
}

static int start(struct run *run, struct error *err) {
        if (sandbox_find_bubblewrap(run->arena, &run->bubblewrap, NULL, err) < 0 ||
            sandbox_choose_stage(run->bubblewrap, &run->stage, err) < 0 || make_pipes(run, err) < 0 ||
            sandbox_root_prepare(run->spec, run->stage, run->status[1], &run->root, err) < 0)
                return -1;
        /* Passed on to bubblewrap as the rest is, and closed here with it. */
        run->root.passed.descriptors[run->root.passed.count++] = run->status[1];
        run->status[1] = -1;
        sandbox_choose_user(&run->workspace.uid, &run->workspace.gid);
        if (fork_child(run, err) < 0 || prepare_child(run, err) < 0)
                return -1;
        sandbox_passed_close(&run->root.passed);
        return 0;
}

/* --- the run --- */

static int watch(struct run *run, const struct sandbox_sinks *sinks, struct sandbox_ending *ret,
                 struct error *err) {
        struct sandbox_watch watch = {
                .spec = run->spec,
                .sinks = sinks,
                .group = run->group,
                .pid = run->pid,
                .process = pidfd_open(run->pid, 0),
                .input = run->input[1],
                .output = run->output[0],
                .errors = run->errors[0],
                .status = run->status[0],
                .unmasked = &run->mask,
        };

        if (watch.process < 0)
                return error_set(err, "this kernel is too old for pidfds: Linux 5.9 is needed");
        /* Theirs from here on, and waited for. */
        run->input[1] = run->output[0] = run->errors[0] = run->status[0] = -1;
        run->pid = 0;
        return sandbox_watch_run(&watch, ret, err);
}

/* As a shell would say it of a program that the signal ended. */
static int asking_signal(void) {
        return interrupt_signal() ? interrupt_signal() : SIGINT;
}

static void judge(const struct sandbox_ending *ending, struct sandbox_result *ret) {
        ret->exit_code = ending->exit_code;
        ret->reason = EXEC_EXITED;
        /* The limit kills with signal 9; a program that lives on after one of its processes was killed ends as it likes. */
        if (ending->usage.memory_kills > 0 && (!ending->started || ending->exit_code == 137)) {
                ret->reason = EXEC_MEMORY;
                ret->exit_code = 137;
        }
        if (ending->deadline || ending->interrupted) {
                ret->reason = ending->deadline ? EXEC_DEADLINE : EXEC_INTERRUPTED;
                ret->exit_code = ending->deadline ? 124 : 128 + asking_signal();
        }
        ret->wall_ms = ending->wall_ms;
        ret->cpu_ms = ending->usage.known ? (int64_t)(ending->usage.cpu_us / 1000) : ending->cpu_ms;
        ret->peak_memory_bytes =
                ending->usage.peak_memory_bytes ? ending->usage.peak_memory_bytes : ending->peak_memory_bytes;
}

/* Where bubblewrap did not come to start the program, what it printed says why. */
static int not_started(const struct output *said, struct error *err) {
        const char *text = strbuf_text(&said->kept);
        size_t length = said->kept.length < 800 ? said->kept.length : 800;

        while (length > 0 && text[length - 1] == '\n')
                length--;
        return error_set(err, "the sandbox could not be set up%s%.*s", length ? ": " : "", (int)length, text);
}

int sandbox_run(const struct sandbox_spec *spec, const struct sandbox_sinks *sinks, struct arena *arena,
                struct sandbox_result *ret, struct error *err) {
        struct run run __attribute__((cleanup(end_run))) = {
                .spec = spec,
                .arena = arena,
                .workspace = { .folder = -1 },
                .input = { -1, -1 },
                .output = { -1, -1 },
                .errors = { -1, -1 },
                .status = { -1, -1 },
                .channel = { -1, -1 },
        };
        struct cgroup_limits limits = { spec->limits.memory_bytes, spec->limits.cpu_millis,
                                        spec->limits.processes };
        struct sandbox_sinks kept = *sinks;
        struct sandbox_result result = { 0 };
        struct sandbox_ending ending;

        block_signals(&run);
        adopt_orphans(&run);
        run.group = cgroup_make(&limits, arena);
        output_init(&run.said, false);
        if (!kept.errors.output)
                kept.errors.output = &run.said;
        if (check_degraded(&run, &result, err) < 0 || start(&run, err) < 0 ||
            watch(&run, &kept, &ending, err) < 0)
                return -1;
        judge(&ending, &result);
        if (!ending.started && result.reason == EXEC_EXITED)
                return not_started(kept.errors.output, err);
        /* A terminal that went away takes its output with it, and says so by a hang-up. */
        if (ending.output_error && !ending.interrupted)
                return error_set(err, "what the program printed cannot be written: %s",
                                 strerror(ending.output_error));
        if (spec->collect && spec->collect(spec->context, &run.workspace, err) < 0)
                return -1;
        *ret = result;
        return 0;
}
