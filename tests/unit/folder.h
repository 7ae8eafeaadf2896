/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder for one test, and files in it. */
#ifndef BERTH_TESTS_UNIT_FOLDER_H
#define BERTH_TESTS_UNIT_FOLDER_H

#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER_TEMPLATE "/tmp/berth-test-XXXXXX"

/* `path` takes sizeof(FOLDER_TEMPLATE) bytes. */
static inline void folder_make_temporary(char *path) {
        strcpy(path, FOLDER_TEMPLATE);
        assert_non_null(mkdtemp(path));
}

/* With all that is in it, however deep; a missing folder is fine. */
static inline void folder_remove(const char *path) {
        pid_t child = fork();
        int status = -1;

        if (child == 0) {
                execlp("rm", "rm", "-rf", "--", path, (char *)NULL);
                _exit(127);
        }
        assert_true(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static inline void folder_write(const char *folder, const char *name, const char *text) {
        char *path TEXT_CLEANUP = path_join(folder, name);
        struct error err;

        if (file_write_atomic(path, text, strlen(text), 0600, &err) < 0)
                fail_msg("%s", err.message);
}

#endif
