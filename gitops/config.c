/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest of kind Controller, from typed values to the structs that the loop uses. The schema has checked each
 * field; here is checked what takes this machine: that files exist, can be read, and are not open to everybody if
 * they hold a secret. All mistakes are collected, each with its line, as everywhere.
 */
#include "gitops/config.h"

#include "base/files.h"
#include "schema/manifest.h"
#include "server/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)16 << 20)

struct reading {
        struct strbuf text; /* of that file; empty where it cannot be read twice */
        const char *path;   /* of the Controller's file, as it was named */
        const char *folder; /* that it lies in: "" for the present one, else ends in "/" */
        bool elsewhere;     /* it will run on another machine, whose files are not here */
        struct arena *arena;
        struct diagnostics *diagnostics;
};

/* A line of the file as it stands there, NULL where there is none. */
static const char *line_of(const struct reading *reading, uint32_t number) {
        const char *at = strbuf_text(&reading->text);

        for (uint32_t line = 1; line < number && *at; line++) {
                at += strcspn(at, "\n");
                at += *at == '\n';
        }
        return *at ? arena_strndup(reading->arena, at, strcspn(at, "\r\n")) : NULL;
}

static void add_diagnostic(struct reading *reading, const struct value *at, struct diagnostic diagnostic) {
        const char *text = value_text_of(at);

        diagnostic.file = reading->path;
        diagnostic.line = at->line;
        diagnostic.column = at->column;
        diagnostic.span = text && *text ? (uint32_t)strlen(text) : 1;
        diagnostics_add(reading->diagnostics, diagnostic);
}

static void add_error(struct reading *reading, const struct value *at, const char *message) {
        add_diagnostic(reading, at,
                       (struct diagnostic){ .message = message, .source_line = line_of(reading, at->line) });
}

/* The path of a file that must be there and be readable; NULL where none is given. */
static const char *file_at(struct reading *reading, const char *field, const struct value *value) {
        const char *text = value_text_of(value), *path;
        struct stat status;

        if (!text)
                return NULL;
        path = *text == '/' ? text : arena_printf(reading->arena, "%s%s", reading->folder, text);
        if (stat(path, &status) < 0 || access(path, R_OK) < 0)
                add_diagnostic(
                        reading, value,
                        (struct diagnostic){
                                .severity = reading->elsewhere && errno == ENOENT ? SEVERITY_WARNING
                                                                                  : SEVERITY_ERROR,
                                .message = arena_printf(reading->arena, "%s: %s: %s", field, path,
                                                        strerror(errno)),
                                .hint = *text == '/'
                                                ? NULL
                                                : "a relative path begins at the folder of the Controller's file",
                                .source_line = line_of(reading, value->line),
                        });
        else if (!S_ISREG(status.st_mode))
                add_error(reading, value, arena_printf(reading->arena, "%s: %s is no file", field, path));
        else
                return path;
        return NULL;
}

static const char *file_in(struct reading *reading, const struct value *map, const char *field) {
        return file_at(reading, field, value_get(map, field));
}

/* The file of a secret is read here once, so that what is wrong with it is reported with its line. */
static const char *secret_in(struct reading *reading, const struct value *map, const char *field) {
        const char *path = file_in(reading, map, field);
        struct strbuf secret STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        if (path && secret_read(path, &secret, &err) < 0)
                add_error(reading, value_get(map, field),
                          arena_printf(reading->arena, "%s: %s", field, err.message));
        strbuf_wipe(&secret);
        return path;
}

/* A file that only Git's side reads: here it is enough that others cannot. */
static const char *private_file_in(struct reading *reading, const struct value *map, const char *field) {
        const char *path = file_in(reading, map, field);
        struct error err;

        if (path && file_check_private(path, &err) < 0)
                add_error(reading, value_get(map, field),
                          arena_printf(reading->arena, "%s: %s", field, err.message));
        return path;
}

static enum source_mode mode_of(const char *name) {
        return strcmp(name, "approve") == 0 ? SOURCE_APPROVE
               : strcmp(name, "plan") == 0  ? SOURCE_PLAN
                                            : SOURCE_APPLY;
}

