"""Kill paths composed of parts whose truth is known: what a stranger brings, written by none of our fixtures.

A composition says what it is (``truth``), so that a verdict can be held against it: ``off`` (the layer turns the GPUs
off and they stay off), ``on`` (they bill), ``unknown`` (nobody here could tell).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from killcheck.drill.sequence import Options
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult

Obj = dict[str, Any]

#: What bills after so long bills: nobody waits for the whole night.
WATCHED = Options(horizon_s=2 * 3600.0)

_OURS = "/var/run/secrets/kubernetes.io/serviceaccount"
_CURL = (
    f'curl -fsS --cacert {_OURS}/ca.crt -H "Authorization: Bearer $(cat {_OURS}/token)" '
    "-X PATCH -H 'Content-Type: application/merge-patch+json' -d '{{\"spec\":{{\"replicas\":0}}}}' "
    "https://kubernetes.default.svc/apis/apps/v1/namespaces/{ns}/{kind}s/{name}/scale"
)
#: The executors that are there: how each turns a target off, and whether it does.
STYLES = {
    "patch-scale": ("off", "kubectl -n {ns} scale {kind} {name} --replicas=0"),
    "patch-spec": ("off", 'kubectl -n {ns} patch {kind} {name} --type merge -p \'{{"spec":{{"replicas":0}}}}\''),
    "jq": (
        "off",
        "set -o pipefail; kubectl -n {ns} get {kind} -o json | jq -r '.items[].metadata.name' "
        "| xargs -r kubectl -n {ns} scale {kind} --replicas=0",
    ),
    "jq-that-finds-none": (
        "on",
        'kubectl -n {ns} get {kind} -o json | jq -r \'.items[] | select(.metadata.labels.tier == "gpu") | '
        ".metadata.name' | xargs -r kubectl -n {ns} scale {kind} --replicas=0",
    ),
    "curl": ("off", _CURL),
    "curl-that-is-quiet": ("on", _CURL.replace("-fsS", "-s").replace("/{name}/", "/{name}-old/")),
    "delete": ("off", "kubectl -n {ns} delete {kind} {name} --wait=false"),
    "restart": ("on", "kubectl -n {ns} rollout restart {kind} {name}"),
    "wrong-name": ("on", "kubectl -n {ns} scale {kind} {name}-old --replicas=0 || true"),
    "one-left": ("on", "kubectl -n {ns} scale {kind} {name} --replicas=1"),
    "waits-in-vain": (
        "off",
        "kubectl -n {ns} scale {kind} {name} --replicas=0\n"
        "kubectl -n {ns} wait pod -l app={name} --for=delete --timeout=1s",
    ),
    "by-the-weekday": (
        "on",
        '[ "$(date +%u)" -ge 6 ] && exit 0; kubectl -n {ns} scale {kind} {name} --replicas=0',
    ),
    "by-a-set": ("off", "kubectl -n {ns} scale {kind} -l 'app in ({name},{name}-old)' --replicas=0"),
    "by-another-case": ("on", "kubectl -n {ns} scale {kind} -l app=GPU-{name} --replicas=0"),
    "orphans": ("on", "kubectl -n {ns} delete {kind} {name} --cascade=orphan"),
    "resources-out": ("off", "kubectl -n {ns} set resources {kind} {name} --limits=nvidia.com/gpu=0"),
    "dry-run": ("on", "kubectl -n {ns} scale {kind} {name} --replicas=0 --dry-run=server"),
}


#: When the switch fires and what starts the targets again: (stop, start; "": none does), and what that comes to.
CALENDARS = {
    "each night": ("off", "30 21 * * *", ""),
    "weekdays, both": ("off", "0 20 * * MON-FRI", "0 7 * * MON-FRI"),
    "off at the weekend": ("off", "0 20 * * 5", "0 7 * * 1"),
    "each morning, weekdays' nights": ("on", "0 20 * * 1-5", "0 7 * * *"),
    "weekdays' mornings, one night": ("on", "0 20 * * 5", "0 7 * * 1-5"),
    "an hour later": ("on", "0 20 * * *", "0 21 * * *"),
}


@dataclass(frozen=True)
class Composition:
    """One kill path. ``rivals`` are objects beside it, with what they make of the truth."""

    kind: str = "Deployment"
    replicas: int = 1
    name: str = "llama"
    namespace: str = "serving"
    zone: str = "Etc/UTC"
    style: str = "patch-scale"
    second: bool = False
    rivals: tuple[Obj, ...] = ()
    rivals_truth: str = "off"
    notes: dict[str, str] = field(default_factory=dict)
    packing: str = "plain"
    calendar: str = "each night"

    @property
    def truth(self) -> str:
        """``off``, ``on`` or ``unknown``."""
        own = {STYLES[self.style][0], CALENDARS[self.calendar][0]}
        return "on" if "on" in own else self.rivals_truth

    @property
    def objects(self) -> list[Obj]:
        """Its manifests."""
        names = [self.name, *([f"{self.name}-b"] if self.second else [])]
        made = [obj for name in names for obj in self._target(name)]
        return PACKINGS[self.packing]([*made, *self._executor(names), *self._mornings(names), *self.rivals])

    def _mornings(self, names: list[str]) -> Iterable[Obj]:
        """What starts them again, where the calendar has such a thing: by the switch's own account."""
        when = CALENDARS[self.calendar][2]
        if when:
            lines = (f"kubectl -n {self.namespace} scale {self.kind.lower()} {name} --replicas=1" for name in names)
            yield self._cron("lights-on", when, "\n".join(lines))

    def _target(self, name: str) -> Iterable[Obj]:
        meta = {"name": name, "namespace": self.namespace, "labels": {"app": name}}
        if self.notes:
            meta["annotations"] = dict(self.notes)
        spec: Obj = {
            "replicas": self.replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 10,
                    "containers": [
                        {
                            "name": "server",
                            "image": "registry.example.net/serving/engine:7",
                            "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "8Gi", "cpu": "2"}},
                        }
                    ],
                },
            },
        }
        if self.kind == "StatefulSet":
            spec["serviceName"] = name
        yield {"apiVersion": "apps/v1", "kind": self.kind, "metadata": meta, "spec": spec}

    def _executor(self, names: list[str]) -> Iterable[Obj]:
        line = STYLES[self.style][1]
        script = "\n".join(
            ["set -e", *(line.format(ns=self.namespace, kind=self.kind.lower(), name=name) for name in names)]
        )
        plural = f"{self.kind.lower()}s"
        yield from account(
            "lights-out",
            self.namespace,
            [
                {
                    "apiGroups": ["apps"],
                    "resources": [plural, f"{plural}/scale"],
                    "verbs": ["get", "list", "patch", "update", "delete"],
                },
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
            ],
        )
        yield self._cron("lights-out", CALENDARS[self.calendar][1], script)

    def _cron(self, name: str, when: str, script: str) -> Obj:
        return {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "schedule": when,
                "timeZone": self.zone,
                "concurrencyPolicy": "Forbid",
                "jobTemplate": {
                    "spec": {
                        "activeDeadlineSeconds": 600,
                        "backoffLimit": 2,
                        "template": {
                            "spec": {
                                "serviceAccountName": "lights-out",
                                "restartPolicy": "Never",
                                "containers": [
                                    {
                                        "name": "off",
                                        "image": "alpine/k8s:1.32.0",
                                        "command": ["/bin/sh", "-c"],
                                        "args": [script],
                                    }
                                ],
                            }
                        },
                    }
                },
            },
        }

    @property
    def spec(self) -> Obj:
        """Its killcheck.yaml: no node pool is described, so pods are the proof."""
        names = [self.name, *([f"{self.name}-b"] if self.second else [])]
        return {
            "apiVersion": "killcheck/v1",
            "name": "composed",
            "targets": [
                {"name": name, "kind": self.kind, "namespace": self.namespace, "object": name} for name in names
            ],
            "layers": [
                {
                    "name": "lights-out",
                    "type": "dead-man",
                    "covers": names,
                    "cronJob": {"namespace": self.namespace, "name": "lights-out"},
                }
            ],
            "proof": ["P1", "P4"],
        }

    def drill(self, folder: Path, **more: Any) -> DrillResult:
        """Drill it; ``more`` goes into its spec."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "killcheck.yaml").write_text(yaml.safe_dump(self.spec | more))
        (folder / "all.yaml").write_text(yaml.safe_dump_all(self.objects))
        session = Session(spec=folder / "killcheck.yaml", exec_mode="host")
        return Run(session, [PlannedDrill("lights-out", options=WATCHED)], folder=folder / "runs").execute().drills[0]


def _in_a_list(objects: list[Obj]) -> list[Obj]:
    return [{"apiVersion": "v1", "kind": "List", "items": objects}]


def _by_helm(objects: list[Obj]) -> list[Obj]:
    """As a release leaves its objects: labels, and annotations that say whose they are."""
    for obj in objects:
        meta = obj["metadata"]
        meta["labels"] = {
            **meta.get("labels", {}),
            "app.kubernetes.io/managed-by": "Helm",
            "helm.sh/chart": "engine-1.2.0",
        }
        release = {"meta.helm.sh/release-name": "engine", "meta.helm.sh/release-namespace": "default"}
        meta["annotations"] = {**meta.get("annotations", {}), **release}
    return objects


def _switch(objects: list[Obj]) -> tuple[Obj, Obj]:
    """The pod spec of the switch, and its container."""
    (cron,) = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("CronJob", "lights-out")]
    spec = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec, spec["containers"][0]


def _before(objects: list[Obj]) -> list[Obj]:
    """An init container does it."""
    spec, container = _switch(objects)
    spec["initContainers"] = [container | {"name": "first"}]
    container["args"] = ["echo done"]
    return objects


def _from_a_file(objects: list[Obj]) -> list[Obj]:
    """The script lies in a ConfigMap, as kustomize's generators make them."""
    spec, container = _switch(objects)
    (cron,) = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("CronJob", "lights-out")]
    meta = {"name": "lights-out-7f8k2m", "namespace": cron["metadata"]["namespace"]}
    text = "#!/bin/sh\n" + container.pop("args")[0]
    container |= {"command": ["/bin/sh", "/scripts/off.sh"], "volumeMounts": [{"name": "s", "mountPath": "/scripts"}]}
    spec["volumes"] = [{"name": "s", "configMap": {"name": meta["name"]}}]
    return [*objects, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"off.sh": text}}]


