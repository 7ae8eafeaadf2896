/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/lineage.h"

#include "base/array.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/sorted.h"
#include "controller/history.h"
#include "controller/planning.h"
#include "controller/stack_state.h"
#include "providers/lineage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One line of a file, without its end; "" where it cannot be read. */
static const char *first_line(const char *path, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;

        if (file_read(path, 256, &text, &ignored) < 0)
                return "";
        return arena_strndup(arena, strbuf_text(&text), strcspn(strbuf_text(&text), "\n"));
}

/*
 * A name for this machine that another one with the same host name has not, so that a folder there
 * is not taken for the folder of that path here. Where the machine has no id of its own
 * (containers), its boot has one. The id itself is private: it goes out as a digest.
 */
const char *lineage_machine(struct arena *arena) {
        char host[256] = "localhost", digest[SHA256_HEX_SIZE];
        const char *id = first_line("/etc/machine-id", arena);

        if (!*id)
                id = first_line("/proc/sys/kernel/random/boot_id", arena);
        gethostname(host, sizeof(host) - 1);
        id = arena_printf(arena, "berth lineage %s", id);
        digest_sha256_hex(id, strlen(id), digest);
        return arena_printf(arena, "%s/%.16s", host, digest);
}

/* A list of words in meta. */
static const char *const *split(const char *text, struct arena *arena) {
        size_t count = 0;
        const char **words = arena_array(arena, text ? strlen(text) + 1 : 1, sizeof(*words));

        while (text && *(text += strspn(text, " "))) {
                size_t length = strcspn(text, " ");

                words[count++] = arena_strndup(arena, text, length);
                text += length;
        }
        words[count] = NULL;
        return words;
}

int lineage_announce(const struct plan_args *args, struct arena *arena, struct error *err) {
        const struct lineage_ops *ops = args->provider_ops->lineage;
        const char *id = state_lineage(args->state), *taken;
        struct lineage lineage;

        if (!ops || !*id)
                return 0;
        if (state_load_meta(args->state, "taken", arena, &taken, err) < 0)
                return -1;
        lineage = (struct lineage){
                .id = id,
                .taken = split(taken, arena),
                .who = history_who(arena),
                .machine = lineage_machine(arena),
                .folder = stack_state_whole_place(state_folder(args->state), arena),
        };
        ops->set(args->provider, &lineage);
        return 0;
}

/*
 * A state in S3 can be looked at from any machine that may read it. Where it cannot, it may live: *ret_why says what was in the
 * way. The place is what a note in the bucket says, which others may write: only the root there is read.
 */
static enum lineage_life judge_shared(const struct plan_args *args, const char *place, const char *lineage,
                                      struct arena *arena, const char **ret_why) {
        struct object_store *store;
        struct error failure;
        bool lies;
        int result;

        if (!args->registry)
                return LINEAGE_ELSEWHERE;
        if (stack_state_objects(args->registry, args->manifests, place, args->clock, &store, &failure) < 0) {
                *ret_why = arena_printf(arena, ", which cannot be looked at: %s", failure.message);
                return LINEAGE_ELSEWHERE;
        }
        result = state_lies_at(store, lineage, &lies, &failure);
        store->ops->close(store);
        if (result < 0) {
                *ret_why = arena_printf(arena, ", which cannot be read: %s", failure.message);
                return LINEAGE_ELSEWHERE;
        }
        return lies ? LINEAGE_HERE : LINEAGE_GONE;
}

int lineage_judge(const struct plan_args *args, const char *lineage, struct arena *arena,
                  enum lineage_life *ret, const char **ret_said, struct error *err) {
        struct lineage_note note;
        const char *why = "";

        if (args->provider_ops->lineage->read(args->provider, lineage, arena, &note, err) < 0)
                return -1;
        *ret = LINEAGE_GONE;
        if (!note.lineage || note.taken_by)
                return 0;
        *ret = LINEAGE_ELSEWHERE;
        if (note.folder && stack_state_has_scheme(note.folder))
                *ret = judge_shared(args, note.folder, lineage, arena, &why);
        *ret_said = arena_printf(arena, "last applied by %s at %s from %s%s", note.who ? note.who : "?",
                                 note.at ? note.at : "?", note.folder ? note.folder : "?", why);
        if (note.folder && stack_state_has_scheme(note.folder))
                return 0;
        if (note.machine && note.folder && strcmp(note.machine, lineage_machine(arena)) == 0)
                *ret = state_lies_in(note.folder, lineage) ? LINEAGE_HERE : LINEAGE_GONE;
        return 0;
}

