/* SPDX-License-Identifier: Apache-2.0 */
/* The copy is a plain folder here: what a sandbox's would be. */
#include "support.h"

#include "sessions/workspace_sync.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

struct pair {
        struct world world;
        struct workspace workspace;
        int copy;
        struct workspace_base base;
        struct workspace_limits limits;
        struct workspace_changes changes;
};

static const char *copy_path(struct pair *pair, const char *name) {
        return place_path(pair->world.place, arena_printf(pair->world.place->arena, "copy/%s", name));
}

/* In place, as a program writes: the inode stays. */
static void write_copy(struct pair *pair, const char *name, const char *text) {
        place_write(pair->world.place, arena_printf(pair->world.place->arena, "copy/%s", name), text);
}

static const char *read_copy(struct pair *pair, const char *name) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        return file_read(copy_path(pair, name), 1 << 20, &text, &err) == 0
                       ? arena_strdup(pair->world.place->arena, strbuf_text(&text))
                       : NULL;
}

static struct workspace_tree tree_of(struct pair *pair) {
        struct workspace_tree tree;
        struct error err;

        if (workspace_tree_read(pair->copy, 0, 0, NULL, pair->world.place->arena, &tree, &err) < 0)
                fail_msg("%s", err.message);
        return tree;
}

static struct pair pair_of(void **state) {
        struct pair pair = { .world = world_of(state) };

        pair.workspace = world_open(&pair.world, "s-one");
        pair.copy = open(copy_path(&pair, ""), O_RDONLY | O_DIRECTORY);
        assert_true(pair.copy >= 0);
        return pair;
}

static void end_pair(struct pair *pair) {
        close(pair->copy);
        workspace_close(&pair->workspace);
}

static void join(struct strbuf *text, const char *word, const char *const *paths, size_t count) {
        for (size_t i = 0; i < count; i++)
                strbuf_printf(text, "%s%s ", word, paths[i]);
}

/* "+changed -deleted !conflict ?skipped ", each sorted; saves the base and loads it again. */
static const char *out(struct pair *pair) {
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        const struct workspace_tree tree = tree_of(pair);
        const struct workspace_source source = { &tree, workspace_source_open, &pair->copy };
        struct arena *arena = pair->world.place->arena;
        struct workspace_usage counted, kept;
        struct workspace_changes *changes = &pair->changes;

        if (workspace_outgoing(&pair->workspace, &source, &pair->limits, NULL, arena, &pair->base, changes,
                               &pair->world.problem) < 0)
                fail_msg("%s", pair->world.problem.detail);
        if (workspace_base_save(&pair->workspace, &pair->base, &pair->world.problem) < 0)
                fail_msg("%s", pair->world.problem.detail);
        {
                const size_t count = pair->base.count;

                assert_int_equal(workspace_base_load(&pair->workspace, arena, &pair->base), 0);
                assert_int_equal(pair->base.count, count);
        }
        for (size_t i = 0; i < changes->changed_count; i++)
                strbuf_printf(&text, "+%s ", changes->changed[i].path);
        join(&text, "-", changes->deleted, changes->deleted_count);
        join(&text, "!", changes->conflict, changes->conflict_count);
        for (size_t i = 0; i < changes->skipped_count; i++)
                strbuf_printf(&text, "?%s ", changes->skipped[i].path);
        /* The number of files that is kept is the number there is. */
        assert_int_equal(workspace_measure(&pair->workspace, NULL, &kept, &pair->world.problem), 0);
        unlink(place_path(pair->world.place, "w/sessions/s-one/usage"));
        assert_int_equal(workspace_measure(&pair->workspace, NULL, &counted, &pair->world.problem), 0);
        assert_int_equal(kept.files, counted.files);
        assert_int_equal(kept.folders, counted.folders);
        assert_int_equal(kept.bytes, counted.bytes);
        return arena_strdup(arena, strbuf_text(&text));
}

