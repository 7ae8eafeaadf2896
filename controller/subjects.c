/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins what the manifests declare with what the state knows: one subject for each address that either names.
 *
 * The declared ones come first and are sorted already; what only the state knows is added behind them, and then all are
 * sorted. With tens of thousands of resources the searching is what takes the time: see find_record().
 *
 * A subject is unfinished if a journal entry without an end, or a record marked incomplete, says so. Nothing that the state
 * has of it is believed then.
 */
#include "controller/planning.h"

#include <stdlib.h>
#include <string.h>

struct known {
        struct record *records, *next_record;
        size_t record_count, records_found;
        struct sighting *sightings, *next_sighting;
        size_t sighting_count;
        struct journal_entry *journal;
        size_t journal_count;
        struct override *overrides;
        size_t override_count;
};

static int compare_subjects(const void *a, const void *b) {
        const struct subject *left = a, *right = b;

        if (left->kind->id != right->kind->id)
                return left->kind->id < right->kind->id ? -1 : 1;
        return strcmp(left->name, right->name);
}

struct subject *plan_subject_of(const struct plan *plan, enum kind_id kind, const char *name) {
        struct subject wanted = { .kind = kinds[kind], .name = name };

        if (plan->subject_count == 0)
                return NULL;
        return bsearch(&wanted, plan->subjects, plan->subject_count, sizeof(wanted), compare_subjects);
}

struct subject *plan_subject(const struct plan *plan, const char *address) {
        const struct kind *kind;
        const char *name;
        struct error ignored;

        if (address_parse(address, &kind, &name, &ignored) < 0)
                return NULL;
        return plan_subject_of(plan, kind->id, name);
}

static int compare_record(const void *address, const void *record) {
        return strcmp(address, ((const struct record *)record)->address);
}

static int compare_sighting(const void *address, const void *sighting) {
        return strcmp(address, ((const struct sighting *)sighting)->address);
}

/*
 * Addresses are asked for in the order in which the records are sorted: the one after the last found is nearly always the
 * next one wanted. Only where it is not, the record is searched for.
 */
static struct record *find_record(struct known *known, const char *address) {
        struct record *next = known->next_record;

        if (known->record_count == 0)
                return NULL;
        if (!next || next == known->records + known->record_count || strcmp(next->address, address) != 0)
                next = bsearch(address, known->records, known->record_count, sizeof(*next), compare_record);
        if (next)
                known->next_record = next + 1;
        return next;
}

static struct sighting *find_sighting(struct known *known, const char *address) {
        struct sighting *next = known->next_sighting;

        if (known->sighting_count == 0)
                return NULL;
        if (!next || next == known->sightings + known->sighting_count || strcmp(next->address, address) != 0)
                next = bsearch(address, known->sightings, known->sighting_count, sizeof(*next),
                               compare_sighting);
        if (next)
                known->next_sighting = next + 1;
        return next;
}

static int compare_entry(const void *address, const void *entry) {
        return strcmp(address, ((const struct journal_entry *)entry)->address);
}

static bool in_journal(const struct known *known, const char *address) {
        return known->journal_count > 0 &&
               bsearch(address, known->journal, known->journal_count, sizeof(*known->journal), compare_entry);
}

/* One state is of one provider: what another one has made is not there for this one, and would all be made again. */
static int check_record_provider(const struct planning *planning, const struct known *known,
                                 struct error *err) {
        const char *name = planning->args->provider_ops->name;

        for (size_t i = 0; i < known->record_count; i++) {
                const struct record *record = &known->records[i];

                if (strcmp(record->provider, name) != 0)
                        return error_set(
                                err,
                                "the state in %s is of provider %s (it has %s), and this run is of provider %s. "
                                "Give each provider a state of its own: --state DIR",
                                state_folder(planning->args->state), record->provider, record->address, name);
        }
        return 0;
}

static int load_known(struct planning *planning, struct known *ret, struct error *err) {
        struct state *state = planning->args->state;
        struct arena *arena = planning->arena;
        bool offline = planning->args->refresh == PLAN_REFRESH_NONE;

        if (state_load_records(state, arena, &ret->records, &ret->record_count, err) < 0 ||
            check_record_provider(planning, ret, err) < 0)
                return -1;
        /* Offline, most subjects need no more of their sighting than whether it is as it was applied. */
        if ((offline ? state_load_sighting_heads : state_load_sightings)(state, arena, &ret->sightings,
                                                                         &ret->sighting_count, err) < 0)
                return -1;
        if (state_load_bindings(state, arena, &planning->bindings, &planning->binding_count, err) < 0)
                return -1;
        if (state_load_overrides(state, arena, &ret->overrides, &ret->override_count, err) < 0)
                return -1;
        bindings_sort(planning->bindings, planning->binding_count);
        if (state_load_journal(state, arena, &ret->journal, &ret->journal_count, err) < 0)
                return -1;
        return state_serial(state, &planning->plan->serial, err);
}

/* Out of service: bound to nothing, and inactive where its kind can be, whatever its manifest says. */
static const struct resource *overridden(struct planning *planning, const struct resource *declared) {
        struct resource *copy = arena_alloc(planning->arena, sizeof(*copy));
        struct value *spec = arena_alloc(planning->arena, sizeof(*spec));

        *copy = *declared;
        *spec = value_copy(planning->arena, declared->spec);
        value_unset(spec, kind_binding(declared->kind)->path);
        if (kind_field(declared->kind, "active"))
                value_set_boolean(planning->arena, spec, "active", false);
        copy->spec = spec;
        return copy;
}

