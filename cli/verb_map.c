/* SPDX-License-Identifier: Apache-2.0 */
/* map: environments and who uses them, from the state alone, in four forms. */
#include "cli/session.h"
#include "cli/verbs.h"
#include "controller/map.h"

#include <string.h>

int verb_map(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        const char *format = options->json ? "json" : options->format ? options->format : "text";
        const char *environment = options->operand_count ? options->operands[0] : NULL;
        struct map map;

        if (environment && strncmp(environment, "Environment/", 12) == 0)
                environment += 12;
        session_init(&session);
        if ((options->state ? session_open_existing(&session, options, err)
                            : session_open_state(&session, options, STATE_READ, err)) < 0 ||
            map_load(session.state, environment, session.arena, &map, err) < 0)
                return -1;
        if (strcmp(format, "json") == 0)
                print_json(map_json(&map));
        else if (strcmp(format, "dot") == 0)
                map_print_dot(&map, stdout);
        else if (strcmp(format, "mermaid") == 0)
                map_print_mermaid(&map, stdout);
        else if (strcmp(format, "text") == 0)
                map_print_text(&map, stdout);
        else
                return error_set(err, "berth map: --format takes text, json, dot or mermaid, not \"%s\"",
                                 format);
        if (map.count == 0 && strcmp(format, "text") == 0 && !options->quiet)
                fputs("No environment was applied yet.\n", stderr);
        return EXIT_DONE;
}