/* "+brought -removed ", as the place would do it. */
static const char *in(struct pair *pair) {
        struct arena *arena = pair->world.place->arena;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct workspace_tree tree = tree_of(pair);
        struct workspace_arrival *arrivals;
        size_t count;

        if (workspace_incoming(&pair->workspace, &pair->base, &tree, NULL, arena, &arrivals, &count,
                               &pair->world.problem) < 0)
                fail_msg("%s", pair->world.problem.detail);
        for (size_t i = 0; i < count; i++) {
                const struct workspace_entry *entry = &arrivals[i].entry;

                strbuf_printf(&text, "%s%s ", arrivals[i].removed ? "-" : "+", entry->path);
                if (arrivals[i].removed) {
                        if (unlinkat(pair->copy, entry->path, entry->folder ? AT_REMOVEDIR : 0) < 0)
                                fail_msg("%s: %s", entry->path, strerror(errno));
                } else if (entry->folder) {
                        assert_true(mkdirat(pair->copy, entry->path, 0755) == 0);
                } else {
                        folder_write(arena_printf(arena, "%s/copy", pair->world.place->folder), entry->path,
                                     world_get(&pair->world, &pair->workspace, entry->path));
                }
        }
        tree = tree_of(pair);
        workspace_settle(arrivals, count, &tree, arena, &pair->base);
        return arena_strdup(arena, strbuf_text(&text));
}

static void test_both_ways(void **state) {
        struct pair pair = pair_of(state);

        world_put(&pair.world, &pair.workspace, "in/a", "from outside");
        assert_string_equal(in(&pair), "+in +in/a ");
        assert_string_equal(out(&pair), "");
        write_copy(&pair, "in/a", "by the code");
        write_copy(&pair, "new/deep/file", "new");
        mkdir(copy_path(&pair, "empty/"), 0700);
        assert_string_equal(out(&pair), "+in/a +new/deep/file ");
        assert_string_equal(pair.changes.changed[1].sha256,
                            "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "in/a"), "by the code");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "new/deep/file"), "new");
        assert_string_equal(out(&pair), "");
        assert_string_equal(in(&pair), "");
        world_put(&pair.world, &pair.workspace, "in/b", "later");
        assert_int_equal(workspace_file_delete(&pair.workspace, "in/a", &(struct conditions){ 0 }, NULL,
                                               &pair.world.problem),
                         0);
        assert_string_equal(out(&pair), "");
        assert_string_equal(in(&pair), "-in/a +in/b ");
        assert_string_equal(read_copy(&pair, "in/b"), "later");
        assert_null(read_copy(&pair, "in/a"));
        unlink(copy_path(&pair, "new/deep/file"));
        assert_string_equal(out(&pair), "-new/deep/file ");
        assert_null(world_get(&pair.world, &pair.workspace, "new/deep/file"));
        assert_string_equal(in(&pair), "");
        end_pair(&pair);
}

/* The same bytes written again, or only touched, are no change; the right to execute is. */
static void test_touched(void **state) {
        struct pair pair = pair_of(state);
        struct workspace_file file;
        int descriptor DESCRIPTOR_CLEANUP = -1;

        write_copy(&pair, "a", "text");
        assert_string_equal(out(&pair), "+a ");
        write_copy(&pair, "a", "text");
        assert_string_equal(out(&pair), "");
        assert_int_equal(chmod(copy_path(&pair, "a"), 0755), 0);
        assert_string_equal(out(&pair), "+a ");
        assert_int_equal(workspace_file_open(&pair.workspace, "a", &descriptor, &file, &pair.world.problem),
                         0);
        assert_true(file.executable);
        write_copy(&pair, "a", "TEXT");
        assert_string_equal(out(&pair), "+a ");
        /* Without a base contents are compared, and what only one of them has is brought to the other. */
        unlink(place_path(pair.world.place, "w/sessions/s-one/base"));
        pair.base = (struct workspace_base){ 0 };
        world_put(&pair.world, &pair.workspace, "outside", "x");
        assert_string_equal(out(&pair), "");
        assert_string_equal(in(&pair), "+outside ");
        end_pair(&pair);
}

/*
 * A file that was only touched in the copy has changed outside alone, however it came into the
 * copy.
 */
static void test_touched_and_put(void **state) {
        struct pair pair = pair_of(state);

        write_copy(&pair, "made", "first");
        write_copy(&pair, "removed", "first");
        world_put(&pair.world, &pair.workspace, "arrived", "first");
        assert_string_equal(in(&pair), "+arrived ");
        assert_string_equal(out(&pair), "+made +removed ");
        write_copy(&pair, "arrived", "first"); /* its digest is known from now on */
        assert_string_equal(out(&pair), "");
        for (int i = 0; i < 2; i++) {
                write_copy(&pair, "made", "first");
                write_copy(&pair, "arrived", "first");
                write_copy(&pair, "removed", "first");
                world_put(&pair.world, &pair.workspace, "made", "from outside");
                world_put(&pair.world, &pair.workspace, "arrived", "other");
                (void)!workspace_file_delete(&pair.workspace, "removed", &(struct conditions){ 0 }, NULL,
                                             &pair.world.problem);
                assert_string_equal(out(&pair), "");
        }
        assert_string_equal(in(&pair), "-removed +arrived +made ");
        assert_string_equal(read_copy(&pair, "made"), "from outside");
        assert_string_equal(read_copy(&pair, "arrived"), "other");
        assert_null(world_get(&pair.world, &pair.workspace, "removed"));
        assert_string_equal(out(&pair), "");
        end_pair(&pair);
}

/* What both changed keeps the code's version, and is said. */
static void test_conflicts(void **state) {
        struct pair pair = pair_of(state);

        write_copy(&pair, "both", "first");
        write_copy(&pair, "gone", "first");
        write_copy(&pair, "deleted-outside", "first");
        assert_string_equal(out(&pair), "+both +deleted-outside +gone ");
        write_copy(&pair, "both", "by the code");
        write_copy(&pair, "new", "by the code");
        write_copy(&pair, "deleted-outside", "by the code");
        unlink(copy_path(&pair, "gone"));
        world_put(&pair.world, &pair.workspace, "both", "from outside");
        world_put(&pair.world, &pair.workspace, "new", "from outside");
        world_put(&pair.world, &pair.workspace, "gone", "from outside");
        world_put(&pair.world, &pair.workspace, "alone", "from outside");
        assert_int_equal(workspace_file_delete(&pair.workspace, "deleted-outside", &(struct conditions){ 0 },
                                               NULL, &pair.world.problem),
                         0);
        assert_string_equal(out(&pair),
                            "+both +deleted-outside +new -gone !both !deleted-outside !gone !new ");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "both"), "by the code");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "new"), "by the code");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "deleted-outside"), "by the code");
        assert_null(world_get(&pair.world, &pair.workspace, "gone"));
        assert_string_equal(in(&pair), "+alone ");
        assert_string_equal(out(&pair), "");
        end_pair(&pair);
}

