/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file in memory, without a name, that all of them have mapped. Its size is sealed, so that no
 * mapping ever lacks a page. What stands in it was written by this same program; the variable may
 * come from anywhere, so that the descriptor is taken for nothing that it is not: seals, size and
 * mark have to be right.
 */
#include "providers/aws/client/quota_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define MARK UINT64_C(0x6265727468706163)
#define PLACES_MAX 64

struct place {
        char account[16], region[64];
        struct quota_bucket buckets[QUOTA_COUNT];
};

struct table {
        uint64_t mark;
        pthread_mutex_t lock;
        size_t count;
        struct place places[PLACES_MAX];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct table *table; /* NULL: not shared */

static int make_table(int descriptor, struct error *err) {
        struct table *fresh = MAP_FAILED;

        if (ftruncate(descriptor, sizeof(*fresh)) == 0)
                fresh = mmap(NULL, sizeof(*fresh), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (fresh == MAP_FAILED || fcntl(descriptor, F_ADD_SEALS, SEALS) < 0)
                return error_set(err, "cannot make memory for several processes: %s", strerror(errno));
        fresh->mark = MARK;
        quota_lock_init(&fresh->lock, true);
        munmap(fresh, sizeof(*fresh));
        return 0;
}

int quota_shared_new(int *ret, struct error *err) {
        int descriptor = memfd_create("berth-pace", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (descriptor < 0)
                return error_set(err, "cannot make memory for several processes: %s", strerror(errno));
        if (make_table(descriptor, err) < 0) {
                close(descriptor);
                return -1;
        }
        *ret = descriptor;
        return 0;
}

static void take_table(void) {
        const char *text = getenv(QUOTA_SHARED_VARIABLE);
        char *end;
        long number = text && *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
        struct stat status;
        struct table *mapped;

        if (number < 3 || number > 1023 || *end)
                return;
        if (fcntl((int)number, F_GET_SEALS) != SEALS || fstat((int)number, &status) < 0 ||
            status.st_size != (off_t)sizeof(*mapped))
                return;
        mapped = mmap(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_SHARED, (int)number, 0);
        if (mapped == MAP_FAILED)
                return;
        if (mapped->mark == MARK)
                table = mapped;
        else
                munmap(mapped, sizeof(*mapped));
}

struct quota_bucket *quota_shared_find(const char *account, const char *region) {
        struct place *place = NULL;

        pthread_once(&once, take_table);
        if (!table || strlen(account) >= sizeof(place->account) || strlen(region) >= sizeof(place->region))
                return NULL;
        quota_lock(&table->lock);
        for (size_t i = 0; i < table->count && i < PLACES_MAX && !place; i++) {
                if (strcmp(table->places[i].account, account) == 0 &&
                    strcmp(table->places[i].region, region) == 0)
                        place = &table->places[i];
        }
        if (!place && table->count < PLACES_MAX) {
                place = &table->places[table->count];
                memcpy(place->account, account, strlen(account) + 1);
                memcpy(place->region, region, strlen(region) + 1);
                for (int kind = 0; kind < QUOTA_COUNT; kind++)
                        quota_init_shared(&place->buckets[kind], quota_default_rate((enum quota_kind)kind));
                /* Last: a process that dies before it leaves a place that is made again. */
                table->count++;
        }
        pthread_mutex_unlock(&table->lock);
        return place ? place->buckets : NULL;
}
