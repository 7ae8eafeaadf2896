/* SPDX-License-Identifier: Apache-2.0 */
/* docs/api.md, written by the rows of the operations. */
#include "base/strbuf.h"
#include "broker/api/openapi.h"
#include "broker/api/shapes.h"
#include "broker/request/answers.h"
#include "schema/reference.h"

#include <string.h>

static const char introduction[] =
        "# The HTTP API\n"
        "\n"
        "<!-- Written from the tables in broker/api/api*.c and broker/api/shapes*.c. Do not edit: change the tables, then run the test\n"
        "broker/api/openapi, which says how to write this page again. -->\n"
        "\n"
        "The operations of [`berth serve`](serve.md). The same tables are what requests are checked by, and\n"
        "`/openapi.json` has them for programs (OpenAPI 3.1); without a server:\n"
        "\n"
        "    berth serve --print-openapi\n"
        "\n"
        "Bodies are JSON in UTF-8 (`Content-Type: application/json`) of at most 32 MiB, 100,000 values and 64 levels. Members and parameters that\n"
        "are not known, or stand twice, are refused (400); `null` is as if the member were not there. Times are those of RFC 3339. What can\n"
        "be got can be asked for its head (`HEAD`). Lists have 100 items a page, or `limit`; `cursor` of one page asks for the next.\n"
        "\n"
        "    curl --unix-socket .berth/serve.sock http://localhost/openapi.json\n"
        "    curl -H \"Authorization: Bearer $(cat .berth/serve.token)\" http://127.0.0.1:9471/v1/sessions\n";

static const char ending[] =
        "\n## Errors\n"
        "\n"
        "Errors are `application/problem+json`: `{code, status, title, detail, remedy}`, of which `code` and `status` are for programs and stay as\n"
        "they are. Any operation may answer those of HTTP itself; those of one operation stand with it.\n"
        "\n"
        "| status | code | meaning |\n|---|---|---|\n";

/* The name of what stands in a list, or NULL; a link to its chapter below. */
static void print_shape(FILE *stream, const struct field *shape, bool list) {
        if (!shape || !shape->component)
                return;
        fprintf(stream, "%s`%s`%s", list ? "`items` of " : "", shape->component,
                list ? ", and `cursor`" : "");
}

static void print_rights(FILE *stream, const struct operation *operation, struct arena *arena) {
        const char *const *rights = openapi_rights(operation, arena);

        if (operation->needs == OPERATION_NEEDS_NOTHING) {
                fputs("\nNeeds no token.\n", stream);
                return;
        }
        if (!*rights)
                return;
        fputs("\nFor clients that may ", stream);
        for (size_t i = 0; rights[i]; i++)
                fprintf(stream, "%s`%s`", i == 0 ? "" : rights[i + 1] ? ", " : " or ", rights[i]);
        fputs(".\n", stream);
}

static void print_answers(FILE *stream, const struct operation *operation, struct arena *arena) {
        const char *const *codes = openapi_codes(operation, arena);
        unsigned last = 0;

        fputs("\n| answer | |\n|---|---|\n", stream);
        for (const struct operation_answer *answer = operation->answers; answer->status; answer++) {
                fprintf(stream, "| %u%s%s | %s ", answer->status, answer->type ? " " : "",
                        answer->type && strcmp(answer->type, "application/json") != 0 ? answer->type : "",
                        answer->doc);
                if (answer->events)
                        fprintf(stream, "`%s`", answer->events->component);
                print_shape(stream, answer->shape, answer->list);
                if (answer->other)
                        fputs(" or ", stream);
                print_shape(stream, answer->other, false);
                fputs(" |\n", stream);
        }
        /* Those that are this operation's own. */
        for (; operation->problems && *codes; codes++) {
                bool own = false;

                for (const char *const *code = operation->problems; *code; code++)
                        own = own || strcmp(*code, *codes) == 0;
                if (!own)
                        continue;
                if (answers_code(*codes)->status != last)
                        fprintf(stream, "%s| %u | `%s`", last ? " |\n" : "", answers_code(*codes)->status,
                                *codes);
                else
                        fprintf(stream, ", `%s`", *codes);
                last = answers_code(*codes)->status;
        }
        if (last)
                fputs(" |\n", stream);
}

