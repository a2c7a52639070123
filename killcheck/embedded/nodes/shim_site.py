"""In a container: Python's clock is the cluster's. A ``.pth`` file imports it compiled, and calls :func:`keep`.

``time.sleep`` waits in the cluster's time, ``time.time`` and ``monotonic`` read it, ``datetime`` follows. Where mounts
had to be moved (no mount namespace on this host), their paths are followed too, and so is the API server's address.
"""

from __future__ import annotations

import _socket  # the C module: `socket` itself costs milliseconds that most programs do not need
import builtins
import io
import os
import sys
import time as _time

TYPE_CHECKING = False  # importing typing takes longer than all the rest of a Python's start
if TYPE_CHECKING:
    from typing import Any

API_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
#: Seconds after which the kernel gives up on a host that answers nothing.
SYN_S = 130.0


class _Wiring:
    """What :func:`keep` was told."""

    agent: tuple[str, int] = ("", 0)
    key = service_ip = ""
    #: Where relocated: [path in the manifest, path on this host] of every mount, and [address, port] of the API server.
    moved: tuple[tuple[str, str], ...] = ()
    api: tuple[Any, ...] = ()


_real_monotonic = _time.monotonic
_real_connect = _socket.socket.connect


def _ask(request: str) -> str:
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        _real_connect(sock, _Wiring.agent)
        sock.sendall(f"{_Wiring.key} {request}\n".encode())
        line = b""
        while not line.endswith(b"\n"):
            data = sock.recv(4096)
            if not data:
                break
            line += data
        return line.decode().strip()
    finally:
        sock.close()


class _Clock:
    """The cluster's time; asked once a millisecond at most, since it stands still while a program works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = -1.0
        self.begun: float | None = None

    def time(self) -> float:
        """Seconds since the epoch."""
        if _real_monotonic() - self.asked > 0.001:
            self.now = float(_ask("now") or self.now)
            self.asked = _real_monotonic()
        if self.begun is None:
            self.begun = self.now
        return self.now

    def sleep(self, seconds: float) -> None:
        """Wait in the cluster's time."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.asked = -1.0
        _ask(f"sleep {float(seconds)}")

    def monotonic(self) -> float:
        """Seconds since this program asked first."""
        now = self.time()
        return 1000.0 + now - (self.begun or now)


_clock = _Clock()


def _patch_clock() -> None:
    _time.time = _clock.time
    _time.time_ns = lambda: int(_clock.time() * 1e9)
    _time.monotonic = _clock.monotonic
    _time.monotonic_ns = lambda: int(_clock.monotonic() * 1e9)
    _time.sleep = _clock.sleep  # type: ignore[assignment]
    real_gmtime, real_localtime, real_strftime = _time.gmtime, _time.localtime, _time.strftime
    _time.gmtime = lambda *a: real_gmtime(*(a if a and a[0] is not None else (_clock.time(),)))
    _time.localtime = lambda *a: real_localtime(*(a if a and a[0] is not None else (_clock.time(),)))
    _time.strftime = lambda f, *a: real_strftime(f, *(a or (_time.localtime(),)))


