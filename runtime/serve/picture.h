/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Displays that are images lie in the working folder as files, too, for code that works with files.
 */
#ifndef BERTH_RUNTIME_SERVE_PICTURE_H
#define BERTH_RUNTIME_SERVE_PICTURE_H

#include "runtime/protocol/content.h"

#define PICTURE_FOLDER ".berth/displays"

/*
 * Writes the display's first image below `folder` as PICTURE_FOLDER/N-NUMBER.SUFFIX and says where that is. false: there is no image,
 * or it cannot be written (a full disk, a link or a file in the way); then nothing is left of it. An earlier file of that name
 * is replaced.
 */
bool picture_write(int folder, int64_t n, int64_t number, const struct content_display *display, char *ret,
                   size_t size) MUST_USE;

#endif
