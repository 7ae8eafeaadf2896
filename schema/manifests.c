/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load is a list of steps, each in a file of its own (loading.h). None of them stops at a mistake; conclude()
 * counts what was reported and says whether there is a result. Three arenas: the result's, the load's, and one that
 * is cleared after each document.
 */
#include "schema/manifests.h"

#include "base/array.h"
#include "base/files.h"
#include "base/sorted.h"
#include "base/suggest.h"
#include "base/text.h"
#include "schema/loading.h"
#include "schema/node.h"

#include <stdlib.h>
#include <string.h>

static int check_provider(const struct load_options *options, struct error *err) {
        const struct field *field = kind_field(kinds[KIND_STACK], "provider");

        if (!options->provider)
                return 0;
        for (size_t i = 0; field->choices_text[i]; i++) {
                if (strcmp(field->choices_text[i], options->provider) == 0)
                        return 0;
        }
        return error_set(err, "there is no provider \"%s\": it is aws or local", options->provider);
}

/*
 * One file of a folder may be empty. A single file that is empty is an error: whatever should have written it has failed,
 * and an apply that took it for a stack without resources would delete everything.
 */
static void check_empty(struct loading *loading, uint16_t file) {
        struct place place = { .file = file };

        if (loading->sources[file].documents > 0)
                return;
        if (!loading->sources[file].named || loading->options->alone)
                problem_warning(loading, place, NULL, "this file holds no manifest");
        else
                problem_error(loading, place, "what a stack has is deleted by berth destroy",
                              "this file holds no manifest");
}

static void read_documents(struct loading *loading, uint16_t file) {
        struct source *source = &loading->sources[file];

        if (source->documents > 0 || source->bytes.length == 0)
                return;
        if (source_check_text(loading, file))
                document_read_all(loading, file);
        else
                source->documents = 1;
}

static void read_all(struct loading *loading, size_t from) {
        for (size_t i = from; i < loading->source_count; i++) {
                read_documents(loading, (uint16_t)i);
                check_empty(loading, (uint16_t)i);
        }
}

/* A folder without any manifest is likely the wrong one. `from` to `to`: the files that were found there. */
static void check_folder(struct loading *loading, const char *path, size_t from, size_t to) {
        for (size_t i = from; i < to; i++) {
                if (loading->sources[i].named || loading->sources[i].documents > 0)
                        return;
        }
        diagnostics_add(loading->diagnostics, (struct diagnostic){
                                                      .severity = SEVERITY_ERROR,
                                                      .file = arena_strdup(loading->arena, path),
                                                      .message = "no manifests in this folder",
                                                      .hint = "manifests are files named *.yaml or *.yml",
                                                      .span = 1,
                                              });
}

static void list_sources(struct loading *loading) {
        const char **files = arena_array(loading->arena, loading->source_count, sizeof(*files));

        for (size_t i = 0; i < loading->source_count; i++)
                files[i] = loading->sources[i].path;
        loading->manifests->files = files;
        loading->manifests->file_count = loading->source_count;
}

static void prepare_loading(struct loading *loading) {
        loading->work = arena_new();
        loading->scratch = arena_new();
        loading->drafts = array_grow_alone(NULL, 0, sizeof(*loading->drafts));
        loading->patterns = patterns_new(loading->arena);
}

static void release_loading(struct loading *loading) {
        for (size_t i = 0; i < loading->source_count; i++)
                source_release(&loading->sources[i]);
        array_free_alone(loading->drafts);
        patterns_release(loading->patterns);
        arena_free(loading->work);
        arena_free(loading->scratch);
}

/* Secrets are hidden last, when all of them are known: a diagnostic may quote a line whose secret was found later. */
static int conclude(struct loading *loading, struct error *err) {
        struct diagnostics *diagnostics = loading->diagnostics;
        size_t errors = diagnostics->errors + loading->errors_hidden;

        problem_hide_secrets(loading);
        diagnostics_sort(diagnostics);
        if (loading->errors_hidden > 0)
                diagnostics_add(diagnostics,
                                (struct diagnostic){
                                        .severity = SEVERITY_ERROR,
                                        .message = arena_printf(loading->arena, "%zu more %s not shown",
                                                                loading->errors_hidden,
                                                                loading->errors_hidden == 1 ? "error is"
                                                                                            : "errors are"),
                                        .span = 1,
                                });
        if (errors == 0)
                return 0;
        return error_set_kind(err, ERROR_DIAGNOSED, "%zu error%s in the manifests", errors,
                              errors == 1 ? "" : "s");
}

