/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread and one poll. Nothing here waits for a client: frames are read as they come and sent at once or not at all, and
 * what a run needs is done by its worker. What a connection can make this process keep is one frame and its runs. Nor does anything
 * wait for a disk: where a file system is made, mounted or removed, that is done beside (launcher_works.h), and the connection is
 * read on once it is answered.
 */
#include "providers/local/launcher.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "process/frame.h"
#include "providers/local/images/local_images.h"
#include "providers/local/launcher_disk.h"
#include "providers/local/launcher_listen.h"
#include "providers/local/launcher_workers.h"
#include "providers/local/launcher_works.h"
#include "providers/local/sandbox/cgroup.h"
#include "providers/local/sandbox/sandbox_keeper.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* The largest START there can be is a tenth of it. */
#define QUESTION_MAX 4096
/*
 * A run has its deadline, and as long for its client to put in files; the files that it left are
 * fetched within this many patiences. Its worker keeps all that. A worker that lives longer was
 * stopped, or hangs in a file system that a client passed a file of.
 */
#define LATE_PATIENCES 10
/* The time that a disk may take at the end for what it has begun. */
#define LAST_MS 5000
/* A millisecond in each period of 100. */
#define CPU_MILLIS_LEAST 10U

struct connection {
        int socket; /* -1: the place is free */
        uid_t client;
        gid_t client_group;
        unsigned number; /* never given again, as the place is */
        bool waits;      /* for a work: nothing is read meanwhile */
        struct frame_reader reader;
};

struct run {
        bool taken;
        uint64_t number;
        unsigned connection; /* who asked */
        uid_t client;
        struct sandbox_starting starting; /* of one that lasts: with its name, else without; in the arena */
        const char *path;                 /* of its socket; in the arena */
        struct sandbox_keeper keeper;
        int64_t until_ms; /* of the monotonic clock: then the worker is killed */
        bool renamed;     /* no more names than two are ever kept of a run */
        struct cgroup *group;
        struct arena *arena;
};

struct launcher {
        const struct launcher_config *config;
        struct launcher_config own_config; /* the same, for as long as a thread is about */
        struct launcher_listener listener;
        struct connection connections[LAUNCHER_CONNECTIONS_MAX];
        unsigned connections_ever;
        struct run runs[LAUNCHER_RUNS_MAX];
        uint64_t runs_ever;
        struct launcher_works works;
};

/* A question whose answer wants the disk: KEEP, NAMES, or a START with a workspace that lies there. */
struct disk_work {
        struct launcher_disk disk;
        struct frame frame; /* the question, with its descriptor */
        unsigned connection;
        struct run *run; /* of START: a place that is taken; nothing of it has begun */
};

struct sandbox_limits launcher_limits_default(void) {
        struct sysinfo machine;
        uint64_t memory =
                sysinfo(&machine) == 0 ? (uint64_t)machine.totalram * machine.mem_unit : UINT64_C(1) << 30;

        return (struct sandbox_limits){
                .memory_bytes = memory,
                /* More than the machine has is all of it, as without a launcher: 2048 MB come with more than one CPU. */
                .cpu_millis = 1024 * 1000,
                .processes = 512,
                .workspace_bytes = memory,
                .workspace_files = 200000,
                .deadline_ms = INT64_C(36525) * 24 * 3600 *
                               1000, /* a service runs until it is stopped: a hundred years */
        };
}

int launcher_check(const struct sandbox_limits *asked, const struct sandbox_limits *most, struct error *err) {
        if (asked->cpu_millis < CPU_MILLIS_LEAST)
                return error_set(err,
                                 "cpuMillis is %u at the least: the kernel gives no smaller share of a CPU",
                                 CPU_MILLIS_LEAST);
        if (asked->memory_bytes > most->memory_bytes || asked->cpu_millis > most->cpu_millis ||
            asked->processes > most->processes || asked->workspace_bytes > most->workspace_bytes ||
            asked->workspace_files > most->workspace_files || asked->deadline_ms > most->deadline_ms)
                return error_set(err, "a limit is larger than this launcher gives");
        return 0;
}

/* --- connections --- */

static void close_connection(struct connection *connection) {
        frame_reader_release(&connection->reader);
        close_descriptor(&connection->socket);
}

