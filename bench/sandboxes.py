# SPDX-License-Identifier: Apache-2.0
"""Sandboxes: how soon one runs code, beside bubblewrap alone and podman; and what hundreds and thousands leave behind."""

import contextlib
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

from common import OFFLINE, WORK, report, run

FOLDER = WORK / "exec"
# Berth gives each of root's runs a host user of its own, from here on.
FIRST_USER = 1_900_000_000
BARE = (
    "bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
    "--symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp -- /usr/bin/python3 -c print(42)"
).split()


def apply_stack(build):
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    (FOLDER / "stack.yaml").write_text(
        "apiVersion: berth/v1\nkind: Stack\nmetadata: {name: bench}\nspec: {provider: local}\n---\n"
        "apiVersion: berth/v1\nkind: Environment\nmetadata: {name: bench}\nspec: {image: {prebuilt: python}}\n"
    )
    run([build / "berth", "apply", "--yes", "-q", "-f", FOLDER])


def exec_command(build, *code):
    return [build / "berth", "exec", "--accept-degraded", "-q", "-f", FOLDER, "--env", "bench", *code]


# --- to the first output ---


def first_output(arguments, environment):
    """Seconds from the start of a program to the first byte that it prints, and to its end."""
    start = time.perf_counter()
    with subprocess.Popen(
        arguments, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        first = process.stdout.read(1)
        seconds = time.perf_counter() - start
        process.stdout.read()
        errors = process.stderr.read()
    whole = time.perf_counter() - start
    if first != b"4" or process.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments[:6]))} ... ended with {process.returncode}: {errors.decode()}")
    return seconds, whole


def python_files():
    """The files that this machine's Python needs to start, and no others."""
    python = pathlib.Path("/usr/bin/python3").resolve()
    libraries = subprocess.run(["ldd", python], capture_output=True, text=True, check=True).stdout
    yield from [pathlib.Path("/usr/bin/python3"), python]
    for path in re.findall(r"(/\S+) \(0x", libraries):
        yield pathlib.Path(path)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    yield from (path for path in pathlib.Path(f"/usr/lib/python{version}").rglob("*") if path.is_file())


def image_of_this_machine(path):
    """An image for podman with the same interpreter, so that both peers run the same code."""
    with tarfile.open(path, "w", dereference=True) as image:
        for file in python_files():
            image.add(file, arcname=str(file).lstrip("/"), recursive=False)


@contextlib.contextmanager
def podman():
    """A command that runs print(42) by podman, in a store of its own that goes away; or the reason of a failure."""
    if not shutil.which("podman") or not shutil.which("runc"):
        yield None, "podman or runc is not installed"
        return
    # Short, and not below the build: podman takes 50 characters at most.
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as name:
        folder = pathlib.Path(name)
        image_of_this_machine(folder / "python.tar")
        common = ["podman", "--root", folder / "root", "--runroot", folder / "run", "--runtime", "runc"]
        imported = subprocess.run(
            [*common, "import", "-q", folder / "python.tar", "bench:python"], capture_output=True, text=True, check=False
        )
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
        command = [*common, "run", "--rm", "--network", "none", *limits, "bench:python"]
        try:
            if imported.returncode:
                yield None, f"podman cannot import an image: {imported.stderr.strip()[-200:]}"
            else:
                yield [*command, "/usr/bin/python3", "-c", "print(42)"], ""
        finally:
            # Its layers belong to users of its own, and may be mounted: podman takes them away itself.
            subprocess.run([*common, "system", "reset", "--force"], capture_output=True, check=False)


def bench_podman(ours, times):
    """Several tenths of a second a run, so fewer of them, in turn with ours."""
    with podman() as (command, problem):
        if not command:
            print(f"{'exec, podman':<16} skipped: {problem}")
            return
        try:
            theirs = [(first_output(ours, OFFLINE)[0], first_output(command, os.environ)[0]) for _ in range(times)]
        except RuntimeError as error:
            print(f"{'exec, podman':<16} skipped: {error}")
            return
        ours_median, podmans = (statistics.median(column) for column in zip(*theirs))
        print(
            f"{'exec, podman':<16} {ours_median * 1000:9.1f} ms   podman     {podmans * 1000:8.1f} ms   "
            f"podman takes {podmans / ours_median:.1f}x as long"
        )


