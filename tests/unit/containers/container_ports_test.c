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

static bool is_nobodys(const void *context, int64_t port) {
        (void)context;
        (void)port;
        return false;
}

/* Whichever program wrote the record, and whatever rights the server has. */
static void a_record_is_given_no_port_of_the_machine_s_own(void **state) {
        static const int64_t ports[] = { 1, 22, 80, 443, 1023 };

        (void)state;
        for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
                json_t *json JSON_CLEANUP = ports_of(ports[i]);
                struct container_listeners listeners;
                struct error err = { 0 };

                assert_int_equal(container_ports_listen(json, is_nobodys, NULL, &listeners, &err), -1);
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
        assert_int_equal(container_ports_listen(json, is_nobodys, NULL, &listeners, &err), 0);
        assert_true(json_integer_or(json_array_get(json, 0), "hostPort", 0) >= 1024);
        container_listeners_close(&listeners);
}

struct asked {
        int64_t ports[100];
        size_t count, first; /* this number of them are another's */
};

static bool are_others_first(const void *context, int64_t port) {
        struct asked *asked = *(struct asked *const *)context;

        for (size_t i = 0; i < asked->count; i++) {
                if (asked->ports[i] == port)
                        return i < asked->first;
        }
        assert_true(asked->count < sizeof(asked->ports) / sizeof(asked->ports[0]));
        asked->ports[asked->count++] = port;
        return asked->count <= asked->first;
}

/* What a stopped service has the machine holds free. */
static void one_that_is_found_is_nobody_else_s(void **state) {
        struct asked asked = { .first = 5 }, *context = &asked;
        json_t *json JSON_CLEANUP = ports_of(0), *next JSON_CLEANUP = ports_of(0);
        struct container_listeners listeners;
        struct error err = { 0 };

        (void)state;
        assert_int_equal(container_ports_listen(json, are_others_first, &context, &listeners, &err), 0);
        assert_int_equal(asked.count, 6);
        assert_int_equal(json_integer_or(json_array_get(json, 0), "hostPort", 0), asked.ports[5]);
        container_listeners_close(&listeners);
        /* No end of others': it is said, and nothing is left open. */
        asked = (struct asked){ .first = 100 };
        assert_int_equal(container_ports_listen(next, are_others_first, &context, &listeners, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_int_equal(listeners.count, 0);
        assert_int_equal(json_integer_or(json_array_get(next, 0), "hostPort", -1), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_record_is_given_no_port_of_the_machine_s_own),
                cmocka_unit_test(one_is_found),
                cmocka_unit_test(one_that_is_found_is_nobody_else_s),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
