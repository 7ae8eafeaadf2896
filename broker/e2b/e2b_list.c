/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list is gathered whole before its page is cut: the engine knows neither states as E2B has them nor times of starting, and who pages
 * on by the last sandbox's id finds it wherever it stands then.
 */
#include "broker/e2b/e2b_list.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/text_utf8.h"
#include "broker/e2b/e2b_call.h"
#include "broker/e2b/e2b_sandboxes.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"
#include "server/head.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_MAX 1000

/* What a list is to have. */
struct wanted {
        const char **labels; /* "NAME=VALUE", ended by NULL; or NULL */
        const char *const *environments;
        bool running, paused;
        int64_t after_ms; /* started later than that */
        bool newest_first;
        size_t limit;
        const char *behind; /* the last sandbox of the page before; NULL: from the first */
};

/* "a%20b+c" as it is meant; NULL where it is no such text. */
static const char *unescape(const char *text, size_t length, struct arena *arena) {
        char *plain = arena_alloc(arena, length + 1), *to = plain;
        size_t ignored;

        for (size_t i = 0; i < length; i++) {
                int high, low;

                if (text[i] != '%') {
                        *to++ = (char)(text[i] == '+' ? ' ' : text[i]);
                        continue;
                }
                if (i + 2 >= length || (high = head_hex_digit(text[i + 1])) < 0 ||
                    (low = head_hex_digit(text[i + 2])) < 0 || (high | low) == 0)
                        return NULL;
                *to++ = (char)(high << 4 | low);
                i += 2;
        }
        *to = '\0';
        return text_is_utf8(plain, (size_t)(to - plain), &ignored) ? plain : NULL;
}

static const char *unescape_twice(const char *text, size_t length, struct arena *arena) {
        const char *once = unescape(text, length, arena);

        return once ? unescape(once, strlen(once), arena) : NULL;
}

/* A form in the value of a parameter, whose names and values the SDK has escaped before. */
static bool read_metadata(const char *form, struct arena *arena, const char ***ret) {
        size_t count = 1;

        for (const char *at = form; *at; at++)
                count += *at == '&';
        *ret = arena_array(arena, count + 1, sizeof(**ret));
        for (count = 0; *form;) {
                size_t length = strcspn(form, "&"), equals = strcspn(form, "=&");
                const char *name, *value;

                if (length > 0) {
                        if (equals >= length || !(name = unescape_twice(form, equals, arena)) ||
                            !(value = unescape_twice(form + equals + 1, length - equals - 1, arena)))
                                return false;
                        (*ret)[count++] = arena_printf(arena, "%s=%s", name, value);
                }
                form += length;
                form += *form == '&';
        }
        (*ret)[count] = NULL;
        return true;
}

static bool read_states(const char *states, struct wanted *wanted) {
        wanted->running = wanted->paused = false;
        while (*states) {
                size_t length = strcspn(states, ",");

                if (length == 7 && memcmp(states, "running", 7) == 0)
                        wanted->running = true;
                else if (length == 6 && memcmp(states, "paused", 6) == 0)
                        wanted->paused = true;
                else
                        return false;
                states += length;
                states += *states == ',';
        }
        return true;
}

/* "2026-01-31T12:00:00.123+00:00" too: what is less than a second is passed over, and other zones are not known. */
static bool read_time(const char *text, struct arena *arena, int64_t *ret) {
        const char *tail = strlen(text) > 19 ? text + 19 : "Z";

        if (*tail == '.')
                tail += 1 + strspn(tail + 1, "0123456789");
        if (strcmp(tail, "Z") != 0 && strcmp(tail, "+00:00") != 0 && strcmp(tail, " 00:00") != 0)
                return false;
        *ret = clock_parse(arena_printf(arena, "%.19sZ", text));
        return *ret >= 0;
}