/* A file becomes a folder and the reverse, on either side. */
static void test_types(void **state) {
        struct pair pair = pair_of(state);

        write_copy(&pair, "a", "file");
        write_copy(&pair, "b/c/d", "file");
        assert_string_equal(out(&pair), "+a +b/c/d ");
        unlink(copy_path(&pair, "a"));
        write_copy(&pair, "a/inner", "file");
        unlink(copy_path(&pair, "b/c/d"));
        assert_int_equal(rmdir(copy_path(&pair, "b/c/")), 0);
        assert_int_equal(rmdir(copy_path(&pair, "b/")), 0);
        rmdir(copy_path(&pair, "b"));
        write_copy(&pair, "b", "file");
        assert_string_equal(out(&pair), "+a/inner +b -b/c/d ");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "a/inner"), "file");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "b"), "file");
        assert_string_equal(in(&pair), "");
        assert_int_equal(workspace_file_delete(&pair.workspace, "b", &(struct conditions){ 0 }, NULL,
                                               &pair.world.problem),
                         0);
        world_put(&pair.world, &pair.workspace, "b/x/y", "from outside");
        assert_int_equal(workspace_file_delete(&pair.workspace, "a/inner", &(struct conditions){ 0 }, NULL,
                                               &pair.world.problem),
                         0);
        world_put(&pair.world, &pair.workspace, "a", "from outside");
        assert_string_equal(in(&pair), "-b -a/inner -a +a +b +b/x +b/x/y ");
        assert_string_equal(out(&pair), "");
        /* A folder that got a file from elsewhere is not taken away by a file of its name. */
        unlink(copy_path(&pair, "b/x/y"));
        rmdir(copy_path(&pair, "b/x/"));
        rmdir(copy_path(&pair, "b/"));
        write_copy(&pair, "b", "file");
        world_put(&pair.world, &pair.workspace, "b/z", "kept");
        assert_string_equal(out(&pair), "-b/x/y !b ?b ");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "b/z"), "kept");
        end_pair(&pair);
}