def _patch_datetime(module: Any) -> None:
    real = module.datetime

    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class datetime(real, metaclass=Meta):  # type: ignore[misc, valid-type]
        """``datetime.datetime`` at the cluster's time: extensions ask for the type itself, so that all are of it."""

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            """The cluster's time of day."""
            return cls.fromtimestamp(_clock.time(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            """The cluster's time of day, naive."""
            return cls.fromtimestamp(_clock.time(), module.timezone.utc).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            """The cluster's local time of day."""
            return cls.fromtimestamp(_clock.time())

    datetime.__module__, datetime.__qualname__ = real.__module__, real.__qualname__
    module.datetime = datetime


def _moved(path: Any) -> Any:
    if isinstance(path, (str, os.PathLike)):
        text = os.fspath(path)
        if isinstance(text, str):
            for before, after in _Wiring.moved:
                if text == before or text.startswith(before + "/"):
                    return after + text[len(before) :]
    return path


def _patch_paths() -> None:
    for module, name in (
        (builtins, "open"),
        (io, "open"),
        (os, "stat"),
        (os, "open"),
        (os, "listdir"),
        (os, "scandir"),
        (os, "access"),
        (os, "lstat"),
    ):
        real = getattr(module, name)
        setattr(module, name, lambda path, *a, _real=real, **k: _real(_moved(path), *a, **k))


def _connect(self: Any, address: Any) -> Any:
    if isinstance(address, tuple) and len(address) >= 2 and str(address[0]) != _Wiring.agent[0]:
        timeout = self.gettimeout()
        policy = _ask(f"reach {address[0]} {address[1]}")
        if policy == "nodns":
            raise _socket.gaierror(-3, "Temporary failure in name resolution")
        if policy == "drop":
            _clock.sleep(SYN_S if timeout is None else timeout)
            raise TimeoutError("timed out") if timeout is not None else TimeoutError(110, "Connection timed out")
        if policy == "mute" and timeout is not None:  # without one, the handshake itself waits for ever
            _clock.sleep(timeout)
            raise TimeoutError("_ssl.c:989: The handshake operation timed out")
        if _Wiring.api and str(address[0]) in (*API_NAMES, _Wiring.service_ip) and int(address[1]) == 443:
            address = _Wiring.api
    return _real_connect(self, address)


def _patch_sockets(socket: Any) -> None:
    socket.socket.connect = _connect
    if _Wiring.api:
        real = socket.getaddrinfo

        def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
            known = isinstance(host, str) and host.rstrip(".") in API_NAMES
            if known and _ask(f"reach {host} {port or 443}") == "nodns":
                raise _socket.gaierror(-2, "Name or service not known")
            return real(_Wiring.service_ip if known else host, port, *args, **kwargs)

        socket.getaddrinfo = getaddrinfo


def _patch_tls(ssl: Any) -> None:
    """OpenSSL opens files itself."""
    real_verify, real_chain = ssl.SSLContext.load_verify_locations, ssl.SSLContext.load_cert_chain

    def load_verify_locations(self: Any, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        real_verify(self, _moved(cafile), _moved(capath), cadata)

    def load_cert_chain(self: Any, certfile: Any, keyfile: Any = None, password: Any = None) -> None:
        real_chain(self, _moved(certfile), _moved(keyfile), password)

    ssl.SSLContext.load_verify_locations = load_verify_locations
    ssl.SSLContext.load_cert_chain = load_cert_chain


_PATCHES = {"datetime": _patch_datetime, "socket": _patch_sockets, "ssl": _patch_tls}


class _Finder:
    """Patches modules when they are imported, so that programs that never do so do not pay for it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Only looks at what there is a patch for."""
        patch = _PATCHES.pop(name, None)
        if patch is None:
            return None
        spec = next(filter(None, (f.find_spec(name, path, target) for f in sys.meta_path if f is not self)), None)
        loader: Any = spec.loader if spec else None
        if loader is not None:
            execute = loader.exec_module

            def patched(module: Any) -> None:
                execute(module)
                patch(module)

            loader.exec_module = patched
        return spec


#: Of files that are no program's own: where Python's libraries are.
_LIBRARIES = (sys.prefix, sys.base_prefix, "<frozen", "/.killcheck", "shim_site.py")


def _tell(words: str) -> None:
    """Where the program is: the lines of its own code that led here, the innermost first."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_LIBRARIES):
            os.write(2, f"+killcheck {file} {frame.f_lineno} 0 {words}\n".encode())
            return
        frame = frame.f_back


def _trace() -> None:
    """Tell of connections and programs that are begun, and of the line on which the last exception came up."""
    import atexit

    last = ["", 0]

    def of_frame(frame: Any, event: str, _arg: Any) -> Any:
        if event == "call" and frame.f_code.co_filename.startswith(_LIBRARIES):
            return None
        frame.f_trace_lines = False
        if event == "exception":
            last[:] = [frame.f_code.co_filename, frame.f_lineno]
        return of_frame

    def of_audit(event: str, _args: Any) -> None:
        if event in ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
            _tell(event)

    sys.addaudithook(of_audit)
    sys.settrace(of_frame)
    atexit.register(lambda: last[1] and os.write(2, f"+killcheck {last[0]} {last[1]} 0 exit\n".encode()))


def keep(agent: tuple[str, int], key: str, service_ip: str, moved: Any = (), api: Any = ()) -> None:
    """Keep the cluster's time from here on: ``agent`` is where it is asked for, and ``key`` who asks."""
    _Wiring.agent, _Wiring.key, _Wiring.service_ip = agent, key, service_ip
    _Wiring.moved, _Wiring.api = moved, api
    _patch_clock()
    if moved:
        _patch_paths()
    sys.meta_path.insert(0, _Finder())
    if "KILLCHECK_TRACE" in os.environ:
        _trace()
