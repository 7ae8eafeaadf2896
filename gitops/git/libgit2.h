/* SPDX-License-Identifier: Apache-2.0 */
/* libgit2's functions, as sym_NAME, once repository_begin() has loaded them. Of repository.c and repository_objects.c alone. */
#ifndef BERTH_GITOPS_GIT_LIBGIT2_H
#define BERTH_GITOPS_GIT_LIBGIT2_H

#include "gitops/git/remote_failure.h"
#include "gitops/git/repository.h"

#include <git2.h>

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
        X(git_repository_is_shallow)             \
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

#define GIT_DECLARE(symbol) extern __typeof__(symbol) *sym_##symbol;
GIT_SYMBOLS(GIT_DECLARE)
#undef GIT_DECLARE

/* The last fetched commit of a branch; of tags each under its name. */
#define FETCHED_REF "refs/berth/fetched"
#define FETCHED_TAGS "refs/berth/tags/"
#define TEXT_MAX 1024U

struct repository {
        const struct repository_args *args;
        git_repository *body;
        git_odb *objects;
        git_remote *remote;
        uint64_t received;
        bool broken;
        struct remote_failure failure;
        unsigned asked;
};

/* libgit2's own words of what failed last, with what is secret cut out. */
const char *repository_last_words(const struct repository *repository, struct arena *arena);
/* An object that should be there cannot be read. */
bool repository_is_out_of_memory(void); /* whether that was the last error */
int repository_fail_broken(struct repository *repository, const char *what, const char *id,
                           enum git_failure *ret_failure, struct error *err);

/*
 * Refs of a repository on this machine, and of ours, whose names are wanted; a dangling one is left
 * out.
 */
int repository_list_here(struct repository *repository, bool (*wanted)(const char *name), struct arena *arena,
                         struct remote_ref **ret, size_t *ret_count, enum git_failure *ret_failure,
                         struct error *err) MUST_USE;

#endif
