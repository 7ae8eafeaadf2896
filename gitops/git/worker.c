/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker: one request, step by step, in a process of its own.
 *
 * Up to enter_cage() it reads only the controller's request and the files that this names. From then on it may be taken over
 * by what it reads, and everything that it could do has been decided: files, ports, memory, time. Then: list the refs, choose,
 * fetch what is missing, check history, check the signature, read the tree. What each step may not assume about the one before it
 * is said where it matters; that order is an invariant of this folder.
 */
#include "base/clock.h"
#include "base/files.h"
#include "gitops/git/choose_ref.h"
#include "gitops/git/folder.h"
#include "gitops/git/known_hosts.h"
#include "gitops/git/repository.h"
#include "gitops/git/ssh_offer.h"
#include "gitops/git/tree.h"
#include "gitops/git/unreadable.h"
#include "gitops/git/verify.h"
#include "gitops/git/wire.h"
#include "process/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define REQUEST_MAX ((size_t)4 * 1024 * 1024)
#define SECRET_MAX ((size_t)64 * 1024)
#define KNOWN_HOSTS_MAX ((size_t)4 * 1024 * 1024)
/*
 * With this many packs, or where they have grown beyond the limit, all is fetched again:
 * unreferenced objects go.
 */
#define PACKS_MAX 50U
/*
 * What libgit2 may allocate, beside the manifests: a pack of half a megabyte can ask for any amount. Half of what the unit in
 * examples/controller gives to the controller and all that it starts.
 */
#define MEMORY ((uint64_t)256 * 1024 * 1024)
#define FILES_OPEN 512
#define DNS_PORT 53

struct work {
        const struct git_request *request;
        struct arena *arena;
        struct url url;
        struct proxy proxy;                       /* url NULL: none */
        const char *tmp, *ours, *next, *previous; /* folders below request->folder */
        struct strbuf user, password;
        struct repository_args args;
        const struct version_pattern *pattern;
        int64_t deadline_ms;
        struct repository *repository;
        struct remote_ref ref; /* chosen */
        struct wire_answer *found;
        enum git_failure *ret_failure;
        struct judge judge;
        const char *weak; /* of the cage; or NULL */
};

static void begin_phase(enum git_phase phase) {
        char text[3] = { '+', (char)('0' + phase), '\n' };

        if (write(STDOUT_FILENO, text, sizeof(text)) < 0)
                _exit(1); /* the reader has gone */
}

/*
 * The soft limit. It is low while libgit2 reads packs, and is raised by the manifests' part when
 * these are read. If the cage set none, under sanitizers, there is nothing to lower.
 */
static void set_memory(rlim_t bytes) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_DATA, &limit) < 0 || limit.rlim_max == RLIM_INFINITY || bytes > limit.rlim_max)
                return;
        limit.rlim_cur = bytes;
        setrlimit(RLIMIT_DATA, &limit);
}

static uint16_t url_port(const struct url *url) {
        if (url->port)
                return (uint16_t)strtoul(url->port, NULL, 10);
        return url->scheme == URL_HTTPS ? 443 : url->scheme == URL_SSH ? 22 : 9418;
}

/* The worker may read files of this source that `user` may read, and reach one port: its server's, or its proxy's. */
static int enter_cage(struct work *work, uid_t user, struct error *err) {
        const struct git_request *request = work->request;
        const struct git_limits *limits = &request->limits;
        const char *here = work->url.scheme == URL_FILE ? work->url.path : NULL;
        const char *read[5] = { NULL }, *write[] = { request->folder, NULL }, *weak;
        const char *const wanted[] = { request->credentials.ssh_key_file,
                                       request->credentials.known_hosts_file, request->credentials.ca_file,
                                       here };
        const uint16_t ports[] = { work->proxy.url ? work->proxy.port : url_port(&work->url), DNS_PORT, 0 };
        const struct cage cage = {
                .calls = here ? CAGE_OFFLINE : CAGE_ONLINE,
                .read = read,
                .write = write,
                .ports = here ? NULL : ports,
                .data_bytes = MEMORY + 2 * limits->total_bytes, /* as files, and as the answer */
                .file_bytes = (uint64_t)limits->pack_bytes + MEMORY,
                .files_open = FILES_OPEN,
                .cpu_seconds = (unsigned)(limits->timeout_ms / 1000) + 5,
                .user = user,
        };

        for (size_t i = 0, count = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
                if (wanted[i])
                        read[count++] = wanted[i];
        }
        signal(SIGXFSZ, SIG_IGN);
        alarm((unsigned)(limits->timeout_ms / 1000) + 5);
        if (cage_enter(&cage, &weak, err) < 0)
                return -1;
        work->weak = weak;
        set_memory(MEMORY);
        return 0;
}

