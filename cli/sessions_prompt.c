/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prompt, and one execution after the other. Ctrl-C drops what is typed, or interrupts what runs, and a second one leaves it to
 * itself; Ctrl-D leaves, and the session lives on. Each of them has an interrupt of its own, since one that was raised stays so.
 */
#include "base/files.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/terminal.h"
#include "cli/sessions.h"
#include "client/cell.h"
#include "client/lines.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct interrupt *_Atomic current;

static void raise_current(int number) {
        struct interrupt *interrupt = atomic_load(&current);
        int kept = errno;

        (void)number;
        if (interrupt)
                interrupt_raise(interrupt);
        errno = kept;
}

/* $XDG_STATE_HOME/berth/session_history; NULL where there is no place for it. */
static const char *history_path(struct arena *arena) {
        const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME"), *folder;
        struct error ignored;

        if (state && *state == '/')
                folder = arena_printf(arena, "%s/berth", state);
        else if (home && *home == '/')
                folder = arena_printf(arena, "%s/.local/state/berth", home);
        else
                return NULL;
        return folder_make(folder, &ignored) < 0 ? NULL : path_join_in(folder, "session_history", arena);
}

/*
 * One cell: lines until they are whole. LINES_LINE, with all of them in *ret; empty lines alone are
 * not a cell.
 */
static enum lines_next read_cell(struct lines *lines, struct strbuf *ret) {
        strbuf_clear(ret);
        for (;;) {
                struct interrupt interrupt;
                enum lines_next next;
                struct error err;
                const char *line;

                if (interrupt_init(&interrupt, &err) < 0)
                        return LINES_END;
                atomic_store(&current, &interrupt);
                next = lines_next(lines, ret->length ? "... " : ">>> ", &interrupt, &line);
                atomic_store(&current, NULL);
                interrupt_dispose(&interrupt);
                if (next != LINES_LINE)
                        return next == LINES_END && ret->length ? LINES_LINE : next;
                if (ret->length == 0 && line[strspn(line, " \t")] == '\0')
                        continue;
                strbuf_append(ret, line);
                strbuf_append_char(ret, '\n');
                if (cell_is_whole(strbuf_text(ret)))
                        return LINES_LINE;
        }
}

/* As Python's prompt: the session lives on, where exit() alone would only end one execution. */
static bool is_exit(const char *typed) {
        static const char *const words[] = { "exit", "quit", "exit()", "quit()" };
        size_t length = strlen(typed);

        while (length > 0 && strchr(" \t\n;", typed[length - 1]))
                length--;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                if (strlen(words[i]) == length && strncmp(typed, words[i], length) == 0)
                        return true;
        }
        return false;
}

/* An execution that fails is no reason to leave; a session or a server that has gone is. */
static int run_cell(struct sessions *sessions, const char *id, const char *typed, struct error *err) {
        struct sessions_code code = { .with_variables = true };
        struct interrupt interrupt;
        bool shell = false;
        json_int_t n;
        int result;

        code.code = cell_code(typed, &shell);
        code.length = strlen(code.code);
        code.language = shell ? "sh" : sessions->options->language ? sessions->options->language : "python";
        if (interrupt_init(&interrupt, err) < 0)
                return -1;
        atomic_store(&current, &interrupt);
        result = sessions_begin(sessions, id, &code, &n, err);
        if (result == 0)
                result = sessions_follow(sessions, id, n, &interrupt, true, err);
        atomic_store(&current, NULL);
        if (result < 0 && interrupt_level(&interrupt) >= INTERRUPT_NOW) {
                log_warning("%s", err->message);
                result = EXIT_EXEC_FAILED;
        }
        interrupt_dispose(&interrupt);
        return result;
}

int sessions_prompt(struct sessions *sessions, const char *id, struct error *err) {
        const struct sigaction action = { .sa_handler = raise_current };
        struct lines *lines LINES_CLEANUP = NULL;
        struct strbuf typed STRBUF_CLEANUP = STRBUF_INIT;
        bool plain, shows = isatty(STDIN_FILENO);
        int code = EXIT_DONE;
        struct error reason;

        sigaction(SIGINT, &action, NULL);
        lines = lines_open(history_path(sessions->session.arena), &plain, &reason);
        if (plain)
                log_warning("no history, and no editing of lines: %s", reason.message);
        if (shows)
                log_info(
                        "session %s: Python, !COMMAND or %%sh for the shell; Ctrl-C interrupts, Ctrl-D or exit() leaves",
                        id);
        for (;;) {
                enum lines_next next = read_cell(lines, &typed);

                if (next == LINES_END || (next == LINES_LINE && is_exit(strbuf_text(&typed))))
                        break;
                if (next == LINES_INTERRUPTED) {
                        putchar('\n');
                        fflush(stdout);
                        continue;
                }
                code = run_cell(sessions, id, strbuf_text(&typed), err);
                if (code < 0)
                        return -1;
        }
        if (shows) {
                putchar('\n');
                fflush(stdout);
                log_info(
                        "session %s lives on: berth session run %s%s goes on with it, berth session end %s%s "
                        "ends it",
                        id, id, sessions->where, id, sessions->where);
        }
        return shows ? EXIT_DONE : code;
}
