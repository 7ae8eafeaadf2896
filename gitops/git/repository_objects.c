/* SPDX-License-Identifier: Apache-2.0 */
/* Content of an open repository: history, commits, tags, trees, files. Without a network. */
#include "gitops/git/libgit2.h"

#include <string.h>

/*
 * An object that is not what it should be. If its bytes fit its name (the hash), the repository is
 * not damaged: its author, or a tool, made the object this way. If not, the repository is fetched
 * again.
 */
static int fail_object(struct repository *repository, const char *what, const char *id, const git_oid *oid,
                       enum git_failure *ret_failure, struct error *err) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *words = repository_last_words(repository, arena);
        git_odb_object *object;

        if (sym_git_odb_read(&object, repository->objects, oid) < 0)
                return repository_fail_broken(repository, what, id, ret_failure, err);
        sym_git_odb_object_free(object);
        return FAIL(GIT_UNSAFE_TREE, "%s %s is malformed, or something else: %s", what, id, words);
}

static bool is_tag_here(const char *name) {
        return strncmp(name, FETCHED_TAGS, strlen(FETCHED_TAGS)) == 0 || strncmp(name, "refs/tags/", 10) == 0;
}

int repository_tags_of(struct repository *repository, const char *commit, struct arena *arena,
                       struct remote_ref **ret, size_t *ret_count, enum git_failure *ret_failure,
                       struct error *err) {
        struct remote_ref *refs;
        size_t count, kept = 0;

        if (repository_list_here(repository, is_tag_here, arena, &refs, &count, ret_failure, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                if (strcmp(refs[i].commit, commit) == 0 && strcmp(refs[i].id, commit) != 0)
                        refs[kept++] = refs[i];
        }
        *ret = refs;
        *ret_count = kept;
        return 0;
}

bool repository_has(struct repository *repository, const char *id) {
        git_oid oid;

        return sym_git_oid_fromstr(&oid, id) == 0 && sym_git_odb_exists(repository->objects, &oid) == 1;
}

/* A shallow repository's history ends where it was cut: whether a commit descends from another cannot be known. */
static int fail_shallow(const struct repository *repository, const char *commit, const char *ancestor,
                        enum git_failure *ret_failure, struct error *err) {
        const struct url *url = repository->args->url;

        return FAIL(GIT_LOCAL,
                    "shallow: the history between commit %s and %s is not in %s: run git fetch --unshallow "
                    "there, or set fastForwardOnly: false",
                    commit, ancestor, url->host ? url->host : url->path);
}

int repository_descends(struct repository *repository, const char *commit, const char *ancestor,
                        enum git_failure *ret_failure, struct error *err) {
        git_oid child, parent;
        int result;

        if (strcmp(commit, ancestor) == 0)
                return 1;
        sym_git_oid_fromstr(&child, commit);
        sym_git_oid_fromstr(&parent, ancestor);
        result = repository_has(repository, ancestor)
                         ? sym_git_graph_descendant_of(repository->body, &child, &parent)
                         : 0;
        if (result <= 0 && sym_git_repository_is_shallow(repository->body) == 1)
                return fail_shallow(repository, commit, ancestor, ret_failure, err);
        return result < 0 ? repository_fail_broken(repository, "the history of", commit, ret_failure, err)
                          : result;
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

static int fail_size(const char *path, size_t size, size_t limit, enum git_failure *ret_failure,
                     struct error *err) {
        return FAIL(GIT_OVER_LIMIT, "%s has %zu bytes, and a manifest may have %zu", path, size, limit);
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
                return fail_size(path, size, limit, ret_failure, err);
        if (sym_git_blob_lookup(&blob, repository->body, &oid) < 0)
                return fail_object(repository, "file", path, &oid, ret_failure, err);
        size = (size_t)sym_git_blob_rawsize(blob);
        if (size > limit) {
                sym_git_blob_free(blob);
                return fail_size(path, size, limit, ret_failure, err);
        }
        *ret = arena_strndup(arena, sym_git_blob_rawcontent(blob), size);
        *ret_length = size;
        sym_git_blob_free(blob);
        return 0;
}