static int read_line_file(const char *path, struct strbuf *ret, struct error *err) {
        if (file_read(path, SECRET_MAX, ret, err) < 0)
                return -1;
        if (ret->length > 0 && ret->data[ret->length - 1] == '\n')
                ret->data[--ret->length] = '\0';
        if (ret->length > 0 && ret->data[ret->length - 1] == '\r')
                ret->data[--ret->length] = '\0';
        return strlen(strbuf_text(ret)) == ret->length ? 0 : error_set(err, "%s holds a NUL byte", path);
}

static int read_credentials(struct work *work, struct error *err) {
        const struct git_credentials *given = &work->request->credentials;

        *work->ret_failure = GIT_LOCAL;
        if (given->username_file && read_line_file(given->username_file, &work->user, err) < 0)
                return error_context(err, "credentials.usernameFile");
        if (given->password_file && (file_check_private(given->password_file, err) < 0 ||
                                     read_line_file(given->password_file, &work->password, err) < 0))
                return error_context(err, "credentials.passwordFile");
        if (given->ssh_key_file && access(given->ssh_key_file, R_OK) < 0)
                return error_set(err, "credentials.sshKeyFile: cannot open %s: %s", given->ssh_key_file,
                                 strerror(errno));
        if (given->ssh_key_file && file_check_private(given->ssh_key_file, err) < 0)
                return error_context(err, "credentials.sshKeyFile");
        if (given->ca_file && access(given->ca_file, R_OK) < 0)
                return error_set(err, "credentials.caFile: cannot open %s: %s", given->ca_file,
                                 strerror(errno));
        work->args.user = work->url.user          ? work->url.user
                          : work->user.length > 0 ? strbuf_text(&work->user)
                                                  : "git";
        work->args.password = given->password_file ? strbuf_text(&work->password) : NULL;
        work->args.ssh_key_file = given->ssh_key_file;
        return 0;
}

/*
 * libssh2 looks for known hosts below $HOME: there it finds those of this source; of one type of key, or of all where `type` is
 * NULL. 1 where the host has none of this type.
 */
static int prepare_known_hosts(const struct work *work, const char *type, struct error *err) {
        const char *file = work->request->credentials.known_hosts_file;
        const char *place = arena_printf(work->arena, "%s/.ssh", work->tmp);
        struct strbuf given STRBUF_CLEANUP = STRBUF_INIT, chosen STRBUF_CLEANUP = STRBUF_INIT;
        enum git_failure *ret_failure = work->ret_failure;

        *ret_failure = GIT_LOCAL;
        if (work->url.scheme != URL_SSH)
                return 0;
        if (!file)
                return FAIL(GIT_HOST_UNTRUSTED,
                            "ssh needs credentials.knownHostsFile, which says what key %s has",
                            work->url.host);
        if (file_read(file, KNOWN_HOSTS_MAX, &given, err) < 0)
                return error_context(err, "credentials.knownHostsFile");
        if (known_hosts_select(strbuf_text(&given), work->url.host, work->url.port, type, &chosen) == 0)
                return type ? 1
                            : FAIL(GIT_HOST_UNTRUSTED,
                                   "%s has no line in %s: a host that is not known is not trusted",
                                   work->url.host, file);
        if (folder_make(place, err) < 0)
                return -1;
        place = arena_printf(work->arena, "%s/known_hosts", place);
        return file_write_atomic(place, strbuf_text(&chosen), chosen.length, 0600, err);
}

/* Kept to the process's end. */
static int lock_repository(const struct work *work, struct error *err) {
        const char *path = arena_printf(work->arena, "%s/lock", work->request->folder);
        int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (descriptor < 0)
                return error_set(err, "cannot open %s: %s", path, strerror(errno));
        if (flock(descriptor, LOCK_EX | LOCK_NB) < 0)
                return error_set(err, "%s is in use by another process", work->request->folder);
        return 0;
}

