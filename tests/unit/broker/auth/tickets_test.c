/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: good once, for a minute, for who asked; a caller that hoards them harms only itself. */
#include "broker/auth/tickets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct ticket ticket_of(const char *client, const char *owner, const char *path) {
        return (struct ticket){ { .client = client, .owner = owner, .rights = BROKER_EXECUTE }, "s-1", path };
}

static void good_once(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        struct tickets *tickets = tickets_new();
        char client[] = "one", owner[] = "client:one", path[] = "out/a.txt", text[TICKET_SIZE],
             other[TICKET_SIZE];
        struct ticket asked = ticket_of(client, owner, path), found;

        (void)state;
        assert_true(tickets_issue(tickets, &asked, 1000, text));
        assert_true(tickets_issue(tickets, &asked, 1000, other));
        assert_int_equal(strlen(text), TICKET_SIZE - 1);
        assert_string_not_equal(text, other);
        memset(client, 'x', strlen(client)); /* what was given may change */
        memset(owner, 'x', strlen(owner));
        memset(path, 'x', strlen(path));
        assert_false(tickets_redeem(tickets, "", 1000, arena, &found));
        assert_true(tickets_redeem(tickets, text, 1000 + TICKET_MS - 1, arena, &found));
        assert_string_equal(found.caller.client, "one");
        assert_string_equal(found.caller.owner, "client:one");
        assert_string_equal(found.workspace, "s-1");
        assert_string_equal(found.path, "out/a.txt");
        assert_int_equal(found.caller.rights, BROKER_EXECUTE);
        assert_false(tickets_redeem(tickets, text, 1000, arena, &found));
        assert_false(tickets_redeem(tickets, other, 1000 + TICKET_MS, arena, &found));
        tickets_free(tickets);
}

static void hoarding(void **state) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        static char texts[TICKETS_MAX + 1][TICKET_SIZE];
        struct tickets *tickets = tickets_new();
        struct ticket asked = ticket_of("one", "r/alice", NULL), found;
        char text[TICKET_SIZE];

        (void)state;
        for (size_t i = 0; i <= TICKETS_PER_CALLER; i++)
                assert_true(tickets_issue(tickets, &asked, 0, texts[i]));
        assert_false(tickets_redeem(tickets, texts[0], 0, arena, &found));
        assert_true(tickets_redeem(tickets, texts[1], 0, arena, &found));
        assert_null(found.path);
        /* Until many callers have taken all places: then none loses its ticket. */
        for (size_t i = TICKETS_PER_CALLER - 1; i < TICKETS_MAX; i++) {
                char owner[32];

                snprintf(owner, sizeof(owner), "r/%zu", i);
                asked = ticket_of("one", owner, NULL);
                assert_true(tickets_issue(tickets, &asked, 0, text));
        }
        asked = ticket_of("one", "r/late", NULL);
        assert_false(tickets_issue(tickets, &asked, 0, text));
        assert_true(tickets_redeem(tickets, texts[2], 0, arena, &found));
        assert_true(tickets_issue(tickets, &asked, 0, text));
        assert_false(tickets_issue(tickets, &asked, 0, text));
        assert_true(tickets_issue(tickets, &asked, TICKET_MS, text));
        tickets_free(tickets);
        tickets_free(NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(good_once), cmocka_unit_test(hoarding) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
