/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints between the environment and the bucket. Their bytes go through a file without a name,
 * which the process that moves files has too: it has checked the digest before kernels get the
 * first piece, and has computed it of what it sent. This process does not read them.
 *
 * A checkpoint that cannot be fetched now may be fetched later: nothing runs over it. One that is
 * gone or is another is treated as missing, and the kernels are lost. Taking one comes last, when
 * files are safe, and has no more time than the answer can wait.
 */
#include "runtime/lambda/lambda_parts.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "runtime/protocol/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)64 << 10)
/* To restore at most: a quarter of what is left, and no more than this. Kernels that hang are ended a while later. */
#define RESTORE_MS 30000
#define RESTORE_LATE_MS 5000
/* Behind its own time a kernel that hangs over its checkpoint is killed, and the runtime says so. */
#define TAKE_LATE_MS 4000
/*
 * The part of the answer's time that is kept for the rest of it: to bring the checkpoint out, and
 * the result.
 */
#define BRING_MS 2000
#define REST_MS 2000

static bool names_contexts(const struct invocation *invocation) {
        return invocation->contexts && json_array_size(invocation->contexts) > 0;
}

/* --- to kernels --- */

void lambda_checkpoint_feed(struct lambda *lambda) {
        char bytes[PIECE_BYTES];
        struct request piece = { .type = REQUEST_PIECE, .piece = bytes };

        while (lambda->waiting == LAMBDA_RESTORED && lambda->pieces_left > 0 &&
               lambda->inner.sent == lambda->inner.unsent.length) {
                ssize_t count = read(lambda->transfer.body, bytes, sizeof(bytes));

                if (count <= 0) {
                        /* An incomplete checkpoint is not used at all, once its time is over. */
                        lambda->pieces_left = 0;
                        return;
                }
                piece.piece_length = (size_t)count;
                lambda->pieces_left -= count;
                lambda_inner_ask(&lambda->inner, &piece);
        }
}

/* Nothing was loaded where no context has anything of it. */
static const char *why_nothing(const struct report *report) {
        const json_t *item;
        const char *why = report->reason;
        size_t index;

        json_array_foreach (report->contexts, index, item) {
                const char *reason = json_text(item, "reason");

                if (!reason)
                        return NULL;
                why = why ? why : reason;
        }
        return why;
}

static void hear_restored(struct lambda *lambda, const struct report *report) {
        const char *why = why_nothing(report);

        (void)snprintf(lambda->said, sizeof(lambda->said), "%s", why ? why : "");
        lambda->waiting = LAMBDA_NOTHING;
}

static const char *why_kernels_are_gone(const struct lambda *lambda, enum invocation_was was) {
        switch (was) {
        case INVOCATION_NEW:
                return "Lambda runs the session in a new environment";
        case INVOCATION_RESET:
                return "Lambda has started the runtime again, as it does when a function has taken too long";
        case INVOCATION_STALE:
                return "the session's last execution ran in another environment of Lambda";
        case INVOCATION_CLEANED:
                return "its environment has served another session meanwhile";
        case INVOCATION_KEPT:
                break;
        }
        return lambda->lost[0] ? lambda->lost : "its runtime has ended";
}

/* 0: kernels have what there was, or `said` tells why not. */
static int give(struct lambda *lambda, const struct invocation *invocation, int64_t bytes, const char *why,
                int64_t max_ms, struct error *err) {
        const struct request request = { .type = REQUEST_RESTORE,
                                         .max_ms = max_ms,
                                         .bytes = bytes,
                                         .contexts = invocation->contexts,
                                         .reason = bytes > 0 ? NULL : why };
        int result;

        if (lambda_inner_start(&lambda->inner, err) < 0)
                return -1;
        lambda->said[0] = '\0';
        lambda->pieces_left = bytes;
        lambda_inner_ask(&lambda->inner, &request);
        result = lambda_code_wait(lambda, LAMBDA_RESTORED, clock_now_ms() + max_ms + RESTORE_LATE_MS);
        lambda->waiting = LAMBDA_NOTHING;
        lambda->pieces_left = 0;
        if (result > 0)
                lambda_code_lose(lambda, "its runtime did not start");
        return result == 0 ? 0 : error_set(err, "its kernels could not be made: %s", lambda->lost);
}

/* With nothing, and why. */
static int give_nothing(struct lambda *lambda, const struct invocation *invocation, enum invocation_was was,
                        const char *why, struct error *err) {
        struct error text;

        if (!names_contexts(invocation))
                return lambda_inner_start(&lambda->inner, err);
        (void)error_set(&text, "%s%s%s", why_kernels_are_gone(lambda, was), why ? "; " : "", why ? why : "");
        text.message[CONTENT_REASON_MAX] = '\0';
        return give(lambda, invocation, 0, text.message, RESTORE_LATE_MS, err);
}

