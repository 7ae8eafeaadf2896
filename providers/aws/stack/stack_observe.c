/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Stack's bucket and role are, and whose; read each time, since few calls tell all of it.
 *
 * The two are seen apart, as `part`s, and joined at the end: they may differ in owner, one may be there without the other
 * (a run died between them), and either may be a former one, which Berth made and no longer manages. A setting that S3 calls
 * "not there" reads as one that is off.
 */
#include "providers/aws/stack/stack.h"

#include "base/array.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "providers/aws/client/texts.h"
#include "providers/aws/services/iam.h"
#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/lineage.h"
#include "providers/aws/shared/policy_document.h"
#include "providers/aws/shared/stage_call.h"
#include "providers/aws/stack/isolated_network.h"
#include "providers/aws/stack/session_table.h"

#include <string.h>

/* The observed bucket, or role. */
struct part {
        bool exists;
        enum ownership ownership;
        const char *owner;
        const char *lineage;   /* that its tags tell, or NULL */
        bool owner_is_lineage; /* it is another one's, of a stack of this name */
        struct value *spec;
};

/* One observation of the stack. */
struct sight {
        struct provider *provider;
        const struct wanted *wanted;
        struct arena *arena;
        struct error *err;
        struct part bucket, role, table;
        const struct value *network; /* the isolated network as read, or NULL */
        bool network_unused;
        const char *lost_vpc; /* the id of the VPC that is gone, while one is wanted; or NULL */
        bool full;            /* to be read whole, whatever it costs */
        struct left_drift_list left;
        const char *over_quota; /* of either's tags */
        const char *unknown;    /* why it is not known whether others gave the role policies; or NULL */
        bool role_unused;       /* our former role, with which no function runs any more */
        const char *role_arn;
};

/*
 * Whose a part is. One without marks that an earlier run may have made and died before marking is ours: its name is
 * only ours to give, and it was not there when that run was planned.
 */
static void set_owner(struct sight *sight, struct part *part, const struct value *tags,
                      const struct value *recorded) {
        const struct value *desired = stack_tags(sight->provider, sight->arena);

        part->exists = true;
        part->ownership = aws_ownership(sight->provider, tags, sight->arena, &part->owner);
        part->lineage = aws_lineage_of(tags);
        part->owner_is_lineage = aws_is_of_lineage(sight->provider, tags);
        if (part->ownership == OWNER_NONE && sight->wanted->must_read)
                part->ownership = OWNER_SELF;
        if (part->ownership == OWNER_SELF && !sight->over_quota)
                sight->over_quota = aws_too_many_tags(tags, desired, sight->arena);
        value_set(sight->arena, part->spec, "tags",
                  *aws_tags_of_ours(tags, desired, value_get(recorded, "tags"), sight->arena));
}

/*
 * The key that objects are encrypted with, as the Stack would write it: S3 gives back the text as
 * it was set, which may be the end of the ARN alone. Double encryption with that key (aws:kms:dsse)
 * has no bucket key, and is more than is asked for: it reads as if it had one.
 */
static void set_key(struct sight *sight, const struct value *encryption) {
        const char *algorithm = value_get_text(encryption, "algorithm"),
                   *there = value_get_text(encryption, "key"), *ours = sight->provider->kms_key;
        const char *name = ours ? strrchr(ours, '/') + 1 : NULL;
        bool kms = algorithm && strncmp(algorithm, "aws:kms", strlen("aws:kms")) == 0;
        bool bucket_key = value_get_boolean(encryption, "bucketKey", false) ||
                          (kms && strcmp(algorithm, "aws:kms:dsse") == 0);
        const struct value *recorded = value_get(sight->wanted->recorded, "bucket");
        const char *key =
                aws_observed_key(sight->provider, kms ? there : NULL, value_get_text(recorded, "kmsKey"));

        if (ours && key && strcmp(key, name) == 0 && strstr(ours, sight->provider->account))
                key = ours;
        value_set_text(sight->arena, sight->bucket.spec, "kmsKey", key);
        if (key)
                value_set_boolean(sight->arena, sight->bucket.spec, "bucketKey", !ours || bucket_key);
}

