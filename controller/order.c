/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes before what. Makes and updates go from the Stack to the swarms, deletions the other way and last; within
 * that, each change names the changes it has to wait for. Pure.
 */
#include "base/array.h"
#include "controller/internal.h"

#include <stdlib.h>

struct edges {
        struct arena *arena;
        const char **items;
        size_t count;
};

static void add_edge(struct edges *edges, const char *address) {
        edges->items = array_grow(edges->arena, edges->items, edges->count, sizeof(*edges->items));
        edges->items[edges->count++] = address;
}

static bool is_deletion(const struct change *change) {
        return change->action == ACTION_DELETE;
}

static void after_made(struct planning *planning, struct edges *edges, enum kind_id kind, const char *name) {
        struct subject *needed = name ? plan_subject_of(planning->plan, kind, name) : NULL;

        if (needed && needed->change && !is_deletion(needed->change))
                add_edge(edges, needed->address);
}

/* A thing in use goes when those who used it have let go. */
static void after_dependents(struct planning *planning, struct edges *edges, const char *environment) {
        size_t count;
        const struct binding *bindings = bindings_of(planning, environment, &count);

        for (size_t i = 0; i < count; i++) {
                const struct subject *dependent = plan_subject(planning->plan, bindings[i].dependent);

                if (dependent && dependent->change)
                        add_edge(edges, dependent->address);
        }
}

static void after_all(struct planning *planning, struct edges *edges,
                      bool (*matters)(const struct subject *other)) {
        const struct plan *plan = planning->plan;

        for (size_t i = 0; i < plan->subject_count; i++) {
                if (plan->subjects[i].change && matters(&plan->subjects[i]))
                        add_edge(edges, plan->subjects[i].address);
        }
}

static bool is_environment(const struct subject *other) {
        return other->kind->id == KIND_ENVIRONMENT;
}

static bool goes_before_the_stack(const struct subject *other) {
        return is_deletion(other->change) && other->kind->id != KIND_STACK;
}

static void after_released(struct planning *planning, struct edges *edges, const struct subject *subject) {
        if (subject->kind->id == KIND_ENVIRONMENT)
                after_dependents(planning, edges, subject->name);
        else if (subject->kind->id == KIND_IMAGE)
                after_all(planning, edges, is_environment);
        else if (subject->kind->id == KIND_STACK)
                after_all(planning, edges, goes_before_the_stack);
}

static void find_edges(struct planning *planning, struct subject *subject) {
        struct edges edges = { .arena = planning->arena };
        const struct value *spec = subject->desired ? subject->desired->spec : NULL;
        struct change *change = subject->change;

        if (is_deletion(change)) {
                after_released(planning, &edges, subject);
        } else {
                if (subject->kind->id != KIND_STACK)
                        after_made(planning, &edges, KIND_STACK, planning->plan->stack_name);
                after_made(planning, &edges, KIND_IMAGE, value_get_text(value_get(spec, "image"), "image"));
                after_made(planning, &edges, KIND_ENVIRONMENT, bound_environment(subject->kind, spec));
        }
        change->depends_on = edges.items;
        change->depends_on_count = edges.count;
}

int planning_order(struct planning *planning, struct error *err) {
        struct plan *plan = planning->plan;

        (void)err;
        plan->changes = arena_array(planning->arena, plan->subject_count + 1, sizeof(*plan->changes));
        for (size_t i = 0; i < plan->subject_count; i++) {
                struct change *change = plan->subjects[i].change;

                if (!change)
                        continue;
                find_edges(planning, &plan->subjects[i]);
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
