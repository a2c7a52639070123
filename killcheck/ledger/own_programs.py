"""Workloads whose whole program is killcheck itself: a drill in a CronJob, the janitor, a fleet's Job.

On a cluster that is somebody's a drill turns on only what it has turned off itself, and none begins where nothing is on
(``drill/waking.py``, ``watch/steady.py``); ``restore`` puts back what an interrupted one has changed. They are known by
their program and its command, as their words and scripts are read, whatever they are called.
"""

from __future__ import annotations

from posixpath import basename

from killcheck.kube import program_images as images
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.kube.workloads import PodTemplate
from killcheck.ledger.stakes import Stakes, home_of
from killcheck.text import lazy_re

__all__ = ["of_template"]

#: killcheck, where an image has its programs: ``ci/Dockerfile`` has it in /opt.
_KILLCHECK = lazy_re.compile(r"(/(usr|opt|bin)/([\w.-]+/)*)?killcheck")
#: Its commands that act on no cluster, but for ``drill`` and ``gate``, which drill, and ``restore``.
_COMMANDS = frozenset("drill fleet gate restore lint fence report evidence history runs certify verify".split())
#: Programs that only look, and write no more than files.
_BESIDE = frozenset("sed cat echo date sleep mkdir cp test true false ls".split())
#: Another program may have its name where these say where programs, or a program's parts, are found.
_FOUND_BY = frozenset({"PATH", "PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH"})
#: What a kubelet runs beside a container's program.
_MORE = frozenset({"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"})


def of_template(obj: Obj, template: PodTemplate, stakes: Stakes) -> str | None:
    """The command of killcheck's that a pod's program is (``restore``); None: it is, or may be, another program."""
    reading = stakes.reading(obj, template)
    another = any(_may_be_another(one, _given(one, home_of(obj), stakes)) for one in images.acting(template))
    if reading.calls or reading.outside or another:
        return None
    own = [words[1] for words in reading.commands if len(words) > 1 and _KILLCHECK.fullmatch(words[0])]
    others = {basename(words[0]) for words in reading.commands if not _KILLCHECK.fullmatch(words[0])}
    unread = [said for said in reading.not_understood if not _KILLCHECK.fullmatch(said.split(" ")[0])]
    if not own or unread or not set(own) <= _COMMANDS or not others <= _BESIDE:
        return None
    return next((word for word in ("restore", "drill") if word in own), own[0])


def _may_be_another(container: Obj, given: set[str]) -> bool:
    """Whether a container is told where its programs are found, or runs more than one."""
    named = given | {str(one.get("name")) for one in container.get("env") or ()}
    return bool(named & _FOUND_BY or set(container) & _MORE)


def _given(container: Obj, home: str, stakes: Stakes) -> set[str]:
    """The variables that a container has of ConfigMaps and Secrets among the manifests."""
    wanted = {
        (kind, str(dig(source, key, "name", default=""))): str(source.get("prefix") or "")
        for source in container.get("envFrom") or ()
        for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
    }
    return {
        wanted[str(obj.get("kind")), name_of(obj)] + key
        for obj in (stakes.objects if wanted else ())
        if (str(obj.get("kind")), name_of(obj)) in wanted and home_of(obj) == home
        for key in {**(obj.get("data") or {}), **(obj.get("stringData") or {})}
    }
