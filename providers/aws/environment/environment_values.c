/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching the texts of variables that are kept elsewhere, with Berth's own credentials: the first
 * stage of a change that makes a function, before anything is deleted; of an update, once the
 * function was looked at. Lambda replaces all variables at once, and those of which nothing changes
 * go back as they stand in the function, so that they need not be fetched, nor exist still. Fetched
 * texts stand in progress->data, of which the journal gets keyed hashes, as of all that is
 * sensitive, and go into the one request that sets the variables. A run that dies fetches again.
 *
 * A secret is asked for by the version that was planned, and so is never another one than people saw; Parameter Store cannot
 * be asked so by ARN, and what it gives is recorded with its own version.
 */
#include "base/json.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/environment/environment_stages.h"
#include "providers/aws/environment/variable_source.h"
#include "providers/aws/services/secretsmanager.h"
#include "providers/aws/services/ssm.h"
#include "providers/aws/shared/stage_call.h"

#include <stdlib.h>
#include <string.h>

#define VARIABLES_SIZE_MAX 4096U /* Lambda's, as JSON */
#define QUOTED_MIN 4U            /* shorter texts stand in any message */

static bool change_touches_variable(const struct change *change, const char *variable) {
        struct arena *scratch ARENA_CLEANUP = arena_new();

        return change_touches(change, arena_printf(scratch, "variables.%s", variable));
}

bool environment_sets_source(const struct change *change, const char *variable) {
        if (environment_makes(change))
                return true;
        return environment_mends(change) && change_touches_variable(change, variable);
}

bool environment_sets_sources(const struct change *change) {
        const struct value *variables = value_get(change->desired, "variables");

        for (uint32_t i = 0; variables && i < variables->count; i++) {
                if (variables->members[i].value.type == VALUE_MAP &&
                    environment_sets_source(change, variables->members[i].name))
                        return true;
        }
        return false;
}

static const struct value *fetched_of(const struct stage_turn *turn) {
        return value_get(turn->progress->data, ENVIRONMENT_FETCHED);
}

const struct value *environment_variables(const struct change *change, const struct value *fetched,
                                          struct arena *arena) {
        const struct value *desired = value_get(change->desired, "variables");
        struct value *texts;

        if (!variable_source_any(desired))
                return desired;
        texts = value_new_map(arena);
        for (uint32_t i = 0; i < desired->count; i++) {
                const struct member *variable = &desired->members[i];
                const struct value *text = variable->value.type == VALUE_MAP
                                                   ? value_get(value_get(fetched, variable->name), "value")
                                                   : &variable->value;

                if (text)
                        value_set(arena, texts, variable->name, *text);
        }
        return texts;
}

const struct value *environment_applied(const struct change *change, const struct value *fetched,
                                        struct arena *arena) {
        struct value *applied, *variables;

        if (!fetched)
                return NULL;
        applied = value_new_map(arena);
        variables = value_new_map(arena);
        *applied = value_copy(arena, change->desired);
        *variables = value_copy(arena, value_get(applied, "variables"));
        for (uint32_t i = 0; i < fetched->count; i++)
                value_set(arena, variables, fetched->members[i].name, fetched->members[i].value);
        value_set(arena, applied, "variables", *variables);
        return applied;
}

/* Keeps a text for a variable: the form in which it is recorded. */
static void keep_variable(struct stage_turn *turn, const char *variable, const char *version,
                          const char *text) {
        struct arena *arena = turn->progress->arena;
        struct value *data = stage_data(turn), *all = value_new_map(arena);
        struct value form =
                value_copy(arena, value_get(value_get(turn->change->desired, "variables"), variable));
        struct value secret = value_text(arena, text);

        /* Of the text there are copies: values, bodies of requests. They end with the change. */
        arena_wipe_when_freed(arena);
        if (fetched_of(turn))
                *all = value_copy(arena, fetched_of(turn));
        secret.sensitive = true;
        value_set_text(arena, &form, "version", version);
        value_set(arena, &form, "value", secret);
        value_set(arena, all, variable, form);
        value_set(arena, data, ENVIRONMENT_FETCHED, *all);
}

