/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of a run, and its keeper's: the process with the rights that a sandbox takes
 * (root, or a user in namespaces of its own) makes the cgroup, chooses the host user, starts the
 * worker and tells it PLACE; the process with code to run tells it RUN. Here one process is both,
 * or a `berth launcher` is the keeper (sandbox_launched.c); from RUN on that is the same.
 */
#include "providers/local/sandbox/sandbox.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/libc.h"
#include "process/frame.h"
#include "providers/local/sandbox/sandbox_keeper.h"
#include "providers/local/sandbox/sandbox_launched.h"
#include "providers/local/sandbox/sandbox_parts.h"
#include "providers/local/sandbox/sandbox_users.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEGRADED_MAX 4
/* How long namespaces, mounts and the program's descriptors may take to be made, and to be ended beyond the deadline. */
#define PATIENCE_MS 60000
#define LATE_MS 15000
/* A worker whose run has ended exits at once; one that was told to end kills its run first. */
#define ENDING_MS 2000

struct sandbox {
        struct arena *arena;
        struct sandbox_spec spec;
        struct cgroup *group;
        struct sandbox_keeper keeper; /* of our own worker, or only its socket */
        struct sandbox_launched launched;
        unsigned missing; /* of enum cgroup_limit: what is not held, and why */
        const char *problem;
        struct frame_reader reader;
        struct sandbox_workspace workspace;
        struct sandbox_pipes pipes;
        const char **degraded;
        size_t degraded_count;
        int64_t late_ms; /* when the worker should have spoken */
        bool cancelled, ended;
        struct sandbox_ending ending;
        struct tally *reached; /* in the arena, where it has a way out */
};

/* --- what this host cannot enforce --- */

static const char *lacking(unsigned limit, const struct sandbox *sandbox) {
        static const char *const what[] = { [CGROUP_MEMORY] = "the memory limit of all processes together",
                                            [CGROUP_CPU] = "the CPU share",
                                            [CGROUP_PROCESSES] = "the number of processes" };

        return arena_printf(sandbox->arena, "%s cannot be enforced: %s", what[limit], sandbox->problem);
}

static int check_degraded(struct sandbox *sandbox, struct error *err) {
        sandbox->degraded = arena_array(sandbox->arena, DEGRADED_MAX, sizeof(*sandbox->degraded));
        for (unsigned limit = CGROUP_MEMORY; limit <= CGROUP_PROCESSES; limit <<= 1) {
                if (sandbox->missing & limit)
                        sandbox->degraded[sandbox->degraded_count++] = lacking(limit, sandbox);
        }
        if (sandbox->degraded_count > 0 && !sandbox->spec.accept_degraded)
                return error_set(err, "%s%s; --accept-degraded runs without, and the result says so",
                                 sandbox->degraded[0],
                                 sandbox->degraded_count > 1 ? " (and more: berth doctor)" : "");
        return 0;
}

/* --- RUN --- */

static void add_word(struct strbuf *words, const char *word) {
        strbuf_append_bytes(words, word, strlen(word) + 1);
}

/* What an image says of a user and places that are not those of a sandbox. */
static bool is_of_the_sandbox(const char *name) {
        static const char *const names[] = { "HOME", "USER", "LOGNAME", "TMPDIR" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (strcmp(name, names[i]) == 0)
                        return true;
        }
        return false;
}

/* Ours, above them the image's own, above those the environment's: bubblewrap keeps the last. */
static void add_variables(const struct sandbox_spec *spec, struct strbuf *words) {
        static const char *const defaults[][2] = {
                { "PATH", SANDBOX_PATH },
                { "HOME", "/workspace" },
                { "USER", "agent" },
                { "LOGNAME", "agent" },
                { "LANG", "C.UTF-8" },
                { "TMPDIR", "/tmp" },
                /* Output comes as it is printed, modules of the workspace are found, no caches are left in it. */
                { "PYTHONUNBUFFERED", "1" },
                { "PYTHONPATH", "/workspace" },
                { "PYTHONDONTWRITEBYTECODE", "1" },
                { "MPLBACKEND", "Agg" },
                { "MPLCONFIGDIR", "/tmp" },
        };

        for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
                add_word(words, defaults[i][0]);
                add_word(words, defaults[i][1]);
        }
        for (size_t i = 0; i < spec->image_variable_count; i++) {
                const struct sandbox_variable *variable = &spec->image_variables[i];

                if (is_of_the_sandbox(variable->name))
                        continue;
                add_word(words, variable->name);
                if (strcmp(variable->name, "PYTHONPATH") == 0)
                        strbuf_append(words, "/workspace:");
                add_word(words, variable->text);
        }
        for (size_t i = 0; i < spec->variable_count; i++) {
                add_word(words, spec->variables[i].name);
                add_word(words, spec->variables[i].text);
        }
}

