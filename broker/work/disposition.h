/* SPDX-License-Identifier: Apache-2.0 */
/* Content-Disposition of what is downloaded (RFC 6266): the name as it is, and one that every program can read. Pure. */
#ifndef BERTH_BROKER_WORK_DISPOSITION_H
#define BERTH_BROKER_WORK_DISPOSITION_H

#include "base/strbuf.h"

/* Appends `attachment; filename="..."; filename*=UTF-8''...`. Names are UTF-8 and may hold anything else. */
void disposition_write(const char *name, struct strbuf *ret);

#endif
