/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/images.h"

#include "base/array.h"

#include <stdarg.h>
#include <string.h>

int image_rows_newest_first(const void *a, const void *b) {
        const struct image_row *left = a, *right = b;
        int order = strcmp(left->repository, right->repository);

        if (order == 0 && left->pushed_ms != right->pushed_ms)
                order = left->pushed_ms > right->pushed_ms ? -1 : 1;
        return order ? order : strcmp(left->digest, right->digest);
}

bool image_target_is_listed(const struct image_instructions *instructions, const char *repository,
                            const char *tag) {
        for (size_t i = 0; i < instructions->target_count; i++) {
                const struct image_target *target = &instructions->targets[i];

                if (strcmp(target->repository, repository) == 0 && strcmp(target->tag, tag) == 0)
                        return true;
        }
        return false;
}

struct image_recipe *image_recipe_add(struct image_instructions *instructions, struct arena *arena,
                                      const char *tool, const char *repository, const char *purpose) {
        struct image_recipe *recipe;

        instructions->recipes = array_grow(arena, instructions->recipes, instructions->recipe_count,
                                           sizeof(*instructions->recipes));
        recipe = &instructions->recipes[instructions->recipe_count++];
        *recipe = (struct image_recipe){ .tool = tool, .repository = repository, .purpose = purpose };
        return recipe;
}

void image_recipe_command(struct image_recipe *recipe, struct arena *arena, const char *format, ...) {
        va_list arguments;

        recipe->commands =
                array_grow(arena, recipe->commands, recipe->command_count, sizeof(*recipe->commands));
        va_start(arguments, format);
        recipe->commands[recipe->command_count++] = arena_vprintf(arena, format, arguments);
        va_end(arguments);
}
