/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_workspace.h"

#include "base/files.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long a worker may take over one file. */
#define ANSWER_MS 600000
#define PIECE ((size_t)256 << 10)

/* The worker's next word, of which the socket does not wait; what failed there is an error here. */
static int next_answer(const struct sandbox_workspace *workspace, struct frame *ret, struct error *err) {
        struct frame_reader *worker = workspace->worker;
        struct pollfd polled = { .fd = worker->socket, .events = POLLIN };
        int patience_ms = workspace->patience_ms > 0 ? workspace->patience_ms : ANSWER_MS, answer;

        do {
                if (poll(&polled, 1, patience_ms) == 0)
                        return error_set(err, "the sandbox's worker did not answer within %d s",
                                         patience_ms / 1000);
        } while ((answer = frame_receive(worker, ret, err)) == FRAME_WAIT);
        if (answer < 0)
                return -1;
        if (answer == FRAME_CLOSED)
                return error_set(err, "the sandbox's worker ended while files were moved");
        if (ret->type != MESSAGE_FAILED)
                return 0;
        (void)error_set(err, "%s", strbuf_text(&ret->payload));
        frame_release(ret);
        return -1;
}

static int ask_worker(const struct sandbox_workspace *workspace, unsigned type, const char *text,
                      size_t length, const int *descriptor, struct error *err) {
        if (workspace->worker->socket < 0)
                return error_set(err, "the sandbox's worker had to be killed, and its files are gone");
        return frame_send(workspace->worker->socket, type, text, length, descriptor, descriptor != NULL, err);
}

static int unexpected(const struct frame *frame, struct error *err) {
        return error_set(err, "the sandbox's worker answered with a message of type %u", frame->type);
}

int sandbox_workspace_put(const struct sandbox_workspace *workspace, const char *name, bool executable,
                          int from, struct error *err) {
        struct strbuf words STRBUF_CLEANUP = STRBUF_INIT;
        struct frame answer FRAME_CLEANUP = { 0 };
        struct error said = { 0 };

        if (workspace->folder >= 0)
                return sandbox_files_put(workspace->folder, name, executable, from, workspace->uid,
                                         workspace->gid, err);
        strbuf_append_bytes(&words, executable ? "x" : "-", 2);
        strbuf_append_bytes(&words, name, strlen(name) + 1);
        if (ask_worker(workspace, MESSAGE_PUT, words.data, words.length, &from, err) < 0) {
                /* A worker that gave up said why. */
                if (workspace->worker->socket >= 0 && next_answer(workspace, &answer, &said) < 0)
                        *err = said;
                return -1;
        }
        if (next_answer(workspace, &answer, err) < 0)
                return -1;
        return answer.type == MESSAGE_DONE ? 0 : unexpected(&answer, err);
}

/* DONE, or the reason why not. */
static int await_done(const struct sandbox_workspace *workspace, struct error *err) {
        struct frame answer FRAME_CLEANUP = { 0 };

        if (next_answer(workspace, &answer, err) < 0)
                return -1;
        return answer.type == MESSAGE_DONE ? 0 : unexpected(&answer, err);
}

/*
 * A file that is cut short meanwhile ends there: it has changed, and is sent again the next time.
 */
static int send_content(const struct sandbox_workspace *workspace, int from, uint64_t bytes,
                        struct error *err) {
        char *piece TEXT_CLEANUP = malloc(PIECE);
        ssize_t count = 1;

        if (!piece)
                abort();
        for (off_t at = 0; bytes > 0 && count > 0; at += count, bytes -= (uint64_t)count) {
                count = pread(from, piece, bytes < PIECE ? (size_t)bytes : PIECE, at);
                if (count > 0 && ask_worker(workspace, MESSAGE_CONTENT, piece, (size_t)count, NULL, err) < 0)
                        return -1;
                if (count <= 0)
                        break;
        }
        return ask_worker(workspace, MESSAGE_CONTENT, NULL, 0, NULL, err);
}

