/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards: what a plan must not do by accident. Each has a stable id; docs/guards.md lists them.
 *
 * A guard adds a refusal to a change, or to the plan as a whole. Then the refusals that --allow names are taken away, for
 * each change before the next one is judged: whether an environment's dependents still need it depends on whether their
 * own changes are refused. So subjects are judged from the last kind to the first, dependents before environments.
 *
 * Guards see subjects, not the list of changes: what --target leaves out is still there, and still guards.
 */
#include "base/array.h"
#include "base/sorted.h"
#include "controller/diff.h"
#include "controller/planning.h"

#include <stdlib.h>
#include <string.h>

static void grow_refusals(struct arena *arena, struct refusal **refusals, size_t *count,
                          struct refusal refusal) {
        *refusals = array_grow(arena, *refusals, *count, sizeof(**refusals));
        (*refusals)[(*count)++] = refusal;
}

void change_refuse(struct arena *arena, struct change *change, struct refusal refusal) {
        grow_refusals(arena, &change->refusals, &change->refusal_count, refusal);
}

void plan_refuse(struct arena *arena, struct plan *plan, struct refusal refusal) {
        grow_refusals(arena, &plan->refusals, &plan->refusal_count, refusal);
}

void plan_warn(struct arena *arena, struct plan *plan, const char *text) {
        plan->warnings = array_grow(arena, plan->warnings, plan->warning_count, sizeof(*plan->warnings));
        plan->warnings[plan->warning_count++] = text;
}

int planning_ask(struct planning *planning, struct error *err) {
        struct plan *plan = planning->plan;

        if (planning->args->refresh == PLAN_REFRESH_NONE)
                return 0;
        for (size_t i = 0; i < plan->subject_count; i++) {
                struct subject *subject = &plan->subjects[i];

                if (!subject->change || !subject->ops->ask)
                        continue;
                if (subject->ops->ask(planning->args->provider, subject->change, planning->arena, err) < 0)
                        return error_context(err, "%s", subject->address);
        }
        return 0;
}

static void guard_ownership(struct planning *planning, const struct subject *subject) {
        struct change *change = subject->change;
        const struct observation *observed = change->observed;
        const char *owner = observed->owner ? observed->owner : "no stack that Berth knows";
        struct arena *arena = planning->arena;
        const char *message = observed->claim, *remedy = observed->claim_remedy;
        bool foreign = observed->exists && change->action != ACTION_CREATE && !subject_is_ours(subject);

        if (!foreign)
                return;
        if (!message)
                message = arena_printf(arena, "%s exists and belongs to %s",
                                       observed->id ? observed->id : change->name, owner);
        if (!remedy)
                remedy = arena_printf(arena, "give %s another name", change->address);
        change_refuse(arena, change,
                      (struct refusal){
                              .id = "not-owned",
                              .message = message,
                              .remedy = arena_printf(arena, "%s, or take it over: --allow not-owned:%s",
                                                     remedy, change->address),
                      });
}

/*
 * By the applied spec, not by the manifest: taking out `protect: true` and the resource in one
 * commit must not be enough.
 */
static void guard_protection(struct planning *planning, struct change *change) {
        const char *verb = change->action == ACTION_DELETE ? "deleted" : "replaced";

        if (change->action != ACTION_DELETE && change->action != ACTION_REPLACE)
                return;
        if (!change->observed->exists || !value_get_boolean(change->recorded, "protect", false))
                return;
        change_refuse(
                planning->arena, change,
                (struct refusal){
                        .id = "protected",
                        .message = arena_printf(planning->arena,
                                                "it was applied with protect: true and would be %s", verb),
                        .remedy = "apply it with protect: false first, then remove it",
                });
}

/* Here, and not by a call that fails half-way through an apply. */
static void guard_quota(struct planning *planning, struct change *change) {
        const struct observation *observed = change->observed;

        if (!observed->over_quota || change->action == ACTION_DELETE)
                return;
        change_refuse(planning->arena, change,
                      (struct refusal){
                              .id = "over-quota",
                              .message = observed->over_quota,
                              .remedy = arena_printf(planning->arena,
                                                     "%s; if it was raised meanwhile: --allow over-quota:%s",
                                                     observed->over_quota_remedy, change->address),
                      });
}

/* A failed resource cannot be used: replacing it needs no leave. */
static void guard_replacement(struct planning *planning, struct subject *subject) {
        struct change *change = subject->change;
        const char *instead = change->kind->instead_of_replacing, *path = NULL;

        if (change->action != ACTION_REPLACE || change->observed->health == HEALTH_FAILED)
                return;
        for (size_t i = 0; i < change->field_count && !path; i++) {
                if (diff_path_in(change->fields[i].path, subject->ops->immutable))
                        path = change->fields[i].path;
        }
        change_refuse(planning->arena, change,
                      (struct refusal){
                              .id = "needs-replacement",
                              .message = arena_printf(planning->arena, "%s cannot change in place", path),
                              .remedy = arena_printf(planning->arena,
                                                     "%s%sreplace it in place: --allow needs-replacement:%s",
                                                     instead ? instead : "", instead ? ", or " : "",
                                                     change->address),
                      });
}

