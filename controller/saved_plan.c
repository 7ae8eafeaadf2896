/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is one JSON object whose hash is keyed by the state's secret key: only who has the state can write a plan
 * that is applied. It is checked before anything in it is read further, but what it vouches for may still come from
 * another version of Berth, so that each member is read as if it might be missing.
 *
 * A plan is applied by planning again from the saved manifests, and comparing with what was saved.
 * Nothing of the saved list of changes is carried out by itself: guards hold as in any plan, and a
 * change that is not needed any more shows as a difference.
 */
#include "controller/saved_plan.h"

#include "base/files.h"
#include "base/json.h"
#include "controller/planning.h"
#include "controller/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_VERSION 1
#define FILE_LIMIT (256U * 1024U * 1024U)

static json_t *texts_to_json(const char *const *texts, size_t count) {
        json_t *list = json_array();

        for (size_t i = 0; i < count; i++)
                json_array_append_new(list, json_string(texts[i]));
        return list;
}

static json_t *resource_to_json(const struct resource *resource, const uint8_t *key) {
        json_t *object = json_object();

        json_object_set_new(object, "kind", json_string(resource->kind->name));
        json_object_set_new(object, "name", json_string(resource->name));
        if (resource->labels)
                json_object_set_new(object, "labels", value_to_json(resource->labels, key));
        if (resource->annotations)
                json_object_set_new(object, "annotations", value_to_json(resource->annotations, key));
        json_object_set_new(object, "spec", value_to_json(resource->spec, key));
        return object;
}

static json_t *manifests_to_json(const struct manifests *manifests, const uint8_t *key) {
        json_t *object = json_object(), *resources = json_array(), *missing = json_array();

        for (size_t i = 0; i < manifests->count; i++)
                json_array_append_new(resources, resource_to_json(&manifests->resources[i], key));
        /* References to environments that no manifest declares: they guard these when the plan is applied, too. */
        for (size_t i = 0; i < manifests->missing_count; i++)
                json_array_append_new(missing,
                                      json_pack("{s:s, s:s}", "dependent", manifests->missing[i].dependent,
                                                "environment", manifests->missing[i].environment));
        json_object_set_new(object, "stack", resource_to_json(manifests->stack, key));
        json_object_set_new(object, "resources", resources);
        json_object_set_new(object, "missing", missing);
        return object;
}

static json_t *fingerprints_to_json(const struct plan *plan) {
        json_t *object = json_object();

        for (size_t i = 0; i < plan->change_count; i++) {
                const struct observation *observed = plan->changes[i]->observed;

                json_object_set_new(object, plan->changes[i]->address,
                                    observed->fingerprint ? json_string(observed->fingerprint) : json_null());
        }
        return object;
}

static json_t *allowances_to_json(const struct plan_args *args) {
        json_t *list = json_array();

        for (size_t i = 0; i < args->allowance_count; i++)
                json_array_append_new(list, json_pack("{s:s, s:s?}", "id", args->allowances[i].id, "address",
                                                      args->allowances[i].address));
        return list;
}

/* Over the compact form with sorted members, without the hash itself. */
static void compute_mac(const json_t *document, const uint8_t *key, char hex[SHA256_HEX_SIZE]) {
        json_t *bare JSON_CLEANUP = json_copy((json_t *)document);
        uint8_t mac[SHA256_SIZE];
        char *text;

        json_object_del(bare, "mac");
        text = json_compact(bare);
        digest_hmac_sha256(key, SHA256_SIZE, text, strlen(text), mac);
        digest_hex(mac, sizeof(mac), hex);
        free(text);
}

static int parse_document(const char *path, json_t **ret, struct error *err) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        json_error_t problem;
        json_t *document;

        if (file_read(path, FILE_LIMIT, &text, err) < 0)
                return -1;
        document = json_loadb(strbuf_text(&text), text.length, JSON_REJECT_DUPLICATES, &problem);
        if (!document)
                return error_set(err, "%s:%d:%d: is no saved plan: %s", path, problem.line, problem.column,
                                 problem.text);
        *ret = document;
        return 0;
}

/* A plan is written into a new file, or in place of an older plan: never over a manifest, into a device or through a link. */
static int check_target(const char *path, struct error *err) {
        json_t *document JSON_CLEANUP = NULL;
        struct error unreadable;
        struct stat status;

        if (lstat(path, &status) < 0)
                return errno == ENOENT ? 0 : error_set(err, "cannot write %s: %s", path, strerror(errno));
        if (!S_ISREG(status.st_mode))
                return error_set(err, "%s is no regular file: a plan is saved into a file of its own", path);
        if (status.st_size == 0)
                return 0;
        if (parse_document(path, &document, &unreadable) < 0 || json_integer_or(document, "berthPlan", 0) < 1)
                return error_set(err, "%s already exists and is not a saved plan: it is not overwritten",
                                 path);
        return 0;
}

