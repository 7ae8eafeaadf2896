/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening folders that no other user may have put there. A path says little: a user who may write
 * in one of its folders, or owns it, can replace the tree below.
 */
#ifndef BERTH_BASE_GUARDED_H
#define BERTH_BASE_GUARDED_H

#include "base/error.h"

/*
 * The folder, opened step by step from the root: none is a link, each is root's or this user's, and
 * no other user may write in it, by its mode or its access control list, unless such users can
 * rename and remove there only what is their own (the sticky bit; not in the last one). Nor does
 * one hand such a right on to what is made in it (a default list). Else ERROR_REFUSED, which names
 * the folder at fault. ERROR_NOT_FOUND if it does not exist.
 */
int guarded_folder_open(const char *path, int *ret, struct error *err) MUST_USE;
/* The same; those that are missing are made, this user's alone, in what has been looked at before. */
int guarded_folder_make(const char *path, int *ret, struct error *err) MUST_USE;

#endif
