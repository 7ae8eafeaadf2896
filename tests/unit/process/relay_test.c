/* SPDX-License-Identifier: Apache-2.0 */
#include "process/relay.h"

#include "base/files.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * All text that was written is on our standard error when the relay has ended; then its writer is
 * told that the reader is gone.
 */
static void what_is_written_arrives(void **state) {
        struct relay relay = RELAY_NONE;
        FILE *kept = tmpfile();
        int ours = dup(STDERR_FILENO), theirs;
        char line[32], all[64 * 32] = "", expected[sizeof(all)] = "";
        struct error err;

        (void)state;
        assert_non_null(kept);
        assert_true(ours >= 0 && dup2(fileno(kept), STDERR_FILENO) >= 0);
        assert_int_equal(relay_start(&relay, &err), 0);
        theirs = dup(relay.output);
        for (int i = 0; i < 64; i++) {
                snprintf(line, sizeof(line), "line %d\n", i);
                strcat(expected, line);
                assert_int_equal(descriptor_write(theirs, line, strlen(line)), 0);
        }
        relay_end(&relay);
        dup2(ours, STDERR_FILENO);
        close(ours);
        rewind(kept);
        assert_int_equal(fread(all, 1, sizeof(all), kept), strlen(expected));
        assert_memory_equal(all, expected, strlen(expected));
        assert_int_equal(descriptor_write(theirs, "late", 4), -1);
        assert_int_equal(errno, EPIPE);
        close(theirs);
        fclose(kept);
        relay_end(&relay); /* once more, of none */
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_written_arrives) };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
