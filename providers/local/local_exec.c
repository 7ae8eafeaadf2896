/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of code: the records say what the environment and the agent allow, the slots say whether there is room now,
 * and providers/local/sandbox runs it. This file turns the first into a description for the last, and its result into
 * exec_result.
 */
#include "providers/local/local_exec.h"

#include "base/clock.h"
#include "base/files.h"
#include "providers/local/exec_files.h"
#include "providers/local/exec_slots.h"
#include "providers/local/images/image_program.h"
#include "providers/local/images/local_images.h"
#include "providers/local/local_program.h"
#include "providers/local/sandbox/sandbox.h"
#include "providers/local/sandbox/sandbox_keeper.h"

#include <string.h>
#include <unistd.h>

struct exec_ahead {
        struct sandbox_keeper keeper;
};

struct exec {
        const char *root;
        const struct exec_request *request;
        struct arena *arena;
        struct local_program program;
        int image; /* held; -1 without one */
        struct exec_slot agent_slot, environment_slot;
        struct exec_result *result;
};

static void end_exec(struct exec *exec) {
        close_descriptor(&exec->image);
        exec_slot_release(&exec->agent_slot);
        exec_slot_release(&exec->environment_slot);
}

/*
 * A run without a limit leaves no file: a run of such an environment writes nothing into the data
 * root.
 */
static int take_slot(struct exec *exec, const char *kind, const char *name, const struct exec_use *limits,
                     bool reject, struct exec_slot *ret, struct error *err) {
        struct exec_use use = { 1, exec->program.memory_mb, exec->program.cpu_millis };
        const char *folder = arena_printf(exec->arena, "%s/running/%s/%s", exec->root, kind, name);
        const char *whose = arena_printf(exec->arena, "%s/%s", kind, name);

        if (limits->runs < 0 && limits->memory_mb < 0 && limits->cpu_millis < 0)
                return 0;
        /*
         * A run that has to wait for a slot, perhaps for hours, keeps no worker and no namespaces
         * meanwhile.
         */
        if (!reject && exec->request->ahead) {
                struct error full = { 0 };

                if (exec_slot_take(folder, whose, &use, limits, true, &clock_system, ret, &full) == 0)
                        return 0;
                local_exec_ahead_end(exec->request->ahead);
        }
        return exec_slot_take(folder, whose, &use, limits, reject, &clock_system, ret, err);
}

/* An environment's reserved concurrency turns work away, as it does on AWS; an agent's limits do as the agent says. */
static int take_slots(struct exec *exec, struct error *err) {
        const struct local_agent *agent = &exec->program.agent;
        /*
         * Its CPUs are no reason to wait: all that runs for it shares them (sandbox_family). Nor is its memory, which is the most that
         * one sandbox gets (local_program).
         */
        struct exec_use by_agent = { agent->containers, -1, -1 },
                        by_environment = { exec->program.environment.reserved_concurrency, -1, -1 };

        if (take_slot(exec, "Environment", exec->program.environment.name, &by_environment, true,
                      &exec->environment_slot, err) < 0)
                return -1;
        return exec->request->agent ? take_slot(exec, "Agent", exec->request->agent, &by_agent, agent->reject,
                                                &exec->agent_slot, err)
                                    : 0;
}

/*
 * The sandbox calls this and collect_files() while the workspace is mounted: before the program starts, and after all of it is
 * dead.
 */
static int fill_workspace(void *context, const struct sandbox_workspace *workspace, struct error *err) {
        const struct exec *exec = context;

        return exec_files_put(workspace, exec->request->files, exec->request->file_count, err);
}

static int collect_files(void *context, const struct sandbox_workspace *workspace, struct error *err) {
        struct exec *exec = context;

        if (!exec->request->out)
                return 0;
        return exec_files_get(workspace, exec->request,
                              (uint64_t)exec->program.environment.storage_mb * LOCAL_BYTES_PER_MB,
                              exec->arena, &exec->result->files, &exec->result->file_count, err);
}

