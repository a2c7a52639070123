"""kubectl at a terminal: what a person types, and what comes."""

import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import termios
import time
from pathlib import Path

LIMIT_S = 120.0


class Terminal:
    """100 columns, 30 rows; a context manager that ends kubectl. ``code`` is what it ended with."""

    def __init__(self, kubeconfig, command, env=None):
        self.command = command
        self.heard = ""
        self.code = None
        ours, theirs = pty.openpty()
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self._file = ours
        self._process = subprocess.Popen(
            ["kubectl", "--kubeconfig", str(kubeconfig), *shlex.split(command)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "TERM": "dumb",
                "HOME": str(Path(kubeconfig).parent),
                **(env or {}),
            },
        )
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None and "-it" not in self.command:
            self._process.terminate()
        try:
            self.code = self._process.wait(LIMIT_S)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._file)

    def say(self, text):
        os.write(self._file, text.encode())

    def expect(self, *words):
        """Wait until all the words have come; answers everything that came."""
        end = time.monotonic() + LIMIT_S
        while not all(word in self.heard for word in words):
            assert select.select([self._file], [], [], max(0.0, end - time.monotonic()))[0], self.heard
            try:
                self.heard += os.read(self._file, 65536).decode("utf-8", "replace")
            except OSError as error:  # EIO: it has ended
                raise AssertionError(self.heard) from error
        return self.heard