/* Whether a dependent still needs the environment once this plan is carried out. */
static bool still_bound(const struct subject *dependent, const char *environment) {
        const char *bound;

        if (!dependent)
                return true;
        if (dependent->declared) {
                bound = bound_environment(dependent->kind, dependent->declared->spec);
                if (bound && strcmp(bound, environment) == 0)
                        return true;
        }
        /* Re-pointed already, by a run that died before it could record that: the next apply does. */
        if (dependent->desired && dependent->settled)
                return false;
        /* Left out of this plan by --target or --exclude, or refused itself: it stays as it was recorded. */
        if (dependent->change && !change_is_refused(dependent->change))
                return false;
        bound = dependent->record ? bound_environment(dependent->kind, dependent->record->spec) : NULL;
        if (bound && strcmp(bound, environment) == 0)
                return true;
        bound = bound_environment(dependent->kind, dependent->observed->spec);
        return bound && strcmp(bound, environment) == 0;
}

/* Dependents from the manifests and from the recorded bindings, each once, sorted. */
static const char **remaining_dependents(struct planning *planning, const char *environment,
                                         size_t *ret_count) {
        const struct manifests *manifests = planning->args->manifests;
        size_t binding_count, count = 0, unique = 0;
        const struct binding *bindings = bindings_of(planning, environment, &binding_count);
        const char **found =
                arena_array(planning->arena, manifests->missing_count + binding_count + 1, sizeof(*found));

        for (size_t i = 0; i < binding_count; i++) {
                if (still_bound(plan_subject(planning->plan, bindings[i].dependent), environment))
                        found[count++] = bindings[i].dependent;
        }
        for (size_t i = 0; !planning->args->destroy && i < manifests->missing_count; i++) {
                if (strcmp(manifests->missing[i].environment, environment) == 0)
                        found[count++] = manifests->missing[i].dependent;
        }
        qsort(found, count, sizeof(*found), sorted_compare_texts);
        for (size_t i = 0; i < count; i++) {
                if (unique == 0 || strcmp(found[unique - 1], found[i]) != 0)
                        found[unique++] = found[i];
        }
        *ret_count = unique;
        return found;
}

static struct refusal *find_refusal(const struct change *change, const char *id) {
        for (size_t i = 0; i < change->refusal_count; i++) {
                if (strcmp(change->refusals[i].id, id) == 0)
                        return &change->refusals[i];
        }
        return NULL;
}

static void guard_dependents(struct planning *planning, struct change *change) {
        struct refusal *known;
        const char **dependents, **all;
        size_t count;

        if (!kind_is_bound_to(change->kind) || change->action != ACTION_DELETE)
                return;
        dependents = remaining_dependents(planning, change->name, &count);
        if (count == 0)
                return;
        /* The provider may have found others, of which no manifest and no record tells: one refusal names them all. */
        known = find_refusal(change, "has-dependents");
        if (known) {
                all = arena_array(planning->arena, count + known->dependent_count, sizeof(*all));
                memcpy(all, dependents, count * sizeof(*all));
                memcpy(all + count, known->dependents, known->dependent_count * sizeof(*all));
                known->message = arena_printf(planning->arena, "%zu %s still %s it, and %s", count,
                                              count == 1 ? "dependent" : "dependents",
                                              count == 1 ? "uses" : "use", known->message);
                known->dependents = all;
                known->dependent_count += count;
                return;
        }
        change_refuse(
                planning->arena, change,
                (struct refusal){
                        .id = "has-dependents",
                        .message = arena_printf(planning->arena, "%zu %s still %s it", count,
                                                count == 1 ? "dependent" : "dependents",
                                                count == 1 ? "uses" : "use"),
                        .remedy = "point them at another environment in the same plan, or remove them too",
                        .dependents = dependents,
                        .dependent_count = count,
                });
}

static bool is_allowed(const struct planning *planning, const struct refusal *refusal, const char *address) {
        const struct plan_args *args = planning->args;

        for (size_t i = 0; i < args->allowance_count; i++) {
                const struct allowance *allowance = &args->allowances[i];

                if (strcmp(allowance->id, refusal->id) != 0)
                        continue;
                if (!allowance->address || (address && strcmp(allowance->address, address) == 0))
                        return true;
        }
        return false;
}

