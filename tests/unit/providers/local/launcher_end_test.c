/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher whose disk hangs is told to end. */
#include "base/arena.h"
#include "base/folder_names.h"
#include "base/interrupt.h"
#include "providers/local/launcher.h"
#include "providers/local/sandbox/sandbox_launched.h"

#include "folder.h"

#include <pthread.h>
#include <sys/stat.h>

/* Static, since the hanging thread outlives its test. */
static char folder[sizeof(FOLDER_TEMPLATE)], socket_path[64];
static struct interrupt stop;
static int hangs[2], goes_on[2];

int __real_folder_names(int descriptor, folder_name_wanted *wanted, const void *context, struct arena *arena,
                        const char ***ret, size_t *ret_count);
int __wrap_folder_names(int descriptor, folder_name_wanted *wanted, const void *context, struct arena *arena,
                        const char ***ret, size_t *ret_count);

/* Says that it is there, and waits for the test's end. */
int __wrap_folder_names(int descriptor, folder_name_wanted *wanted, const void *context, struct arena *arena,
                        const char ***ret, size_t *ret_count) {
        char byte = 0;

        assert_int_equal(write(hangs[1], &byte, 1), 1);
        assert_int_equal(read(goes_on[0], &byte, 1), 0);
        return __real_folder_names(descriptor, wanted, context, arena, ret, ret_count);
}

static void *launch(void *context) {
        const struct launcher_config config = { .socket = socket_path,
                                                .group = (gid_t)-1,
                                                .clients = { geteuid() },
                                                .client_count = 1,
                                                .disk = folder,
                                                .most = launcher_limits_default(),
                                                .runs_max = 1,
                                                .runs_each = 1,
                                                .kept_each = 1,
                                                .patience_ms = 1000 };

        return launcher_run(&config, &stop, context) == 0 ? context : NULL;
}

static void *ask(void *context) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        const char **names;
        size_t count;

        return sandbox_launched_names(socket_path, arena, &names, &count, context) < 0 ? context : NULL;
}

static void a_disk_that_hangs_is_not_waited_for(void **state) {
        struct error err = { 0 }, refused = { 0 }, ended = { 0 };
        pthread_t launcher, client;
        char path[64], byte;
        void *result;

        (void)state;
        folder_make_temporary(folder);
        snprintf(socket_path, sizeof(socket_path), "%s/socket", folder);
        snprintf(path, sizeof(path), "%s/kept", folder);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/kept/%u", folder, (unsigned)geteuid());
        assert_int_equal(mkdir(path, 0700), 0);
        assert_true(pipe(hangs) == 0 && pipe(goes_on) == 0);
        assert_int_equal(interrupt_init(&stop, &err), 0);
        assert_int_equal(pthread_create(&launcher, NULL, launch, &ended), 0);
        while (sandbox_launched_try(socket_path, &err) < 0)
                usleep(1000);
        assert_int_equal(pthread_create(&client, NULL, ask, &refused), 0);
        assert_int_equal(read(hangs[0], &byte, 1), 1);
        interrupt_raise(&stop);
        assert_int_equal(pthread_join(launcher, &result), 0);
        assert_non_null(result);
        assert_int_equal(pthread_join(client, &result), 0);
        assert_non_null(result);
        assert_int_equal(access(socket_path, F_OK), -1);
        close(goes_on[1]);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(a_disk_that_hangs_is_not_waited_for) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