/* ret_ends[i]: how many files there are with those of the i-th path. */
static int gather_paths(struct loading *loading, const char *path, size_t *ret_ends, struct error *err) {
        const struct load_options *options = loading->options;

        for (size_t i = 0; i <= options->more_count; i++) {
                if (source_gather(loading, i == 0 ? path : options->more[i - 1], err) < 0)
                        return -1;
                ret_ends[i] = loading->source_count;
        }
        return 0;
}

/* Gathers by `files`, or from `path` and what options name beside it where that is NULL. */
static int load_manifests(const char *path, const struct manifest_file *files, size_t count,
                          const struct load_options *options, struct arena *arena, struct manifests *ret,
                          struct diagnostics *diagnostics, struct error *err) {
        struct manifests manifests = { .arena = arena };
        struct loading loading = {
                .arena = arena,
                .diagnostics = diagnostics,
                .options = options,
                .manifests = &manifests,
        };
        size_t *ends = arena_array(arena, options->more_count + 1, sizeof(*ends));
        int result;

        if (check_provider(options, err) < 0)
                return -1;
        prepare_loading(&loading);
        if (files)
                result = source_gather_files(&loading, files, count, err);
        else
                result = gather_paths(&loading, path, ends, err);
        loading.own_count = loading.source_count;
        if (files)
                ends[0] = loading.own_count;
        if (result == 0) {
                read_all(&loading, 0);
                result = include_all(&loading, files ? NULL : path, err);
        }
        if (result == 0) {
                read_all(&loading, loading.own_count);
                for (size_t i = 0; i <= options->more_count && loading.diagnostics->errors == 0; i++)
                        check_folder(&loading, i == 0 ? path : options->more[i - 1], i == 0 ? 0 : ends[i - 1],
                                     ends[i]);
                list_sources(&loading);
                if (options->alone)
                        alone_check(&loading);
                resolve_all(&loading);
                result = conclude(&loading, err);
        }
        release_loading(&loading);
        if (result == 0)
                *ret = manifests;
        return result;
}

int manifests_load(const char *path, const struct load_options *options, struct arena *arena,
                   struct manifests *ret, struct diagnostics *diagnostics, struct error *err) {
        return load_manifests(path, NULL, 0, options, arena, ret, diagnostics, err);
}

int manifests_load_files(const char *folder, const struct manifest_file *files, size_t count,
                         const struct load_options *options, struct arena *arena, struct manifests *ret,
                         struct diagnostics *diagnostics, struct error *err) {
        static const struct manifest_file none;

        return load_manifests(folder, count ? files : &none, count, options, arena, ret, diagnostics, err);
}

static bool mentions(const struct source *source, const char *word) {
        return source->bytes.length > 0 &&
               memmem(source->bytes.data, source->bytes.length, word, strlen(word));
}

/* Files of other tools are passed over; whether an unreadable one is such a file is not known. */
static bool may_hold_stack(struct loading *loading, uint16_t file) {
        size_t errors = loading->diagnostics->errors + loading->errors_hidden, drafts = loading->draft_count;
        bool unread = loading->sources[file].documents > 0;

        read_documents(loading, file);
        for (size_t i = drafts; i < loading->draft_count; i++) {
                if (loading->drafts[i].resource.kind->id == KIND_STACK)
                        return true;
        }
        if (unread)
                return true;
        return loading->diagnostics->errors + loading->errors_hidden > errors &&
               mentions(&loading->sources[file], "berth/") && mentions(&loading->sources[file], "Stack");
}

/* Files of which is only asked in which of them a Stack stands. */
struct search {
        struct diagnostics diagnostics;
        struct manifests manifests;
        struct loading loading;
};

static struct loading *begin_search(struct search *search, struct arena *arena) {
        static const struct load_options none = { 0 };

        *search = (struct search){
                .manifests = { .arena = arena },
                .loading = { .arena = arena,
                             .diagnostics = &search->diagnostics,
                             .options = &none,
                             .manifests = &search->manifests },
        };
        diagnostics_init(&search->diagnostics, arena);
        prepare_loading(&search->loading);
        return &search->loading;
}

