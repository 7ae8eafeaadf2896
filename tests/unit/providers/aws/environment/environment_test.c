/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/environment/environment.h"
#include "providers/aws/shared/stage.h"

#include "providers/aws/shared/aws_tags.h"
#include "providers/aws/shared/support.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void assert_json(const json_t *found, const char *expected) {
        json_t *json JSON_CLEANUP = json_loads(expected, 0, NULL);

        assert_non_null(json);
        if (!json_equal(found, json))
                print_message("found %s\n", json_compact(found));
        assert_true(json_equal(found, json));
}

/* --- reading --- */

#define PLAIN                                                                                                    \
        "\"memoryMB\": 2048, \"workspaceStorageMB\": 512, \"timeoutSeconds\": 900, \"tenantIsolation\": false, " \
        "\"architecture\": \"x86_64\", \"role\": \"r\""
#define CONFIGURATION "\"MemorySize\": 2048, \"Timeout\": 900, \"Role\": \"r\""

static const struct {
        const char *name, *function;
        const char *variables, *recorded_variables; /* ours */
        int64_t retention;
        const char *spec; /* sensitive texts are null */
} functions[] = {
        { "as little as there can be", "{\"Configuration\": {" CONFIGURATION "}}", NULL, NULL, 0,
          "{" PLAIN ", \"image\": {}, \"tags\": {}}" },
        { "everything",
          "{\"Configuration\": {\"MemorySize\": 10240, \"Timeout\": 900, \"Role\": \"r\", \"Description\": \"d\", "
          "\"EphemeralStorage\": {\"Size\": 1024}, \"TenancyConfig\": {\"TenantIsolationMode\": \"PER_TENANT\"}, "
          "\"Architectures\": [\"arm64\"], \"Environment\": {\"Variables\": {\"AA\": \"1\"}}}, \"Code\": "
          "{\"ImageUri\": \"" REGISTRY "/a@sha256:" A "\", \"ResolvedImageUri\": \"" REGISTRY "/a@sha256:" B
          "\"}, "
          "\"Tags\": {\"berth:stack\": \"team\", \"theirs\": \"x\"}, "
          "\"Concurrency\": {\"ReservedConcurrentExecutions\": 0}}",
          "{\"AA\": \"2\"}", NULL, 7,
          "{\"memoryMB\": 10240, \"workspaceStorageMB\": 1024, \"timeoutSeconds\": 900, \"tenantIsolation\": true, "
          "\"architecture\": \"arm64\", \"role\": \"r\", \"description\": \"d\", \"image\": {\"repository\": \"a\", "
          "\"digest\": \"sha256:" A
          "\"}, \"variables\": {\"AA\": \"1\"}, \"tags\": {\"berth:stack\": \"team\"}, "
          "\"reservedConcurrency\": 0, \"logRetentionDays\": 7}" },
        { "an entry point of its own, and a VPC",
          "{\"Configuration\": {" CONFIGURATION
          ", \"ImageConfigResponse\": {\"ImageConfig\": {\"EntryPoint\": "
          "[\"/bin/sh\", \"-c\"], \"Command\": [], \"WorkingDirectory\": \"/x\"}}, \"VpcConfig\": {\"VpcId\": "
          "\"vpc-1\", \"SubnetIds\": [\"subnet-1\"], \"SecurityGroupIds\": [\"sg-1\"]}}}",
          NULL, NULL, 0,
          "{" PLAIN ", \"image\": {}, \"imageConfig\": {\"entryPoint\": [\"/bin/sh\", \"-c\"], "
          "\"workingDirectory\": \"/x\"}, \"vpc\": {\"vpcId\": \"vpc-1\", \"subnets\": [\"subnet-1\"], "
          "\"securityGroups\": [\"sg-1\"]}, \"tags\": {}}" },
        { "out of its VPC again",
          "{\"Configuration\": {" CONFIGURATION
          ", \"ImageConfigResponse\": {\"ImageConfig\": {}}, \"VpcConfig\": "
          "{\"VpcId\": \"\", \"SubnetIds\": [], \"SecurityGroupIds\": []}}}",
          NULL, NULL, 0, "{" PLAIN ", \"image\": {}, \"tags\": {}}" },
        { "an image by tag, resolved",
          "{\"Configuration\": {" CONFIGURATION "}, \"Code\": {\"ImageUri\": \"" REGISTRY "/a:t\", "
          "\"ResolvedImageUri\": \"" REGISTRY "/a@sha256:" B "\"}}",
          NULL, NULL, 0,
          "{" PLAIN ", \"image\": {\"repository\": \"a\", \"digest\": \"sha256:" B "\"}, \"tags\": {}}" },
        { "an image by tag, not resolved",
          "{\"Configuration\": {" CONFIGURATION "}, \"Code\": {\"ImageUri\": \"" REGISTRY "/a:t\", "
          "\"ResolvedImageUri\": \"" REGISTRY "/a:t\"}}",
          NULL, NULL, 0, "{" PLAIN ", \"image\": {\"repository\": \"a\"}, \"tags\": {}}" },
        { "variables of others",
          "{\"Configuration\": {" CONFIGURATION
          ", \"Environment\": {\"Variables\": {\"OURS\": \"1\", \"WAS\": \"2\", "
          "\"THEIRS\": \"3\"}}}}",
          "{\"OURS\": \"x\"}", "{\"WAS\": \"y\"}", 0,
          "{" PLAIN ", \"image\": {}, \"tags\": {}, \"variables\": {\"OURS\": \"1\", \"WAS\": \"2\", "
          "\"THEIRS\": null}}" },
        { "a variable that was secret",
          "{\"Configuration\": {" CONFIGURATION ", \"Environment\": {\"Variables\": {\"WAS\": \"2\"}}}}",
          NULL, "{\"WAS\": {\"$secret\": \"" A "\"}}", 0,
          "{" PLAIN ", \"image\": {}, \"tags\": {}, \"variables\": {\"WAS\": null}}" },
        { "variables that cannot be read stand as recorded",
          "{\"Configuration\": {" CONFIGURATION ", \"Environment\": {\"Error\": {\"ErrorCode\": "
          "\"AccessDeniedException\", \"Message\": \"no\"}}}}",
          NULL, "{\"WAS\": \"2\"}", 0,
          "{" PLAIN ", \"image\": {}, \"tags\": {}, \"variables\": {\"WAS\": \"2\"}}" },
        { "after a failed update the image is unknown",
          "{\"Configuration\": {" CONFIGURATION ", \"State\": \"Active\", \"LastUpdateStatus\": \"Failed\"}, "
          "\"Code\": {\"ImageUri\": \"" REGISTRY "/a@sha256:" A "\"}}",
          NULL, NULL, 0, "{" PLAIN ", \"image\": {\"repository\": \"a\"}, \"tags\": {}}" },
};

