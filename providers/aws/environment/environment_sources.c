/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which version of their secrets and parameters the variables shall have, for the plan. No value is
 * asked for: a secret's description lists its versions with their stages, and parameters are
 * described fifty at a time. So planning needs no right to read them. Each is asked about once,
 * however many variables name it; one whose version a manifest names by its id, and that was
 * applied, is not asked about at all, since such a version never changes.
 *
 * A failure to describe one does not fail the plan: a function that runs keeps the text that it
 * has, and people are told. Only a change that sets that very variable is refused.
 */
#include "base/array.h"
#include "base/json.h"
#include "providers/aws/client/partition.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/environment/environment.h"
#include "providers/aws/environment/variable_source.h"
#include "providers/aws/services/secretsmanager.h"
#include "providers/aws/services/ssm.h"

#include <stdlib.h>
#include <string.h>

#define STAGES_MAX 1000U /* AWS allows 20 a secret: more would be looked through for each one that is added */

/* One secret or parameter, as it was described. */
struct described {
        struct variable_source source; /* of the first variable that names it */
        const struct value *stages;    /* of a secret: {STAGE: version's id} */
        const char *version;           /* of a parameter */
        const char *problem;
};

struct looking {
        struct provider *provider;
        struct arena *arena;
        struct described *items; /* by ARN */
        size_t count;
};

static int by_arn(const void *a, const void *b) {
        return strcmp(((const struct described *)a)->source.arn, ((const struct described *)b)->source.arn);
}

static const struct value *variables_of(const struct wanted *wanted) {
        return wanted->desired ? value_get(wanted->desired->spec, "variables") : NULL;
}

static bool needs_description(const struct variable_source *source, const struct value *recorded) {
        return !source->id || !texts_same(value_get_text(recorded, "version"), source->id) ||
               !texts_same(value_get_text(recorded, "secret"), source->named);
}

/* Credentials are of one partition, and no call reaches into another. */
static void check_partition(const struct provider *provider, struct described *described,
                            struct arena *arena) {
        const struct variable_source *source = &described->source;
        const struct partition *partition;
        struct error ignored;

        partition = partition_of_region(source->region, &ignored);
        if (!texts_same(source->partition, provider->partition))
                described->problem = arena_printf(arena, "%s is in the partition %s, and this stack in %s",
                                                  variable_source_title(source, arena), source->partition,
                                                  provider->partition);
        else if (!partition || !texts_same(partition->name, source->partition))
                described->problem =
                        arena_printf(arena, "the partition %s of %s has no region %s", source->partition,
                                     variable_source_title(source, arena), source->region);
}

static struct looking gather_variables(struct provider *provider, const struct observe_args *args) {
        struct looking looking = { .provider = provider, .arena = args->arena };
        size_t kept = 0;

        for (size_t i = 0; i < args->count; i++) {
                const struct value *variables = variables_of(&args->wanted[i]);
                const struct value *recorded = value_get(args->wanted[i].recorded, "variables");

                for (uint32_t k = 0; variables && k < variables->count; k++) {
                        const struct member *variable = &variables->members[k];
                        struct variable_source source;

                        if (!variable_source_parse(&variable->value, args->arena, &source) ||
                            !needs_description(&source, value_get(recorded, variable->name)))
                                continue;
                        looking.items =
                                array_grow(args->arena, looking.items, looking.count, sizeof(*looking.items));
                        looking.items[looking.count++] = (struct described){ .source = source };
                }
        }
        if (looking.count > 1)
                qsort(looking.items, looking.count, sizeof(*looking.items), by_arn);
        for (size_t i = 0; i < looking.count; i++) {
                if (kept == 0 || by_arn(&looking.items[kept - 1], &looking.items[i]) != 0)
                        looking.items[kept++] = looking.items[i];
        }
        looking.count = kept;
        for (size_t i = 0; i < looking.count; i++)
                check_partition(provider, &looking.items[i], args->arena);
        return looking;
}

static struct described *find_described(const struct looking *looking, const char *arn) {
        const struct described wanted = { .source.arn = arn };

        return looking->count
                       ? bsearch(&wanted, looking->items, looking->count, sizeof(*looking->items), by_arn)
                       : NULL;
}

/* What AWS's answer to the question means for the plan: 0 where it says that this one cannot be had, -1 for any other trouble. */
static int take_refusal(const struct aws_response *response, const char *what, const char **ret,
                        struct arena *arena, const struct error *failure, struct error *err) {
        if (!aws_failed_with(response, "ResourceNotFoundException") &&
            !aws_code_is_denied(response->error_code)) {
                *err = *failure;
                return -1;
        }
        *ret = aws_failed_with(response, "ResourceNotFoundException")
                       ? arena_printf(arena, "%s does not exist", what)
                       : arena_printf(arena, "%s cannot be looked at: %s", what, failure->message);
        return 0;
}

