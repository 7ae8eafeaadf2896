/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Git repository as a source of manifests: what it holds now, vouched for, as bytes in memory.
 *
 * git_check() asks the server once (an ls-remote); only where its answer differs from `have` does it fetch, check that
 * history was not rewritten, let gpgv or ssh-keygen judge the commit's signature, and only then read the manifests from the
 * commit's tree: never from a work tree, so that no hook, filter, submodule or link is ever followed.
 *
 * All of it happens in a process of its own (this same program as `berth git-worker`, not in the help): what a
 * hostile repository or server does to libgit2 stays there, under resource limits and a deadline, and its memory is
 * returned with it. Any thread may call git_check(), each for its own folder.
 */
#ifndef BERTH_GITOPS_GIT_GIT_H
#define BERTH_GITOPS_GIT_GIT_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct git_credentials {
        /* Paths; each may be NULL. Read at each use, in the worker; one line end at the end of a file is dropped. */
        const char *username_file, *password_file; /* https: a password or a token */
        const char *ssh_key_file;                  /* private key, unencrypted */
        const char *known_hosts_file;              /* required for ssh: a host that is not in it is refused */
        const char *ca_file; /* PEM: trusted for this source alone, instead of the system's */
};

struct git_limits {
        size_t entries;     /* of the whole tree below `path`; default 50,000 */
        size_t blob_bytes;  /* of one manifest; default 16 MiB */
        size_t total_bytes; /* of all manifests; default 64 MiB */
        size_t depth;       /* of folders; default 32 */
        size_t pack_bytes;  /* of the repository on disk; default 2 GiB */
        int64_t timeout_ms; /* of one git_check(); default 120 s */
};
extern const struct git_limits git_limits_default;

struct git_request {
        const char *url;    /* https://, ssh://, user@host:path, git://, file:// or an absolute path */
        const char *branch; /* one of these two */
        const char *
                tag; /* a semantic-version pattern: "1.x", "v1.2.*", ">=1.2 <2", "*": the highest that matches */
        /* As proxy_for() gives it; it may hold a password. NULL: none. git_check() sets it, whatever stands here. */
        const char *proxy;
        const char *path; /* folder of manifests within the repository, relative; NULL or "" for its root */
        /*
         * `path` names many folders: each part of it may have * and ?, which a slash and a leading dot end. The manifests of all
         * that match are read; none at all is fine.
         */
        bool pattern;
        struct git_credentials credentials;
        const char *const *gpg_keys; /* files of OpenPGP public keys, armored or not */
        size_t gpg_key_count;
        const char *
                ssh_allowed_signers; /* file in ssh-keygen's ALLOWED SIGNERS format; with gpg_keys: either will do */
        /*
         * Refuse a commit that does not descend from `have`, GIT_REWRITTEN. Of tags: one that was moved, and a version that is no
         * higher than that of `have_ref` where its commit does not descend either.
         */
        bool fast_forward_only;
        const char
                *accepted_rewrite; /* the one commit (40 hex digits) to which that does not apply, or NULL */
        const char *folder; /* for the bare repository; made where absent, belongs to this source alone */
        const char *have;   /* the commit accepted last, 40 hex digits; NULL: none */
        const char *
                have_ref; /* git_answer.ref that came with it, or NULL: a tag that moved is known by its name */
        bool read_anyway; /* give the files also where the commit is still `have` */
        /*
         * Not NULL: read this very commit (40 hex digits, accepted before) from the repository in `folder`, without asking the
         * server: its files, its verdict, everything else of the answer. ref NULL, fetched false, moved as ever.
         */
        const char *commit;
        struct git_limits limits;          /* 0 in any of them: the default */
        const struct interrupt *interrupt; /* ends it early; NULL: nothing does */
};

struct git_file {
        const char *name; /* as messages show it: "REPOSITORY@COMMIT:PATH", commit cut to 12 digits */
        const char *path; /* within the repository */
        const char *bytes;
        size_t length;
};

struct git_answer {
        bool moved;                   /* the commit is not `have` */
        const char *commit;           /* 40 hex digits */
        const char *ref;              /* "refs/heads/main", "refs/tags/v1.4.0" */
        const char *subject, *author; /* first line; "Name <address>" */
        int64_t committed_ms;
        const char *signer;     /* who the judge says signed it; NULL where no verification was asked for */
        struct git_file *files; /* in byte order of their paths; only where moved or read_anyway */
        size_t file_count;
        const char *const *warnings; /* "git:// ... not authenticated" */
        size_t warning_count;
        uint64_t bytes_received;
        bool fetched; /* more than an ls-remote was needed */
};

/* Why not: the reasons of conditions, as users see them. */
enum git_failure {
        GIT_UNREACHABLE,    /* "Unreachable": no connection, time out; worth trying again */
        GIT_AUTHENTICATION, /* "AuthenticationFailed" */
        GIT_HOST_UNTRUSTED, /* "HostUntrusted": TLS certificate, ssh host key */
        GIT_NOT_FOUND,      /* "NotFound": repository, branch, tag, path */
        GIT_REWRITTEN,      /* "HistoryRewritten" */
        GIT_UNVERIFIED,     /* "VerificationFailed": unsigned, signed by another key, judge missing */
        GIT_UNSAFE_TREE,    /* "UnsafeTree": "..", absolute names, links, twins by case, .git, submodules */
        GIT_OVER_LIMIT,     /* "OverLimit" */
        GIT_LOCAL           /* "SourceFailed": the folder cannot be written, credentials cannot be read ... */
};
const char *git_failure_reason(enum git_failure failure);

/*
 * 0 with *ret (all of it in the arena), or -1 with *ret_failure and an error that names the commit where one was seen. After
 * GIT_REWRITTEN, GIT_UNVERIFIED, GIT_UNSAFE_TREE and GIT_OVER_LIMIT ret->commit is the commit refused. No secret is in any message.
 * The interrupt ends it early: GIT_UNREACHABLE with ERROR_INTERRUPTED. A `commit` that the folder does not have
 * (any more) is GIT_NOT_FOUND.
 */
int git_check(const struct git_request *request, struct arena *arena, struct git_answer *ret,
              enum git_failure *ret_failure, struct error *err) MUST_USE;

/*
 * Whether git_check() could use them at all, without a connection: for the Controller's manifest.
 * The error says what is wrong; `url` with a password in it is refused, and not repeated in the
 * message.
 */
int git_url_check(const char *url, struct error *err) MUST_USE;
int git_tag_check(const char *pattern, struct error *err) MUST_USE;
/*
 * A warning about such a URL, as in git_answer.warnings; NULL: nothing. `verified`: commits'
 * signatures are judged.
 */
const char *git_url_warning(const char *url, bool verified);

/* The worker: a request on standard input, the answer on standard output. Returns the process's exit code. */
int git_worker_main(void);
/* The judge of signatures that a worker starts: over its standard input and output, see judge.h. */
int git_judge_main(void);

/* "git@host:team/agents.git" and "https://u:p@host/team/agents.git" as "host/team/agents": for people, no secrets. */
const char *git_display_name(const char *url, struct arena *arena);

#endif
