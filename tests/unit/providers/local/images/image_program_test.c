/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/local/images/image_program.h"
#include "providers/local/support.h"

static void test_programs(void **state) {
        static const struct {
                const char *path, *name;
                bool found;
        } rows[] = {
                { "/usr/bin", "tool", true },
                { "/nowhere:/usr/bin", "tool", true },
                { "/nowhere::/usr/bin", "tool", true },
                { "/usr/bin", "plain", false },   /* may not be executed */
                { "/usr/bin", "folder", false },  /* is no file */
                { "/usr/bin", "absolute", true }, /* a link within the image, from its root */
                { "/usr/bin", "relative", true },
                { "/usr/bin", "dangling", false },
                { "/usr/bin", "upwards", true }, /* the root's parent is the root */
                { "/usr/bin", "host", false },   /* what only the machine has */
                { "/usr/bin", "loop", false },
                { "/bin", "tool", true },     /* a folder that is a link */
                { "usr/bin", "tool", false }, /* is of the workspace */
                { "", "tool", false },
                { ":", "tool", false },
        };
        struct place *place = *state;
        const char *root = place_path(place, "root");

        assert_int_equal(chmod(place_write(place, "root/usr/bin/tool", "x"), 0755), 0);
        assert_int_equal(chmod(place_write(place, "root/usr/bin/plain", "x"), 0644), 0);
        assert_int_equal(chmod(place_write(place, "outside", "x"), 0755), 0);
        assert_int_equal(mkdir(place_path(place, "root/usr/bin/folder"), 0755), 0);
        assert_int_equal(symlink("/usr/bin/tool", place_path(place, "root/usr/bin/absolute")), 0);
        assert_int_equal(symlink("../bin/tool", place_path(place, "root/usr/bin/relative")), 0);
        assert_int_equal(symlink("nothing", place_path(place, "root/usr/bin/dangling")), 0);
        assert_int_equal(symlink("../../../../../usr/bin/tool", place_path(place, "root/usr/bin/upwards")),
                         0);
        assert_int_equal(symlink(place_path(place, "outside"), place_path(place, "root/usr/bin/host")), 0);
        assert_int_equal(symlink("loop", place_path(place, "root/usr/bin/loop")), 0);
        assert_int_equal(symlink("usr/bin", place_path(place, "root/bin")), 0);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (image_program_exists(root, rows[i].path, rows[i].name) != rows[i].found)
                        fail_msg("%s in \"%s\"", rows[i].name, rows[i].path);
        }
        assert_false(image_program_exists(place_path(place, "nowhere"), "/usr/bin", "tool"));
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_programs, place_setup,
                                                                            place_teardown) };

        return cmocka_run_group_tests_name("image_program", tests, NULL, NULL);
}
