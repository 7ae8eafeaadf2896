/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A note is read before it is written, and written on condition that it is what was read: a lineage that was taken over in
 * between is noticed. Of two runs of one state there is only ever one, by the state's lease, so that a condition that does
 * not hold is nearly always our own writing, whose answer was lost.
 */
#include "providers/aws/shared/lineage.h"

#include "base/array.h"
#include "base/json.h"
#include "providers/aws/client/aws_json.h"
#include "providers/aws/shared/objects.h"
#include "providers/aws/shared/stage_call.h"

#include <string.h>

#define NOTE_FORMAT "1"
/* How often a note may be another one than was just read. */
#define RENEWALS_MAX 5

const char *lineage_key(const char *lineage, struct arena *arena) {
        return arena_printf(arena, LINEAGE_NOTES "%s", lineage);
}

bool lineage_is_ours(const struct provider *provider, const char *lineage) {
        const struct lineage *own = &provider->lineage;

        if (!own->id || strcmp(own->id, lineage) == 0)
                return true;
        for (const char *const *taken = own->taken; taken && *taken; taken++) {
                if (strcmp(*taken, lineage) == 0)
                        return true;
        }
        return false;
}

const char *lineage_owner(const char *stack, const char *lineage, struct arena *arena) {
        return arena_printf(arena, "stack %s of another state (lineage %s)", stack, lineage);
}

const char *lineage_mark(const char *name, const char *lineage, struct arena *arena) {
        return lineage ? arena_printf(arena, "%s@%s", name, lineage) : name;
}

const char *lineage_unmark(const char *text, struct arena *arena, const char **ret_lineage) {
        const char *at = strrchr(text, '@');

        if (at && !lineage_has_form(at + 1))
                at = NULL;
        *ret_lineage = at ? at + 1 : NULL;
        return at ? arena_strndup(arena, text, (size_t)(at - text)) : text;
}

const char *lineage_note_text(const struct lineage_note *note, struct arena *arena) {
        json_t *body = json_object();

        json_set_text(body, "formatVersion", NOTE_FORMAT);
        json_set_text(body, "lineage", note->lineage);
        json_set_text(body, "stack", note->stack);
        json_set_text(body, "who", note->who);
        json_set_text(body, "machine", note->machine);
        json_set_text(body, "folder", note->folder);
        json_set_text(body, "at", note->at);
        json_set_text(body, "takenBy", note->taken_by);
        return aws_json_text(body, arena);
}

struct lineage_note lineage_note_parse(const char *text, size_t length, struct arena *arena) {
        json_t *body JSON_CLEANUP = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);

        if (!aws_json_says(body, "formatVersion", NOTE_FORMAT) || !json_text(body, "lineage") ||
            !json_text(body, "stack"))
                return (struct lineage_note){ 0 };
        return (struct lineage_note){
                .lineage = arena_strdup(arena, json_text(body, "lineage")),
                .stack = arena_strdup(arena, json_text(body, "stack")),
                .who = arena_strdup(arena, json_text(body, "who")),
                .machine = arena_strdup(arena, json_text(body, "machine")),
                .folder = arena_strdup(arena, json_text(body, "folder")),
                .at = arena_strdup(arena, json_text(body, "at")),
                .taken_by = arena_strdup(arena, json_text(body, "takenBy")),
        };
}