/*
 * The socket's mode is checked when it is opened, and the peer here: the connection may have been
 * handed on. The known peer is the process that connected.
 */
static bool is_client(const struct launcher *launcher, int socket, struct ucred *ret) {
        const struct launcher_config *config = launcher->config;
        struct ucred peer;
        socklen_t length = sizeof(peer);
        bool may = false;

        if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
                return false;
        for (size_t i = 0; i < config->client_count; i++)
                may |= peer.uid == config->clients[i];
        *ret = peer;
        return may || peer.uid == geteuid();
}

/* A stranger is told nothing. A client that has its share of connections already is told so. */
static void accept_connection(struct launcher *launcher) {
        static const char enough[] = "this user has as many connections to the launcher as it may";
        int socket DESCRIPTOR_CLEANUP =
                accept4(launcher->listener.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        size_t share = LAUNCHER_CONNECTIONS_MAX / launcher->config->client_count, open = 0;
        struct connection *place = NULL;
        struct error ignored;
        struct ucred client;

        if (socket < 0 || !is_client(launcher, socket, &client))
                return;
        for (size_t i = 0; i < LAUNCHER_CONNECTIONS_MAX; i++) {
                struct connection *connection = &launcher->connections[i];

                if (connection->socket < 0 && !place)
                        place = connection;
                open += connection->socket >= 0 && connection->client == client.uid;
        }
        if (!place || open >= share) {
                (void)!frame_send_now(socket, LAUNCHER_REFUSED, enough, sizeof(enough) - 1, NULL, 0,
                                      &ignored);
                return;
        }
        *place = (struct connection){ .socket = socket,
                                      .client = client.uid,
                                      .client_group = client.gid,
                                      .number = ++launcher->connections_ever,
                                      .reader = FRAME_READER(socket) };
        socket = -1;
}

/* A client that does not take an answer loses the connection, and no client waits. */
static void respond(struct connection *connection, unsigned type, const char *text, size_t length,
                    int descriptor) {
        struct error ignored;

        if (connection->socket >= 0 && frame_send_now(connection->socket, type, text, length, &descriptor,
                                                      descriptor >= 0, &ignored) < 0)
                close_connection(connection);
}

static struct connection *connection_numbered(struct launcher *launcher, unsigned number) {
        for (size_t i = 0; i < LAUNCHER_CONNECTIONS_MAX; i++) {
                if (launcher->connections[i].socket >= 0 && launcher->connections[i].number == number)
                        return &launcher->connections[i];
        }
        return NULL;
}

static struct connection *connection_of(struct launcher *launcher, const struct run *run) {
        return connection_numbered(launcher, run->connection);
}

/* --- runs --- */

/* That of a name, which is the client's own. */
static struct run *lasting_run(const struct launcher *launcher, uid_t client, const char *name) {
        for (size_t i = 0; i < LAUNCHER_RUNS_MAX; i++) {
                const struct run *run = &launcher->runs[i];

                if (run->taken && run->path && run->client == client && strcmp(run->starting.name, name) == 0)
                        return (struct run *)run;
        }
        return NULL;
}

/* Worker, cgroup and memory; the user is free with the run's last process. */
static void release_run(struct run *run) {
        sandbox_keeper_end(&run->keeper, 0);
        if (run->path)
                launcher_workers_remove(run->path);
        cgroup_close(run->group);
        arena_free(run->arena);
        run->taken = false;
}

/* A worker that lasts goes on without this launcher; the next one finds it. */
static void leave_run(struct run *run) {
        close_descriptor(&run->keeper.socket);
        close_descriptor(&run->keeper.worker.pidfd);
        arena_free(run->arena);
        run->taken = false;
}

/* The image's root, locked: -1 without one, -2 with err. */
static int hold_image(const struct launcher *launcher, const char *digest, struct error *err) {
        int image;

        if (!digest)
                return -1;
        if (!launcher->config->images)
                return error_set(err, "this launcher has no image store") - 1;
        image = local_image_hold_in(launcher->config->images, digest, err);
        return image < 0 ? -2 : image;
}

static void keep_starting(struct run *run, const struct sandbox_starting *starting) {
        run->starting = (struct sandbox_starting){
                .limits = starting->limits,
                .image = starting->image ? arena_strdup(run->arena, starting->image) : NULL,
                .name = arena_strdup(run->arena, starting->name),
                .family = starting->family,
        };
        if (starting->family.name)
                run->starting.family.name = arena_strdup(run->arena, starting->family.name);
}

/* In run->path once it is made. */
static int lasting_listen(const struct launcher *launcher, const struct sandbox_starting *starting,
                          struct run *run, int *ret_listener, struct error *err) {
        const char *folder = launcher->config->workers;

        if (!folder)
                return error_set(err, "this launcher has no workers that last (--workers)");
        if (geteuid() != 0)
                return error_set(err, "workers that last need a launcher that is root");
        if (lasting_run(launcher, run->client, starting->name))
                return error_set(err, "a worker of the name %s lives", starting->name);
        if (launcher_workers_listen(folder, run->client, starting->name, run->arena, &run->path, ret_listener,
                                    err) < 0)
                return -1;
        keep_starting(run, starting);
        return 0;
}

/* A family is its client's alone. */
static struct cgroup_limits limits_of_group(const struct sandbox_starting *starting, uid_t client,
                                            struct arena *arena) {
        struct sandbox_family family = starting->family;

        family.owner = client;
        return sandbox_keeper_limits(&starting->limits, &family, arena);
}

/* What one run asks for by itself may be more: it gets as much of that as its family has. */
static int check_family(const struct sandbox_family *family, const struct sandbox_limits *most,
                        struct error *err) {
        if (family->cpu_millis > most->cpu_millis)
                return error_set(err, "familyCpuMillis is larger than this launcher gives");
        if (family->name && family->cpu_millis && family->cpu_millis < CPU_MILLIS_LEAST)
                return error_set(
                        err, "familyCpuMillis is %u at the least: the kernel gives no smaller share of a CPU",
                        CPU_MILLIS_LEAST);
        return 0;
}

/* --- what is done beside --- */

/* The question is the work's from now on. */
static struct disk_work *new_work(const struct launcher *launcher, struct connection *connection,
                                  struct frame *frame, void (*run)(struct launcher_work *work)) {
        struct disk_work *work = calloc(1, sizeof(*work));

        if (!work)
                abort();
        *work = (struct disk_work){ .disk = { .work = { .run = run, .client = connection->client },
                                              .config = launcher->config,
                                              .arena = arena_new(),
                                              .group = connection->client_group,
                                              .user = SANDBOX_USER_NONE,
                                              .opened = -1 },
                                    .frame = *frame,
                                    .connection = connection->number };
        *frame = (struct frame){ 0 };
        return work;
}

static void free_work(struct disk_work *work) {
        frame_release(&work->frame);
        launcher_disk_release(&work->disk);
        free(work);
}

/* The connection is read on once it is answered. */
static void do_beside(struct launcher *launcher, struct connection *connection, struct disk_work *work) {
        connection->waits = true;
        launcher_works_give(&launcher->works, &work->disk.work);
}

static int keep_workspace(struct launcher *launcher, struct connection *connection, struct frame *frame) {
        struct disk_work *work = new_work(launcher, connection, frame, launcher_disk_keep);
        const struct strbuf *payload = &work->frame.payload;
        struct error ignored;

        if (sandbox_keeping_read(payload->data, payload->length, work->disk.arena, &work->disk.keeping,
                                 &ignored) < 0) {
                free_work(work);
                return -1;
        }
        do_beside(launcher, connection, work);
        return 0;
}

static int find_names(struct launcher *launcher, struct connection *connection, struct frame *frame) {
        struct disk_work *work = new_work(launcher, connection, frame, launcher_disk_names);
        const struct strbuf *payload = &work->frame.payload;
        struct error ignored;

        if (sandbox_after_read(payload->data, payload->length, work->disk.arena, &work->disk.after,
                               &ignored) < 0) {
                free_work(work);
                return -1;
        }
        do_beside(launcher, connection, work);
        return 0;
}

static void answer_names(struct connection *connection, const struct disk_work *work) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (work->disk.result < 0) {
                respond(connection, LAUNCHER_REFUSED, work->disk.err.message, strlen(work->disk.err.message),
                        -1);
                return;
        }
        sandbox_names_write(work->disk.names, work->disk.name_count, &text);
        respond(connection, LAUNCHER_NAMED, text.data, text.length, -1);
}

