"""Who else is asked whether the GPUs are off: the cloud (P3), the alarm (P5), the bucket in which results must be.

What may *not* live here: verdicts (:mod:`killcheck.drill` judges), how a cloud is asked (:mod:`killcheck.cloud`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from killcheck.cloud.instances import Instances
from killcheck.cloud.results import Results
from killcheck.cloud.session import AskError, Aws
from killcheck.cluster.base import Cluster
from killcheck.killpath import KillPath, Layer, Proof
from killcheck.kube.objects import dig, name_of
from killcheck.scene import Scene
from killcheck.timeline import Timeline

__all__ = ["Lack", "Unproven", "Witnesses"]


class Unproven(Exception):
    """A witness that the proof needs could not be asked, or said nothing; the message names it."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Something of the proof that is definitely not so. ``stuck_at`` names it in a word."""

    stuck_at: str
    cause: str
    remedy: str
    evidence: tuple[str, ...] = ()
    failures: tuple[int, ...] = ()


class Witnesses:
    """The witnesses of one drill."""

    def __init__(self, cluster: Cluster, kill_path: KillPath, layer: Layer, scene: Scene) -> None:
        self.cluster = cluster
        self.kill_path = kill_path
        self.scene = scene
        self._wants_cloud = Proof.P3 in kill_path.proof and any(t.kind for t in kill_path.covered_by(layer))
        self.instances = cast("Instances | None", cluster.levers.get("instances"))
        aws = cast("Aws | None", cluster.levers.get("aws"))
        urls = kill_path.cloud.results if kill_path.cloud else ()
        self.results = Results(aws, urls) if aws is not None and urls else None

    # -- before --------------------------------------------------------------------------------------------
    def preflight(self) -> None:
        """Every witness can be asked, and says what it must before a drill. Raises Unproven."""
        if self._wants_cloud:
            for node in self.scene.pool_nodes():
                state = self.cluster.instance_state(node)
                if state == "unknown":
                    raise Unproven(self._why_unknown(name_of(node)))
                if state != "running":
                    raise Unproven(
                        f"P3 unproven: the cloud says {state} of {dig(node, 'spec', 'providerID')}, on which node "
                        f"{name_of(node)} runs")
        if self.results is not None:
            try:
                self.results.remember()
            except AskError as error:
                raise Unproven(f"whether results are in S3 cannot be seen: {error}") from error

    def _why_unknown(self, node: str) -> str:
        if self.instances is None:
            return (f"P3 is wanted, and nobody says whether the instance behind node {node} bills: give the spec a "
                    "cloud: section")
        return self.instances.problem or f"P3 unproven: the cloud says nothing of the instance behind node {node}"

    # -- after ---------------------------------------------------------------------------------------------
    def unknown(self, missing: str) -> Iterable[str]:
        """Why it is not known whether phase ``missing`` was reached."""
        if missing == "instance_gone" and self.instances is not None and self.instances.problem:
            yield self.instances.problem

    def lack(self, timeline: Timeline, now: datetime) -> Lack | None:
        """What of the proof is not so although everything is off. Raises Unproven."""
        return self._lost_results()

    def _lost_results(self) -> Lack | None:
        if self.results is None:
            return None
        try:
            missing = self.results.missing()
        except AskError as error:
            raise Unproven(f"whether results are in S3 cannot be seen: {error}") from error
        if not missing:
            return None
        return Lack(
            "results", f"the run's results are lost: nothing was left at {', '.join(missing)}",
            "Let the run write its results and logs to S3 by an identity of its own, as it goes and when it is cut.",
            tuple(f"{url}: nothing new" for url in missing), (20,))
