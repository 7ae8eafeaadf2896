/* SPDX-License-Identifier: Apache-2.0 */
#include "approvals/host.h"

#include "approvals/shell_worker.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/text_utf8.h"
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_MS 20000             /* beyond its time, until the worker itself is killed */
#define FIND_MS 60000              /* a program of half a gigabyte is read */
#define REPORT_MAX ((size_t)65536) /* no more than a pipe holds: it is read when its writer has ended */
#define STREAMS 2
#define PIECES_LEFT 128 /* of a stream, behind the end: more than a pipe holds */

/* --- whose --- */

static json_t *groups_of(const struct passwd *entry) {
        gid_t groups[256];
        int count = (int)(sizeof(groups) / sizeof(groups[0]));
        json_t *list = json_checked(json_array());

        if (getgrouplist(entry->pw_name, entry->pw_gid, groups, &count) < 0)
                count = 0;
        for (int i = 0; i < count; i++)
                json_add(list, json_integer((json_int_t)groups[i]));
        return list;
}

int host_user_find(const char *name, struct host_user *ret, struct error *err) {
        struct passwd entry, *found = NULL;
        char *text TEXT_CLEANUP = malloc(16384);
        int failed;

        if (!text)
                abort();
        failed = name ? getpwnam_r(name, &entry, text, 16384, &found)
                      : getpwuid_r(geteuid(), &entry, text, 16384, &found);
        if (failed)
                return error_set(err, "cannot look for the user %s: %s", name ? name : "of this process",
                                 strerror(failed));
        if (!found)
                return error_set_kind(err, ERROR_NOT_FOUND, "this machine has no user %s",
                                      name ? name : "of this process's number");
        *ret = (struct host_user){ .name = strdup(entry.pw_name),
                                   .home = strdup(entry.pw_dir),
                                   .uid = entry.pw_uid,
                                   .gid = entry.pw_gid,
                                   .groups = groups_of(&entry),
                                   .is_ours = entry.pw_uid == geteuid() };
        if (!ret->name || !ret->home)
                abort();
        return 0;
}

void host_user_release(struct host_user *user) {
        free(user->name);
        free(user->home);
        json_decref(user->groups);
        *user = (struct host_user){ 0 };
}

json_t *host_variables(const struct host_user *user) {
        json_t *variables = json_checked(json_object());

        json_set_text(variables, "PATH", SUBJECT_PATH);
        json_set_text(variables, "HOME", user->home);
        json_set_text(variables, "USER", user->name);
        json_set_text(variables, "LOGNAME", user->name);
        json_set_text(variables, "LANG", "C.UTF-8");
        return variables;
}

/* --- what it prints --- */

struct stream {
        int descriptor;
        struct strbuf kept; /* the first HOST_OUTPUT_MAX, and behind them the last half as many */
        uint64_t total;
        struct digest_stream *digest;
};

/*
 * Reads a limited amount at a time, so that a command that prints forever does not keep us from the
 * clock. False once there is no more.
 */
static bool read_stream_output(struct stream *stream) {
        char chunk[16384];
        ssize_t got = read(stream->descriptor, chunk, sizeof(chunk));

        if (got < 0 && (errno == EAGAIN || errno == EINTR))
                return false;
        if (got <= 0) {
                close_descriptor(&stream->descriptor);
                return false;
        }
        digest_stream_add(stream->digest, chunk, (size_t)got);
        stream->total += (uint64_t)got;
        strbuf_append_bytes(&stream->kept, chunk, (size_t)got);
        if (stream->kept.length > (size_t)2 * HOST_OUTPUT_MAX) {
                char *end = stream->kept.data + HOST_OUTPUT_MAX;

                memmove(end, stream->kept.data + stream->kept.length - HOST_OUTPUT_MAX / 2,
                        HOST_OUTPUT_MAX / 2);
                stream->kept.length = HOST_OUTPUT_MAX + HOST_OUTPUT_MAX / 2;
                stream->kept.data[stream->kept.length] = '\0';
        }
        return true;
}