static void functions_are_read(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
                json_t *function JSON_CLEANUP = json_loads(functions[i].function, 0, NULL);
                struct environment_known known = {
                        .variables = value_of(functions[i].variables),
                        .recorded_variables = value_of(functions[i].recorded_variables),
                        .tags = aws_tags_for(&team, "Environment", "x", arena),
                };
                struct observation observation;
                json_t *spec JSON_CLEANUP = NULL;

                print_message("  %s\n", functions[i].name);
                assert_non_null(function);
                environment_observation(&team, "x", function, &known, functions[i].retention, arena,
                                        &observation);
                assert_true(observation.exists);
                spec = value_to_json(observation.spec, NULL);
                assert_json(spec, functions[i].spec);
        }
}

static const struct {
        const char *configuration;
        enum health health;
        const char *says; /* part of the reason; NULL for none */
} healths[] = {
        { "{}", HEALTH_READY, NULL },
        { "{\"State\": \"Active\", \"LastUpdateStatus\": \"Successful\"}", HEALTH_READY, NULL },
        { "{\"State\": \"Inactive\", \"StateReason\": \"idle\"}", HEALTH_READY, NULL },
        { "{\"State\": \"SomethingNew\"}", HEALTH_READY, NULL },
        { "{\"State\": \"Pending\", \"StateReason\": \"creating\"}", HEALTH_PENDING, "creating" },
        { "{\"State\": \"Deleting\"}", HEALTH_PENDING, NULL },
        { "{\"State\": \"Active\", \"LastUpdateStatus\": \"InProgress\"}", HEALTH_PENDING, NULL },
        { "{\"State\": \"Failed\", \"StateReason\": \"bad image\"}", HEALTH_FAILED, "bad image" },
        { "{\"State\": \"Failed\", \"LastUpdateStatus\": \"InProgress\"}", HEALTH_FAILED, "no reason" },
        /* It still runs what it ran: replacing it would take that away. */
        { "{\"State\": \"Active\", \"LastUpdateStatus\": \"Failed\", \"LastUpdateStatusReason\": \"denied\"}",
          HEALTH_READY, "last update failed: denied" },
};