/* The last one of a name counts, as it does in the program's own environment. */
static const char *variable(const struct sandbox_variable *list, size_t count, const char *name,
                            const char *otherwise) {
        for (size_t i = count; i-- > 0;) {
                if (strcmp(list[i].name, name) == 0)
                        return list[i].text;
        }
        return otherwise;
}

/* What runs the code must be there; otherwise bubblewrap alone would say so, in its own words. */
static int check_program(const struct exec *exec, const struct sandbox_spec *spec, struct error *err) {
        const char *path = variable(spec->image_variables, spec->image_variable_count, "PATH", SANDBOX_PATH);
        const char *program = spec->argv[0];

        path = variable(spec->variables, spec->variable_count, "PATH", path);
        if (!spec->image_root || image_program_exists(spec->image_root, path, program))
                return 0;
        return error_set(err, "Environment/%s: the image %s has no %s in its PATH (%s)%s",
                         exec->program.environment.name, exec->program.environment.image, program, path,
                         strcmp(program, "python3") == 0
                                 ? ": use an image with Python, or --lang sh where it has a shell"
                                 : "");
}

/*
 * The code is a file, not an argument: it may be larger than what a command line can hold, and `ps` shows none of it.
 */
static void describe_program(const struct exec *exec, struct sandbox_spec *spec) {
        const struct exec_request *request = exec->request;
        struct sandbox_file *code = arena_alloc(exec->arena, sizeof(*code));
        const char **argv = arena_array(exec->arena, request->argument_count + 3, sizeof(*argv));

        *code = (struct sandbox_file){ request->code_name, request->code, request->code_length };
        argv[0] = strcmp(request->language, "python") == 0 ? "python3" : request->language;
        argv[1] = arena_printf(exec->arena, "/run/berth/%s", request->code_name);
        for (size_t i = 0; i < request->argument_count; i++)
                argv[2 + i] = request->arguments[i];
        spec->argv = argv;
        spec->files = code;
        spec->file_count = 1;
}

static void describe_run(struct exec *exec, struct sandbox_spec *spec) {
        const struct exec_request *request = exec->request;
        int64_t deadline_ms = local_least(exec->program.environment.timeout_s * 1000,
                                          request->deadline_ms ? request->deadline_ms : -1);

        local_program_describe(&exec->program, deadline_ms, exec->arena, spec, &exec->result->withheld,
                               &exec->result->withheld_count);
        exec->result->elsewhere = exec->program.environment.elsewhere;
        exec->result->elsewhere_count = exec->program.environment.elsewhere_count;
        spec->launcher = request->launcher;
        spec->accept_degraded = request->accept_degraded;
        spec->input = request->input;
        spec->interrupt = request->interrupt;
        spec->ahead = request->ahead ? &request->ahead->keeper : NULL;
        spec->fill = request->file_count > 0 ? fill_workspace : NULL;
        spec->collect = collect_files;
        spec->context = exec;
        describe_program(exec, spec);
        exec->result->limits = (struct exec_limits){
                .memory_mb = exec->program.memory_mb,
                .cpu_millis = exec->program.cpu_millis,
                .processes = LOCAL_PROCESSES_MAX,
                .workspace_mb = exec->program.environment.storage_mb,
                .files = LOCAL_FILES_MAX,
                .timeout_seconds = (deadline_ms + 999) / 1000,
        };
}

/* "No such file" of a program that is there means its loader, or the interpreter of a script. */
static int explain_start(const struct exec *exec, const struct sandbox_spec *spec, struct error *err) {
        if (!spec->image_root || !strstr(err->message, "execvp"))
                return -1;
        return error_context(
                err,
                "Environment/%s: the image %s has %s, but not what starts it (its loader, or the "
                "interpreter of a script)",
                exec->program.environment.name, exec->program.environment.image, spec->argv[0]);
}

/*
 * The locks go to the run's process 1, and are not ours any more: a slot is free when the run is
 * dead, not when we are, and not later either, while we wait for a slow reader of the output.
 */
static void pass_slots(struct exec *exec, int held[2], struct sandbox_spec *spec) {
        struct exec_slot *slots[] = { &exec->agent_slot, &exec->environment_slot };

        for (size_t i = 0; i < 2; i++) {
                if (slots[i]->file >= 0)
                        held[spec->held_count++] = exec_slot_pass(slots[i]);
        }
        spec->held = held;
}