/* The first and the last half of what is kept; *ret: where they meet. Characters that would be cut in two are left out. */
static void cut_middle(struct strbuf *kept, size_t *ret) {
        size_t head = HOST_OUTPUT_MAX / 2, tail = kept->length - HOST_OUTPUT_MAX / 2, bad;

        if (!text_is_utf8(kept->data, head, &bad) && head - bad < 4)
                head = bad;
        for (int i = 0; i < 3 && ((unsigned char)kept->data[tail] & 0xc0) == 0x80; i++)
                tail++;
        memmove(kept->data + head, kept->data + tail, kept->length - tail);
        kept->length = head + kept->length - tail;
        kept->data[kept->length] = '\0';
        *ret = head;
}

/* As streams of executions are told. */
static json_t *output_json(struct stream *stream) {
        const char *text, *encoding = "utf-8";
        char sha256[SHA256_HEX_SIZE];
        size_t length, at = 0;
        json_t *content, *json;

        if (stream->kept.length > HOST_OUTPUT_MAX)
                cut_middle(&stream->kept, &at);
        text = strbuf_text(&stream->kept);
        length = stream->kept.length;

        digest_stream_end(stream->digest, sha256);
        stream->digest = NULL;
        content = json_stringn(text, length);
        if (!content) {
                char *encoded TEXT_CLEANUP = malloc(4 * ((length + 2) / 3) + 1);

                if (!encoded)
                        abort();
                digest_base64((const uint8_t *)text, length, encoded);
                content = json_string(encoded);
                encoding = "base64";
        }
        json = json_checked(json_pack("{s:I, s:I, s:b, s:s, s:s, s:o}", "bytesTotal",
                                      (json_int_t)stream->total, "bytesReturned", (json_int_t)length,
                                      "truncated", stream->total > length, "sha256", sha256, "encoding",
                                      encoding, "content", content));
        if (stream->total > length)
                json_put(json, "gap",
                         json_pack("{s:I, s:I}", "at", (json_int_t)at, "bytes",
                                   (json_int_t)(stream->total - length)));
        return json;
}

/* --- run --- */

struct running {
        struct process process;
        int task, report, stop;
        struct stream streams[STREAMS];
        struct strbuf said;
};

static void release_running(struct running *running) {
        process_end(&running->process);
        close_descriptor(&running->task);
        close_descriptor(&running->report);
        for (size_t i = 0; i < STREAMS; i++) {
                close_descriptor(&running->streams[i].descriptor);
                strbuf_release(&running->streams[i].kept);
                digest_stream_end(running->streams[i].digest, NULL);
        }
        strbuf_release(&running->said);
}

int host_open(const struct host_run *run, struct host_opened *ret, struct error *err) {
        const struct subject_rules rules = { .user = run->user->uid };

        return subject_open(run->subject, &rules, &ret->program, &ret->is_script, &ret->folder, err);
}

static const char *const *environment_of(const json_t *variables, struct arena *arena) {
        const char **texts = arena_array(arena, json_object_size(variables) + 1, sizeof(*texts)), *name;
        json_t *value;
        size_t count = 0;

        json_object_foreach ((json_t *)variables, name, value)
                texts[count++] = arena_printf(arena, "%s=%s", name, json_string_value(value));
        return texts;
}