static void health_is_told(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(healths) / sizeof(*healths); i++) {
                json_t *configuration JSON_CLEANUP = json_loads(healths[i].configuration, 0, NULL);
                const char *reason;

                print_message("  %s\n", healths[i].configuration);
                assert_int_equal(environment_health(configuration, arena, &reason), healths[i].health);
                if (healths[i].says)
                        assert_non_null(strstr(reason, healths[i].says));
                else
                        assert_null(reason);
        }
}

/* --- images --- */

#define OF_DIGEST(x) "\"digest\": \"sha256:" x "\""

static const struct {
        const char *name, *image, *resolved, *recorded, *desired;
} choices[] = {
        { "a first apply takes what the tag names", "{\"prebuilt\": \"python\"}", "{" OF_DIGEST(A) "}", NULL,
          "{\"prebuilt\": \"python\", \"repository\": \"lab/prebuilt/python\", \"tag\": \"latest\", " OF_DIGEST(
                  A) "}" },
        { "a pin stays", "{\"repository\": \"a\", \"tag\": \"t\", \"follow\": \"pin\"}", "{" OF_DIGEST(B) "}",
          "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(A) "}",
          "{\"repository\": \"a\", \"tag\": \"t\", \"follow\": \"pin\", " OF_DIGEST(A) "}" },
        { "another tag ends the pin", "{\"repository\": \"a\", \"tag\": \"u\"}", "{" OF_DIGEST(B) "}",
          "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(A) "}",
          "{\"repository\": \"a\", \"tag\": \"u\", " OF_DIGEST(B) "}" },
        { "another repository ends the pin", "{\"repository\": \"b\", \"tag\": \"t\"}", "{" OF_DIGEST(B) "}",
          "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(A) "}",
          "{\"repository\": \"b\", \"tag\": \"t\", " OF_DIGEST(B) "}" },
        { "following", "{\"repository\": \"a\", \"tag\": \"t\", \"follow\": \"tag\"}", "{" OF_DIGEST(B) "}",
          "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(A) "}",
          "{\"repository\": \"a\", \"tag\": \"t\", \"follow\": \"tag\", " OF_DIGEST(B) "}" },
        { "following, not asked", "{\"repository\": \"a\", \"tag\": \"t\", \"follow\": \"tag\"}", NULL,
          "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(A) "}",
          "{\"repository\": \"a\", \"tag\": \"t\", \"follow\": \"tag\", " OF_DIGEST(A) "}" },
        { "following a tag that is gone", "{\"repository\": \"a\", \"tag\": \"t\", \"follow\": \"tag\"}",
          "{\"problem\": \"missing\"}", "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(A) "}",
          "{\"repository\": \"a\", \"tag\": \"t\", \"follow\": \"tag\", " OF_DIGEST(A) "}" },
        { "a digest is a digest", "{\"repository\": \"a\", " OF_DIGEST(A) "}", "{" OF_DIGEST(B) "}",
          "{\"repository\": \"a\", " OF_DIGEST(B) "}", "{\"repository\": \"a\", " OF_DIGEST(A) "}" },
        { "from a digest to a tag", "{\"repository\": \"a\", \"tag\": \"t\"}", "{" OF_DIGEST(B) "}",
          "{\"repository\": \"a\", " OF_DIGEST(A) "}",
          "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(B) "}" },
        { "unknown", "{\"repository\": \"a\", \"tag\": \"t\"}", NULL, NULL,
          "{\"repository\": \"a\", \"tag\": \"t\"}" },
};

