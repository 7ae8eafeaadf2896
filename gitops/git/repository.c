/* SPDX-License-Identifier: Apache-2.0 */
#include "gitops/git/repository.h"

#include "base/library.h"
#include "gitops/git/trouble.h"

#include <git2.h>
#include <stdlib.h>
#include <string.h>

#define GIT_SYMBOLS(X)                           \
        X(git_blob_free)                         \
        X(git_blob_lookup)                       \
        X(git_blob_rawcontent)                   \
        X(git_blob_rawsize)                      \
        X(git_buf_dispose)                       \
        X(git_commit_author)                     \
        X(git_commit_extract_signature)          \
        X(git_commit_free)                       \
        X(git_commit_lookup)                     \
        X(git_commit_summary)                    \
        X(git_commit_time)                       \
        X(git_commit_tree_id)                    \
        X(git_credential_ssh_key_new)            \
        X(git_credential_username_new)           \
        X(git_credential_userpass_plaintext_new) \
        X(git_error_last)                        \
        X(git_fetch_options_init)                \
        X(git_graph_descendant_of)               \
        X(git_libgit2_init)                      \
        X(git_libgit2_opts)                      \
        X(git_object_free)                       \
        X(git_object_id)                         \
        X(git_odb_exists)                        \
        X(git_odb_free)                          \
        X(git_odb_object_data)                   \
        X(git_odb_object_free)                   \
        X(git_odb_object_size)                   \
        X(git_odb_read)                          \
        X(git_odb_read_header)                   \
        X(git_oid_fromstr)                       \
        X(git_oid_tostr)                         \
        X(git_reference_create)                  \
        X(git_reference_free)                    \
        X(git_reference_iterator_free)           \
        X(git_reference_iterator_new)            \
        X(git_reference_name)                    \
        X(git_reference_next)                    \
        X(git_reference_peel)                    \
        X(git_reference_resolve)                 \
        X(git_reference_target)                  \
        X(git_remote_connect_ext)                \
        X(git_remote_connect_options_init)       \
        X(git_remote_create_anonymous)           \
        X(git_remote_disconnect)                 \
        X(git_remote_download)                   \
        X(git_remote_free)                       \
        X(git_remote_ls)                         \
        X(git_repository_free)                   \
        X(git_repository_init_ext)               \
        X(git_repository_init_options_init)      \
        X(git_repository_odb)                    \
        X(git_repository_open)                   \
        X(git_repository_open_bare)              \
        X(git_tag_free)                          \
        X(git_tag_lookup)                        \
        X(git_tag_target_id)                     \
        X(git_tree_entry_byindex)                \
        X(git_tree_entry_filemode_raw)           \
        X(git_tree_entry_id)                     \
        X(git_tree_entry_name)                   \
        X(git_tree_entrycount)                   \
        X(git_tree_free)                         \
        X(git_tree_lookup)

GIT_SYMBOLS(LIBRARY_POINTER)
static const struct library_symbol git_symbols[] = { GIT_SYMBOLS(LIBRARY_SYMBOL) };
static struct library git = LIBRARY(GIT2_SONAME, "libgit2-1.5", "reading Git repositories", git_symbols);

/* What libgit2 and libssh2 leave behind at the end is theirs. */
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

/* What was fetched last of a branch; of tags each under its name. */
#define FETCHED_REF "refs/berth/fetched"
#define FETCHED_TAGS "refs/berth/tags/"
#define TEXT_MAX 1024U
#define REFS_MAX ((size_t)1000 * 1000)
/* Of one object that libgit2 holds in memory while it indexes a pack. */
#define OBJECT_MAX ((size_t)1024 * 1024 * 1024)
#define MAPPED_MAX ((size_t)1024 * 1024 * 1024)

struct repository {
        const struct repository_args *args;
        git_repository *body;
        git_odb *objects;
        git_remote *remote;
        uint64_t received;
        bool broken;
        struct trouble trouble;
        unsigned asked;
};

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
        if (result == 0)
                result = sym_git_libgit2_opts(GIT_OPT_SET_PACK_MAX_OBJECT_SIZE, OBJECT_MAX);
        if (result < 0)
                return error_set(err, "libgit2 does not take its options");
        if (ca_file && sym_git_libgit2_opts(GIT_OPT_SET_SSL_CERT_LOCATIONS, ca_file, NULL) < 0) {
                last = sym_git_error_last();
                return error_set(err, "no certificates can be read from %s%s%s", ca_file, last ? ": " : "",
                                 last ? last->message : "");
        }
        return 0;
}