static bool needs_its_binding(const struct subject *dependent) {
        const struct value *spec = !dependent           ? NULL
                                   : dependent->desired ? dependent->desired->spec
                                   : dependent->record  ? dependent->record->spec
                                                        : NULL;

        return spec && dependent->kind->needs_binding && dependent->kind->needs_binding(spec);
}

/* Where dependents may be left behind (--allow has-dependents), active specialists may still not: they cannot work. */
static void guard_specialists(struct planning *planning, struct change *change) {
        const char **dependents;
        size_t count, specialists = 0;

        if (!kind_is_bound_to(change->kind) || change->action != ACTION_DELETE ||
            !is_allowed(planning, &(struct refusal){ .id = "has-dependents" }, change->address))
                return;
        dependents = remaining_dependents(planning, change->name, &count);
        for (size_t i = 0; i < count; i++) {
                if (needs_its_binding(plan_subject(planning->plan, dependents[i])))
                        dependents[specialists++] = dependents[i];
        }
        if (specialists == 0)
                return;
        change_refuse(planning->arena, change,
                      (struct refusal){
                              .id = "inactive-specialist",
                              .message = arena_printf(
                                      planning->arena, "%zu active %s would be left without an environment",
                                      specialists, specialists == 1 ? "specialist" : "specialists"),
                              .remedy = "set active: false first, or point them at another environment",
                              .dependents = dependents,
                              .dependent_count = specialists,
                      });
}

/*
 * Without settings of its own a plan may delete up to half of what is recorded, or up to four
 * resources. Where only maxDeletes is set there is no percentage, and the other way round.
 * Resources that are gone already do not count.
 */
static void guard_mass_deletion(struct planning *planning) {
        const struct value *guards = value_get(planning->args->manifests->stack->spec, "guards");
        int64_t most = value_get_integer(guards, "maxDeletes", -1);
        int64_t percent = value_get_integer(guards, "maxDeletePercent", most < 0 ? 50 : 100);
        struct plan *plan = planning->plan;
        size_t deletes = 0, recorded = 0;
        bool over;

        if (planning->args->destroy)
                return;
        for (size_t i = 0; i < plan->subject_count; i++) {
                const struct subject *subject = &plan->subjects[i];

                recorded += subject->record != NULL;
                deletes += subject->change && subject->change->action == ACTION_DELETE &&
                           subject->observed->exists;
        }
        over = most >= 0 && deletes > (size_t)most;
        if (deletes * 100 > recorded * (size_t)percent &&
            (deletes >= 5 || value_get(guards, "maxDeletePercent")))
                over = true;
        if (!over)
                return;
        plan_refuse(
                planning->arena, plan,
                (struct refusal){
                        .id = "mass-delete",
                        .message = arena_printf(planning->arena,
                                                "%zu of this stack's %zu resources would be deleted", deletes,
                                                recorded),
                        .remedy =
                                "if that is meant: --allow mass-delete, or raise the Stack's guards.maxDeletes",
                });
}

static void apply_allowances(struct planning *planning, struct refusal *refusals, size_t *count,
                             const char *address) {
        size_t kept = 0;

        for (size_t i = 0; i < *count; i++) {
                if (!is_allowed(planning, &refusals[i], address))
                        refusals[kept++] = refusals[i];
        }
        *count = kept;
}

/* A reference to an environment that the state does not know either is the mistake it looks like. */
static int check_missing(struct planning *planning, struct error *err) {
        const struct manifests *manifests = planning->args->manifests;

        for (size_t i = 0; !planning->args->destroy && i < manifests->missing_count; i++) {
                const struct subject *subject =
                        plan_subject_of(planning->plan, KIND_ENVIRONMENT, manifests->missing[i].environment);

                if (!subject || !subject->record)
                        return error_set_kind(err, ERROR_DIAGNOSED,
                                              "%s refers to the environment \"%s\", which no "
                                              "manifest declares",
                                              manifests->missing[i].dependent,
                                              manifests->missing[i].environment);
        }
        return 0;
}

int planning_guard(struct planning *planning, struct error *err) {
        struct plan *plan = planning->plan;

        if (check_missing(planning, err) < 0)
                return -1;
        bindings_add_observed(planning);
        for (size_t i = plan->subject_count; i-- > 0;) {
                struct change *change = plan->subjects[i].change;

                if (!change)
                        continue;
                guard_ownership(planning, &plan->subjects[i]);
                guard_quota(planning, change);
                guard_protection(planning, change);
                guard_replacement(planning, &plan->subjects[i]);
                guard_dependents(planning, change);
                guard_specialists(planning, change);
                apply_allowances(planning, change->refusals, &change->refusal_count, change->address);
        }
        guard_mass_deletion(planning);
        apply_allowances(planning, plan->refusals, &plan->refusal_count, NULL);
        return 0;
}
