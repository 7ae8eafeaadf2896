# SPDX-License-Identifier: Apache-2.0
"""
Real Git servers on free ports of loopback, and repositories made by git itself.

    GitServers.daemon(root)      git daemon                                       .url("agents.git") -> git://...
    GitServers.https(root, ...)  git http-backend behind Apache: TLS by a CA of the test's own, basic authentication
    GitServers.ssh(root, ...)    OpenSSH's sshd, unprivileged, its host key and its user's key made here
    Repository                   a work tree with a bare repository beside it that it pushes to

Nothing of the machine's own configuration is read: no ~/.gitconfig, ~/.ssh, ~/.gnupg.
"""

import base64
import datetime
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from passers import Passer
from servers import die_with_parent

ROOT = Path(__file__).resolve().parents[2]
USER, PASSWORD = "berth", "correct-horse-battery"

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_AUTHOR_NAME": "Ada Author",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Carl Committer",
    "GIT_COMMITTER_EMAIL": "carl@example.com",
}


def run(*command, cwd=None, env=None, stdin=None, check=True):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**ENVIRONMENT, **(env or {})}, capture_output=True, timeout=300,
        input=stdin.encode() if isinstance(stdin, str) else stdin, stdin=subprocess.DEVNULL if stdin is None else None,
    )  # fmt: skip
    if check and done.returncode != 0:
        raise AssertionError(f"{command} -> {done.returncode}\n{done.stdout.decode()[-2000:]}\n{done.stderr.decode()[-2000:]}")
    return done.stdout.decode("utf-8", "replace")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port, process=None, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if process and process.poll() is not None:
                break
            time.sleep(0.05)
    raise AssertionError(f"nobody listens on port {port}")


class Repository:
    """FOLDER/NAME is the work tree, FOLDER/NAME.git what servers serve. `home` holds keys for signing."""

    def __init__(self, folder, name="agents"):
        self.folder, self.name = Path(folder), name
        self.work, self.bare = self.folder / name, self.folder / f"{name}.git"
        self.env = {"HOME": str(self.folder)}
        run("git", "init", "-q", "--bare", "-b", "main", self.bare, env=self.env)
        run("git", "-C", self.bare, "config", "uploadpack.allowAnySHA1InWant", "false", env=self.env)
        run("git", "init", "-q", "-b", "main", self.work, env=self.env)
        self.git("remote", "add", "origin", self.bare)

    def git(self, *args, env=None, stdin=None, check=True):
        return run("git", *args, cwd=self.work, env={**self.env, **(env or {})}, stdin=stdin, check=check).strip()

    def commit(self, files=None, message="a change", sign=(), push=True, env=None):
        """Writes `files` {path: text}, None deletes; commits; pushes. The commit."""
        for path, text in (files or {}).items():
            place = self.work / path
            if text is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message, *sign, env=env)
        if push:
            self.push()
        return self.head()

    def head(self, name="HEAD"):
        return self.git("rev-parse", f"{name}^{{commit}}")

    def push(self, *refs):
        self.git("push", "-q", "-f", "origin", *(refs or ("HEAD",)))

    def tag(self, name, *args, env=None):
        self.git("tag", *args, name, env=env)
        self.push(f"refs/tags/{name}")

    def publish(self, commit, branch="main"):
        """Puts a commit that was made by hand where the branch is."""
        self.push(f"{commit}:refs/heads/{branch}")

    # --- raw objects, such as no git would make ---

    def raw(self, kind, data):
        """Written into both repositories by its bytes."""
        data = data.encode() if isinstance(data, str) else data
        store = f"{kind} {len(data)}\0".encode() + data
        name = hashlib.sha1(store).hexdigest()
        import zlib

        for repository in (self.work / ".git", self.bare):
            place = repository / "objects" / name[:2] / name[2:]
            place.parent.mkdir(exist_ok=True)
            if not place.exists():
                place.write_bytes(zlib.compress(store))
        return name

    def raw_tree(self, entries):
        """[(mode, name, id)], in the order given."""
        data = b"".join(
            f"{mode} ".encode() + (name if isinstance(name, bytes) else name.encode()) + b"\0" + bytes.fromhex(identity)
            for mode, name, identity in entries
        )
        return self.raw("tree", data)

    def raw_commit(self, tree, parent=None, extra="", message="by hand\n"):
        who = "Ada Author <ada@example.com> 1700000000 +0000"
        parents = f"parent {parent}\n" if parent else ""
        return self.raw("commit", f"tree {tree}\n{parents}author {who}\ncommitter {who}\n{extra}\n{message}")

    def set_ref(self, name, commit):
        """Past every check of git's own."""
        place = self.bare / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(commit + "\n")


