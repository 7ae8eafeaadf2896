/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the steps of one manifests_load() share. The steps, in order, each in its file:
 *
 *     source.c         which files there are, their bytes, whether they are text
 *     document.c       YAML: bytes to trees of nodes, one document at a time (the only one that knows libyaml)
 *     decode.c         nodes to typed values, as the field tables say
 *     check_shared.c  what a kind asks beyond its fields: each in its kind_NAME.c
 *     include.c        the folders that the Stack includes: their files, for which the steps above are done again
 *     resolve.c        all resources together: duplicates, references
 *                      and, kind by kind, what kind_NAME.c and ranges.c (ResourceRanges) make of them
 *
 * Every step reports what is wrong with problem_*() and goes on: a user sees all errors in one run.
 */
#ifndef BERTH_SCHEMA_LOADING_H
#define BERTH_SCHEMA_LOADING_H

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "schema/diagnostics.h"
#include "schema/kind.h"
#include "schema/manifests.h"
#include "schema/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_SIZE_MAX ((size_t)16 * 1024 * 1024)
#define FILE_COUNT_MAX 65535 /* struct value counts files in 16 bits */

/* A place in a file; line 0 is the file as a whole. */
struct place {
        uint16_t file;
        uint32_t line, column;
};

struct source {
        const char *path;      /* as shown to the user */
        const char *tree_path; /* of a file in memory: within options.tree, or NULL */
        struct strbuf bytes;   /* without the byte order marks of documents */
        uint32_t *line_starts; /* offsets, made when first needed; malloc */
        size_t line_count;
        size_t documents; /* found, also such as could not be read */
        bool named;       /* the user gave this very path */
};

/* A resource on its way: what checks need to point at its name. */
struct draft {
        struct resource resource;
        struct place name;
};

/* Where a secret is written: diagnostics quote its lines with stars in its place. */
struct secret_place {
        uint16_t file;
        uint32_t line, column, end_line, end_column; /* the end is the first character behind it */
};

/* Text of a source that tells no resource, since it could not be read. */
struct unread {
        const char *from, *to;
};

struct loading {
        struct arena *arena;   /* of the result */
        struct arena *work;    /* of this load: gone when it returns */
        struct arena *scratch; /* of one document; cleared after each */
        struct diagnostics *diagnostics;
        const struct load_options *options;
        struct source *sources;
        size_t source_count;
        size_t own_count;     /* of them, the first ones: those that were not included */
        bool is_folder;       /* what the user gave, or the first of it */
        struct draft *drafts; /* array_grow_alone(); never NULL */
        size_t draft_count;
        struct secret_place *secrets;
        size_t secret_count;
        const char *address;   /* of the resource being looked at, for diagnostics; or NULL */
        unsigned suggestions;  /* made so far against long lists: each costs */
        size_t errors_hidden;  /* beyond the most that are kept */
        struct unread *unread; /* what tells no resource */
        size_t unread_count;
        struct patterns *patterns;   /* compiled when first needed */
        struct manifests *manifests; /* the result, from resolve on */
};