/* 1 where the bucket itself does not exist. */
static int read_note(struct provider *provider, const char *lineage, struct arena *arena,
                     struct lineage_note *ret, const char **ret_etag, struct error *err) {
        static const char *const none[] = { "NoSuchKey", "NoSuchBucket", NULL };
        const struct s3_bucket bucket = aws_bucket(provider);
        struct aws_request request = s3_get_object(&bucket, lineage_key(lineage, arena), arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        if (aws_call_accepting(provider->client, &request, none, &response, err) < 0)
                return -1;
        *ret = (struct lineage_note){ 0 };
        *ret_etag = NULL;
        if (*response.error_code)
                return aws_failed_with(&response, "NoSuchBucket");
        *ret = lineage_note_parse(strbuf_text(&response.body), response.body.length, arena);
        *ret_etag = arena_strdup(arena, response.etag);
        return 0;
}

int lineage_read(struct provider *provider, const char *lineage, struct arena *arena,
                 struct lineage_note *ret, struct error *err) {
        const char *etag;

        return read_note(provider, lineage, arena, ret, &etag, err) < 0 ? -1 : 0;
}

/* Notes of others, as the walk through all of them finds them. */
struct other_notes {
        struct provider *provider;
        struct arena *arena;
        struct lineage_note *notes;
        size_t count;
};

static int keep_note_of_other(void *context, const struct s3_object *object, struct error *err) {
        struct other_notes *others = context;
        const char *lineage = object->key + strlen(LINEAGE_NOTES);
        struct lineage_note note;

        if (lineage_is_ours(others->provider, lineage))
                return 0;
        if (lineage_read(others->provider, lineage, others->arena, &note, err) < 0)
                return -1;
        /*
         * An object that is not a note says nothing; a lineage that was taken over owns nothing any
         * more.
         */
        if (!note.lineage || note.taken_by)
                return 0;
        others->notes = array_grow(others->arena, others->notes, others->count, sizeof(*others->notes));
        others->notes[others->count++] = note;
        return 0;
}

int lineage_others(struct provider *provider, struct arena *arena, struct lineage_note **ret,
                   size_t *ret_count, struct error *err) {
        struct other_notes others = { .provider = provider, .arena = arena };

        if (objects_each(provider, LINEAGE_NOTES, keep_note_of_other, &others, err) < 0)
                return -1;
        *ret = others.notes;
        *ret_count = others.count;
        return 0;
}

static void remember_lineage(struct provider *provider, const struct lineage *lineage) {
        struct arena *arena = provider->arena;
        size_t count = 0;
        const char **taken;

        while (lineage->taken && lineage->taken[count])
                count++;
        taken = arena_array(arena, count + 1, sizeof(*taken));
        for (size_t i = 0; i < count; i++)
                taken[i] = arena_strdup(arena, lineage->taken[i]);
        provider->lineage_taken = count;
        provider->lineage = (struct lineage){
                .id = arena_strdup(arena, lineage->id),
                .taken = taken,
                .who = arena_strdup(arena, lineage->who),
                .machine = arena_strdup(arena, lineage->machine),
                .folder = arena_strdup(arena, lineage->folder),
        };
}

static const char *own_text(const struct provider *provider, struct arena *arena) {
        const struct clock *clock = aws_client_clock(provider->client);
        char at[32];

        clock_format(clock->wall_ms(clock), at, sizeof(at));
        return lineage_note_text(
                &(struct lineage_note){
                        .lineage = provider->lineage.id,
                        .stack = provider->stack_name,
                        .who = provider->lineage.who,
                        .machine = provider->lineage.machine,
                        .folder = provider->lineage.folder,
                        .at = at,
                },
                arena);
}

static int fail_taken_over(const struct provider *provider, const struct lineage_note *note,
                           struct error *err) {
        return error_set_kind(
                err, ERROR_REFUSED,
                "not-owned: the state in %s (lineage %s) was taken over by another one (lineage %s), which now "
                "owns what this one made: nothing was changed. Work with that state, or take it back: berth "
                "state adopt",
                provider->lineage.folder, provider->lineage.id, note->taken_by);
}

/* Berth writes nothing into a foreign bucket that is not said to be shared. */
static bool has_place(const struct provider *provider) {
        return provider->lineage.id && provider->bucket &&
               (!provider->manages_bucket || provider->owns_bucket);
}

/* 0 and *ret_done where the note was written, or there is no bucket for it; *ret_done false where it had moved. */
static int try_put(struct provider *provider, const char *lineage, const char *text, const char *etag,
                   bool *ret_done, struct arena *arena, struct error *err) {
        static const char *const moved[] = { "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey",
                                             NULL };
        const struct s3_bucket bucket = aws_bucket(provider);
        const char *key = lineage_key(lineage, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request =
                s3_put_object(&bucket, key, text, strlen(text), "application/json", etag, arena);

        if (aws_call_accepting(provider->client, &request, moved, &response, err) < 0)
                return error_context(err, "the note of a state's lineage, s3://%s/%s", bucket.name, key);
        *ret_done = !*response.error_code;
        return 0;
}

static int fail_busy(const struct provider *provider, const char *lineage, struct error *err) {
        return error_set(err, "s3://%s/" LINEAGE_NOTES "another run writes %s at the same time: try again",
                         provider->bucket, lineage);
}

static int renew_note(struct provider *provider, bool renews, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *text, *own = provider->lineage.id;

        if (!has_place(provider))
                return 0;
        text = own_text(provider, arena);
        for (int times = 0; times < RENEWALS_MAX; times++) {
                struct lineage_note note;
                const char *etag;
                bool done;
                int missing = read_note(provider, own, arena, &note, &etag, err);

                if (missing < 0)
                        return -1;
                if (note.taken_by)
                        return fail_taken_over(provider, &note, err);
                if (missing || !renews)
                        return 0;
                if (try_put(provider, own, text, etag, &done, arena, err) < 0)
                        return -1;
                if (done)
                        return 0;
        }
        return fail_busy(provider, own, err);
}

/* Whatever the note says now: this lineage has been taken over; or, of our own, that it lives. */
static int mark_taken_over(struct provider *provider, const char *lineage, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        bool own = strcmp(lineage, provider->lineage.id) == 0;

        for (int times = 0; times < RENEWALS_MAX; times++) {
                struct lineage_note note;
                const char *etag;
                bool done;
                int missing = read_note(provider, lineage, arena, &note, &etag, err);

                if (missing)
                        return missing < 0 ? -1 : 0;
                if (!own && !note.lineage)
                        return 0;
                note.taken_by = provider->lineage.id;
                if (try_put(provider, lineage,
                            own ? own_text(provider, arena) : lineage_note_text(&note, arena), etag, &done,
                            arena, err) < 0)
                        return -1;
                if (done)
                        return 0;
        }
        return fail_busy(provider, lineage, err);
}

static int take_over_lineages(struct provider *provider, const char *const *lineages, size_t count,
                              struct error *err) {
        if (!provider->lineage.id || !provider->bucket)
                return 0;
        for (size_t i = 0; i < count; i++) {
                if (mark_taken_over(provider, lineages[i], err) < 0)
                        return -1;
        }
        return mark_taken_over(provider, provider->lineage.id, err);
}

static bool is_same_part(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

void lineage_orphan(struct provider *provider, const struct orphan *orphan) {
        struct arena *arena = provider->arena;
        struct orphan *copy;

        for (size_t i = 0; i < provider->orphan_count; i++) {
                const struct orphan *other = &provider->orphans[i];

                if (other->kind == orphan->kind && strcmp(other->name, orphan->name) == 0 &&
                    is_same_part(other->part, orphan->part))
                        return;
        }
        provider->orphans =
                array_grow(arena, provider->orphans, provider->orphan_count, sizeof(*provider->orphans));
        copy = &provider->orphans[provider->orphan_count++];
        *copy = *orphan;
        copy->name = arena_strdup(arena, orphan->name);
        copy->part = arena_strdup(arena, orphan->part);
        copy->id = arena_strdup(arena, orphan->id);
        copy->lineage = arena_strdup(arena, orphan->lineage);
}

void lineage_orphans_forget(struct provider *provider) {
        provider->orphans = NULL;
        provider->orphan_count = 0;
}

static void list_orphans(const struct provider *provider, const struct orphan **ret, size_t *ret_count) {
        *ret = provider->orphans;
        *ret_count = provider->orphan_count;
}

int lineage_stage_write(struct stage_turn *turn) {
        static const char *const moved[] = { "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey",
                                             NULL };
        struct provider *provider = turn->provider;
        struct arena *arena = turn->progress->arena;
        const struct s3_bucket bucket = aws_bucket(provider);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        const char *text;
        int result;

        if (!provider->lineage.id)
                return STAGE_OVER;
        text = own_text(provider, arena);
        /*
         * An existing note is our own: renewed at this apply's start, or written by a try whose
         * answer was lost.
         */
        request = s3_put_object(&bucket, lineage_key(provider->lineage.id, arena), text, strlen(text),
                                "application/json", NULL, arena);
        result = stage_call(turn, &request, moved, &response);
        return result == 0 ? STAGE_OVER : result;
}

const struct lineage_ops aws_lineage_ops = {
        .set = remember_lineage,
        .renew = renew_note,
        .read = lineage_read,
        .take = take_over_lineages,
        .orphans = list_orphans,
};