static void test_hostile(void **state) {
        struct pair pair = pair_of(state);
        struct strbuf secret STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;
        int deep, sparse;

        place_write(pair.world.place, "outside/secret", "secret");
        write_copy(&pair, "good", "good");
        write_copy(&pair, "turned", "file");
        write_copy(&pair, "folder/turned", "file");
        assert_string_equal(out(&pair), "+folder/turned +good +turned ");
        /* Links instead of what was there, out of the folder, absolute, and in circles. */
        unlink(copy_path(&pair, "turned"));
        assert_int_equal(symlink("../outside/secret", copy_path(&pair, "turned")), 0);
        unlink(copy_path(&pair, "folder/turned"));
        rmdir(copy_path(&pair, "folder/"));
        assert_int_equal(symlink("../outside", copy_path(&pair, "folder")), 0);
        assert_int_equal(symlink("loop", copy_path(&pair, "loop")), 0);
        assert_int_equal(mkfifo(copy_path(&pair, "fifo"), 0666), 0);
        if (geteuid() == 0)
                assert_int_equal(mknod(copy_path(&pair, "zero"), S_IFCHR | 0666, makedev(1, 5)), 0);
        write_copy(&pair, "\xff\xfe", "no name");
        write_copy(&pair, "line\nbreak", "a name all the same");
        /* Deeper than may be. */
        deep = dup(pair.copy);
        for (int i = 0; i < 100; i++) {
                int inner;

                assert_int_equal(mkdirat(deep, "d", 0777), 0);
                inner = openat(deep, "d", O_RDONLY | O_DIRECTORY);
                close(deep);
                deep = inner;
        }
        close(openat(deep, "bottom", O_WRONLY | O_CREAT, 0600));
        close(deep);
        /* A file with holes may say any size. */
        sparse = open(copy_path(&pair, "sparse"), O_WRONLY | O_CREAT, 0600);
        assert_int_equal(ftruncate(sparse, (off_t)1 << 40), 0);
        close(sparse);
        pair.limits.bytes_max = 1000;
        {
                const char *said = out(&pair);

                assert_non_null(strstr(said, "+line\nbreak "));
                assert_non_null(strstr(said, "-folder/turned -turned "));
                assert_non_null(strstr(said, "?folder "));
                assert_non_null(strstr(said, "?turned "));
                assert_non_null(strstr(said, "?loop "));
                assert_non_null(strstr(said, "?fifo "));
                assert_non_null(strstr(said, "?sparse "));
                assert_non_null(strstr(said, "?\\xFF\\xFE "));
                assert_null(strstr(said, "bottom"));
                assert_null(strstr(said, "!"));
        }
        assert_null(world_get(&pair.world, &pair.workspace, "turned"));
        assert_int_equal(file_read(place_path(pair.world.place, "outside/secret"), 100, &secret, &err), 0);
        assert_string_equal(strbuf_text(&secret), "secret");
        end_pair(&pair);
}

static void test_limits(void **state) {
        struct pair pair = pair_of(state);

        pair.limits = (struct workspace_limits){ .bytes_max = 10 };
        write_copy(&pair, "a", "12345");
        write_copy(&pair, "b", "123456");
        write_copy(&pair, "c", "12345");
        assert_string_equal(out(&pair), "+a +c ?b ");
        unlink(copy_path(&pair, "a"));
        /* There is room now: what was left out comes without having changed again. */
        pair.limits.bytes_max = 11;
        assert_string_equal(out(&pair), "+b -a ");
        pair.limits = (struct workspace_limits){ .files_max = 3 };
        write_copy(&pair, "d/e", "");
        assert_string_equal(out(&pair), "?d/e ");
        pair.limits = (struct workspace_limits){ .free_min = UINT64_MAX / 2 };
        write_copy(&pair, "b", "654321");
        assert_string_equal(out(&pair), "?b ?d/e ");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "b"), "123456");
        pair.limits = (struct workspace_limits){ 0 };
        assert_string_equal(out(&pair), "+b +d/e ");
        end_pair(&pair);
}

