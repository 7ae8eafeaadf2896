/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/systemd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A manager at `name`, "@..." for the abstract space; its descriptor. */
static int manager_at(const char *name) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        size_t length = strlen(name);

        memcpy(address.sun_path, name, length);
        if (name[0] == '@')
                address.sun_path[0] = '\0';
        assert_int_equal(bind(manager, (const struct sockaddr *)&address,
                              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
                         0);
        return manager;
}

static void told(void **state) {
        char path[64], abstract[64], got[64];
        const char *const names[] = { path, abstract };

        (void)state;
        snprintf(path, sizeof(path), "/tmp/berth-test-%ld.sock", (long)getpid());
        snprintf(abstract, sizeof(abstract), "@berth-test-%ld", (long)getpid());
        for (size_t i = 0; i < 2; i++) {
                int manager = manager_at(names[i]);
                ssize_t length;

                setenv("NOTIFY_SOCKET", names[i], 1);
                systemd_tell("READY=1");
                length = recv(manager, got, sizeof(got), MSG_DONTWAIT);
                assert_int_equal(length, 7);
                assert_memory_equal(got, "READY=1", 7);
                close(manager);
        }
        unlink(path);
}

/* No listener, or nonsense: nothing happens. */
static void not_told(void **state) {
        static const char *const names[] = {
                "",
                "relative",
                "/nonexistent/socket",
                "@",
                "/",
                ("/a-name-that-is-longer-than-the-107-bytes-that-the-name-of-a-unix-socket-may-"
                 "have-which-is-not-much-these-days-as-everybody-knows")
        };

        (void)state;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                setenv("NOTIFY_SOCKET", names[i], 1);
                systemd_tell("READY=1");
        }
        unsetenv("NOTIFY_SOCKET");
        systemd_tell("READY=1");
}

static void watchdog(void **state) {
        char own[32];
        const struct {
                const char *usec, *pid;
                int64_t ms;
        } cases[] = {
                { NULL, NULL, 0 },          { "", NULL, 0 },        { "nonsense", NULL, 0 },
                { "-5", NULL, 0 },          { "0", NULL, 0 },       { "30000000", NULL, 15000 },
                { "30000000", own, 15000 }, { "30000000", "1", 0 },
        };

        (void)state;
        snprintf(own, sizeof(own), "%ld", (long)getpid());
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                unsetenv("WATCHDOG_USEC");
                unsetenv("WATCHDOG_PID");
                if (cases[i].usec)
                        setenv("WATCHDOG_USEC", cases[i].usec, 1);
                if (cases[i].pid)
                        setenv("WATCHDOG_PID", cases[i].pid, 1);
                assert_int_equal(systemd_watchdog_ms(), cases[i].ms);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(told),
                cmocka_unit_test(not_told),
                cmocka_unit_test(watchdog),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
