/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables whose texts are kept in AWS Secrets Manager or in Systems Manager: what a manifest says of one, and in which form
 * specs have it. Pure.
 *
 *     manifest    {secret: ARN[:KEY:STAGE:ID]} or {parameter: ARN}
 *     desired     that, and version: the one that the function shall have, as it was described
 *     applied     that, and value: the text, of which the state keeps a keyed hash
 *     observed    what was applied, with the text that the function has; a text where nothing says that it came from there
 *
 * So a rotation is another version, which plans show, and a text that was changed by hand is
 * another value, which they only mention.
 */
#ifndef BERTH_PROVIDERS_AWS_ENVIRONMENT_VARIABLE_SOURCE_H
#define BERTH_PROVIDERS_AWS_ENVIRONMENT_VARIABLE_SOURCE_H

#include "base/arena.h"
#include "base/error.h"
#include "schema/value.h"

#include <stdbool.h>

struct variable_source {
        bool is_secret;    /* of Secrets Manager; else a parameter */
        const char *named; /* as the manifest has it */
        const char *arn;   /* of the secret or parameter itself */
        const char *partition, *region, *account;
        const char *name;       /* what follows parameter/; of a secret NULL */
        const char *key;        /* of the JSON object that the secret is, or NULL */
        const char *stage, *id; /* of the secret's version: one of them, or none */
};

/* False where the variable is a text, or nothing. */
bool variable_source_parse(const struct value *variable, struct arena *arena, struct variable_source *ret);

/* "the secret ARN", for messages. */
const char *variable_source_title(const struct variable_source *source, struct arena *arena);

/* Whether any of the variables, which may be NULL, is such a one. */
bool variable_source_any(const struct value *variables);

/* The desired form of all variables; `resolved` says {NAME: {version}}, `recorded` what was last applied. NULL for none. */
const struct value *variable_source_desired(const struct value *variables, const struct value *resolved,
                                            const struct value *recorded, struct arena *arena);

/*
 * The text of a variable out of what AWS gave (SecretString, or a parameter's Value), whole or by its key. Fails, without a word
 * of it, where that is no text, or has no such key.
 */
int variable_source_text(const struct variable_source *source, const json_t *given, struct arena *arena,
                         const char **ret, struct error *err) MUST_USE;

#endif
