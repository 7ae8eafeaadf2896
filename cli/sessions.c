/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sessions.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "broker/auth/config.h"
#include "cli/shell.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SERVER_FILE_MAX ((size_t)1 << 20)
#define PAGE "1000"
#define PAGES_MAX 1000 /* ends the loop at a server that never sends a last page */

/* The folder of manifests: that of the Server, where -f names the file of one, as with berth serve. */
static const char *manifests_of(struct session *session, const char *path) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct broker_config config;
        struct error ignored;
        struct stat status;

        if (stat(path, &status) < 0 || !S_ISREG(status.st_mode) ||
            file_read(path, SERVER_FILE_MAX, &text, &ignored) < 0 ||
            !strstr(strbuf_text(&text), "kind: Server") ||
            broker_config_load(path, true, session->arena, &config, &session->diagnostics, &ignored) < 0)
                return path;
        return config.stack;
}

static const char *where_of(const struct options *options, struct arena *arena) {
        const char *environment = getenv("BERTH_STATE");
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (options->state && (!environment || strcmp(options->state, environment) != 0)) {
                strbuf_append(&text, " --state ");
                shell_append_word(&text, options->state);
        } else if (!options->state && strcmp(options->path, ".") != 0) {
                strbuf_append(&text, " -f ");
                shell_append_word(&text, options->path);
        }
        return arena_strdup(arena, strbuf_text(&text));
}

int sessions_open(struct sessions *ret, const struct options *options, struct error *err) {
        struct options of_stack = *options;

        *ret = (struct sessions){ .options = options };
        session_init(&ret->session);
        ret->where = where_of(options, ret->session.arena);
        of_stack.path = manifests_of(&ret->session, options->path);
        ret->folder = session_state_folder(&ret->session, &of_stack);
        return sessions_connect(ret, err);
}

int sessions_connect(struct sessions *sessions, struct error *err) {
        struct arena *arena = sessions->session.arena;

        return sessions->client
                       ? 0
                       : client_open(sessions->folder, arena_printf(arena, "berth serve%s", sessions->where),
                                     &sessions->client, err);
}

void sessions_close(struct sessions *sessions) {
        client_closep(&sessions->client);
        session_close(&sessions->session);
}

int sessions_ask(struct sessions *sessions, const char *method, const char *path, json_t *body, json_t **ret,
                 struct error *err) {
        json_t *sent JSON_CLEANUP = body;
        const struct client_call call = { .method = method, .path = path, .body = sent };

        return client_ask(sessions->client, &call, ret, err);
}

int sessions_list(struct sessions *sessions, const char *path, const char *query, json_t **ret,
                  struct error *err) {
        json_t *all JSON_CLEANUP = json_checked(json_array());
        struct strbuf at STRBUF_CLEANUP = STRBUF_INIT, cursor STRBUF_CLEANUP = STRBUF_INIT;

        for (unsigned i = 0; i < PAGES_MAX; i++) {
                json_t *page JSON_CLEANUP = NULL;

                strbuf_clear(&at);
                strbuf_printf(&at, "%s%s%slimit=" PAGE, path, query, *query ? "&" : "?");
                if (cursor.length > 0) {
                        strbuf_append(&at, "&cursor=");
                        client_append_escaped(&at, strbuf_text(&cursor), false);
                }
                if (sessions_ask(sessions, "GET", strbuf_text(&at), NULL, &page, err) < 0)
                        return -1;
                json_array_extend(all, json_object_get(page, "items"));
                strbuf_clear(&cursor);
                if (!json_text(page, "cursor"))
                        break;
                strbuf_append(&cursor, json_text(page, "cursor"));
        }
        *ret = json_incref(all);
        return 0;
}

void sessions_append_filter(struct strbuf *query, const char *name, const char *value) {
        if (!value)
                return;
        strbuf_printf(query, "%s%s=", query->length ? "&" : "?", name);
        client_append_escaped(query, value, false);
}

int sessions_check_id(const char *text, struct error *err) {
        return client_is_id(text) ? 0
                                  : error_set(err,
                                              "\"%s\" is no session's id (\"s-\" and 26 letters and digits): "
                                              "berth session list shows those there are",
                                              text);
}

json_t *sessions_pairs(const char *const *pairs, size_t count) {
        json_t *object = count ? json_checked(json_object()) : NULL;

        for (size_t i = 0; i < count; i++) {
                const char *equals = strchr(pairs[i], '=');
                char *name = strndup(pairs[i], (size_t)(equals - pairs[i]));

                if (!name)
                        abort();
                json_put(object, name, json_from_text(equals + 1));
                free(name);
        }
        return object;
}

