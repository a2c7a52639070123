"""The key by which a journal proves whose it is: kept outside of every checkout, never in a journal.

By default it is this user's on this machine (``$XDG_STATE_HOME/killcheck/key``, else ``~/.local/state/killcheck/key``,
readable by nobody else). ``KILLCHECK_KEY`` holds one that several machines share: a CI's runners and the janitor.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from killcheck.text.files import opened

__all__ = ["VARIABLE", "KeyProblem", "key_path", "known_keys", "signing_key"]

#: The variable that holds a shared key.
VARIABLE = "KILLCHECK_KEY"
#: Bytes of a key that is made here; fewer characters of a shared one are refused.
BYTES = 32
LEAST = 16


class KeyProblem(Exception):
    """There is no key that could be relied on; the message says where and what to do."""


def key_path() -> Path:
    """Where this user's key is kept. Raises KeyProblem where the user has no home."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state or not Path(state).is_absolute():  # the XDG Base Directory Specification: a relative one is ignored
        try:
            state = str(Path.home() / ".local" / "state")
        except RuntimeError as error:
            raise KeyProblem(f"there is no home for the journal's key: set XDG_STATE_HOME or {VARIABLE}") from error
    return Path(state) / "killcheck" / "key"


def signing_key() -> bytes:
    """The key to sign with, made where there is none yet. Raises KeyProblem."""
    shared = _shared()
    return shared if shared is not None else _own(str(key_path()))


def known_keys() -> list[bytes]:
    """The keys whose signatures are believed; makes none. One that cannot be relied on proves nothing."""
    found = []
    with suppress(KeyProblem):
        shared = _shared()
        found += [shared] if shared is not None else []
    with suppress(KeyProblem, OSError):
        found.append(_read(key_path()))
    return found


def _shared() -> bytes | None:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    if len(text) < LEAST:
        raise KeyProblem(f"{VARIABLE} has {len(text)} characters: give it {LEAST} or more (openssl rand -hex 32)")
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


@lru_cache(maxsize=4)
def _own(path: str) -> bytes:
    file = Path(path)
    try:
        if not file.exists():
            _make(file)
        return _read(file)
    except OSError as error:
        raise KeyProblem(
            f"cannot keep the journal's key {file}: {error.strerror or error} (set XDG_STATE_HOME, or {VARIABLE})"
        ) from error


def _make(file: Path) -> None:
    """A whole key or none, and one only, however many begin at once. Raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_name(f"key.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as made:
            made.write(secrets.token_hex(BYTES) + "\n")
            made.flush()
            os.fsync(made.fileno())
        with suppress(FileExistsError):
            file.hardlink_to(fresh)
    finally:
        fresh.unlink(missing_ok=True)


def _read(file: Path) -> bytes:
    """Raises OSError, and KeyProblem for what others could have read or written."""
    with opened(file) as reading:
        about = os.fstat(reading.fileno())
        text = reading.read(4096)
    if stat.S_IMODE(about.st_mode) & 0o077 or about.st_uid != os.geteuid():
        raise KeyProblem(f"{file} is not this user's alone: delete it (a new one is made), or chmod 600 it")
    try:
        key = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != BYTES:
        raise KeyProblem(f"{file} holds no key: delete it, and a new one is made")
    return key
