/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of an environment's logs: the guard expires-logs, and what a deletion says of them.
 *
 * A retention deletes what is older, within a day or so, and nothing brings it back. So one that
 * gets shorter needs leave where the group is old enough to hold such events; and, at any age, if
 * Berth did not make the group: Lambda or another owner made it, who may count on it. Whether Berth
 * did is in the notes of the environment, or else (the notes went with a lost state, or with a run
 * that died) in the group's own tags, which are asked for only where that matters.
 */
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/services/logs.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/stage_call.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS (24LL * 60 * 60 * 1000)

void environment_keep_log_groups(struct provider *provider, const struct environment_log_group *groups,
                                 size_t count) {
        provider->log_groups = arena_array(provider->arena, count + 1, sizeof(*groups));
        provider->log_group_count = count;
        for (size_t i = 0; i < count; i++) {
                provider->log_groups[i] = groups[i];
                provider->log_groups[i].environment = arena_strdup(provider->arena, groups[i].environment);
        }
}

static int compare_to_group(const void *name, const void *group) {
        return strcmp(name, ((const struct environment_log_group *)group)->environment);
}

/* NULL if absent, or it was not read. */
static const struct environment_log_group *find_group(const struct provider *provider, const char *name) {
        const struct environment_log_group *found =
                provider->log_group_count ? bsearch(name, provider->log_groups, provider->log_group_count,
                                                    sizeof(*provider->log_groups), compare_to_group)
                                          : NULL;

        return found && found->exists ? found : NULL;
}

bool environment_deletes_logs(const struct change *change) {
        return change->action == ACTION_DELETE &&
               (value_get(change->recorded, "logRetentionDays") || value_get(change->recorded, "logKmsKey") ||
                value_get_boolean(change->observed->extra, ENVIRONMENT_LOG_GROUP, false));
}

const char *environment_log_group_arn(const struct provider *provider, const char *name,
                                      struct arena *arena) {
        return arena_printf(arena, "arn:%s:logs:%s:%s:log-group:%s", provider->partition, provider->region,
                            provider->account, environment_log_group(provider, name, arena));
}

struct aws_request environment_log_group_tags(const struct provider *provider, const char *name,
                                              struct arena *arena) {
        return logs_list_tags(environment_log_group_arn(provider, name, arena), arena);
}

bool environment_made_log_group(const struct provider *provider, const struct aws_response *response,
                                struct arena *arena) {
        const struct value *tags = aws_tags_from_json(json_object_get(response->json, "tags"), arena);
        const char *owner;

        return !*response->error_code && aws_ownership(provider, tags, arena, &owner) == OWNER_SELF;
}

/* The tags of the group that are not as they shall be, though the function's are: into a copy of the observed spec. */
static void mark_wrong_tags(const struct value *wished, const struct value *there, struct arena *arena,
                            struct observation *seen) {
        struct value *spec = NULL, *tags = NULL;

        for (uint32_t i = 0; i < wished->count; i++) {
                const char *key = wished->members[i].name, *text = value_get_text(there, key);
                const struct value *wish = &wished->members[i].value, *own = value_get(seen->spec, "tags");

                if (texts_same(text, value_text_of(wish)) ||
                    !texts_same(value_get_text(own, key), value_text_of(wish)))
                        continue;
                if (!spec) {
                        spec = value_new_map(arena);
                        tags = value_new_map(arena);
                        *spec = value_copy(arena, seen->spec);
                        *tags = value_copy(arena, own);
                }
                value_unset(tags, key);
                value_set_text(arena, tags, key, arena_printf(arena, "%s (log group)", text ? text : "none"));
        }
        if (!spec)
                return;
        value_unset(spec, "tags");
        value_set(arena, spec, "tags", *tags);
        seen->spec = spec;
}

static bool has_log_tags(const struct provider *provider, const struct wanted *wanted,
                         const struct observation *seen) {
        return wanted->desired && wanted->recorded && seen->exists && seen->ownership == OWNER_SELF &&
               find_group(provider, wanted->name);
}

void environment_see_log_tags_ahead(struct provider *provider, const struct wanted *wanted,
                                    const struct observation *seen, struct arena *arena) {
        struct aws_request request = environment_log_group_tags(provider, wanted->name, arena);

        if (has_log_tags(provider, wanted, seen))
                aws_ahead(provider->client, &request);
}

