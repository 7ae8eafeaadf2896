/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit's tree below the source's path, folder by folder, breadth first, so that depth costs no stack. Nothing is
 * checked out: entries are looked at as the objects say them, and the bytes of manifests are read into memory. Every
 * entry is checked, also those that are no manifests: a tree that some checkout could be harmed by is refused as a
 * whole. All limits are counted while reading, before memory is taken.
 */
#include "gitops/git/tree.h"

#include "base/array.h"
#include "base/text_utf8.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SHOWN_MAX 1200U
#define LFS_POINTER "version https://git-lfs.github.com/spec/"

/* A folder that is still to be read. */
struct pending {
        char id[ID_SIZE];
        const char *path; /* "" for the root */
        size_t depth;
};

struct walk {
        struct repository *repository;
        const struct git_limits *limits;
        struct arena *arena, *scratch; /* of the result; of one folder */
        struct pending *folders;       /* in the order in which they are read */
        size_t folder_count, folders_read;
        struct tree_file *files;
        size_t file_count;
        size_t entries, bytes;
        enum git_failure *ret_failure;
};

/* For messages: whatever bytes the tree has. */
static const char *displayed_path(struct arena *arena, const char *folder, const char *name) {
        return git_clean_text(arena, arena_printf(arena, "%s%s%.300s", folder, *folder ? "/" : "", name),
                              SHOWN_MAX);
}

static const char *mode_objection(unsigned mode) {
        switch (mode & S_IFMT) {
        case S_IFDIR:
        case S_IFREG:
                return NULL;
        case S_IFLNK:
                return "is a link: links are not followed, and not let in";
        case 0160000:
                return "is a submodule: submodules are not fetched, and not let in";
        default:
                return "is neither a file nor a folder";
        }
}

static int check_entry(const struct walk *walk, const char *folder, const struct tree_entry *entry,
                       struct error *err) {
        enum git_failure *ret_failure = walk->ret_failure;
        const char *objection = git_name_objection(entry->name, entry->name_length);

        if (!objection)
                objection = mode_objection(entry->mode);
        if (!objection)
                return 0;
        return FAIL(GIT_UNSAFE_TREE, "%s %s", displayed_path(walk->scratch, folder, entry->name), objection);
}

struct folded {
        const char *key, *name;
};

static int compare_folded(const void *a, const void *b) {
        return strcmp(((const struct folded *)a)->key, ((const struct folded *)b)->key);
}

/* Two names that some file system takes for one: a checkout there would have only one of the two files. */
static int check_twins(const struct walk *walk, const char *folder, const struct tree_entry *entries,
                       size_t count, struct error *err) {
        struct folded *names = arena_array(walk->scratch, count, sizeof(*names));
        enum git_failure *ret_failure = walk->ret_failure;

        for (size_t i = 0; i < count; i++) {
                char *key = text_fold(entries[i].name, entries[i].name_length);

                names[i] = (struct folded){ arena_strdup(walk->scratch, key ? key : entries[i].name),
                                            entries[i].name };
                free(key);
        }
        qsort(names, count, sizeof(*names), compare_folded);
        for (size_t i = 1; i < count; i++) {
                if (strcmp(names[i - 1].key, names[i].key) == 0)
                        return FAIL(GIT_UNSAFE_TREE, "%s and %s are one name to some file systems",
                                    displayed_path(walk->scratch, folder, names[i - 1].name),
                                    displayed_path(walk->scratch, folder, names[i].name));
        }
        return 0;
}

static int add_folder(struct walk *walk, const char *id, const char *path, size_t depth, struct error *err) {
        enum git_failure *ret_failure = walk->ret_failure;

        if (depth > walk->limits->depth)
                return FAIL(GIT_OVER_LIMIT, "%s lies deeper than %zu folders",
                            displayed_path(walk->scratch, "", path), walk->limits->depth);
        walk->folders = array_grow(walk->arena, walk->folders, walk->folder_count, sizeof(*walk->folders));
        walk->folders[walk->folder_count] = (struct pending){ .path = path, .depth = depth };
        memcpy(walk->folders[walk->folder_count++].id, id, ID_SIZE);
        return 0;
}

