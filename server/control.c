/* SPDX-License-Identifier: Apache-2.0 */
#include "server/control.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "server/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_LIMIT ((size_t)64 * 1024)
#define ANSWER_LIMIT ((size_t)256 * 1024 * 1024)
#define REQUEST_MS (5 * 1000)
#define ANSWER_MS (30 * 1000)
#define FOREVER INT64_MAX
#define THREAD_STACK ((size_t)1024 * 1024)

struct control {
        const struct control_daemon *daemon;
        struct instance instance;
        int socket, stop;
        json_t *(*answer)(void *context, json_t *request);
        void *context;
        pthread_t thread;
        bool started;
};

/* Waits until the descriptor is ready for `events`. False where the time is over or `stop` (or -1) was raised. */
static bool wait_until_ready(int descriptor, short events, int stop, int64_t until_ms) {
        struct pollfd wanted[2] = { { .fd = descriptor, .events = events },
                                    { .fd = stop, .events = POLLIN } };

        for (;;) {
                int64_t left = until_ms == FOREVER ? INT_MAX : until_ms - clock_now_ms();
                int ready = left > 0 ? poll(wanted, stop < 0 ? 1 : 2, (int)left) : 0;

                if ((ready < 0 && errno == EINTR) || (ready == 0 && until_ms == FOREVER))
                        continue;
                return ready > 0 && wanted[0].revents && !(stop >= 0 && wanted[1].revents);
        }
}

/* Up to a line end, which is not kept, or the end. -1 where nothing whole came in time, or too much. */
static int receive_line(int descriptor, size_t limit, int stop, int64_t until_ms, struct strbuf *ret) {
        char buffer[16384];

        ret->limit = limit;
        while (wait_until_ready(descriptor, POLLIN, stop, until_ms)) {
                ssize_t count = recv(descriptor, buffer, sizeof(buffer), MSG_DONTWAIT);
                const char *end;

                if (count < 0 && (errno == EINTR || errno == EAGAIN))
                        continue;
                if (count <= 0)
                        return -1;
                end = memchr(buffer, '\n', (size_t)count);
                strbuf_append_bytes(ret, buffer, end ? (size_t)(end - buffer) : (size_t)count);
                if (ret->overflow)
                        return -1;
                if (end)
                        return 0;
        }
        return -1;
}

static int send_line(int descriptor, const json_t *json, int stop, int64_t until_ms) {
        char *text = json_dumps(json, JSON_COMPACT);
        size_t length, sent = 0;

        if (!text)
                abort();
        length = strlen(text);
        text[length++] = '\n';
        while (sent < length && wait_until_ready(descriptor, POLLOUT, stop, until_ms)) {
                ssize_t count = send(descriptor, text + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (count < 0 && errno != EINTR && errno != EAGAIN)
                        break;
                sent += count > 0 ? (size_t)count : 0;
        }
        free(text);
        return sent == length ? 0 : -1;
}

static json_t *refusal_json(const char *why) {
        return json_pack("{s:b, s:s}", "ok", 0, "error", why);
}

/* The caller's user, by the kernel's word: it replaces whatever the request itself says of that. */
static void sign(int connection, json_t *request) {
        struct ucred peer = { .uid = (uid_t)-1 };
        socklen_t length = sizeof(peer);
        struct passwd entry, *found = NULL;
        char buffer[4096], name[256] = "somebody";

        if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid != (uid_t)-1) {
                snprintf(name, sizeof(name), "uid %ld", (long)peer.uid);
                if (getpwuid_r(peer.uid, &entry, buffer, sizeof(buffer), &found) == 0 && found)
                        snprintf(name, sizeof(name), "%s", found->pw_name);
        }
        json_object_set_new(request, "by", json_from_text(name));
}

static void serve_connection(struct control *control, int connection) {
        int64_t until_ms = clock_now_ms() + REQUEST_MS;
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;
        json_t *request JSON_CLEANUP = NULL, *answer JSON_CLEANUP = NULL;

        if (receive_line(connection, REQUEST_LIMIT, control->stop, until_ms, &line) < 0) {
                if (!line.overflow)
                        return;
                answer = refusal_json("the request is too long");
        } else {
                request = json_loadb(strbuf_text(&line), line.length, JSON_REJECT_DUPLICATES, NULL);
                if (json_is_object(request))
                        sign(connection, request);
                answer = json_is_object(request) ? control->answer(control->context, request)
                                                 : refusal_json("the request is no JSON object");
        }
        if (send_line(connection, answer, control->stop, clock_now_ms() + REQUEST_MS) < 0)
                log_debug("control: the client did not take the answer");
}

