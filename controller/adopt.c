/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An import is a plan of which one line is kept: all that plan_make() finds out about the resource (is it declared,
 * does it exist, whose is it) is what an import has to know, so no second way of reading is needed. The plan itself
 * is thrown away.
 *
 * The record has an empty spec. So no field counts as set by Berth yet, and the next plan shows
 * each one that the manifest sets and the resource has otherwise, as an update that a person sees
 * before it is made.
 */
#include "controller/adopt.h"

#include "controller/record.h"

#include <string.h>

/* The whole id, or its last part: a function's name for its ARN. */
static bool names_it(const char *id, const char *observed_id) {
        size_t length = strlen(id), observed_length = strlen(observed_id);

        if (strcmp(id, observed_id) == 0)
                return true;
        if (length == 0 || length >= observed_length)
                return false;
        if (strcmp(observed_id + observed_length - length, id) != 0)
                return false;
        return strchr(":/", observed_id[observed_length - length - 1]) != NULL;
}

static bool may_take(const struct plan_args *args, const char *address) {
        for (size_t i = 0; i < args->allowance_count; i++) {
                const struct allowance *allowance = &args->allowances[i];

                if (strcmp(allowance->id, "not-owned") == 0 &&
                    (!allowance->address || strcmp(allowance->address, address) == 0))
                        return true;
        }
        return false;
}

/* In the order of what a person has to put right first: the manifest, the state, the id, the owner. */
static int check_adoptable(const struct plan_args *args, const struct subject *subject, const char *address,
                           const char *id, struct error *err) {
        const struct observation *observed;

        if (!subject || !subject->desired)
                return error_set(
                        err,
                        "no manifest declares %s: declare it first, or the next apply would delete what was "
                        "imported",
                        address);
        observed = subject->observed;
        if (subject->record)
                return error_set(err, "%s is in the state already (%s)", address,
                                 subject->record->id ? subject->record->id : "no id");
        if (!observed->exists)
                return error_set_kind(
                        err, ERROR_NOT_FOUND,
                        "there is nothing to import for %s: what it would manage does not exist", address);
        if (!observed->id || !names_it(id, observed->id))
                return error_set(
                        err,
                        "%s would manage %s, which is not %s: what an environment is called there follows from "
                        "its name and the Stack's namePrefix",
                        address, observed->id ? observed->id : "?", id);
        if (observed->ownership == OWNER_OTHER && !may_take(args, address))
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "not-owned: %s belongs to %s; to take it over nevertheless: --allow not-owned:%s",
                        observed->id, observed->owner ? observed->owner : "another stack", address);
        return 0;
}

int adopt_resource(const struct plan_args *args, const char *address, const char *id, struct arena *arena,
                   struct error *err) {
        struct record_writer writer;
        struct plan plan;
        const struct subject *subject;

        if (plan_make(args, arena, &plan, err) < 0)
                return -1;
        /* A plan refused as a whole (the wrong account) has read nothing: there is no subject to judge. */
        if (plan.refusal_count > 0 && plan.change_count == 0)
                return error_set_kind(err, ERROR_REFUSED, "%s: %s", plan.refusals[0].id,
                                      plan.refusals[0].message);
        subject = plan_subject(&plan, address);
        if (check_adoptable(args, subject, address, id, err) < 0)
                return -1;
        record_writer_init(&writer, plan.provider_name, args->clock->wall_ms(args->clock));
        record_adopted(&writer, subject, value_new_map(arena));
        return state_commit(args->state, writer.ops, writer.count, err);
}
