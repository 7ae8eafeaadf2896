/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One session as the engine has it: frames of the worker's in, events out. The runtime's stream is read where the worker says that it
 * is; what is told again after a death is read like what is new. Nothing waits but open(), leave() and
 * clear(): a worker that must be killed is by a thread.
 */
#include "providers/local/session/session.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "providers/local/sandbox/sandbox_launched.h"
#include "providers/local/session/session_parts.h"
#include "providers/local/session/session_warm.h"
#include "providers/runtime_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((size_t)256 << 10)
/* The runtime ends what is beyond its deadline within 2 s. */
#define LATE_MS 7000
/* A worker kills its sandbox at once. */
#define DYING_MS 15000
/* One whose kernels are told to end: RUNTIME_GRACE_MS of the runtime, and the time of the sandbox. */
#define ENDING_MS 4000
/* An acknowledgement is sent after this time, if nothing else is sent before. */
#define HEARD_MS 20
/* Where no thread can be had for that. */
#define KILL_AGAIN_MS 1000
#define FOLDER_LENGTH_MAX 64
/* So long its worker may say nothing while files are moved. */
#define FILES_SILENCE_S 30
#define CHECKPOINT_BYTES_MAX ((uint64_t)256 << 20)
#define CHECKPOINT_MS 5000
/* Each session takes eight descriptors: 1024, as many systems give, are soon used up. */
#define OPEN_FILES 65536

/* --- to the worker --- */

/* While files are brought the socket is not read: what waits there must not wake the poll. */
static void watch_socket(struct place_session *session) {
        bool sends = session->outgoing.length > 0, listens;
        struct epoll_event event = { .events = sends ? EPOLLIN | EPOLLOUT : EPOLLIN };

        listens = !session->sync && !session->over && !session->killing;
        if ((session->killing && !session->listens) || session->lasting.socket < 0)
                return;
        if (listens != session->listens)
                (void)epoll_ctl(session->waits, listens ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                                session->lasting.socket, &event);
        else if (listens && sends != session->waits_to_send)
                (void)epoll_ctl(session->waits, EPOLL_CTL_MOD, session->lasting.socket, &event);
        session->listens = listens;
        session->waits_to_send = sends;
}

/* A worker that is gone is noticed by what it does not say any more. */
static void send_more(struct place_session *session) {
        if (session->killing)
                return;
        while (session->outgoing_at < session->outgoing.length) {
                ssize_t count =
                        send(session->lasting.socket, session->outgoing.data + session->outgoing_at,
                             session->outgoing.length - session->outgoing_at, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0 && errno == EAGAIN)
                        break;
                session->outgoing_at =
                        count < 0 ? session->outgoing.length : session->outgoing_at + (size_t)count;
        }
        if (session->outgoing_at == session->outgoing.length) {
                strbuf_release(&session->outgoing);
                session->outgoing_at = 0;
        }
        watch_socket(session);
}

static void append_life(struct place_session *session, const struct place_life *life) {
        uint64_t number =
                sandbox_life_pack(&(struct sandbox_life){ .age_ms = life->age_ms, .idle_ms = life->idle_ms });

        frame_append(&session->outgoing, MESSAGE_LIFE, &number, sizeof(number));
}

/* In front of what is said next. */
static void append_heard(struct place_session *session) {
        if (session->heard_later > 0)
                frame_append(&session->outgoing, MESSAGE_HEARD, &session->heard_later,
                             sizeof(session->heard_later));
        session->heard_later = 0;
        if (session->life_later.age_ms > 0)
                append_life(session, &session->life_later);
        session->life_later = (struct place_life){ 0 };
}

static void send_frame(struct place_session *session, unsigned type, const void *payload, size_t length) {
        if (session->over && type != MESSAGE_HEARD && type != MESSAGE_TAKEN)
                return;
        append_heard(session);
        frame_append(&session->outgoing, type, payload, length);
        send_more(session);
}

static void tell_number(struct place_session *session, unsigned type, uint64_t number) {
        send_frame(session, type, &number, sizeof(number));
}

/* One message to the runtime, in pieces; the worker hands it on once it is whole. */
static void say_message(struct place_session *session, const struct strbuf *message, int64_t mark) {
        size_t at = 0;

        append_heard(session);
        do {
                struct strbuf piece STRBUF_CLEANUP = STRBUF_SECRET;
                size_t length = message->length - at < PIECE ? message->length - at : PIECE;

                strbuf_append_bytes(&piece, &mark, sizeof(mark));
                strbuf_append_char(&piece, at + length == message->length);
                strbuf_append_bytes(&piece, message->data + at, length);
                frame_append(&session->outgoing, MESSAGE_SAY, piece.data, piece.length);
                at += length;
        } while (at < message->length);
        send_more(session);
}

static void ask_runtime(struct place_session *session, const struct request *request) {
        struct strbuf message STRBUF_CLEANUP = STRBUF_INIT;

        request_write(request, &message);
        say_message(session, &message, 0);
}

void session_set_life(struct place_session *session, const struct place_life *life) {
        if (session->over)
                return;
        append_heard(session);
        append_life(session, life);
        send_more(session);
}

