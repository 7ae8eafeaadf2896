/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Environment as a Lambda function, {namePrefix}-env-{name}: what the files environment*.c share.
 *
 * environment.c: the table, desire and cost. environment_spec.c: a function as AWS describes it, turned into a spec.
 * environment_body.c: a spec turned into requests. environment_observe.c: reading by lists.
 * environment_image.c: which image it shall run, and whether that is of use. environment_logs.c: what becomes of its log
 * group. environment_sources.c: which versions of secrets and parameters its variables have. environment_step.c: changing it,
 * by the stages of environment_values.c, environment_make.c, environment_update.c and environment_wait.c.
 */
#ifndef BERTH_PROVIDERS_AWS_ENVIRONMENT_ENVIRONMENT_H
#define BERTH_PROVIDERS_AWS_ENVIRONMENT_ENVIRONMENT_H

#include "providers/aws/shared/aws_provider.h"

#include <jansson.h>

extern const struct kind_ops aws_environment_ops;

/* "{namePrefix}-env-{name}", and its log group "/aws/lambda/{function}", where Lambda itself writes. */
const char *environment_function(const struct provider *provider, const char *name, struct arena *arena);
const char *environment_log_group(const struct provider *provider, const char *name, struct arena *arena);

/*
 * What we know of a function before we look: of variables and tags only those that are desired or recorded are ours.
 * Any may be NULL.
 */
struct environment_known {
        const struct value *variables; /* desired */
        const struct value *recorded_variables;
        const struct value *tags; /* desired */
        const struct value *recorded_tags;
        const char *recorded_key, *recorded_log_key;
        const char *log_key; /* the log group's as it is; NULL: none, or not looked at */
        /* What this run fetched for them: {NAME: {secret | parameter, version, value}}. */
        const struct value *fetched_variables;
        const struct value *recorded_network;
        bool says_network; /* some manifest does: environment_says_network() */
};

/* Fails where an answer to GetFunction does not say which function it describes: all of it would read as Lambda's defaults. */
int environment_check_answer(const json_t *function, const char *name, struct error *err) MUST_USE;

/* environment_network.c. The function has Lambda's own network, which leads everywhere. */
#define ENVIRONMENT_OPEN "open"
/* It is in the VPC that the Stack makes, from which only the bucket is reached. */
#define ENVIRONMENT_ISOLATED "isolated"
/* Whether a spec's network can be asked for: of the Stack's VPC only once it is known. */
bool environment_knows_network(const struct provider *provider, const struct value *spec);
/* Whether the Environment's manifest, or the Stack's, says what network it has. */
bool environment_says_network(const struct provider *provider, const struct value *spec);
/* Sets `network` in a desired spec: ENVIRONMENT_OPEN, ENVIRONMENT_ISOLATED, or {subnets, securityGroups}; as recorded where none is said. */
void environment_desire_network(const struct provider *provider, const struct value *spec,
                                const struct value *recorded, struct arena *arena, struct value *ret);
/* The same of ENVIRONMENT_VPC, what the function has; NULL: no network. */
struct value environment_network_of_vpc(const struct provider *provider, const struct value *vpc,
                                        struct arena *arena);
/* VpcConfig for requests. A new reference. */
json_t *environment_network_json(const struct provider *provider, const struct value *network);

/*
 * The answer to GetFunction as an observation under `name`. `log_retention_days` 0: none, or not
 * looked at. Variables that are not ours are marked sensitive: their owner never said that they may
 * be shown.
 */
void environment_observation(const struct provider *provider, const char *name, const json_t *function,
                             const struct environment_known *known, int64_t log_retention_days,
                             struct arena *arena, struct observation *ret);

/*
 * What others made of the function and apply leaves: the VPC, seen in `spec`; and by `full`, two calls a function, its URL and
 * the statements of its resource policy. Sets left of each observation that is ours and declared.
 */
int environment_see_left(struct provider *provider, const struct observe_args *args,
                         struct observation *observations, struct error *err) MUST_USE;
/* environment_sessions.c: the guard has-sessions. Reads the table of sessions' records, once in a plan. */
int environment_ask_sessions(struct provider *provider, struct change *change, struct arena *arena,
                             struct error *err) MUST_USE;
/* A plan begins. */
void environment_sessions_forget(struct provider *provider);

/* Begins the two calls of one function. */
void environment_see_left_ahead(struct provider *provider, const struct wanted *wanted,
                                const struct observation *seen, struct arena *arena);
/* In the spec of an observation, never desired: {VpcId, SubnetIds, SecurityGroupIds}; absent where it runs in none. */
#define ENVIRONMENT_VPC "vpc"

/* Health by State and LastUpdateStatus of a configuration; values that we do not know are taken to be well. */
enum health environment_health(const json_t *configuration, struct arena *arena, const char **ret_reason);

