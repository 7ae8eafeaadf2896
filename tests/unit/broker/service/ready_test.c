/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the server checks whether it can do its work: once a caller asks.
 * tests/e2e/test_serve_ready.py tests the checks themselves.
 */
#include "broker/service/broker.h"

#include "../../folder.h"

#include <poll.h>
#include <pthread.h>

struct asking {
        struct ready *ready;
        bool done;
};

static void *ask(void *context) {
        struct asking *asking = context;

        asking->done = ready_ask(asking->ready);
        return NULL;
}

static bool is_woken(const struct ready *ready, int timeout_ms) {
        struct pollfd polled = { .fd = ready_descriptor(ready), .events = POLLIN };

        return poll(&polled, 1, timeout_ms) == 1;
}

static void it_looks_once_somebody_asks(void **state) {
        char folder[sizeof(FOLDER_TEMPLATE)];
        struct broker broker = { .instance = INSTANCE_NONE };
        struct asking asking = { .ready = &broker.ready };
        pthread_t thread;
        struct error err;

        (void)state;
        folder_make_temporary(folder);
        broker.applied = applied_new(folder);
        assert_int_equal(ready_open(&broker.ready, &err), 0);
        for (size_t i = 0; i < 10; i++)
                ready_look(&broker.ready, &broker, NULL);
        assert_int_equal(broker.ready.looks, 0);
        assert_false(is_woken(&broker.ready, 0));

        assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
        assert_true(is_woken(&broker.ready, -1));
        ready_look(&broker.ready, &broker, NULL);
        pthread_join(thread, NULL);
        assert_true(asking.done);
        assert_int_equal(broker.ready.looks, 1);
        assert_false(is_woken(&broker.ready, 0));

        /* A recent result holds: the checking thread is not woken for it. After that it is. */
        broker.ready.looked_ms = INT64_MAX / 2;
        assert_true(ready_ask(&broker.ready));
        assert_false(is_woken(&broker.ready, 0));
        broker.ready.looked_ms = 0;
        assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
        assert_true(is_woken(&broker.ready, -1));
        ready_look(&broker.ready, &broker, NULL);
        pthread_join(thread, NULL);
        assert_int_equal(broker.ready.looks, 2);

        /* While something fails it looks each time. */
        atomic_store(&broker.ready.failing, 1U << READY_PLACE);
        ready_look(&broker.ready, &broker, NULL);
        assert_int_equal(broker.ready.looks, 3);

        ready_close(&broker.ready);
        applied_free(broker.applied);
        folder_remove(folder);
}

/* If no thread checks, the caller is told so, and does not wait forever. */
static void what_hangs_is_told(void **state) {
        struct ready ready = { .wakes = -1 };
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        (void)state;
        ready_end(&ready); /* never opened: fine */
        ready_close(&ready);
        assert_int_equal(ready_open(&ready, &err), 0);
        assert_false(ready_write(&ready, &text));
        assert_string_equal(strbuf_text(&text), "not ok: the checks do not come to an end\n");
        /*
         * Once it is known to hang, no request holds a seat for it: one after the other they would
         * wait for an hour.
         */
        for (size_t i = 0; i < 1000; i++)
                assert_false(ready_ask(&ready));
        ready_end(&ready);
        assert_false(ready_ask(&ready)); /* at once */
        ready_close(&ready);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(it_looks_once_somebody_asks),
                cmocka_unit_test(what_hangs_is_told),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