/* libgit2's own words, with what is secret cut out. */
static const char *last_words(const struct repository *repository, struct arena *arena) {
        const git_error *last = sym_git_error_last();
        const char *words =
                git_clean_text(arena, last && last->message ? last->message : "no reason given", TEXT_MAX);
        const char *password = repository->args->password;
        char *found = password && *password ? strstr(words, password) : NULL;

        for (; found; found = strstr(found, password))
                memset(found, '*', strlen(password));
        return words;
}

/* An object that should be there cannot be read. */
static int fail_broken(struct repository *repository, const char *what, const char *id,
                       enum git_failure *ret_failure, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        repository->broken = repository->args->url->scheme != URL_FILE;
        return FAIL(GIT_LOCAL, "%s %s cannot be read: %s", what, id, last_words(repository, arena));
}

/*
 * An object cannot be taken for what it should be. Where its bytes are as its name says, the repository is well and it
 * was made so: by somebody, on purpose or with a tool that should not.
 */
static int fail_object(struct repository *repository, const char *what, const char *id, const git_oid *oid,
                       enum git_failure *ret_failure, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *words = last_words(repository, arena);
        git_odb_object *object;

        if (sym_git_odb_read(&object, repository->objects, oid) < 0)
                return fail_broken(repository, what, id, ret_failure, err);
        sym_git_odb_object_free(object);
        return FAIL(GIT_UNSAFE_TREE, "%s %s is malformed, or something else: %s", what, id, words);
}

static const char *host_of(const struct repository *repository) {
        return repository->args->url->host ? repository->args->url->host : repository->args->url->path;
}

static int fail_remote(struct repository *repository, int code, enum git_failure *ret_failure,
                       struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        repository->trouble.untrusted |= code == GIT_ECERTIFICATE;
        repository->trouble.unauthorised |= code == GIT_EAUTH;
        return trouble_fail(&repository->trouble, repository->args->url, repository->args->pack_bytes,
                            last_words(repository, arena), ret_failure, err);
}

static int on_credentials(git_credential **ret, const char *url, const char *user, unsigned allowed,
                          void *context) {
        struct repository *repository = context;
        const struct repository_args *args = repository->args;

        (void)url;
        (void)user;
        if (allowed & GIT_CREDENTIAL_USERNAME)
                return sym_git_credential_username_new(ret, args->user);
        /* Asked again: what was given is not good enough. */
        if (repository->asked++ > 0) {
                repository->trouble.refused = true;
                return GIT_EAUTH;
        }
        if ((allowed & GIT_CREDENTIAL_SSH_KEY) && args->ssh_key_file)
                return sym_git_credential_ssh_key_new(ret, args->user, NULL, args->ssh_key_file, NULL);
        if ((allowed & GIT_CREDENTIAL_USERPASS_PLAINTEXT) && args->password && args->url->scheme == URL_HTTPS)
                return sym_git_credential_userpass_plaintext_new(ret, args->user, args->password);
        repository->trouble.unasked = true;
        return GIT_EAUTH;
}

/* `valid` is libgit2's verdict: by the certificates, or by libssh2 and known_hosts. There is no other way in. */
static int on_certificate(git_cert *certificate, int valid, const char *host, void *context) {
        struct repository *repository = context;

        (void)certificate;
        (void)host;
        if (valid)
                return 0;
        repository->trouble.untrusted = true;
        return GIT_ECERTIFICATE;
}

static int on_progress(const git_indexer_progress *progress, void *context) {
        struct repository *repository = context;

        repository->received = progress->received_bytes;
        repository->trouble.over_limit = progress->received_bytes > repository->args->pack_bytes;
        return repository->trouble.over_limit ? GIT_EUSER : 0;
}

static void set_callbacks(git_remote_callbacks *callbacks, struct repository *repository) {
        callbacks->credentials = on_credentials;
        callbacks->certificate_check = on_certificate;
        callbacks->transfer_progress = on_progress;
        callbacks->payload = repository;
}

