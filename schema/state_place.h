/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a state is, as --state, BERTH_STATE and manifests say it: a folder, or a place below a bucket of S3
 * ("s3://BUCKET/PREFIX"). The one place that knows which schemes there are: what only looks like one must not quietly become a
 * folder of that name.
 */
#ifndef BERTH_SCHEMA_STATE_PLACE_H
#define BERTH_SCHEMA_STATE_PLACE_H

#include "base/arena.h"
#include "base/error.h"

enum state_place_type { STATE_PLACE_FOLDER, STATE_PLACE_S3 };

#define STATE_PLACE_PREFIX_MAX \
        512 /* bytes: the keys below it are at most 1,024 (Amazon S3 User Guide, "Naming objects") */

struct state_place {
        enum state_place_type type;
        const char *text;   /* how it is said to people, and found again: without slashes at the end */
        const char *folder; /* of a folder: its path, as given; else NULL */
        const char *bucket; /* of S3: a general purpose bucket's name; else NULL */
        const char *prefix; /* of S3: one or more parts between slashes, none at its ends; else NULL */
};

/*
 * Takes the text apart; texts live in the arena. A scheme that Berth does not know, a bucket's name that S3 has not
 * ("General purpose bucket naming rules" there) and a prefix that is empty or of other than plain characters are errors that
 * say what is taken. A folder whose path looks like a scheme is given as "./NAME".
 */
int state_place_parse(const char *text, struct arena *arena, struct state_place *ret,
                      struct error *err) MUST_USE;

#endif
