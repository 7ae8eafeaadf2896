/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over a pair of sockets; and invalid messages that a peer may send. */
#include "process/frame.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
        int ends[2];
        struct frame_reader reader; /* of the second */
};

static void end_pair(struct pair *pair) {
        frame_reader_release(&pair->reader);
        close_descriptor(&pair->ends[0]);
        close_descriptor(&pair->ends[1]);
}
#define PAIR(pair) struct pair pair __attribute__((cleanup(end_pair))) = pair_of()

static struct pair pair_of(void) {
        struct pair pair = { 0 };

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.ends), 0);
        assert_int_equal(fcntl(pair.ends[1], F_SETFL, O_NONBLOCK), 0);
        pair.reader.socket = pair.ends[1];
        return pair;
}

static size_t open_descriptors(void) {
        size_t count = 0;

        for (int i = 0; i < 1024; i++)
                count += fcntl(i, F_GETFD) >= 0;
        return count;
}

/* --- as it should be --- */

static void test_one_message_after_another(void **state) {
        struct error err = { 0 };
        struct frame frame;
        PAIR(pair);

        (void)state;
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_WAIT);
        assert_int_equal(frame_send(pair.ends[0], 7, "a\0b", 3, NULL, 0, &err), 0);
        assert_int_equal(frame_send_now(pair.ends[0], 65535, NULL, 0, NULL, 0, &err), 0);
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_WHOLE);
        assert_int_equal(frame.type, 7);
        assert_int_equal(frame.payload.length, 3);
        assert_memory_equal(frame.payload.data, "a\0b", 4);
        frame_release(&frame);
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_WHOLE);
        assert_int_equal(frame.type, 65535);
        assert_int_equal(frame.payload.length, 0);
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_WAIT);
        close_descriptor(&pair.ends[0]);
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_CLOSED);
}

/*
 * A peer that closes without having read all that was sent has closed, and what it said before is
 * heard.
 */
static void test_who_closes_unread_has_closed(void **state) {
        struct frame frame FRAME_CLEANUP = { 0 };
        struct error err = { 0 };
        PAIR(pair);

        (void)state;
        assert_int_equal(frame_send_now(pair.reader.socket, 1, "unread", 6, NULL, 0, &err), 0);
        assert_int_equal(frame_send_now(pair.ends[0], 2, "last", 4, NULL, 0, &err), 0);
        close_descriptor(&pair.ends[0]);
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_WHOLE);
        assert_int_equal(frame.type, 2);
        frame_release(&frame);
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_CLOSED);
}