void environment_keep_standing(struct stage_turn *turn) {
        const struct value *desired = value_get(turn->change->desired, "variables");
        const struct value *there = value_get(turn->observed->spec, "variables");

        for (uint32_t i = 0; desired && i < desired->count; i++) {
                const struct member *variable = &desired->members[i];
                const char *text = value_get_text(value_get(there, variable->name), "value");

                if (variable->value.type == VALUE_MAP && text &&
                    !environment_sets_source(turn->change, variable->name))
                        keep_variable(turn, variable->name, NULL, text);
        }
}

/* A variable whose text is still to be fetched. */
struct missing {
        const char *variable;
        struct variable_source source;
        const char *version; /* planned; NULL: not known */
};

/* The next one from *at on; moves *at behind it. */
static bool next_missing(const struct stage_turn *turn, uint32_t *at, struct missing *ret) {
        const struct value *desired = value_get(turn->change->desired, "variables");

        for (; *at < desired->count; (*at)++) {
                const struct member *variable = &desired->members[*at];

                if (value_get(fetched_of(turn), variable->name) ||
                    !variable_source_parse(&variable->value, turn->progress->arena, &ret->source))
                        continue;
                ret->variable = variable->name;
                ret->version = value_get_text(&variable->value, "version");
                (*at)++;
                return true;
        }
        return false;
}

static int blame(const struct stage_turn *turn, const struct missing *missing) {
        return error_context(turn->err, "the variable %s: %s", missing->variable,
                             variable_source_title(&missing->source, turn->progress->arena));
}

static bool is_same_version(const struct missing *a, const struct missing *b) {
        if (!a->source.is_secret || !b->source.is_secret || strcmp(a->source.arn, b->source.arn) != 0)
                return false;
        if (a->version || b->version)
                return texts_same(a->version, b->version);
        return a->source.stage == b->source.stage || texts_same(a->source.stage, b->source.stage);
}

/* One secret, for all variables that take something of the same version of it. */
static int fetch_secret(struct stage_turn *turn, const struct missing *first) {
        struct arena *arena = turn->progress->arena;
        struct aws_request request =
                secretsmanager_get_value(first->source.arn, first->source.region, first->version,
                                         first->version ? NULL : first->source.stage, arena);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct missing other;
        uint32_t at = 0;
        int result = stage_call(turn, &request, NULL, &response);

        if (result < 0)
                return blame(turn, first);
        if (result > 0)
                return result;
        while (result == 0 && next_missing(turn, &at, &other)) {
                const json_t *given = json_object_get(response.json, "SecretString");
                const char *id = json_text(response.json, "VersionId"), *text;

                if (!is_same_version(first, &other))
                        continue;
                result = variable_source_text(&other.source, given, arena, &text, turn->err);
                if (result < 0)
                        blame(turn, &other);
                else
                        keep_variable(turn, other.variable, id ? id : other.version, text);
        }
        return result;
}

static int keep_parameter(struct stage_turn *turn, const struct missing *missing, const json_t *parameter) {
        struct arena *arena = turn->progress->arena;
        const char *text;

        if (!parameter) {
                error_set(turn->err, "it does not exist");
                return blame(turn, missing);
        }
        if (variable_source_text(&missing->source, json_object_get(parameter, "Value"), arena, &text,
                                 turn->err) < 0)
                return blame(turn, missing);
        keep_variable(turn, missing->variable,
                      arena_printf(arena, "%" JSON_INTEGER_FORMAT, json_integer_or(parameter, "Version", 0)),
                      text);
        return 0;
}

static const json_t *find_parameter(const json_t *answer, const char *arn) {
        const json_t *parameter;
        size_t i;

        json_array_foreach (json_object_get(answer, "Parameters"), i, parameter) {
                if (texts_same(json_text(parameter, "ARN"), arn))
                        return parameter;
        }
        return NULL;
}

/* As many parameters of one region as a call takes. The same one may stand behind several variables: it is asked for once. */
static int fetch_parameters(struct stage_turn *turn, const struct missing *first) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        const char *arns[SSM_READ_MAX];
        struct missing batch[SSM_READ_MAX], other;
        json_t *names = json_array();
        size_t count = 0, arn_count = 0, i;
        struct aws_request request;
        uint32_t at = 0;
        int result;

        while (count < SSM_READ_MAX && next_missing(turn, &at, &other)) {
                if (other.source.is_secret || !texts_same(other.source.region, first->source.region))
                        continue;
                for (i = 0; i < arn_count && strcmp(arns[i], other.source.arn) != 0; i++)
                        ;
                if (i == arn_count) {
                        arns[arn_count++] = other.source.arn;
                        json_add(names, json_string(other.source.arn));
                }
                batch[count++] = other;
        }
        request = ssm_get(names, first->source.region, turn->progress->arena);
        result = stage_call(turn, &request, NULL, &response);
        if (result < 0)
                return blame(turn, first);
        if (result > 0)
                return result;
        for (i = 0; i < count && result == 0; i++)
                result = keep_parameter(turn, &batch[i], find_parameter(response.json, batch[i].source.arn));
        return result;
}

