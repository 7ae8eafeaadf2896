/* SPDX-License-Identifier: Apache-2.0 */
/* Two columns, from the tables of verbs, commands and options. */
#include "cli/help.h"

#include "base/strbuf.h"
#include "base/terminal.h"
#include "cli/commands.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#define RIGHT_COLUMN 27
#define NARROW 60 /* terminals with fewer columns have one column of text */

/* From `column` on, where the line stands; breaks at spaces, and behind the bars of alternatives ("show|mv|rm"). */
static int print_usage_line(const char *usage, int column, int width, FILE *stream) {
        while (*usage) {
                int length = (int)strcspn(usage, "| ");

                length += usage[length] != '\0';
                if (column > 4 && column + length > width) {
                        fputs("\n    ", stream);
                        column = 4;
                }
                fprintf(stream, "%.*s", length, usage);
                column += length;
                usage += length;
        }
        return column;
}

static int width_of(FILE *stream) {
        return isatty(fileno(stream)) ? terminal_width(stream) : INT_MAX;
}

/* Two columns. Where the left one is too wide, the right one goes below it, as it does on a narrow terminal. */
static void print_columns(const char *left, const char *right, FILE *stream) {
        int width = width_of(stream), column = width < NARROW ? 6 : RIGHT_COLUMN, used;

        fputs("  ", stream);
        used = print_usage_line(left, 2, width, stream);
        if (used >= column || width < NARROW) {
                fputc('\n', stream);
                used = 0;
        }
        fprintf(stream, "%*s", column - used, "");
        terminal_print_wrapped(stream, right, column, column);
}

/* "create", "approvals list": a verb, or a command of one, named as in an option's line of help. */
static bool names_command(const char *words, size_t length, const struct verb *verb,
                          const struct verb_command *command) {
        size_t verb_length = strlen(verb->name);

        if (length == verb_length && strncmp(words, verb->name, length) == 0)
                return true;
        if (length > verb_length + 1 && strncmp(words, verb->name, verb_length) == 0 &&
            words[verb_length] == ' ') {
                words += verb_length + 1;
                length -= verb_length + 1;
        }
        return command && strlen(command->name) == length && strncmp(words, command->name, length) == 0;
}

static bool names_any(const char *words, size_t length) {
        for (const struct verb *verb = verbs; verb->name; verb++) {
                if (names_command(words, length, verb, NULL))
                        return true;
                for (const struct verb_command *command = verb->commands; command && command->name;
                     command++) {
                        if (names_command(words, length, verb, command))
                                return true;
                }
        }
        return false;
}

/*
 * The verbs and commands that a part of an option's line of help applies to: "create, run: give it"
 * is for two commands of session's. *ret_text is the part's text. Returns false if it applies to
 * other verbs or commands than this one.
 */
static bool is_for(const char *part, size_t length, const struct verb *verb,
                   const struct verb_command *command, const char **ret_text) {
        const char *colon = memmem(part, length, ": ", 2);
        bool found = false;

        *ret_text = part;
        for (const char *at = part; colon && at < colon;) {
                size_t word = strcspn(at, ",:");

                if (!names_any(at, word))
                        return true;
                found |= names_command(at, word, verb, command);
                at += word + 2;
        }
        if (colon && found)
                *ret_text = colon + 2;
        return !colon || found;
}

/* An option's line of help without what is said in it of others than this verb, or this command of it. */
static void print_doc(const char *doc, const struct verb *verb, const struct verb_command *command,
                      struct strbuf *ret) {
        for (const char *part = doc; *part;) {
                const char *end = strstr(part, "; "), *text;

                end = end ? end : part + strlen(part);
                if (is_for(part, (size_t)(end - part), verb, command, &text)) {
                        strbuf_append(ret, ret->data ? "; " : "");
                        strbuf_append_bytes(ret, text, (size_t)(end - text));
                }
                part = *end ? end + 2 : end;
        }
}

/* Those of one command where `command` is given, else those of the verb's, or of every verb's. */
static void print_options(const struct verb *verb, const struct verb_command *command, bool own,
                          FILE *stream) {
        for (const struct option_row *row = options_rows; row->name; row++) {
                struct strbuf left STRBUF_CLEANUP = STRBUF_INIT, doc STRBUF_CLEANUP = STRBUF_INIT;

                if (own != (row->verbs != NULL) || (verb && !options_row_takes(row, verb)) ||
                    (command && !commands_take(command, row)))
                        continue;
                if (verb && (command || !verb->commands))
                        print_doc(row->doc, verb, command, &doc);
                strbuf_printf(&left, "%c%c%s--%s%s%s", row->id < 256 ? '-' : ' ',
                              row->id < 256 ? row->id : ' ', row->id < 256 ? ", " : "  ", row->name,
                              row->argument ? " " : "", row->argument ? row->argument : "");
                print_columns(strbuf_text(&left), doc.data ? doc.data : row->doc, stream);
        }
}

/* "session create|list [ARG]..." */
static void print_call(const struct verb *verb, struct strbuf *ret) {
        struct strbuf operands STRBUF_CLEANUP = STRBUF_INIT;

        commands_print_operands(verb, &operands);
        strbuf_printf(ret, "%s%s%s", verb->name, operands.length ? " " : "", strbuf_text(&operands));
}

void help_print(FILE *stream) {
        terminal_print_wrapped(
                stream, "berth: declares, makes and guards the environments in which AI agents run code", 0,
                0);
        fputs("\nusage: berth VERB [OPTION]...\n\n", stream);
        for (const struct verb *verb = verbs; verb->name; verb++) {
                struct strbuf left STRBUF_CLEANUP = STRBUF_INIT;

                print_call(verb, &left);
                print_columns(strbuf_text(&left), verb->doc, stream);
        }
        fputs("\noptions of every verb:\n", stream);
        print_options(NULL, NULL, false, stream);
        fputc('\n', stream);
        terminal_print_wrapped(stream, "Exit codes: 0 done, 1 error, 2 changes, 3 refused, 4 locked.", 0, 2);
}

static void print_commands(const struct verb *verb, FILE *stream) {
        fputs("\ncommands:\n", stream);
        for (const struct verb_command *command = verb->commands; command->name; command++) {
                struct strbuf left STRBUF_CLEANUP = STRBUF_INIT;

                if (!command->name[0])
                        continue;
                strbuf_printf(&left, "%s%s%s", command->name, command->operands[0] ? " " : "",
                              command->operands);
                print_columns(strbuf_text(&left), command->doc, stream);
        }
        fputc('\n', stream);
        terminal_print_wrapped(stream, "berth help VERB COMMAND shows the options of one.", 0, 0);
}

void help_print_verb(const struct verb *verb, const struct verb_command *command, FILE *stream) {
        struct strbuf usage STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_append(&usage, "usage: berth ");
        if (command)
                strbuf_printf(&usage, "%s %s%s%s", verb->name, command->name, command->operands[0] ? " " : "",
                              command->operands);
        else
                print_call(verb, &usage);
        strbuf_append(&usage, " [OPTION]...");
        print_usage_line(strbuf_text(&usage), 0, width_of(stream), stream);
        fputs("\n\n", stream);
        terminal_print_wrapped(stream, command ? command->doc : verb->doc, 0, 0);
        if (verb->commands && !command)
                print_commands(verb, stream);
        fputs("\noptions:\n", stream);
        print_options(verb, command, true, stream);
        print_options(verb, command, false, stream);
}
