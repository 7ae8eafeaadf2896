/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents and swarms: binding records in the bucket, each an object of its own.
 *
 * A plan lists them and compares ETags. Only a record whose ETag is neither the recorded one nor that of what would be
 * written is read.
 *
 * Each is written and deleted on the condition that it is what the plan has seen. If the condition
 * does not hold, the object is read once more and decides: it is what we wanted (a try of ours
 * whose answer was lost), it is gone, or another writer changed it, which stands until the next
 * plan has shown it.
 */
#include "providers/aws/binding/binding.h"

#include "base/array.h"
#include "base/digest.h"
#include "providers/aws/binding/binding_record.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/bound_records.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/objects.h"
#include "providers/aws/shared/stage_call.h"

#include <stdlib.h>
#include <string.h>

/*
 * All objects below registry/{stack}/, by key, as one listing told. Each kind of the same pass uses it once. It has an arena
 * of its own, since it is as large as the stack, and the next pass makes another one.
 */
struct binding_listing {
        struct arena *arena;
        struct s3_object *objects;
        size_t count;
        bool used_by[KIND_COUNT];
};

static struct binding_place binding_place_of(const struct provider *provider, enum kind_id kind,
                                             const char *name) {
        return (struct binding_place){ kind, provider->stack_name, provider->prefix, name };
}

void bindings_release(struct binding_listing *listing) {
        if (!listing)
                return;
        arena_free(listing->arena);
        free(listing);
}

static int binding_desire(const struct provider *provider, const struct resource *resource,
                          const struct observation *observed, const struct value *recorded,
                          struct arena *arena, struct value **ret, struct error *err) {
        (void)observed;
        (void)recorded;
        (void)err;
        *ret = binding_spec(resource, provider->lineage.id, arena);
        return 0;
}

static void binding_cost(const struct provider *provider, const struct change *change, struct cost *ret) {
        (void)provider;
        (void)change;
        cost_add(ret, "s3", 1);
}

static int by_key(const void *a, const void *b) {
        return strcmp(((const struct s3_object *)a)->key, ((const struct s3_object *)b)->key);
}

static const char *listed_prefix(const struct provider *provider, struct arena *arena) {
        return arena_printf(arena, "registry/%s/", provider->stack_name);
}

/* For agents and swarms alike, and begun once. */
static void binding_list_ahead(struct provider *provider, struct arena *arena) {
        const struct s3_bucket bucket = aws_bucket(provider);
        struct aws_request request = s3_list_objects(&bucket, listed_prefix(provider, arena), NULL);

        if (provider->bucket)
                aws_ahead_pages(provider->client, &request, s3_next_objects, NULL);
}

static int keep_object(void *context, const struct s3_object *object, struct error *err) {
        struct binding_listing *listing = context;

        (void)err;
        listing->objects =
                array_grow(listing->arena, listing->objects, listing->count, sizeof(*listing->objects));
        listing->objects[listing->count++] = (struct s3_object){
                .key = arena_strdup(listing->arena, object->key),
                .etag = arena_strdup(listing->arena, object->etag),
                .size = object->size,
        };
        return 0;
}

/* The listing of this pass: a kind that asks a second time is in the next one. */
static int list_once(struct provider *provider, enum kind_id kind, struct error *err) {
        struct binding_listing *listing = provider->bindings;

        if (listing && !listing->used_by[kind]) {
                listing->used_by[kind] = true;
                return 0;
        }
        listing = calloc(1, sizeof(*listing));
        if (!listing)
                abort();
        listing->arena = arena_new();
        if (objects_each(provider, listed_prefix(provider, listing->arena), keep_object, listing, err) < 0) {
                bindings_release(listing);
                return -1;
        }
        /* S3 lists in this order; other servers need not. */
        if (listing->count > 1)
                qsort(listing->objects, listing->count, sizeof(*listing->objects), by_key);
        listing->used_by[kind] = true;
        bindings_release(provider->bindings);
        provider->bindings = listing;
        return 0;
}

static const struct s3_object *find_listed(const struct binding_listing *listing, const char *key) {
        const struct s3_object wanted = { .key = key };

        return listing->count ? bsearch(&wanted, listing->objects, listing->count, sizeof(wanted), by_key)
                              : NULL;
}

