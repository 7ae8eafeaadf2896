/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/aws/services/s3.h"

#include "providers/aws/client/support.h"

static const struct s3_bucket bucket = { "b", "123456789012" };

static struct aws_response answer(const char *body) {
        struct aws_response response = AWS_RESPONSE_INIT;

        strbuf_append(&response.body, body);
        return response;
}

static const char *header(const struct aws_request *request, const char *name) {
        for (size_t i = 0; i < AWS_HEADERS_MAX && request->headers[i].name; i++) {
                if (strcmp(request->headers[i].name, name) == 0)
                        return request->headers[i].value;
        }
        return NULL;
}

static void buckets_are_made_in_their_region(void **state) {
        struct value *tags = value_new_map(arena);
        struct aws_request home = s3_create_bucket(&bucket, "us-east-1", tags, arena);
        struct aws_request away = s3_create_bucket(&bucket, "eu-west-1", NULL, arena);
        struct aws_request tagged;

        (void)state;
        assert_null(home.body);
        assert_non_null(strstr(away.body, "<LocationConstraint>eu-west-1</LocationConstraint>"));
        assert_null(header(&home, "x-amz-expected-bucket-owner"));
        assert_null(strstr(away.body, "<Tags"));
        value_set_text(arena, tags, "a&b", "1");
        tagged = s3_create_bucket(&bucket, "us-east-1", tags, arena);
        assert_non_null(strstr(tagged.body, "<Tags><Tag><Key>a&amp;b</Key><Value>1</Value></Tag></Tags>"));
        assert_null(strstr(tagged.body, "LocationConstraint"));
}

static void requests_say_whose_bucket_it_must_be(void **state) {
        struct aws_request request = s3_get_lifecycle(&bucket);
        const struct s3_bucket unknown = { "b", NULL };

        (void)state;
        assert_string_equal(header(&request, "x-amz-expected-bucket-owner"), "123456789012");
        request = s3_get_lifecycle(&unknown);
        assert_null(header(&request, "x-amz-expected-bucket-owner"));
}

static void objects_are_written_under_a_condition(void **state) {
        struct aws_request first = s3_put_object(&bucket, "k", "x", 1, "application/json", NULL, arena);
        struct aws_request next = s3_put_object(&bucket, "k", "x", 1, "application/json", "\"e\"", arena);

        (void)state;
        assert_string_equal(first.path, "/k");
        assert_string_equal(header(&first, "If-None-Match"), "*");
        assert_null(header(&first, "If-Match"));
        assert_string_equal(header(&next, "If-Match"), "\"e\"");
        assert_null(header(&next, "If-None-Match"));
}

static void tags_go_out_and_come_back(void **state) {
        struct value *tags = value_new_map(arena), *again = NULL;
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request;
        struct error err;

        (void)state;
        value_set_text(arena, tags, "a<b", "x & y");
        value_set_text(arena, tags, "empty", "");
        request = s3_put_bucket_tagging(&bucket, tags, arena);
        assert_true(request.checksum);
        strbuf_append_bytes(&response.body, request.body, request.body_length);
        assert_int_equal(s3_read_tagging(&response, arena, &again, &err), 0);
        assert_string_equal(value_get_text(again, "a<b"), "x & y");
        assert_string_equal(value_get_text(again, "empty"), "");
        assert_int_equal(again->count, 2);
}

static void access_is_blocked_by_all_four(void **state) {
        struct aws_response all AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_response three AWS_RESPONSE_CLEANUP = answer(
                "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true"
                "</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>false"
                "</RestrictPublicBuckets></PublicAccessBlockConfiguration>");
        struct aws_request request = s3_put_public_access_block(&bucket, arena);
        struct error err;
        bool blocked = false;

        (void)state;
        strbuf_append_bytes(&all.body, request.body, request.body_length);
        assert_int_equal(s3_read_public_access_block(&all, arena, &blocked, &err), 0);
        assert_true(blocked);
        assert_int_equal(s3_read_public_access_block(&three, arena, &blocked, &err), 0);
        assert_false(blocked);
}