/* In an observation's `extra`: the id of the role that the grants on its variables were made for. */
#define ENVIRONMENT_ROLE_ID "roleId"
/* NULL: it is not known. */
void environment_keep_role(struct observation *observation, const char *role_id, struct arena *arena);

/*
 * The health_reason of a function whose package is a Zip: Lambda gives it no image, ever, so that it is of no use to us, and a
 * function under this name needs another one in its place.
 */
#define ENVIRONMENT_ZIP "its code is a Zip package, and Lambda never turns that into an image"

/*
 * environment_role.c. In a spec: the role that Berth makes for this environment alone, as in execution_role.h; in an
 * observation's `extra` where there is such a role and no function.
 */
#define ENVIRONMENT_OWN_ROLE "ownRole"
#define ENVIRONMENT_USERS_NAMED 20

/* The known state of an environment's role, if that is not the Stack's. */
struct environment_role {
        const char *environment;
        const char *arn; /* of its own one, existing or not; NULL where it is to have none and had none */
        bool exists;     /* the own one; the next members belong to it */
        const char *id;
        enum ownership ownership;
        bool of_lineage; /* another state's, of a stack of this name */
        const char *owner;
        const char **users; /* functions that run with it, but for the environment's */
        size_t user_count;
        bool judged;         /* a foreign role was checked */
        const char *problem; /* what is wrong with it, or NULL */
};
/* A function and the name of its role, as listed. */
struct environment_role_use {
        const char *function, *role;
};
/* Sets `role` in the spec, and the own role where the manifest wants one. Pure. */
void environment_desire_role(const struct provider *provider, const struct resource *resource,
                             const struct value *recorded, struct arena *arena, struct value *spec);
void environment_read_roles_ahead(struct provider *provider, const struct observe_args *args);
/* Own roles into the observations; foreign roles are checked if they are new to a function. */
int environment_observe_roles(struct provider *provider, const struct observe_args *args,
                              const struct environment_role_use *uses, size_t use_count,
                              struct observation *observations, struct error *err) MUST_USE;
/*
 * The role that a function shall run with, as it is; `id` NULL: it does not exist. False: Berth
 * does not make it, or it was not read.
 */
struct environment_role_now {
        const char *arn, *id;
};
bool environment_role_now(const struct provider *provider, const struct wanted *wanted,
                          struct environment_role_now *ret);
/* ask(): the refusals not-owned, has-dependents and role-unusable, for roles. */
void environment_ask_role(struct provider *provider, struct change *change, struct arena *arena);
/* Whether Lambda may assume a role with this trust policy, as far as its statements say. Pure. */
bool environment_role_trusts_lambda(const char *trust);

/* Whether it runs, but what it was last told to become failed: `health_reason` then says so. */
bool environment_update_failed(const struct observation *observation);

/* "{registry}/{repository}@{digest}" of a spec's image; NULL where the digest is not known. */
const char *environment_image_uri(const struct provider *provider, const struct value *image,
                                  struct arena *arena);

/* The body of CreateFunction: everything but concurrency and logs. A new reference. */
json_t *environment_create_body(const struct provider *provider, const char *name, const struct value *spec,
                                const struct value *variables, struct arena *arena);
/*
 * The body of UpdateFunctionConfiguration: the members of the fields that differ and no others. `variables` are ours as texts
 * (environment_variables()), `foreign` those of others that must stay; `revision` may be NULL. A new reference.
 */
json_t *environment_configuration_body(const struct provider *provider, const struct change *change,
                                       const struct value *variables, const struct value *foreign,
                                       const char *revision);
/* {"Variables": {}}: others', and ours over them; either may be NULL. A new reference. */
json_t *environment_variables_json(const struct value *desired, const struct value *foreign);
json_t *environment_code_body(const struct provider *provider, const struct value *spec, const char *revision,
                              struct arena *arena);

/* What an environment's image shall be: {prebuilt?, image?, repository, tag?, digest?, follow?}. */
struct value *environment_desired_image(const struct provider *provider, const struct value *image,
                                        const struct value *resolved, const struct value *recorded,
                                        struct arena *arena);
/* Resolves, for every wanted name that needs it, tag to digest into observations[i].resolved. */
int environment_resolve_images(struct provider *provider, const struct observe_args *args,
                               struct observation *observations, struct error *err) MUST_USE;
/* Begins what it will ask of ECR, if what exists is what was seen the last time. */
void environment_resolve_images_ahead(struct provider *provider, const struct observe_args *args);
/* Whether the account's limit allows the concurrency that all of them reserve: observations[i].over_quota where not. */
int environment_check_concurrency(struct provider *provider, const struct observe_args *args,
                                  struct observation *observations, struct error *err) MUST_USE;
/* ask(): the refusals image-unusable and image-in-use. */
int environment_ask_image(struct provider *provider, struct change *change, struct arena *arena,
                          struct error *err) MUST_USE;

/*
 * Variables that are kept in Secrets Manager or Parameter Store (variable_source.h): which versions they have today, into
 * observations[i].resolved as {variables: {NAME: {version | problem}}}, by descriptions alone.
 */
