/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Approvals in memory: while a log is read that is longer than what is kept, and while no log can
 * be written.
 */
#include "approvals/approvals.h"

#include "approvals/shell_worker.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/strbuf.h"

#include "folder.h"

#include <fcntl.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FILE_ENTRIES 10000

struct fixture {
        char state[64], audit[80];
        char user[64];
        struct strbuf told; /* statuses, in their order */
};

/* --- what jansson has of memory: how many pieces, and how many there were at most --- */

static atomic_long pieces, most_pieces;

static void *count_piece(size_t size) {
        long now = atomic_fetch_add(&pieces, 1) + 1, most = atomic_load(&most_pieces);

        while (now > most && !atomic_compare_exchange_weak(&most_pieces, &most, now))
                ;
        return malloc(size);
}

static void count_no_more(void *piece) {
        if (piece)
                atomic_fetch_sub(&pieces, 1);
        free(piece);
}

static int set_up(void **state) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));
        const struct passwd *user = getpwuid(geteuid());

        if (!fixture || !user)
                return -1;
        snprintf(fixture->user, sizeof(fixture->user), "%s", user->pw_name);
        snprintf(fixture->state, sizeof(fixture->state), "/tmp/berth-approvals-XXXXXX");
        if (!mkdtemp(fixture->state))
                return -1;
        snprintf(fixture->audit, sizeof(fixture->audit), "%s/" APPROVALS_FOLDER, fixture->state);
        *state = fixture;
        return mkdir(fixture->audit, 0700);
}

static int tear_down(void **state) {
        struct fixture *fixture = *state;

        folder_remove(fixture->state);
        strbuf_release(&fixture->told);
        free(fixture);
        return 0;
}

static void tell(void *context, const struct approvals_news *news) {
        strbuf_printf(context, "%s ", news->status);
}

static struct approvals *open_approvals(struct fixture *fixture, int64_t expiry_seconds) {
        const struct approvals_config config = { .state = fixture->state,
                                                 .user = fixture->user,
                                                 .expiry_seconds = expiry_seconds,
                                                 .tell = tell,
                                                 .context = &fixture->told };
        struct approvals *approvals = NULL;
        struct error err = { 0 };

        if (approvals_open(&config, &approvals, &err) < 0)
                fail_msg("%s", err.message);
        return approvals;
}

/* --- a log --- */

struct writing {
        const struct fixture *fixture;
        FILE *file;
        int64_t n;
        char at[32], previous[SHA256_HEX_SIZE];
};

static void write_line(struct writing *writing, json_t *entry) {
        char path[128], hash[SHA256_HEX_SIZE], *text;

        if (writing->n % FILE_ENTRIES == 0) {
                assert_true(!writing->file || fclose(writing->file) == 0);
                snprintf(path, sizeof(path), "%s/%012lld.log", writing->fixture->audit,
                         (long long)writing->n + 1);
                writing->file = fopen(path, "w");
                assert_non_null(writing->file);
        }
        json_put(entry, "n", json_integer(++writing->n));
        json_put(entry, "at", json_string(writing->at));
        json_put(entry, "previous", json_string(writing->previous));
        text = json_compact(json_checked(entry));
        digest_sha256_hex(text, strlen(text), hash);
        assert_true(fprintf(writing->file, "%s %s\n", hash, text) > 0);
        memcpy(writing->previous, hash, sizeof(hash));
        free(text);
        json_decref(entry);
}

/* So many were asked for and denied, all of them just now. */
static void write_log(const struct fixture *fixture, int count) {
        struct writing writing = { .fixture = fixture };
        char path[128], text[128], expires[32];
        struct error err;
        int length;

        memset(writing.previous, '0', sizeof(writing.previous) - 1);
        clock_format(clock_system.wall_ms(&clock_system), writing.at, sizeof(writing.at));
        clock_format(clock_system.wall_ms(&clock_system) + 3600000, expires, sizeof(expires));
        for (int i = 0; i < count; i++) {
                char id[APPROVALS_ID_SIZE] = "a-aaaaaaaaaaaaaaaaaaaaaaaaaa";

                for (int letter = 0, rest = i; letter < 5; letter++, rest /= 26)
                        id[2 + letter] = (char)('a' + rest % 26);
                write_line(&writing,
                           json_pack("{s:s, s:s, s:s, s:s, s:s, s:[s], s:s, s:s, s:s}", "event", "asked",
                                     "id", id, "agent", "analyst", "client", "c", "owner", "alice", "command",
                                     "true", "cwd", "/", "user", "u", "expiresAt", expires));
                write_line(&writing,
                           json_pack("{s:s, s:s, s:s}", "event", "denied", "id", id, "client", "d"));
        }
        assert_int_equal(fclose(writing.file), 0);
        snprintf(path, sizeof(path), "%s/head", fixture->audit);
        length = snprintf(text, sizeof(text), "%lld %s\n", (long long)writing.n, writing.previous);
        assert_int_equal(file_write_atomic(path, text, (size_t)length, 0600, &err), 0);
}