static void release_parts(struct repository *repository) {
        if (repository->remote) {
                sym_git_remote_disconnect(repository->remote);
                sym_git_remote_free(repository->remote);
        }
        if (repository->objects)
                sym_git_odb_free(repository->objects);
        if (repository->body)
                sym_git_repository_free(repository->body);
        repository->remote = NULL;
        repository->objects = NULL;
        repository->body = NULL;
}

static int open_ours(struct repository *repository) {
        int result = sym_git_repository_open_bare(&repository->body, repository->args->folder);

        if (result == 0)
                result = sym_git_repository_odb(&repository->objects, repository->body);
        if (result == 0)
                result = sym_git_remote_create_anonymous(&repository->remote, repository->body,
                                                         repository->args->url->text);
        return result;
}

/* One that cannot be opened is thrown away: all that is in it can be fetched again. */
static int open_or_make_ours(struct repository *repository, enum git_failure *ret_failure,
                             struct error *err) {
        const char *folder = repository->args->folder;
        struct arena *arena ARENA_CLEANUP = arena_new();
        git_repository_init_options options;
        git_repository *made = NULL;

        if (open_ours(repository) == 0)
                return 0;
        release_parts(repository);
        *ret_failure = GIT_LOCAL;
        if (git_remove_folder(folder, err) < 0)
                return -1;
        sym_git_repository_init_options_init(&options, GIT_REPOSITORY_INIT_OPTIONS_VERSION);
        options.flags = GIT_REPOSITORY_INIT_BARE | GIT_REPOSITORY_INIT_MKDIR | GIT_REPOSITORY_INIT_MKPATH;
        options.initial_head = "berth";
        if (sym_git_repository_init_ext(&made, folder, &options) < 0 || open_ours(repository) < 0) {
                sym_git_repository_free(made);
                return FAIL(GIT_LOCAL, "no repository can be made in %s: %s", folder,
                            last_words(repository, arena));
        }
        sym_git_repository_free(made);
        return 0;
}

static int open_theirs(struct repository *repository, enum git_failure *ret_failure, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        if (sym_git_repository_open(&repository->body, repository->args->url->path) < 0 ||
            sym_git_repository_odb(&repository->objects, repository->body) < 0)
                return FAIL(GIT_NOT_FOUND, "there is no repository at %s: %s", repository->args->url->path,
                            last_words(repository, arena));
        return 0;
}

int repository_open(const struct repository_args *args, struct repository **ret,
                    enum git_failure *ret_failure, struct error *err) {
        struct repository *repository REPOSITORY_CLEANUP = calloc(1, sizeof(*repository));
        bool ours = args->url->scheme != URL_FILE;

        if (!repository)
                abort();
        repository->args = args;
        if ((ours ? open_or_make_ours : open_theirs)(repository, ret_failure, err) < 0)
                return -1;
        *ret = repository;
        repository = NULL;
        return 0;
}

void repository_closep(struct repository **place) {
        struct repository *repository = *place;

        *place = NULL;
        if (!repository)
                return;
        release_parts(repository);
        free(repository);
}

uint64_t repository_received(const struct repository *repository) {
        return repository->received;
}

bool repository_is_broken(const struct repository *repository) {
        return repository->broken;
}

static bool is_wanted(const char *name) {
        return strncmp(name, "refs/heads/", 11) == 0 || strncmp(name, "refs/tags/", 10) == 0;
}

static bool is_tag_here(const char *name) {
        return strncmp(name, FETCHED_TAGS, strlen(FETCHED_TAGS)) == 0 || strncmp(name, "refs/tags/", 10) == 0;
}

/* The refs of a repository on this machine; one that leads nowhere is none. */
static int list_here(struct repository *repository, bool (*wanted)(const char *name), struct arena *arena,
                     struct remote_ref *refs, size_t *count, size_t capacity) {
        git_reference_iterator *iterator;
        git_reference *reference;
        int result = sym_git_reference_iterator_new(&iterator, repository->body);

        if (result < 0)
                return result;
        while ((result = sym_git_reference_next(&reference, iterator)) == 0) {
                const char *name = sym_git_reference_name(reference);
                git_reference *direct = NULL;
                git_object *commit = NULL;

                if (wanted(name) && sym_git_reference_resolve(&direct, reference) == 0 &&
                    sym_git_reference_peel(&commit, reference, GIT_OBJECT_COMMIT) == 0) {
                        if (refs && *count < capacity) {
                                struct remote_ref *ref = &refs[*count];

                                ref->name = arena_strdup(arena, name);
                                sym_git_oid_tostr(ref->id, ID_SIZE, sym_git_reference_target(direct));
                                sym_git_oid_tostr(ref->commit, ID_SIZE, sym_git_object_id(commit));
                        }
                        ++*count;
                }
                sym_git_object_free(commit);
                sym_git_reference_free(direct);
                sym_git_reference_free(reference);
        }
        sym_git_reference_iterator_free(iterator);
        return result == GIT_ITEROVER ? 0 : result;
}

