# SPDX-License-Identifier: Apache-2.0
"""What stands before a server and passes connections on to it: bytes, and the end of what each side sends."""

import contextlib
import socket
import threading


def break_off(*ends):
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Passer:
    """To what `reach` connects to, in a thread of its own for each. Subclasses say what is another way with them."""

    def __init__(self, host="127.0.0.1"):
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def reach(self):
        """None: there is nobody, and who came is turned away."""
        raise NotImplementedError

    def taken(self, near):
        """Who came, perhaps in another form. OSError: not to be passed on."""
        return near

    def passes(self, data, back):
        """Whether it is sent on, and what comes after it; `back`: of what the server says."""
        return True

    def ended(self, source, target):
        """By the side `source`, which may still hear what the other says."""
        target.shutdown(socket.SHUT_WR)

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        try:
            near = self.taken(near)
            far = self.reach()
        except OSError:
            far = None
        with near:
            if far is None:
                return
            with far:
                back = threading.Thread(target=self._pump, args=(far, near, True), daemon=True)
                back.start()
                self._pump(near, far, False)
                back.join()

    def _pump(self, source, target, back):
        try:
            while data := source.recv(65536):
                if not self.passes(data, back):
                    return
                target.sendall(data)
            self.ended(source, target)
        except OSError:
            break_off(source, target)

    def close(self):
        break_off(self.listener)  # what waits in accept() is not woken by close() alone
        self.listener.close()
