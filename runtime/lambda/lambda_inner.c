/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/lambda/lambda_inner.h"

#include "base/files.h"
#include "base/text.h"
#include "runtime/lambda/lambda_environment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Lambda's own variables for runtimes, which code need not know; and what is set below. */
static bool is_passed_on(const char *variable) {
        static const char *const names[] = { "AWS_",      "_AWS_",    "LAMBDA_", "_LAMBDA_",
                                             "_HANDLER=", "_X_AMZN_", "BERTH_",  "HOME=",
                                             "USER=",     "LOGNAME=", "TMPDIR=" };

        for (size_t i = 0; i < CONTENT_COUNT(names); i++) {
                if (text_begins_with(variable, names[i]))
                        return false;
        }
        return true;
}

static bool is_set(const char *variable) {
        size_t length = strcspn(variable, "=") + 1;

        for (char **one = environ; *one; one++) {
                if (strncmp(*one, variable, length) == 0)
                        return true;
        }
        return false;
}

/* As in a sandbox on a machine: providers/local/sandbox/sandbox.c. */
static const char **variables(struct arena *arena) {
        static const char *const fixed[] = { ("HOME=" LAMBDA_WORKSPACE), "USER=agent", "LOGNAME=agent",
                                             ("TMPDIR=" LAMBDA_TEMPORARY) };
        static const char *const defaults[] = {
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "LANG=C.UTF-8",
                "PYTHONUNBUFFERED=1",
                ("PYTHONPATH=" LAMBDA_WORKSPACE),
                "PYTHONDONTWRITEBYTECODE=1",
                "MPLBACKEND=Agg",
                ("MPLCONFIGDIR=" LAMBDA_TEMPORARY)
        };
        size_t count = 0, room = CONTENT_COUNT(fixed) + CONTENT_COUNT(defaults) + 1;
        const char **words;

        for (char **one = environ; *one; one++)
                room++;
        words = arena_array(arena, room, sizeof(*words));
        for (char **one = environ; *one; one++) {
                if (is_passed_on(*one))
                        words[count++] = *one;
        }
        for (size_t i = 0; i < CONTENT_COUNT(fixed); i++)
                words[count++] = fixed[i];
        for (size_t i = 0; i < CONTENT_COUNT(defaults); i++) {
                if (!is_set(defaults[i]))
                        words[count++] = defaults[i];
        }
        return words;
}

int lambda_inner_start(struct lambda_inner *inner, struct error *err) {
        static const char *const words[] = { "berth-runtime", "serve", NULL };
        struct arena *arena ARENA_CLEANUP = arena_new();
        int ours DESCRIPTOR_CLEANUP = -1, theirs DESCRIPTOR_CLEANUP = -1, pair[2];
        struct process_args args = { .arguments = words,
                                     .program = "/proc/self/exe",
                                     .folder = LAMBDA_WORKSPACE,
                                     .group = PROCESS_OWN_SESSION };

        if (inner->socket >= 0)
                return 0;
        if (lambda_environment_make_workspace(err) < 0)
                return -1;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, "no socket for the runtime: %s", strerror(errno));
        ours = pair[0];
        theirs = pair[1];
        if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
                return error_set(err, "no socket for the runtime: %s", strerror(errno));
        args.environment = variables(arena);
        args.descriptors[0] = (struct process_descriptor){ theirs, STDIN_FILENO };
        args.descriptors[1] = (struct process_descriptor){ theirs, STDOUT_FILENO };
        args.descriptors[2] = (struct process_descriptor){ STDERR_FILENO, STDERR_FILENO };
        args.descriptor_count = 3;
        if (process_start(&args, &inner->process, err) < 0)
                return -1;
        inner->socket = ours;
        ours = -1;
        inner->used = false;
        return 0;
}

void lambda_inner_end(struct lambda_inner *inner) {
        process_end(&inner->process);
        close_descriptor(&inner->socket);
        message_reader_release(&inner->reader);
        strbuf_release(&inner->unsent);
        *inner = (struct lambda_inner)LAMBDA_INNER_NONE;
}

void lambda_inner_ask(struct lambda_inner *inner, const struct request *request) {
        request_write(request, &inner->unsent);
        inner->used = inner->used || request->type == REQUEST_EXECUTE || request->type == REQUEST_RESTORE;
        lambda_inner_send(inner);
}

/* One that does not read any more is dead, which its silence will show. */
void lambda_inner_send(struct lambda_inner *inner) {
        while (inner->sent < inner->unsent.length) {
                ssize_t count = send(inner->socket, inner->unsent.data + inner->sent,
                                     inner->unsent.length - inner->sent, MSG_NOSIGNAL);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return;
                inner->sent += (size_t)count;
        }
        strbuf_clear(&inner->unsent);
        inner->sent = 0;
}

/* No more is read than the message that comes can have. */
static size_t still_missing(const struct message_reader *reader) {
        if (reader->lengths_come < sizeof(reader->lengths))
                return sizeof(reader->lengths) - reader->lengths_come;
        return reader->head_length - reader->head.length + reader->body_length - reader->body.length;
}

int lambda_inner_hear(struct lambda_inner *inner, struct message *ret_message, struct report *ret,
                      struct error *err) {
        char bytes[65536];

        for (;;) {
                size_t wanted = still_missing(&inner->reader), used;
                ssize_t count =
                        recv(inner->socket, bytes, wanted < sizeof(bytes) ? wanted : sizeof(bytes), 0);
                int answer;

                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        return 0;
                if (count <= 0)
                        return error_set(err, "the runtime in the environment was killed");
                answer = message_read(&inner->reader, bytes, (size_t)count, &used, ret_message, err);
                if (answer < 0)
                        return error_context(err, "the runtime in the environment said");
                if (answer == MESSAGE_WHOLE)
                        return report_read(ret_message, ret, err) < 0
                                       ? error_context(err, "the runtime in the environment said")
                                       : 1;
        }
}