static void answer_keep(struct connection *connection, const struct disk_work *work) {
        if (work->disk.result == 0 || (work->disk.err.kind == ERROR_NOT_FOUND && !work->disk.keeping.make))
                respond(connection, LAUNCHER_KEPT, NULL, 0, work->disk.opened);
        else
                respond(connection, work->disk.err.kind == ERROR_LOCKED ? LAUNCHER_BUSY : LAUNCHER_REFUSED,
                        work->disk.err.message, strlen(work->disk.err.message), -1);
}

static bool wants_disk(const struct launcher *launcher, const struct sandbox_starting *starting) {
        return starting->kept || (starting->disk && starting->name && launcher->config->disk);
}

static int check_starting(const struct launcher *launcher, const struct sandbox_starting *starting,
                          struct error *err) {
        return launcher_check(&starting->limits, &launcher->config->most, err) < 0 ||
                               check_family(&starting->family, &launcher->config->most, err) < 0
                       ? -1
                       : 0;
}

/*
 * Starts and places the worker; in `run` is what must be undone, whether it works or not. `disk`: what its workspace lies on, or -1; it and
 * the user's lock stay the caller's.
 */
static int start_run(const struct launcher *launcher, const struct sandbox_starting *starting,
                     struct run *run, const struct sandbox_user *user, int disk, struct error *err) {
        const struct sandbox_limits *limits = &starting->limits;
        const struct cgroup_limits of_group = limits_of_group(starting, run->client, run->arena);
        struct sandbox_placing placing = { .limits = *limits,
                                           .uid = user->uid,
                                           .gid = user->gid,
                                           .kept = starting->kept,
                                           .dies_with_parent = true,
                                           .for_another = true,
                                           .network = starting->network,
                                           .patience_ms = launcher->config->patience_ms };
        int image DESCRIPTOR_CLEANUP = -1, listener DESCRIPTOR_CLEANUP = -1;
        static const char *const no_words[] = { NULL };
        int held[2];
        size_t count = 0;

        image = hold_image(launcher, starting->image, err);
        if (image < -1)
                return -1;
        if (starting->name) {
                if (lasting_listen(launcher, starting, run, &listener, err) < 0 ||
                    sandbox_keeper_start(&run->keeper, no_words, err) < 0 ||
                    launcher_workers_record(run->path, run->keeper.worker.pid, starting, err) < 0)
                        return -1;
                placing.dies_with_parent = false;
                placing.owner = run->client;
        }
        /* The group of one that lasts is named after it, or the next Berth would sweep it away once this process has ended. */
        run->group =
                cgroup_make_for_service(&of_group, starting->name ? run->keeper.worker.pid : 0, run->arena);
        if (cgroup_missing(run->group) && !launcher->config->accept_degraded)
                return error_set(err, "limits cannot be enforced: %s", cgroup_problem(run->group));
        placing.limit_address_space = cgroup_missing(run->group) & CGROUP_MEMORY;
        if (user->lock >= 0)
                held[count++] = user->lock;
        if (image >= 0)
                held[count++] = image;
        if (!starting->name && sandbox_keeper_start(&run->keeper, cgroup_launcher(run->group), err) < 0)
                return -1;
        return sandbox_keeper_place(&run->keeper, run->group, &placing, image, listener, disk,
                                    starting->joins ? *starting->joins : -1, held, count, err);
}