static void encryption_goes_out_and_comes_back(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct aws_request request = s3_put_bucket_encryption(&bucket, NULL, NULL, arena);
        struct value *encryption = NULL;
        struct error err;

        (void)state;
        strbuf_append_bytes(&response.body, request.body, request.body_length);
        assert_int_equal(s3_read_encryption(&response, arena, &encryption, &err), 0);
        assert_string_equal(value_get_text(encryption, "algorithm"), "AES256");
        assert_int_equal(encryption->count, 1);
}

static void a_key_and_what_is_blocked_go_out_and_come_back(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = AWS_RESPONSE_INIT;
        struct value *blocked = value_new_list(arena), *encryption = NULL;
        struct aws_request request;
        struct error err;

        (void)state;
        value_append(arena, blocked, value_text(arena, "SSE-C"));
        request = s3_put_bucket_encryption(&bucket, "arn:aws:kms:r:1:key/a", blocked, arena);
        strbuf_append_bytes(&response.body, request.body, request.body_length);
        assert_int_equal(s3_read_encryption(&response, arena, &encryption, &err), 0);
        assert_string_equal(value_get_text(encryption, "algorithm"), "aws:kms");
        assert_string_equal(value_get_text(encryption, "key"), "arn:aws:kms:r:1:key/a");
        assert_true(value_get_boolean(encryption, "bucketKey", false));
        assert_true(value_equal(value_get(encryption, "blocked"), blocked, NULL));
}

