/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container uses, and who is told that it has changed.
 *
 * A share of a CPU is the difference of two readings by the time between them. The thread takes one
 * every CONTAINER_SELDOM_MS, so that the first caller is not told the mean of hours; for callers
 * one is taken every CONTAINER_OFTEN_MS. Between them all callers get the same.
 */
#include "containers/containers_parts.h"

#include "base/clock.h"
#include "base/json.h"

#include <string.h>

const char *const containers_statuses[CONTAINERS_STATUSES] = { "queued", "starting", "running", "stopped",
                                                               "exited" };

void container_sample(struct container *container, int64_t age_ms) {
        const struct place_class *class = container->containers->config.place->class;
        struct container_sample now = { .at_ms = clock_now_ms() };

        if (container->phase != CONTAINER_OPEN || !container->opened || !class->measure)
                return;
        if (container->sample.at_ms > 0 && now.at_ms - container->sample.at_ms < age_ms)
                return;
        if (!class->measure(container->place, &now.usage))
                return;
        /* The use before a container was found again is another server's to count. */
        if (container->sample.at_ms > 0 && now.usage.cpu_us > container->sample.usage.cpu_us)
                container->containers->cpu_us += now.usage.cpu_us - container->sample.usage.cpu_us;
        container->sample_before = container->sample;
        container->sample = now;
}

void container_forget_samples(struct container *container) {
        container->sample = container->sample_before = (struct container_sample){ 0 };
}

/* Percent of one CPU, rounded; -1: it takes two readings. */
static int64_t percent(const struct container *container) {
        const struct container_sample *before = &container->sample_before, *now = &container->sample;
        int64_t us = (now->at_ms - before->at_ms) * 1000;

        if (before->at_ms == 0 || us <= 0)
                return -1;
        if (now->usage.cpu_us <= before->usage.cpu_us)
                return 0;
        return (int64_t)((now->usage.cpu_us - before->usage.cpu_us) * 100 + (uint64_t)us / 2) / us;
}

json_t *container_usage_json(const struct container *container) {
        const struct place_usage *usage = &container->sample.usage;
        int64_t share = percent(container);

        if (container->phase != CONTAINER_OPEN || container->record.status != CONTAINER_RUNNING ||
            container->sample.at_ms == 0)
                return json_null();
        return json_checked(json_pack(
                "{s:o, s:I, s:I, s:I}", "cpuPercent", share < 0 ? json_null() : json_integer(share), "cpuMs",
                (json_int_t)(usage->cpu_us / 1000), "memoryBytes", (json_int_t)usage->memory_bytes,
                "peakMemoryBytes", (json_int_t)usage->peak_memory_bytes));
}

void container_tell(struct container *container) {
        const struct containers_config *config = &container->containers->config;
        const struct container_record *record = &container->record;
        const char *status = record->gone ? CONTAINER_REMOVED_STATUS : container_status_name(container);

        /* These texts are static: one status is one address. */
        if (container->told == status)
                return;
        container->told = status;
        if (config->tell)
                config->tell(config->context,
                             &(const struct container_news){ .id = record->id,
                                                             .owner = record->owner,
                                                             .environment = record->environment,
                                                             .agent = record->agent,
                                                             .status = status });
}
