/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/client/command.h"

#include "base/clock.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMPLAINT_SIZE 400 /* of standard error, its end */
#define LOOK_MS 50         /* between looks at a program that has closed its output */

int command_split(const char *line, struct arena *arena, char ***ret, struct error *err) {
        size_t length = strlen(line), count = 0, used = 0;
        char **words = arena_array(arena, length + 2, sizeof(*words));
        char *word = arena_alloc(arena, length + 1);
        bool in_word = false;
        char quote = '\0';

        for (const char *at = line; *at; at++) {
                if (!quote && strchr(" \t\r\n", *at)) {
                        if (in_word)
                                words[count++] = arena_strndup(arena, word, used);
                        in_word = false;
                        used = 0;
                        continue;
                }
                in_word = true;
                if (quote ? *at == quote : *at == '"' || *at == '\'') {
                        quote = quote ? '\0' : *at;
                } else if (*at == '\\' && quote != '\'') {
                        at++;
                        if (!*at)
                                return error_set(err, "it ends with a backslash");
                        if (quote && *at != '"' && *at != '\\')
                                word[used++] = '\\';
                        word[used++] = *at;
                } else {
                        word[used++] = *at;
                }
        }
        if (quote)
                return error_set(err, "a %c is not closed", quote);
        if (in_word)
                words[count++] = arena_strndup(arena, word, used);
        if (count == 0)
                return error_set(err, "it is empty");
        *ret = words;
        return 0;
}

struct running {
        pid_t pid;
        int output;
        int complaints;
};

static int make_pipe(int ends[2], struct error *err) {
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_set(err, "cannot make a pipe: %s", strerror(errno));
        return 0;
}

static int spawn(char *const *argv, int output, int complaints, pid_t *ret, struct error *err) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none, usual;
        int problem;

        sigemptyset(&none);
        sigemptyset(&usual);
        sigaddset(&usual, SIGPIPE);
        sigaddset(&usual, SIGINT);
        sigaddset(&usual, SIGTERM);
        if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0)
                abort();
        if (posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) != 0 ||
            posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) != 0 ||
            posix_spawn_file_actions_adddup2(&actions, complaints, STDERR_FILENO) != 0 ||
            posix_spawnattr_setsigmask(&attributes, &none) != 0 ||
            posix_spawnattr_setsigdefault(&attributes, &usual) != 0 ||
            posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) != 0)
                abort();
        problem = posix_spawnp(ret, argv[0], &actions, &attributes, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
        return problem ? error_set(err, "cannot start %s: %s", argv[0], strerror(problem)) : 0;
}

static int start(char *const *argv, struct running *ret, struct error *err) {
        int output[2], complaints[2], result;

        if (make_pipe(output, err) < 0)
                return -1;
        if (make_pipe(complaints, err) < 0) {
                close(output[0]);
                close(output[1]);
                return -1;
        }
        result = spawn(argv, output[1], complaints[1], &ret->pid, err);
        close(output[1]);
        close(complaints[1]);
        if (result < 0) {
                close(output[0]);
                close(complaints[0]);
                return -1;
        }
        ret->output = output[0];
        ret->complaints = complaints[0];
        return 0;
}

/* Keeps the last bytes only. */
static void keep_end(struct strbuf *text, const char *bytes, size_t length) {
        strbuf_append_bytes(text, bytes, length);
        if (text->length > COMPLAINT_SIZE) {
                size_t cut = text->length - COMPLAINT_SIZE;

                memmove(text->data, text->data + cut, COMPLAINT_SIZE + 1);
                text->length = COMPLAINT_SIZE;
        }
}

/* What is there to be read; closes the descriptor, and makes it -1, at its end. */
static void drain(int *descriptor, struct strbuf *whole, struct strbuf *end) {
        char bytes[4096];
        ssize_t got = read(*descriptor, bytes, sizeof(bytes));

        if (got > 0 && whole)
                strbuf_append_bytes(whole, bytes, (size_t)got);
        else if (got > 0)
                keep_end(end, bytes, (size_t)got);
        else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
                close(*descriptor);
                *descriptor = -1;
        }
        explicit_bzero(bytes, sizeof(bytes));
}

/* One step of waiting; true once the program has ended and both pipes are read empty, or nothing more comes. */
static bool wait_a_little(struct running *running, bool *ended, int *status, struct strbuf *output,
                          struct strbuf *complaints) {
        struct pollfd wanted[2] = { { .fd = running->output, .events = POLLIN },
                                    { .fd = running->complaints, .events = POLLIN } };
        bool silent = running->output < 0 && running->complaints < 0;
        int ready = poll(wanted, 2, *ended ? 0 : silent ? 1 : LOOK_MS);
        pid_t pid;

        if (ready > 0 && wanted[0].revents)
                drain(&running->output, output, NULL);
        if (ready > 0 && wanted[1].revents)
                drain(&running->complaints, NULL, complaints);
        if (*ended)
                return ready <= 0; /* somebody whom it left behind may hold the pipes open for ever */
        pid = waitpid(running->pid, status, WNOHANG);
        /* Where whoever started us has SIGCHLD ignored, children leave no status behind: then the output decides. */
        *ended = pid == running->pid || (pid < 0 && errno == ECHILD);
        return false;
}

/* Everything that may stand in a message: control characters become spaces. */
static void make_printable(struct strbuf *text) {
        for (size_t i = 0; i < text->length; i++) {
                if ((unsigned char)text->data[i] < ' ' || text->data[i] == '\x7f')
                        text->data[i] = ' ';
        }
        while (text->length && text->data[text->length - 1] == ' ')
                text->data[--text->length] = '\0';
}

static int judge(const char *name, int status, struct strbuf *complaints, struct error *err) {
        const char *said;

        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        make_printable(complaints);
        said = strbuf_text(complaints);
        if (WIFSIGNALED(status))
                return error_set(err, "%s was ended by signal %d%s%s", name, WTERMSIG(status),
                                 *said ? ": " : "", said);
        return error_set(err, "%s ended with %d%s%s", name, WEXITSTATUS(status), *said ? ": " : "", said);
}

int command_run(char *const *argv, const struct command_limits *limits, struct strbuf *ret,
                struct error *err) {
        struct running running = { 0 };
        struct strbuf complaints STRBUF_CLEANUP = STRBUF_INIT;
        const struct clock *clock = &clock_system; /* of a program's time, not of the tests' */
        int64_t end_ms = clock->monotonic_ms(clock) + limits->timeout_ms;
        bool ended = false;
        int status = 0, result = 0;

        ret->limit = limits->output;
        if (start(argv, &running, err) < 0)
                return -1;
        while (result == 0 && !wait_a_little(&running, &ended, &status, ret, &complaints)) {
                if (ret->overflow)
                        break;
                if (!ended && clock->monotonic_ms(clock) >= end_ms)
                        result = error_set(err, "%s does not end within %lld s", argv[0],
                                           (long long)(limits->timeout_ms / 1000));
                else if (!ended && interrupt_count() >= 2)
                        result = error_set_kind(err, ERROR_INTERRUPTED, "interrupted while waiting for %s",
                                                argv[0]);
        }
        if (!ended) {
                kill(running.pid, SIGKILL);
                while (waitpid(running.pid, &status, 0) < 0 && errno == EINTR)
                        ;
        }
        close_descriptor(&running.output);
        close_descriptor(&running.complaints);
        if (result == 0 && ret->overflow)
                return error_set(err, "%s writes more than %zu bytes", argv[0], limits->output);
        return result < 0 ? result : judge(argv[0], status, &complaints, err);
}
