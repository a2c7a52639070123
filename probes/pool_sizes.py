"""Executors that size a pool by its cloud's command line, and will be refused, or for nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import Executor, World

from killcheck.instances.provided import provided

__all__ = ["PoolSizes"]

_GKE = ("gcloud", "container", "clusters", "resize")
_AKS = (("az", "aks", "nodepool", "scale"), ("az", "aks", "scale"))
#: What turns a pool's autoscaler off before it is sized.
_FREES = frozenset({"--no-enable-autoscaling", "--disable-cluster-autoscaler", "-d"})
_POOL_FLAGS = ("--node-pool", "--nodepool-name", "--name", "-n")


class PoolSizes(Probe):
    """`gcloud` asks a person, `az` wants a login and no autoscaler, GKE's autoscaler brings back what pods ask for."""

    id = "pool-sizes"
    claim = "An executor that sizes a pool by its cloud's command line is let do it, and the pool stays as it is."
    remedy = "Scale the workload to zero, and let the pool's autoscaler take the nodes: no cloud, no identity in it."
    failures = (50,)
    sources = (
        "gcloud 528: surface/container/clusters/resize.py (PromptContinue, throw_if_unattended)",
        "azure-cli: acs/custom.py (aks_agentpool_scale)",
        "cloud.google.com/kubernetes-engine/docs/concepts/cluster-autoscaler",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """What is wrong with each command that sizes a pool, as far as it can be read."""
        groups = {group["name"]: group for group in provided(world.of("ContainerNodePool", "ManagedClustersAgentPool"))}
        for one in world.layer_executors:
            for message in dict.fromkeys(_wrong(one, groups)):
                yield self.finding(world, one.owner, command_path(one), message)


def _wrong(one: Executor, groups: dict[str, dict[str, Any]]) -> Iterator[str]:
    told, freed = f"{one.text} {json.dumps(one.spec)}", set[str]()
    logged_in = ".azure" in told or "AZURE_CONFIG_DIR" in told
    for words in one.reading.commands:
        plain = tuple(word for word in words if word not in ("alpha", "beta", "-q", "--quiet"))
        pool = _pool(plain)
        logged_in = logged_in or plain[:2] == ("az", "login")
        if _FREES & set(plain):
            freed.add(pool)
        gke, aks = plain[:4] == _GKE, any(plain[: len(one)] == one for one in _AKS)
        scaled = pool in groups and not groups[pool]["fixed"] and pool not in freed
        if gke and not {"-q", "--quiet"} & set(words) and "CLOUDSDK_CORE_DISABLE_PROMPTS" not in told:
            yield "gcloud asks a person whether to go on, and ends with an error where nobody is there: give it --quiet"
        if aks and not logged_in:
            yield "az is not logged in: it ends with \"Please run 'az login'\""
        if aks and scaled:
            yield f"pool {pool} has an autoscaler: az refuses to scale it (nodepool update -d first)"
        if gke and scaled and not one.reading.writes:
            yield f"pool {pool} has an autoscaler, and its workloads still ask for GPUs: it brings the nodes back"


def _pool(words: tuple[str, ...]) -> str:
    """The pool that a command names; empty: none, or not in words."""
    for flag in _POOL_FLAGS:
        for index, word in enumerate(words):
            name, equals, value = word.partition("=")
            if name == flag:
                return value if equals else (*words, "")[index + 1]
    return words[4] if words[:4] == ("gcloud", "container", "node-pools", "update") and len(words) > 4 else ""
