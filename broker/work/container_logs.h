/* SPDX-License-Identifier: Apache-2.0 */
/* What a container has printed, line by line, for a client that reads or follows it. */
#ifndef BERTH_BROKER_WORK_CONTAINER_LOGS_H
#define BERTH_BROKER_WORK_CONTAINER_LOGS_H

#include "base/strbuf.h"
#include "containers/containers.h"
#include "server/server.h"

#include <jansson.h>

/* One line without its end is cut here. */
#define CONTAINER_LOGS_LINE_MAX ((size_t)65536)

struct container_logs {
        bool follow, json; /* json: objects {at, stream, text, partial}; else the text alone */
        int64_t tail;      /* only this many of the last lines; -1: all */
        int64_t since_ms;  /* only those of that time and later; 0: all */
};
/* Answers with them, and closes the watch when that is over. */
void container_logs_answer(struct server_request *request, struct container_watch *watch,
                           const struct container_logs *wanted);

/*
 * The lines that are wanted, of all streams as they came, as the member `text`: the last `most` bytes of them, and `truncated` where those
 * are not all that is kept or was wanted. It is not followed.
 */
void container_logs_add_lines(struct container_watch *watch, const struct container_logs *wanted, size_t most,
                              json_t *to);
/* The ends of both streams, `most` bytes each, as members `stdout` and `stderr`, and `truncated`. */
void container_logs_add(struct container_watch *watch, size_t most, json_t *to);

#endif