static int64_t latest_end(const struct launcher *launcher, const struct sandbox_limits *limits) {
        return clock_now_ms() + 2 * limits->deadline_ms + LATE_PATIENCES * launcher->config->patience_ms;
}

/*
 * Those that a launcher before this one has started: they count, and nothing of them is left at their end. What dead ones have left is
 * removed here, cgroups too.
 */
static int find_workers(struct launcher *launcher, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct launcher_worker *workers;
        size_t count;
        bool dead;

        if (!launcher->config->workers || geteuid() != 0)
                return 0;
        if (launcher_workers_find(launcher->config->workers, arena, &workers, &count, &dead, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                const struct sandbox_limits *limits = &workers[i].starting.limits;
                struct cgroup_limits of_group =
                        limits_of_group(&workers[i].starting, workers[i].client, arena);
                struct run *run = i < LAUNCHER_RUNS_MAX ? &launcher->runs[i] : NULL;

                if (!run) {
                        close_descriptor(&workers[i].process.pidfd);
                        continue;
                }
                *run = (struct run){ .taken = true,
                                     .number = ++launcher->runs_ever,
                                     .client = workers[i].client,
                                     .keeper = { .worker = workers[i].process, .socket = -1 },
                                     .until_ms = latest_end(launcher, limits),
                                     .arena = arena_new() };
                keep_starting(run, &workers[i].starting);
                run->path = arena_strdup(run->arena, workers[i].path);
                /* Its record says what the family could use when it began. */
                of_group.family.cpu_millis = CGROUP_CPU_AS_IT_IS;
                run->group = cgroup_make_for_service(&of_group, workers[i].process.pid, run->arena);
        }
        if (count > 0)
                log_info("%zu workers of an earlier launcher live", count);
        /* Closing a group removes those of dead processes. */
        if (dead)
                cgroup_close(cgroup_make_for_service(
                        &(struct cgroup_limits){ .memory_bytes = 1 << 20, .cpu_millis = 10, .processes = 1 },
                        0, arena));
        return 0;
}

static void deny(struct launcher *launcher, unsigned number, const struct error *err) {
        struct connection *connection = connection_numbered(launcher, number);

        if (connection)
                respond(connection, LAUNCHER_REFUSED, err->message, strlen(err->message), -1);
}

/* A place among the runs, for the client; NULL if it may have no more. */
static struct run *take_place(struct launcher *launcher, const struct connection *connection,
                              struct error *err) {
        struct run *run = NULL;
        unsigned living = 0, of_client = 0;

        for (size_t i = 0; i < LAUNCHER_RUNS_MAX; i++) {
                const struct run *other = &launcher->runs[i];

                living += other->taken;
                of_client += other->taken && other->client == connection->client;
                if (!other->taken && !run)
                        run = &launcher->runs[i];
        }
        if (!run || living >= launcher->config->runs_max || of_client >= launcher->config->runs_each) {
                (void)error_set(err, "launcher limit reached: %u runs, %u of them of user %u", living,
                                of_client, (unsigned)connection->client);
                return NULL;
        }
        *run = (struct run){ .taken = true,
                             .number = ++launcher->runs_ever,
                             .connection = connection->number,
                             .client = connection->client,
                             .keeper = SANDBOX_KEEPER_NONE,
                             .until_ms = INT64_MAX,
                             .arena = arena_new() };
        return run;
}

/*
 * A worker's socket goes to the client, and is the launcher's no more. The client may be gone
 * already.
 */
static void begin_run(struct launcher *launcher, struct run *run, const struct sandbox_starting *starting,
                      const struct sandbox_user *user, int disk) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct sandbox_started started;
        struct connection *connection;
        struct error err = { 0 };
        unsigned number = run->connection;

        if (start_run(launcher, starting, run, user, disk, &err) < 0) {
                release_run(run);
                deny(launcher, number, &err);
                return;
        }
        started = (struct sandbox_started){ .run = run->number,
                                            .missing = sandbox_keeper_missing(run->group),
                                            .problem = cgroup_problem(run->group) };
        run->until_ms = latest_end(launcher, &starting->limits);
        sandbox_started_write(&started, &text);
        connection = connection_of(launcher, run);
        if (connection)
                respond(connection, LAUNCHER_STARTED, text.data, text.length, run->keeper.socket);
        close_descriptor(&run->keeper.socket);
}

