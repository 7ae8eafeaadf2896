# SPDX-License-Identifier: Apache-2.0
"""
Files between a function's /tmp and the bucket, by presigned requests: what a program without TLS cannot do itself. Started once,
in a process of its own, by the side of the runtime that speaks with Lambda; jobs come over a socket, a line each, once this process cannot be
looked into any more, since user code has the same user. Each line that goes back is one JSON value; the last of a job is {"ok": ...}.

Files that were alike on both sides are in the index, a file without a name that the runtime keeps from job to job: path ->
digest, size, times and number of the file that was seen with it. Code may change files while they are read: the digest
reported is that of the bytes that went.
"""

import contextlib
import errno
import gc
import hashlib
import http.client
import json
import os
import socket
import ssl
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

INDEX, BODY = 4, 5
TOGETHER = 16
PIECE = 1 << 18
TRIES = 3
LIST_MAX = 64 << 20
PATH_MAX, DEPTH_MAX = 960, 64  # of a workspace: sessions/workspace_tree.h
TIMEOUT = 20
SKIPPED_MAX = 2000


class Failed(Exception):
    pass


class Gone(Exception):
    pass


class Unusable(Exception):
    """What an object is: asking again gives the same."""


class Local(Exception):
    """An error of this machine's, in the middle of what the bucket sends."""


@contextlib.contextmanager
def locally():
    try:
        yield
    except OSError as error:
        raise Local(error) from error