static void *listen_on(void *argument) {
        struct control *control = argument;

        log_context_clear();
        while (wait_until_ready(control->socket, POLLIN, control->stop, FOREVER)) {
                int connection DESCRIPTOR_CLEANUP = accept4(control->socket, NULL, NULL, SOCK_CLOEXEC);

                if (connection >= 0)
                        serve_connection(control, connection);
                else if (errno == EMFILE || errno == ENFILE)
                        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
        }
        return NULL;
}

static int start_thread(struct control *control, struct error *err) {
        pthread_attr_t attributes;
        int code;

        if (control->stop < 0)
                return error_set(err, "cannot make an event: %s", strerror(errno));
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, THREAD_STACK);
        code = pthread_create(&control->thread, &attributes, listen_on, control);
        pthread_attr_destroy(&attributes);
        if (code != 0)
                return error_set(err, "cannot start a thread: %s", strerror(code));
        control->started = true;
        return 0;
}

int control_listen(const char *folder, const struct control_daemon *daemon,
                   json_t *(*answer)(void *context, json_t *request), void *context, struct control **ret,
                   struct error *err) {
        struct control *control = calloc(1, sizeof(*control));

        if (!control)
                abort();
        *control = (struct control){ .daemon = daemon,
                                     .instance = INSTANCE_NONE,
                                     .socket = -1,
                                     .stop = eventfd(0, EFD_CLOEXEC),
                                     .answer = answer,
                                     .context = context };
        if (instance_open(folder, daemon->name, &control->instance, err) < 0 ||
            instance_listen(&control->instance, &control->socket, err) < 0 ||
            start_thread(control, err) < 0) {
                control_close(control);
                return -1;
        }
        *ret = control;
        return 0;
}

bool control_is_in_place(const struct control *control) {
        return instance_is_in_place(&control->instance);
}

void control_close(struct control *control) {
        if (!control)
                return;
        if (control->started) {
                if (eventfd_write(control->stop, 1) < 0)
                        abort();
                pthread_join(control->thread, NULL);
        }
        close_descriptor(&control->socket);
        close_descriptor(&control->stop);
        instance_close(&control->instance);
        free(control);
}

static int nobody_listens(const char *folder, const struct control_daemon *daemon, struct error *err) {
        return error_set_kind(err, ERROR_NOT_FOUND, "no %s runs in %s: %s, or name its folder with --state",
                              daemon->name, folder, daemon->how_to_start);
}

/* connect() of a Unix socket waits where the listener's queue is full: not without end. */
static int connect_in(int folder, const struct control_daemon *daemon, int connection) {
        struct timeval patience = { .tv_sec = ANSWER_MS / 1000 };
        struct sockaddr_un address = instance_address(folder, daemon->name);

        if (setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
                return -1;
        return connect(connection, (const struct sockaddr *)&address, sizeof(address));
}

int control_ask(const char *folder, const struct control_daemon *daemon, json_t *request, json_t **ret,
                struct error *err) {
        json_t *asked JSON_CLEANUP = request;
        int64_t until_ms = clock_now_ms() + ANSWER_MS;
        int place DESCRIPTOR_CLEANUP = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int connection DESCRIPTOR_CLEANUP = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;
        json_t *answer;

        if (place < 0 && (errno == ENOENT || errno == ENOTDIR))
                return nobody_listens(folder, daemon, err);
        if (place < 0 || connection < 0)
                return error_set(err, "cannot ask the %s in %s: %s", daemon->name, folder, strerror(errno));
        if (connect_in(place, daemon, connection) < 0)
                return errno == ENOENT || errno == ECONNREFUSED
                               ? nobody_listens(folder, daemon, err)
                               : error_set(err, "cannot ask the %s in %s: %s", daemon->name, folder,
                                           strerror(errno));
        if (send_line(connection, asked, -1, until_ms) < 0 ||
            receive_line(connection, ANSWER_LIMIT, -1, until_ms, &line) < 0)
                return error_set(err, "the %s in %s did not answer", daemon->name, folder);
        answer = json_loadb(strbuf_text(&line), line.length, 0, NULL);
        if (!json_is_object(answer)) {
                json_decref(answer);
                return error_set(err, "the %s in %s answered with something that is no JSON object",
                                 daemon->name, folder);
        }
        *ret = answer;
        return 0;
}
