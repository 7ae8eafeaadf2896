/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `berth session` share: the server, the session that is named, one execution followed to its end. */
#ifndef BERTH_CLI_SESSIONS_H
#define BERTH_CLI_SESSIONS_H

#include "cli/options.h"
#include "cli/session.h"
#include "client/client.h"

#include <jansson.h>

struct sessions {
        const struct options *options;
        struct session session; /* for the state's folder and the arena */
        struct client *client;
        const char *folder; /* the state's */
        const char *where;  /* " -f agents": what printed commands need to reach the same server */
};

/* Ends with sessions_close(), also after a failure. */
int sessions_open(struct sessions *ret, const struct options *options, struct error *err) MUST_USE;
void sessions_close(struct sessions *sessions);
#define SESSIONS_CLEANUP __attribute__((cleanup(sessions_close)))

/* The part of sessions_open() that looks for the server, where that one found none: ERROR_NOT_FOUND again. */
int sessions_connect(struct sessions *sessions, struct error *err) MUST_USE;

/* "GET" and the like of a path, without a body or with one, which is taken over; as client_ask(). */
int sessions_ask(struct sessions *sessions, const char *method, const char *path, json_t *body, json_t **ret,
                 struct error *err) MUST_USE;
/* All pages of a list, put together; the path has no query but `query`, which begins with "?" or is empty. */
int sessions_list(struct sessions *sessions, const char *path, const char *query, json_t **ret,
                  struct error *err) MUST_USE;

/* Appends "?name=value", or "&name=value" behind others; nothing where the value is NULL. */
void sessions_append_filter(struct strbuf *query, const char *name, const char *value);

/* -1 where the text has not the form of a session's id. */
int sessions_check_id(const char *text, struct error *err) MUST_USE;

/*
 * Makes a session as the options say: --env or --agent, else in the only environment there is; or gives the one that the conversation
 * has. *ret_made: it was not there before.
 */
int sessions_create(struct sessions *sessions, json_t **ret, bool *ret_made, struct error *err) MUST_USE;

/*
 * After a refusal of what names --env or --agent. Where one of them is not there and near to one that is, as this client sees them, that is
 * said instead; else the error stays.
 */
void sessions_suggest(struct sessions *sessions, struct error *err);

/* {"A": "1"} of NAME=VALUE; NULL if count is 0. */
json_t *sessions_pairs(const char *const *pairs, size_t count);

/* --- executions --- */

struct sessions_code {
        const char *code;
        size_t length;
        const char *language;
        bool with_variables; /* those of the options */
        bool with_input;     /* sessions_input() */
};

/* Adds this program's standard input as `stdin`, all of it, where that is a pipe or a file. */
int sessions_input(json_t *body, struct error *err) MUST_USE;
/* Python's source as UTF-8, where its first lines name another encoding. */
int sessions_decode(struct strbuf *code, struct error *err) MUST_USE;

/* Puts the code into the session's line; *ret is its number. */
int sessions_begin(struct sessions *sessions, const char *id, const struct sessions_code *code,
                   json_int_t *ret, struct error *err) MUST_USE;

/*
 * Follows an execution from its first event to its end, and prints what it says; with --json its
 * result alone. Level 1 of `interrupt` interrupts the execution if `interrupts` is set; level 2
 * stops following. Returns the exit code (docs/sessions.md), or -1 if the end was not seen.
 */
int sessions_follow(struct sessions *sessions, const char *id, json_int_t n, struct interrupt *interrupt,
                    bool interrupts, struct error *err) MUST_USE;

/* berth session run: the exit code, whatever happens. */
int sessions_run(const struct options *options, const char *const *operands, size_t count);
/* At a prompt, until the input ends: the exit code, or -1. */
int sessions_prompt(struct sessions *sessions, const char *id, struct error *err) MUST_USE;
/* berth session files: what comes behind that. */
int sessions_files(struct sessions *sessions, const char *const *operands, size_t count,
                   struct error *err) MUST_USE;

#endif