def hide():
    """From now on only root can read this process's memory, or open its descriptors."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(4, 0, 0, 0, 0) != 0:
        raise Failed("cannot hide what is moved")


class Bucket:
    """One connection to each server for each thread. An answer of another server does not count: no redirection is followed."""

    def __init__(self, authorities):
        self.context = ssl.create_default_context(cafile=authorities)
        self.local = threading.local()

    def connection(self, url, fresh):
        kept = self.local.__dict__.setdefault("kept", {})
        key = url.scheme, url.netloc
        if fresh and key in kept:
            kept.pop(key).close()
        if key not in kept:
            if url.scheme == "https":
                kept[key] = http.client.HTTPSConnection(url.hostname, url.port, timeout=TIMEOUT, context=self.context)
            else:
                kept[key] = http.client.HTTPConnection(url.hostname, url.port, timeout=TIMEOUT)
        return kept[key]

    def ask(self, address, method, send, take):
        """`send(connection, target)` sends the request; `take(answer)` reads one that is 2xx. What can be tried again is."""
        url, why = urlsplit(address), None
        target = (url.path or "/") + ("?" + url.query if url.query else "")
        for number in range(TRIES):
            connection = self.connection(url, number > 0)
            try:
                send(connection, target)
                answer = connection.getresponse()
                if answer.status == 404 and method == "GET":
                    answer.read()
                    raise Gone()
                if 200 <= answer.status < 300:
                    return take(answer)
                said = answer.read(2000).decode("utf-8", "replace")
                code = said[said.find("<Code>") + 6 : said.find("</Code>")][:64] if "<Code>" in said else ""
                why = "the bucket answered %d %s" % (answer.status, code)
                self.connection(url, True)
                if answer.status < 500 and answer.status != 429:
                    break
            except (OSError, http.client.HTTPException) as error:
                why = "the bucket cannot be reached: %s" % (error.__class__.__name__ if not str(error) else error)
        raise Failed(why)

    def get(self, item, take):
        def send(connection, target):
            connection.request("GET", target, headers={"Accept-Encoding": "identity"})

        return self.ask(item["get"], "GET", send, take)

    def is_there(self, address):
        """Asked once, and soon over; whatever else is answered is no."""
        url = urlsplit(address)
        connection = self.connection(url, False)
        try:
            connection.timeout = 5
            connection.request("GET", (url.path or "/") + ("?" + url.query if url.query else ""), headers={"Accept-Encoding": "identity"})
            answer = connection.getresponse()
            said = answer.read(1 << 16)
            if len(said) < 1 << 16:
                return 200 <= answer.status < 300
        except (OSError, http.client.HTTPException):
            pass
        self.connection(url, True)
        return False

    def post(self, policy, name, length, pieces):
        """A form as S3 takes it: the policy's fields, the key, and last the file. `pieces()` gives exactly `length` bytes."""
        boundary = "berth-" + os.urandom(16).hex()
        form = b""
        for field, value in list(policy["fields"].items()) + [("key", policy["prefix"] + name)]:
            if field != "key" or value == policy["prefix"] + name:
                form += ('--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (boundary, field, value)).encode()
        form += ('--%s\r\nContent-Disposition: form-data; name="file"; filename="file"\r\nContent-Type: application/octet-stream\r\n\r\n' % boundary).encode()
        tail = ("\r\n--%s--\r\n" % boundary).encode()

        def send(connection, target):
            connection.putrequest("POST", target, skip_accept_encoding=True)
            connection.putheader("Content-Type", "multipart/form-data; boundary=" + boundary)
            connection.putheader("Content-Length", str(len(form) + length + len(tail)))
            connection.endheaders()
            connection.send(form)
            for piece in pieces():
                connection.send(piece)
            connection.send(tail)

        self.ask(policy["url"], "POST", send, lambda answer: answer.read())


def mark_of(seen):
    return [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino]


class Folder:
    """The workspace: opened step by step, and no link is followed, whatever code makes of it meanwhile."""

    FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

    def __init__(self, path):
        self.top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | self.FLAGS)

    def parent(self, path, make=False):
        at, parts = os.dup(self.top), path.split("/")
        try:
            for part in parts[:-1]:
                try:
                    below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | self.FLAGS, dir_fd=at)
                except FileNotFoundError:
                    if not make:
                        raise
                    with contextlib.suppress(FileExistsError):  # another thread was faster
                        os.mkdir(part, 0o700, dir_fd=at)
                    below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | self.FLAGS, dir_fd=at)
                os.close(at)
                at = below
        except BaseException:
            os.close(at)
            raise
        return at, parts[-1]

    def open(self, path):
        """(descriptor, what it is) of a regular file; None if absent."""
        try:
            at, name = self.parent(path)
        except OSError:
            return None
        try:
            file = os.open(name, os.O_RDONLY | self.FLAGS, dir_fd=at)
        except OSError:
            return None
        finally:
            os.close(at)
        seen = os.fstat(file)
        if stat.S_ISREG(seen.st_mode):
            return file, seen
        os.close(file)
        return None

    def seen(self, path):
        opened = self.open(path)
        if opened:
            os.close(opened[0])
        return opened and opened[1]

    def digest(self, path):
        opened = self.open(path)
        if not opened:
            return None
        digest = hashlib.sha256()
        with open(opened[0], "rb") as file:
            while True:
                piece = file.read(PIECE)
                if not piece:
                    return digest.hexdigest(), opened[1]
                digest.update(piece)

    def write(self, path, take):
        """Under another name first: there is the old file or the new one. `take(file)` writes it. Its errors here are Local."""
        with locally():
            at, name = self.parent(path, make=True)
        fresh = ".berth-%d-%s" % (os.getpid(), os.urandom(6).hex())
        try:
            with locally():
                out = open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | self.FLAGS, 0o600, dir_fd=at), "wb", buffering=0)
            try:
                with out:
                    take(out)
                with locally():
                    os.rename(fresh, name, src_dir_fd=at, dst_dir_fd=at)
                    return os.stat(name, dir_fd=at, follow_symlinks=False)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(fresh, dir_fd=at)
                raise
        finally:
            os.close(at)

    def remove(self, path):
        try:
            at, name = self.parent(path)
        except OSError:
            return
        try:
            os.unlink(name, dir_fd=at)
        except OSError:
            pass
        finally:
            os.close(at)

    def walk(self):
        """(path, what it is) of all but folders; what cannot be read is None, with all that lies below. One folder is open at a time."""
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            try:
                at = self.parent(prefix + "*")[0]
            except OSError:
                if not prefix:
                    raise
                yield prefix[:-1], None
                continue
            try:
                with os.scandir(at) as entries:
                    names = [entry.name for entry in entries]
                for name in sorted(names):
                    path = prefix + name
                    try:
                        seen = os.stat(name, dir_fd=at, follow_symlinks=False)
                    except OSError:
                        seen = None
                    if seen and stat.S_ISDIR(seen.st_mode) and path.count("/") <= 100:
                        waiting.append(path + "/")
                    else:
                        yield path, None if seen and stat.S_ISDIR(seen.st_mode) else seen
            finally:
                os.close(at)


def load_index():
    os.lseek(INDEX, 0, 0)
    with open(os.dup(INDEX), "rb") as file:
        data = file.read()
    try:
        return json.loads(data) if data else {}
    except ValueError:
        return {}  # its writer was killed: everything is compared by its bytes


def save_index(index):
    data = json.dumps(index).encode()
    os.lseek(INDEX, 0, 0)
    os.ftruncate(INDEX, 0)
    at = 0
    while at < len(data):
        at += os.write(INDEX, data[at:])


