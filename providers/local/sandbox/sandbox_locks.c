/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_locks.h"

#include <string.h>

/*
 * For every 4 KB that are read the kernel walks its list from the beginning: 4,000 lines take 6 ms of CPU, 100,000 take five
 * seconds. The run's own are at most `most`; what the rest of the machine shows here may not cost more than this.
 */
#define LINES_FOR_EACH 4

/*
 * "7: POSIX  ADVISORY  WRITE 12 00:2a:5 0 EOF", and below it "7: -> POSIX ..." for each process that waits. The fourth word is the
 * owner's process id; -1 where it has none.
 */
static int has_owner(const char *line) {
        const char *waits = strstr(line, "->"), *words = waits ? waits + 2 : strchr(line, ':');
        long owner;

        return words && sscanf(words + !waits, "%*s %*s %*s %ld", &owner) == 1 && owner > 0;
}

unsigned sandbox_locks_count(FILE *locks, unsigned most) {
        unsigned count = 0;
        char line[256];

        rewind(locks);
        for (unsigned lines = 0; count <= most && lines < LINES_FOR_EACH * most; lines++) {
                if (!fgets(line, sizeof(line), locks))
                        break;
                count += has_owner(line) ? 1 : 0;
        }
        return count;
}
