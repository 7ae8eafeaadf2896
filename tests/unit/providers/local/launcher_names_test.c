/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher is asked what workspaces there are, more than a socket takes at once. */
#include "base/arena.h"
#include "base/interrupt.h"
#include "providers/local/launcher.h"
#include "providers/local/sandbox/sandbox_launched.h"

#include "folder.h"

#include <pthread.h>
#include <sys/stat.h>

#define WORKSPACES 8000 /* 40 letters each */

struct asked {
        struct launcher_config config;
        struct interrupt interrupt;
        struct error err;
        int result;
};

static void *launch(void *context) {
        struct asked *asked = context;

        asked->result = launcher_run(&asked->config, &asked->interrupt, &asked->err);
        return NULL;
}

static void make_folder(const char *path) {
        assert_int_equal(mkdir(path, 0700), 0);
}

static void make_workspaces(const char *folder) {
        char path[128];
        int length = snprintf(path, sizeof(path), "%s/kept", folder);

        make_folder(path);
        length += snprintf(path + length, sizeof(path) - (size_t)length, "/%u", (unsigned)geteuid());
        make_folder(path);
        for (int i = 0; i < WORKSPACES; i++) {
                snprintf(path + length, sizeof(path) - (size_t)length, "/%040x", i * 37 % WORKSPACES);
                make_folder(path);
        }
        snprintf(path + length, sizeof(path) - (size_t)length, "/lost+found");
        make_folder(path);
}

static void all_of_them_are_told(void **state) {
        struct arena *arena = arena_new();
        char folder[sizeof(FOLDER_TEMPLATE)], socket[64];
        struct asked asked = { .config = { .socket = socket,
                                           .group = (gid_t)-1,
                                           .clients = { geteuid() },
                                           .client_count = 1,
                                           .disk = folder,
                                           .most = launcher_limits_default(),
                                           .runs_max = 1,
                                           .runs_each = 1,
                                           .kept_each = 1,
                                           .patience_ms = 1000 } };
        struct error err = { 0 };
        const char **names;
        pthread_t thread;
        size_t count = 0;

        (void)state;
        folder_make_temporary(folder);
        make_workspaces(folder);
        snprintf(socket, sizeof(socket), "%s/socket", folder);
        assert_int_equal(interrupt_init(&asked.interrupt, &err), 0);
        assert_int_equal(pthread_create(&thread, NULL, launch, &asked), 0);
        while (sandbox_launched_try(socket, &err) < 0)
                usleep(1000);
        if (sandbox_launched_names(socket, arena, &names, &count, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(count, WORKSPACES);
        for (size_t i = 0; i < count; i++) {
                char name[41];

                snprintf(name, sizeof(name), "%040x", (unsigned)i);
                assert_string_equal(names[i], name);
        }
        interrupt_raise(&asked.interrupt);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(asked.result, 0);
        interrupt_dispose(&asked.interrupt);
        folder_remove(folder);
        arena_free(arena);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(all_of_them_are_told) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
