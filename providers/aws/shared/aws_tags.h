/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a resource is, by the tags that Berth puts on everything it makes; and which tags are ours to compare. */
#ifndef BERTH_PROVIDERS_AWS_SHARED_AWS_TAGS_H
#define BERTH_PROVIDERS_AWS_SHARED_AWS_TAGS_H

#include "providers/aws/shared/aws_provider.h"

/*
 * The tags of everything Berth makes: the Stack's `tags`, the labels that its `tagLabels` name, berth:stack, berth:kind,
 * berth:name, berth:lineage. A map of texts. The labels are the Stack's own; aws_tags_of() has those of a manifest, which may
 * be NULL.
 */
struct value *aws_tags_for(const struct provider *provider, const char *kind, const char *name,
                           struct arena *arena);
struct value *aws_tags_of(const struct provider *provider, const char *kind, const char *name,
                          const struct value *labels, struct arena *arena);
/* The lineage that such tags tell; NULL where they were put there by a Berth that knew none. */
const char *aws_lineage_of(const struct value *tags);
/*
 * From a resource's tags (a map of texts): whose it is. The stack's name alone makes it ours only where no lineage stands
 * beside it. *ret_owner as in struct observation.
 */
/* Appended to the remedy where another lineage stands. */
#define AWS_LOST_STATE "; where this stack's state was lost, make it again: berth state adopt"
enum ownership aws_ownership(const struct provider *provider, const struct value *tags, struct arena *arena,
                             const char **ret_owner);
/* Whether such tags are of a stack of this name, of whichever lineage; and of another lineage. */
bool aws_is_of_stack(const struct provider *provider, const struct value *tags);
bool aws_is_of_lineage(const struct provider *provider, const struct value *tags);
/* Whether such tags are those of a resource of this kind and name. */
bool aws_tags_name(const struct value *tags, const char *kind, const char *name);
/* For a resource of another lineage, of a stack of this name: its owner, and what else to do. */
void aws_set_lineage(const char *address, const char *lineage, struct arena *arena, struct observation *ret);
/* The same into an observation, with what else to do than to take it over. */
void aws_set_ownership(const struct provider *provider, const char *address, const struct value *tags,
                       struct arena *arena, struct observation *ret);
/*
 * Marks of before there were lineages make what carries them ours once more, and the next apply adds one: a warning says
 * so. `path` is where a spec has its tags, or NULL where it has the lineage itself.
 */
void aws_warn_of_old_marks(const struct provider *provider, const char *kind, const char *path,
                           struct observation *observations, size_t count, struct arena *arena);
/*
 * Of observed tags, those that are ours to compare: every key in `desired` or `recorded`; others'
 * are left out. A map of texts.
 */
struct value *aws_tags_of_ours(const struct value *observed, const struct value *desired,
                               const struct value *recorded, struct arena *arena);
/*
 * Of `from`, the tags that `than` does not have with the same text; with `keys_only`, those that it does not have at
 * all. Desired beyond observed is what has to be put there; observed (of ours) beyond desired, keys only, is what has
 * to go.
 */
struct value *aws_tags_beyond(const struct value *from, const struct value *than, bool keys_only,
                              struct arena *arena);
bool aws_any_tag_beyond(const struct value *from, const struct value *than, bool keys_only);
/* Whether both have the same tags. value_equal() would take a tag of no text for none. */
bool aws_tags_same(const struct value *a, const struct value *b);

/*
 * Why `desired` cannot be put on what carries `there` (all its tags, others' among them): AWS takes 50 on one resource. In the
 * arena; NULL where they fit, and where they are all there already. AWS's own tags (aws:) do not count.
 */
const char *aws_too_many_tags(const struct value *there, const struct value *desired, struct arena *arena);
#define AWS_FEWER_TAGS "take tags of others away from it, or declare fewer in the Stack"

#endif