int environment_resolve_sources(struct provider *provider, const struct observe_args *args,
                                struct observation *observations, struct error *err) MUST_USE;
void environment_describe_sources_ahead(struct provider *provider, const struct observe_args *args);
/* ask(): the refusal secret-unusable. */
void environment_ask_sources(struct change *change, struct arena *arena);
/* Whether the change sets this variable, which is such a one; whether it sets any such. Pure, as are the next five. */
bool environment_sets_source(const struct change *change, const char *variable);
bool environment_sets_sources(const struct change *change);
void environment_cost_sources(const struct change *change, struct cost *ret);
/* In progress->data: what was fetched for them. The journal gets hashes of the texts. */
#define ENVIRONMENT_FETCHED "fetched"
/* The variables that the function is to have, as texts: the manifest's, and those that were fetched (may be NULL). */
const struct value *environment_variables(const struct change *change, const struct value *fetched,
                                          struct arena *arena);
/* The desired spec with what was fetched, to be recorded; NULL where nothing was. */
const struct value *environment_applied(const struct change *change, const struct value *fetched,
                                        struct arena *arena);
/*
 * Takes secrets out of what Lambda says of a request that carried these variables: it quotes them, "String measured: {...}",
 * where they are too long. Either map may be NULL.
 */
void environment_withhold(const struct value *texts, const struct value *foreign, struct error *err);

/* An environment's log group as it was listed. */
struct environment_log_group {
        const char *environment;
        bool exists;
        int64_t days;       /* of retention; 0: forever */
        int64_t bytes;      /* stored, some hours ago */
        int64_t created_ms; /* wall clock; 0: not said */
};
/* Keeps a copy of the `count` groups, by name of their environments, for environment_ask_logs(). */
void environment_keep_log_groups(struct provider *provider, const struct environment_log_group *groups,
                                 size_t count);
/*
 * ask(): the refusal expires-logs, where a retention gets shorter over events that are that old, or over a group that Berth
 * did not make; of a deletion, what becomes of the group, in the change's reason.
 */
int environment_ask_logs(struct provider *provider, struct change *change, struct arena *arena,
                         struct error *err) MUST_USE;
/*
 * ask(): says in the reason of a deletion or replacement what hangs on the function: URL, aliases, event sources, permissions.
 * Of the first few functions of a plan, unless all are read singly.
 */
#define ENVIRONMENT_TIES_ASKED 8
int environment_ask_ties(struct provider *provider, struct change *change, struct arena *arena,
                         struct error *err) MUST_USE;

/* In an observation's `extra`: Berth made the log group. */
#define ENVIRONMENT_LOG_GROUP "logGroup"
/* Whether a deletion takes the group with it, if Berth made that. Pure. */
bool environment_deletes_logs(const struct change *change);
/*
 * Where all is read: tags that a log group of Berth's lacks, or has otherwise than its function, which no list shows, read as the
 * function's own: "blue (log group)". The next apply then tags both.
 */
int environment_see_log_tags(struct provider *provider, const struct observe_args *args,
                             struct observation *observations, struct error *err) MUST_USE;
/* Begins the call of one group, where there is one to be asked. */
void environment_see_log_tags_ahead(struct provider *provider, const struct wanted *wanted,
                                    const struct observation *seen, struct arena *arena);
/*
 * After a full read: among the groups of environments that were not asked for, those that carry the
 * stack's marks are orphans. Of the first hundred, since each is a call;
 * environment_log_orphans_read() says of how many of `count`.
 */
int environment_note_log_orphans(struct provider *provider, const char *const *names, size_t count,
                                 const struct observe_args *args, struct error *err) MUST_USE;
size_t environment_log_orphans_read(size_t count);
/* The log group's ARN, without the ":*" at its end. */
const char *environment_log_group_arn(const struct provider *provider, const char *name, struct arena *arena);
/* The tags of an environment's group say whether Berth made it, if no note does. */
struct aws_request environment_log_group_tags(const struct provider *provider, const char *name,
                                              struct arena *arena);
bool environment_made_log_group(const struct provider *provider, const struct aws_response *response,
                                struct arena *arena);

void environment_list_ahead(struct provider *provider, struct arena *arena);
void environment_read_ahead(struct provider *provider, const struct observe_args *args);
int environment_observe(struct provider *provider, const struct observe_args *args, struct observation *ret,
                        struct error *err);

int environment_step(struct provider *provider, const struct change *change, struct progress *progress,
                     struct observation *ret, struct error *err);
void environment_cost(const struct provider *provider, const struct change *change, struct cost *ret);

/*
 * How long to wait before the next look at a function that is on its way since `elapsed_ms`, where the last ones took
 * `usual_ms` (0: not known). Sparing, because a thousand may be on their way and share 100 looks a second. Pure.
 */
int64_t environment_poll_gap_ms(int64_t elapsed_ms, int64_t usual_ms);

#endif
