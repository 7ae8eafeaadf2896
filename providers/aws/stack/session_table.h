/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of DynamoDB for sessions' records, as the Stack's `sessions` declares it. In the stack's spec:
 *
 *   sessions {table, onDemand, expires, deletionProtection true, encryption "KMS", kmsKey?, tags}      managed
 *   sessions {table}                      createTable: false: it must be there, and is not touched
 *   formerTable NAME                      made before it was told so: goes with the stack
 *
 * A table that this stack made and that no manifest names any more goes at once: what is in it is sessions' records, so that this is
 * refused (table-not-empty) while there are any. No table is ever replaced: its key cannot change, and no setting asks for it.
 */
#ifndef BERTH_PROVIDERS_AWS_STACK_SESSION_TABLE_H
#define BERTH_PROVIDERS_AWS_STACK_SESSION_TABLE_H

#include "providers/aws/shared/aws_provider.h"
#include "providers/aws/shared/stage.h"

#define SESSIONS "sessions"
#define SESSIONS_TABLE SESSIONS ".table"
#define SESSIONS_TAGS SESSIONS ".tags"
#define STACK_FORMER_TABLE "formerTable"

/* The table that the Stack declares, or NULL; and whether it is this stack's to make. */
const char *session_table_declared(const struct provider *provider);
bool session_table_is_managed(const struct provider *provider);
/* Of a spec, the name of the table that this stack made, managed or former; NULL where it made none. */
const char *session_table_own(const struct value *spec);
bool session_table_has_settings(const struct value *spec);

const char *session_table_arn(const struct provider *provider, const char *name, struct arena *arena);

/* Sets `sessions` and `formerTable` in what is desired. */
void session_table_desire(const struct provider *provider, const struct observation *observed,
                          const struct value *recorded, struct arena *arena, struct value *spec);

/* A table's state: `spec` as above without tags, NULL if it does not exist; all its tags. */
struct session_table_sight {
        struct value *spec, *tags;
};
/* By three calls. `recorded`: the `sessions` of the record, or NULL. */
int session_table_read(struct provider *provider, const char *name, const struct value *recorded,
                       struct arena *arena, struct session_table_sight *ret, struct error *err) MUST_USE;
/* Sets provider->recorded_table, for guards that ask who lives: a Stack may have been given another since, or none. */
void session_table_note(struct provider *provider, const struct value *recorded);
void session_table_read_ahead(struct provider *provider, const struct value *recorded, struct arena *arena);
/* For a foreign table: fails if it does not exist, or cannot hold sessions. One call. */
int session_table_check(struct provider *provider, const char *name, struct error *err) MUST_USE;

/*
 * Tables with the stack's marks, of the account and region, that are neither `own` (or NULL) nor declared are orphans: a run died between
 * making one and recording it, and then another name was declared. By the index of tags, and one call more for each that it lists.
 */
int session_table_note_orphans(struct provider *provider, const char *own, struct arena *arena,
                               struct error *err) MUST_USE;

/* The refusal table-not-empty, where the change lets go of a table that holds records. */
int session_table_ask(struct provider *provider, struct change *change, struct arena *arena,
                      struct error *err) MUST_USE;

/* session_table_step.c: stages, of the stack's two tables. */
bool session_table_needs_creation(const struct change *change);
bool session_table_needs_protection(const struct change *change);
bool session_table_needs_billing(const struct change *change);
bool session_table_needs_expiry(const struct change *change);
bool session_table_needs_tags(const struct change *change);
bool session_table_needs_untag(const struct change *change);
bool session_table_needs_key(const struct change *change);
bool session_table_needs_removal(const struct change *change);
/* Of a deletion. */
bool session_table_is_there(const struct change *change);
int session_table_create(struct stage_turn *turn, int check); /* `check`: the stage that looks whose it is */
int session_table_check_owner(struct stage_turn *turn);
int session_table_wait(struct stage_turn *turn, int create); /* until it can be changed */
int session_table_protect(struct stage_turn *turn);
int session_table_bill(struct stage_turn *turn);
int session_table_expire(struct stage_turn *turn);
int session_table_check_expiry(struct stage_turn *turn);
int session_table_tag(struct stage_turn *turn);
int session_table_untag(struct stage_turn *turn);
int session_table_encrypt(struct stage_turn *turn);
int session_table_look(struct stage_turn *turn); /* once more, for records that came after the question */
int session_table_unprotect(struct stage_turn *turn);
int session_table_delete(struct stage_turn *turn);
int session_table_wait_gone(struct stage_turn *turn, int unprotect);

#endif
