/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a policy's rules into the bucket's lifecycle document, which is one for all: other stacks and other people
 * have rules there, and a PUT replaces everything and takes no condition. So it is read just before it is written, by
 * one writer at a time: within this process the changes take turns, between processes they take the lock object.
 */
#include "providers/aws/workspace_policy/workspace_policy.h"

#include "base/digest.h"
#include "base/log.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/lock.h"
#include "providers/aws/shared/stage_call.h"
#include "providers/aws/workspace_policy/workspace_rules.h"

#include <string.h>

#define LOCK_KEY "berth/locks/lifecycle"
#define LOCK_WAIT_MS 1000
#define LOCK_PATIENCE_MS (10 * 60 * 1000)
#define TURN_WAIT_MS 50
#define RENEWALS_MAX 5
#define BUCKET_LOOKS_MAX 60 /* a second apart */

enum policy_stage {
        STAGE_BEGIN,
        STAGE_TAKE,
        STAGE_LOOK,
        STAGE_TAKE_OVER,
        STAGE_READ,
        STAGE_WRITE,
        STAGE_RELEASE,
        STAGE_COUNT
};

/* Whether the document must be written: what only the state knows (maxDownloadFileMB) changes without a call. */
static bool changes_rules(const struct change *change) {
        struct arena *arena ARENA_CLEANUP = arena_new();
        int64_t there = workspace_policy_rules(change->observed);

        /* The bucket's content decides, never the record. */
        if (change->action == ACTION_DELETE || workspace_rules_count(change->desired) == 0)
                return there != 0;
        if (there == 0)
                return true;
        return !value_equal(workspace_rules_spec(change->desired, arena),
                            workspace_rules_spec(change->observed->spec, arena), NULL);
}

/* Among the changes of this process one is let in at a time; no thread waits for it. */
static bool take_turn(struct stage_turn *turn) {
        struct provider *provider = turn->provider;
        bool entered;

        pthread_mutex_lock(&provider->lifecycle_lock);
        if (!provider->lifecycle_holder)
                provider->lifecycle_holder = turn->change;
        entered = provider->lifecycle_holder == turn->change;
        pthread_mutex_unlock(&provider->lifecycle_lock);
        return entered;
}

/* The lock object, where this one has taken it, goes stale with the process. */
void workspace_policy_abandon(struct provider *provider, const struct change *change) {
        pthread_mutex_lock(&provider->lifecycle_lock);
        if (provider->lifecycle_holder == change)
                provider->lifecycle_holder = NULL;
        pthread_mutex_unlock(&provider->lifecycle_lock);
}

/* Deleting rules from a bucket that is gone is done. A bucket that was just made may not be known to all of S3 yet. */
static int without_bucket(struct stage_turn *turn) {
        if (turn->change->action == ACTION_DELETE)
                return STEP_DONE;
        if (stage_start_over(turn, STAGE_TAKE, "withoutBucket", BUCKET_LOOKS_MAX) == STEP_AGAIN)
                return STEP_AGAIN;
        return error_set(turn->err, "the bucket %s does not exist", turn->provider->bucket);
}

static int wait_for_lock(struct stage_turn *turn) {
        struct value *data = stage_data(turn);
        const struct clock *clock = aws_client_clock(turn->provider->client);
        int64_t now = clock->monotonic_ms(clock), since = value_get_integer(data, "waitingSinceMs", now);

        value_set_integer(turn->progress->arena, data, "waitingSinceMs", since);
        if (now - since > LOCK_PATIENCE_MS)
                return error_set(turn->err,
                                 "the lock s3://%s/" LOCK_KEY
                                 " has been held by others for %d minutes: that object names the "
                                 "holder; if it is not at work, delete the object",
                                 turn->provider->bucket, LOCK_PATIENCE_MS / 60000);
        turn->progress->waiting_for = "for another run that writes the bucket's lifecycle";
        return stage_wait(turn, LOCK_WAIT_MS / 2 + (int64_t)(LOCK_WAIT_MS * random_unit()));
}

/* From the result of the lock's call to the stage that goes on from there. */
static int follow_lock(struct stage_turn *turn, int result) {
        switch (result) {
        case LOCK_HELD:
                return stage_enter(turn, STAGE_READ);
        case LOCK_FREE:
                return stage_enter(turn, STAGE_TAKE);
        case LOCK_STALE:
                return stage_enter(turn, STAGE_TAKE_OVER);
        case LOCK_BUSY:
                stage_enter(turn, STAGE_LOOK);
                return wait_for_lock(turn);
        case LOCK_NO_BUCKET:
                return without_bucket(turn);
        default:
                return result;
        }
}