int environment_see_log_tags(struct provider *provider, const struct observe_args *args,
                             struct observation *observations, struct error *err) {
        static const char *const none[] = { "ResourceNotFoundException", "AccessDeniedException", NULL };
        struct arena *arena = args->arena;
        const char *unknown = NULL;

        if (args->refresh != REFRESH_FULL)
                return 0;
        for (size_t i = 0; i < args->count && !unknown; i++) {
                const struct wanted *wanted = &args->wanted[i];
                struct aws_request request = environment_log_group_tags(provider, wanted->name, arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

                if (!has_log_tags(provider, wanted, &observations[i]))
                        continue;
                if (aws_ask_fact(provider, &request, none, &response, &unknown, arena, err) < 0)
                        return -1;
                if (unknown)
                        aws_warn(&observations[i],
                                 arena_printf(arena, "the tags of log groups are not known: %s", unknown),
                                 arena);
                if (environment_made_log_group(provider, &response, arena))
                        mark_wrong_tags(aws_tags_of(provider, "Environment", wanted->name,
                                                    wanted->desired->labels, arena),
                                        aws_tags_from_json(json_object_get(response.json, "tags"), arena),
                                        arena, &observations[i]);
        }
        return 0;
}

/* Lambda's own groups outlive their functions by the thousand, and AWS takes five of these calls a second. */
#define ORPHANS_READ_MAX 100

size_t environment_log_orphans_read(size_t count) {
        return count < ORPHANS_READ_MAX ? count : ORPHANS_READ_MAX;
}

int environment_note_log_orphans(struct provider *provider, const char *const *names, size_t count,
                                 const struct observe_args *args, struct error *err) {
        static const char *const none[] = { "ResourceNotFoundException", "AccessDeniedException", NULL };
        struct arena *arena = args->arena;

        for (size_t i = 0; i < environment_log_orphans_read(count); i++) {
                struct aws_request request = environment_log_group_tags(provider, names[i], arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const char *group = environment_log_group(provider, names[i], arena);
                const struct value *tags;
                const char *unknown;

                if (aws_ask_fact(provider, &request, none, &response, &unknown, arena, err) < 0)
                        return -1;
                tags = aws_tags_from_json(json_object_get(response.json, "tags"), arena);
                if (!*response.error_code && aws_tags_name(tags, "Environment", names[i]) &&
                    aws_is_of_stack(provider, tags))
                        lineage_orphan(provider,
                                       &(struct orphan){ .kind = KIND_ENVIRONMENT,
                                                         .name = names[i],
                                                         .part = arena_printf(arena, "log group %s", group),
                                                         .id = group,
                                                         .lineage = aws_lineage_of(tags) });
        }
        return 0;
}

static int ask_who_made(struct provider *provider, const struct change *change, struct arena *arena,
                        bool *ret_ours, struct error *err) {
        static const char *const gone[] = { "ResourceNotFoundException", NULL };
        struct aws_request request = environment_log_group_tags(provider, change->name, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        *ret_ours = value_get_boolean(change->observed->extra, ENVIRONMENT_LOG_GROUP, false);
        if (*ret_ours)
                return 0;
        if (aws_call_accepting(provider->client, &request, gone, &response, err) < 0)
                return -1;
        *ret_ours = environment_made_log_group(provider, &response, arena);
        return 0;
}

/* "12345 bytes (12.1 KiB) since 2026-01-31": a group is as old as its oldest event can be. */
static const char *describe_stored(const struct environment_log_group *group, struct arena *arena) {
        uint64_t bytes = group->bytes > 0 ? (uint64_t)group->bytes : 0;
        char since[32];

        clock_format(group->created_ms, since, sizeof(since));
        return arena_printf(arena, "%" PRIu64 " bytes%s since %.10s", bytes, aws_readable_bytes(bytes, arena),
                            since);
}

static int ask_deletion(struct provider *provider, struct change *change,
                        const struct environment_log_group *group, struct arena *arena, struct error *err) {
        const char *what;
        bool ours = false;

        if (environment_deletes_logs(change) && ask_who_made(provider, change, arena, &ours, err) < 0)
                return -1;
        what = arena_printf(arena, "its log group %s %s (%s)",
                            environment_log_group(provider, change->name, arena),
                            ours ? "is deleted with it" : "stays, since Berth did not make it",
                            describe_stored(group, arena));
        change->reason = change->reason ? arena_printf(arena, "%s; %s", change->reason, what) : what;
        return 0;
}

static bool sets_retention(const struct change *change) {
        return change->action == ACTION_CREATE || change->action == ACTION_REPLACE ||
               change_touches(change, "logRetentionDays");
}

int environment_ask_logs(struct provider *provider, struct change *change, struct arena *arena,
                         struct error *err) {
        const struct environment_log_group *group = find_group(provider, change->name);
        const struct clock *clock = aws_client_clock(provider->client);
        int64_t days = value_get_integer(change->desired, "logRetentionDays", 0);
        const char *before;
        bool ours;

        if (!group)
                return 0;
        if (change->action == ACTION_DELETE)
                return ask_deletion(provider, change, group, arena, err);
        if (days <= 0 || !sets_retention(change) || (group->days > 0 && days >= group->days))
                return 0;
        if (ask_who_made(provider, change, arena, &ours, err) < 0)
                return -1;
        if (ours && clock->wall_ms(clock) - group->created_ms <= days * DAY_MS)
                return 0;
        before = group->days > 0 ? arena_printf(arena, "for %" PRId64 " days", group->days) : "for ever";
        aws_refuse(change,
                   (struct refusal){
                           .id = "expires-logs",
                           .message = arena_printf(
                                   arena,
                                   "the log group %s%s keeps its events %s, and would delete those that are "
                                   "older than logRetentionDays: %" PRId64 "; it holds %s",
                                   environment_log_group(provider, change->name, arena),
                                   ours ? "" : ", which Berth did not make,", before, days,
                                   describe_stored(group, arena)),
                           .remedy = arena_printf(
                                   arena,
                                   "let them be kept longer, export what is needed, or let them expire: "
                                   "--allow expires-logs:%s",
                                   change->address),
                   },
                   arena);
        return 0;
}
