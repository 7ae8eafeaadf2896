/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_examine.h"

#include "base/files.h"
#include "providers/local/sandbox/sandbox_attempts.h"
#include "providers/local/sandbox/sandbox_keeper.h"
#include "providers/local/sandbox/sandbox_parts.h"
#include "providers/local/sandbox/seccomp_filter.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What programs are tried with: enough for the self-test. */
static const struct sandbox_limits tried = { .memory_bytes = UINT64_C(2) << 30,
                                             .cpu_millis = 1000,
                                             .processes = 512,
                                             .workspace_bytes = UINT64_C(64) << 20,
                                             .workspace_files = 1000 };

struct examination {
        struct arena *arena;
        struct finding *list;
        size_t count, max;
};

static void add_finding(struct examination *examination, const char *name, bool works, const char *detail) {
        if (examination->count < examination->max)
                examination->list[examination->count++] =
                        (struct finding){ .name = name, .works = works, .detail = detail };
}

static void add_error(struct examination *examination, const char *name, const struct error *err) {
        add_finding(examination, name, false, arena_strdup(examination->arena, err->message));
}

static void examine_bubblewrap(struct examination *examination) {
        const char *path, *version;
        struct error err;

        if (sandbox_find_bubblewrap(examination->arena, &path, &version, &err) < 0)
                add_error(examination, "bubblewrap", &err);
        else
                add_finding(examination, "bubblewrap", true,
                            arena_printf(examination->arena, "%s (%s)", version, path));
}

static void examine_seccomp(struct examination *examination) {
        int filter DESCRIPTOR_CLEANUP = -1;
        struct error err;
        struct stat status;

        if (seccomp_filter_open(&filter, &err) < 0)
                add_error(examination, "seccomp", &err);
        else if (access("/proc/sys/kernel/seccomp/actions_avail", F_OK) < 0 || fstat(filter, &status) < 0)
                add_finding(examination, "seccomp", false,
                            "this kernel has no filters of system calls (CONFIG_SECCOMP_FILTER)");
        else
                add_finding(examination, "seccomp", true,
                            arena_printf(examination->arena, "a filter of %lld instructions",
                                         (long long)status.st_size / 8));
}

static void examine_cgroups(struct examination *examination) {
        const struct sandbox_family family = { "d0c70", geteuid(), 2 * tried.cpu_millis };
        const struct cgroup_limits limits = sandbox_keeper_limits(&tried, &family, examination->arena);
        struct cgroup *group = cgroup_make(&limits, examination->arena);
        unsigned missing = cgroup_missing(group);

        if (missing)
                add_finding(examination, "cgroups", false,
                            arena_printf(examination->arena, "not enforced:%s%s%s: %s",
                                         missing & CGROUP_MEMORY ? " memory" : "",
                                         missing & CGROUP_CPU ? " CPU (nor what an agent's runs use together)"
                                                              : "",
                                         missing & CGROUP_PROCESSES ? " processes" : "",
                                         cgroup_problem(group)));
        else
                add_finding(examination, "cgroups", true,
                            arena_printf(examination->arena,
                                         "%s; what runs for an agent shares the agent's CPUs",
                                         cgroup_method(group)));
        cgroup_close(group);
}

static void examine_python(struct examination *examination) {
        bool there = access("/usr/bin/python3", X_OK) == 0 || access("/usr/local/bin/python3", X_OK) == 0;

        add_finding(
                examination, "python", there,
                there ? "of this machine's /usr, for the image prebuilt python"
                      : "this machine's /usr has no python3: install it, or import an image (berth image import)");
}

static int run_probe(struct examination *examination, const char *program, const char *code,
                     int64_t deadline_ms, struct output *output, struct sandbox_result *ret,
                     struct error *err) {
        const char *argv[] = { program, "/run/berth/main", NULL };
        struct sandbox_file file = { "main", code, strlen(code) };
        struct output errors OUTPUT_CLEANUP = { 0 };
        struct sandbox_spec spec = {
                .argv = argv,
                .files = &file,
                .file_count = 1,
                .limits = tried,
                .accept_degraded = true,
                .input = -1,
                .interrupt = interrupt_of_user(),
        };
        struct sandbox_sinks sinks = { { -1, output }, { -1, &errors } };

        spec.limits.deadline_ms = deadline_ms;
        output_init(&errors, false);
        return sandbox_run(&spec, &sinks, examination->arena, ret, err);
}

static void find_optional(struct examination *examination, const char *name, bool works, const char *detail) {
        add_finding(examination, name, works, detail);
        if (examination->count > 0)
                examination->list[examination->count - 1].optional = true;
}

