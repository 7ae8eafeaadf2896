/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution as long as the engine remembers it: what it has said so far, as events, and its result. Pure: it hears no place and
 * writes no record.
 *
 * Its output is kept once, as bytes; events of output are ranges of them, and begin and end between two characters. Bytes beyond
 * ENGINE_STREAM_MAX are counted and hashed; the last of them are told when it ends, behind an event `gap`.
 */
#ifndef BERTH_SESSIONS_EXECUTION_H
#define BERTH_SESSIONS_EXECUTION_H

#include "base/digest.h"
#include "base/strbuf.h"
#include "sessions/engine.h"
#include "sessions/place.h"

enum { EXECUTION_STDOUT, EXECUTION_STDERR, EXECUTION_STREAMS };

struct execution_stream {
        struct strbuf bytes; /* the first ENGINE_STREAM_MAX; once it has ended, with the tail behind them */
        struct strbuf tail;  /* the last of those beyond, until it ends */
        size_t gap_at;       /* in `bytes`, once it has ended: where `gap` bytes are missing */
        uint64_t gap;
        size_t told;                  /* of them, by events */
        uint64_t total;               /* that came */
        struct digest_stream *digest; /* of all that came; NULL: nothing has come yet, or `unseen` */
        bool unseen;                  /* not all of it came to this engine */
};

struct execution_event {
        enum execution_event_type { EXECUTION_EVENT_JSON, EXECUTION_EVENT_OUTPUT } type;
        uint8_t stream;      /* output */
        uint32_t at, length; /* output: the range */
        const char *name;    /* JSON: static */
        json_t *data;        /* JSON */
};

enum execution_status { EXECUTION_QUEUED, EXECUTION_RUNNING, EXECUTION_ENDED };

struct execution {
        int64_t n;
        enum execution_status status;
        bool interrupted; /* asked to stop while it waited, or before its sandbox had it */
        size_t references;
        struct execution *next; /* in its session's line */

        /* What was asked; released when it has begun. */
        char *code, *input, *context;
        char *staged; /* or NULL */
        size_t code_length, input_length;
        size_t asked_bytes; /* of all of these, as they were asked */
        enum request_language language;
        json_t *variables; /* NULL: none */
        int64_t timeout_seconds;
        bool interrupt_on_disconnect;
        bool connected;                       /* its client's connection is what it ends with */
        bool cut;                             /* only the beginning of its code is known: after a restart */
        char request_sha256[SHA256_HEX_SIZE]; /* of what workspaces keep of it; "": it is in its record */

        int64_t queued_ms, begun_ms, ended_ms; /* wall time */
        struct execution_event *events;
        size_t event_count;
        struct execution_stream streams[EXECUTION_STREAMS];
        json_t *displays; /* a list */
        size_t displays_bytes;
        json_t *state;        /* NULL: it has none */
        json_t *result;       /* whole, once it has ended */
        int64_t record_bytes; /* of its record, as that was written last */
        int64_t taken_before; /* what its session's taken_n is while it waits: none that it was given is later */
        uint64_t
                term; /* servers_term() before the write that says that it begins; 0: it may not, or nobody else could */
        bool unwritten;     /* its end is in no record: no event tells it yet */
        int64_t refused_ms; /* since when the store refuses its end, by the monotonic clock; 0: it does not */
        bool unkept;        /* so for long: no more of it is kept than that */
        int64_t published;  /* events that are in the store, for who follows it elsewhere */
        uint64_t unheard;   /* bytes of events that the place keeps for us */
        bool heard_early;   /* its record has the heads of the streams, and the place has let go of them */
        bool head_lost; /* the server was restarted amid more output than the place keeps: its streams are not whole */
};

struct execution *execution_new(int64_t n, const struct engine_code *code, int64_t now_ms);
void execution_hold(struct execution *execution);
void execution_drop(struct execution *execution); /* the last one frees it; NULL is fine */

/* Bytes of code, standard input and variables. */
size_t execution_asked_bytes(const struct engine_code *code);

/* Whose it is, for results. */
struct execution_owner {
        const char *session, *environment, *image_digest; /* the last may be NULL */
};

/* Each may add events. */
void execution_started(struct execution *execution, const struct place_event *event, int64_t now_ms);
void execution_output(struct execution *execution, bool is_stderr, const char *bytes, size_t length);
void execution_display(struct execution *execution, const struct place_event *event);
void execution_done(struct execution *execution, const struct execution_owner *owner,
                    const struct place_event *event, int64_t now_ms);
/* Ends it without the place's word: `killed`, `interrupted` or `failed`, never `ok`. */
void execution_cut_off(struct execution *execution, const struct execution_owner *owner,
                       enum report_status status, const char *detail, int64_t now_ms);

/*
 * Of one that has ended and whose end nobody has heard of: it is `failed`, for that reason, and its record has neither output nor files nor
 * code.
 */
void execution_give_up(struct execution *execution, const char *why);

/* The event of that id, from 1; false where there is none yet. Its data is a new reference. */
bool execution_event(const struct execution *execution, int64_t id, struct engine_event *ret);

/* All that was asked, as text to be released with free(): what a server needs that is to begin it after the death of this one. */
char *execution_request(const struct execution *execution);
/* Longer ones are not in records, but beside the workspace. */
#define EXECUTION_REQUEST_STORED ((size_t)64 << 10)
/*
 * One of which a record told, after a restart: it may run still, or it has to be begun. `request` is what was kept of it beside
 * the workspace; NULL: what is in the record. NULL where the record makes no sense.
 */
struct execution *execution_revive(int64_t n, const json_t *record, const json_t *request);
/* The digest of what was kept of it elsewhere; NULL where the record has all of it, or has lost it. */
const char *execution_request_elsewhere(const json_t *record);

/* {session, n, status, queuePosition} of one that has not ended; `position` from 1, or 0: it does not wait. */
json_t *execution_pending(const struct execution *execution, const char *session, size_t position);

/*
 * What history keeps of an ended one, as text to be released with free(): {result, code, language, context, agent, ..., events};
 * the result with its second caps. Never longer than SESSION_VALUE_MAX.
 */
char *execution_record(const struct execution *execution, const char *environment, const char *agent);
/* The same of one that has not ended: that it was there. */
char *execution_record_pending(const struct execution *execution, const char *session,
                               const char *environment, const char *agent);

/*
 * Of the record of an ended one, what a list tells: neither output nor displays, and long texts cut. NULL where it is so already, or has
 * not ended, or makes no sense.
 */
const char *execution_record_thin(const char *text, struct arena *arena);

/* --- what history has kept, read again --- */

/* NULL where it is no JSON. Output may have held NUL. */
json_t *execution_read_record(const char *text);
/* The result or {session, n, status}; a new reference. NULL where the record makes no sense. */
json_t *execution_kept_result(const json_t *record);
/* One item of a list. */
json_t *execution_kept_summary(const json_t *record);
/*
 * The event with the least id that is at least `from`; events keep the ids that they had. `gap` stands for events whose bytes are not
 * kept. False behind the last. What is found once is kept in the record.
 */
bool execution_kept_event(json_t *record, int64_t from, struct engine_event *ret);

/* Letters of a record's `log`, by stream. */
#define EXECUTION_LOG_OUTPUT "or"
#define EXECUTION_LOG_GAP "xy"

/* Bytes as a text of base64, and back. A text that is not base64 ends where it goes wrong. */
json_t *execution_base64(const char *bytes, size_t length);
void execution_append_base64(struct strbuf *to, const char *text);

#endif
