/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders that a Stack includes: their files become part of the load, as if they lay in the stack's own folder.
 *
 * A path is relative to the file that says it, and worked out by its text alone, before anything is
 * opened: a reader of the manifest sees where it leads. It stays within the tree. In a Git
 * repository that is the repository, as Git itself finds it: the nearest folder, going up, that
 * holds a .git. So what a controller reads of a commit and what a command reads of a work tree are
 * the same. Elsewhere it is the folder above the one that was given.
 *
 * On disk the kernel walks the path (openat2(2)) and refuses links and other file systems, whatever
 * was there a moment before. A tree in memory comes from the caller (struct manifest_tree).
 *
 * Only the stack's own files may hold its Stack, so what is included includes nothing itself, and the one circle that there
 * can be is a folder that holds the stack's own.
 */
#include "base/array.h"
#include "base/beneath.h"
#include "base/files.h"
#include "base/text.h"
#include "schema/loading.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder that was included already. Paths here are within the tree; "" is its root. */
struct included {
        const char *path;
        struct place place;
};

struct including {
        struct loading *loading;
        const char *own;  /* the stack's own folder */
        const char *root; /* on disk, without links; NULL for a tree in memory */
        int descriptor;   /* of the root; -1 for a tree in memory */
        struct included *included;
        size_t count;
        struct place place; /* of the item at hand */
};

/* A file of an included folder, before it is read. */
struct found {
        const char *path;
};

/*
 * `path` as seen from `folder`, without ".", doubled slashes and ".." but at its begin, where it leads out of what `folder` is
 * relative to. Done by the text alone.
 */
static const char *join_paths(struct arena *arena, const char *folder, const char *path) {
        struct strbuf joined STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_append(&joined, folder);
        while (*path) {
                size_t length = strcspn(path, "/");
                const char *last = joined.length ? memrchr(joined.data, '/', joined.length) : NULL;

                last = last ? last + 1 : joined.data;
                if (length == 2 && strncmp(path, "..", 2) == 0 && joined.length > 0 &&
                    strcmp(last, "..") != 0) {
                        joined.length = (size_t)(last - joined.data);
                        joined.length -= joined.length > 0;
                        joined.data[joined.length] = '\0';
                } else if (length > 0 && !(length == 1 && *path == '.')) {
                        if (joined.length > 0)
                                strbuf_append_char(&joined, '/');
                        strbuf_append_bytes(&joined, path, length);
                }
                path += length;
                path += *path == '/';
        }
        return arena_strdup(arena, strbuf_text(&joined));
}

static bool leads_out(const char *path) {
        return strncmp(path, "..", 2) == 0 && (path[2] == '/' || path[2] == '\0');
}

