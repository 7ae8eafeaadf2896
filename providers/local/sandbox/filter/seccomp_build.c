/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/filter/seccomp_build.h"

#include "base/files.h"
#include "providers/local/sandbox/filter/seccomp_table.h"

#include <errno.h>
#include <seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* KILL_PROCESS, without asking the kernel that builds this: it may be another one than the filter is for, or qemu. */
#define SECCOMP_API 3

static void release_filter(scmp_filter_ctx *filter) {
        if (*filter)
                seccomp_release(*filter);
}

static int add_rule(scmp_filter_ctx filter, uint32_t action, const char *name,
                    const struct scmp_arg_cmp *arguments, unsigned count, struct error *err) {
        int number = seccomp_syscall_resolve_name(name), result;

        /* Negative numbers stand for calls of other architectures or newer than the library: the default answers. */
        if (number < 0)
                return 0;
        result = seccomp_rule_add_array(filter, action, number, count, arguments);
        if (result < 0)
                return error_set(err, "the filter of system calls takes no rule for %s: %s", name,
                                 strerror(-result));
        return 0;
}

static int add_conditions(scmp_filter_ctx filter, struct error *err) {
        for (const struct seccomp_condition *row = seccomp_conditions; row->name; row++) {
                struct scmp_arg_cmp compared[SECCOMP_TESTS_MAX];
                unsigned count = 0;

                for (; count < SECCOMP_TESTS_MAX && row->tests[count].mask; count++) {
                        const struct seccomp_test *test = &row->tests[count];

                        compared[count] =
                                SCMP_CMP(test->argument, SCMP_CMP_MASKED_EQ, test->mask, test->value);
                }
                /* ERRNO(0) leaves the call out and returns 0. */
                if (add_rule(filter,
                             row->answer == SECCOMP_ALLOWED ? SCMP_ACT_ALLOW
                                                            : SCMP_ACT_ERRNO((uint32_t)row->answer),
                             row->name, compared, count, err) < 0)
                        return -1;
        }
        return 0;
}

/* That one of several bits is set takes a rule for each. */
static int add_namespace_rules(scmp_filter_ctx filter, struct error *err) {
        for (uint64_t flag = 1; flag <= SECCOMP_NAMESPACE_FLAGS; flag <<= 1) {
                struct scmp_arg_cmp compare = SCMP_CMP(0, SCMP_CMP_MASKED_EQ, flag, flag);

                if ((flag & SECCOMP_NAMESPACE_FLAGS) &&
                    add_rule(filter, SCMP_ACT_ERRNO(EPERM), "clone", &compare, 1, err) < 0)
                        return -1;
        }
        return 0;
}

/* prlimit(2) asks where its new limit is NULL, and sets otherwise: that, of core files, is answered and not done. */
static int add_core_limit(scmp_filter_ctx filter, struct error *err) {
        struct scmp_arg_cmp set[] = { SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xffffffff, RLIMIT_CORE),
                                      SCMP_CMP(2, SCMP_CMP_NE, 0, 0) };

        return add_rule(filter, SCMP_ACT_ERRNO(0), "prlimit64", set, 2, err);
}

static int fill_filter(scmp_filter_ctx filter, struct error *err) {
        for (const char *const *name = seccomp_allowed; *name; name++) {
                if (add_rule(filter, SCMP_ACT_ALLOW, *name, NULL, 0, err) < 0)
                        return -1;
        }
        for (const char *const *name = seccomp_denied; *name; name++) {
                if (add_rule(filter, SCMP_ACT_ERRNO(EPERM), *name, NULL, 0, err) < 0)
                        return -1;
        }
        if (add_conditions(filter, err) < 0)
                return -1;
        if (add_namespace_rules(filter, err) < 0)
                return -1;
        return add_core_limit(filter, err);
}

int seccomp_build(int *ret_descriptor, struct error *err) {
        scmp_filter_ctx filter __attribute__((cleanup(release_filter))) =
                seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
        int descriptor DESCRIPTOR_CLEANUP = -1;

        if (!filter)
                return error_set(err, "libseccomp gives no filter");
        /* A tree instead of a list: the kernel runs it once for every call there is when it is loaded. */
        if (seccomp_api_set(SECCOMP_API) < 0 ||
            seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) < 0 ||
            seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0)
                return error_set(err, "libseccomp is too old: version 2.5 is needed");
        if (fill_filter(filter, err) < 0)
                return -1;
        descriptor = memfd_create("berth-seccomp", MFD_CLOEXEC);
        if (descriptor < 0 || seccomp_export_bpf(filter, descriptor) < 0 ||
            lseek(descriptor, 0, SEEK_SET) < 0)
                return error_set(err, "cannot write the filter of system calls: %s", strerror(errno));
        *ret_descriptor = descriptor;
        descriptor = -1;
        return 0;
}
