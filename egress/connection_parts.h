/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a connection share. */
#ifndef BERTH_EGRESS_CONNECTION_PARTS_H
#define BERTH_EGRESS_CONNECTION_PARTS_H

#include "base/strbuf.h"
#include "egress/asked.h"
#include "egress/connection.h"
#include "egress/room.h"
#include "egress/tunnel.h"

#define HEAD_BYTES_MAX (16 * 1024)
#define HELLO_MS 15000
#define IDLE_MS 300000

enum state { HEAD, RESOLVING, CONNECTING, FLOWING, PARTING };

struct connection {
        struct connection_shared *shared;
        enum state state;
        int client, server;
        short client_events, server_events; /* what came of the last poll */
        int64_t until_ms;
        size_t head_seen;
        struct asked asked;
        struct strbuf onward; /* the head of a plain request: goes before all else */
        unsigned long long body_left;
        struct room up, down;
        size_t clear; /* of `up`, what may go out */
        struct tunnel tunnel;
        bool answers; /* a plain request's answer has begun: its head was read, and goes on with all that follows */
        size_t answer_seen;
        bool client_ended, server_ended; /* nothing more comes from there */
        bool client_told, server_told;   /* nothing more goes there, and it knows */
        struct resolve_question *question;
        struct resolve_answer answer;
        size_t tried;
        uint64_t sent, received;
        char outcome[TALLY_OUTCOME_MAX];
};

extern const char connection_second_request[];

/* --- connection.c --- */

/* How it ends, for the log: the first that is said. */
void connection_note(struct connection *connection, const char *outcome);
void connection_part(struct connection *connection);
/* Answers with a status, and parts. What clients show of a tunnel that was refused is the first line: it says why. */
void connection_refuse(struct connection *connection, unsigned status, const char *why);
/* The same in a tunnel, whose client already speaks TLS: a fatal alert, unrecognized_name. */
void connection_refuse_hello(struct connection *connection, const char *why);
/* All that may go through. */
bool connection_has_used_up(const struct connection_shared *shared);

/* --- connection_flow.c --- */

/* False: it is over. */
bool connection_flow(struct connection *connection);
/* -1: the client has left. */
int connection_tell_client(struct connection *connection);
bool connection_hears_server(const struct connection *connection);
bool connection_awaits_answer(const struct connection *connection);
size_t connection_room_for_answer(const struct connection *connection);

#endif
