/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the functions of a stack by lists. Singly read are only those that the lists cannot vouch for: new to us,
 * moved (another RevisionId), unhealthy, left half-way, or with tags that are not what we last saw; for the tag index
 * lags, so that what it says is news only once the function itself has said it too.
 */
#include "base/array.h"
#include "base/json.h"
#include "base/text.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/services/lambda.h"
#include "providers/aws/services/logs.h"
#include "providers/aws/services/tagging.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/execution_role.h"
#include "providers/aws/shared/lineage.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/*
 * Up to this many log groups are asked for one by one, rather than by pages that hold all of the
 * account's.
 */
#define LOG_GROUPS_SINGLY 8

struct sight {
        const struct wanted *wanted;
        const char *function;
        struct environment_known known;
        bool listed;
        const char *revision, *arn; /* as listed */
        const struct value *tags;   /* as the tag index has them; NULL where it does not list the function */
        bool read;                  /* singly: the lists do not vouch for `last` */
        json_t *function_read;      /* what that gave, owned; NULL where there is no such function */
        bool wants_logs;
        struct environment_log_group log_group;
};

struct sweep {
        struct provider *provider;
        const struct observe_args *args;
        struct arena *arena;
        struct sight *sights; /* by name, as wanted; so by function name as well */
        bool any_listed;
        struct stranger {
                const char *name, *arn;
        } * strangers; /* functions of this stack's form that were not asked for */
        size_t stranger_count;
        /* after a full read: environments' names of groups that were not asked for */
        const char **log_groups;
        size_t log_group_count;
        struct environment_role_use
                *uses; /* functions that run with a role that may be an environment's own */
        size_t use_count;
};

static void prepare_sight(struct sweep *sweep, size_t i) {
        const struct wanted *wanted = &sweep->args->wanted[i];
        const struct value *desired = wanted->desired ? wanted->desired->spec : NULL;
        struct sight *sight = &sweep->sights[i];

        sight->wanted = wanted;
        sight->function = environment_function(sweep->provider, wanted->name, sweep->arena);
        sight->known = (struct environment_known){
                .variables = value_get(desired, "variables"),
                .recorded_variables = value_get(wanted->recorded, "variables"),
                .tags = aws_tags_of(sweep->provider, "Environment", wanted->name,
                                    wanted->desired ? wanted->desired->labels : NULL, sweep->arena),
                .recorded_tags = value_get(wanted->recorded, "tags"),
                .recorded_key = value_get_text(wanted->recorded, "kmsKey"),
                .recorded_log_key = value_get_text(wanted->recorded, "logKmsKey"),
                .recorded_network = value_get(wanted->recorded, "network"),
                .says_network = desired && environment_says_network(sweep->provider, desired),
        };
        /* For a deletion, people want to know what becomes of its logs. */
        sight->wants_logs = !desired || sweep->provider->kms_key || value_get(desired, "logRetentionDays") ||
                            value_get(wanted->recorded, "logRetentionDays") ||
                            value_get(wanted->recorded, "logKmsKey");
        sight->log_group.environment = wanted->name;
}

static int compare_to_sight(const void *function, const void *sight) {
        return strcmp(function, ((const struct sight *)sight)->function);
}

static struct sight *find_sight(const struct sweep *sweep, const char *function) {
        return sweep->args->count ? bsearch(function, sweep->sights, sweep->args->count,
                                            sizeof(*sweep->sights), compare_to_sight)
                                  : NULL;
}

static void note_stranger(struct sweep *sweep, const json_t *configuration) {
        const char *function = json_text(configuration, "FunctionName"),
                   *arn = json_text(configuration, "FunctionArn"),
                   *prefix = environment_function(sweep->provider, "", sweep->arena);

        if (!function || !arn || strncmp(function, prefix, strlen(prefix)) != 0)
                return;
        sweep->strangers =
                array_grow(sweep->arena, sweep->strangers, sweep->stranger_count, sizeof(*sweep->strangers));
        sweep->strangers[sweep->stranger_count++] = (struct stranger){
                .name = arena_strdup(sweep->arena, function + strlen(prefix)),
                .arn = arena_strdup(sweep->arena, arn),
        };
}

