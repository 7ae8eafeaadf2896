/* SPDX-License-Identifier: Apache-2.0 */
/* One image: whether it is of use, and how to make one that is. */
#include "base/clock.h"
#include "base/terminal.h"
#include "cli/registry.h"
#include "cli/verbs.h"

#include <string.h>

static void print_verdict(const struct image_row *row, const char *reference) {
        const char *plain = terminal_style(stdout, STYLE_PLAIN);
        char size[32];

        if (row->problem) {
                printf("%sunusable%s (%s): ", terminal_style(stdout, STYLE_RED), plain, row->problem);
                terminal_print_safe(stdout, row->message);
                printf("\n%sremedy:%s %s\n", terminal_style(stdout, STYLE_BOLD), plain, row->remedy);
                return;
        }
        printf("%susable%s: %s is %s, %s, %s in the registry\n", terminal_style(stdout, STYLE_GREEN), plain,
               reference, row->digest, row->platform, registry_size(row->size, size, sizeof(size)));
}

static int check(struct session *session, const struct options *options, struct error *err) {
        struct image_row row;

        if (options->operand_count < 2)
                return error_set(
                        err, "berth image check needs an image: berth image check REPOSITORY[:TAG|@DIGEST]");
        if (registry_open(session, options, err) < 0 ||
            session->provider_ops->images->check(session->provider, options->operands[1], session->arena,
                                                 &row, err) < 0)
                return -1;
        if (options->json)
                print_json(registry_row_json(&row));
        else
                print_verdict(&row, options->operands[1]);
        return row.problem ? EXIT_REFUSED : EXIT_DONE;
}

static void print_imported(const struct image_row *row) {
        char size[32];

        printf("%simported%s: %s:%s is %s, %s, %s\n", terminal_style(stdout, STYLE_GREEN),
               terminal_style(stdout, STYLE_PLAIN), row->repository, row->tags[0], row->digest, row->platform,
               registry_size(row->size, size, sizeof(size)));
        if (row->note)
                printf("%s\n", row->note);
}

static int import(struct session *session, const struct options *options, struct error *err) {
        struct image_row row;

        if (options->operand_count < 3)
                return error_set(err,
                                 "berth image import needs a name and an image: berth image import NAME:TAG "
                                 "PATH, where PATH is an OCI layout or archive, or what docker save writes");
        interrupt_install();
        if (registry_open(session, options, err) < 0)
                return -1;
        if (!session->provider_ops->images->import)
                return error_set(
                        err,
                        "images are imported into the store of this machine (--provider local); with "
                        "the provider %s they are pushed: berth image instructions",
                        session->provider_ops->name);
        if (session->provider_ops->images->import(session->provider, options->operands[1],
                                                  options->operands[2], session->arena, &row, err) < 0)
                return -1;
        if (options->json)
                print_json(registry_row_json(&row));
        else if (row.problem)
                print_verdict(&row, options->operands[2]);
        else if (!options->quiet)
                print_imported(&row);
        return row.problem ? EXIT_REFUSED : EXIT_DONE;
}

static json_t *instructions_json(const struct image_instructions *instructions) {
        json_t *targets = json_array(), *recipes = json_array();

        for (size_t i = 0; i < instructions->target_count; i++) {
                const struct image_target *target = &instructions->targets[i];

                json_array_append_new(targets, json_pack("{s:s, s:s, s:s, s:b}", "repository",
                                                         target->repository, "tag", target->tag, "uri",
                                                         target->uri, "exists", target->exists));
        }
        for (size_t i = 0; i < instructions->recipe_count; i++) {
                const struct image_recipe *recipe = &instructions->recipes[i];
                json_t *commands = json_array();

                for (size_t k = 0; k < recipe->command_count; k++)
                        json_array_append_new(commands, json_string(recipe->commands[k]));
                json_array_append_new(recipes, json_pack("{s:s, s:s?, s:s, s:o}", "tool", recipe->tool,
                                                         "repository", recipe->repository, "purpose",
                                                         recipe->purpose, "commands", commands));
        }
        return json_pack("{s:s, s:o, s:o}", "registry", instructions->registry, "images", targets, "recipes",
                         recipes);
}

/* A shell script but for SOURCE: what is not a command is a comment. */
static void print_instructions(const struct image_instructions *instructions) {
        const char *dim = terminal_style(stdout, STYLE_DIM), *plain = terminal_style(stdout, STYLE_PLAIN);
        const char *last = NULL;

        for (size_t i = 0; i < instructions->recipe_count; i++) {
                const struct image_recipe *recipe = &instructions->recipes[i];

                if (recipe->repository && (!last || strcmp(last, recipe->repository) != 0))
                        printf("\n%s# %s%s\n", terminal_style(stdout, STYLE_BOLD), recipe->repository, plain);
                last = recipe->repository;
                printf("%s# %s: %s%s\n", dim, recipe->tool, recipe->purpose, plain);
                for (size_t k = 0; k < recipe->command_count; k++)
                        printf("%s\n", recipe->commands[k]);
        }
}

static int instructions(struct session *session, const struct options *options, struct error *err) {
        struct image_instructions found;

        if (registry_open(session, options, err) < 0 ||
            session->provider_ops->images->instructions(session->provider, &session->manifests,
                                                        options->operand_count > 1 ? options->operands[1]
                                                                                   : NULL,
                                                        session->arena, &found, err) < 0)
                return -1;
        if (options->json)
                print_json(instructions_json(&found));
        else
                print_instructions(&found);
        return EXIT_DONE;
}

int verb_image(const struct options *options, struct error *err) {
        struct session session SESSION_CLEANUP;

        session_init(&session);
        if (strcmp(options->operands[0], "check") == 0)
                return check(&session, options, err);
        if (strcmp(options->operands[0], "instructions") == 0)
                return instructions(&session, options, err);
        if (strcmp(options->operands[0], "import") == 0)
                return import(&session, options, err);
        return error_set(err, "berth image takes check, instructions or import, not \"%s\"",
                         options->operands[0]);
}