/* `opened` NULL: to look for it. */
static int start_worker(const json_t *variables, const struct host_opened *opened, struct running *running,
                        struct error *err) {
        static const char *const arguments[] = { "berth", SHELL_WORKER_VERB, NULL };
        struct arena *arena ARENA_CLEANUP = arena_new();
        int pipes[4][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
        struct process_args args = { .arguments = arguments,
                                     .program = "/proc/self/exe",
                                     .environment = environment_of(variables, arena),
                                     .group = PROCESS_OWN_SESSION };
        int result = 0;

        for (size_t i = 0; i < 4 && result == 0; i++)
                result = pipe2(pipes[i], O_CLOEXEC);
        if (result < 0)
                result = error_set(err, "cannot make a pipe: %s", strerror(errno));
        args.descriptors[0] = (struct process_descriptor){ pipes[0][0], 0 };
        args.descriptors[1] = (struct process_descriptor){ pipes[1][1], 1 };
        args.descriptors[2] = (struct process_descriptor){ pipes[2][1], 2 };
        args.descriptors[3] = (struct process_descriptor){ pipes[3][1], SHELL_WORKER_REPORT };
        args.descriptor_count = 4;
        if (opened) {
                args.descriptors[4] = (struct process_descriptor){ opened->program, SHELL_WORKER_PROGRAM };
                args.descriptors[5] = (struct process_descriptor){ opened->folder, SHELL_WORKER_FOLDER };
                args.descriptor_count = 6;
        }
        if (result == 0)
                result = process_start(&args, &running->process, err);
        close_descriptor(&pipes[0][0]);
        running->task = pipes[0][1];
        running->streams[0].descriptor = pipes[1][0];
        running->streams[1].descriptor = pipes[2][0];
        running->report = pipes[3][0];
        for (size_t i = 1; i < 4; i++)
                close_descriptor(&pipes[i][1]);
        for (size_t i = 0; i < STREAMS && result == 0; i++)
                fcntl(running->streams[i].descriptor, F_SETFL, O_NONBLOCK);
        return result;
}

/* `task` is taken over; the user is put into it. */
static int give_task(json_t *task, const struct host_user *user, const struct running *running,
                     struct error *err) {
        json_t *owned JSON_CLEANUP = json_checked(task);
        char *text TEXT_CLEANUP = NULL;
        struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;

        json_put(owned, "groups", json_deep_copy(user->groups));
        json_put(owned, "uid", json_integer((json_int_t)user->uid));
        json_put(owned, "gid", json_integer((json_int_t)user->gid));
        json_put(owned, "keepsUser", json_boolean(user->is_ours));
        text = json_compact(owned);
        strbuf_append(&line, text);
        strbuf_append_char(&line, '\n');
        return descriptor_write(running->task, strbuf_text(&line), line.length) == 0
                       ? 0
                       : error_set(err, "cannot give the command to its process: %s", strerror(errno));
}

/* Until the worker has ended: it is who waits for the command. */
static bool wait_for_worker(struct running *running, int64_t until_ms) {
        for (;;) {
                struct pollfd polled[] = { { .fd = running->process.pidfd, .events = POLLIN },
                                           { .fd = running->streams[0].descriptor, .events = POLLIN },
                                           { .fd = running->streams[1].descriptor, .events = POLLIN },
                                           { .fd = running->task < 0 ? -1 : running->stop,
                                             .events = POLLIN } };
                int64_t left = until_ms - clock_now_ms();

                if (left <= 0)
                        return false;
                if (poll(polled, 4, left > 3600000 ? 3600000 : (int)left) < 0 && errno != EINTR)
                        abort();
                for (size_t i = 0; i < STREAMS; i++) {
                        if (polled[i + 1].revents)
                                (void)read_stream_output(&running->streams[i]);
                }
                if (polled[3].revents) { /* the worker sees the end of its task, and kills */
                        close_descriptor(&running->task);
                        until_ms = clock_now_ms() + GRACE_MS;
                }
                if (polled[0].revents)
                        return true;
        }
}

json_t *host_failed(const char *detail) {
        json_t *result = json_checked(json_pack("{s:s, s:n}", "status", "failed", "exitCode"));

        json_set_text(result, "detail", detail);
        return result;
}

/* What the worker says of the command's end. */
static json_t *result_of_report(const json_t *report, int64_t timeout_ms, struct arena *arena) {
        const char *ended = json_text(report, "ended"), *failed = json_text(report, "failed");
        int64_t code = json_integer_or(report, "code", -1), signal = json_integer_or(report, "signal", 0),
                left = json_integer_or(report, "left", 0);
        const char *status, *detail = NULL;
        json_t *result;

        if (failed)
                return host_failed(arena_printf(arena, "it did not run: %s cannot be had: %s", failed,
                                                json_text(report, "why") ? json_text(report, "why") : "?"));
        if (!ended)
                return host_failed(
                        "it was begun, and the process that watched it is gone: it is not known how it ended");
        if (strcmp(ended, "late") == 0) {
                status = "timeout";
                detail = arena_printf(arena, "killed after %lld s, with all that it had started",
                                      (long long)(timeout_ms / 1000));
        } else if (strcmp(ended, "server") == 0) {
                status = "killed";
                detail = "killed since the server stopped, with all that it had started";
        } else if (strcmp(ended, "unwatched") == 0) {
                status = "killed";
                detail =
                        "killed, with all that it had started: the system had no descriptor left to watch it with";
        } else if (code < 0) {
                status = "killed";
                detail = arena_printf(arena, "ended by signal %lld", (long long)signal);
        } else {
                status = code == 0 ? "ok" : "error";
        }
        if (!detail && left > 0)
                detail = arena_printf(arena, "it left %lld %s behind, which %s killed", (long long)left,
                                      left == 1 ? "process" : "processes", left == 1 ? "was" : "were");
        result = json_checked(
                json_pack("{s:s, s:o}", "status", status, "exitCode",
                          strcmp(ended, "itself") == 0 && code >= 0 ? json_integer(code) : json_null()));
        json_put(result, "detail", json_from_text(detail));
        return result;
}

#define RUNNING_CLEANUP __attribute__((cleanup(release_running)))

static struct running running_new(int stop) {
        struct running running = { .process = PROCESS_NONE, .task = -1, .report = -1, .stop = stop };

        for (size_t i = 0; i < STREAMS; i++)
                running.streams[i] = (struct stream){ .descriptor = -1, .digest = digest_stream_new() };
        return running;
}

static int read_subject(const json_t *report, struct arena *arena, struct subject *ret, struct error *err) {
        const char *refused = json_text(report, "refused"), *program = json_text(report, "program"),
                   *folder = json_text(report, "folder"), *sha256 = json_text(report, "programSha256");

        if (refused)
                return error_set_kind(err, ERROR_REFUSED, "%s", refused);
        if (!program || !folder || !sha256 || strlen(sha256) != SHA256_HEX_SIZE - 1)
                return error_set(err, "no process could look for the program and the folder: %s: %s",
                                 json_text(report, "failed") ? json_text(report, "failed") : "no answer",
                                 json_text(report, "why") ? json_text(report, "why") : "it came to no end");
        *ret = (struct subject){ .program = arena_strdup(arena, program),
                                 .folder = arena_strdup(arena, folder),
                                 .folder_device = (uint64_t)json_integer_or(report, "folderDevice", 0),
                                 .folder_inode = (uint64_t)json_integer_or(report, "folderInode", 0) };
        memcpy(ret->sha256, sha256, SHA256_HEX_SIZE);
        return 0;
}

int host_find(const struct host_search *search, struct arena *arena, struct subject *ret, struct error *err) {
        struct running running RUNNING_CLEANUP = running_new(-1);
        json_t *report JSON_CLEANUP = NULL;

        if (start_worker(search->variables, NULL, &running, err) < 0 ||
            give_task(json_pack("{s:{s:s, s:s, s:s}}", "find", "name", search->name, "folder", search->folder,
                                "state", search->state),
                      search->user, &running, err) < 0)
                return -1;
        if (wait_for_worker(&running, clock_now_ms() + FIND_MS))
                (void)!descriptor_read(running.report, REPORT_MAX, &running.said);
        report = json_loadb(strbuf_text(&running.said), running.said.length, 0, NULL);
        return read_subject(report, arena, ret, err);
}

json_t *host_run(const struct host_run *run, struct host_opened *opened) {
        struct running running RUNNING_CLEANUP = running_new(run->stop);
        struct arena *arena ARENA_CLEANUP = arena_new();
        json_t *report JSON_CLEANUP = NULL, *result;
        struct error err;
        int started;

        started = start_worker(run->variables, opened, &running, &err);
        if (started == 0)
                started = give_task(json_pack("{s:o, s:b, s:I}", "command", json_deep_copy(run->command),
                                              "isScript", opened->is_script, "timeoutMs",
                                              (json_int_t)run->timeout_ms),
                                    run->user, &running, &err);
        close_descriptor(&opened->program);
        close_descriptor(&opened->folder);
        if (started < 0)
                return host_failed(arena_printf(arena, "it did not run: %s", err.message));
        if (wait_for_worker(&running, clock_now_ms() + run->timeout_ms + GRACE_MS))
                (void)!descriptor_read(running.report, REPORT_MAX, &running.said);
        process_end(&running.process);
        for (size_t i = 0; i < STREAMS; i++) {
                for (int pieces = 0; pieces < PIECES_LEFT && running.streams[i].descriptor >= 0; pieces++) {
                        if (!read_stream_output(&running.streams[i]))
                                break;
                }
        }
        report = json_loadb(strbuf_text(&running.said), running.said.length, 0, NULL);
        result = result_of_report(report, run->timeout_ms, arena);
        json_put(result, "stdout", output_json(&running.streams[0]));
        json_put(result, "stderr", output_json(&running.streams[1]));
        return result;
}
