/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hook's body is never read: it says that there may be something new, and the source looks for itself. What matters
 * is who sent it: the HMAC over the body (GitHub, Gitea, Forgejo, Bitbucket), made while the body comes in, or the
 * secret itself in a header (GitLab, Azure DevOps). Both are compared in constant time.
 */
#include "gitops/hook.h"

#include "gitops/signature.h"

#include <string.h>
#include <strings.h>

#define PREFIX "sha256="
#define BASIC "Basic "
#define BASIC_MAX 4096U

/* "" unless it is a signature's form. Hex digits may be large or small. */
static void read_signature(const char *text, char ret[SHA256_HEX_SIZE]) {
        const char *hex = text + strlen(PREFIX);

        ret[0] = '\0';
        if (strncmp(text, PREFIX, strlen(PREFIX)) != 0 || strlen(hex) != SHA256_HEX_SIZE - 1 ||
            strspn(hex, "0123456789abcdefABCDEF") != SHA256_HEX_SIZE - 1)
                return;
        for (size_t i = 0; i < SHA256_HEX_SIZE; i++)
                ret[i] = (char)(hex[i] >= 'A' && hex[i] <= 'F' ? hex[i] - 'A' + 'a' : hex[i]);
}

/* The password of basic authentication (RFC 7617), behind the first colon. */
static bool password_is(const char *authorization, const char *secret) {
        const char *encoded = authorization + strlen(BASIC), *colon;
        char text[BASIC_MAX / 4 * 3 + 1];
        bool right = false;
        ssize_t length;

        if (strncasecmp(authorization, BASIC, strlen(BASIC)) != 0 || strlen(encoded) > BASIC_MAX)
                return false;
        length = digest_from_base64(encoded, strlen(encoded), (uint8_t *)text);
        if (length >= 0 && !memchr(text, '\0', (size_t)length)) {
                text[length] = '\0';
                colon = strchr(text, ':');
                right = colon && signature_same(colon + 1, secret);
        }
        explicit_bzero(text, sizeof(text));
        return right;
}

void hook_begin(struct hook *hook, const char *secret, const struct hook_headers *headers) {
        *hook = (struct hook){ .ping = headers->event && (strcmp(headers->event, "ping") == 0 ||
                                                          strcmp(headers->event, "diagnostics:ping") == 0) };
        if (headers->signature)
                read_signature(headers->signature, hook->claimed);
        else if (headers->token)
                hook->token_is_right = signature_same(headers->token, secret);
        else if (headers->authorization)
                hook->token_is_right = password_is(headers->authorization, secret);
        /* Without a signature that could be right there is nothing to hash. */
        if (hook->claimed[0])
                hook->body = digest_mac_new(secret, strlen(secret));
}

void hook_add(struct hook *hook, const void *data, size_t length) {
        if (hook->body)
                digest_mac_add(hook->body, data, length);
}

bool hook_end(struct hook *hook) {
        char actual[SHA256_HEX_SIZE];

        if (!hook->body)
                return hook->token_is_right;
        digest_mac_end(hook->body, actual);
        hook->body = NULL;
        return signature_same(actual, hook->claimed);
}

void hook_release(struct hook *hook) {
        digest_mac_end(hook->body, NULL);
        hook->body = NULL;
}
