/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indexes of workspaces in a bucket, for tests against servers that speak AWS. Arguments: the Stack's `aws` map as JSON, the bucket, its
 * account, the stack. Lines of JSON are answered by one each:
 *
 *     {"make": ID, "owner", "environment"}      -> {"result"}
 *     {"read": ID} {"head": ID} {"check": ID, ["readMax"]}   -> {"result", "owner", "bytes", "files": [[PATH, BYTES, SHA256, ETAG]], "folders"}
 *     {"change": ID, "known": bool, "put": [[PATH, BYTES, SHA256, ETAG]], "removed": [[PATH, ETAG]]}      -> the same
 *
 * each with "error" where it failed.
 */
#include "providers/aws/workspace/workspace_index.h"

#include "providers/aws/client/cli_support.h"

static struct workspace_bucket where;

static void tell(int result, const struct workspace_index *index, const struct error *err, json_t *output) {
        json_t *files = json_array();

        json_put(output, "result", json_integer(result));
        if (result < 0)
                json_set_text(output, "error", err->message);
        for (size_t i = 0; result > 0 && i < index->count; i++) {
                const struct workspace_index_file *file = &index->files[i];

                json_add(files, json_pack("[s, I, s?, s?]", file->path, (json_int_t)file->bytes, file->sha256,
                                          file->etag));
        }
        json_put(output, "files", files);
        if (result <= 0)
                return;
        json_set_text(output, "owner", index->owner);
        json_put(output, "bytes", json_integer((json_int_t)index->bytes));
        json_put(output, "folders", json_from_texts(index->folders, index->folder_count));
}

static const char *text_at(const json_t *list, size_t i) {
        return json_string_value(json_array_get(list, i));
}

static int change(const char *id, const json_t *input, struct arena *arena, struct workspace_index *ret,
                  struct error *err) {
        const json_t *put = json_object_get(input, "put"), *removed = json_object_get(input, "removed"), *one;
        struct workspace_index_file *files = arena_array(arena, json_array_size(put) + 1, sizeof(*files));
        struct workspace_index_file *gone = arena_array(arena, json_array_size(removed) + 1, sizeof(*gone));
        const struct workspace_index_changes changes = { .put = files,
                                                         .put_count = json_array_size(put),
                                                         .removed = gone,
                                                         .removed_count = json_array_size(removed) };
        struct workspace_index known;
        bool has_known = json_is_true(json_object_get(input, "known"));
        size_t i;

        json_array_foreach (put, i, one)
                files[i] = (struct workspace_index_file){ .path = text_at(one, 0),
                                                          .bytes = (uint64_t)json_integer_value(
                                                                  json_array_get(one, 1)),
                                                          .sha256 = text_at(one, 2),
                                                          .etag = text_at(one, 3) };
        json_array_foreach (removed, i, one)
                gone[i] = (struct workspace_index_file){ .path = text_at(one, 0), .etag = text_at(one, 1) };
        if (has_known && workspace_index_read(&where, id, arena, &known, err) < 0)
                return -1;
        return workspace_index_change(&where, id, has_known ? &known : NULL, &changes, arena, ret, err);
}

static void answer(struct aws_client *client, const json_t *input, struct arena *arena, json_t *output) {
        struct workspace_index index = { 0 };
        struct error err;
        const char *id;
        int result = -1;

        where.client = client;
        if ((id = json_text(input, "make"))) {
                index = (struct workspace_index){ .owner = json_text(input, "owner"),
                                                  .environment = json_text(input, "environment"),
                                                  .created_ms = json_integer_or(input, "createdMs", 1) };
                result = workspace_index_make(&where, id, &index, &err);
        } else if ((id = json_text(input, "read"))) {
                result = workspace_index_read(&where, id, arena, &index, &err);
        } else if ((id = json_text(input, "head"))) {
                result = workspace_index_read_head(&where, id, arena, &index, &err);
        } else if ((id = json_text(input, "check"))) {
                result = workspace_index_check(&where, id,
                                               (uint64_t)json_integer_or(input, "readMax", INT64_MAX), NULL,
                                               arena, &index, &err);
        } else if ((id = json_text(input, "change"))) {
                result = change(id, input, arena, &index, &err);
        }
        tell(result, &index, &err, output);
}

int main(int argc, char **argv) {
        if (argc < 5)
                return 2;
        where = (struct workspace_bucket){ .bucket = { .name = argv[2], .account = argv[3] },
                                           .stack = argv[4] };
        return client_answer_lines(argc, argv, answer);
}