static int list_local(struct repository *repository, bool (*wanted)(const char *name), struct arena *arena,
                      struct remote_ref **ret, size_t *ret_count, enum git_failure *ret_failure,
                      struct error *err) {
        size_t capacity = 0, count = 0;
        int result = list_here(repository, wanted, arena, NULL, &capacity, 0);

        *ret = arena_array(arena, capacity, sizeof(**ret));
        if (result == 0)
                result = list_here(repository, wanted, arena, *ret, &count, capacity);
        if (result < 0)
                return fail_broken(repository, "the list of refs of", host_of(repository), ret_failure, err);
        *ret_count = count < capacity ? count : capacity;
        return 0;
}

int repository_tags_of(struct repository *repository, const char *commit, struct arena *arena,
                       struct remote_ref **ret, size_t *ret_count, enum git_failure *ret_failure,
                       struct error *err) {
        struct remote_ref *refs;
        size_t count, kept = 0;

        if (list_local(repository, is_tag_here, arena, &refs, &count, ret_failure, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (strcmp(refs[i].commit, commit) == 0 && strcmp(refs[i].id, commit) != 0)
                        refs[kept++] = refs[i];
        }
        *ret = refs;
        *ret_count = kept;
        return 0;
}

/* "refs/tags/v1^{}" follows the annotated tag that it peels. */
static size_t copy_heads(const git_remote_head **heads, size_t count, struct arena *arena,
                         struct remote_ref *refs) {
        size_t filled = 0;

        for (size_t i = 0; i < count; i++) {
                const char *name = heads[i]->name;
                size_t length = strlen(name);
                bool peeled = length > 3 && strcmp(name + length - 3, "^{}") == 0;

                if (!is_wanted(name))
                        continue;
                if (peeled) {
                        struct remote_ref *last = filled ? &refs[filled - 1] : NULL;

                        if (last && strlen(last->name) == length - 3 &&
                            strncmp(last->name, name, length - 3) == 0)
                                sym_git_oid_tostr(last->commit, ID_SIZE, &heads[i]->oid);
                        continue;
                }
                refs[filled].name = arena_strdup(arena, name);
                sym_git_oid_tostr(refs[filled].id, ID_SIZE, &heads[i]->oid);
                memcpy(refs[filled].commit, refs[filled].id, ID_SIZE);
                filled++;
        }
        return filled;
}

/* Whether it failed for what is here, and not for the server or the way to it: refs that lead nowhere, objects unread. */
static bool is_ours(const struct repository *repository) {
        static const int theirs[] = { GIT_ERROR_NET,  GIT_ERROR_OS,       GIT_ERROR_SSL,     GIT_ERROR_SSH,
                                      GIT_ERROR_HTTP, GIT_ERROR_NOMEMORY, GIT_ERROR_CALLBACK };
        const git_error *last = sym_git_error_last();

        if (trouble_is_known(&repository->trouble))
                return false;
        for (size_t i = 0; last && i < sizeof(theirs) / sizeof(theirs[0]); i++) {
                if (last->klass == theirs[i])
                        return false;
        }
        return last != NULL;
}

int repository_list(struct repository *repository, struct arena *arena, struct remote_ref **ret,
                    size_t *ret_count, enum git_failure *ret_failure, struct error *err) {
        git_remote_connect_options options;
        const git_remote_head **heads = NULL;
        size_t count = 0;
        int result;

        if (!repository->remote)
                return list_local(repository, is_wanted, arena, ret, ret_count, ret_failure, err);
        sym_git_remote_connect_options_init(&options, GIT_REMOTE_CONNECT_OPTIONS_VERSION);
        set_callbacks(&options.callbacks, repository);
        options.follow_redirects = GIT_REMOTE_REDIRECT_NONE; /* to another host: within one it does follow */
        options.proxy_opts.type = GIT_PROXY_NONE;
        result = sym_git_remote_connect_ext(repository->remote, GIT_DIRECTION_FETCH, &options);
        if (result == 0)
                result = sym_git_remote_ls(&heads, &count, repository->remote);
        if (result < 0) {
                repository->broken = is_ours(repository);
                return fail_remote(repository, result, ret_failure, err);
        }
        if (count > REFS_MAX)
                return FAIL(GIT_OVER_LIMIT, "%s has more than %zu refs", host_of(repository), REFS_MAX);
        *ret = arena_array(arena, count, sizeof(**ret));
        *ret_count = copy_heads(heads, count, arena, *ret);
        return 0;
}

int repository_fetch(struct repository *repository, const struct remote_ref *ref,
                     enum git_failure *ret_failure, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        bool is_tag = strncmp(ref->name, "refs/tags/", 10) == 0;
        const char *kept = is_tag ? arena_printf(arena, FETCHED_TAGS "%s", ref->name + 10) : FETCHED_REF;
        char *refspec = arena_printf(arena, "+%s:%s", ref->name, kept);
        git_strarray refspecs = { .strings = &refspec, .count = 1 };
        git_reference *fetched = NULL;
        git_fetch_options options;
        git_oid id;
        int result;

        if (!repository->remote)
                return 0;
        sym_git_fetch_options_init(&options, GIT_FETCH_OPTIONS_VERSION);
        set_callbacks(&options.callbacks, repository);
        options.download_tags = GIT_REMOTE_DOWNLOAD_TAGS_NONE;
        options.follow_redirects = GIT_REMOTE_REDIRECT_NONE;
        options.proxy_opts.type = GIT_PROXY_NONE;
        repository->asked = 0;
        result = sym_git_remote_download(repository->remote, &refspecs, &options);
        if (result < 0) {
                repository->broken = is_ours(repository);
                return fail_remote(repository, result, ret_failure, err);
        }
        /* So that the next fetch need not bring again what is here. */
        sym_git_oid_fromstr(&id, ref->id);
        if (sym_git_reference_create(&fetched, repository->body, kept, &id, 1, NULL) < 0)
                return fail_broken(repository, "what was fetched as", ref->id, ret_failure, err);
        sym_git_reference_free(fetched);
        return 0;
}

bool repository_has(struct repository *repository, const char *id) {
        git_oid oid;

        return sym_git_oid_fromstr(&oid, id) == 0 && sym_git_odb_exists(repository->objects, &oid) == 1;
}

int repository_descends(struct repository *repository, const char *commit, const char *ancestor,
                        enum git_failure *ret_failure, struct error *err) {
        git_oid child, parent;
        int result;

        if (strcmp(commit, ancestor) == 0)
                return 1;
        if (!repository_has(repository, ancestor))
                return 0;
        sym_git_oid_fromstr(&child, commit);
        sym_git_oid_fromstr(&parent, ancestor);
        result = sym_git_graph_descendant_of(repository->body, &child, &parent);
        return result < 0 ? fail_broken(repository, "the history of", commit, ret_failure, err) : result;
}

int repository_commit(struct repository *repository, const char *id, struct arena *arena,
                      struct commit_info *ret, enum git_failure *ret_failure, struct error *err) {
        const git_signature *author;
        const char *subject;
        git_commit *commit;
        git_oid oid;

        sym_git_oid_fromstr(&oid, id);
        if (sym_git_commit_lookup(&commit, repository->body, &oid) < 0)
                return fail_object(repository, "commit", id, &oid, ret_failure, err);
        subject = sym_git_commit_summary(commit);
        author = sym_git_commit_author(commit);
        ret->subject = git_clean_text(arena, subject ? subject : "", TEXT_MAX);
        ret->author =
                git_clean_text(arena, arena_printf(arena, "%s <%s>", author->name, author->email), TEXT_MAX);
        if (__builtin_mul_overflow((int64_t)sym_git_commit_time(commit), 1000, &ret->committed_ms))
                ret->committed_ms = 0;
        sym_git_oid_tostr(ret->tree, ID_SIZE, sym_git_commit_tree_id(commit));
        sym_git_commit_free(commit);
        return 0;
}

int repository_commit_signature(struct repository *repository, const char *id, struct arena *arena,
                                struct signed_text *ret, enum git_failure *ret_failure, struct error *err) {
        git_buf signature = { 0 }, payload = { 0 };
        git_oid oid;
        int result;

        sym_git_oid_fromstr(&oid, id);
        result = sym_git_commit_extract_signature(&signature, &payload, repository->body, &oid, NULL);
        if (result == 0)
                *ret = (struct signed_text){
                        .payload = arena_strndup(arena, payload.ptr, payload.size),
                        .payload_length = payload.size,
                        .signature = arena_strndup(arena, signature.ptr, signature.size),
                        .signature_length = signature.size,
                };
        sym_git_buf_dispose(&signature);
        sym_git_buf_dispose(&payload);
        if (result == 0)
                return 1;
        if (result == GIT_ENOTFOUND && repository_has(repository, id))
                return 0;
        return fail_object(repository, "commit", id, &oid, ret_failure, err);
}

static bool tag_names(struct repository *repository, const git_oid *id, const char *commit) {
        char target[ID_SIZE] = "";
        git_tag *tag;

        if (sym_git_tag_lookup(&tag, repository->body, id) < 0)
                return false;
        sym_git_oid_tostr(target, ID_SIZE, sym_git_tag_target_id(tag));
        sym_git_tag_free(tag);
        return strcmp(target, commit) == 0;
}

int repository_tag(struct repository *repository, const char *id, const char *commit, struct arena *arena,
                   const char **ret, size_t *ret_length, enum git_failure *ret_failure, struct error *err) {
        git_odb_object *object;
        git_oid oid;

        sym_git_oid_fromstr(&oid, id);
        if (strcmp(id, commit) == 0 || !tag_names(repository, &oid, commit))
                return 0;
        if (sym_git_odb_read(&object, repository->objects, &oid) < 0)
                return fail_object(repository, "tag", id, &oid, ret_failure, err);
        *ret_length = sym_git_odb_object_size(object);
        *ret = arena_strndup(arena, sym_git_odb_object_data(object), *ret_length);
        sym_git_odb_object_free(object);
        return 1;
}

int repository_tree(struct repository *repository, const char *id, struct arena *arena,
                    struct tree_entry **ret, size_t *ret_count, enum git_failure *ret_failure,
                    struct error *err) {
        struct tree_entry *entries;
        git_tree *tree;
        size_t count;
        git_oid oid;

        sym_git_oid_fromstr(&oid, id);
        if (sym_git_tree_lookup(&tree, repository->body, &oid) < 0)
                return fail_object(repository, "tree", id, &oid, ret_failure, err);
        count = sym_git_tree_entrycount(tree);
        entries = arena_array(arena, count, sizeof(*entries));
        for (size_t i = 0; i < count; i++) {
                const git_tree_entry *entry = sym_git_tree_entry_byindex(tree, i);

                entries[i].name = arena_strdup(arena, sym_git_tree_entry_name(entry));
                entries[i].name_length = strlen(entries[i].name);
                entries[i].mode = (unsigned)sym_git_tree_entry_filemode_raw(entry);
                sym_git_oid_tostr(entries[i].id, ID_SIZE, sym_git_tree_entry_id(entry));
        }
        sym_git_tree_free(tree);
        *ret = entries;
        *ret_count = count;
        return 0;
}

int repository_blob(struct repository *repository, const char *id, const char *path, size_t limit,
                    struct arena *arena, const char **ret, size_t *ret_length, enum git_failure *ret_failure,
                    struct error *err) {
        git_object_t type;
        git_blob *blob;
        size_t size;
        git_oid oid;

        sym_git_oid_fromstr(&oid, id);
        if (sym_git_odb_read_header(&size, &type, repository->objects, &oid) < 0)
                return fail_object(repository, "file", path, &oid, ret_failure, err);
        if (size > limit)
                return FAIL(GIT_OVER_LIMIT, "%s has %zu bytes, and a manifest may have %zu", path, size,
                            limit);
        if (sym_git_blob_lookup(&blob, repository->body, &oid) < 0)
                return fail_object(repository, "file", path, &oid, ret_failure, err);
        size = (size_t)sym_git_blob_rawsize(blob);
        if (size > limit) {
                sym_git_blob_free(blob);
                return FAIL(GIT_OVER_LIMIT, "%s has %zu bytes, and a manifest may have %zu", path, size,
                            limit);
        }
        *ret = arena_strndup(arena, sym_git_blob_rawcontent(blob), size);
        *ret_length = size;
        sym_git_blob_free(blob);
        return 0;
}
