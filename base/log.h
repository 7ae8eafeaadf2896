/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to standard error, one line each. Providers, state and schema log at debug level only: what a user must
 * know travels as errors, warnings and results. Secrets are never logged.
 */
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level); /* default LOG_LEVEL_INFO */
enum log_level log_level(void);

/*
 * One JSON object a line instead of text, in ASCII, for those who collect logs:
 *
 *     {"time":"2026-01-31T12:00:00.123Z","level":"info","message":"...","source":"research","commit":"3f2a..."}
 *
 * `level` is error, warning, info or debug; then follows this thread's context. Lines of text show of the context
 * `source` alone, in front: "error: research: ...".
 */
void log_set_json(bool json);

/*
 * What this thread is about. `name` is a static text of letters; a NULL value takes the name out, a new one replaces
 * the old; values are copied and cut at 255 bytes. At most 6 names. They are shown in the order in which they came.
 */
void log_context_set(const char *name, const char *value);
void log_context_clear(void); /* all of this thread's */

/* One line each, with what terminal_print_safe() would not let through shown by its number. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* "error: ..." */
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2))); /* "warning: ..." */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));    /* as it is */
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* "debug: ..." */

#endif
