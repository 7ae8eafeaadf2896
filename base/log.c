/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/strbuf.h"
#include "base/terminal.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_int current = LOG_LEVEL_INFO;

void log_set_level(enum log_level level) {
        atomic_store(&current, (int)level);
}

enum log_level log_level(void) {
        return (enum log_level)atomic_load(&current);
}

__attribute__((format(printf, 3, 0))) static void write_line(enum log_level level, const char *prefix,
                                                             const char *format, va_list arguments) {
        struct strbuf safe STRBUF_CLEANUP = STRBUF_INIT;
        char line[4096];

        if ((int)level > atomic_load(&current))
                return;
        vsnprintf(line, sizeof(line), format, arguments);
        /* One call, so that lines of several threads do not mix. */
        for (size_t at = 0, length = strlen(line); at < length;)
                at += text_append_safe_character(&safe, line, length, at);
        fprintf(stderr, "%s%s\n", prefix, strbuf_text(&safe));
}

#define DEFINE_LOG(name, level, prefix)                       \
        void name(const char *format, ...) {                  \
                va_list arguments;                            \
                va_start(arguments, format);                  \
                write_line(level, prefix, format, arguments); \
                va_end(arguments);                            \
        }

DEFINE_LOG(log_error, LOG_LEVEL_ERROR, "error: ")
DEFINE_LOG(log_warning, LOG_LEVEL_WARNING, "warning: ")
DEFINE_LOG(log_info, LOG_LEVEL_INFO, "")
DEFINE_LOG(log_debug, LOG_LEVEL_DEBUG, "debug: ")
