/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to standard error, one line each. Providers, state and schema log at debug level only: what a user must
 * know travels as errors, warnings and results. Secrets are never logged.
 */
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level); /* default LOG_LEVEL_INFO */
enum log_level log_level(void);

/* One line each, with what terminal_print_safe() would not let through shown by its number. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* "error: ..." */
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2))); /* "warning: ..." */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));    /* as it is */
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* "debug: ..." */

#endif
