/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manual pages, as roff: berth(1) from the tables of verbs and options, berth-manifests(5) from the field tables. The
 * build writes them beside the program and installs them.
 */
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "schema/kind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WORDS_MAX 16 /* of a verb, or commands: more than any has */

/* Text as roff takes it literally: no escapes, no requests at the start of a line. */
static void print_roff(const char *words) {
        if (*words == '.' || *words == '\'')
                fputs("\\&", stdout);
        for (; *words; words++) {
                if (*words == '\\')
                        fputs("\\e", stdout);
                else if (*words == '-')
                        fputs("\\-", stdout);
                else if (*words == '\n')
                        putchar(' ');
                else
                        putchar(*words);
        }
}

static void paragraph(const char *label, const char *words) {
        fputs(".TP\n.B ", stdout);
        print_roff(label);
        putchar('\n');
        print_roff(words);
        putchar('\n');
}

static void print_command(const struct verb *verb, const struct verb_command *command) {
        fputs(".TP\n.B berth ", stdout);
        print_roff(verb->name);
        putchar(' ');
        print_roff(command->name);
        if (command->operands[0]) {
                fputs(" \\fR", stdout);
                print_roff(command->operands);
        }
        putchar('\n');
        print_roff(command->doc);
        fputs(".\n", stdout);
}

static void print_verb(const struct verb *verb) {
        struct strbuf operands STRBUF_CLEANUP = STRBUF_INIT;

        fputs(".TP\n.B berth ", stdout);
        print_roff(verb->name);
        commands_print_operands(verb, &operands);
        if (operands.length) {
                fputs(" \\fR", stdout);
                print_roff(strbuf_text(&operands));
        }
        putchar('\n');
        print_roff(verb->doc);
        fputs(".\n", stdout);
        for (const struct verb_command *command = verb->commands; command && command->name; command++) {
                if (command->name[0])
                        print_command(verb, command);
        }
}

/* " (with: plan, image build)" */
static void print_takers(const struct option_row *row) {
        struct strbuf takers STRBUF_CLEANUP = STRBUF_INIT;

        for (const struct verb *verb = verbs; verb->name; verb++) {
                if (!options_row_takes(row, verb))
                        continue;
                strbuf_append(&takers, takers.length ? ", " : "");
                if (verb->commands)
                        commands_list_takers(verb, row, &takers);
                else
                        strbuf_append(&takers, verb->name);
        }
        fputs(" (with: ", stdout);
        print_roff(strbuf_text(&takers));
        putchar(')');
}

static void print_option(const struct option_row *row) {
        fputs(".TP\n.B ", stdout);
        if (row->id < 256) {
                fputs("\\-", stdout);
                putchar(row->id);
                fputs(", ", stdout);
        }
        fputs("\\-\\-", stdout);
        print_roff(row->name);
        if (row->argument) {
                fputs(" \\fI", stdout);
                print_roff(row->argument);
                fputs("\\fR", stdout);
        }
        putchar('\n');
        print_roff(row->doc);
        if (row->verbs)
                print_takers(row);
        fputs(".\n", stdout);
}

static void print_program(void) {
        fputs(".TH BERTH 1 \"\" \"berth " BERTH_VERSION "\" \"Berth\"\n.SH NAME\n"
              "berth \\- declares, makes and guards the environments in which AI agents run code\n"
              ".SH SYNOPSIS\n.B berth\n.I VERB\n[\\fIOPTION\\fR]...\n.SH VERBS\n",
              stdout);
        for (const struct verb *verb = verbs; verb->name; verb++)
                print_verb(verb);
        fputs(".SH OPTIONS\n", stdout);
        for (const struct option_row *row = options_rows; row->name; row++)
                print_option(row);
        fputs(".SH EXIT STATUS\n", stdout);
        paragraph("0", "Done, or nothing to do.");
        paragraph("1", "An error.");
        paragraph("2", "There are changes (plan --detailed-exitcode, drift).");
        paragraph("3", "A guard refused.");
        paragraph("4", "Another run holds the lock.");
        paragraph(
                "124, 125, 130, 137",
                "exec, session run, containers run and containers exec, which else exit as the program did: the deadline came; it could not be run; it was "
                "interrupted; it was killed, or had no memory left.");
        fputs(".SH ENVIRONMENT\n", stdout);
        paragraph("BERTH_STATE",
                  "Where the state lies, a folder or s3://BUCKET/PREFIX, where --state is not given.");
        paragraph("NO_COLOR", "No colour, where it is set and not empty.");
        paragraph("AWS_*", "Region, credentials and endpoints, as every AWS tool reads them.");
        fputs(".SH SEE ALSO\nberth\\-manifests(5)\n", stdout);
}

