/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of manifest and their fields, as data: one table from which loading, checking, defaults, the JSON Schema,
 * `berth explain` and the reference documentation all come.
 */
#ifndef BERTH_SCHEMA_KIND_H
#define BERTH_SCHEMA_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order in which kinds are shown, and made: what comes later may depend on what comes before. */
enum kind_id {
        KIND_STACK,
        KIND_RESOURCE_RANGE, /* narrows environments when manifests are loaded; nothing in the cloud */
        KIND_IMAGE,
        KIND_ENVIRONMENT,
        KIND_WORKSPACE_POLICY,
        KIND_AGENT,
        KIND_SWARM,
        KIND_CONTROLLER, /* in a file of its own: no part of a stack */
        KIND_COUNT
};

enum field_type {
        FIELD_BOOLEAN,
        FIELD_INTEGER,
        FIELD_TEXT,
        FIELD_LIST,   /* of `item` */
        FIELD_MAP,    /* free keys, values as `item` says */
        FIELD_OBJECT, /* `fields` */
        FIELD_ONE_OF  /* a text (as `item` says) or an object (`fields`): image, variables */
};

struct field {
        const char *name;
        enum field_type type;
        bool required;
        bool sensitive_item; /* variables: {value, sensitive} objects may stand for texts */
        int64_t minimum,
                maximum; /* of an integer; of a text (characters), list or map its length; both 0 for no limit */
        const int64_t *choices_integer;  /* ended by -1 */
        const char *const *choices_text; /* ended by NULL; of a boolean too: the only one it may be */
        const char *default_text;        /* as it would be written in YAML; NULL for none */
        const char *unit;                /* "MB", "seconds", "days" */
        const char *pattern;             /* extended regular expression that a text must match as a whole */
        const char *pattern_message;     /* what the pattern asks, in words */
        bool url;                        /* where one is not, what may be a password in it is not quoted */
        const char *const *refused;      /* texts that it may not be, ended by NULL */
        const char *refused_message;     /* why not, in words that follow the text */
        const char *reference;           /* the kind whose resource the text names */
        const char *doc;                 /* one or two sentences: meaning */
        const struct field *item;
        const struct field *fields;       /* ended by a NULL name */
        const struct field *keys;         /* of a map: a text field that each key must satisfy */
        const char *needs;                /* a sibling without which this field means nothing */
        const struct field_group *groups; /* of an object: ended by a NULL names */
};

/* Members of one object of which exactly one, or at least one, must be given. */
struct field_group {
        const char *const *names; /* ended by NULL */
        bool exactly_one;         /* else: one or more */
};

struct kind {
        enum kind_id id;
        const char *name;
        const char *doc;
        const struct field *fields;       /* of spec, ended by a NULL name */
        const struct field_group *groups; /* of spec's fields, or NULL */
        bool managed;                     /* has something of its own at a provider */
};

extern const struct kind kinds[KIND_COUNT];
extern const struct field metadata_fields[]; /* name, labels, annotations: of every kind */

/* All that a stack is made of, for messages. */
#define KIND_NAMES "Stack, ResourceRange, Image, Environment, WorkspacePolicy, Agent and Swarm"

#define API_VERSION "berth/v1"
#define NAME_LENGTH_MAX 48      /* of metadata.name */
#define MEMORY_MB_PER_VCPU 1769 /* Lambda's proportion; vCPU is shown, never set */

const struct kind *kind_find(const char *name);         /* exact; NULL where unknown */
const struct kind *kind_find_loosely(const char *name); /* any case, "env", "agents": for the command line */
const struct field *field_find(const struct field *fields, const char *name);
/* "memoryMB", "image.tag", "variables.X": the field a dotted path under spec means, or NULL. */
const struct field *kind_field(const struct kind *kind, const char *path);

#endif
