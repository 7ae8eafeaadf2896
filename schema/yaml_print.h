/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as a YAML document, for people. */
#ifndef BERTH_SCHEMA_YAML_PRINT_H
#define BERTH_SCHEMA_YAML_PRINT_H

#include <jansson.h>
#include <stdio.h>

/*
 * One document, with members in the order in which they stand. What reads it (YAML 1.1 or 1.2) gets the same values: texts that
 * could be taken for something else are quoted. What a terminal would act on, or not show, is escaped, as json_for_eyes() does.
 */
void yaml_print(const json_t *json, FILE *stream);

#endif
