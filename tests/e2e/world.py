# SPDX-License-Identifier: Apache-2.0
"""
A machine with a world around it: two network namespaces joined by a wire. In one Berth runs, with a resolv.conf and an authority of
the test's own; in the other stand servers at addresses of the public internet (world_servers.py). Nothing of Berth's knows that it is
a test. Needs root.

    world = World(folder)
    berth = world.berth(binary)       a program, that runs the binary there
    world.requests()                  what the servers were asked for
    world.trapped()                   who came to this machine itself: to loopback, private and metadata addresses, or its public one
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import certificates
from controllers import wait_until
from servers import die_with_parent

HERE = Path(__file__).resolve().parent
SERVER, SECOND, NAMES, OURS = "5.45.100.10", "5.45.100.11", "5.45.100.53", "5.45.100.1"
SERVER6, OURS6 = "2600:1f00::10", "2600:1f00::1"
INSIDE = ["10.9.9.9", "172.16.9.9", "192.168.9.9", "169.254.169.254", "100.100.100.200", "198.18.0.9", "168.63.129.16"]
INSIDE6 = ["fd00:ec2::254", "fe80::9", "2002:a09:909::1", "2001:db8::9", "64:ff9b::a09:909"]
HOSTS = ["pypi.example.org", "cdn.files.example.org", "npm.example.org", "git.example.org", "www.example.org", "other.example.org"]
TRAP = """
import json, selectors, socket, sys
found, log = selectors.DefaultSelector(), open(sys.argv[1], "a", buffering=1)
for port in (22, 53, 80, 443, 3128):
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("::", port))
    server.listen(64)
    found.register(server, selectors.EVENT_READ)
open(sys.argv[1] + ".ready", "w").close()
while True:
    for key, _ in found.select():
        client, who = key.fileobj.accept()
        log.write(json.dumps([client.getsockname()[:2], who[:2]]) + "\\n")
        client.close()
"""


class World:
    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.zone = {name: [SERVER] for name in HOSTS}
        self.authority = certificates.Authority(folder)
        _, pem, key = self.authority.issue(*HOSTS, "hidden.example.org", "six.example.org")
        (folder / "site.pem").write_bytes(pem)
        certificates.write_private(folder / "site.key", certificates.pem_of_key(key))
        (folder / "resolv.conf").write_text(f"nameserver {NAMES}\n")
        self.machine, self.outside = self._namespace(), self._namespace()
        self._wire()

    def _start(self, *command, **kwargs):
        process = subprocess.Popen([str(part) for part in command], preexec_fn=die_with_parent, stdin=subprocess.DEVNULL, **kwargs)
        self.processes.append(process)
        return process

    def _namespace(self):
        """A process that holds a network and a mount namespace."""
        holder = self._start("unshare", "--net", "--mount", "sh", "-c", "echo; exec sleep infinity", stdout=subprocess.PIPE)
        holder.stdout.readline()
        return holder.pid

    @staticmethod
    def enter(pid):
        return ["nsenter", f"--net=/proc/{pid}/ns/net", f"--mount=/proc/{pid}/ns/mnt"]

    def _ip(self, pid, *words):
        subprocess.run([*self.enter(pid), "ip", *words], check=True, capture_output=True)

    def _wire(self):
        subprocess.run(["ip", "link", "add", "wire", "netns", str(self.machine), "type", "veth", "peer", "name", "wire", "netns", str(self.outside)],
                       check=True)  # fmt: skip
        for pid, addresses in ((self.machine, [f"{OURS}/24", f"{OURS6}/64"]),
                               (self.outside, [f"{a}/24" for a in (SERVER, SECOND, NAMES)] + [f"{SERVER6}/64"])):  # fmt: skip
            for address in addresses:
                self._ip(pid, "address", "add", address, "dev", "wire", *(["nodad"] if ":" in address else []))
            for device in ("lo", "wire"):
                self._ip(pid, "link", "set", device, "up")
        # Whoever connects to one of these on this machine would be heard.
        for address in INSIDE:
            self._ip(self.machine, "address", "add", f"{address}/32", "dev", "lo")
        for address in INSIDE6:
            self._ip(self.machine, "-6", "address", "add", f"{address}/128", "dev", "lo", "nodad")
        for source, target in (("resolv.conf", "/etc/resolv.conf"), ("authority.pem", "/etc/ssl/certs/ca-certificates.crt")):
            subprocess.run([*self.enter(self.machine), "mount", "--bind", str(self.folder / source), str(Path(target).resolve())], check=True)

    def serve(self):
        """Once the zone is filled: the servers outside, and the trap on this machine."""
        (self.folder / "zone.json").write_text(json.dumps(self.zone))
        self._start(*self.enter(self.outside), sys.executable, HERE / "world_servers.py", self.folder, NAMES)
        self._start(*self.enter(self.machine), sys.executable, "-c", TRAP, self.folder / "trapped")
        wait_until(lambda: (self.folder / "ready").exists() and (self.folder / "trapped.ready").exists())
        return self

    def program(self, name, command):
        script = self.folder / name
        words = " ".join(self.enter(self.machine))
        script.write_text(f'#!/bin/sh\nexec {words} --wd="$PWD" -- {command} "$@"\n')
        script.chmod(0o755)
        return script

    def berth(self, binary):
        return self.program("berth", binary)

    def requests(self, hellos=False):
        log = self.folder / "requests.log"
        found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [request for request in found if hellos or "hello" not in request]

    def trapped(self):
        return [json.loads(line) for line in (self.folder / "trapped").read_text().splitlines()]

    def end(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGKILL)
            process.wait()
