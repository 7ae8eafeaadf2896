/* SPDX-License-Identifier: Apache-2.0 */
/* image: checks, imports, builds and removes images, puts the runtime on them, and shows how to make them. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/terminal.h"
#include "cli/registry.h"
#include "cli/shell.h"
#include "cli/verbs.h"
#include "providers/aws/client/partition.h"
#include "providers/local/images/image_runtime.h"
#include "providers/local/local_layout.h"

#include <string.h>
#include <unistd.h>

static void print_verdict(const struct image_row *row, const char *reference) {
        const char *plain = terminal_style(stdout, STYLE_PLAIN);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char size[32];

        if (row->problem) {
                printf("%sunusable%s (%s): ", terminal_style(stdout, STYLE_RED), plain, row->problem);
                terminal_print_line(stdout, row->message, 13 + (int)strlen(row->problem), 2);
                printf("%sremedy:%s ", terminal_style(stdout, STYLE_BOLD), plain);
                terminal_print_wrapped(stdout, row->remedy, 8, 2);
                return;
        }
        if (row->unverified) {
                fputs("not verified: ", stdout);
                terminal_print_line(stdout, row->unverified, 14, 2);
                return;
        }
        printf("%susable%s: ", terminal_style(stdout, STYLE_GREEN), plain);
        strbuf_printf(&text, "%s is %s, %s, %s in the registry", reference, row->digest, row->platform,
                      registry_size(row->size, size, sizeof(size)));
        strbuf_printf(&text, ", %s%s", row->runtime ? "runtime " : "without a runtime",
                      row->runtime ? row->runtime : "");
        terminal_print_line(stdout, strbuf_text(&text), 8, 2);
}

static int subverb_check(struct session *session, const struct options *options, struct error *err) {
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
        if (row.unverified)
                return EXIT_ERROR;
        return row.problem ? EXIT_REFUSED : EXIT_DONE;
}

/* "imported: NAME:TAG is DIGEST, PLATFORM, SIZE" */
static void print_done(const char *done, const struct image_row *row) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char size[32];

        printf("%s%s%s: ", terminal_style(stdout, STYLE_GREEN), done, terminal_style(stdout, STYLE_PLAIN));
        strbuf_printf(&text, "%s:%s is %s, %s, %s", row->repository, row->tags[0], row->digest, row->platform,
                      registry_size(row->size, size, sizeof(size)));
        terminal_print_line(stdout, strbuf_text(&text), (int)strlen(done) + 2, 2);
        if (row->note)
                terminal_print_line(stdout, row->note, 0, 0);
}

static int subverb_import(struct session *session, const struct options *options, struct error *err) {
        struct image_row row;

        if (options->operand_count < 3)
                return error_set(err,
                                 "berth image import needs a name and an image: berth image import NAME:TAG "
                                 "PATH, where PATH is an OCI layout or archive, or what docker save writes");
        interrupt_install();
        interrupt_on_hangup();
        if (session_load(session, options, false, err) < 0 ||
            session_open_provider(session, options, err) < 0)
                return -1;
        if (!session->provider_ops->images || !session->provider_ops->images->import)
                return error_set(
                        err,
                        "images are imported into the store of this machine (--provider local); with "
                        "the provider %s they are pushed: berth image instructions",
                        session->provider_ops->name);
        if (!options->quiet && isatty(STDERR_FILENO))
                fputs("Verifying and unpacking. Large images take a while.\n", stderr);
        if (session->provider_ops->images->import(session->provider, options->operands[1],
                                                  options->operands[2], session->arena, &row, err) < 0)
                return -1;
        if (options->json)
                print_json(registry_row_json(&row));
        else if (row.problem)
                print_verdict(&row, options->operands[2]);
        else if (!options->quiet)
                print_done("imported", &row);
        return row.problem ? EXIT_REFUSED : EXIT_DONE;
}

/* --- build --- */

#define PUSH_COMMANDS 3

/* The Stack's registry on AWS; in capitals what the manifests do not say. */
static const char *registry_of(const struct session *session, const char **ret_region) {
        const struct value *aws = value_get(session->manifests.stack->spec, "aws");
        const char *account = value_get_text(aws, "account"), *region = value_get_text(aws, "region");
        struct error ignored;
        const struct partition *partition = region ? partition_of_region(region, &ignored) : NULL;

        *ret_region = region ? region : "REGION";
        return arena_printf(session->arena, "%s.dkr.ecr.%s.%s", account ? account : "ACCOUNT", *ret_region,
                            partition ? partition->domain : "amazonaws.com");
}