/* -1: the message is not as it should be. */
static int read_starting(const struct frame *frame, struct arena *arena, struct sandbox_starting *ret) {
        struct error ignored;

        if (sandbox_starting_read(frame->payload.data, frame->payload.length, arena, ret, &ignored) < 0)
                return -1;
        if (frame->count == 0)
                return 0;
        ret->joins = &frame->descriptors[0];
        return ret->name ? 0 : -1;
}

static int start_for(struct launcher *launcher, struct connection *connection, struct frame *frame) {
        struct disk_work *work = new_work(launcher, connection, frame, launcher_disk_start);
        struct error err = { 0 };

        if (read_starting(&work->frame, work->disk.arena, &work->disk.starting) < 0) {
                free_work(work);
                return -1;
        }
        work->run = take_place(launcher, connection, &err);
        if (work->run && check_starting(launcher, &work->disk.starting, &err) == 0 &&
            sandbox_user_take(&launcher->config->users, &work->disk.user, &err) == 0) {
                if (wants_disk(launcher, &work->disk.starting)) {
                        do_beside(launcher, connection, work);
                        return 0;
                }
                begin_run(launcher, work->run, &work->disk.starting, &work->disk.user, -1);
        } else {
                if (work->run)
                        release_run(work->run);
                deny(launcher, connection->number, &err);
        }
        free_work(work);
        return 0;
}

