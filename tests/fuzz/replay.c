/* SPDX-License-Identifier: Apache-2.0 */
/* The corpus as a plain test: every file below the folders named is given to the fuzzer's function once. */
#include "base/files.h"
#include "parts.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t replayed;

static int replay_file(const char *path) {
        struct strbuf bytes STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;
        uint8_t *exact;

        if (file_read(path, 64U << 20, &bytes, &err) < 0) {
                fprintf(stderr, "%s\n", err.message);
                return -1;
        }
        exact = malloc(bytes.length ? bytes.length : 1);
        if (!exact)
                return -1;
        memcpy(exact, strbuf_text(&bytes), bytes.length);
        /* The name first: where this one ends the process, the last line says which it was. */
        printf("%s\n", path);
        fflush(stdout);
        LLVMFuzzerTestOneInput(exact, bytes.length);
        free(exact);
        replayed++;
        return 0;
}

static int replay(const char *folder) {
        DIR *listing = opendir(folder);
        struct dirent *entry;
        int result = 0;

        if (!listing)
                return replay_file(folder);
        while (result == 0 && (entry = readdir(listing))) {
                char *path TEXT_CLEANUP = path_join(folder, entry->d_name);

                if (entry->d_name[0] != '.')
                        result = replay_file(path);
        }
        closedir(listing);
        return result;
}

int main(int argc, char **argv) {
        for (int i = 1; i < argc; i++) {
                if (replay(argv[i]) < 0)
                        return 1;
        }
        if (replayed == 0) {
                fprintf(stderr, "no seeds\n");
                return 1;
        }
        return 0;
}