def is_path(path):
    parts = path.split("/") if isinstance(path, str) else [""]
    return len(path.encode()) <= 1024 and "\0" not in path and not any(part in ("", ".", "..") for part in parts)


def more_files(bucket, item):
    def take(answer):
        data = answer.read(LIST_MAX + 1)
        if len(data) > LIST_MAX or hashlib.sha256(data).hexdigest() != item["sha256"]:
            raise Failed("the list of files is not what it should be")
        return json.loads(data)

    try:
        return bucket.get(item, take)
    except Gone:
        raise Failed("the list of files is gone")


def pull(job, bucket, say):
    folder, index = Folder(job["folder"]), load_index()
    files = list(job["files"])
    if job.get("more"):
        files += more_files(bucket, job["more"])
    wanted = {}
    for item in files:
        if not is_path(item["path"]):
            raise Failed("invalid path in the list of files")
        wanted[item["path"]] = item

    def unchanged(path):
        seen = folder.seen(path)
        return seen is not None and path in index and index[path][1:] == mark_of(seen)

    for path in [path for path in index if path not in wanted]:
        if unchanged(path):
            folder.remove(path)
        del index[path]

    def bring(path):
        item = wanted[path]
        if path in index:
            if unchanged(path):
                if index[path][0] == item["sha256"]:
                    return
            elif job["mine"]:
                return  # code has changed or removed it since: that goes out with the next push
        else:
            here = folder.digest(path)
            if here and here[0] == item["sha256"]:
                index[path] = [here[0]] + mark_of(here[1])
                return
            if here and job["mine"]:
                return

        def take(answer):
            def write(out):
                digest, left = hashlib.sha256(), item["bytes"]
                while True:
                    piece = answer.read(PIECE)
                    if not piece:
                        break
                    left -= len(piece)
                    if left < 0:
                        break
                    digest.update(piece)
                    rest = memoryview(piece)
                    while rest:
                        with locally():
                            rest = rest[out.write(rest) :]
                if left != 0 or digest.hexdigest() != item["sha256"]:
                    raise Failed("%s in the bucket is not what it should be" % path)

            return folder.write(path, write)

        try:
            index[path] = [item["sha256"]] + mark_of(bucket.get(item, take))
        except Gone:
            index.pop(path, None)
            say({"fate": "gone", "path": path, "bytes": 0, "reason": "it is not in the bucket any more"})
        except Local as error:
            if error.args[0].errno in (errno.ENOSPC, errno.EDQUOT):
                raise Failed("there is no room for %s" % path)
            say({"fate": "skipped", "path": path, "bytes": item["bytes"], "reason": "it cannot be written: %s" % error.args[0].strerror})

    with ThreadPoolExecutor(TOGETHER) as threads:
        for _ in threads.map(bring, list(wanted)):
            pass
    save_index(index)


def push(job, bucket, say):
    folder, index = Folder(job["folder"]), load_index()
    there, unread, waiting, total, count, skipped = set(), set(), {}, 0, 0, 0
    counting = threading.Lock()

    def is_unread(path):
        """Its state is unknown: a folder above it, or it itself, cannot be read."""
        return any(path[:at] in unread for at in [*(at for at, one in enumerate(path) if one == "/"), len(path)])

    def skip(path, size, reason):
        nonlocal skipped
        with counting:
            skipped += 1
            if skipped > SKIPPED_MAX:
                return
        shown = "".join("\\x%02X" % (ord(c) - 0xDC00) if "\udc80" <= c <= "\udcff" else c for c in path)  # bytes that are no text
        say({"fate": "skipped", "path": shown.encode("utf-8", "backslashreplace").decode()[:1000], "bytes": size, "reason": reason})

    for path, seen in folder.walk():
        try:
            path.encode()
        except UnicodeEncodeError:
            skip(path, 0, "its name is not UTF-8")
            continue
        if seen is None:
            skip(path, 0, "it cannot be read")
            unread.add(path)
        elif not stat.S_ISREG(seen.st_mode):
            skip(path, 0, "it is no regular file")
        elif not is_path(path) or len(path.encode()) > PATH_MAX or path.count("/") > DEPTH_MAX:
            skip(path, seen.st_size, "its path is longer, or in more folders, than a workspace can have")
        elif "${filename}" in path:
            # S3 puts another text in its place, and so the file in another's.
            skip(path, seen.st_size, "no form can put ${filename} into a bucket by that name")
            if path in index:
                there.add(path)
        elif count + 1 > job["maxFiles"] or total + seen.st_size > job["maxBytes"]:
            skip(path, seen.st_size, "there is no room for it in the workspace")
            if path in index:
                there.add(path)
        else:
            there.add(path)
            count, total = count + 1, total + seen.st_size
            if path not in index or index[path][1:] != mark_of(seen):
                waiting[path] = seen.st_size

    def bring(path):
        if path in index and index[path][1] == waiting[path]:
            here = folder.digest(path)
            if here and index[path][0] == here[0]:
                index[path] = [here[0]] + mark_of(here[1])
                return
        opened = folder.open(path)
        if not opened:
            return
        sent = {}
        with open(opened[0], "rb") as file:

            def pieces():
                file.seek(0)
                digest, left = hashlib.sha256(), opened[1].st_size
                while left:
                    piece = file.read(min(PIECE, left))
                    if not piece:
                        raise Failed("%s became shorter while it was read" % path)
                    digest.update(piece)
                    left -= len(piece)
                    yield piece
                sent["digest"] = digest.hexdigest()

            bucket.post(job["put"], path, opened[1].st_size, pieces)
        index[path] = [sent["digest"]] + mark_of(opened[1])
        say({"fate": "changed", "path": path, "bytes": opened[1].st_size, "sha256": sent["digest"]})

    failed = []

    def try_to_bring(path):
        try:
            bring(path)
        except (Failed, OSError) as error:
            failed.append(str(error))
            skip(path, 0, str(error)[:500])

    with ThreadPoolExecutor(TOGETHER) as threads:
        for _ in threads.map(try_to_bring, waiting):
            pass
    for path in [path for path in index if path not in there and not is_unread(path)]:
        del index[path]
        say({"fate": "deleted", "path": path, "bytes": 0})
    save_index(index)
    left_out = {"skipped": max(0, skipped - SKIPPED_MAX)}
    if failed:
        raise Failed("%d files could not be brought to the bucket: %s" % (len(failed), failed[0]), left_out)
    return left_out


