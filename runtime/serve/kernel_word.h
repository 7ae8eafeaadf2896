/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel says to the runtime that started it. User code runs in the kernel's own process and can say all of it as well:
 * hostile. README.md has the messages in words.
 */
#ifndef BERTH_RUNTIME_SERVE_KERNEL_WORD_H
#define BERTH_RUNTIME_SERVE_KERNEL_WORD_H

#include "runtime/protocol/content.h"

enum kernel_word_type {
        WORD_READY,
        WORD_BEGUN,
        WORD_DISPLAY,
        WORD_DONE,
        WORD_PREPARED,
        WORD_TAKEN,
        WORD_RESTORED
};
/* How the code ended. EXITS: by SystemExit, with a code. */
enum kernel_word_outcome { OUTCOME_OK, OUTCOME_ERROR, OUTCOME_MEMORY, OUTCOME_EXITS };

/* Everything is borrowed from the message. */
struct kernel_word {
        enum kernel_word_type type;
        const char *python; /* ready: "3.11.2" */
        int64_t n;          /* begun, display, done */
        bool is_main;       /* display */
        struct content_display display;
        enum kernel_word_outcome outcome; /* done */
        int code;                         /* done: 0 to 255; of EXITS */
        struct content_value value;
        struct content_error error;
        const json_t *missing; /* prepared: [{module, reason}] */
        const char *reason;    /* taken, restored: why there is nothing; or NULL */
        bool is_late;          /* taken: there is nothing since there was not time enough */
        /* restored: [name], [{name, type, why}], and how many there are with those that are not listed */
        const json_t *restored, *lost;
        int64_t restored_count, lost_count;
};
int kernel_word_read(const struct message *message, struct kernel_word *ret, struct error *err) MUST_USE;

#endif
