/* SPDX-License-Identifier: Apache-2.0 */
/* Resources are kept sorted by ARN, since thousands are looked up in them, and the index promises no order. */
#include "providers/aws/services/tagging.h"

#include "base/array.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

struct aws_request tagging_get_resources(const char *type, const char *stack, const char *token,
                                         struct arena *arena) {
        json_t *body =
                json_pack("{s:[s], s:i, s:[{s:s, s:[s]}]}", "ResourceTypeFilters", type, "ResourcesPerPage",
                          100, "TagFilters", "Key", "berth:stack", "Values", stack);

        json_set_text(body, "PaginationToken", token);
        return aws_json_request(AWS_TAGGING, "GetResources", body, arena);
}

struct listing {
        struct arena *arena;
        struct tagged_resource *items;
        size_t count;
};

static void listing_add(struct listing *listing, const json_t *mapping) {
        const char *arn = json_text(mapping, "ResourceARN");

        if (!arn)
                return;
        listing->items = array_grow(listing->arena, listing->items, listing->count, sizeof(*listing->items));
        listing->items[listing->count++] =
                (struct tagged_resource){ arena_strdup(listing->arena, arn),
                                          aws_tags_from_json(json_object_get(mapping, "Tags"),
                                                             listing->arena) };
}

static int by_arn(const void *a, const void *b) {
        return strcmp(((const struct tagged_resource *)a)->arn, ((const struct tagged_resource *)b)->arn);
}

int tagging_list(struct aws_client *client, const char *type, const char *stack, struct arena *arena,
                 struct tagged_resource **ret, size_t *ret_count, struct error *err) {
        struct listing listing = { .arena = arena };
        struct aws_paging paging = { 0 };

        do {
                struct aws_request request = tagging_get_resources(type, stack, paging.token, arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const json_t *mapping;
                size_t i;

                if (aws_call(client, &request, &response, err) < 0)
                        return -1;
                json_array_foreach (json_object_get(response.json, "ResourceTagMappingList"), i, mapping)
                        listing_add(&listing, mapping);
                if (aws_next_page(&response, "PaginationToken", &paging, arena, err) < 0)
                        return -1;
        } while (paging.token);
        if (listing.count)
                qsort(listing.items, listing.count, sizeof(*listing.items), by_arn);
        *ret = listing.items;
        *ret_count = listing.count;
        return 0;
}

static bool next_resources(const struct aws_response *page, const struct aws_request *first,
                           const char *context, struct arena *arena, struct aws_request *ret) {
        (void)context;
        return aws_json_next(page, first, "PaginationToken", arena, ret);
}

void tagging_read_ahead(struct aws_client *client, const char *type, const char *stack, struct arena *arena) {
        struct aws_request request = tagging_get_resources(type, stack, NULL, arena);

        aws_ahead_pages(client, &request, next_resources, NULL);
}

const struct value *tagging_find(const struct tagged_resource *resources, size_t count, const char *arn) {
        const struct tagged_resource wanted = { .arn = arn };
        const struct tagged_resource *found =
                count ? bsearch(&wanted, resources, count, sizeof(*resources), by_arn) : NULL;

        return found ? found->tags : NULL;
}
