/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lineages on AWS: the tag berth:lineage, and a note for each of them in the bucket, berth/lineages/UUID:
 *
 *     {"at":"2026-01-31T08:00:00.000Z","folder":"/srv/team/.berth","formatVersion":"1","lineage":"UUID","machine":"...",
 *      "stack":"research","takenBy":"UUID","who":"anna@ci-7"}
 */
#ifndef BERTH_PROVIDERS_AWS_SHARED_LINEAGE_H
#define BERTH_PROVIDERS_AWS_SHARED_LINEAGE_H

#include "providers/aws/shared/aws_provider.h"
#include "providers/aws/shared/stage.h"
#include "providers/lineage.h"

#define LINEAGE_NOTES "berth/lineages/"

/* For struct provider_ops. */
extern const struct lineage_ops aws_lineage_ops;

/* "berth/lineages/UUID". */
const char *lineage_key(const char *lineage, struct arena *arena);
/* Whether it is this state's own, or one that it has taken over. Without a state to say so, every lineage is. */
bool lineage_is_ours(const struct provider *provider, const char *lineage);
/* "stack research of another state (lineage UUID)". */
const char *lineage_owner(const char *stack, const char *lineage, struct arena *arena);

/*
 * For things that have only a name to carry it: "NAME@LINEAGE", and back: the name, and
 * *ret_lineage, NULL if absent. Berth's names have no "@": a suffix that is not a lineage stays
 * part of the name, which then is not one of Berth's.
 */
const char *lineage_mark(const char *name, const char *lineage, struct arena *arena);
const char *lineage_unmark(const char *text, struct arena *arena, const char **ret_lineage);

/*
 * The note's text, compact, and back; reading gives a zeroed note if the text is not a note. Pure.
 */
const char *lineage_note_text(const struct lineage_note *note, struct arena *arena);
struct lineage_note lineage_note_parse(const char *text, size_t length, struct arena *arena);

/* Reads one lineage's note: ret->lineage NULL if absent. Waits by itself. */
int lineage_read(struct provider *provider, const char *lineage, struct arena *arena,
                 struct lineage_note *ret, struct error *err) MUST_USE;
/* The notes of all lineages but this state's own and those that were taken over, of any stack. */
int lineage_others(struct provider *provider, struct arena *arena, struct lineage_note **ret,
                   size_t *ret_count, struct error *err) MUST_USE;

/* For observe: something with the stack's marks that no manifest and no record names. Each once. The texts are copied. */
void lineage_orphan(struct provider *provider, const struct orphan *orphan);
/* A plan begins: what the last one found is not this one's. */
void lineage_orphans_forget(struct provider *provider);

/* A stage: writes this state's note into a bucket that it has just made or taken over, whatever stands there. */
int lineage_stage_write(struct stage_turn *turn);

#endif
