/* SPDX-License-Identifier: Apache-2.0 */
/* Who owes a request for too long is shown out; who gave one, and who left, is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/seats.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REQUEST_MS 300

/* Whether the other end of the socket is over within that time. */
static int is_shown_out(int socket, int within_ms) {
        struct pollfd wanted = { .fd = socket, .events = POLLIN };
        char byte;

        return poll(&wanted, 1, within_ms) == 1 && read(socket, &byte, 1) == 0;
}

static void open_pair(int ret[2]) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret), 0);
}

static void times(void **state) {
        int silent[2], busy[2], gone[2];
        struct seats *seats;
        struct seat *seat, *left;
        struct error err;

        (void)state;
        open_pair(silent);
        open_pair(busy);
        open_pair(gone);
        assert_int_equal(seats_open(3, REQUEST_MS, &seats, &err), 0);
        assert_non_null(seats_take(seats, silent[0]));
        seat = seats_take(seats, busy[0]);
        left = seats_take(seats, gone[0]);
        assert_non_null(left);
        seats_leave(seats, left);
        for (int i = 0; i < 6; i++) {
                nanosleep(&(struct timespec){ .tv_nsec = REQUEST_MS / 4 * 1000000 }, NULL);
                seats_renew(seats, seat);
        }
        assert_true(is_shown_out(silent[1], 20 * REQUEST_MS));
        assert_false(is_shown_out(busy[1], 0));
        assert_true(is_shown_out(busy[1], 20 * REQUEST_MS));
        assert_false(is_shown_out(gone[1], 0));
        seats_close(seats);
        for (int i = 0; i < 2; i++) {
                close(silent[i]);
                close(busy[i]);
                close(gone[i]);
        }
}

static void no_more_than_there_are(void **state) {
        struct seats *seats;
        struct seat *seat;
        struct error err;
        int pair[2];

        (void)state;
        open_pair(pair);
        assert_int_equal(seats_open(1, INT64_C(3600) * 1000, &seats, &err), 0);
        seat = seats_take(seats, pair[0]);
        assert_non_null(seat);
        assert_null(seats_take(seats, pair[1]));
        seats_renew(seats, NULL);
        seats_leave(seats, NULL);
        seats_leave(seats, seat);
        assert_ptr_equal(seats_take(seats, pair[1]), seat);
        seats_close(seats);
        seats_close(NULL);
        close(pair[0]);
        close(pair[1]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(times),
                cmocka_unit_test(no_more_than_there_are),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
