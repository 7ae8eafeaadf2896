/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_json(json_t *json, const char *expected) {
        char *text = json_dumps(json, JSON_COMPACT);

        assert_non_null(text);
        assert_string_equal(text, expected);
        free(text);
        json_decref(json);
}

static void test_whole_result(void **state) {
        static const struct exec_left files[] = { { "out.csv", 3, NULL }, { "bad\\xFF", 9, "a link" } };
        static const char *const degraded[] = { "no limit of \xFF" }, *const withheld[] = { "AWS_KEY" };
        const struct exec_result result = {
                .exit_code = 137,
                .reason = EXEC_MEMORY,
                .output = { .bytes_total = 3,
                            .bytes_returned = 3,
                            .utf8 = true,
                            .sha256 = "aa",
                            .content = "a\0b" },
                .errors = { .bytes_total = 9,
                            .bytes_returned = 2,
                            .truncated = true,
                            .sha256 = "bb",
                            .content = "\xFF\xFE" },
                .files = files,
                .file_count = 2,
                .wall_ms = 1,
                .cpu_ms = 2,
                .peak_memory_bytes = 3,
                .limits = { 4, 5, 6, 7, 8, 9 },
                .degraded = degraded,
                .degraded_count = 1,
                .withheld = withheld,
                .withheld_count = 1,
        };

        (void)state;
        assert_json(exec_result_json(&result),
                    "{\"exitCode\":137,\"reason\":\"memory\","
                    "\"stdout\":{\"bytesTotal\":3,\"bytesReturned\":3,\"truncated\":false,\"sha256\":\"aa\","
                    "\"encoding\":\"utf-8\",\"content\":\"a\\u0000b\"},"
                    "\"stderr\":{\"bytesTotal\":9,\"bytesReturned\":2,\"truncated\":true,\"sha256\":\"bb\","
                    "\"encoding\":\"base64\",\"content\":\"//4=\"},"
                    "\"files\":[{\"name\":\"out.csv\",\"bytes\":3,\"returned\":true,\"reason\":null},"
                    "{\"name\":\"bad\\\\xFF\",\"bytes\":9,\"returned\":false,\"reason\":\"a link\"}],"
                    "\"usage\":{\"wallMs\":1,\"cpuMs\":2,\"peakMemoryBytes\":3},\"network\":null,"
                    "\"sandbox\":{\"limits\":{\"memoryMB\":4,\"cpuMillis\":5,\"processes\":6,"
                    "\"workspaceMB\":7,\"files\":8,\"timeoutSeconds\":9},"
                    "\"degraded\":[\"no limit of \\\\xFF\"],\"withheld\":[\"AWS_KEY\"]}}");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_result),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
