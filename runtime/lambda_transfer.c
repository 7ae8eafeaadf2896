/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job goes over a socket, and only when the process has said that nobody can look into it any more: as an argument, or in a file or a
 * pipe, code could read it, and presigned requests are in it. Until it has said that, everybody else stands still: code that was left
 * behind could write into its memory, or into the file of its program, and would then be the one who says it.
 */
#include "runtime/lambda_transfer.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "process/process.h"
#include "runtime/descendants.h"
#include "runtime/kernel.h"
#include "runtime/lambda_environment.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE_LENGTH_MAX ((size_t)16384)
/* A file that is not as it was takes a line; one that is, none. */
#define LINES_MAX 100000
#define STOP_ROUNDS 50

static const char program[] =
        "import zlib; exec(compile(zlib.decompress(open(6, 'rb').read(), 31), '<berth transfer>', 'exec'))";

void lambda_transfer_forget(struct lambda_transfer *transfer) {
        close_descriptor(&transfer->index);
}

void lambda_transfer_release(struct lambda_transfer *transfer) {
        lambda_transfer_forget(transfer);
        strbuf_release(&transfer->files);
}

static int in_memory(const char *name, const void *bytes, size_t length, struct error *err) {
        int file = memfd_create(name, MFD_CLOEXEC);

        if (file < 0 || descriptor_write(file, bytes, length) < 0 || lseek(file, 0, SEEK_SET) < 0) {
                (void)error_set(err, "no memory for a transfer: %s", strerror(errno));
                close_descriptor(&file);
        }
        return file;
}

/* --- what it says --- */

/* Texts are cut and checked by what writes them; numbers and digests here. */
static int take_file(struct lambda_transfer *transfer, const json_t *line, struct error *err) {
        static const char *const fates[] = { "changed", "deleted", "gone", "skipped" };
        const char *fate, *sha256 = NULL;
        struct invocation_file file = { 0 };
        json_int_t bytes;
        int index;

        if (json_unpack((json_t *)line, "{s:s, s:s, s:I, s?:s, s?:s !}", "fate", &fate, "path", &file.path,
                        "bytes", &bytes, "sha256", &sha256, "reason", &file.reason) != 0)
                return error_set(err, "a transfer said what cannot be");
        index = content_index(fates, CONTENT_COUNT(fates), fate);
        if (index < 0 || bytes < 0 || (index != INVOCATION_SKIPPED && !invocation_is_path(file.path)) ||
            (index == INVOCATION_CHANGED) != (sha256 != NULL) ||
            (sha256 && (strlen(sha256) != SHA256_HEX_SIZE - 1 ||
                        strspn(sha256, "0123456789abcdef") != SHA256_HEX_SIZE - 1)) ||
            transfer->file_count++ >= LINES_MAX)
                return error_set(err, "a transfer said what cannot be");
        file.fate = (enum invocation_file_fate)index;
        file.bytes = (uint64_t)bytes;
        file.sha256 = sha256;
        invocation_file_write(&file, &transfer->files);
        return 0;
}

/* 1: that was its last. */
static int take_line(struct lambda_transfer *transfer, const char *text, size_t length, struct error *err) {
        json_t *line JSON_CLEANUP = json_measure(text, length).depth > 2
                                            ? NULL
                                            : json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
        const json_t *ok = json_object_get(line, "ok");
        const char *reason = json_text(line, "reason");

        if (!ok)
                return take_file(transfer, line, err);
        if (json_is_true(ok))
                return 1;
        return error_set(err, "%s", reason && *reason ? reason : "a transfer failed");
}

/* --- the process --- */

/* Again until there is none more: one that still ran could start another. */
static void stop_others(void) {
        static const struct descendants none = { 0 };
        size_t before = 0;

        for (int round = 0; round < STOP_ROUNDS; round++) {
                size_t count = descendants_signal(&none, 0, 0, SIGSTOP);

                if (count == before)
                        return;
                before = count;
        }
}

static void let_others_go_on(void) {
        static const struct descendants none = { 0 };

        (void)descendants_signal(&none, 0, 0, SIGCONT);
}

struct talk {
        struct process process;
        int socket;
        struct strbuf heard;
        size_t taken;
};

/* The next line, without its end: 1. 0: it has ended. Borrowed until the next call. */
static int next_line(struct talk *talk, int64_t until_ms, const char **ret, size_t *ret_length,
                     struct error *err) {
        for (;;) {
                const char *from = strbuf_text(&talk->heard) + talk->taken;
                const char *end = memchr(from, '\n', talk->heard.length - talk->taken);
                struct pollfd polled = { talk->socket, POLLIN, 0 };
                int64_t left = until_ms - clock_system.monotonic_ms(&clock_system);
                char bytes[16384];
                ssize_t count;

                if (end) {
                        *ret = from;
                        *ret_length = (size_t)(end - from);
                        talk->taken += *ret_length + 1;
                        return 1;
                }
                if (talk->heard.length - talk->taken > LINE_LENGTH_MAX)
                        return error_set(err, "a transfer said too long a line");
                if (talk->taken > 0) {
                        memmove(talk->heard.data, from, talk->heard.length - talk->taken);
                        talk->heard.length -= talk->taken;
                        talk->taken = 0;
                }
                if (left <= 0)
                        return error_set(err, "there was no more time for files");
                if (poll(&polled, 1, left < 60000 ? (int)left : 60000) <= 0)
                        continue;
                count = recv(talk->socket, bytes, sizeof(bytes), 0);
                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return error_set(
                                err, "the process that moves files was killed, or is not what it should be");
                strbuf_append_bytes(&talk->heard, bytes, (size_t)count);
        }
}

