/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Resource Groups Tagging API (JSON 1.1): the tags of many resources by few calls. It lags behind the services, so
 * its silence about a resource proves nothing.
 */
#ifndef BERTH_PROVIDERS_AWS_SERVICES_TAGGING_H
#define BERTH_PROVIDERS_AWS_SERVICES_TAGGING_H

#include "providers/aws/client/aws_json.h"

/*
 * GetResources {ResourceTypeFilters: [type], ResourcesPerPage: 100, TagFilters: [{Key: "berth:stack", Values: [stack]}]
 * [, PaginationToken]} -> {"ResourceTagMappingList": [{ResourceARN, Tags: [{Key, Value}]}], "PaginationToken"}. Pages
 * may be short or empty; only an empty or absent token ends them.
 */
struct aws_request tagging_get_resources(const char *type, const char *stack, const char *token,
                                         struct arena *arena);

/* One resource as the index has it. */
struct tagged_resource {
        const char *arn;
        const struct value *tags; /* all it has, a map of texts */
};
/*
 * All pages of the above, by ARN, in the arena: for tagging_find(). *ret is NULL if the list is empty.
 */
int tagging_list(struct aws_client *client, const char *type, const char *stack, struct arena *arena,
                 struct tagged_resource **ret, size_t *ret_count, struct error *err) MUST_USE;
/* Begins what tagging_list() will read. */
void tagging_read_ahead(struct aws_client *client, const char *type, const char *stack, struct arena *arena);
/* The tags of one of them; NULL where it is not listed. */
const struct value *tagging_find(const struct tagged_resource *resources, size_t count, const char *arn);

#endif