static int prepare_folders(struct work *work, struct error *err) {
        const char *folder = work->request->folder;

        *work->ret_failure = GIT_LOCAL;
        work->tmp = arena_printf(work->arena, "%s/tmp", folder);
        work->ours = arena_printf(work->arena, "%s/repository.git", folder);
        work->next = arena_printf(work->arena, "%s/next.git", folder);
        work->previous = arena_printf(work->arena, "%s/previous.git", folder);
        if (folder_make(folder, err) < 0 || lock_repository(work, err) < 0 ||
            git_remove_folder(work->tmp, err) < 0 || git_remove_folder(work->next, err) < 0 ||
            folder_make(work->tmp, err) < 0)
                return -1;
        return setenv("HOME", work->tmp, 1) == 0 ? 0 : error_set(err, "cannot set HOME");
}

static int check_request(struct work *work, struct error *err) {
        const struct git_request *request = work->request;
        const char *path;

        *work->ret_failure = GIT_LOCAL;
        if (url_parse(request->url, work->arena, &work->url, err) < 0)
                return -1;
        if (request->proxy && proxy_parse(request->proxy, work->arena, &work->proxy, err) < 0)
                return -1;
        work->args.proxy = work->proxy.url ? &work->proxy : NULL;
        if (!request->branch == !request->tag)
                return error_set(err, "a source follows a branch or tags: name one of the two");
        if (request->branch && !choose_is_branch_name(request->branch))
                return error_set(err, "\"%s\" is no name of a branch", request->branch);
        if (request->tag && version_pattern_parse(request->tag, work->arena, &work->pattern, err) < 0)
                return -1;
        if (request->have && !wire_is_id(request->have))
                return error_set(err, "\"%s\" is no commit", request->have);
        if (request->commit && !wire_is_id(request->commit))
                return error_set(err, "\"%s\" is no commit", request->commit);
        if (request->accepted_rewrite && !wire_is_id(request->accepted_rewrite))
                return error_set(err, "\"%s\" is no commit", request->accepted_rewrite);
        return tree_path_normalise(request->path, work->arena, &path, err);
}

static int open_repository(struct work *work, const char *folder, uint64_t bytes, struct error *err) {
        size_t limit = work->request->limits.pack_bytes;

        repository_closep(&work->repository);
        work->args.url = &work->url;
        work->args.folder = folder;
        work->args.pack_bytes = bytes < limit ? limit - (size_t)bytes : 0;
        return repository_open(&work->args, &work->repository, work->ret_failure, err);
}

static int choose_ref(struct work *work, const struct remote_ref *refs, size_t count, struct error *err) {
        const struct git_request *request = work->request;

        return request->branch ? choose_branch(request->branch, refs, count, work->arena, &work->ref,
                                               work->ret_failure, err)
                               : choose_tag(work->pattern, request->tag, refs, count, &work->ref,
                                            work->ret_failure, err);
}

static bool no_common_keys(const struct work *work, const struct error *why) {
        return work->url.scheme == URL_SSH && strstr(why->message, "Unable to exchange encryption keys");
}

/*
 * The server's refs. Of the types of key that known_hosts has for a host, libgit2 before 1.7 asks for one alone, and the server may
 * have another: then each type is tried, as OpenSSH would offer them all. The key itself is judged as ever.
 */
static int list_refs(struct work *work, struct remote_ref **ret, size_t *ret_count, struct error *err) {
        static const char *const types[] = { "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
                                             "ecdsa-sha2-nistp521", "ssh-rsa" };
        struct error why = { 0 };
        int result = repository_list(work->repository, work->arena, ret, ret_count, work->ret_failure, &why);

        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && result < 0 && no_common_keys(work, &why);
             i++) {
                int prepared = prepare_known_hosts(work, types[i], err);

                if (prepared < 0)
                        return -1;
                if (prepared > 0)
                        continue;
                repository_closep(&work->repository);
                if (repository_open(&work->args, &work->repository, work->ret_failure, err) < 0)
                        return -1;
                why = (struct error){ 0 };
                result = repository_list(work->repository, work->arena, ret, ret_count, work->ret_failure,
                                         &why);
        }
        if (result < 0)
                *err = why;
        return result < 0 && no_common_keys(work, &why)
                       ? ssh_offer_explain(&work->url, work->arena, work->ret_failure, err)
                       : result;
}

