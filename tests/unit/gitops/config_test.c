/* SPDX-License-Identifier: Apache-2.0 */
/* From the manifest to what the loop works with; what only files and Git's side can tell is refused here. */
#include "folder.h"

#include "gitops/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "apiVersion: berth/v1\nkind: Controller\nmetadata: {name: c}\nspec:\n"

struct loaded {
        char folder[64];
        struct arena *arena;
        struct diagnostics diagnostics;
        struct controller_config config;
        struct error err;
        int result;
};

static int begin(void **state) {
        struct loaded *loaded = calloc(1, sizeof(*loaded));

        assert_non_null(loaded);
        folder_make_temporary(loaded->folder);
        loaded->arena = arena_new();
        folder_write(loaded->folder, "key", "k");
        folder_write(loaded->folder, "hosts", "h");
        folder_write(loaded->folder, "empty", "");
        folder_write(loaded->folder, "blank", "\nsecret\n");
        *state = loaded;
        return 0;
}

static int end(void **state) {
        struct loaded *loaded = *state;

        arena_free(loaded->arena);
        folder_remove(loaded->folder);
        free(loaded);
        return 0;
}

static void load(struct loaded *loaded, const char *text) {
        const char *path = arena_printf(loaded->arena, "%s/c.yaml", loaded->folder);

        folder_write(loaded->folder, "c.yaml", text);
        diagnostics_init(&loaded->diagnostics, loaded->arena);
        loaded->result = controller_config_load(path, false, loaded->arena, &loaded->config,
                                                &loaded->diagnostics, &loaded->err);
}

static void defaults(void **state) {
        struct loaded *loaded = *state;
        const struct source_config *source;

        load(loaded, HEAD
             "  sources:\n  - {name: b, url: /srv/b.git, tag: 1.x}\n  - {name: a, url: 'https://h/a', branch: main}\n");
        assert_int_equal(loaded->result, 0);
        assert_string_equal(loaded->config.listen, "127.0.0.1:9470");
        assert_null(loaded->config.webhook_secret_file);
        assert_int_equal(loaded->config.target_count, 0);
        assert_int_equal(loaded->config.source_count, 2);
        source = &loaded->config.sources[0];
        assert_string_equal(source->name, "a");
        assert_int_equal(source->interval_ms, 60000);
        assert_int_equal(source->drift_interval_ms, 3600000);
        assert_int_equal(source->mode, SOURCE_APPLY);
        assert_true(source->correct_drift);
        assert_true(source->fast_forward_only);
        assert_false(source->suspended);
        assert_null(source->credentials.password_file);
        assert_int_equal(source->gpg_key_count, 0);
        assert_string_equal(loaded->config.sources[1].tag, "1.x");
        assert_null(loaded->config.sources[1].branch);
}

static void everything(void **state) {
        struct loaded *loaded = *state;
        const struct source_config *source = NULL;
        char path[128];

        load(loaded, HEAD
             "  listen: 'off'\n  webhookSecretFile: key\n  hosts: [hooks.example.com, '[2001:db8::1]', 10.1.2.3]\n"
             "  notify: [{url: 'https://x/y', events: [applied, drift], secretFile: key}, {url: 'http://z'}]\n"
             "  sources: [{name: a, url: 'git@h:a', branch: main, path: x/y, intervalSeconds: 5, driftSeconds: 7,\n"
             "    mode: approve, correctDrift: false, fastForwardOnly: false, suspended: true,\n"
             "    credentials: {sshKeyFile: key, knownHostsFile: hosts}, verify: {gpgKeys: [key, hosts]},\n"
             "    allow: [protected, mass-delete]}]\n");
        if (loaded->result < 0)
                diagnostics_print(&loaded->diagnostics, stderr);
        assert_int_equal(loaded->result, 0);
        assert_string_equal(loaded->config.listen, "");
        assert_int_equal(loaded->config.host_count, 3);
        assert_string_equal(loaded->config.hosts[1], "[2001:db8::1]");
        snprintf(path, sizeof(path), "%s/key", loaded->folder);
        assert_string_equal(loaded->config.webhook_secret_file, path);
        assert_int_equal(loaded->config.targets[0].events, NOTIFY_APPLIED | NOTIFY_DRIFT);
        assert_string_equal(loaded->config.targets[0].secret_file, path);
        assert_int_equal(loaded->config.targets[1].events, 63);
        assert_null(loaded->config.targets[1].secret_file);
        source = &loaded->config.sources[0];
        assert_int_equal(source->interval_ms, 5000);
        assert_int_equal(source->drift_interval_ms, 7000);
        assert_int_equal(source->mode, SOURCE_APPROVE);
        assert_false(source->correct_drift);
        assert_false(source->fast_forward_only);
        assert_true(source->suspended);
        assert_string_equal(source->path, "x/y");
        assert_false(source->pattern);
        assert_string_equal(source->credentials.ssh_key_file, path);
        assert_int_equal(source->gpg_key_count, 2);
        assert_string_equal(source->gpg_keys[0], path);
        assert_int_equal(source->allowance_count, 2);
        assert_string_equal(source->allowances[1].id, "mass-delete");
        assert_null(source->allowances[1].address);
}