/* Answers for work that was done in another thread; the client may be gone. */
static void finish_work(struct launcher *launcher, struct disk_work *work) {
        struct connection *connection = connection_numbered(launcher, work->connection);

        if (connection)
                connection->waits = false;
        if (!work->run && connection) {
                (work->disk.after ? answer_names : answer_keep)(connection, work);
        } else if (work->run && work->disk.result < 0) {
                release_run(work->run);
                deny(launcher, work->connection, &work->disk.err);
        } else if (work->run) {
                begin_run(launcher, work->run, &work->disk.starting, &work->disk.user, work->disk.opened);
        }
        free_work(work);
}

static void end_of_run(struct launcher *launcher, struct run *run) {
        struct connection *connection = connection_of(launcher, run);
        struct sandbox_measured measured = { .run = run->number };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        (void)process_reap(&run->keeper.worker);
        /* Of a worker that was killed the run may just be dying. */
        cgroup_kill(run->group);
        cgroup_measure(run->group, &measured.usage);
        release_run(run);
        sandbox_measured_write(&measured, &text);
        if (connection)
                respond(connection, LAUNCHER_ENDED, text.data, text.length, -1);
}

/*
 * KILL and MEASURE: only of the connection's own runs. A run that has ended meanwhile is not a
 * mistake.
 */
static int answer_about_run(struct launcher *launcher, struct connection *connection,
                            const struct frame *frame) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct sandbox_measured measured = { 0 };
        struct error ignored;

        if (sandbox_number_read(frame->payload.data, frame->payload.length, &measured.run, &ignored) < 0)
                return -1;
        for (size_t i = 0; i < LAUNCHER_RUNS_MAX; i++) {
                struct run *run = &launcher->runs[i];

                bool ours = run->connection == connection->number ||
                            (run->path && run->client == connection->client);

                if (!run->taken || !ours || run->number != measured.run)
                        continue;
                if (frame->type == LAUNCHER_KILL)
                        process_kill(&run->keeper.worker);
                else
                        cgroup_measure(run->group, &measured.usage);
        }
        if (frame->type == LAUNCHER_KILL)
                return 0;
        sandbox_measured_write(&measured, &text);
        respond(connection, LAUNCHER_MEASURED, text.data, text.length, -1);
        return 0;
}

/* CLEAR: ENDED once it is dead, of whatever cause; at once if no such sandbox lives. */
static int clear_worker(struct launcher *launcher, struct connection *connection, const struct frame *frame) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *name;
        struct error err = { 0 };
        struct run *run;

        if (sandbox_name_read(frame->payload.data, frame->payload.length, arena, &name, &err) < 0)
                return -1;
        run = lasting_run(launcher, connection->client, name);
        if (!run) {
                (void)error_set(&err, "no worker of the name %s lives", name);
                respond(connection, LAUNCHER_REFUSED, err.message, strlen(err.message), -1);
                return 0;
        }
        run->connection = connection->number;
        process_kill(&run->keeper.worker);
        return 0;
}

/* SHARE: of a family that has no run here nothing is there to be changed. */
static int share(struct launcher *launcher, const struct connection *connection, const struct frame *frame) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct sandbox_starting starting = { 0 };
        struct cgroup_limits of_group;
        struct error err = { 0 };

        if (sandbox_family_read(frame->payload.data, frame->payload.length, arena, &starting.family, &err) <
                    0 ||
            check_family(&starting.family, &launcher->config->most, &err) < 0)
                return -1;
        of_group = limits_of_group(&starting, connection->client, arena);
        if (!cgroup_family_set(&of_group.family, true, arena))
                log_warning("what a client's runs use together cannot be held");
        return 0;
}

