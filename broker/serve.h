/* SPDX-License-Identifier: Apache-2.0 */
/* The life of `berth serve`: from its lock to the signal that ends it. */
#ifndef BERTH_BROKER_SERVE_H
#define BERTH_BROKER_SERVE_H

#include "broker/auth/config.h"
#include "broker/service/sessions.h"

/*
 * Serves the stack whose state lies in `folder`, which is made where it is absent, until a signal
 * asks it to end (base/interrupt.h: the caller installs the handlers). ERROR_LOCKED where another
 * one serves it. In the folder: serve.sock (mode 0600), on which a caller acts as its own user;
 * serve.lock; and serve.token, where the configuration has no file.
 */
int serve_run(const struct broker_config *config, const char *folder, const struct broker_places *places,
              struct error *err) MUST_USE;

#endif