static void note_role_use(struct sweep *sweep, const json_t *configuration) {
        const char *function = json_text(configuration, "FunctionName"),
                   *arn = json_text(configuration, "Role"),
                   *prefix = environment_function(sweep->provider, "", sweep->arena);

        if (!function || !arn || strncmp(execution_role_name_in(arn), prefix, strlen(prefix)) != 0)
                return;
        sweep->uses = array_grow(sweep->arena, sweep->uses, sweep->use_count, sizeof(*sweep->uses));
        sweep->uses[sweep->use_count++] = (struct environment_role_use){
                .function = arena_strdup(sweep->arena, function),
                .role = arena_strdup(sweep->arena, execution_role_name_in(arn)),
        };
}

static void note_listed(struct sweep *sweep, const json_t *configuration) {
        const char *function = json_text(configuration, "FunctionName");
        struct sight *sight = function ? find_sight(sweep, function) : NULL;

        if (!sight) {
                note_stranger(sweep, configuration);
                return;
        }
        sight->listed = true;
        sight->revision = arena_strdup(sweep->arena, json_text(configuration, "RevisionId"));
        sight->arn = arena_strdup(sweep->arena, json_text(configuration, "FunctionArn"));
        sweep->any_listed = true;
}

static int list_functions(struct sweep *sweep, struct error *err) {
        struct aws_paging paging = { 0 };

        do {
                struct aws_request request = lambda_list_functions(paging.token);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const json_t *configuration;
                size_t i;

                if (aws_call(sweep->provider->client, &request, &response, err) < 0)
                        return -1;
                json_array_foreach (json_object_get(response.json, "Functions"), i, configuration) {
                        note_listed(sweep, configuration);
                        note_role_use(sweep, configuration);
                }
                if (aws_next_page(&response, "NextMarker", &paging, sweep->arena, err) < 0)
                        return -1;
        } while (paging.token);
        return 0;
}

/*
 * Tags of the stack's own functions, and, among functions that were not asked for, those that carry
 * its marks.
 */