static int list_and_choose(struct work *work, struct error *err) {
        struct git_answer *answer = &work->found->answer;
        struct remote_ref *refs;
        size_t count;

        begin_phase(PHASE_ASKING);
        if (list_refs(work, &refs, &count, err) < 0)
                return -1;
        if (choose_ref(work, refs, count, err) < 0)
                return work->url.scheme == URL_FILE ? unreadable_add_reason(work->url.path, err) : -1;
        answer->commit = work->ref.commit;
        answer->ref = work->ref.name;
        answer->moved = !work->request->have || strcmp(work->request->have, work->ref.commit) != 0;
        return 0;
}

static bool is_here(const struct work *work) {
        return repository_has(work->repository, work->ref.id) &&
               repository_has(work->repository, work->ref.commit);
}

static int fetch_missing(struct work *work, struct error *err) {
        struct git_answer *answer = &work->found->answer;
        int result;

        if (is_here(work)) {
                answer->fetched |= work->url.scheme == URL_FILE && answer->moved;
                return 0;
        }
        begin_phase(PHASE_FETCHING);
        answer->fetched = true;
        result = repository_fetch(work->repository, &work->ref, work->ret_failure, err);
        answer->bytes_received += repository_received(work->repository);
        return result;
}

/*
 * All of it once more, beside what is there, and in its place once it is whole. The old content is
 * kept until the next time: a commit that is in force may be in it alone, if history was rewritten
 * since.
 */
static int fetch_anew(struct work *work, struct error *err) {
        enum git_failure *ret_failure = work->ret_failure;

        if (open_repository(work, work->next, 0, err) < 0 || list_and_choose(work, err) < 0 ||
            fetch_missing(work, err) < 0)
                return -1;
        repository_closep(&work->repository);
        *ret_failure = GIT_LOCAL;
        if (git_remove_folder(work->previous, err) < 0)
                return -1;
        /* Neither is synced: what a power failure takes is fetched again, as all of this folder is where it is lost. */
        if (rename(work->ours, work->previous) < 0 || rename(work->next, work->ours) < 0)
                return error_set(err, "cannot rename %s: %s", work->next, strerror(errno));
        return open_repository(work, work->ours, 0, err);
}

/* The chosen commit's objects, from the server where they are not here. */
static int fetch_chosen(struct work *work, struct error *err) {
        size_t packs, limit = work->request->limits.pack_bytes;
        uint64_t bytes;
        int result;

        folder_tidy_packs(work->ours, &packs, &bytes);
        if (open_repository(work, work->ours, bytes, err) < 0 || list_and_choose(work, err) < 0)
                return -1;
        if (!work->found->answer.moved && !work->request->read_anyway && !work->request->commit)
                return 0;
        if (!is_here(work) && work->url.scheme != URL_FILE && (packs >= PACKS_MAX || bytes >= limit))
                return fetch_anew(work, err);
        result = fetch_missing(work, err);
        if (result < 0 && *work->ret_failure == GIT_OVER_LIMIT && bytes > 0) {
                *err = (struct error){ 0 };
                return fetch_anew(work, err);
        }
        return result;
}

#define OR_ACCEPT "let this commit in by berth controller approve, or set fastForwardOnly: false"

static int check_descent(struct work *work, struct error *err) {
        const struct git_request *request = work->request;
        const struct git_answer *answer = &work->found->answer;
        enum git_failure *ret_failure = work->ret_failure;
        bool same_ref = request->have_ref && strcmp(request->have_ref, answer->ref) == 0;
        int descends;

        if (!request->fast_forward_only || !request->have || !answer->moved)
                return 0;
        if (request->accepted_rewrite && strcmp(request->accepted_rewrite, answer->commit) == 0)
                return 0;
        if (request->tag && same_ref)
                return FAIL(
                        GIT_REWRITTEN,
                        "%s was moved from commit %s to %s: a tag that moves is not followed: put it back, "
                        "make a new one, " OR_ACCEPT,
                        answer->ref, request->have, answer->commit);
        /* A release need not descend from the one before: it may have been made on a branch of its own. */
        if (request->tag && choose_is_higher_tag(answer->ref, request->have_ref))
                return 0;
        descends = repository_descends(work->repository, answer->commit, request->have, ret_failure, err);
        if (descends != 0)
                return descends < 0 ? -1 : 0;
        if (request->tag)
                return FAIL(
                        GIT_REWRITTEN,
                        "the highest tag is %s now, and was %s: commit %s does not descend from %s, accepted "
                        "before: put that tag back, make a higher one, " OR_ACCEPT,
                        answer->ref, request->have_ref ? request->have_ref : "another", answer->commit,
                        request->have);
        return FAIL(GIT_REWRITTEN,
                    "history of %s was rewritten: commit %s does not descend from %s, accepted before: put "
                    "that one back, " OR_ACCEPT,
                    answer->ref, answer->commit, request->have);
}

