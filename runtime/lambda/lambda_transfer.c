/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs go over a socket, and only once the process has said that it cannot be inspected any more:
 * as an argument, or in a file or a pipe, code could read them, and presigned requests are in them.
 * Until it has said that, all other processes are stopped: code that was left behind could write
 * into its memory, or into the file of its program, and would then say it instead. From then on it
 * is as safe from code as this process is, and lives beside it.
 *
 * A job is a line, and so is each thing that is said of it; {"ok": ...} is its last. {"interrupt": true} may come between, of a watch.
 */
#include "runtime/lambda/lambda_transfer.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "process/descendants.h"
#include "process/process.h"
#include "runtime/lambda/lambda_environment.h"
#include "runtime/serve/kernel.h"

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
#define STOP_ROUNDS 50

static const char program[] =
        "import zlib; exec(compile(zlib.decompress(open(6, 'rb').read(), 31), '<berth transfer>', 'exec'))";

static int in_memory(const char *name, const void *bytes, size_t length, struct error *err) {
        int file = memfd_create(name, MFD_CLOEXEC);

        if (file < 0 || descriptor_write(file, bytes, length) < 0 || lseek(file, 0, SEEK_SET) < 0) {
                (void)error_set(err, "no memory for a transfer: %s", strerror(errno));
                close_descriptor(&file);
        }
        return file;
}

void lambda_transfer_forget(struct lambda_transfer *transfer) {
        close_descriptor(&transfer->index);
}

static void end_process(struct lambda_transfer *transfer) {
        process_end(&transfer->process);
        close_descriptor(&transfer->socket);
        strbuf_release(&transfer->heard);
        transfer->taken = 0;
        transfer->watches = false;
}

void lambda_transfer_end(struct lambda_transfer *transfer) {
        end_process(transfer);
        close_descriptor(&transfer->body);
}

void lambda_transfer_release(struct lambda_transfer *transfer) {
        lambda_transfer_end(transfer);
        lambda_transfer_forget(transfer);
}

/* --- what it says --- */

static bool is_hex_digest(const char *text) {
        return strlen(text) == SHA256_HEX_SIZE - 1 && strspn(text, "0123456789abcdef") == SHA256_HEX_SIZE - 1;
}

/* Texts are cut and checked by what writes them; numbers and digests here. */
static int read_file_line(struct lambda_transfer *transfer, const json_t *line, struct error *err) {
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
            (index == INVOCATION_CHANGED) != (sha256 != NULL) || (sha256 && !is_hex_digest(sha256)))
                return error_set(err, "a transfer said what cannot be");
        file.fate = (enum invocation_file_fate)index;
        file.bytes = (uint64_t)bytes;
        file.sha256 = sha256;
        if (transfer->tell)
                transfer->tell(transfer->context, &file);
        return 0;
}

enum said { SAID_MORE, SAID_OK, SAID_UNUSABLE };

/* What the last line of a job has besides. */
struct outcome {
        char sha256[SHA256_HEX_SIZE]; /* "": it has none */
};

/* -1: the job has failed, or says what cannot be; `ret_over` tells which. */
static int read_result_line(struct lambda_transfer *transfer, const char *text, size_t length,
                            struct outcome *outcome, bool *ret_over, struct error *err) {
        json_t *line JSON_CLEANUP = json_measure(text, length).depth > 2
                                            ? NULL
                                            : json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
        const json_t *ok = json_object_get(line, "ok");
        const char *reason = json_text(line, "reason"), *sha256 = json_text(line, "sha256");
        int64_t skipped = json_integer_or(line, "skipped", 0);

        *ret_over = ok != NULL;
        /* Of a watch that is over. */
        if (json_object_get(line, "interrupt"))
                return SAID_MORE;
        if (!ok)
                return read_file_line(transfer, line, err) < 0 ? -1 : SAID_MORE;
        transfer->skipped_left_out = skipped > 0 ? skipped : 0;
        if (sha256 && is_hex_digest(sha256))
                memcpy(outcome->sha256, sha256, sizeof(outcome->sha256));
        if (json_is_true(ok))
                return SAID_OK;
        (void)error_set(err, "%s", reason && *reason ? reason : "a transfer failed");
        return json_is_true(json_object_get(line, "unusable")) ? SAID_UNUSABLE : -1;
}

/* --- the process --- */

/* Again until none is left: one that still ran could start another. */
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

