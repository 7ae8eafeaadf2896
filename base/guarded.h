/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening what nobody else may have put there. A path says little: whoever may write in one of its folders, or owns it, can put another
 * tree in the place of what is below.
 */
#ifndef BERTH_BASE_GUARDED_H
#define BERTH_BASE_GUARDED_H

#include "base/error.h"

/*
 * The folder, opened step by step from the root: none is a link, and each is root's or this user's, with nobody else who may write in
 * it, by its mode or its access control list, unless he can rename and remove there only what is his own (the sticky bit; not in the
 * last one). Nor does one hand such a right on to what is made in it (a default list). Else ERROR_REFUSED, which names the folder at
 * fault. ERROR_NOT_FOUND where there is none.
 */
int guarded_folder_open(const char *path, int *ret, struct error *err) MUST_USE;
/* The same; those that are missing are made, this user's alone, in what has been looked at before. */
int guarded_folder_make(const char *path, int *ret, struct error *err) MUST_USE;

#endif