#define FOLDERS 50

static void make_many(int folder, const char *prefix, int count) {
        char name[16];

        for (int i = 0; i < count; i++) {
                snprintf(name, sizeof(name), "%s%02d", prefix, i);
                assert_int_equal(mkdirat(folder, name, 0755), 0);
        }
}

/* A workspace's folders have a bound: what a sandbox has beyond it is said, and left there. */
static void test_folders_have_a_bound(void **state) {
        struct pair pair = pair_of(state);
        struct workspace_usage usage;

        pair.limits = (struct workspace_limits){ .folders_max = FOLDERS };
        make_many(pair.workspace.files, "d", FOLDERS - 3);
        make_many(pair.copy, "e", 4);
        write_copy(&pair, "e00/f", "x");
        write_copy(&pair, "e03/f", "x");
        assert_string_equal(out(&pair), "+e00/f ?e03 ?e03/f ");
        assert_int_equal(workspace_measure(&pair.workspace, NULL, &usage, &pair.world.problem), 0);
        assert_int_equal(usage.folders, FOLDERS);
        end_pair(&pair);
}

/* Those beyond are not looked into, and what lies there is not taken for deleted. */
static void test_folders_that_are_not_read(void **state) {
        struct pair pair = pair_of(state);
        struct workspace_tree tree;
        struct error err;

        make_many(pair.copy, "d", FOLDERS + 5);
        write_copy(&pair, "a", "x");
        assert_int_equal(
                workspace_tree_read(pair.copy, 0, FOLDERS, NULL, pair.world.place->arena, &tree, &err), 0);
        assert_int_equal(tree.count, FOLDERS + 1);
        assert_int_equal(tree.skipped_count, 5);
        assert_true(tree.skipped[0].unread && !tree.cut);
        assert_int_equal(tree_of(&pair).count, FOLDERS + 6);
        end_pair(&pair);
}

struct watched {
        int folder;
        int opened[8]; /* they share their offsets with what is read */
        size_t count;
};

static int open_watched(void *context, const char *path) {
        struct watched *watched = context;
        int opened = workspace_source_open(&watched->folder, path);

        assert_true(watched->count < 8 && opened >= 0);
        watched->opened[watched->count++] = dup(opened);
        return opened;
}

/* Many names for one file, or files of holes: not a byte is read of what has no place, let alone written beside the workspace. */
static void test_no_room_is_seen_before_it_is_written(void **state) {
        struct pair pair = pair_of(state);
        struct watched watched = { .folder = pair.copy };
        struct workspace_tree tree;
        const struct workspace_source source = { &tree, open_watched, &watched };
        off_t bytes_read = 0;

        write_copy(&pair, "a", "123456");
        assert_int_equal(link(copy_path(&pair, "a"), copy_path(&pair, "b")), 0);
        assert_int_equal(link(copy_path(&pair, "a"), copy_path(&pair, "c")), 0);
        write_copy(&pair, "d", "1234");
        pair.limits = (struct workspace_limits){ .bytes_max = 10 };
        tree = tree_of(&pair);
        assert_int_equal(workspace_outgoing(&pair.workspace, &source, &pair.limits, NULL,
                                            pair.world.place->arena, &pair.base, &pair.changes,
                                            &pair.world.problem),
                         0);
        assert_int_equal(pair.changes.changed_count, 2);
        assert_int_equal(pair.changes.skipped_count, 2);
        assert_int_equal(watched.count, 2); /* opening may bring it from elsewhere */
        for (size_t i = 0; i < watched.count; i++) {
                bytes_read += lseek(watched.opened[i], 0, SEEK_CUR);
                close(watched.opened[i]);
        }
        assert_int_equal(bytes_read, 10);
        end_pair(&pair);
}

