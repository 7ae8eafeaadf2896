/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a resource is, where several states may meet in one place. A name has no owner: two teams
 * may both call their stack "research". A lineage is: the UUID that a state is given when it is
 * made.
 *
 * The controller says it once for each plan, by set(), before anything else of that plan. From then on the provider puts
 * it among the marks of all that it makes, and calls what carries another one OWNER_OTHER, whatever its stack is called.
 * What carries the stack's name and no lineage was made by a Berth that knew none: it is the stack's, and gets one.
 *
 * Each apply renews a note in the place itself, which says that this lineage lives, its last user,
 * and where its state lies. A state that was lost is made again under a lineage of its own (berth
 * state adopt); the note of the lost one then names its successor, and a machine that still holds
 * that state applies nothing with it any more.
 */
#ifndef BERTH_PROVIDERS_LINEAGE_H
#define BERTH_PROVIDERS_LINEAGE_H

#include "providers/provider.h"

#include <string.h>

struct lineage {
        const char *id; /* the state's UUID; NULL: there is no state */
        const char *const
                *taken; /* lineages that it has taken over, ended by NULL; what carries them is its own */
        /* For its note: "user@host", a name of this machine that others have not, the state's folder on it. */
        const char *who, *machine, *folder;
};

/* A lineage's note, as it stands in the place. */
struct lineage_note {
        const char *lineage;
        const char *stack;
        const char *who, *machine, *folder;
        const char *at;       /* when it was renewed: RFC 3339 */
        const char *taken_by; /* the lineage that has taken it over, or NULL */
};

/* What carries the stack's marks and was not among the wanted names of a kind that was observed. */
struct orphan {
        enum kind_id kind;
        const char *name;
        /*
         * NULL: the resource itself; otherwise a leftover of it, which cannot be adopted: "log
         * group X"
         */
        const char *part;
        const char *id;
        const char *lineage; /* NULL: it tells none, or was not read for it */
        bool unread;         /* it was not read for it */
};

/*
 * Whether the text can be a lineage's: letters, digits and dashes, 64 at most. Marks lie where others may write, and lists of
 * lineages are kept with blanks between them: "x UUID" would otherwise take over two.
 */
static inline bool lineage_has_form(const char *text) {
        size_t length = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-");

        return length > 0 && length <= 64 && !text[length];
}

struct lineage_ops {
        /* The texts are copied. Replaces what was said before. */
        void (*set)(struct provider *provider, const struct lineage *lineage);
        /*
         * Before an apply's first change. Fails where another lineage has taken this one over. With `renews` the note is
         * written, where there is a place for it that is the stack's to write to. May wait, and makes two calls.
         */
        int (*renew)(struct provider *provider, bool renews, struct error *err);
        /* One lineage's note; ret->lineage NULL if absent. May wait. */
        int (*read)(struct provider *provider, const char *lineage, struct arena *arena,
                    struct lineage_note *ret, struct error *err);
        /* Writes into the notes of these, where they have any, that this lineage has taken them over; renews its own. */
        int (*take)(struct provider *provider, const char *const *lineages, size_t count, struct error *err);
        /* Of the plan that was observed last; borrowed until the next one. A full refresh also looks for kinds without names. */
        void (*orphans)(const struct provider *provider, const struct orphan **ret, size_t *ret_count);
};

#endif
