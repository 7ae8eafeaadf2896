/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the controller answers over HTTP: probes that only look at flags, metrics, and hooks that
 * only wake. No client can change anything or learn a secret; a hook without the right signature
 * does not even learn whether there is such a source.
 */
#include "gitops/controller_http.h"

#include "base/log.h"
#include "gitops/hook.h"
#include "server/listen.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_SIZE 512

struct controller_http {
        struct controller_http_ops ops;
        struct metrics *metrics;
        char *secret;
        unsigned port;
        struct server *server;
};

static void answer_whether(struct server_request *request, bool (*ask)(void *, char *, size_t)) {
        const struct controller_http *http = request->context;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        char reason[REASON_SIZE] = "";
        bool yes = !ask || ask(http->ops.context, reason, sizeof(reason));

        strbuf_printf(&text, "%s%s%s\n", yes ? "ok" : "not ok", *reason ? ": " : "", reason);
        server_answer_text(request, yes ? 200 : 503, strbuf_text(&text));
}

static void answer_liveness(struct server_request *request) {
        answer_whether(request, ((const struct controller_http *)request->context)->ops.healthy);
}

static void answer_ready(struct server_request *request) {
        answer_whether(request, ((const struct controller_http *)request->context)->ops.ready);
}

static void answer_metrics(struct server_request *request) {
        const struct controller_http *http = request->context;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        if (http->ops.refresh)
                http->ops.refresh(http->ops.context);
        metrics_write(http->metrics, &text);
        server_answer(request, 200, "text/plain; version=0.0.4; charset=utf-8", strbuf_text(&text),
                      text.length);
}

/* --- hooks --- */

static void count_hook(const struct controller_http *http, const char *source, unsigned status) {
        char code[16];

        snprintf(code, sizeof(code), "%u", status);
        metrics_add(http->metrics, METRIC_HOOKS, 1, (const char *const[]){ source, code });
}

static void refuse_hook(void *context, unsigned status) {
        count_hook(context, "", status);
}

static void begin_hook(struct server_request *request) {
        const struct controller_http *http = request->context;
        struct hook *hook = arena_alloc(request->arena, sizeof(*hook));
        const char *signature = server_header(request, "X-Hub-Signature-256");
        const char *event = server_header(request, "X-GitHub-Event");
        const struct hook_headers headers = {
                .signature = signature ? signature : server_header(request, "X-Hub-Signature"),
                .token = server_header(request, "X-Gitlab-Token"),
                .event = event ? event : server_header(request, "X-Event-Key"),
                .authorization = server_header(request, "Authorization"),
        };

        hook_begin(hook, http->secret, &headers);
        request->data = hook;
}

static void take_hook(struct server_request *request, const void *bytes, size_t length) {
        hook_add(request->data, bytes, length);
}

/*
 * The whole body has come. A sender that does not know the secret is not believed, and learns
 * nothing.
 */
static void answer_hook(struct server_request *request) {
        const struct controller_http *http = request->context;
        struct hook *hook = request->data;
        const char *source = request->parameters[0];

        if (!hook_end(hook)) {
                log_debug("a webhook with a wrong or missing signature");
                count_hook(http, "", 401);
                server_add_header(
                        request, "WWW-Authenticate",
                        "X-Hub-Signature-256, X-Hub-Signature, X-Gitlab-Token, Basic realm=\"hooks\"");
                server_answer_text(request, 401, "the signature or token is missing or wrong\n");
        } else if (!http->ops.wake(http->ops.context, source)) {
                /* To know whether there is such a source it has to be woken: a ping costs one look at the repository. */
                count_hook(http, "", 404);
                server_answer_text(request, 404, "there is no such source\n");
        } else {
                count_hook(http, source, hook->ping ? 200 : 202);
                server_answer_text(request, hook->ping ? 200 : 202,
                                   hook->ping ? "pong\n" : "the source will look\n");
        }
}

static void end_hook(struct server_request *request) {
        hook_release(request->data);
}

/* --- life --- */

/* Without a secret the hooks, which stand last, are left out. */
static const struct server_route routes[] = {
        { .method = "GET", .path = "/healthz", .seat = SERVER_PROBE, .answer = answer_liveness },
        { .method = "GET", .path = "/readyz", .seat = SERVER_PROBE, .answer = answer_ready },
        { .method = "GET", .path = "/metrics", .answer = answer_metrics },
        { .method = "POST",
          .path = "/hooks/{source}",
          .body_max = HOOK_BODY_MAX,
          .begin = begin_hook,
          .take = take_hook,
          .answer = answer_hook,
          .end = end_hook,
          .refused = refuse_hook },
};

int controller_http_start(const struct controller_http_config *config, struct controller_http **ret,
                          struct error *err) {
        struct controller_http *http;
        struct server_config serving = {
                .socket_count = 1,
                .routes = routes,
                .route_count = sizeof(routes) / sizeof(routes[0]) - (config->webhook_secret ? 0 : 1),
                .hosts = config->hosts,
                .host_count = config->host_count,
                .any_host = config->host_count == 0 && !listen_is_loopback(config->listen),
                .patience_ms = config->patience_ms,
        };
        unsigned port;

        if (config->webhook_secret && !*config->webhook_secret)
                return error_set(err, "the webhooks' secret is empty: any client could sign with it");
        if (listen_open(config->listen, &serving.sockets[0], &port, err) < 0)
                return -1;
        http = calloc(1, sizeof(*http));
        if (!http || (config->webhook_secret && !(http->secret = strdup(config->webhook_secret))))
                abort();
        http->ops = config->ops;
        http->metrics = config->metrics;
        http->port = port;
        serving.context = http;
        if (server_start(&serving, &http->server, err) < 0) {
                controller_http_stop(http);
                return -1;
        }
        *ret = http;
        return 0;
}

unsigned controller_http_port(const struct controller_http *http) {
        return http->port;
}

void controller_http_stop(struct controller_http *http) {
        if (!http)
                return;
        server_stop(http->server);
        if (http->secret)
                explicit_bzero(http->secret, strlen(http->secret));
        free(http->secret);
        free(http);
}
