/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile answers of Lambda, ECR, CloudWatch Logs and the tagging API JSON. The first part of the input is drive.h's options, the others are answers as in cloud.h. */
#include "cloud.h"
#include "drive.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const enum kind_id kinds_here[] = { KIND_IMAGE, KIND_ENVIRONMENT };
        struct parts parts = parts_of(data, size);
        char *options = parts_next_text(&parts);

        cloud_load(&parts);
        drive(kinds_here, sizeof(kinds_here) / sizeof(kinds_here[0]), options);
        cloud_forget();
        free(options);
        return 0;
}
