/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Git repository by libgit2, which is used in these files only: libgit2.c loads it and sets its
 * options, repository.c opens, lists and fetches, repository_objects.c reads. In the worker alone: the options
 * are the process's, and so one source's.
 *
 *     repository_begin()             once: the library, and its options
 *     repository_open()              our bare repository, made where it is absent
 *     repository_list()              connects: what the server has; then, on the same connection,
 *     repository_fetch()             one ref's objects
 *     repository_commit() ...        and reads them
 *
 * A repository on this machine (URL_FILE) is read where it is: nothing is copied, and nothing in it
 * is changed. After an object that should be there cannot be read, repository_is_broken(): throw it
 * away, fetch again.
 */
#ifndef BERTH_GITOPS_GIT_REPOSITORY_H
#define BERTH_GITOPS_GIT_REPOSITORY_H

#include "gitops/git/git_parts.h"
#include "gitops/git/proxy.h"
#include "gitops/git/url.h"

#define ID_SIZE 41 /* 40 hex digits and the NUL */

struct remote_ref {
        const char *name;     /* "refs/heads/main", "refs/tags/v1" */
        char id[ID_SIZE];     /* a commit's, or an annotated tag's */
        char commit[ID_SIZE]; /* what an annotated tag leads to; else the same as `id` */
};

/* All borrowed for the repository's life. */
struct repository_args {
        const struct url *url;
        const char *user, *password; /* password: https; or NULL */
        const char *ssh_key_file;    /* or NULL */
        const struct proxy *proxy;   /* https; or NULL */
        const char *folder;          /* the bare repository */
        size_t pack_bytes;           /* that a fetch may receive at most */
};

struct commit_info {
        char tree[ID_SIZE];
        const char *subject, *author; /* UTF-8, without control characters */
        int64_t committed_ms;
};

/* The signed bytes, and the signature's armor. */
struct signed_text {
        const char *payload, *signature;
        size_t payload_length, signature_length;
};

struct tree_entry {
        const char *name; /* as it stands in the tree */
        size_t name_length;
        unsigned mode; /* raw: 040000, 100644, 120000, 160000 ... */
        char id[ID_SIZE];
};

struct repository;

/* `ca_file` may be NULL: the system's certificates. libssh2 finds known hosts in $HOME/.ssh, which is ours. */
int repository_begin(const char *ca_file, enum git_failure *ret_failure, struct error *err) MUST_USE;

int repository_open(const struct repository_args *args, struct repository **ret,
                    enum git_failure *ret_failure, struct error *err) MUST_USE;
void repository_closep(struct repository **place); /* leaves NULL; one that is NULL is nothing to close */
#define REPOSITORY_CLEANUP __attribute__((cleanup(repository_closep)))

/* In the arena: branches and tags, each with the commit that it leads to. Leaves the connection open for the fetch. */
int repository_list(struct repository *repository, struct arena *arena, struct remote_ref **ret,
                    size_t *ret_count, enum git_failure *ret_failure, struct error *err) MUST_USE;
/* GIT_OVER_LIMIT where more than pack_bytes would come. */
int repository_fetch(struct repository *repository, const struct remote_ref *ref,
                     enum git_failure *ret_failure, struct error *err) MUST_USE;
/* The annotated tags of a commit that are here, fetched before. */
int repository_tags_of(struct repository *repository, const char *commit, struct arena *arena,
                       struct remote_ref **ret, size_t *ret_count, enum git_failure *ret_failure,
                       struct error *err) MUST_USE;
uint64_t repository_received(const struct repository *repository); /* bytes of the last fetch */
bool repository_is_broken(const struct repository *repository);

bool repository_has(struct repository *repository, const char *id);
/* 1 where `commit` descends from `ancestor`, or is it; 0 where not, or where `ancestor` is not there at all. */
int repository_descends(struct repository *repository, const char *commit, const char *ancestor,
                        enum git_failure *ret_failure, struct error *err) MUST_USE;
/* The arena holds its texts. Of this one and those below: GIT_UNSAFE_TREE where the object is something else than asked for. */
int repository_commit(struct repository *repository, const char *id, struct arena *arena,
                      struct commit_info *ret, enum git_failure *ret_failure, struct error *err) MUST_USE;
/* 1 with the signature, 0 if unsigned. */
int repository_commit_signature(struct repository *repository, const char *id, struct arena *arena,
                                struct signed_text *ret, enum git_failure *ret_failure,
                                struct error *err) MUST_USE;
/*
 * 1 with an annotated tag's bytes; 0 if `id` is not a tag, or one that does not name `commit`
 * itself.
 */
int repository_tag(struct repository *repository, const char *id, const char *commit, struct arena *arena,
                   const char **ret, size_t *ret_length, enum git_failure *ret_failure,
                   struct error *err) MUST_USE;
/* In the tree's own order. */
int repository_tree(struct repository *repository, const char *id, struct arena *arena,
                    struct tree_entry **ret, size_t *ret_count, enum git_failure *ret_failure,
                    struct error *err) MUST_USE;
/* GIT_OVER_LIMIT, naming `path`, where the blob has more than `limit` bytes; it is not read then. */
int repository_blob(struct repository *repository, const char *id, const char *path, size_t limit,
                    struct arena *arena, const char **ret, size_t *ret_length, enum git_failure *ret_failure,
                    struct error *err) MUST_USE;

#endif