static int lock_lifecycle(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);

        if (!take_turn(turn)) {
                turn->progress->waiting_for = "for its turn at the bucket's lifecycle";
                return stage_wait(turn, TURN_WAIT_MS);
        }
        return follow_lock(turn, lock_take(turn, &bucket, LOCK_KEY));
}

static int look_at_lock(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);

        return follow_lock(turn, lock_look(turn, &bucket, LOCK_KEY));
}

static int take_lock_over(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);

        return follow_lock(turn, lock_take_over(turn, &bucket, LOCK_KEY));
}

/* The rules of others, then this policy's. */
static int merge_rules(struct stage_turn *turn, const struct workspace_rules *there,
                       struct xml_document *ret) {
        const struct change *change = turn->change;
        const char *stack = turn->provider->stack_name;
        size_t others = 0, own = change->desired ? workspace_rules_count(change->desired) : 0;

        for (size_t i = 0; i < there->count; i++) {
                if (workspace_rules_owns(there->items[i].id, stack, change->name))
                        continue;
                workspace_rules_copy(xml_root(ret), there->items[i].node, turn->progress->arena);
                others++;
        }
        if (own > 0 && others + own > WORKSPACE_RULES_MAX)
                return error_set(
                        turn->err,
                        "the bucket %s has %zu other lifecycle rules, and this policy takes %zu: S3 takes %d "
                        "a bucket",
                        turn->provider->bucket, others, own, WORKSPACE_RULES_MAX);
        if (own > 0)
                workspace_rules_add(xml_root(ret), stack, change->name, change->desired,
                                    turn->progress->arena);
        return 0;
}

/* What another state wrote since the plan is not for this change to replace. */
static int check_owner(const struct stage_turn *turn, const struct workspace_rules *there) {
        const struct change *change = turn->change;
        const char *rival = workspace_policy_rival(turn->provider, there, change->name);

        if (!rival || (change->observed->exists && change->observed->ownership != OWNER_SELF))
                return 0;
        return error_set(turn->err, "the lifecycle rules of %s were written meanwhile by %s: plan again",
                         change->address,
                         lineage_owner(turn->provider->stack_name, rival, turn->progress->arena));
}

/* Whether the bucket has the policy's rules already, or none where there shall be none. */
static bool is_as_desired(struct stage_turn *turn, const struct workspace_rules *there) {
        const struct change *change = turn->change;
        struct arena *arena = turn->progress->arena;
        const struct value *own =
                workspace_rules_read(there, turn->provider->stack_name, change->name, change->desired, arena);

        if (!own)
                return change->action == ACTION_DELETE || workspace_rules_count(change->desired) == 0;
        return change->action != ACTION_DELETE && workspace_rules_count(change->desired) > 0 &&
               value_equal(own, workspace_rules_spec(change->desired, arena), NULL);
}

/*
 * Reads the document and makes of it what the next stage writes, as text in `data`: "" where no
 * rule is left. If the policy's rules are as they shall be, another tool or a try whose answer was
 * lost has written them: nothing is.
 */
static int read_document(struct stage_turn *turn) {
        static const char *const none[] = { "NoSuchLifecycleConfiguration", "NoSuchBucket", NULL };
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        struct xml_document *before XML_CLEANUP = NULL;
        struct xml_document *after XML_CLEANUP = xml_new("LifecycleConfiguration", S3_NAMESPACE);
        struct strbuf text STRBUF_CLEANUP = STRBUF_INIT;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_get_lifecycle(&bucket);
        struct workspace_rules there = { 0 };
        int result = stage_call(turn, &request, none, &response);

        if (result != 0)
                return result;
        if (aws_failed_with(&response, "NoSuchBucket"))
                return without_bucket(turn);
        if (!*response.error_code) {
                if (s3_read_lifecycle(&response, &before, turn->err) < 0)
                        return -1;
                there = workspace_rules_index(xml_root(before), turn->progress->arena);
        }
        if (check_owner(turn, &there) < 0)
                return -1;
        if (is_as_desired(turn, &there))
                return stage_enter(turn, STAGE_RELEASE);
        if (merge_rules(turn, &there, after) < 0)
                return -1;
        xml_write(after, &text);
        value_set_text(turn->progress->arena, stage_data(turn), "minimumSize", response.minimum_size);
        value_set_text(turn->progress->arena, stage_data(turn), "lifecycle",
                       xml_child(xml_root(after), "Rule") ? strbuf_text(&text) : "");
        return STAGE_OVER;
}

