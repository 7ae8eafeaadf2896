/* SPDX-License-Identifier: Apache-2.0 */
/* Where berth-runtime lies on this machine. */
#ifndef BERTH_PROVIDERS_RUNTIME_FILE_H
#define BERTH_PROVIDERS_RUNTIME_FILE_H

#include "base/arena.h"

/*
 * As it is installed, PREFIX/libexec/berth beside PREFIX/bin; in a build folder beside the program.
 * Its opener sees whether it is there.
 */
const char *runtime_file_find(struct arena *arena);

#endif
