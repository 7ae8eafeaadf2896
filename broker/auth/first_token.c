/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/auth/first_token.h"

#include "base/files.h"
#include "broker/auth/token.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define TOKEN_BYTES 32

static int make_token(const char *path, struct error *err) {
        uint8_t random[TOKEN_BYTES];
        char text[2 * TOKEN_BYTES + 2];
        int result;

        random_bytes(random, sizeof(random));
        digest_hex(random, sizeof(random), text);
        text[2 * TOKEN_BYTES] = '\n';
        result = file_write_atomic(path, text, 2 * TOKEN_BYTES + 1, 0600, err);
        explicit_bzero(random, sizeof(random));
        explicit_bzero(text, sizeof(text));
        return result;
}

int first_token(const char *folder, const char *name, uint8_t ret[SHA256_SIZE], struct error *err) {
        char *path TEXT_CLEANUP = path_join(folder, name);
        struct stat status;

        if (lstat(path, &status) < 0 && errno == ENOENT && make_token(path, err) < 0)
                return -1;
        return token_hash_file(path, ret, err);
}
