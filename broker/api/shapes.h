/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over HTTP as JSON, as field tables: what clients send (shapes_asked.c) and what they get (shapes_answered.c). A member of an
 * answer that is `required` is there each time, and may be null where it is `nullable`.
 */
#ifndef BERTH_BROKER_API_SHAPES_H
#define BERTH_BROKER_API_SHAPES_H

#include "schema/kind.h"

#define SHAPES_FILTERS_MAX 32 /* of each kind, in one query */
#define SHAPES_WAIT_MAX 300   /* seconds that an answer waits for the end of a container */
#define SHAPES_TAIL_MAX 100000

/* Asked. */
extern const struct field shape_session_wish, shape_session_patch, shape_execution_wish, shape_alone_wish,
        shape_input_file, shape_restart, shape_copy, shape_ticket_wish, shape_nothing;
extern const struct field shape_part_name; /* of multipart/form-data, beside `request` */

/* The parameters of queries and paths. */
extern const struct field shape_page_query[], shape_sessions_query[], shape_history_query[],
        shape_events_query[], shape_events_headers[], shape_again_headers[], shape_files_query[],
        shape_archive_query[];
extern const struct field shape_once_headers[], shape_run_headers[], shape_read_headers[],
        shape_condition_headers[];
extern const struct field shape_path_fields[]; /* by their names in paths */
extern const struct field shape_owner_header;

/* Answered. */
extern const struct field shape_session, shape_execution_pending, shape_execution, shape_execution_summary,
        shape_environment, shape_agent, shape_map, shape_workspace, shape_workspace_shown, shape_file,
        shape_file_put, shape_copied, shape_ticket, shape_problem, shape_document;

extern const struct field shape_display;
extern const struct field shape_stream_fields[]; /* of what a program printed */
extern const struct field shape_gap_fields[];    /* of what is missing there */
extern const struct field shape_state_fields[];  /* of a kernel */

/* Events, as the JSON of their `data` has them: shapes_events.c. Each has `event`, its name, besides the members of its shape. */
struct shape_event {
        const char *name, *component;
        const struct field *shape;
};
struct shape_events {
        const char *component;           /* of all of them */
        const struct shape_event *items; /* ended by a NULL name */
};
extern const struct shape_events shape_execution_events, shape_all_events, shape_stats_events;
extern const struct field shape_log_line;

/* Containers, both ways: shapes_containers.c. */
extern const struct field shape_container_wish, shape_container_exec, shape_container, shape_container_ended,
        shape_container_path;
extern const struct field shape_containers_query[], shape_logs_query[], shape_logs_headers[],
        shape_stop_headers[];
extern const struct field shape_sandbox, shape_container_stats;
extern const struct field shape_sandboxes_query[];

/* Commands on the host, both ways: shapes_approvals.c. */
extern const struct field shape_shell_wish, shape_decision, shape_approval, shape_approval_path;
extern const struct field shape_approvals_query[];

#endif