static void images_are_chosen(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); i++) {
                struct value *image = environment_desired_image(&team, value_of(choices[i].image),
                                                                value_of(choices[i].resolved),
                                                                value_of(choices[i].recorded), arena);
                json_t *json JSON_CLEANUP = value_to_json(image, NULL);

                print_message("  %s\n", choices[i].name);
                assert_json(json, choices[i].desired);
        }
}

static const struct {
        const char *name;
        enum action action;
        const char *path, *image, *resolved;
        bool refused, recorded; /* recorded: that very image was applied before */
        const char *says;       /* part of message or remedy */
} asked[] = {
        { "usable", ACTION_CREATE, "image.digest",
          "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(A) "}", "{" OF_DIGEST(A) "}", false, false,
          NULL },
        { "index", ACTION_CREATE, "image.repository", "{\"repository\": \"a\", \"tag\": \"t\"}",
          "{\"problem\": \"index\", \"message\": \"seen\"}", true, false,
          "--platform linux/amd64 --provenance=false --sbom=false --push -t " REGISTRY "/a:t ." },
        { "no repository", ACTION_CREATE, "image.repository", "{\"repository\": \"a\", \"tag\": \"t\"}",
          "{\"problem\": \"repository\", \"message\": \"seen\"}", true, false,
          "aws ecr create-repository --region eu-west-1 --repository-name a" },
        { "a pinned digest that is gone", ACTION_CREATE, "image.digest",
          "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(A) "}",
          "{\"problem\": \"missing\", \"message\": \"seen\"}", true, true, "set follow: tag" },
        { "built for another platform, never applied", ACTION_CREATE, "image.digest",
          "{\"repository\": \"a\", \"tag\": \"t\", " OF_DIGEST(A) "}",
          "{" OF_DIGEST(A) ", \"problem\": \"platform\", \"message\": \"seen\"}", true, false,
          "build and push it:" },
        { "never asked", ACTION_CREATE, "image.tag", "{\"repository\": \"a\", \"tag\": \"t\"}", NULL, true,
          false, "digest of a:t" },
        { "an update of something else", ACTION_UPDATE, "memoryMB", "{\"repository\": \"a\", \"tag\": \"t\"}",
          "{\"problem\": \"missing\", \"message\": \"seen\"}", false, false, NULL },
        { "an update of the image", ACTION_UPDATE, "image.repository",
          "{\"repository\": \"a\", \"tag\": \"t\"}", "{\"problem\": \"missing\", \"message\": \"seen\"}",
          true, false, "seen" },
        { "delete", ACTION_DELETE, "image.digest", NULL, "{\"problem\": \"missing\", \"message\": \"seen\"}",
          false, false, NULL },
};

static void unusable_images_are_refused(void **state) {
        struct error err;

        (void)state;
        for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
                struct value *desired = value_new_map(arena);
                struct observation observed = { .resolved = value_of(asked[i].resolved) };
                struct field_change field = { .path = asked[i].path };
                struct change change = { .action = asked[i].action,
                                         .desired = desired,
                                         .recorded = asked[i].recorded ? desired : NULL,
                                         .observed = &observed,
                                         .fields = &field,
                                         .field_count = 1 };

                print_message("  %s\n", asked[i].name);
                if (asked[i].image)
                        value_set(arena, desired, "image", *value_of(asked[i].image));
                assert_int_equal(environment_ask_image(&team, &change, arena, &err), 0);
                assert_int_equal(change.refusal_count, asked[i].refused);
                if (!asked[i].refused)
                        continue;
                assert_string_equal(change.refusals[0].id, "image-unusable");
                assert_true(strstr(change.refusals[0].message, asked[i].says) ||
                            strstr(change.refusals[0].remedy, asked[i].says));
                assert_int_equal(strstr(change.refusals[0].remedy, "pinned") != NULL, asked[i].recorded);
        }
}

/* --- writing --- */

