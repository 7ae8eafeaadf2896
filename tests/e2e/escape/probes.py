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

# Machine code in an executable page, in a child: answers its exit status, negative for a signal.
MACHINE_CODE = """
import ctypes, json, mmap, os, sys
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex(sys.argv[1]))
child = os.fork()
if child == 0:
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    os._exit(0)
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
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
