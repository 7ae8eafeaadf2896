/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of listings (a single call is a listing of one page), and a few threads: each takes the
 * first one, makes the call that is due, leaves the answer, and puts the listing back behind the
 * others where another page follows. A page's successor is entered before the page itself is given
 * out: a caller that takes the page and asks for the next one finds it. Lists stand before single
 * calls: a chain of pages is what a plan waits for, and should not take its turn behind a thousand
 * others at each of them.
 *
 * Answers that were not taken yet are counted by the bytes of their bodies. Beyond the limit only
 * listings with a waiting caller are taken from the line, so that nothing waits for room that only
 * that caller could make.
 */
#include "providers/aws/client/ahead.h"

#include "base/interrupt.h"
#include "base/text.h"
#include "providers/aws/client/aws_client_state.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 12
#define WAITING_BYTES_MAX ((size_t)8 * 1024 * 1024)

struct answer {
        struct answer *next;
        struct listing *listing;
        struct aws_request request;
        bool wanted, there;
        int result;
        size_t bytes;
        struct aws_response response;
        struct error err;
};

struct listing {
        struct listing *next_in_line, *next_of_all;
        struct arena *arena; /* the texts of its requests: touched by who asks, then by who calls */
        aws_next_request *next;
        struct aws_request first;
        const char *context;
        struct answer *due; /* to be asked next */
};

struct ahead {
        struct aws_client *client;
        pthread_mutex_t lock;   /* of all below but what a listing's thread uses alone */
        pthread_cond_t changed; /* a listing stands in line, an answer is there, or it ends */
        struct listing *line, **line_end, *all;
        size_t line_length;
        struct answer *answers, **answers_end; /* asked and not taken, in the order asked */
        size_t waiting_bytes;
        pthread_t threads[THREADS_MAX];
        size_t thread_count, idle;
        bool ending;
        struct interrupt stop; /* of the calls under way; there while threads are */
};

struct ahead *ahead_new(struct aws_client *client) {
        struct ahead *ahead = calloc(1, sizeof(*ahead));

        if (!ahead || pthread_mutex_init(&ahead->lock, NULL) != 0 ||
            pthread_cond_init(&ahead->changed, NULL) != 0)
                abort();
        ahead->client = client;
        ahead->line_end = &ahead->line;
        ahead->answers_end = &ahead->answers;
        return ahead;
}

/* Requests */

static bool same_queries(const struct aws_query *a, const struct aws_query *b, size_t max) {
        for (size_t i = 0; i < max && (a[i].name || b[i].name); i++) {
                if (!text_equal(a[i].name, b[i].name) || !text_equal(a[i].value, b[i].value))
                        return false;
        }
        return true;
}

static bool same_request(const struct aws_request *a, const struct aws_request *b) {
        return a->service == b->service && strcmp(a->operation, b->operation) == 0 &&
               text_equal(a->method, b->method) && text_equal(a->path, b->path) &&
               text_equal(a->bucket, b->bucket) && text_equal(a->region, b->region) &&
               same_queries(a->query, b->query, AWS_QUERY_MAX) &&
               same_queries(a->headers, b->headers, AWS_HEADERS_MAX) && a->body_length == b->body_length &&
               (a->body_length == 0 || memcmp(a->body, b->body, a->body_length) == 0);
}

static void copy_queries(struct aws_query *queries, size_t max, struct arena *arena) {
        for (size_t i = 0; i < max && queries[i].name; i++)
                queries[i] = (struct aws_query){ arena_strdup(arena, queries[i].name),
                                                 arena_strdup(arena, queries[i].value) };
}

static struct aws_request copy_request(const struct aws_request *request, struct arena *arena) {
        struct aws_request copy = *request;