static int read_blob(struct walk *walk, const struct tree_entry *entry, const char *path, struct error *err) {
        enum git_failure *ret_failure = walk->ret_failure;
        struct tree_file file = { .path = path };

        if (repository_blob(walk->repository, entry->id, path, walk->limits->blob_bytes, walk->arena,
                            &file.bytes, &file.length, ret_failure, err) < 0)
                return -1;
        walk->bytes += file.length;
        if (walk->bytes > walk->limits->total_bytes)
                return FAIL(GIT_OVER_LIMIT, "the manifests have more than %zu bytes together",
                            walk->limits->total_bytes);
        if (file.length < 1024 && strncmp(file.bytes, LFS_POINTER, strlen(LFS_POINTER)) == 0)
                return FAIL(GIT_NOT_FOUND, "%s is kept in Git LFS, and only its pointer is in the repository",
                            path);
        walk->files = array_grow(walk->arena, walk->files, walk->file_count, sizeof(*walk->files));
        walk->files[walk->file_count++] = file;
        return 0;
}

static int read_entry(struct walk *walk, const struct pending *folder, const struct tree_entry *entry,
                      struct error *err) {
        enum git_failure *ret_failure = walk->ret_failure;
        bool is_folder = (entry->mode & S_IFMT) == S_IFDIR;
        const char *path;

        if (++walk->entries > walk->limits->entries)
                return FAIL(GIT_OVER_LIMIT, "the tree has more than %zu entries", walk->limits->entries);
        if (check_entry(walk, folder->path, entry, err) < 0)
                return -1;
        if (entry->name[0] == '.' || (!is_folder && !git_is_manifest_name(entry->name)))
                return 0;
        path = arena_printf(walk->arena, "%s%s%s", folder->path, *folder->path ? "/" : "", entry->name);
        if (is_folder)
                return add_folder(walk, entry->id, path, folder->depth + 1, err);
        return read_blob(walk, entry, path, err);
}