/* Orphans with the same message. */
struct orphan_group {
        const char *lineage; /* of a state that lives; else NULL */
        enum { ORPHANS_NOBODYS, ORPHANS_UNREAD, ORPHANS_PARTS, ORPHANS_OTHERS } of;
        const char *said; /* behind "N resources carry ..." */
        const char **names;
        size_t count;
};

struct orphan_groups {
        const struct plan_args *args;
        struct arena *arena;
        const char *const *taken; /* lineages that this state has taken over */
        struct orphan_group *items;
        size_t count;
};

static bool is_own(const struct orphan_groups *groups, const char *lineage) {
        bool own = strcmp(lineage, state_lineage(groups->args->state)) == 0;

        for (size_t i = 0; groups->taken[i] && !own; i++)
                own = strcmp(groups->taken[i], lineage) == 0;
        return own;
}

/* What berth state adopt would say of it, in the group's words. NULL: it would take it. */
static const char *words_of_adopt(const struct orphan_groups *groups, const char *lineage) {
        const char *said = NULL;
        enum lineage_life life;
        struct error ignored;

        if (!lineage_has_form(lineage))
                return "invalid lineage: berth state adopt does not take";
        if (lineage_judge(groups->args, lineage, groups->arena, &life, &said, &ignored) < 0)
                return arena_printf(
                        groups->arena,
                        "the lineage %s, whose note cannot be read: berth state adopt does not take",
                        lineage);
        if (life == LINEAGE_HERE)
                return arena_printf(
                        groups->arena,
                        "the lineage %s of another state, which lives (%s): berth state adopt refuses "
                        "(lineage-lives)",
                        lineage, said);
        if (life == LINEAGE_ELSEWHERE)
                return arena_printf(
                        groups->arena,
                        "the lineage %s of another state, which may live (%s): unless --allow lineage-lives "
                        "says that it is lost, berth state adopt refuses",
                        lineage, said);
        return NULL;
}

static struct orphan_group *group_of(struct orphan_groups *groups, const struct orphan *orphan) {
        bool others = orphan->lineage && !is_own(groups, orphan->lineage);
        struct orphan_group group = { .of = orphan->part     ? ORPHANS_PARTS
                                            : orphan->unread ? ORPHANS_UNREAD
                                                             : ORPHANS_NOBODYS };

        /* One note is read for each lineage. */
        for (size_t i = 0; i < groups->count && others; i++) {
                if (groups->items[i].lineage && strcmp(groups->items[i].lineage, orphan->lineage) == 0) {
                        if (groups->items[i].said)
                                return &groups->items[i];
                        others = false;
                }
        }
        if (others) {
                struct orphan_group judged = { .lineage = orphan->lineage, .of = ORPHANS_OTHERS };

                judged.said = words_of_adopt(groups, orphan->lineage);
                groups->items =
                        array_grow(groups->arena, groups->items, groups->count, sizeof(*groups->items));
                groups->items[groups->count++] = judged;
                if (judged.said)
                        return &groups->items[groups->count - 1];
        }
        for (size_t i = 0; i < groups->count; i++) {
                if (groups->items[i].of == group.of)
                        return &groups->items[i];
        }
        groups->items = array_grow(groups->arena, groups->items, groups->count, sizeof(*groups->items));
        groups->items[groups->count] = group;
        return &groups->items[groups->count++];
}