        copy.operation = arena_strdup(arena, request->operation);
        copy.method = arena_strdup(arena, request->method);
        copy.path = arena_strdup(arena, request->path);
        copy.bucket = arena_strdup(arena, request->bucket);
        copy.region = arena_strdup(arena, request->region);
        copy.content_type = arena_strdup(arena, request->content_type);
        copy.body = request->body ? arena_strndup(arena, request->body, request->body_length) : NULL;
        copy_queries(copy.query, AWS_QUERY_MAX, arena);
        copy_queries(copy.headers, AWS_HEADERS_MAX, arena);
        return copy;
}

/* The line. All with the lock held. */

static void stand_in_line(struct ahead *ahead, struct listing *listing) {
        struct listing **link = listing->next ? &ahead->line : ahead->line_end;

        while (*link && (*link)->next)
                link = &(*link)->next_in_line;
        listing->next_in_line = *link;
        *link = listing;
        if (!listing->next_in_line)
                ahead->line_end = &listing->next_in_line;
        ahead->line_length++;
        pthread_cond_broadcast(&ahead->changed);
}

/* NULL: none, or no room for its answer. */
static struct listing *take_from_line(struct ahead *ahead) {
        bool room = ahead->waiting_bytes < WAITING_BYTES_MAX;
        struct listing **link = &ahead->line, *listing;

        while (*link && !room && !(*link)->due->wanted)
                link = &(*link)->next_in_line;
        listing = *link;
        if (!listing)
                return NULL;
        *link = listing->next_in_line;
        if (!*link)
                ahead->line_end = link;
        ahead->line_length--;
        return listing;
}

static void enter_due(struct ahead *ahead, struct listing *listing, const struct aws_request *request) {
        struct answer *answer = calloc(1, sizeof(*answer));

        if (!answer)
                abort();
        answer->listing = listing;
        answer->request = *request;
        answer->request.ended_by = &ahead->stop;
        listing->due = answer;
        *ahead->answers_end = answer;
        ahead->answers_end = &answer->next;
}

static struct answer **find_answer(struct ahead *ahead, const struct aws_request *request) {
        struct answer **link = &ahead->answers;

        while (*link && ((*link)->wanted || !same_request(&(*link)->request, request)))
                link = &(*link)->next;
        return link;
}

/* The threads */

/* Makes the call that is due, and enters the one after it. */
static void make_call(struct ahead *ahead, struct listing *listing) {
        struct answer *answer = listing->due;
        struct aws_request next = { 0 };
        bool more;

        answer->result = client_call(ahead->client, &answer->request, &answer->response, &answer->err);
        answer->bytes = answer->response.body.length;
        more = answer->result == 0 && listing->next &&
               listing->next(&answer->response, &listing->first, listing->context, listing->arena, &next);
        /* Once parsed, the body is not read any more. */
        if (answer->response.json)
                strbuf_release(&answer->response.body);

        pthread_mutex_lock(&ahead->lock);
        listing->due = NULL;
        if (more && !ahead->ending) {
                enter_due(ahead, listing, &next);
                stand_in_line(ahead, listing);
        }
        ahead->waiting_bytes += answer->bytes;
        answer->there = true;
        pthread_cond_broadcast(&ahead->changed);
        pthread_mutex_unlock(&ahead->lock);
}

static void *make_calls(void *argument) {
        struct ahead *ahead = argument;

        pthread_mutex_lock(&ahead->lock);
        while (!ahead->ending) {
                struct listing *listing = take_from_line(ahead);

                if (listing) {
                        pthread_mutex_unlock(&ahead->lock);
                        make_call(ahead, listing);
                        pthread_mutex_lock(&ahead->lock);
                } else {
                        ahead->idle++;
                        pthread_cond_wait(&ahead->changed, &ahead->lock);
                        ahead->idle--;
                }
        }
        pthread_mutex_unlock(&ahead->lock);
        return NULL;
}

/* With the lock held: false where there is no thread at all, and nothing may be asked ahead. */
static bool have_threads(struct ahead *ahead) {
        struct error ignored;

        if (ahead->thread_count == 0 && interrupt_init(&ahead->stop, &ignored) < 0)
                return false;
        if (ahead->idle <= ahead->line_length && ahead->thread_count < THREADS_MAX &&
            pthread_create(&ahead->threads[ahead->thread_count], NULL, make_calls, ahead) == 0)
                ahead->thread_count++;
        if (ahead->thread_count > 0)
                return true;
        interrupt_dispose(&ahead->stop);
        return false;
}