static const char *type_name(const struct field *field) {
        static const char *const names[] = {
                [FIELD_BOOLEAN] = "boolean",    [FIELD_INTEGER] = "integer", [FIELD_TEXT] = "text",
                [FIELD_LIST] = "list",          [FIELD_MAP] = "map",         [FIELD_OBJECT] = "map",
                [FIELD_ONE_OF] = "text or map",
        };

        return names[field->type];
}

static void print_manual_field(const struct field *field, const char *path, int depth) {
        char name[256];

        snprintf(name, sizeof(name), "%s%s%s", path, path[0] ? "." : "", field->name);
        fputs(".TP\n.B ", stdout);
        print_roff(name);
        printf("\n(%s", type_name(field));
        if (field->type == FIELD_INTEGER && (field->minimum || field->maximum))
                printf(", %" PRId64 " to %" PRId64, field->minimum, field->maximum);
        if (field->unit)
                printf(", %s", field->unit);
        if (field->required)
                fputs(", required", stdout);
        if (field->default_text) {
                fputs(", default ", stdout);
                print_roff(field->default_text);
        }
        fputs(")\n", stdout);
        if (field->doc)
                print_roff(field->doc);
        putchar('\n');
        for (const struct field *below = field->fields; below && below->name && depth < 4; below++)
                print_manual_field(below, name, depth + 1);
        for (const struct field *below = field->item ? field->item->fields : NULL;
             below && below->name && depth < 4; below++)
                print_manual_field(below, name, depth + 1);
}

static void print_manifests(void) {
        fputs(".TH BERTH-MANIFESTS 5 \"\" \"berth " BERTH_VERSION "\" \"Berth\"\n.SH NAME\n"
              "berth\\-manifests \\- the kinds of manifest and their fields\n.SH DESCRIPTION\n"
              "A manifest is a YAML document with apiVersion (berth/v1), kind, metadata (name, labels, annotations) and spec. "
              "The fields below are those of spec.\n",
              stdout);
        for (size_t i = 0; i < kind_count; i++) {
                fputs(".SH ", stdout);
                for (const char *letter = kinds[i]->name; *letter; letter++)
                        putchar(*letter);
                putchar('\n');
                print_roff(kinds[i]->doc);
                putchar('\n');
                for (const struct field *field = kinds[i]->fields; field->name; field++)
                        print_manual_field(field, "", 0);
        }
        fputs(".SH SEE ALSO\nberth(1)\n", stdout);
}

/* "help session run" is of that command; "help completion fish" is answered by completion's, which has that word. */
static int check_word(const struct verb *verb, const char *typed, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *words[WORDS_MAX], *at = verb->operands + (verb->operands[0] == '[');
        char *of = arena_printf(arena, "berth %s", verb->name);
        size_t count = 0;

        for (const struct verb_command *command = verb->commands; command && command->name; command++) {
                if (command->name[0] && count < WORDS_MAX)
                        words[count++] = command->name;
        }
        while (!verb->commands && *at >= 'a' && *at <= 'z' && count < WORDS_MAX) {
                size_t length = strcspn(at, "| []");

                words[count++] = arena_strndup(arena, at, length);
                at += length + (at[length] == '|');
        }
        if (count == 0)
                return error_set(err, "%s has no \"%s\": berth help %s shows what it takes", of, typed,
                                 verb->name);
        return suggest_row(of, typed, words, count, sizeof(words[0]), err) ? 0 : -1;
}

int verb_help(const struct options *options, struct error *err) {
        const struct verb_command *command = NULL;
        const struct verb *verb;

        if (options->operand_count == 0) {
                help_print(stdout);
                return EXIT_DONE;
        }
        if (options_find_verb(options->operands[0], &verb, err) < 0)
                return -1;
        if (options->operand_count > 1) {
                if (check_word(verb, options->operands[1], err) < 0)
                        return -1;
                command = commands_find(verb, options->operands[1]);
        }
        help_print_verb(verb, command, stdout);
        return EXIT_DONE;
}

int verb_manual(const struct options *options, struct error *err) {
        const char *page = options->operand_count ? options->operands[0] : "berth";

        if (strcmp(page, "berth") == 0)
                print_program();
        else if (strcmp(page, "manifests") == 0)
                print_manifests();
        else
                return error_set(err, "there is no manual page \"%s\": berth or manifests", page);
        return EXIT_DONE;
}