/* Without --env the only environment is meant. */
static int find_only_environment(struct sessions *sessions, json_t **ret, struct error *err) {
        json_t *items JSON_CLEANUP = NULL;
        struct strbuf names STRBUF_CLEANUP = STRBUF_INIT;
        json_t *item;
        size_t i;

        if (sessions_list(sessions, "/v1/environments", "", &items, err) < 0)
                return -1;
        if (json_array_size(items) == 1 && json_text(json_array_get(items, 0), "name")) {
                *ret = json_incref(json_object_get(json_array_get(items, 0), "name"));
                return 0;
        }
        json_array_foreach (items, i, item) {
                if (names.length < 200)
                        strbuf_printf(&names, "%s%s", i ? ", " : "", json_text(item, "name"));
                else if (i + 1 == json_array_size(items))
                        strbuf_append(&names, ", ...");
        }
        return json_array_size(items)
                       ? error_set(err, "which environment? --env ENV, or --agent NAME for that agent's: %s",
                                   strbuf_text(&names))
                       : error_set(err, "no environment was applied yet: berth apply makes them");
}

/*
 * True if `typed` is not the name of any item; *ret_near is the nearest name, or NULL, and lives as
 * long as the items.
 */
static bool is_none_of(const json_t *items, const char *typed, struct arena *arena, const char **ret_near) {
        const char **names = arena_array(arena, json_array_size(items) + 1, sizeof(*names));
        size_t count = 0, i;
        json_t *item;

        json_array_foreach (items, i, item) {
                const char *name = json_text(item, "name");

                if (!name)
                        continue;
                if (strcmp(name, typed) == 0)
                        return false;
                names[count++] = name;
        }
        *ret_near = suggest_nearest(typed, names, count);
        return true;
}

void sessions_suggest(struct sessions *sessions, struct error *err) {
        const struct {
                const char *typed, *what, *path;
        } rows[] = { { sessions->options->agent, "agent", "/v1/agents" },
                     { sessions->options->environment, "environment", "/v1/environments" } };

        for (size_t i = 0; err->kind == ERROR_NOT_FOUND && i < sizeof(rows) / sizeof(rows[0]); i++) {
                json_t *items JSON_CLEANUP = NULL;
                const char *near;
                struct error ignored;

                if (!rows[i].typed || sessions_list(sessions, rows[i].path, "", &items, &ignored) < 0 ||
                    !is_none_of(items, rows[i].typed, sessions->session.arena, &near) || !near)
                        continue;
                error_set_kind(err, ERROR_NOT_FOUND, "there is no %s %s; did you mean %s?", rows[i].what,
                               rows[i].typed, near);
                return;
        }
}

int sessions_create(struct sessions *sessions, json_t **ret, bool *ret_made, struct error *err) {
        const struct options *options = sessions->options;
        json_t *wish JSON_CLEANUP = json_checked(json_object()), *environment = NULL;
        json_t *labels = sessions_pairs(options->labels, options->label_count),
               *variables = sessions_pairs(options->variables, options->variable_count), *session = NULL;
        int status;
        const struct client_call call = {
                .method = "POST", .path = "/v1/sessions", .body = wish, .ret_status = &status
        };

        json_set_text(wish, "environment", options->environment);
        json_set_text(wish, "agent", options->agent);
        json_set_text(wish, "conversation", options->conversation);
        if (labels)
                json_put(wish, "labels", labels);
        if (variables)
                json_put(wish, "variables", variables);
        if (options->idle_s)
                json_put(wish, "idleSeconds", json_integer(options->idle_s));
        if (options->ttl_s)
                json_put(wish, "ttlSeconds", json_integer(options->ttl_s));
        if (!options->environment && !options->agent) {
                if (find_only_environment(sessions, &environment, err) < 0)
                        return -1;
                json_put(wish, "environment", environment);
        }
        if (client_ask(sessions->client, &call, &session, err) < 0) {
                sessions_suggest(sessions, err);
                return -1;
        }
        if (!json_text(session, "id") || !client_is_id(json_text(session, "id"))) {
                json_decref(session);
                return error_set(err, "the server's answer has no session");
        }
        *ret_made = status == 201;
        *ret = session;
        return 0;
}

int sessions_begin(struct sessions *sessions, const char *id, const struct sessions_code *code,
                   json_int_t *ret, struct error *err) {
        const struct options *options = sessions->options;
        json_t *body JSON_CLEANUP = json_checked(json_object()), *answer JSON_CLEANUP = NULL;
        json_t *text = json_stringn(code->code, code->length), *variables = NULL;
        const struct client_call call = {
                .method = "POST",
                .path = arena_printf(sessions->session.arena, "/v1/sessions/%s/executions", id),
                .body = body,
                .does_not_wait = true,
        };

        if (!text)
                return error_set(err, "the code is no UTF-8");
        json_put(body, "code", text);
        json_set_text(body, "language", code->language);
        json_set_text(body, "context", options->context);
        if (code->with_variables)
                variables = sessions_pairs(options->variables, options->variable_count);
        if (variables)
                json_put(body, "variables", variables);
        if (options->timeout_s)
                json_put(body, "timeoutSeconds", json_integer(options->timeout_s));
        if (code->with_input && sessions_input(body, err) < 0)
                return -1;
        if (client_ask(sessions->client, &call, &answer, err) < 0)
                return -1;
        *ret = json_integer_or(answer, "n", 0);
        return *ret > 0 ? 0 : error_set(err, "the server's answer has no execution");
}
