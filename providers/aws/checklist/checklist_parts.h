/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files checklist*.c alone. */
#ifndef BERTH_PROVIDERS_AWS_CHECKLIST_CHECKLIST_PARTS_H
#define BERTH_PROVIDERS_AWS_CHECKLIST_CHECKLIST_PARTS_H

#include "providers/aws/checklist/checklist.h"
#include "providers/aws/services/s3.h"
#include "providers/aws/session/invoke.h"
#include "providers/aws/shared/aws_provider.h"
#include "runtime/protocol/invocation.h"

#define CHECKLIST_TAG "berth:doctor"
#define CHECKLIST_TAG_AT "berth:doctor-at"
#define CHECKLIST_TENANTS 2

struct checklist {
        const struct aws_checklist *asked;
        struct provider *provider;
        struct aws_client *client;
        struct aws_client *cleaner; /* the same, whose calls no interrupt ends */
        struct arena *arena;
        struct s3_bucket bucket;
        const char *owner;   /* what CHECKLIST_TAG says: whose checks these are */
        const char *name;    /* of the function and of the repository */
        const char *objects; /* what ids of sessions begin with, also those of an earlier check */
        const char *table;   /* NULL: the Stack has none */
        const char *sessions[CHECKLIST_TENANTS]; /* ids that no session has; tenants, too */
        bool has_function;
        int64_t n[CHECKLIST_TENANTS]; /* the last execution of each, and where it ran */
        char boot[CHECKLIST_TENANTS][INVOCATION_BOOT_SIZE];
        struct finding *findings;
        size_t count, max;
};

/* Adds what was found: err NULL is ok. */
void checklist_found(struct checklist *list, const char *name, const struct error *err, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
void checklist_skipped(struct checklist *list, const char *name, const char *why);
bool checklist_is_over(const struct checklist *list); /* an interrupt came */

/* --- checklist_function.c --- */

/* Makes the function. -1: err. ERROR_NOT_FOUND: there is no function that it could be like. */
int checklist_make_function(struct checklist *list, struct error *err) MUST_USE;
void checklist_invocations(struct checklist *list);
/* 0: it is gone, or was not ours. */
int checklist_remove_function(struct checklist *list, bool before, struct error *err) MUST_USE;

/* --- checklist_bucket.c --- */

json_t *checklist_policy(const struct checklist *list, size_t who, uint64_t bytes_max, struct error *err);
/* A presigned GET, in the arena. */
int checklist_sign(const struct checklist *list, const char *key, const char **ret,
                   struct error *err) MUST_USE;
int checklist_put(const struct checklist *list, const char *key, const char *text,
                  struct error *err) MUST_USE;
const char *checklist_key(const struct checklist *list, size_t who, const char *name);
void checklist_presigned(struct checklist *list);
int checklist_remove_objects(struct checklist *list, struct error *err) MUST_USE;

/* --- checklist_services.c --- */

void checklist_records(struct checklist *list);
int checklist_remove_records(struct checklist *list, struct error *err) MUST_USE;
void checklist_registry(struct checklist *list);
int checklist_remove_repository(struct checklist *list, struct error *err) MUST_USE;

#endif
