/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/guarded.h"

#include <endian.h>
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ANOTHER 61234

struct tree {
        char top[64], upper[80], middle[96], lower[112];
};

static int make_tree(void **state) {
        struct tree *tree = calloc(1, sizeof(*tree));
        struct error err;

        if (!tree)
                abort();
        snprintf(tree->top, sizeof(tree->top), "/tmp/berth-guarded-XXXXXX");
        if (!mkdtemp(tree->top))
                return -1;
        snprintf(tree->upper, sizeof(tree->upper), "%s/upper", tree->top);
        snprintf(tree->middle, sizeof(tree->middle), "%s/middle", tree->upper);
        snprintf(tree->lower, sizeof(tree->lower), "%s/lower", tree->middle);
        *state = tree;
        return folder_make(tree->lower, &err);
}

static int remove_tree(void **state) {
        struct tree *tree = *state;

        (void)rmdir(tree->lower);
        (void)rmdir(tree->middle);
        (void)rmdir(tree->upper);
        (void)rmdir(tree->top);
        free(tree);
        return 0;
}

static void opens(const char *path) {
        struct error err = { 0 };
        struct stat opened, named;
        int folder = -1;

        if (guarded_folder_open(path, &folder, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(fstat(folder, &opened), 0);
        assert_int_equal(stat(path, &named), 0);
        assert_true(opened.st_dev == named.st_dev && opened.st_ino == named.st_ino);
        close(folder);
}

static void refused(const char *path, enum error_kind kind, const char *named) {
        struct error err = { 0 };
        int folder = -1;

        assert_int_equal(guarded_folder_open(path, &folder, &err), -1);
        assert_int_equal(err.kind, kind);
        if (strncmp(err.message, named, strlen(named)) != 0)
                fail_msg("%s", err.message);
        assert_int_equal(folder, -1);
}

/* However the path is written. */
static void ours_is_opened(void **state) {
        const struct tree *tree = *state;
        char path[256];

        opens("/");
        opens(tree->lower);
        snprintf(path, sizeof(path), "/%s/./../lower//", tree->lower);
        opens(path);
        assert_int_equal(chdir(tree->upper), 0);
        opens("middle/lower");
        opens(".");
        assert_int_equal(chdir("/"), 0);
}

static void what_others_may_write_is_refused(void **state) {
        const struct tree *tree = *state;
        char none[128];

        assert_int_equal(chmod(tree->upper, 0777), 0);
        refused(tree->lower, ERROR_REFUSED, tree->upper);
        /* Where they can only put their own beside ours, they cannot move ours away; in the last they could put something in. */
        assert_int_equal(chmod(tree->upper, 01777), 0);
        opens(tree->lower);
        refused(tree->upper, ERROR_REFUSED, tree->upper);
        assert_int_equal(chmod(tree->upper, 0700), 0);
        snprintf(none, sizeof(none), "%s/none", tree->lower);
        refused(none, ERROR_NOT_FOUND, none);
}

static void what_is_anothers_is_refused(void **state) {
        const struct tree *tree = *state;

        if (geteuid() != 0)
                skip();
        assert_int_equal(chown(tree->upper, ANOTHER, 0), 0);
        refused(tree->lower, ERROR_REFUSED, tree->upper);
        assert_int_equal(chown(tree->upper, 0, ANOTHER), 0);
        opens(tree->lower);
        assert_int_equal(chmod(tree->upper, 0770), 0);
        refused(tree->lower, ERROR_REFUSED, tree->upper);
        assert_int_equal(chown(tree->upper, 0, 0), 0);
        opens(tree->lower);
        assert_int_equal(chown(tree->lower, ANOTHER, 0), 0);
        refused(tree->lower, ERROR_REFUSED, tree->lower);
}

static void links_are_refused(void **state) {
        const struct tree *tree = *state;
        char link[128], below[160];

        snprintf(link, sizeof(link), "%s/link", tree->top);
        snprintf(below, sizeof(below), "%s/middle", link);
        assert_int_equal(symlink(tree->upper, link), 0);
        refused(below, ERROR_REFUSED, link);
        refused(link, ERROR_REFUSED, link);
        assert_int_equal(unlink(link), 0);
}

struct list {
        struct posix_acl_xattr_header header;
        struct posix_acl_xattr_entry entries[5];
};

/* rwx for the owner, r-x for all else, and `permissions` for one more. */
static void give_list(const char *path, const char *attribute, uint16_t tag, uid_t id, uint16_t permissions) {
        const struct {
                uint16_t tag, permissions;
                uint32_t id;
        } rows[] = {
                { ACL_USER_OBJ, 7, (uint32_t)ACL_UNDEFINED_ID },
                { tag == ACL_USER ? ACL_USER : ACL_GROUP_OBJ, tag == ACL_USER ? permissions : 5,
                  tag == ACL_USER ? id : (uint32_t)ACL_UNDEFINED_ID },
                { tag == ACL_USER ? ACL_GROUP_OBJ : ACL_GROUP, tag == ACL_USER ? 5 : permissions,
                  tag == ACL_USER ? (uint32_t)ACL_UNDEFINED_ID : id },
                { ACL_MASK, permissions, (uint32_t)ACL_UNDEFINED_ID },
                { ACL_OTHER, 5, (uint32_t)ACL_UNDEFINED_ID },
        };
        struct list list = { .header.a_version = htole32(POSIX_ACL_XATTR_VERSION) };

        for (size_t i = 0; i < 5; i++) {
                list.entries[i].e_tag = htole16(rows[i].tag);
                list.entries[i].e_perm = htole16(rows[i].permissions);
                list.entries[i].e_id = htole32(rows[i].id);
        }
        if (setxattr(path, attribute, &list, sizeof(list), 0) == 0)
                return;
        print_message("no list can be had here: %s\n", strerror(errno));
        skip();
}

/* Of root's group: by the mode alone no other user may write there. */
static void lists_of_who_else_may_write_are_read(void **state) {
        static const char access[] = "system.posix_acl_access", by_default[] = "system.posix_acl_default";
        const struct tree *tree = *state;

        give_list(tree->upper, access, ACL_USER, ANOTHER, 5);
        opens(tree->lower);
        give_list(tree->upper, access, ACL_USER, ANOTHER, 7);
        refused(tree->lower, ERROR_REFUSED, tree->upper);
        give_list(tree->upper, access, ACL_USER, geteuid(), 7);
        if (geteuid() == 0)
                opens(tree->lower);
        give_list(tree->upper, access, ACL_GROUP, ANOTHER, 7);
        refused(tree->lower, ERROR_REFUSED, tree->upper);
        assert_int_equal(removexattr(tree->upper, access), 0);
        assert_int_equal(chmod(tree->upper, 0700), 0);
        opens(tree->lower);
        /* A folder that is made below would inherit the list. */
        give_list(tree->lower, by_default, ACL_USER, ANOTHER, 7);
        refused(tree->lower, ERROR_REFUSED, tree->lower);
        assert_int_equal(removexattr(tree->lower, by_default), 0);
        opens(tree->lower);
}

/* Missing folders are made, only inside folders that were checked. */
static void folders_are_made(void **state) {
        const struct tree *tree = *state;
        char made[128], below[160], link[128];
        struct error err = { 0 };
        struct stat status;
        int folder = -1;

        snprintf(made, sizeof(made), "%s/made", tree->lower);
        snprintf(below, sizeof(below), "%s/below", made);
        assert_int_equal(guarded_folder_make(below, &folder, &err), 0);
        close(folder);
        opens(below);
        assert_int_equal(stat(below, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0700);
        assert_int_equal(rmdir(below), 0);
        assert_int_equal(chmod(tree->upper, 0777), 0);
        folder = -1;
        assert_int_equal(guarded_folder_make(below, &folder, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_int_equal(chmod(tree->upper, 0700), 0);
        snprintf(link, sizeof(link), "%s/link", tree->top);
        assert_int_equal(symlink(made, link), 0);
        snprintf(below, sizeof(below), "%s/below", link);
        assert_int_equal(guarded_folder_make(below, &folder, &err), -1);
        assert_int_equal(err.kind, ERROR_REFUSED);
        assert_int_equal(folder, -1);
        assert_int_equal(unlink(link), 0);
        /* Neither has made one. */
        assert_int_equal(rmdir(made), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_tree, remove_tree)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(ours_is_opened),
                TEST(what_others_may_write_is_refused),
                TEST(what_is_anothers_is_refused),
                TEST(links_are_refused),
                TEST(lists_of_who_else_may_write_are_read),
                TEST(folders_are_made),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
