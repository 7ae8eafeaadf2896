/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Stack's own things: the workspace bucket and the execution role. stack.c says what shall be, stack_observe.c what
 * is; stack_step.c makes it so, stack_delete.c takes it down.
 *
 * The spec, as desired and observed:
 *   bucket {name, encryption "AES256" or more, kmsKey?, bucketKey?, publicAccessBlock true (all four), tlsOnly true, tags}
 *   role   {name, trust, policy, tags ...}      as in execution_role.h
 *   sessions {table ...}               as in session_table.h, where the Stack declares it
 * With createBucket: false the bucket is {name} and must exist; with an executionRole the role is {arn}. Neither is
 * touched then. What the stack had made before it was told so stands beside them:
 *   formerBucket NAME    goes with the stack
 *   formerRole NAME      goes once no function runs with it, and with the stack at the latest
 */
#ifndef BERTH_PROVIDERS_AWS_STACK_STACK_H
#define BERTH_PROVIDERS_AWS_STACK_STACK_H

#include "providers/aws/shared/execution_role.h"

/*
 * The encryption of a bucket without another setting. It reads like this whatever it is: an owner
 * that set a key of KMS wants more than S3's own, and keeps it, with its bucket key.
 */
#define STACK_ENCRYPTION "AES256"

extern const struct kind_ops aws_stack_ops;

/* Free provider->leftovers; NULL is fine. For close(). */
void stack_leftovers_release(struct leftovers *leftovers);

/* The parts that Berth manages, told by what only those have. */
bool stack_has_bucket(const struct value *spec);
bool stack_has_role(const struct value *spec);
/* The names of what this stack made, managed or former; NULL where it made none. */
const char *stack_own_bucket(const struct value *spec);
const char *stack_own_role(const struct value *spec);

/* Names in a spec, and in an observation's `extra`: no function runs with the former role. */
#define STACK_FORMER_BUCKET "formerBucket"
#define STACK_FORMER_ROLE "formerRole"
#define STACK_ROLE_UNUSED "formerRoleUnused"

/* The role that all environments share. */
#define STACK_ROLE ((struct execution_role_of){ 0 })
/* What desire() makes of the role: with its documents where it is managed. `recorded` is the stack's whole spec, or NULL. */
struct value *stack_desired_role(const struct provider *provider, const struct value *recorded,
                                 struct arena *arena);
/* Notes which role of that name there is now, for the grants of environments; NULL: not known. */
void stack_note_role(struct provider *provider, const char *id);
/* The tags of the bucket and of the role. */
struct value *stack_tags(const struct provider *provider, struct arena *arena);

/* stack_observe.c */
void stack_read_ahead(struct provider *provider, const struct observe_args *args);
int stack_observe(struct provider *provider, const struct observe_args *args, struct observation *ret,
                  struct error *err);

/* stack_key.c: fails where the Stack's kmsKey is of no use. */
void stack_read_key_ahead(struct provider *provider, struct arena *arena);
int stack_check_key(struct provider *provider, struct arena *arena, struct error *err) MUST_USE;

/* stack_users.c: the names of all functions of account and region that run with this role. */
int stack_role_functions(struct provider *provider, const char *role, struct arena *arena, const char ***ret,
                         size_t *ret_count, struct error *err) MUST_USE;
/* Of a deletion: the refusal has-dependents, where others use the bucket or the role. */
int stack_ask_users(struct provider *provider, struct change *change, struct arena *arena,
                    struct error *err) MUST_USE;

/* stack_step.c */
void stack_make_cost(const struct change *change, struct cost *ret);
int stack_make_step(struct provider *provider, const struct change *change, struct progress *progress,
                    struct observation *ret_observed, struct error *err);

/* stack_delete.c */
void stack_delete_cost(const struct change *change, struct cost *ret);
int stack_delete_step(struct provider *provider, const struct change *change, struct progress *progress,
                      struct observation *ret_observed, struct error *err);
/* Stages, of an update as well: the stack's own role, as observed, loses its policy and goes. */
int stack_delete_role_policy(struct stage_turn *turn);
int stack_delete_role(struct stage_turn *turn);
/* Of a deletion: the refusal bucket-not-empty, where the bucket holds more than this stack's records and Berth's locks. */
int stack_ask_bucket(struct provider *provider, struct change *change, struct arena *arena,
                     struct error *err) MUST_USE;
int stack_ask(struct provider *provider, struct change *change, struct arena *arena, struct error *err);

#endif
