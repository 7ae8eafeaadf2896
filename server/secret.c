/* SPDX-License-Identifier: Apache-2.0 */
#include "server/secret.h"

#include "base/files.h"

#include <string.h>

#define SECRET_MAX ((size_t)4 << 10)

int secret_read(const char *path, struct strbuf *ret, struct error *err) {
        if (file_check_private(path, err) < 0)
                return -1;
        if (file_read(path, SECRET_MAX, ret, err) < 0)
                return -1;
        ret->length = strcspn(strbuf_text(ret), "\r\n");
        if (ret->length == 0)
                return error_set(err, "the first line of %s is empty: it should hold the secret", path);
        ret->data[ret->length] = '\0';
        return 0;
}
