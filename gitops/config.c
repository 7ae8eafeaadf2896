/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest of kind Controller, from typed values to the structs that the loop uses. The schema
 * has checked each field; the rest is checked here, which takes this machine: files exist, can be
 * read, and are not open to all users if they hold a secret. All mistakes are collected, each with
 * its line, as everywhere.
 */
#include "gitops/config.h"

#include "base/files.h"
#include "schema/manifests.h"
#include "schema/named_files.h"
#include "server/secret.h"

#include <stdlib.h>
#include <string.h>

/* The file of a secret is read here once, so that what is wrong with it is reported with its line. */
static const char *secret_in(struct named_files *files, const struct value *map, const char *field) {
        const char *path = named_files_member(files, map, field);
        struct strbuf secret STRBUF_CLEANUP = STRBUF_SECRET;
        struct error err;

        if (path && secret_read(path, &secret, &err) < 0)
                named_files_add(files, value_get(map, field), SEVERITY_ERROR,
                                arena_printf(files->arena, "%s: %s", field, err.message), true);
        return path;
}

/* A file that only Git's side reads: here it is enough that others cannot. */
static const char *private_file_in(struct named_files *files, const struct value *map, const char *field) {
        const char *path = named_files_member(files, map, field);
        struct error err;

        if (path && file_check_private(path, &err) < 0)
                named_files_add(files, value_get(map, field), SEVERITY_ERROR,
                                arena_printf(files->arena, "%s: %s", field, err.message), true);
        return path;
}

static enum source_mode mode_of(const char *name) {
        return strcmp(name, "approve") == 0 ? SOURCE_APPROVE
               : strcmp(name, "plan") == 0  ? SOURCE_PLAN
                                            : SOURCE_APPLY;
}

static void read_keys(struct named_files *files, const struct value *verify, struct source_config *ret) {
        const struct value *list = value_get(verify, "gpgKeys");
        size_t count = list ? list->count : 0;
        const char **keys = arena_array(files->arena, count + 1, sizeof(*keys));

        for (size_t i = 0; i < count; i++)
                keys[i] = named_files_check(files, "gpgKeys", &list->items[i]);
        ret->gpg_keys = keys;
        ret->gpg_key_count = count;
        ret->ssh_allowed_signers = named_files_member(files, verify, "sshAllowedSigners");
}

static void read_allowances(struct named_files *files, const struct value *list, struct source_config *ret) {
        size_t count = list ? list->count : 0;

        ret->allowances = arena_array(files->arena, count + 1, sizeof(*ret->allowances));
        ret->allowance_count = count;
        for (size_t i = 0; i < count; i++)
                ret->allowances[i].id = value_text_of(&list->items[i]);
}

/* What the fields' patterns let through, but Git's side would refuse, or warn of, at each poll. */
static void check_for_git(struct named_files *files, const struct value *spec, bool verified) {
        const struct value *url = value_get(spec, "url"), *tag = value_get(spec, "tag");
        const char *warning = git_url_warning(value_text_of(url), verified);
        struct error err;

        /* Without the line: there may be a password in it. */
        if (git_url_check(value_text_of(url), &err) < 0)
                named_files_add(files, url, SEVERITY_ERROR, arena_strdup(files->arena, err.message), false);
        else if (warning)
                named_files_add(files, url, SEVERITY_WARNING, warning, true);
        if (value_text_of(tag) && git_tag_check(value_text_of(tag), &err) < 0)
                named_files_add(files, tag, SEVERITY_ERROR, arena_strdup(files->arena, err.message), true);
}

static void read_source(struct named_files *files, const struct value *spec, struct source_config *ret) {
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
                        .username_file = named_files_member(files, credentials, "usernameFile"),
                        .password_file = private_file_in(files, credentials, "passwordFile"),
                        .ssh_key_file = private_file_in(files, credentials, "sshKeyFile"),
                        .known_hosts_file = named_files_member(files, credentials, "knownHostsFile"),
                        .ca_file = named_files_member(files, credentials, "caFile"),
                },
                .state = value_get_text(spec, "state"),
                .pins = value_get(spec, "pins"),
                .may = value_get(spec, "may"),
                .suspended = value_get_boolean(spec, "suspended", false),
        };
        read_keys(files, value_get(spec, "verify"), ret);
        check_for_git(files, spec,
                      ret->gpg_key_count > 0 || value_get(value_get(spec, "verify"), "sshAllowedSigners"));
        read_allowances(files, value_get(spec, "allow"), ret);
}

static const char *const event_names[] = { "applied", "failed", "refused", "approval", "drift", "recovered" };
#define EVENT_COUNT (sizeof(event_names) / sizeof(event_names[0]))

const char *config_event_name(enum notify_event event) {
        for (size_t i = 0; i < EVENT_COUNT; i++) {
                if ((unsigned)event == 1U << i)
                        return event_names[i];
        }
        return "unknown";
}

static unsigned read_event_names(const struct value *list) {
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

static void read_targets(struct named_files *files, const struct value *list, struct controller_config *ret) {
        size_t count = list ? list->count : 0;

        ret->targets = arena_array(files->arena, count + 1, sizeof(*ret->targets));
        ret->target_count = count;
        for (size_t i = 0; i < count; i++)
                ret->targets[i] = (struct notify_target){
                        .url = value_get_text(&list->items[i], "url"),
                        .events = read_event_names(value_get(&list->items[i], "events")),
                        .secret_file = secret_in(files, &list->items[i], "secretFile"),
                };
}

static void read_hosts(struct named_files *files, const struct value *list, struct controller_config *ret) {
        size_t count = list ? list->count : 0;
        const char **hosts = arena_array(files->arena, count + 1, sizeof(*hosts));

        for (size_t i = 0; i < count; i++)
                hosts[i] = value_text_of(&list->items[i]);
        ret->hosts = hosts;
        ret->host_count = count;
}

static int compare_sources(const void *a, const void *b) {
        return strcmp(((const struct source_config *)a)->name, ((const struct source_config *)b)->name);
}

static void read_config(struct named_files *files, const struct resource *resource,
                        struct controller_config *ret) {
        const struct value *spec = resource->spec, *sources = value_get(spec, "sources");
        const char *listen = value_get_text(spec, "listen");

        *ret = (struct controller_config){
                .name = resource->name,
                .listen = strcmp(listen, "off") == 0 ? "" : listen,
                .webhook_secret_file = secret_in(files, spec, "webhookSecretFile"),
                .sources = arena_array(files->arena, sources->count, sizeof(*ret->sources)),
                .source_count = sources->count,
        };
        read_hosts(files, value_get(spec, "hosts"), ret);
        read_targets(files, value_get(spec, "notify"), ret);
        for (size_t i = 0; i < ret->source_count; i++)
                read_source(files, &sources->items[i], &ret->sources[i]);
        qsort(ret->sources, ret->source_count, sizeof(*ret->sources), compare_sources);
}

int controller_config_load(const char *path, bool elsewhere, struct arena *arena,
                           struct controller_config *ret, struct diagnostics *diagnostics,
                           struct error *err) {
        const struct load_options options = { .alone = kinds[KIND_CONTROLLER] };
        struct named_files files;
        struct manifests manifests;
        size_t count;
        const struct resource *resource;

        if (manifests_load(path, &options, arena, &manifests, diagnostics, err) < 0)
                return -1;
        resource = manifests_of_kind(&manifests, KIND_CONTROLLER, &count);
        named_files_begin(&files, path, elsewhere, arena, diagnostics);
        read_config(&files, resource, ret);
        return named_files_end(&files, "Controller", err);
}