static void read_keys(struct reading *reading, const struct value *verify, struct source_config *ret) {
        const struct value *list = value_get(verify, "gpgKeys");
        size_t count = list ? list->count : 0;
        const char **keys = arena_array(reading->arena, count + 1, sizeof(*keys));

        for (size_t i = 0; i < count; i++)
                keys[i] = file_at(reading, "gpgKeys", &list->items[i]);
        ret->gpg_keys = keys;
        ret->gpg_key_count = count;
        ret->ssh_allowed_signers = file_in(reading, verify, "sshAllowedSigners");
}

static void read_allowances(struct reading *reading, const struct value *list, struct source_config *ret) {
        size_t count = list ? list->count : 0;

        ret->allowances = arena_array(reading->arena, count + 1, sizeof(*ret->allowances));
        ret->allowance_count = count;
        for (size_t i = 0; i < count; i++)
                ret->allowances[i].id = value_text_of(&list->items[i]);
}

/* What the fields' patterns let through, but Git's side would refuse, or warn of, at each poll. */
static void check_for_git(struct reading *reading, const struct value *spec, bool verified) {
        const struct value *url = value_get(spec, "url"), *tag = value_get(spec, "tag");
        const char *warning = git_url_warning(value_text_of(url), verified);
        struct error err;

        /* Without the line: there may be a password in it. */
        if (git_url_check(value_text_of(url), &err) < 0)
                add_diagnostic(reading, url,
                               (struct diagnostic){ .message = arena_strdup(reading->arena, err.message) });
        else if (warning)
                add_diagnostic(reading, url,
                               (struct diagnostic){ .severity = SEVERITY_WARNING,
                                                    .message = warning,
                                                    .source_line = line_of(reading, url->line) });
        if (value_text_of(tag) && git_tag_check(value_text_of(tag), &err) < 0)
                add_error(reading, tag, arena_strdup(reading->arena, err.message));
}

static void read_source(struct reading *reading, const struct value *spec, struct source_config *ret) {
        const struct value *credentials = value_get(spec, "credentials");
        const char *path = value_get_text(spec, "path");

        *ret = (struct source_config){
                .name = value_get_text(spec, "name"),
                .url = value_get_text(spec, "url"),
                .branch = value_get_text(spec, "branch"),
                .tag = value_get_text(spec, "tag"),
                .path = path,
                .pattern = path && strpbrk(path, "*?"),
                .interval_ms = value_get_integer(spec, "intervalSeconds", 60) * 1000,
                .drift_interval_ms = value_get_integer(spec, "driftSeconds", 3600) * 1000,
                .mode = mode_of(value_get_text(spec, "mode")),
                .correct_drift = value_get_boolean(spec, "correctDrift", true),
                .fast_forward_only = value_get_boolean(spec, "fastForwardOnly", true),
                .credentials = {
                        .username_file = file_in(reading, credentials, "usernameFile"),
                        .password_file = private_file_in(reading, credentials, "passwordFile"),
                        .ssh_key_file = private_file_in(reading, credentials, "sshKeyFile"),
                        .known_hosts_file = file_in(reading, credentials, "knownHostsFile"),
                        .ca_file = file_in(reading, credentials, "caFile"),
                },
                .pins = value_get(spec, "pins"),
                .may = value_get(spec, "may"),
                .suspended = value_get_boolean(spec, "suspended", false),
        };
        read_keys(reading, value_get(spec, "verify"), ret);
        check_for_git(reading, spec,
                      ret->gpg_key_count > 0 || value_get(value_get(spec, "verify"), "sshAllowedSigners"));
        read_allowances(reading, value_get(spec, "allow"), ret);
}

static const char *const event_names[] = { "applied", "failed", "refused", "approval", "drift", "recovered" };
#define EVENT_COUNT (sizeof(event_names) / sizeof(event_names[0]))

const char *notify_event_name(enum notify_event event) {
        for (size_t i = 0; i < EVENT_COUNT; i++) {
                if ((unsigned)event == 1U << i)
                        return event_names[i];
        }
        return "unknown";
}

