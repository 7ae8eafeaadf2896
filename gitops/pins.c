/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table in pins.h, field by field. Everything is compared as text: no path is resolved and no host looked up,
 * since whatever is asked (a file system, DNS) could give another answer when it counts.
 */
#include "gitops/pins.h"

#include "base/text.h"

#include <fnmatch.h>
#include <string.h>

#define PATTERN_MAX 2048U /* as the Controller's fields say */

struct holding {
        const struct source_config *config;
        struct manifests *manifests;
        struct diagnostics *diagnostics;
        bool held;
};

/* The text itself is not quoted: an endpoint's URL may hold a password, and the place says enough. */
static void add_refusal_of(struct holding *holding, const struct resource *resource, const struct value *at,
                           const char *message, const char *hint) {
        holding->held = false;
        diagnostics_add(holding->diagnostics,
                        (struct diagnostic){
                                .severity = SEVERITY_ERROR,
                                .file = at->line ? holding->manifests->files[at->file] : NULL,
                                .line = at->line,
                                .column = at->column,
                                .address = resource->address,
                                .span = 1,
                                .message = message,
                                .hint = hint,
                        });
}

static void add_refusal(struct holding *holding, const struct value *at, const char *message,
                        const char *hint) {
        add_refusal_of(holding, holding->manifests->stack, at, message, hint);
}

/*
 * Field by field: a star ends at a colon, or secret:* and what may follow a secret's name would take in what names another
 * one. Beyond the pattern's last field stands which part and version of the secret is meant, and is no matter.
 */
static bool is_arn_permitted(const struct value *patterns, const char *arn) {
        for (uint32_t i = 0; patterns && i < patterns->count; i++) {
                const char *pattern = value_text_of(&patterns->items[i]);
                char pattern_field[PATTERN_MAX + 1], arn_field[PATTERN_MAX + 1];
                bool same = pattern != NULL;

                for (unsigned field = 0; same; field++) {
                        size_t pattern_length, length;
                        const char *wanted = text_field(pattern, ':', field, &pattern_length),
                                   *found = text_field(arn, ':', field, &length);

                        if (!wanted)
                                return true;
                        if (!found || pattern_length > PATTERN_MAX || length > PATTERN_MAX)
                                break;
                        memcpy(pattern_field, wanted, pattern_length);
                        pattern_field[pattern_length] = '\0';
                        memcpy(arn_field, found, length);
                        arn_field[length] = '\0';
                        same = fnmatch(pattern_field, arn_field, FNM_PATHNAME | FNM_NOESCAPE) == 0;
                }
        }
        return false;
}

static bool is_role_permitted(const struct value *patterns, const char *role) {
        for (uint32_t i = 0; patterns && i < patterns->count; i++) {
                const char *pattern = value_text_of(&patterns->items[i]);

                /*
                 * A star ends at a slash, or role/team-* would take in role/team-x/of-another-team.
                 */
                if (pattern && fnmatch(pattern, role, FNM_PATHNAME | FNM_NOESCAPE) == 0)
                        return true;
        }
        return false;
}

static size_t length_without_slashes(const char *path) {
        size_t length = strlen(path);

        while (length > 1 && path[length - 1] == '/')
                length--;
        return length;
}

/*
 * Exactly one of them, never a folder within. Agents write into workspaces, and may put links there: a path through one
 * would lead out of the folder.
 */
static bool is_folder_permitted(const struct value *folders, const char *folder) {
        size_t length = length_without_slashes(folder);

        for (uint32_t i = 0; folders && i < folders->count; i++) {
                const char *permitted = value_text_of(&folders->items[i]);

                if (permitted && length == length_without_slashes(permitted) &&
                    memcmp(folder, permitted, length) == 0)
                        return true;
        }
        return false;
}

