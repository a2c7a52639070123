"""Which line of a script did it: the program is fired a second time, with its interpreters telling where they are.

What a firing is judged by is never traced: a trace can be seen by a program that looks for one. The traced firing is
only believed where it asked for the same and ended the same. Bash tells by ``set -x`` (``PS4``, ``BASH_XTRACEFD``) on a
line that stands already, so that no line moves; Python by what :mod:`killcheck.embedded.nodes.shim_site` has it say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename

from msgspec import Struct

from killcheck.embedded import TRACED
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of
from killcheck.rehearsal.programs import Program
from killcheck.rehearsal.record import Ending, Firing, Outcome, Step
from killcheck.text import lazy_re

__all__ = ["Told", "is_wanted", "same", "steps", "told"]

#: The variable by which interpreters know that they are to tell; nobody else reads it.
VARIABLE = TRACED
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
#: What a shell's text begins with: descriptor 19 is the log, wherever the program sends its own words.
_TELL = "exec 19>&2; BASH_XTRACEFD=19; PS4='+killcheck ${BASH_SOURCE-} ${LINENO} $? '; set -x; "
_TOLD = lazy_re.compile(r"^\++killcheck (\S*) (\d+) (\d+) ?(.*)$")
#: Options of a shell behind which a command line comes, also among others (``-euc``).
_COMMAND = lazy_re.compile(r"[-+][a-z]*c[a-z]*")
_SHEBANG = lazy_re.compile(r"#![^\n]*\b(?:ba|da|a)?sh\b[^\n]*\n")
#: Where interpreters say by themselves on which line they ended.
_SAID = lazy_re.compile(r"(?m)(?P<file>[^\s:]*): (?:line )?\d+: |^  File \"(?:<string>|/[^\"]+)\", line \d+")


class Told(Struct, frozen=True):
    """The same manifests with interpreters that tell: ``objects`` for the stage, ``program`` to be fired."""

    objects: list[Obj]
    program: Program


def is_wanted(program: Program, firing: Firing) -> bool:
    """Whether something of a firing is to be told whose line is not known yet."""
    if program.goes_on or firing.outcome is not Outcome.ENDED:
        return False
    failed = firing.failed
    silent = failed is not None and not _says(program, failed)
    return silent or any(True for _ in firing.refused) or (bool(firing.writes) and not firing.off)


def _says(program: Program, ending: Ending) -> bool:
    """Whether its own interpreter said on which line a container ended: what a child of another kind says is no line
    of the container's program."""
    containers = [one for one in _containers(program.pod_spec) if one.get("name") == ending.container]
    words = {basename(str(word)) for one in containers for key in ("command", "args") for word in one.get(key) or ()}
    named = [basename(found["file"] or "") for found in _SAID.finditer(ending.log)]
    return any(name not in _SHELLS or name in words for name in named)


def told(objects: Sequence[Obj], program: Program) -> Told | None:
    """The manifests with every script of a program prepared; None: it has none that could tell."""
    own = copy(program.obj)
    spec = Program(own).pod_spec
    found = False
    for container in _containers(spec):
        found |= _prepared(container)
        container.setdefault("env", []).append({"name": VARIABLE, "value": "1"})
    mounted = {str(dig(volume, "configMap", "name", default="")) for volume in dig(spec, "volumes", default=[])}
    everything: list[Obj] = []
    for obj in objects:
        if obj is program.obj:
            obj = own
        elif obj.get("kind") == "ConfigMap" and name_of(obj) in mounted and _beside(obj, program):
            obj, scripts = _with_scripts(obj)
            found |= scripts
        everything.append(obj)
    return Told(everything, Program(own)) if found else None


def same(first: Firing, again: Firing) -> bool:
    """Whether a traced firing did what the one did that is judged."""
    if (first.outcome, first.exit_code) != (again.outcome, again.exit_code):
        return False
    writes = [Counter((call.verb, call.about, call.status) for call in one.writes) for one in (first, again)]
    looks = [{(call.verb, call.about, call.status) for call in one.calls} for one in (first, again)]
    return writes[0] == writes[1] and looks[0] == looks[1]  # how often it looks hangs on time


def steps(firing: Firing) -> tuple[Step, ...]:
    """What interpreters told in a traced firing, in order."""
    return tuple(step for ending in firing.endings for step in _steps(ending.container, ending.log))


def _steps(container: str, log: str) -> Iterator[Step]:
    for line in log.splitlines():
        found = _TOLD.match(line)
        if found:
            file = found[1] if found[1].startswith("/") else ""
            yield Step(container, file, int(found[2]), int(found[3]), found[4])


def _containers(spec: Obj) -> Iterable[Obj]:
    for kind in ("initContainers", "containers"):
        yield from dig(spec, kind, default=[])


def _beside(obj: Obj, program: Program) -> bool:
    return (namespace_of(obj) or "default") == program.namespace


def _prepared(container: Obj) -> bool:
    """Have what a shell is given as its command line tell; whether anything here can."""
    words = [(field, number) for field in ("command", "args") for number in range(len(container.get(field) or ()))]
    texts = [str(container[field][number]) for field, number in words]
    if not texts:
        return False
    at = next((n for n, word in enumerate(texts) if basename(word) in _SHELLS), None)
    if at is None:
        return any(basename(word).startswith("python") or word.endswith((".py", ".sh")) for word in texts)
    flag = next((n for n in range(at + 1, len(texts)) if _COMMAND.fullmatch(texts[n])), None)
    if flag is not None and flag + 1 < len(texts):
        field, number = words[flag + 1]
        container[field][number] = _TELL + texts[flag + 1]
    return True


def _with_scripts(config_map: Obj) -> tuple[Obj, bool]:
    """The same with every shell script in it told to tell; and whether there is any script."""
    data = dict(dig(config_map, "data", default={}))
    scripts = {key: _telling(str(text)) for key, text in data.items() if _is_shell(key, str(text))}
    python = any(key.endswith(".py") or "python" in str(text)[:80] for key, text in data.items())
    return {**config_map, "data": {**data, **scripts}}, bool(scripts) or python


def _is_shell(key: str, text: str) -> bool:
    return bool(_SHEBANG.match(text)) or (key.endswith((".sh", ".bash")) and not text.startswith("#!"))


def _telling(text: str) -> str:
    first = _SHEBANG.match(text)
    begin = first.end() if first else 0
    return text[:begin] + _TELL + text[begin:]
