/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observing notes the keys of all records that the plan knows; those the controller judges, by what
 * it has observed. Only if an environment will be deleted is the registry listed, of all stacks,
 * and each object that is left over read. The function that it names is kept, so that a second
 * deletion makes no calls. A record that is being deleted at this moment, or that cannot be read as
 * JSON, names nothing.
 */
#include "providers/aws/shared/bound_records.h"

#include "base/array.h"
#include "base/json.h"
#include "base/sorted.h"
#include "providers/aws/shared/objects.h"

#include <stdlib.h>
#include <string.h>

/* A record that names a function. */
struct bound_record {
        const char *function;
        const char *dependent; /* "Agent/x", or "Agent/x of stack other" */
};

/* All in the provider's arena: what one plan knows and has read. */
struct bound_records {
        const char **known; /* keys; in order once the registry is read */
        size_t known_count;
        bool read;
        struct bound_record *records;
        size_t count;
};

static struct bound_records *records_of(struct provider *provider) {
        if (!provider->bound_records)
                provider->bound_records = arena_alloc(provider->arena, sizeof(*provider->bound_records));
        return provider->bound_records;
}

void bound_records_forget(struct provider *provider) {
        provider->bound_records = NULL;
}

void bound_records_know(struct provider *provider, const char *key) {
        struct bound_records *records = records_of(provider);

        records->known =
                array_grow(provider->arena, records->known, records->known_count, sizeof(*records->known));
        records->known[records->known_count++] = arena_strdup(provider->arena, key);
}

/* "registry/STACK/agents/NAME.json" as people call it; NULL if the key does not have that form. */
static const char *dependent_of(const struct provider *provider, const char *key, struct arena *arena) {
        static const struct {
                const char *folder, *kind;
        } folders[] = { { "/agents/", "Agent" }, { "/swarms/", "Swarm" } };
        const char *stack = key + strlen(REGISTRY), *end = strchr(stack, '/');
        size_t length = strlen(key);

        if (!end || length < 5 || strcmp(key + length - 5, ".json") != 0)
                return NULL;
        for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
                size_t folder = strlen(folders[i].folder);
                const char *name, *owner = arena_strndup(arena, stack, (size_t)(end - stack));

                if (strncmp(end, folders[i].folder, folder) != 0)
                        continue;
                /* The folder ends with a slash, which ".json" does not hold: they do not overlap. */
                name = arena_strndup(arena, end + folder, length - 5 - (size_t)(end + folder - key));
                return strcmp(owner, provider->stack_name) == 0
                               ? arena_printf(arena, "%s/%s", folders[i].kind, name)
                               : arena_printf(arena, "%s/%s of stack %s", folders[i].kind, name, owner);
        }
        return NULL;
}

/* One object below registry/: read where the plan does not know it, and kept where it names a function. */
static int read_unknown_record(void *context, const struct s3_object *object, struct error *err) {
        static const char *const gone[] = { "NoSuchKey", NULL };
        struct provider *provider = context;
        struct bound_records *records = records_of(provider);
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct s3_bucket bucket = aws_bucket(provider);
        struct aws_request request;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        json_t *body JSON_CLEANUP = NULL;
        const char *function, *dependent;

        if (records->known_count > 0 && bsearch(&object->key, records->known, records->known_count,
                                                sizeof(*records->known), sorted_compare_texts))
                return 0;
        dependent = dependent_of(provider, object->key, arena);
        if (!dependent)
                return 0;
        request = s3_get_object(&bucket, object->key, arena);
        if (aws_call_accepting(provider->client, &request, gone, &response, err) < 0)
                return error_context(err, "who uses what would be deleted: s3://%s/%s", bucket.name,
                                     object->key);
        if (*response.error_code)
                return 0;
        body = json_loadb(strbuf_text(&response.body), response.body.length, 0, NULL);
        function = json_text(body, "functionName");
        if (!function)
                return 0;
        records->records =
                array_grow(provider->arena, records->records, records->count, sizeof(*records->records));
        records->records[records->count++] = (struct bound_record){
                .function = arena_strdup(provider->arena, function),
                .dependent = arena_strdup(provider->arena, dependent),
        };
        return 0;
}

int bound_records_ask(struct provider *provider, struct change *change, const char *function,
                      struct arena *arena, struct error *err) {
        struct bound_records *records = records_of(provider);
        const char **found;
        size_t count = 0;

        if (!records->read) {
                /* A walk that failed half way begins again. */
                records->count = 0;
                if (records->known_count > 1)
                        qsort(records->known, records->known_count, sizeof(*records->known),
                              sorted_compare_texts);
                if (objects_each(provider, REGISTRY, read_unknown_record, provider, err) < 0)
                        return -1;
                records->read = true;
        }
        found = arena_array(arena, records->count + 1, sizeof(*found));
        for (size_t i = 0; i < records->count; i++) {
                if (strcmp(records->records[i].function, function) == 0)
                        found[count++] = arena_strdup(arena, records->records[i].dependent);
        }
        if (count == 0)
                return 0;
        aws_refuse(change,
                   (struct refusal){
                           .id = "has-dependents",
                           .message = arena_printf(arena, "%zu %s in the bucket still %s it", count,
                                                   count == 1 ? "record" : "records",
                                                   count == 1 ? "names" : "name"),
                           .remedy = arena_printf(
                                   arena,
                                   "point them at another environment, or remove them where they are "
                                   "declared; records that are not managed lie below s3://%s/" REGISTRY,
                                   provider->bucket),
                           .dependents = found,
                           .dependent_count = count,
                   },
                   arena);
        return 0;
}
