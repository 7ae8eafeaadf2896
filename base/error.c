/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message is formatted into a buffer of its own and copied: arguments may point into the very message that they
 * replace, as where a layer puts something around it.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static void format_message(struct error *err, enum error_kind kind,
                                                                 const char *format, va_list arguments) {
        /* Formatted aside first: the arguments may point into the message itself. */
        char message[sizeof(err->message)];

        vsnprintf(message, sizeof(message), format, arguments);
        memcpy(err->message, message, sizeof(message));
        err->kind = kind;
}

int(error_set)(struct error *err, const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        format_message(err, ERROR_FAILED, format, arguments);
        va_end(arguments);
        return -1;
}

int(error_set_kind)(struct error *err, enum error_kind kind, const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        format_message(err, kind, format, arguments);
        va_end(arguments);
        return -1;
}

int(error_context)(struct error *err, const char *format, ...) {
        char context[512];
        char message[sizeof(err->message)];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(context, sizeof(context), format, arguments);
        va_end(arguments);
        snprintf(message, sizeof(message), "%s: %.*s", context, (int)(sizeof(message) - strlen(context) - 3),
                 err->message);
        memcpy(err->message, message, sizeof(message));
        return -1;
}