/* Others' variables are not known yet: Lambda counts these in. */
static int check_size(const struct value *texts, struct error *err) {
        json_t *all = environment_variables_json(texts, NULL);
        size_t size;
        char *text;

        json_secret_begin();
        text = json_compact(json_object_get(all, "Variables"));
        size = strlen(text);
        explicit_bzero(text, size);
        free(text);
        json_decref(all);
        json_secret_end();
        if (size > VARIABLES_SIZE_MAX)
                return error_set(
                        err,
                        "the variables take %zu bytes together, with the texts of secrets and parameters, "
                        "and AWS Lambda allows %u",
                        size, VARIABLES_SIZE_MAX);
        return 0;
}

int environment_run_fetch(struct stage_turn *turn) {
        struct missing first;
        uint32_t at = 0;
        int result;

        if (next_missing(turn, &at, &first)) {
                result = first.source.is_secret ? fetch_secret(turn, &first) : fetch_parameters(turn, &first);
                if (result != 0)
                        return result;
                at = 0;
        }
        if (next_missing(turn, &at, &first))
                return stage_enter(turn, turn->progress->stage);
        if (check_size(environment_variables(turn->change, fetched_of(turn), turn->progress->arena),
                       turn->err) < 0)
                return -1;
        return STAGE_OVER;
}

void environment_cost_sources(const struct change *change, struct cost *ret) {
        const struct value *variables = value_get(change->desired, "variables");
        struct variable_source sources[2];
        unsigned secrets = 0, parameters = 0;

        if (!environment_sets_sources(change))
                return;
        for (uint32_t i = 0; i < variables->count; i++) {
                bool again = false;

                if (!environment_sets_source(change, variables->members[i].name) ||
                    !variable_source_parse(&variables->members[i].value, ret->arena, &sources[0]))
                        continue;
                for (uint32_t k = 0; k < i && !again; k++)
                        again = variable_source_parse(&variables->members[k].value, ret->arena,
                                                      &sources[1]) &&
                                strcmp(sources[0].arn, sources[1].arn) == 0;
                secrets += sources[0].is_secret && !again;
                parameters += !sources[0].is_secret;
        }
        if (secrets)
                cost_add(ret, "secretsmanager", secrets);
        if (parameters)
                cost_add(ret, "ssm GetParameters", (parameters + SSM_READ_MAX - 1) / SSM_READ_MAX);
}

/* Writes `text` with stars in place of each `secret`. */
static void hide_text(struct strbuf *text, const char *secret) {
        struct strbuf hidden = STRBUF_SECRET;
        const char *at = strbuf_text(text), *found;

        while ((found = strstr(at, secret))) {
                strbuf_append_bytes(&hidden, at, (size_t)(found - at));
                strbuf_append(&hidden, "***");
                at = found + strlen(secret);
        }
        strbuf_append(&hidden, at);
        strbuf_release(text);
        *text = hidden;
}

void environment_withhold(const struct value *texts, const struct value *foreign, struct error *err) {
        const struct value *maps[] = { texts, foreign };
        struct strbuf message STRBUF_CLEANUP = STRBUF_SECRET;
        bool any = false;

        strbuf_append(&message, err->message);
        for (size_t i = 0; i < 2; i++) {
                for (uint32_t k = 0; maps[i] && k < maps[i]->count; k++) {
                        const struct value *text = &maps[i]->members[k].value;

                        if (!text->sensitive || text->type != VALUE_TEXT)
                                continue;
                        any = true;
                        if (text->count >= QUOTED_MIN)
                                hide_text(&message, text->text);
                }
        }
        if (any)
                error_set_kind(err, err->kind, "%.*s%s", (int)strcspn(strbuf_text(&message), "{"),
                               strbuf_text(&message),
                               strchr(strbuf_text(&message), '{')
                                       ? "(what it quotes of the variables is left out)"
                                       : "");
}
