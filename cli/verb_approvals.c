/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on the host that wait for a person, asked of a running server over its socket. What an agent wrote is shown as data: words that are
 * more than letters stand in quotes, and what a terminal would act on, hide or turn around is escaped.
 */
#include "approvals/approvals.h"
#include "approvals/words.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "base/text_utf8.h"
#include "cli/sessions.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#define WATCH_MS 1000
#define NAME_WIDTH 10

static const char *approval_path(struct sessions *sessions, const char *id, const char *rest) {
        return arena_printf(sessions->session.arena, "/v1/approvals/%s%s", id, rest);
}

/* --- shown --- */

static void print_fact(const char *name, const char *value) {
        if (!value)
                return;
        printf("  %-*s ", NAME_WIDTH, name);
        terminal_print_safe(stdout, value);
        putchar('\n');
}

static void print_words(const char *name, const json_t *words) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        words_show(words, &text);
        printf("  %-*s %s\n", NAME_WIDTH, name, strbuf_text(&text));
}

/*
 * Links and folders have what names agents may have given them, owners what an issuer or a client calls them: such a text is shown as a word
 * is. Letters other than ASCII put it in quotes, so that none looks like another of ASCII.
 */
static void print_named_text(const char *name, const char *shown, const char *sha256) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        words_show_text(shown ? shown : "-", &text);
        printf("  %-*s %s", NAME_WIDTH, name, strbuf_text(&text));
        if (sha256) {
                fputs(" (sha256 ", stdout);
                terminal_print_safe(stdout, sha256);
                putchar(')');
        }
        putchar('\n');
}

static void print_variables(const json_t *variables) {
        json_t *words JSON_CLEANUP = json_checked(json_array()), *value;
        const char *name;

        json_object_foreach ((json_t *)variables, name, value)
                json_add(words, json_sprintf("%s=%s", name, json_string_value(value)));
        print_words("variables", words);
}

/* Line by line; the last one may have no end. */
static void print_stream(const json_t *result, const char *name) {
        const json_t *stream = json_object_get(result, name);
        const char *at = json_text(stream, "content"), *encoding = json_text(stream, "encoding");

        if (!at || !*at)
                return;
        printf("  %s, %lld bytes%s%s\n", name, (long long)json_integer_or(stream, "bytesTotal", 0),
               json_is_true(json_object_get(stream, "truncated")) ? ", the first and the last of them" : "",
               encoding && strcmp(encoding, "base64") == 0 ? ", in base64" : "");
        while (*at) {
                size_t length = strcspn(at, "\n");
                struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;

                strbuf_append_bytes(&line, at, length);
                fputs("    ", stdout);
                terminal_print_safe(stdout, strbuf_text(&line));
                putchar('\n');
                at += length + (at[length] == '\n');
        }
}

static void print_result(const json_t *result) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (!json_is_object(result))
                return;
        strbuf_printf(&text, "%s", json_text(result, "status"));
        if (json_is_integer(json_object_get(result, "exitCode")))
                strbuf_printf(&text, ", exit code %lld", (long long)json_integer_or(result, "exitCode", 0));
        if (json_text(result, "detail"))
                strbuf_printf(&text, ": %s", json_text(result, "detail"));
        print_fact("result", strbuf_text(&text));
        print_stream(result, "stdout");
        print_stream(result, "stderr");
}

static void print_approval(const json_t *approval) {
        const char *status = json_text(approval, "status");

        terminal_print_safe(stdout, json_text(approval, "id") ? json_text(approval, "id") : "-");
        printf("  %s%s", status ? status : "-",
               json_is_true(json_object_get(approval, "trusted")) ? ", trusted" : "");
        if (status && strcmp(status, "pending") == 0)
                printf(", until %s",
                       json_text(approval, "expiresAt") ? json_text(approval, "expiresAt") : "-");
        putchar('\n');
        print_words("command", json_object_get(approval, "command"));
        print_named_text("folder", json_text(approval, "cwd"), NULL);
        print_named_text("program", json_text(approval, "program"), json_text(approval, "programSha256"));
        print_fact("user", json_text(approval, "user"));
        print_variables(json_object_get(approval, "variables"));
        print_fact("agent", json_text(approval, "agent"));
        print_fact("asked by", json_text(approval, "client"));
        print_named_text("for", json_text(approval, "owner"), NULL);
        print_fact("why", json_text(approval, "reason"));
        print_fact("decided by", json_text(approval, "decidedBy"));
        print_fact("note", json_text(approval, "note"));
        print_result(json_object_get(approval, "result"));
}

/* --- the commands --- */