static bool is_within(const char *path, const char *folder) {
        size_t length = strlen(folder);

        return length == 0 ||
               (strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0'));
}

static bool has_dot_name(const char *path) {
        return *path == '.' || strstr(path, "/.");
}

/* False where the folder must not be read, which is reported. */
static bool check_overlap(const struct including *including, const char *path, const char *text) {
        struct loading *loading = including->loading;

        if (is_within(including->own, path)) {
                problem_error(loading, including->place, NULL,
                              "a cycle: %s holds the folder of the stack that includes it", text);
                return false;
        }
        /* Of a single file's folder nothing was read but that file. */
        if (loading->is_folder && is_within(path, including->own)) {
                problem_error(loading, including->place, "leave it out",
                              "%s lies in the stack's own folder, all of which is read", text);
                return false;
        }
        for (size_t i = 0; i < including->count; i++) {
                const struct included *before = &including->included[i];

                if (!is_within(path, before->path) && !is_within(before->path, path))
                        continue;
                problem_error(loading, including->place, NULL,
                              strcmp(path, before->path) == 0
                                      ? "%s is included twice, first at %s"
                                      : "%s is included twice: it overlaps with that of %s",
                              text, problem_place_text(loading, before->place));
                return false;
        }
        return true;
}

static int check_count(const struct including *including, size_t more, struct error *err) {
        return including->loading->source_count + more <= FILE_COUNT_MAX
                       ? 0
                       : error_set(err, "the stack and what it includes hold more than %d manifest files",
                                   FILE_COUNT_MAX);
}

/* On disk */

static void report_unopened(const struct including *including, const char *text) {
        struct loading *loading = including->loading;

        switch (errno) {
        case ENOENT:
                problem_error(loading, including->place, "paths are relative to the file that says them",
                              "there is no folder %s", text);
                break;
        case ENOTDIR:
                problem_error(loading, including->place, NULL,
                              "%s is no folder, and only folders are included", text);
                break;
        case ELOOP:
                problem_error(loading, including->place, "name the folder itself",
                              "%s is a symbolic link, or lies behind one: links are not followed", text);
                break;
        case EXDEV:
                problem_error(loading, including->place, NULL, "%s lies on another file system", text);
                break;
        default:
                problem_error(loading, including->place, NULL, "%s cannot be read: %s", text,
                              strerror(errno));
        }
}

/* Manifests below the folder, as a stack's own are chosen; but a link that is named like one is refused. `text`: as shown. */
static void find_files(struct including *including, const char *path, const char *text, struct found **found,
                       size_t *count) {
        struct loading *loading = including->loading;
        int descriptor = beneath_open(including->descriptor, path, O_RDONLY | O_DIRECTORY);
        DIR *directory = descriptor >= 0 ? fdopendir(descriptor) : NULL;
        const struct dirent *entry;

        if (!directory) {
                report_unopened(including, text);
                close_descriptor(&descriptor);
                return;
        }
        while ((entry = readdir(directory)) && *count <= FILE_COUNT_MAX) {
                const char *name = entry->d_name;
                const char *inner = path_join_in(path, name, loading->arena);
                struct stat status;

                if (name[0] == '.' || fstatat(dirfd(directory), name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (S_ISDIR(status.st_mode)) {
                        find_files(including, inner, path_join_in(text, name, loading->arena), found, count);
                } else if (source_is_manifest_name(name) && S_ISLNK(status.st_mode)) {
                        problem_error(loading, including->place, "put the file itself there",
                                      "%s/%s is a symbolic link: links are not followed", text, name);
                } else if (source_is_manifest_name(name)) {
                        *found = array_grow(loading->work, *found, *count, sizeof(**found));
                        (*found)[(*count)++] = (struct found){ inner };
                }
        }
        closedir(directory);
}

static int compare_found(const void *a, const void *b) {
        return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

/*
 * How the included folder is shown: as a path that leads there from where the user stands, beginning as the stack's own
 * does. Where a link is part of that, ".." would lead elsewhere: then it is shown from the root on.
 */
static const char *shown_folder(const struct including *including, const char *path, const char *from,
                                const char *text) {
        struct arena *arena = including->loading->arena;
        const char *at = *from == '/' ? "/" : "";
        const char *joined = join_paths(arena, join_paths(arena, "", from), text);
        const char *shown = arena_printf(arena, "%s%s", at, joined);
        struct stat here, there;

        if (stat(shown, &here) == 0 &&
            fstatat(including->descriptor, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            here.st_dev == there.st_dev && here.st_ino == there.st_ino)
                return shown;
        return path_join_in(including->root, path, arena);
}

static int include_on_disk(struct including *including, const char *path, const char *from, const char *text,
                           struct error *err) {
        struct loading *loading = including->loading;
        const char *shown = shown_folder(including, path, from, text);
        size_t errors = loading->diagnostics->errors, count = 0, inner = strlen(path) + 1;
        struct found *found = NULL;

        find_files(including, path, shown, &found, &count);
        if (count == 0 && loading->diagnostics->errors == errors)
                problem_error(loading, including->place, "manifests are files named *.yaml or *.yml",
                              "no manifests in %s", shown);
        if (check_count(including, count, err) < 0)
                return -1;
        if (count > 1)
                qsort(found, count, sizeof(*found), compare_found);
        for (size_t i = 0; i < count; i++) {
                int descriptor DESCRIPTOR_CLEANUP =
                        beneath_open(including->descriptor, found[i].path, O_RDONLY);
                int opened = descriptor < 0 ? errno : 0;
                uint16_t number =
                        source_add(loading, path_join_in(shown, found[i].path + inner, loading->arena));

                errno = opened;
                source_read(loading, number, descriptor, false);
        }
        return 0;
}

/* The nearest folder from here upwards that holds a .git; the one above this where none does. */
static const char *find_root(struct arena *arena, const char *folder) {
        const char *at = folder;

        for (;;) {
                struct stat status;

                if (lstat(path_join_in(at, ".git", arena), &status) == 0 &&
                    (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode)))
                        return at;
                if (strcmp(at, "/") == 0)
                        return path_folder(folder, arena);
                at = path_folder(at, arena);
        }
}

/* A folder of the disk, without links, as a path within the root. NULL where it is not there. */
static const char *within_root(const struct including *including, const char *folder) {
        struct arena *arena = including->loading->arena;
        char real[PATH_MAX];
        size_t length = strlen(including->root);

        if (!realpath(*folder ? folder : ".", real))
                return NULL;
        if (strcmp(including->root, "/") == 0)
                return arena_strdup(arena, real + 1);
        if (!is_within(real, including->root))
                return NULL;
        return arena_strdup(arena, real[length] == '/' ? real + length + 1 : "");
}

static int open_root(struct including *including, const char *given, struct error *err) {
        struct loading *loading = including->loading;
        const char *folder = loading->is_folder ? given : path_folder(given, loading->arena);
        char real[PATH_MAX];

        if (!realpath(*folder ? folder : ".", real))
                return error_set(err, "%s cannot be read: %s", folder, strerror(errno));
        including->root = find_root(loading->arena, arena_strdup(loading->arena, real));
        including->own = within_root(including, real);
        including->descriptor = open(including->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (including->descriptor < 0)
                return error_set(err, "%s cannot be opened: %s", including->root, strerror(errno));
        return 0;
}

/* In memory */

static int include_from_tree(struct including *including, const char *path, const char *text,
                             struct error *err) {
        struct loading *loading = including->loading;
        const struct manifest_tree *tree = loading->options->tree;
        struct error why = { 0 };
        struct manifest_file *files;
        size_t count;

        if (tree->read(tree->context, path, loading->arena, &files, &count, &why) < 0) {
                if (why.kind != ERROR_NOT_FOUND) {
                        *err = why;
                        return -1;
                }
                problem_error(loading, including->place, NULL, "%s cannot be included: %s", text,
                              why.message);
                return 0;
        }
        if (count == 0)
                problem_error(loading, including->place, "manifests are files named *.yaml or *.yml",
                              "no manifests in %s", text);
        return check_count(including, count, err) < 0 ? -1 : source_gather_files(loading, files, count, err);
}

/* What the path that is given names a folder of: a pipe and standard input have none. */
static bool has_folder(const struct loading *loading, const char *given) {
        struct stat status;

        return loading->options->tree || (given && strcmp(given, "-") != 0 && stat(given, &status) == 0 &&
                                          (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode)));
}

static int include_folder(struct including *including, const struct value *item, struct error *err) {
        struct loading *loading = including->loading;
        const struct source *source = &loading->sources[item->file];
        const char *text = item->text, *from, *folder, *path;

        including->place = place_of(item);
        from = path_folder(including->root ? source->path : source->tree_path, loading->arena);
        folder = including->root ? within_root(including, from) : from;
        path = folder ? join_paths(loading->arena, folder, text) : "..";
        if (leads_out(path)) {
                problem_error(loading, including->place,
                              "an included file must lie in the same Git repository; without a repository, "
                              "in the folder above the stack's own",
                              "%s lies outside of %s", text,
                              including->root ? including->root : "the repository");
                return 0;
        }
        if (has_dot_name(path)) {
                problem_error(loading, including->place, NULL,
                              "%s: folders whose names begin with a dot are not read", text);
                return 0;
        }
        if (!check_overlap(including, path, text))
                return 0;
        including->included = array_grow(loading->work, including->included, including->count,
                                         sizeof(*including->included));
        including->included[including->count++] = (struct included){ path, including->place };
        return including->root ? include_on_disk(including, path, from, text, err)
                               : include_from_tree(including, path, text, err);
}

static int include_list(struct including *including, const char *given, const struct value *list,
                        struct error *err) {
        struct loading *loading = including->loading;

        if (!has_folder(loading, given)) {
                problem_error(
                        loading, place_of(list), "put it into a file",
                        "a Stack that does not come from a file has no folder that include could be relative to");
                return 0;
        }
        if (loading->options->tree)
                including->own = join_paths(loading->arena, "", loading->options->tree->folder);
        else if (!including->root && open_root(including, given, err) < 0)
                return -1;
        for (uint32_t i = 0; i < list->count; i++) {
                if (value_text_of(&list->items[i]) && include_folder(including, &list->items[i], err) < 0)
                        return -1;
        }
        return 0;
}

int include_all(struct loading *loading, const char *given, struct error *err) {
        struct including including = { .loading = loading, .descriptor = -1 };
        size_t count = loading->draft_count;
        int result = 0;

        for (size_t i = 0; i < count && result == 0; i++) {
                const struct draft *draft = &loading->drafts[i];
                const struct value *list = typed_member(draft->resource.spec, "include", VALUE_LIST);

                if (draft->resource.kind->id != KIND_STACK || !list)
                        continue;
                loading->address = draft->resource.address;
                result = include_list(&including, given, list, err);
                /* From here on the files are all that is left of it: what is included is no change by itself. */
                value_unset(draft_spec(draft), "include");
        }
        loading->address = NULL;
        close_descriptor(&including.descriptor);
        return result;
}
