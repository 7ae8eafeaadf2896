/* SPDX-License-Identifier: Apache-2.0 */
/* Which connection is shown out, and which gets a seat. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/seats.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 2000 /* longer than a busy machine lets a thread wait */
#define LONG_MS (INT64_C(3600) * 1000)

struct guest {
        int ours, his;
        struct seat *seat;
};

/* Whether the other end of the socket is over within that time. */
static int is_shown_out(const struct guest *guest, int within_ms) {
        struct pollfd wanted = { .fd = guest->his, .events = POLLIN };
        char byte;

        return poll(&wanted, 1, within_ms) == 1 && read(guest->his, &byte, 1) == 0;
}

static struct guest come(struct seats *seats, const char *address) {
        struct sockaddr_in four = { .sin_family = AF_INET };
        int pair[2];
        struct guest guest;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(inet_pton(AF_INET, address, &four.sin_addr), 1);
        guest = (struct guest){ pair[0], pair[1], NULL };
        guest.seat = seats_take(seats, guest.ours, (const struct sockaddr *)&four);
        return guest;
}

static void go(struct seats *seats, struct guest *guest) {
        seats_leave(seats, guest->seat);
        close(guest->ours);
        close(guest->his);
}

static struct seats *opened(size_t waiting, size_t working, size_t per_address, int64_t patience_ms) {
        const struct seats_limits limits = { waiting, working, per_address, patience_ms };
        struct seats *seats;
        struct error err;

        assert_int_equal(seats_open(&limits, &seats, &err), 0);
        return seats;
}

static void times(void **state) {
        struct seats *seats = opened(8, 8, 8, PATIENCE_MS);
        struct guest silent = come(seats, "10.0.0.1"), busy = come(seats, "10.0.0.1"),
                     gone = come(seats, "10.0.0.1"), ours = come(seats, "10.0.0.1");

        (void)state;
        assert_true(seats_work(seats, ours.seat));
        seats_pause(seats, ours.seat);
        seats_leave(seats, gone.seat);
        /*
         * A connection that renews stays while the one beside it goes, however long that takes to
         * come about.
         */
        for (int i = 0; i < 400 && !is_shown_out(&silent, PATIENCE_MS / 20); i++)
                seats_renew(seats, busy.seat);
        assert_true(is_shown_out(&silent, 0));
        assert_false(is_shown_out(&busy, 0));
        assert_true(is_shown_out(&busy, 20 * PATIENCE_MS));
        assert_false(is_shown_out(&gone, 0));
        assert_false(is_shown_out(&ours, 0));
        seats_resume(seats, ours.seat);
        assert_true(is_shown_out(&ours, 20 * PATIENCE_MS));
        go(seats, &silent);
        go(seats, &busy);
        go(seats, &ours);
        seats_close(seats);
        close(gone.ours);
        close(gone.his);
}

/* A body gets time by its bytes. */
static void bytes_are_time(void **state) {
        struct seats *seats = opened(8, 8, 8, PATIENCE_MS);
        struct guest fast = come(seats, "10.0.0.1"), slow = come(seats, "10.0.0.1");

        (void)state;
        assert_true(seats_work(seats, fast.seat));
        assert_true(seats_work(seats, slow.seat));
        seats_allow(seats, fast.seat, 600000);
        seats_allow(seats, slow.seat, 0);
        assert_true(is_shown_out(&slow, 20 * PATIENCE_MS));
        assert_false(is_shown_out(&fast, PATIENCE_MS));
        go(seats, &fast);
        go(seats, &slow);
        seats_close(seats);
}

/*
 * A caller that fills the waiting room loses its own places in it, the oldest first; never another
 * caller's.
 */
static void the_waiting_room_is_never_full(void **state) {
        struct seats *seats = opened(4, 8, 8, LONG_MS);
        struct guest first = come(seats, "10.0.0.1"), crowd[40], last;
        size_t left = 0;

        (void)state;
        for (size_t i = 0; i < 40; i++) {
                crowd[i] = come(seats, "10.0.0.2");
                /* As the reader of the socket does. */
                for (size_t k = 0; k <= i; k++) {
                        if (crowd[k].seat && is_shown_out(&crowd[k], 0)) {
                                assert_int_equal(k, left);
                                left++;
                                seats_leave(seats, crowd[k].seat);
                                crowd[k].seat = NULL;
                        }
                }
        }
        assert_int_equal(left, 37);
        last = come(seats, "10.0.0.3");
        assert_true(is_shown_out(&crowd[37], 0));
        /* A connection whose head came nevertheless: no seat is left for it. */
        assert_false(seats_work(seats, crowd[37].seat));
        assert_false(is_shown_out(&crowd[39], 0));
        assert_false(is_shown_out(&first, 0));
        assert_false(is_shown_out(&last, 0));
        assert_true(seats_work(seats, last.seat));
        go(seats, &first);
        go(seats, &last);
        for (size_t i = 0; i < 40; i++)
                go(seats, &crowd[i]);
        seats_close(seats);
}

static void working_seats_are_counted(void **state) {
        struct seats *seats = opened(8, 3, 2, LONG_MS);
        struct guest one = come(seats, "10.0.0.1"), two = come(seats, "10.0.0.1"),
                     three = come(seats, "10.0.0.1"), four = come(seats, "10.0.0.4"),
                     five = come(seats, "10.0.0.5");

        (void)state;
        assert_true(seats_work(seats, one.seat));
        assert_true(seats_work(seats, two.seat));
        assert_false(seats_work(seats, three.seat));
        assert_true(seats_work(seats, four.seat));
        assert_false(seats_work(seats, five.seat));
        seats_renew(seats, one.seat);
        assert_true(seats_work(seats, five.seat));
        assert_false(seats_work(seats, three.seat));
        seats_leave(seats, four.seat);
        assert_true(seats_work(seats, three.seat));
        assert_false(seats_work(seats, NULL));
        seats_renew(seats, NULL);
        seats_pause(seats, NULL);
        seats_leave(seats, NULL);
        four.seat = NULL;
        go(seats, &one);
        go(seats, &two);
        go(seats, &three);
        go(seats, &four);
        go(seats, &five);
        seats_close(seats);
        seats_close(NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(times),
                cmocka_unit_test(bytes_are_time),
                cmocka_unit_test(the_waiting_room_is_never_full),
                cmocka_unit_test(working_seats_are_counted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
