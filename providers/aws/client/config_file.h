/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The INI dialect of ~/.aws/config and ~/.aws/credentials, read as botocore reads it (Python's RawConfigParser):
 * "key = value" or "key: value", keys in any case, comments on lines of their own (# or ;), values that go on in lines
 * indented deeper than their key, a [DEFAULT] section behind all others. A value that begins on the next line is a
 * nested block of "key = value" lines. Doubled sections or keys are errors.
 *
 * The files hold secrets: everything is overwritten before it is released.
 */
#ifndef BERTH_PROVIDERS_AWS_CLIENT_CONFIG_FILE_H
#define BERTH_PROVIDERS_AWS_CLIENT_CONFIG_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct config_option {
        char *name;  /* lower case */
        char *value; /* of several lines: joined by '\n', each without surrounding space */
};

struct config_section {
        char *name; /* as between the brackets */
        struct config_option *options;
        size_t count;
};

struct config_file {
        struct config_section *sections; /* in the file's order */
        size_t count;
};

/* `path` is for messages. */
int config_file_parse(const char *text, size_t length, const char *path, struct config_file **ret,
                      struct error *err) MUST_USE;
/* ERROR_NOT_FOUND where there is no such file. */
int config_file_read(const char *path, struct config_file **ret, struct error *err) MUST_USE;
void config_file_free(struct config_file *file); /* NULL is fine */

const struct config_section *config_file_section(const struct config_file *file, const char *name);
/* The value, [DEFAULT]'s where the section has none; NULL where neither has. Borrowed. */
const char *config_file_get(const struct config_file *file, const struct config_section *section,
                            const char *name);
/*
 * From a nested block's value ("\na = 1\nb = 2") the value of `name`: true, and *ret and *ret_length, borrowed. False
 * where it is not there or `block` is no nested block.
 */
bool config_file_nested(const char *block, const char *name, const char **ret, size_t *ret_length);

#endif