/* Names are kept in our memory: where they are strangers', not all that a file system takes. */
static void test_paths_have_a_bound(void **state) {
        struct pair pair = pair_of(state);
        struct workspace_tree tree;
        struct error err;
        char name[241];
        int at = dup(pair.copy), inner;
        size_t bytes = 0;

        for (size_t depth = 0; depth < 3; depth++) {
                memset(name, 'n', 240);
                name[240] = '\0';
                assert_int_equal(mkdirat(at, name, 0700), 0);
                inner = openat(at, name, O_RDONLY | O_DIRECTORY);
                close(at);
                at = inner;
        }
        for (size_t i = 0; i < 20000; i++) {
                snprintf(name + 200, 41, "%zu", i);
                close(openat(at, name, O_WRONLY | O_CREAT, 0600));
        }
        close(at);
        assert_int_equal(
                workspace_tree_read(pair.copy, 100000, 0, NULL, pair.world.place->arena, &tree, &err), 0);
        assert_true(tree.cut);
        for (size_t i = 0; i < tree.count; i++)
                bytes += strlen(tree.entries[i].path);
        assert_true(bytes <= WORKSPACE_PATHS_MAX + WORKSPACE_PATH_MAX);
        assert_int_equal(tree_of(&pair).count, 20003);
        end_pair(&pair);
}

/* Where a part of the copy cannot be read, nothing below it is taken for deleted. */
static void test_unread(void **state) {
        struct pair pair = pair_of(state);
        struct workspace_tree tree;
        const struct workspace_source source = { &tree, workspace_source_open, &pair.copy };
        struct workspace_skipped skipped = { "d", "it cannot be read", true };
        struct workspace_base before;

        write_copy(&pair, "d/a", "x");
        write_copy(&pair, "e", "x");
        assert_string_equal(out(&pair), "+d/a +e ");
        before = pair.base;
        tree = (struct workspace_tree){ .skipped = &skipped, .skipped_count = 1 };
        assert_int_equal(workspace_outgoing(&pair.workspace, &source, &pair.limits, NULL,
                                            pair.world.place->arena, &pair.base, &pair.changes,
                                            &pair.world.problem),
                         0);
        assert_int_equal(pair.changes.deleted_count, 1);
        assert_string_equal(pair.changes.deleted[0], "e");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "d/a"), "x");
        pair.base = before;
        tree = (struct workspace_tree){ .cut = true };
        assert_int_equal(workspace_outgoing(&pair.workspace, &source, &pair.limits, NULL,
                                            pair.world.place->arena, &pair.base, &pair.changes,
                                            &pair.world.problem),
                         0);
        assert_int_equal(pair.changes.skipped_count, 1);
        assert_string_equal(pair.changes.skipped[0].path, ".");
        assert_int_equal(pair.changes.deleted_count, 0);
        end_pair(&pair);
}

/* More than a batch; interrupted in the middle, it goes on where it was. */
static void test_many(void **state) {
        struct pair pair = pair_of(state);
        const struct workspace_source source = { .open = workspace_source_open, .context = &pair.copy };
        struct interrupt interrupt;
        struct workspace_tree tree;
        struct workspace_source with_tree = source;
        struct error err;

        for (int i = 0; i < 300; i++)
                write_copy(&pair, arena_printf(pair.world.place->arena, "d%d/f%03d", i % 7, i), "text");
        assert_int_equal(interrupt_init(&interrupt, &err), 0);
        tree = tree_of(&pair);
        with_tree.tree = &tree;
        interrupt_raise(&interrupt);
        assert_int_equal(workspace_outgoing(&pair.workspace, &with_tree, &pair.limits, &interrupt,
                                            pair.world.place->arena, &pair.base, &pair.changes,
                                            &pair.world.problem),
                         -1);
        assert_int_equal(pair.world.problem.code, PROBLEM_STOPPING);
        interrupt_dispose(&interrupt);
        (void)out(&pair);
        assert_int_equal(pair.changes.changed_count, 300);
        assert_string_equal(out(&pair), "");
        end_pair(&pair);
}

/*
 * A file that did not fit into the copy was not removed from it: it stays in the workspace, and is
 * tried again.
 */
