/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes between git_check() and its worker, by pipes.
 *
 *     request   LENGTH "\n" JSON
 *     answer    { "+" PHASE "\n" }  LENGTH "\n" JSON  the files' bytes, one after the other
 *
 * LENGTH is decimal and counts the JSON's bytes; PHASE a digit of enum git_phase, as each begins. The worker reads what
 * strangers wrote, so the answer is believed in nothing: sizes, paths and their order, names and limits are all checked.
 */
#ifndef BERTH_GITOPS_GIT_WIRE_H
#define BERTH_GITOPS_GIT_WIRE_H

#include "gitops/git/git_parts.h"
#include "gitops/git/tree.h"

/* What the worker has to say; its texts live in an arena. */
struct wire_answer {
        struct git_answer answer; /* without its files */
        struct tree_file *files;
        size_t file_count;
        bool failed;
        enum git_failure failure;
        const char *message; /* of a failure */
};

void wire_write_request(const struct git_request *request, struct strbuf *ret);
/* All of it in the arena. Defaults of limits are filled in. */
int wire_read_request(const char *data, size_t length, struct arena *arena, struct git_request *ret,
                      struct error *err) MUST_USE;

void wire_write_answer(const struct wire_answer *answer, struct strbuf *ret);
/*
 * *ret_phase is the last one heard of, also where -1 is returned: there is no whole answer then. The answer's files are
 * named "REPOSITORY@COMMIT:PATH" and lie in ret->answer.
 */
int wire_read_answer(const char *data, size_t length, const struct git_request *request, struct arena *arena,
                     struct wire_answer *ret, enum git_phase *ret_phase, struct error *err) MUST_USE;

/* The request's limits, with the default where one is 0. */
struct git_limits wire_limits(const struct git_limits *limits);

bool wire_is_id(const char *text); /* 40 hex digits, lower case */

#endif