class Keys:
    """Keys to sign with, made here: OpenPGP in a GNUPGHOME of its own, ssh as files."""

    def __init__(self, folder):
        self.folder = Path(folder)
        # A socket's path is short, and a test's folder is not.
        self.gnupg = Path(tempfile.mkdtemp(prefix="bg-", dir="/tmp"))
        self.gnupg.chmod(0o700)
        self.env = {"GNUPGHOME": str(self.gnupg)}

    def gpg(self, *args, stdin=None):
        return run("gpg", "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", "", *args, env=self.env, stdin=stdin)

    def openpgp(self, name, expires="never", faked=None, algorithm="ed25519"):
        """A key; its fingerprint. `faked`: the time at which it is made."""
        address = f"{name}@example.com"
        when = ["--faked-system-time", faked] if faked else []
        self.gpg(*when, "--quick-gen-key", f"{name} <{address}>", algorithm, "sign", expires)
        listing = self.gpg("--with-colons", "--list-secret-keys", address)
        return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))

    def export(self, fingerprint, armor=True):
        path = self.folder / f"{fingerprint[:16]}{'.asc' if armor else '.gpg'}"
        path.unlink(missing_ok=True)
        self.gpg(*(["--armor"] if armor else []), "--output", path, "--export", fingerprint)
        return path

    def signing(self, fingerprint, faked=None, options=""):
        """git's arguments before `commit` that sign by this key."""
        program = self.folder / "gpg-here"
        when = f"--faked-system-time {faked}" if faked else ""
        program.write_text(f'#!/bin/sh\nexec gpg --batch --no-tty --pinentry-mode loopback --passphrase "" {when} {options} "$@"\n')
        program.chmod(0o755)
        return {
            **self.env, **config({"gpg.program": program, "user.signingkey": fingerprint, "commit.gpgsign": "true", "tag.gpgsign": "true"}),
        }  # fmt: skip

    def ssh(self, name):
        path = self.folder / f"ssh-{name}"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path)
        return path

    def ssh_signing(self, key):
        return config({"gpg.format": "ssh", "user.signingkey": key, "commit.gpgsign": "true", "tag.gpgsign": "true"})

    def allowed(self, *lines):
        path = self.folder / "allowed_signers"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def stop(self):
        run("gpgconf", "--kill", "all", env=self.env, check=False)
        shutil.rmtree(self.gnupg, ignore_errors=True)


def config(values):
    """git's configuration as environment, for one command."""
    rows = [("safe.directory", "*"), *values.items()]
    found = {"GIT_CONFIG_COUNT": str(len(rows))}
    for number, (key, value) in enumerate(rows):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = str(value)
    return found