static int ask_list(struct sessions *sessions, json_t **ret, struct error *err) {
        return sessions_list(sessions, "/v1/approvals", sessions->options->all ? "" : "?status=pending", ret,
                             err);
}

/* Those that are new since the last look, the oldest first; then again, until its user ends it. */
static int watch_approvals(struct sessions *sessions, struct error *err) {
        json_t *known JSON_CLEANUP = json_checked(json_object());
        const struct interrupt *interrupt = interrupt_of_user();

        interrupt_install();
        while (interrupt_level(interrupt) == INTERRUPT_NONE) {
                json_t *list JSON_CLEANUP = NULL;

                if (ask_list(sessions, &list, err) < 0)
                        return -1;
                for (size_t i = json_array_size(list); i > 0; i--) {
                        const json_t *approval = json_array_get(list, i - 1);
                        const char *id = json_text(approval, "id"), *status = json_text(approval, "status"),
                                   *before = id ? json_text(known, id) : NULL;

                        if (!id || !status || (before && strcmp(before, status) == 0))
                                continue;
                        json_put(known, id, json_string(status));
                        if (sessions->options->json) {
                                char *text TEXT_CLEANUP = json_compact(approval);
                                struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;

                                text_append_json_safe(&line, text);
                                puts(strbuf_text(&line));
                        } else {
                                print_approval(approval);
                        }
                }
                if (fflush(stdout) != 0)
                        return EXIT_DONE;
                (void)clock_system.sleep_until(&clock_system, clock_now_ms() + WATCH_MS);
        }
        return EXIT_DONE;
}

static int run_list_approvals(struct sessions *sessions, const char *id, struct error *err) {
        json_t *list JSON_CLEANUP = NULL;
        const json_t *approval;
        size_t index;

        (void)id;
        if (sessions->options->watch)
                return watch_approvals(sessions, err);
        if (ask_list(sessions, &list, err) < 0)
                return -1;
        if (sessions->options->json) {
                print_json(json_incref(list));
                return EXIT_DONE;
        }
        if (json_array_size(list) == 0)
                fputs("Nothing waits for an approval.\n", stderr);
        json_array_foreach (list, index, approval)
                print_approval(approval);
        return EXIT_DONE;
}

static int print_answer(struct sessions *sessions, json_t *approval) {
        if (sessions->options->json) {
                print_json(approval);
                return EXIT_DONE;
        }
        print_approval(approval);
        json_decref(approval);
        return EXIT_DONE;
}

static int run_show(struct sessions *sessions, const char *id, struct error *err) {
        json_t *approval;

        if (sessions_ask(sessions, "GET", approval_path(sessions, id, ""), NULL, &approval, err) < 0)
                return -1;
        return print_answer(sessions, approval);
}

static int send_decision(struct sessions *sessions, const char *id, const char *verb, struct error *err) {
        json_t *body = json_checked(json_object()), *approval;

        json_set_text(body, "note", sessions->options->note);
        if (sessions_ask(sessions, "POST", approval_path(sessions, id, verb), body, &approval, err) < 0)
                return -1;
        return print_answer(sessions, approval);
}

static int run_approve(struct sessions *sessions, const char *id, struct error *err) {
        return send_decision(sessions, id, "/approve", err);
}

static int run_deny(struct sessions *sessions, const char *id, struct error *err) {
        return send_decision(sessions, id, "/deny", err);
}

static const struct command {
        const char *name;
        bool takes_id;
        int (*run)(struct sessions *sessions, const char *id, struct error *err);
} commands[] = {
        { "list", false, run_list_approvals },
        { "show", true, run_show },
        { "approve", true, run_approve },
        { "deny", true, run_deny },
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static int check_operands(const struct options *options, const struct command *command, struct error *err) {
        if (options->operand_count != (command->takes_id ? 2 : 1))
                return error_set(err, "berth approvals %s takes %s", command->name,
                                 command->takes_id ? "one id: berth approvals list shows those there are"
                                                   : "no argument");
        if (command->takes_id && !approvals_is_id(options->operands[1]))
                return error_set(err, "\"%s\" is no approval's id: it is a- and 26 characters",
                                 options->operands[1]);
        return 0;
}

int verb_approvals(const struct options *options, struct error *err) {
        struct sessions sessions SESSIONS_CLEANUP = { 0 };
        const struct command *command = suggest_row("berth approvals", options->operands[0], commands,
                                                    COMMAND_COUNT, sizeof(commands[0]), err);

        if (!command || check_operands(options, command, err) < 0 ||
            sessions_open(&sessions, options, err) < 0)
                return -1;
        return command->run(&sessions, command->takes_id ? options->operands[1] : NULL, err);
}
