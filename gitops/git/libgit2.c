/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgit2 as this program wants it: no configuration but its own, no user's agent or keyring,
 * owners not checked (the folder is ours, or for file:// another user's on purpose), objects
 * bounded. Its last error is put into messages only after a password in it was covered.
 */
#include "gitops/git/libgit2.h"

#include "base/library.h"
#include "gitops/git/unreadable.h"

#include <string.h>

#ifdef GIT2_BOUNDS_OBJECTS
/* The bound of one object that libgit2 holds in memory while it indexes a pack. */
#define OBJECT_MAX ((size_t)1024 * 1024 * 1024)
#endif
#define MAPPED_MAX ((size_t)1024 * 1024 * 1024)

#define GIT_DEFINE(symbol) __typeof__(symbol) *sym_##symbol;
GIT_SYMBOLS(GIT_DEFINE)
static const struct library_symbol git_symbols[] = { GIT_SYMBOLS(LIBRARY_SYMBOL) };
static struct library git = LIBRARY(GIT2_SONAME, "libgit2-1.5", "reading Git repositories", git_symbols);

/* Memory that libgit2 and libssh2 do not free at the end is no leak of ours. */
#ifdef __SANITIZE_ADDRESS__
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
        return "leak:libgit2.so\nleak:libssh2.so\nleak:libpcre2";
}

const char *__lsan_default_options(void);
const char *__lsan_default_options(void) {
        return "print_suppressions=0";
}
#endif

int repository_begin(const char *ca_file, enum git_failure *ret_failure, struct error *err) {
        static const int levels[] = { GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_GLOBAL, GIT_CONFIG_LEVEL_XDG,
                                      GIT_CONFIG_LEVEL_PROGRAMDATA };
        const git_error *last;
        int result = 0;

        *ret_failure = GIT_LOCAL;
        if (library_load(&git, err) < 0)
                return -1;
        if (sym_git_libgit2_init() < 0)
                return error_set(err, "libgit2 does not start");
        for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]) && result == 0; i++)
                result = sym_git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "");
        if (result == 0)
                result = sym_git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
        if (result == 0)
                result = sym_git_libgit2_opts(GIT_OPT_SET_USER_AGENT, "berth/" BERTH_VERSION);
        if (result == 0)
                result = sym_git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, MAPPED_MAX);
        if (result < 0) {
                last = sym_git_error_last();
                return error_set(err, "libgit2 does not take its options%s%s", last ? ": " : "",
                                 last ? last->message : "");
        }
#ifdef GIT2_BOUNDS_OBJECTS
        /* A library from before its security update does not know it, and the cage's limit of memory holds alone. */
        (void)sym_git_libgit2_opts(GIT_OPT_SET_PACK_MAX_OBJECT_SIZE, OBJECT_MAX);
#endif
        if (ca_file && sym_git_libgit2_opts(GIT_OPT_SET_SSL_CERT_LOCATIONS, ca_file, NULL) < 0) {
                last = sym_git_error_last();
                return error_set(err, "no certificates can be read from %s%s%s", ca_file, last ? ": " : "",
                                 last ? last->message : "");
        }
        return 0;
}

static void cover(const char *words, const char *secret) {
        char *found = secret && *secret ? strstr(words, secret) : NULL;

        for (; found; found = strstr(found + strlen(secret), secret))
                memset(found, '*', strlen(secret));
}

const char *repository_last_words(const struct repository *repository, struct arena *arena) {
        const git_error *last = sym_git_error_last();
        const char *words =
                git_clean_text(arena, last && last->message ? last->message : "no reason given", TEXT_MAX);

        cover(words, repository->args->password);
        cover(words, repository->args->proxy ? repository->args->proxy->secret : NULL);
        return words;
}

bool repository_is_out_of_memory(void) {
        const git_error *last = sym_git_error_last();

        return last && last->klass == GIT_ERROR_NOMEMORY;
}

int repository_fail_broken(struct repository *repository, const char *what, const char *id,
                           enum git_failure *ret_failure, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const struct url *url = repository->args->url;
        const char *words = repository_last_words(repository, arena), *reason = NULL;

        if (repository_is_out_of_memory())
                return FAIL(GIT_OVER_LIMIT, OUT_OF_MEMORY);
        repository->broken = url->scheme != URL_FILE;
        if (url->scheme == URL_FILE)
                reason = unreadable_reason(url->path, words, arena);
        return FAIL(GIT_LOCAL, "%s %s cannot be read: %s", what, id, reason ? reason : words);
}
