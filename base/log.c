/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each line is written by one call, so that lines of several threads do not mix. A message may hold
 * anything that came from outside: controls are escaped. The context (source, commit) belongs to
 * the thread, and becomes members of the line in JSON.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/terminal.h"
#include "base/text_utf8.h"

#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTEXT_MAX 6

struct context_entry {
        const char *name;
        char value[256];
};

static atomic_int current = LOG_LEVEL_INFO;
static atomic_bool as_json;

static _Thread_local struct context_entry context[CONTEXT_MAX];
static _Thread_local size_t context_count;

void log_set_level(enum log_level level) {
        atomic_store(&current, (int)level);
}

enum log_level log_level(void) {
        return (enum log_level)atomic_load(&current);
}

void log_set_json(bool json) {
        atomic_store(&as_json, json);
}

static size_t context_find(const char *name) {
        size_t at = 0;

        while (at < context_count && strcmp(context[at].name, name) != 0)
                at++;
        return at;
}

void log_context_set(const char *name, const char *value) {
        size_t at = context_find(name);

        if (!value) {
                if (at == context_count)
                        return;
                context_count--;
                memmove(&context[at], &context[at + 1], (context_count - at) * sizeof(context[0]));
                return;
        }
        if (at == CONTEXT_MAX)
                return;
        if (at == context_count)
                context[context_count++].name = name;
        snprintf(context[at].value, sizeof(context[at].value), "%s", value);
}

void log_context_clear(void) {
        context_count = 0;
}

static void write_json(const char *level, const char *message) {
        json_t *line JSON_CLEANUP = json_object();
        int64_t now_ms = clock_wall_ms();
        char time[32], stamp[40];
        char *text;

        clock_format(now_ms, time, sizeof(time));
        /*
         * clock_format() ends in "Z"; lines of several processes are sorted, which needs more than
         * seconds.
         */
        snprintf(stamp, sizeof(stamp), "%.19s.%03dZ", time, (int)(now_ms % 1000));
        json_set_text(line, "time", stamp);
        json_set_text(line, "level", level);
        json_set_text(line, "message", message);
        for (size_t i = 0; i < context_count; i++)
                json_set_text(line, context[i].name, context[i].value);
        text = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);
        if (!text)
                abort();
        fprintf(stderr, "%s\n", text);
        free(text);
}

/* Errors and warnings on a terminal are wrapped at its width. Other levels, and what goes into a file or a pipe, stay whole. */
static int width_for(enum log_level level) {
        return level <= LOG_LEVEL_WARNING && isatty(STDERR_FILENO) ? terminal_width(stderr) : INT_MAX;
}

static void write_text(enum log_level level, const char *prefix, const char *message) {
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT, lines STRBUF_CLEANUP = STRBUF_INIT;
        size_t source = context_find("source");
        int used = (int)strlen(prefix);

        if (source < context_count) {
                text_append_safe(&safe, context[source].value);
                strbuf_append(&safe, ": ");
        }
        text_append_safe(&safe, message);
        text_append_wrapped(&lines, strbuf_text(&safe), width_for(level), used, used);
        /* One call, so that lines of several threads do not mix. */
        fprintf(stderr, "%s%s\n", prefix, strbuf_text(&lines));
}

__attribute__((format(printf, 4, 0))) static void write_log_line(enum log_level level, const char *name,
                                                                 const char *prefix, const char *format,
                                                                 va_list arguments) {
        char message[4096];

        if ((int)level > atomic_load(&current))
                return;
        vsnprintf(message, sizeof(message), format, arguments);
        if (atomic_load(&as_json))
                write_json(name, message);
        else
                write_text(level, prefix, message);
}

#define DEFINE_LOG(name, level, level_name, prefix)                           \
        void name(const char *format, ...) {                                  \
                va_list arguments;                                            \
                va_start(arguments, format);                                  \
                write_log_line(level, level_name, prefix, format, arguments); \
                va_end(arguments);                                            \
        }

DEFINE_LOG(log_error, LOG_LEVEL_ERROR, "error", "error: ")
DEFINE_LOG(log_warning, LOG_LEVEL_WARNING, "warning", "warning: ")
DEFINE_LOG(log_info, LOG_LEVEL_INFO, "info", "")
DEFINE_LOG(log_debug, LOG_LEVEL_DEBUG, "debug", "debug: ")