static void warn_of_group(const struct orphan_group *group, struct plan *plan, struct arena *arena) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        bool one = group->count == 1;

        if (group->of == ORPHANS_PARTS)
                strbuf_printf(&text,
                              "%zu %s left of resources that are in no state and no manifest: %s not "
                              "managed. Declare the resource again and take it back to have Berth remove "
                              "%s, or delete %s by hand",
                              group->count,
                              one ? "thing with this stack's marks is" : "things with this stack's marks are",
                              one ? "it is" : "they are", one ? "it" : "them", one ? "it" : "them");
        else if (group->of == ORPHANS_UNREAD)
                strbuf_printf(
                        &text,
                        "%zu %s under this stack's name and %s in no state and no manifest; whose %s was "
                        "not read: berth state adopt says it of each that is named",
                        group->count, one ? "record lies" : "records lie", one ? "stands" : "stand",
                        one ? "it is" : "they are");
        else if (group->of == ORPHANS_OTHERS)
                strbuf_printf(&text, "%zu %s this stack's name and %s %s", group->count,
                              one ? "resource carries" : "resources carry", group->said, one ? "it" : "them");
        else
                strbuf_printf(&text,
                              "%zu %s this stack's marks and %s in no state and no manifest, so %s not "
                              "managed; berth state adopt takes %s into the state",
                              group->count, one ? "resource carries" : "resources carry",
                              one ? "stands" : "stand", one ? "it is" : "they are", one ? "it" : "them");
        for (size_t i = 0; i < group->count; i++)
                strbuf_printf(&text, "\n%s", group->names[i]);
        plan_warn(arena, plan, arena_strdup(arena, strbuf_text(&text)));
}

static void sort_texts(const char **texts, size_t count) {
        if (count > 1)
                qsort(texts, count, sizeof(*texts), sorted_compare_texts);
}

void lineage_note_orphans(const struct plan_args *args, struct plan *plan, struct arena *arena) {
        const struct lineage_ops *ops = args->provider_ops->lineage;
        struct orphan_groups groups = { .args = args, .arena = arena };
        const struct orphan *orphans = NULL;
        const char *taken;
        struct error ignored;
        size_t count = 0;

        if (ops && args->refresh != PLAN_REFRESH_NONE)
                ops->orphans(args->provider, &orphans, &count);
        if (count == 0)
                return;
        if (state_load_meta(args->state, "taken", arena, &taken, &ignored) < 0)
                taken = NULL;
        groups.taken = split(taken, arena);
        plan->orphans = arena_array(arena, count, sizeof(*plan->orphans));
        plan->others_orphans = arena_array(arena, count, sizeof(*plan->others_orphans));
        plan->remnants = arena_array(arena, count, sizeof(*plan->remnants));
        for (size_t i = 0; i < count; i++) {
                struct orphan_group *group = group_of(&groups, &orphans[i]);
                const char *name =
                        arena_printf(arena, "%s/%s", kinds[orphans[i].kind]->name, orphans[i].name);

                if (orphans[i].part)
                        name = arena_printf(arena, "%s of %s", orphans[i].part, name);
                group->names = array_grow(arena, group->names, group->count, sizeof(*group->names));
                group->names[group->count++] = name;
                if (group->of == ORPHANS_OTHERS)
                        plan->others_orphans[plan->others_orphan_count++] = name;
                else if (group->of == ORPHANS_PARTS)
                        plan->remnants[plan->remnant_count++] = name;
                else
                        plan->orphans[plan->orphan_count++] = name;
        }
        sort_texts(plan->orphans, plan->orphan_count);
        sort_texts(plan->others_orphans, plan->others_orphan_count);
        sort_texts(plan->remnants, plan->remnant_count);
        for (size_t i = 0; i < groups.count; i++) {
                sort_texts(groups.items[i].names, groups.items[i].count);
                if (groups.items[i].count > 0)
                        warn_of_group(&groups.items[i], plan, arena);
        }
}

int lineage_renew(const struct plan_args *args, struct error *err) {
        const struct lineage_ops *ops = args->provider_ops->lineage;

        /* A stack that is being taken down need not be said to live. */
        return ops ? ops->renew(args->provider, !args->destroy, err) : 0;
}
