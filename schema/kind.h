/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of manifest and their fields, as data: one table from which loading, checking, defaults, the JSON Schema,
 * `berth explain` and the reference documentation all come.
 */
#ifndef BERTH_SCHEMA_KIND_H
#define BERTH_SCHEMA_KIND_H

#include "base/arena.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct value;
struct loading; /* schema's own: loading.h */
struct draft;

/* In the order in which kinds are shown, and made: what comes later may depend on what comes before. */
enum kind_id {
        KIND_STACK,
        KIND_RESOURCE_RANGE, /* narrows environments when manifests are loaded; nothing in the cloud */
        KIND_IMAGE,
        KIND_ENVIRONMENT,
        KIND_WORKSPACE_POLICY,
        KIND_AGENT,
        KIND_SWARM,
        KIND_CONTROLLER, /* this and what follows: in files of their own, no part of a stack */
        KIND_SERVER,
        KIND_COUNT /* of this program: kind_count says how many there are */
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
        bool base64;                     /* of a text in JSON: bytes, with padding */
        /* Of a text in JSON that may be written in several ways: the one that is meant, by which json_check() replaces it; NULL: as it stands. */
        const char *(*plain)(const char *text, struct arena *arena);
        const char *format;    /* of a text in JSON: what JSON Schema calls it, "date-time" */
        bool nullable;         /* of what answers have: it may be null */
        const char *component; /* of an object: what a document that has schemas of many calls it; or NULL */
        bool url;              /* where one is not, what may be a password in it is not quoted */
        bool may_be_secret;    /* where it does not match, it may be what it should only name: not quoted */
        const char *const *refused;  /* texts that it may not be, ended by NULL */
        const char *refused_message; /* why not, in words that follow the text */
        const char *const *
                known; /* texts that Berth itself has something for; others may be right as well: load_options.offline */
        const char *reference; /* the kind whose resource the text names */
        const char *doc;       /* one or two sentences: meaning */
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

/* What a field of the spec names: a resource of another kind. */
struct kind_reference {
        const char *path; /* as manifests have it: "environment", "agents[]", "selector.environments[]" */
        enum kind_id kind;
        const char *loaded_path; /* where the name stands once manifests are loaded; NULL: at `path` */
        /* The named resource is made before, goes after, and comes along with --target. */
        bool orders;
        /*
         * The state keeps the users of the name, and it is not deleted while there are any:
         * has-dependents. Of Environments only.
         */
        bool binds;
        bool late;             /* no manifest need declare it: what the state knows will do */
        const char *otherwise; /* a hint where no name is near; may be NULL */
};

/* What a kind is. Whatever differs from kind to kind stands here; all else asks its row. */
struct kind {
        enum kind_id id;
        const char *name;
        const char *const *
                short_names; /* what people may write instead, beside the name and its plural; ended by NULL; or NULL */
        const char *doc;
        const struct field *fields;       /* of spec, ended by a NULL name */
        const struct field_group *groups; /* of spec's fields, or NULL */
        const char
                *schema_rules; /* rules between fields that the tables do not say, as JSON Schema; or NULL */

        bool managed;       /* has something of its own at a provider */
        bool is_base;       /* everything else of a stack stands on it: made first, gone last */
        bool named_by_spec; /* what it is called at the provider stands in its spec: its resources may be renamed */
        unsigned
                lane; /* kinds of one lane share a quota when changes are carried out: struct job; small numbers */
        const char *
                started_by; /* the command that runs what stands in a file of its own, no part of a stack; or NULL */
        const struct kind_reference *references; /* ended by a NULL path; or NULL */
        const char *instead_of_replacing;        /* what else can be done, for the refusal; NULL: nothing */

        /* The rest may be NULL. Of schema alone: what one resource must satisfy beyond its fields, and all of the kind together. */
        void (*check)(struct loading *loading, const struct draft *draft);
        void (*resolve)(struct loading *loading);
        /* Whether it cannot work without what its binding names: that is not taken from it (inactive-specialist). */
        bool (*needs_binding)(const struct value *spec);
        /* A few words on a new one; `wish` is what a provider makes of the spec. */
        void (*summarise)(const struct value *spec, const struct value *wish, struct strbuf *out);
};

/*
 * All kinds, each at its id. They stand in kind_table.c alone, so that a program may have a table of its own: that is how
 * the tests add a kind.
 */
extern const struct kind *const kinds[];
extern const size_t kind_count;

extern const struct field metadata_fields[]; /* name, labels, annotations: of every kind */

#define API_VERSION "berth/v1"
#define NAME_LENGTH_MAX 48          /* of metadata.name */
#define EXECUTION_ROLE_OWN "own"    /* an Environment's executionRole that is no ARN */
#define NETWORK_NONE "none"         /* a word of an Environment's network */
#define NETWORK_ISOLATED "isolated" /* a word of aws.network and of an Environment's network */
#define MEMORY_MB_PER_VCPU 1769     /* Lambda's proportion; vCPU is shown, never set */

const struct kind *kind_find(const char *name);         /* exact; NULL where unknown */
const struct kind *kind_find_loosely(const char *name); /* any case, "env", "agents": for the command line */
const char *kind_nearest(const char *typed);            /* a kind's name that may have been meant, or NULL */
/* "Stack, Image ... and Swarm": all that a stack is made of, for messages. */
void kind_append_names(struct strbuf *to);
/* The reference that binds; NULL where the kind has none. */
const struct kind_reference *kind_binding(const struct kind *kind);
/* Whether resources of some kind are bound to those of this one. */
bool kind_is_bound_to(const struct kind *kind);
/*
 * The name that stands at a reference in a loaded spec, which may be NULL; NULL if absent,
 * or a list.
 */
const char *kind_reference_name(const struct kind_reference *reference, const struct value *spec);
const struct field *field_find(const struct field *fields, const char *name);
/* "memoryMB", "image.tag", "variables.X": the field a dotted path under spec means, or NULL. */
const struct field *kind_field(const struct kind *kind, const char *path);

#endif
