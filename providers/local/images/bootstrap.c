/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/bootstrap.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 96
#define LINE_MAX_BYTES 1000
#define LINES_KEPT 12
#define LOOK_AGAIN_MS 200

/* Where administrators' programs are looked for too, which an ordinary user's PATH may not name. */
static const char search_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct words {
        const char *list[WORDS_MAX];
        size_t count;
};

static void add(struct words *words, const char *word) {
        if (words->count == WORDS_MAX - 1)
                abort();
        words->list[words->count++] = word;
        words->list[words->count] = NULL;
}

static void add_all(struct words *words, const char *const *list) {
        for (; *list; list++)
                add(words, *list);
}

#define ADD(words, ...) add_all(words, (const char *const[]){ __VA_ARGS__, NULL })

/* --- what must be installed --- */

static const char *find_program(const char *name, struct arena *arena) {
        const char *at = search_path;

        while (*at) {
                size_t length = strcspn(at, ":");
                const char *path = arena_printf(arena, "%.*s/%s", (int)length, at, name);

                if (access(path, X_OK) == 0)
                        return path;
                at += length + (at[length] == ':');
        }
        return NULL;
}

static int check_programs(struct arena *arena, struct error *err) {
        static const struct {
                const char *program, *package;
                bool users_only; /* root needs no ranges */
        } needed[] = { { "mmdebstrap", "mmdebstrap", false },
                       { "unshare", "util-linux", false },
                       { "newuidmap", "uidmap", true } };

        for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
                if ((needed[i].users_only && geteuid() == 0) || find_program(needed[i].program, arena))
                        continue;
                return error_set_kind(
                        err, ERROR_NOT_FOUND,
                        "%s is not installed, and images are built with it%s: apt-get install %s",
                        needed[i].program, needed[i].users_only ? " by ordinary users" : "",
                        needed[i].package);
        }
        return 0;
}

/* --- the command --- */

/*
 * Process 1 of the namespace dies with unshare, and the kernel kills all others with it and drops the mounts: nobody is
 * left who could write, and nothing of /dev or /proc lies in the folder that is removed then.
 */
static void add_namespaces(struct words *words) {
        ADD(words, "unshare");
        if (geteuid() != 0)
                ADD(words, "--user", "--map-auto", "--map-root-user");
        ADD(words, "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--");
}

static const char *joined(const char *const *list, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        for (; *list; list++)
                strbuf_printf(&text, "%s%s", text.length ? "," : "", *list);
        return arena_strdup(arena, strbuf_text(&text));
}

static void add_mmdebstrap(struct words *words, const struct bootstrap *bootstrap, struct arena *arena) {
        const struct prebuilt *prebuilt = bootstrap->prebuilt;

        ADD(words, "mmdebstrap", "--mode=root", "--variant=essential", "--format=tar",
            "--architectures=amd64");
        ADD(words, "--aptopt=Apt::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\"",
            "--aptopt=Acquire::Retries \"3\"", "--dpkgopt=force-unsafe-io");
        for (const char *const *at = prebuilt->kept_out; *at; at++)
                add(words, arena_printf(arena, "--dpkgopt=%s", *at));
        add(words, arena_printf(arena, "--include=%s", joined(prebuilt->packages, arena)));
        /* The script is an argument of its own shell's: no quoting is ever needed. */
        add(words, "--customize-hook=chroot \"$1\" sh -c \"$BERTH_FINISH\"");
        ADD(words, prebuilt->suite, bootstrap->tar);
        if (bootstrap->mirror)
                add(words, bootstrap->mirror);
}

/* Nothing of the caller's but the way to the network. */
static void add_environment(struct words *words, const struct bootstrap *bootstrap, struct arena *arena) {
        static const char *const passed[] = { "http_proxy", "https_proxy", "no_proxy" };

        add(words, arena_printf(arena, "PATH=%s", search_path));
        ADD(words, "LC_ALL=C.UTF-8", "HOME=/nonexistent", "DEBIAN_FRONTEND=noninteractive");
        add(words, arena_printf(arena, "TMPDIR=%s", bootstrap->folder));
        add(words, arena_printf(arena, "SOURCE_DATE_EPOCH=%lld", (long long)bootstrap->dated_s));
        add(words, arena_printf(arena, "BERTH_FINISH=%s", prebuilt_script(bootstrap->prebuilt, arena)));
        for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
                if (getenv(passed[i]))
                        add(words, arena_printf(arena, "%s=%s", passed[i], getenv(passed[i])));
        }
}

/* --- running it --- */

/* Never returns. In a process group of its own: a Ctrl-C is ours to act on. */
static void become(const struct words *words, const struct words *environment, int output, pid_t parent) {
        int nothing = open("/dev/null", O_RDONLY);
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent && nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
            dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0)
                execvpe(words->list[0], (char *const *)(uintptr_t)words->list,
                        (char *const *)(uintptr_t)environment->list);
        dprintf(output, "cannot run %s: %s\n", words->list[0], strerror(errno));
        _exit(127);
}

struct run {
        pid_t pid;
        int said; /* what it prints comes from here */
        int messages;
        bool to_the_end; /* whatever the user wants */
        char line[LINE_MAX_BYTES + 1];
        size_t length;
        char *last[LINES_KEPT]; /* a ring */
        size_t count;
};

