"""The cloud's command line on a machine outside Kubernetes: gone, refused, throttled, signed out, hanging, or lying.

Another program stands before it on the PATH of what the layers run, and nothing that is the machine's own is changed.
Those who count and start the targets find the real one: what is on is seen as before. On the embedded machine its
timers find the stand-in too; on a real one only what the drill itself starts does.
"""

from __future__ import annotations

import re
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from killcheck.capabilities.offered import Capability
from killcheck.executor import scripts
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.machine.cloud_answers import no_effect, refusing, unanswered
from killcheck.faults.machine.machine_fault import MachineFault
from killcheck.faults.machine.words import said_by
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text.numbers import whole

__all__ = [
    "CliDenied",
    "CliGone",
    "CliHangs",
    "CliNoEffect",
    "CliSignedOut",
    "CliThrottled",
    "CliUnreachable",
    "CredentialsExpired",
]


class _Cli(MachineFault):
    """Another program stands before each of the clouds' command lines that the layer's program comes to call."""

    needs = (Capability.PROGRAMS,)
    shows = Evidence.CALL

    def __init__(self) -> None:
        self._folder = ""
        self._names: tuple[str, ...] = ()

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where it calls one."""
        if layer.command is None or scripts.clis(layer.command, kill_path.folder):
            return None
        return f"nothing in {layer.command} calls a cloud's command line"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Which they are."""
        assert layer.layer.command is not None
        nothing = self.unsuited_targets(stage.kill_path, layer.layer)
        if nothing:
            raise FaultError(nothing)
        names = scripts.clis(layer.layer.command, stage.kill_path.folder)
        where = "what this drill starts" if stage.cluster.real else "the machine's own programs"
        return Plan(
            tuple(f"{name}, as {where} find it: {self.simulates}" for name in names),
            edits=tuple(f"the machine's {name}" for name in names),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Put a program before each."""
        assert layer.layer.command is not None
        self._names = scripts.clis(layer.layer.command, stage.kill_path.folder)
        self._folder = str(Path(tempfile.gettempdir()) / f"killcheck-{stage.run}-{self.name}")
        texts = {name: self.text(name) for name in self._names}
        what = f"{', '.join(self._names)}: {self.simulates}"
        try:
            stage.journal.call(
                Capability.PROGRAMS,
                what,
                ["put_before", texts, self._folder],
                ["take_from", list(self._names), self._folder],
            )
        except OSError as error:
            if isinstance(error, FileExistsError):  # somebody's, and not ours to take away
                stage.journal.never_happened()
            raise FaultError(
                f"{', '.join(self._names)} cannot be replaced in {self._folder}: {error.strerror or error}"
            ) from error
        if stage.cluster.real:
            # The machine's own timers do not meet it: what they turn off meanwhile says nothing about the fault.
            stage.own_start_altered = True
        return [what]

    @abstractmethod
    def text(self, name: str) -> str:
        """The program that takes one's place; empty: none does, and the real one is not found either."""

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A call met it since the trigger was pulled."""
        if stage.timeline is None or not self._folder:
            return None
        begun = int(stage.timeline.start.timestamp())
        met = [call.partition(" ") for call in stage.programs.met(self._folder)]
        since = [call for when, _, call in met if (whole(when) or 0) >= begun]
        return f"{since[0]}: met a program that answers in its place ({len(since)} call(s))" if since else None


class CliGone(_Cli):
    """Reproduces row 2 outside Kubernetes: an upgrade or a clean-up took the program away."""

    name = "cli-gone"
    simulates = "the cloud's command line is not installed any more"
    family = "image"
    failures = (2,)
    shows = Evidence.EXECUTOR

    def text(self, name: str) -> str:
        """None."""
        return ""

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The layer's program said that it did not find one of them, as a shell, a kernel or Python says it."""
        names = "|".join(map(re.escape, self._names))
        if layer.ran is None or not names:
            return None
        named, absent = rf"(?<![\w.-])({names})(?![\w-])", r"(not found|no such file)"
        return said_by(layer.ran, re.compile(rf"{named}.*{absent}|{absent}.*{named}", re.IGNORECASE))


class _Refused(_Cli):
    """Every call is answered with an error, in the cloud's own words."""

    #: One of :data:`killcheck.faults.machine.cloud_answers.ANSWERS`.
    answer: ClassVar[str]

    def text(self, name: str) -> str:
        """Refuses."""
        return refusing(name, self.answer)


class CliDenied(_Refused):
    """Reproduces row 16 in a cloud: the identity may look, and no longer stop."""

    name = "cli-denied"
    simulates = "the cloud refuses every call: access denied"
    family = "credentials"
    failures = (16,)
    answer = "denied"


class CredentialsExpired(_Refused):
    """Reproduces row 20: a session that a person signed in for, eight hours later."""

    name = "credentials-expired"
    simulates = "the credentials that the cloud's command line uses have expired"
    family = "credentials"
    failures = (20, 21)
    answer = "expired"


class CliSignedOut(_Refused):
    """Reproduces row 20 where the file itself is gone: a new home, a clean-up, another user."""

    name = "credentials-gone"
    simulates = "the file with the credentials of the cloud's command line is gone"
    family = "credentials"
    failures = (20,)
    answer = "signed-out"


class CliThrottled(_Refused):
    """Reproduces row 4 at a cloud's own API: everybody else's calls count too."""

    name = "cli-throttled"
    simulates = "the cloud answers every call with 429, too many requests"
    family = "network"
    failures = (4,)
    answer = "throttled"


class CliUnreachable(_Cli):
    """Reproduces row 23 outside Kubernetes: the way to the cloud's endpoint is gone."""

    name = "cloud-unreachable"
    simulates = "the cloud's endpoint cannot be reached from the machine"
    family = "network"
    failures = (23, 25)
    #: After how long a call gives up.
    gives_up_s: ClassVar[float] = 20.0

    def text(self, name: str) -> str:
        """Refuses, a while later."""
        return refusing(name, "unreachable", after_s=self.gives_up_s)


class CliHangs(_Cli):
    """Reproduces row 20's prompt without a terminal: the call waits for an answer that nobody gives."""

    name = "cli-hangs"
    simulates = "the cloud's command line never returns"
    family = "network"
    failures = (20, 25)

    def text(self, name: str) -> str:
        """Waits."""
        return unanswered(name)


class CliNoEffect(_Cli):
    """Reproduces row 14 outside Kubernetes: the call was accepted, and nothing came of it."""

    name = "cli-no-effect"
    simulates = "the cloud says yes to the stop, and stops nothing"
    family = "rivals"
    failures = (14, 50)

    def text(self, name: str) -> str:
        """Lies."""
        return no_effect(name)