static struct observation observation_of(const struct provider *provider, const struct binding_place *place,
                                         const char *etag, const struct value *spec, struct arena *arena) {
        const char *lineage = value_get_text(spec, "lineage");
        struct observation observation = {
                .name = place->name,
                .exists = true,
                .id = arena_printf(arena, "s3://%s/%s", provider->bucket, binding_key(place, arena)),
                .fingerprint = arena_strdup(arena, etag),
                .ownership = OWNER_SELF,
                .spec = spec,
        };

        /* The folder is the stack's by its name, the record its lineage's. */
        if (lineage && !lineage_is_ours(provider, lineage)) {
                observation.ownership = OWNER_OTHER;
                observation.owner = lineage_owner(place->stack, lineage, arena);
                aws_set_lineage(arena_printf(arena, "%s/%s", kinds[place->kind]->name, place->name), lineage,
                                arena, &observation);
        }
        return observation;
}

/*
 * S3 encrypts with its own keys: the ETag of an object that was put whole is then the MD5 of its bytes. That saves reading
 * it; without MD5, as under FIPS, it is read.
 */
static bool is_etag_of(const char *etag, const char *text) {
        uint8_t digest[MD5_SIZE];
        char expected[2 * MD5_SIZE + 3] = "\"";

        if (!digest_md5(text, strlen(text), digest))
                return false;
        digest_hex(digest, sizeof(digest), expected + 1);
        expected[sizeof(expected) - 2] = '"';
        expected[sizeof(expected) - 1] = '\0';
        return strcmp(etag, expected) == 0;
}

/* What others wrote there: read whole, and taken for what its text says. */
static int read_binding(struct provider *provider, const struct binding_place *place, struct arena *arena,
                        struct observation *ret, struct error *err) {
        static const char *const none[] = { "NoSuchKey", "NoSuchBucket", NULL };
        const struct s3_bucket bucket = aws_bucket(provider);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_get_object(&bucket, binding_key(place, arena), arena);

        if (aws_call_accepting(provider->client, &request, none, &response, err) < 0)
                return -1;
        if (!*response.error_code)
                *ret = observation_of(
                        provider, place, response.etag,
                        binding_parse(place, strbuf_text(&response.body), response.body.length, arena),
                        arena);
        return 0;
}

static int observe_record(struct provider *provider, const struct wanted *wanted, enum kind_id kind,
                          struct arena *arena, struct observation *ret, struct error *err) {
        const struct binding_place place = binding_place_of(provider, kind, wanted->name);
        const struct s3_object *object = find_listed(provider->bindings, binding_key(&place, arena));
        const struct observation *last = wanted->last;

        *ret = (struct observation){ .name = wanted->name };
        if (!object)
                return 0;
        /* A server that tells no ETag says nothing of whether the record has changed. */
        if (!wanted->must_read && last && last->exists && last->spec && last->fingerprint && *object->etag &&
            strcmp(last->fingerprint, object->etag) == 0) {
                *ret = observation_of(provider, &place, object->etag, last->spec, arena);
                return 0;
        }
        if (wanted->desired) {
                const struct value *spec = binding_spec(wanted->desired, provider->lineage.id, arena);

                if (is_etag_of(object->etag, binding_text(&place, spec, arena))) {
                        *ret = observation_of(provider, &place, object->etag, spec, arena);
                        return 0;
                }
        }
        return read_binding(provider, &place, arena, ret, err);
}

static int compare_to_wanted(const void *name, const void *wanted) {
        return strcmp(name, ((const struct wanted *)wanted)->name);
}

/*
 * At most ORPHANS_READ_MAX orphan records are read for their owner, and none that is larger than
 * any of Berth's.
 */
#define ORPHANS_READ_MAX 100
#define RECORD_BYTES_MAX (64 * 1024)

static void note_orphan(struct provider *provider, const struct binding_place *place, bool read,
                        struct arena *arena) {
        struct observation seen = { 0 };
        struct error ignored;

        /* An unreadable record does not stop a plan: its owner stays unknown. */
        if (read && read_binding(provider, place, arena, &seen, &ignored) < 0)
                seen = (struct observation){ 0 };
        lineage_orphan(provider, &(struct orphan){ .kind = place->kind,
                                                   .name = place->name,
                                                   .id = arena_printf(arena, "s3://%s/%s", provider->bucket,
                                                                      binding_key(place, arena)),
                                                   .lineage = value_get_text(seen.spec, "lineage"),
                                                   .unread = !seen.exists });
}