/* Frames have a bound, and a longer one is refused: no step on the way would cut it. */
static int send_words(int worker, unsigned type, const struct strbuf *words, const char *what,
                      struct error *err) {
        if (words->length > FRAME_PAYLOAD_MAX / 2)
                return error_set(err, "the program's %s are %zu bytes; at most %zu can be given", what,
                                 words->length, FRAME_PAYLOAD_MAX / 2);
        return frame_send(worker, type, words->data, words->length, NULL, 0, err);
}

static int open_content(const struct sandbox_file *file, struct error *err) {
        int content = memfd_create(file->name, MFD_CLOEXEC);

        if (content >= 0 && descriptor_write(content, file->bytes, file->length) == 0 &&
            lseek(content, 0, SEEK_SET) == 0)
                return content;
        close_descriptor(&content);
        return error_set(err, "no memory for %s: %s", file->name, strerror(errno));
}

int sandbox_tell_run(int worker, const struct sandbox_spec *spec, bool session, struct error *err) {
        struct strbuf arguments STRBUF_CLEANUP = STRBUF_INIT, description STRBUF_CLEANUP = STRBUF_INIT;
        struct strbuf variables STRBUF_CLEANUP = STRBUF_SECRET;
        struct sandbox_running running = { .deadline_ms = spec->limits.deadline_ms,
                                           .waits = spec->fill != NULL,
                                           .session = session };
        int contents[SANDBOX_FILES_MAX], result = -1;

        for (const char *const *word = spec->argv; *word; word++)
                add_word(&arguments, *word);
        add_variables(spec, &variables);
        if (send_words(worker, MESSAGE_ARGUMENTS, &arguments, "arguments", err) < 0 ||
            send_words(worker, MESSAGE_VARIABLES, &variables, "variables", err) < 0)
                return -1;
        if (spec->shared && frame_send(worker, MESSAGE_PORTS, spec->shared->ports,
                                       spec->shared->port_count * sizeof(*spec->shared->ports),
                                       spec->shared->listeners, spec->shared->port_count, err) < 0)
                return -1;
        for (; running.file_count < spec->file_count; running.file_count++) {
                size_t i = running.file_count;

                running.files[i] = spec->files[i].name;
                if ((contents[i] = open_content(&spec->files[i], err)) < 0)
                        break;
        }
        sandbox_running_write(&running, &description);
        if (running.file_count == spec->file_count)
                result = frame_send(worker, MESSAGE_RUN, description.data, description.length, contents,
                                    running.file_count, err);
        for (size_t i = 0; i < running.file_count; i++)
                close_descriptor(&contents[i]);
        return result;
}

/* --- steps --- */

static void release_held(const struct sandbox_spec *spec) {
        for (size_t i = 0; i < spec->held_count; i++)
                close_descriptor(&spec->held[i]);
}

