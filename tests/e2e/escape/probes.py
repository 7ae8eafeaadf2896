# SPDX-License-Identifier: Apache-2.0
"""Code that runs inside the sandbox. What an attack would open, it closes; nothing is ever written outside."""

# Each row: {name: [number, arguments]}; answers {name: errno, 0 where the call went through}.
CALLS = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
rows = json.loads(sys.argv[1])
answers = {}
for name, (number, arguments) in rows.items():
    child = os.fork()   # a call that does go through shall harm the child alone
    if child == 0:
        ctypes.set_errno(0)
        arguments = [ctypes.c_char_p(a.encode()) if isinstance(a, str) else ctypes.c_long(a) for a in arguments]
        result = libc.syscall(ctypes.c_long(number), *arguments)
        os._exit(ctypes.get_errno() if result == -1 else 0)
    _, status = os.waitpid(child, 0)
    answers[name] = os.waitstatus_to_exitcode(status)
print(json.dumps(answers))
"""

# Machine code in an executable page, in a child: answers the 32 bits that it returned; text where a signal ended it.
MACHINE_CODE = """
import ctypes, json, mmap, os, sys
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex(sys.argv[1]))
here, there = os.pipe()
child = os.fork()
if child == 0:
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    os.write(there, str(result).encode())
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(int(os.read(here, 100)) if status == 0 else f"signal {-status}"))
"""

# Tries to open each path for writing (never writes, never creates); answers {path: errno, 0 where it opened}.
OPEN_FOR_WRITING = """
import json, os, sys
answers = {}
for path in json.loads(sys.argv[1]):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
        answers[path] = 0
    except OSError as error:
        answers[path] = error.errno
print(json.dumps(answers))
"""

# Tries to read one byte of each path; answers {path: bytes read, or -errno}.
READ = """
import json, os, sys
answers = {}
for path in json.loads(sys.argv[1]):
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        answers[path] = len(os.read(file, 1))
    except OSError as error:
        answers[path] = -error.errno
print(json.dumps(answers))
"""

# Opens sockets: {name: [family, type, protocol]} -> {name: errno}.
SOCKETS = """
import json, socket, sys
answers = {}
for name, arguments in json.loads(sys.argv[1]).items():
    try:
        socket.socket(*arguments).close()
        answers[name] = 0
    except OSError as error:
        answers[name] = error.errno
print(json.dumps(answers))
"""

# Connects: {name: [family, address]} -> {name: errno}.
CONNECT = """
import json, socket, sys
answers = {}
for name, (family, address) in json.loads(sys.argv[1]).items():
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(tuple(address) if isinstance(address, list) else address)
            answers[name] = 0
        except OSError as error:
            answers[name] = error.errno or -1
print(json.dumps(answers))
"""

# Looks for texts in whatever can be read of every process inside (environment, arguments, memory, every other file below
# /proc/PID) and of the sandbox's own files; prints where each was found. The texts come reversed, and are searched for in
# reversed bytes, by a child that leaves itself out: what the search itself has in memory is no find.
CANARIES = """
import json, os, sys
backwards = json.loads(sys.argv[1])
found, looked = [], 0
def search(where, data):
    global looked
    looked += len(data)
    data = data[::-1]
    for number, text in enumerate(backwards):
        if text.encode() in data: found.append([number, where])
def read(path):
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        search(path, os.read(file, 1 << 20))
    except OSError:
        pass
    finally:
        os.close(file)
def links(folder):
    try: names = os.listdir(folder)
    except OSError: return
    for name in names:
        try: search(folder + "/" + name, os.readlink(folder + "/" + name).encode())
        except OSError: pass
def memory(pid):
    try:
        maps = open(f"/proc/{pid}/maps").read().splitlines()
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except OSError:
        return
    for line in maps:
        start, end = (int(n, 16) for n in line.split()[0].split("-"))
        try: search(f"memory of {pid}: {line}", os.pread(file, min(end - start, 64 << 20), start))
        except (OSError, OverflowError): pass
    os.close(file)
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
seen = [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
for pid in seen:
    for folder, folders, files in os.walk(f"/proc/{pid}"):
        for name in files:
            if name not in ("mem", "clear_refs", "pagemap", "kmsg"): read(folder + "/" + name)
        if folder.count("/") > 4: folders.clear()
    links(f"/proc/{pid}/fd"); links(f"/proc/{pid}"); links(f"/proc/{pid}/map_files")
    memory(pid)
for top in ("/run", "/etc", "/workspace", "/tmp", "/dev/shm"):
    for folder, _, files in os.walk(top):
        for name in files: read(folder + "/" + name)
print(json.dumps({"found": found, "processes": len(seen), "looked": looked}))
"""
