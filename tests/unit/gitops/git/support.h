/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BERTH_TESTS_UNIT_GITOPS_GIT_SUPPORT_H
#define BERTH_TESTS_UNIT_GITOPS_GIT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