/* problem.c. Formats in the result's arena; quotes the line. */
void problem_error(struct loading *loading, struct place place, const char *hint, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
void problem_warning(struct loading *loading, struct place place, const char *hint, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
/* The same, not yet added to the diagnostics. */
struct diagnostic problem_make(struct loading *loading, struct place place, const char *hint,
                               const char *format, ...) __attribute__((format(printf, 4, 5)));
/* "did you mean NAME?", or NULL. */
const char *problem_suggest(struct loading *loading, const char *typed, const char *const *names,
                            size_t count);
/* "FILE:LINE:COLUMN" in the arena. */
const char *problem_place_text(struct loading *loading, struct place place);
/* Puts stars in place of every secret that a diagnostic quotes. */
void problem_hide_secrets(struct loading *loading);
void problem_add_secret(struct loading *loading, struct secret_place secret);
/*
 * The file's text from line `start` to before line `end` tells no resource, and an error says why.
 * Names in it need not exist elsewhere: problem_is_unread().
 */
void problem_note_unread(struct loading *loading, uint16_t file, uint32_t start, uint32_t end);
bool problem_is_unread(const struct loading *loading, const char *name);
/*
 * The same. Where text could not be read, what in it is a secret is not known: no diagnostic from number `first` on quotes its line
 * if the text of the file from line `start` to before line `end` speaks of secrets at all.
 */
void problem_quote_nothing_unread(struct loading *loading, uint16_t file, size_t first, uint32_t start,
                                  uint32_t end);

static inline struct place place_of(const struct value *value) {
        return (struct place){ .file = value->file, .line = value->line, .column = value->column };
}

static inline struct place place_of_key(const struct member *member) {
        return (struct place){ .file = member->value.file, .line = member->line, .column = member->column };
}

/* patterns.c */
struct patterns *patterns_new(struct arena *arena);
void patterns_release(struct patterns *patterns); /* NULL is fine */
/* Whether the whole text matches. `text` must live as long as the patterns: what matched is remembered. */
bool patterns_match(struct patterns *patterns, const char *pattern, const char *text);

/* source.c */
/* Finds the files and reads them, behind those that are there. -1 only where `path` itself is of no use. */
int source_gather(struct loading *loading, const char *path, struct error *err) MUST_USE;
/* The same from memory: the files in the order given. */
int source_gather_files(struct loading *loading, const struct manifest_file *files, size_t count,
                        struct error *err) MUST_USE;
uint16_t source_add(struct loading *loading, const char *path);
/* Takes the file's bytes; a descriptor below 0 is reported by errno. `named`: as struct source has it. */
void source_read(struct loading *loading, uint16_t number, int descriptor, bool named);
bool source_is_manifest_name(const char *name);
void source_release(struct source *source);
/* The text of a line (1-based) without its break; *ret_length bytes. NULL where there is no such line. */
const char *source_line(struct source *source, uint32_t line, size_t *ret_length);
/* Line and column (1-based, in characters) of a byte. */
void source_locate(struct source *source, size_t offset, uint32_t *ret_line, uint32_t *ret_column);
/* Whether the bytes are text that YAML can be; reports where they are not. */
bool source_check_text(struct loading *loading, uint16_t file);

/* include.c */
/*
 * Adds the files of all folders that the Stack of the files read so far includes. `given` is the load's path, NULL for files
 * in memory. -1 only where the load cannot go on; what is wrong with a folder is reported.
 */
int include_all(struct loading *loading, const char *given, struct error *err) MUST_USE;

/* resource.c */
struct node;
/* One document's tree: reports its errors, adds a draft where kind and name are known. */
void decode_document(struct loading *loading, uint16_t file, const struct node *root);

/* check_shared.c: what one resource must satisfy beyond its fields */
void check_draft(struct loading *loading, const struct draft *draft);
/* Of an image's map, which may be NULL: that its repository names no registry. */
void check_repository(struct loading *loading, const struct value *image);
/* In resolve: its registry is in the Stack's region, where that is said. */
void check_registry(struct loading *loading, const struct value *image);
/* Checks that a role's ARN, or another text, names no account but this one. */
void check_role_account(struct loading *loading, const struct value *role, const struct value *account);
/* That each text of the list, which may be NULL, stands in it once. */
void check_names_once(struct loading *loading, const struct value *list);

/* That the port of an address to listen on is one. */
void check_listen(struct loading *loading, const struct value *listen);

/* controller_file.c */
void check_controller(struct loading *loading, const struct draft *draft);

/* server_file.c */
void check_server(struct loading *loading, const struct draft *draft);

/* alone.c: files of one document, which is no part of a stack (kind.started_by) */
/* Whether a document of that kind may stand here; reports where it may not. */
bool alone_takes(struct loading *loading, const struct kind *kind, struct place place);
/* Where such a file is loaded: that there is exactly one. */
void alone_check(struct loading *loading);

/* resolve.c */
/* Sorts the drafts into `manifests`, and makes every resource complete. */
void resolve_all(struct loading *loading);
/* The drafts of one kind, once they are sorted: what they resolve to is changed in place. */
struct drafts {
        struct draft *items;
        size_t count;
};
struct drafts drafts_of(struct loading *loading, enum kind_id kind);
/* Specs are the load's own until it returns. */
struct value *draft_spec(const struct draft *draft);

/* ranges.c */
void ranges_apply(struct loading *loading);

/* The member if it could be read, as `type`; else NULL. */
const struct value *typed_member(const struct value *map, const char *name, enum value_type type);

/* Whether the labels have every member of `wanted`. Both may be NULL. */
bool labels_match(const struct value *labels, const struct value *wanted);

#endif
