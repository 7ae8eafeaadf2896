/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what works here and says how to get the rest: a row for each check; exit code 1 where one fails. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/library.h"
#include "base/terminal.h"
#include "cli/launcher.h"
#include "cli/perform.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "client/client.h"
#include "process/cage.h"
#include "process/process.h"
#include "providers/aws/checklist/checklist.h"
#include "providers/examine.h"
#include "providers/local/local_layout.h"
#include "providers/local/session/session_examine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FINDINGS_MAX 48
#define DETAIL_COLUMN 18

struct examination {
        struct session session;
        const struct options *options;
        struct finding findings[FINDINGS_MAX];
        size_t count;
};

static void add_finding(struct examination *examination, const char *name, bool works, const char *detail) {
        if (examination->count < FINDINGS_MAX)
                examination->findings[examination->count++] =
                        (struct finding){ .name = name, .works = works, .detail = detail };
}

static void add_failure(struct examination *examination, const char *name, const struct error *err) {
        add_finding(examination, name, false, arena_strdup(examination->session.arena, err->message));
}

/*
 * The libraries that are loaded on first use: only this check finds a missing one before it is needed. False where that is one without
 * which nothing else can be looked at: a hash cannot fail, and ends the program.
 */
static bool examine_libraries(struct examination *examination) {
        static struct library libraries[] = {
                { .soname = LMDB_SONAME, .package = "liblmdb0", .purpose = "the state" },
                { .soname = CRYPTO_SONAME, .package = "libssl3", .purpose = "hashes" },
                { .soname = SSL_SONAME, .package = "libssl3", .purpose = "TLS of berth serve" },
                { .soname = CURL_SONAME, .package = "libcurl4", .purpose = "HTTP" },
                { .soname = XML_SONAME, .package = "libxml2", .purpose = "reading AWS's answers in XML" },
                { .soname = ARCHIVE_SONAME, .package = "libarchive13", .purpose = "local images" },
                { .soname = GIT2_SONAME, .package = "libgit2-1.5", .purpose = "berth controller" },
                { .soname = CARES_SONAME,
                  .package = "libc-ares2",
                  .purpose = "hosts that sandboxes may reach" },
                { .soname = EDIT_SONAME, .package = "libedit2", .purpose = "editing lines at a prompt" },
        };
        size_t count = sizeof(libraries) / sizeof(libraries[0]);
        bool all = true, hashes = true;

        for (size_t i = 0; i < count; i++) {
                struct error err;

                pthread_mutex_init(&libraries[i].lock, NULL);
                if (library_load(&libraries[i], &err) == 0)
                        continue;
                add_failure(examination, "libraries", &err);
                /* Lines come as they are typed then. */
                if (examination->count > 0)
                        examination->findings[examination->count - 1].optional =
                                strcmp(libraries[i].soname, EDIT_SONAME) == 0;
                all = false;
                hashes = hashes && strcmp(libraries[i].soname, CRYPTO_SONAME) != 0;
        }
        if (all)
                add_finding(examination, "libraries", true,
                            arena_printf(examination->session.arena, "all %zu can be loaded", count));
        if (!hashes)
                add_finding(examination, "the rest", false, "cannot be looked at without " CRYPTO_SONAME);
        return hashes;
}

/* What reads strangers' data for us (Git repositories, images) is kept from our files by this. */
static void examine_cages(struct examination *examination) {
        unsigned version = cage_landlock();
        const char *detail =
                version == 0
                        ? geteuid() == 0
                                  ? "this kernel has no Landlock: as root no repository and no image is read; use "
                                    "another user, or a kernel from 5.19 on with lsm=landlock"
                                  : "this kernel has no Landlock: what reads repositories and images can reach all "
                                    "files of this user; a kernel from 5.19 on with lsm=landlock keeps it from them"
                : version < 6
                        ? arena_printf(
                                  examination->session.arena,
                                  "Landlock version %u%s: what reads repositories and images sees its own files alone",
                                  version, version < 4 ? " (ports of the network: from Linux 6.7 on)" : "")
                        : arena_printf(
                                  examination->session.arena,
                                  "Landlock version %u: what reads repositories and images sees its own files, and "
                                  "connects to its server, alone",
                                  version);

        add_finding(examination, "cages", version > 0, detail);
        /* An ordinary user was already told, and goes without. */
        if (examination->count > 0)
                examination->findings[examination->count - 1].optional = geteuid() != 0;
}

