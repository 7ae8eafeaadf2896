/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A browser keeps the files and asks each time whether they are still these (ETag). The page's
 * rights are in its Content-Security-Policy, sent with each of its files: scripts and styles of
 * this server's own, requests to this server alone, images that it was given as bytes, no frames,
 * no plugins, no forms that leave it, and no frame of another page around it.
 */
#include "broker/panel.h"

#include "base/digest.h"
#include "base/json.h"
#include "broker/panel_files.h"
#include "broker/request/answers.h"
#include "broker/service/broker.h"
#include "sessions/conditions.h"

#include <string.h>

static const char policy[] =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "frame-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const struct panel_file {
        const char *path, *type;
        const unsigned char *bytes;
        const size_t *size;
} files[] = {
#define FILE_ROW(symbol, file_path, file_type) { file_path, file_type, symbol, &symbol##_size },
        PANEL_FILES(FILE_ROW)
#undef FILE_ROW
};

static void answer_file(struct server_request *request) {
        const struct conditions conditions = { NULL, server_header(request, "If-None-Match") };
        const struct panel_file *file = files;
        uint8_t digest[SHA256_SIZE];
        char etag[ETAG_SIZE] = "\"";

        while (strcmp(file->path, request->path) != 0) /* one of them: it was routed by it */
                file++;
        digest_sha256(file->bytes, *file->size, digest);
        digest_hex(digest, (ETAG_SIZE - 3) / 2, etag + 1);
        memcpy(etag + ETAG_SIZE - 2, "\"", 2);
        server_add_header(request, "Content-Security-Policy", policy);
        server_add_header(request, "Referrer-Policy", "no-referrer");
        server_add_header(request, "Cross-Origin-Opener-Policy", "same-origin");
        server_add_header(request, "Cross-Origin-Resource-Policy", "same-origin");
        server_add_header(request, "Cache-Control", "no-cache");
        server_add_header(request, "ETag", etag);
        if (conditions_judge(&conditions, etag) == CONDITIONS_MATCHED) {
                server_answer(request, 304, file->type, "", 0);
                return;
        }
        server_answer(request, 200, file->type, file->bytes, *file->size);
}

static bool has_route(const struct broker *broker, const char *path) {
        for (size_t i = 0; i < broker->route_count; i++) {
                if (strcmp(broker->routes[i].path, path) == 0)
                        return true;
        }
        return false;
}

static json_t *rights_json(unsigned rights) {
        json_t *names = json_checked(json_array());
        enum broker_right right;
        const char *name;

        for (size_t i = 0; (name = broker_right_name(i, &right)); i++) {
                if (rights & right)
                        json_add(names, json_from_text(name));
        }
        return names;
}

static void answer_self(struct server_request *request) {
        const struct broker *broker = request->context;
        struct door_refusal refusal;
        struct door_caller caller;
        json_t *json;

        if (!door_knows(broker->door, request)) {
                answers_json(request, 200, json_checked(json_pack("{s:b}", "known", 0)));
                return;
        }
        if (!door_admit(broker->door, request, false, &caller, &refusal)) {
                answers_refuse(request, refusal.code, refusal.detail);
                return;
        }
        json = json_checked(json_pack("{s:b, s:s, s:s?, s:s}", "known", 1, "client", caller.client, "owner",
                                      caller.owner, "actsFor", caller.itself ? "itself" : "users"));
        json_put(json, "may", rights_json(caller.rights));
        json_put(json, "serves",
                 json_pack("{s:b, s:b, s:b}", "sessions", broker_sessions_engine(broker->sessions) != NULL,
                           "containers", has_route(broker, "/v1/containers"), "approvals",
                           broker->approvals != NULL));
        json_set_text(json, "version", BERTH_VERSION);
        answers_json(request, 200, json);
}

const struct server_route panel_routes[] = {
        { .method = "GET", .path = "/panel/self", .answer = answer_self },
#define FILE_ROUTE(symbol, file_path, file_type) \
        { .method = "GET", .path = (file_path), .answer = answer_file },
        PANEL_FILES(FILE_ROUTE)
#undef FILE_ROUTE
};
const size_t panel_route_count = sizeof(panel_routes) / sizeof(panel_routes[0]);
