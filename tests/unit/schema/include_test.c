/* SPDX-License-Identifier: Apache-2.0 */
/* The folders that a Stack includes: what is read, from where, and what is refused. */
#include "support.h"

#include <fcntl.h>

#define HEAD(kind, name) "apiVersion: berth/v1\nkind: " kind "\nmetadata: {name: " name "}\n"
#define ENVIRONMENT(name) HEAD("Environment", name) "spec: {image: {prebuilt: python}}\n"
#define STACK(include) HEAD("Stack", "own") "spec: {include: " include "}\n"
#define AGENT(name, environment) \
        HEAD("Agent", name) "spec: {type: specialist, active: true, environment: " environment "}\n"

/* What most cases begin with; a case's own files come on top. */
static void write_tree(struct loaded *loaded) {
        loaded_write(loaded, ".git/HEAD", "ref: refs/heads/main\n");
        loaded_write(loaded, "common/one.yaml", ENVIRONMENT("one"));
        loaded_write(loaded, "common/deeper/two.yml", ENVIRONMENT("two"));
        loaded_write(loaded, "common/.hidden.yaml", "- no manifest\n");
        loaded_write(loaded, "common/empty.yaml", "");
        loaded_write(loaded, "common/readme.txt", "no manifest");
        loaded_write(loaded, "stacks/eu/agents.yaml", AGENT("analyst", "one"));
}

static void reads_and_resolves(void **state) {
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        write_tree(&loaded);
        loaded_write(&loaded, "stacks/eu/stack.yaml", STACK("[../../common]"));
        loaded_load(&loaded, "stacks/eu", NULL);
        assert_string_equal(strbuf_text(&loaded.said),
                            "common/empty.yaml:0:0: warning: this file holds no manifest\n");
        assert_int_equal(loaded.result, 0);
        assert_int_equal(loaded.manifests.count, 4);
        assert_int_equal(loaded.manifests.file_count, 5);
        assert_non_null(manifests_find(&loaded.manifests, KIND_ENVIRONMENT, "two"));
        assert_string_equal(loaded.manifests.stack->name, "own");
        /*
         * An included file changes no setting of the stack's: to divide a folder into two changes
         * nothing.
         */
        assert_null(value_get(loaded.manifests.stack->spec, "include"));
        loaded_end(&loaded);
}

/* If one file is named, the folder around it is not read: its other files may be included ones. */
static void of_one_file(void **state) {
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        write_tree(&loaded);
        loaded_write(&loaded, "eu.yaml", STACK("[common/deeper]"));
        loaded_load(&loaded, "eu.yaml", NULL);
        assert_string_equal(strbuf_text(&loaded.said), "");
        assert_int_equal(loaded.manifests.count, 2);
        loaded_end(&loaded);
}

/* Without a repository: the folder above the one that is given. */
static void without_a_repository(void **state) {
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "tree/common/one.yaml", ENVIRONMENT("one"));
        loaded_write(&loaded, "tree/eu/stack.yaml", STACK("[../common]"));
        loaded_write(&loaded, "tree/far/eu/stack.yaml", STACK("[../../common]"));
        loaded_load(&loaded, "tree/eu", NULL);
        assert_int_equal(loaded.result, 0);
        assert_int_equal(loaded.manifests.count, 2);
        loaded_load(&loaded, "tree/far/eu", NULL);
        assert_int_equal(loaded.result, -1);
        assert_string_equal(
                said_without_folder(&loaded),
                "tree/far/eu/stack.yaml:4:18: ../../common lies outside of FOLDER/tree/far [an included file must lie in "
                "the same Git repository; without a repository, in the folder above the stack's own]\n");
        loaded_end(&loaded);
}