void session_set_age(struct place_session *session, int64_t age_ms) {
        session_set_life(session, &(struct place_life){ .age_ms = age_ms, .idle_ms = INT64_MAX });
}

void session_prepare(struct place_session *session, const json_t *modules) {
        struct request request = { .type = REQUEST_PREPARE, .context = "main", .modules = modules };

        ask_runtime(session, &request);
}

void session_hear_all(struct place_session *session) {
        tell_number(session, MESSAGE_HEARD, session->heard);
}

/* Its files are in place, as far as they could be: it begins. */
static void begin_execution(struct place_session *session) {
        struct request stop = { .type = REQUEST_INTERRUPT, .n = session->execution.n };

        session->execution.until_ms = clock_now_ms() + session->pending_ms + LATE_MS;
        sandbox_lasting_measure(&session->lasting, &session->execution.before);
        say_message(session, &session->pending, session->execution.n);
        strbuf_release(&session->pending);
        if (session->pending_interrupt)
                ask_runtime(session, &stop);
        session->pending_interrupt = false;
}

/* --- its end --- */

static void kill_sandbox(struct place_session *session, const char *why) {
        if (session->dies_ms || session->over)
                return;
        if (why)
                session->why = arena_strdup(session->arena, why);
        session->dies_ms = clock_now_ms() + DYING_MS;
        send_frame(session, MESSAGE_CANCEL, NULL, 0);
}

static const char *explain(const struct sandbox_ending *ending) {
        return ending->sockets                  ? "it had more sockets than it may"
               : ending->locks                  ? "it had more locks of files than it may"
               : ending->deadline               ? "its time was over"
               : ending->cancelled              ? "it was ended"
               : ending->usage.memory_kills > 0 ? "its memory limit was exceeded"
               : ending->killed_by              ? "it was killed from outside"
               : ending->started                ? "its runtime ended: its code may have killed it"
                                                : "the sandbox could not be set up";
}

static void be_over(struct place_session *session, const char *why) {
        session->over = true;
        if (!session->why)
                session->why = why;
        watch_socket(session);
        close_descriptor(&session->reader.socket);
        session->lasting.socket = -1;
}

static void add_files(const struct place_session *session, struct place_event *ret) {
        ret->changed = session->changed;
        ret->deleted = session->deleted;
        ret->conflict = session->conflict;
        ret->skipped = session->left;
}

/*
 * The events that remain, in order: the last files, an execution without an end, the end. A sandbox
 * into which nothing was put has no files: it has no copy yet.
 */
static enum place_event_type say_end(struct place_session *session, struct place_event *ret) {
        struct error ignored;

        *ret = (struct place_event){ 0 };
        if (!session->brought_last && session_files_kept(session) && !session->fresh) {
                session->brought_last = true;
                if (session_files_begin(session, true, &ignored) == 0)
                        return PLACE_NOTHING;
        }
        if (session->execution.n > 0) {
                session_event_cut(session, &session->execution, ret);
                if (session->brought_last)
                        add_files(session, ret);
        } else if (session->command.n > 0) {
                session_event_cut(session, &session->command, ret);
        } else if (!session->said_ended) {
                session->said_ended = true;
                ret->type = PLACE_ENDED;
                ret->reason = session->why;
                ret->restoring = session->restoring != RESTORING_NOT;
        }
        return ret->type;
}

/* --- from the worker --- */