static void tell_reached(const struct tally *reached, struct exec *exec) {
        struct exec_reached *list;

        if (!reached)
                return;
        list = arena_array(exec->arena, reached->count + 1, sizeof(*list));
        for (size_t i = 0; i < reached->count; i++) {
                const struct tally_line *line = &reached->lines[i];

                list[i] = (struct exec_reached){
                        .host = line->host[0] ? line->host : NULL,
                        .port = line->port,
                        .outcome = line->outcome[0] ? line->outcome : NULL,
                        .connections = line->connections,
                        .sent_bytes = line->sent_bytes,
                        .received_bytes = line->received_bytes,
                };
        }
        exec->result->reached = list;
        exec->result->reached_count = reached->count;
}

/* The image is held before it is looked into, so that no removal can empty it under the run. */
static int run_sandbox(struct exec *exec, struct error *err) {
        const struct exec_request *request = exec->request;
        int held[2];
        struct output output OUTPUT_CLEANUP = { 0 }, errors OUTPUT_CLEANUP = { 0 };
        struct sandbox_sinks sinks = { { request->output, NULL }, { request->errors, NULL } };
        struct sandbox_result ended;
        struct sandbox_spec spec;

        if (exec->program.environment.image_root &&
            (exec->image = local_image_hold(exec->program.environment.image_root, err)) < 0)
                return -1;
        describe_run(exec, &spec);
        if (check_program(exec, &spec, err) < 0)
                return -1;
        pass_slots(exec, held, &spec);
        if (request->capture) {
                output_init(&output, true);
                output_init(&errors, true);
                sinks.output.output = &output;
                sinks.errors.output = &errors;
        }
        if (sandbox_run(&spec, &sinks, exec->arena, &ended, err) < 0)
                return explain_start(exec, &spec, err);
        if (request->capture) {
                output_finish(&output, exec->arena, &exec->result->output);
                output_finish(&errors, exec->arena, &exec->result->errors);
        }
        exec->result->exit_code = ended.exit_code;
        exec->result->reason = ended.reason;
        exec->result->wall_ms = ended.wall_ms;
        exec->result->cpu_ms = ended.cpu_ms;
        exec->result->peak_memory_bytes = ended.peak_memory_bytes;
        tell_reached(ended.reached, exec);
        exec->result->degraded = ended.degraded;
        exec->result->degraded_count = ended.degraded_count;
        return 0;
}

/* An ordinary user may need systemd for it: the cgroup will say. */
struct exec_ahead *local_exec_ahead(struct arena *arena) {
        static const char *const no_launcher[] = { NULL };
        struct exec_ahead *ahead = arena_alloc(arena, sizeof(*ahead));
        struct error ignored = { 0 };

        ahead->keeper = (struct sandbox_keeper)SANDBOX_KEEPER_NONE;
        if (geteuid() != 0)
                return NULL;
        if (sandbox_keeper_start(&ahead->keeper, no_launcher, &ignored) == 0)
                return ahead;
        local_exec_ahead_end(ahead);
        return NULL;
}

void local_exec_ahead_end(struct exec_ahead *ahead) {
        if (ahead)
                sandbox_keeper_end(&ahead->keeper, 0);
}

int local_exec(const char *root, const struct exec_request *request, struct arena *arena,
               struct exec_result *ret, struct error *err) {
        struct exec_result result = { 0 };
        struct exec exec __attribute__((cleanup(end_exec))) = {
                .root = root,
                .request = request,
                .arena = arena,
                .image = -1,
                .agent_slot = EXEC_SLOT_NONE,
                .environment_slot = EXEC_SLOT_NONE,
                .result = &result,
        };

        if ((request->out && exec_files_check(request, err) < 0) ||
            local_program_load(root, request->environment, request->agent, arena, &exec.program, err) < 0)
                return -1;
        if (take_slots(&exec, err) < 0 || run_sandbox(&exec, err) < 0)
                return -1;
        *ret = result;
        return 0;
}