/* NULL, or what is wrong. */
static const char *read_wanted(const struct server_request *request, struct wanted *ret) {
        const char *limit = server_query(request, "limit"), *metadata = server_query(request, "metadata"),
                   *state = server_query(request, "state"), *order = server_query(request, "order"),
                   *after = server_query(request, "startedAfter"),
                   *template = server_query(request, "template");

        *ret = (struct wanted){ .running = true,
                                .paused = true,
                                .after_ms = -1,
                                .limit = CALL_LIMIT,
                                .behind = server_query(request, "nextToken") };
        if (limit) {
                ret->limit = strspn(limit, "0123456789") == strlen(limit) && strlen(limit) <= 4
                                     ? strtoul(limit, NULL, 10)
                                     : 0;
                if (ret->limit < 1 || ret->limit > PAGE_MAX)
                        return "limit must be 1 to 1000";
        }
        if (metadata && !read_metadata(metadata, request->arena, &ret->labels))
                return "metadata must be NAME=VALUE, joined by &, each escaped twice";
        if (state && *state && !read_states(state, ret))
                return "state must be running, paused, or both with a comma";
        if (after && !read_time(after, request->arena, &ret->after_ms))
                return "startedAfter must be a time as 2026-01-31T12:00:00Z";
        if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
                return "order must be asc or desc";
        ret->newest_first = order && strcmp(order, "desc") == 0;
        if (template) {
                const char **names = arena_array(request->arena, 2, sizeof(*names));

                names[0] = template;
                names[1] = NULL;
                ret->environments = names;
        }
        return NULL;
}

static bool is_wanted(const json_t *session, const struct wanted *wanted) {
        return (e2b_call_is_paused(session) ? wanted->paused : wanted->running) &&
               clock_parse(json_text(session, "createdAt")) > wanted->after_ms;
}

/* All matching sandboxes of the owner, in order: at most `sessions.perOwner`. */
static int gather(const struct call *call, const struct wanted *wanted, json_t *ret,
                  struct problem *problem) {
        struct engine_filter filter = { .environments = wanted->environments,
                                        .labels = wanted->labels,
                                        .limit = ENGINE_LIST_MAX };
        json_t *list JSON_CLEANUP = NULL, *session;
        size_t index;

        do {
                json_t *page;

                if (engine_list(call->engine, &call->caller, &filter, &page, problem) < 0)
                        return -1;
                json_decref(list);
                list = page;
                json_array_foreach (json_object_get(list, "items"), index, session) {
                        if (is_wanted(session, wanted))
                                json_array_insert(ret, wanted->newest_first ? 0 : json_array_size(ret),
                                                  session);
                }
                filter.cursor = json_text(list, "cursor");
        } while (filter.cursor);
        return 0;
}

static void answer_list(struct server_request *request, const struct wanted *wanted) {
        const struct call *call = call_of(request);
        struct e2b_environments environments;
        json_t *sessions JSON_CLEANUP = json_checked(json_array());
        json_t *items, *session;
        struct problem problem;
        size_t index, from = 0;

        if (gather(call, wanted, sessions, &problem) < 0) {
                answers_refusal(request, &problem);
                return;
        }
        if (!e2b_sandboxes_environments(request, &environments))
                return;
        json_array_foreach (sessions, index, session) {
                if (wanted->behind && strcmp(json_text(session, "id"), wanted->behind) == 0)
                        from = index + 1;
        }
        if (wanted->behind && from == 0) {
                (void)call_refuse_value(
                        request,
                        "invalid nextToken: this list has ended or changed; list again from the start");
                return;
        }
        items = json_checked(json_array());
        for (index = from; index < json_array_size(sessions) && index - from < wanted->limit; index++)
                json_add(items, e2b_sandboxes_info(json_array_get(sessions, index), &environments));
        if (index < json_array_size(sessions))
                server_add_header(request, "x-next-token",
                                  json_text(json_array_get(sessions, index - 1), "id"));
        answers_json(request, 200, items);
}

void e2b_list_answer(struct server_request *request) {
        struct wanted wanted;
        const char *wrong = read_wanted(request, &wanted);

        if (wrong)
                (void)call_refuse_value(request, wrong);
        else
                answer_list(request, &wanted);
}

void e2b_list_answer_running(struct server_request *request) {
        struct wanted wanted;
        const char *wrong = read_wanted(request, &wanted);

        if (wrong) {
                (void)call_refuse_value(request, wrong);
                return;
        }
        wanted.paused = false;
        wanted.limit = SIZE_MAX;
        answer_list(request, &wanted);
}
