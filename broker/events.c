/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/events.h"

#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "broker/answers.h"
#include "broker/call.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_MS 10000

struct events {
        struct engine_follower *follower;
        json_t *(*finish)(void *context, struct server_request *request, json_t *result);
        void *context;      /* of that */
        struct strbuf text; /* of one event */
        size_t sent;        /* of it */
};

/* JSON in one line: what a sandbox said cannot become a field of the stream. False where too much is carried: it breaks off. */
static bool write_event(struct events *events, struct server_request *request,
                        const struct engine_event *event) {
        char *data TEXT_CLEANUP = json_compact(json_checked(event->data));

        strbuf_release(&events->text);
        json_decref(event->data);
        if (!call_carry(request, strlen(data)))
                return false;
        strbuf_printf(&events->text, "id: %" PRId64 "\nevent: %s\ndata: ", event->id, event->name);
        strbuf_append(&events->text, data);
        strbuf_append(&events->text, "\n\n");
        events->sent = 0;
        return true;
}

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
        struct engine_event event;

        while (events->sent == events->text.length) {
                switch (engine_follower_next(events->follower, &event)) {
                case ENGINE_EVENT:
                        if (events->finish && strcmp(event.name, "done") == 0)
                                event.data = events->finish(events->context, request, event.data);
                        if (!write_event(events, request, &event))
                                return -1;
                        continue;
                case ENGINE_ENDED:
                        return 0;
                case ENGINE_NOTHING:
                default:
                        break;
                }
                switch (server_wait(request, engine_follower_descriptor(events->follower), POLLIN,
                                    QUIET_MS)) {
                case SERVER_LEFT:
                        return -1;
                case SERVER_STOPS:
                        return 0; /* the stream's end is the event `done`: without it he asks again */
                case SERVER_TIME:
                        strbuf_clear(&events->text);
                        strbuf_append(&events->text, ":\n\n");
                        events->sent = 0;
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
        strbuf_release(&events->text);
}

void events_answer(struct server_request *request, struct engine_follower *follower,
                   json_t *(*finish)(void *context, struct server_request *request, json_t *result),
                   void *context) {
        struct events *events = arena_alloc(request->arena, sizeof(*events));
        const struct server_stream stream = { events, read_events, end_events, -1 };

        *events = (struct events){
                .follower = follower, .finish = finish, .context = context, .text = STRBUF_INIT
        };
        answers_count(request, 200);
        server_answer_stream(request, 200, "text/event-stream", &stream);
}