static const struct {
        const char *include, *file, *text; /* of the Stack; one more file */
        const char *said;
} refused[] = {
        { "[../../none]", NULL, NULL,
          "stacks/eu/stack.yaml:4:18: there is no folder FOLDER/none [paths are relative to the file that says them]\n" },
        { "[../../common, ../../../elsewhere]", NULL, NULL,
          "stacks/eu/stack.yaml:4:32: ../../../elsewhere lies outside of FOLDER [an included file must lie in the same "
          "Git repository; without a repository, in the folder above the stack's own]\n" },
        { "[/etc]", NULL, NULL,
          "stacks/eu/stack.yaml:4:18: include[0] must be a path relative to this file, such as ../common, found the text \"/etc\"\n" },
        { "[..]", NULL, NULL,
          "stacks/eu/stack.yaml:4:18: a cycle: .. holds the folder of the stack that includes it\n" },
        { "[../../common/../stacks/eu]", NULL, NULL,
          "stacks/eu/stack.yaml:4:18: a cycle: ../../common/../stacks/eu holds the folder of the stack that includes it\n" },
        { "[more]", "stacks/eu/more/x.yaml", ENVIRONMENT("x"),
          "stacks/eu/stack.yaml:4:18: more lies in the stack's own folder, all of which is read [leave it out]\n" },
        { "[../../common, ../../common/]", NULL, NULL,
          "stacks/eu/stack.yaml:4:32: ../../common/ is included twice, first at FOLDER/stacks/eu/stack.yaml:4:18\n" },
        { "[../../common/deeper, ../../common]", NULL, NULL,
          "stacks/eu/stack.yaml:4:39: ../../common is included twice: it overlaps with that of "
          "FOLDER/stacks/eu/stack.yaml:4:18\n" },
        { "[../../link]", NULL, NULL,
          "stacks/eu/stack.yaml:4:18: FOLDER/link is a symbolic link, or lies behind one: links are not followed [name "
          "the folder itself]\n" },
        { "[../../link/deeper]", NULL, NULL,
          "stacks/eu/stack.yaml:4:18: FOLDER/link/deeper is a symbolic link, or lies behind one: links are not followed "
          "[name the folder itself]\n" },
        { "[../../links]", "links/fine.yaml", ENVIRONMENT("fine"),
          "stacks/eu/stack.yaml:4:18: FOLDER/links/file.yaml is a symbolic link: links are not followed [put the file "
          "itself there]\n" },
        { "[../../common/one.yaml]", NULL, NULL,
          "stacks/eu/stack.yaml:4:18: FOLDER/common/one.yaml is no folder, and only folders are included\n" },
        { "[../../.git]", NULL, NULL,
          "stacks/eu/stack.yaml:4:18: ../../.git: folders whose names begin with a dot are not read\n" },
        { "[../../bare]", "bare/notes.txt", "nothing",
          "stacks/eu/stack.yaml:4:18: no manifests in FOLDER/bare [manifests are files named *.yaml or *.yml]\n" },
        /* A Stack there is a second one, whatever the two are called; and what it includes is not looked at. */
        { "[../../other]", "other/stack.yaml", HEAD("Stack", "another") "spec: {include: [../nowhere]}\n",
          "other/stack.yaml:3:18: a second Stack: there can be one, and Stack/own is at FOLDER/stacks/eu/stack.yaml:3:18 "
          "[what is included is part of the stack that includes it]\n" },
        { "[../../other]", "other/twin.yaml", AGENT("analyst", "one"),
          "other/twin.yaml:3:18: Agent/analyst is declared twice, first at FOLDER/stacks/eu/agents.yaml:3:18\n" },
};

