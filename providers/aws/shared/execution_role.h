/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A role that functions run as and that Berth makes: the Stack's, which all share, or one
 * Environment's own. The wished state (execution_role.c); the real one, and what others did to it
 * (execution_role_read.c); the stages that make it so (execution_role_step.c). The kinds put them
 * into their own tables, and say what becomes of the functions.
 *
 * Its spec, wished and seen:
 *   {name, path?, trust, policy, permissionsBoundary?, tags}      documents in the normal form of policy_document.h
 * A path that was said once stays wished, since none can change. A boundary is wished where the
 * Stack says one; seen is then whichever there is, and otherwise only the one that was applied:
 * another owner's is not ours to take away. Only roles that Berth makes have tags there; one that
 * is only named is {arn}.
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_EXECUTION_ROLE_H
#define BERTH_PROVIDERS_AWS_SHARED_EXECUTION_ROLE_H

#include "providers/aws/shared/aws_provider.h"
#include "providers/aws/shared/policy_document.h"
#include "providers/aws/shared/stage.h"

/* The name of its inline policy. */
#define EXECUTION_ROLE_POLICY "berth-execution"

/* Whose role it is: the Stack's, or with `environment` the own one of that Environment. */
struct execution_role_of {
        const char *environment;    /* NULL: the Stack's */
        const struct value *labels; /* of that Environment, for its tags; may be NULL */
};

/*
 * "{namePrefix}-execution-{region}", or "{namePrefix}-env-{environment}-{region}". Beyond IAM's 64 characters the end of the
 * latter is a digest of the whole, so that two of them never meet.
 */
const char *execution_role_name(const struct provider *provider, struct execution_role_of of,
                                struct arena *arena);
/* The ARN of a role of this account by its name and path, NULL for "/"; NULL before identify(). */
const char *execution_role_arn(const struct provider *provider, const char *path, const char *name,
                               struct arena *arena);
/* The ARN that a wished role has: where one is there at the wished path, or at any if none is wished, that one's. */
const char *execution_role_wished_arn(const struct provider *provider, const struct value *wished,
                                      const char *seen_arn, struct arena *arena);
/* The name in a role's ARN, which is unique in its account whatever its path: what follows the last slash. */
const char *execution_role_name_in(const char *arn);
/* Whether it is one that Berth makes: told by what only those have. NULL: none. */
bool execution_role_is_made(const struct value *role);

/* Its tags. */
struct value *execution_role_tags(const struct provider *provider, struct execution_role_of of,
                                  struct arena *arena);
/* Where its rights hold. */
struct policy_place execution_role_place(const struct provider *provider, struct execution_role_of of);
/* The statement by which Berth denies something in the role's document `member` at times; NULL: in that one never. Owned. */
json_t *execution_role_own_deny(const struct provider *provider, const char *member);
/* Sets a policy document in normal form; the reference to `document` is taken, NULL sets nothing. */
void execution_role_set_document(struct value *map, const char *name, json_t *document, struct arena *arena);

/* The wished state. Before identify() its name and policy are the recorded ones. */
struct value *execution_role_desire(const struct provider *provider, struct execution_role_of of,
                                    const struct value *recorded, struct arena *arena);

/* Words by which manifests accept what others did to a role: their policies of it; what they took away of Berth's. */
#define ROLE_ACCEPT_POLICIES "rolePolicies"
#define ROLE_ACCEPT_RIGHTS "roleRights"

/* Which role to read, and how. */
struct execution_role_look {
        struct execution_role_of of;
        const char *name;
        const struct value *recorded; /* its spec as last applied, or NULL */
        const struct value
                *wished;    /* what it shall be; NULL: it was given up, and nothing of it is compared */
        bool begun;         /* an earlier run may have made it: without marks it is ours */
        bool full;          /* others' policies as well */
        const char *member; /* where it stands in the kind's spec, for the paths of drift */
        const char *accept; /* the field that accepts drift, for people */
        const struct value *accepted; /* its words, or NULL */
};

struct execution_role_sight {
        bool exists;
        const char *arn, *id;     /* see struct iam_role */
        const struct value *tags; /* all of them, others' included */
        enum ownership ownership;
        const char *owner;  /* see aws_ownership() */
        struct value *spec; /* of tags those that are ours to compare */
        struct left_drift_list
                left;        /* what others did to one that is ours and wished, and what no change undoes */
        const char *unknown; /* why it is not known whether it has policies of others; or NULL */
};
/* What there is under that name. Waits by itself. */
int execution_role_read(struct provider *provider, const struct execution_role_look *look,
                        struct arena *arena, struct execution_role_sight *ret, struct error *err) MUST_USE;
/* Begins what execution_role_read() will ask; `there`: it is likely to be. */
void execution_role_read_ahead(struct provider *provider, const char *name, bool there, bool full,
                               struct arena *arena);

/* Which stages make `wished` of `seen`; either may be NULL or no role that Berth makes. */
bool execution_role_needs_creation(const struct value *wished, const struct value *seen);
/* It is at another path: it must be deleted, and made again. */
bool execution_role_needs_replacement(const struct value *wished, const struct value *seen);
bool execution_role_needs_boundary(const struct value *wished, const struct value *seen);
bool execution_role_needs_trust(const struct value *wished, const struct value *seen);
bool execution_role_needs_tags(const struct value *wished, const struct value *seen);
bool execution_role_needs_untag(const struct value *wished, const struct value *seen);
bool execution_role_needs_policy(const struct value *wished, const struct value *seen);
/* There is a policy in whose place another one goes: it has to be read before it is written. */
bool execution_role_replaces_policy(const struct value *wished, const struct value *seen);

/* Of a role at another path: the refusal needs-replacement, with `instead` as the way to do it without leave. */
void execution_role_ask_path(struct change *change, const struct value *wished, const struct value *seen,
                             const char *instead, struct arena *arena);

/* The stages' work. *ret_taken: there is one of that name already, and execution_role_check() tells whose. */
int execution_role_create(struct stage_turn *turn, struct execution_role_of of, const struct value *wished,
                          bool *ret_taken, const char **ret_id) MUST_USE;
/* Fails where it is not this stack's, with `instead` as what else to do. */
int execution_role_check(struct stage_turn *turn, const struct value *wished, const char *instead,
                         const char **ret_id) MUST_USE;
/*
 * Each of the two documents is read in the stage before the one that writes it, as it is then and
 * not as it was planned: rights that others took away are not given back. `applied`: the role's
 * spec as last applied; of one that is ours and has no record, what is wished; else NULL. Without
 * the stage before, the wished document is written whole.
 */
int execution_role_fetch_trust(struct stage_turn *turn, const struct value *wished) MUST_USE;
int execution_role_write_trust(struct stage_turn *turn, const struct value *wished,
                               const struct value *applied) MUST_USE;
int execution_role_fetch_policy(struct stage_turn *turn, const struct value *wished) MUST_USE;
int execution_role_write_policy(struct stage_turn *turn, const struct value *wished,
                                const struct value *applied) MUST_USE;
int execution_role_write_boundary(struct stage_turn *turn, const struct value *wished) MUST_USE;
int execution_role_tag(struct stage_turn *turn, const struct value *wished,
                       const struct value *seen) MUST_USE;
int execution_role_untag(struct stage_turn *turn, const struct value *wished,
                         const struct value *seen) MUST_USE;
int execution_role_delete_policy(struct stage_turn *turn, const char *name) MUST_USE;
int execution_role_delete(struct stage_turn *turn, const char *name) MUST_USE;

#endif
