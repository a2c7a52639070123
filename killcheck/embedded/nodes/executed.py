"""A command beside a container's own (``kubectl exec``): the same image, environment and mounts, another process."""

from __future__ import annotations

from dataclasses import replace

from killcheck.embedded.nodes.execution import Exit, Launch, NotRun, Running, Runtime, StartError

__all__ = ["Executed"]

#: Where the runtime's own words begin in a container's StartError.
_START = "unable to start container process"


class Executed:
    """What it writes and how it ends is asked for."""

    def __init__(self, runtime: Runtime, launch: Launch, command: list[str]) -> None:
        self._runtime = runtime
        self._launch = replace(launch, argv=list(command))
        self._outcome: int | str | None = None
        self._process: Running | None = None

    def start(self) -> None:
        """Begin it."""
        try:
            self._process = self._runtime.start(self._launch, self._ended, self._unknown)
        except StartError as error:
            why = str(error)[max(str(error).find(_START), 0):]
            self._outcome = (
                f'failed to exec in container: failed to start exec "{self._launch.container}": OCI runtime exec '
                f"failed: exec failed: {why}")
        except NotRun as error:
            self._unknown(str(error))

    def look(self) -> tuple[str, int | str | None]:
        """What it has written so far; its exit code once it has one, or why it was not run."""
        return self._process.log().text if self._process is not None else "", self._outcome

    def kill(self) -> None:
        """End it; idempotent."""
        if self._outcome is None and self._process is not None:
            self._process.kill()

    def _ended(self, ended: Exit) -> None:
        self._outcome = ended.code

    def _unknown(self, why: str) -> None:
        self._outcome = f"the command was not run: {why}"