static void pages_of_objects(void **state) {
        struct aws_response first AWS_RESPONSE_CLEANUP =
                answer("<ListBucketResult xmlns=\"" S3_NAMESPACE "\"><IsTruncated>true</IsTruncated>"
                       "<EncodingType>url</EncodingType><Contents><Key>a%2Bb+c</Key>"
                       "<LastModified>1970-01-02T00:00:01.000Z</LastModified>"
                       "<ETag>&quot;1&quot;</ETag><Size>7</Size></Contents>"
                       "<Contents><Key>b</Key><ETag>\"2\"</ETag><Size>-1</Size></Contents>"
                       "<NextContinuationToken>t/+=</NextContinuationToken></ListBucketResult>");
        struct aws_response last AWS_RESPONSE_CLEANUP =
                answer("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
        struct aws_response lost AWS_RESPONSE_CLEANUP =
                answer("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>");
        struct s3_page page;
        struct error err;

        (void)state;
        assert_int_equal(s3_read_objects(&first, arena, &page, &err), 0);
        assert_int_equal(page.count, 2);
        assert_string_equal(page.objects[0].etag, "\"1\"");
        assert_int_equal(page.objects[0].size, 7);
        assert_string_equal(page.objects[0].key, "a+b c");
        assert_int_equal(page.objects[0].modified_ms, 86401000);
        assert_string_equal(page.objects[1].key, "b");
        assert_int_equal(page.objects[1].modified_ms, 0);
        assert_int_equal(page.objects[1].size, 0);
        assert_string_equal(page.next, "t/+=");
        assert_int_equal(s3_read_objects(&last, arena, &page, &err), 0);
        assert_int_equal(page.count, 0);
        assert_null(page.next);
        assert_int_equal(s3_read_objects(&lost, arena, &page, &err), -1);
}

static void pages_of_versions(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = answer(
                "<ListVersionsResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                "<NextKeyMarker>x%2Fy</NextKeyMarker><NextVersionIdMarker>v2</NextVersionIdMarker>"
                "<Version><Key>a+b%01%25</Key><VersionId>v1</VersionId><IsLatest>false</IsLatest><Size>5</Size></Version>"
                "<DeleteMarker><Key>x/y</Key><VersionId>v2</VersionId></DeleteMarker>"
                "<CommonPrefixes><Prefix>work+spaces/</Prefix></CommonPrefixes></ListVersionsResult>");
        static const char *const placeless[] = {
                "<ListVersionsResult><IsTruncated>true</IsTruncated></ListVersionsResult>",
                "<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker/></ListVersionsResult>",
        };
        struct s3_page page;
        struct error err;

        (void)state;
        assert_int_equal(s3_read_versions(&response, arena, &page, &err), 0);
        assert_int_equal(page.count, 2);
        assert_string_equal(page.objects[0].key, "a b\x01%");
        assert_string_equal(page.objects[1].version, "v2");
        assert_true(page.objects[0].is_noncurrent && !page.objects[0].is_marker);
        assert_true(page.objects[1].is_marker && !page.objects[1].is_noncurrent);
        assert_int_equal(page.prefix_count, 1);
        assert_string_equal(page.prefixes[0], "work spaces/");
        assert_string_equal(page.next, "x/y");
        assert_string_equal(page.next_version, "v2");
        /* A next page that has no place would be the first one again. */
        for (size_t i = 0; i < sizeof(placeless) / sizeof(*placeless); i++) {
                struct aws_response lost AWS_RESPONSE_CLEANUP = answer(placeless[i]);

                assert_int_equal(s3_read_versions(&lost, arena, &page, &err), -1);
        }
}

static void deletions_are_read_one_by_one(void **state) {
        struct aws_response well AWS_RESPONSE_CLEANUP = answer("<DeleteResult/>");
        struct aws_response badly AWS_RESPONSE_CLEANUP = answer(
                "<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
                "</DeleteResult>");
        struct aws_response tersely AWS_RESPONSE_CLEANUP =
                answer("<DeleteResult><Error><Key>k</Key></Error></DeleteResult>");
        struct error err;

        (void)state;
        assert_int_equal(s3_read_deleted(&well, arena, &err), 0);
        assert_int_equal(s3_read_deleted(&badly, arena, &err), -1);
        assert_string_equal(err.message, "s3 DeleteObjects: k stays: AccessDenied: no");
        assert_int_equal(s3_read_deleted(&tersely, arena, &err), -1);
        assert_string_equal(err.message, "s3 DeleteObjects: k stays: no code: no reason given");
}

static void what_is_no_xml_is_an_error(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = answer("<ListBucketResult>");
        struct s3_page page;
        struct value *tags;
        struct error err;

        (void)state;
        assert_int_equal(s3_read_objects(&response, arena, &page, &err), -1);
        assert_int_equal(s3_read_tagging(&response, arena, &tags, &err), -1);
        assert_non_null(strstr(err.message, "GetBucketTagging"));
}

/* Read as an empty lifecycle, it would be written over all other rules. */
static void what_is_something_else_is_an_error(void **state) {
        struct aws_response response AWS_RESPONSE_CLEANUP = answer("<Portal><Login/></Portal>");
        struct xml_document *document = NULL;
        struct s3_page page;
        struct value *tags;
        struct error err;

        (void)state;
        assert_int_equal(s3_read_objects(&response, arena, &page, &err), -1);
        assert_int_equal(s3_read_versions(&response, arena, &page, &err), -1);
        assert_int_equal(s3_read_tagging(&response, arena, &tags, &err), -1);
        assert_int_equal(s3_read_lifecycle(&response, &document, &err), -1);
        assert_null(document);
        assert_string_equal(
                err.message,
                "the answer to s3 GetBucketLifecycleConfiguration is not <LifecycleConfiguration>, as it should "
                "be; look for a proxy on the way there, and try again");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(buckets_are_made_in_their_region),
                cmocka_unit_test(requests_say_whose_bucket_it_must_be),
                cmocka_unit_test(objects_are_written_under_a_condition),
                cmocka_unit_test(tags_go_out_and_come_back),
                cmocka_unit_test(access_is_blocked_by_all_four),
                cmocka_unit_test(encryption_goes_out_and_comes_back),
                cmocka_unit_test(a_key_and_what_is_blocked_go_out_and_come_back),
                cmocka_unit_test(pages_of_objects),
                cmocka_unit_test(pages_of_versions),
                cmocka_unit_test(deletions_are_read_one_by_one),
                cmocka_unit_test(what_is_no_xml_is_an_error),
                cmocka_unit_test(what_is_something_else_is_an_error),
        };

        return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
