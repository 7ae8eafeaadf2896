/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URIs come from two sides: manifests, whose repositories stand without a registry or beside one, and functions, whose ImageUri
 * has one. Taken apart, both look alike, so that they can be compared.
 */
#include "providers/aws/registry/ecr_uri.h"

#include "providers/aws/client/partition.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/ecr.h"
#include "providers/image_rules.h"

#include <string.h>

/* Before identify() no account is known; the text is then for people only. */
const char *ecr_registry(const struct provider *provider, struct arena *arena) {
        struct error ignored;
        /* The client was opened with this region, so that it names one. */
        const struct partition *partition = partition_of_region(provider->region, &ignored);

        return arena_printf(arena, "%s.dkr.ecr.%s.%s", provider->account ? provider->account : "ACCOUNT",
                            provider->region, partition ? partition->domain : "amazonaws.com");
}

const char *ecr_repository_known_as(const struct provider *provider, const char *registry,
                                    const char *repository, struct arena *arena) {
        if (!registry || !repository || texts_same(registry, ecr_registry(provider, arena)))
                return repository;
        return arena_printf(arena, "%s/%s", registry, repository);
}

const char *ecr_registry_of(const struct provider *provider, const char *repository, struct arena *arena) {
        size_t length = ecr_registry_in_front(repository);

        return length ? arena_strndup(arena, repository, length) : ecr_registry(provider, arena);
}

const char *ecr_name_in_registry(const char *repository) {
        size_t length = ecr_registry_in_front(repository);

        return length ? repository + length + 1 : repository;
}

const char *ecr_other_account(const char *repository, struct arena *arena) {
        return ecr_registry_in_front(repository) ? arena_strndup(arena, repository, strcspn(repository, "."))
                                                 : NULL;
}

/* Beyond the account, its host is that of the stack's own registry. */
bool ecr_registry_is_near(const struct provider *provider, const char *repository, struct arena *arena) {
        return texts_same(strchr(ecr_registry(provider, arena), '.'),
                          strchr(ecr_registry_of(provider, repository, arena), '.'));
}

const char *ecr_repository_arn(const struct provider *provider, const char *repository, struct arena *arena) {
        const char *other = ecr_other_account(repository, arena);
        const char *own = provider->account ? provider->account : "";

        return arena_printf(arena, "arn:%s:ecr:%s:%s:repository/%s", provider->partition, provider->region,
                            other ? other : own, ecr_name_in_registry(repository));
}

bool ecr_uri_parse(const struct provider *provider, const char *uri, struct arena *arena,
                   struct ecr_uri *ret) {
        const char *registry = ecr_registry(provider, arena), *slash = strchr(uri, '/');
        const char *start = uri, *at = strchr(uri, '@'), *end, *colon = NULL;
        size_t length = strlen(registry);

        if (!slash || slash == uri)
                return false;
        if ((size_t)(slash - uri) == length && strncmp(uri, registry, length) == 0)
                start = slash + 1;
        /* A digest has a colon of its own, so the tag is looked for before it. */
        end = at ? at : uri + strlen(uri);
        /* A colon before the slash is the registry's port. */
        for (const char *p = slash; p < end; p++) {
                if (*p == ':')
                        colon = p;
        }
        ret->repository = arena_strndup(arena, start, (size_t)((colon ? colon : end) - start));
        ret->tag = colon ? arena_strndup(arena, colon + 1, (size_t)(end - colon - 1)) : NULL;
        ret->digest = at && image_rules_is_digest(at + 1) ? arena_strdup(arena, at + 1) : NULL;
        return true;
}
