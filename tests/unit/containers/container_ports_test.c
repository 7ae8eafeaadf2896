/* SPDX-License-Identifier: Apache-2.0 */
#include "containers/container_ports.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static json_t *ports_of(int64_t host_port) {
        return json_checked(
                json_pack("[{ss, si, sI}]", "name", "p", "port", 7000, "hostPort", (json_int_t)host_port));
}

/* Whoever wrote the record, and whatever rights the server has. */
static void a_record_is_given_no_port_of_the_machine_s_own(void **state) {
        static const int64_t ports[] = { 1, 22, 80, 443, 1023 };

        (void)state;
        for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
                json_t *json JSON_CLEANUP = ports_of(ports[i]);
                struct container_listeners listeners;
                struct error err = { 0 };

                assert_int_equal(container_ports_listen(json, &listeners, &err), -1);
                assert_int_equal(err.kind, ERROR_REFUSED);
                assert_non_null(strstr(err.message, "below 1024"));
                assert_int_equal(listeners.count, 0);
        }
}

static void one_is_found(void **state) {
        json_t *json JSON_CLEANUP = ports_of(0);
        struct container_listeners listeners;
        struct error err = { 0 };

        (void)state;
        assert_int_equal(container_ports_listen(json, &listeners, &err), 0);
        assert_true(json_integer_or(json_array_get(json, 0), "hostPort", 0) >= 1024);
        container_listeners_close(&listeners);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_record_is_given_no_port_of_the_machine_s_own),
                cmocka_unit_test(one_is_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
