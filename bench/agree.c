/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long it takes to see that nothing changed, or one file, in a workspace of FILES files: all
 * that stands between the end of an execution and its list of files. The floor is nftw(3) through
 * the same copy, with an lstat each.
 * usage: agree FOLDER FILES TIMES     the folder is made, and is the caller's to remove
 */
#include "base/files.h"
#include "sessions/workspace_sync.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES_A_FOLDER 100
#define TIMES_MAX 101

static _Noreturn void die(const char *what) {
        fprintf(stderr, "agree: %s\n", what);
        exit(1);
}

static double now_ms(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec * 1000 + (double)now.tv_nsec / 1e6;
}

static size_t visited;

static int visit(const char *path, const struct stat *status, int type, struct FTW *where) {
        (void)path;
        (void)status;
        (void)type;
        (void)where;
        visited++;
        return 0;
}

static void write_text(int folder, const char *path, const char *text) {
        int file DESCRIPTOR_CLEANUP = openat(folder, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        if (file < 0 || descriptor_write(file, text, strlen(text)) < 0)
                die("cannot write into the copy");
}

static void make_copy(int folder, size_t files) {
        char path[64];

        for (size_t i = 0; i < files; i++) {
                if (i % FILES_A_FOLDER == 0) {
                        snprintf(path, sizeof(path), "folder-%zu", i / FILES_A_FOLDER);
                        if (mkdirat(folder, path, 0700) < 0)
                                die("cannot make a folder");
                }
                snprintf(path, sizeof(path), "folder-%zu/file-%zu.txt", i / FILES_A_FOLDER, i);
                write_text(folder, path, "some text\n");
        }
}

/* As after an execution; returns how many files changed. */
static size_t pass(const struct workspaces *workspaces, int copy) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        const struct workspace_limits limits = { 0 };
        struct workspace_changes changes;
        struct workspace_source source = { NULL, workspace_source_open, &copy };
        struct workspace_base base;
        struct workspace_tree tree;
        struct problem problem;
        struct error err;

        if (workspace_open(workspaces, "bench", "s-bench", &workspace, &problem) < 0)
                die(problem.detail);
        (void)!workspace_base_load(&workspace, arena, &base);
        if (workspace_tree_read(copy, 0, 0, NULL, arena, &tree, &err) < 0)
                die(err.message);
        source.tree = &tree;
        if (workspace_outgoing(&workspace, &source, &limits, NULL, arena, &base, &changes, &problem) < 0 ||
            ((changes.changed_count || changes.deleted_count) &&
             workspace_base_save(&workspace, &base, &problem) < 0))
                die(problem.detail);
        return changes.changed_count;
}

static int by_number(const void *a, const void *b) {
        const double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static double median(double *times, size_t count) {
        qsort(times, count, sizeof(*times), by_number);
        return times[count / 2];
}

int main(int argc, char **argv) {
        const struct workspace_row row = { .id = "s-bench", .owner = "bench", .environment = "bench" };
        double nothing[TIMES_MAX], one[TIMES_MAX], floor_ms[TIMES_MAX];
        struct workspaces workspaces = { .stack = "bench" };
        struct problem problem;
        struct error err;
        size_t files, times;
        char *copy_path TEXT_CLEANUP = NULL, *kept_path TEXT_CLEANUP = NULL;
        char text[64];
        int copy DESCRIPTOR_CLEANUP = -1;

        if (argc != 4 || (files = strtoul(argv[2], NULL, 10)) < 1 ||
            (times = strtoul(argv[3], NULL, 10)) < 1 || times > TIMES_MAX)
                die("usage: agree FOLDER FILES TIMES");
        copy_path = path_join(argv[1], "copy");
        kept_path = path_join(argv[1], "workspaces");
        workspaces.folder = kept_path;
        if (folder_make(copy_path, &err) < 0)
                die(err.message);
        copy = open(copy_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (copy < 0 || workspace_create(&workspaces, &row, &problem) < 0)
                die("cannot make a workspace");
        make_copy(copy, files);
        if (pass(&workspaces, copy) != files)
                die("not all files were brought out");
        for (size_t i = 0; i < times; i++) {
                double start = now_ms();

                visited = 0;
                if (nftw(copy_path, visit, 16, FTW_PHYS) != 0 || visited < files)
                        die("nftw did not see all files");
                floor_ms[i] = now_ms() - start;
                start = now_ms();
                if (pass(&workspaces, copy) != 0)
                        die("a file changed that did not");
                nothing[i] = now_ms() - start;
                snprintf(text, sizeof(text), "other text %zu\n", i);
                write_text(copy, "folder-0/file-0.txt", text);
                start = now_ms();
                if (pass(&workspaces, copy) != 1)
                        die("a change was not found");
                one[i] = now_ms() - start;
        }
        printf("{\"nothing\": %.3f, \"one\": %.3f, \"floor\": %.3f}\n", median(nothing, times),
               median(one, times), median(floor_ms, times));
        return 0;
}
