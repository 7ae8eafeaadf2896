/* SPDX-License-Identifier: Apache-2.0 */
/* What names may be: inside a tree, and as messages give them. */
#include "base/files.h"
#include "base/text.h"
#include "base/text_utf8.h"
#include "gitops/git/git_parts.h"

#include <string.h>

#define NAME_MAX_BYTES 255U

/* A component as NTFS takes it: without a stream's name, and without dots and spaces at the end. */
static size_t ntfs_length(const char *name, size_t length) {
        const char *stream = memchr(name, ':', length);

        if (stream)
                length = (size_t)(stream - name);
        while (length > 0 && (name[length - 1] == '.' || name[length - 1] == ' '))
                length--;
        return length;
}

static bool is_git(const char *name, size_t length) {
        length = ntfs_length(name, length);
        return (length == 4 && memcmp(name, ".git", 4) == 0) ||
               (length == 5 && memcmp(name, "git~1", 5) == 0);
}

/* Some systems take a backslash for a slash: each part counts. */
static bool has_git(const char *folded) {
        for (const char *at = folded;; at++) {
                size_t length = strcspn(at, "\\");

                if (is_git(at, length))
                        return true;
                at += length;
                if (!*at)
                        return false;
        }
}

const char *git_name_objection(const char *name, size_t length) {
        char *folded TEXT_CLEANUP = NULL;

        if (length == 0)
                return "is empty";
        if (length > NAME_MAX_BYTES)
                return "is longer than 255 bytes";
        if (memchr(name, '/', length))
                return "has a slash in it";
        if ((length == 1 && name[0] == '.') || (length == 2 && memcmp(name, "..", 2) == 0))
                return "is a way out of its folder";
        for (size_t i = 0; i < length; i++) {
                if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
                        return "has a control character in it";
        }
        folded = text_fold(name, length);
        if (!folded)
                return "is not UTF-8";
        return has_git(folded) ? "is a spelling of .git" : NULL;
}

const char *git_path_objection(const char *path) {
        if (path[0] == '/')
                return "is absolute";
        for (const char *at = path;; at++) {
                size_t length = strcspn(at, "/");
                const char *objection = git_name_objection(at, length);

                if (objection)
                        return objection;
                at += length;
                if (!*at)
                        return NULL;
        }
}

const char *git_clean_text(struct arena *arena, const char *text, size_t most) {
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT;
        char *copy = arena_strndup(arena, text, strnlen(text, most));

        for (char *at = copy; *at; at++) {
                if ((unsigned char)*at < 0x20 || *at == 0x7F)
                        *at = ' ';
        }
        text_append_utf8(&safe, copy);
        return arena_strdup(arena, strbuf_text(&safe));
}

bool git_is_manifest_name(const char *name) {
        return name[0] != '.' && (text_ends_with(name, ".yaml") || text_ends_with(name, ".yml"));
}

const char *const git_phase_names[PHASE_COUNT] = {
        [PHASE_STARTING] = "starting",   [PHASE_ASKING] = "asking the server", [PHASE_FETCHING] = "fetching",
        [PHASE_VERIFYING] = "verifying", [PHASE_READING] = "reading the tree",
};

const char *git_failure_reason(enum git_failure failure) {
        static const char *const reasons[] = {
                [GIT_UNREACHABLE] = "Unreachable",      [GIT_AUTHENTICATION] = "AuthenticationFailed",
                [GIT_HOST_UNTRUSTED] = "HostUntrusted", [GIT_NOT_FOUND] = "NotFound",
                [GIT_REWRITTEN] = "HistoryRewritten",   [GIT_UNVERIFIED] = "VerificationFailed",
                [GIT_UNSAFE_TREE] = "UnsafeTree",       [GIT_OVER_LIMIT] = "OverLimit",
                [GIT_LOCAL] = "SourceFailed",
        };

        return (size_t)failure < sizeof(reasons) / sizeof(reasons[0]) ? reasons[failure] : "SourceFailed";
}
