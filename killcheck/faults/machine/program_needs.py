"""What a program on a machine outside Kubernetes needs besides the cloud: its script, its locks, its sentinel.

Only on the embedded machine, which is killcheck's own: on a real one these are files that its own timers use.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import PurePath
from typing import ClassVar

from killcheck.capabilities.errors import UndoProblem
from killcheck.capabilities.offered import Capability, present
from killcheck.executor import scripts
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.machine.machine_fault import MachineFault
from killcheck.faults.machine.words import said_by
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import Command, KillPath, Layer

__all__ = ["LockHeld", "LockStale", "ScriptGone", "ScriptNotExecutable", "SentinelLost"]

#: A process number that no Linux gives out (the largest is 4194304), so that it is surely dead.
DEAD_PID = 4194305


class _Script(MachineFault):
    """Something is wrong with the very file that the layer's command names."""

    how: ClassVar[str]
    #: What a shell, or the kernel, says of it: a regular expression.
    words: ClassVar[str]
    shows = Evidence.EXECUTOR

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where that file lies beside the spec."""
        if layer.command is None or scripts.own_script(layer.command, kill_path.folder):
            return None
        return f"{layer.command} is no script that lies beside the spec"

    def _script(self, stage: Stage, layer: LayerRun) -> str:
        assert layer.layer.command is not None
        found = scripts.own_script(layer.layer.command, stage.kill_path.folder)
        if not found:
            raise FaultError(self.unsuited_targets(stage.kill_path, layer.layer))
        return found

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """That file."""
        name = self._script(stage, layer)
        return Plan((f"{name}: {self.simulates}",), edits=(f"the machine's {name}",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Change it."""
        name = self._script(stage, layer)
        what = f"{name}: {self.simulates}"
        stage.journal.call(Capability.MACHINE, what, ["lose_script", name, self.how], ["find_script", name])
        return [what]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Starting it failed in just that way; what the script itself does not find is another matter."""
        ended = layer.ran
        said = ended.errors if ended is not None and ended.code in (126, 127, 2) else ""
        file = re.escape(PurePath(self._script(stage, layer)).name)
        found = re.compile(rf"{file}\W?: (\[Errno \d+\] )?(cannot execute: |command )?{self.words}")
        return next((line.strip()[:300] for line in said.splitlines() if found.search(line)), None)


class ScriptGone(_Script):
    """Reproduces row 2 on a machine: a deployment moved it, a clean-up took it."""

    name = "script-gone"
    simulates = "the script that the layer's timer starts is gone"
    family = "image"
    failures = (2,)
    how = "gone"
    words = "(not found|No such file)"


class ScriptNotExecutable(_Script):
    """Reproduces row 2 on a machine: a checkout, a copy or an archive lost the mode."""

    name = "script-not-executable"
    simulates = "the script that the layer's timer starts may not be executed"
    family = "image"
    failures = (2,)
    how = "mode"
    words = "[Pp]ermission denied"

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """An interpreter reads a script whatever its mode."""
        if (
            layer.command is not None
            and layer.command.argv[0] != scripts.own_script(layer.command, kill_path.folder)
            and not layer.command.argv[0].startswith("./")
        ):
            return f"{layer.command} is not started by its own mode"
        return super().unsuited_targets(kill_path, layer)


class _Lock(MachineFault):
    """The lock that the layer's program takes is not free."""

    family = "schedule"
    shows = Evidence.TRIED

    def __init__(self) -> None:
        self._taken: tuple[str, ...] = ()

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where its scripts name a lock file."""
        if layer.command is None or scripts.locks(layer.command, kill_path.folder):
            return None
        return f"nothing in {layer.command} names a lock file"

    def _locks(self, stage: Stage, command: Command | None) -> tuple[scripts.Lock, ...]:
        assert command is not None
        found = scripts.locks(command, stage.kill_path.folder)
        if not found:
            raise FaultError(f"nothing in {command} names a lock file")
        return found

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The lock files."""
        found = self._locks(stage, layer.layer.command)
        return Plan(
            tuple(f"{lock.path}: {self.simulates}" for lock in found),
            edits=tuple(f"the machine's {lock.path}" for lock in found),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Take each."""
        found = self._locks(stage, layer.layer.command)
        done = []
        for lock in found:
            what = f"{lock.path}: {self.simulates}"
            try:
                self.take(stage, lock, what)
            except OSError as error:
                stage.journal.never_happened()
                raise FaultError(f"{lock.path} cannot be taken: {error.strerror or error}") from error
            done.append(what)
        self._taken = tuple(lock.path for lock in found)
        return done

    @abstractmethod
    def take(self, stage: Stage, lock: scripts.Lock, what: str) -> None:
        """Through the journal. Raises OSError."""

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The layer's program looked at it while it was taken, or named it as it gave up; or our own try is refused."""
        if stage.timeline is None or not self._taken or layer.ran is None:
            return None
        machine, command = present(stage.cluster.capabilities.machine), layer.layer.command
        for path in self._taken:
            met = machine.looked_at(path).get(command) if command is not None else None
            if met is not None and met >= stage.timeline.start:
                return f"{command} looked at {path} while it was taken"
        names = "|".join(re.escape(PurePath(path).name) for path in self._taken)
        said = said_by(layer.ran, re.compile(rf"(?<![\w.])({names})(?!\w)"))
        if said is not None:
            return said
        try:
            taken = [path for path in self._taken if machine.is_taken(path)]
        except OSError:
            return None
        if not taken:
            return f"{', '.join(self._taken)} was taken, and is free after {layer.ran.command} ran"
        return f"{', '.join(taken)} is taken still after {layer.ran.command} ran, and no look at it was seen"


class LockStale(_Lock):
    """Reproduces row 8 on a machine: what was killed left its lock, and nobody looks whether its holder lives."""

    name = "lock-stale"
    simulates = "a dead process left the lock behind"
    failures = (8,)

    def take(self, stage: Stage, lock: scripts.Lock, what: str) -> None:
        """Leave it behind."""
        stage.journal.call(
            Capability.MACHINE,
            what,
            ["leave_lock", lock.path, f"{DEAD_PID}\n", lock.folder],
            ["remove_lock", lock.path],
        )


class LockHeld(_Lock):
    """Reproduces row 8 on a machine: the run before this one hangs, and holds the lock."""

    name = "lock-held"
    simulates = "another run of the controller hangs, and holds the lock"
    failures = (8, 55)

    def take(self, stage: Stage, lock: scripts.Lock, what: str) -> None:
        """Hold it."""
        if lock.folder:
            stage.journal.call(
                Capability.MACHINE, what, ["leave_lock", lock.path, "", True], ["remove_lock", lock.path]
            )
        else:
            stage.journal.call(Capability.MACHINE, what, ["hold_lock", lock.path], ["let_go", lock.path])


class SentinelLost(MachineFault):
    """Reproduces row 56: the sentinel lies where a reboot or a clean-up of temporary files takes it away.

    Only the file that the drill itself has set is removed.
    """

    name = "sentinel-lost"
    simulates = "a reboot or a clean-up takes the sentinel file away while it is needed"
    family = "orchestrator"
    failures = (56,)
    needs = (Capability.FILES,)
    shows = Evidence.TARGETS

    def __init__(self) -> None:
        self._gone: str | None = None

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only to a sentinel that is a file."""
        return None if layer.sentinel is not None and layer.sentinel.path else "the layer is no sentinel file"

    def _path(self, layer: LayerRun) -> str:
        if layer.layer.sentinel is None or not layer.layer.sentinel.path:
            raise FaultError("the layer is no sentinel file")
        return layer.layer.sentinel.path

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The file that the drill sets."""
        path = self._path(layer)
        return Plan((f"{path}, once the drill has set it: {self.simulates}",), edits=(path,))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Wait until it is set, and everything off."""
        return [f"{self._path(layer)} will be removed again"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """It was there, and is not any more."""
        return self._gone

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Remove what the drill has set, as soon as everything is off."""
        census, path = stage.scene.census, self._path(layer)
        off = census.broken() is None and not census.all_on()
        if self._gone or stage.timeline is None or (census.targets and not off):
            return None
        files = present(stage.cluster.capabilities.files)
        if files.there(path):
            ours = f"set by killcheck run {stage.run}\n"
            try:
                stage.journal.call(
                    Capability.FILES, f"removed {path}", ["take_away", path, ours], ["take_away", path, ours]
                )
            except UndoProblem as error:
                stage.journal.never_happened()
                raise FaultError(str(error)) from error
            self._gone = f"{path} was removed at {stage.cluster.loop.now():%H:%M:%S}"
        return None
