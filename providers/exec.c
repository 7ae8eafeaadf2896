/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/exec.h"

#include "base/digest.h"
#include "base/json.h"

#include <stdlib.h>

static const char *const reasons[] = {
        [EXEC_EXITED] = "exited",
        [EXEC_DEADLINE] = "deadline",
        [EXEC_MEMORY] = "memory",
        [EXEC_INTERRUPTED] = "interrupted",
};

static json_t *content_json(const struct stream_result *stream) {
        json_t *json;
        char *text;

        if (stream->utf8)
                return json_stringn(stream->content, stream->bytes_returned);
        text = malloc(4 * ((stream->bytes_returned + 2) / 3) + 1);
        if (!text)
                abort();
        digest_base64((const uint8_t *)stream->content, stream->bytes_returned, text);
        json = json_string(text);
        free(text);
        return json;
}

static json_t *stream_result_json(const struct stream_result *stream) {
        return json_pack("{s:I, s:I, s:b, s:s, s:s, s:o}", "bytesTotal", (json_int_t)stream->bytes_total,
                         "bytesReturned", (json_int_t)stream->bytes_returned, "truncated", stream->truncated,
                         "sha256", stream->sha256, "encoding", stream->utf8 ? "utf-8" : "base64", "content",
                         content_json(stream));
}

static json_t *files_json(const struct exec_result *result) {
        json_t *list = json_array();

        for (size_t i = 0; i < result->file_count; i++) {
                const struct exec_left *file = &result->files[i];

                json_add(list, json_pack("{s:o, s:I, s:b, s:o}", "name", json_from_text(file->name), "bytes",
                                         (json_int_t)file->bytes, "returned", file->reason == NULL, "reason",
                                         json_from_text(file->reason)));
        }
        return list;
}

static json_t *limits_json(const struct exec_limits *limits) {
        return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "memoryMB", (json_int_t)limits->memory_mb,
                         "cpuMillis", (json_int_t)limits->cpu_millis, "processes",
                         (json_int_t)limits->processes, "workspaceMB", (json_int_t)limits->workspace_mb,
                         "files", (json_int_t)limits->files, "timeoutSeconds",
                         (json_int_t)limits->timeout_seconds);
}

/* Null for a run that had no way out. */
static json_t *network_json(const struct exec_result *result) {
        json_t *list = result->reached ? json_array() : json_null();

        for (size_t i = 0; result->reached && i < result->reached_count; i++) {
                const struct exec_reached *line = &result->reached[i];

                json_add(list, json_pack("{s:o, s:i, s:o, s:I, s:I, s:I}", "host", json_from_text(line->host),
                                         "port", (int)line->port, "outcome", json_from_text(line->outcome),
                                         "connections", (json_int_t)line->connections, "sentBytes",
                                         (json_int_t)line->sent_bytes, "receivedBytes",
                                         (json_int_t)line->received_bytes));
        }
        return list;
}

json_t *exec_result_json(const struct exec_result *result) {
        json_t *degraded = json_array(), *withheld = json_array();

        for (size_t i = 0; i < result->degraded_count; i++)
                json_add(degraded, json_from_text(result->degraded[i]));
        for (size_t i = 0; i < result->withheld_count; i++)
                json_add(withheld, json_from_text(result->withheld[i]));
        return json_pack("{s:i, s:s, s:o, s:o, s:o, s:{s:I, s:I, s:I}, s:o, s:{s:o, s:o, s:o}}", "exitCode",
                         result->exit_code, "reason", reasons[result->reason], "stdout",
                         stream_result_json(&result->output), "stderr", stream_result_json(&result->errors),
                         "files", files_json(result), "usage", "wallMs", (json_int_t)result->wall_ms, "cpuMs",
                         (json_int_t)result->cpu_ms, "peakMemoryBytes", (json_int_t)result->peak_memory_bytes,
                         "network", network_json(result), "sandbox", "limits", limits_json(&result->limits),
                         "degraded", degraded, "withheld", withheld);
}