static void end_run(struct run *run) {
        if (run->pid > 0) {
                kill(run->pid, SIGKILL);
                waitpid(run->pid, NULL, 0);
        }
        close_descriptor(&run->said);
        for (size_t i = 0; i < LINES_KEPT; i++)
                free(run->last[i]);
}

static int start(struct run *run, const struct words *words, const struct words *environment,
                 struct error *err) {
        pid_t parent = getpid();
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return error_set(err, "cannot make a pipe: %s", strerror(errno));
        run->said = pair[0];
        run->pid = fork();
        if (run->pid == 0)
                become(words, environment, pair[1], parent);
        close(pair[1]);
        if (run->pid < 0)
                return error_set(err, "cannot start %s: %s", words->list[0], strerror(errno));
        return 0;
}

/* Steps are mmdebstrap's lines of information; those about its own folders say nothing to people. */
static void take_line(struct run *run) {
        const char *line = run->line;
        char *copy;

        run->line[run->length] = '\0';
        run->length = 0;
        if (strncmp(line, "I: ", 3) == 0) {
                if (run->messages >= 0 && !strchr(line, '/') && !strstr(line, "success in") &&
                    !strstr(line, "received signal"))
                        dprintf(run->messages, "%s\n", line + 3);
                return;
        }
        if (!line[strspn(line, " \t\r")])
                return;
        copy = strdup(line);
        if (!copy)
                abort();
        free(run->last[run->count % LINES_KEPT]);
        run->last[run->count++ % LINES_KEPT] = copy;
}

static void take_bytes(struct run *run, const char *bytes, size_t length) {
        for (size_t i = 0; i < length; i++) {
                if (bytes[i] == '\n')
                        take_line(run);
                else if (run->length < LINE_MAX_BYTES)
                        run->line[run->length++] = bytes[i];
        }
}

/* Reads until nobody is left who could write: all of the namespace is dead then. */
static void relay(struct run *run) {
        struct pollfd polled = { .fd = run->said, .events = POLLIN };
        bool killed = false;
        char bytes[4096];
        ssize_t count;

        for (;;) {
                if (interrupt_count() > 0 && !killed && !run->to_the_end) {
                        kill(run->pid, SIGKILL);
                        killed = true;
                }
                if (poll(&polled, 1, LOOK_AGAIN_MS) <= 0)
                        continue;
                count = read(run->said, bytes, sizeof(bytes));
                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        break;
                take_bytes(run, bytes, (size_t)count);
        }
        if (run->length > 0)
                take_line(run);
}

/* What helps, where the words of others do not say it. */
static const char *hint_for(const char *text) {
        static const char *const hints[][2] = {
                { "/etc/subuid",
                  "; as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER, with "
                  "numbers that no other line of /etc/subuid has" },
                { "NO_PUBKEY", "; where this is not Debian: apt-get install debian-archive-keyring gpg" },
                { "unshare failed: Operation not permitted",
                  "; a container needs CAP_SYS_ADMIN for it (--privileged), a user the right to make user namespaces" },
        };

        for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
                if (strstr(text, hints[i][0]))
                        return hints[i][1];
        }
        return "";
}

/* The lines before the end go to where the steps went; the errors among them, in one line, are the error. */
static int fail(const struct run *run, const char *what, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        size_t first = run->count > LINES_KEPT ? run->count - LINES_KEPT : 0;
        const char *line = NULL;

        for (size_t i = first; i < run->count; i++) {
                line = run->last[i % LINES_KEPT];
                if (run->messages >= 0)
                        dprintf(run->messages, "  %s\n", line);
                if (strncmp(line, "E: ", 3) == 0)
                        strbuf_printf(&text, "%s%.300s", text.length ? "; " : "", line + 3);
        }
        if (!text.length && line)
                strbuf_printf(&text, "%.300s", line);
        return error_set(err, "%s failed%s%s%s", what, text.length ? ": " : " and did not say why",
                         strbuf_text(&text), hint_for(strbuf_text(&text)));
}

static int run_words(struct run *run, const struct words *words, const struct words *environment,
                     const char *what, struct error *err) {
        int status;

        if (start(run, words, environment, err) < 0)
                return -1;
        relay(run);
        if (waitpid(run->pid, &status, 0) < 0)
                status = -1;
        run->pid = 0;
        if (interrupt_count() > 0 && !run->to_the_end)
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
        return status == 0 ? 0 : fail(run, what, err);
}

int bootstrap_run(const struct bootstrap *bootstrap, struct arena *arena, struct error *err) {
        struct run run __attribute__((cleanup(end_run))) = { .said = -1, .messages = bootstrap->messages };
        struct words words = { .count = 0 }, environment = { .count = 0 };

        if (check_programs(arena, err) < 0)
                return -1;
        add_namespaces(&words);
        add_mmdebstrap(&words, bootstrap, arena);
        add_environment(&environment, bootstrap, arena);
        return run_words(&run, &words, &environment, "mmdebstrap", err);
}

int bootstrap_remove(const char *folder, struct error *err) {
        struct run run __attribute__((cleanup(end_run))) = { .said = -1, .messages = -1, .to_the_end = true };
        struct words words = { .count = 0 }, environment = { .count = 0 };

        add_namespaces(&words);
        ADD(&words, "rm", "-rf", "--one-file-system", "--", folder);
        ADD(&environment, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8");
        return run_words(&run, &words, &environment, "rm", err);
}
