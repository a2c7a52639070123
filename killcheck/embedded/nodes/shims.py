"""The small programs that take the place of some of an image's: they keep the cluster's time instead of the host's."""

from __future__ import annotations

import marshal
import struct
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from msgspec import Struct, field

from killcheck.embedded.nodes.applets import APPLETS

__all__ = ["BESIDE", "SHIMMED", "STANDINS", "WHOLE", "Wiring", "applet", "program", "site", "site_line"]

#: Command -> the file that it becomes.
SHIMMED = {
    "sleep": "shim_sleep.sh",
    "usleep": "shim_lacking.sh",
    "date": "shim_date.sh",
    "timeout": "shim_timeout.py",
    "curl": "shim_curl.sh",
    "kubectl": "shim_kubectl.sh",
    "nc": "shim_nc.py",
    "netcat": "shim_nc.py",
    "nslookup": "shim_nslookup.py",
    "pause": "shim_pause.sh",
}
#: Those that need no program of this host.
WHOLE = frozenset({"nc", "netcat", "nslookup", "pause"})
#: What stands beside a shim for the rarer cases.
BESIDE = {"shim_curl.sh": "shim_curl.py", "shim_kubectl.sh": "shim_kubectl.py"}
#: Where this host has no such program: what makes its requests instead, and says so.
STANDINS = {"curl": "standin_curl.py"}
LACKING = "shim_lacking.sh"
PYTHON = "shim_python.sh"
#: Left out of a Python shim that is put together from several files.
_DROPPED = ("from __future__", "from killcheck.")


class Wiring(Struct, frozen=True):
    """What a container's shims need to know: where the agent is, the programs on this host, what had to be moved."""

    agent_host: str
    agent_port: int
    key: str
    bash: str
    python: str
    service_ip: str
    api: str
    moved: list[list[str]] = field(default_factory=list)
    api_address: list[object] = field(default_factory=list)

    def fill(self, text: str, real: str, beside: str = "") -> str:
        """Put the values in."""
        for name, value in (
            ("@AGENT_HOST@", self.agent_host),
            ("@AGENT_PORT@", str(self.agent_port)),
            ("@AGENT_KEY@", self.key),
            ("@BASH@", self.bash),
            ("@REAL@", real),
            ("@BESIDE@", beside),
            ("@API@", self.api),
            ("@SERVICE_IP@", self.service_ip),
        ):
            text = text.replace(name, value)
        return text


def program(file: str, wiring: Wiring, real: str = "", beside: str = "") -> str:
    """The text of a shim; ``real`` is the program that it stands before, ``beside`` where its companion is."""
    text = _source(file)
    if file.endswith(".py"):
        text = f"#!{wiring.python} -IS\n" + _bare(_source("shim_agent.py")) + _bare(text)
    return wiring.fill(text, real, beside)


def applet(name: str, wiring: Wiring, real: str, lacking: str) -> str:
    """The text of what stands before ``real``, and refuses what busybox' applet of that name does not know."""
    known = APPLETS[name]
    text = _source("shim_applet.sh")
    for mark, value in (
        ("@SHORT@", known.short),
        ("@LONG@", " ".join(known.long)),
        ("@AHEAD@", "1" if known.ahead else ""),
        ("@REFUSED@", known.refused),
        ("@LACKING@", lacking),
    ):
        text = text.replace(mark, value)
    return wiring.fill(text, real)


@cache
def site() -> str:
    """The module that every Python imports before anything of its program's, compiled for this very interpreter.

    As the content of a ``.pyc`` file (PEP 552: flags 1 is a hash that nobody checks); its bytes that are no UTF-8 are
    surrogates, as :func:`os.fsdecode` has it.
    """
    code = compile(_source("shim_site.py"), "shim_site.py", "exec", dont_inherit=True)
    header = MAGIC_NUMBER + struct.pack("<IQ", 1, 0)
    return (header + marshal.dumps(code)).decode("utf-8", "surrogateescape")


def site_line(module: str, wiring: Wiring) -> str:
    """The line of a ``.pth`` file that imports it as ``module``, and tells it what a container's programs must know."""
    told = ((wiring.agent_host, int(wiring.agent_port)), wiring.key, wiring.service_ip)
    moved, api = tuple(map(tuple, wiring.moved)), tuple(wiring.api_address)
    return f"import {module}; {module}.keep(*{(*told, moved, api)!r})\n"


@cache
def _source(file: str) -> str:
    return Path(__file__).with_name(file).read_text("utf-8")


@cache
def _bare(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_DROPPED))