static void apply_override(struct planning *planning, const struct known *known, struct subject *subject) {
        subject->declared = subject->desired;
        subject->override = override_find(known->overrides, known->override_count, subject->address);
        if (!subject->override || !subject->desired || !kind_binding(subject->kind))
                return;
        subject->desired = overridden(planning, subject->desired);
        plan_warn(planning->arena, planning->plan,
                  arena_printf(planning->arena,
                               "%s is disassociated from %s: out of service until berth reassociate %s --all",
                               subject->address, subject->override->environment,
                               subject->override->environment));
}

/* A subject that already has kind, name, address and desired gets what the state knows. */
static void fill_from_state(struct known *known, struct subject *subject) {
        subject->record = find_record(known, subject->address);
        known->records_found += subject->record != NULL;
        subject->sighting = find_sighting(known, subject->address);
        subject->unfinished =
                in_journal(known, subject->address) || (subject->record && subject->record->incomplete);
}

/* What nothing has read or assumed yet. */
static const struct observation unseen;

static bool is_managed(const struct planning *planning, const struct kind *kind) {
        const struct plan_args *args = planning->args;

        return kind->managed && args->provider_ops->ops(args->provider, kind->id) != NULL;
}

static void add_desired(struct planning *planning, struct known *known, struct subject *subjects,
                        size_t *count) {
        const struct manifests *manifests = planning->args->manifests;

        for (size_t i = 0; i < manifests->count; i++) {
                const struct resource *resource = &manifests->resources[i];

                if (!is_managed(planning, resource->kind))
                        continue;
                subjects[*count] = (struct subject){
                        .kind = resource->kind,
                        .name = resource->name,
                        .address = resource->address,
                        .desired = resource,
                        .observed = &unseen,
                };
                fill_from_state(known, &subjects[(*count)++]);
        }
}

/* A Stack that no manifest declares is in no list of resources, but is made nevertheless. */
static bool stack_is_listed(const struct manifests *manifests) {
        return manifests_find(manifests, KIND_STACK, manifests->stack->name) != NULL;
}

/* What the state has and the manifests do not: records, and changes begun that never came to a record. */
static int add_undeclared(struct planning *planning, struct known *known, const char *address,
                          const struct plan *declared, struct subject *subjects, size_t *count,
                          struct error *err) {
        const struct kind *kind;
        const char *name;

        if (plan_subject(declared, address))
                return 0;
        if (address_parse(address, &kind, &name, err) < 0)
                return error_context(err, "the state has a resource that this version does not know");
        if (!is_managed(planning, kind))
                return 0;
        subjects[*count] =
                (struct subject){ .kind = kind, .name = name, .address = address, .observed = &unseen };
        fill_from_state(known, &subjects[(*count)++]);
        return 0;
}

static int add_all_undeclared(struct planning *planning, struct known *known, struct subject *subjects,
                              size_t *count, struct error *err) {
        struct plan declared = { .subjects = subjects, .subject_count = *count };

        /* No two records have one address: once each of them was found by a manifest, none is left to be added. */
        for (size_t i = 0; i < known->record_count && known->records_found < known->record_count; i++) {
                if (add_undeclared(planning, known, known->records[i].address, &declared, subjects, count,
                                   err) < 0)
                        return -1;
        }
        for (size_t i = 0; i < known->journal_count; i++) {
                if (find_record(known, known->journal[i].address))
                        continue;
                if (add_undeclared(planning, known, known->journal[i].address, &declared, subjects, count,
                                   err) < 0)
                        return -1;
        }
        for (size_t i = 0; i < planning->args->also_count; i++) {
                const char *address = planning->args->also[i];

                if (!find_record(known, address) && !in_journal(known, address) &&
                    add_undeclared(planning, known, address, &declared, subjects, count, err) < 0)
                        return -1;
        }
        return 0;
}

static int check_stack_name(struct planning *planning, struct error *err) {
        const char *recorded;

        if (state_load_meta(planning->args->state, "stack", planning->arena, &recorded, err) < 0)
                return -1;
        if (recorded && strcmp(recorded, planning->plan->stack_name) != 0)
                return error_set(
                        err,
                        "the state in %s belongs to the stack \"%s\", the manifests declare \"%s\": "
                        "give the Stack its old name, or use another --state folder for the new stack",
                        state_folder(planning->args->state), recorded, planning->plan->stack_name);
        return 0;
}

int planning_gather(struct planning *planning, struct error *err) {
        const struct manifests *manifests = planning->args->manifests;
        struct known known = { 0 };
        struct subject *subjects;
        size_t count = 0, declared;

        if (check_stack_name(planning, err) < 0 || load_known(planning, &known, err) < 0)
                return -1;
        subjects = arena_array(planning->arena,
                               manifests->count + known.record_count + known.journal_count +
                                       planning->args->also_count + 2,
                               sizeof(*subjects));
        if (!stack_is_listed(manifests) && is_managed(planning, kinds[KIND_STACK])) {
                subjects[count] = (struct subject){
                        .kind = kinds[KIND_STACK],
                        .name = manifests->stack->name,
                        .address = manifests->stack->address,
                        .desired = manifests->stack,
                };
                fill_from_state(&known, &subjects[count++]);
        }
        /* Manifests come by kind and name, so the declared ones are sorted as they are. */
        add_desired(planning, &known, subjects, &count);
        declared = count;
        if (add_all_undeclared(planning, &known, subjects, &count, err) < 0)
                return -1;
        if (count > declared)
                qsort(subjects, count, sizeof(*subjects), compare_subjects);
        for (size_t i = 0; i < count; i++) {
                if (planning->args->destroy)
                        subjects[i].desired = NULL;
                apply_override(planning, &known, &subjects[i]);
        }
        planning->plan->subjects = subjects;
        planning->plan->subject_count = count;
        return 0;
}