/* Checked where it does not run: its secrets are not here, and nothing else is forgiven. */
static void files_of_another_machine(void **state) {
        struct loaded *loaded = *state;
        const char *path = arena_printf(loaded->arena, "%s/c.yaml", loaded->folder);

        load(loaded, HEAD "  webhookSecretFile: none\n  sources: [{name: a, url: /a, branch: m}]\n");
        assert_int_equal(loaded->result, -1);
        diagnostics_init(&loaded->diagnostics, loaded->arena);
        assert_int_equal(controller_config_load(path, true, loaded->arena, &loaded->config,
                                                &loaded->diagnostics, &loaded->err),
                         0);
        assert_int_equal(loaded->diagnostics.count, 1);
        assert_int_equal(loaded->diagnostics.items[0].severity, SEVERITY_WARNING);
        load(loaded, HEAD "  webhookSecretFile: /dev\n  sources: [{name: a, url: /a, branch: m}]\n");
        diagnostics_init(&loaded->diagnostics, loaded->arena);
        assert_int_equal(controller_config_load(path, true, loaded->arena, &loaded->config,
                                                &loaded->diagnostics, &loaded->err),
                         -1);
}

static void refused(void **state) {
        static const struct {
                const char *text, *says;
                unsigned line;
        } cases[] = {
                { HEAD "  webhookSecretFile: none\n  sources: [{name: a, url: /a, branch: m}]\n",
                  "none: No such file", 5 },
                { HEAD "  webhookSecretFile: /dev\n  sources: [{name: a, url: /a, branch: m}]\n",
                  "/dev is no file", 5 },
                { HEAD
                  "  sources:\n  - name: a\n    url: https://h/a\n    branch: m\n    credentials:\n      caFile: none.pem\n",
                  "caFile: ", 10 },
                { HEAD
                  "  sources:\n  - name: a\n    url: /a\n    branch: m\n    verify:\n      gpgKeys:\n      - key\n      - none\n",
                  "gpgKeys: ", 12 },
                { HEAD
                  "  notify: [{url: 'http://x', secretFile: none}]\n  sources: [{name: a, url: /a, branch: m}]\n",
                  "secretFile: ", 5 },
                { HEAD "  sources:\n  - name: a\n    url: /a\n    tag: '>> nothing'\n", "nothing", 8 },
                { HEAD "  webhookSecretFile: empty\n  sources: [{name: a, url: /a, branch: m}]\n",
                  "webhookSecretFile: the first line of", 5 },
                { HEAD "  webhookSecretFile: blank\n  sources: [{name: a, url: /a, branch: m}]\n",
                  "blank is empty", 5 },
                { HEAD
                  "  notify: [{url: 'http://x', secretFile: empty}]\n  sources: [{name: a, url: /a, branch: m}]\n",
                  "secretFile: the first line of", 5 },
                { HEAD "  sources: []\n", "sources", 5 },
        };
        struct loaded *loaded = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                load(loaded, cases[i].text);
                assert_int_equal(loaded->result, -1);
                assert_int_equal(loaded->err.kind, ERROR_DIAGNOSED);
                assert_int_equal(loaded->diagnostics.errors, 1);
                if (!strstr(loaded->diagnostics.items[0].message, cases[i].says) ||
                    loaded->diagnostics.items[0].line != cases[i].line)
                        fail_msg("%s\nline %u: %s", cases[i].text, loaded->diagnostics.items[0].line,
                                 loaded->diagnostics.items[0].message);
        }
}

/* The line as it stands there, and where in it; but for one with a URL that Git's side does not take: it may hold anything. */
static void lines_are_shown(void **state) {
        struct loaded *loaded = *state;

        load(loaded, HEAD "  webhookSecretFile: none  # soon\n  sources: [{name: a, url: /a, branch: m}]\n");
        assert_string_equal(loaded->diagnostics.items[0].source_line, "  webhookSecretFile: none  # soon");
        assert_int_equal(loaded->diagnostics.items[0].column, 22);
        assert_int_equal(loaded->diagnostics.items[0].span, strlen("none"));
        load(loaded, HEAD "  sources: [{name: a, url: 'https://h:0/a', branch: m}]\n");
        assert_int_equal(loaded->diagnostics.errors, 1);
        assert_int_equal(loaded->diagnostics.items[0].line, 5);
        assert_null(loaded->diagnostics.items[0].source_line);
}

/* What a fetch would warn of is said where the URL stands. */
static void git_without_anybody_to_vouch_for_it(void **state) {
        static const struct {
                const char *verify, *says;
        } cases[] = { { "", "not authenticated" },
                      { ", verify: {gpgKeys: [key]}", "could hold back newer commits" },
                      { ", verify: {sshAllowedSigners: key}", "could hold back newer commits" } };
        struct loaded *loaded = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                load(loaded, arena_printf(loaded->arena,
                                          HEAD "  sources: [{name: a, url: 'git://h/a', branch: m%s}]\n",
                                          cases[i].verify));
                assert_int_equal(loaded->result, 0);
                assert_int_equal(loaded->diagnostics.count, 1);
                assert_int_equal(loaded->diagnostics.items[0].severity, SEVERITY_WARNING);
                assert_int_equal(loaded->diagnostics.items[0].line, 5);
                assert_non_null(strstr(loaded->diagnostics.items[0].message, cases[i].says));
        }
        load(loaded, HEAD "  sources: [{name: a, url: 'https://h/a', branch: m}]\n");
        assert_int_equal(loaded->diagnostics.count, 0);
}

static void events_have_names(void **state) {
        (void)state;
        assert_string_equal(config_event_name(NOTIFY_APPLIED), "applied");
        assert_string_equal(config_event_name(NOTIFY_APPROVAL), "approval");
        assert_string_equal(config_event_name(NOTIFY_RECOVERED), "recovered");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(defaults),
                TEST(everything),
                TEST(refused),
                TEST(files_of_another_machine),
                TEST(lines_are_shown),
                TEST(git_without_anybody_to_vouch_for_it),
                cmocka_unit_test(events_have_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
