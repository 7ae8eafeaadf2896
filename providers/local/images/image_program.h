/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an image has a program: found by PATH as the sandbox finds it, through links that stay in the image. */
#ifndef BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_PROGRAM_H
#define BERTH_PROVIDERS_LOCAL_IMAGES_IMAGE_PROGRAM_H

#include <stdbool.h>

/* `root` is the image's root folder, `path` a list of absolute folders with colons between, `name` a program's file name. */
bool image_program_exists(const char *root, const char *path, const char *name);

#endif
