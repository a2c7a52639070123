"""Files of a folder that a stranger may have written: no link in it leads out, or into what is hidden there.

A checkout is a pull request's. A link in it may point at this machine's keys, or at the checkout's own ``.git/config``;
what is read here goes into the sandbox, and from there into a log.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import FileIO
from itertools import count
from pathlib import Path
from typing import BinaryIO

__all__ = ["add_to", "bytes_of", "enclosed", "fetch_ahead", "lines_of", "opened", "own", "put", "text_of"]

#: Bytes of a file with manifests or a spec: etcd takes objects of 1.5 MiB at most.
LONGEST = 32 << 20
#: Of a file that no other can take the place of: a mount, or a folder that may not be written.
_STAYS = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
#: So long the other end of a named pipe may take to come, in milliseconds, and so often it is looked for.
_OTHER_END_MS, _LOOK_MS = 5000, 50
#: Of the files that become others once they are whole.
_numbers = count()


def enclosed(file: Path, folder: Path) -> bool:
    """Whether ``file`` is one that lies in ``folder``, wherever links lead; one that may not be looked at is not."""
    try:
        root = folder.resolve(strict=True)
        end = file.resolve(strict=True)
        inner = end.relative_to(root)
        linked = end != root / file.absolute().relative_to(folder.absolute())
        return end.is_file() and not (linked and any(_hidden(part) for part in inner.parts))
    except (OSError, ValueError, RuntimeError):  # not there, not to be looked at, outside, or links in a circle
        return False


def text_of(file: Path | str, encoding: str = "utf-8", *, errors: str = "strict") -> str:
    """The text of a file, its lines ended by ``\\n``. ``errors``: as ``bytes.decode`` has it.

    Raises OSError, EFBIG where it is longer than :data:`LONGEST`, ENXIO for a named pipe that nobody writes to, and
    UnicodeDecodeError. Read and decoded in one piece: as text, a folder of CustomResourceDefinitions takes four times
    as long.
    """
    with open(file, "rb", opener=_at_once) as source:  # a Path of each of ten thousand costs as much
        # Room for the longest would be asked for each time. What is no file, or one of the system's, says no size.
        about = os.fstat(source.fileno())
        begun = b"" if stat.S_ISREG(about.st_mode) else _begun(source.fileno(), about, file)
        length = about.st_size if stat.S_ISREG(about.st_mode) and about.st_size else LONGEST
        content = begun + source.read(min(length, LONGEST) + 1)
    text = _bounded(content, file).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def bytes_of(file: Path) -> bytes:
    """What is in a file of any size; of what is none, as much as :data:`LONGEST`. Raises OSError as :func:`text_of`."""
    with open(file, "rb", opener=_at_once) as source:
        begun = _start(source, file)
        if begun is None:
            return source.read()
        content = begun + source.read(LONGEST + 1)
    return _bounded(content, file)


def lines_of(file: Path) -> Iterator[str]:
    """The lines of a file of any size, one at a time, what is no UTF-8 replaced. Raises OSError as :func:`text_of`."""
    with open(file, "rb", opener=_at_once) as source:
        line = (_start(source, file) or b"") + source.readline(LONGEST + 1)
        while line:
            yield _bounded(line, file).decode("utf-8", "replace")
            line = source.readline(LONGEST + 1)


def _start(source: BinaryIO, file: Path) -> bytes | None:
    """What had to be read to know that somebody writes; None of a regular file."""
    about = os.fstat(source.fileno())
    return None if stat.S_ISREG(about.st_mode) else _begun(source.fileno(), about, file)


def _bounded(content: bytes, file: Path | str) -> bytes:
    if len(content) > LONGEST:
        raise OSError(errno.EFBIG, f"larger than {LONGEST >> 20} mebibytes", os.fspath(file))
    return content


def _at_once(file: str, flags: int) -> int:
    """Open without waiting for who writes to a pipe: it may be nobody."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))


def _begun(descriptor: int, about: os.stat_result, file: Path | str) -> bytes:
    """The first byte of a pipe, where it took that to see that somebody writes to it. Raises OSError, ENXIO: nobody."""
    first: bytes | None = b""
    if stat.S_ISFIFO(about.st_mode):
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        if not waiting.poll(_OTHER_END_MS):
            with suppress(BlockingIOError):  # somebody has it open, and takes his time
                first = None
                first = os.read(descriptor, 1)
            if first == b"":
                raise _alone("writes to", file)
    os.set_blocking(descriptor, True)
    return first or b""


