/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state has one format number. A newer Berth carries an older state forward step by step, in one write transaction
 * after a backup; an older Berth refuses a newer state. A reader never upgrades: it says what will.
 */
#include "state/migrate.h"

#include "base/files.h"
#include "base/log.h"
#include "state/backup.h"
#include "state/sealed_value.h"
#include "state/state_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Format 1 is the first: there is nothing to carry forward yet. */
const struct migration migrations[] = { { 0, NULL } };

struct migrating {
        const struct migration *steps;
        uint64_t format, newest;
        uint64_t moved; /* STATE_FORMAT_MOVED where the state has moved away, else 0 */
        const char *folder;
};

static int read_format(struct store_txn *txn, void *context, struct error *err) {
        struct migrating *migrating = context;
        int found = meta_numbers(txn, META_FORMAT, &migrating->format, 1, err);

        if (found == 0)
                return error_set(err, "the state in %s has no format number; " STATE_REMEDY,
                                 migrating->folder);
        if (found < 0)
                return -1;
        migrating->moved = migrating->format >= STATE_FORMAT_MOVED ? STATE_FORMAT_MOVED : 0;
        migrating->format -= migrating->moved;
        return 0;
}

static const struct migration *step_from(const struct migration *steps, uint64_t from) {
        for (; steps->step; steps++) {
                if (steps->from == from)
                        return steps;
        }
        return NULL;
}

static int run_steps(struct store_txn *txn, void *context, struct error *err) {
        const struct migrating *migrating = context;
        bool alive;

        /* An older Berth that is at work now would go on writing the older format. */
        if (lease_is_alive(txn, &alive, err) < 0)
                return -1;
        if (alive)
                return error_set_kind(
                        err, ERROR_LOCKED,
                        "the state in %s needs an upgrade to format %" PRIu64
                        ", but another run is using it: wait until it has ended (`berth lock show`)",
                        migrating->folder, migrating->newest);
        for (uint64_t format = migrating->format; format < migrating->newest; format++) {
                uint64_t next = format + 1, kept = next + migrating->moved;

                if (step_from(migrating->steps, format)->step(txn, err) < 0 ||
                    meta_put_numbers(txn, META_FORMAT, &kept, 1, err) < 0)
                        return error_context(err, "from format %" PRIu64 " to %" PRIu64, format, next);
        }
        return 0;
}

/* The first of before-format-N, before-format-N.2, ... that is not there yet. */
static char *backup_path(const struct migrating *migrating) {
        for (int i = 1;; i++) {
                struct strbuf name STRBUF_CLEANUP = STRBUF_INIT;
                struct stat status;
                char *path;

                strbuf_printf(&name, "before-format-%" PRIu64, migrating->newest);
                if (i > 1)
                        strbuf_printf(&name, ".%d", i);
                path = path_join(migrating->folder, strbuf_text(&name));
                if (lstat(path, &status) < 0)
                        return path;
                free(path);
        }
}

int migrate(struct store *store, const char *folder, const struct migration *steps, uint64_t newest,
            bool may_write, struct error *err) {
        struct migrating migrating = { .steps = steps, .newest = newest, .folder = folder };
        char *backup TEXT_CLEANUP = NULL;

        if (store_read(store, read_format, &migrating, err) < 0)
                return -1;
        if (migrating.format == newest)
                return 0;
        if (migrating.format > newest)
                return error_set(err,
                                 "the state in %s has format %" PRIu64
                                 ", and Berth %s knows formats up to %" PRIu64
                                 ": use the newer Berth that wrote it, or restore a backup from before",
                                 folder, migrating.format, BERTH_VERSION, newest);
        for (uint64_t format = migrating.format; format < newest; format++) {
                if (!step_from(steps, format))
                        return error_set(
                                err,
                                "the state in %s has format %" PRIu64
                                ", which Berth %s no longer reads: run `berth apply` with an older Berth first",
                                folder, migrating.format, BERTH_VERSION);
        }
        if (!may_write)
                return error_set(err,
                                 "the state in %s has the older format %" PRIu64
                                 ": the next `berth apply` makes a backup and upgrades it",
                                 folder, migrating.format);
        backup = backup_path(&migrating);
        if (backup_store(store, backup, err) < 0)
                return error_context(err, "the backup before the upgrade to format %" PRIu64, newest);
        if (store_write(store, run_steps, &migrating, err) < 0)
                return error_context(err, "the state in %s was not upgraded and is unchanged", folder);
        log_debug("state: upgraded %s to format %llu, backup in %s", folder, (unsigned long long)newest,
                  backup);
        return 0;
}
