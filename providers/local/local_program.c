/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/local_program.h"

#include "base/digest.h"

#include <string.h>
#include <sys/stat.h>

#define FAMILY_DIGITS 32
/* As many as a launcher gives: more than any machine has. */
#define CPUS_MAX 1024

/* A specialist's environment is part of what it may do; any other agent's is only the default. */
static int load_agent(const char *root, const char *name, struct arena *arena, struct local_agent *agent,
                      const char **environment, struct error *err) {
        if (local_agent_load(root, name, arena, agent, err) < 0)
                return -1;
        if (!agent->active)
                return error_set_kind(err, ERROR_REFUSED, "Agent/%s is not active", name);
        if (!*environment)
                *environment = agent->environment;
        if (!*environment)
                return error_set(err, "Agent/%s is bound to no environment: say which, with --env", name);
        if (agent->specialist && agent->environment && strcmp(agent->environment, *environment) != 0)
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "Agent/%s is a specialist and works in Environment/%s, not in Environment/%s", name,
                        agent->environment, *environment);
        return 0;
}

int64_t local_least(int64_t value, int64_t limit) {
        return limit >= 0 && limit < value ? limit : value;
}

void local_program_share(const char *root, const struct local_agent *agent, const char *name,
                         struct arena *arena, struct sandbox_family *ret) {
        struct stat status = { 0 };
        const char *what;
        char *hex = arena_alloc(arena, SHA256_HEX_SIZE);

        (void)!stat(root, &status);
        what = arena_printf(arena, "%llu %llu %s", (unsigned long long)status.st_dev,
                            (unsigned long long)status.st_ino, name);
        digest_sha256_hex(what, strlen(what), hex);
        hex[FAMILY_DIGITS] = '\0';
        *ret = (struct sandbox_family){
                .name = hex,
                .owner = status.st_uid,
                .cpu_millis = agent->cpus < 0 ? 0 : (unsigned)local_least(agent->cpus, CPUS_MAX) * 1000,
        };
}

int local_program_load(const char *root, const char *environment, const char *agent, struct arena *arena,
                       struct local_program *ret, struct error *err) {
        struct local_program program = { .agent = { .cpus = -1, .memory_mb = -1, .containers = -1 } };
        int64_t cpu;

        if (agent && load_agent(root, agent, arena, &program.agent, &environment, err) < 0)
                return -1;
        if (local_environment_load(root, environment, arena, &program.environment, err) < 0)
                return -1;
        if (program.environment.image_problem)
                return error_set(err, "Environment/%s: %s", environment, program.environment.image_problem);
        cpu = (program.environment.memory_mb * 1000 + MEMORY_MB_PER_VCPU - 1) / MEMORY_MB_PER_VCPU;
        program.memory_mb = local_least(program.environment.memory_mb, program.agent.memory_mb);
        program.own_cpu_millis = cpu;
        program.cpu_millis = local_least(cpu, program.agent.cpus < 0 ? -1 : program.agent.cpus * 1000);
        if (agent)
                local_program_share(root, &program.agent, agent, arena, &program.family);
        *ret = program;
        return 0;
}

/* The image's variables, as its configuration has them: NAME=TEXT. */
static void describe_image(const struct local_environment *environment, struct arena *arena,
                           struct sandbox_spec *spec) {
        struct sandbox_variable *list =
                arena_array(arena, environment->image_variable_count + 1, sizeof(*list));

        for (size_t i = 0; i < environment->image_variable_count; i++) {
                const char *text = environment->image_variables[i], *equals = strchr(text, '=');

                list[i] = (struct sandbox_variable){ arena_strndup(arena, text, (size_t)(equals - text)),
                                                     equals + 1 };
        }
        spec->image_root = environment->image_root;
        spec->image_digest = environment->image_root ? environment->image_digest : NULL;
        spec->image_variables = list;
        spec->image_variable_count = environment->image_variable_count;
}

void local_program_describe(const struct local_program *program, int64_t deadline_ms, struct arena *arena,
                            struct sandbox_spec *ret, const char *const **ret_withheld,
                            size_t *ret_withheld_count) {
        const struct local_environment *environment = &program->environment;
        struct sandbox_variable *list = arena_array(arena, environment->variable_count + 1, sizeof(*list));
        const char **withheld = arena_array(arena, environment->variable_count + 1, sizeof(*withheld));

        *ret = (struct sandbox_spec){
                .limits = { .memory_bytes = (uint64_t)program->memory_mb * LOCAL_BYTES_PER_MB,
                            .cpu_millis = (unsigned)program->own_cpu_millis,
                            .processes = LOCAL_PROCESSES_MAX,
                            .workspace_bytes = (uint64_t)environment->storage_mb * LOCAL_BYTES_PER_MB,
                            .workspace_files = LOCAL_FILES_MAX,
                            .deadline_ms = deadline_ms },
                .family = program->family,
                .network = environment->network,
                .input = -1,
        };
        describe_image(environment, arena, ret);
        *ret_withheld_count = 0;
        for (size_t i = 0; i < environment->variable_count; i++) {
                list[i] = (struct sandbox_variable){ environment->variables[i].name,
                                                     environment->variables[i].text };
                if (!sandbox_takes_variable(list[i].name))
                        withheld[(*ret_withheld_count)++] = list[i].name;
        }
        *ret_withheld = withheld;
        ret->variables = list;
        ret->variable_count = environment->variable_count;
}