static void test_descriptors_stay_with_their_message(void **state) {
        size_t before;
        struct error err = { 0 };
        struct frame frame;
        int sent[FRAME_DESCRIPTORS_MAX];
        PAIR(pair);

        (void)state;
        for (size_t i = 0; i < FRAME_DESCRIPTORS_MAX; i++)
                assert_true((sent[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
        before = open_descriptors();
        assert_int_equal(frame_send(pair.ends[0], 1, "x", 1, NULL, 0, &err), 0);
        assert_int_equal(frame_send(pair.ends[0], 2, "yy", 2, sent, FRAME_DESCRIPTORS_MAX, &err), 0);
        assert_int_equal(frame_send(pair.ends[0], 3, NULL, 0, sent, 1, &err), 0);
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_WHOLE);
        assert_int_equal(frame.count, 0);
        frame_release(&frame);
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_WHOLE);
        assert_int_equal(frame.count, FRAME_DESCRIPTORS_MAX);
        assert_true(fcntl(frame.descriptors[0], F_GETFD) & FD_CLOEXEC);
        {
                int taken = frame_take(&frame, 0);

                assert_true(taken >= 0);
                assert_int_equal(frame_take(&frame, 0), -1);
                assert_int_equal(frame_take(&frame, FRAME_DESCRIPTORS_MAX), -1);
                frame_release(&frame);
                assert_int_equal(open_descriptors(), before + 1);
                close(taken);
        }
        assert_int_equal(frame_receive(&pair.reader, &frame, &err), FRAME_WHOLE);
        assert_int_equal(frame.count, 1);
        frame_release(&frame);
        assert_int_equal(open_descriptors(), before);
        for (size_t i = 0; i < FRAME_DESCRIPTORS_MAX; i++)
                close(sent[i]);
}

static void test_a_large_one_comes_in_pieces(void **state) {
        struct error err = { 0 };
        char *bytes = calloc(1, FRAME_PAYLOAD_MAX);
        struct frame frame;
        pid_t sender;
        int answer;
        PAIR(pair);

        (void)state;
        assert_non_null(bytes);
        bytes[FRAME_PAYLOAD_MAX - 1] = 'z';
        sender = fork();
        if (sender == 0)
                _exit(frame_send(pair.ends[0], 1, bytes, FRAME_PAYLOAD_MAX, NULL, 0, &err) < 0);
        while ((answer = frame_receive(&pair.reader, &frame, &err)) == FRAME_WAIT)
                usleep(100);
        assert_int_equal(answer, FRAME_WHOLE);
        assert_int_equal(frame.payload.length, FRAME_PAYLOAD_MAX);
        assert_memory_equal(frame.payload.data, bytes, FRAME_PAYLOAD_MAX);
        frame_release(&frame);
        assert_int_equal(waitpid(sender, &answer, 0), sender);
        assert_int_equal(answer, 0);
        free(bytes);
}

static void test_who_does_not_read_is_not_waited_for(void **state) {
        static char bytes[65536];
        struct error err = { 0 };
        int sent = 0;
        PAIR(pair);

        (void)state;
        while (sent < 1000 && frame_send_now(pair.ends[0], 1, bytes, sizeof(bytes), NULL, 0, &err) == 0)
                sent++;
        assert_in_range(sent, 1, 999);
        assert_non_null(strstr(err.message, "not taken"));
        close_descriptor(&pair.ends[1]);
        assert_int_equal(frame_send(pair.ends[0], 1, bytes, 1, NULL, 0, &err), -1);
}

/* --- as it should not be --- */

/* Bytes as they are, with descriptors beside the first of them. */
static void send_raw(int socket, const void *bytes, size_t length, int descriptor, size_t copies) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(64 * sizeof(int))];
        } control = { .space = { 0 } };
        struct iovec part = { (void *)bytes, length };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

        if (copies > 0) {
                message.msg_control = control.space;
                message.msg_controllen = (socklen_t)CMSG_SPACE(copies * sizeof(int));
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = (socklen_t)CMSG_LEN(copies * sizeof(int));
                for (size_t i = 0; i < copies; i++)
                        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &descriptor, sizeof(int));
        }
        assert_int_equal(sendmsg(socket, &message, 0), (ssize_t)length);
}

static void test_what_is_no_message_is_refused(void **state) {
        static const struct {
                const char *what, *bytes;
                size_t length, before, behind; /* descriptors with the first byte, and with the payload */
                const char *says;
        } cases[] = {
                { "too long", "\xff\xff\xff\xff\1\0\0\0", 8, 0, 0, "4294967295 bytes" },
                { "one byte too long", "\1\0\x40\0\1\0\0\0", 8, 0, 0, "4194305 bytes" },
                { "not announced", "\1\0\0\0\1\0\0\0x", 9, 1, 0, "1 descriptors and announced 0" },
                { "announced and absent", "\1\0\0\0\1\0\2\0x", 9, 0, 0, "0 descriptors and announced 2" },
                { "too many", "\1\0\0\0\1\0\0\0x", 9, 40, 0, "too many" },
                { "late", "\4\0\0\0\1\0\0\0", 8, 0, 1, "in between" },
                { "half a header", "\4\0\0", 3, 0, 0, "in the middle" },
                { "half a payload", "\4\0\0\0\1\0\0\0ab", 10, 0, 0, "in the middle" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                size_t before = open_descriptors();
                struct error err = { 0 };
                struct frame frame;

                {
                        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
                        PAIR(pair);

                        send_raw(pair.ends[0], cases[i].bytes, cases[i].length, null, cases[i].before);
                        if (cases[i].behind)
                                send_raw(pair.ends[0], "late", 4, null, cases[i].behind);
                        close(null);
                        close_descriptor(&pair.ends[0]);
                        assert_int_equal(frame_receive(&pair.reader, &frame, &err), -1);
                        if (!strstr(err.message, cases[i].says))
                                fail_msg("%s: %s", cases[i].what, err.message);
                }
                /* Whatever came along is closed. */
                assert_int_equal(open_descriptors(), before);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_message_after_another),
                cmocka_unit_test(test_who_closes_unread_has_closed),
                cmocka_unit_test(test_descriptors_stay_with_their_message),
                cmocka_unit_test(test_a_large_one_comes_in_pieces),
                cmocka_unit_test(test_who_does_not_read_is_not_waited_for),
                cmocka_unit_test(test_what_is_no_message_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