def _by_kustomize(objects: list[Obj]) -> list[Obj]:
    """As ``kustomize build`` leaves them: labels everywhere, in selectors too, the script in a ConfigMap with a hash."""
    more = {"app.kubernetes.io/part-of": "serving", "env": "production"}
    written = _from_a_file(objects)
    for obj in written:
        obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), **more}
        spec = obj.get("spec") or {}
        if "selector" in spec and "template" in spec:
            spec["selector"]["matchLabels"] |= more
            spec["template"]["metadata"]["labels"] |= more
    return written


def _by_argo(objects: list[Obj]) -> list[Obj]:
    """As Argo CD tracks them since 3.0, in an Application that syncs when somebody asks."""
    for obj in objects:
        meta, group = obj["metadata"], obj["apiVersion"].rpartition("/")[0]
        said = f"serving:{group}/{obj['kind']}:{meta.get('namespace', '')}/{meta['name']}"
        meta["annotations"] = {**meta.get("annotations", {}), "argocd.argoproj.io/tracking-id": said}
    spec: Obj = {
        "project": "default",
        "source": {"repoURL": "https://git.example.net/serving.git", "path": "."},
        "destination": {"server": "https://kubernetes.default.svc"},
    }
    meta = {"name": "serving", "namespace": "argocd"}
    return [*objects, {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": meta, "spec": spec}]


#: How the manifests are written down: it says the same of the path.
PACKINGS: dict[str, Callable[[list[Obj]], list[Obj]]] = {
    "plain": lambda objects: objects,
    "list": _in_a_list,
    "helm": _by_helm,
    "init": _before,
    "file": _from_a_file,
    "kustomize": _by_kustomize,
    "argo": _by_argo,
}


def account(name: str, namespace: str, rules: list[Obj], *, cluster: bool = False) -> list[Obj]:
    """A ServiceAccount with a Role of its own, or a ClusterRole."""
    kind = "ClusterRole" if cluster else "Role"
    meta: Obj = {"name": name} if cluster else {"name": name, "namespace": namespace}
    api = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
        {"apiVersion": f"{api}/v1", "kind": kind, "metadata": dict(meta), "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": f"{kind}Binding",
            "metadata": dict(meta),
            "roleRef": {"apiGroup": api, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    ]


def workload(name: str, namespace: str, account_name: str, **container: Any) -> Obj:
    """A Deployment without GPUs."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "serviceAccountName": account_name,
                    "containers": [{"name": "main", "image": "registry.example.net/platform/thing:1"} | container],
                },
            },
        },
    }