/* Optional programs, which some commands use or tell people to use. */
static void examine_tools(struct examination *examination) {
        static const struct {
                const char *name, *package, *purpose;
                bool users_only;
        } tools[] = {
                { "mmdebstrap", "mmdebstrap", "berth image build", false },
                { "newuidmap", "uidmap", "berth image build by an ordinary user", true },
                { "skopeo", "skopeo", "copying images between registries, files and this machine", false },
        };
        const char *path = getenv("PATH");

        for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
                struct arena *arena = examination->session.arena;
                bool there = process_find_program(tools[i].name, PROCESS_SYSTEM_FOLDERS, arena) ||
                             (path && process_find_program(tools[i].name, path, arena));

                if (tools[i].users_only && geteuid() == 0)
                        continue;
                add_finding(examination, tools[i].name, there,
                            arena_printf(examination->session.arena,
                                         there ? "for %s" : "optional, for %s: apt-get install %s",
                                         tools[i].purpose, tools[i].package));
                if (examination->count > 0)
                        examination->findings[examination->count - 1].optional = true;
        }
}

static bool examine_manifests(struct examination *examination) {
        struct session *session = &examination->session;
        struct load_options load = session_load_options(examination->options);
        struct error err;

        load.missing_environments = true;
        if (manifests_load(examination->options->path, &load, session->arena, &session->manifests,
                           &session->diagnostics, &err) < 0) {
                if (err.kind == ERROR_DIAGNOSED)
                        add_finding(examination, "manifests", false,
                                    arena_printf(session->arena, "%s: berth validate -f %s shows them",
                                                 err.message, examination->options->path));
                else
                        add_failure(examination, "manifests", &err);
                return false;
        }
        add_finding(examination, "manifests", true,
                    arena_printf(session->arena, "%zu %s in %zu %s", session->manifests.count,
                                 session->manifests.count == 1 ? "resource" : "resources",
                                 session->manifests.file_count,
                                 session->manifests.file_count == 1 ? "file" : "files"));
        return true;
}

/* Reads only: a state in use can be examined while a run uses it. */
static void examine_state(struct examination *examination) {
        struct session *session = &examination->session;
        const char **problems;
        struct lease_holder *holder;
        struct error err;
        uint64_t serial;
        size_t count;

        if ((!session->state && session_open_state(session, examination->options, STATE_READ, &err) < 0) ||
            state_serial(session->state, &serial, &err) < 0 ||
            state_verify(session->state, session->arena, &problems, &count, &err) < 0 ||
            state_lease_show(session->state, session->arena, &holder, &err) < 0) {
                add_failure(examination, "state", &err);
                return;
        }
        add_finding(examination, "state", count == 0,
                    count ? problems[0]
                    : state_lineage(session->state)[0]
                            ? arena_printf(session->arena, "%s, serial %llu", state_folder(session->state),
                                           (unsigned long long)serial)
                            : arena_printf(session->arena, "none yet; it will be %s",
                                           state_folder(session->state)));
        if (holder)
                add_finding(examination, "lock", holder->alive,
                            arena_printf(session->arena,
                                         holder->alive ? "held by process %ld (%s)"
                                                       : "left by the dead process %ld (%s): the next run "
                                                         "takes it over",
                                         holder->pid, holder->command ? holder->command : "?"));
}

/* Whether the credentials work is asked of the provider itself: one call that changes nothing. */
static void examine_provider(struct examination *examination) {
        struct session *session = &examination->session;
        struct caller_identity identity;
        struct error err;

        if (session_open_provider(session, examination->options, &err) < 0) {
                add_failure(examination, "provider", &err);
                return;
        }
        add_finding(examination, "provider", true, session->provider_ops->name);
        if (session->provider_ops->identify(session->provider, session->arena, &identity, &err) < 0) {
                add_failure(examination, "access", &err);
                return;
        }
        add_finding(examination, "access", true,
                    arena_printf(session->arena, "%s in %s%s%s",
                                 identity.account ? identity.account : "this machine",
                                 identity.region ? identity.region : "-", identity.principal ? " as " : "",
                                 identity.principal ? identity.principal : ""));
}

