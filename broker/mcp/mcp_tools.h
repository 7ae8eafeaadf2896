/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools that a model is given, as a table: what it reads of each, what each takes, what it
 * answers. Listing, checking and calling all use this table. Arguments have the names that they
 * have over HTTP.
 */
#ifndef BERTH_BROKER_MCP_MCP_TOOLS_H
#define BERTH_BROKER_MCP_MCP_TOOLS_H

#include "broker/mcp/mcp_message.h"
#include "broker/request/call.h"
#include "schema/kind.h"
#include "sessions/problem.h"

#include <jansson.h>

/* What a tool is called with, for one request. */
struct mcp_call {
        struct server_request *request;
        const struct call *call;
        struct engine_caller caller; /* an owner, with its own rights only */
        const struct mcp_message *message;
        const char *conversation; /* of the header Berth-Conversation, or NULL */
        const char *note;         /* what mcp_tool_check() has changed, for the model; "": nothing */
};

/*
 * A tool's answer: all of it as data, the part that a model needs as text, and content that is
 * shown beside it.
 */
struct mcp_answer {
        json_t *data;    /* fits the tool's schema */
        json_t *text;    /* NULL: the data's JSON */
        json_t *content; /* a list of images; NULL: none */
        bool failed;
        bool for_eyes; /* in the text, what would hide or turn it around is escaped: people read it before they decide */
        /*
         * While a person must decide: what the client should show, {key: request}, before it calls
         * the same tool with the same arguments again, with this state; `data` is not sent then.
         * NULL: the answer is complete. Only where mcp_message_may_ask().
         */
        json_t *asks;
        const char *state; /* in the request's arena */
};

/*
 * An argument is a field of what the HTTP API is asked (shapes.h): its type, its range, its default
 * and what it means stand there. What HTTP says by paths and headers has a field of the tools' own.
 * One of `shape` and `fields` is set.
 */
struct mcp_argument {
        const struct field *shape;  /* an object that it is a member of; or */
        const struct field *fields; /* fields that it is one of, ended by a NULL name */
        const char *field;          /* its name there; NULL ends the list of arguments */
        const char *name;           /* NULL: the same */
        const char *doc;            /* what it means here, in place of the field's words; NULL: those */
        const char *also;           /* behind those words; or NULL */
        bool required;              /* here, whatever it is there */
        bool optional;              /* the same */
        bool single;                /* of a list: one item of it */
};

struct mcp_tool {
        const char *name, *title, *doc;
        const struct mcp_argument *arguments; /* ended by a NULL field */
        const struct field_group *groups;     /* of those that have them; or NULL */
        const struct field *answer_shape;     /* what it answers */
        const struct field *answer_more;      /* beside what the shape has, ended by a NULL name; or NULL */
        bool answer_list;                     /* a page of such: {items, cursor} */
        unsigned
                rights; /* of enum broker_right: the client needs it, or the tool is not there; 0: BROKER_EXECUTE */
        bool only_reads, destroys, repeats; /* hints for clients that ask people before calling it */
        json_t *(*text)(
                const json_t *data); /* what a model reads of the answer (mcp_text.h); NULL: its JSON */
        /* NULL: run_code, which is followed (mcp_run.h). */
        int (*answer)(const struct mcp_call *call, const json_t *arguments, struct mcp_answer *ret,
                      struct problem *problem);
};

/* NULL if a client with these rights (enum broker_right) has no tool of that name. */
const struct mcp_tool *mcp_tool_find(const char *name, unsigned rights);

/*
 * PROBLEM_INVALID where the arguments, an object, are not those of the table, as models write them (mcp_arguments.h): they become what is
 * meant. *ret_note is what of that the model should know.
 */
int mcp_tool_check(const struct mcp_tool *tool, json_t *arguments, struct arena *arena, const char **ret_note,
                   struct problem *problem);

/* All that a client with these rights has, as tools/list has them. `environments`: the names that the caller may choose, for the model to know; or NULL. */
json_t *mcp_tools_json(const char *environments, unsigned rights, struct arena *arena);

/* A result of tools/call. The answer's references are given away. `note` is a text more; "": none. */
json_t *mcp_tool_result(struct mcp_answer *answer, const char *note);
/* The same of a tool that could not do it. */
json_t *mcp_tool_problem(const struct problem *problem);

#endif
