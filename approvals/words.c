/* SPDX-License-Identifier: Apache-2.0 */
#include "approvals/words.h"

#include "base/terminal.h"
#include "base/text.h"

#include <string.h>

static const char *word_of(const json_t *words, size_t at) {
        return json_string_value(json_array_get(words, at));
}

static bool is_wild(const char *word) {
        return strcmp(word, "*") == 0 || strcmp(word, "**") == 0;
}

/* Programs that run what they are told; docs/approvals.md has the same list. */
static const char *const runners[] = {
        /* shells */
        "sh", "ash", "bash", "bash-static", "rbash", "dash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish",
        "pwsh", "busybox", "toybox",
        /* interpreters, and others to whom a word can be a program */
        "python", "pypy", "perl", "ruby", "irb", "node", "nodejs", "deno", "bun", "php", "lua", "luajit",
        "tclsh", "expect", "guile", "R", "Rscript", "awk", "gawk", "mawk", "nawk", "sed", "ed", "ex", "vi",
        "vim", "nvim", "emacs", "gdb", "m4", "make", "gmake", "java",
        /* those that start another program */
        "env", "timeout", "nice", "ionice", "nohup", "setsid", "stdbuf", "xargs", "parallel", "find", "fd",
        "sudo", "su", "doas", "pkexec", "runuser", "setpriv", "setarch", "linux32", "linux64", "i386",
        "x86_64", "chroot", "unshare", "nsenter", "capsh", "bwrap", "firejail", "fakeroot", "flock", "time",
        "watch", "entr", "script", "screen", "tmux", "strace", "ltrace", "perf", "valgrind", "chrt",
        "taskset", "numactl", "prlimit", "choom", "cgexec", "systemd-run", "start-stop-daemon", "run-parts",
        "dbus-run-session", "xvfb-run", "unbuffer", "chpst", "softlimit", "at", "batch", "crontab", "ssh",
        "docker", "podman", "runc", "crun", "ip", NULL
};

/* A version may stand behind the name (python3.11), or an ending. */
static bool is_runner(const char *name, size_t length) {
        size_t bare = 0;

        while (bare < length && name[bare] != '.' && (name[bare] < '0' || name[bare] > '9'))
                bare++;
        while (bare > 0 && (name[bare - 1] == '-' || name[bare - 1] == '_'))
                bare--;
        for (const char *const *runner = runners; *runner; runner++) {
                size_t known = strlen(*runner);

                if ((known == length || known == bare) && strncmp(*runner, name, known) == 0)
                        return true;
        }
        return length > 3 && strncmp(name, "ld-", 3) == 0; /* the loader, which is given a program */
}

/* Whether a word names one: by itself, as the end of a path, behind an option's "=", or as one of several words in it. */
static bool names_runner(const char *word) {
        static const char between[] = "/=:,; \t\r\n\v\f'\"`|&()<>${}\\";

        while (*word) {
                size_t length = strcspn(word, between);

                if (length > 0 && is_runner(word, length))
                        return true;
                word += length + (word[length] != '\0');
        }
        return false;
}

/* A program's own name: of its path no other part. */
static bool is_runner_path(const char *program) {
        const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;

        return is_runner(name, strlen(name));
}

bool words_are_void(const json_t *pattern) {
        const char *program = word_of(pattern, 0);
        bool behind;

        if (!program || is_wild(program))
                return true;
        behind = is_runner_path(program);
        for (size_t i = 1; i < json_array_size(pattern); i++) {
                const char *word = word_of(pattern, i);

                if (!word || (behind && is_wild(word)))
                        return true;
                behind = behind || names_runner(word);
        }
        return false;
}

/* A word of the command that stands where the pattern has a wildcard: what follows it may be the agent's own words as well. */
static bool fits_wild(const char *found, const char *program) {
        return found && !names_runner(found) && !is_runner_path(program);
}

bool words_fit(const json_t *pattern, const json_t *command, const char *program) {
        size_t count = json_array_size(pattern), given = json_array_size(command), at = 0;

        if (words_are_void(pattern))
                return false;
        for (; at < count; at++) {
                const char *word = word_of(pattern, at), *found = word_of(command, at);

                if (at + 1 == count && strcmp(word, "**") == 0)
                        break;
                if (!found ||
                    (strcmp(word, "*") == 0 ? !fits_wild(found, program) : strcmp(word, found) != 0))
                        return false;
        }
        if (at == count)
                return count == given;
        for (; at < given; at++) {
                if (!fits_wild(word_of(command, at), program))
                        return false;
        }
        return true;
}

static void show_word(const char *word, size_t length, struct strbuf *to) {
        bool plain =
                length > 0 && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                           "._-/:=@%+,") == length;

        if (plain) {
                strbuf_append_bytes(to, word, length);
                return;
        }
        strbuf_append_char(to, '\'');
        text_append_exact(to, word, length);
        strbuf_append_char(to, '\'');
}

void words_show(const json_t *command, struct strbuf *to) {
        const json_t *word;
        size_t index;

        json_array_foreach (command, index, word) {
                if (index > 0)
                        strbuf_append_char(to, ' ');
                show_word(json_string_value(word), json_string_length(word), to);
        }
}
