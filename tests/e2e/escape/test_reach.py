# SPDX-License-Identifier: Apache-2.0
"""What can be seen and reached from inside: paths, descriptors, capabilities, the network, the environment."""

import contextlib
import errno
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import probes
from lib.processes import uid_of, wait_for
import pytest

MARKER = f"berth-marker-{os.getpid()}-{time.time_ns()}-"  # beside other runs of these tests on the machine

# Writing to any of these is a way out, or harms the machine. They are opened, never written.
NOT_WRITABLE = [
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/kernel/sysrq",
    "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/user/max_user_namespaces", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger", "/proc/kcore",
    "/proc/kmsg", "/proc/irq/default_smp_affinity", "/proc/1/exe", "/proc/self/exe", "/proc/self/setgroups",
    "/proc/1/mem", "/proc/self/mem", "/proc/self/oom_score_adj",
    "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/release_agent",
    "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vsock",
    "/etc/passwd", "/etc/ld.so.cache", "/etc/localtime", "/usr/bin/env", "/usr/lib/os-release", "/bin/sh", "/run/berth/main.py",
]  # fmt: skip
FOLDERS = ["/", "/usr", "/usr/bin", "/etc", "/run", "/run/berth", "/var", "/dev", "/dev/pts", "/proc", "/proc/sys", "/proc/irq"]
NOT_READABLE = ["/etc/shadow", "/etc/hostname", "/root", "/home", "/var/log/syslog", "/run/docker.sock", "/run/dbus/system_bus_socket",
                "/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/sys/kernel/notes", "/boot"]  # fmt: skip


def test_paths_are_not_writable(sandbox):
    before = Path("/proc/sys/kernel/core_pattern").read_bytes()
    answers = sandbox.tell(probes.OPEN_FOR_WRITING, "--", json.dumps([*NOT_WRITABLE, "/dev/null"]))
    assert answers.pop("/dev/null") == 0
    assert {path for path, code in answers.items() if code == 0} == set()
    assert Path("/proc/sys/kernel/core_pattern").read_bytes() == before


def test_the_machine_kills_it_first(sandbox):
    """Where memory ends for all: before the server, and whatever else runs. That it cannot be taken back is tried above."""
    if sandbox.user == "ordinary":
        pytest.skip("an ordinary user's sandbox cannot say so")
    code = "print(*(open(f'/proc/{pid}/oom_score_adj').read().strip() for pid in ('1', 'self')))"
    assert sandbox.exec(code)["text"].split() == ["1000", "1000"]
    assert Path("/proc/self/oom_score_adj").read_text().strip() != "1000"


def test_folders_take_no_new_files(sandbox):
    code = f"""
import json, os
answers = {{}}
for folder in {FOLDERS!r} + ["/workspace", "/tmp", "/dev/shm", "/var/tmp"]:
    try:
        os.close(os.open(folder + "/berth-probe", os.O_CREAT | os.O_EXCL | os.O_WRONLY)); os.unlink(folder + "/berth-probe")
        answers[folder] = 0
    except OSError as error:
        answers[folder] = error.errno
print(json.dumps(answers))
"""
    answers = sandbox.tell(code)
    assert {folder for folder in answers if answers[folder] == 0} == {"/workspace", "/tmp", "/dev/shm", "/var/tmp"} - (
        {"/var/tmp"} if answers["/var/tmp"] else set()
    )


def test_secrets_of_the_host_are_not_there(sandbox):
    answers = sandbox.tell(probes.READ, "--", json.dumps([*NOT_READABLE, str(sandbox.stack / "stack.yaml"), "/etc/passwd"]))
    assert answers.pop("/etc/passwd") == 1
    assert {path for path, got in answers.items() if got > 0} == set()


def test_no_descriptor_leaks(box):
    secret = box.folder / "held-open"
    secret.write_text("secret")
    held = os.open(secret, os.O_RDONLY)
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        answers = box.tell(
            "import json, os\n"
            "found = {}\n"
            "for n in range(1024):\n"
            "    try: found[n] = os.readlink(f'/proc/self/fd/{n}')\n"
            "    except OSError: pass\n"
            "print(json.dumps(found))",
            pass_fds=(held, folder),
        )
    finally:
        os.close(held)
        os.close(folder)
    assert set(answers) - {"3"} == {"0", "1", "2"}
    assert answers.get("3", "/run/berth/main.py").startswith("/run/berth/")
    assert all(answers[n].startswith(("pipe:", "/dev/null")) for n in "012"), answers


def test_working_directory_through_a_descriptor(sandbox):
    """CVE-2024-21626: no /proc/self/fd/N, of the program or of process 1, is a folder of the host: one that has no path in the sandbox."""
    answers = sandbox.tell(
        "import json, os\n"
        "found = []\n"
        "for pid in ('self', '1'):\n"
        "    for n in range(64):\n"
        "        try: os.chdir(f'/proc/{pid}/fd/{n}')\n"
        "        except OSError: continue\n"
        "        try: known = os.path.samestat(os.stat('.'), os.stat(os.getcwd()))\n"
        "        except OSError: known = False\n"
        "        if not known: found.append([pid, n, os.readlink('/proc/self/cwd')])\n"
        "print(json.dumps(found))"
    )
    assert answers == []


def test_launcher_cannot_be_overwritten(sandbox):
    """CVE-2019-5736: process 1 is bubblewrap; its executable must not open for writing."""
    answers = sandbox.tell(probes.OPEN_FOR_WRITING, "--", json.dumps(["/proc/1/exe", "/proc/self/exe", "/usr/bin/bwrap"]))
    assert all(answers.values())


