/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what was applied, from the state alone. */
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/text_utf8.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/plan.h"
#include "controller/state_edit.h"
#include "schema/yaml_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct filter {
        const struct kind *kind; /* NULL: any */
        const char *name;        /* NULL: any */
};

static int parse_filter(const struct options *options, struct arena *arena, struct filter *ret,
                        struct error *err) {
        const char *typed = options->operand_count ? options->operands[0] : NULL;
        const char *slash = typed ? strchr(typed, '/') : NULL;
        const char *kind_name = slash ? arena_strndup(arena, typed, (size_t)(slash - typed)) : typed;
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT;
        const char *near;

        *ret = (struct filter){ 0 };
        if (!typed)
                return 0;
        ret->kind = kind_find_loosely(kind_name);
        ret->name = slash ? slash + 1 : NULL;
        if (ret->kind)
                return 0;
        near = kind_nearest(kind_name);
        if (near)
                return error_set(err, "there is no kind \"%s\"; did you mean %s?", kind_name, near);
        kind_append_names(&names);
        if (!*kind_name)
                return error_set(err, "the kind is missing; the kinds are %s", strbuf_text(&names));
        return error_set(err, "there is no kind \"%s\"; the kinds are %s", kind_name, strbuf_text(&names));
}

static const struct kind *kind_of(const char *address) {
        const struct kind *kind;
        const char *name;
        struct error ignored;

        return address_parse(address, &kind, &name, &ignored) == 0 ? kind : NULL;
}

static bool passes(const struct filter *filter, const struct record *record) {
        if (filter->kind && kind_of(record->address) != filter->kind)
                return false;
        return !filter->name || strcmp(strchr(record->address, '/') + 1, filter->name) == 0;
}

static json_t *record_json(const struct record *record) {
        char applied[32];

        clock_format(record->applied_ms, applied, sizeof(applied));
        return json_pack("{s:s, s:s, s:s?, s:s, s:b, s:o}", "address", record->address, "provider",
                         record->provider, "id", record->id, "appliedAt", applied, "incomplete",
                         record->incomplete, "spec", value_to_json(record->spec, NULL));
}

#define APPLIED_COLUMNS 20 /* "2026-01-31T12:00:00Z" */

/* One line in columns, or, where the terminal is too narrow for some row, the address on a line of its own. */
static void print_record(const struct record *record, int width, bool narrow) {
        struct strbuf id STRBUF_CLEANUP = STRBUF_INIT, text STRBUF_CLEANUP = STRBUF_INIT;
        char applied[32];

        clock_format(record->applied_ms, applied, sizeof(applied));
        text_append_safe(&id, record->id ? record->id : "-");
        if (narrow) {
                strbuf_printf(&text, "%s %s%s", applied, strbuf_text(&id),
                              record->incomplete ? " (incomplete)" : "");
                printf("%s\n    ", record->address);
                terminal_print_line(stdout, strbuf_text(&text), 4, 4);
        } else {
                printf("%-*s  %s  %s%s\n", width, record->address, applied, strbuf_text(&id),
                       record->incomplete ? "  (incomplete)" : "");
        }
}

/* The spec in full, its lines set in; secrets in it are hashes. */
static int print_one(const struct record *record) {
        json_t *spec JSON_CLEANUP = value_to_json(record->spec, NULL);
        char *text TEXT_CLEANUP = json_for_eyes(spec, JSON_SORT_KEYS);

        printf("%s%s%s\n  id        ", terminal_style(stdout, STYLE_BOLD), record->address,
               terminal_style(stdout, STYLE_PLAIN));
        terminal_print_safe(stdout, record->id ? record->id : "-");
        fputs("\n  spec      ", stdout);
        for (const char *at = text; *at; at++) {
                putchar(*at);
                if (*at == '\n')
                        printf("            ");
        }
        putchar('\n');
        return EXIT_DONE;
}

static int compare_records(const void *a, const void *b) {
        const struct record *left = a, *right = b;
        const struct kind *left_kind = kind_of(left->address), *right_kind = kind_of(right->address);

        if (left_kind && right_kind && left_kind != right_kind)
                return left_kind->id < right_kind->id ? -1 : 1;
        return strcmp(left->address, right->address);
}

static int check_output(const struct options *options, struct error *err) {
        static const char *const forms[] = { "json", "yaml", "name", NULL };

        if (!options->output || text_is_among(options->output, forms))
                return 0;
        return error_set(err, "berth get -o takes json, yaml or name, not \"%s\"", options->output);
}

static bool is_output(const struct options *options, const char *form) {
        return options->output && strcmp(options->output, form) == 0;
}

static int print_records(const struct options *options, struct record *records, size_t count, bool single) {
        json_t *list = json_array();
        int width = 0, rest = 0;

        if (count > 1)
                qsort(records, count, sizeof(*records), compare_records);
        for (size_t i = 0; i < count; i++) {
                int columns = (int)strlen(records[i].address);

                int id = records[i].id ? (int)strlen(records[i].id) : 1;

                width = columns > width ? columns : width;
                rest = id > rest ? id : rest;
                json_array_append_new(list, record_json(&records[i]));
        }
        if (is_output(options, "yaml")) {
                yaml_print(list, stdout);
                json_decref(list);
                return EXIT_DONE;
        }
        if (options->json || is_output(options, "json")) {
                print_json(list);
                return EXIT_DONE;
        }
        json_decref(list);
        if (is_output(options, "name")) {
                for (size_t i = 0; i < count; i++)
                        puts(records[i].address);
                return EXIT_DONE;
        }
        if (single && count == 1)
                return print_one(&records[0]);
        for (size_t i = 0; i < count; i++)
                print_record(&records[i], width,
                             isatty(STDOUT_FILENO) &&
                                     width + 2 + APPLIED_COLUMNS + 2 + rest > terminal_width(stdout));
        return EXIT_DONE;
}

static void print_nothing(const struct filter *filter) {
        if (filter->kind)
                fprintf(stderr, "No %s was applied yet.\n", filter->kind->name);
        else
                fputs("Nothing was applied yet.\n", stderr);
}

int verb_get(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct filter filter;
        struct record *records;
        size_t count, kept = 0;

        session_init(&session);
        if (check_output(options, err) < 0 || parse_filter(options, session.arena, &filter, err) < 0 ||
            (options->state ? session_open_existing(&session, options, err)
                            : session_open_state(&session, options, STATE_READ, err)) < 0 ||
            state_load_records(session.state, session.arena, &records, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (!passes(&filter, &records[i]))
                        continue;
                if (record_decode(&records[i], session.arena, err) < 0)
                        return -1;
                records[kept++] = records[i];
        }
        if (filter.name && kept == 0)
                return state_edit_not_found(
                        records, count, arena_printf(session.arena, "%s/%s", filter.kind->name, filter.name),
                        session.arena, err);
        if (kept == 0 && !options->json && !options->output && !options->quiet)
                print_nothing(&filter);
        return print_records(options, records, kept, filter.name != NULL);
}