def post(job, bucket, say):
    size = os.fstat(BODY).st_size
    sent = {}

    def pieces():
        os.lseek(BODY, 0, 0)
        digest, left = hashlib.sha256(), size
        while left:
            piece = os.read(BODY, min(PIECE, left))
            digest.update(piece)
            left -= len(piece)
            yield piece
        sent["sha256"] = digest.hexdigest()

    bucket.post(job["put"], job["name"], size, pieces)
    return sent


def fetch(job, bucket, say):
    """Into the body: what does not have the digest that it should have is not left there."""
    item = job["object"]

    def take(answer):
        os.lseek(BODY, 0, 0)
        os.ftruncate(BODY, 0)
        digest, left = hashlib.sha256(), item["bytes"]
        while left >= 0:
            piece = answer.read(PIECE)
            if not piece:
                break
            left -= len(piece)
            digest.update(piece)
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(BODY, rest) :]
        if left != 0 or digest.hexdigest() != item["sha256"]:
            os.ftruncate(BODY, 0)
            raise Unusable("it is not what was put there: its bytes have another digest")

    try:
        bucket.get(item, take)
    except Gone:
        raise Unusable("it is not in the bucket any more")


def watch(job, bucket, say, over):
    """Beside everything else, until the next job."""

    def look():
        while not over.wait(job["everyMs"] / 1000):
            if bucket.is_there(job["get"]):
                if not over.is_set():
                    say({"interrupt": True})
                return

    threading.Thread(target=look, daemon=True).start()


def main():
    caller = socket.socket(fileno=3)
    lock = threading.Lock()

    def say(value):
        with lock:
            caller.sendall(json.dumps(value).encode() + b"\n")

    try:
        hide()
    except (Failed, OSError) as error:
        return say({"ok": False, "reason": str(error)})
    say({"ready": True})
    bucket, over = None, threading.Event()
    with caller.makefile("rb") as lines:
        for line in lines:
            over.set()
            over = threading.Event()
            try:
                job = json.loads(line)
                if job["job"] == "rest":
                    bucket, said = None, None
                    gc.collect()
                    say({"ok": True})
                    continue
                bucket = bucket or Bucket(job.get("authorities"))
                if job["job"] == "watch":
                    said = watch(job, bucket, say, over)
                else:
                    said = {"pull": pull, "push": push, "post": post, "fetch": fetch}[job["job"]](job, bucket, say)
                say({"ok": True, **(said or {})})
            except Unusable as error:
                say({"ok": False, "unusable": True, "reason": str(error)})
            except Failed as error:
                say({"ok": False, "reason": str(error.args[0])[:900], **(error.args[1] if len(error.args) > 1 else {})})
            except Exception as error:
                say({"ok": False, "reason": str(error)[:900] or error.__class__.__name__})


main()