static unsigned read_events(const struct value *list) {
        unsigned events = 0;

        if (!list)
                return (1U << EVENT_COUNT) - 1;
        for (uint32_t i = 0; i < list->count; i++) {
                for (size_t k = 0; k < EVENT_COUNT; k++) {
                        if (strcmp(value_text_of(&list->items[i]), event_names[k]) == 0)
                                events |= 1U << k;
                }
        }
        return events;
}

static void read_targets(struct reading *reading, const struct value *list, struct controller_config *ret) {
        size_t count = list ? list->count : 0;

        ret->targets = arena_array(reading->arena, count + 1, sizeof(*ret->targets));
        ret->target_count = count;
        for (size_t i = 0; i < count; i++)
                ret->targets[i] = (struct notify_target){
                        .url = value_get_text(&list->items[i], "url"),
                        .events = read_events(value_get(&list->items[i], "events")),
                        .secret_file = secret_in(reading, &list->items[i], "secretFile"),
                };
}

static void read_hosts(struct reading *reading, const struct value *list, struct controller_config *ret) {
        size_t count = list ? list->count : 0;
        const char **hosts = arena_array(reading->arena, count + 1, sizeof(*hosts));

        for (size_t i = 0; i < count; i++)
                hosts[i] = value_text_of(&list->items[i]);
        ret->hosts = hosts;
        ret->host_count = count;
}

static int compare_sources(const void *a, const void *b) {
        return strcmp(((const struct source_config *)a)->name, ((const struct source_config *)b)->name);
}

static void read_config(struct reading *reading, const struct resource *resource,
                        struct controller_config *ret) {
        const struct value *spec = resource->spec, *sources = value_get(spec, "sources");
        const char *listen = value_get_text(spec, "listen");

        *ret = (struct controller_config){
                .name = resource->name,
                .listen = strcmp(listen, "off") == 0 ? "" : listen,
                .webhook_secret_file = secret_in(reading, spec, "webhookSecretFile"),
                .sources = arena_array(reading->arena, sources->count, sizeof(*ret->sources)),
                .source_count = sources->count,
        };
        read_hosts(reading, value_get(spec, "hosts"), ret);
        read_targets(reading, value_get(spec, "notify"), ret);
        for (size_t i = 0; i < ret->source_count; i++)
                read_source(reading, &sources->items[i], &ret->sources[i]);
        qsort(ret->sources, ret->source_count, sizeof(*ret->sources), compare_sources);
}

/* For the lines that diagnostics show; a pipe cannot be read once more. */
static void read_lines(struct reading *reading) {
        struct stat status;
        struct error ignored;

        if (stat(reading->path, &status) == 0 && S_ISREG(status.st_mode) &&
            file_read(reading->path, FILE_MAX, &reading->text, &ignored) < 0)
                strbuf_release(&reading->text);
}

int controller_config_load(const char *path, bool elsewhere, struct arena *arena,
                           struct controller_config *ret, struct diagnostics *diagnostics,
                           struct error *err) {
        static const struct load_options options = { .controller = true };
        const char *slash = strrchr(path, '/');
        struct reading reading = {
                .path = path,
                .folder = slash ? arena_strndup(arena, path, (size_t)(slash - path) + 1) : "",
                .elsewhere = elsewhere,
                .arena = arena,
                .diagnostics = diagnostics,
        };
        struct manifests manifests;
        size_t count;
        const struct resource *resource;

        if (manifests_load(path, &options, arena, &manifests, diagnostics, err) < 0)
                return -1;
        resource = manifests_of_kind(&manifests, KIND_CONTROLLER, &count);
        read_lines(&reading);
        read_config(&reading, resource, ret);
        strbuf_release(&reading.text);
        if (diagnostics->errors == 0)
                return 0;
        diagnostics_sort(diagnostics);
        return error_set_kind(err, ERROR_DIAGNOSED, "%zu error%s in the Controller", diagnostics->errors,
                              diagnostics->errors == 1 ? "" : "s");
}