/* Findings that depend on the machine, and for which nothing is refused: as a program saw them. */
static void examine_seen(struct examination *examination, const char *seen) {
        struct strbuf pattern STRBUF_CLEANUP = STRBUF_INIT;
        struct error ignored;
        bool pipes = file_read("/proc/sys/kernel/core_pattern", 4096, &pattern, &ignored) == 0 &&
                     strbuf_text(&pattern)[0] == '|',
             sockets = strbuf_text(&pattern)[0] == '@', kept = strstr(seen, "\ncore 1\n") != NULL;

        find_optional(
                examination, "files", strstr(seen, "\nroot overlay\n") != NULL,
                strstr(seen, "\nroot overlay\n")
                        ? "files of this machine are seen through an overlay of the run's own"
                        : "files of this machine are seen as they are, since the kernel gives no overlay here: "
                          "programs can learn when they are used, and tell each other things by locking them");
        find_optional(
                examination, "devices", strstr(seen, "\nshared device\n") == NULL,
                strstr(seen, "\nshared device\n") == NULL
                        ? "/dev/null and its like are the run's own"
                        : "/dev/null and its like are this machine's, since this user may not make any (root may): programs can "
                          "learn when they are used, make that slower, and tell each other things by locking them");
        find_optional(
                examination, "connections", strstr(seen, "\nbuffers 262144\n") != NULL,
                strstr(seen, "\nbuffers 262144\n")
                        ? "what waits in a sandbox's connections is bounded"
                        : "what waits in a sandbox's connections is not bounded: /proc/sys/net cannot be written");
        find_optional(
                examination, "core files", !sockets && (!pipes || kept),
                sockets ? "core_pattern names a socket: the program that listens there gets what a crash in a sandbox leaves"
                : !pipes ? "none are written for sandboxes"
                : kept   ? "core_pattern starts a program, but not for sandboxes"
                       : "core_pattern starts a program, as root, for each crash in a sandbox: ulimit -Hc is 0 "
                         "and must be 1 or more to keep it from that");
}

/* That user namespaces may be made, mounts in them, and all the rest: a program is run. */
static bool examine_run(struct examination *examination) {
        static const char code[] =
                "echo it runs\n"
                "while read -r id parent device root place rest; do\n"
                "  [ \"$place\" != /dev/null ] || echo 'shared device'\n"
                "  [ \"$place\" != /usr ] || { rest=\"${rest#* - }\"; echo \"root ${rest%% *}\"; }\n"
                "done < /proc/self/mountinfo\n"
                "set -- $(cat /proc/sys/net/ipv4/tcp_rmem); echo \"buffers $3\"\n"
                "while read -r max core file size limit rest; do\n"
                "  [ \"$core $file\" != 'core file' ] || echo \"core $limit\"\n"
                "done < /proc/self/limits\n";
        struct output output OUTPUT_CLEANUP = { 0 };
        struct sandbox_result result;
        struct error err;
        bool works;

        output_init(&output, false);
        if (run_probe(examination, "sh", code, 30000, &output, &result, &err) < 0) {
                add_error(examination, "sandbox", &err);
                return false;
        }
        works = result.exit_code == 0 && strncmp(strbuf_text(&output.kept), "it runs\n", 8) == 0;
        add_finding(examination, "sandbox", works,
                    works ? arena_printf(examination->arena, "a program ran, in %lld ms",
                                         (long long)result.wall_ms)
                          : "a program that should print something did not");
        if (works)
                examine_seen(examination, strbuf_text(&output.kept));
        return works;
}

static void test_attempts(struct examination *examination) {
        struct strbuf program STRBUF_CLEANUP = STRBUF_INIT, through STRBUF_CLEANUP = STRBUF_INIT;
        struct output output OUTPUT_CLEANUP = { 0 };
        struct sandbox_result result;
        struct error err;
        size_t count;

        output_init(&output, false);
        sandbox_attempts_program(&program);
        if (run_probe(examination, "python3", strbuf_text(&program), 120000, &output, &result, &err) < 0) {
                add_error(examination, "self-test", &err);
                return;
        }
        count = sandbox_attempts_judge(strbuf_text(&output.kept), &through);
        add_finding(
                examination, "self-test", count > 0,
                count > 0 ? arena_printf(examination->arena, "%zu ways out tried, all of them denied", count)
                          : arena_printf(examination->arena, "not seen to be denied: %s",
                                         strbuf_text(&through)));
}

/* What neither ends nor listens, and has left its parent, is ended by the deadline. */
static void test_deadline(struct examination *examination) {
        static const char code[] =
                "trap '' INT TERM HUP; (setsid sleep 600 &) ; echo on; while :; do sleep 600; done";
        struct output output OUTPUT_CLEANUP = { 0 };
        struct sandbox_result result;
        struct error err;
        bool works;

        output_init(&output, false);
        if (run_probe(examination, "sh", code, 1000, &output, &result, &err) < 0) {
                add_error(examination, "deadline", &err);
                return;
        }
        works = result.reason == EXEC_DEADLINE && strcmp(strbuf_text(&output.kept), "on\n") == 0;
        add_finding(examination, "deadline", works,
                    works ? "a run that will not end is ended, with all it started"
                          : "a run that will not end was not ended");
}

void sandbox_examine(bool test, struct arena *arena, struct finding *ret, size_t max, size_t *ret_count) {
        struct examination examination = { .arena = arena, .list = ret, .max = max };
        bool runs;

        examine_bubblewrap(&examination);
        examine_seccomp(&examination);
        examine_cgroups(&examination);
        examine_python(&examination);
        runs = examine_run(&examination);
        if (test && runs) {
                test_attempts(&examination);
                test_deadline(&examination);
        } else if (test) {
                add_finding(&examination, "self-test", false, "nothing can be tried: see above");
        }
        *ret_count = examination.count;
}
