/* SPDX-License-Identifier: Apache-2.0 */
/* The token of a server without a file: made once, readable by its user alone. */
#include "folder.h"

#include "broker/auth/first_token.h"

#include "broker/auth/token.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void made_once(void **state) {
        uint8_t first[SHA256_SIZE], second[SHA256_SIZE], by_hand[SHA256_SIZE];
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct stat status;
        struct error err;
        char folder[64], path[128];

        (void)state;
        folder_make_temporary(folder);
        snprintf(path, sizeof(path), "%s/serve.token", folder);
        assert_int_equal(first_token(folder, FIRST_TOKEN_FILE, first, &err), 0);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0600);
        assert_int_equal(file_read(path, 1024, &text, &err), 0);
        assert_int_equal(text.length, 65);
        text.data[64] = '\0';
        token_hash(text.data, by_hand);
        assert_memory_equal(first, by_hand, SHA256_SIZE);
        assert_int_equal(first_token(folder, FIRST_TOKEN_FILE, second, &err), 0);
        assert_memory_equal(first, second, SHA256_SIZE);

        /* Another folder's is another. */
        assert_int_equal(unlink(path), 0);
        assert_int_equal(first_token(folder, FIRST_TOKEN_FILE, second, &err), 0);
        assert_memory_not_equal(first, second, SHA256_SIZE);

        assert_int_equal(chmod(path, 0644), 0);
        assert_int_equal(first_token(folder, FIRST_TOKEN_FILE, second, &err), -1);
        assert_non_null(strstr(err.message, "may read"));
        folder_remove(folder);
}

/*
 * A user who could put a link there would choose where the token is written: it is read, never
 * written through.
 */
static void a_link_is_not_followed(void **state) {
        uint8_t hash[SHA256_SIZE];
        struct error err;
        char folder[64], path[128], target[128];

        (void)state;
        folder_make_temporary(folder);
        snprintf(path, sizeof(path), "%s/serve.token", folder);
        snprintf(target, sizeof(target), "%s/elsewhere", folder);
        assert_int_equal(symlink(target, path), 0);
        assert_int_equal(first_token(folder, FIRST_TOKEN_FILE, hash, &err), -1);
        assert_int_equal(access(target, F_OK), -1);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(made_once),
                cmocka_unit_test(a_link_is_not_followed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
