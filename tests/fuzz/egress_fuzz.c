/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts between a sandbox and the network read from both: a proxy's client (the head of a
 * request; what it says in a tunnel, in pieces, with a server's answer in between), and, of a proxy
 * that was taken over, what it tells. The first byte says which, the second how large pieces are.
 */
#include "egress/asked.h"
#include "egress/tally.h"
#include "egress/tunnel.h"
#include "parts.h"
#include "server/head.h"

#include <stdlib.h>
#include <string.h>

/* What goes on must be a head itself, of one line for the host, and read as what it was meant to be. */
static void read_head(const char *bytes, size_t length) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct strbuf onward STRBUF_CLEANUP = STRBUF_INIT;
        struct asked asked;
        struct head again;
        const char *why = NULL;
        size_t seen = 0;
        ssize_t end = head_end(bytes, length, &seen);
        unsigned status;

        if (end <= 0)
                return;
        status = asked_read(arena_strndup(arena, bytes, (size_t)end), arena, &asked, &onward, &why);
        if ((status != 0) != (why != NULL))
                abort();
        if (status != 0)
                return;
        if (!allow_is_host(asked.host) || asked.port == 0 || asked.tunnel != (onward.length == 0))
                abort();
        seen = 0;
        if (!asked.tunnel &&
            (head_end(onward.data, onward.length, &seen) != (ssize_t)onward.length ||
             head_parse(arena_strdup(arena, strbuf_text(&onward)), arena, &again, &why) != 0 ||
             !head_field(&again, "Host") ||
             strncmp(head_field(&again, "Host"), asked.host, strlen(asked.host)) != 0 ||
             head_has_field(&again, "Transfer-Encoding") || again.target[0] != '/'))
                abort();
}

/* Bytes let through before the tunnel is open begin with a ClientHello, whatever the pieces. */
static void read_tunnel(const char *bytes, size_t length, size_t piece) {
        struct error err;
        struct tunnel tunnel;
        const char *why = NULL;
        size_t passed = 0, clear, answer = length / 4 < 60 ? length / 4 : 60, come = 0;

        if (hello_load(&err) < 0)
                abort();
        tunnel_begin(&tunnel, "a.example.org");
        while (come < length - answer) {
                come = come + piece < length - answer ? come + piece : length - answer;
                if (come - passed > TUNNEL_ROOM ||
                    tunnel_let_through(&tunnel, bytes + passed, come - passed, &clear, &why) < 0)
                        break;
                if (clear > come - passed || (clear > 0 && tunnel.phase == TUNNEL_FIRST))
                        abort();
                passed += clear;
                if (passed > 0 && bytes[0] != 22)
                        abort();
                if (tunnel.phase == TUNNEL_BETWEEN && clear == 0)
                        tunnel_hear_server(&tunnel, bytes + length - answer, answer);
        }
        tunnel_end(&tunnel);
}

static void read_tally(const char *bytes, size_t length) {
        static struct tally tally;
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT, line STRBUF_CLEANUP = STRBUF_INIT;
        struct error err;

        if (tally_read(bytes, length, &tally, &err) < 0)
                return;
        tally_write(&tally, &text);
        if (tally_read(text.data, text.length, &tally, &err) < 0)
                abort();
        for (size_t i = 0; i < tally.count; i++)
                tally_describe(&tally.lines[i], &line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size < 2)
                return 0;
        switch (data[0] % 3) {
        case 0:
                read_head((const char *)data + 2, size - 2);
                break;
        case 1:
                read_tunnel((const char *)data + 2, size - 2, (size_t)data[1] + 1);
                break;
        default:
                read_tally((const char *)data + 2, size - 2);
                break;
        }
        return 0;
}