#define DESIRED                                                                                                       \
        "{\"description\": \"d\", \"memoryMB\": 4096, \"workspaceStorageMB\": 1024, \"timeoutSeconds\": 900, "        \
        "\"architecture\": \"x86_64\", \"role\": \"r\", \"variables\": {\"AA\": \"1\"}, \"image\": {\"repository\": " \
        "\"a\", \"tag\": \"t\", " OF_DIGEST(A) "}, \"tags\": {\"k\": \"v\"}, \"tenantIsolation\": true, "             \
                                               "\"reservedConcurrency\": 3, \"logRetentionDays\": 7}"

static void create_says_all(void **state) {
        json_t *body JSON_CLEANUP = environment_create_body(&team, "x", value_of(DESIRED),
                                                            value_get(value_of(DESIRED), "variables"), arena);

        (void)state;
        assert_json(body,
                    "{\"FunctionName\": \"lab-env-x\", \"PackageType\": \"Image\", \"Code\": {\"ImageUri\": "
                    "\"" REGISTRY "/a@sha256:" A "\"}, \"Architectures\": [\"x86_64\"], \"Role\": \"r\", "
                    "\"Description\": \"d\", \"Timeout\": 900, \"MemorySize\": 4096, \"EphemeralStorage\": "
                    "{\"Size\": 1024}, \"Environment\": {\"Variables\": {\"AA\": \"1\"}}, \"TenancyConfig\": "
                    "{\"TenantIsolationMode\": \"PER_TENANT\"}, \"Tags\": {\"k\": \"v\"}}");
}

static const struct {
        const char *name, *desired, *foreign, *revision;
        const char *paths[4];
        const char *body;
} configurations[] = {
        { "one field",
          DESIRED,
          NULL,
          "rev",
          { "memoryMB" },
          "{\"RevisionId\": \"rev\", \"MemorySize\": 4096}" },
        { "no revision",
          DESIRED,
          NULL,
          NULL,
          { "workspaceStorageMB" },
          "{\"EphemeralStorage\": {\"Size\": 1024}}" },
        { "several",
          DESIRED,
          NULL,
          "rev",
          { "description", "role", "timeoutSeconds" },
          "{\"RevisionId\": \"rev\", \"Description\": \"d\", \"Role\": \"r\", \"Timeout\": 900}" },
        { "fields of other calls",
          DESIRED,
          NULL,
          "rev",
          { "image.digest", "tags.k", "reservedConcurrency" },
          "{\"RevisionId\": \"rev\"}" },
        { "a description taken away", "{}", NULL, NULL, { "description" }, "{\"Description\": \"\"}" },
        { "others' variables stay",
          DESIRED,
          "{\"THEIRS\": \"9\", \"AA\": \"0\"}",
          NULL,
          { "variables.AA" },
          "{\"Environment\": {\"Variables\": {\"AA\": \"1\", \"THEIRS\": \"9\"}}}" },
        { "ours taken away, others' stay",
          "{}",
          "{\"THEIRS\": \"9\"}",
          NULL,
          { "variables.AA" },
          "{\"Environment\": {\"Variables\": {\"THEIRS\": \"9\"}}}" },
        { "the last taken away",
          "{}",
          NULL,
          NULL,
          { "variables.AA" },
          "{\"Environment\": {\"Variables\": {}}}" },
};

static void updates_say_only_what_differs(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(configurations) / sizeof(*configurations); i++) {
                struct field_change fields[4] = { 0 };
                struct change change = { .action = ACTION_UPDATE,
                                         .desired = value_of(configurations[i].desired),
                                         .fields = fields };
                json_t *body JSON_CLEANUP = NULL;

                print_message("  %s\n", configurations[i].name);
                while (change.field_count < 4 && configurations[i].paths[change.field_count]) {
                        fields[change.field_count].path = configurations[i].paths[change.field_count];
                        change.field_count++;
                }
                body = environment_configuration_body(&team, &change, value_get(change.desired, "variables"),
                                                      value_of(configurations[i].foreign),
                                                      configurations[i].revision);
                assert_json(body, configurations[i].body);
        }
}

