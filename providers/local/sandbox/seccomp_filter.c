/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/seccomp_filter.h"

#include "base/files.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int seccomp_filter_open(int *ret_descriptor, struct error *err) {
        int descriptor DESCRIPTOR_CLEANUP = memfd_create("berth-seccomp", MFD_CLOEXEC);

        if (descriptor < 0 || descriptor_write(descriptor, seccomp_program, seccomp_program_size) < 0 ||
            lseek(descriptor, 0, SEEK_SET) < 0)
                return error_set(err, "cannot write the filter of system calls: %s", strerror(errno));
        *ret_descriptor = descriptor;
        descriptor = -1;
        return 0;
}
