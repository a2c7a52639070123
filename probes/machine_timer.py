"""What a machine's own schedule starts, beside the manifests: fired once in a rehearsal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from killcheck.probes.base import NOT_PROVEN, Evidence, Finding, Probe
from killcheck.probes.rehearsed import complaint_of, lost_in, telling
from killcheck.probes.world import World

from killcheck.executor import cloud_lines, cloud_machines, scripts
from killcheck.rehearsal.record import Outcome
from killcheck.spec.killpath import Command
from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Beside, Rehearsed

__all__ = ["MachineTimer"]

#: What has a timer run.
_ENABLE = "Give the timer [Install] and WantedBy=timers.target, and enable it (systemctl enable --now)."
#: What to do about a condition that nothing here meets.
_LAY_DOWN = "Let what installs the unit lay that file down too, or take the condition out."
#: How interpreters say where they are: bash, dash, Python.
_SAID = lazy_re.compile(
    r'(?m)^(?:(?P<file>[^\s:]+): (?:line )?(?P<line>\d+): |  File "(?P<py>[^"]+)", line (?P<at>\d+))'
)
_CLIENT = lazy_re.compile(r"\b(?:kubectl|oc|curl|wget|urlopen|aws|gcloud|az)\b")
_LOOKS = lazy_re.compile(r"\b(?:get|describe|wait|logs|top|which|command -v)\b")


class MachineTimer(Probe):
    """A systemd timer or a crontab line that turns GPUs off: its calls refused, its failures, its command lines."""

    id = "machine-timer"
    rehearsed = True
    claim = "What a machine's timer starts to turn GPUs off does so, and fails where it cannot."
    remedy = "Mend that call or command, and let its failure end the unit (set -e, no '|| true', no 'ExecStart=-')."
    failures = (14, 16, 39)
    sources = ("systemd.time(7)", "crontab(5)")

    def ask(self, world: World) -> Iterable[Finding]:
        """Each such program that is part of the kill path, or asked for something of its kind."""
        layers = {layer.name for layer in world.kill_path.layers}
        for ref, one in world.rehearsed.items():
            if one.beside is None:
                continue
            if one.beside.idle and ref.partition("/")[2] in layers:
                yield self._about(ref, one, f"{NOT_PROVEN}{one.beside.idle}", _idle_remedy(one.beside.idle), open_=True)
            if one.known and not one.beside.odd and ref.partition("/")[2] not in layers and not _concerns(world, one):
                continue
            told, place = list(dict.fromkeys(_told(one))), _without_place(one)
            for number, message in enumerate(told):
                yield self._about(ref, one, message if number else f"{message}{place}")
            if not one.known and not told:
                why = one.why_unknown or "it could not be run here"
                yield self._about(ref, one, f"{NOT_PROVEN}{why}{place}", open_=True)

    def _about(self, ref: str, one: Rehearsed, message: str, remedy: str = "", *, open_: bool = False) -> Finding:
        beside = one.beside
        assert beside is not None
        never = one.first.outcome is Outcome.NOT_STARTED or message in (beside.odd, beside.idle)
        file, line = (None if never else _script_line(one, beside)) or (beside.file, beside.line)
        return Finding(
            self.id,
            "note" if open_ else "error",
            ref,
            message,
            remedy or self.remedy,
            (Evidence(ref, "ExecStart", " ".join(beside.argv)[:200]),),
            "",
            file,
            line,
            unproven=open_,
            failures=self.failures,
            basis="read" if one.first.outcome is Outcome.UNKNOWN else "seen",
        )


def _idle_remedy(why: str) -> str:
    return _LAY_DOWN if why.startswith("Condition") else _ENABLE


def _concerns(world: World, one: Rehearsed) -> bool:
    """Whether it asked for something where there are holders of GPUs; or came to ask for nothing, where one of them is
    turned off by nothing."""
    spaces = {holder.namespace for holder in world.holders}
    covered = {name for layer in world.kill_path.layers for name in layer.covers}
    if one.known and not one.first.calls and (one.first.exit_code != 0 or complaint_of(one.first)):
        return not world.kill_path.targets or any(target.name not in covered for target in world.kill_path.targets)
    return any(call.namespace in spaces and (call.writes or call.refused) for call in one.first.calls)


def _without_place(one: Rehearsed) -> str:
    """What of the place a cloud's command line is not told, in half a sentence: its own configuration could say it."""
    beside = one.beside
    assert beside is not None
    asked = [call.argv for call in one.first.clouds] or list(beside.read)
    text = " ".join([*beside.argv, *(name for name, _ in beside.env), *(w for argv in beside.read for w in argv)])
    lacks = cloud_machines.lacks_place(asked, text)
    return f"; {lacks}" if lacks else ""


