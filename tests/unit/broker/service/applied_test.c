/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The applied state: whether it can be read is checked each second, and costs nothing while nothing
 * changes.
 */
#include "broker/service/applied.h"
#include "state/state.h"

#include "../../folder.h"

#include <sys/stat.h>
#include <time.h>

/* As if its files had lain there for a while: no program can set a ctime, so it is waited for. */
static void let_it_age(void) {
        const struct timespec while_ = { .tv_sec = 5 };

        nanosleep(&while_, NULL);
}

static void it_is_opened_only_where_it_has_changed(void **unused) {
        char folder[sizeof(FOLDER_TEMPLATE)], path[sizeof(FOLDER_TEMPLATE) + 16];
        struct applied *applied;
        struct state *state;
        struct error err;

        (void)unused;
        folder_make_temporary(folder);
        snprintf(path, sizeof(path), "%s/data.mdb", folder);
        assert_int_equal(state_open(folder, STATE_CREATE, &state, &err), 0);
        state_close(state);
        applied = applied_new(folder);
        let_it_age();
        assert_int_equal(applied_check(applied, &err), 0);

        /* A process opens a state once at a time: where it had to be opened again, this would be refused. */
        assert_int_equal(state_open(folder, STATE_READ, &state, &err), 0);
        assert_int_equal(applied_check(applied, &err), 0);
        state_close(state);

        /* A changed file is read again, also where its size and times of writing are the same. */
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(state_open(folder, STATE_READ, &state, &err), 0);
        assert_int_equal(applied_check(applied, &err), -1);
        state_close(state);
        assert_int_equal(applied_check(applied, &err), 0);
        assert_int_equal(truncate(path, 100), 0);
        assert_int_equal(applied_check(applied, &err), -1);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(applied_check(applied, &err), -1);

        applied_free(applied);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(it_is_opened_only_where_it_has_changed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
