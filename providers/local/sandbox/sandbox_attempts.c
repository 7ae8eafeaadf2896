/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/local/sandbox/sandbox_attempts.h"

#include <stdio.h>
#include <string.h>

#define CONTROL "control"

/* clang-format off */
const struct sandbox_attempt sandbox_attempts[] = {
        { "mount", "call(165, b'none', b'/tmp', b'tmpfs', 0, None)" },
        { "open_tree", "call(428, -100, b'/', 1)" },
        { "fsopen", "call(430, b'tmpfs', 0)" },
        { "pivot_root", "call(155, b'.', b'.')" },
        { "unshare of users", "call(272, 0x10000000)" },
        { "clone of users", "clone(0x10000000 | 17)" },
        { "clone of mounts", "clone(0x00020000 | 17)" },
        { "setns", "call(308, 0, 0)" },
        { "ptrace", "call(101, 0, 0, 0, 0)" },
        { "bpf", "call(321, 0, None, 0)" },
        { "perf_event_open", "call(298, None, 0, -1, -1, 0)" },
        { "io_uring_setup", "call(425, 1, None)" },
        { "userfaultfd", "call(323, 0)" },
        { "keyctl", "call(250, 0, -3, 0)" },
        { "add_key", "call(248, b'user', b'berth', b'x', 1, -3)" },
        { "TIOCSTI", "call(16, 0, 0x5412, b'x')" },
        { "core_pattern", "opened('/proc/sys/kernel/core_pattern')" },
        { "modprobe's path", "opened('/proc/sys/kernel/modprobe')" },
        { "drop_caches", "opened('/proc/sys/vm/drop_caches')" },
        { "sysrq-trigger", "opened('/proc/sysrq-trigger')" },
        { "programs of the machine", "opened('/usr/bin/env')" },
        { "the launcher", "opened('/proc/1/exe')" },
        { "new files in /usr", "os.close(os.open('/usr/berth-probe', os.O_CREAT | os.O_EXCL | os.O_WRONLY))" },
        { "new files in /", "os.close(os.open('/berth-probe', os.O_CREAT | os.O_EXCL | os.O_WRONLY))" },
        { "/etc/shadow", "open('/etc/shadow').close()" },
        { "/root", "os.listdir('/root')" },
        { "/sys", "os.listdir('/sys/kernel')" },
        { "the terminal", "os.close(os.open('/dev/tty', os.O_RDWR))" },
        { "an inherited descriptor", "[os.fstat(n) for n in range(3, 256) if n not in own] or fail()" },
        { "a capability", "int(status('CapEff'), 16) or int(status('CapBnd'), 16) or fail()" },
        { "privileges by exec", "status('NoNewPrivs') != '1' or fail()" },
        { "an AWS_ or BERTH_ variable", "[n for n in os.environ if n.startswith(('AWS_', 'BERTH_'))] or fail()" },
        { "processes of the machine", "[p for p in os.listdir('/proc') if p.isdigit() and int(p) > 50] or fail()" },
        { "packet sockets", "socket.socket(17, 3, 3).close()" },
        { "virtual machine sockets", "socket.socket(40, 1).close()" },
        { "netlink", "socket.socket(16, 3, 0).close()" },
        { "netlink audit", "socket.socket(16, 3, 9).close()" },
        { "MPTCP", "socket.socket(2, 1, 262).close()" },
        { "a filter on a socket", "socket.socket().setsockopt(1, 26, bytes(16))" },
        { "huge pages", "call(319, b'x', 4)" },
        { "syncfs", "call(306, 0)" },
        { "a lease", "call(72, os.open('leased', os.O_CREAT | os.O_RDWR), 1024, 0)" },
        { "the metadata address", "connected(('169.254.169.254', 80))" },
        { "the internet", "connected(('192.0.2.1', 443))" },
        { "a name server", "connected(('127.0.0.53', 53))" },
        { "more processes than allowed", "forks(600)" },
        { "a file larger than the workspace", "os.truncate(os.open('hole', os.O_CREAT | os.O_RDWR), 1 << 40)" },
        { NULL, NULL },
};

static const char *const prelude[] = {
        "import ctypes, os, signal, socket, sys, time",
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
        "libc = ctypes.CDLL(None, use_errno=True)",
        "own = ()",
        "def fail(): raise OSError(1, 'as it should be')",
        "def call(*a):",
        "    a = [ctypes.c_long(x) if isinstance(x, int) else x for x in a]",
        "    if libc.syscall(*a) == -1: raise OSError(ctypes.get_errno(), '')",
        "def clone(flags):",
        "    r = libc.syscall(ctypes.c_long(56), ctypes.c_long(flags), None, None, None, None)",
        "    if r == 0: os._exit(0)",
        "    if r == -1: raise OSError(ctypes.get_errno(), '')",
        "def opened(path): os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))",
        "def status(key): return [l.split()[1] for l in open('/proc/self/status') if l.startswith(key + ':')][0]",
        "def connected(address):",
        "    s = socket.socket(); s.settimeout(2); s.connect(address)",
        "def forks(n):",
        "    made = []",
        "    try:",
        "        for _ in range(n):",
        "            p = os.fork()",
        "            if p == 0: time.sleep(60); os._exit(0)",
        "            made.append(p)",
        "    finally:",
        "        for p in made: os.kill(p, 9); os.waitpid(p, 0)",
        "def attempt(name, code):",
        "    p = os.fork()",
        "    if p == 0:",
        "        try: exec(code, globals()); os._exit(10)",
        "        except OSError: os._exit(11)",
        "        except BaseException: os._exit(12)",
        "    s = os.waitstatus_to_exitcode(os.waitpid(p, 0)[1])",
        "    print({10: 'through', 11: 'denied'}.get(s, 'broken'), name, sep='\\t', flush=True)",
        NULL,
};
/* clang-format on */

void sandbox_attempts_program(struct strbuf *ret) {
        for (const char *const *line = prelude; *line; line++)
                strbuf_printf(ret, "%s\n", *line);
        strbuf_append(ret, "attempt('" CONTROL "', 'call(39)')\n");
        for (const struct sandbox_attempt *attempt = sandbox_attempts; attempt->name; attempt++)
                strbuf_printf(ret, "attempt(\"%s\", \"%s\")\n", attempt->name, attempt->code);
}

static bool said(const char *printed, const char *answer, const char *name) {
        char line[256];
        int length = snprintf(line, sizeof(line), "%s\t%s\n", answer, name);

        for (const char *at = printed; (at = strstr(at, line)); at += length) {
                if (at == printed || at[-1] == '\n')
                        return true;
        }
        return false;
}

size_t sandbox_attempts_judge(const char *printed, struct strbuf *ret_through) {
        size_t count = 0;

        /* Something must go through, or the way of asking is broken and "denied" means nothing. */
        if (!said(printed, "through", CONTROL))
                strbuf_append(ret_through, "nothing could be tried");
        for (const struct sandbox_attempt *attempt = sandbox_attempts; attempt->name; attempt++) {
                count++;
                if (!said(printed, "denied", attempt->name))
                        strbuf_printf(ret_through, "%s%s", ret_through->length ? ", " : "", attempt->name);
        }
        return ret_through->length ? 0 : count;
}
