/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a service is reached. A configured URL wins: the Stack's, then variables, then the
 * profile's, in botocore's order. Without one the host is made from the table in service_facts.c
 * for the region's partition, with FIPS and dual stack where asked for.
 *
 * The patterns: %r the region, %f "-fips" or nothing, %s the partition's domain, %d its domain for dual stack, %c that of its
 * sign-in.
 */
#include "providers/aws/client/endpoint.h"

#include "base/text.h"
#include "http/http.h"
#include "providers/aws/client/service_facts.h"
#include "providers/aws/client/setting.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_on(const struct endpoint_settings *settings, const char *variable, const char *key) {
        return setting_is_true(setting_get(variable, settings->profiles, settings->profile, key));
}

/* The configured URL in place of the partition's, and in `origin` the setting's name. */
static bool find_configured(const struct endpoint_settings *settings, const struct service *facts,
                            struct strbuf *url, struct strbuf *origin) {
        const char *value = settings->stack_url;

        if (value && *value) {
                strbuf_append(url, value);
                strbuf_append(origin, "the Stack's aws.endpointUrl");
                return true;
        }
        if (is_on(settings, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls"))
                return false;
        strbuf_printf(origin, "AWS_ENDPOINT_URL_%s", facts->variable);
        value = setting_variable(strbuf_text(origin));
        if (!value && (value = setting_variable("AWS_ENDPOINT_URL"))) {
                strbuf_clear(origin);
                strbuf_append(origin, "AWS_ENDPOINT_URL");
        }
        if (value) {
                strbuf_append(url, value);
                return true;
        }
        strbuf_clear(origin);
        if (profiles_service(settings->profiles, settings->profile, facts->setting, "endpoint_url", url) &&
            url->length) {
                strbuf_printf(origin, "endpoint_url of %s in the services section of the profile %s",
                              facts->setting, settings->profile);
                return true;
        }
        strbuf_clear(url);
        value = profiles_get(settings->profiles, settings->profile, "endpoint_url");
        if (!value || !*value)
                return false;
        strbuf_append(url, value);
        strbuf_printf(origin, "endpoint_url of the profile %s", settings->profile);
        return true;
}

static char *expand(const char *pattern, const struct partition *partition, const char *region, bool fips) {
        struct strbuf text = STRBUF_INIT;

        for (; *pattern; pattern++) {
                if (*pattern != '%') {
                        strbuf_append_char(&text, *pattern);
                        continue;
                }
                switch (*++pattern) {
                case 'f':
                        strbuf_append(&text, fips ? "-fips" : "");
                        break;
                case 'r':
                        strbuf_append(&text, region);
                        break;
                case 'c':
                        strbuf_append(&text, partition->signin_domain);
                        break;
                case 'd':
                        strbuf_append(&text, partition->domain_dual);
                        break;
                default:
                        strbuf_append(&text, partition->domain);
                        break;
                }
        }
        return strbuf_take(&text);
}

/* In GovCloud some plain hosts are the FIPS ones, as botocore's rules say: those of CloudWatch Logs in these regions alone. */
static bool plain_host_is_fips(const struct partition *partition, enum aws_service service,
                               const char *region, bool dual) {
        if (dual || strcmp(partition->name, "aws-us-gov") != 0)
                return false;
        if (service == AWS_LOGS)
                return strcmp(region, "us-gov-west-1") == 0 || strcmp(region, "us-gov-east-1") == 0;
        return service == AWS_STS || service == AWS_SSM || service == AWS_EC2 || service == AWS_DYNAMODB ||
               service == AWS_SSO || service == AWS_SSO_OIDC;
}

/* In the three oldest partitions Secrets Manager's plain hosts are for IPv6 as well, and there are no others. */
static bool has_dual_host(const struct partition *partition, enum aws_service service) {
        return service != AWS_SECRETS || text_begins_with(partition->name, "aws-iso") ||
               strcmp(partition->name, "aws-eusc") == 0;
}

static const char *iam_host(const struct partition *partition, bool fips, bool dual) {
        const char *plain = dual ? partition->iam_host_dual : partition->iam_host;
        const char *with_fips = dual ? partition->iam_host_dual_fips : partition->iam_host_fips;

        return fips && with_fips ? with_fips : plain;
}

/* As botocore's rules say: under the domain that people sign in at; NULL where the table's pattern is right. */
static const char *signin_host(const struct partition *partition, const char *region, bool fips, bool dual) {
        bool gov = strcmp(partition->name, "aws-us-gov") == 0;

        if (dual || (fips && !gov))
                return NULL;
        if (fips && strcmp(region, "us-gov-west-1") == 0)
                return "signin%f.%c";
        return "%r.signin%f.%c";
}

static int resolve_by_region(const struct endpoint_settings *settings, enum aws_service service,
                             const struct partition *partition, struct endpoint *ret, struct error *err) {
        const struct service *facts = service_facts(service);
        bool fips = is_on(settings, "AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint");
        bool dual = is_on(settings, "AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint");
        const char *pattern = dual && has_dual_host(partition, service) ? facts->host_dual : facts->host;

        if (fips && !partition->fips)
                return error_set(err,
                                 "AWS_USE_FIPS_ENDPOINT is set, but the partition %s has no FIPS endpoints",
                                 partition->name);
        if (service == AWS_IAM)
                pattern = iam_host(partition, fips, dual);
        if (service == AWS_SIGNIN && signin_host(partition, settings->region, fips, dual))
                pattern = signin_host(partition, settings->region, fips, dual);
        if (plain_host_is_fips(partition, service, settings->region, dual))
                fips = false;
        ret->scheme = setting_copy("https");
        ret->prefix = setting_copy("");
        ret->host = expand(pattern, partition, settings->region, fips);
        return 0;
}

static int resolve_configured(const char *url, const char *origin, struct endpoint *ret, struct error *err) {
        struct http_url parsed HTTP_URL_CLEANUP = { 0 };
        struct strbuf host = STRBUF_INIT;

        if (http_url_parse(url, origin, &parsed, err) < 0)
                return -1;
        strbuf_printf(&host, "%s%s%s", parsed.host, *parsed.port ? ":" : "", parsed.port);
        ret->host = strbuf_take(&host);
        ret->scheme = setting_copy(parsed.scheme);
        ret->prefix = setting_copy(parsed.path);
        ret->configured_by = setting_copy(origin);
        return 0;
}

/* Under an endpoint of one's own buckets stand in the path: *.localhost and *.127.0.0.1 lead nowhere. */
static bool wants_path_style(const struct endpoint_settings *settings, bool configured) {
        struct strbuf style STRBUF_CLEANUP = STRBUF_INIT;

        if (!profiles_nested(settings->profiles, settings->profile, "s3", "addressing_style", &style))
                return configured;
        if (strcasecmp(strbuf_text(&style), "path") == 0)
                return true;
        return strcasecmp(strbuf_text(&style), "virtual") == 0 ? false : configured;
}

/* S3 Control's hosts begin with an account; in front of an address or a name without a dot that leads nowhere. */
static bool takes_no_account(const char *host) {
        size_t digits = strspn(host, "0123456789.");

        return host[0] == '[' || host[digits] == '\0' || host[digits] == ':' || !strchr(host, '.');
}

int endpoint_resolve(const struct endpoint_settings *settings, enum aws_service service, struct endpoint *ret,
                     struct error *err) {
        struct strbuf url STRBUF_CLEANUP = STRBUF_INIT, origin STRBUF_CLEANUP = STRBUF_INIT;
        const struct partition *partition = partition_of_region(settings->region, err);
        bool configured;
        int result;

        if (!partition)
                return -1;
        *ret = (struct endpoint){ 0 };
        configured = find_configured(settings, service_facts(service), &url, &origin);
        if (configured)
                result = resolve_configured(strbuf_text(&url), strbuf_text(&origin), ret, err);
        else
                result = resolve_by_region(settings, service, partition, ret, err);
        if (result < 0)
                return -1;
        ret->signing_region = setting_copy(service == AWS_IAM ? partition->iam_region : settings->region);
        ret->path_style = (service == AWS_S3 && wants_path_style(settings, configured)) ||
                          (service == AWS_S3_CONTROL && configured && takes_no_account(ret->host));
        return 0;
}

void endpoint_release(struct endpoint *endpoint) {
        free(endpoint->scheme);
        free(endpoint->host);
        free(endpoint->prefix);
        free(endpoint->signing_region);
        free(endpoint->configured_by);
        *endpoint = (struct endpoint){ 0 };
}

bool endpoint_bucket_fits_host(const char *bucket) {
        return strlen(bucket) >= 3 && partition_is_label(bucket);
}
