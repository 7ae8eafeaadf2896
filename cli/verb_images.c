/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the registry's images, each with its verdict: usable, or why not. Names are the registry's, and printed safe. */
#include "base/strbuf.h"
#include "base/terminal.h"
#include "base/text_utf8.h"
#include "cli/registry.h"
#include "cli/verbs.h"

#include <string.h>
#include <unistd.h>

#define DIGEST_SHOWN 19 /* "sha256:" and twelve digits */

static const char not_verified[] = "not verified";

static void print_verdict(const struct image_row *row) {
        if (row->unverified) {
                printf("%s\n", not_verified);
                return;
        }
        printf("%s%s%s%s%s\n", terminal_style(stdout, row->problem ? STYLE_RED : STYLE_GREEN),
               row->problem ? "unusable" : "usable", terminal_style(stdout, STYLE_PLAIN),
               row->problem ? ": " : "", row->problem ? row->problem : "");
}

/* One line in columns, or, on a terminal too narrow for them, a line for each of name, digest and the rest. */
static void print_image(const struct image_row *row, int repository_width, int tags_width, bool narrow) {
        struct strbuf repository STRBUF_CLEANUP = STRBUF_INIT, tags STRBUF_CLEANUP = STRBUF_INIT,
                                 digest STRBUF_CLEANUP = STRBUF_INIT;
        char size[32], pushed[32] = "-";

        text_append_safe(&repository, row->repository);
        for (size_t i = 0; i < row->tag_count; i++) {
                strbuf_append(&tags, i ? "," : "");
                text_append_safe(&tags, row->tags[i]);
        }
        text_append_safe(&digest, row->digest ? row->digest : "-");
        if (row->pushed_ms > 0)
                clock_format(row->pushed_ms, pushed, sizeof(pushed));
        pushed[10] = '\0';
        registry_size(row->size, size, sizeof(size));
        if (narrow)
                printf("%s  %s\n    %.*s  %s\n    %s  ", strbuf_text(&repository),
                       tags.length ? strbuf_text(&tags) : "-", DIGEST_SHOWN, strbuf_text(&digest), pushed,
                       size);
        else
                printf("%-*s  %-*s  %-*.*s  %-10s  %9s  ", repository_width, strbuf_text(&repository),
                       tags_width, tags.length ? strbuf_text(&tags) : "-", DIGEST_SHOWN, DIGEST_SHOWN,
                       strbuf_text(&digest), pushed, size);
        print_verdict(row);
}

/* Beyond 32 columns a row is out of line, rather than all of them wider. */
static int tags_columns(const struct image_row *row) {
        size_t columns = row->tag_count ? row->tag_count - 1 : 1;

        for (size_t i = 0; i < row->tag_count; i++)
                columns += strlen(row->tags[i]);
        return columns > 32 ? 32 : (int)columns;
}

static void print_table(const struct image_row *rows, size_t count) {
        int repository_width = 10, tags_width = 4, verdict_width = 7;
        bool narrow;

        for (size_t i = 0; i < count; i++) {
                int repository = (int)strlen(rows[i].repository), tags = tags_columns(&rows[i]);
                int verdict = rows[i].unverified ? (int)strlen(not_verified)
                              : rows[i].problem  ? 10 + (int)strlen(rows[i].problem)
                                                 : 6;

                repository_width = repository > repository_width ? repository : repository_width;
                tags_width = tags > tags_width ? tags : tags_width;
                verdict_width = verdict > verdict_width ? verdict : verdict_width;
        }
        narrow = isatty(STDOUT_FILENO) &&
                 repository_width + 2 + tags_width + 2 + DIGEST_SHOWN + 2 + 10 + 2 + 9 + 2 + verdict_width >
                         terminal_width(stdout);
        if (!narrow)
                printf("%s%-*s  %-*s  %-*s  %-10s  %9s  %s%s\n", terminal_style(stdout, STYLE_BOLD),
                       repository_width, "REPOSITORY", tags_width, "TAGS", DIGEST_SHOWN, "DIGEST", "PUSHED",
                       "SIZE", "VERDICT", terminal_style(stdout, STYLE_PLAIN));
        for (size_t i = 0; i < count; i++)
                print_image(&rows[i], repository_width, tags_width, narrow);
}

/* As image check takes them; what has no tag has no name. */
static void print_names(const struct image_row *rows, size_t count) {
        for (size_t i = 0; i < count; i++) {
                struct strbuf repository STRBUF_CLEANUP = STRBUF_INIT;

                text_append_safe(&repository, rows[i].repository);
                for (size_t j = 0; j < rows[i].tag_count; j++) {
                        struct strbuf tag STRBUF_CLEANUP = STRBUF_INIT;

                        text_append_safe(&tag, rows[i].tags[j]);
                        printf("%s:%s\n", strbuf_text(&repository), strbuf_text(&tag));
                }
        }
}

int verb_images(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;
        struct image_row *rows;
        size_t count;

        session_init(&session);
        if (options->output && strcmp(options->output, "name") != 0)
                return error_set(err, "berth images -o takes name, not \"%s\"", options->output);
        if (registry_open(&session, options, err) < 0 ||
            session.provider_ops->images->list(session.provider,
                                               options->operand_count ? options->operands[0] : NULL,
                                               session.arena, &rows, &count, err) < 0)
                return -1;
        if (options->output) {
                print_names(rows, count);
                return EXIT_DONE;
        }
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
                fputs("There are no images yet; berth image instructions shows how to add some.\n", stderr);
        return EXIT_DONE;
}
