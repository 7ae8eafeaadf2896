/* SPDX-License-Identifier: Apache-2.0 */
/* An answer of HTTP, in pieces whose size the first byte says: read in pieces and at once it must be the same. */
#include "parts.h"
#include "runtime/lambda/lambda_http.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX 4096

static int read_all(const char *bytes, size_t size, size_t piece, struct lambda_http *ret) {
        struct error err = { 0 };
        int result = 0;

        for (size_t at = 0; at < size && result == 0; at += piece)
                result = lambda_http_read(ret, bytes + at, size - at < piece ? size - at : piece, &err);
        if (result == 0)
                result = lambda_http_read(ret, NULL, 0, &err);
        if ((result < 0) != (err.message[0] != '\0') || (result > 0) != ret->whole ||
            ret->body.length > BODY_MAX)
                abort();
        return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct lambda_http once LAMBDA_HTTP_CLEANUP = LAMBDA_HTTP_INIT(BODY_MAX);
        struct lambda_http pieces LAMBDA_HTTP_CLEANUP = LAMBDA_HTTP_INIT(BODY_MAX);
        char first[64], second[64];
        int result;

        if (size < 1)
                return 0;
        result = read_all((const char *)data + 1, size - 1, SIZE_MAX / 2, &once);
        if (read_all((const char *)data + 1, size - 1, data[0] ? data[0] : 1, &pieces) != result)
                abort();
        if (result < 0)
                return 0;
        if (once.status != pieces.status || once.body.length != pieces.body.length ||
            memcmp(strbuf_text(&once.body), strbuf_text(&pieces.body), once.body.length) != 0)
                abort();
        if (lambda_http_header(&once, "Lambda-Runtime-Aws-Request-Id", first, sizeof(first)) !=
                    lambda_http_header(&pieces, "lambda-runtime-aws-request-id", second, sizeof(second)) ||
            strcmp(first, second) != 0)
                abort();
        return 0;
}
