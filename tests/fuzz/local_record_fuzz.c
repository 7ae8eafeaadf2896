/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local provider's files. The parts: a resource's record, a session's session.json, the image store's index. The
 * record is read as one of each kind, written, and read again; then all three lie where they belong and a sweep is made
 * that removes nothing.
 */
#include "base/files.h"
#include "parts.h"
#include "providers/local/images/local_images.h"
#include "providers/local/local_environment.h"
#include "providers/local/record.h"
#include "providers/local/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT "local/lab"

static void put(const char *path, const char *text) {
        FILE *file = fopen(path, "we");

        if (!file || (*text && fputs(text, file) == EOF) || fclose(file) != 0)
                abort();
}

static void set_up(void) {
        static const char *const folders[] = { ROOT "/policies", ROOT "/environments",
                                               ROOT "/registry/agents", ROOT "/images",
                                               ROOT "/workspaces/sessions/one/workspace" };
        struct error err;

        if (chdir(scratch_folder()) < 0)
                abort();
        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
                if (folder_make(folders[i], &err) < 0)
                        abort();
        }
        put(ROOT "/workspaces/sessions/one/workspace/file", "x");
}

static void parse(const char *bytes, size_t length, enum kind_id kind, struct arena *arena) {
        struct record_place place = { ROOT, "lab", kind, kind == KIND_STACK ? "lab" : "a" };
        struct local_record first = { .path = "it" }, second = { .path = "it" };
        struct error err;
        const char *text;

        if (record_parse(&place, bytes, length, arena, &first, &err) < 0) {
                if (err.message[0] == '\0')
                        abort();
                return;
        }
        (void)record_revision(&first, arena);
        text = record_text(&place, first.spec, arena);
        if (record_parse(&place, text, strlen(text), arena, &second, &err) < 0 ||
            second.ownership != OWNER_SELF)
                abort();
}

static void sweep(struct arena *arena) {
        struct sweep_report report;
        struct error err;

        if (sweep_run(ROOT, INT64_C(1769860800000), false, arena, &report, &err) < 0 &&
            err.message[0] == '\0')
                abort();
}

/* As `berth exec` does. */
static void load_for_exec(struct arena *arena) {
        struct local_environment environment;
        struct local_agent agent;
        struct error err;

        if (local_environment_load(ROOT, "a", arena, &environment, &err) == 0 &&
            (environment.memory_mb < 1 || environment.memory_mb > INT32_MAX || environment.timeout_s < 1 ||
             environment.timeout_s > INT32_MAX))
                abort();
        if (local_agent_load(ROOT, "a", arena, &agent, &err) == 0 && agent.cpus > INT32_MAX)
                abort();
}

static void look_for_image(struct arena *arena) {
        struct local_images images;
        struct local_image image;
        struct error err;

        if (local_images_open(ROOT "/images", arena, &images, &err) < 0)
                return;
        (void)local_image_find(&images, "team/app", "one", NULL, arena, &image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const enum kind_id kinds_here[] = { KIND_STACK,       KIND_IMAGE,
                                                   KIND_ENVIRONMENT, KIND_WORKSPACE_POLICY,
                                                   KIND_AGENT,       KIND_SWARM };
        static const char *const places[] = { ROOT "/policies/a.json", ROOT "/environments/a.json",
                                              ROOT "/registry/agents/a.json" };
        static bool ready;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct parts parts = parts_of(data, size);
        size_t length;
        char *record = parts_next(&parts, &length);
        char *session = parts_next_text(&parts), *index = parts_next_text(&parts);

        if (!ready)
                set_up();
        ready = true;
        for (size_t i = 0; i < sizeof(kinds_here) / sizeof(kinds_here[0]); i++)
                parse(record, length, kinds_here[i], arena);
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
                put(places[i], arena_strndup(arena, length ? record : "", length));
        put(ROOT "/workspaces/sessions/one/session.json", session);
        put(ROOT "/images/index.json", index);
        sweep(arena);
        load_for_exec(arena);
        look_for_image(arena);
        free(record);
        free(session);
        free(index);
        return 0;
}