static size_t count_listed(struct approvals *approvals) {
        const struct approvals_caller caller = { .client = "d", .sees_all = true };
        struct approvals_filter filter = { .limit = APPROVALS_LIST_MAX };
        json_t *list = NULL;
        struct problem problem;
        size_t count = 0;

        do {
                json_t *page = NULL;

                assert_int_equal(approvals_list(approvals, &caller, &filter, &page, &problem), 0);
                json_decref(list);
                list = page;
                count += json_array_size(json_object_get(list, "items"));
                filter.cursor = json_text(list, "cursor");
        } while (filter.cursor);
        json_decref(list);
        return count;
}

/* Agents choose how much is asked for in a week: what is known of it at once, while it is read too, has a bound. */
static void test_a_log_longer_than_what_is_kept(void **state) {
        struct fixture *fixture = *state;
        struct approvals *approvals;
        long before, kept;

        write_log(fixture, 3 * APPROVALS_KEPT_MAX);
        before = atomic_load(&pieces);
        atomic_store(&most_pieces, before);
        approvals = open_approvals(fixture, 3600);
        kept = atomic_load(&pieces) - before;
        assert_int_equal(count_listed(approvals), APPROVALS_KEPT_MAX);
        /* Twice as much at most, and a little for what is read just then. */
        assert_in_range(atomic_load(&most_pieces) - before, kept, kept * 9 / 4);
        approvals_close(approvals);
}

/* --- none can be written --- */

static int show(struct approvals *approvals, const char *id, const char **ret_status, json_t **ret) {
        const struct approvals_caller caller = { .client = "d", .sees_all = true };
        struct problem problem;
        int result = approvals_show(approvals, &caller, id, ret, &problem);

        *ret_status = result == 0 ? json_text(*ret, "status") : "";
        return result;
}

/* An approval expires when its time is over, also where that cannot be written down. Its client and the followers of events are told. */
static void test_expired_while_nothing_can_be_written(void **state) {
        struct fixture *fixture = *state;
        const struct approvals_caller caller = { .client = "c", .owner = "alice" };
        json_t *command = json_pack("[s]", "true"), *asked = NULL, *shown = NULL;
        const struct approvals_wish wish = {
                .agent = "analyst", .command = command, .cwd = "/", .timeout_seconds = 1
        };
        struct approvals *approvals = open_approvals(fixture, 0);
        struct problem problem;
        char head[128], kept[128];
        const char *status, *id;

        snprintf(head, sizeof(head), "%s/head", fixture->audit);
        snprintf(kept, sizeof(kept), "%s/kept", fixture->audit);
        if (approvals_ask(approvals, &caller, &wish, &asked, &problem) < 0)
                fail_msg("%s", problem.detail);
        id = json_text(asked, "id");
        /* Nothing can be put in a folder's place. */
        assert_int_equal(rename(head, kept), 0);
        assert_int_equal(mkdir(head, 0700), 0);
        approvals_look(approvals);
        approvals_look(approvals);
        assert_int_equal(show(approvals, id, &status, &shown), 0);
        assert_string_equal(status, "expired");
        assert_string_equal(strbuf_text(&fixture->told), "pending expired ");
        json_decref(shown);
        assert_int_equal(rmdir(head), 0);
        assert_int_equal(rename(kept, head), 0);
        approvals_close(approvals);
        approvals = open_approvals(fixture, 0);
        assert_int_equal(show(approvals, id, &status, &shown), 0);
        assert_string_equal(status, "expired");
        json_decref(shown);
        approvals_close(approvals);
        json_decref(asked);
        json_decref(command);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_a_log_longer_than_what_is_kept, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_expired_while_nothing_can_be_written, set_up, tear_down),
        };

        /* The program that looks for what is asked for is this one, as the server's is the server's. */
        if (argc > 1 && strcmp(argv[1], SHELL_WORKER_VERB) == 0)
                return shell_worker_main();
        json_set_alloc_funcs(count_piece, count_no_more);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