class Authority:
    """A CA, and certificates by it."""

    def __init__(self, folder, name="test CA"):
        self.folder = Path(folder)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self.name, self.key.public_key(), True, [])
        self.file = self.folder / f"{name.replace(' ', '-')}.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _sign(self, subject, public, is_ca, hosts, days=1):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(public)
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=10))
            .not_valid_after(now + datetime.timedelta(days=days)).add_extension(x509.BasicConstraints(is_ca, None), True)
        )  # fmt: skip
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), False)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, *hosts, days=1):
        """(certificate file, key file); `days` that it is still valid."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        made = self._sign(name, key.public_key(), False, hosts, days)
        certificate, secret = self.folder / f"{hosts[0]}.crt", self.folder / f"{hosts[0]}.key"
        certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return certificate, secret


class Server:
    """A process that serves `root`; `url(NAME)` of a repository in it."""

    def __init__(self, port):
        self.port = port
        self.process = None
        self.log = None

    def start(self, *command, cwd=None, env=None, log=None):
        self.log = log
        with open(log, "ab") as stream:
            self.process = subprocess.Popen(
                [str(part) for part in command], cwd=cwd, env={**ENVIRONMENT, **(env or {})}, stdin=subprocess.DEVNULL,
                stdout=stream, stderr=stream, start_new_session=True, preexec_fn=die_with_parent,
            )  # fmt: skip
        try:
            wait_for_port(self.port, self.process)
        except AssertionError as error:
            self.stop()
            raise AssertionError(f"{error}\n{Path(log).read_text()[-3000:]}") from None
        return self

    def stop(self):
        if not self.process:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        self.process.wait()
        self.process = None


class Daemon(Server):
    def __init__(self, root):
        super().__init__(free_port())
        self.root = Path(root)

    def begin(self):
        return self.start(
            "git", "daemon", "--reuseaddr", "--export-all", f"--base-path={self.root}", "--listen=127.0.0.1",
            f"--port={self.port}", self.root, log=self.root / "daemon.log",
        )  # fmt: skip

    def url(self, name):
        return f"git://127.0.0.1:{self.port}/{name}"


APACHE = """
ServerRoot {folder}
ServerName localhost
PidFile {folder}/apache.pid
DefaultRuntimeDir {folder}
Mutex file:{folder}
Listen 127.0.0.1:{port}
ErrorLog {folder}/error.log
LogLevel warn
{user}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authn_core_module {modules}/mod_authn_core.so
LoadModule authn_file_module {modules}/mod_authn_file.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule authz_user_module {modules}/mod_authz_user.so
LoadModule auth_basic_module {modules}/mod_auth_basic.so
LoadModule alias_module {modules}/mod_alias.so
LoadModule env_module {modules}/mod_env.so
LoadModule cgid_module {modules}/mod_cgid.so
LoadModule ssl_module {modules}/mod_ssl.so
ScriptSock {folder}/cgid.sock
StartServers 1
ServerLimit 2
MinSpareThreads 1
MaxSpareThreads 16
ThreadsPerChild 8
MaxRequestWorkers 16
LogFormat "%m %U %>s %{{Authorization}}i" plain
CustomLog {folder}/access.log plain
SSLEngine on
SSLCertificateFile {certificate}
SSLCertificateKeyFile {key}
SSLSessionCache none
SetEnv GIT_PROJECT_ROOT {root}
SetEnv GIT_HTTP_EXPORT_ALL 1
SetEnv GIT_CONFIG_COUNT 1
SetEnv GIT_CONFIG_KEY_0 safe.directory
SetEnv GIT_CONFIG_VALUE_0 *
SetEnv GIT_CONFIG_GLOBAL /dev/null
{redirects}
ScriptAlias /git/ /usr/lib/git-core/git-http-backend/
ScriptAlias /private/ /usr/lib/git-core/git-http-backend/
<Location /git/>
    Require all granted
</Location>
<Location /private/>
    AuthType Basic
    AuthName berth
    AuthUserFile {folder}/users
    Require valid-user
</Location>
"""


class Https(Server):
    """/git/ is open to all, /private/ wants USER and PASSWORD; redirects: {path: target}."""

    def __init__(self, root, folder, authority, redirects=None, name="localhost", days=1):
        super().__init__(free_port())
        self.root, self.folder = Path(root), Path(folder)
        self.authority, self.redirects = authority, redirects or {}
        self.certified = (name, days)

    def begin(self):
        certificate, key = self.authority.issue(self.certified[0], days=self.certified[1])
        digest = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
        (self.folder / "users").write_text(f"{USER}:{{SHA}}{digest}\n")
        settings = self.folder / "apache.conf"
        settings.write_text(
            APACHE.format(
                folder=self.folder, port=self.port, root=self.root, certificate=certificate, key=key,
                modules="/usr/lib/apache2/modules", user="User www-data\nGroup www-data" if os.getuid() == 0 else "",
                redirects="\n".join(f"RedirectMatch 301 ^{path}(.*)$ {target}$1" for path, target in self.redirects.items()),
            )  # fmt: skip
        )
        if os.getuid() == 0:
            shutil.chown(self.folder, "www-data")
        return self.start("apache2", "-DFOREGROUND", "-f", settings, log=self.folder / "apache.log")

    def url(self, name, private=False):
        return f"https://localhost:{self.port}/{'private' if private else 'git'}/{name}"

    def requests(self):
        log = self.folder / "access.log"
        return log.read_text().splitlines() if log.exists() else []


SSHD = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
LogLevel VERBOSE
"""


def sshd_config(sshd, folder, port):
    """Of an sshd that has parts of its own (10 and later), those that were unpacked with it: it looks where they would be installed."""
    parts = sshd.parents[1] / "lib/openssh"
    found = [f"{option} {parts / name}\n" for option, name in (("SshdSessionPath", "sshd-session"), ("SshdAuthPath", "sshd-auth")) if (parts / name).is_file()]
    # Such a one also refuses, for a while, whoever was refused before: tests are, on purpose.
    return SSHD.format(port=port, folder=folder) + "".join(found) + ("PerSourcePenalties no\n" if found else "")


