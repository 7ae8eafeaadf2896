/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to one invocation, within its bounds: streamed as it comes, or kept and given in the end. Beside it two copies: the result, which
 * goes to the bucket for whom the answer does not reach, and what is kept of the last execution, for who asks for it twice.
 *
 *     lambda_answer_begin -> forward, report, file ... -> lambda_answer_end
 *
 * What has to be in an answer has room in it whatever was printed before: its last report, its end, and what became of some files.
 */
#ifndef BERTH_RUNTIME_LAMBDA_LAMBDA_ANSWER_H
#define BERTH_RUNTIME_LAMBDA_LAMBDA_ANSWER_H

#include "runtime/lambda/lambda_api.h"
#include "runtime/protocol/invocation.h"

/* What one of the copies may still take, and what was left out of it. */
struct lambda_answer_room {
        int64_t shown; /* of output and displays: bytes */
        int64_t cut;   /* bytes of those that were left out */
        size_t files;  /* of messages about files */
        int64_t files_left_out;
};

struct lambda_answer {
        bool buffered;
        struct lambda_stream stream;
        struct strbuf whole; /* of one that is buffered */
        size_t left;         /* and as many bytes as Lambda takes of it still */
        struct lambda_answer_room room;
        struct strbuf record; /* the result */
        struct lambda_answer_room record_room;
        bool records;
        int64_t printed[2]; /* bytes of standard output and error, said or not */
        int64_t n;          /* of the execution that prints */
        /* Behind the first INVOCATION_HEAD_BYTES of a stream: the last of it, held back until its end; and how much there was. */
        struct strbuf tails[2];
        int64_t behind[2];
        int64_t skipped, skipped_left_out;
        size_t skipped_room;
        struct strbuf kept; /* of the last execution's answer */
        int64_t kept_cut;
        bool kept_whole; /* it has its end */
};
#define LAMBDA_ANSWER_NONE \
        { .stream = LAMBDA_STREAM_NONE }
void lambda_answer_release(struct lambda_answer *answer);

int lambda_answer_begin(struct lambda_answer *answer, struct lambda_api *api,
                        const struct lambda_event *event, const struct invocation *invocation,
                        struct error *err) MUST_USE;
void lambda_answer_report(struct lambda_answer *answer, const struct report *report);
/*
 * What the runtime in the environment said; of an execution it is kept too. A display behind a gap
 * is left out.
 */
void lambda_answer_forward(struct lambda_answer *answer, const struct message *message,
                           const struct report *report, bool is_execution);
void lambda_answer_file(struct lambda_answer *answer, const struct invocation_file *file);

/* From now on what is said is that execution's, and is kept. */
void lambda_answer_keep_anew(struct lambda_answer *answer);
/* Says what was kept; false where it is not whole. */
bool lambda_answer_say_again(struct lambda_answer *answer);
/* Nothing is kept any more. */
void lambda_answer_forget(struct lambda_answer *answer);

/* The result, as it is to lie in the bucket, with its own end. Borrowed until the next answer; nothing more is added to it. */
const struct strbuf *lambda_answer_result(struct lambda_answer *answer, const struct invocation_end *end);
/* Says the end, with what was left out. -1: the API cannot be reached. */
int lambda_answer_end(struct lambda_answer *answer, struct lambda_api *api, const struct lambda_event *event,
                      const struct invocation_end *end, struct error *err) MUST_USE;

#endif