def fetch_ahead(files: Iterable[Path]) -> None:
    """Ask the system to bring files into memory: from a disk they then come beside the work on others.

    An advice, which some systems do not know; what cannot be opened is told by who reads it.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    for file in files:
        with suppress(OSError):
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(descriptor)


def own(folder: Path) -> Path:
    """A folder to write to, in a checkout: it, and what holds it there, is no link. Raises OSError, ELOOP for a link.

    A link that came with the checkout would have records, and what tidies them up, go wherever it leads.
    """
    for part in (folder, *folder.parents):
        if not part.is_absolute() and part.is_symlink():
            raise OSError(errno.ELOOP, "is a link, and nothing is written through it: delete it", os.fspath(part))
    return folder


def put(file: Path, text: str) -> None:
    """Write a document that a person asked for, whole or not at all. Raises OSError, ELOOP as :func:`_leads_out` says.

    A textfile collector, or a person, may read at any moment. What is no file (``/dev/stdout``, a pipe) is written to
    and stays what it is; a link goes on leading where it led. A file that no other can take the place of (mounted by
    itself into a container, in a folder that may not be written) is written over, and has its old text back if that
    fails.
    """
    if _leads_out(file):  # also to a pipe or a device
        why = "is a link that leads out of this folder, and nothing is written through it: name where it leads"
        raise OSError(errno.ELOOP, why, os.fspath(file))
    if file.exists() and not file.is_file():
        add_to(file, text)
        return
    end = Path(os.path.realpath(file))
    if end.is_symlink():
        raise OSError(errno.ELOOP, "is a link that leads in a circle: delete it", os.fspath(file))
    content = text.encode("utf-8", "replace")
    try:
        try:
            _instead(end, content)
        except OSError as error:
            if error.errno not in _STAYS or not end.is_file():
                raise
            _over(end, content)
    except OSError as error:
        error.filename, error.filename2 = os.fspath(file), None
        if error.errno == errno.ENOENT and not end.parent.exists():
            error.strerror = f"there is no folder {file.parent}: make it first"
        raise


def add_to(file: Path, text: str) -> None:
    """Write after what is in a file. Raises OSError, ENXIO for a named pipe that nobody reads."""
    with open(file, "a", encoding="utf-8", errors="replace", opener=_heard) as end:
        end.write(text)


def _heard(file: str, flags: int) -> int:
    """Open to write; who reads a pipe may come a little later, and may be nobody."""
    for left in range(_OTHER_END_MS // _LOOK_MS, -1, -1):
        try:
            descriptor = os.open(file, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if left:
                select.select([], [], [], _LOOK_MS / 1000)
        else:
            os.set_blocking(descriptor, True)
            return descriptor
    raise _alone("reads", file)


def _alone(does: str, file: Path | str) -> OSError:
    why = f"is a pipe that nobody {does}, after {_OTHER_END_MS / 1000:g} s: name a file, or start who does"
    return OSError(errno.ENXIO, why, os.fspath(file))


def _instead(end: Path, content: bytes) -> None:
    """A file with this content takes the place of ``end``. Raises OSError."""
    beside = end.with_name(f".{end.name}.{os.getpid()}-{next(_numbers)}.tmp")
    try:
        # New, or not at all: whoever laid a link of that name beforehand gets nothing.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as writing:
            writing.write(content)
        if end.exists():
            beside.chmod(stat.S_IMODE(end.stat().st_mode))
        beside.replace(end)
    finally:  # also where somebody stops it
        with suppress(OSError):
            beside.unlink()


def _over(end: Path, content: bytes) -> None:
    """Write over a file that is there; what was in it comes back where that fails. Raises OSError."""
    descriptor = os.open(end, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "r+b", buffering=0) as there:
        if os.fstat(descriptor).st_nlink > 1:
            raise OSError(errno.EMLINK, "has other names (hard links), which would change too: name another file")
        before = there.read()
        try:
            _fill(there, content)
        except BaseException:  # also where somebody stops it
            _fill(there, before)
            raise


def _fill(file: FileIO, content: bytes) -> None:
    file.seek(0)
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
    file.truncate()
    os.fsync(file.fileno())


def _leads_out(file: Path) -> bool:
    """Whether a relative path goes by a link out of the working folder: it may have come with a checkout."""
    parts = (part for part in (file, *file.parents) if not part.is_absolute() and part.is_symlink())
    here = os.path.realpath(".")
    return any(not Path(os.path.realpath(part)).is_relative_to(here) for part in parts)


def opened(file: Path) -> BinaryIO:
    """A regular file, to read. Raises OSError, EINVAL for anything else: pipes and devices are not waited for."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no regular file", os.fspath(file))
    return os.fdopen(descriptor, "rb")


def _hidden(part: str) -> bool:
    """Whether a name is a hidden one; those of a mounted ConfigMap begin with two dots."""
    return part.startswith(".") and not part.startswith("..")
