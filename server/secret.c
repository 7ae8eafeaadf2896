/* SPDX-License-Identifier: Apache-2.0 */
#include "server/secret.h"

#include "base/files.h"

#include <string.h>

#define SECRET_MAX ((size_t)4 << 10)

int secret_read(const char *path, struct strbuf *ret, struct error *err) {
        size_t length;

        if (file_check_private(path, err) < 0)
                return -1;
        if (file_read(path, SECRET_MAX, ret, err) < 0)
                return -1;
        length = strcspn(strbuf_text(ret), "\r\n");
        /* A secret of random bytes would be shorter than its owner thinks, or empty. */
        if (length < ret->length && ret->data[length] == '\0')
                return error_set(
                        err, "the secret in %s holds a NUL byte: make it of text, as by openssl rand -hex 32",
                        path);
        ret->length = length;
        if (ret->length == 0)
                return error_set(err, "the first line of %s is empty: it should hold the secret", path);
        ret->data[ret->length] = '\0';
        return 0;
}
