/* SPDX-License-Identifier: Apache-2.0 */
/* The repository itself, and the server that it comes from: opened, asked for its refs, fetched from. */
#include "gitops/git/libgit2.h"
#include "gitops/git/unreadable.h"

#include <stdlib.h>
#include <string.h>

#define REFS_MAX ((size_t)1000 * 1000)

static const char *host_of(const struct repository *repository) {
        return repository->args->url->host ? repository->args->url->host : repository->args->url->path;
}

static int fail_remote(struct repository *repository, int code, enum git_failure *ret_failure,
                       struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        repository->failure.untrusted |= code == GIT_ECERTIFICATE;
        repository->failure.unauthorised |= code == GIT_EAUTH;
        repository->failure.out_of_memory |= repository_is_out_of_memory();
        return remote_failure_report(&repository->failure, repository->args->url, repository->args->proxy,
                                     repository->args->pack_bytes, repository_last_words(repository, arena),
                                     ret_failure, err);
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
                repository->failure.refused = true;
                return GIT_EAUTH;
        }
        if ((allowed & GIT_CREDENTIAL_SSH_KEY) && args->ssh_key_file)
                return sym_git_credential_ssh_key_new(ret, args->user, NULL, args->ssh_key_file, NULL);
        if ((allowed & GIT_CREDENTIAL_USERPASS_PLAINTEXT) && args->password && args->url->scheme == URL_HTTPS)
                return sym_git_credential_userpass_plaintext_new(ret, args->user, args->password);
        repository->failure.unasked = true;
        return GIT_EAUTH;
}

/* `valid` is libgit2's verdict: by the certificates, or by libssh2 and known_hosts. There is no other way in. */
static int on_certificate(git_cert *certificate, int valid, const char *host, void *context) {
        struct repository *repository = context;

        (void)certificate;
        (void)host;
        if (valid)
                return 0;
        repository->failure.untrusted = true;
        return GIT_ECERTIFICATE;
}

static int on_indexer_progress(const git_indexer_progress *progress, void *context) {
        struct repository *repository = context;

        repository->received = progress->received_bytes;
        repository->failure.over_limit = progress->received_bytes > repository->args->pack_bytes;
        return repository->failure.over_limit ? GIT_EUSER : 0;
}

static void set_callbacks(git_remote_callbacks *callbacks, struct repository *repository) {
        callbacks->credentials = on_credentials;
        callbacks->certificate_check = on_certificate;
        callbacks->transfer_progress = on_indexer_progress;
        callbacks->payload = repository;
}

/* Its credentials, where it wants any, stand in its URL. */
static void set_proxy(git_proxy_options *options, const struct proxy *proxy) {
        options->type = proxy ? GIT_PROXY_SPECIFIED : GIT_PROXY_NONE;
        options->url = proxy ? proxy->url : NULL;
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

/* A repository that cannot be opened is thrown away: all that is in it can be fetched again. */
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
                            repository_last_words(repository, arena));
        }
        sym_git_repository_free(made);
        return 0;
}

static int open_theirs(struct repository *repository, enum git_failure *ret_failure, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *path = repository->args->url->path, *words, *reason;

        if (sym_git_repository_open(&repository->body, path) == 0 &&
            sym_git_repository_odb(&repository->objects, repository->body) == 0)
                return 0;
        words = repository_last_words(repository, arena);
        reason = unreadable_reason(path, words, arena);
        return reason ? FAIL(GIT_LOCAL, "the repository at %s cannot be read: %s", path, reason)
                      : FAIL(GIT_NOT_FOUND, "there is no repository at %s: %s", path, words);
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

static bool is_branch_or_tag(const char *name) {
        return strncmp(name, "refs/heads/", 11) == 0 || strncmp(name, "refs/tags/", 10) == 0;
}

/* Counts them where `refs` is NULL. */
static int take_refs(struct repository *repository, bool (*wanted)(const char *name), struct arena *arena,
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

int repository_list_here(struct repository *repository, bool (*wanted)(const char *name), struct arena *arena,
                         struct remote_ref **ret, size_t *ret_count, enum git_failure *ret_failure,
                         struct error *err) {
        size_t capacity = 0, count = 0;
        int result = take_refs(repository, wanted, arena, NULL, &capacity, 0);

        *ret = arena_array(arena, capacity, sizeof(**ret));
        if (result == 0)
                result = take_refs(repository, wanted, arena, *ret, &count, capacity);
        if (result < 0)
                return repository_fail_broken(repository, "the list of refs of", host_of(repository),
                                              ret_failure, err);
        *ret_count = count < capacity ? count : capacity;
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

                if (!is_branch_or_tag(name))
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

/* Whether the cause is the repository on this machine (refs that lead nowhere, objects that cannot be read) and not the server. */
static bool is_local_failure(const struct repository *repository) {
        static const int theirs[] = { GIT_ERROR_NET,  GIT_ERROR_OS,       GIT_ERROR_SSL,     GIT_ERROR_SSH,
                                      GIT_ERROR_HTTP, GIT_ERROR_NOMEMORY, GIT_ERROR_CALLBACK };
        const git_error *last = sym_git_error_last();

        if (remote_failure_is_known(&repository->failure))
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
                return repository_list_here(repository, is_branch_or_tag, arena, ret, ret_count, ret_failure,
                                            err);
        sym_git_remote_connect_options_init(&options, GIT_REMOTE_CONNECT_OPTIONS_VERSION);
        set_callbacks(&options.callbacks, repository);
        options.follow_redirects = GIT_REMOTE_REDIRECT_NONE; /* to another host: within one it does follow */
        set_proxy(&options.proxy_opts, repository->args->proxy);
        result = sym_git_remote_connect_ext(repository->remote, GIT_DIRECTION_FETCH, &options);
        if (result == 0)
                result = sym_git_remote_ls(&heads, &count, repository->remote);
        if (result < 0) {
                repository->broken = is_local_failure(repository);
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
        set_proxy(&options.proxy_opts, repository->args->proxy);
        repository->asked = 0;
        result = sym_git_remote_download(repository->remote, &refspecs, &options);
        if (result < 0) {
                repository->broken = is_local_failure(repository);
                return fail_remote(repository, result, ret_failure, err);
        }
        /* So that the next fetch need not bring again what is here. */
        sym_git_oid_fromstr(&id, ref->id);
        if (sym_git_reference_create(&fetched, repository->body, kept, &id, 1, NULL) < 0)
                return repository_fail_broken(repository, "what was fetched as", ref->id, ret_failure, err);
        sym_git_reference_free(fetched);
        return 0;
}