int manifests_hold_stack(const struct manifest_file *files, size_t count, bool *ret, struct error *err) {
        struct arena *own ARENA_CLEANUP = arena_new();
        struct search search;
        struct loading *loading = begin_search(&search, own);
        bool found = false;
        int result = source_gather_files(loading, files, count, err);

        for (size_t i = 0; result == 0 && !found && i < loading->source_count; i++)
                found = may_hold_stack(loading, (uint16_t)i);
        release_loading(loading);
        if (result == 0)
                *ret = found;
        return result;
}

int manifests_find_stacks(const char *path, struct arena *arena, const char *const **ret, size_t *ret_count,
                          struct error *err) {
        struct arena *own ARENA_CLEANUP = arena_new();
        struct search search;
        struct loading *loading = begin_search(&search, own);
        const char **folders;
        size_t count = 0, kept = 0;
        int result = source_gather(loading, path, err);

        folders = arena_array(arena, loading->source_count, sizeof(*folders));
        for (size_t i = 0; result == 0 && i < loading->source_count; i++) {
                const char *folder = path_folder(loading->sources[i].path, arena);

                if (may_hold_stack(loading, (uint16_t)i))
                        folders[count++] = *folder ? folder : ".";
        }
        release_loading(loading);
        if (result < 0)
                return -1;
        if (count > 1)
                qsort(folders, count, sizeof(*folders), text_compare);
        for (size_t i = 0; i < count; i++) {
                if (kept == 0 || strcmp(folders[kept - 1], folders[i]) != 0)
                        folders[kept++] = folders[i];
        }
        *ret = folders;
        *ret_count = kept;
        return 0;
}

int manifests_list_files(const char *path, struct arena *arena, const char *const **ret, size_t *ret_count,
                         struct error *err) {
        struct arena *own ARENA_CLEANUP = arena_new();
        struct search search;
        struct loading *loading = begin_search(&search, own);
        int result = source_gather(loading, path, err);
        const char **files = arena_array(arena, loading->source_count, sizeof(*files));

        for (size_t i = 0; i < loading->source_count; i++)
                files[i] = arena_strdup(arena, loading->sources[i].path);
        *ret_count = loading->source_count;
        release_loading(loading);
        if (result == 0)
                *ret = files;
        return result;
}

static int compare_to_resource(const void *sought, const void *item) {
        const struct resource *wanted = sought, *resource = item;

        if (wanted->kind->id != resource->kind->id)
                return wanted->kind->id < resource->kind->id ? -1 : 1;
        return strcmp(wanted->name, resource->name);
}

/* Where a resource stands, or belongs; name "" for the kind's first. */
static size_t place_of_resource(const struct manifests *manifests, enum kind_id kind, const char *name) {
        const struct resource wanted = { .kind = kinds[kind], .name = name };

        return sorted_first(manifests->resources, manifests->count, sizeof(wanted), &wanted,
                            compare_to_resource);
}

const struct resource *manifests_find(const struct manifests *manifests, enum kind_id kind,
                                      const char *name) {
        size_t at = place_of_resource(manifests, kind, name);
        const struct resource *resource = manifests->resources + at;

        if (at == manifests->count || resource->kind->id != kind || strcmp(resource->name, name) != 0)
                return NULL;
        return resource;
}

const struct resource *manifests_of_kind(const struct manifests *manifests, enum kind_id kind,
                                         size_t *ret_count) {
        size_t first = place_of_resource(manifests, kind, ""), end = first;

        while (end < manifests->count && manifests->resources[end].kind->id == kind)
                end++;
        *ret_count = end - first;
        return manifests->resources + first;
}

int address_parse(const char *address, const struct kind **ret_kind, const char **ret_name,
                  struct error *err) {
        const char *slash = strchr(address, '/'), *nearest;
        char kind_name[64];
        const struct kind *kind;

        if (!slash || slash == address || slash[1] == '\0' || strchr(slash + 1, '/') ||
            (size_t)(slash - address) >= sizeof(kind_name))
                return error_set(err, "\"%s\" is no address: write Kind/name, as in Environment/research",
                                 address);
        memcpy(kind_name, address, (size_t)(slash - address));
        kind_name[slash - address] = '\0';
        kind = kind_find_loosely(kind_name);
        if (!kind) {
                nearest = kind_nearest(kind_name);
                return error_set(err, "\"%s\" is no address: there is no kind %s%s%s%s", address, kind_name,
                                 nearest ? ", did you mean " : "", nearest ? nearest : "",
                                 nearest ? "?" : "");
        }
        *ret_kind = kind;
        *ret_name = slash + 1;
        return 0;
}