def find_sshd():
    for place in (ROOT / "build/tools/openssh-server/usr/sbin/sshd", Path("/usr/sbin/sshd")):
        if place.is_file():
            return place
    raise AssertionError("no sshd: ./dev setup unpacks the package openssh-server into build/tools")


class Ssh(Server):
    """sshd as an ordinary user "git", in a user namespace where it needs no root and no account on the machine."""

    def __init__(self, root, folder, key_type="ed25519", settings=""):
        super().__init__(free_port())
        self.root, self.folder, self.settings = Path(root), Path(folder), settings
        for name, kind in (("host_key", key_type), ("user_key", "ed25519"), ("other_key", "ed25519")):
            run("ssh-keygen", "-q", "-t", kind, "-N", "", "-C", name, "-f", self.folder / name)
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        (self.folder / "passwd").write_text(f"git:x:1000:1000::{self.folder}:/bin/sh\n")
        (self.folder / "group").write_text("git:x:1000:\n")
        self.key = self.folder / "user_key"

    def begin(self):
        sshd = find_sshd()
        (self.folder / "sshd_config").write_text(sshd_config(sshd, self.folder, self.port) + self.settings)
        return self.start(
            "bwrap", "--unshare-user", "--uid", "1000", "--gid", "1000", "--bind", "/", "/",
            "--ro-bind", self.folder / "passwd", "/etc/passwd", "--ro-bind", self.folder / "group", "/etc/group",
            "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run", "--die-with-parent",
            "--setenv", "GIT_CONFIG_GLOBAL", "/dev/null",
            sshd, "-D", "-e", "-f", self.folder / "sshd_config", log=self.folder / "sshd.log",
        )  # fmt: skip

    def host_key(self):
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    def known_hosts(self, text=None):
        """A known_hosts file with this text; without, one that vouches for this server."""
        path = self.folder / f"known_hosts_{len(list(self.folder.glob('known_hosts_*')))}"
        path.write_text(text if text is not None else f"[127.0.0.1]:{self.port} {self.host_key()}\n")
        return path

    def url(self, name):
        return f"ssh://git@127.0.0.1:{self.port}{self.root}/{name}"


class Stalling(Passer):
    """Passes on what another server says, up to so many bytes, and then holds its tongue."""

    def __init__(self, port, limit):
        self.target, self.left = port, limit
        super().__init__()

    def reach(self):
        return socket.create_connection(("127.0.0.1", self.target))

    def passes(self, data, back):
        self.left -= len(data) if back else 0
        return self.left >= 0 or not back


class Proxy(Passer):
    """A proxy for CONNECT: wants `login` (USER:PASSWORD), if any; answers `status`. `asked`: for what, in order."""

    def __init__(self, login=None, status=200, tls=None):
        self.login, self.status, self.tls, self.asked = login, status, tls, []
        self.wanted = login and "Basic " + base64.b64encode(login.encode()).decode()
        super().__init__()

    def taken(self, near):
        near = self.tls.wrap_socket(near, server_side=True) if self.tls else near
        while True:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                byte = near.recv(1)
                if not byte:
                    raise OSError("it went away")
                head += byte
            first, *lines = head.decode().rstrip().split("\r\n")
            fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            self.asked.append(" ".join(first.split()[:2]))
            if self.wanted and fields.get("proxy-authorization") != self.wanted:
                near.sendall(b'HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic realm="berth"\r\nContent-Length: 0\r\n\r\n')
            elif self.status != 200:
                near.sendall(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % self.status)
            else:
                near.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                return near

    def reach(self):
        return socket.create_connection(("127.0.0.1", int(self.asked[-1].rsplit(":", 1)[1])))


class Silent:
    """Accepts connections and says nothing, or lines that are no Git."""

    def __init__(self, text=b""):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.text, self.held = text, []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.held.append(connection)
            if self.text:
                connection.sendall(self.text)

    def wait(self):
        """Until somebody has connected."""
        end = time.monotonic() + 60
        while not self.held:
            assert time.monotonic() < end, "nobody connects"
            time.sleep(0.02)

    def stop(self):
        self.socket.close()
        for connection in self.held:
            connection.close()
