/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys are immutable and shared by counting, so that a thread may sign with them while another brings newer ones.
 * They live in pages of their own, which no core dump holds, and are overwritten when the last user lets go.
 */
#include "providers/aws/client/credentials.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* At the front of pages of its own; the texts follow in the same pages. */
struct credentials {
        atomic_uint references;
        size_t size; /* of the mapping */
        int64_t expires_ms;
        const char *access_key;
        const char *secret_key;
        const char *token;
        const char *origin;
};

static const char *place_text(char **at, const char *text) {
        const char *start = *at;
        size_t size;

        if (!text)
                return NULL;
        size = strlen(text) + 1;
        memcpy(*at, text, size);
        *at += size;
        return start;
}

static bool has_control(const char *text) {
        for (; text && *text; text++) {
                if (iscntrl((unsigned char)*text))
                        return true;
        }
        return false;
}

int credentials_new(const struct credentials_parts *parts, struct credentials **ret, struct error *err) {
        const char *const texts[3] = { parts->access_key, parts->secret_key, parts->token };
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        size_t size = sizeof(struct credentials) + strlen(parts->access_key) + strlen(parts->secret_key) +
                      strlen(parts->origin) + (parts->token ? strlen(parts->token) : 0) + 4;
        struct credentials *credentials;
        char *at;

        for (size_t i = 0; i < 3; i++) {
                if (has_control(texts[i]))
                        return error_set(
                                err,
                                "%s holds a line break or another control character (credentials of %s): "
                                "write it again, on one line",
                                parts->names[i], parts->origin);
        }
        size = (size + page - 1) / page * page;
        credentials = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (credentials == MAP_FAILED)
                abort();
        (void)madvise(credentials, size, MADV_DONTDUMP); /* kernels without it are no worse off */
        atomic_init(&credentials->references, 1);
        credentials->size = size;
        credentials->expires_ms = parts->expires_ms;
        at = (char *)(credentials + 1);
        credentials->access_key = place_text(&at, parts->access_key);
        credentials->secret_key = place_text(&at, parts->secret_key);
        credentials->token = place_text(&at, parts->token);
        credentials->origin = place_text(&at, parts->origin);
        *ret = credentials;
        return 0;
}

struct credentials *credentials_ref(struct credentials *credentials) {
        atomic_fetch_add(&credentials->references, 1);
        return credentials;
}

void credentials_unref(struct credentials *credentials) {
        size_t size;

        if (!credentials || atomic_fetch_sub(&credentials->references, 1) > 1)
                return;
        size = credentials->size;
        explicit_bzero(credentials, size);
        munmap(credentials, size);
}

void credentials_unrefp(struct credentials **credentials) {
        credentials_unref(*credentials);
}

struct sigv4_keys credentials_keys(const struct credentials *credentials) {
        return (struct sigv4_keys){
                .access_key = credentials->access_key,
                .secret_key = credentials->secret_key,
                .token = credentials->token,
        };
}

const char *credentials_origin(const struct credentials *credentials) {
        return credentials->origin;
}

int64_t credentials_expire_ms(const struct credentials *credentials) {
        return credentials->expires_ms;
}

void credentials_source_free(struct credentials_source *source) {
        if (source)
                source->ops->release(source);
}
