/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/request/events.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/request/answers.h"
#include "broker/request/call.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_MS 10000

struct events {
        struct engine_follower *follower;
        struct events_form form;
        struct strbuf text; /* of one event */
        size_t sent;        /* of it */
        bool stopped;
};

static ssize_t hand_out(struct events *events, char *buffer, size_t size) {
        size_t count = events->text.length - events->sent;

        if (count > size)
                count = size;
        memcpy(buffer, events->text.data + events->sent, count);
        events->sent += count;
        return (ssize_t)count;
}

static ssize_t read_events(void *context, struct server_request *request, char *buffer, size_t size) {
        struct events *events = context;
        const struct events_form *form = &events->form;
        struct engine_event event;

        while (events->sent == events->text.length && !events->stopped) {
                strbuf_clear(&events->text);
                events->sent = 0;
                switch (engine_follower_next(events->follower, &event)) {
                case ENGINE_EVENT:
                        strbuf_release(&events->text); /* a large one is not kept for those behind it */
                        if (!form->write(form->context, request, &event, &events->text))
                                return -1;
                        continue;
                case ENGINE_ENDED:
                        return 0;
                case ENGINE_NOTHING:
                default:
                        break;
                }
                switch (server_wait(request, engine_follower_descriptor(events->follower), POLLIN,
                                    form->quiet_ms)) {
                case SERVER_LEFT:
                        return -1;
                case SERVER_STOPS:
                        events->stopped = true;
                        if (form->stop)
                                form->stop(form->context, &events->text);
                        break;
                case SERVER_TIME:
                        form->quiet(form->context, &events->text);
                        break;
                case SERVER_READY:
                default:
                        break;
                }
        }
        return hand_out(events, buffer, size);
}

static void end_events(void *context) {
        struct events *events = context;

        engine_follower_close(events->follower);
        if (events->form.end)
                events->form.end(events->form.context);
        strbuf_release(&events->text);
}

void events_answer_as(struct server_request *request, struct engine_follower *follower,
                      const struct events_form *form) {
        struct events *events = arena_alloc(request->arena, sizeof(*events));
        const struct server_stream stream = { events, read_events, end_events, -1 };

        *events = (struct events){ .follower = follower, .form = *form, .text = STRBUF_INIT };
        if (form->first)
                strbuf_append(&events->text, form->first);
        server_answer_stream(request, 200, form->type ? form->type : "text/event-stream", &stream);
}

/* --- as they are --- */

struct plain {
        json_t *(*finish)(void *context, struct server_request *request, json_t *result);
        void *context; /* of that */
};

/* JSON in one line: what a sandbox said cannot become a field of the stream. False where too much is carried: it breaks off. */
static bool write_event(void *context, struct server_request *request, const struct engine_event *event,
                        struct strbuf *to) {
        const struct plain *plain = context;
        json_t *json JSON_CLEANUP = plain->finish && strcmp(event->name, "done") == 0
                                            ? plain->finish(plain->context, request, event->data)
                                            : event->data;
        json_t *named JSON_CLEANUP = json_checked(json_pack("{s:s}", "event", event->name));
        char *data TEXT_CLEANUP = NULL;

        /* Its name stands in it, too: readers that are made from /openapi.json see the data alone. */
        json_object_update(named, json_checked(json));
        data = json_compact(named);

        if (!call_carry(request, strlen(data)))
                return false;
        strbuf_printf(to, "id: %" PRId64 "\nevent: %s\ndata: ", event->id, event->name);
        strbuf_append(to, data);
        strbuf_append(to, "\n\n");
        return true;
}

#define COMMENT ":\n\n"

static void write_comment(void *context, struct strbuf *to) {
        (void)context;
        strbuf_append(to, COMMENT);
}

/*
 * The stream's end is the event `done`: a client that sees an end without it, as the server stops,
 * asks again.
 */
void events_answer(struct server_request *request, struct engine_follower *follower,
                   json_t *(*finish)(void *context, struct server_request *request, json_t *result),
                   void *context) {
        struct plain *plain = arena_alloc(request->arena, sizeof(*plain));

        *plain = (struct plain){ finish, context };
        events_answer_as(request, follower,
                         &(const struct events_form){ .context = plain,
                                                      .first = COMMENT,
                                                      .write = write_event,
                                                      .quiet = write_comment,
                                                      .quiet_ms = QUIET_MS });
}
