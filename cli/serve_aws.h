/* SPDX-License-Identifier: Apache-2.0 */
/* The place of sessions of a stack on AWS, as `berth serve` opens it: functions, the table of records, the bucket. */
#ifndef BERTH_CLI_SERVE_AWS_H
#define BERTH_CLI_SERVE_AWS_H

#include "broker/service/sessions.h"

/* As broker_places.open(). `sessions`: that part of the Server's spec, or NULL. */
int serve_aws_open(const struct value *sessions, const char *folder, struct applied *applied,
                   const struct applied_stack *stack, struct arena *arena, struct broker_place *ret,
                   struct error *err) MUST_USE;

#endif