static int verify_ref(struct work *work, const struct remote_ref *ref, struct error *err) {
        return verify_commit(&work->judge, work->repository, ref, work->arena, &work->found->answer.signer,
                             work->ret_failure, err);
}

/* A commit that was named may be vouched for by any tag of it that is here. */
static int verify_named(struct work *work, struct error *err) {
        struct remote_ref *tags;
        size_t count;

        if (repository_tags_of(work->repository, work->ref.commit, work->arena, &tags, &count,
                               work->ret_failure, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                struct error ignored = { 0 };

                if (verify_ref(work, &tags[i], &ignored) == 0)
                        return 0;
        }
        return verify_ref(work, &work->ref, err);
}

static int check_signature(struct work *work, struct error *err) {
        const struct git_request *request = work->request;

        if (request->gpg_key_count == 0 && !request->ssh_allowed_signers)
                return 0;
        begin_phase(PHASE_VERIFYING);
        return request->commit && request->tag ? verify_named(work, err) : verify_ref(work, &work->ref, err);
}

static int read_manifests(struct work *work, const char *tree, struct error *err) {
        const char *path;

        begin_phase(PHASE_READING);
        set_memory(MEMORY + 2 * (rlim_t)work->request->limits.total_bytes);
        if (tree_path_normalise(work->request->path, work->arena, &path, err) < 0)
                return -1;
        if ((work->request->pattern && path ? tree_read_matching : tree_read)(
                    work->repository, tree, path, &work->request->limits, work->arena, &work->found->files,
                    &work->found->file_count, work->ret_failure, err) < 0)
                return error_context(err, "commit %s", work->ref.commit);
        return 0;
}

/* Looks for a commit by its id: here, in the repository of before, and last on the server, with what the source follows. */
static int find_commit(struct work *work, struct error *err) {
        const char *commit = work->request->commit;
        enum git_failure *ret_failure = work->ret_failure;
        struct error why = { 0 };

        if (open_repository(work, work->ours, 0, err) < 0)
                return -1;
        if (!repository_has(work->repository, commit) && access(work->previous, F_OK) == 0 &&
            open_repository(work, work->previous, 0, err) < 0)
                return -1;
        if (!repository_has(work->repository, commit) && fetch_chosen(work, &why) < 0)
                return FAIL(GIT_NOT_FOUND, "commit %s is not in %s any more, and cannot be fetched: %s",
                            commit, work->request->folder, why.message);
        if (!repository_has(work->repository, commit))
                return FAIL(GIT_NOT_FOUND, "commit %s is not in the repository any more", commit);
        memcpy(work->ref.id, commit, ID_SIZE);
        memcpy(work->ref.commit, commit, ID_SIZE);
        work->found->answer.commit = work->ref.commit;
        work->found->answer.ref = NULL;
        work->found->answer.moved = !work->request->have || strcmp(work->request->have, commit) != 0;
        return 0;
}

/* History and signature come before anything of the tree is looked at. */
static int try_request(struct work *work, struct error *err) {
        struct git_answer *answer = &work->found->answer;
        bool named = work->request->commit != NULL, wanted;
        struct commit_info info;

        if ((named ? find_commit : fetch_chosen)(work, err) < 0)
                return -1;
        wanted = answer->moved || work->request->read_anyway || named;
        if (!wanted && !is_here(work))
                return 0;
        if (repository_commit(work->repository, work->ref.commit, work->arena, &info, work->ret_failure,
                              err) < 0)
                return -1;
        answer->subject = info.subject;
        answer->author = info.author;
        answer->committed_ms = info.committed_ms;
        if (!wanted)
                return 0;
        if ((!named && check_descent(work, err) < 0) || check_signature(work, err) < 0)
                return -1;
        return read_manifests(work, info.tree, err);
}

/* A repository of ours that is damaged, by whatever, is thrown away once; what was in it can be fetched. */
static int try_with_fresh_repository(struct work *work, struct error *err) {
        int result = try_request(work, err);

        /* Once for each of the two that there may be. */
        for (int i = 0; i < 2 && result < 0 && work->repository && repository_is_broken(work->repository);
             i++) {
                repository_closep(&work->repository);
                *work->ret_failure = GIT_LOCAL;
                *err = (struct error){ 0 };
                if (git_remove_folder(work->args.folder, err) < 0)
                        return -1;
                work->found->answer.fetched = false;
                result = try_request(work, err);
        }
        return result;
}

static void add_warnings(struct work *work) {
        struct git_answer *answer = &work->found->answer;
        const char **warnings = arena_array(work->arena, 2, sizeof(*warnings));
        bool verified = work->request->gpg_key_count > 0 || work->request->ssh_allowed_signers;

        answer->warnings = warnings;
        warnings[0] = git_url_warning(work->request->url, verified);
        answer->warning_count = warnings[0] != NULL;
        if (work->weak)
                warnings[answer->warning_count++] = work->weak;
}

/* Beside the source's own folder, where the worker does not come. */
static int start_judge(struct work *work, struct error *err) {
        const struct git_request *request = work->request;
        const struct judge_args args = {
                .gpg_keys = request->gpg_keys,
                .gpg_key_count = request->gpg_key_count,
                .ssh_allowed_signers = request->ssh_allowed_signers,
                .folder = arena_printf(work->arena, "%s.judge", request->folder),
                .deadline_ms = work->deadline_ms,
        };

        if (request->gpg_key_count == 0 && !request->ssh_allowed_signers)
                return 0;
        *work->ret_failure = GIT_LOCAL;
        return judge_start(&args, &work->judge, err);
}

static int carry_out_request(struct work *work, struct error *err) {
        const struct git_credentials *credentials = &work->request->credentials;

        uid_t user;

        /* Up to the cage only the controller's words are read, and files that it names. */
        if (check_request(work, err) < 0 || cage_user_of(work->request->folder, &user, err) < 0 ||
            read_credentials(work, err) < 0 || start_judge(work, err) < 0 || enter_cage(work, user, err) < 0)
                return -1;
        add_warnings(work);
        if (prepare_folders(work, err) < 0 || prepare_known_hosts(work, NULL, err) < 0)
                return -1;
        if (repository_begin(work->url.scheme == URL_HTTPS ? credentials->ca_file : NULL, work->ret_failure,
                             err) < 0)
                return -1;
        return try_with_fresh_repository(work, err);
}

static void answer_one_request(const struct git_request *request, struct arena *arena,
                               struct strbuf *output) {
        struct wire_answer found = { .failure = GIT_LOCAL };
        struct error err = { 0 }, ignored = { 0 };
        struct work work = {
                .request = request,
                .arena = arena,
                .found = &found,
                .ret_failure = &found.failure,
                .deadline_ms = clock_now_ms() + request->limits.timeout_ms,
                .judge = JUDGE_NONE,
                .password = STRBUF_SECRET,
        };

        if (carry_out_request(&work, &err) < 0) {
                found.failed = true;
                found.message = err.message;
                found.files = NULL;
                found.file_count = 0;
        }
        repository_closep(&work.repository);
        judge_end(&work.judge);
        /* What stays the next run removes. */
        if (work.tmp && git_remove_folder(work.tmp, &ignored) == 0)
                (void)!git_remove_folder(work.next, &ignored);
        strbuf_release(&work.password);
        strbuf_release(&work.user);
        wire_write_answer(&found, output);
}

static int answer_request(struct arena *arena, struct strbuf *output, struct error *err) {
        struct strbuf input STRBUF_CLEANUP = STRBUF_INIT;
        struct git_request request;

        if (file_read("/dev/stdin", REQUEST_MAX, &input, err) < 0 ||
            wire_read_request(strbuf_text(&input), input.length, arena, &request, err) < 0)
                return -1;
        answer_one_request(&request, arena, output);
        return 0;
}

int git_worker_main(void) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct strbuf output STRBUF_CLEANUP = STRBUF_INIT;
        struct error err = { 0 };
        pid_t parent = getppid();

        /* Dies with the controller. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (getppid() != parent)
                return 1;
        signal(SIGPIPE, SIG_IGN);
        umask(0077);
        begin_phase(PHASE_STARTING);
        if (answer_request(arena, &output, &err) < 0) {
                const struct wire_answer failed = { .failed = true,
                                                    .failure = GIT_LOCAL,
                                                    .message = err.message };

                wire_write_answer(&failed, &output);
        }
        return descriptor_write(STDOUT_FILENO, output.data, output.length) < 0;
}
