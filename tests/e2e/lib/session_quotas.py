# SPDX-License-Identifier: Apache-2.0
"""Sessions that fill their disk."""

import os
import shutil
from pathlib import Path

MB = 1 << 20
QUOTA = 512 * MB


def missing(folder):
    if os.geteuid() != 0:
        return "only root can"
    if not os.path.exists("/dev/loop-control") or not shutil.which("mke2fs", path="/sbin:/usr/sbin:/bin:/usr/bin"):
        return "no loop devices, or no mke2fs"
    if "ext4" not in Path("/proc/filesystems").read_text():
        return "the kernel has no ext4"
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_bsize < 4 * QUOTA + disk.f_blocks // 10 * disk.f_bsize:
        return "too little of the disk would be left"
    return None


FILL = f"""
import os
s = os.statvfs("/workspace")
found = [s.f_bavail * s.f_bsize, os.listdir("/workspace"), oct(os.stat("/workspace").st_mode)]
for name, size in (("half", {QUOTA // 2}), ("rest", {QUOTA // 2 + 4096})):
    with open(name, "wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            found.append(name)
        except OSError as error:
            found.append(error.strerror)
for name in ("half", "rest"): os.unlink(name)
found + [os.path.exists(p) for p in ("/dev/loop0", "/dev/loop-control")]
"""
