/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests, loaded and checked: the desired state.
 *
 *     manifests_load(path, &options, arena, &manifests, &diagnostics, &err)
 *
 * reads every manifest below `path`, checks each against its kind's fields and all of them against
 * each other, fills in defaults, applies the ResourceRanges, and replaces references by what they
 * mean. The result is complete: no later code looks at YAML or at another resource to know what an
 * environment shall be.
 *
 * The spec of an Environment, complete:
 *   description text?, image {prebuilt: NAME} | {repository, tag, follow: pin|tag} | {repository, digest}
 *   (the reference to an Image is replaced by that Image's, with `follow` pin, and "image": its name),
 *   memoryMB, workspaceStorageMB, timeoutSeconds, variables {NAME: text, sensitive ones marked}?,
 *   reservedConcurrency?, logRetentionDays?, executionRole?, tenantIsolation?, protect
 * Of the other kinds: as design and `berth explain` say, defaults filled in. A WorkspacePolicy has `environments`, the
 * sorted names its selector matches now (absent with {all: true}), beside `selector`.
 */
#ifndef BERTH_SCHEMA_MANIFESTS_H
#define BERTH_SCHEMA_MANIFESTS_H

#include "base/arena.h"
#include "base/error.h"
#include "schema/diagnostics.h"
#include "schema/kind.h"
#include "schema/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resource {
        const struct kind *kind;
        const char *name;
        const char *address;             /* "Kind/name" */
        const struct value *labels;      /* map of texts, or NULL */
        const struct value *annotations; /* map of texts, or NULL */
        const struct value *spec;        /* map, complete as said above; never NULL */
        uint16_t file;                   /* index into files */
        uint32_t line, column;           /* of the document's first key */
};

struct manifests {
        struct arena *arena;      /* borrowed: where everything here lives */
        const char *const *files; /* as shown to the user */
        size_t file_count;
        struct resource *resources; /* by kind (enum kind_id), then by name in byte order */
        size_t count;
        const struct resource *stack; /* never NULL: "Stack/default" with defaults where none is declared */
        /*
         * References to environments that no manifest declares, which manifests_load() leaves to its caller when
         * options.missing_environments is set: plan and apply refuse them (has-dependents) where the state has that
         * environment, and report them as the error they are where it does not.
         */
        struct missing_reference {
                const char *dependent;        /* "Agent/x" */
                const char *environment;      /* name */
                struct diagnostic diagnostic; /* what validate would say */
        } * missing;
        size_t missing_count;
};

struct manifest_file {
        const char *name;  /* as diagnostics show it */
        const char *bytes; /* borrowed until the load returns; NULL where `length` is 0 */
        size_t length;
        const char *path; /* within load_options.tree; NULL without one */
};

/* For files in memory: the tree that they are part of, from which a Stack may include further folders. */
struct manifest_tree {
        const char *folder; /* of the files given, within the tree; "" for its root */
        /*
         * The manifests below `folder`, which is within the tree and not its root, in byte order of their paths; in the arena. -1
         * with ERROR_NOT_FOUND where the tree is to blame, which becomes a diagnostic; with another kind the load fails with it.
         */
        int (*read)(void *context, const char *folder, struct arena *arena, struct manifest_file **ret,
                    size_t *ret_count, struct error *err);
        void *context;
};

struct load_options {
        const char *provider;      /* overrides the Stack's, or NULL */
        bool missing_environments; /* gather them in `missing` instead of reporting them */
        /*
         * the existence of names will not be checked: warn of texts that are near to a field's
         * `known` ones
         */
        bool offline;
        const struct kind *
                alone; /* a file with exactly one of this kind and nothing else, which any other load refuses; or NULL */
        const struct manifest_tree *tree; /* of files in memory; NULL: they can include nothing */
        /*
         * Files and folders (or once "-") that belong to the same stack, read behind `path` in this order; borrowed until the load
         * returns. What a Stack includes is judged by where `path` lies.
         */
        const char *const *more;
        size_t more_count;
};

/*
 * The folders that the Stack includes (spec.include) are read as well: include.c says from where they may come.
 *
 * `path` is a file, a folder (searched recursively for *.yaml and *.yml; dot-folders skipped, links to folders not
 * followed) or "-" for standard input. Returns 0 and the manifests where no error was diagnosed; -1 with kind
 * ERROR_DIAGNOSED where some were (they are in `diagnostics`; err->message counts them), or with another kind where
 * the path itself cannot be used. Warnings do not make it fail.
 */
int manifests_load(const char *path, const struct load_options *options, struct arena *arena,
                   struct manifests *ret, struct diagnostics *diagnostics, struct error *err) MUST_USE;

/*
 * The same of files in memory, read and checked as if they were found in a folder that messages call `folder`. They are
 * taken in the order given: by byte order of their paths, as a folder's are. At most 65,535.
 */
int manifests_load_files(const char *folder, const struct manifest_file *files, size_t count,
                         const struct load_options *options, struct arena *arena, struct manifests *ret,
                         struct diagnostics *diagnostics, struct error *err) MUST_USE;

/*
 * The folders below `path`, itself included, in which a Stack stands: sorted, each once, in the
 * arena. Nothing else is checked. A folder with a file of ours that cannot be read is taken for
 * one: loading it reports the fault.
 */
int manifests_find_stacks(const char *path, struct arena *arena, const char *const **ret, size_t *ret_count,
                          struct error *err) MUST_USE;

/* The files that a load of that path would read, in their order; in the arena. Nothing is said of what is in them. */
int manifests_list_files(const char *path, struct arena *arena, const char *const **ret, size_t *ret_count,
                         struct error *err) MUST_USE;

/*
 * Whether a Stack stands in one of these files in memory, at most 65,535. As above: a file of ours that cannot be read counts as one.
 */
int manifests_hold_stack(const struct manifest_file *files, size_t count, bool *ret,
                         struct error *err) MUST_USE;

/* Binary search; NULL if absent. */
const struct resource *manifests_find(const struct manifests *manifests, enum kind_id kind, const char *name);
/* The slice of one kind: *ret_count resources from the returned one on. */
const struct resource *manifests_of_kind(const struct manifests *manifests, enum kind_id kind,
                                         size_t *ret_count);

/* Splits "Kind/name"; *ret_name points into `address`. -1 where it is not one (err names the nearest kind). */
int address_parse(const char *address, const struct kind **ret_kind, const char **ret_name,
                  struct error *err) MUST_USE;

#endif
