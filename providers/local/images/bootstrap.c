/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/bootstrap.h"

#include "base/interrupt.h"
#include "base/strbuf.h"
#include "process/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 96
#define LINE_MAX_BYTES 1000
#define LINES_KEPT 12

struct words {
        const char *list[WORDS_MAX];
        size_t count;
};

static void add_word(struct words *words, const char *word) {
        if (words->count == WORDS_MAX - 1)
                abort();
        words->list[words->count++] = word;
        words->list[words->count] = NULL;
}

static void add_words(struct words *words, const char *const *list) {
        for (; *list; list++)
                add_word(words, *list);
}

#define ADD(words, ...) add_words(words, (const char *const[]){ __VA_ARGS__, NULL })

/* --- the programs --- */

static const char *find_program(const char *name, struct arena *arena) {
        return process_find_program(name, PROCESS_SYSTEM_FOLDERS, arena);
}

static int check_programs(struct arena *arena, struct error *err) {
        static const struct {
                const char *program, *package;
                bool users_only; /* root needs no ranges */
        } needed[] = { { "mmdebstrap", "mmdebstrap", false },
                       { "unshare", "util-linux", false },
                       { "setpriv", "util-linux", false },
                       { "newuidmap", "uidmap", true } };

        for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
                if ((needed[i].users_only && geteuid() == 0) || find_program(needed[i].program, arena))
                        continue;
                return error_set_kind(err, ERROR_NOT_FOUND,
                                      "%s is not installed; building images needs it%s: apt-get install %s",
                                      needed[i].program, needed[i].users_only ? " for ordinary users" : "",
                                      needed[i].package);
        }
        return 0;
}

/* --- the command --- */

/*
 * Process 1 of the namespace dies with unshare. The kernel then kills all other processes in it and drops the mounts: no
 * process is left that could write, and no /dev or /proc is mounted in the folder that is removed afterwards.
 */
static void add_unshare(struct words *words, struct arena *arena) {
        const char *setpriv = find_program("setpriv", arena), *unshare = find_program("unshare", arena);

        ADD(words, setpriv ? setpriv : "setpriv", "--pdeathsig", "KILL", "--");
        ADD(words, unshare ? unshare : "unshare");
        if (geteuid() != 0)
                ADD(words, "--user", "--map-auto", "--map-root-user");
        ADD(words, "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--");
}

static const char *join_with_commas(const char *const *list, struct arena *arena) {
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
                add_word(words, arena_printf(arena, "--dpkgopt=%s", *at));
        add_word(words, arena_printf(arena, "--include=%s", join_with_commas(prebuilt->packages, arena)));
        /* The script comes as a variable: it needs no quoting. */
        add_word(words, "--customize-hook=chroot \"$1\" sh -c \"$BERTH_FINISH\"");
        ADD(words, prebuilt->suite, bootstrap->tar);
        if (bootstrap->mirror)
                add_word(words, bootstrap->mirror);
}

/* Of the caller's environment only the proxies are passed on. */
static void add_environment(struct words *words, const struct bootstrap *bootstrap, struct arena *arena) {
        static const char *const passed[] = { "http_proxy", "https_proxy", "no_proxy" };

        add_word(words, "PATH=" PROCESS_SYSTEM_FOLDERS);
        ADD(words, "LC_ALL=C.UTF-8", "HOME=/nonexistent", "DEBIAN_FRONTEND=noninteractive");
        add_word(words, arena_printf(arena, "TMPDIR=%s", bootstrap->folder));
        add_word(words, arena_printf(arena, "SOURCE_DATE_EPOCH=%lld", (long long)bootstrap->dated_s));
        add_word(words, arena_printf(arena, "BERTH_FINISH=%s", prebuilt_script(bootstrap->prebuilt, arena)));
        for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
                if (getenv(passed[i]))
                        add_word(words, arena_printf(arena, "%s=%s", passed[i], getenv(passed[i])));
        }
}

/* --- running it --- */

/* What a program prints, line by line. */
struct printed {
        int messages;
        char line[LINE_MAX_BYTES + 1];
        size_t length;
        char *last[LINES_KEPT]; /* a ring */
        size_t count;
};

static void release_printed(struct printed *printed) {
        for (size_t i = 0; i < LINES_KEPT; i++)
                free(printed->last[i]);
}

