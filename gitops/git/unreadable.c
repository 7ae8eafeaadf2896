/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's cage has this one folder to read, and nothing outside it: a worktree, whose repository is elsewhere, and objects
 * that are borrowed are out of its reach. libgit2 says "Permission denied" then, or that an object is missing. What the folder
 * itself says of where they are is looked at once that has happened.
 */
#include "gitops/git/unreadable.h"

#include "base/files.h"
#include "base/strbuf.h"
#include "gitops/git/git_parts.h"

#include <string.h>

#define POINTER_MAX ((size_t)64 * 1024)
#define PATH_SHOWN_MAX 512U

/* Extensions by their names in libgit2's words, in any case. */
static const struct {
        const char *words, *reason;
} forms[] = {
        { "objectformat", UNREADABLE_SHA256 },
        { "object format", UNREADABLE_SHA256 },
        { "partialclone", "it is a partial clone, which lacks objects: clone it without --filter" },
        { "refstorage", "it keeps its refs in a form that libgit2 does not read: run git refs migrate "
                        "--ref-format=files there" },
};

/* The first line of a file, cleaned; NULL if the file cannot be read or is empty. */
static const char *first_line(const char *path, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored = { 0 };
        char *line;

        if (file_read(path, POINTER_MAX, &text, &ignored) < 0)
                return NULL;
        line = arena_strdup(arena, strbuf_text(&text));
        line[strcspn(line, "\r\n")] = '\0';
        return *line ? git_clean_text(arena, line, PATH_SHOWN_MAX) : NULL;
}

/* .git is a file that names a folder: of a worktree, REPOSITORY/worktrees/NAME. */
static const char *reason_of_pointer(const char *path, struct arena *arena) {
        const char *line = first_line(arena_printf(arena, "%s/.git", path), arena), *mark;

        if (!line || strncmp(line, "gitdir: ", 8) != 0)
                return NULL;
        line += 8;
        mark = strstr(line, "/worktrees/");
        if (mark)
                return arena_printf(arena, "it is a worktree of another repository: name that one, %.*s",
                                    (int)(mark - line), line);
        return arena_printf(arena, "its repository is elsewhere: name that folder, %s", line);
}

static const char *reason_of_alternates(const char *path, struct arena *arena) {
        const char *line = first_line(arena_printf(arena, "%s/objects/info/alternates", path), arena);

        if (!line)
                line = first_line(arena_printf(arena, "%s/.git/objects/info/alternates", path), arena);
        return line ? arena_printf(
                              arena,
                              "it borrows objects from %s (objects/info/alternates), which Berth does not "
                              "read: run git repack -a -d there, then delete that file",
                              line)
                    : NULL;
}

const char *unreadable_reason(const char *path, const char *words, struct arena *arena) {
        const char *reason = NULL;

        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]) && !reason; i++) {
                if (strcasestr(words, forms[i].words))
                        reason = forms[i].reason;
        }
        if (!reason)
                reason = reason_of_pointer(path, arena);
        return reason ? reason : reason_of_alternates(path, arena);
}

int unreadable_add_reason(const char *path, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *reason = unreadable_reason(path, "", arena);
        struct error why = *err;

        if (!reason)
                return -1;
        *err = (struct error){ 0 };
        return error_set(err, "%s; the repository at %s may not be readable: %s", why.message, path, reason);
}