/* The provider's own checks of its place. The self-test fails where the provider runs no code here. */
static void examine_place(struct examination *examination) {
        const struct session *session = &examination->session;
        bool test = examination->options->self_test;
        size_t count = 0;

        if (session->provider_ops && session->provider_ops->examine && session->provider)
                session->provider_ops->examine(session->provider, test, session->arena,
                                               examination->findings + examination->count,
                                               FINDINGS_MAX - examination->count, &count);
        examination->count += count;
        if (test && !(session->provider_ops && session->provider_ops->exec))
                add_finding(examination, "self-test", false,
                            "only the local provider has one: --provider local");
}

/* Where the worker's socket of the session that is tried lies: beside those of servers, and short as theirs. */
static const char *tried_folder(struct arena *arena) {
        const char *own = getenv("XDG_RUNTIME_DIR");

        if (geteuid() == 0)
                return arena_printf(arena, "/run/berth/doctor-%ld", (long)getpid());
        if (own && *own == '/' && strlen(own) < 24)
                return arena_printf(arena, "%s/berth/doctor-%ld", own, (long)getpid());
        return arena_printf(arena, "/tmp/berth-doctor-%ld", (long)getpid());
}

/* Those that were applied here, by this provider. The state's own mistakes are told by examine_state(). */
static const char *const *applied_environments_of(struct examination *examination, const char *provider,
                                                  size_t *ret_count) {
        struct session *session = &examination->session;
        const char **names;
        struct record *records;
        struct error ignored;
        size_t count;

        *ret_count = 0;
        if ((!session->state &&
             session_open_state(session, examination->options, STATE_READ, &ignored) < 0) ||
            state_load_records(session->state, session->arena, &records, &count, &ignored) < 0)
                return NULL;
        names = arena_array(session->arena, count + 1, sizeof(*names));
        for (size_t i = 0; i < count; i++) {
                if (strncmp(records[i].address, "Environment/", 12) == 0 &&
                    strcmp(records[i].provider, provider) == 0 && !records[i].incomplete)
                        names[(*ret_count)++] = records[i].address + 12;
        }
        return names;
}

/* NULL: none was. */
static const char *applied_environment(struct examination *examination) {
        size_t count;
        const char *const *names = applied_environments_of(examination, "local", &count);

        return count > 0 ? names[0] : NULL;
}

/* The checklist makes resources in an AWS account, so the user confirms first. */
static int agree_to_checklist(const struct examination *examination, struct error *err) {
        if (!examination->options->aws)
                return 0;
        return perform_ask(
                examination->options,
                "This makes a function of Lambda, a repository of ECR, some objects in the stack's bucket and "
                "records in its table, invokes the function a few times, and removes all of it again. It takes "
                "a minute or two, and costs less than a cent.",
                err);
}

/* Only with --aws: it is the provider's whole place, seen from outside. */
static void examine_account(struct examination *examination) {
        struct session *session = &examination->session;
        struct aws_checklist checklist = { .provider = session->provider };
        size_t count = 0;

        if (!examination->options->aws)
                return;
        if (!session->provider || strcmp(session->provider_ops->name, "aws") != 0) {
                add_finding(examination, "checklist", false,
                            "nothing of it was tried: --aws is for a stack of `provider: aws`");
                return;
        }
        checklist.environments = applied_environments_of(examination, "aws", &checklist.environment_count);
        aws_checklist_run(&checklist, session->arena, examination->findings + examination->count,
                          FINDINGS_MAX - examination->count, &count);
        examination->count += count;
}

/*
 * Reported only while a server has them enabled: not a mistake, but the machine's administrator
 * should know.
 */
static void examine_shell(struct examination *examination, struct client *client) {
        const struct client_call call = { .method = "GET", .path = "/panel/self" };
        json_t *self JSON_CLEANUP = NULL;
        struct error ignored;

        if (!client || client_ask(client, &call, &self, &ignored) < 0 ||
            !json_is_true(json_object_get(json_object_get(self, "serves"), "approvals")))
                return;
        add_finding(examination, "shell", false,
                    "on: agents ask for commands on this host, which run once a person has approved them."
                    " Clients on the server's Unix socket may ask and approve: give programs that must "
                    "not approve a token, and run them as another user");
        if (examination->count > 0)
                examination->findings[examination->count - 1].optional = true;
}

