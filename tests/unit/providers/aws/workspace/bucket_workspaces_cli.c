/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces in a bucket, for tests against servers that speak AWS. Arguments: the Stack's `aws` map as JSON, the bucket, its account,
 * and "contract" for the tests that every body must pass. Else lines of JSON are answered by one each, about workspaces of the owner
 * "realm/ann" in the stack "lab":
 *
 *     {"create": ID}  {"recover": true}  {"remove": ID}
 *     {"put": ID, "path", "bytes": N, "text", "ifNoneMatch"}  -> {"sha256", "made"}: N times "x", or the text
 *             "times": N: that number of times, by a workspace that is opened once
 *     {"get": ID, "path"}                                     -> {"sha256", "bytes"}
 *     {"look": ID, "path"}                                    -> {"bytes"}
 *     {"delete": ID, "path"}
 *     {"list": ID}                                            -> {"files": [[PATH, BYTES]]}
 *     {"stage": ID, "files": {PATH: TEXT}} -> {"name"}    {"place": ID, "name"}
 *
 * each with "code" and "detail" where it failed, and "peakBytes": the most memory that this program had so far.
 */
#include "sessions/workspace_contract.h"

#include "base/digest.h"
#include "providers/aws/client/cli_support.h"
#include "providers/aws/workspace/bucket_workspaces.h"

static struct workspace_bucket bucket;

struct world contract_world(void **state) {
        static unsigned count;
        struct world world = world_of(state);
        struct workspace_bucket *own = arena_alloc(world.place->arena, sizeof(*own));

        *own = bucket;
        own->bucket.name = arena_printf(world.place->arena, "%s-%u", bucket.bucket.name, ++count);
        world.workspaces = bucket_workspaces(own, world.workspaces.folder);
        return world;
}

static int put(struct world *world, struct workspace *workspace, const json_t *input, json_t *output) {
        struct workspace_put put WORKSPACE_PUT_CLEANUP = WORKSPACE_PUT_INIT;
        const struct conditions conditions = { .if_none_match = json_text(input, "ifNoneMatch") };
        const struct workspace_limits none = { 0 };
        const char *text = json_text(input, "text");
        json_int_t left = json_integer_or(input, "bytes", 0);
        char sha256[SHA256_HEX_SIZE], piece[65536];
        struct workspace_file file;
        bool made;

        memset(piece, 'x', sizeof(piece));
        if (workspace_put_begin(workspace, json_text(input, "path"), &conditions, &none, NULL, &put,
                                &world->problem) < 0 ||
            (text && workspace_put_write(&put, text, strlen(text), &world->problem) < 0))
                return -1;
        for (; left > 0; left -= (json_int_t)sizeof(piece)) {
                size_t some = left < (json_int_t)sizeof(piece) ? (size_t)left : sizeof(piece);

                if (workspace_put_write(&put, piece, some, &world->problem) < 0)
                        return -1;
        }
        if (workspace_put_finish(&put, &file, sha256, &made, &world->problem) < 0)
                return -1;
        json_set_text(output, "sha256", sha256);
        json_put(output, "made", json_boolean(made));
        return 0;
}

static int get(struct world *world, struct workspace *workspace, const char *path, json_t *output) {
        int descriptor DESCRIPTOR_CLEANUP = -1;
        struct workspace_file file;
        struct digest_stream *digest;
        char sha256[SHA256_HEX_SIZE], piece[65536];
        ssize_t count;

        if (workspace_file_open(workspace, path, &descriptor, &file, &world->problem) < 0)
                return -1;
        digest = digest_stream_new();
        while ((count = read(descriptor, piece, sizeof(piece))) > 0)
                digest_stream_add(digest, piece, (size_t)count);
        digest_stream_end(digest, sha256);
        json_set_text(output, "sha256", sha256);
        json_put(output, "bytes", json_integer((json_int_t)file.bytes));
        return 0;
}

static int list(struct world *world, struct workspace *workspace, json_t *output) {
        const struct workspace_page page = { .limit = 1000 };
        json_t *list = json_array();
        struct workspace_file *files;
        size_t count = 0;
        bool more;
        int result = workspace_files_list(workspace, &page, NULL, world->place->arena, &files, &count, &more,
                                          &world->problem);

        for (size_t i = 0; result == 0 && i < count; i++)
                json_add(list, json_pack("[s, I]", files[i].path, (json_int_t)files[i].bytes));
        json_put(output, "files", list);
        return result;
}