int sandbox_workspace_replace(const struct sandbox_workspace *workspace, const char *name, bool executable,
                              int from, struct error *err) {
        struct strbuf words STRBUF_CLEANUP = STRBUF_INIT;
        struct stat status;

        if (workspace->folder >= 0)
                return sandbox_files_replace(workspace->folder, name, executable, from, workspace->uid,
                                             workspace->gid, err);
        if (fstat(from, &status) < 0 || !S_ISREG(status.st_mode))
                return error_set(err, "what should become \"%s\" in the workspace is no regular file", name);
        strbuf_append_bytes(&words, executable ? "x" : "-", 2);
        strbuf_append_bytes(&words, name, strlen(name) + 1);
        if (ask_worker(workspace, MESSAGE_REPLACE, words.data, words.length, NULL, err) < 0 ||
            send_content(workspace, from, (uint64_t)status.st_size, err) < 0)
                return -1;
        return await_done(workspace, err);
}

int sandbox_workspace_make_folder(const struct sandbox_workspace *workspace, const char *name,
                                  struct error *err) {
        if (workspace->folder >= 0)
                return sandbox_files_make_folder(workspace->folder, name, workspace->uid, workspace->gid,
                                                 err);
        if (ask_worker(workspace, MESSAGE_FOLDER, name, strlen(name), NULL, err) < 0)
                return -1;
        return await_done(workspace, err);
}

int sandbox_workspace_remove(const struct sandbox_workspace *workspace, const char *name, struct error *err) {
        if (workspace->folder >= 0)
                return sandbox_files_remove(workspace->folder, name, err);
        if (ask_worker(workspace, MESSAGE_REMOVE, name, strlen(name), NULL, err) < 0)
                return -1;
        return await_done(workspace, err);
}

int sandbox_workspace_list(const struct sandbox_workspace *workspace, const char *path,
                           struct strbuf *ret_entries, bool *ret_cut, struct error *err) {
        if (workspace->folder >= 0)
                return sandbox_files_list(workspace->folder, path, SANDBOX_LIST_MAX, ret_entries, ret_cut) <
                       0;
        if (ask_worker(workspace, MESSAGE_LIST, path, strlen(path), NULL, err) < 0)
                return -1;
        for (;;) {
                struct frame answer FRAME_CLEANUP = { 0 };

                if (next_answer(workspace, &answer, err) < 0)
                        return -1;
                if (answer.type == MESSAGE_ABSENT)
                        return 1;
                if (answer.type != MESSAGE_ENTRIES)
                        return unexpected(&answer, err);
                if (answer.payload.length == 0)
                        break;
                if (answer.payload.data[answer.payload.length - 1] != '\0' ||
                    ret_entries->length > SANDBOX_LIST_MAX + FRAME_PAYLOAD_MAX)
                        return error_set(err, "the sandbox's worker sent an invalid list");
                strbuf_append_bytes(ret_entries, answer.payload.data, answer.payload.length);
        }
        *ret_cut = ret_entries->length > SANDBOX_LIST_MAX;
        return 0;
}

int sandbox_workspace_open(const struct sandbox_workspace *workspace, const char *path,
                           struct sandbox_content *ret, struct error *err) {
        if (workspace->folder >= 0) {
                ret->file = sandbox_files_open(workspace->folder, path);
                return ret->file < 0;
        }
        if (ask_worker(workspace, MESSAGE_READ, path, strlen(path), NULL, err) < 0 ||
            next_answer(workspace, &ret->first, err) < 0)
                return -1;
        if (ret->first.type == MESSAGE_ABSENT)
                return 1;
        return ret->first.type == MESSAGE_CONTENT ? 0 : unexpected(&ret->first, err);
}

int sandbox_workspace_copy(const struct sandbox_workspace *workspace, struct sandbox_content *content, int to,
                           uint64_t bytes, struct error *err) {
        if (content->file >= 0)
                return descriptor_copy(content->file, to, bytes) < 0 ? error_set(err, "%s", strerror(errno))
                                                                     : 0;
        while (content->first.payload.length > 0) {
                uint64_t length =
                        content->first.payload.length < bytes ? content->first.payload.length : bytes;

                if (descriptor_append(to, content->first.payload.data, (size_t)length) < 0)
                        return error_set(err, "%s", strerror(errno));
                bytes -= length;
                frame_release(&content->first);
                if (next_answer(workspace, &content->first, err) < 0)
                        return -1;
                if (content->first.type != MESSAGE_CONTENT)
                        return unexpected(&content->first, err);
        }
        return 0;
}

void sandbox_content_release(struct sandbox_content *content) {
        close_descriptor(&content->file);
        frame_release(&content->first);
}