static const struct {
        const char *name;
        enum action action;
        const char *recorded, *observed;
        const char *paths[2];
        unsigned control, reads, logs;
} costs[] = {
        { "create with everything", ACTION_CREATE, NULL, NULL, { "memoryMB" }, 2, 2, 2 },
        { "one memory value is one changing call", ACTION_UPDATE, DESIRED, DESIRED, { "memoryMB" }, 1, 1, 0 },
        { "image", ACTION_UPDATE, DESIRED, DESIRED, { "image.digest" }, 1, 1, 0 },
        { "both", ACTION_UPDATE, DESIRED, DESIRED, { "image.digest", "memoryMB" }, 2, 2, 0 },
        { "variables are read first", ACTION_UPDATE, DESIRED, DESIRED, { "variables.AA" }, 1, 2, 0 },
        { "only the record", ACTION_UPDATE, DESIRED, DESIRED, { "protect" }, 0, 0, 0 },
        { "concurrency", ACTION_UPDATE, DESIRED, DESIRED, { "reservedConcurrency" }, 1, 1, 0 },
        { "retention", ACTION_UPDATE, DESIRED, DESIRED, { "logRetentionDays" }, 0, 1, 1 },
        { "retention of a group that is not there",
          ACTION_UPDATE,
          DESIRED,
          "{\"tags\": {\"k\": \"v\"}}",
          { "logRetentionDays" },
          0,
          1,
          2 },
        { "a key for the variables", ACTION_UPDATE, DESIRED, DESIRED, { "kmsKey" }, 1, 1, 0 },
        { "a key for a group that may not be there",
          ACTION_UPDATE,
          DESIRED,
          DESIRED,
          { "logKmsKey" },
          0,
          1,
          2 },
        { "another key for the group",
          ACTION_UPDATE,
          DESIRED,
          "{\"logKmsKey\": \"j\", \"tags\": {\"k\": \"v\"}}",
          { "logKmsKey" },
          0,
          1,
          1 },
        { "tags",
          ACTION_UPDATE,
          DESIRED,
          "{\"tags\": {\"k\": \"w\", \"old\": \"1\"}}",
          { "tags.k", "tags.old" },
          2,
          1,
          0 },
        { "adopt", ACTION_ADOPT, NULL, "{}", { "tags.k" }, 1, 1, 0 },
        { "delete; whose the log group is, its tags say",
          ACTION_DELETE,
          DESIRED,
          DESIRED,
          { NULL },
          1,
          1,
          2 },
        { "delete without logs", ACTION_DELETE, "{}", DESIRED, { NULL }, 1, 1, 0 },
        { "replace", ACTION_REPLACE, DESIRED, DESIRED, { "tenantIsolation" }, 3, 4, 2 },
};

static unsigned calls_of(const struct cost *cost, const char *service) {
        for (size_t i = 0; i < cost->count; i++) {
                if (strcmp(cost->calls[i].service, service) == 0)
                        return cost->calls[i].count;
        }
        return 0;
}

static void changes_cost_what_they_touch(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof(costs) / sizeof(*costs); i++) {
                struct observation observed = { .exists = costs[i].observed != NULL,
                                                .spec = value_of(costs[i].observed) };
                struct field_change fields[2] = { { .path = costs[i].paths[0] },
                                                  { .path = costs[i].paths[1] } };
                struct change change = {
                        .action = costs[i].action,
                        .desired = costs[i].action == ACTION_DELETE ? NULL : value_of(DESIRED),
                        .recorded = value_of(costs[i].recorded),
                        .observed = &observed,
                        .fields = fields,
                        .field_count = costs[i].paths[1]   ? 2
                                       : costs[i].paths[0] ? 1
                                                           : 0,
                };
                struct cost cost = { .arena = arena };

                if (change.desired && change_touches(&change, "logKmsKey"))
                        change.desired = value_of("{\"logKmsKey\": \"k\", \"tags\": {\"k\": \"v\"}}");
                print_message("  %s\n", costs[i].name);
                environment_cost(&team, &change, &cost);
                assert_int_equal(calls_of(&cost, "lambda"), costs[i].control);
                assert_int_equal(calls_of(&cost, "lambda GetFunction"), costs[i].reads);
                assert_int_equal(calls_of(&cost, "logs CreateLogGroup") +
                                         calls_of(&cost, "logs PutRetentionPolicy") +
                                         calls_of(&cost, "logs AssociateKmsKey") +
                                         calls_of(&cost, "logs DeleteLogGroup") +
                                         calls_of(&cost, "logs ListTagsForResource"),
                                 costs[i].logs);
        }
}

