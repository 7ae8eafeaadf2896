/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools that a model is given, as a table: what it reads of each, what each takes, what it answers. What is listed, what is
 * checked and what is called come from it. Arguments have the names that they have over HTTP.
 */
#ifndef BERTH_BROKER_MCP_TOOLS_H
#define BERTH_BROKER_MCP_TOOLS_H

#include "broker/call.h"
#include "sessions/problem.h"

#include <jansson.h>

/* What a tool is called with, for one request. */
struct mcp_call {
        struct server_request *request;
        const struct call *call;
        struct engine_caller caller; /* an owner, and nobody else's rights */
};

/* What it answers: the same twice, as data and as text, and what is shown beside it. */
struct mcp_answer {
        json_t *data;    /* fits the tool's schema */
        json_t *content; /* a list of images; NULL: there are none */
        bool failed;
};

struct mcp_argument {
        const char *name;
        json_type type;
        bool required;
        const char *doc;
        const char *const *values; /* of a text: one of them, ended by NULL; or NULL */
        json_int_t least, most;    /* of an integer; both 0: any */
        const char *schema;        /* in place of the type; or NULL */
};

struct mcp_tool {
        const char *name, *title, *doc;
        const struct mcp_argument *arguments; /* ended by a NULL name */
        const char *output;                   /* a JSON Schema, as text */
        bool only_reads, destroys, repeats;   /* hints for who asks people before calling it */
        /* NULL: run_code, which is followed (mcp_run.h). */
        int (*answer)(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                      struct problem *problem);
};

/* NULL where there is none of that name. */
const struct mcp_tool *mcp_tool_find(const char *name);

/* PROBLEM_INVALID where the arguments are not those of the table. NULL is an empty object. */
int mcp_tool_check(const struct mcp_tool *tool, const json_t *arguments, struct problem *problem);

/* All of them, as tools/list has them. `environments`: the names that the caller may choose, for the model to know. */
json_t *mcp_tools_json(const char *environments);

/* A result of tools/call. The answer's references are given away. */
json_t *mcp_tool_result(struct mcp_answer *answer);
/* The same of a tool that could not do it. */
json_t *mcp_tool_problem(const struct problem *problem);

#endif