/* The commands that push the image to where environments on AWS look for it. */
static void list_push_commands(struct session *session, const struct options *options,
                               const struct image_row *row, const char *ret[PUSH_COMMANDS]) {
        const struct resource *stack = session->manifests.stack;
        const char *prefix = value_get_text(value_get(stack->spec, "aws"), "namePrefix");
        const char *store = local_images_folder(
                local_root(session_state_folder(session, options), stack->name, session->arena),
                value_get(stack->spec, "local"), session->arena);
        struct strbuf word STRBUF_CLEANUP = STRBUF_INIT;
        const char *region, *registry = registry_of(session, &region);
        const char *from = options->output ? arena_printf(session->arena, "oci-archive:%s", options->output)
                                           : arena_printf(session->arena, "oci:%s:%s:%s", store,
                                                          row->repository, row->tags[0]);

        if (!prefix)
                prefix = "alphaagent";
        ret[0] = arena_printf(session->arena, "aws ecr create-repository --region %s --repository-name %s/%s",
                              region, prefix, row->repository);
        ret[1] = arena_printf(session->arena,
                              "aws ecr get-login-password --region %s | skopeo login --username AWS "
                              "--password-stdin %s",
                              region, registry);
        shell_append_word(&word, from);
        ret[2] = arena_printf(session->arena, "skopeo copy %s docker://%s/%s/%s:%s", strbuf_text(&word),
                              registry, prefix, row->repository, row->tags[0]);
}

static void print_built(const struct image_row *row, const char *const commands[PUSH_COMMANDS]) {
        const char *dim = terminal_style(stdout, STYLE_DIM), *plain = terminal_style(stdout, STYLE_PLAIN);

        print_done("built", row);
        printf("%s# On this machine, berth apply uses it. For AWS, push it (the first line only once):%s\n",
               dim, plain);
        for (size_t i = 0; i < PUSH_COMMANDS; i++)
                printf("%s\n", commands[i]);
}

static json_t *built_json(const struct image_row *row, const char *const commands[PUSH_COMMANDS]) {
        json_t *json = registry_row_json(row), *push = json_array();

        for (size_t i = 0; i < PUSH_COMMANDS; i++)
                json_array_append_new(push, json_from_text(commands[i]));
        json_object_set_new(json, "push", push);
        return json;
}

/* Always builds on this machine, whatever the Stack's provider: an image for AWS is pushed afterwards. */
static int build_image(struct session *session, const struct options *options, struct error *err) {
        struct image_build_request request = {
                .mirror = options->mirror,
                .out = options->output,
                .messages = options->quiet ? -1 : STDERR_FILENO,
        };
        struct options here = *options;
        const char *commands[PUSH_COMMANDS];
        struct image_row row;

        if (options->operand_count != 2)
                return error_set(err, "berth image build needs only the name of a prebuilt image: "
                                      "berth image build python");
        request.name = options->operands[1];
        here.provider = "local";
        interrupt_install();
        interrupt_on_hangup();
        if (registry_open(session, &here, err) < 0 ||
            session->provider_ops->images->build(session->provider, &request, session->arena, &row, err) < 0)
                return -1;
        if (row.problem) {
                if (options->json)
                        print_json(registry_row_json(&row));
                else
                        print_verdict(&row, request.name);
                return EXIT_REFUSED;
        }
        list_push_commands(session, options, &row, commands);
        if (options->json)
                print_json(built_json(&row, commands));
        else
                print_built(&row, commands);
        return EXIT_DONE;
}

/* --- runtime --- */

/* As a shell's commands are named: a path has a slash in front, but for an archive that is called one. */
static bool is_path(const char *text) {
        static const char *const begins[] = { "/", "./", "../" };
        size_t length = strlen(text);

        for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
                if (strncmp(text, begins[i], strlen(begins[i])) == 0)
                        return true;
        }
        return length > 4 && strcmp(text + length - 4, ".tar") == 0;
}

static int print_with_runtime(const struct options *options, const struct image_row *row) {
        if (options->json)
                print_json(registry_row_json(row));
        else if (row->problem)
                print_verdict(row, options->operands[1]);
        else if (!options->quiet)
                print_done(options->output ? "written" : options->push ? "pushed" : "made", row);
        return row->problem ? EXIT_REFUSED : EXIT_DONE;
}

/*
 * On this machine, whatever the Stack's provider, except with --push: then the image is in the
 * Stack's registry.
 */
static int subverb_runtime(struct session *session, const struct options *options, struct error *err) {
        struct image_runtime_request request = { .out = options->output };
        struct options where = *options;
        struct image_layer layer;
        struct image_row row;

        if (options->operand_count < 2)
                return error_set(err, "berth image runtime needs an image: berth image runtime "
                                      "REPOSITORY[:TAG] [TAG], or PATH -o FILE");
        if (options->push && options->output)
                return error_set(err, "berth image runtime takes --push or --output, not both");
        request.reference = options->operands[1];
        request.tag = options->operand_count > 2 ? options->operands[2] : NULL;
        request.is_file = is_path(request.reference);
        if (options->push && request.is_file)
                return error_set(err,
                                 "--push is for an image of the Stack's registry: give %s the runtime with "
                                 "-o FILE, and push that: skopeo copy oci-archive:FILE docker://...",
                                 request.reference);
        if (!options->push)
                where.provider = "local";
        interrupt_install();
        interrupt_on_hangup();
        if (registry_open(session, &where, err) < 0)
                return -1;
        if (options->push && strcmp(session->provider_ops->name, "aws") != 0)
                return error_set(err,
                                 "--push is for stacks on AWS (--provider aws): on this machine the image "
                                 "is kept in the store");
        if (options->push) {
                if (image_runtime_layer(session->arena, &layer, err) < 0)
                        return -1;
                request.layer = &layer;
        }
        if (session->provider_ops->images->add_runtime(session->provider, &request, session->arena, &row,
                                                       err) < 0)
                return -1;
        return print_with_runtime(options, &row);
}