int saved_plan_write(const char *path, const struct plan_args *args, const struct plan *plan,
                     struct error *err) {
        const uint8_t *key = state_secret_key(args->state);
        json_t *document JSON_CLEANUP = json_object();
        char mac[SHA256_HEX_SIZE];
        char *text;
        int result;

        if (check_target(path, err) < 0)
                return -1;
        json_object_set_new(document, "berthPlan", json_integer(FILE_VERSION));
        json_object_set_new(document, "lineage", json_string(state_lineage(args->state)));
        json_object_set_new(document, "serial", json_integer((json_int_t)plan->serial));
        json_set_text(document, "account", plan->identity.account);
        json_set_text(document, "region", plan->identity.region);
        json_object_set_new(document, "destroy", json_boolean(args->destroy));
        json_object_set_new(document, "targets", texts_to_json(args->targets, args->target_count));
        json_object_set_new(document, "excludes", texts_to_json(args->excludes, args->exclude_count));
        json_object_set_new(document, "allowances", allowances_to_json(args));
        json_object_set_new(document, "desired", manifests_to_json(args->manifests, key));
        json_object_set_new(document, "fingerprints", fingerprints_to_json(plan));
        json_object_set_new(document, "plan", report_plan_json(plan));
        compute_mac(document, key, mac);
        json_object_set_new(document, "mac", json_string(mac));
        text = json_compact(document);
        result = file_write_atomic(path, text, strlen(text), 0600, err);
        free(text);
        return result;
}

static int check_document(const char *path, const json_t *document, struct state *state, struct error *err) {
        const char *mac = json_text(document, "mac"), *lineage = json_text(document, "lineage");
        json_int_t version = json_integer_or(document, "berthPlan", 0);
        char expected[SHA256_HEX_SIZE];

        if (version < 1 || !mac || !lineage)
                return error_set(err, "%s is no saved plan: make one with berth plan -o FILE", path);
        if (version > FILE_VERSION)
                return error_set(err, "%s was made by a newer berth (plan version %" JSON_INTEGER_FORMAT ")",
                                 path, version);
        if (strcmp(lineage, state_lineage(state)) != 0)
                return error_set_kind(err, ERROR_REFUSED,
                                      "plan-stale: %s was made from another state (lineage %s, this one "
                                      "is %s): name the right one with -f or --state, or plan again",
                                      path, lineage, state_lineage(state));
        compute_mac(document, state_secret_key(state), expected);
        if (strcmp(mac, expected) != 0)
                return error_set_kind(
                        err, ERROR_REFUSED,
                        "%s was changed since berth wrote it: a saved plan is applied as it was saved or not "
                        "at all; plan again",
                        path);
        return 0;
}

/* What a valid hash vouches for was written by a Berth, but maybe by another one than this. */
static int unknown_form(struct error *err) {
        return error_set(err, "the saved plan has a form that this version cannot read: plan again");
}

static int texts_from_json(struct arena *arena, const json_t *list, const char ***ret, size_t *ret_count,
                           struct error *err) {
        size_t count = json_array_size(list);
        const char **texts = arena_array(arena, count + 1, sizeof(*texts));

        for (size_t i = 0; i < count; i++) {
                texts[i] = arena_strdup(arena, json_string_value(json_array_get(list, i)));
                if (!texts[i])
                        return unknown_form(err);
        }
        *ret = texts;
        *ret_count = count;
        return 0;
}

static const struct value *value_in(struct arena *arena, const json_t *object, const char *name) {
        const json_t *json = json_object_get(object, name);
        struct value *value;

        if (!json)
                return NULL;
        value = arena_alloc(arena, sizeof(*value));
        *value = value_from_json(arena, json);
        return value;
}

static int resource_from_json(struct arena *arena, const json_t *json, struct resource *ret,
                              struct error *err) {
        const char *name = json_text(json, "name"), *kind_name = json_text(json, "kind");
        const struct kind *kind = kind_name ? kind_find(kind_name) : NULL;

        if (!kind || !name || !json_is_object(json_object_get(json, "spec")))
                return unknown_form(err);
        *ret = (struct resource){
                .kind = kind,
                .name = arena_strdup(arena, name),
                .address = arena_printf(arena, "%s/%s", kind->name, name),
                .labels = value_in(arena, json, "labels"),
                .annotations = value_in(arena, json, "annotations"),
                .spec = value_in(arena, json, "spec"),
        };
        return 0;
}

