/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files as resources, there and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/mcp/mcp_uri.h"

#include <string.h>

static void there_and_back(void **state) {
        static const char *const paths[] = {
                "a", "a/b.txt", "%2e", "ä €", "\n\t?#&=+", "~-_.", "\x7f", "a//b"
        };

        (void)state;
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                struct arena *arena ARENA_CLEANUP = arena_new();
                struct strbuf uri STRBUF_CLEANUP = STRBUF_INIT;
                const char *id, *path;

                mcp_uri_write("s-abc", paths[i], &uri);
                assert_true(mcp_uri_read(strbuf_text(&uri), arena, &id, &path));
                assert_string_equal(id, "s-abc");
                assert_string_equal(path, paths[i]);
        }
}

static void what_is_none(void **state) {
        static const char *const uris[] = { "",
                                            "berth:",
                                            "berth://workspaces/",
                                            "berth://workspaces/s",
                                            "berth://workspaces/s/",
                                            "berth://workspaces//a",
                                            "berth://workspaces/s%2Fa/b",
                                            "berth://workspaces/s/%00",
                                            "berth://workspaces/s/%",
                                            "berth://workspaces/s/%4",
                                            "berth://workspaces/s/%4x",
                                            "berth://workspaces/s/a%zz",
                                            "Berth://workspaces/s/a",
                                            "file:///etc/passwd" };
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char *id, *path;

        (void)state;
        for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++)
                assert_false(mcp_uri_read(uris[i], arena, &id, &path));
        assert_true(mcp_uri_read("berth://workspaces/s/%2F..%2f", arena, &id, &path));
        assert_string_equal(path, "/../");
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(there_and_back),
                                            cmocka_unit_test(what_is_none) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