void aws_ahead_pages(struct aws_client *client, const struct aws_request *first, aws_next_request *next,
                     const char *context) {
        struct ahead *ahead = client->ahead;
        struct listing *listing;

        pthread_mutex_lock(&ahead->lock);
        /* Two kinds may read the same. */
        if (!*find_answer(ahead, first) && have_threads(ahead)) {
                listing = calloc(1, sizeof(*listing));
                if (!listing)
                        abort();
                listing->arena = arena_new();
                listing->next = next;
                listing->context = arena_strdup(listing->arena, context);
                listing->next_of_all = ahead->all;
                ahead->all = listing;
                listing->first = copy_request(first, listing->arena);
                enter_due(ahead, listing, &listing->first);
                stand_in_line(ahead, listing);
        }
        pthread_mutex_unlock(&ahead->lock);
}

void aws_ahead(struct aws_client *client, const struct aws_request *request) {
        aws_ahead_pages(client, request, NULL, NULL);
}

/* Taking */

static void unlink_answer(struct ahead *ahead, struct answer *answer) {
        struct answer **link = &ahead->answers;

        while (*link != answer)
                link = &(*link)->next;
        *link = answer->next;
        if (!*link)
                ahead->answers_end = link;
}

bool ahead_take(struct ahead *ahead, const struct aws_request *request, struct aws_response *response,
                int *ret_result, struct error *err) {
        struct answer *answer;

        pthread_mutex_lock(&ahead->lock);
        answer = *find_answer(ahead, request);
        if (!answer) {
                pthread_mutex_unlock(&ahead->lock);
                return false;
        }
        answer->wanted = true;
        pthread_cond_broadcast(&ahead->changed);
        /* An interrupt comes by the call itself, which it ends. */
        while (!answer->there)
                pthread_cond_wait(&ahead->changed, &ahead->lock);
        unlink_answer(ahead, answer);
        ahead->waiting_bytes -= answer->bytes;
        pthread_cond_broadcast(&ahead->changed);
        pthread_mutex_unlock(&ahead->lock);

        aws_response_release(response);
        *response = answer->response;
        *ret_result = answer->result;
        if (answer->result < 0)
                *err = answer->err;
        free(answer);
        return true;
}

/* The end */

static void release_answers(struct ahead *ahead) {
        while (ahead->answers) {
                struct answer *answer = ahead->answers;

                ahead->answers = answer->next;
                aws_response_release(&answer->response);
                free(answer);
        }
        ahead->answers_end = &ahead->answers;
        while (ahead->all) {
                struct listing *listing = ahead->all;

                ahead->all = listing->next_of_all;
                arena_free(listing->arena);
                free(listing);
        }
        ahead->line = NULL;
        ahead->line_end = &ahead->line;
        ahead->line_length = ahead->waiting_bytes = 0;
}

void aws_ahead_end(struct aws_client *client) {
        struct ahead *ahead = client->ahead;

        if (ahead->thread_count == 0)
                return;
        pthread_mutex_lock(&ahead->lock);
        ahead->ending = true;
        interrupt_raise_to(&ahead->stop, INTERRUPT_NOW);
        pthread_cond_broadcast(&ahead->changed);
        pthread_mutex_unlock(&ahead->lock);
        for (size_t i = 0; i < ahead->thread_count; i++)
                pthread_join(ahead->threads[i], NULL);
        interrupt_dispose(&ahead->stop);
        ahead->thread_count = 0;
        ahead->ending = false;
        release_answers(ahead);
}

void ahead_free(struct ahead *ahead) {
        if (!ahead)
                return;
        aws_ahead_end(ahead->client);
        pthread_cond_destroy(&ahead->changed);
        pthread_mutex_destroy(&ahead->lock);
        free(ahead);
}
