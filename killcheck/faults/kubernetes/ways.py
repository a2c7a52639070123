"""The executor takes a wrong way to the API server: by a stale name, by a proxy, or not at all before its sidecar.

All of them are written into the drill's own copy of the Job, so that they need nothing but a Kubernetes API, and touch
no other pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from killcheck.capabilities.offered import Capability
from killcheck.executor.proxies import API_NAMES, named, proxy_for
from killcheck.executor.refusals import UNREACHED
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import (
    COPY,
    SilencingFault,
    asks_for_no_name,
    containers,
    cron_job_of,
    log_line,
    statuses,
)
from killcheck.images.contents import contents_of
from killcheck.images.reference import InvalidReference, parse
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.layers.base import LayerRun, Stage

__all__ = ["DnsWrong", "ProxyInTheWay", "SidecarNotReady", "SidecarStays"]

#: An address that nobody has: RFC 5737, TEST-NET-1.
NOBODY = "192.0.2.1"


#: What needs no program of its image and goes on until it is told to go; kubelets run it in each pod of theirs.
_PAUSE = "registry.k8s.io/pause:3.10"
#: Why a container is not there yet, and will be.
_COMING = frozenset({"PodInitializing", "ContainerCreating", None})


class _OnCopy(SilencingFault):
    """A fault of the drill's own copy alone, where it means something to the executor."""

    family = "network"
    #: What of the copy it sets, for a plan.
    edits: ClassVar[str]

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing that exists is changed. Raises FaultError where it means nothing to the executor."""
        why = self.unsuited_executor(layer.layer.name, cron_job_of(layer))
        if why:
            raise FaultError(f"{self.name}: {why}")
        return Plan((f"the drill's own copy of the Job: {self.simulates}",), edits=(f"{COPY}.{self.edits}",))


class DnsWrong(_OnCopy):
    """Reproduces row 25: the API server's names lead to an address at which nobody is, as a stale record does."""

    name = "dns-wrong"
    simulates = "the API server's name resolves to an address at which nobody answers"
    failures = (25, 23)
    edits = "hostAliases"
    shows = Evidence.EXECUTOR

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """An executor that goes by address asks for no name."""
        return asks_for_no_name(layer_name, cron_job)

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Give the drill's pods an alias, which goes before DNS."""

        def rewrite(template: Obj) -> None:
            spec = template["spec"]
            others = [one for one in spec.get("hostAliases") or () if not set(API_NAMES) & set(one["hostnames"])]
            spec["hostAliases"] = [*others, {"ip": NOBODY, "hostnames": list(API_NAMES)}]

        stage.rewrites.append(rewrite)
        return [f"to the drill's copy of the Job {API_NAMES[2]} is {NOBODY}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """This executor said that it could not get through; or it waits in silence for an answer that never comes."""
        return log_line(stage, UNREACHED) or self.waits(stage)


class ProxyInTheWay(_OnCopy):
    """Reproduces row 23's neighbour: a proxy is set for everything, and NO_PROXY does not name the API server."""

    name = "proxy-in-the-way"
    simulates = "the executor's environment names a proxy, and nothing says that the API server is not behind it"
    failures = (23,)
    edits = "env"
    shows = Evidence.EXECUTOR

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """An executor that says itself what goes past any proxy is not met by one."""
        spec = dig(cron_job, "spec", "jobTemplate", "spec", "template", "spec", default={})
        passing = [one["name"] for one in containers({"spec": spec}) if _is_past(one)]
        return f"the executor of {layer_name} says itself what goes past a proxy (NO_PROXY)" if passing else None

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Name one, in both spellings, in every container of the drill's pods."""

        def rewrite(template: Obj) -> None:
            for container in containers(template):
                own = [one for one in container.get("env") or () if one.get("name") not in _VARIABLES]
                container["env"] = [*own, *({"name": name, "value": f"http://{NOBODY}:3128"} for name in _VARIABLES)]

        stage.rewrites.append(rewrite)
        return [f"the drill's copy of the Job sends its requests to a proxy at {NOBODY}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """This executor could not get through, named the proxy, or waits in silence for its answer."""
        return log_line(stage, rf"{re.escape(NOBODY)}|{UNREACHED}") or self.waits(stage)


_VARIABLES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY")


def _is_past(container: Obj) -> bool:
    """Whether what a container says of NO_PROXY covers the API server, by name or by address."""
    said = {str(one.get("name")): str(one.get("value") or "") for one in container.get("env") or ()}
    env = {"https_proxy": f"http://{NOBODY}:3128", **said}
    hosts = (API_NAMES[2], "$(KUBERNETES_SERVICE_HOST)", "10.96.0.1")
    return named(env) is not None and any(proxy_for(env, host) is None for host in hosts)


class SidecarNotReady(_OnCopy):
    """Reproduces row 11's neighbour: an injected container that comes first waits for something that never comes.

    A mesh's proxy that gets no configuration, an agent whose Vault is sealed: the program itself is never started.
    """

    name = "sidecar-not-ready"
    simulates = "a container that was injected before the executor never gets ready"
    failures: ClassVar[tuple[int, ...]] = (11,)
    edits = "initContainers"
    #: How the container is called, and for how long it waits: beyond any Job's deadline.
    container: ClassVar[str] = "killcheck-proxy"
    waits_s: ClassVar[float] = 7 * 86400.0
    #: What the Job does with it, in a word.
    told: ClassVar[str] = "waits for"
    shows = Evidence.OTHERS
    #: Why the container did not run, as far as was seen.
    _why: str | None = None

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Put it before the others, with the executor's own image where that can wait: nothing else is pulled then."""

        def rewrite(template: Obj) -> None:
            spec = template["spec"]
            first = spec["containers"][0]
            kept = ("image", "imagePullPolicy", "resources", "securityContext")
            waiting = {key: first[key] for key in kept if key in first}
            if _cannot_wait(str(first.get("image"))):
                waiting |= {"image": _PAUSE, "imagePullPolicy": "IfNotPresent"}
            else:
                waiting |= {"command": ["sleep", f"{self.waits_s:.0f}"]}
            self.place(spec, waiting | {"name": self.container})

        self._why = None
        stage.rewrites.append(rewrite)
        return [f"the drill's copy of the Job {self.told} container {self.container}"]

    def place(self, spec: Obj, container: Obj) -> None:
        """Put the container into a pod spec."""
        spec["initContainers"] = [container, *(spec.get("initContainers") or ())]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """It runs, and the executor's own container waits for it."""
        self._look(stage)
        for pod, status in statuses(stage):
            if status.get("name") == self.container and dig(status, "state", "running"):
                waiting = next(_not_started(pod), None)
                if waiting is not None:
                    return f"{name_of(pod)}: {self.container} runs, and {waiting} has not been started"
        return None

    def missed(self) -> str | None:
        """It did not run, and the container's own state says why."""
        return self._why

    def _look(self, stage: Stage) -> None:
        for _, status in statuses(stage):
            state = dig(status, "state", default={})
            held = state.get("waiting") or state.get("terminated") or {}
            if status.get("name") != self.container or "running" in state or held.get("reason") in _COMING:
                continue
            said = ": ".join(str(held[key]) for key in ("reason", "message") if held.get(key))
            self._why = (
                f"{self.container}, which is to go on for days, does not run from {status.get('image')} ({said}): give "
                f"the executor an image with sleep in it, or let the nodes pull {_PAUSE}"
            )


class SidecarStays(SidecarNotReady):
    """Reproduces rows 8 and 11: an injected container goes on when the program has ended, and so the Job does.

    The GPUs go off, this night. Under Forbid, without a deadline, no later one fires: the drill plays the next firing,
    which only the embedded cluster's clock can bring. Sources: istio/istio#11659, hashicorp/vault-k8s#120.
    """

    name = "sidecar-stays"
    simulates = "a container that was injected beside the executor goes on when its program has ended"
    failures = (8, 11)
    needs = (Capability.CONTROLLERS,)
    lingers = True
    told = "has beside it"
    edits = "containers"
    shows = Evidence.OTHERS

    def place(self, spec: Obj, container: Obj) -> None:
        """Beside the others."""
        spec["containers"] = [*spec["containers"], container]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """It runs, and what it was put beside has ended."""
        self._look(stage)
        found: dict[str, dict[str, Obj]] = {}
        for pod, status in statuses(stage):
            found.setdefault(name_of(pod), {})[str(status.get("name"))] = dig(status, "state", default={})
        for pod_name, states in found.items():
            ended = [one for one, state in states.items() if "terminated" in state]
            if ended and "running" in states.get(self.container, {}):
                return f"{pod_name}: {ended[-1]} has ended, and {self.container} runs on"
        return None


def _cannot_wait(image: str) -> bool:
    """Whether an image is known to have no ``sleep``: kubectl alone, or one program and nothing else."""
    try:
        contents = contents_of(parse(image))
    except InvalidReference:
        return False
    return contents.known and contents.find("sleep") is None


def _not_started(pod: Obj) -> Iterator[str]:
    for status in dig(pod, "status", "containerStatuses", default=[]):
        if dig(status, "state", "waiting", "reason") == "PodInitializing":
            yield str(status.get("name"))
