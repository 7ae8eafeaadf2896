/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ticket's download is answered by the routes of files and archives themselves, for the ticket's
 * caller: so all that holds for them holds here. That it can be had is looked at when the ticket is
 * asked for, and again when it is used.
 */
#include "broker/api/api.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "broker/api/shapes.h"
#include "broker/auth/tickets.h"
#include "broker/request/answers.h"
#include "broker/work/archive.h"
#include "broker/work/files.h"
#include "broker/work/opened.h"
#include "sessions/workspace_files.h"

#include <string.h>

static void answer_ticket(struct server_request *request) {
        struct opened opened OPENED_CLEANUP = OPENED_INIT;
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct call *call = call_of(request);
        char text[TICKET_SIZE];
        struct workspace_file file;
        struct problem problem;
        struct ticket ticket;
        const json_t *body;
        json_t *json;

        if (!opened_open(request, request->parameters[0], false, &opened) ||
            !(body = body_object(&call->body, request)))
                return;
        ticket = (struct ticket){ call->door, request->parameters[0], json_text(body, "path") };
        if (ticket.path &&
            workspace_file_look(&opened.workspace, ticket.path, &descriptor, &file, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        if (!tickets_issue(call->broker->tickets, &ticket, clock_now_ms(), text)) {
                server_add_header(request, "Retry-After", "10");
                answers_refuse(
                        request, "too-many-under-way",
                        "as many tickets are out as there may be: ask again once some are used or a minute old");
                return;
        }
        json = json_checked(json_object());
        json_put(json, "address", json_from_text(arena_printf(request->arena, "/v1/tickets/%s", text)));
        json_put(json, "expiresAt", json_from_time(clock_wall_ms() + TICKET_MS));
        explicit_bzero(text, sizeof(text));
        answers_json(request, 201, json);
}

static void begin_download(struct server_request *request) {
        const struct broker *broker = request->context;
        struct problem problem;
        struct ticket ticket;

        if (!tickets_redeem(broker->tickets, request->parameters[0], clock_now_ms(), request->arena,
                            &ticket)) {
                (void)problem_set(&problem, PROBLEM_NOT_FOUND,
                                  "there is no such ticket, or it was used: each is good once, for a minute");
                answers_refusal(request, &problem);
                return;
        }
        request->parameters[0] = ticket.workspace;
        request->parameters[1] = ticket.path;
        (void)!call_admit_as(request, &ticket.caller);
}

static void end_download(struct server_request *request) {
        if (call_of(request))
                call_end(request);
}

static void answer_download(struct server_request *request) {
        if (request->parameters[1])
                files_answer_get(request);
        else
                archive_answer(request);
}

#define DOWNLOADS "Downloads"

static const char *const file_headers[] = { "Content-Disposition", NULL };
static const struct operation_answer ticket_answers[] = {
        { .status = 201,
          .doc = "An address for one download, without a token.",
          .type = "application/json",
          .shape = &shape_ticket },
        { 0 },
};
static const struct operation_answer download_answers[] = {
        { .status = 200, .doc = "The file.", .type = "application/octet-stream", .headers = file_headers },
        { .status = 200, .doc = "The archive.", .type = "application/zip" },
        { .status = 206, .doc = "The requested range.", .type = "application/octet-stream" },
        { .status = 304, .doc = "The file has not changed." },
        { 0 },
};
static const char *const ticket_problems[] = { "not-found", "workspace-failed", NULL };
static const char *const download_problems[] = { "invalid",
                                                 "not-found",
                                                 "precondition-failed",
                                                 "range-not-satisfiable",
                                                 "too-many-under-way",
                                                 "store-failed",
                                                 "workspace-failed",
                                                 "no-sessions",
                                                 "stopping",
                                                 NULL };

const struct operation api_downloads_operations[] = {
        { .route = { .method = "POST",
                     .path = "/v1/workspaces/{id}/tickets",
                     .answer = answer_ticket,
                     CALL_WITH_JSON(BROKER_EXECUTE) },
          .id = "createTicket",
          .tag = DOWNLOADS,
          .title = "Create a ticket for a download",
          .doc = "A browser that saves a file sends no token. The ticket is good for one file, or "
                 "without a path for the zip of all, once, within a minute.",
          .body = &shape_ticket_wish,
          .example = "{\"path\": \"in/numbers.csv\"}",
          .answers = ticket_answers,
          .problems = ticket_problems },
        { .route = { .method = "GET",
                     .path = "/v1/tickets/{ticket}",
                     .mark = BROKER_EXECUTE,
                     .begin = begin_download,
                     .answer = answer_download,
                     .end = end_download },
          .needs = OPERATION_NEEDS_NOTHING,
          .id = "useTicket",
          .tag = DOWNLOADS,
          .title = "Download with a ticket",
          .headers = shape_read_headers,
          .answers = download_answers,
          .problems = download_problems },
};
const size_t api_downloads_operation_count =
        sizeof(api_downloads_operations) / sizeof(api_downloads_operations[0]);