static int rename_worker(struct launcher *launcher, struct connection *connection,
                         const struct frame *frame) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct sandbox_starting as;
        const char *name, *to, *path;
        struct error err = { 0 };
        struct run *run;
        int result = -1;

        if (sandbox_renaming_read(frame->payload.data, frame->payload.length, arena, &name, &to, &err) < 0)
                return -1;
        run = lasting_run(launcher, connection->client, name);
        if (!run) {
                (void)error_set(&err, "no worker of the name %s lives", name);
        } else if (run->renamed) {
                (void)error_set(&err, "a worker is renamed once");
        } else if (lasting_run(launcher, connection->client, to)) {
                (void)error_set(&err, "a worker of the name %s lives", to);
        } else {
                as = run->starting;
                as.name = to;
                result = launcher_workers_rename(launcher->config->workers, run->client, run->path,
                                                 run->keeper.worker.pid, &as, arena, &path, &err);
        }
        if (result == 0) {
                run->renamed = true;
                run->path = arena_strdup(run->arena, path);
                run->starting.name = arena_strdup(run->arena, to);
        }
        respond(connection, result == 0 ? LAUNCHER_RENAMED : LAUNCHER_REFUSED, err.message,
                result == 0 ? 0 : strlen(err.message), -1);
        return 0;
}

/* --- the loop --- */

/* One question; -1 ends the connection. */
static int read_question(struct launcher *launcher, struct connection *connection) {
        struct frame frame FRAME_CLEANUP = { 0 };
        struct error err = { 0 };
        int result = frame_receive(&connection->reader, &frame, &err);

        if (result == FRAME_WAIT)
                return connection->reader.length > QUESTION_MAX || connection->reader.frame.count > 1 ? -1
                                                                                                      : 0;
        /* One descriptor comes with START alone: the network of another sandbox. */
        if (result != FRAME_WHOLE || frame.payload.length > QUESTION_MAX || frame.count > 1 ||
            (frame.count > 0 && frame.type != LAUNCHER_START))
                return -1;
        if (frame.type == LAUNCHER_KILL || frame.type == LAUNCHER_MEASURE)
                return answer_about_run(launcher, connection, &frame);
        if (frame.type == LAUNCHER_CLEAR)
                return clear_worker(launcher, connection, &frame);
        if (frame.type == LAUNCHER_SHARE)
                return share(launcher, connection, &frame);
        if (frame.type == LAUNCHER_KEEP)
                return keep_workspace(launcher, connection, &frame);
        if (frame.type == LAUNCHER_NAMES)
                return find_names(launcher, connection, &frame);
        if (frame.type == LAUNCHER_RENAME)
                return rename_worker(launcher, connection, &frame);
        return frame.type == LAUNCHER_START ? start_for(launcher, connection, &frame) : -1;
}

/* poll() of those that have a descriptor: the others, too, it counts against the limit of open files (poll(2), EINVAL). */
static int poll_taken(struct pollfd *polled, size_t count, int timeout_ms) {
        struct pollfd taken[3 + LAUNCHER_CONNECTIONS_MAX + LAUNCHER_RUNS_MAX];
        size_t places[3 + LAUNCHER_CONNECTIONS_MAX + LAUNCHER_RUNS_MAX], length = 0;
        int result;

        for (size_t i = 0; i < count; i++) {
                if (polled[i].fd < 0)
                        continue;
                places[length] = i;
                taken[length++] = polled[i];
        }
        result = poll(taken, length, timeout_ms);
        for (size_t i = 0; i < length; i++)
                polled[places[i]].revents = taken[i].revents;
        return result;
}

