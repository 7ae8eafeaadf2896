/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry holds, each image with the verdict on it. */
#include "base/strbuf.h"
#include "base/terminal.h"
#include "cli/registry.h"
#include "cli/verbs.h"

#include <string.h>

#define DIGEST_SHOWN 19 /* "sha256:" and twelve digits */

static void print_row(const struct image_row *row, int repository_width, int tags_width) {
        struct strbuf tags STRBUF_CLEANUP = STRBUF_INIT;
        char size[32], pushed[32] = "-";

        for (size_t i = 0; i < row->tag_count; i++)
                strbuf_printf(&tags, "%s%s", i ? "," : "", row->tags[i]);
        if (row->pushed_ms > 0)
                clock_format(row->pushed_ms, pushed, sizeof(pushed));
        pushed[10] = '\0';
        printf("%-*s  %-*s  %-*.*s  %-10s  %9s  %s%s%s%s%s\n", repository_width, row->repository, tags_width,
               tags.length ? strbuf_text(&tags) : "-", DIGEST_SHOWN, DIGEST_SHOWN, row->digest, pushed,
               registry_size(row->size, size, sizeof(size)),
               terminal_style(stdout, row->problem ? STYLE_RED : STYLE_GREEN),
               row->problem ? "unusable" : "usable", terminal_style(stdout, STYLE_PLAIN),
               row->problem ? ": " : "", row->problem ? row->problem : "");
}

static int tags_columns(const struct image_row *row) {
        size_t columns = row->tag_count ? row->tag_count - 1 : 1;

        for (size_t i = 0; i < row->tag_count; i++)
                columns += strlen(row->tags[i]);
        return columns > 32 ? 32 : (int)columns;
}

static void print_table(const struct image_row *rows, size_t count) {
        int repository_width = 10, tags_width = 4;

        for (size_t i = 0; i < count; i++) {
                int repository = (int)strlen(rows[i].repository), tags = tags_columns(&rows[i]);

                repository_width = repository > repository_width ? repository : repository_width;
                tags_width = tags > tags_width ? tags : tags_width;
        }
        printf("%s%-*s  %-*s  %-*s  %-10s  %9s  %s%s\n", terminal_style(stdout, STYLE_BOLD), repository_width,
               "REPOSITORY", tags_width, "TAGS", DIGEST_SHOWN, "DIGEST", "PUSHED", "SIZE", "VERDICT",
               terminal_style(stdout, STYLE_PLAIN));
        for (size_t i = 0; i < count; i++)
                print_row(&rows[i], repository_width, tags_width);
}

int verb_images(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct image_row *rows;
        size_t count;

        session_init(&session);
        if (registry_open(&session, options, err) < 0 ||
            session.provider_ops->images->list(session.provider,
                                               options->operand_count ? options->operands[0] : NULL,
                                               session.arena, &rows, &count, err) < 0)
                return -1;
        if (options->json) {
                json_t *list = json_array();

                for (size_t i = 0; i < count; i++)
                        json_array_append_new(list, registry_row_json(&rows[i]));
                print_json(list);
                return EXIT_DONE;
        }
        if (count > 0)
                print_table(rows, count);
        else if (!options->quiet)
                fputs("The registry holds no image; berth image instructions tells how to fill it.\n",
                      stderr);
        return EXIT_DONE;
}
