/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/images/local_reference.h"

#include "providers/image_rules.h"

#include <string.h>

const char local_build_command[] =
        "docker buildx build --platform linux/amd64 --provenance=false --sbom=false "
        "--output type=oci,dest=image.tar .";

int local_reference_parse(const char *text, struct arena *arena, struct local_reference *ret,
                          struct error *err) {
        const char *mark = strpbrk(text, ":@");
        struct local_reference reference = {
                .repository =
                        mark ? arena_strndup(arena, text, (size_t)(mark - text)) : arena_strdup(arena, text),
                .tag = !mark          ? "latest"
                       : *mark == ':' ? arena_strdup(arena, mark + 1)
                                      : NULL,
                .digest = mark && *mark == '@' ? arena_strdup(arena, mark + 1) : NULL,
        };

        if (!image_rules_is_repository(reference.repository) ||
            (reference.tag && !image_rules_is_tag(reference.tag)) ||
            (reference.digest && !image_rules_is_digest(reference.digest)))
                return error_set(err, "\"%s\" is no image: " IMAGE_RULES_REFERENCE_WORDS, text);
        *ret = reference;
        return 0;
}

const char *local_reference_remedy(const struct local_reference *reference, const char *problem,
                                   struct arena *arena) {
        const char *name =
                arena_printf(arena, "%s:%s", reference->repository, reference->tag ? reference->tag : "TAG");
        const char *prebuilt =
                strncmp(reference->repository, "prebuilt/", 9) == 0 ? reference->repository + 9 : NULL;

        if (strcmp(problem, "missing") == 0 || strcmp(problem, "unread") == 0)
                return prebuilt ? arena_printf(arena, "berth image build %s, or berth image import %s PATH",
                                               prebuilt, name)
                                : arena_printf(
                                          arena,
                                          "berth image import %s PATH; berth image instructions shows how "
                                          "to make one",
                                          name);
        if (strcmp(problem, "index") == 0)
                return arena_printf(
                        arena,
                        "take the image for linux/amd64 out of it, and import that:\n"
                        "  skopeo copy --override-os linux --override-arch amd64 oci-archive:PATH "
                        "oci-archive:image.tar\n"
                        "  berth image import %s image.tar\n"
                        "or build one image:\n"
                        "  %s",
                        name, local_build_command);
        return arena_printf(arena, "%s:\n  %s\n  berth image import %s image.tar",
                            strcmp(problem, "size") == 0 ? "make it smaller, build it and import it"
                                                         : "build it and import it",
                            local_build_command, name);
}
