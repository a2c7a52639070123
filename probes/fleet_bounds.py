"""How far a fleet goes that is rented machine by machine: up, down, and at what price, by its spec and its programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from killcheck.probes.base import Evidence, Finding, Probe, Severity
from killcheck.probes.world import World

from killcheck.executor import scripts
from killcheck.spec.killpath import KillPath, Layer, LayerType, Target
from killcheck.text import lazy_re

__all__ = ["FleetBounds"]

_WHAT = r"(?:WORKERS?|INSTANCES?|MACHINES?|REPLICAS?|GPUS?|PODS?|NODES?)"
#: A bound as a program or its environment has it: ``MIN_WORKERS = 1``, ``os.environ.get("MAX_WORKERS", "4")``.
_BOUND = lazy_re.compile(
    rf"""(?<![A-Za-z])(?P<name>(?P<end>MIN|MAX)(?:IMUM)?_?{_WHAT}|(?:NUM_)?WARM_?{_WHAT})\b["']?\s*"""
    rf"""(?::\s*int\s*)?(?:=|:|,)\s*(?:int\(\s*)?(?:os\.(?:environ\.get|getenv)\([^,()]*,\s*)?["']?(?P<number>\d+)""",
    re.IGNORECASE,
)
#: What ends a machine: a market's own call, a cloud's, or the machine's own.
_ENDS = lazy_re.compile(
    r"DELETE|destroy|terminate[_-]?(?:instances?|pod)|podTerminate|\b(?:remove|stop|delete)[ _-](?:pods?|instances?)"
    r"|/stop\b|[\"']stopped[\"']|\b(?:poweroff|shutdown|halt)\b|runpodctl|vastai",
    re.IGNORECASE,
)
#: Hours of a month, as a bill has them.
MONTH_H = 730.0
#: An orchestrator that costs as many hours of the dearest machine a month is no small change.
_MANY_H = MONTH_H / 10


class FleetBounds(Probe):
    """A ceiling that nobody states, a floor that no pool shows, a worker that exits and leaves its machine."""

    id = "fleet-bounds"
    claim = "A fleet outside Kubernetes has a ceiling, no floor, and workers that end their own machines."
    remedy = "State machines: {most: N} in the spec, and hold it in the program and by a limit of the account."
    severity = "warning"
    failures = (58, 30, 43)
    sources = ("seed 1", "docs.vast.ai/cli/reference/show-instances (actual_status)")

    def ask(self, world: World) -> Iterable[Finding]:
        """Targets that a list counts, and the programs of the layers that cover them."""
        path = world.kill_path
        for target in (one for one in path.targets if one.machines is not None):
            yield from self._ceiling(target)
            yield from self._orchestrator(target)
            for layer in (one for one in path.layers if target.name in one.covers and one.command):
                yield from self._programs(path, target, layer)

    def _ceiling(self, target: Target) -> Iterator[Finding]:
        assert target.machines is not None
        if target.machines.most is None:
            said = "nothing says how many machines may be on: a queue that fills by mistake is answered with any number"
            yield self._finding(f"Target/{target.name}", said, Evidence(target.name, "machines.most", "not given"))

    def _orchestrator(self, target: Target) -> Iterator[Finding]:
        assert target.machines is not None
        own, dearest = target.machines.orchestrator_usd_per_hour, target.machines.max_usd_per_hour
        if own and dearest and own * MONTH_H >= _MANY_H * dearest:
            hours, month = own * MONTH_H / dearest, own * MONTH_H
            said = f"its orchestrator bills ${month:.2f} a month, as much as {hours:.0f} hours of its dearest machine"
            yield self._finding(
                f"Target/{target.name}",
                said,
                Evidence(target.name, "machines.orchestratorUsdPerHour", f"{own:g}"),
                "Run it on the smallest machine there is: it polls a queue, and does nothing else.",
                "note",
            )

    def _programs(self, path: KillPath, target: Target, layer: Layer) -> Iterator[Finding]:
        assert layer.command is not None
        assert target.machines is not None
        texts = list(scripts.texts(layer.command, path.folder or "."))
        said = "\n".join(f"{name}={value}" for name, value in layer.command.env.items())
        stated = {bound["name"].upper() for bound in _BOUND.finditer(said)}
        for bound in _BOUND.finditer(said):
            yield from self._bound(target, layer, "its environment", bound)
        for name, text in texts:
            for bound in _BOUND.finditer(text):
                if bound["name"].upper() not in stated:  # else it is a default that is overridden
                    yield from self._bound(target, layer, name, bound)
        if layer.type is LayerType.SELF_TERMINATING and not any(_ENDS.search(text) for _, text in texts):
            yield self._finding(
                f"Layer/{layer.name}",
                "its worker exits, and nothing in it ends the machine: that is there still, and bills",
                Evidence(layer.name, "command", str(layer.command)),
                "Let its last call end its own machine, by the id and the key that the market gives each one.",
            )

    def _bound(self, target: Target, layer: Layer, where: str, bound: re.Match[str]) -> Iterator[Finding]:
        assert target.machines is not None
        number, most = int(bound["number"]), target.machines.most
        shown = Evidence(where, bound["name"], bound["number"])
        if (bound["end"] or "MIN").upper() == "MIN" and number:
            yield self._finding(
                f"Layer/{layer.name}",
                f"{bound['name']} keeps {number} machine(s) on for good, whatever the queue holds",
                shown,
                "Let it go to zero, or name the floor's price to whoever pays it.",
            )
        elif (bound["end"] or "").upper() == "MAX" and most is not None and number > most:
            said = f"{bound['name']} is {number}, and the spec allows {most}"
            yield self._finding(f"Layer/{layer.name}", said, shown)

    def _finding(
        self, where: str, message: str, shown: Evidence, remedy: str = "", severity: Severity = "warning"
    ) -> Finding:
        return Finding(self.id, severity, where, message, remedy or self.remedy, (shown,), failures=self.failures)