static int read_folder(struct walk *walk, struct error *err) {
        const struct pending folder = walk->folders[walk->folders_read++];
        struct tree_entry *entries;
        size_t count;

        arena_clear(walk->scratch);
        if (repository_tree(walk->repository, folder.id, walk->scratch, &entries, &count, walk->ret_failure,
                            err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (read_entry(walk, &folder, &entries[i], err) < 0)
                        return -1;
        }
        return check_twins(walk, folder.path, entries, count, err);
}

/* Follows `path` from the root, component by component. */
static int find_folder(struct walk *walk, const char *tree, const char *path, char ret_id[ID_SIZE],
                       struct error *err) {
        enum git_failure *ret_failure = walk->ret_failure;

        memcpy(ret_id, tree, ID_SIZE);
        for (const char *at = path; at && *at;) {
                size_t length = strcspn(at, "/"), count, i;
                struct tree_entry *entries;

                if (repository_tree(walk->repository, ret_id, walk->scratch, &entries, &count, ret_failure,
                                    err) < 0)
                        return -1;
                for (i = 0; i < count; i++) {
                        if (entries[i].name_length == length && memcmp(entries[i].name, at, length) == 0)
                                break;
                }
                at += length;
                if (i == count)
                        return FAIL(GIT_NOT_FOUND, "the commit has no folder %.*s", (int)(at - path), path);
                if (mode_objection(entries[i].mode))
                        return FAIL(GIT_UNSAFE_TREE, "%.*s %s", (int)(at - path), path,
                                    mode_objection(entries[i].mode));
                if ((entries[i].mode & S_IFMT) != S_IFDIR)
                        return FAIL(GIT_NOT_FOUND, "%.*s is a file, and a folder of manifests is wanted",
                                    (int)(at - path), path);
                memcpy(ret_id, entries[i].id, ID_SIZE);
                at += *at == '/';
        }
        return 0;
}

static int compare_files(const void *a, const void *b) {
        return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

/* All below the folders that wait, then sorted. */
static int read_all_folders(struct walk *walk, struct tree_file **ret, size_t *ret_count, struct error *err) {
        while (walk->folders_read < walk->folder_count) {
                if (read_folder(walk, err) < 0)
                        return -1;
        }
        if (walk->file_count > 0)
                qsort(walk->files, walk->file_count, sizeof(*walk->files), compare_files);
        *ret = walk->files;
        *ret_count = walk->file_count;
        return 0;
}

static struct walk begin_walk(struct repository *repository, const struct git_limits *limits,
                              struct arena *arena, enum git_failure *ret_failure) {
        return (struct walk){
                .repository = repository,
                .limits = limits,
                .arena = arena,
                .scratch = arena_new(),
                .ret_failure = ret_failure,
        };
}

int tree_read(struct repository *repository, const char *tree, const char *path,
              const struct git_limits *limits, struct arena *arena, struct tree_file **ret, size_t *ret_count,
              enum git_failure *ret_failure, struct error *err) {
        struct walk walk = begin_walk(repository, limits, arena, ret_failure);
        char id[ID_SIZE];
        int result = find_folder(&walk, tree, path, id, err);

        if (result == 0)
                result = add_folder(&walk, id, path ? path : "", 0, err);
        if (result == 0)
                result = read_all_folders(&walk, ret, ret_count, err);
        arena_free(walk.scratch);
        return result;
}

/* One folder that the pattern has led to so far, and those in it that its next part matches. */
static int match_in_folder(struct walk *walk, const struct pending *folder, const char *part,
                           struct error *err) {
        enum git_failure *ret_failure = walk->ret_failure;
        struct tree_entry *entries, *matching;
        size_t count, matched = 0;

        arena_clear(walk->scratch);
        if (repository_tree(walk->repository, folder->id, walk->scratch, &entries, &count, ret_failure, err) <
            0)
                return -1;
        walk->entries += count;
        if (walk->entries > walk->limits->entries)
                return FAIL(GIT_OVER_LIMIT, "the tree has more than %zu entries", walk->limits->entries);
        matching = arena_array(walk->scratch, count, sizeof(*matching));
        for (size_t i = 0; i < count; i++) {
                const struct tree_entry *entry = &entries[i];

                if (fnmatch(part, entry->name, FNM_PERIOD | FNM_NOESCAPE) != 0 ||
                    (entry->mode & S_IFMT) == S_IFREG)
                        continue;
                if (check_entry(walk, folder->path, entry, err) < 0 ||
                    add_folder(walk, entry->id,
                               arena_printf(walk->arena, "%s%s%s", folder->path, *folder->path ? "/" : "",
                                            entry->name),
                               folder->depth, err) < 0)
                        return -1;
                matching[matched++] = *entry;
        }
        return matched ? check_twins(walk, folder->path, matching, matched, err) : 0;
}

/*
 * Part by part: the folders that one part matched are those that the next is looked for in. They stand one after the other in the
 * same list that the walk reads from, so that those of the last part are what is left to be read.
 */
int tree_read_matching(struct repository *repository, const char *tree, const char *pattern,
                       const struct git_limits *limits, struct arena *arena, struct tree_file **ret,
                       size_t *ret_count, enum git_failure *ret_failure, struct error *err) {
        struct walk walk = begin_walk(repository, limits, arena, ret_failure);
        int result = add_folder(&walk, tree, "", 0, err);

        for (const char *at = pattern; *at && result == 0; at += *at == '/') {
                size_t length = strcspn(at, "/"), end = walk.folder_count;
                const char *part = arena_strndup(arena, at, length);

                for (; walk.folders_read < end && result == 0; walk.folders_read++) {
                        const struct pending folder = walk.folders[walk.folders_read];

                        result = match_in_folder(&walk, &folder, part, err);
                }
                at += length;
        }
        if (result == 0)
                result = read_all_folders(&walk, ret, ret_count, err);
        arena_free(walk.scratch);
        return result;
}

int tree_path_normalise(const char *path, struct arena *arena, const char **ret, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (path && path[0] == '/')
                return error_set(err, "path %s is absolute: it is a folder within the repository", path);
        for (const char *at = path; at && *at;) {
                size_t length = strcspn(at, "/");
                const char *objection;

                if (length > 0 && !(length == 1 && *at == '.')) {
                        objection = git_name_objection(at, length);
                        if (objection)
                                return error_set(err, "path \"%s\": a part of it %s", path, objection);
                        if (text.length > 0)
                                strbuf_append_char(&text, '/');
                        strbuf_append_bytes(&text, at, length);
                }
                at += length;
                at += *at == '/';
        }
        *ret = text.length > 0 ? arena_strdup(arena, strbuf_text(&text)) : NULL;
        return 0;
}
