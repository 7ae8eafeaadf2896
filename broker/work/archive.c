/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What writes a zip pushes, and what answers pulls: between them is a pair of sockets, whose buffer
 * is all that is ever kept. An archive that cannot be written to its end breaks off, so that no
 * client takes a half for a whole.
 */
#include "broker/work/archive.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "broker/request/answers.h"
#include "broker/work/files.h"
#include "broker/work/opened.h"
#include "sessions/workspace_archive.h"
#include "sessions/workspace_tree.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ARCHIVE_MAX ((uint64_t)4 << 30) /* bytes of files in one */

struct archive_stream {
        struct opened opened;
        struct workspace_archive archive;
        int sockets[2]; /* ours; the thread's */
        pthread_t thread;
        bool started, joined, failed;
};

static int push(void *context, const void *bytes, size_t length) {
        const struct archive_stream *stream = context;
        const char *at = bytes;

        while (length > 0) {
                ssize_t count = send(stream->sockets[1], at, length, MSG_NOSIGNAL);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0)
                        return -1;
                at += count;
                length -= (size_t)count;
        }
        return 0;
}

static void *write_archive(void *context) {
        struct archive_stream *stream = context;
        struct problem problem;

        stream->failed = workspace_archive_write(&stream->opened.workspace, &stream->archive, &problem) < 0;
        if (stream->failed && problem.code != PROBLEM_STOPPING)
                log_warning("the archive of a workspace: %s", problem.detail);
        shutdown(stream->sockets[1], SHUT_WR);
        return NULL;
}

static void join(struct archive_stream *stream) {
        if (stream->started && !stream->joined)
                pthread_join(stream->thread, NULL);
        stream->joined = true;
}

static ssize_t pull(void *context, struct server_request *request, char *buffer, size_t size) {
        struct archive_stream *stream = context;
        ssize_t count;

        do {
                if (server_wait(request, stream->sockets[0], POLLIN, -1) != SERVER_READY)
                        return -1;
                count = recv(stream->sockets[0], buffer, size, MSG_DONTWAIT);
        } while (count < 0 && (errno == EINTR || errno == EAGAIN));
        if (count != 0)
                return count;
        join(stream);
        return stream->failed ? -1 : 0;
}

/* A writer that goes on finds that no reader is left. */
static void end_stream(void *context) {
        struct archive_stream *stream = context;

        shutdown(stream->sockets[0], SHUT_RDWR);
        join(stream);
        close_descriptor(&stream->sockets[0]);
        close_descriptor(&stream->sockets[1]);
        opened_close(&stream->opened);
}

/* As lists have them: what no path can begin with is refused before anything is sent. */
static bool read_prefix(struct server_request *request, const char **ret) {
        const char *prefix = json_text(call_of(request)->query, "prefix"), *slash, *wrong;

        prefix = prefix ? prefix : "";
        slash = strrchr(prefix, '/');
        wrong = strlen(prefix) > WORKSPACE_PATH_MAX ? "it is too long"
                : slash                             ? workspace_path_problem(
                                                              arena_strndup(request->arena, prefix, (size_t)(slash - prefix)))
                        : NULL;
        if (wrong)
                return call_refuse_value(request, arena_printf(request->arena, "prefix: %s", wrong));
        *ret = prefix;
        return true;
}

static bool start(struct server_request *request, struct archive_stream *stream) {
        struct problem problem;
        int code;

        if (opened_bring(request, request->parameters[0], &problem) < 0)
                return call_refuse(request, &problem);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream->sockets) < 0)
                code = errno;
        else
                code = pthread_create(&stream->thread, NULL, write_archive, stream);
        stream->started = code == 0;
        if (stream->started)
                return true;
        (void)problem_set(&problem, PROBLEM_EXHAUSTED, "an archive cannot be begun: %s", strerror(code));
        return call_refuse(request, &problem);
}

void archive_answer(struct server_request *request) {
        struct archive_stream *stream = arena_alloc(request->arena, sizeof(*stream));
        const struct server_stream answer = { stream, pull, end_stream, -1 };
        const struct call *call = call_of(request);
        const char *id = request->parameters[0];
        struct error err;

        *stream = (struct archive_stream){ .opened = OPENED_INIT, .sockets = { -1, -1 } };
        if (!opened_open(request, id, false, &stream->opened))
                return;
        stream->archive = (struct workspace_archive){ .total_max = ARCHIVE_MAX,
                                                      .interrupt = server_interrupt(request),
                                                      .write = push,
                                                      .context = stream };
        if (!read_prefix(request, &stream->archive.prefix)) {
                end_stream(stream);
                return;
        }
        if (applied_download_max(call->broker->applied, stream->opened.row.environment,
                                 &stream->archive.file_max, &err) < 0) {
                answers_state_failed(request, &err);
                end_stream(stream);
                return;
        }
        if (!start(request, stream)) {
                end_stream(stream);
                return;
        }
        files_add_headers(request, arena_printf(request->arena, "%s.zip", id));
        server_answer_stream(request, 200, "application/zip", &answer);
}
