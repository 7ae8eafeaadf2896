/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of sandboxes, by what E2B's clients ask for: metadata, states, a template, when they began. */
#ifndef BERTH_BROKER_E2B_E2B_LIST_H
#define BERTH_BROKER_E2B_E2B_LIST_H

#include "server/server.h"

/* Answers a page, in the order of their starts; the header x-next-token asks for the next one. */
void e2b_list_answer(struct server_request *request);
/* The list of SDKs before 2.0: sandboxes that run, in one answer. */
void e2b_list_answer_running(struct server_request *request);

#endif