static int list_tags(struct sweep *sweep, struct error *err) {
        struct tagged_resource *resources;
        size_t count;

        if (tagging_list(sweep->provider->client, "lambda:function", sweep->provider->stack_name,
                         sweep->arena, &resources, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < sweep->args->count; i++) {
                if (sweep->sights[i].arn)
                        sweep->sights[i].tags = tagging_find(resources, count, sweep->sights[i].arn);
        }
        for (size_t i = 0; i < sweep->stranger_count; i++) {
                const struct stranger *stranger = &sweep->strangers[i];
                const struct value *tags = tagging_find(resources, count, stranger->arn);

                if (aws_tags_name(tags, "Environment", stranger->name))
                        lineage_orphan(sweep->provider, &(struct orphan){ .kind = KIND_ENVIRONMENT,
                                                                          .name = stranger->name,
                                                                          .id = stranger->arn,
                                                                          .lineage = aws_lineage_of(tags) });
        }
        return 0;
}

/* A variable of which only the hash was kept, while the manifest now says that it may be shown. */
static bool hides_open_variable(const struct sight *sight, const struct value *spec) {
        const struct value *seen = value_get(spec, "variables");

        for (uint32_t i = 0; seen && seen->type == VALUE_MAP && i < seen->count; i++) {
                const struct value *desired = value_get(sight->known.variables, seen->members[i].name);

                if (seen->members[i].value.type == VALUE_SECRET && desired && desired->type == VALUE_TEXT &&
                    !desired->sensitive)
                        return true;
        }
        return false;
}

/*
 * It was last read without its key, or its network: that one is then the recorded one, and may not
 * be the real one.
 */
static bool hides_asked(const struct sweep *sweep, const struct sight *sight, const struct value *spec) {
        struct value there =
                environment_network_of_vpc(sweep->provider, value_get(spec, ENVIRONMENT_VPC), sweep->arena);

        return (sweep->provider->kms_key && !value_get(spec, "kmsKey")) ||
               (sight->known.says_network && !value_equal(value_get(spec, "network"), &there, NULL));
}

static bool tags_moved(const struct sweep *sweep, const struct sight *sight, const struct value *spec) {
        const struct value *ours =
                aws_tags_of_ours(sight->tags, sight->known.tags, sight->known.recorded_tags, sweep->arena);

        return !aws_tags_same(ours, value_get(spec, "tags"));
}

/* Whose it is follows from its tags, and from what this state speaks for today. */
static bool same_owner(const struct sweep *sweep, const struct sight *sight, const struct observation *last) {
        const char *owner;

        return aws_ownership(sweep->provider, sight->tags, sweep->arena, &owner) == last->ownership;
}

/* Whether what was seen the last time still stands for what is there. */
static bool is_still_as_last_seen(const struct sweep *sweep, const struct sight *sight) {
        const struct observation *last = sight->wanted->last;

        return last && last->exists && last->spec && last->fingerprint && sight->revision &&
               strcmp(last->fingerprint, sight->revision) == 0 && last->health == HEALTH_READY &&
               !last->health_reason && !sight->wanted->must_read && sweep->args->refresh == REFRESH_SWEEP &&
               sight->tags && !tags_moved(sweep, sight, last->spec) && same_owner(sweep, sight, last) &&
               !hides_open_variable(sight, last->spec) && !hides_asked(sweep, sight, last->spec);
}

/*
 * A function that was there the last time, or may be: its absence from a list is not enough to call
 * it gone.
 */
static bool missing_from_list(const struct sweep *sweep, const struct sight *sight) {
        const struct wanted *wanted = sight->wanted;

        if (sight->listed)
                return false;
        return wanted->must_read || wanted->recorded || (wanted->last && wanted->last->exists) ||
               sweep->args->refresh == REFRESH_FULL;
}

static int read_function(struct sweep *sweep, struct sight *sight, struct error *err) {
        static const char *const gone[] = { "ResourceNotFoundException", NULL };
        struct aws_request request = lambda_get_function(sight->function, sweep->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        if (aws_call_accepting(sweep->provider->client, &request, gone, &response, err) < 0)
                return -1;
        if (*response.error_code)
                return 0;
        if (environment_check_answer(response.json, sight->function, err) < 0)
                return -1;
        sight->function_read = json_incref(response.json);
        return 0;
}

/* All are asked for before the first is waited for: a first plan of a thousand would else take a minute of waiting. */
static int read_singly(struct sweep *sweep, struct error *err) {
        for (size_t i = 0; i < sweep->args->count; i++) {
                struct sight *sight = &sweep->sights[i];
                struct aws_request request;

                if (!(sight->listed && !is_still_as_last_seen(sweep, sight)) &&
                    !missing_from_list(sweep, sight))
                        continue;
                sight->read = true;
                request = lambda_get_function(sight->function, sweep->arena);
                aws_ahead(sweep->provider->client, &request);
        }
        for (size_t i = 0; i < sweep->args->count; i++) {
                if (sweep->sights[i].read && read_function(sweep, &sweep->sights[i], err) < 0)
                        return -1;
        }
        return 0;
}

static const char log_prefix[] = "/aws/lambda/";

/* A group whose function is there as well goes with that one. */
static void note_log_stranger(struct sweep *sweep, const char *function) {
        const char *prefix = environment_function(sweep->provider, "", sweep->arena),
                   *name = function + strlen(prefix);

        if (strncmp(function, prefix, strlen(prefix)) != 0 || !*name)
                return;
        for (size_t i = 0; i < sweep->stranger_count; i++) {
                if (strcmp(sweep->strangers[i].name, name) == 0)
                        return;
        }
        sweep->log_groups = array_grow(sweep->arena, sweep->log_groups, sweep->log_group_count,
                                       sizeof(*sweep->log_groups));
        sweep->log_groups[sweep->log_group_count++] = arena_strdup(sweep->arena, name);
}

/*
 * From pages that hold all of the account's groups, takes those of the environments that were asked
 * for.
 */
static void note_log_group(struct sweep *sweep, const json_t *group) {
        const char *name = json_text(group, "logGroupName");
        struct sight *sight;

        if (!name || strncmp(name, log_prefix, sizeof(log_prefix) - 1) != 0)
                return;
        sight = find_sight(sweep, name + sizeof(log_prefix) - 1);
        if (!sight) {
                if (sweep->args->refresh == REFRESH_FULL)
                        note_log_stranger(sweep, name + sizeof(log_prefix) - 1);
                return;
        }
        sight->log_group.exists = true;
        sight->log_group.days = json_integer_or(group, "retentionInDays", 0);
        sight->log_group.bytes = json_integer_or(group, "storedBytes", 0);
        sight->known.log_key = arena_strdup(sweep->arena, json_text(group, "kmsKeyId"));
        sight->log_group.created_ms = json_integer_or(group, "creationTime", 0);
}

/* Pages come in the order of names: none is asked for beyond `last`. */
static int list_log_groups(struct sweep *sweep, const char *prefix, const char *last, struct error *err) {
        struct aws_paging paging = { 0 };

        do {
                struct aws_request request = logs_describe_groups(prefix, paging.token, sweep->arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                const json_t *groups, *group;
                const char *name = NULL;
                size_t i;

                if (aws_call(sweep->provider->client, &request, &response, err) < 0)
                        return -1;
                groups = json_object_get(response.json, "logGroups");
                json_array_foreach (groups, i, group)
                        note_log_group(sweep, group);
                name = json_text(json_array_get(groups, json_array_size(groups) - 1), "logGroupName");
                if (aws_next_page(&response, "nextToken", &paging, sweep->arena, err) < 0)
                        return -1;
                if (name && strcmp(name, last) >= 0)
                        break;
        } while (paging.token);
        return 0;
}

/* Of a few groups each is a listing of its own, of many there is one; where all is read, one that holds the last of them. */
struct log_listing {
        const char *prefix, *last;
};

static struct log_listing *log_listings(const struct sweep *sweep, size_t *ret_count) {
        struct log_listing *listings = arena_array(sweep->arena, LOG_GROUPS_SINGLY + 1, sizeof(*listings));
        const char *all = arena_printf(sweep->arena, "%s%s-env-", log_prefix, sweep->provider->prefix);
        size_t count = 0;

        for (size_t i = 0; i < sweep->args->count; i++) {
                const struct sight *sight = &sweep->sights[i];
                const char *group;

                if (!sight->wants_logs)
                        continue;
                group = arena_printf(sweep->arena, "%s%s", log_prefix, sight->function);
                if (count < LOG_GROUPS_SINGLY)
                        listings[count] = (struct log_listing){ group, group };
                else
                        listings[0] = (struct log_listing){ all, group };
                count++;
        }
        if (count > 0 && sweep->args->refresh == REFRESH_FULL) {
                /* Behind all characters of a group's name. */
                listings[0] = (struct log_listing){ all, arena_printf(sweep->arena, "%s~", all) };
                count = 1;
        }
        *ret_count = count > LOG_GROUPS_SINGLY ? 1 : count;
        return listings;
}

static int read_log_groups(struct sweep *sweep, struct error *err) {
        size_t count;
        const struct log_listing *listings = log_listings(sweep, &count);

        for (size_t i = 0; i < count; i++) {
                if (list_log_groups(sweep, listings[i].prefix, listings[i].last, err) < 0)
                        return -1;
        }
        return 0;
}

/* For the guard expires-logs, which is asked once all changes are known. */
static void keep_log_groups(const struct sweep *sweep) {
        struct environment_log_group *groups =
                arena_array(sweep->arena, sweep->args->count + 1, sizeof(*groups));

        for (size_t i = 0; i < sweep->args->count; i++)
                groups[i] = sweep->sights[i].log_group;
        environment_keep_log_groups(sweep->provider, groups, sweep->args->count);
}

/* The last observation, with the retention and the key of the log group that are there now. */
static void observe_as_last(const struct sweep *sweep, const struct sight *sight, struct observation *ret) {
        const struct observation *last = sight->wanted->last;
        const char *key = aws_observed_key(sweep->provider, value_get_text(last->spec, "kmsKey"),
                                           sight->known.recorded_key),
                   *log_key = aws_observed_key(sweep->provider, sight->known.log_key,
                                               sight->known.recorded_log_key);
        const struct value *network =
                sight->known.says_network ? value_get(last->spec, "network") : sight->known.recorded_network;
        struct value *spec;

        *ret = *last;
        ret->name = sight->wanted->name;
        ret->resolved = NULL;
        if ((!sight->wants_logs ||
             value_get_integer(last->spec, "logRetentionDays", 0) == sight->log_group.days) &&
            text_equal(key, value_get_text(last->spec, "kmsKey")) &&
            text_equal(log_key, value_get_text(last->spec, "logKmsKey")) &&
            value_equal(network, value_get(last->spec, "network"), NULL))
                return;
        spec = value_new_map(sweep->arena);
        *spec = value_copy(sweep->arena, last->spec);
        value_unset(spec, "kmsKey");
        value_unset(spec, "logKmsKey");
        value_unset(spec, "network");
        if (network)
                value_set(sweep->arena, spec, "network", *network);
        value_set_text(sweep->arena, spec, "kmsKey", key);
        value_set_text(sweep->arena, spec, "logKmsKey", log_key);
        if (sight->wants_logs) {
                value_unset(spec, "logRetentionDays");
                if (sight->log_group.days > 0)
                        value_set_integer(sweep->arena, spec, "logRetentionDays", sight->log_group.days);
        }
        ret->spec = spec;
}

/* For a declared function: whether its tags fit beside those that others put on it. */
static void check_tags(const struct sweep *sweep, const struct sight *sight, struct observation *ret) {
        const struct value *there = sight->tags;

        if (sight->function_read)
                there = aws_tags_from_json(json_object_get(sight->function_read, "Tags"), sweep->arena);
        if (!sight->wanted->desired || !ret->exists || !there)
                return;
        ret->over_quota = aws_too_many_tags(there, sight->known.tags, sweep->arena);
        ret->over_quota_remedy = AWS_FEWER_TAGS;
}

static void make_observations(const struct sweep *sweep, struct observation *ret) {
        for (size_t i = 0; i < sweep->args->count; i++) {
                const struct sight *sight = &sweep->sights[i];

                if (!sight->read && sight->listed) {
                        observe_as_last(sweep, sight, &ret[i]);
                        aws_set_ownership(sweep->provider,
                                          arena_printf(sweep->arena, "Environment/%s", sight->wanted->name),
                                          sight->tags, sweep->arena, &ret[i]);
                } else if (!sight->function_read) {
                        ret[i] = (struct observation){ .name = sight->wanted->name };
                } else {
                        environment_observation(sweep->provider, sight->wanted->name, sight->function_read,
                                                &sight->known, sight->log_group.days, sweep->arena, &ret[i]);
                        ret[i].extra = sight->wanted->notes;
                }
                check_tags(sweep, sight, &ret[i]);
        }
}

static struct sweep prepare_sweep(struct provider *provider, const struct observe_args *args) {
        struct sweep sweep = { .provider = provider, .args = args, .arena = args->arena };

        sweep.sights = arena_array(args->arena, args->count + 1, sizeof(*sweep.sights));
        for (size_t i = 0; i < args->count; i++)
                prepare_sight(&sweep, i);
        return sweep;
}

void environment_list_ahead(struct provider *provider, struct arena *arena) {
        struct aws_request request = lambda_list_functions(NULL);

        (void)arena;
        aws_ahead_pages(provider->client, &request, lambda_next_functions, NULL);
}

/* The other lists, and the images: functions that were there the last time are taken to be there. */
void environment_read_ahead(struct provider *provider, const struct observe_args *args) {
        struct aws_request request;
        const struct log_listing *listings;
        struct sweep sweep;
        size_t count;

        if (args->count == 0)
                return;
        sweep = prepare_sweep(provider, args);
        for (size_t i = 0; i < args->count; i++) {
                sweep.sights[i].listed = args->wanted[i].last && args->wanted[i].last->exists;
                sweep.any_listed |= sweep.sights[i].listed;
        }
        if (sweep.any_listed)
                tagging_read_ahead(provider->client, "lambda:function", provider->stack_name, args->arena);
        listings = log_listings(&sweep, &count);
        for (size_t i = 0; i < count; i++) {
                request = logs_describe_groups(listings[i].prefix, NULL, args->arena);
                aws_ahead_pages(provider->client, &request, logs_next_groups, listings[i].last);
        }
        environment_resolve_images_ahead(provider, args);
        environment_describe_sources_ahead(provider, args);
        environment_read_roles_ahead(provider, args);
}

/*
 * Lambda encrypts variables by a grant on the KMS key, which it makes for the role that the
 * function has at the time. A role that was deleted and made again is another one of the same name:
 * the grant is void, and each invocation fails, though nothing about the function has changed. So
 * the role's id is kept beside the function, and where it moves the role reads as another one,
 * which the next apply sets again. If an earlier run began and did not record it, the id is not
 * known: it is set again, too, which is harmless.
 */
static void mark_void_grants(const struct sweep *sweep, struct observation *seen) {
        for (size_t i = 0; i < sweep->args->count; i++) {
                const struct wanted *wanted = &sweep->args->wanted[i];
                const struct value *variables = value_get(seen[i].spec, "variables");
                const char *role = value_get_text(seen[i].spec, "role"),
                           *kept = value_get_text(seen[i].extra, ENVIRONMENT_ROLE_ID);
                bool granted = variables && variables->type == VALUE_MAP && variables->count > 0;
                bool lost = wanted->must_read && wanted->recorded && !kept;
                struct environment_role_now now;
                bool same;

                if (!seen[i].exists || !role || !environment_role_now(sweep->provider, wanted, &now) ||
                    strcmp(role, now.arn) != 0)
                        continue;
                same = kept && now.id && strcmp(kept, now.id) == 0;
                if (granted && (!now.id || lost || (kept && !same))) {
                        struct value *spec = value_new_map(sweep->arena);

                        *spec = value_copy(sweep->arena, seen[i].spec);
                        value_set_text(sweep->arena, spec, "role",
                                       arena_printf(sweep->arena, "%s (deleted: its grants are void)", role));
                        seen[i].spec = spec;
                } else if (!same) {
                        environment_keep_role(&seen[i], now.id, sweep->arena);
                }
        }
}

/* Notes which functions are this stack's, for the question whether others use its role. */
static void note_functions(const struct sweep *sweep, const struct observation *seen) {
        struct provider *provider = sweep->provider;

        provider->functions =
                arena_array(provider->arena, sweep->args->count + 1, sizeof(*provider->functions));
        provider->function_count = 0;
        for (size_t i = 0; i < sweep->args->count; i++) {
                bool ours = seen[i].ownership == OWNER_SELF || sweep->args->wanted[i].recorded;

                if (seen[i].exists && ours)
                        provider->functions[provider->function_count++] =
                                arena_strdup(provider->arena, sweep->sights[i].function);
        }
}

/*
 * Where all is read, three calls for each function remain, each with a quota of its own. They stand in line by turns: one kind
 * after the other would take the sum of their times, and not the longest.
 */
static void read_the_rest_ahead(const struct sweep *sweep, const struct observation *seen) {
        size_t count = sweep->args->count,
               orphans = sweep->log_groups ? environment_log_orphans_read(sweep->log_group_count) : 0;

        for (size_t i = 0; sweep->args->refresh == REFRESH_FULL && i < count; i++) {
                environment_see_left_ahead(sweep->provider, &sweep->args->wanted[i], &seen[i], sweep->arena);
                environment_see_log_tags_ahead(sweep->provider, &sweep->args->wanted[i], &seen[i],
                                               sweep->arena);
        }
        for (size_t i = 0; i < orphans; i++) {
                struct aws_request request =
                        environment_log_group_tags(sweep->provider, sweep->log_groups[i], sweep->arena);

                aws_ahead(sweep->provider->client, &request);
        }
}

/*
 * The order is that of what is known: functions and revisions by pages; the tag index, only where there are functions;
 * then singly what these two cannot vouch for; log groups last, also for functions that are still to be made: a group may be
 * there before its function.
 */
int environment_observe(struct provider *provider, const struct observe_args *args, struct observation *ret,
                        struct error *err) {
        struct sweep sweep;
        int result;

        provider->ties_to_ask = args->refresh == REFRESH_FULL ? UINT_MAX : ENVIRONMENT_TIES_ASKED;
        if (args->count == 0 && args->refresh != REFRESH_FULL)
                return 0;
        sweep = prepare_sweep(provider, args);
        result = list_functions(&sweep, err);
        if (result == 0 && (sweep.any_listed || sweep.stranger_count > 0))
                result = list_tags(&sweep, err);
        if (result == 0)
                result = read_singly(&sweep, err);
        if (result == 0)
                result = read_log_groups(&sweep, err);
        if (result == 0) {
                make_observations(&sweep, ret);
                note_functions(&sweep, ret);
                keep_log_groups(&sweep);
                read_the_rest_ahead(&sweep, ret);
                result = environment_see_log_tags(provider, args, ret, err);
        }
        if (result == 0)
                result = environment_note_log_orphans(provider, sweep.log_groups, sweep.log_group_count, args,
                                                      err);
        if (result == 0)
                result = environment_observe_roles(provider, args, sweep.uses, sweep.use_count, ret, err);
        if (result == 0) {
                mark_void_grants(&sweep, ret);
                result = environment_resolve_images(provider, args, ret, err);
                if (result == 0)
                        result = environment_resolve_sources(provider, args, ret, err);
                if (result == 0)
                        result = environment_check_concurrency(provider, args, ret, err);
                if (result == 0)
                        result = environment_see_left(provider, args, ret, err);
                aws_warn_of_old_marks(provider, "Environment", "tags", ret, args->count, args->arena);
        }
        for (size_t i = 0; i < args->count; i++)
                json_decref(sweep.sights[i].function_read);
        return result;
}
