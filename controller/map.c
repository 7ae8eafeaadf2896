/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which agents and swarms depend on which environment, as the state has it: no provider is asked. The same data in
 * four forms; lines for people are cut to the terminal, the forms for other programs are not.
 */
#include "controller/map.h"

#include "base/suggest.h"
#include "base/terminal.h"
#include "controller/planning.h"

#include <inttypes.h>
#include <string.h>

static const char prefix[] = "Environment/";

static bool is_environment(const struct record *record) {
        return strncmp(record->address, prefix, sizeof(prefix) - 1) == 0;
}

/* Records come by address, bindings now by environment and dependent: both are walked once. */
static void take_dependents(struct map_environment *environment, const struct binding *bindings, size_t count,
                            size_t *at, struct arena *arena) {
        size_t start;

        while (*at < count && strcmp(bindings[*at].environment, environment->name) < 0)
                (*at)++;
        start = *at;
        while (*at < count && strcmp(bindings[*at].environment, environment->name) == 0)
                (*at)++;
        environment->dependent_count = *at - start;
        environment->dependents = arena_array(arena, *at - start + 1, sizeof(*environment->dependents));
        for (size_t i = start; i < *at; i++)
                environment->dependents[i - start] = (struct map_dependent){
                        .address = bindings[i].dependent,
                        .active = bindings[i].active,
                };
}

static int fail_no_environment(const char *environment, const struct record *records, size_t count,
                               struct arena *arena, struct error *err) {
        const char **names = arena_array(arena, count + 1, sizeof(*names)), *near;
        size_t name_count = 0;

        for (size_t i = 0; i < count; i++) {
                if (is_environment(&records[i]))
                        names[name_count++] = records[i].address + sizeof(prefix) - 1;
        }
        near = suggest_nearest(environment, names, name_count);
        return error_set_kind(err, ERROR_NOT_FOUND, "the state has no environment \"%s\"%s%s%s", environment,
                              near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

int map_load(struct state *state, const char *environment, struct arena *arena, struct map *ret,
             struct error *err) {
        struct record *records;
        struct binding *bindings;
        struct map map = { 0 };
        size_t record_count, binding_count, at = 0;

        if (state_load_records(state, arena, &records, &record_count, err) < 0 ||
            state_load_bindings(state, arena, &bindings, &binding_count, err) < 0)
                return -1;
        bindings_sort(bindings, binding_count);
        map.environments = arena_array(arena, record_count + 1, sizeof(*map.environments));
        for (size_t i = 0; i < record_count; i++) {
                struct map_environment *entry = &map.environments[map.count];
                const char *name;

                if (!is_environment(&records[i]))
                        continue;
                name = records[i].address + sizeof(prefix) - 1;
                if (environment && strcmp(name, environment) != 0)
                        continue;
                if (record_decode(&records[i], arena, err) < 0)
                        return -1;
                *entry = (struct map_environment){
                        .name = name,
                        .memory_mb = value_get_integer(records[i].spec, "memoryMB", 0),
                };
                take_dependents(entry, bindings, binding_count, &at, arena);
                map.count++;
        }
        if (environment && map.count == 0)
                return fail_no_environment(environment, records, record_count, arena, err);
        *ret = map;
        return 0;
}

void map_print_text(const struct map *map, FILE *stream) {
        const char *dim = terminal_style(stream, STYLE_DIM), *plain = terminal_style(stream, STYLE_PLAIN);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        for (size_t i = 0; i < map->count; i++) {
                const struct map_environment *environment = &map->environments[i];

                fprintf(stream, "%s%s%s  %s", terminal_style(stream, STYLE_BOLD), environment->name, plain,
                        dim);
                strbuf_clear(&text);
                strbuf_printf(&text, "%" PRId64 " MB, %zu %s", environment->memory_mb,
                              environment->dependent_count,
                              environment->dependent_count == 1 ? "dependent" : "dependents");
                terminal_print_line(stream, strbuf_text(&text), (int)strlen(environment->name) + 2, 4);
                fputs(plain, stream);
                for (size_t k = 0; k < environment->dependent_count; k++) {
                        strbuf_clear(&text);
                        strbuf_printf(&text, "  %s %s%s", k + 1 == environment->dependent_count ? "`-" : "|-",
                                      environment->dependents[k].address,
                                      environment->dependents[k].active ? "" : "  (inactive)");
                        terminal_print_line(stream, strbuf_text(&text), 0, 7);
                }
        }
}

/* Names are DNS labels and addresses made of them: nothing in them needs escaping. */
void map_print_dot(const struct map *map, FILE *stream) {
        fputs("digraph berth {\n  rankdir=LR;\n  node [shape=box];\n", stream);
        for (size_t i = 0; i < map->count; i++) {
                const struct map_environment *environment = &map->environments[i];

                fprintf(stream, "  \"Environment/%s\" [style=bold];\n", environment->name);
                for (size_t k = 0; k < environment->dependent_count; k++)
                        fprintf(stream, "  \"%s\" -> \"Environment/%s\"%s;\n",
                                environment->dependents[k].address, environment->name,
                                environment->dependents[k].active ? "" : " [style=dashed]");
        }
        fputs("}\n", stream);
}

static void mermaid_id(const char *address, FILE *stream) {
        for (; *address; address++)
                fputc(*address == '/' ? '_' : *address, stream);
}

void map_print_mermaid(const struct map *map, FILE *stream) {
        fputs("graph LR\n", stream);
        for (size_t i = 0; i < map->count; i++) {
                const struct map_environment *environment = &map->environments[i];

                fprintf(stream, "  Environment_%s[[\"%s\"]]\n", environment->name, environment->name);
                for (size_t k = 0; k < environment->dependent_count; k++) {
                        const struct map_dependent *dependent = &environment->dependents[k];

                        fputs("  ", stream);
                        mermaid_id(dependent->address, stream);
                        fprintf(stream, "[\"%s\"] %s Environment_%s\n", dependent->address,
                                dependent->active ? "-->" : "-.->", environment->name);
                }
        }
}

json_t *map_json(const struct map *map) {
        json_t *environments = json_array();

        for (size_t i = 0; i < map->count; i++) {
                const struct map_environment *environment = &map->environments[i];
                json_t *dependents = json_array();

                for (size_t k = 0; k < environment->dependent_count; k++)
                        json_array_append_new(dependents,
                                              json_pack("{s:s, s:b}", "address",
                                                        environment->dependents[k].address, "active",
                                                        environment->dependents[k].active));
                json_array_append_new(environments, json_pack("{s:s, s:I, s:o}", "name", environment->name,
                                                              "memoryMB", (json_int_t)environment->memory_mb,
                                                              "dependents", dependents));
        }
        return json_pack("{s:o}", "environments", environments);
}