static int one_turn(struct launcher *launcher, const struct interrupt *interrupt, struct error *err) {
        struct pollfd polled[3 + LAUNCHER_CONNECTIONS_MAX + LAUNCHER_RUNS_MAX];
        struct pollfd *connections = polled + 3, *runs = connections + LAUNCHER_CONNECTIONS_MAX;
        int64_t until_ms = INT64_MAX, left;
        struct launcher_work *work;

        polled[0] = (struct pollfd){ .fd = launcher->listener.socket, .events = POLLIN };
        polled[1] =
                (struct pollfd){ .fd = interrupt_descriptor(interrupt, INTERRUPT_FINISH), .events = POLLIN };
        polled[2] = (struct pollfd){ .fd = launcher->works.told, .events = POLLIN };
        for (size_t i = 0; i < LAUNCHER_CONNECTIONS_MAX; i++)
                connections[i] = (struct pollfd){ .fd = launcher->connections[i].waits
                                                                ? -1
                                                                : launcher->connections[i].socket,
                                                  .events = POLLIN };
        for (size_t i = 0; i < LAUNCHER_RUNS_MAX; i++) {
                struct run *run = &launcher->runs[i];

                runs[i] =
                        (struct pollfd){ .fd = run->taken ? run->keeper.worker.pidfd : -1, .events = POLLIN };
                if (run->taken && clock_now_ms() >= run->until_ms)
                        process_kill(&run->keeper.worker);
                else if (run->taken && run->until_ms < until_ms)
                        until_ms = run->until_ms;
        }
        left = until_ms == INT64_MAX ? -1 : until_ms > clock_now_ms() ? until_ms - clock_now_ms() : 0;
        if (poll_taken(polled, sizeof(polled) / sizeof(polled[0]), left < INT_MAX ? (int)left : INT_MAX) <
                    0 &&
            errno != EINTR)
                return error_set(err, "cannot wait: %s", strerror(errno));
        for (size_t i = 0; i < LAUNCHER_RUNS_MAX; i++) {
                if (runs[i].fd >= 0 && runs[i].revents)
                        end_of_run(launcher, &launcher->runs[i]);
        }
        for (size_t i = 0; i < LAUNCHER_CONNECTIONS_MAX; i++) {
                struct connection *connection = &launcher->connections[i];

                if (connections[i].fd >= 0 && connections[i].revents &&
                    connection->socket == connections[i].fd && read_question(launcher, connection) < 0)
                        close_connection(connection);
        }
        if (polled[0].revents)
                accept_connection(launcher);
        while (polled[2].revents && (work = launcher_works_take(&launcher->works)))
                finish_work(launcher, (struct disk_work *)work);
        return 0;
}

/*
 * A disk that hangs must not block the launcher's end: systemd would kill it in the middle of that.
 * Unfinished work is then as after a death: an image has a name when it is whole, and a mount that
 * is attached nowhere ends with the process. True: threads are still about, and use what is the
 * launcher's.
 */
static bool end_works(struct launcher *launcher) {
        int64_t until_ms = clock_now_ms() + LAST_MS;
        struct launcher_work *work;
        unsigned left;

        while ((work = launcher_works_last(&launcher->works, until_ms)))
                free_work((struct disk_work *)work);
        left = launcher_works_close(&launcher->works);
        if (left > 0)
                log_warning(
                        "the disk has not answered for %d s: %u workspaces that were being made, opened or "
                        "removed are left as they are",
                        LAST_MS / 1000, left);
        return left > 0;
}

int launcher_run(const struct launcher_config *config, const struct interrupt *interrupt, struct error *err) {
        static struct launcher *left; /* what threads use until the process ends */
        struct launcher *launcher = calloc(1, sizeof(*launcher));
        int result = 0;

        if (!launcher)
                abort();
        launcher->own_config = *config;
        launcher->config = &launcher->own_config;
        for (size_t i = 0; i < LAUNCHER_CONNECTIONS_MAX; i++)
                launcher->connections[i].socket = -1;
        launcher->listener = (struct launcher_listener)LAUNCHER_LISTENER_NONE;
        if (launcher_works_open(&launcher->works, config->client_count, err) < 0) {
                free(launcher);
                return -1;
        }
        result = config->socket ? launcher_listen(config->socket, config->clients[0], config->group,
                                                  &launcher->listener, err)
                                : launcher_listen_inherited(&launcher->listener, err);
        if (result == 0)
                result = find_workers(launcher, err);
        if (result == 0)
                log_info("listening at %s", config->socket ? config->socket : "systemd's socket");
        while (result == 0 && interrupt_level(interrupt) == INTERRUPT_NONE)
                result = one_turn(launcher, interrupt, err);
        for (size_t i = 0; i < LAUNCHER_CONNECTIONS_MAX; i++)
                close_connection(&launcher->connections[i]);
        if (end_works(launcher))
                left = launcher;
        for (size_t i = 0; i < LAUNCHER_RUNS_MAX; i++) {
                struct run *run = &launcher->runs[i];

                if (run->taken && run->path)
                        leave_run(run);
                else if (run->taken)
                        release_run(run);
        }
        cgroup_leave_service();
        launcher_listener_close(&launcher->listener);
        if (launcher != left)
                free(launcher);
        return result;
}