static void check_provider_pin(struct holding *holding) {
        const char *pinned = value_get_text(holding->config->pins, "provider");
        const struct value *spec = holding->manifests->stack->spec, *named = value_get(spec, "provider");
        const char *name = value_text_of(named);
        struct arena *arena = holding->manifests->arena;

        if (!pinned || !name || strcmp(pinned, name) == 0)
                return;
        add_refusal(holding, named,
                    arena_printf(arena,
                                 "the Stack's provider is %s, and the Controller pins %s for source %s", name,
                                 pinned, holding->config->name),
                    arena_printf(arena, "write provider: %s", pinned));
}

static void check_aws(struct holding *holding) {
        static const struct {
                const char *name;
                bool refused_unpinned; /* it says where credentials or data go, or whose they are */
        } fields[] = {
                { "region", false },
                { "account", false },
                { "profile", true },
                { "assumeRole", true },
                { "endpointUrl", true },
                { "namePrefix", false },
                { "permissionsBoundary", false },
                { "rolePath", false },
                { "kmsKey", true }, /* its owner reads along, or locks the data up */
        };
        const struct value *aws = value_get(holding->manifests->stack->spec, "aws");
        const struct value *pins = value_get(holding->config->pins, "aws");
        struct arena *arena = holding->manifests->arena;

        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                const char *name = fields[i].name, *pinned = value_get_text(pins, name);
                const struct value *named = value_get(aws, name);
                const char *text = value_text_of(named);

                /* A default (namePrefix) has no line: no manifest named it. */
                if (!text || named->line == 0)
                        continue;
                if (pinned ? strcmp(text, pinned) == 0 : !fields[i].refused_unpinned)
                        continue;
                add_refusal(
                        holding, named,
                        pinned ? arena_printf(
                                         arena,
                                         "the Stack's aws.%s is not what the Controller pins for source %s",
                                         name, holding->config->name)
                               : arena_printf(arena,
                                              "the Stack names aws.%s, which the Controller does not pin for "
                                              "source %s: no commit may choose it",
                                              name, holding->config->name),
                        arena_printf(arena, "leave it out, or give the Controller's source pins.aws.%s",
                                     name));
        }
}

static void check_role_pin(struct holding *holding, const struct resource *resource,
                           const struct value *named, const char *what) {
        const char *role = value_text_of(named);

        if (role && !is_role_permitted(value_get(holding->config->may, "executionRoles"), role))
                add_refusal_of(
                        holding, resource, named,
                        arena_printf(holding->manifests->arena, "%s may not be named by source %s", what,
                                     holding->config->name),
                        "leave it out, or give the Controller's source a pattern in may.executionRoles");
}

/* Berth reads what they name with its own credentials, and hands it to code that the same commit may choose. */
static void check_sources(struct holding *holding, const struct resource *resource) {
        static const struct {
                const char *name, *list;
        } sources[] = { { "secret", "secrets" }, { "parameter", "parameters" } };
        const struct value *variables = value_get(resource->spec, "variables");
        struct arena *arena = holding->manifests->arena;

        for (uint32_t i = 0; variables && i < variables->count; i++) {
                const struct member *variable = &variables->members[i];

                for (size_t k = 0; k < sizeof(sources) / sizeof(sources[0]); k++) {
                        const struct value *named = value_get(&variable->value, sources[k].name);

                        if (!named || is_arn_permitted(value_get(holding->config->may, sources[k].list),
                                                       value_text_of(named)))
                                continue;
                        add_refusal_of(holding, resource, named,
                                       arena_printf(arena,
                                                    "the %s of the variable %s may not be named by source %s",
                                                    sources[k].name, variable->name, holding->config->name),
                                       arena_printf(arena, "give the Controller's source a pattern in may.%s",
                                                    sources[k].list));
                }
        }
}

/*
 * A role that Berth makes for an Environment has no rights that the shared one lacks: every commit
 * may have it.
 */