/* Records in the stack's own folder that no manifest and no record of the state names. */
static void note_orphan_records(struct provider *provider, enum kind_id kind,
                                const struct observe_args *args) {
        const struct binding_place folder = binding_place_of(provider, kind, NULL);
        const char *prefix = binding_key(&folder, args->arena);
        const struct binding_listing *listing = provider->bindings;
        const struct s3_bucket bucket = aws_bucket(provider);
        struct binding_place *places = arena_array(args->arena, listing->count + 1, sizeof(*places));
        bool *read = arena_array(args->arena, listing->count + 1, sizeof(*read));
        size_t count = 0;

        for (size_t i = 0; i < listing->count; i++) {
                const char *key = listing->objects[i].key;
                size_t length = strlen(key), start = strlen(prefix);
                const char *name;

                if (strncmp(key, prefix, start) != 0 || length < start + 6 ||
                    strcmp(key + length - 5, ".json") != 0)
                        continue;
                name = arena_strndup(args->arena, key + start, length - 5 - start);
                if (args->count > 0 &&
                    bsearch(name, args->wanted, args->count, sizeof(*args->wanted), compare_to_wanted))
                        continue;
                read[count] = count < ORPHANS_READ_MAX && listing->objects[i].size <= RECORD_BYTES_MAX;
                places[count] = binding_place_of(provider, kind, name);
                if (read[count]) {
                        struct aws_request request =
                                s3_get_object(&bucket, binding_key(&places[count], args->arena), args->arena);

                        aws_ahead(provider->client, &request);
                }
                count++;
        }
        for (size_t i = 0; i < count; i++)
                note_orphan(provider, &places[i], read[i], args->arena);
}

static int binding_observe(struct provider *provider, enum kind_id kind, const struct observe_args *args,
                           struct observation *ret, struct error *err) {
        for (size_t i = 0; i < args->count; i++)
                ret[i] = (struct observation){ .name = args->wanted[i].name };
        if (!provider->bucket || (args->count == 0 && args->refresh != REFRESH_FULL))
                return 0;
        if (list_once(provider, kind, err) < 0)
                return -1;
        note_orphan_records(provider, kind, args);
        for (size_t i = 0; i < args->count; i++) {
                const struct binding_place place = binding_place_of(provider, kind, args->wanted[i].name);

                bound_records_know(provider, binding_key(&place, args->arena));
                if (observe_record(provider, &args->wanted[i], kind, args->arena, &ret[i], err) < 0)
                        return error_context(err, "%s/%s", kinds[kind]->name, args->wanted[i].name);
        }
        aws_warn_of_old_marks(provider, kinds[kind]->name, NULL, ret, args->count, args->arena);
        return 0;
}

static int binding_observe_agents(struct provider *provider, const struct observe_args *args,
                                  struct observation *ret, struct error *err) {
        return binding_observe(provider, KIND_AGENT, args, ret, err);
}

static int binding_observe_swarms(struct provider *provider, const struct observe_args *args,
                                  struct observation *ret, struct error *err) {
        return binding_observe(provider, KIND_SWARM, args, ret, err);
}

/* How often a record may be there and not exist, a second apart, as while others write and delete it. */
#define GONE_MAX 10

enum binding_stage {
        STAGE_BEGIN,
        STAGE_WRITE,  /* over what was observed, or where nothing was */
        STAGE_CREATE, /* what was observed is gone meanwhile */
        STAGE_COMPARE,
        STAGE_DELETE,
        STAGE_COMPARE_DELETED,
        STAGE_COUNT
};

static bool is_written(const struct change *change) {
        return change->action != ACTION_DELETE;
}

static bool is_deleted(const struct change *change) {
        return change->action == ACTION_DELETE && change->observed->exists;
}

static struct binding_place place_of_turn(const struct stage_turn *turn) {
        return binding_place_of(turn->provider, turn->change->kind->id, turn->change->name);
}

static int fail_changed(struct stage_turn *turn) {
        const struct binding_place place = place_of_turn(turn);

        return error_set(
                turn->err,
                "the record s3://%s/%s was changed outside of Berth since the plan was made: plan again",
                turn->provider->bucket, binding_key(&place, turn->progress->arena));
}

/*
 * The object is gone: it is created. Where answers contradict each other, this ends after GONE_MAX
 * times.
 */
static int create_instead(struct stage_turn *turn) {
        return stage_start_over(turn, STAGE_CREATE, "gone", GONE_MAX) == STEP_AGAIN ? STEP_AGAIN
                                                                                    : fail_changed(turn);
}

/* With `if_match` it replaces that version, otherwise it is written only if absent. */
static int put_record(struct stage_turn *turn, const char *if_match) {
        static const char *const moved[] = { "PreconditionFailed", "NoSuchKey", NULL };
        struct arena *arena = turn->progress->arena;
        const struct binding_place place = place_of_turn(turn);
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        const char *text = binding_text(&place, turn->change->desired, arena);
        struct aws_request request = s3_put_object(&bucket, binding_key(&place, arena), text, strlen(text),
                                                   "application/json", if_match, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, moved, &response);

        if (result != 0)
                return result;
        if (aws_failed_with(&response, "NoSuchKey"))
                return create_instead(turn);
        if (*response.error_code)
                return stage_enter(turn, STAGE_COMPARE);
        *turn->observed = observation_of(turn->provider, &place, response.etag, turn->change->desired, arena);
        return STEP_DONE;
}

