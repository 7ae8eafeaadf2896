/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_launched.h"

#include "base/clock.h"
#include "base/files.h"
#include "providers/local/sandbox/sandbox_parts.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A launcher answers at once; one that starts many is busy. */
#define ANSWER_MS 30000
/* After a worker was killed. */
#define KILLED_MS 10000

static int connect_to(const char *path, struct error *err) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int connected, made DESCRIPTOR_CLEANUP = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct ucred peer;
        socklen_t length = sizeof(peer);

        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(err, "%s: the path of a socket has at most %zu bytes", path,
                                 sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        if (made < 0 || connect(made, (const struct sockaddr *)&address, sizeof(address)) < 0)
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

/* The next whole message of that type; any other is passed over, as answers that nobody waits for any more are. */
static int wait_for(struct sandbox_launched *launched, unsigned type, int64_t patience_ms, struct frame *ret,
                    struct error *err) {
        int64_t until_ms = sandbox_now_ms() + patience_ms;
        struct pollfd polled = { .fd = launched->launcher.socket, .events = POLLIN };

        for (;;) {
                int64_t left = until_ms - sandbox_now_ms();
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
                if (ret->type == type || ret->type == LAUNCHER_REFUSED)
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

        ret->launcher.socket = connect_to(path, err);
        if (ret->launcher.socket < 0)
                return -1;
        sandbox_starting_write(starting, &text);
        /* One that turned us away has said so already, and takes nothing more. */
        (void)!frame_send_now(ret->launcher.socket, LAUNCHER_START, text.data, text.length, NULL, 0, err);
        if (wait_for(ret, LAUNCHER_STARTED, ANSWER_MS, &answer, err) < 0)
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
            wait_for(launched, LAUNCHER_MEASURED, ANSWER_MS, &answer, &ignored) == 0 &&
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
            wait_for(launched, LAUNCHER_ENDED, patience_ms > 0 ? patience_ms : 1, &answer, &ignored) < 0 &&
            ask_launcher(launched, LAUNCHER_KILL, launched->started.run, &ignored) == 0)
                (void)!wait_for(launched, LAUNCHER_ENDED, KILLED_MS, &answer, &ignored);
        frame_reader_release(&launched->launcher);
        close_descriptor(&launched->launcher.socket);
}
