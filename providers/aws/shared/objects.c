/* SPDX-License-Identifier: Apache-2.0 */
/* A page's texts go with the page: a bucket may hold a million records, of which the visitor keeps what it needs. */
#include "providers/aws/shared/objects.h"

#include "providers/aws/client/aws_paging.h"

#include <string.h>

int objects_each(struct provider *provider, const char *prefix, objects_visit *visit, void *context,
                 struct error *err) {
        static const char *const none[] = { "NoSuchBucket", NULL };
        struct arena *tokens ARENA_CLEANUP = arena_new();
        const struct s3_bucket bucket = aws_bucket(provider);
        struct aws_paging paging = { 0 };

        do {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct aws_request request = s3_list_objects(&bucket, prefix, paging.token);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct s3_page page;

                if (aws_call_accepting(provider->client, &request, none, &response, err) < 0)
                        return -1;
                if (*response.error_code)
                        return 0;
                if (s3_read_objects(&response, arena, &page, err) < 0)
                        return -1;
                for (size_t i = 0; i < page.count; i++) {
                        if (strncmp(page.objects[i].key, prefix, strlen(prefix)) == 0 &&
                            visit(context, &page.objects[i], err) < 0)
                                return -1;
                }
                if (aws_paging_next(&paging, page.next, tokens, err) < 0)
                        return error_context(err, "s3://%s/%s", bucket.name, prefix);
        } while (paging.token);
        return 0;
}
