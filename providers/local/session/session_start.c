/* SPDX-License-Identifier: Apache-2.0 */
/* A session's worker, found or started: what the records allow, and berth-runtime as the program. */
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "providers/local/exec_slots.h"
#include "providers/local/images/image_program.h"
#include "providers/local/images/local_images.h"
#include "providers/local/record.h"
#include "providers/local/sandbox/sandbox_keeper.h"
#include "providers/local/sandbox/sandbox_launched.h"
#include "providers/local/session/session_parts.h"

#include <string.h>
#include <sys/stat.h>

#define RUNTIME_MAX ((size_t)64 << 20)

/* Three quarters of the memory for data of one process: Python says so before the kernel kills, and its variables stay. */
#define RUNTIME_SHARE(bytes) ((bytes) / 4 * 3)

/*
 * A workspace that memory has room for, beside what code needs, is there: to mount one on a disk
 * takes some 40 ms, as long as all the rest, and takes up its whole size. A workspace that may be
 * larger than half of the memory is on a disk, or its quota would be a promise that the memory's
 * limit breaks.
 */
#define MEMORY_FOR_FILES 2

/*
 * Sessions and runs of an agent are counted together, by files that are locked as long as they live (exec_slots.h). A session uses up one
 * of the agent's containers and nothing else of its limits: its memory is bounded by itself, and CPUs are shared (sandbox_family).
 */
int session_slot_take(const struct session_place *place, const struct place_opening *opening,
                      const struct local_program *program, int *ret, struct error *err) {
        const struct exec_use use = { 1, 0, 0 }, limits = { program->agent.containers, -1, -1 };
        struct exec_slot slot EXEC_SLOT_CLEANUP = EXEC_SLOT_NONE;
        struct strbuf folder STRBUF_CLEANUP = STRBUF_INIT, whose STRBUF_CLEANUP = STRBUF_INIT;

        *ret = -1;
        if (!opening->agent || limits.runs < 0)
                return 0;
        strbuf_printf(&folder, "%s/running/Agent/%s", place->root, opening->agent);
        strbuf_printf(&whose, "Agent/%s", opening->agent);
        if (exec_slot_take(strbuf_text(&folder), strbuf_text(&whose), &use, &limits, true, &clock_system,
                           &slot, err) < 0) {
                if (err->kind == ERROR_REFUSED)
                        err->kind = ERROR_LOCKED;
                return -1;
        }
        *ret = exec_slot_pass(&slot);
        return 0;
}

static const char *agent_record(const struct session_place *place, const char *agent, struct arena *arena) {
        const struct record_place record = { place->root, local_stack_of(place->root), KIND_AGENT, agent };

        return record_path(&record, arena);
}

static bool agent_changed(const struct place_session *session, struct arena *arena, struct stat *ret) {
        return session->agent && stat(agent_record(session->place, session->agent, arena), ret) == 0 &&
               (ret->st_ctim.tv_sec != session->agent_written.tv_sec ||
                ret->st_ctim.tv_nsec != session->agent_written.tv_nsec);
}

bool session_cpus_have_changed(const struct place_session *session) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct stat status;

        return agent_changed(session, arena, &status);
}

void session_share_cpus(struct place_session *session) {
        const struct session_place *place = session->place;
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct local_agent agent;
        struct sandbox_family family;
        struct cgroup_limits of_group;
        struct stat status;
        struct error err = { 0 };

        if (agent_changed(session, arena, &status) &&
            local_agent_load(place->root, session->agent, arena, &agent, &err) == 0) {
                local_program_share(place->root, &agent, session->agent, arena, &family);
                of_group = sandbox_keeper_limits(&(struct sandbox_limits){ 0 }, &family, arena);
                if (place->launcher ? sandbox_launched_share(place->launcher, &family, &err) < 0
                                    : !cgroup_family_set(&of_group.family, true, arena))
                        log_warning("the CPUs of Agent/%s are not held as they were applied: %s",
                                    session->agent, err.message);
                /* What a launcher could not be told is told at the next execution. */
                session->agent_written =
                        place->launcher && err.message[0] ? (struct timespec){ 0 } : status.st_ctim;
        }
}