/* The next line, without its end: 1. 0: it has ended. Borrowed until the next call. */
static int receive_line(struct lambda_transfer *talk, int64_t until_ms, const char **ret, size_t *ret_length,
                        struct error *err) {
        for (;;) {
                const char *from = strbuf_text(&talk->heard) + talk->taken;
                const char *end = memchr(from, '\n', talk->heard.length - talk->taken);
                struct pollfd polled = { talk->socket, POLLIN, 0 };
                int64_t left = until_ms - clock_now_ms();
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

static int start_process(struct lambda_transfer *transfer, int source, struct error *err) {
        static const char *const variables[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL };
        const char *const words[] = { "python3", "-I", "-c", program, NULL };
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *folders = getenv("PATH");
        int ours DESCRIPTOR_CLEANUP = -1, theirs DESCRIPTOR_CLEANUP = -1, pair[2];
        const struct timeval most = { .tv_sec = 30 };
        struct process_args args = {
                .arguments = words,
                .environment = variables,
                .folder = "/",
                .group = PROCESS_OWN_SESSION,
                .descriptors = { { -1, 3 }, { transfer->index, 4 }, { transfer->body, 5 }, { source, 6 } },
                .descriptor_count = 4
        };

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
        if (process_start(&args, &transfer->process, err) < 0)
                return -1;
        transfer->socket = ours;
        ours = -1;
        return 0;
}

/* Its first line: it cannot be inspected any more. */
static int wait_ready(struct lambda_transfer *transfer, int64_t until_ms, struct error *err) {
        static const char ready[] = "{\"ready\": true}";
        struct outcome outcome;
        const char *line;
        size_t length;
        bool over;

        if (receive_line(transfer, until_ms, &line, &length, err) < 0)
                return -1;
        if (length == strlen(ready) && memcmp(line, ready, length) == 0)
                return 0;
        return read_result_line(transfer, line, length, &outcome, &over, err) < 0
                       ? -1
                       : error_set(err, "a transfer said what cannot be");
}

static bool is_alive(const struct lambda_transfer *transfer) {
        char byte;

        return transfer->socket >= 0 && recv(transfer->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

static int have_process(struct lambda_transfer *transfer, int64_t until_ms, struct error *err) {
        int source DESCRIPTOR_CLEANUP = -1, result;

        if (is_alive(transfer)) {
                /* Code may have stopped it. */
                process_signal(&transfer->process, SIGCONT);
                return 0;
        }
        end_process(transfer);
        source = in_memory("transfer.py", transfer_source, transfer_source_size, err);
        if (source < 0 || (transfer->index < 0 && (transfer->index = in_memory("index", "", 0, err)) < 0) ||
            (transfer->body < 0 && (transfer->body = in_memory("body", "", 0, err)) < 0))
                return -1;
        stop_others();
        result = start_process(transfer, source, err);
        if (result == 0)
                result = wait_ready(transfer, until_ms, err);
        let_others_go_on();
        return result;
}

/* enum said, or -1. A process that says what cannot be, or nothing any more, is ended. */
static int transfer_job(struct lambda_transfer *transfer, json_t *job, int64_t until_ms,
                        struct outcome *outcome, struct error *err) {
        int result = have_process(transfer, until_ms, err);
        bool over = false;

        outcome->sha256[0] = '\0';
        transfer->skipped_left_out = 0;
        transfer->watches = false;
        if (access(LAMBDA_AUTHORITIES, R_OK) == 0)
                json_put(job, "authorities", json_string(LAMBDA_AUTHORITIES));
        if (result == 0)
                result = send_job(transfer->socket, job, err);
        while (result == 0) {
                const char *line;
                size_t length;

                result = receive_line(transfer, until_ms, &line, &length, err);
                if (result < 0)
                        break;
                result = read_result_line(transfer, line, length, outcome, &over, err);
        }
        if (result < 0 && !over)
                end_process(transfer);
        return result;
}

static int simple_job(struct lambda_transfer *transfer, json_t *job, int64_t until_ms, struct error *err) {
        struct outcome outcome;
        int result = transfer_job(transfer, job, until_ms, &outcome, err);

        return result == SAID_OK ? 0 : -1;
}

void lambda_transfer_prepare(struct lambda_transfer *transfer, int64_t until_ms) {
        struct error unsaid;

        if (have_process(transfer, until_ms, &unsaid) < 0)
                end_process(transfer);
}

void lambda_transfer_rest(struct lambda_transfer *transfer, int64_t until_ms) {
        json_t *job JSON_CLEANUP = json_checked(json_pack("{s:s}", "job", "rest"));
        struct error unsaid;

        if (!is_alive(transfer) || simple_job(transfer, job, until_ms, &unsaid) < 0 ||
            ftruncate(transfer->body, 0) < 0)
                lambda_transfer_end(transfer);
}

int lambda_transfer_pull(struct lambda_transfer *transfer, const json_t *workspace, bool mine,
                         int64_t until_ms, struct error *err) {
        json_t *job JSON_CLEANUP =
                json_checked(json_pack("{s:s, s:s, s:b, s:O}", "job", "pull", "folder", LAMBDA_WORKSPACE,
                                       "mine", (int)mine, "files", json_object_get(workspace, "files")));
        json_t *more = json_object_get(workspace, "more");

        if (more)
                json_put(job, "more", json_incref(more));
        return simple_job(transfer, job, until_ms, err);
}

int lambda_transfer_push(struct lambda_transfer *transfer, const json_t *workspace, int64_t until_ms,
                         struct error *err) {
        json_t *job JSON_CLEANUP = json_checked(json_pack(
                "{s:s, s:s, s:O, s:O, s:O}", "job", "push", "folder", LAMBDA_WORKSPACE, "put",
                json_object_get(workspace, "put"), "maxBytes", json_object_get(workspace, "maxBytes"),
                "maxFiles", json_object_get(workspace, "maxFiles")));

        return simple_job(transfer, job, until_ms, err);
}

int lambda_transfer_body(struct lambda_transfer *transfer, struct error *err) {
        if (transfer->body < 0)
                transfer->body = in_memory("body", "", 0, err);
        if (transfer->body >= 0 &&
            (ftruncate(transfer->body, 0) < 0 || lseek(transfer->body, 0, SEEK_SET) < 0))
                return error_set(err, "no memory for a transfer: %s", strerror(errno));
        return transfer->body;
}

int lambda_transfer_post(struct lambda_transfer *transfer, const json_t *policy, const char *name,
                         int64_t until_ms, char ret_sha256[SHA256_HEX_SIZE], struct error *err) {
        json_t *job JSON_CLEANUP = json_checked(
                json_pack("{s:s, s:s, s:O}", "job", "post", "name", name, "put", (json_t *)policy));
        struct outcome outcome;

        if (transfer_job(transfer, job, until_ms, &outcome, err) != SAID_OK)
                return -1;
        if (!outcome.sha256[0])
                return error_set(err, "a transfer said what cannot be");
        if (ret_sha256)
                memcpy(ret_sha256, outcome.sha256, SHA256_HEX_SIZE);
        return 0;
}

int lambda_transfer_fetch(struct lambda_transfer *transfer, const json_t *object, int64_t until_ms,
                          struct error *err) {
        json_t *job JSON_CLEANUP =
                json_checked(json_pack("{s:s, s:O}", "job", "fetch", "object", (json_t *)object));
        struct outcome outcome;
        int result = transfer_job(transfer, job, until_ms, &outcome, err);

        if (result == SAID_OK && lseek(transfer->body, 0, SEEK_SET) < 0)
                return error_set(err, "what was fetched cannot be read: %s", strerror(errno));
        return result == SAID_OK ? 0 : result == SAID_UNUSABLE ? 1 : -1;
}

int lambda_transfer_watch(struct lambda_transfer *transfer, const json_t *interrupt, int64_t until_ms,
                          struct error *err) {
        json_t *job JSON_CLEANUP = json_checked(json_pack("{s:s, s:O, s:i}", "job", "watch", "get",
                                                          json_object_get(interrupt, "get"), "everyMs",
                                                          INVOCATION_INTERRUPT_MS));

        if (simple_job(transfer, job, until_ms, err) < 0)
                return -1;
        transfer->watches = true;
        return 0;
}

bool lambda_transfer_hear(struct lambda_transfer *transfer) {
        static const char found[] = "{\"interrupt\": true}";
        struct error unsaid;
        const char *line;
        size_t length;
        bool is_found;

        /* A line comes whole, or its process is not ours any more: a moment is enough. */
        if (receive_line(transfer, clock_now_ms() + 1000, &line, &length, &unsaid) < 0) {
                end_process(transfer);
                return false;
        }
        is_found = length == strlen(found) && memcmp(line, found, length) == 0;
        transfer->watches = !is_found;
        return is_found;
}