static int rewrite_record(struct stage_turn *turn) {
        return put_record(turn, turn->change->observed->exists ? turn->change->observed->fingerprint : NULL);
}

static int create_record(struct stage_turn *turn) {
        return put_record(turn, NULL);
}

/* The record as it is now. */
static int get_record(struct stage_turn *turn, const char *const *gone, struct aws_response *response) {
        struct arena *arena = turn->progress->arena;
        const struct binding_place place = place_of_turn(turn);
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct aws_request request = s3_get_object(&bucket, binding_key(&place, arena), arena);

        return stage_call(turn, &request, gone, response);
}

/*
 * The record changed since it was observed. Where that was ourselves, in a try whose answer was
 * lost, it is what we want; anything else stands until the next plan has shown it.
 */
static int compare_record(struct stage_turn *turn) {
        static const char *const gone[] = { "NoSuchKey", NULL };
        struct arena *arena = turn->progress->arena;
        const struct binding_place place = place_of_turn(turn);
        const char *text = binding_text(&place, turn->change->desired, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = get_record(turn, gone, &response);

        if (result != 0)
                return result;
        if (*response.error_code)
                return create_instead(turn);
        if (response.body.length != strlen(text) ||
            memcmp(strbuf_text(&response.body), text, response.body.length) != 0)
                return fail_changed(turn);
        *turn->observed = observation_of(turn->provider, &place, response.etag, turn->change->desired, arena);
        return STEP_DONE;
}

static int delete_record(struct stage_turn *turn) {
        static const char *const moved[] = { "PreconditionFailed", "NoSuchKey", "NoSuchBucket", NULL };
        struct arena *arena = turn->progress->arena;
        const struct binding_place place = place_of_turn(turn);
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct aws_request request = s3_delete_object(&bucket, binding_key(&place, arena),
                                                      turn->change->observed->fingerprint, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = stage_call(turn, &request, moved, &response);

        if (result != 0)
                return result;
        return aws_failed_with(&response, "PreconditionFailed") ? stage_enter(turn, STAGE_COMPARE_DELETED)
                                                                : STAGE_OVER;
}

/*
 * An object that is gone fails the condition too: a try of ours whose answer was lost, or another
 * client was faster.
 */
static int compare_deleted(struct stage_turn *turn) {
        static const char *const gone[] = { "NoSuchKey", "NoSuchBucket", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        int result = get_record(turn, gone, &response);

        if (result != 0)
                return result;
        return *response.error_code ? STAGE_OVER : fail_changed(turn);
}

static const struct stage stages[STAGE_COUNT] = {
        [STAGE_WRITE] = { "s3", NULL, is_written, rewrite_record },
        [STAGE_CREATE] = { NULL, NULL, NULL, create_record },
        [STAGE_COMPARE] = { NULL, NULL, NULL, compare_record },
        [STAGE_DELETE] = { "s3", NULL, is_deleted, delete_record },
        [STAGE_COMPARE_DELETED] = { NULL, NULL, NULL, compare_deleted },
};

static int binding_step(struct provider *provider, const struct change *change, struct progress *progress,
                        struct observation *ret_observed, struct error *err) {
        struct observation observed = { .name = change->name };
        struct stage_turn turn = { provider, change, progress, &observed, err };
        int result = stage_step(stages, STAGE_COUNT, &turn);

        if (result == STEP_DONE)
                *ret_observed = is_written(change) ? observed : (struct observation){ .name = change->name };
        return result;
}

static const char *const free_maps[] = { "labels", NULL };

const struct kind_ops aws_agent_ops = {
        .kind = KIND_AGENT,
        .free_maps = free_maps,
        .desire = binding_desire,
        .desire_ignores_record = true,
        .desire_repeats = true,
        .cost = binding_cost,
        .list_ahead = binding_list_ahead,
        .page_size = 1000,
        .observe = binding_observe_agents,
        .step = binding_step,
};

const struct kind_ops aws_swarm_ops = {
        .kind = KIND_SWARM,
        .free_maps = free_maps,
        .desire = binding_desire,
        .desire_ignores_record = true,
        .desire_repeats = true,
        .cost = binding_cost,
        .list_ahead = binding_list_ahead,
        .page_size = 1000,
        .observe = binding_observe_swarms,
        .step = binding_step,
};
