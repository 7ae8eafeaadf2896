/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failed call in one sentence: which call, the status, AWS's code and words, the request id; and
 * what to do about it, where the code says enough to know. The words of an endpoint that is not
 * AWS's own are not quoted: a server there could write into logs, or echo what was sent.
 */
#include "providers/aws/client/explain.h"

#include "base/clock.h"
#include "providers/aws/client/service_facts.h"

#include <string.h>

bool aws_code_is_denied(const char *code) {
        static const char *const codes[] = { "AccessDenied",          "AccessDeniedException",
                                             "UnauthorizedOperation", "UnauthorizedException",
                                             "NotAuthorized",         "Forbidden" };

        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                if (strcmp(code, codes[i]) == 0)
                        return true;
        }
        return false;
}

enum trouble {
        TROUBLE_NONE,
        TROUBLE_DENIED,
        TROUBLE_EXPIRED,
        TROUBLE_UNKNOWN_KEY,
        TROUBLE_SIGNATURE,
        TROUBLE_THROTTLED,
        TROUBLE_SERVER,
        TROUBLE_REDIRECT
};

static enum trouble trouble_of(const struct aws_response *response) {
        static const struct {
                const char *code;
                enum trouble trouble;
        } codes[] = {
                { "ExpiredToken", TROUBLE_EXPIRED },
                { "ExpiredTokenException", TROUBLE_EXPIRED },
                { "TokenRefreshRequired", TROUBLE_EXPIRED },
                { "InvalidClientTokenId", TROUBLE_UNKNOWN_KEY },
                { "UnrecognizedClientException", TROUBLE_UNKNOWN_KEY },
                { "InvalidAccessKeyId", TROUBLE_UNKNOWN_KEY },
                { "InvalidToken", TROUBLE_UNKNOWN_KEY },
                { "SignatureDoesNotMatch", TROUBLE_SIGNATURE },
                { "InvalidSignatureException", TROUBLE_SIGNATURE },
                { "InvalidSignature", TROUBLE_SIGNATURE },
                { "RequestTimeTooSkewed", TROUBLE_SIGNATURE },
                { "RequestExpired", TROUBLE_SIGNATURE },
        };

        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                if (strcmp(response->error_code, codes[i].code) == 0)
                        return codes[i].trouble;
        }
        if (aws_code_is_denied(response->error_code))
                return TROUBLE_DENIED;
        if (response->status == 429 || strstr(response->error_code, "Throttl"))
                return TROUBLE_THROTTLED;
        if (response->status >= 500)
                return TROUBLE_SERVER;
        return response->status >= 300 && response->status < 400 ? TROUBLE_REDIRECT : TROUBLE_NONE;
}

static void append_hint(const struct circumstances *circumstances, const struct aws_response *response,
                        struct strbuf *text) {
        const struct aws_request *request = circumstances->request;
        const char *origin = circumstances->credentials_origin;
        char now[32];

        switch (trouble_of(response)) {
        case TROUBLE_DENIED:
                /* EC2 has denied the role that Lambda calls it with, not the caller. */
                if (strstr(response->error_message, "function execution role"))
                        break;
                strbuf_append(text, "; allow ");
                service_action(request->service, request->operation, text);
                strbuf_printf(text, " to whom the credentials of %s belong", origin);
                break;
        case TROUBLE_EXPIRED:
                strbuf_printf(text, "; the credentials of %s have expired: sign in again, or get new ones",
                              origin);
                break;
        case TROUBLE_UNKNOWN_KEY:
                strbuf_printf(
                        text,
                        "; AWS does not know the credentials of %s: mistyped, deleted, or of another partition "
                        "than the region %s",
                        origin, circumstances->endpoint->signing_region);
                break;
        case TROUBLE_SIGNATURE:
                clock_format(circumstances->wall_ms, now, sizeof(now));
                strbuf_printf(text,
                              "; check the secret key of %s, and this machine's clock (the request says %s)",
                              origin, now);
                break;
        case TROUBLE_THROTTLED:
                strbuf_append(text, "; others in this account use the same quota: try again later");
                break;
        case TROUBLE_SERVER:
                strbuf_append(text, "; the trouble is on that side: try again later");
                break;
        case TROUBLE_REDIRECT:
                strbuf_printf(text, "; check the region (%s), and that the endpoint is AWS's own",
                              circumstances->endpoint->signing_region);
                break;
        case TROUBLE_NONE:
                break;
        }
}

int explain_answer(const struct circumstances *circumstances, const struct aws_response *response,
                   struct error *err) {
        const struct aws_request *request = circumstances->request;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&text, "%s %s: %d %s", aws_service_name(request->service), request->operation,
                      response->status, response->error_code);
        if (response->error_message[0] && circumstances->endpoint->configured_by)
                strbuf_printf(&text,
                              " (its words are not quoted: %s names an endpoint that is not AWS's own)",
                              circumstances->endpoint->configured_by);
        else if (response->error_message[0])
                strbuf_printf(&text, ": %s", response->error_message);
        if (response->request_id[0])
                strbuf_printf(&text, " (request %s)", response->request_id);
        append_hint(circumstances, response, &text);
        /*
         * The code decides whether a 404 means that something does not exist, for the caller: a
         * proxy has 404s too.
         */
        return error_set(err, "%s", strbuf_text(&text));
}

int explain_failure(const struct circumstances *circumstances, enum http_failure failure, struct error *err) {
        const struct aws_request *request = circumstances->request;
        const struct endpoint *endpoint = circumstances->endpoint;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;

        strbuf_printf(&text, "%s %s: %s", aws_service_name(request->service), request->operation,
                      err->message);
        if (failure == HTTP_UNREACHABLE && endpoint->configured_by)
                strbuf_printf(&text, "; the endpoint comes from %s", endpoint->configured_by);
        else if (failure == HTTP_UNREACHABLE)
                strbuf_printf(&text, "; check the region's name (%s), the network, HTTPS_PROXY and NO_PROXY",
                              endpoint->signing_region);
        else if (failure == HTTP_TLS)
                strbuf_append(
                        &text,
                        "; where a proxy or an endpoint of your own has its own authority, AWS_CA_BUNDLE "
                        "names the file of its certificates");
        else if (failure == HTTP_TIMED_OUT || failure == HTTP_BROKEN)
                strbuf_append(&text, "; try again later: the next run sees what came of it");
        return error_set_kind(err, failure == HTTP_INTERRUPTED ? ERROR_INTERRUPTED : ERROR_FAILED, "%s",
                              strbuf_text(&text));
}