/* How many looks a wait of `takes_ms` costs, and how long after it has ended that is seen. */
static unsigned looks(int64_t takes_ms, int64_t usual_ms, int64_t *ret_late_ms) {
        int64_t now = environment_poll_gap_ms(0, usual_ms);
        unsigned count = 1;

        for (; now < takes_ms; count++) {
                int64_t gap = environment_poll_gap_ms(now, usual_ms);

                assert_true(gap >= 250 && gap <= 60000);
                now += gap;
        }
        *ret_late_ms = now - takes_ms;
        return count;
}

static void polls_are_sparing(void **state) {
        int64_t late;

        (void)state;
        /* Unknown: few looks, and late by half at the most. */
        assert_true(looks(10000, 0, &late) <= 8 && late <= 5000);
        assert_true(looks(500, 0, &late) == 1);
        /* Known: three looks or so, late by a tenth. */
        assert_true(looks(10000, 10000, &late) <= 4 && late <= 1000);
        /* Known, but wrong in either way. */
        assert_true(looks(500, 10000, &late) == 1 && late <= 8000);
        assert_true(looks(300000, 1000, &late) <= 100 && late <= 5000);
}

static void ownership_is_by_stack_and_lineage(void **state) {
        static const char *const taken[] = { "U0", NULL };
        struct provider provider = team;
        const char *owner;

        (void)state;
        assert_int_equal(aws_ownership(&team, value_of("{\"berth:stack\": \"team\"}"), arena, &owner),
                         OWNER_SELF);
        assert_int_equal(aws_ownership(&team, value_of("{\"berth:stack\": \"other\"}"), arena, &owner),
                         OWNER_OTHER);
        assert_string_equal(owner, "stack other");
        /* One name, two states: the lineage says whose it is. Marks of before there were any are ours by the name. */
        provider.lineage = (struct lineage){ .id = "U1", .taken = taken };
        assert_int_equal(aws_ownership(&provider,
                                       value_of("{\"berth:stack\": \"team\", \"berth:lineage\": \"U1\"}"),
                                       arena, &owner),
                         OWNER_SELF);
        assert_int_equal(aws_ownership(&provider,
                                       value_of("{\"berth:stack\": \"team\", \"berth:lineage\": \"U0\"}"),
                                       arena, &owner),
                         OWNER_SELF);
        assert_int_equal(aws_ownership(&provider, value_of("{\"berth:stack\": \"team\"}"), arena, &owner),
                         OWNER_SELF);
        assert_int_equal(aws_ownership(&provider,
                                       value_of("{\"berth:stack\": \"team\", \"berth:lineage\": \"U2\"}"),
                                       arena, &owner),
                         OWNER_OTHER);
        assert_string_equal(owner, "stack team of another state (lineage U2)");
        assert_int_equal(aws_ownership(&provider,
                                       value_of("{\"berth:stack\": \"other\", \"berth:lineage\": \"U1\"}"),
                                       arena, &owner),
                         OWNER_OTHER);
        assert_int_equal(aws_ownership(&team, value_of("{\"team\": \"x\"}"), arena, &owner), OWNER_NONE);
        assert_null(owner);
        assert_int_equal(aws_ownership(&team, NULL, arena, &owner), OWNER_NONE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(functions_are_read),
                cmocka_unit_test(health_is_told),
                cmocka_unit_test(images_are_chosen),
                cmocka_unit_test(unusable_images_are_refused),
                cmocka_unit_test(create_says_all),
                cmocka_unit_test(updates_say_only_what_differs),
                cmocka_unit_test(changes_cost_what_they_touch),
                cmocka_unit_test(polls_are_sparing),
                cmocka_unit_test(ownership_is_by_stack_and_lineage),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