int lambda_checkpoint_restore(struct lambda *lambda, const struct invocation *invocation,
                              const struct lambda_event *event, enum invocation_was was,
                              struct invocation_end *end, struct error *err) {
        int64_t start_ms = clock_now_ms(), left = lambda_time_left_ms(invocation, event), max_ms;
        struct error why;
        int result;

        end->restore = invocation->restore ? INVOCATION_UNNEEDED : INVOCATION_UNNAMED;
        if (lambda->inner.socket >= 0 && lambda->inner.used)
                return 0;
        if (!invocation->restore)
                return give_nothing(lambda, invocation, was, invocation->restore_lacks, err);
        result = lambda_transfer_fetch(&lambda->transfer, invocation->restore, start_ms + left / 2, &why);
        if (result < 0) {
                *err = why;
                return error_context(err, "the session's checkpoint could not be fetched");
        }
        end->restore = INVOCATION_LOADED;
        if (result == 0) {
                max_ms = lambda_until(RESTORE_MS, lambda_time_left_ms(invocation, event) / 4);
                /* A checkpoint whose loading ended the runtime would do so each time. */
                if (give(lambda, invocation,
                         json_integer_value(json_object_get(invocation->restore, "bytes")), NULL,
                         max_ms < 1 ? 1 : max_ms, &why) < 0)
                        result = 1;
                else if (lambda->said[0]) {
                        (void)error_set(&why, "%s", lambda->said);
                        end->restore = INVOCATION_UNUSABLE;
                }
        }
        if (result > 0) {
                end->restore = INVOCATION_UNUSABLE;
                (void)error_context(&why, "its checkpoint could not be restored");
                result = give_nothing(lambda, invocation, was, why.message, err);
        }
        if (end->restore == INVOCATION_UNUSABLE) {
                (void)snprintf(lambda->unusable, sizeof(lambda->unusable), "%.*s",
                               (int)sizeof(lambda->unusable) - 1, why.message);
                end->restore_reason = lambda->unusable;
        }
        end->restore_ms = clock_now_ms() - start_ms;
        return result < 0 ? -1 : 0;
}

/* --- from kernels --- */

/* No more than the limit, whichever process sends it. */
static bool hear_piece(struct lambda *lambda, const struct report *report) {
        if ((int64_t)report->length > lambda->pieces_left)
                return false;
        lambda->pieces_left -= (int64_t)report->length;
        if (!lambda->said[0] && descriptor_write(lambda->transfer.body, report->bytes, report->length) < 0)
                (void)snprintf(lambda->said, sizeof(lambda->said), "there is no memory for it: %s",
                               strerror(errno));
        return true;
}

bool lambda_checkpoint_hear(struct lambda *lambda, const struct report *report) {
        const char *why;

        if (report->type == REPORT_RESTORED) {
                if (lambda->waiting != LAMBDA_RESTORED)
                        return false;
                hear_restored(lambda, report);
                return true;
        }
        if (lambda->waiting != LAMBDA_CHECKPOINTED)
                return false;
        if (report->type == REPORT_PIECE)
                return hear_piece(lambda, report);
        why = why_nothing(report);
        if (!why && json_array_size(report->contexts) == 0)
                why = "there is no kernel of which it could be taken";
        if (why && !lambda->said[0])
                (void)snprintf(lambda->said, sizeof(lambda->said), "%s", why);
        json_decref(lambda->checkpoint);
        lambda->checkpoint = report->contexts ? json_checked(json_deep_copy(report->contexts)) : NULL;
        lambda->waiting = LAMBDA_NOTHING;
        return true;
}

/* Into the file that is brought out then. */
static int collect(struct lambda *lambda, const struct invocation *invocation,
                   const struct lambda_event *event, struct error *err) {
        int64_t left = lambda_time_left_ms(invocation, event) - BRING_MS - REST_MS - TAKE_LATE_MS;
        const struct request request = { .type = REQUEST_CHECKPOINT,
                                         .bytes = invocation->take_bytes,
                                         .max_ms = lambda_until(invocation->take_ms, left) };

        if (lambda->inner.socket < 0)
                return error_set(err, "%s", lambda->lost);
        if (request.max_ms < 1)
                return error_set(err, "there was no time left for it");
        if (lambda_transfer_body(&lambda->transfer, err) < 0)
                return -1;
        lambda->said[0] = '\0';
        lambda->pieces_left = invocation->take_bytes + CHECKPOINT_EXTRA_MAX;
        lambda_inner_ask(&lambda->inner, &request);
        if (lambda_code_wait(lambda, LAMBDA_CHECKPOINTED, clock_now_ms() + request.max_ms + TAKE_LATE_MS) > 0)
                lambda_code_lose(lambda, "it was killed: it did not take its checkpoint in time");
        lambda->waiting = LAMBDA_NOTHING;
        lambda->pieces_left = 0;
        if (lambda->inner.socket < 0)
                return error_set(err, "%s", lambda->lost);
        return lambda->said[0] ? error_set(err, "%s", lambda->said) : 0;
}

void lambda_checkpoint_take(struct lambda *lambda, const struct invocation *invocation,
                            const struct lambda_event *event, struct invocation_end *end, struct error *why) {
        int64_t start_ms = clock_now_ms();
        struct stat status;
        int result;

        if (invocation->take_bytes == 0 || invocation->request.type != REQUEST_EXECUTE ||
            invocation->request.language != REQUEST_PYTHON)
                return;
        json_decref(lambda->checkpoint);
        lambda->checkpoint = NULL;
        if (!invocation->transfer)
                result = error_set(why, "the event does not say where it goes");
        else {
                result = collect(lambda, invocation, event, why);
                end->checkpoint_contexts = lambda->checkpoint;
        }
        if (result == 0 &&
            (result = lambda_transfer_post(&lambda->transfer, invocation->transfer, "checkpoint",
                                           clock_now_ms() + lambda_time_left_ms(invocation, event) - REST_MS,
                                           lambda->sha256, why)) == 0) {
                end->checkpoint_bytes = fstat(lambda->transfer.body, &status) < 0 ? 0 : status.st_size;
                end->checkpoint_sha256 = lambda->sha256;
        }
        if (result < 0)
                end->checkpoint_reason = why->message;
        end->checkpoint_ms = clock_now_ms() - start_ms;
}
