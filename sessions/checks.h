/* SPDX-License-Identifier: Apache-2.0 */
/* What clients send, before anything believes it. Each fails with PROBLEM_INVALID, and says which value may be what. */
#ifndef BERTH_SESSIONS_CHECKS_H
#define BERTH_SESSIONS_CHECKS_H

#include "sessions/engine.h"

#define CHECKS_TEXT_MAX 256 /* characters: of names, labels, keys */
#define CHECKS_LABELS_MAX 64

/* A text of 1 to `most` characters in UTF-8, none of them a control character. `what` names it in the problem. */
int check_text(const char *what, const char *text, size_t most, struct problem *problem) MUST_USE;
/* An object of texts with names as environments have them, or NULL. */
int check_variables(const json_t *variables, struct problem *problem) MUST_USE;
int check_labels(const json_t *labels, struct problem *problem) MUST_USE;
/* 0, or 1 to ENGINE_AGE_MAX. */
int check_age(const char *what, int64_t seconds, struct problem *problem) MUST_USE;
int check_wish(const struct engine_wish *wish, struct problem *problem) MUST_USE;
int check_code(const struct engine_code *code, struct problem *problem) MUST_USE;
int check_once(const struct engine_once *once, struct problem *problem) MUST_USE;

#endif