static void refuses(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
                struct loaded loaded;
                const char *said;

                loaded_begin(&loaded);
                write_tree(&loaded);
                loaded_write(&loaded, "stacks/eu/agents.yaml",
                             AGENT("analyst", "local") "---\n" ENVIRONMENT("local"));
                loaded_write(&loaded, "stacks/eu/stack.yaml",
                             arena_printf(loaded.arena, HEAD("Stack", "own") "spec: {include: %s}\n",
                                          refused[i].include));
                if (refused[i].file)
                        loaded_write(&loaded, refused[i].file, refused[i].text);
                loaded_write(&loaded, "links/fine2.txt", "");
                assert_int_equal(symlink("common", loaded_path(&loaded, "link")), 0);
                assert_int_equal(symlink("../common/one.yaml", loaded_path(&loaded, "links/file.yaml")), 0);
                loaded_load(&loaded, "stacks/eu", NULL);
                said = said_without_folder(&loaded);
                if (strncmp(said, "common/empty.yaml", 17) == 0)
                        said = strchr(said, '\n') + 1;
                assert_string_equal(said, refused[i].said);
                assert_int_equal(loaded.result, -1);
                assert_int_equal(loaded.err.kind, ERROR_DIAGNOSED);
                loaded_end(&loaded);
        }
}

/* Behind a link ".." leads elsewhere than the text says: the path that is shown is one that leads there. */
static void shown_paths_are_true(void **state) {
        struct loaded loaded;
        int here = open(".", O_PATH | O_CLOEXEC);

        (void)state;
        loaded_begin(&loaded);
        write_tree(&loaded);
        loaded_write(&loaded, "common/wrong.yaml", ENVIRONMENT("wrong") "what: is this\n");
        loaded_write(&loaded, "stacks/eu/stack.yaml", STACK("[../../common]"));
        assert_int_equal(symlink("stacks/eu", loaded_path(&loaded, "short")), 0);
        loaded_load(&loaded, "short", NULL);
        assert_non_null(strstr(strbuf_text(&loaded.said), "common/wrong.yaml:5:1: unknown field"));

        assert_int_equal(chdir(loaded_path(&loaded, "stacks/eu")), 0);
        loaded.result = manifests_load(".", &(struct load_options){ 0 }, loaded.arena, &loaded.manifests,
                                       &loaded.diagnostics, &loaded.err);
        assert_int_equal(fchdir(here), 0);
        close(here);
        assert_int_equal(loaded.result, -1);
        for (size_t i = 0; i < loaded.diagnostics.count; i++)
                say(&loaded, &loaded.diagnostics.items[i]);
        assert_non_null(strstr(strbuf_text(&loaded.said), "\n../../common/wrong.yaml:5:1: unknown field"));
        loaded_end(&loaded);
}

/* A tree in memory, as a commit is. */

struct memory {
        const char *asked; /* for which folder */
        const struct manifest_file *files;
        size_t count;
        enum error_kind fails;
};

static int read_memory(void *context, const char *folder, struct arena *arena, struct manifest_file **ret,
                       size_t *ret_count, struct error *err) {
        struct memory *memory = context;

        memory->asked = arena_strdup(arena, folder);
        if (memory->fails)
                return error_set_kind(err, memory->fails, "the commit has no folder %s", folder);
        *ret = (struct manifest_file *)(uintptr_t)memory->files;
        *ret_count = memory->count;
        return 0;
}

static void load_memory(struct loaded *loaded, struct memory *memory, const char *stack) {
        struct manifest_tree tree = { .folder = "./stacks//eu", .read = read_memory, .context = memory };
        struct load_options options = { .tree = memory ? &tree : NULL };
        struct manifest_file own = { .name = "host/repository@0123:stacks/eu/stack.yaml",
                                     .bytes = stack,
                                     .length = strlen(stack),
                                     .path = "stacks/eu/stack.yaml" };

        diagnostics_init(&loaded->diagnostics, loaded->arena);
        strbuf_release(&loaded->said);
        loaded->said = (struct strbuf)STRBUF_INIT;
        loaded->result = manifests_load_files("host/repository@0123", &own, 1, &options, loaded->arena,
                                              &loaded->manifests, &loaded->diagnostics, &loaded->err);
        for (size_t i = 0; i < loaded->diagnostics.count; i++)
                say(loaded, &loaded->diagnostics.items[i]);
}

