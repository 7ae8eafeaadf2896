/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/kernel_word.h"

#include "base/json.h"
#include "runtime/protocol/request.h"

#include <string.h>

static const char *const type_names[] = {
        [WORD_READY] = "ready",      [WORD_BEGUN] = "begun",       [WORD_DISPLAY] = "display",
        [WORD_DONE] = "done",        [WORD_PREPARED] = "prepared", [WORD_TAKEN] = "taken",
        [WORD_RESTORED] = "restored"
};
static const char *const outcome_names[] = {
        [OUTCOME_OK] = "ok", [OUTCOME_ERROR] = "error", [OUTCOME_MEMORY] = "memory", [OUTCOME_EXITS] = "exits"
};
static int read_done(json_t *head, struct kernel_word *word, struct error *err) {
        json_t *value = NULL, *error = NULL;
        const char *type, *outcome;
        json_int_t n, code;
        json_error_t said;
        int index;

        if (json_unpack_ex(head, &said, 0, "{s:s, s:I, s:s, s:I, s:o, s:o !}", "type", &type, "n", &n,
                           "outcome", &outcome, "code", &code, "value", &value, "error", &error) != 0)
                return error_set(err, "%s", said.text);
        index = content_index(outcome_names, CONTENT_COUNT(outcome_names), outcome);
        if (index < 0)
                return error_set(err, "invalid outcome");
        if (code < 0 || code > 255)
                return error_set(err, "invalid exit code");
        word->code = (int)code;
        word->n = n;
        word->outcome = (enum kernel_word_outcome)index;
        if (content_value_read(value, &word->value, err) < 0 ||
            content_error_read(error, &word->error, err) < 0)
                return -1;
        if (word->outcome == OUTCOME_OK && word->error.name)
                return error_set(err, "success with an error");
        /* Both at their longest would not fit into the report: JSON may write a byte of them as six. */
        if (word->value.type && word->error.name)
                return error_set(err, "a value beside an error");
        return 0;
}

static int read_reason(const json_t *reason, struct kernel_word *word, struct error *err) {
        word->reason = json_string_value(reason);
        if (!json_is_null(reason) && (!word->reason || strlen(word->reason) > CONTENT_REASON_MAX))
                return error_set(err, "invalid reason");
        return 0;
}

static int read_restored(json_t *head, struct kernel_word *word, struct error *err) {
        json_t *restored = NULL, *lost = NULL, *reason = NULL;
        json_int_t restored_count, lost_count;
        const char *type;
        json_error_t said;

        if (json_unpack_ex(head, &said, 0, "{s:s, s:o, s:I, s:o, s:I, s:o !}", "type", &type, "restored",
                           &restored, "restoredCount", &restored_count, "lost", &lost, "lostCount",
                           &lost_count, "reason", &reason) != 0)
                return error_set(err, "%s", said.text);
        if (!content_is_names(restored) || !content_is_lost(lost) ||
            restored_count < (json_int_t)json_array_size(restored) ||
            lost_count < (json_int_t)json_array_size(lost))
                return error_set(err, "invalid names, or fewer than are counted");
        word->restored = restored;
        word->restored_count = restored_count;
        word->lost = lost;
        word->lost_count = lost_count;
        return read_reason(reason, word, err);
}

int kernel_word_read(const struct message *message, struct kernel_word *ret, struct error *err) {
        const char *type = json_text(message->head, "type");
        struct kernel_word word = { 0 };
        json_error_t said;
        json_int_t n = 0;
        json_t *missing = NULL, *parts = NULL, *reason = NULL;
        int index = content_index(type_names, CONTENT_COUNT(type_names), type), is_main = 0, is_late = 0,
            result = 0;

        if (index < 0)
                return error_set(err, "a word of no known type");
        word.type = (enum kernel_word_type)index;
        if (word.type != WORD_DISPLAY && message->body.length > 0)
                return error_set(err, "bytes where none belong");
        if (word.type == WORD_READY)
                result = json_unpack_ex(message->head, &said, 0, "{s:s, s:s !}", "type", &type, "python",
                                        &word.python);
        else if (word.type == WORD_BEGUN)
                result = json_unpack_ex(message->head, &said, 0, "{s:s, s:I !}", "type", &type, "n", &n);
        else if (word.type == WORD_DISPLAY)
                result = json_unpack_ex(message->head, &said, 0, "{s:s, s:I, s:b, s:o !}", "type", &type, "n",
                                        &n, "main", &is_main, "parts", &parts);
        else if (word.type == WORD_PREPARED)
                result = json_unpack_ex(message->head, &said, 0, "{s:s, s:o !}", "type", &type, "missing",
                                        &missing);
        else if (word.type == WORD_TAKEN)
                result = json_unpack_ex(message->head, &said, 0, "{s:s, s:o, s?b !}", "type", &type, "reason",
                                        &reason, "late", &is_late);
        if (result < 0)
                return error_set(err, "%s", said.text);
        word.n = n;
        word.is_main = is_main;
        word.is_late = is_late;
        word.missing = missing;
        if ((word.python && strlen(word.python) > 32) ||
            (missing && !content_is_pairs(missing, REQUEST_MODULES_MAX, "module", "reason", JSON_STRING)))
                return error_set(err, "invalid version or list of modules");
        if (word.type == WORD_DISPLAY && content_display_read(parts, &message->body, &word.display, err) < 0)
                return -1;
        if (word.type == WORD_DONE && read_done(message->head, &word, err) < 0)
                return -1;
        if (word.type == WORD_TAKEN && read_reason(reason, &word, err) < 0)
                return -1;
        if (word.type == WORD_RESTORED && read_restored(message->head, &word, err) < 0)
                return -1;
        *ret = word;
        return 0;
}