/* With this process's rights. */
static int place_sandbox(struct sandbox *sandbox, struct error *err) {
        const struct sandbox_spec *spec = &sandbox->spec;
        static const struct sandbox_users users = SANDBOX_USERS_DEFAULT;
        struct sandbox_user user = SANDBOX_USER_NONE;
        int image DESCRIPTOR_CLEANUP = -1, user_lock DESCRIPTOR_CLEANUP = -1;
        int held[SANDBOX_HELD_MAX];
        size_t held_count = spec->held_count;
        struct sandbox_placing placing = {
                .limits = spec->limits,
                .limit_address_space = cgroup_missing(sandbox->group) & CGROUP_MEMORY,
                .dies_with_parent = true,
                .network = spec->network,
        };

        if (spec->image_root && (image = open(spec->image_root, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
                return error_set(err, "cannot open %s: %s", spec->image_root, strerror(errno));
        if (sandbox_user_take(&users, &user, err) < 0)
                return -1;
        user_lock = user.lock;
        placing.uid = sandbox->workspace.uid = user.uid;
        placing.gid = sandbox->workspace.gid = user.gid;
        if (held_count > 0)
                memcpy(held, spec->held, held_count * sizeof(int));
        if (user_lock >= 0)
                held[held_count++] = user_lock;
        if (sandbox_keeper_place(&sandbox->keeper, sandbox->group, &placing, image, -1, -1, -1, held,
                                 held_count, err) < 0)
                return -1;
        release_held(spec);
        return 0;
}

static int start_ourselves(struct sandbox *sandbox, struct error *err) {
        const struct cgroup_limits of_group =
                sandbox_keeper_limits(&sandbox->spec.limits, &sandbox->spec.family, sandbox->arena);
        static const char *const no_launcher[] = { NULL };

        if (sandbox->spec.ahead) {
                sandbox->keeper = *sandbox->spec.ahead;
                *sandbox->spec.ahead = (struct sandbox_keeper)SANDBOX_KEEPER_NONE;
        }
        /* Root never needs systemd for a group: the worker starts, which takes a millisecond, while the group is made. */
        if (geteuid() == 0 && sandbox->keeper.socket < 0 &&
            sandbox_keeper_start(&sandbox->keeper, no_launcher, err) < 0)
                return -1;
        sandbox->group = cgroup_make(&of_group, sandbox->arena);
        sandbox->missing = sandbox_keeper_missing(sandbox->group);
        sandbox->problem = cgroup_problem(sandbox->group);
        if (check_degraded(sandbox, err) < 0 ||
            (sandbox->keeper.socket < 0 &&
             sandbox_keeper_start(&sandbox->keeper, cgroup_launcher(sandbox->group), err) < 0))
                return -1;
        return place_sandbox(sandbox, err);
}

static int start_by_launcher(struct sandbox *sandbox, struct error *err) {
        const struct sandbox_spec *spec = &sandbox->spec;
        struct sandbox_starting starting = { .limits = spec->limits,
                                             .image = spec->image_digest,
                                             .family = spec->family,
                                             .network = spec->network };

        if (spec->image_root && !spec->image_digest)
                abort();
        if (sandbox_launched_start(spec->launcher, &starting, sandbox->arena, &sandbox->launched,
                                   &sandbox->keeper.socket, err) < 0)
                return -1;
        sandbox->missing = sandbox->launched.started.missing;
        sandbox->problem = sandbox->launched.started.problem;
        return check_degraded(sandbox, err);
}

int sandbox_start(const struct sandbox_spec *spec, struct arena *arena, struct sandbox **ret,
                  struct error *err) {
        struct sandbox *sandbox = arena_alloc(arena, sizeof(*sandbox));

        if (spec->file_count > SANDBOX_FILES_MAX || spec->held_count >= SANDBOX_HELD_MAX)
                abort();
        *sandbox = (struct sandbox){
                .arena = arena,
                .spec = *spec,
                .keeper = SANDBOX_KEEPER_NONE,
                .launched = SANDBOX_LAUNCHED_NONE,
                .workspace = { .folder = -1, .worker = &sandbox->reader },
                .pipes = { -1, -1, -1 },
                .late_ms = clock_now_ms() + PATIENCE_MS,
        };
        if (spec->network.count > 0)
                sandbox->reached = arena_alloc(arena, sizeof(*sandbox->reached));
        if ((spec->launcher ? start_by_launcher(sandbox, err) : start_ourselves(sandbox, err)) < 0)
                goto failed;
        sandbox->reader.socket = sandbox->keeper.socket;
        if (sandbox_tell_run(sandbox->reader.socket, spec, false, err) < 0) {
                (void)!sandbox_keeper_heed(sandbox->reader.socket, err);
                goto failed;
        }
        fcntl(sandbox->reader.socket, F_SETFL, O_NONBLOCK);
        *ret = sandbox;
        return 0;
failed:
        release_held(spec);
        sandbox_end(sandbox);
        return -1;
}

int sandbox_descriptor(const struct sandbox *sandbox) {
        return sandbox->reader.socket;
}

struct sandbox_pipes *sandbox_pipes(struct sandbox *sandbox) {
        return &sandbox->pipes;
}

int64_t sandbox_patience_ms(const struct sandbox *sandbox) {
        int64_t left = sandbox->late_ms - clock_now_ms();

        return left > 0 ? left : 0;
}

void sandbox_cancel(struct sandbox *sandbox) {
        struct error ignored;

        if (!sandbox->ended && !sandbox->cancelled)
                (void)!frame_send_now(sandbox->reader.socket, MESSAGE_CANCEL, NULL, 0, NULL, 0, &ignored);
        sandbox->cancelled = true;
        if (sandbox->late_ms > clock_now_ms() + LATE_MS)
                sandbox->late_ms = clock_now_ms() + LATE_MS;
}

static int become_started(struct sandbox *sandbox, struct frame *frame, struct error *err) {
        const struct sandbox_spec *spec = &sandbox->spec;
        size_t at = spec->launcher ? 0 : 1;

        if (frame->count != at + 3)
                return error_set(err, "the sandbox's worker gave %zu descriptors instead of %zu",
                                 frame->count, at + 3);
        if (at > 0)
                sandbox->workspace.folder = frame_take(frame, 0);
        sandbox->pipes = (struct sandbox_pipes){ frame_take(frame, at), frame_take(frame, at + 1),
                                                 frame_take(frame, at + 2) };
        /* Only our end: a program that does not read its input must not stop us. */
        fcntl(sandbox->pipes.input, F_SETFL, O_NONBLOCK);
        if (sandbox->cancelled)
                return 0;
        if (spec->fill && spec->fill(spec->context, &sandbox->workspace, err) < 0)
                return -1;
        sandbox->late_ms = clock_now_ms() + spec->limits.deadline_ms + LATE_MS;
        if (!spec->fill) /* then the worker does not wait for it */
                return 0;
        return frame_send_now(sandbox->reader.socket, MESSAGE_GO, NULL, 0, NULL, 0, err);
}

/* The worker, and its keeper's leavings. A worker of the launcher's that still has files to give is not ended here. */
static void release_worker(struct sandbox *sandbox, int patience_ms) {
        /* Beside the end of our own worker, whose mounts take the kernel about as long. */
        if (sandbox->ended && !sandbox->spec.launcher)
                cgroup_vacate(sandbox->group);
        sandbox_keeper_end(&sandbox->keeper, patience_ms);
        sandbox_launched_end(&sandbox->launched, patience_ms);
        sandbox->reader.socket = -1;
        cgroup_close(sandbox->group);
        sandbox->group = NULL;
        if (sandbox->spec.launcher)
                release_held(&sandbox->spec);
}

static void become_ended(struct sandbox *sandbox, int patience_ms) {
        sandbox->ended = true;
        sandbox->late_ms = INT64_MAX;
        if (sandbox->spec.launcher) {
                sandbox_launched_measure(&sandbox->launched, &sandbox->ending.usage);
                release_held(&sandbox->spec);
        } else if (!sandbox->ending.usage.known) {
                cgroup_measure(sandbox->group, &sandbox->ending.usage);
        }
        if (!sandbox->spec.launcher || patience_ms == 0)
                release_worker(sandbox, patience_ms);
}

/* The worker was stopped, or is stuck. Its end is that of all others. */
static int give_up_waiting(struct sandbox *sandbox, enum sandbox_event *ret, struct error *err) {
        if (sandbox->pipes.output < 0)
                return error_set(err, "the sandbox was not set up within %d s", PATIENCE_MS / 1000);
        sandbox->ending.deadline = !sandbox->cancelled;
        sandbox->ending.cancelled = sandbox->cancelled;
        sandbox->ending.wall_ms = sandbox->spec.limits.deadline_ms + LATE_MS;
        become_ended(sandbox, 0);
        *ret = SANDBOX_ENDED;
        return 0;
}

static int note_reached(struct sandbox *sandbox, const struct frame *frame, struct error *err) {
        struct tally told = { 0 };

        if (tally_read(frame->payload.data, frame->payload.length, &told, err) < 0)
                return -1;
        for (size_t i = 0; i < told.count; i++)
                tally_add(sandbox->reached, &told.lines[i]);
        return 0;
}

int sandbox_next(struct sandbox *sandbox, enum sandbox_event *ret, struct error *err) {
        struct frame frame FRAME_CLEANUP = { 0 };
        int answer;

        *ret = SANDBOX_NOTHING;
        if (sandbox->ended)
                return 0;
        answer = frame_receive(&sandbox->reader, &frame, err);
        if (answer < 0)
                return -1;
        if (answer == FRAME_WAIT)
                return sandbox_patience_ms(sandbox) > 0 ? 0 : give_up_waiting(sandbox, ret, err);
        if (answer == FRAME_CLOSED && sandbox->spec.launcher)
                return error_set(err,
                                 "the sandbox was killed from outside: its worker, or the launcher, ended");
        if (answer == FRAME_CLOSED)
                return sandbox_keeper_explain(&sandbox->keeper, err);
        if (frame.type == MESSAGE_FAILED)
                return error_set(err, "%s", strbuf_text(&frame.payload));
        if (frame.type == MESSAGE_REACHED && sandbox->reached)
                return note_reached(sandbox, &frame, err);
        if (frame.type == MESSAGE_READY && sandbox->pipes.output < 0) {
                *ret = SANDBOX_STARTED;
                return become_started(sandbox, &frame, err);
        }
        if (frame.type != MESSAGE_ENDED ||
            sandbox_ending_read(frame.payload.data, frame.payload.length, &sandbox->ending, err) < 0)
                return error_set(err, "the sandbox's worker does not speak as it should");
        become_ended(sandbox, ENDING_MS);
        *ret = SANDBOX_ENDED;
        return 0;
}

/* Where bubblewrap did not come to start the program, what it printed says why. */
static int not_started(const struct output *printed, struct error *err) {
        const char *text = strbuf_text(&printed->kept);
        size_t length = printed->kept.length < 800 ? printed->kept.length : 800;

        while (length > 0 && text[length - 1] == '\n')
                length--;
        return error_set(err, "the sandbox could not be set up%s%.*s", length ? ": " : "", (int)length, text);
}

int sandbox_judge(struct sandbox *sandbox, const struct output *printed, int signal,
                  struct sandbox_result *ret, struct error *err) {
        const struct sandbox_ending *ending = &sandbox->ending;
        const struct sandbox_spec *spec = &sandbox->spec;
        struct sandbox_result result = {
                .exit_code = ending->exit_code,
                .reason = EXEC_EXITED,
                .wall_ms = ending->wall_ms,
                .cpu_ms = ending->usage.known ? (int64_t)(ending->usage.cpu_us / 1000) : ending->cpu_ms,
                .peak_memory_bytes = ending->usage.peak_memory_bytes ? ending->usage.peak_memory_bytes
                                                                     : ending->peak_memory_bytes,
                .degraded = sandbox->degraded,
                .degraded_count = sandbox->degraded_count,
                .reached = sandbox->reached,
        };

        /* The limit kills with signal 9; a program that lives on after one of its processes was killed ends as it likes. */
        if (ending->sockets || ending->locks ||
            (ending->usage.memory_kills > 0 &&
             (!ending->started || ending->exit_code == 137 || ending->killed_by == SIGKILL))) {
                result.reason = EXEC_MEMORY;
                result.exit_code = 137;
        }
        if (ending->deadline || ending->cancelled) {
                result.reason = ending->deadline ? EXEC_DEADLINE : EXEC_INTERRUPTED;
                result.exit_code = ending->deadline ? 124 : 128 + signal;
        }
        if (result.reason == EXEC_EXITED && ending->killed_by)
                return error_set(
                        err,
                        "the sandbox was killed from outside (signal %d), by a program that may end processes on "
                        "this machine; what the program did until then is done",
                        ending->killed_by);
        if (result.reason == EXEC_EXITED && !ending->started)
                return not_started(printed, err);
        if (spec->collect && spec->collect(spec->context, &sandbox->workspace, err) < 0)
                return -1;
        *ret = result;
        return 0;
}

void sandbox_end(struct sandbox *sandbox) {
        if (!sandbox)
                return;
        release_worker(sandbox, ENDING_MS);
        frame_reader_release(&sandbox->reader);
        close_descriptor(&sandbox->workspace.folder);
        close_descriptor(&sandbox->pipes.input);
        close_descriptor(&sandbox->pipes.output);
        close_descriptor(&sandbox->pipes.errors);
}
