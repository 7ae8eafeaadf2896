/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A resource's record: a JSON file below the data root.
 *
 *     {"formatVersion": "1", "stack": NAME, "kind": KIND, "name": NAME, "spec": {...}}
 *
 * `spec` is in the shape of the manifests. Of an Environment's variables, a sensitive one is {"value": TEXT,
 * "sensitive": true}: the sandbox needs it in clear, so only the owner can read the file (0600, folders 0700). Nothing
 * here follows a link or waits for a pipe.
 */
#ifndef BERTH_PROVIDERS_LOCAL_RECORD_H
#define BERTH_PROVIDERS_LOCAL_RECORD_H

#include "base/digest.h"
#include "base/error.h"
#include "providers/local/local_layout.h"
#include "providers/provider.h"

#define RECORD_FORMAT "1"

struct record_place {
        const char *root;
        const char *stack;
        enum kind_id kind;
        const char *name;
};

struct local_record {
        bool exists;
        const char *path;
        const char *bytes;
        size_t length;
        enum ownership ownership;
        const char *owner; /* as in struct observation */
        struct value
                *spec; /* never NULL where the record exists; empty where the file does not say whose it is */
};

/* A digest of the bytes, 64 hex digits. Computed on demand, since running code does not need it. */
const char *record_revision(const struct local_record *record, struct arena *arena);

const char *record_path(const struct record_place *place, struct arena *arena);

/* Parses a file's bytes. `ret->path` must be set, for messages. Pure. */
int record_parse(const struct record_place *place, const char *text, size_t length, struct arena *arena,
                 struct local_record *ret, struct error *err) MUST_USE;
/* The bytes of a record. Pure. */
const char *record_text(const struct record_place *place, const struct value *spec, struct arena *arena);

/*
 * A file that is no record (not JSON, not a regular file, of a newer version) is an error that names it and says what
 * to do; one that does not exist is no error.
 */
int record_read(const struct record_place *place, struct arena *arena, struct local_record *ret,
                struct error *err) MUST_USE;
/* The names of a kind's records below the root, sorted, whatever they hold; none where the folder is missing. Not for the Stack. */
int record_list(const char *root, enum kind_id kind, struct arena *arena, const char ***ret,
                size_t *ret_count, struct error *err) MUST_USE;
/* Written beside, synced, renamed; makes the folders. */
int record_write(const struct record_place *place, const char *text, struct error *err) MUST_USE;
/* A missing one is not an error. */
int record_remove(const struct record_place *place, struct error *err) MUST_USE;
/* Removes half-written files of dead processes from the kind's folder. The caller holds the state's lease. */
void record_tidy(const char *root, enum kind_id kind);

#endif
