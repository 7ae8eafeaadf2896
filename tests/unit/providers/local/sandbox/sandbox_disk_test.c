/* SPDX-License-Identifier: Apache-2.0 */
/* Images on a small disk of the test's own, which is one of them: root's alone, and of machines with loop devices. */
#include "folder.h"

#include "base/error.h"
#include "providers/local/sandbox/sandbox_disk.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define MEGABYTE ((uint64_t)1 << 20)
#define AT_ONCE 8
#define ROUNDS 40

struct asked {
        const char *folder;
        pthread_barrier_t *begin;
        int image;
        struct error err;
};

static void *ask(void *context) {
        struct asked *asked = context;

        pthread_barrier_wait(asked->begin);
        if (sandbox_disk_make(asked->folder, 194 * MEGABYTE, 64, &asked->image, &asked->err) < 0)
                asked->image = -1;
        return NULL;
}

static size_t ask_at_once(const char *folder, struct statvfs *ret) {
        struct asked asked[AT_ONCE];
        pthread_t threads[AT_ONCE];
        pthread_barrier_t begin;
        size_t made = 0;

        assert_int_equal(pthread_barrier_init(&begin, NULL, AT_ONCE), 0);
        for (size_t i = 0; i < AT_ONCE; i++) {
                asked[i] = (struct asked){ folder, &begin, -1, { 0 } };
                assert_int_equal(pthread_create(&threads[i], NULL, ask, &asked[i]), 0);
        }
        for (size_t i = 0; i < AT_ONCE; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(statvfs(folder, ret), 0);
        for (size_t i = 0; i < AT_ONCE; i++) {
                made += asked[i].image >= 0;
                if (asked[i].image < 0)
                        assert_non_null(strstr(asked[i].err.message, "a tenth of the disk"));
                else
                        close(asked[i].image);
        }
        pthread_barrier_destroy(&begin);
        return made;
}

/* In a namespace of its own, which takes the mount along when it ends. */
static void a_tenth_of_the_disk_is_left_by_many_at_once(void **state) {
        char folder[sizeof(FOLDER_TEMPLATE)], path[64];
        struct error err = { 0 };
        struct statvfs left;
        int disk = -1;

        (void)state;
        folder_make_temporary(folder);
        snprintf(path, sizeof(path), "%s/disk", folder);
        assert_int_equal(mkdir(path, 0700), 0);
        if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            sandbox_disk_make(folder, 480 * MEGABYTE, 64, &disk, &err) < 0 ||
            sandbox_disk_mount(disk, path, 0, 0, &err) < 0) {
                print_message("no image can be had here: %s\n", geteuid() == 0 ? err.message : "not root");
                folder_remove(folder);
                skip();
        }
        close(disk);
        for (int i = 0; i < ROUNDS; i++) {
                assert_int_equal(ask_at_once(path, &left), 1);
                assert_true(left.f_bavail >= left.f_blocks / 10);
        }
        assert_int_equal(umount(path), 0);
        folder_remove(folder);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(a_tenth_of_the_disk_is_left_by_many_at_once) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
