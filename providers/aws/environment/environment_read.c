/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few threads take numbers from one counter until all are read or one has failed. The pace is kept by the client's
 * quota (GetFunction has one of 100 a second); the threads are there to keep that many calls on the way. Each read
 * belongs to one thread, so only the first error needs the lock.
 */
#include "providers/aws/environment/environment_read.h"

#include <pthread.h>
#include <stdatomic.h>

#define READERS 8

struct reading {
        struct aws_client *client;
        struct function_read *reads;
        size_t count;
        atomic_size_t next;
        atomic_bool failed;
        pthread_mutex_t lock; /* of `error` */
        struct error error;
};

static int read_one(struct aws_client *client, struct function_read *read, struct error *err) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;

        if (aws_call(client, &read->request, &response, err) < 0)
                return aws_failed_with(&response, "ResourceNotFoundException") ? 0 : -1;
        read->function = json_incref(response.json);
        return 0;
}

static void *read_some(void *argument) {
        struct reading *reading = argument;

        while (!atomic_load(&reading->failed)) {
                size_t i = atomic_fetch_add(&reading->next, 1);
                struct error failure;

                if (i >= reading->count)
                        break;
                if (read_one(reading->client, &reading->reads[i], &failure) == 0)
                        continue;
                pthread_mutex_lock(&reading->lock);
                if (!atomic_exchange(&reading->failed, true))
                        reading->error = failure;
                pthread_mutex_unlock(&reading->lock);
        }
        return NULL;
}

int environment_read_all(struct aws_client *client, struct function_read *reads, size_t count,
                         struct error *err) {
        struct reading reading = { .client = client, .reads = reads, .count = count };
        pthread_t readers[READERS];
        size_t started = 0;

        pthread_mutex_init(&reading.lock, NULL);
        /* This thread reads too, so that it works with no other. */
        while (started < READERS && started + 1 < count &&
               pthread_create(&readers[started], NULL, read_some, &reading) == 0)
                started++;
        read_some(&reading);
        for (size_t i = 0; i < started; i++)
                pthread_join(readers[i], NULL);
        pthread_mutex_destroy(&reading.lock);
        if (!reading.failed)
                return 0;
        for (size_t i = 0; i < count; i++) {
                json_decref(reads[i].function);
                reads[i].function = NULL;
        }
        *err = reading.error;
        return -1;
}
