"""A rental market beside the embedded cluster, where a spec's target names a file of what it has to offer.

The machines that are rented there run the program of the layer that says they end themselves (its ``command``), each
with its own id and key. Programs find the market by MARKET_URL. On a real machine nobody stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from killcheck.capabilities.cluster import Cluster, ClusterError
from killcheck.capabilities.programs import Ran
from killcheck.cluster.cloudword import post
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.entries import Assumption
from killcheck.machine.modelled import Machine
from killcheck.spec.killpath import Command, KillPath, LayerType, Target
from killcheck.standins.rental import BOOTS_S, SHAPES, Contract, Market
from killcheck.standins.serving import serve
from killcheck.text.durations import parse_duration
from killcheck.text.files import enclosed, text_of
from killcheck.text.values import replace
from killcheck.text.yamlfile import YamlError, documents

__all__ = ["HUNG", "equip_with_market"]

#: What is said of workers while another layer is drilled.
HUNG = Assumption("workers that end themselves hang here: this layer is for the day they do")
#: The variable by which programs find it.
URL = "MARKET_URL"
#: A worker runs for as long as its machine does, in seconds.
FOR_GOOD_S = 366 * 86400.0
#: What a machine is told about itself, by shape.
_ITSELF = {"vast": ("CONTAINER_ID", "CONTAINER_API_KEY"), "runpod": ("RUNPOD_POD_ID", "RUNPOD_API_KEY")}
_KNOWN = frozenset({"apiVersion", "kind", "shape", "boots", "offers"})


def equip_with_market(cluster: Cluster, kill_path: KillPath, layer: str) -> None:
    """Give an embedded cluster the market that the spec names; ``layer``: what is drilled. Raises ClusterError.

    Workers that end their own machines cannot while another layer is drilled: that is for the day they do not.
    """
    named = [target for target in kill_path.targets if target.machines and target.machines.stand_in]
    if not named or not isinstance(cluster, EmbeddedDrillCluster) or cluster.machine is None:
        return
    if len({target.machines.stand_in for target in named if target.machines}) > 1:
        raise ClusterError("one drill has one market: let every target's machines.standIn name the same file")
    target = named[0]
    assert target.machines is not None
    market = _read(Path(kill_path.folder), target.machines.stand_in, cluster)
    own = next((one for one in kill_path.layers if one.name == layer), None)
    if _program(kill_path, target) is not None and own is not None and own.type is not LayerType.SELF_TERMINATING:
        market.own_keys = False
        cluster.embedded.notes.append(HUNG)
    _Workers(cluster, cluster.machine, market, _program(kill_path, target)).attend()
    stack = ExitStack()
    url = stack.enter_context(serve(market))
    cluster.closing.append(stack.close)
    cluster.embedded.external_endpoint(int(url.rpartition(":")[2]), {URL: url})
    cluster.capabilities = replace(cluster.capabilities, market=market)


def _program(kill_path: KillPath, target: Target) -> Command | None:
    """What runs on each machine: the command of the layer by which the target's workers end themselves."""
    for layer in kill_path.layers:
        if layer.type is LayerType.SELF_TERMINATING and layer.command and target.name in layer.covers:
            return layer.command
    return None


def _read(folder: Path, name: str, cluster: EmbeddedDrillCluster) -> Market:
    path = folder / name
    if path.exists() and not enclosed(path, folder):
        raise ClusterError(f"machines.standIn: {name} is no file of the spec's folder: let it lie beside the spec")
    try:
        found = documents(text_of(path), str(path))
    except (OSError, UnicodeDecodeError, YamlError) as error:
        raise ClusterError(f"the market of machines.standIn cannot be read: {error}") from error
    said = found[0].value if len(found) == 1 else None
    offers = said.get("offers") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(offers, list) or set(said) - _KNOWN:
        raise ClusterError(f"{path}: expected apiVersion killcheck/v1, kind Market, shape, boots and a list of offers")
    for i, offer in enumerate(offers):
        if not isinstance(offer, dict) or not {"id", "gpu_name"} <= set(offer) or not _is_price(offer.get("dph_total")):
            where = f"{path}:{found[0].line_of(('offers', i))}: offers[{i}]"
            raise ClusterError(f"{where}: expected id, gpu_name and dph_total (US dollars an hour, a number)")
    shape = str(said.get("shape", SHAPES[0]))
    if shape not in SHAPES:
        raise ClusterError(f"{path}: shape: expected {' or '.join(SHAPES)}, found {shape!r}")
    return Market(offers, cluster.loop.now, shape, _boots_s(said, path))


def _is_price(said: Any) -> bool:
    return isinstance(said, int | float) and not isinstance(said, bool) and said >= 0


def _boots_s(said: dict[str, Any], path: Path) -> float:
    try:
        return parse_duration(said["boots"]) if "boots" in said else BOOTS_S
    except (ValueError, TypeError, AttributeError) as error:
        raise ClusterError(f"{path}: boots: {error}") from error


class _Workers:
    """The programs of the machines that are rented, from when each has loaded until it goes."""

    def __init__(
        self, cluster: EmbeddedDrillCluster, machine: Machine, market: Market, program: Command | None
    ) -> None:
        self.loop = cluster.loop
        self.machine = machine
        self.market = market
        self.program = program
        self._kills: dict[str, Callable[[], None]] = {}

    def attend(self) -> None:
        """Hear of each machine."""
        self.market.boots = lambda contract: post(self.loop, self._loads, contract)
        self.market.ends = lambda contract: post(self.loop, self._goes, contract)

    def _loads(self, contract: Contract) -> None:
        self.loop.call_later(self.market.boots_s, self._runs, contract)

    def _runs(self, contract: Contract) -> None:
        if not self.market.running(contract) or self.program is None or contract.id in self._kills:
            return
        own = dict(zip(_ITSELF[self.market.shape], (contract.id, contract.key), strict=True))
        command = replace(self.program, env={**self.program.env, **own}, timeout_s=FOR_GOOD_S)

        def ended(ran: Ran) -> None:
            self._kills.pop(contract.id, None)
            self.market.program_ended(contract, ran.code)
            self._tell()

        self._kills[contract.id] = self.machine.begin(command, ended)

    def _goes(self, contract: Contract) -> None:
        kill = self._kills.pop(contract.id, None)
        if kill is not None:
            kill()
        self._tell()

    def _tell(self) -> None:
        """Have the machines counted: something became of one."""
        for heard in self.machine.heard:
            heard()