/* Whether a server runs for this state is no mistake either way. */
static void examine_server(struct examination *examination, const char *folder) {
        const struct client_call call = { .method = "GET", .path = "/v1/sessions?limit=1" };
        struct client *client CLIENT_CLEANUP = NULL;
        struct error err;

        if (client_open(folder, "berth serve", &client, &err) < 0 ||
            client_ask(client, &call, NULL, &err) < 0)
                add_finding(examination, "server", false,
                            arena_strdup(examination->session.arena, err.message));
        else
                add_finding(examination, "server", true,
                            arena_printf(examination->session.arena, "one serves sessions on %s/serve.sock",
                                         folder));
        if (examination->count > 0)
                examination->findings[examination->count - 1].optional = true;
        examine_shell(examination, client);
}

/* Sessions run where code runs at all; one is tried with --self-test, since it starts what costs as much as any. */
static void examine_sessions(struct examination *examination) {
        struct session *session = &examination->session;
        const char *folder = session_state_folder(session, examination->options);
        struct session_examining examining = { .sockets = tried_folder(session->arena),
                                               .launcher = launcher_usual() };
        size_t count = 0;

        if (!session->provider_ops || strcmp(session->provider_ops->name, "local") != 0)
                return;
        examining.root = local_root(folder, session->manifests.stack->name, session->arena);
        if (examination->options->self_test)
                examining.environment = applied_environment(examination);
        session_examine(&examining, session->arena, examination->findings + examination->count,
                        FINDINGS_MAX - examination->count, &count);
        examination->count += count;
        if (examination->options->self_test && !examining.environment) {
                add_finding(examination, "session", false,
                            "none was tried, since no environment was applied here yet: berth apply");
                examination->findings[examination->count - 1].optional = true;
        }
        examine_server(examination, folder);
}

static void print_findings(const struct examination *examination) {
        for (size_t i = 0; i < examination->count; i++) {
                const struct finding *finding = &examination->findings[i];
                enum style style = finding->works      ? STYLE_GREEN
                                   : finding->optional ? STYLE_YELLOW
                                                       : STYLE_RED;

                printf("  %s%-4s%s %-10s ", terminal_style(stdout, style),
                       finding->works      ? "ok"
                       : finding->optional ? "-"
                                           : "no",
                       terminal_style(stdout, STYLE_PLAIN), finding->name);
                terminal_print_line(stdout, finding->detail, DETAIL_COLUMN, DETAIL_COLUMN);
        }
}

static json_t *findings_json(const struct examination *examination, bool works) {
        json_t *list = json_array();

        for (size_t i = 0; i < examination->count; i++) {
                const struct finding *finding = &examination->findings[i];

                json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:o}", "name", finding->name, "works",
                                                      finding->works, "optional", finding->optional, "detail",
                                                      json_from_text(finding->detail)));
        }
        return json_pack("{s:b, s:o}", "works", works, "findings", list);
}

int verb_doctor(const struct options *options, struct error *err) {
        struct examination examination = { .options = options };
        bool works = true;

        if (agree_to_checklist(&examination, err) < 0)
                return -1;
        session_init(&examination.session);
        interrupt_install();
        add_finding(&examination, "berth", true, "version " BERTH_VERSION);
        if (examine_libraries(&examination)) {
                examine_cages(&examination);
                examine_tools(&examination);
                if (examine_manifests(&examination))
                        examine_provider(&examination);
                examine_place(&examination);
                examine_sessions(&examination);
                examine_state(&examination);
                examine_account(&examination);
        }
        for (size_t i = 0; i < examination.count; i++)
                works = works && (examination.findings[i].works || examination.findings[i].optional);
        if (options->json)
                print_json(findings_json(&examination, works));
        else
                print_findings(&examination);
        session_close(&examination.session);
        return works ? EXIT_DONE : EXIT_ERROR;
}