static int read_missing(const json_t *list, struct arena *arena, struct manifests *ret, struct error *err) {
        ret->missing_count = json_array_size(list);
        ret->missing = arena_array(arena, ret->missing_count + 1, sizeof(*ret->missing));
        for (size_t i = 0; i < ret->missing_count; i++) {
                const json_t *reference = json_array_get(list, i);
                const char *dependent = arena_strdup(arena, json_text(reference, "dependent"));
                const char *environment = arena_strdup(arena, json_text(reference, "environment"));

                if (!dependent || !environment)
                        return unknown_form(err);
                ret->missing[i] = (struct missing_reference){
                        .dependent = dependent,
                        .environment = environment,
                        .diagnostic = { .message = arena_printf(arena,
                                                                "no manifest declared the environment \"%s\" "
                                                                "when the plan was saved",
                                                                environment),
                                        .hint = "plan again",
                                        .address = dependent },
                };
        }
        return 0;
}

/* Resources are searched by kind and name, and so must be sorted by these. */
static bool is_sorted_before(const struct resource *before, const struct resource *next) {
        if (before->kind->id != next->kind->id)
                return before->kind->id < next->kind->id;
        return strcmp(before->name, next->name) < 0;
}

static int read_manifests(const json_t *desired, struct arena *arena, struct manifests *ret,
                          struct error *err) {
        const json_t *list = json_object_get(desired, "resources");
        size_t count = json_array_size(list);
        struct resource *stack = arena_alloc(arena, sizeof(*stack));

        *ret = (struct manifests){ .arena = arena, .stack = stack, .count = count };
        if (read_missing(json_object_get(desired, "missing"), arena, ret, err) < 0)
                return -1;
        ret->resources = arena_array(arena, count + 1, sizeof(*ret->resources));
        for (size_t i = 0; i < count; i++) {
                if (resource_from_json(arena, json_array_get(list, i), &ret->resources[i], err) < 0)
                        return -1;
                if (i > 0 && !is_sorted_before(&ret->resources[i - 1], &ret->resources[i]))
                        return unknown_form(err);
        }
        if (resource_from_json(arena, json_object_get(desired, "stack"), stack, err) < 0)
                return -1;
        return stack->kind->id == KIND_STACK ? 0 : unknown_form(err);
}

/* Whether a keyed hash stands anywhere in it, whose text is needed to apply it. */
static bool has_secret(const struct value *value) {
        if (!value)
                return false;
        if (value->type == VALUE_SECRET)
                return true;
        for (uint32_t i = 0; value->type == VALUE_LIST && i < value->count; i++) {
                if (has_secret(&value->items[i]))
                        return true;
        }
        for (uint32_t i = 0; value->type == VALUE_MAP && i < value->count; i++) {
                if (has_secret(&value->members[i].value))
                        return true;
        }
        return false;
}

static int read_allowances(const json_t *list, struct arena *arena, struct saved_plan *ret,
                           struct error *err) {
        ret->allowance_count = json_array_size(list);
        ret->allowances = arena_array(arena, ret->allowance_count + 1, sizeof(*ret->allowances));
        for (size_t i = 0; i < ret->allowance_count; i++) {
                const json_t *allowance = json_array_get(list, i);

                ret->allowances[i] = (struct allowance){
                        .id = arena_strdup(arena, json_text(allowance, "id")),
                        .address = arena_strdup(arena, json_text(allowance, "address")),
                };
                if (!ret->allowances[i].id)
                        return unknown_form(err);
        }
        return 0;
}

int saved_plan_read(const char *path, struct state *state, struct arena *arena, struct saved_plan *ret,
                    struct error *err) {
        json_t *document JSON_CLEANUP = NULL;
        struct saved_plan saved = { 0 };

        if (parse_document(path, &document, err) < 0 || check_document(path, document, state, err) < 0 ||
            read_manifests(json_object_get(document, "desired"), arena, &saved.manifests, err) < 0)
                return -1;
        for (size_t i = 0; i < saved.manifests.count; i++)
                saved.needs_secrets |= has_secret(saved.manifests.resources[i].spec);
        saved.destroy = json_is_true(json_object_get(document, "destroy"));
        if (texts_from_json(arena, json_object_get(document, "targets"), &saved.targets, &saved.target_count,
                            err) < 0 ||
            texts_from_json(arena, json_object_get(document, "excludes"), &saved.excludes,
                            &saved.exclude_count, err) < 0 ||
            read_allowances(json_object_get(document, "allowances"), arena, &saved, err) < 0)
                return -1;
        saved.document = json_incref(document);
        *ret = saved;
        return 0;
}

void saved_plan_release(struct saved_plan *saved) {
        json_decref(saved->document);
        saved->document = NULL;
}