/* --- remove, prune --- */

/* Opens the provider; an error where it has no image store on this machine. */
static int open_store(struct session *session, const struct options *options, struct error *err) {
        if (session_load(session, options, false, err) < 0 ||
            session_open_provider(session, options, err) < 0)
                return -1;
        if (session->provider_ops->images && session->provider_ops->images->remove)
                return 0;
        return error_set(err,
                         "images are removed from the store of this machine (--provider local); with the "
                         "provider %s the registry removes them, by an Image's retain",
                         session->provider_ops->name);
}

/* The note says why the image itself stayed, where only one of its names was taken away. */
static void print_removed(const struct image_row *row) {
        printf("%sremoved%s: %s%s%s (%s)\n", terminal_style(stdout, STYLE_GREEN),
               terminal_style(stdout, STYLE_PLAIN), row->repository, row->tag_count ? ":" : "",
               row->tag_count ? row->tags[0] : "", row->digest);
        if (row->note)
                printf("%s\n", row->note);
}

static int remove_image(struct session *session, const struct options *options, struct error *err) {
        struct image_row row;

        if (options->operand_count != 2)
                return error_set(
                        err, "berth image remove needs one image: berth image remove REPOSITORY[:TAG], or "
                             "the digest of an image without a name; berth images shows both");
        if (open_store(session, options, err) < 0 ||
            session->provider_ops->images->remove(session->provider, options->operands[1], session->arena,
                                                  &row, err) < 0)
                return -1;
        if (options->json)
                print_json(registry_row_json(&row));
        else if (!options->quiet)
                print_removed(&row);
        return EXIT_DONE;
}

static json_t *pruned_json(const struct image_row *rows, size_t count, bool removed) {
        json_t *list = json_array();

        for (size_t i = 0; i < count; i++)
                json_array_append_new(list, registry_row_json(&rows[i]));
        return json_pack("{s:b, s:o}", "removed", removed, "images", list);
}

/* A row with a note is in use, and stays. */
static void print_pruned(const struct image_row *rows, size_t count, bool removed, bool quiet) {
        char size[32], imported[32];
        int64_t bytes = 0;
        size_t gone = 0;

        for (size_t i = 0; i < count; i++) {
                clock_format(rows[i].pushed_ms, imported, sizeof(imported));
                if (!quiet)
                        printf("  %s  %.10s  %9s%s%s\n", rows[i].digest, rows[i].pushed_ms ? imported : "-",
                               registry_size(rows[i].size, size, sizeof(size)), rows[i].note ? "  " : "",
                               rows[i].note ? rows[i].note : "");
                gone += !rows[i].note;
                bytes += rows[i].note ? 0 : rows[i].size;
        }
        if (gone == 0)
                printf("Nothing to remove: %s.\n",
                       count ? "all images without a name are in use"
                             : "each image has a name, or an environment that runs it");
        else
                printf("%s %zu %s, %s packed.%s\n", removed ? "Removed" : "Would remove", gone,
                       gone == 1 ? "image" : "images", registry_size(bytes, size, sizeof(size)),
                       removed ? "" : " berth image prune --yes does it.");
}

static int prune_images(struct session *session, const struct options *options, struct error *err) {
        struct image_row *rows;
        size_t count;

        if (options->operand_count != 1)
                return error_set(err, "berth image prune takes no image: it removes all that have no name; "
                                      "for one image: berth image remove NAME");
        if (open_store(session, options, err) < 0 ||
            session->provider_ops->images->prune(session->provider, options->yes, session->arena, &rows,
                                                 &count, err) < 0)
                return -1;
        if (options->json)
                print_json(pruned_json(rows, count, options->yes));
        else
                print_pruned(rows, count, options->yes, options->quiet);
        return EXIT_DONE;
}

/* --- instructions --- */

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

/* A shell script, but for SOURCE: everything but the commands is a comment. */
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

static int show_instructions(struct session *session, const struct options *options, struct error *err) {
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
        static const struct subverb {
                const char *name;
                int (*run)(struct session *session, const struct options *options, struct error *err);
        } subverbs[] = { { "check", subverb_check },     { "instructions", show_instructions },
                         { "import", subverb_import },   { "build", build_image },
                         { "runtime", subverb_runtime }, { "remove", remove_image },
                         { "prune", prune_images } };
        const struct subverb *subverb =
                suggest_row("berth image", options->operands[0], subverbs,
                            sizeof(subverbs) / sizeof(subverbs[0]), sizeof(*subverbs), err);
        struct session session SESSION_CLEANUP;

        session_init(&session);
        if (!subverb)
                return -1;
        return subverb->run(&session, options, err);
}
