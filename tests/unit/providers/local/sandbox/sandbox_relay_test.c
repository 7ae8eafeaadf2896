/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_relay.h"

#include "base/files.h"
#include "providers/local/sandbox/sandbox_messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW_MS 5000

static void tell_life(struct sandbox_relay *relay, int64_t age_ms, int64_t idle_ms) {
        uint64_t number = sandbox_life_pack(&(struct sandbox_life){ .age_ms = age_ms, .idle_ms = idle_ms });
        struct frame frame FRAME_CLEANUP = { .type = MESSAGE_LIFE };

        strbuf_append_bytes(&frame.payload, &number, sizeof(number));
        assert_int_equal(sandbox_relay_hear(relay, &frame, NOW_MS), 1);
}

static void acknowledge(struct sandbox_relay *relay, uint64_t number) {
        struct frame frame FRAME_CLEANUP = { .type = MESSAGE_HEARD };

        strbuf_append_bytes(&frame.payload, &number, sizeof(number));
        assert_int_equal(sandbox_relay_hear(relay, &frame, NOW_MS), 1);
}

/* What the program writes is told to a client; whether that client acknowledges it is the row's. */
static void say(struct sandbox_relay *relay, int program, const char *text) {
        const struct pollfd polled[SANDBOX_RELAY_PIPES] = { { .fd = -1 },
                                                            { .revents = POLLIN },
                                                            { .fd = -1 } };

        assert_int_equal(write(program, text, strlen(text)), (ssize_t)strlen(text));
        sandbox_relay_move(relay, polled);
        sandbox_relay_append(relay, MESSAGE_REACHED, NULL, 0);
}

static void test_when_it_ends(void **state) {
        static const struct {
                int64_t age_ms, idle_ms; /* as LIFE says them; 0: it was not sent */
                size_t acknowledged;     /* bytes of the ten that the program wrote */
                bool has_client;
                int64_t ends_ms;
        } rows[] = {
                { 0, 0, 10, false, INT64_MAX },
                { 0, 0, 0, false, INT64_MAX },
                { 90000, INT64_MAX, 10, false, NOW_MS + 90000 },
                { 90000, INT64_MAX, 0, false, NOW_MS + 90000 },
                { 90000, 25000, 10, true, NOW_MS + 90000 },
                { 90000, 25000, 0, true, NOW_MS + 90000 },
                { 90000, 25000, 10, false, NOW_MS + 25000 },
                { 90000, 25000, 9, false, NOW_MS + 25000 + SANDBOX_RELAY_UNHEARD_MS },
                { 90000, 25000, 0, false, NOW_MS + 25000 + SANDBOX_RELAY_UNHEARD_MS },
                { 90000, 85000, 0, false, NOW_MS + 90000 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct sandbox_relay relay;
                int output[2], others[2];

                assert_true(pipe(output) == 0 && pipe(others) == 0);
                sandbox_relay_begin(&relay, others[1], output[0], others[0]);
                if (rows[i].age_ms > 0)
                        tell_life(&relay, rows[i].age_ms, rows[i].idle_ms);
                say(&relay, output[1], "ten bytes.");
                acknowledge(&relay, rows[i].acknowledged);
                assert_int_equal(sandbox_relay_over_ms(&relay, rows[i].has_client), rows[i].ends_ms);
                close(output[1]);
                sandbox_relay_drain(&relay);
                strbuf_release(&relay.kept);
                strbuf_release(&relay.outgoing);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_when_it_ends),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
