/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the controller reads from others: the first byte says which. 0 what gpgv says, 1 OpenPGP keys, 2 a pattern of tags and
 * a tag, 3 known_hosts, 4 a path within a repository, 5 the Controller's manifest, 6 a webhook's headers and body, 7 a kept
 * status, 8 an allowance. Git's worker and URLs are git_wire_fuzz.c's.
 */
#include "base/json.h"
#include "gitops/approval.h"
#include "gitops/config.h"
#include "gitops/git/git_parts.h"
#include "gitops/git/known_hosts.h"
#include "gitops/git/tree.h"
#include "gitops/git/verify.h"
#include "gitops/git/version.h"
#include "gitops/hook.h"
#include "gitops/status.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET "the secret"

struct input {
        struct parts parts;
        struct arena *arena;
};

static void require(bool condition) {
        if (!condition)
                abort();
}

/* The next part: exactly its bytes, released with the input; `text` has a NUL behind them. */
static const char *text_of(struct input *input) {
        char *text = parts_next_text(&input->parts);
        const char *kept = arena_strdup(input->arena, text);

        free(text);
        return kept;
}

static void gpgv(struct input *input) {
        const char *signer = NULL, *why = NULL;

        if (verify_read_status(text_of(input), input->arena, &signer, &why))
                require(signer != NULL);
        else
                require(why != NULL);
}

static void keys(struct input *input) {
        struct strbuf keyring STRBUF_CLEANUP = STRBUF_INIT;
        size_t length;
        char *bytes = parts_next(&input->parts, &length);
        struct error err = { 0 };

        if (keyring_add(bytes, length, &keyring, &err) < 0)
                require(err.message[0] != '\0');
        free(bytes);
}

static void tags(struct input *input) {
        const char *text = text_of(input), *tag = text_of(input);
        const struct version_pattern *pattern;
        struct version version, same;
        struct error err = { 0 };

        if (version_pattern_parse(text, input->arena, &pattern, &err) < 0) {
                require(err.message[0] != '\0');
                return;
        }
        if (!version_parse(tag, &version))
                return;
        (void)version_pattern_matches(pattern, &version);
        require(version_parse(tag, &same) && version_compare(&version, &same) == 0);
}

static void hosts(struct input *input) {
        struct strbuf kept STRBUF_CLEANUP = STRBUF_INIT;
        const char *text = text_of(input);

        (void)known_hosts_select(text, "host.example", NULL, NULL, &kept);
        (void)known_hosts_select(text, "host.example", "2222", "ssh-rsa", &kept);
}

static void path(struct input *input) {
        const char *text = text_of(input), *normal = NULL;
        struct error err = { 0 };

        if (tree_path_normalise(text, input->arena, &normal, &err) == 0 && normal)
                require(normal[0] != '/' && !strstr(normal, "//") && strcmp(normal, "..") != 0 &&
                        strncmp(normal, "../", 3) != 0);
        if (!git_path_objection(text))
                require(text[0] != '/' && strcmp(text, "..") != 0 && !strstr(text, "/../"));
}

static void manifest(struct input *input) {
        struct diagnostics diagnostics;
        struct controller_config config;
        struct error err = { 0 };
        char place[MEMORY_PATH_SIZE];
        size_t length;
        char *bytes = parts_next(&input->parts, &length);
        int descriptor = memory_file(bytes, length, place);

        diagnostics_init(&diagnostics, input->arena);
        if (controller_config_load(place, false, input->arena, &config, &diagnostics, &err) < 0)
                require(err.message[0] != '\0');
        else
                require(config.name != NULL);
        close(descriptor);
        free(bytes);
}

static void delivery(struct input *input) {
        const char *given = text_of(input), *token = text_of(input), *event = text_of(input);
        size_t length;
        char *body = parts_next(&input->parts, &length), right[SHA256_HEX_SIZE];
        struct digest_mac *mac = digest_mac_new(SECRET, strlen(SECRET));
        struct hook hook = { 0 };
        bool known;

        digest_mac_add(mac, body, length);
        digest_mac_end(mac, right);
        hook_begin(&hook, SECRET,
                   &(struct hook_headers){ *given ? given : NULL, *token ? token : NULL, event,
                                           *given ? given : NULL });
        hook_add(&hook, body, length / 2);
        hook_add(&hook, body + length / 2, length - length / 2);
        known = hook_end(&hook);
        hook_release(&hook);
        if (known)
                require(strcasestr(given, right) || strcmp(token, SECRET) == 0);
        hook_begin(
                &hook, SECRET,
                &(struct hook_headers){ arena_printf(input->arena, "sha256=%s", right), NULL, event, NULL });
        hook_add(&hook, body, length);
        require(hook_end(&hook));
        hook_release(&hook);
        free(body);
}

static void kept_status(struct input *input) {
        static const struct source_config config = { .name = "lab", .branch = "main" };
        json_t *stored JSON_CLEANUP = json_loads(text_of(input), JSON_DECODE_ANY, NULL);
        struct source_status status;

        status_init(&status);
        status_restore(&status, stored);
        (void)status_conclude(&status, 1);
        json_decref(status_json(&status, &config, "url"));
        json_decref(status_store(&status, &config, "url"));
        status_release(&status);
}

static void allowance(struct input *input) {
        struct allowance found;
        struct error err = { 0 };

        if (approval_parse(text_of(input), input->arena, &found, &err) < 0)
                require(err.message[0] != '\0');
        else
                require(found.id != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static void (*const readers[])(struct input *) = { gpgv,     keys,     tags,        hosts,    path,
                                                           manifest, delivery, kept_status, allowance };
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct input input = { .arena = arena };

        if (size < 1)
                return 0;
        input.parts = parts_of(data + 1, size - 1);
        readers[(size_t)(data[0] - '0') % (sizeof(readers) / sizeof(readers[0]))](&input);
        return 0;
}