static void check_roles(struct holding *holding) {
        const struct manifests *manifests = holding->manifests;
        size_t count;
        const struct resource *environments = manifests_of_kind(manifests, KIND_ENVIRONMENT, &count);

        check_role_pin(holding, manifests->stack,
                       value_get(value_get(manifests->stack->spec, "aws"), "executionRole"),
                       "the Stack's aws.executionRole");
        for (size_t i = 0; i < count; i++) {
                const struct value *named = value_get(environments[i].spec, "executionRole");
                const char *role = value_text_of(named);

                if (role && strcmp(role, EXECUTION_ROLE_OWN) != 0)
                        check_role_pin(holding, &environments[i], named, "the environment's executionRole");
        }
}

static bool is_listed(const struct value *list, const char *id) {
        for (uint32_t i = 0; list && i < list->count; i++) {
                const char *permitted = value_text_of(&list->items[i]);

                if (permitted && id && strcmp(permitted, id) == 0)
                        return true;
        }
        return false;
}

/*
 * Code that a commit brings along reaches whatever is in the network that the same commit names.
 * The isolated one leads nowhere, and needs no pin.
 */
static void check_network(struct holding *holding, const struct resource *resource, const struct value *named,
                          const char *what) {
        static const struct {
                const char *name, *one;
        } lists[] = { { "subnets", "subnet" }, { "securityGroups", "security group" } };
        const char *pinned = value_get_text(value_get(holding->config->pins, "aws"), "network");
        const char *word = value_text_of(named);
        struct arena *arena = holding->manifests->arena;

        if (word && pinned && strcmp(word, pinned) != 0 && strcmp(word, NETWORK_ISOLATED) != 0 &&
            strcmp(word, NETWORK_NONE) != 0)
                add_refusal_of(holding, resource, named,
                               arena_printf(arena, "%s is not what the Controller pins for source %s", what,
                                            holding->config->name),
                               arena_printf(arena, "leave it out, or write network: %s", pinned));
        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                const struct value *ids = value_get(named, lists[i].name);
                const struct value *permitted = value_get(holding->config->may, lists[i].name);

                for (uint32_t k = 0; ids && k < ids->count; k++) {
                        if (is_listed(permitted, value_text_of(&ids->items[k])))
                                continue;
                        add_refusal_of(
                                holding, resource, &ids->items[k],
                                arena_printf(arena, "%s has a %s that source %s may not name", what,
                                             lists[i].one, holding->config->name),
                                arena_printf(arena,
                                             "say isolated, or list it in the Controller's source: may.%s",
                                             lists[i].name));
                }
        }
}

static void check_networks(struct holding *holding) {
        const struct manifests *manifests = holding->manifests;
        size_t count;
        const struct resource *environments = manifests_of_kind(manifests, KIND_ENVIRONMENT, &count);

        check_network(holding, manifests->stack,
                      value_get(value_get(manifests->stack->spec, "aws"), "network"),
                      "the Stack's aws.network");
        for (size_t i = 0; i < count; i++)
                check_network(holding, &environments[i], value_get(environments[i].spec, "network"),
                              "the environment's network");
}

/*
 * The account's digits stand fast in a pattern, and so does the domain: a star is of the region alone. Any registry that is
 * named needs one, the stack's own too: whose account it is will be known only when AWS is asked.
 */
static void check_registry_of(struct holding *holding, const struct resource *resource,
                              const struct value *image) {
        const struct value *named = value_get(image, "registry");
        const char *registry = value_text_of(named);
        const struct value *patterns = value_get(holding->config->may, "registries");
        struct arena *arena = holding->manifests->arena;

        if (!named)
                return;
        for (uint32_t i = 0; registry && patterns && i < patterns->count; i++) {
                const char *pattern = value_text_of(&patterns->items[i]);

                if (pattern && fnmatch(pattern, registry, FNM_NOESCAPE) == 0)
                        return;
        }
        add_refusal_of(holding, resource, named,
                       arena_printf(arena, "the image's registry may not be named by source %s",
                                    holding->config->name),
                       "leave it out, or give the Controller's source a pattern in may.registries");
}