static int see_encryption(struct sight *sight, const struct s3_bucket *bucket) {
        static const char *const absent[] = { "ServerSideEncryptionConfigurationNotFoundError", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_get_bucket_encryption(bucket);
        struct value *encryption = NULL;
        const char *algorithm;

        if (aws_call_accepting(sight->provider->client, &request, absent, &response, sight->err) < 0)
                return -1;
        if (!*response.error_code && s3_read_encryption(&response, sight->arena, &encryption, sight->err) < 0)
                return -1;
        algorithm = value_get_text(encryption, "algorithm");
        set_key(sight, encryption);
        value_set_text(sight->arena, sight->bucket.spec, "encryption",
                       algorithm && *algorithm ? STACK_ENCRYPTION : NULL);
        return 0;
}

static int see_access_block(struct sight *sight, const struct s3_bucket *bucket) {
        static const char *const absent[] = { "NoSuchPublicAccessBlockConfiguration", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_get_public_access_block(bucket);
        bool all = false;

        if (aws_call_accepting(sight->provider->client, &request, absent, &response, sight->err) < 0)
                return -1;
        if (!*response.error_code &&
            s3_read_public_access_block(&response, sight->arena, &all, sight->err) < 0)
                return -1;
        value_set_boolean(sight->arena, sight->bucket.spec, "publicAccessBlock", all);
        return 0;
}

static int see_bucket_policy(struct sight *sight, const struct s3_bucket *bucket) {
        static const char *const absent[] = { "NoSuchBucketPolicy", NULL };
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_get_bucket_policy(bucket);
        json_t *statement JSON_CLEANUP =
                policy_document_tls_statement(sight->provider->partition, bucket->name);
        bool tls;

        if (aws_call_accepting(sight->provider->client, &request, absent, &response, sight->err) < 0)
                return -1;
        tls = !*response.error_code && policy_document_has(strbuf_text(&response.body), statement);
        value_set_boolean(sight->arena, sight->bucket.spec, "tlsOnly", tls);
        return 0;
}

static int see_own_bucket(struct sight *sight, const struct value *recorded) {
        static const char *const absent[] = { "NoSuchBucket", "NoSuchTagSet", NULL };
        const struct s3_bucket bucket = aws_bucket(sight->provider);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_get_bucket_tagging(&bucket);
        struct value *tags = value_new_map(sight->arena);

        if (aws_call_accepting(sight->provider->client, &request, absent, &response, sight->err) < 0)
                return error_context(sight->err, "bucket %s", bucket.name);
        if (aws_failed_with(&response, "NoSuchBucket"))
                return 0;
        if (!*response.error_code && s3_read_tagging(&response, sight->arena, &tags, sight->err) < 0)
                return -1;
        sight->bucket.spec = value_new_map(sight->arena);
        value_set_text(sight->arena, sight->bucket.spec, "name", bucket.name);
        set_owner(sight, &sight->bucket, tags, recorded);
        return 0;
}

static int see_bucket_settings(struct sight *sight) {
        const struct s3_bucket bucket = aws_bucket(sight->provider);

        if (!sight->bucket.exists)
                return 0;
        if (see_encryption(sight, &bucket) < 0 || see_access_block(sight, &bucket) < 0 ||
            see_bucket_policy(sight, &bucket) < 0)
                return error_context(sight->err, "bucket %s", bucket.name);
        return 0;
}

static int see_managed_bucket(struct sight *sight, const struct value *recorded) {
        return see_own_bucket(sight, recorded) < 0 ? -1 : see_bucket_settings(sight);
}

/* A foreign bucket, used by us: it only has to exist. */
static int see_shared_bucket(struct sight *sight) {
        static const char *const absent[] = { "NotFound", "NoSuchBucket", NULL };
        const struct s3_bucket bucket = aws_bucket(sight->provider);
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_head_bucket(&bucket);

        sight->bucket.spec = value_new_map(sight->arena);
        value_set_text(sight->arena, sight->bucket.spec, "name", bucket.name);
        if (!sight->wanted->desired)
                return 0;
        if (aws_call_accepting(sight->provider->client, &request, absent, &response, sight->err) < 0)
                return error_context(sight->err, "bucket %s", bucket.name);
        if (!*response.error_code)
                return 0;
        return error_set(
                sight->err,
                "the bucket %s does not exist, and this stack does not make it (createBucket: false): apply "
                "the stack that owns it first, or set createBucket: true",
                bucket.name);
}

/* The role, managed or former. */
static int see_role(struct sight *sight, const char *name, const struct value *recorded) {
        struct provider *provider = sight->provider;
        const struct execution_role_look look = {
                .of = STACK_ROLE,
                .name = name,
                .recorded = recorded,
                .wished = provider->manages_role
                                  ? stack_desired_role(provider, sight->wanted->recorded, sight->arena)
                                  : NULL,
                .begun = sight->wanted->must_read,
                .full = sight->full,
                .member = "role",
                .accept = "aws.accept",
                .accepted = value_path(provider->stack, "aws.accept"),
        };
        struct execution_role_sight seen;

        if (execution_role_read(provider, &look, sight->arena, &seen, sight->err) < 0)
                return -1;
        if (!seen.exists)
                return 0;
        sight->role.spec = seen.spec;
        set_owner(sight, &sight->role, seen.tags, recorded);
        stack_note_role(provider, seen.id);
        sight->role_arn = seen.arn;
        sight->left = seen.left;
        sight->unknown = seen.unknown;
        return 0;
}

/* Any function of the account counts: stacks that share a bucket may share its owner's role as well. */
static int see_use(struct sight *sight, const char *name) {
        const char **functions;
        size_t count = 1;

        if (strcmp(execution_role_name_in(sight->provider->execution_role), name) != 0 &&
            stack_role_functions(sight->provider, name, sight->arena, &functions, &count, sight->err) < 0)
                return -1;
        sight->role_unused = count == 0;
        return 0;
}

/* The role that we made before an executionRole was given: of no matter once it is gone, or is not ours any more. */
static int see_former_role(struct sight *sight, const struct value *recorded) {
        const char *name = stack_own_role(recorded);

        if (!name)
                return 0;
        if (see_role(sight, name, value_get(recorded, "role")) < 0)
                return -1;
        if (!sight->role.exists || sight->role.ownership != OWNER_SELF) {
                sight->role = (struct part){ 0 };
                return 0;
        }
        return sight->wanted->desired ? see_use(sight, name) : 0;
}

/* The bucket that we made before createBucket became false is still used, and goes with the stack. */
static int see_former_bucket(struct sight *sight, const struct value *recorded) {
        if (stack_own_bucket(recorded)) {
                if (see_own_bucket(sight, value_get(recorded, "bucket")) < 0)
                        return -1;
                if (sight->bucket.exists && sight->bucket.ownership == OWNER_SELF)
                        return stack_has_bucket(recorded) ? see_bucket_settings(sight) : 0;
                sight->bucket = (struct part){ 0 };
        }
        return see_shared_bucket(sight);
}

/*
 * Only if it is wanted or was made: it takes seven calls, and rights that others do not need. A run
 * that died or failed may have begun it without a record of it: then one call more is made; without
 * the right to that call, none was begun.
 */
static int see_network(struct sight *sight, const struct value *recorded) {
        struct provider *provider = sight->provider;
        bool wanted = sight->wanted->desired && isolated_network_is_wanted(provider);
        bool known = wanted || value_get(recorded, ISOLATED_NETWORK) || isolated_network_is_former(recorded);
        struct isolated_interfaces interfaces;
        struct value *seen;

        isolated_network_note(provider, NULL);
        if (!known && !sight->wanted->must_read)
                return 0;
        if (isolated_network_read(provider, sight->wanted->last, !known, sight->arena, &seen, sight->err) < 0)
                return -1;
        if (!value_get(seen, "vpc")) {
                sight->network_unused = known;
                sight->lost_vpc = wanted ? value_get_text(seen, "known") : NULL;
                isolated_network_note(provider, seen);
                return wanted ? isolated_network_check(seen, sight->err) : 0;
        }
        sight->network = seen;
        isolated_network_note(provider, seen);
        if (wanted || (known && !isolated_network_is_said(provider)) || !sight->wanted->desired)
                return 0;
        if (isolated_network_interfaces(provider, provider->isolated.vpc, sight->arena, &interfaces,
                                        sight->err) < 0)
                return -1;
        sight->network_unused = interfaces.count == 0;
        return 0;
}

/*
 * The table that this stack made, under whichever name, or else the one that it is to make. A table
 * that is declared as another's has to exist, and nothing more. Where neither manifest nor record
 * says a word of sessions no call is made.
 */
static int see_table(struct sight *sight, const struct value *recorded) {
        struct provider *provider = sight->provider;
        const char *own = session_table_own(recorded);
        const char *wish = sight->wanted->desired ? session_table_declared(provider) : NULL;
        bool managed = wish && session_table_is_managed(provider);
        const char *name = own ? own : managed ? wish : NULL;
        struct session_table_sight seen = { 0 };

        session_table_note(provider, recorded);
        if (name && session_table_read(provider, name, value_get(recorded, SESSIONS), sight->arena, &seen,
                                       sight->err) < 0)
                return -1;
        if (seen.spec) {
                sight->table.spec = seen.spec;
                set_owner(sight, &sight->table, seen.tags, value_get(recorded, SESSIONS));
                /*
                 * It is made with its marks, under a name that any tool may use: no run that died
                 * has made one without them.
                 */
                sight->table.ownership =
                        aws_ownership(provider, seen.tags, sight->arena, &sight->table.owner);
                /* It belongs to others now: it is not for us to give up. */
                if (own && !managed && sight->table.ownership != OWNER_SELF)
                        sight->table = (struct part){ 0 };
        }
        if (wish && !managed && session_table_check(provider, wish, sight->err) < 0)
                return -1;
        return sight->full && (own || wish)
                       ? session_table_note_orphans(provider, own, sight->arena, sight->err)
                       : 0;
}

/* A foreign one is not read: it is as it was recorded. */
static void set_table(const struct sight *sight, struct value *spec) {
        const struct value *recorded = sight->wanted->recorded;
        const char *name = value_text_of(value_path(recorded, SESSIONS_TABLE));
        struct value *sessions = sight->table.spec;
        bool former = value_get_text(recorded, STACK_FORMER_TABLE) != NULL;

        if (former && sessions && sight->table.ownership == OWNER_SELF)
                value_set_text(sight->arena, spec, STACK_FORMER_TABLE,
                               value_get_text(recorded, STACK_FORMER_TABLE));
        if (!sessions || (former && !session_table_is_managed(sight->provider))) {
                if (!name || session_table_has_settings(recorded))
                        return;
                sessions = value_new_map(sight->arena);
                value_set_text(sight->arena, sessions, "table", name);
        }
        value_set(sight->arena, spec, SESSIONS, *sessions);
}

static void set_network(const struct sight *sight, struct value *spec) {
        const struct value *recorded = sight->wanted->recorded;

        if (!sight->network)
                return;
        /* It is not wanted, and was never recorded as wanted. */
        if (!value_get(recorded, ISOLATED_NETWORK) && !isolated_network_is_wanted(sight->provider))
                value_set_text(sight->arena, spec, ISOLATED_FORMER, ISOLATED_KEPT);
        else
                value_set(sight->arena, spec, ISOLATED_NETWORK,
                          *isolated_network_spec(sight->provider, sight->network,
                                                 value_get(recorded, ISOLATED_NETWORK), sight->arena));
}

/*
 * Names follow from namePrefix: under another one everything would be made again and the old left
 * without an owner.
 */
static int check_kept_name(const struct sight *sight, const char *path, const char *name) {
        const char *recorded = value_text_of(value_path(sight->wanted->recorded, path));

        if (!recorded || strcmp(recorded, name) == 0)
                return 0;
        return error_set(
                sight->err,
                "this stack was applied with %s %s, and would now use %s: namePrefix, account and region "
                "of a stack cannot change. Set them back, or destroy the stack under its old ones first",
                strncmp(path, "bucket", 6) == 0 ? "the bucket" : "the role", recorded, name);
}

/* Where the Stack names its account `validate` says so; else only now is it known whose the credentials are. */
static int check_role_account(const struct sight *sight) {
        const struct provider *provider = sight->provider;
        const char *role = provider->execution_role, *in_role = role ? strstr(role, ":iam::") : NULL;

        if (!sight->wanted->desired || provider->manages_role || !in_role ||
            strncmp(in_role + strlen(":iam::"), provider->account, strlen(provider->account)) == 0)
                return 0;
        return error_set(
                sight->err,
                "aws.executionRole %s is in account %.12s, the stack in %s: functions run with roles of "
                "their own account alone",
                role, in_role + strlen(":iam::"), provider->account);
}

/* What the spec says of the bucket: all of it where it is managed, or was when last applied. */
static void set_bucket(const struct sight *sight, struct value *spec) {
        const struct value *recorded = sight->wanted->recorded;
        struct value *bucket = sight->bucket.spec;

        if (!bucket)
                return;
        if (!sight->provider->manages_bucket && !stack_has_bucket(recorded)) {
                bucket = value_new_map(sight->arena);
                value_set_text(sight->arena, bucket, "name", sight->provider->bucket);
        }
        value_set(sight->arena, spec, "bucket", *bucket);
        if (sight->bucket.exists && sight->bucket.ownership == OWNER_SELF)
                value_set_text(sight->arena, spec, STACK_FORMER_BUCKET,
                               value_get_text(recorded, STACK_FORMER_BUCKET));
}

/* An executionRole is not to be seen anywhere: it is as it was recorded, until this stack says otherwise. */
static void set_role(const struct sight *sight, struct value *spec) {
        const struct value *recorded = sight->wanted->recorded;
        const char *arn = value_text_of(value_path(recorded, "role.arn"));
        bool shown = sight->provider->manages_role || stack_has_role(recorded);
        struct value *role = shown && sight->role.spec ? sight->role.spec : value_new_map(sight->arena);

        if (!arn && !sight->provider->manages_role && !(shown && sight->role.spec))
                arn = sight->provider->execution_role;
        value_set_text(sight->arena, role, "arn", arn);
        if (role->count > 0)
                value_set(sight->arena, spec, "role", *role);
        if (sight->role.exists && sight->role.ownership == OWNER_SELF)
                value_set_text(sight->arena, spec, STACK_FORMER_ROLE,
                               value_get_text(recorded, STACK_FORMER_ROLE));
}

/*
 * For people: who last applied what belongs to another lineage, " by anna@ci-7, 2026-01-31T..."; ""
 * if unknown.
 */
static const char *last_hand(const struct sight *sight, const struct part *part) {
        struct lineage_note note = { 0 };
        struct error ignored;

        if (!part->lineage || lineage_is_ours(sight->provider, part->lineage) ||
            lineage_read(sight->provider, part->lineage, sight->arena, &note, &ignored) < 0 || !note.lineage)
                return "";
        return arena_printf(sight->arena, ", last applied by %s at %s from %s", note.who ? note.who : "?",
                            note.at ? note.at : "?", note.folder ? note.folder : "?");
}

/* "the bucket X exists and belongs to ...", joined to what was said of the part before. */
static const char *add_claim(const struct sight *sight, const char *before, const struct part *part,
                             const char *what, const char *name) {
        return arena_printf(sight->arena, "%s%sthe %s %s exists and belongs to %s%s", before ? before : "",
                            before ? "; " : "", what, name,
                            part->owner ? part->owner : "no stack that Berth knows",
                            before ? "" : last_hand(sight, part));
}

static bool is_foreign(const struct part *part) {
        return part->exists && part->ownership != OWNER_SELF;
}

/* Whose it is, and what to do where it is not ours: it is never the Stack's own name that is taken. */
static void set_ownership(const struct sight *sight, struct observation *ret) {
        const struct part *const parts[] = { &sight->bucket, &sight->role, &sight->table };

        sight->provider->owns_bucket = sight->bucket.exists && sight->bucket.ownership == OWNER_SELF;
        ret->ownership = OWNER_SELF;
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
                if (!is_foreign(parts[i]) || ret->ownership == OWNER_OTHER)
                        continue;
                ret->ownership = parts[i]->ownership;
                if (parts[i]->owner_is_lineage)
                        ret->lineage = parts[i]->lineage;
                ret->owner = parts[i]->owner;
        }
        if (is_foreign(&sight->bucket)) {
                ret->claim = add_claim(sight, NULL, &sight->bucket, "bucket", sight->provider->bucket);
                ret->claim_remedy =
                        arena_printf(sight->arena,
                                     "give this stack another aws.namePrefix, or let it share the bucket "
                                     "(aws.createBucket: false, with an aws.executionRole)%s",
                                     sight->bucket.lineage ? AWS_LOST_STATE : "");
        }
        if (is_foreign(&sight->role)) {
                ret->claim = add_claim(sight, ret->claim, &sight->role, "role",
                                       value_get_text(sight->role.spec, "name"));
                if (!ret->claim_remedy)
                        ret->claim_remedy = "give this stack another aws.namePrefix, or name the role that "
                                            "its functions shall run with in aws.executionRole";
        }
        if (is_foreign(&sight->table)) {
                ret->claim = add_claim(sight, ret->claim, &sight->table, "table",
                                       value_get_text(sight->table.spec, "table"));
                if (!ret->claim_remedy)
                        ret->claim_remedy = "name another table in sessions.table, or use this one as it is "
                                            "(sessions.createTable: false)";
        }
}

/* value_equal() takes an empty text for none, which a tag's is not. */
static bool is_as_last(const struct value *last, const struct value *spec) {
        return value_equal(last, spec, NULL) &&
               aws_tags_same(value_path(last, "bucket.tags"), value_path(spec, "bucket.tags")) &&
               aws_tags_same(value_path(last, "role.tags"), value_path(spec, "role.tags")) &&
               aws_tags_same(value_path(last, SESSIONS_TAGS), value_path(spec, SESSIONS_TAGS)) &&
               aws_tags_same(value_path(last, ISOLATED_NETWORK ".tags"),
                             value_path(spec, ISOLATED_NETWORK ".tags"));
}

/* Bucket, role and table as one observation. */
static void join_parts(const struct sight *sight, struct observation *ret) {
        const struct provider *provider = sight->provider;
        struct value *spec = value_new_map(sight->arena);

        /* Of a stack that only uses what others own, the record is all there is. */
        ret->exists = provider->manages_bucket || provider->manages_role
                              ? sight->bucket.exists || sight->role.exists || sight->table.exists
                              : sight->wanted->recorded != NULL;
        if (!ret->exists)
                return;
        ret->id = provider->bucket;
        ret->left = sight->left.items;
        ret->left_count = sight->left.count;
        ret->over_quota = sight->wanted->desired ? sight->over_quota : NULL;
        ret->over_quota_remedy = AWS_FEWER_TAGS;
        set_ownership(sight, ret);
        set_bucket(sight, spec);
        set_role(sight, spec);
        set_network(sight, spec);
        set_table(sight, spec);
        ret->spec = spec;
        if (sight->role_unused || sight->network_unused || sight->network) {
                struct value *extra = value_new_map(sight->arena);

                value_set_boolean(sight->arena, extra, STACK_ROLE_UNUSED, sight->role_unused);
                value_set_boolean(sight->arena, extra, ISOLATED_UNUSED, sight->network_unused);
                /* A VPC that is gone stays known until the next one is made: else a copy would only have to come after a plan. */
                value_set_text(sight->arena, extra, ISOLATED_VPC_ID,
                               sight->network ? value_get_text(sight->network, "vpc") : sight->lost_vpc);
                ret->extra = extra;
        }
        /* The same spec as last time is handed back as it was: nothing new to be stored. */
        if (sight->wanted->last && is_as_last(sight->wanted->last->spec, spec))
                ret->spec = sight->wanted->last->spec;
}

static int observe_stack(struct sight *sight, struct observation *ret) {
        struct provider *provider = sight->provider;
        const struct value *recorded = sight->wanted->recorded;

        provider->owns_bucket = false;
        stack_note_role(provider, NULL);
        if (!provider->bucket)
                return 0;
        if (sight->wanted->desired && stack_check_key(provider, sight->arena, sight->err) < 0)
                return -1;
        if (check_role_account(sight) < 0 || check_kept_name(sight, "bucket.name", provider->bucket) < 0)
                return -1;
        if (provider->manages_role &&
            check_kept_name(sight, "role.name", execution_role_name(provider, STACK_ROLE, sight->arena)) < 0)
                return -1;
        if (provider->manages_bucket) {
                if (see_managed_bucket(sight, value_get(recorded, "bucket")) < 0)
                        return -1;
        } else if (see_former_bucket(sight, recorded) < 0) {
                return -1;
        }
        if (provider->manages_role) {
                if (see_role(sight, execution_role_name(provider, STACK_ROLE, sight->arena),
                             value_get(recorded, "role")) < 0)
                        return -1;
        } else if (see_former_role(sight, recorded) < 0) {
                return -1;
        }
        if (see_network(sight, recorded) < 0 || see_table(sight, recorded) < 0)
                return -1;
        /* Where networks are a matter at all: others may have neither the right nor a way to EC2. */
        if (sight->full && (isolated_network_is_said(provider) || *provider->isolated.known) &&
            isolated_network_note_orphans(provider, sight->arena, sight->err) < 0)
                return -1;
        provider->role_missing = provider->manages_role && !sight->role.exists;
        /* It was found by its name: at which path, only its ARN says, and functions need the whole of it. */
        if (provider->manages_role)
                provider->execution_role =
                        arena_strdup(provider->arena,
                                     execution_role_wished_arn(
                                             provider,
                                             execution_role_desire(provider, STACK_ROLE,
                                                                   value_get(recorded, "role"), sight->arena),
                                             sight->role_arn, sight->arena));
        join_parts(sight, ret);
        return 0;
}

static void read_own_bucket_ahead(struct provider *provider, bool settings) {
        const struct s3_bucket bucket = aws_bucket(provider);
        const struct aws_request requests[] = {
                s3_get_bucket_tagging(&bucket),
                s3_get_bucket_encryption(&bucket),
                s3_get_public_access_block(&bucket),
                s3_get_bucket_policy(&bucket),
        };

        for (size_t i = 0; i < (settings ? sizeof(requests) / sizeof(requests[0]) : 1); i++)
                aws_ahead(provider->client, &requests[i]);
}

/* Bucket and role that the stack manages; what was there the last time is taken to be there. Others are a call or two. */
void stack_read_ahead(struct provider *provider, const struct observe_args *args) {
        for (size_t i = 0; i < args->count && provider->bucket; i++) {
                const struct observation *last = args->wanted[i].last;

                if (strcmp(args->wanted[i].name, provider->stack_name) != 0)
                        continue;
                if (args->wanted[i].desired)
                        stack_read_key_ahead(provider, args->arena);
                session_table_read_ahead(provider, args->wanted[i].recorded, args->arena);
                if (provider->manages_bucket)
                        read_own_bucket_ahead(provider, last && stack_has_bucket(last->spec));
                if (provider->manages_role)
                        execution_role_read_ahead(provider,
                                                  execution_role_name(provider, STACK_ROLE, args->arena),
                                                  last && stack_has_role(last->spec),
                                                  args->refresh == REFRESH_FULL, args->arena);
        }
}

int stack_observe(struct provider *provider, const struct observe_args *args, struct observation *ret,
                  struct error *err) {
        for (size_t i = 0; i < args->count; i++) {
                struct sight sight = {
                        .provider = provider,
                        .wanted = &args->wanted[i],
                        .arena = args->arena,
                        .err = err,
                        .full = args->refresh == REFRESH_FULL,
                };

                ret[i] = (struct observation){ .name = args->wanted[i].name };
                if (strcmp(args->wanted[i].name, provider->stack_name) == 0 &&
                    observe_stack(&sight, &ret[i]) < 0)
                        return -1;
                if (sight.unknown)
                        aws_warn(
                                &ret[i],
                                arena_printf(
                                        args->arena,
                                        "whether others gave the execution role more rights is not known: %s",
                                        sight.unknown),
                                args->arena);
        }
        aws_warn_of_old_marks(provider, "Stack", "bucket.tags", ret, args->count, args->arena);
        return 0;
}
