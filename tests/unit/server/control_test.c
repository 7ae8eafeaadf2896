/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket with friends, with others, and after a death of its process. */
#include "folder.h"

#include "base/json.h"
#include "server/control.h"

#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct control_daemon daemon_of_test = { "test", "start it" };

struct place {
        char folder[200];
        struct control *control;
        unsigned asked;
};

static json_t *answer(void *context, json_t *request) {
        struct place *place = context;
        const char *command = json_text(request, "command");

        place->asked++;
        if (command && strcmp(command, "big") == 0) {
                char *text = calloc(1, 3000001);
                json_t *json;

                memset(text, 'x', 3000000);
                json = json_pack("{s:s}", "text", text);
                free(text);
                return json;
        }
        return json_pack("{s:b, s:O}", "ok", 1, "echo", request);
}

/* Deeper than a socket's name could say. */
static int begin(void **state) {
        struct place *place = calloc(1, sizeof(*place));
        struct error err;

        assert_non_null(place);
        folder_make_temporary(place->folder);
        strcat(place->folder,
               "/a-folder-with-a-very-long-name-indeed-such-as-states-may-lie-in-when-tests-or-people-make-"
               "them-deep-enough-for-it");
        assert_int_equal(mkdir(place->folder, 0700), 0);
        if (control_listen(place->folder, &daemon_of_test, answer, place, &place->control, &err) < 0)
                fail_msg("%s", err.message);
        *state = place;
        return 0;
}

static int end(void **state) {
        struct place *place = *state;

        control_close(place->control);
        *strrchr(place->folder, '/') = '\0';
        folder_remove(place->folder);
        free(place);
        return 0;
}

static int connect_to(const struct place *place) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct timeval patience = { .tv_sec = 20 };
        int folder = open(place->folder, O_PATH | O_CLOEXEC),
            connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof(address.sun_path),
                 "/proc/self/fd/%d/"
                 "test.sock",
                 folder);
        assert_int_equal(connect(connection, (const struct sockaddr *)&address, sizeof(address)), 0);
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        close(folder);
        return connection;
}

static void asked_and_answered(void **state) {
        struct place *place = *state;
        struct stat status;
        char path[300];

        for (int i = 0; i < 50; i++) {
                json_t *got = NULL;
                struct error err;
                const char *by;

                if (control_ask(place->folder, &daemon_of_test,
                                json_pack("{s:s, s:i, s:s}", "command", "x", "n", i, "by", "a king"), &got,
                                &err) < 0)
                        fail_msg("%s", err.message);
                assert_true(json_is_true(json_object_get(got, "ok")));
                assert_int_equal(json_integer_or(json_object_get(got, "echo"), "n", -1), i);
                /* The kernel names the caller, whatever the caller says itself. */
                by = json_text(json_object_get(got, "echo"), "by");
                assert_non_null(by);
                assert_string_equal(by, getuid() == 0 ? "root" : getpwuid(getuid())->pw_name);
                json_decref(got);
        }
        snprintf(path, sizeof(path),
                 "%s/"
                 "test.sock",
                 place->folder);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0600);
}

static void a_long_answer(void **state) {
        struct place *place = *state;
        json_t *got = NULL;
        struct error err;

        assert_int_equal(
                control_ask(place->folder, &daemon_of_test, json_pack("{s:s}", "command", "big"), &got, &err),
                0);
        assert_int_equal(strlen(json_text(got, "text")), 3000000);
        json_decref(got);
}

/* Whatever is sent: a refusal or the end of the connection, and the next one is answered. */
static void hostile_requests(void **state) {
        static const char *const requests[] = { "\n",
                                                "nonsense\n",
                                                "[1, 2]\n",
                                                "\"text\"\n",
                                                "{\"a\": 1, \"a\": 2}\n",
                                                "{\"a\": \"\xFF\"}\n",
                                                "{\"command\"",
                                                "" };
        struct place *place = *state;

        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                int connection = connect_to(place);
                char got[4096];
                ssize_t length;

                assert_int_equal(send(connection, requests[i], strlen(requests[i]), MSG_NOSIGNAL),
                                 strlen(requests[i]));
                shutdown(connection, SHUT_WR);
                length = recv(connection, got, sizeof(got) - 1, 0);
                assert_true(length >= 0);
                got[length] = '\0';
                assert_true(length == 0 || strstr(got, "\"ok\":false"));
                close(connection);
        }
        assert_int_equal(place->asked, 0);
        asked_and_answered(state);
}

