/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of changes. Pure.
 *
 * Two things are worked out here. The list of changes, for people: what is made and updated from the Stack down to the
 * swarms, then what is deleted, the other way round. And of each change which others it waits for (depends_on), for the
 * executor, which heeds nothing else: what no edge forbids runs at the same time.
 *
 * Edges come from the kinds' references (struct kind_reference). A change that names a resource
 * waits until that has been made. A deletion waits until the resource is not named any more: until
 * all changes, of any sort, of those that named it have ended. An edge leads to a change that is
 * part of this plan, or does not exist: a resource without a change is there already, and what
 * --target leaves out is not waited for.
 *
 * There is no circle: references lead to kinds that come earlier, and of two changes that one reference joins, the deletion
 * always waits. Should a kind's row be wrong, the executor skips the circle's changes rather than hang.
 */
#include "base/array.h"
#include "controller/planning.h"

struct edges {
        struct arena *arena;
        const char **items;
        size_t count;
};

static bool is_deletion(const struct change *change) {
        return change->action == ACTION_DELETE;
}

/* Only a change can be waited for. */
static void add_edge(struct edges *edges, const struct subject *other) {
        if (!other || !other->change)
                return;
        edges->items = array_grow(edges->arena, edges->items, edges->count, sizeof(*edges->items));
        edges->items[edges->count++] = other->address;
}

/*
 * Before a resource is made or changed: the Stack, on which all stands, and whatever the new spec names. Where that is being
 * deleted nothing is waited for: the deletion is the one that waits, and a guard has refused it if it must not happen.
 */
static void wait_for_what_is_named(struct planning *planning, const struct subject *subject,
                                   struct edges *edges) {
        const struct plan *plan = planning->plan;

        for (size_t i = 0; i < plan->subject_count && plan->subjects[i].kind->is_base; i++) {
                if (plan->subjects[i].kind != subject->kind && plan->subjects[i].change &&
                    !is_deletion(plan->subjects[i].change))
                        add_edge(edges, &plan->subjects[i]);
        }
        for (const struct kind_reference *reference = subject->kind->references; reference && reference->path;
             reference++) {
                const char *name =
                        reference->orders ? kind_reference_name(reference, subject->desired->spec) : NULL;
                const struct subject *named = name ? plan_subject_of(plan, reference->kind, name) : NULL;

                if (named && named->change && !is_deletion(named->change))
                        add_edge(edges, named);
        }
}

/* Whether resources of one kind name those of the other in a way that orders them, with no record of who names which. */
static bool may_name(const struct kind *kind, const struct kind *named) {
        for (const struct kind_reference *reference = kind->references; reference && reference->path;
             reference++) {
                if (reference->kind == named->id && reference->orders && !reference->binds)
                        return true;
        }
        return false;
}

/*
 * Before a resource is deleted, those who used it let go. Of a binding the state has kept who that
 * is: the new manifests no longer say it. For another reference that is not known, so every change
 * of the kind that may have named it is waited for. The Stack goes when all other deletions are
 * done.
 */
static void wait_for_who_named_it(struct planning *planning, const struct subject *subject,
                                  struct edges *edges) {
        const struct plan *plan = planning->plan;
        size_t binding_count = 0;
        const struct binding *bindings =
                kind_is_bound_to(subject->kind) ? bindings_of(planning, subject->name, &binding_count) : NULL;

        for (size_t i = 0; i < binding_count; i++)
                add_edge(edges, plan_subject(plan, bindings[i].dependent));
        for (size_t i = 0; i < plan->subject_count; i++) {
                const struct subject *other = &plan->subjects[i];
                bool stands_on_it = subject->kind->is_base && !other->kind->is_base && other->change &&
                                    is_deletion(other->change);

                if (stands_on_it || may_name(other->kind, subject->kind))
                        add_edge(edges, other);
        }
}

int planning_order(struct planning *planning, struct error *err) {
        struct plan *plan = planning->plan;

        (void)err;
        plan->changes = arena_array(planning->arena, plan->subject_count + 1, sizeof(*plan->changes));
        for (size_t i = 0; i < plan->subject_count; i++) {
                struct edges edges = { .arena = planning->arena };
                struct change *change = plan->subjects[i].change;

                if (!change)
                        continue;
                if (is_deletion(change))
                        wait_for_who_named_it(planning, &plan->subjects[i], &edges);
                else
                        wait_for_what_is_named(planning, &plan->subjects[i], &edges);
                change->depends_on = edges.items;
                change->depends_on_count = edges.count;
                if (!is_deletion(change))
                        plan->changes[plan->change_count++] = change;
        }
        for (size_t i = plan->subject_count; i-- > 0;) {
                struct change *change = plan->subjects[i].change;

                if (change && is_deletion(change))
                        plan->changes[plan->change_count++] = change;
        }
        return 0;
}

static size_t *counter(struct plan_summary *summary, enum action action) {
        switch (action) {
        case ACTION_CREATE:
                return &summary->create;
        case ACTION_UPDATE:
                return &summary->update;
        case ACTION_REPLACE:
                return &summary->replace;
        case ACTION_DELETE:
                return &summary->delete;
        case ACTION_ADOPT:
                return &summary->adopt;
        case ACTION_NONE:
        default:
                return &summary->unchanged;
        }
}

/*
 * Counts what the plan's last line says; what it costs, and how long the quotas make that take,
 * beside it.
 */
void planning_count(struct planning *planning) {
        const struct provider_ops *ops = planning->args->provider_ops;
        struct plan *plan = planning->plan;

        for (size_t i = 0; i < plan->subject_count; i++) {
                const struct subject *subject = &plan->subjects[i];

                if (subject->settled && subject->desired)
                        plan->summary.unchanged++;
        }
        for (size_t i = 0; i < plan->change_count; i++) {
                const struct change *change = plan->changes[i];
                const struct subject *subject = plan_subject_of(plan, change->kind->id, change->name);

                (*counter(&plan->summary, change->action))++;
                if (change_is_refused(change))
                        plan->summary.refused++;
                else if (subject->ops->cost)
                        subject->ops->cost(planning->args->provider, change, &plan->cost);
        }
        plan->floor_ms = ops->floor_ms ? ops->floor_ms(&plan->cost) : 0;
}