static int start_session(struct place_session *session, const struct place_opening *opening,
                         struct error *err) {
        struct session_place *place = session->place;
        struct arena *arena = arena_new();
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct sandbox_file runtime = { .name = "berth-runtime" };
        const char *argv[] = { "/run/berth/berth-runtime", "serve", "--memory", NULL, NULL };
        int image DESCRIPTOR_CLEANUP = -1, slot DESCRIPTOR_CLEANUP = -1, result = -1;
        const char *const *withheld;
        const struct place_shared whose = { opening->agent, opening->shares_files_of,
                                            session->program.environment.name };
        struct sandbox_shared shared = { -1, opening->listeners, opening->ports, opening->port_count };
        int network DESCRIPTOR_CLEANUP = session_network_of(session);
        struct error ignored;
        struct sandbox_spec spec;
        size_t count;

        local_program_describe(&session->program, opening->ttl_ms, arena, &spec, &withheld, &count);
        if (file_read(place->runtime, RUNTIME_MAX, &bytes, err) < 0)
                goto end;
        spec.launcher = place->launcher;
        if (session_slot_take(place, opening, &session->program, &slot, err) < 0 ||
            (spec.image_root && !place->launcher && (image = local_image_hold(spec.image_root, err)) < 0))
                goto end;
        argv[3] = arena_printf(arena, "%llu", (unsigned long long)RUNTIME_SHARE(spec.limits.memory_bytes));
        runtime.bytes = bytes.data;
        runtime.length = bytes.length;
        shared.network = network;
        spec.shared = session->shares ? &shared : NULL;
        spec.argv = argv;
        spec.files = &runtime;
        spec.file_count = 1;
        spec.accept_degraded = place->accept_degraded;
        if (place->workspaces && opening->agent && opening->shares_files_of) {
                int kept = session_kept_make(place, &whose, &spec.limits, err);

                if (kept < 0)
                        goto end;
                if (kept == 0)
                        session_kept_describe(place, &whose, &spec.limits, arena, &spec);
        }
        /* Beside the durable workspaces: on a disk that is meant for files. */
        if (spec.limits.workspace_bytes > spec.limits.memory_bytes / MEMORY_FOR_FILES &&
            folder_make(session->program.environment.workspaces, &ignored) == 0)
                spec.disk = session->program.environment.workspaces;
        if (sandbox_lasting_start(&spec, image, session->socket, session->arena, &session->lasting, err) < 0)
                goto end;
        result = slot < 0 ? 0 : sandbox_lasting_hold(&session->lasting, slot, err);
        if (result < 0)
                sandbox_lasting_end(&session->lasting);
end:
        arena_free(arena);
        return result;
}

int session_start(struct place_session *session, const struct place_opening *opening, struct error *err) {
        struct sandbox_limits limits;
        struct sandbox_spec spec;
        const char *const *withheld;
        struct error absent = { 0 };
        struct stat status;
        size_t count;

        session->agent = opening->agent ? arena_strdup(session->arena, opening->agent) : NULL;
        if (session->agent &&
            stat(agent_record(session->place, session->agent, session->arena), &status) == 0)
                session->agent_written = status.st_ctim;
        if (local_program_load(session->place->root, opening->environment, opening->agent, session->arena,
                               &session->program, err) < 0)
                return -1;
        local_program_describe(&session->program, opening->ttl_ms, session->arena, &spec, &withheld, &count);
        limits = spec.limits;
        if (sandbox_lasting_find(session->socket, &limits, opening->agent ? &spec.family : NULL,
                                 session->arena, &session->lasting, &absent) == 0) {
                session->kept = true;
                session->lasting.launcher = session->place->launcher;
                return 0;
        }
        if (absent.kind != ERROR_NOT_FOUND || opening->only_living) {
                *err = absent;
                return -1;
        }
        return start_session(session, opening, err);
}