static void print_operation(FILE *stream, const struct operation *operation) {
        struct arena *arena ARENA_CLEANUP = arena_new();

        fprintf(stream, "\n### %s\n\n    %s %s\n", operation->title, operation->route.method,
                openapi_path(operation->route.path, arena));
        if (operation->doc)
                fprintf(stream, "\n%s\n", operation->doc);
        print_rights(stream, operation, arena);
        if (operation->query) {
                fputs("\nIn the query:\n", stream);
                reference_print_fields(stream, operation->query);
        }
        if (operation->headers) {
                fputs("\nHeaders:\n", stream);
                reference_print_fields(stream, operation->headers);
        }
        if (operation->body_type)
                fprintf(stream, "\nThe body is the file's bytes (`%s`).\n", operation->body_type);
        if (operation->body && operation->body->fields->name) {
                fprintf(stream, "\n%s%s:\n", "The body: ", operation->body->component);
                reference_print_fields(stream, operation->body->fields);
                reference_print_groups(stream, operation->body->groups);
        }
        if (operation->example)
                fprintf(stream, "\n```json\n%s\n```\n", operation->example);
        print_answers(stream, operation, arena);
}

static void print_shapes(FILE *stream) {
        static const struct field *const shapes[] = {
                &shape_session,
                &shape_execution,
                &shape_execution_pending,
                &shape_execution_summary,
                &shape_workspace,
                &shape_workspace_shown,
                &shape_file,
                &shape_file_put,
                &shape_copied,
                &shape_ticket,
                &shape_environment,
                &shape_agent,
                &shape_map,
                &shape_problem,
        };

        fputs("\n## What is answered\n\nMembers may be added one day; what is `required` is there each time.\n",
              stream);
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
                fprintf(stream, "\n### %s\n\n%s\n", shapes[i]->component, shapes[i]->doc);
                reference_print_fields(stream, shapes[i]->fields);
        }
}

static void print_events(FILE *stream) {
        static const struct shape_events *const all[] = { &shape_execution_events, &shape_all_events,
                                                          &shape_stats_events };

        fputs("\n## Events\n\nThe JSON of an event's `data` has its name, too, as `event`, and besides:\n",
              stream);
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                fprintf(stream, "\n### %s\n\n| event | | |\n|---|---|---|\n", all[i]->component);
                for (const struct shape_event *event = all[i]->items; event->name; event++) {
                        fprintf(stream, "| `%s` | %s | ", event->name, event->shape->doc);
                        if (event->shape->component)
                                fprintf(stream, "as `%s`", event->shape->component);
                        for (const struct field *field = event->shape->fields;
                             !event->shape->component && field->name; field++)
                                fprintf(stream, "%s`%s`", field == event->shape->fields ? "" : ", ",
                                        field->name);
                        fputs(" |\n", stream);
                }
        }
}

void openapi_markdown(FILE *stream) {
        const struct operation *operation;
        const char *last = "";

        fputs(introduction, stream);
        for (size_t at = 0; (operation = openapi_next(&at, true));) {
                if (strcmp(last, operation->tag) != 0)
                        fprintf(stream, "\n## %s\n", operation->tag);
                last = operation->tag;
                print_operation(stream, operation);
        }
        print_shapes(stream);
        print_events(stream);
        fputs(ending, stream);
        for (unsigned i = 0; answers_code_at(i); i++) {
                const struct answers_code *code = answers_code_at(i);

                fprintf(stream, "| %u | `%s` | %s%s%s |\n", code->status, code->code, code->title,
                        code->remedy ? ": " : "", code->remedy ? code->remedy : "");
        }
}