static void from_memory(void **state) {
        static const char text[] = ENVIRONMENT("one");
        const struct manifest_file common = { .name = "host/repository@0123:common/one.yaml",
                                              .bytes = text,
                                              .length = sizeof(text) - 1,
                                              .path = "common/one.yaml" };
        struct memory memory = { .files = &common, .count = 1 };
        struct loaded loaded;

        (void)state;
        loaded_begin(&loaded);
        load_memory(&loaded, &memory, STACK("[../../common]"));
        assert_int_equal(loaded.result, 0);
        assert_string_equal(memory.asked, "common");
        assert_non_null(manifests_find(&loaded.manifests, KIND_ENVIRONMENT, "one"));

        load_memory(&loaded, &memory, STACK("[../..]"));
        assert_string_equal(strbuf_text(&loaded.said),
                            "host/repository@0123:stacks/eu/stack.yaml:4:18: a cycle: ../.. "
                            "holds the folder of the stack that includes it\n");
        load_memory(&loaded, &memory, STACK("[../../../common]"));
        assert_non_null(
                strstr(strbuf_text(&loaded.said), ":4:18: ../../../common lies outside of the repository"));

        memory.fails = ERROR_NOT_FOUND;
        load_memory(&loaded, &memory, STACK("[../../none]"));
        assert_int_equal(loaded.err.kind, ERROR_DIAGNOSED);
        assert_string_equal(
                strbuf_text(&loaded.said),
                "host/repository@0123:stacks/eu/stack.yaml:4:18: ../../none cannot be included: the commit "
                "has no folder none\n");
        /* Not the commit's fault: to be tried again. */
        memory.fails = ERROR_UNREACHABLE;
        load_memory(&loaded, &memory, STACK("[../../common]"));
        assert_int_equal(loaded.err.kind, ERROR_UNREACHABLE);

        load_memory(&loaded, NULL, STACK("[../../common]"));
        assert_non_null(strstr(strbuf_text(&loaded.said), ":4:17: a Stack that does not come from a file"));
        loaded_end(&loaded);
}

/* Where Stacks stand. Other tools' files are ignored; an unreadable file may be a Stack. */
static void finds_stacks(void **state) {
        static const char *const expected[] = { "", "a/eu", "a/us", "broken" };
        const char *const *folders;
        struct loaded loaded;
        size_t count;

        (void)state;
        loaded_begin(&loaded);
        loaded_write(&loaded, "all.yaml", ENVIRONMENT("one") "---\n" STACK("[]"));
        loaded_write(&loaded, "a/us/stack.yaml", STACK("[../../nowhere]"));
        loaded_write(&loaded, "a/eu/one.yaml", STACK("[]"));
        loaded_write(&loaded, "a/eu/two.yaml", STACK("[]"));
        loaded_write(&loaded, "a/common/x.yaml", "# kind: Stack\n" ENVIRONMENT("x"));
        loaded_write(&loaded, "broken/stack.yaml", "apiVersion: berth/v1\nkind: Stack\nmetadata: [\n");
        loaded_write(&loaded, "other/broken.yaml", "apiVersion: v1\nkind: StackSet\nmetadata: [\n");
        loaded_write(&loaded, ".git/stack.yaml", STACK("[]"));
        assert_int_equal(manifests_find_stacks(loaded.folder, loaded.arena, &folders, &count, &loaded.err),
                         0);
        assert_int_equal(count, 4);
        for (size_t i = 0; i < count; i++)
                assert_string_equal(folders[i], loaded_path(&loaded, expected[i]));
        assert_int_equal(manifests_find_stacks(loaded_path(&loaded, "none"), loaded.arena, &folders, &count,
                                               &loaded.err),
                         -1);
        loaded_end(&loaded);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reads_and_resolves),   cmocka_unit_test(of_one_file),
                cmocka_unit_test(without_a_repository), cmocka_unit_test(refuses),
                cmocka_unit_test(shown_paths_are_true), cmocka_unit_test(from_memory),
                cmocka_unit_test(finds_stacks),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