/* Prints mmdebstrap's lines of information ("I: ") as steps, but for those about its own folders; keeps all other lines. */
static void handle_line(struct printed *printed) {
        const char *line = printed->line;
        char *copy;

        printed->line[printed->length] = '\0';
        printed->length = 0;
        if (strncmp(line, "I: ", 3) == 0) {
                if (printed->messages >= 0 && !strchr(line, '/') && !strstr(line, "success in") &&
                    !strstr(line, "received signal"))
                        dprintf(printed->messages, "%s\n", line + 3);
                return;
        }
        if (!line[strspn(line, " \t\r")])
                return;
        copy = strdup(line);
        if (!copy)
                abort();
        free(printed->last[printed->count % LINES_KEPT]);
        printed->last[printed->count++ % LINES_KEPT] = copy;
}

static void split_lines(void *opaque, const char *bytes, size_t length) {
        struct printed *printed = opaque;

        for (size_t i = 0; i < length; i++) {
                if (bytes[i] == '\n')
                        handle_line(printed);
                else if (printed->length < LINE_MAX_BYTES)
                        printed->line[printed->length++] = bytes[i];
        }
}

/* Advice for errors of other programs that give none. */
static const char *hint_for(const char *text) {
        static const char *const hints[][2] = {
                { "/etc/subuid",
                  "; as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER, with "
                  "numbers that no other line of /etc/subuid has" },
                { "NO_PUBKEY", "; where this is not Debian: apt-get install debian-archive-keyring gpg" },
                { "unshare failed: Operation not permitted",
                  "; a container needs CAP_SYS_ADMIN (--privileged), a user the right to make user namespaces" },
        };

        for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
                if (strstr(text, hints[i][0]))
                        return hints[i][1];
        }
        return "";
}

/* Prints the last lines; the errors among them ("E: "), joined to one line, become the error. */
static int fail_with_last_lines(const struct printed *printed, const char *what, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        size_t first = printed->count > LINES_KEPT ? printed->count - LINES_KEPT : 0;
        const char *line = NULL;

        for (size_t i = first; i < printed->count; i++) {
                line = printed->last[i % LINES_KEPT];
                if (printed->messages >= 0)
                        dprintf(printed->messages, "  %s\n", line);
                if (strncmp(line, "E: ", 3) == 0)
                        strbuf_printf(&text, "%s%.300s", text.length ? "; " : "", line + 3);
        }
        if (!text.length && line)
                strbuf_printf(&text, "%.300s", line);
        return error_set(err, "%s failed%s%s%s", what, text.length ? ": " : " without saying why",
                         strbuf_text(&text), hint_for(strbuf_text(&text)));
}

/*
 * In a process group of its own: a Ctrl-C is ours to act on. It dies with us by setpriv, which sets
 * that before it becomes the program; and once no holder of its output is left, all of the
 * namespace is dead.
 */
static int run_words(const struct words *words, const struct words *environment, const char *what,
                     const struct interrupt *interrupt, int messages, struct error *err) {
        struct printed printed __attribute__((cleanup(release_printed))) = { .messages = messages };
        struct run_result result RUN_RESULT_CLEANUP = RUN_RESULT_INIT;
        const struct run_args args = {
                .process = { .arguments = words->list,
                             .environment = environment->list,
                             .group = PROCESS_OWN_GROUP },
                .take = split_lines,
                .opaque = &printed,
                .errors = RUN_ERRORS_AS_OUTPUT,
                .deadline_ms = RUN_NO_DEADLINE,
                .interrupt = interrupt,
                .wait_for_all = true,
        };

        if (run_to_end(&args, &result, err) < 0)
                return -1;
        if (printed.length > 0)
                handle_line(&printed);
        if (interrupt_level(interrupt) > INTERRUPT_NONE)
                return error_set_kind(err, ERROR_INTERRUPTED, "interrupted");
        return result.end == RUN_EXITED && result.code == 0 ? 0 : fail_with_last_lines(&printed, what, err);
}

int bootstrap_run(const struct bootstrap *bootstrap, struct arena *arena, struct error *err) {
        struct words words = { .count = 0 }, environment = { .count = 0 };

        if (check_programs(arena, err) < 0)
                return -1;
        add_unshare(&words, arena);
        add_mmdebstrap(&words, bootstrap, arena);
        add_environment(&environment, bootstrap, arena);
        return run_words(&words, &environment, "mmdebstrap", interrupt_of_user(), bootstrap->messages, err);
}

int bootstrap_remove(const char *folder, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct words words = { .count = 0 }, environment = { .count = 0 };

        add_unshare(&words, arena);
        ADD(&words, "rm", "-rf", "--one-file-system", "--", folder);
        ADD(&environment, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8");
        return run_words(&words, &environment, "rm", NULL, -1, err);
}
