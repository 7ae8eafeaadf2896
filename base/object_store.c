/* SPDX-License-Identifier: Apache-2.0 */
#include "base/object_store.h"

/* A state's objects hold its secret key. */
void object_answer_release(struct object_answer *answer) {
        strbuf_release(&answer->body);
        *answer = (struct object_answer)OBJECT_ANSWER_INIT;
}
