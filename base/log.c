/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int current = LOG_LEVEL_INFO;

void log_set_level(enum log_level level) {
        atomic_store(&current, (int)level);
}

enum log_level log_level(void) {
        return (enum log_level)atomic_load(&current);
}

__attribute__((format(printf, 3, 0))) static void write_line(enum log_level level, const char *prefix,
                                                             const char *format, va_list arguments) {
        char line[4096];

        if ((int)level > atomic_load(&current))
                return;
        vsnprintf(line, sizeof(line), format, arguments);
        /* One call, so that lines of several threads do not mix. */
        fprintf(stderr, "%s%s\n", prefix, line);
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