def bench_exec(build, quick):
    """Command to Python's first output, in a fresh sandbox."""
    apply_stack(build)
    ours = exec_command(build, "-c", "print(42)")
    times = [(*first_output(ours, OFFLINE), *first_output(BARE, OFFLINE)) for _ in range(30 if quick else 200)]
    first, whole, bare_first, bare_whole = (sorted(column) for column in zip(*times))
    report("exec", statistics.median(first), statistics.median(bare_first), 1.5, "bare bwrap")
    report("exec, fastest", first[0], bare_first[0], 1.5, "bare bwrap")
    report("exec, to its end", statistics.median(whole), statistics.median(bare_whole), 1.3, "bare bwrap")
    bench_podman(ours, 5 if quick else 20)


# --- many ---


def processes_of_ours():
    """Those of Berth's sandbox users, and the programs berth and bwrap with our folder among their arguments."""
    count = 0
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (folder / "cmdline").read_bytes()
            count += folder.stat().st_uid >= FIRST_USER or os.fsencode(FOLDER) in arguments
    return count


def groups_of_ours():
    return sum(1 for _ in pathlib.Path("/sys/fs/cgroup").glob("**/run-[0-9]*"))


def files_below(folder):
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def what_is_there():
    return {
        "processes": processes_of_ours(),
        "cgroups": groups_of_ours(),
        "mounts": len(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()),
        "files of the state": files_below(FOLDER),
        "files in /tmp and /dev/shm": sum(
            1 for folder in ("/tmp", "/dev/shm") for name in os.listdir(folder) if "berth" in name
        ),
    }


def print_leak(before, look=what_is_there):
    """Mounts, users and /tmp are the whole machine's: those of other programs show, and get time to end."""
    for _ in range(50):
        after = look()
        if all(after[name] <= count for name, count in before.items()):
            break
        time.sleep(0.1)
    for name, count in before.items():
        verdict = "none left" if after[name] <= count else f"{after[name] - count} MORE"
        print(f"  {name:<28} {count:6} before {after[name]:6} after   {verdict}")


def private_memory(processes):
    """MB that these processes have for themselves alone, together and the largest."""
    sizes = []
    for process in processes:
        text = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        sizes.append(sum(int(number) for number in re.findall(r"^Private_\w+:\s+(\d+)", text, re.MULTILINE)))
    return sum(sizes) / 1024, max(sizes) / 1024


def bench_at_once(build, count):
    """All of them have printed before the first may end."""
    code = "import sys; print(42, flush=True); sys.stdin.read()"
    start = time.perf_counter()
    processes = [
        subprocess.Popen(
            exec_command(build, "-c", code),
            env=OFFLINE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(count)
    ]
    started = sum(process.stdout.read(3) == b"42\n" for process in processes)
    seconds = time.perf_counter() - start
    together, largest = private_memory(processes)
    for process in processes:
        process.stdin.close()
    ended = sum(process.wait() == 0 for process in processes)
    for process in processes:
        process.stdout.close()
    print(f"{count} sandboxes at once: {started} running after {seconds:.1f} s, {ended} ended well")
    print(f"  memory of berth's own processes: {together:.0f} MB together, {largest:.1f} MB the largest")
    return started == count and ended == count


def bench_in_a_row(build, count):
    """The shell: what is looked for is what a sandbox leaves behind, and not Python's speed."""
    command = exec_command(build, "--lang", "sh", "-c", ":")
    start = time.perf_counter()
    seconds = [run(command)[0] for _ in range(count)]
    tenth = max(count // 10, 1)
    print(f"{count} sandboxes in a row: {(time.perf_counter() - start) / count * 1000:.1f} ms each")
    print(
        f"  median of the first tenth {statistics.median(seconds[:tenth]) * 1000:.1f} ms, "
        f"of the last {statistics.median(seconds[-tenth:]) * 1000:.1f} ms"
    )


def bench_scale(build, quick):
    """200 sandboxes at once, 10,000 in a row, and what is left of them."""
    apply_stack(build)
    run(exec_command(build, "-c", "print(42)"))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    before = what_is_there()
    if not bench_at_once(build, 20 if quick else 200):
        sys.exit("not all of them ran")
    bench_in_a_row(build, 100 if quick else 10_000)
    print_leak(before)
