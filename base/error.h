/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error object: the last parameter of every function that can fail.
 *
 * A function that fails returns a negative number and has set the error; one that succeeds leaves it untouched.
 * The place that fails says what was found and what to do; each layer above may add one context in front, the
 * resource or the file, with error_context(). Errors hold no memory of their own and need no release.
 */
#ifndef BERTH_BASE_ERROR_H
#define BERTH_BASE_ERROR_H

enum error_kind {
        ERROR_NONE = 0,
        ERROR_FAILED,      /* the general case: exit code 1 */
        ERROR_NOT_FOUND,   /* the thing asked for does not exist */
        ERROR_LOCKED,      /* another run holds the lease: exit code 4 */
        ERROR_REFUSED,     /* a guard refused: exit code 3 */
        ERROR_INTERRUPTED, /* the user asked to stop */
        ERROR_UNREACHABLE, /* a host cannot be reached, or does not answer in time */
        ERROR_DIAGNOSED    /* details were already reported as diagnostics */
};

struct error {
        enum error_kind kind;
        char message
                [2048]; /* one or more lines without a trailing newline; truncated at the end if too long */
};

/* Both return -1, so that a caller can write `return error_set(err, ...)`. `err` must not be NULL. */
int error_set(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
int error_set_kind(struct error *err, enum error_kind kind, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Puts "context: " in front of the message, keeps the kind, returns -1. */
int error_context(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Tells the analyzer that these return -1: what is set on success only is then known not to be read after. */
static inline int error_minus_one(int ignored) {
        (void)ignored;
        return -1;
}
#define error_set(...) error_minus_one(error_set(__VA_ARGS__))
#define error_set_kind(...) error_minus_one(error_set_kind(__VA_ARGS__))
#define error_context(...) error_minus_one(error_context(__VA_ARGS__))

/* Must be looked at by the caller. */
#define MUST_USE __attribute__((warn_unused_result))

#endif
