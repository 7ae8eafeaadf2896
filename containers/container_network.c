/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers of one owner, agent and environment have one network together: a loopback device, and nothing else. The first that is opened
 * makes it, and it stays as long as one of them has it. So the first is opened alone: two at once would make two networks.
 *
 * Each is told the names of all, as lines for its /etc/hosts: before its command begins, and when they change.
 */
#include "base/strbuf.h"
#include "containers/containers_parts.h"
#include "sessions/record.h"

#include <stdlib.h>
#include <string.h>

/* What a sandbox takes at once; others have no name there. */
#define NAMES_MAX ((size_t)128 << 10)

bool container_is_neighbour(const struct container *one, const struct container *other) {
        const struct container_record *a = &one->record, *b = &other->record;

        return strcmp(a->owner, b->owner) == 0 && strcmp(a->agent, b->agent) == 0 &&
               strcmp(a->environment, b->environment) == 0;
}

bool container_waits_for_neighbours(const struct container *container) {
        bool waits = false;

        for (const struct container *other = container->containers->first; other; other = other->next) {
                if (other == container || !container_is_neighbour(other, container))
                        continue;
                if (other->phase == CONTAINER_OPEN && other->opened && !other->ends)
                        return false;
                waits = waits || (other->rejoins && !other->record.gone) ||
                        other->phase == CONTAINER_OPENING ||
                        (other->phase == CONTAINER_OPEN && !other->opened);
        }
        return waits;
}

/* Names of owners and the like have no line ends. */
const char *container_network_name(const struct container *container, struct arena *arena) {
        const struct container_record *record = &container->record;

        return arena_printf(arena, "%s\n%s\n%s", record->owner, record->agent, record->environment);
}

void container_tell_names(struct container *container) {
        struct containers *containers = container->containers;
        const struct place_class *class = containers->config.place->class;
        struct strbuf lines STRBUF_CLEANUP = STRBUF_INIT;

        if (!class->name || container->phase != CONTAINER_OPEN || !container->opened ||
            container->names_version == containers->names_version)
                return;
        container->names_version = containers->names_version;
        for (const struct container *other = containers->first; other && lines.length < NAMES_MAX;
             other = other->next) {
                if (other->record.name && !other->record.gone && container_is_neighbour(other, container))
                        strbuf_printf(&lines, "127.0.0.1 %s.berth\n", other->record.name);
        }
        if (strcmp(container->names ? container->names : "", strbuf_text(&lines)) == 0)
                return;
        free(container->names);
        container->names = record_copy_text(strbuf_text(&lines));
        class->name(container->place, container->names);
}