/* `saved` is a value of the plan's own arena: its hashes are replaced by the texts they were made from. */
static int restore_secret_texts(struct value *saved, const struct value *current, const uint8_t *key,
                                struct error *err) {
        if (saved->type == VALUE_SECRET) {
                if (!current || !value_equal(saved, current, key))
                        return error_set(
                                err,
                                "its sensitive value is not the one that the plan was made with: plan again");
                *saved = *current;
                return 0;
        }
        for (uint32_t i = 0; saved->type == VALUE_MAP && i < saved->count; i++) {
                struct member *member = &saved->members[i];

                if (has_secret(&member->value) &&
                    restore_secret_texts(&member->value, value_get(current, member->name), key, err) < 0)
                        return error_context(err, "%s", member->name);
        }
        return 0;
}

int saved_plan_restore_secrets(struct saved_plan *saved, const struct manifests *manifests,
                               struct state *state, struct arena *arena, struct error *err) {
        const uint8_t *key = state_secret_key(state);

        for (size_t i = 0; i < saved->manifests.count; i++) {
                struct resource *resource = &saved->manifests.resources[i];
                const struct resource *current;
                struct value *spec;

                if (!has_secret(resource->spec))
                        continue;
                current = manifests_find(manifests, resource->kind->id, resource->name);
                spec = arena_alloc(arena, sizeof(*spec));
                *spec = value_copy(arena, resource->spec);
                if (restore_secret_texts(spec, current ? current->spec : NULL, key, err) < 0)
                        return error_context(err, "%s", resource->address);
                resource->spec = spec;
        }
        return 0;
}

/*
 * The part of a change that must be the same: refusals may have been allowed, reasons may have new
 * words.
 */
static bool same_change(const json_t *saved, const json_t *now) {
        return json_equal(json_object_get(saved, "address"), json_object_get(now, "address")) &&
               json_equal(json_object_get(saved, "action"), json_object_get(now, "action")) &&
               json_equal(json_object_get(saved, "fields"), json_object_get(now, "fields"));
}

static const char *changes_moved(const json_t *saved, const json_t *now, struct arena *arena) {
        size_t count = json_array_size(now);

        for (size_t i = 0; i < count && i < json_array_size(saved); i++) {
                const json_t *change = json_array_get(now, i);

                if (!same_change(json_array_get(saved, i), change))
                        return arena_printf(arena, "%s would now be another change",
                                            json_text(change, "address"));
        }
        if (json_array_size(saved) != count)
                return arena_printf(arena, "%zu changes were planned, %zu would be needed now",
                                    json_array_size(saved), count);
        return NULL;
}

static const char *fingerprint_moved(const json_t *saved, const struct plan *plan, struct arena *arena) {
        for (size_t i = 0; i < plan->change_count; i++) {
                const struct change *change = plan->changes[i];
                const char *before = json_text(saved, change->address), *now = change->observed->fingerprint;

                if ((before || now) && (!before || !now || strcmp(before, now) != 0))
                        return arena_printf(
                                arena, "%s was changed outside of Berth (its revision was %s, now it is %s)",
                                change->address, before ? before : "none", now ? now : "none");
        }
        return NULL;
}

static const char *identity_moved(const json_t *document, const struct plan *plan, struct arena *arena) {
        const char *account = json_text(document, "account"), *region = json_text(document, "region");

        if (account && plan->identity.account && strcmp(account, plan->identity.account) != 0)
                return arena_printf(arena, "it was made for account %s, the credentials are of %s", account,
                                    plan->identity.account);
        if (region && plan->identity.region && strcmp(region, plan->identity.region) != 0)
                return arena_printf(arena, "it was made for region %s, this is %s", region,
                                    plan->identity.region);
        return NULL;
}

int saved_plan_compare(const struct saved_plan *saved, struct plan *plan, struct arena *arena,
                       struct error *err) {
        json_int_t serial = json_integer_or(saved->document, "serial", -1);
        const json_t *before = json_object_get(json_object_get(saved->document, "plan"), "changes");
        json_t *now JSON_CLEANUP = report_plan_json(plan);
        const char *moved = NULL;

        (void)err;
        if ((json_int_t)plan->serial != serial)
                moved = arena_printf(arena,
                                     "the state has moved on: serial %" JSON_INTEGER_FORMAT
                                     " when it was made, %" PRIu64 " now",
                                     serial, plan->serial);
        if (!moved)
                moved = identity_moved(saved->document, plan, arena);
        /* A plan refused as a whole (wrong-account) lists no changes: its own refusal says enough. */
        if (!moved && plan->refusal_count == 0)
                moved = fingerprint_moved(json_object_get(saved->document, "fingerprints"), plan, arena);
        if (!moved && plan->refusal_count == 0)
                moved = changes_moved(before, json_object_get(now, "changes"), arena);
        if (moved)
                plan_refuse(arena, plan,
                            (struct refusal){ .id = "plan-stale", .message = moved, .remedy = "plan again" });
        return 0;
}