static int write_document(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        const char *text = value_get_text(turn->progress->data, "lifecycle");
        const char *minimum_size = value_get_text(turn->progress->data, "minimumSize");
        struct aws_request request = text && *text
                                             ? s3_put_lifecycle(&bucket, text, strlen(text), minimum_size)
                                             : s3_delete_lifecycle(&bucket);

        /*
         * After a slow answer, or a wait for the quota, the document was read too long ago: others
         * may take the lock for stale now, and write in between.
         */
        if (lock_is_ageing(turn))
                return stage_start_over(turn, STAGE_TAKE_OVER, "renewals", RENEWALS_MAX) == STEP_AGAIN
                               ? STEP_AGAIN
                               : error_set(
                                         turn->err,
                                         "the bucket %s answers too slowly: the lock on its lifecycle was "
                                         "renewed %d times, and each time half of its minute was over before "
                                         "the rules could be written; try again later",
                                         bucket.name, RENEWALS_MAX);
        return stage_call_over(turn, request, NULL);
}

/* The change ends here, well or with the failure that was kept for after the lock's release. */
static int release_lock(struct stage_turn *turn) {
        const struct s3_bucket bucket = aws_bucket(turn->provider);
        const char *failure = value_get_text(turn->progress->data, "failure");
        struct error ignored = { 0 };
        struct stage_turn quiet = *turn;
        int result;

        /* A lock that stays behind blocks others only for a while. */
        quiet.err = &ignored;
        result = lock_release(&quiet, &bucket, LOCK_KEY);
        if (result == STEP_AGAIN)
                return STEP_AGAIN;
        if (result < 0)
                log_debug("the lock " LOCK_KEY " could not be released: %s", ignored.message);
        return failure ? error_set(turn->err, "%s", failure) : STAGE_OVER;
}

static const struct stage stages[STAGE_COUNT] = {
        [STAGE_TAKE] = { "s3", NULL, changes_rules, lock_lifecycle },
        [STAGE_LOOK] = { NULL, NULL, NULL, look_at_lock },
        [STAGE_TAKE_OVER] = { NULL, NULL, NULL, take_lock_over },
        [STAGE_READ] = { "s3", NULL, changes_rules, read_document },
        [STAGE_WRITE] = { "s3", NULL, changes_rules, write_document },
        [STAGE_RELEASE] = { "s3", NULL, changes_rules, release_lock },
};

void workspace_policy_cost(const struct provider *provider, const struct change *change, struct cost *ret) {
        (void)provider;
        stage_cost(stages, STAGE_COUNT, change, ret);
}

/* A failure while the lock is held is kept until it is released. */
static int keep_failure(struct stage_turn *turn) {
        if (!value_get_text(turn->progress->data, "lockEtag") || turn->progress->stage == STAGE_RELEASE) {
                workspace_policy_abandon(turn->provider, turn->change);
                return -1;
        }
        value_set_text(turn->progress->arena, stage_data(turn), "failure", turn->err->message);
        return stage_enter(turn, STAGE_RELEASE);
}

int workspace_policy_step(struct provider *provider, const struct change *change, struct progress *progress,
                          struct observation *ret_observed, struct error *err) {
        struct observation observed = { 0 };
        struct error failure = { 0 };
        struct stage_turn turn = { provider, change, progress, &observed, &failure };
        int result = stage_step(stages, STAGE_COUNT, &turn);

        if (result < 0)
                result = keep_failure(&turn);
        if (result < 0) {
                *err = failure;
                return -1;
        }
        if (result != STEP_DONE)
                return result;
        workspace_policy_abandon(provider, change);
        if (change->action == ACTION_DELETE)
                *ret_observed = (struct observation){ .name = change->name };
        else
                *ret_observed =
                        workspace_policy_seen(provider, change->name, change->desired,
                                              workspace_rules_count(change->desired), progress->arena);
        return STEP_DONE;
}
