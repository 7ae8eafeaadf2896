#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the machine: does the job that stands on the tree's disk, tells its exit code, and switches the machine off. It is part
# of the system's disk: what changes often is in job.sh.
mount -o ro /dev/vdb /berth && mount -o ro /dev/vdc /python &&
    bash /berth/tools/vm/job.sh >/dev/virtio-ports/berth.output 2>&1 </dev/null
echo $? >/dev/virtio-ports/berth.status
poweroff -f