static void too_long_a_request(void **state) {
        struct place *place = *state;
        int connection = connect_to(place);
        char block[8192];
        size_t sent = 0;
        ssize_t count;

        memset(block, ' ', sizeof(block));
        while (sent < 4 * 1024 * 1024 && (count = send(connection, block, sizeof(block), MSG_NOSIGNAL)) > 0)
                sent += (size_t)count;
        /* It was not taken in whole. */
        assert_true(sent < 4 * 1024 * 1024);
        close(connection);
        asked_and_answered(state);
}

static void who_takes_no_answer_holds_nobody_up(void **state) {
        struct place *place = *state;
        static const char request[] = "{\"command\": \"big\"}\n";
        int connection = connect_to(place);

        assert_int_equal(send(connection, request, strlen(request), MSG_NOSIGNAL), strlen(request));
        close(connection);
        asked_and_answered(state);
}

static void a_second_one(void **state) {
        struct place *place = *state;
        struct control *second = NULL;
        struct error err = { 0 };
        char pid[32];

        assert_int_equal(control_listen(place->folder, &daemon_of_test, answer, place, &second, &err), -1);
        assert_int_equal(err.kind, ERROR_LOCKED);
        snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
        assert_non_null(strstr(err.message, pid));
        asked_and_answered(state);
}

static void nobody_there(void **state) {
        struct place *place = *state;
        char path[400];
        json_t *got = NULL;
        struct error err;

        control_close(place->control);
        place->control = NULL;
        snprintf(path, sizeof(path),
                 "%s/"
                 "test.sock",
                 place->folder);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(control_ask(place->folder, &daemon_of_test, json_object(), &got, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        snprintf(path, sizeof(path), "%s/none", place->folder);
        assert_int_equal(control_ask(path, &daemon_of_test, json_object(), &got, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

/*
 * The socket and the lock file of one that was killed are no obstacle; the pid that it recorded is
 * not believed.
 */
static void after_a_death(void **state) {
        struct place *place = *state;
        struct error err;
        json_t *got = NULL;
        pid_t child;
        int status;

        control_close(place->control);
        place->control = NULL;
        child = fork();
        if (child == 0) {
                struct control *control;

                if (control_listen(place->folder, &daemon_of_test, answer, place, &control, &err) < 0)
                        _exit(1);
                raise(SIGKILL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(control_ask(place->folder, &daemon_of_test, json_object(), &got, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_int_equal(control_listen(place->folder, &daemon_of_test, answer, place, &place->control, &err),
                         0);
        asked_and_answered(state);
}

static void *ask_often(void *argument) {
        const struct place *place = argument;
        struct error err;

        for (int i = 0; i < 100; i++) {
                json_t *got = NULL;

                if (control_ask(place->folder, &daemon_of_test, json_pack("{s:i}", "n", i), &got, &err) < 0)
                        return argument;
                json_decref(got);
        }
        return NULL;
}

static void many_at_once(void **state) {
        pthread_t threads[8];

        for (size_t i = 0; i < 8; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, ask_often, *state), 0);
        for (size_t i = 0; i < 8; i++) {
                void *failed;

                assert_int_equal(pthread_join(threads[i], &failed), 0);
                assert_null(failed);
        }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(asked_and_answered), TEST(a_long_answer), TEST(hostile_requests),
                TEST(too_long_a_request), TEST(a_second_one),  TEST(who_takes_no_answer_holds_nobody_up),
                TEST(nobody_there),       TEST(after_a_death), TEST(many_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
