/* SPDX-License-Identifier: Apache-2.0 */
/* Code that clients send: put in a session's line, waited for, told; and sessions that are made for one execution. */
#ifndef BERTH_BROKER_WORK_EXECUTE_H
#define BERTH_BROKER_WORK_EXECUTE_H

#include "server/server.h"

struct engine_follower;

/* In the session of the path. */
void execute_begin(struct server_request *request);
/* In one of its own, which ends with it. */
void execute_begin_alone(struct server_request *request);
void execute_take(struct server_request *request, const void *bytes, size_t length);
void execute_answer(struct server_request *request);
void execute_end(struct server_request *request);

/* Until what is followed has ended: SERVER_READY; or SERVER_LEFT, SERVER_STOPS. */
enum server_wait execute_await(struct server_request *request, struct engine_follower *follower);
/*
 * Until a session that is being parked is so, or not after all; false if the client has left, or
 * was answered.
 */
bool execute_await_parked(struct server_request *request, const char *id) MUST_USE;

#endif
