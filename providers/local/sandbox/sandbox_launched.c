/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_launched.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/files.h"
#include "providers/local/sandbox/sandbox_keeper.h"
#include "providers/local/sandbox/sandbox_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* A launcher answers at once; one that starts many is busy. */
#define ANSWER_MS 30000
/* After a worker was told to end; it kills its sandbox at once. */
#define ENDING_MS 2000
/* After a worker was killed. */
#define KILLED_MS 10000

/*
 * A stopped launcher takes as many connections as its queue holds: a later one waits no longer than
 * for an answer, or not at all.
 */
static int connect_to(const char *path, bool waits, struct error *err) {
        const struct timeval patience = { .tv_sec = ANSWER_MS / 1000 };
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int connected, made DESCRIPTOR_CLEANUP =
                               socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (waits ? 0 : SOCK_NONBLOCK), 0);
        struct ucred peer;
        socklen_t length = sizeof(peer);

        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(err, "%s: the path of a socket has at most %zu bytes", path,
                                 sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        if (made < 0 || setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
            connect(made, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return error_set(err, "cannot reach a launcher at %s: %s", path, strerror(errno));
        if (getsockopt(made, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
            (peer.uid != 0 && peer.uid != geteuid()))
                return error_set(
                        err,
                        "%s is listened at by user %u, who is neither root nor this user: it is told nothing",
                        path, (unsigned)peer.uid);
        connected = made;
        made = -1;
        return connected;
}

int sandbox_launched_try(const char *launcher, struct error *err) {
        int connected DESCRIPTOR_CLEANUP = connect_to(launcher, false, err);

        return connected < 0 ? -1 : 0;
}

/*
 * The next whole message of that type; others are passed over, such as answers that came too late.
 */
static int receive_type(struct sandbox_launched *launched, unsigned type, int64_t patience_ms,
                        struct frame *ret, struct error *err) {
        int64_t until_ms = clock_now_ms() + patience_ms;
        struct pollfd polled = { .fd = launched->launcher.socket, .events = POLLIN };

        for (;;) {
                int64_t left = until_ms - clock_now_ms();
                int answer;

                if (left <= 0 || poll(&polled, 1, (int)left) == 0)
                        return error_set(err, "the launcher did not answer within %lld s",
                                         (long long)patience_ms / 1000);
                if (!polled.revents)
                        continue;
                answer = frame_receive(&launched->launcher, ret, err);
                if (answer == FRAME_CLOSED)
                        return error_set(
                                err, "the launcher closed the connection without an answer: it has ended, or "
                                     "this user may not ask it (--for)");
                if (answer < 0)
                        return -1;
                if (answer != FRAME_WHOLE)
                        continue;
                if (ret->type == type || ret->type == LAUNCHER_REFUSED || ret->type == LAUNCHER_BUSY)
                        return 0;
                frame_release(ret);
        }
}

static int ask_launcher(struct sandbox_launched *launched, unsigned type, uint64_t run, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        sandbox_number_write(run, &text);
        return frame_send_now(launched->launcher.socket, type, text.data, text.length, NULL, 0, err);
}

int sandbox_launched_start(const char *path, const struct sandbox_starting *starting, struct arena *arena,
                           struct sandbox_launched *ret, int *ret_worker, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct frame answer FRAME_CLEANUP = { 0 };

        ret->launcher.socket = connect_to(path, true, err);
        if (ret->launcher.socket < 0)
                return -1;
        sandbox_starting_write(starting, &text);
        /* A launcher that refused has sent its answer already, and takes nothing more. */
        (void)!frame_send_now(ret->launcher.socket, LAUNCHER_START, text.data, text.length, starting->joins,
                              starting->joins != NULL, err);
        if (receive_type(ret, LAUNCHER_STARTED, ANSWER_MS, &answer, err) < 0)
                return error_context(err, "%s", path);
        if (answer.type == LAUNCHER_REFUSED)
                return error_set(err, "the launcher at %s refused: %s", path, strbuf_text(&answer.payload));
        if (answer.count != 1 ||
            sandbox_started_read(answer.payload.data, answer.payload.length, arena, &ret->started, err) < 0)
                return error_set(err, "the launcher at %s does not speak as it should", path);
        *ret_worker = frame_take(&answer, 0);
        return 0;
}

void sandbox_launched_measure(struct sandbox_launched *launched, struct cgroup_usage *ret) {
        struct frame answer FRAME_CLEANUP = { 0 };
        struct sandbox_measured measured;
        struct error ignored;

        *ret = (struct cgroup_usage){ 0 };
        if (launched->launcher.socket >= 0 &&
            ask_launcher(launched, LAUNCHER_MEASURE, launched->started.run, &ignored) == 0 &&
            receive_type(launched, LAUNCHER_MEASURED, ANSWER_MS, &answer, &ignored) == 0 &&
            answer.type == LAUNCHER_MEASURED &&
            sandbox_measured_read(answer.payload.data, answer.payload.length, &measured, &ignored) == 0 &&
            measured.run == launched->started.run)
                *ret = measured.usage;
}

void sandbox_launched_end(struct sandbox_launched *launched, int patience_ms) {
        struct frame answer FRAME_CLEANUP = { 0 };
        struct error ignored;

        /* The launcher's end, and a second call, leave nothing to wait for. */
        if (launched->launcher.socket >= 0 && launched->started.run > 0 &&
            receive_type(launched, LAUNCHER_ENDED, patience_ms > 0 ? patience_ms : 1, &answer, &ignored) <
                    0 &&
            ask_launcher(launched, LAUNCHER_KILL, launched->started.run, &ignored) == 0)
                (void)!receive_type(launched, LAUNCHER_ENDED, KILLED_MS, &answer, &ignored);
        frame_reader_release(&launched->launcher);
        close_descriptor(&launched->launcher.socket);
}

/* --- workers that last --- */

/* In what its socket is called, the user's number comes first. */
static const char *name_in(const char *path) {
        const char *slash = strrchr(path, '/'), *dot = strchr(slash ? slash : path, '.');

        return dot ? dot + 1 : path;
}

static int tell_program(const struct sandbox_launched *launched, const struct sandbox_spec *spec,
                        const char *path, int worker, struct error *err) {
        const char *slash = strrchr(path, '/');

        if (launched->started.missing && !spec->accept_degraded)
                return error_set(err, "limits cannot be enforced: %s", launched->started.problem);
        if (access(path, F_OK) < 0)
                return error_set(err,
                                 "the launcher at %s has its workers elsewhere: start it with --workers %.*s",
                                 spec->launcher, (int)(slash - path), path);
        if (sandbox_tell_run(worker, spec, true, err) < 0) {
                (void)!sandbox_keeper_heed(worker, err);
                return -1;
        }
        return 0;
}

int sandbox_launched_last(const struct sandbox_spec *spec, const char *path, struct arena *arena,
                          int *ret_worker, struct error *err) {
        struct sandbox_starting starting = { .limits = spec->limits,
                                             .image = spec->image_digest,
                                             .name = name_in(path),
                                             .family = spec->family,
                                             .disk = spec->disk,
                                             .kept = spec->kept_name,
                                             .network = spec->network,
                                             .joins = spec->shared && spec->shared->network >= 0
                                                              ? &spec->shared->network
                                                              : NULL };
        struct sandbox_launched launched = SANDBOX_LAUNCHED_NONE;
        int worker DESCRIPTOR_CLEANUP = -1, result;

        result = sandbox_launched_start(spec->launcher, &starting, arena, &launched, &worker, err);
        if (result == 0)
                result = tell_program(&launched, spec, path, worker, err);
        /* No other process would end it. */
        if (result < 0 && worker >= 0) {
                close_descriptor(&worker);
                sandbox_launched_end(&launched, 0);
        }
        frame_reader_release(&launched.launcher);
        close_descriptor(&launched.launcher.socket);
        if (result < 0)
                return -1;
        fcntl(worker, F_SETFL, O_NONBLOCK);
        *ret_worker = worker;
        worker = -1;
        return 0;
}

int sandbox_launched_rename(const char *launcher, const char *path, const char *to, struct error *err) {
        struct sandbox_launched launched = SANDBOX_LAUNCHED_NONE;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct frame answer FRAME_CLEANUP = { 0 };
        int result = -1;

        launched.launcher.socket = connect_to(launcher, true, err);
        sandbox_renaming_write(name_in(path), name_in(to), &text);
        if (launched.launcher.socket >= 0 &&
            frame_send_now(launched.launcher.socket, LAUNCHER_RENAME, text.data, text.length, NULL, 0, err) ==
                    0 &&
            receive_type(&launched, LAUNCHER_RENAMED, ANSWER_MS, &answer, err) == 0)
                result = answer.type == LAUNCHER_RENAMED ? 0
                                                         : error_set(err, "the launcher at %s refused: %s",
                                                                     launcher, strbuf_text(&answer.payload));
        frame_reader_release(&launched.launcher);
        close_descriptor(&launched.launcher.socket);
        return result;
}

int sandbox_launched_share(const char *launcher, const struct sandbox_family *family, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        int asked DESCRIPTOR_CLEANUP = connect_to(launcher, false, err);

        sandbox_family_write(family, &text);
        return asked < 0 ? -1 : frame_send_now(asked, LAUNCHER_SHARE, text.data, text.length, NULL, 0, err);
}

int sandbox_launched_keep(const char *launcher, const struct sandbox_keeping *keeping, int *ret_root,
                          struct error *err) {
        struct sandbox_launched launched = SANDBOX_LAUNCHED_NONE;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct frame answer FRAME_CLEANUP = { 0 };
        int result = -1;

        launched.launcher.socket = connect_to(launcher, true, err);
        sandbox_keeping_write(keeping, &text);
        if (launched.launcher.socket >= 0 &&
            frame_send_now(launched.launcher.socket, LAUNCHER_KEEP, text.data, text.length, NULL, 0, err) ==
                    0 &&
            receive_type(&launched, LAUNCHER_KEPT, ANSWER_MS, &answer, err) == 0) {
                if (answer.type != LAUNCHER_KEPT)
                        (void)error_set_kind(err, answer.type == LAUNCHER_BUSY ? ERROR_LOCKED : ERROR_REFUSED,
                                             "the launcher at %s refused: %s", launcher,
                                             strbuf_text(&answer.payload));
                else if (answer.count == 0 && !keeping->remove)
                        (void)error_set_kind(err, ERROR_NOT_FOUND, "there is no such workspace");
                else
                        result = 0;
        }
        if (result == 0 && !keeping->remove)
                *ret_root = frame_take(&answer, 0);
        frame_reader_release(&launched.launcher);
        close_descriptor(&launched.launcher.socket);
        return result;
}

/* Those that come after one of them. */
static int ask_names(struct sandbox_launched *launched, const char *after, struct arena *arena,
                     const char ***ret, size_t *ret_count, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct frame answer FRAME_CLEANUP = { 0 };

        sandbox_after_write(after, &text);
        if (frame_send_now(launched->launcher.socket, LAUNCHER_NAMES, text.data, text.length, NULL, 0, err) <
                    0 ||
            receive_type(launched, LAUNCHER_NAMED, ANSWER_MS, &answer, err) < 0)
                return -1;
        if (answer.type != LAUNCHER_NAMED)
                return error_set_kind(err, ERROR_REFUSED, "the launcher refused: %s",
                                      strbuf_text(&answer.payload));
        return sandbox_names_read(answer.payload.data, answer.payload.length, arena, ret, ret_count, err);
}

int sandbox_launched_names(const char *launcher, struct arena *arena, const char ***ret, size_t *ret_count,
                           struct error *err) {
        struct sandbox_launched launched = SANDBOX_LAUNCHED_NONE;
        const char **names = NULL, **more, *last = "";
        size_t count = 0, more_count = 0;
        int result = -1;

        launched.launcher.socket = connect_to(launcher, true, err);
        if (launched.launcher.socket >= 0) {
                do {
                        result = ask_names(&launched, last, arena, &more, &more_count, err);
                        for (size_t i = 0; result == 0 && i < more_count; i++) {
                                if (strcmp(more[i], last) <= 0)
                                        result = error_set(err, "the names of workspaces are not in order");
                                names = array_grow(arena, names, count, sizeof(*names));
                                names[count++] = last = more[i];
                        }
                } while (result == 0 && more_count > 0);
        }
        *ret = names;
        *ret_count = count;
        if (result < 0)
                (void)error_context(err, "%s", launcher);
        frame_reader_release(&launched.launcher);
        close_descriptor(&launched.launcher.socket);
        return result;
}

/* Its last messages are not read; that its socket ends is its last word. */
static void await_close(int worker, int64_t patience_ms) {
        int64_t until_ms = clock_now_ms() + patience_ms, left;
        struct pollfd polled = { .fd = worker, .events = POLLIN };
        char ignored[65536];

        while ((left = until_ms - clock_now_ms()) > 0) {
                if (poll(&polled, 1, (int)left) == 1 &&
                    recv(worker, ignored, sizeof(ignored), MSG_DONTWAIT) <= 0 && errno != EAGAIN &&
                    errno != EINTR)
                        return;
        }
}

void sandbox_launched_clear(const char *launcher, const char *path, int worker) {
        struct sandbox_launched launched = SANDBOX_LAUNCHED_NONE;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct frame answer FRAME_CLEANUP = { 0 };
        struct error ignored;

        if (worker >= 0)
                await_close(worker, ENDING_MS);
        launched.launcher.socket = connect_to(launcher, true, &ignored);
        sandbox_name_write(name_in(path), &text);
        if (launched.launcher.socket >= 0 && frame_send_now(launched.launcher.socket, LAUNCHER_CLEAR,
                                                            text.data, text.length, NULL, 0, &ignored) == 0)
                (void)!receive_type(&launched, LAUNCHER_ENDED, KILLED_MS, &answer, &ignored);
        frame_reader_release(&launched.launcher);
        close_descriptor(&launched.launcher.socket);
}