def _told(one: Rehearsed) -> Iterator[str]:
    first = one.first
    if one.beside is not None and one.beside.odd:
        yield one.beside.odd
    for argv in dict.fromkeys([call.argv for call in first.clouds] or (one.beside.read if one.beside else ())):
        wrong = cloud_lines.wrong_in(argv)
        if wrong is not None:
            yield f"'{' '.join(argv)}': {wrong}"
    again = cloud_machines.lit_again(call.argv for call in first.clouds)
    if again is not None:
        yield again
    lost = lost_in(one.refused)
    if lost is not None:
        yield f"ends with exit code 0 although '{lost}' was refused (rehearsed with a cloud that refuses everything)"
    if not one.known:
        return
    if first.outcome is Outcome.NOT_STARTED:
        yield f"it never starts: {first.why}"
        return
    well = first.exit_code == 0
    refused = [call for call in first.refused if call.resource != "namespaces"]
    for missed in refused:
        if missed.writes or not first.off:
            yield f"ends with exit code 0 although {missed}" if well else str(missed)
    if not well and not refused:
        failed = first.failed
        yield f"fired once, it failed: {telling(failed)}" if failed else _endless(one)
    elif well and not first.off and not refused and first.calls and not _lights(one):
        yield "ends with exit code 0, and nothing went off"
    elif well and not first.calls and not first.off and complaint_of(first):
        yield f'ends with exit code 0, and it asked for no change at all: it says "{complaint_of(first)}"'


def _script_line(one: Rehearsed, beside: Beside) -> tuple[str, int] | None:
    """(file, line) of its script that a failure came from: as its interpreter said, or the only line that could have
    made the call; None: its scripts do not tell."""
    files = list(scripts.files(Command(beside.argv), beside.folder))
    failed = one.first.failed
    for said in reversed(list(_SAID.finditer(failed.log)) if failed else ()):
        name, line = (said["file"] or said["py"]).rpartition("/")[2], int(said["line"] or said["at"])
        found = next((str(file) for file, text in files if file.name == name and line <= text.count("\n") + 1), None)
        if found:
            return found, line
    names = {call.name for call in one.first.refused if call.name}
    lines = [
        (str(file), number, text)
        for file, whole in files
        for number, text in enumerate(whole.splitlines(), 1)
        if _CLIENT.search(text) and not _LOOKS.search(text)
    ]
    named = [found for found in lines if any(name in found[2] for name in names)] or lines
    return named[0][:2] if len(named) == 1 else None


def _endless(one: Rehearsed) -> str:
    """What is to be said of one that was at work still when its time was over."""
    limit_s = one.beside.limit_s if one.beside else None
    if limit_s is None or one.first.seconds < limit_s:
        return "fired once, it had not ended"
    return f"its unit stops it after {limit_s:.0f} s (TimeoutStartSec=, RuntimeMaxSec=), and it was at work still"


def _lights(one: Rehearsed) -> bool:
    return any((call.replicas or 0) > 0 for call in one.first.writes) or not one.first.writes
