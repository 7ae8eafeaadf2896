/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/request/base64.h"

#include "base/digest.h"

#define PIECE ((size_t)64 << 10) /* of the text: a multiple of four */

int base64_write(const char *text, size_t length,
                 int (*write)(void *context, const void *bytes, size_t length, struct problem *problem),
                 void *context, struct problem *problem) {
        uint8_t bytes[PIECE / 4 * 3];

        for (size_t at = 0; at < length; at += PIECE) {
                size_t piece = length - at < PIECE ? length - at : PIECE;
                ssize_t count = digest_from_base64(text + at, piece, bytes);

                /* Padding stands at the end of all. */
                if (count < 0 || (at + piece < length && count != (ssize_t)sizeof(bytes)))
                        return problem_set(problem, PROBLEM_INVALID,
                                           "contentBase64 must be base64 with padding");
                if (write(context, bytes, (size_t)count, problem) < 0)
                        return -1;
        }
        return 0;
}
