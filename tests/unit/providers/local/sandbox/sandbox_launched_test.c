/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher that was stopped: it does not accept what connects to it. */
#include "providers/local/sandbox/sandbox_launched.h"

#include "base/files.h"
#include "folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define WAITING_MAX 16

/* A caller that tells it of a share of CPUs has all sessions waiting. */
static void test_a_share_waits_for_nobody(void **state) {
        const struct sandbox_family family = { .name = "00ff", .cpu_millis = 1000 };
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int launcher = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), waiting[WAITING_MAX];
        char folder[] = FOLDER_TEMPLATE;
        struct error err = { 0 };
        size_t count = 0;

        (void)state;
        folder_make_temporary(folder);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
        assert_int_equal(bind(launcher, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(launcher, 0), 0);
        assert_int_equal(sandbox_launched_share(address.sun_path, &family, &err), 0);
        do {
                assert_true(count < WAITING_MAX);
                waiting[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        } while (connect(waiting[count++], (const struct sockaddr *)&address, sizeof(address)) == 0);
        assert_int_equal(sandbox_launched_share(address.sun_path, &family, &err), -1);
        while (count > 0)
                close_descriptor(&waiting[--count]);
        close_descriptor(&launcher);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_share_waits_for_nobody) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