def test_capabilities_and_privileges(sandbox):
    status = dict(line.split(":\t", 1) for line in sandbox.exec("print(open('/proc/self/status').read())")["text"].splitlines() if ":\t" in line)
    for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
        assert int(status[f"Cap{kind}"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["Groups"].strip() in ("", "1000", "65534")


def test_process_1_is_confined_as_well(sandbox):
    """It is bubblewrap's, of the same user: whoever takes it over must gain nothing."""
    status = dict(line.split(":\t", 1) for line in sandbox.exec("print(open('/proc/1/status').read())")["text"].splitlines() if ":\t" in line)
    for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
        assert int(status[f"Cap{kind}"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"], status["Seccomp_filters"]) == ("1", "2", "1")


def test_host_user_is_nobody(box):
    """Seen from outside, the program runs as a user of its own, never as root."""
    process = box.popen(*box.words("import time; time.sleep(30)", "--", MARKER + "uid"))
    try:
        uid = wait_for(lambda: uid_of(MARKER + "uid"))
        assert uid != 0
        assert uid == box.uid or uid > 65533
    finally:
        process.kill()
        process.communicate()


def test_environment_is_clean(sandbox):
    answers = sandbox.tell("import json, os; print(json.dumps(dict(os.environ)))")
    assert answers["COLOUR"] == "red" and answers["SECRET"] == "s3cr3t-of-the-test"
    assert not [name for name in answers if name.startswith(("AWS_", "BERTH_"))]
    assert "leaked" not in json.dumps(answers)


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # processes end while they are looked at
            yield path.read_bytes()


def test_secret_variable_is_on_no_command_line(box):
    process = box.popen(*box.words("import time; time.sleep(30)", "--", MARKER + "secret"))
    try:
        wait_for(lambda: uid_of(MARKER + "secret"))
        assert not [line for line in command_lines() if b"s3cr3t-of-the-test" in line]
    finally:
        process.kill()
        process.communicate()


def test_processes_of_the_host_are_not_seen(box):
    answers = box.tell("import json, os; print(json.dumps([p for p in os.listdir('/proc') if p.isdigit()]))")
    assert set(answers) <= {"1", "2"}


def test_new_session(box):
    """CVE-2017-5226: no controlling terminal whose input could be faked."""
    answers = box.tell(
        "import json, os\n"
        "try: os.close(os.open('/dev/tty', os.O_RDWR)); tty = 0\n"
        "except OSError as e: tty = e.errno\n"
        "print(json.dumps([os.getsid(0), tty]))"
    )
    assert answers[0] in (1, 2)
    assert answers[1] == errno.ENXIO


def test_no_user_namespace(sandbox):
    assert sandbox.exec("import subprocess, sys; sys.exit(subprocess.run(['unshare', '-Ur', 'true']).returncode)")["exitCode"] != 0


def test_no_network(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        name = f"\0berth-escape-{os.getpid()}-{sandbox.user}"
        with socket.socket(socket.AF_UNIX) as abstract:
            abstract.bind(name)
            abstract.listen()
            abstract.settimeout(0.2)
            answers = sandbox.tell(
                probes.CONNECT,
                "--",
                json.dumps({
                    "loopback of the host": [2, ["127.0.0.1", port]],
                    "metadata": [2, ["169.254.169.254", 80]],
                    "containers' credentials": [2, ["169.254.170.2", 80]],
                    "somewhere": [2, ["192.0.2.1", 443]],
                    "name server": [2, ["127.0.0.53", 53]],
                    "abstract": [1, name],
                    "host's bus": [1, "/run/dbus/system_bus_socket"],
                    "docker": [1, "/var/run/docker.sock"],
                }),
            )
            assert all(answers.values()), answers
            with pytest.raises(TimeoutError):
                listener.accept()
            with pytest.raises(TimeoutError):
                abstract.accept()


def test_names_are_not_resolved(sandbox):
    code = "import socket\ntry: socket.getaddrinfo('example.com', 80); print('resolved')\nexcept OSError: print('no')"
    assert sandbox.exec(code)["text"] == "no\n"


def test_interfaces(sandbox):
    answers = sandbox.tell("import json; print(json.dumps([line.split(':')[0].strip() for line in list(open('/proc/net/dev'))[2:]]))")
    assert answers == ["lo"]


BINARY_FORMATS = "/proc/sys/fs/binfmt_misc"


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.isdir(BINARY_FORMATS), reason="root mounts something there for the test")
def test_nothing_that_the_host_mounts_below_proc_is_there(box):
    """Such as systemd's binfmt_misc, which is mounted on the host by whoever looks at it."""
    words = box.command(*box.words("print(open('/proc/self/mountinfo').read() + str(__import__('os').listdir('/proc/sys/vm')))"))
    script = f'mount -t tmpfs -o mode=755 berth-probe {BINARY_FORMATS} && exec "$@"'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *words], cwd=box.stack, env=box.env, capture_output=True)
    assert done.returncode == 0, done.stderr
    text = json.loads(done.stdout)["stdout"]["content"]
    assert "berth-probe" not in text and "overcommit_memory" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="root makes a PID namespace for the test")
def test_in_a_container_where_low_process_ids_are_free(box):
    """The ids of processes in a run's own namespace are nobody's in the one around it."""
    script = 'for _ in 1 2 3 4 5 6 7 8 9; do /bin/true; done; "$@"'
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "sh", "-c", script, "sh"]
    done = subprocess.run([*words, *box.command(*box.words("print(6 * 7)"))], cwd=box.stack, env=box.env, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stdout"]["content"] == "42\n"


def test_set_user_id_has_no_effect(sandbox):
    """Every mount is nosuid; a set-user-id program gains nothing."""
    lines = sandbox.exec("print(open('/proc/self/mountinfo').read(), end='')")["text"].splitlines()
    assert lines
    for line in lines:
        assert "nosuid" in line.split()[5].split(","), line