static int send_job(int file, const json_t *job, struct error *err) {
        char *text TEXT_CLEANUP = json_compact(job);
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&line, "%s\n", text);
        for (size_t at = 0; at < line.length;) {
                ssize_t count = send(file, line.data + at, line.length - at, MSG_NOSIGNAL);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return error_set(err, "the process that moves files was killed");
                at += (size_t)count;
        }
        return 0;
}

static int converse(struct lambda_transfer *transfer, struct talk *talk, const json_t *job, int64_t until_ms,
                    struct error *err) {
        const char *line;
        size_t length;
        int result = next_line(talk, until_ms, &line, &length, err);

        let_others_go_on();
        if (result < 0)
                return -1;
        if (length != strlen("{\"ready\": true}") || memcmp(line, "{\"ready\": true}", length) != 0) {
                result = take_line(transfer, line, length, err);
                return result < 0 ? -1 : error_set(err, "a transfer said what cannot be");
        }
        result = send_job(talk->socket, job, err);
        while (result == 0) {
                result = next_line(talk, until_ms, &line, &length, err);
                if (result > 0)
                        result = take_line(transfer, line, length, err);
        }
        return result < 0 ? -1 : 0;
}

static int begin(int source, int index, int body, struct talk *talk, struct error *err) {
        static const char *const variables[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL };
        const char *const words[] = { "python3", "-I", "-c", program, NULL };
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folders = getenv("PATH");
        int ours DESCRIPTOR_CLEANUP = -1, theirs DESCRIPTOR_CLEANUP = -1, pair[2];
        const struct timeval most = { .tv_sec = 30 };
        struct process_args args = { .arguments = words,
                                     .environment = variables,
                                     .folder = "/",
                                     .group = PROCESS_OWN_SESSION,
                                     .descriptors = { { -1, 3 }, { index, 4 }, { source, 6 }, { body, 5 } },
                                     .descriptor_count = body < 0 ? 3 : 4 };

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return error_set(err, "no socket for a transfer: %s", strerror(errno));
        ours = pair[0];
        theirs = pair[1];
        (void)setsockopt(ours, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
        args.descriptors[0].ours = theirs;
        args.program = process_find_program(
                "python3", folders && *folders ? folders : "/usr/local/bin:/usr/bin:/bin", arena);
        if (!args.program)
                return error_set(err, "there is no python3 here that could move files");
        if (process_start(&args, &talk->process, err) < 0)
                return -1;
        talk->socket = ours;
        ours = -1;
        return 0;
}

static int transfer_job(struct lambda_transfer *transfer, json_t *job, const char *bytes, size_t length,
                        int64_t until_ms, struct error *err) {
        struct talk talk = { .process = PROCESS_NONE, .socket = -1 };
        int source DESCRIPTOR_CLEANUP = in_memory("transfer.py", transfer_source, transfer_source_size, err);
        int body DESCRIPTOR_CLEANUP = -1, result;

        strbuf_clear(&transfer->files);
        transfer->file_count = 0;
        if (source < 0 || (bytes && (body = in_memory("body", bytes, length, err)) < 0))
                return -1;
        if (transfer->index < 0)
                transfer->index = in_memory("index", "", 0, err);
        if (transfer->index < 0)
                return -1;
        if (access(LAMBDA_AUTHORITIES, R_OK) == 0)
                json_put(job, "authorities", json_string(LAMBDA_AUTHORITIES));
        stop_others();
        result = begin(source, transfer->index, body, &talk, err);
        if (result == 0)
                result = converse(transfer, &talk, job, until_ms, err);
        else
                let_others_go_on();
        process_end(&talk.process);
        close_descriptor(&talk.socket);
        strbuf_release(&talk.heard);
        return result;
}

int lambda_transfer_pull(struct lambda_transfer *transfer, const json_t *workspace, bool mine,
                         int64_t until_ms, struct error *err) {
        json_t *job JSON_CLEANUP =
                json_checked(json_pack("{s:s, s:s, s:b, s:O}", "job", "pull", "folder", LAMBDA_WORKSPACE,
                                       "mine", (int)mine, "files", json_object_get(workspace, "files")));
        json_t *more = json_object_get(workspace, "more");

        if (more)
                json_put(job, "more", json_incref(more));
        return transfer_job(transfer, job, NULL, 0, until_ms, err);
}

int lambda_transfer_push(struct lambda_transfer *transfer, const json_t *workspace, int64_t until_ms,
                         struct error *err) {
        json_t *job JSON_CLEANUP = json_checked(json_pack(
                "{s:s, s:s, s:O, s:O, s:O}", "job", "push", "folder", LAMBDA_WORKSPACE, "put",
                json_object_get(workspace, "put"), "maxBytes", json_object_get(workspace, "maxBytes"),
                "maxFiles", json_object_get(workspace, "maxFiles")));

        return transfer_job(transfer, job, NULL, 0, until_ms, err);
}

int lambda_transfer_post(struct lambda_transfer *transfer, const json_t *policy, const char *name,
                         const char *bytes, size_t length, int64_t until_ms, struct error *err) {
        json_t *job JSON_CLEANUP = json_checked(
                json_pack("{s:s, s:s, s:O}", "job", "post", "name", name, "put", (json_t *)policy));

        return transfer_job(transfer, job, bytes, length, until_ms, err);
}
