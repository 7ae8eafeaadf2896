/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/auth/token.h"

#include "server/secret.h"

#include <string.h>

static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";

void token_hash(const char *token, uint8_t ret[SHA256_SIZE]) {
        digest_sha256(token, strlen(token), ret);
}

bool token_is_same(const uint8_t one[SHA256_SIZE], const uint8_t two[SHA256_SIZE]) {
        unsigned differs = 0;

        for (size_t i = 0; i < SHA256_SIZE; i++)
                differs |= one[i] ^ two[i];
        return differs == 0;
}

/* The message quotes nothing of the file's content. */
static int check_token(const char *path, const struct strbuf *token, struct error *err) {
        if (strspn(token->data, characters) != token->length)
                return error_set(
                        err,
                        "the token in %s has a character that no token may have: letters, digits and -._~+/= are fine",
                        path);
        if (token->length < TOKEN_MIN)
                return error_set(
                        err, "the token in %s has fewer than %d characters: make it by openssl rand -hex 32",
                        path, TOKEN_MIN);
        return 0;
}

int token_hash_file(const char *path, uint8_t ret[SHA256_SIZE], struct error *err) {
        struct strbuf token STRBUF_CLEANUP = STRBUF_SECRET;
        int result = secret_read(path, &token, err);

        if (result == 0)
                result = check_token(path, &token, err);
        if (result == 0)
                token_hash(token.data, ret);
        return result;
}