/* The copy's folder; or, of a worker that a launcher placed, a socket where it is asked for files, and what it uses. */
static void receive_files(struct place_session *session, struct frame *frame) {
        struct timeval silence = { .tv_sec = FILES_SILENCE_S };
        int given = frame_take(frame, 0);
        struct stat status;

        if (given < 0 || fstat(given, &status) < 0 || !S_ISSOCK(status.st_mode)) {
                session->folder = given;
                return;
        }
        session->asked.socket = given;
        fcntl(given, F_SETFL, 0);
        setsockopt(given, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
        setsockopt(given, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
        session->lasting.gauges = (struct cgroup_gauges){ frame_take(frame, 1), frame_take(frame, 2),
                                                          frame_take(frame, 3), frame_take(frame, 4) };
}

/* --- its network, where it is not its own alone --- */

int session_network_of(const struct place_session *session) {
        struct session_place *place = session->place;
        int network = -1;

        pthread_mutex_lock(&place->lock);
        for (const struct place_session *other = place->sharing; session->shares && network < 0 && other;
             other = other->next_sharing) {
                if (other->network >= 0 && strcmp(other->shares, session->shares) == 0)
                        network = fcntl(other->network, F_DUPFD_CLOEXEC, 0);
        }
        pthread_mutex_unlock(&place->lock);
        return network;
}

static void take_network(struct place_session *session, struct frame *frame) {
        struct session_place *place = session->place;

        if (!session->shares || frame->count < 2)
                return;
        pthread_mutex_lock(&place->lock);
        close_descriptor(&session->network);
        session->network = frame_take(frame, frame->count - 1);
        pthread_mutex_unlock(&place->lock);
}

static void share_no_more(struct place_session *session) {
        struct session_place *place = session->place;
        struct place_session **link = &place->sharing;

        if (!session->shares)
                return;
        pthread_mutex_lock(&place->lock);
        while (*link && *link != session)
                link = &(*link)->next_sharing;
        if (*link)
                *link = session->next_sharing;
        close_descriptor(&session->network);
        pthread_mutex_unlock(&place->lock);
}

static void name_others(struct place_session *session, const char *lines) {
        send_frame(session, MESSAGE_NAMES, lines, strlen(lines));
}

static int read_ready(struct place_session *session, struct frame *frame, struct place_event *ret,
                      struct error *err) {
        uint64_t numbers[2];

        if (session->opened || session->position > 0 || frame->payload.length != 24)
                return error_set(err, "it does not begin as it should");
        memcpy(numbers, frame->payload.data, sizeof(numbers));
        memcpy(&session->mark, frame->payload.data + sizeof(numbers), sizeof(session->mark));
        session->mark_found = session->mark;
        session->position = session->heard = numbers[0];
        session->replayed = numbers[1];
        take_network(session, frame);
        receive_files(session, frame);
        /* An execution is handed over once all files were put in: before the first one, they may be missing. */
        session->fresh = session->mark == 0;
        /* A new one is open once its runtime has greeted; of an old one the greeting may have been heard. */
        session->greeted = numbers[0] > 0;
        session_park_arm(session);
        if (!session->kept)
                return 0;
        session->opened = true;
        /*
         * The server that started it may have died before all of its memory was there: the next one
         * starts again.
         */
        if (session->mark == 0 && session->checkpoint.digest[0]) {
                kill_sandbox(session, "its server died while it was started");
                return 0;
        }
        if (session->execution.n > session->mark)
                session->execution = (struct session_execution){ 0 };
        if (session->command.n > session->mark)
                session->command = (struct session_execution){ 0 };
        /*
         * An execution beside a command belonged to a request that ended with its server: the next
         * one would wait for its deadline.
         */
        if (session->for_command && session->mark > session->command.n) {
                struct request stop = { .type = REQUEST_INTERRUPT, .n = session->mark };

                ask_runtime(session, &stop);
        }
        *ret = (struct place_event){ .type = PLACE_OPENED, .kept = true, .last = session->mark };
        return 1;
}

/* The next event of what was told. 0: more is needed. */
static int read_told(struct place_session *session, struct place_event *ret, struct error *err) {
        const struct strbuf *payload = &session->told.payload;

        while (session->told_at < payload->length) {
                bool greeted = session->greeted;
                size_t used;
                int answer;

                message_release(&session->message);
                session->message = (struct message)MESSAGE_INIT;
                answer = message_read(&session->messages, payload->data + session->told_at,
                                      payload->length - session->told_at, &used, &session->message, err);
                if (answer < 0)
                        return -1;
                session->told_at += used;
                session->position += used;
                if (answer == MESSAGE_MORE)
                        continue;
                *ret = (struct place_event){ .id = session->position };
                answer = session_event_read(session, ret, err);
                if (answer < 0)
                        return -1;
                session->heard = session->position;
                if (answer > 0 && ret->type == PLACE_DONE && session_files_kept(session) &&
                    session_files_are_still(session, true)) {
                        add_files(session, ret);
                } else if (answer > 0 && ret->type == PLACE_DONE && session_files_kept(session)) {
                        /*
                         * Memory borrowed in it stays valid: nothing is read before the files are
                         * there.
                         */
                        session->done = *ret;
                        *ret = (struct place_event){ 0 };
                        if (session_files_begin(session, true, err) == 0)
                                return 0;
                        *ret = session->done;
                        session->done = (struct place_event){ 0 };
                }
                if (answer > 0)
                        return 1;
                if (!greeted && session->greeted && !session->opened) {
                        if (session->checkpoint.digest[0])
                                return session_restore_begin(session, ret);
                        session->opened = true;
                        *ret = (struct place_event){ .type = PLACE_OPENED };
                        return 1;
                }
        }
        frame_release(&session->told);
        return 0;
}

static int take_told(struct place_session *session, struct frame *frame, struct error *err) {
        uint64_t number;

        if (frame->payload.length <= sizeof(number) || frame->count > 0)
                return error_set(err, "it tells nothing");
        if (session->deaf)
                return 0;
        memcpy(&number, frame->payload.data, sizeof(number));
        if (number != session->position)
                return error_set(err, "it tells bytes that are not the next ones");
        session->told = *frame;
        *frame = (struct frame){ 0 };
        session->told_at = sizeof(number);
        return 0;
}

/*
 * A line each, in the server's log: others than the owner ask later what left this machine, and for
 * whom.
 */
static int log_reached(const struct place_session *session, const struct frame *frame, struct error *err) {
        struct tally told = { 0 };

        if (tally_read(frame->payload.data, frame->payload.length, &told, err) < 0)
                return -1;
        for (size_t i = 0; i < told.count; i++) {
                struct strbuf line STRBUF_CLEANUP = STRBUF_INIT;

                tally_describe(&told.lines[i], &line);
                /* Ids of containers begin with a c. */
                log_info("%s %s: Environment/%s: network: %s",
                         session->id[0] == 'c' ? "container" : "session", session->id,
                         session->program.environment.name, strbuf_text(&line));
        }
        return 2;
}

/* One frame. 1: *ret is an event; 0: none yet, or the session is over; 2: there may be more. */
static int read_frame(struct place_session *session, struct place_event *ret, struct error *err) {
        struct frame frame FRAME_CLEANUP = { 0 };
        struct error said = { 0 };
        int answer = frame_receive(&session->reader, &frame, &said), opened;

        if (answer == FRAME_WAIT)
                return 0;
        if (answer != FRAME_WHOLE) {
                be_over(session, "its worker was killed, or another server has opened it");
                return 0;
        }
        switch (frame.type) {
        case MESSAGE_READY:
                opened = read_ready(session, &frame, ret, err);
                return opened == 0 ? 2 : opened;
        case MESSAGE_TOLD:
                return take_told(session, &frame, err) < 0 ? -1 : 2;
        case MESSAGE_ENDED:
                if (sandbox_ending_read(frame.payload.data, frame.payload.length, &session->ending, err) < 0)
                        return -1;
                session->over = true;
                if (!session->why)
                        session->why = explain(&session->ending);
                watch_socket(session);
                return 0;
        case MESSAGE_PARKED:
                if (session_park_told(session, strbuf_text(&frame.payload), ret))
                        return 1;
                watch_socket(session);
                return session->sync ? 0 : 2;
        case MESSAGE_REACHED:
                return log_reached(session, &frame, err);
        case MESSAGE_LEAVING:
                *ret = (struct place_event){ .type = PLACE_LEAVING };
                return 1;
        case MESSAGE_FAILED:
                be_over(session, arena_printf(session->arena, "the sandbox could not be set up: %s",
                                              strbuf_text(&frame.payload)));
                return 0;
        default:
                return error_set(err, "it answers without a request (%u)", frame.type);
        }
}

/* By a thread: what was told to end and does not is waited for once more, and killed. */
static int kill_worker(struct place_session *session, const struct interrupt *interrupt,
                       struct problem *problem) {
        (void)interrupt;
        (void)problem;
        sandbox_lasting_end(&session->lasting);
        return 0;
}

static void look_at_time(struct place_session *session) {
        int64_t now = clock_now_ms();
        struct error ignored;

        if (session->execution.n > 0 && now >= session->execution.until_ms && !session->dies_ms) {
                session->execution.by = REPORT_TIMEOUT;
                kill_sandbox(session, "it did not stop at its deadline, and the sandbox was killed");
        }
        if (session->memory_until_ms && now >= session->memory_until_ms && !session->dies_ms)
                kill_sandbox(session, session->restoring
                                              ? "it did not come to an end with its checkpoint"
                                              : "its worker did not come to an end with its checkpoint");
        if (session->ends_ms && now >= session->ends_ms)
                kill_sandbox(session, NULL);
        if (session->dies_ms && now >= session->dies_ms && !session->over) {
                session->killing = true;
                watch_socket(session);
                if (session_files_begin_job(session, kill_worker, &ignored) < 0) {
                        session->killing = false;
                        session->dies_ms = now + KILL_AGAIN_MS;
                        watch_socket(session);
                }
        }
}

/*
 * The files that it came with are missing, at least in part: the code was written for them and
 * would silently do something else. The kernels are as they were.
 */
static void refuse_execution(struct place_session *session, struct place_event *ret) {
        *ret = (struct place_event){
                .type = PLACE_DONE,
                .n = session->execution.n,
                .status = REPORT_FAILED,
                .exit_code = -1,
                .not_taken = true,
        };
        ret->detail = arena_printf(
                session->files,
                "nothing of it ran: the files that came with it cannot be put into its sandbox: %s",
                session->job.problem.detail);
        strbuf_release(&session->pending);
        session->pending_interrupt = false;
        session->execution = (struct session_execution){ 0 };
        /* A checkpoint that the worker takes says which execution was the last that it was given. */
        session->mark = session->mark_before;
}

/* They are where they belong: what waited for them goes on. True: *ret is an event. */
static bool after_files(struct place_session *session, struct place_event *ret) {
        session_files_end(session);
        if (session->killing) {
                session->killing = false;
                session->reader.socket = -1;
                be_over(session, "its worker did not answer, and was killed");
                return false;
        }
        watch_socket(session);
        if (session->done.type == PLACE_DONE) {
                *ret = session->done;
                session->done = (struct place_event){ 0 };
                add_files(session, ret);
                return true;
        }
        if (session->bringing) {
                session->bringing = false;
                *ret = (struct place_event){ .type = PLACE_BROUGHT };
                return true;
        }
        if (session->parking == PARKING_FILES && !session->over)
                return session_park_ask(session, ret);
        if (session->parking == PARKING_STORED) {
                session_park_end(session, ret);
                return true;
        }
        if (session->restoring == RESTORING_FILES && !session->over)
                return session_restore_look(session, ret);
        if (session->restoring == RESTORING_LOOKED_AT && !session->over)
                return session_restore_ask(session, ret);
        if (session->pending.length > 0 && !session->over && session->pending_staged && session->job.failed) {
                refuse_execution(session, ret);
                return true;
        }
        if (session->pending.length > 0 && !session->over)
                begin_execution(session);
        return false;
}

static int next(struct place_session *session, struct place_event *ret, struct error *err) {
        struct error wrong = { 0 };

        (void)err;
        *ret = (struct place_event){ 0 };
        if (session->heard_later > 0 && !session->killing && clock_now_ms() >= session->heard_until_ms)
                append_heard(session);
        send_more(session);
        if (session->handed_over) {
                session->handed_over = false;
                session_park_arm(session);
                if (!session->checkpoint.digest[0] || session_restore_begin(session, ret)) {
                        ret->type = PLACE_OPENED;
                        return 0;
                }
                session->opened = false;
        }
        for (;;) {
                int answer;

                if (session->sync && !session_files_are_over(session)) {
                        watch_socket(session);
                        return 0;
                }
                if (session->sync && after_files(session, ret))
                        return 0;
                answer = read_told(session, ret, &wrong);
                if (session->sync)
                        continue;
                if (answer == 0 && !session->over)
                        answer = read_frame(session, ret, &wrong);
                if (session->sync)
                        continue;
                if (answer == 1)
                        return 0;
                if (answer < 0) {
                        /* Nothing that comes after can be read. */
                        frame_release(&session->told);
                        session->told_at = 0;
                        kill_sandbox(session, arena_printf(session->arena,
                                                           "its runtime does not speak as it should: %s",
                                                           wrong.message));
                        session->deaf = true;
                        continue;
                }
                if (answer == 2)
                        continue;
                look_at_time(session);
                if (session->over && say_end(session, ret) == PLACE_NOTHING && session->sync)
                        continue;
                return 0;
        }
}

static int descriptor(const struct place_session *session) {
        return session->waits;
}

static int64_t patience_ms(const struct place_session *session) {
        int64_t until = session->dies_ms           ? session->dies_ms
                        : session->ends_ms         ? session->ends_ms
                        : session->execution.n > 0 ? session->execution.until_ms
                        : session->memory_until_ms ? session->memory_until_ms
                                                   : INT64_MAX;
        int64_t left;

        if (session->heard_later > 0 && session->heard_until_ms < until)
                until = session->heard_until_ms;
        left = until - clock_now_ms();
        if (session->handed_over)
                return 0;
        if (session->sync)
                return -1;
        if (session->over)
                return session->said_ended ? -1 : 0;
        return until == INT64_MAX ? -1 : left > 0 ? left : 0;
}

/* --- what the engine asks --- */

static int share(struct place_session *session, const struct interrupt *interrupt, struct problem *problem) {
        (void)interrupt;
        (void)problem;
        session_share_cpus(session);
        return 0;
}

/* A sandbox that is there for a command has no files that are kept: there is nothing to be done before. */
static int run_command(struct place_session *session, const struct place_execution *execution,
                       struct error *err) {
        struct request request = { .type = REQUEST_RUN,
                                   .n = execution->n,
                                   .arguments = execution->arguments,
                                   .variables = execution->variables };
        struct strbuf message STRBUF_CLEANUP = STRBUF_SECRET;

        if (session->command.n > 0)
                return error_set(err, "command %lld runs", (long long)session->command.n);
        if (!session->for_command || !request_is_arguments(execution->arguments))
                return error_set(err, "it is no command, or the sandbox is not there for one");
        session->command = (struct session_execution){ .n = execution->n, .until_ms = INT64_MAX };
        sandbox_lasting_measure(&session->lasting, &session->command.before);
        session->mark = execution->n;
        request_write(&request, &message);
        say_message(session, &message, execution->n);
        return 0;
}

static int execute(struct place_session *session, const struct place_execution *execution,
                   struct error *err) {
        struct request request = { .type = REQUEST_EXECUTE,
                                   .n = execution->n,
                                   .context = execution->context,
                                   .language = execution->language,
                                   .timeout_ms = execution->timeout_ms,
                                   .variables = execution->variables,
                                   .code = execution->code,
                                   .code_length = execution->code_length,
                                   .input = execution->input,
                                   .input_length = execution->input_length };
        bool shares;

        if (!session->opened)
                return error_set(err, "the sandbox is not open");
        if (session->over || session->dies_ms || session->ends_ms)
                return error_set_kind(err, ERROR_UNREACHABLE, "the sandbox is not open any more");
        if (execution->n <= session->mark)
                return error_set(err, "execution %lld has begun already", (long long)execution->n);
        if (execution->arguments)
                return run_command(session, execution, err);
        if (session->execution.n > 0)
                return error_set(err, "execution %lld runs", (long long)session->execution.n);
        if (session->parking != PARKING_NOT)
                return error_set(err, "its checkpoint is being taken");
        if (execution->code_length + execution->input_length > PLACE_INPUT_MAX)
                return error_set(err, "code and standard input are at most %zu bytes", PLACE_INPUT_MAX);
        shares = session_cpus_have_changed(session);
        free(session->pending_staged);
        session->pending_staged = execution->staged ? strdup(execution->staged) : NULL;
        if (execution->staged && !session->pending_staged)
                abort();
        if (session_files_kept(session) ? (shares || !session_files_are_still(session, false)) &&
                                                  session_files_begin(session, false, err) < 0
                                        : shares && session_files_begin_job(session, share, err) < 0)
                return -1;
        session->execution = (struct session_execution){ .n = execution->n, .until_ms = INT64_MAX };
        session->mark_before = session->mark;
        session->mark = execution->n;
        request_write(&request, &session->pending);
        session->pending_ms = execution->timeout_ms;
        session->life_later = execution->life;
        if (!session->sync)
                begin_execution(session);
        watch_socket(session);
        return 0;
}

static void interrupt_request(struct place_session *session, int64_t n) {
        struct request request = { .type = REQUEST_INTERRUPT, .n = n };

        if ((session->execution.n != n && session->command.n != n) || n <= 0 || session->over)
                return;
        if (session->execution.n == n && session->pending.length > 0)
                session->pending_interrupt = true;
        else
                ask_runtime(session, &request);
}

static int restart(struct place_session *session, const char *context, struct error *err) {
        struct request request = { .type = REQUEST_RESTART, .context = context };

        if (!content_is_context(context))
                return error_set(err, "\"%s\" is no name of a context", context);
        if (!session->opened || session->over)
                return error_set(err, "the sandbox is not open");
        ask_runtime(session, &request);
        return 0;
}

static int nothing(struct place_session *session, const struct interrupt *interrupt,
                   struct problem *problem) {
        (void)session;
        (void)interrupt;
        (void)problem;
        return 0;
}

static int park(struct place_session *session, struct error *err) {
        if (!session->owner)
                return error_set_kind(err, ERROR_REFUSED, "a session without a workspace cannot be parked");
        if (!session->opened || session->over || session->dies_ms || session->ends_ms ||
            session->execution.n > 0 || session->sync || session->parking != PARKING_NOT)
                return error_set_kind(err, ERROR_REFUSED, "something runs");
        session->parking = PARKING_FILES;
        session->job.failed = false;
        if ((session_files_kept(session) && !session->fresh
                     ? session_files_begin(session, true, err)
                     : session_files_begin_job(session, nothing, err)) < 0) {
                session->parking = PARKING_NOT;
                return -1;
        }
        watch_socket(session);
        return 0;
}

/* A sandbox that has used no CPU since has written nothing. */
static int bring(struct place_session *session, struct error *err) {
        struct cgroup_usage now;

        if (!session->opened || session->over || session->dies_ms || session->ends_ms ||
            session->execution.n > 0 || session->sync || session->parking != PARKING_NOT ||
            !session_files_kept(session) || session->fresh)
                return 1;
        sandbox_lasting_measure(&session->lasting, &now);
        if (session_files_are_still(session, true) ||
            (now.known && session->at_sync.known && now.cpu_us == session->at_sync.cpu_us))
                return 1;
        if (session_files_begin(session, true, err) < 0)
                return -1;
        session->bringing = true;
        watch_socket(session);
        return 0;
}

/*
 * What runs may have to wait for it. When nothing does, the worker need not be woken for it alone:
 * the next execution may come first. An event that was not acknowledged is sent again, to the next
 * server.
 */
static void heard(struct place_session *session, uint64_t id) {
        if (id == 0 || id > session->heard || session->killing || session->lasting.socket < 0)
                return;
        session->heard_later = id;
        session->heard_until_ms = clock_now_ms() + HEARD_MS;
        if (session->execution.n > 0 || session->command.n > 0) {
                append_heard(session);
                send_more(session);
        }
}

/* Where it is killed, a thread has what could be asked. */
static bool measure_sandbox(struct place_session *session, struct place_usage *ret) {
        struct cgroup_usage now;

        if (!session->opened || session->over || session->killing)
                return false;
        sandbox_lasting_measure(&session->lasting, &now);
        if (!now.known)
                return false;
        *ret = (struct place_usage){ .cpu_us = now.cpu_us,
                                     .memory_bytes = now.memory_bytes,
                                     .peak_memory_bytes = now.peak_memory_bytes };
        return true;
}

/*
 * Its kernels flush their files first, which are brought when the sandbox is over. A sandbox that
 * does not end by itself is killed.
 */
static void end_sandbox(struct place_session *session) {
        const struct request request = { .type = REQUEST_END };

        if (!session->opened || session->for_command || session->ends_ms || session->dies_ms ||
            session->over) {
                kill_sandbox(session, "it was ended");
                return;
        }
        session->why = "it was ended";
        session->ends_ms = clock_now_ms() + ENDING_MS;
        watch_socket(session);
        ask_runtime(session, &request);
}

/* --- open and close --- */

static void leave(struct place_session *session) {
        struct error ignored;

        if (!session)
                return;
        if (session->sync) {
                session_files_stop(session);
                session_files_end(session);
        }
        append_heard(session);
        send_more(session);
        if (session->said_ended) {
                if (session->lasting.socket >= 0)
                        (void)!frame_send_now(session->lasting.socket, MESSAGE_TAKEN, NULL, 0, NULL, 0,
                                              &ignored);
                sandbox_lasting_end(&session->lasting);
        } else {
                sandbox_lasting_leave(&session->lasting);
        }
        frame_reader_release(&session->reader);
        frame_release(&session->told);
        message_reader_release(&session->messages);
        message_release(&session->message);
        strbuf_release(&session->outgoing);
        strbuf_release(&session->pending);
        json_decref(session->contexts);
        close_descriptor(&session->memory);
        free(session->pending_staged);
        session_files_forget(session);
        close_descriptor(&session->folder);
        share_no_more(session);
        frame_reader_release(&session->asked);
        close_descriptor(&session->asked.socket);
        close_descriptor(&session->waits);
        if (session->files)
                arena_free(session->files);
        arena_free(session->arena);
        free(session);
}

/* The name becomes part of a path. */
static int check_id(const char *id, struct error *err) {
        size_t length = strlen(id);

        return length > 0 && length <= 32 && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == length
                       ? 0
                       : error_set(err, "\"%s\" is no id of a session", id);
}

const char *session_worker_path(const struct session_place *place, const char *id, struct arena *arena) {
        const char *launcher = place->launcher;

        if (!launcher)
                return arena_printf(arena, "%s/%s", place->folder, id);
        return arena_printf(arena, "%s/workers/%u.%s", path_folder(launcher, arena), (unsigned)geteuid(), id);
}

static void remember_opening(struct place_session *session, const struct place_opening *opening) {
        const uint64_t most = (uint64_t)REQUEST_CHECKPOINT_BYTES_MAX;
        uint64_t bytes = opening->checkpoint_bytes_max ? opening->checkpoint_bytes_max : CHECKPOINT_BYTES_MAX;

        session->id = arena_strdup(session->arena, opening->id);
        session->owner = opening->owner ? arena_strdup(session->arena, opening->owner) : NULL;
        session->for_command = opening->for_command;
        session->shares = opening->network ? arena_strdup(session->arena, opening->network) : NULL;
        session->checkpoint_bytes_max = bytes < most ? bytes : most;
        session->checkpoint_ms = opening->checkpoint_ms > 0 ? opening->checkpoint_ms : CHECKPOINT_MS;
        if (opening->checkpoint && opening->owner) {
                session->checkpoint = *opening->checkpoint;
                session->contexts = json_deep_copy(opening->contexts);
        }
}

static struct place_session *new_session(struct session_place *place, const struct place_opening *opening) {
        struct place_session *session = calloc(1, sizeof(*session));

        if (!session)
                abort();
        *session = (struct place_session){ .place = place,
                                           .arena = arena_new(),
                                           .lasting = SANDBOX_LASTING_NONE,
                                           .reader = FRAME_READER(-1),
                                           .folder = -1,
                                           .network = -1,
                                           .still = { .folder = -1 },
                                           .asked = FRAME_READER(-1),
                                           .memory = -1,
                                           .outgoing = STRBUF_SECRET,
                                           .pending = STRBUF_SECRET,
                                           .waits = epoll_create1(EPOLL_CLOEXEC) };
        session->socket = session_worker_path(place, opening->id, session->arena);
        remember_opening(session, opening);
        if (session->shares) {
                pthread_mutex_lock(&place->lock);
                session->next_sharing = place->sharing;
                place->sharing = session;
                pthread_mutex_unlock(&place->lock);
        }
        return session;
}

int session_open_cold(struct session_place *place, const struct place_opening *opening,
                      struct place_session **ret, struct error *err) {
        struct place_session *session = new_session(place, opening);

        if (session->waits < 0) {
                (void)error_set(err, "cannot wait for a sandbox: %s", strerror(errno));
                leave(session);
                return -1;
        }
        if (session_start(session, opening, err) < 0) {
                leave(session);
                return -1;
        }
        if (opening->running > 0)
                session->execution = (struct session_execution){
                        .n = opening->running, .until_ms = clock_now_ms() + opening->running_ms + LATE_MS
                };
        if (opening->command > 0)
                session->command = (struct session_execution){ .n = opening->command, .until_ms = INT64_MAX };
        session->reader.socket = session->lasting.socket;
        /* Its last opener may have died before it said how long it may live. */
        if (session->kept)
                session_set_age(session, opening->ttl_ms);
        watch_socket(session);
        *ret = session;
        return 0;
}

/* The name first: who dies before the rest leaves a sandbox that is found again, and is then told how long it may live. */
int session_hand_over(struct place_session *session, const struct place_opening *opening, struct error *err) {
        const char *socket = session_worker_path(session->place, opening->id, session->arena);

        if (sandbox_lasting_rename(&session->lasting, socket, err) < 0)
                return -1;
        session->socket = socket;
        remember_opening(session, opening);
        session->handed_over = true;
        session_set_age(session, opening->ttl_ms);
        return 0;
}

static int open_session(struct place *place, const struct place_opening *opening, struct place_session **ret,
                        struct error *err) {
        struct session_place *local = (struct session_place *)place;
        struct place_session *warm;

        if (check_id(opening->id, err) < 0)
                return -1;
        warm = session_warm_take(local->warm, opening);
        if (!warm)
                return session_open_cold(local, opening, ret, err);
        *ret = warm;
        return 0;
}

static int clear(struct place *place, const char *id, struct error *err) {
        const struct session_place *local = (const struct session_place *)place;
        struct arena *arena = arena_new();
        struct sandbox_lasting lasting = SANDBOX_LASTING_NONE;
        const char *path = session_worker_path(local, id, arena);
        struct error absent = { 0 }, ignored;
        int result = check_id(id, err);

        if (result == 0 && sandbox_lasting_find(path, NULL, NULL, arena, &lasting, &absent) < 0) {
                if (local->launcher && absent.kind != ERROR_NOT_FOUND)
                        sandbox_launched_clear(local->launcher, path, -1);
                (void)unlink(path);
                (void)unlink(arena_printf(arena, "%s.worker", path));
        } else if (result == 0) {
                struct pollfd polled = { .fd = lasting.socket, .events = POLLIN };

                lasting.launcher = local->launcher;
                /* Before it says READY it would not hear us. */
                (void)poll(&polled, 1, DYING_MS);
                (void)!frame_send_now(lasting.socket, MESSAGE_CANCEL, NULL, 0, NULL, 0, &ignored);
                (void)!frame_send_now(lasting.socket, MESSAGE_TAKEN, NULL, 0, NULL, 0, &ignored);
                sandbox_lasting_end(&lasting);
        }
        arena_free(arena);
        return result;
}

static void close_place(struct place *place) {
        struct session_place *local = (struct session_place *)place;

        if (!local)
                return;
        session_warm_free(local->warm);
        /* Where a worker lives it is not empty, and stays. */
        (void)rmdir(local->folder);
        arena_free(local->arena);
        pthread_mutex_destroy(&local->lock);
        free(local);
}

static int check(struct place *place, struct error *err) {
        const struct session_place *local = (const struct session_place *)place;

        if (access(local->runtime, R_OK) < 0)
                return error_set(err, "%s: %s", local->runtime, strerror(errno));
        if (access(local->folder, R_OK | W_OK | X_OK) < 0)
                return error_set(err, "%s: %s", local->folder, strerror(errno));
        return local->launcher ? sandbox_launched_try(local->launcher, err) : 0;
}

static const struct place_class class = {
        .runs_commands = true,
        .open = open_session,
        .name = name_others,
        .descriptor = descriptor,
        .patience_ms = patience_ms,
        .next = next,
        .execute = execute,
        .interrupt = interrupt_request,
        .restart = restart,
        .park = park,
        .bring = bring,
        .expire = session_set_life,
        .heard = heard,
        .measure = measure_sandbox,
        .end = end_sandbox,
        .leave = leave,
        .clear = clear,
        .adopt = session_park_adopt,
        .shared_open = session_kept_open,
        .shared_remove = session_kept_remove,
        .shared_list = session_kept_list,
        .shared_recover = session_kept_recover,
        .check = check,
        .close = close_place,
};

int session_place_open(const struct session_place_config *config, struct place **ret, struct error *err) {
        struct session_place *place;
        struct stat status;

        if (strlen(config->folder) > FOLDER_LENGTH_MAX)
                return error_set(err, "%s: a folder of sockets has a path of at most %d bytes",
                                 config->folder, FOLDER_LENGTH_MAX);
        if (folder_make(config->folder, err) < 0)
                return -1;
        if (lstat(config->folder, &status) < 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
            status.st_mode & 077)
                return error_set(err, "%s must be a folder of this user's that no other user can enter",
                                 config->folder);
        descriptors_allow(OPEN_FILES);
        place = calloc(1, sizeof(*place));
        if (!place)
                abort();
        place->place.class = &class;
        pthread_mutex_init(&place->lock, NULL);
        place->arena = arena_new();
        place->root = arena_strdup(place->arena, config->root);
        place->folder = arena_strdup(place->arena, config->folder);
        place->runtime = config->runtime ? arena_strdup(place->arena, config->runtime)
                                         : runtime_file_find(place->arena);
        place->launcher = config->launcher ? arena_strdup(place->arena, config->launcher) : NULL;
        if (config->workspaces) {
                place->workspaces = arena_strdup(place->arena, config->workspaces);
                place->stack = arena_strdup(place->arena, config->stack);
        }
        place->accept_degraded = config->accept_degraded;
        place->bounds = config->bounds;
        if (session_warm_new(place, config, &place->warm, err) < 0) {
                close_place(&place->place);
                return -1;
        }
        *ret = &place->place;
        return 0;
}
