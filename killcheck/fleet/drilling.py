"""A fleet's shards, each in a process of its own, as many at once as there are slots."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from killcheck.clock import Loop
from killcheck.fleet.file import Fleet, Shard
from killcheck.fleet.slots import Slot, Slots
from killcheck.verdict import EXIT_CODES

__all__ = ["Done", "Drilling", "Place"]

#: Between two looks at what runs, and at the slots where none is free; seconds.
LOOK_S, SLOT_S = 0.1, 5.0
#: With these a drill has put everything back; with any other it may have left something.
_PUT_BACK = frozenset(EXIT_CODES[word] for word in ("proven", "exposed", "usage", "inconclusive"))


class Done(Struct, frozen=True):
    """What became of a shard: its drill's exit code; ``why`` where it was not drilled, or what it said at its end."""

    shard: Shard
    code: int
    why: str = ""


class Place(Struct, frozen=True):
    """Where shards run. ``work``: a folder for what each leaves. ``secrets``: where the Secrets with kubeconfigs are
    mounted; None: each cluster's own ``kubeconfig``."""

    fleet: Fleet
    work: Path
    secrets: Path | None = None

    def folder(self, shard: Shard) -> Path:
        """The working folder of a shard: its journals and records stay in it."""
        found = self.work / shard.key
        found.mkdir(parents=True, exist_ok=True)
        return found

    def cluster(self, shard: Shard) -> list[str]:
        """The words that name a shard's kubeconfig."""
        if self.secrets is not None and shard.secret:
            return ["--kubeconfig", str(self.secrets / shard.secret / "config")]
        return ["--kubeconfig", shard.kubeconfig] if shard.kubeconfig else []

    def start(self, shard: Shard, inherited: Sequence[int]) -> subprocess.Popen[bytes]:
        """Begin its drill."""
        words = [*shard.words(), *(self.cluster(shard) if shard.real else [])]
        if shard.search is not None:
            words += ["--known", str(self.work)]
        elif self.fleet.in_bucket:
            words += ["--evidence", self.fleet.place(shard)]
        with (self.folder(shard) / "output.txt").open("wb") as out:
            return subprocess.Popen(
                [*_KILLCHECK, *words],
                cwd=self.folder(shard),
                env={**os.environ, "KILLCHECK_KEEP_RUNS": "0"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=tuple(inherited),
                start_new_session=True,  # a Ctrl-C is ours to hand on
            )

    def said(self, shard: Shard) -> str:
        """The last line that its drill printed; of a search, what it came to."""
        text = (self.folder(shard) / "output.txt").read_text(encoding="utf-8", errors="replace")
        if shard.search is not None:
            with suppress(ValueError, KeyError, TypeError):
                found = json.loads(text[text.index("{") :])["explored"]
                return f"{found['scenarios']} scenarios known, {len(found['minimal'])} set(s) of its own expose"
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")

    def settle(self, key: str) -> bool:
        """Put back what the shard of that key left; whether nothing is left, and nobody drills there."""
        shard = next((one for one in self.fleet.shards if one.key == key), None)
        if shard is None:
            return False  # of another fleet.yaml: nobody here knows where
        if not shard.real:
            return True
        words = [*_KILLCHECK, "restore", "--on", shard.context, *self.cluster(shard), "--json"]
        done = subprocess.run(words, cwd=self.folder(shard), capture_output=True, text=True, check=False)
        with suppress(ValueError):
            told = json.loads(done.stdout)
            return done.returncode == 0 and not told["skipped"]
        return False


#: A Python that cannot even begin ends with 1, which would be *exposed*.
_START = f"""
try:
    from killcheck.cli import run
except Exception as error:
    import sys
    print(f"killcheck: it does not start: {{error!r}}", file=sys.stderr)
    sys.exit({EXIT_CODES["unfinished"]})
run()
"""
#: Nothing of the folder that it works in is imported.
_KILLCHECK = [sys.executable, "-P", "-c", _START]


class Drilling(Struct):
    """Drills shards. ``patience_s``: how long a slot is waited for while none of ours is under way."""

    place: Place
    slots: Slots
    loop: Loop
    heard: Callable[[Done], None] = lambda done: None
    patience_s: float = 3600.0
    _running: list[tuple[Shard, subprocess.Popen[bytes], Slot]] = field(default_factory=list)
    _looked: float = float("-inf")

    def run(self, shards: Iterable[Shard]) -> list[Done]:
        """All of them; what could not get a slot is not drilled. An interrupt is handed on, and waited for."""
        waiting, done = deque(shards), list[Done]()
        since = self.loop.monotonic()
        try:
            while waiting or self._running:
                done += self._ended()
                if self._running:
                    since = self.loop.monotonic()
                if waiting and self._begin(waiting[0]):
                    waiting.popleft()
                elif waiting and not self._running and self.loop.monotonic() - since > self.patience_s:
                    done += [self._told(Done(one, EXIT_CODES["unfinished"], self._no_slot())) for one in waiting]
                    break
                else:
                    self.loop.sleep(LOOK_S)
        except BaseException:
            self._end()
            raise
        return done

    def _begin(self, shard: Shard) -> bool:
        if self.loop.monotonic() - self._looked < SLOT_S:
            return False
        slot = self.slots.take(shard.key)
        if slot is None:
            self._looked = self.loop.monotonic()
            return False
        try:
            process = self.place.start(shard, slot.inherited)
        except BaseException:
            slot.release(settled=True)
            raise
        self._running.append((shard, process, slot))
        return True

    def _ended(self) -> list[Done]:
        found = []
        for one in [one for one in self._running if one[1].poll() is not None]:
            shard, process, slot = one
            self._running.remove(one)
            self._looked = float("-inf")
            slot.release(settled=process.returncode in _PUT_BACK or self.place.settle(shard.key))
            code = process.returncode if process.returncode >= 0 else EXIT_CODES["unfinished"]
            found.append(self._told(Done(shard, code, self.place.said(shard))))
        return found

    def _end(self) -> None:
        """End what is under way, and wait until it has put everything back."""
        for _, process, _ in self._running:
            process.send_signal(signal.SIGTERM)
        while self._running:
            self._ended()
            self.loop.sleep(LOOK_S)

    def _told(self, done: Done) -> Done:
        self.heard(done)
        return done

    def _no_slot(self) -> str:
        if self.slots.stuck:
            who = ", ".join(sorted(self.slots.stuck))
            return f"not drilled: {who} died in a drill, and what it left could not be put back: killcheck restore"
        return "not drilled: as many drills as may be under way at once were, all the time"