static void test_what_did_not_arrive(void **state) {
        struct pair pair = pair_of(state);
        struct arena *arena = pair.world.place->arena;
        struct workspace_arrival *arrivals;
        struct workspace_tree tree;
        size_t count;

        world_put(&pair.world, &pair.workspace, "a", "old");
        assert_string_equal(in(&pair), "+a ");
        world_put(&pair.world, &pair.workspace, "a", "newer, and too large");
        tree = tree_of(&pair);
        assert_int_equal(workspace_incoming(&pair.workspace, &pair.base, &tree, NULL, arena, &arrivals,
                                            &count, &pair.world.problem),
                         0);
        assert_int_equal(unlinkat(pair.copy, "a", 0), 0);
        tree = tree_of(&pair);
        workspace_settle(arrivals, count, &tree, arena, &pair.base);
        assert_string_equal(out(&pair), "");
        assert_string_equal(world_get(&pair.world, &pair.workspace, "a"), "newer, and too large");
        assert_string_equal(in(&pair), "+a ");
        assert_string_equal(read_copy(&pair, "a"), "newer, and too large");
        end_pair(&pair);
}

/* A base that is damaged, or of another boot, is invalid. */
static void test_bases(void **state) {
        struct pair pair = pair_of(state);
        struct strbuf whole STRBUF_CLEANUP = STRBUF_INIT;
        const char *path = place_path(pair.world.place, "w/sessions/s-one/base");
        struct arena *arena = pair.world.place->arena;
        struct workspace_base base;
        struct error err;

        write_copy(&pair, "a", "x");
        write_copy(&pair, "b/c", "x");
        (void)out(&pair);
        assert_int_equal(file_read(path, 1 << 20, &whole, &err), 0);
        for (size_t length = 0; length < whole.length; length++) {
                assert_int_equal(file_write_atomic(path, whole.data, length, 0600, &err), 0);
                assert_int_equal(workspace_base_load(&pair.workspace, arena, &base), 0);
                assert_int_equal(base.count, 0);
        }
        for (size_t at = 0; at < whole.length; at++) {
                whole.data[at] = (char)(whole.data[at] ^ 0x55);
                assert_int_equal(file_write_atomic(path, whole.data, whole.length, 0600, &err), 0);
                whole.data[at] = (char)(whole.data[at] ^ 0x55);
                assert_int_equal(workspace_base_load(&pair.workspace, arena, &base), 0);
                assert_in_range(base.count, 0, 3);
        }
        assert_int_equal(file_write_atomic(path, whole.data, whole.length, 0600, &err), 0);
        assert_int_equal(workspace_base_load(&pair.workspace, arena, &base), 0);
        assert_int_equal(base.count, 3);
        end_pair(&pair);
}

/* A rename over it would go to disk with each execution. */
static void test_a_base_that_says_the_same_is_left(void **state) {
        struct pair pair = pair_of(state);
        const char *path = place_path(pair.world.place, "w/sessions/s-one/base");
        struct stat first, same, other;

        write_copy(&pair, "a", "x");
        assert_string_equal(out(&pair), "+a ");
        assert_int_equal(stat(path, &first), 0);
        assert_string_equal(out(&pair), "");
        assert_int_equal(stat(path, &same), 0);
        assert_int_equal(same.st_ino, first.st_ino);
        assert_int_equal(same.st_mtim.tv_nsec, first.st_mtim.tv_nsec);
        write_copy(&pair, "b", "y");
        assert_string_equal(out(&pair), "+b ");
        assert_int_equal(stat(path, &other), 0);
        assert_true(other.st_size > first.st_size);
        end_pair(&pair);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_both_ways),
                TEST(test_touched),
                TEST(test_touched_and_put),
                TEST(test_conflicts),
                TEST(test_types),
                TEST(test_hostile),
                TEST(test_limits),
                TEST(test_folders_have_a_bound),
                TEST(test_folders_that_are_not_read),
                TEST(test_no_room_is_seen_before_it_is_written),
                TEST(test_paths_have_a_bound),
                TEST(test_unread),
                TEST(test_many),
                TEST(test_bases),
                TEST(test_a_base_that_says_the_same_is_left),
                TEST(test_what_did_not_arrive),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