static void check_folder_pin(struct holding *holding, const char *name) {
        const struct value *named = value_get(value_get(holding->manifests->stack->spec, "local"), name);
        const char *folder = value_text_of(named);
        struct arena *arena = holding->manifests->arena;

        if (folder && !is_folder_permitted(value_get(holding->config->may, name), folder))
                add_refusal(
                        holding, named,
                        arena_printf(arena, "the Stack's local.%s is no folder that source %s may name", name,
                                     holding->config->name),
                        arena_printf(arena,
                                     "leave it out, or list the folder in the Controller's source: may.%s",
                                     name));
}

/*
 * The objects are read and written with this machine's credentials: another stack's state, whose
 * keyed hashes could then be tested by this one, or any owner's objects.
 */
static void check_state(struct holding *holding) {
        const struct source_config *config = holding->config;
        const struct value *named = value_get(value_get(holding->manifests->stack->spec, "state"), "s3");
        const struct value *patterns = value_get(config->may, "states");
        const char *place = value_text_of(named);

        if (!place || (config->state && strcmp(config->state, place) == 0))
                return;
        for (uint32_t i = 0; !config->state && patterns && i < patterns->count; i++) {
                const char *pattern = value_text_of(&patterns->items[i]);

                if (pattern && fnmatch(pattern, place, FNM_PATHNAME | FNM_NOESCAPE) == 0)
                        return;
        }
        add_refusal(
                holding, named,
                arena_printf(
                        holding->manifests->arena,
                        config->state
                                ? "the Stack's state is not the one that the Controller names for source %s"
                                : "the Stack's state may not be named by source %s",
                        config->name),
                config->state
                        ? "leave it out: the Controller says where it lies"
                        : "leave it out, or give the Controller's source its state, or a pattern in may.states");
}

/*
 * A pinned value that the commit leaves out is put into its Stack: plan, plan id and saved plan are made with it. The network
 * alone may be another than the pin, and then stays.
 */
static void put_pins(const struct source_config *config, struct manifests *manifests) {
        const struct value *pins = value_get(config->pins, "aws");
        struct value *spec = (struct value *)manifests->stack->spec;
        const char *provider = value_get_text(spec, "provider");
        struct value aws = { .type = VALUE_MAP };

        if (!pins || !provider || strcmp(provider, "aws") != 0)
                return;
        if (value_get(spec, "aws"))
                aws = value_copy(manifests->arena, value_get(spec, "aws"));
        for (uint32_t i = 0; i < pins->count; i++) {
                const char *name = pins->members[i].name;
                const struct value *named = value_get(&aws, name);

                if (strcmp(name, "network") == 0 && named &&
                    (named->type == VALUE_TEXT || named->type == VALUE_MAP))
                        continue;
                value_set_text(manifests->arena, &aws, name, value_text_of(&pins->members[i].value));
        }
        value_set(manifests->arena, spec, "aws", aws);
}

bool pins_hold(const struct source_config *config, struct manifests *manifests,
               struct diagnostics *diagnostics) {
        struct holding holding = {
                .config = config, .manifests = manifests, .diagnostics = diagnostics, .held = true
        };

        check_provider_pin(&holding);
        check_aws(&holding);
        check_roles(&holding);
        check_networks(&holding);
        check_state(&holding);
        check_folder_pin(&holding, "images");
        check_folder_pin(&holding, "workspaces");
        for (size_t i = 0; i < manifests->count; i++) {
                const struct resource *resource = &manifests->resources[i];

                if (resource->kind->id == KIND_ENVIRONMENT) {
                        check_sources(&holding, resource);
                        check_registry_of(&holding, resource, value_get(resource->spec, "image"));
                } else if (resource->kind->id == KIND_IMAGE) {
                        check_registry_of(&holding, resource, resource->spec);
                }
        }
        if (holding.held)
                put_pins(config, manifests);
        return holding.held;
}
