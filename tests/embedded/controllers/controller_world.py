"""An API server, all controllers, a virtual clock, and a tiny stand-in for kubelets.

The stand-in's delays are those of the recorded kubelet, rounded: a container starts 0.5 s after its pod was bound; a
container that ends shows at once, the pod's phase follows 1.2 s later; a deleted pod ends after its whole grace period.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from killcheck.clock import VirtualLoop
from killcheck.embedded.api import bootstrap
from killcheck.embedded.api.admission.chain import Chain
from killcheck.embedded.api.authn import Authenticator
from killcheck.embedded.api.core import Config
from killcheck.embedded.api.http import User
from killcheck.embedded.api.rbac import Authorizer
from killcheck.embedded.api.server import ApiServer
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.tokens import Issuer
from killcheck.embedded.controllers import start_all
from killcheck.embedded.controllers.runtime import Component, Informers
from killcheck.embedded.transport import InProcessTransport
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.informer import Informer
from killcheck.kube.objects import Obj, dig, format_time, name_of, namespace_of
from killcheck.kube.resources import Resource

START = datetime(2026, 11, 21, 1, 44, 58, tzinfo=UTC)
ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))


class StandInKubelet:
    """Runs every pod that is bound; ``outcomes``: (seconds, exit code) by a pod's label ``app``, or its Job's name."""

    def __init__(self, kube: Kube, loop: VirtualLoop) -> None:
        self.kube = kube
        self.loop = loop
        self.outcomes: dict[str, tuple[float, int]] = {}
        self.stuck: set[str] = set()
        self._started: set[str] = set()
        self._ending: set[str] = set()

    def changed(self, change: str, _old: Obj | None, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        if change == "deleted" or not pod["spec"].get("nodeName"):
            return
        if uid not in self._started:
            self._started.add(uid)
            if self._key(pod) not in self.stuck:
                self.loop.call_later(0.5, self._run, pod)
        if "deletionTimestamp" in pod["metadata"] and uid not in self._ending:
            self._ending.add(uid)
            grace = int(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            self.loop.call_later(grace, self._killed, pod)

    def _key(self, pod: Obj) -> str:
        labels = pod["metadata"].get("labels") or {}
        return str(labels.get("batch.kubernetes.io/job-name") or labels.get("app") or "")

    def _status(self, pod: Obj, phase: str, ready: bool, state: Obj) -> None:
        now = format_time(self.loop.now())
        flag = "True" if ready else "False"
        conditions = [
            {"type": kind, "status": flag, "lastTransitionTime": now} for kind in ("Ready", "ContainersReady")
        ]
        containers = [
            {"name": c["name"], "state": state, "ready": ready, "restartCount": 0, "image": c["image"], "imageID": ""}
            for c in pod["spec"]["containers"]
        ]
        status = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
        status |= {"startTime": format_time(self.loop.now())} if phase == "Running" and ready else {}
        try:
            self.kube.patch(
                r.PODS,
                name_of(pod),
                {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status},
                namespace_of(pod),
                kind="strategic",
                subresource="status",
            )
        except KubeError:
            return

    def _run(self, pod: Obj) -> None:
        if pod["metadata"]["uid"] in self._ending:
            return
        started = format_time(self.loop.now())
        self._status(pod, "Running", True, {"running": {"startedAt": started}})
        outcome = self.outcomes.get(self._key(pod))
        if outcome is not None:
            self.loop.call_later(outcome[0], self._exit, pod, outcome[1], started)

    def _exit(self, pod: Obj, code: int, started: str) -> None:
        if pod["metadata"]["uid"] in self._ending:
            return
        ended = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": started,
            "finishedAt": format_time(self.loop.now()),
        }
        self._status(pod, "Running", False, {"terminated": ended})
        self.loop.call_later(1.2, self._status, pod, "Failed" if code else "Succeeded", False, {"terminated": ended})

    def _killed(self, pod: Obj) -> None:
        fresh = self.kube.find(r.PODS, name_of(pod), namespace_of(pod))
        if fresh is None or fresh["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        if dig(fresh, "status", "phase") not in ("Succeeded", "Failed"):
            now = format_time(self.loop.now())
            self._status(pod, "Failed", False, {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": now}})
        self.loop.call_later(0.5, self._remove, pod)

    def _remove(self, pod: Obj) -> None:
        try:
            self.kube.delete(r.PODS, name_of(pod), namespace_of(pod), grace_s=0, uid=pod["metadata"]["uid"])
        except NotFound:
            return


class LaggingTransport(InProcessTransport):
    """As to a busy API server: what is written is there at once, watches tell of it ``lag_s`` seconds later."""

    def __init__(self, server: ApiServer, loop: VirtualLoop, user: User, lag_s: float) -> None:
        super().__init__(server, loop, user)
        self.lag_s = lag_s

    def watch(self, path: str, query: Any, on_event: Any, on_end: Any) -> Any:
        return super().watch(path, query, lambda event: self.loop.call_later(self.lag_s, on_event, event), on_end)


class World:
    """A control plane. Times are seconds since its start; ``lag_s``: how late the controllers' watches are."""

    def __init__(
        self,
        *,
        start: datetime = START,
        disabled: Collection[str] = (),
        nodes: int = 1,
        kubelet: bool = True,
        lag_s: float = 0.0,
    ) -> None:
        self.loop = VirtualLoop(start)
        self.store = Store()
        rng = random.Random(7)
        issuer = Issuer(self.store, self.loop, rng=rng)
        authorizer = Authorizer(self.store)
        self.server = ApiServer(
            self.store,
            self.loop,
            Config(
                authenticator=Authenticator(issuer, authorizer),
                authorizer=authorizer,
                admission=Chain(self.store, self.loop, authorizer, rng),
                rng=rng,
            ),
        )
        self.kube = Kube(InProcessTransport(self.server, self.loop, ADMIN))
        for obj in bootstrap.objects():
            self.create(obj)
        bootstrap.install_roles(self.server)
        transport = LaggingTransport(self.server, self.loop, ADMIN, lag_s) if lag_s else self.kube.transport
        own = Kube(transport)
        self.informers = Informers(own, self.loop)
        self.controllers: dict[str, Component] = start_all(
            own, self.loop, self.informers, disabled, ca_pem="-----BEGIN CERTIFICATE-----"
        )
        for number in range(nodes):
            self.node(f"node-{number}")
        self.namespace("ns")
        self.run(0)
        self.kubelet = StandInKubelet(self.kube, self.loop)
        if kubelet:
            informer = self.informers.of(r.PODS)
            informer.handlers.append(self.kubelet.changed)
        self.trace: list[tuple[float, str, Obj]] = []

    # -- making things -------------------------------------------------------------------------------------
    def create(self, obj: Obj) -> Obj:
        resource = self.kube.resource_for(obj["apiVersion"], obj["kind"])
        return self.kube.create(resource, obj)

    def node(
        self,
        name: str,
        *,
        taints: list[Obj] | None = None,
        labels: dict[str, str] | None = None,
        heartbeat: bool = True,
        **capacity: str,
    ) -> Obj:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        amounts |= {key.replace("__", "/").replace("_", "."): value for key, value in capacity.items()}
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": self.now, "lastTransitionTime": self.now}
        made = self.kube.create(
            r.NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})},
                "spec": {"taints": taints or []},
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
            },
        )
        if heartbeat:
            self.kube.create(
                r.LEASES,
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "spec": {"holderIdentity": name},
                    "metadata": {
                        "name": name,
                        "namespace": "kube-node-lease",
                        "annotations": {"killcheck.dev/heartbeat": "until-stopped"},
                    },
                },
            )
        not_ready = "node.kubernetes.io/not-ready"
        kept = [taint for taint in dig(made, "spec", "taints", default=[]) if taint["key"] != not_ready]
        return self.kube.replace(r.NODES, made | {"spec": made["spec"] | {"taints": kept}})

    def namespace(self, name: str) -> Obj:
        return self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def deployment(self, name: str = "vllm", replicas: int = 1, **spec: Any) -> Obj:
        return self.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": "ns"},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": name}},
                    "template": template(name),
                    **spec,
                },
            }
        )

    def job(self, name: str = "gpu-off-drill", **spec: Any) -> Obj:
        body = {"template": template("executor", restart="Never")} | spec
        return self.create(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "ns"}, "spec": body}
        )

    def cron_job(self, name: str = "gpu-nightly-off", **spec: Any) -> Obj:
        body: Obj = {
            "schedule": "* * * * *",
            "concurrencyPolicy": "Allow",
            "jobTemplate": {"spec": {"template": template("executor", restart="Never")}},
            **spec,
        }
        return self.create(
            {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name, "namespace": "ns"}, "spec": body}
        )

    # -- looking -------------------------------------------------------------------------------------------
    @property
    def now(self) -> str:
        return format_time(self.loop.now())

    @property
    def t(self) -> float:
        return round(self.loop.monotonic(), 3)

    def run(self, seconds: float) -> None:
        self.loop.run_until(lambda: False, seconds)

    def run_to(self, seconds: float) -> None:
        self.run(seconds - self.loop.monotonic())

    def get(self, resource: Resource, name: str, namespace: str | None = "ns") -> Obj:
        return self.kube.get(resource, name, namespace if resource.namespaced else None)

    def pods(self, **labels: str) -> list[Obj]:
        text = ",".join(f"{key}={value}" for key, value in labels.items())
        return self.kube.list(r.PODS, "ns", labels=text).items

    def events(self, reason: str = "", about: str = "", kind: str = "") -> list[Obj]:
        found = self.kube.list(r.EVENTS, "ns").items
        return [
            event
            for event in found
            if reason in ("", event["reason"])
            and kind in ("", event["involvedObject"]["kind"])
            and about in ("", event["involvedObject"]["name"])
        ]

    def said(self, about: str = "", kind: str = "") -> list[str]:
        """Type, reason and message of every event, in the order in which they were first seen."""
        found = sorted(self.events(about=about, kind=kind), key=lambda e: int(e["metadata"]["resourceVersion"]))
        return [f"{e['type']} {e['reason']}: {e['message']}" for e in found]

    def watch(self, resource: Resource, look: Any = None) -> list[tuple[float, Any]]:
        """(seconds, what ``look`` answers) at every change from now on, repetitions left out."""
        seen: list[tuple[float, Any]] = []

        def changed(change: str, _old: Obj | None, new: Obj) -> None:
            value = (change, name_of(new)) if look is None else look(change, new)
            if value is not None and (not seen or seen[-1][1] != value):
                seen.append((self.t, value))

        Informer(self.kube, self.loop, resource, on_change=changed).start()  # type: ignore[arg-type]
        return seen

    def close(self) -> None:
        for controller in self.controllers.values():
            controller.stop()
        self.informers.stop()


def template(app: str, *, restart: str = "Always", grace: int = 5, **spec: Any) -> Obj:
    """A pod template with one container."""
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{"name": app, "image": "localhost:5000/rec/executor:1"}],
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": grace,
            **spec,
        },
    }


def at(seconds: float) -> datetime:
    """The time of day so many seconds after the start."""
    return START + timedelta(seconds=seconds)