static void read_stages(const json_t *answer, struct described *described, struct arena *arena) {
        struct value *stages = value_new_map(arena);
        const char *id;
        json_t *names;

        json_object_foreach (json_object_get(answer, "VersionIdsToStages"), id, names) {
                const json_t *name;
                size_t i;

                json_array_foreach (names, i, name) {
                        if (json_is_string(name) && stages->count < STAGES_MAX)
                                value_set_text(arena, stages, json_string_value(name), id);
                }
        }
        described->stages = stages;
}

static int describe_secret(const struct looking *looking, struct described *described, struct error *err) {
        const struct variable_source *source = &described->source;
        struct aws_request request = secretsmanager_describe(source->arn, source->region, looking->arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const char *title = variable_source_title(source, looking->arena);
        struct error failure;

        if (aws_call(looking->provider->client, &request, &response, &failure) < 0)
                return take_refusal(&response, title, &described->problem, looking->arena, &failure, err);
        if (json_is_number(json_object_get(response.json, "DeletedDate")))
                described->problem = arena_printf(looking->arena, "%s is being deleted", title);
        read_stages(response.json, described, looking->arena);
        return 0;
}

/* Parameters that one call can ask about: of one region, and all of this account or all of others. */
struct batch {
        struct described *items[SSM_DESCRIBED_MAX / 2];
        size_t count;
        bool is_own;
};

/*
 * The next batch from item *at on. An ARN does not say whether a name without a path begins with a slash: both are asked for,
 * so that a batch is half of what a call takes.
 */
static struct batch next_batch(const struct looking *looking, size_t *at) {
        struct batch batch = { 0 };

        for (; *at < looking->count && batch.count < SSM_DESCRIBED_MAX / 2; (*at)++) {
                struct described *described = &looking->items[*at];
                bool is_own = texts_same(described->source.account, looking->provider->account);

                if (described->source.is_secret || described->problem)
                        continue;
                if (batch.count > 0 && (is_own != batch.is_own ||
                                        !texts_same(described->source.region, batch.items[0]->source.region)))
                        break;
                batch.is_own = is_own;
                batch.items[batch.count++] = described;
        }
        return batch;
}

static struct aws_request describe_batch(const struct batch *batch, const char *token, struct arena *arena) {
        json_t *names = batch->is_own ? json_array() : NULL;

        for (size_t i = 0; names && i < batch->count; i++) {
                const char *name = batch->items[i]->source.name;

                json_add(names, json_string(arena_printf(arena, "/%s", name)));
                if (!strchr(name, '/'))
                        json_add(names, json_string(name));
        }
        return ssm_describe(names, batch->items[0]->source.region, token, arena);
}

/* By its ARN; a server that says none can only mean parameters of this account. */
static bool is_described(const struct batch *batch, const struct described *described,
                         const json_t *parameter) {
        const char *arn = json_text(parameter, "ARN"), *name = json_text(parameter, "Name");

        if (arn)
                return strcmp(arn, described->source.arn) == 0;
        return batch->is_own && name && texts_same(name[0] == '/' ? name + 1 : name, described->source.name);
}

static void read_parameters(const struct batch *batch, const json_t *answer, struct arena *arena) {
        const json_t *parameter;
        size_t i;

        json_array_foreach (json_object_get(answer, "Parameters"), i, parameter) {
                for (size_t k = 0; k < batch->count; k++) {
                        if (is_described(batch, batch->items[k], parameter))
                                batch->items[k]->version =
                                        arena_printf(arena, "%" JSON_INTEGER_FORMAT,
                                                     json_integer_or(parameter, "Version", 0));
                }
        }
}

static int describe_parameters(const struct looking *looking, const struct batch *batch, struct error *err) {
        struct arena *arena = looking->arena;
        struct aws_paging paging = { 0 };
        const char *refusal = NULL;

        do {
                struct aws_request request = describe_batch(batch, paging.token, arena);
                struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
                struct error failure;

                if (aws_call(looking->provider->client, &request, &response, &failure) < 0) {
                        if (take_refusal(&response, "parameters", &refusal, arena, &failure, err) < 0)
                                return -1;
                        break;
                }
                read_parameters(batch, response.json, arena);
                if (aws_next_page(&response, "NextToken", &paging, arena, err) < 0)
                        return -1;
        } while (paging.token);
        for (size_t i = 0; i < batch->count; i++) {
                struct described *described = batch->items[i];

                if (!described->version)
                        described->problem =
                                arena_printf(arena, "%s %s", variable_source_title(&described->source, arena),
                                             refusal ? strchr(refusal, ' ') + 1 : "does not exist");
        }
        return 0;
}

static int describe_all(const struct looking *looking, struct error *err) {
        for (size_t i = 0; i < looking->count; i++) {
                struct described *described = &looking->items[i];

                if (described->source.is_secret && !described->problem &&
                    describe_secret(looking, described, err) < 0)
                        return -1;
        }
        for (size_t at = 0;;) {
                struct batch batch = next_batch(looking, &at);

                if (batch.count == 0)
                        return 0;
                if (describe_parameters(looking, &batch, err) < 0)
                        return -1;
        }
}

void environment_describe_sources_ahead(struct provider *provider, const struct observe_args *args) {
        struct looking looking = gather_variables(provider, args);

        for (size_t i = 0; i < looking.count; i++) {
                const struct variable_source *source = &looking.items[i].source;
                struct aws_request request;

                if (!source->is_secret || looking.items[i].problem)
                        continue;
                request = secretsmanager_describe(source->arn, source->region, args->arena);
                aws_ahead(provider->client, &request);
        }
}

/* What the description says of one variable: {version} or {problem}. */
static struct value resolve_variable(const struct variable_source *source, const struct described *described,
                                     struct arena *arena) {
        struct value resolved = { .type = VALUE_MAP };
        const char *stage = source->stage ? source->stage : "AWSCURRENT", *version = source->id;

        if (described->problem) {
                value_set_text(arena, &resolved, "problem", described->problem);
                return resolved;
        }
        if (!version)
                version = source->is_secret ? value_get_text(described->stages, stage) : described->version;
        if (version)
                value_set_text(arena, &resolved, "version", version);
        else
                value_set_text(arena, &resolved, "problem",
                               arena_printf(arena, "%s has no version %s",
                                            variable_source_title(source, arena), stage));
        return resolved;
}

/* Said of functions that keep what they have, for as long as nothing sets their variables. */
static void warn_of(struct observation *observation, const char *variable, const char *problem,
                    struct arena *arena) {
        observation->warnings = array_grow(arena, observation->warnings, observation->warning_count,
                                           sizeof(*observation->warnings));
        observation->warnings[observation->warning_count++] =
                arena_printf(arena, "the variable %s of Environment/%s keeps the text that it has: %s",
                             variable, observation->name, problem);
}

static void resolve_environment(const struct looking *looking, const struct wanted *wanted,
                                struct observation *observation) {
        const struct value *variables = variables_of(wanted);
        struct arena *arena = looking->arena;
        struct value *resolved, *all;

        if (!variable_source_any(variables))
                return;
        all = value_new_map(arena);
        for (uint32_t i = 0; i < variables->count; i++) {
                const struct member *variable = &variables->members[i];
                const struct described *described;
                struct variable_source source;
                struct value one;

                if (!variable_source_parse(&variable->value, arena, &source))
                        continue;
                described = find_described(looking, source.arn);
                if (!described)
                        continue;
                one = resolve_variable(&source, described, arena);
                value_set(arena, all, variable->name, one);
                if (observation->exists && value_get(&one, "problem") &&
                    value_get(value_get(observation->spec, "variables"), variable->name))
                        warn_of(observation, variable->name, value_get_text(&one, "problem"), arena);
        }
        resolved = value_new_map(arena);
        if (observation->resolved)
                *resolved = value_copy(arena, observation->resolved);
        value_set(arena, resolved, "variables", *all);
        observation->resolved = resolved;
}

int environment_resolve_sources(struct provider *provider, const struct observe_args *args,
                                struct observation *observations, struct error *err) {
        struct looking looking = gather_variables(provider, args);

        if (describe_all(&looking, err) < 0)
                return -1;
        for (size_t i = 0; i < args->count; i++)
                resolve_environment(&looking, &args->wanted[i], &observations[i]);
        return 0;
}

void environment_ask_sources(struct change *change, struct arena *arena) {
        const struct value *resolved = value_get(change->observed->resolved, "variables");

        if (!environment_sets_sources(change))
                return;
        for (uint32_t i = 0; resolved && i < resolved->count; i++) {
                const char *problem = value_get_text(&resolved->members[i].value, "problem");

                if (problem && environment_sets_source(change, resolved->members[i].name))
                        aws_refuse(
                                change,
                                (struct refusal){
                                        .id = "secret-unusable",
                                        .message = arena_printf(arena, "the variable %s cannot be set: %s",
                                                                resolved->members[i].name, problem),
                                        .remedy =
                                                "mend the ARN, the secret or the rights to it; where only its "
                                                "description may not be read, its value can be: --allow "
                                                "secret-unusable",
                                },
                                arena);
        }
}