static int stage_files(struct world *world, struct workspace *workspace, json_t *files, json_t *output) {
        struct workspace_stage staging WORKSPACE_STAGE_CLEANUP = WORKSPACE_STAGE_INIT;
        const struct workspace_limits none = { 0 };
        char sha256[SHA256_HEX_SIZE];
        const char *path;
        json_t *text;

        if (workspace_stage_begin(workspace, &none, &staging, &world->problem) < 0)
                return -1;
        json_object_foreach (files, path, text) {
                if (workspace_stage_file(&staging, path, &world->problem) < 0 ||
                    workspace_stage_write(&staging, json_string_value(text), json_string_length(text),
                                          &world->problem) < 0)
                        return -1;
        }
        if (workspace_stage_finish(&staging, sha256, &world->problem) < 0)
                return -1;
        staging.kept = true;
        json_set_text(output, "name", staging.name);
        return 0;
}

static int on_workspace(struct world *world, const json_t *input, json_t *output) {
        static const char *const verbs[] = { "put", "get", "look", "delete", "list", "stage", "place" };
        struct workspace workspace WORKSPACE_CLEANUP = WORKSPACE_INIT;
        const struct workspace_limits none = { 0 };
        const struct conditions always = { 0 };
        const char *path = json_text(input, "path"), *verb = NULL, *id = NULL;
        struct workspace_skipped *skipped;
        struct workspace_file file;
        int descriptor DESCRIPTOR_CLEANUP = -1, result;
        size_t count = 0;

        for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]) && !id; i++)
                id = json_text(input, verb = verbs[i]);
        if (workspace_open(&world->workspaces, OWNER, id, &workspace, &world->problem) < 0)
                return -1;
        if (strcmp(verb, "put") == 0) {
                result = put(world, &workspace, input, output);
                for (json_int_t i = 1; result == 0 && i < json_integer_or(input, "times", 1); i++)
                        result = put(world, &workspace, input, output);
                return result;
        }
        if (strcmp(verb, "get") == 0)
                return get(world, &workspace, path, output);
        if (strcmp(verb, "list") == 0)
                return list(world, &workspace, output);
        if (strcmp(verb, "stage") == 0)
                return stage_files(world, &workspace, json_object_get(input, "files"), output);
        if (strcmp(verb, "delete") == 0)
                return workspace_file_delete(&workspace, path, &always, NULL, &world->problem);
        if (strcmp(verb, "place") == 0) {
                result = workspace_stage_place(&workspace, json_text(input, "name"), &none, NULL,
                                               world->place->arena, &skipped, &count, &world->problem);
                json_put(output, "skipped", json_integer((json_int_t)count));
                return result;
        }
        result = workspace_file_look(&workspace, path, &descriptor, &file, &world->problem);
        json_put(output, "bytes", json_integer(result < 0 ? -1 : (json_int_t)file.bytes));
        return result;
}

static json_int_t peak_bytes(void) {
        FILE *status = fopen("/proc/self/status", "re");
        long kilobytes = -1;
        char line[128];

        while (status && fgets(line, sizeof(line), status)) {
                if (sscanf(line, "VmHWM: %ld kB", &kilobytes) == 1)
                        break;
        }
        if (status)
                fclose(status);
        return (json_int_t)kilobytes * 1024;
}

static struct place spool;

static void answer(struct aws_client *client, const json_t *input, struct arena *arena, json_t *output) {
        struct world world = { .place = &spool };
        struct workspace_row row = {
                .owner = OWNER, .environment = "py", .created_ms = 1, .lives_until_ms = 2
        };
        int result;

        (void)arena;
        bucket.client = client;
        world.workspaces = bucket_workspaces(&bucket, spool.folder);
        row.id = json_text(input, "create");
        if (row.id)
                result = workspace_create(&world.workspaces, &row, &world.problem);
        else if (json_text(input, "remove"))
                result = workspace_remove(&world.workspaces, OWNER, json_text(input, "remove"),
                                          &world.problem);
        else if (json_object_get(input, "recover"))
                result = workspace_recover(&world.workspaces, &world.problem);
        else
                result = on_workspace(&world, input, output);
        if (result < 0) {
                json_set_text(output, "code", problem_name(world.problem.code));
                json_set_text(output, "detail", world.problem.detail);
        }
        json_put(output, "peakBytes", json_integer(peak_bytes()));
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = { WORKSPACE_CONTRACT(place_setup, place_teardown) };
        struct arena *arena ARENA_CLEANUP = arena_new();
        int result;

        if (argc < 4)
                return 2;
        bucket = (struct workspace_bucket){ .bucket = { .name = argv[2], .account = argv[3] },
                                            .stack = "lab" };
        if (argc > 4) {
                bucket.client = client_of_arguments(argc, argv, arena);
                result = cmocka_run_group_tests(tests, NULL, NULL);
                aws_client_close(bucket.client);
                return result;
        }
        spool.arena = arena;
        folder_make_temporary(spool.folder);
        result = client_answer_lines(argc, argv, answer);
        folder_remove(spool.folder);
        return result;
}
