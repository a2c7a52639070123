"""A fleet as one Kubernetes Indexed Job: an index a shard, with rights of its own and nothing that anybody else has.

Source: kubernetes.io, Jobs: backoff limit per index, pod failure policy, pod replacement policy.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from killcheck.fleet.file import Fleet, Shard
from killcheck.kube.manifest_folders import Folders
from killcheck.kube.objects import Obj
from killcheck.kube.passed_over import Cause
from killcheck.text import lazy_re
from killcheck.text.files import bytes_of

__all__ = ["MOUNTED", "JobError", "manifests", "text"]

#: Where a pod finds the fleet's files, its kubeconfigs and its folder; and what it writes results to.
MOUNTED, SECRETS, WORK = "/etc/killcheck-fleet", "/etc/killcheck-kubeconfigs", "/var/lib/killcheck"
#: Bytes of a ConfigMap's data that are certain to fit: etcd takes a mebibyte for the whole object.
MOST = 900_000
#: Folders that no drill reads.
_NOT_SENT = frozenset({".git", ".killcheck", ".venv", "node_modules", "__pycache__"})
#: Files that no drill reads, and that hold what is to be kept: keys, Terraform's state, hidden ones. Whoever may read
#: ConfigMaps would read them.
_KEPT_BACK = lazy_re.compile(
    r"(?i)\.(?!killcheckignore$).*|id_(rsa|dsa|ecdsa|ed25519)(\.pub)?|kubeconfig|credentials"
    r"|.*\.(pem|key|p12|pfx|jks|keystore|kubeconfig|env|gpg|asc|tfstate|tfvars)(\.backup|\.json)?"
)
#: Tries of a shard whose pod was lost, or that could not finish.
TRIES = 3


class JobError(Exception):
    """A fleet cannot be made a Job of; the message says what to do."""


def manifests(fleet: Fleet, *, namespace: str, image: str, claim: str = "") -> list[Obj]:
    """What to apply. ``claim``: the PersistentVolumeClaim that results go to; else they must go to S3.

    Raises JobError, OSError.
    """
    if not fleet.in_bucket and not claim:
        raise JobError(
            f"{fleet.file}: results: {fleet.results} is a folder of this machine: name s3://…, or give --pvc"
        )
    name = f"killcheck-fleet-{fleet.name}"
    labels = {"app.kubernetes.io/name": "killcheck", "app.kubernetes.io/component": "fleet"}

    def made(api: str, kind: str, **more: Any) -> Obj:
        return {
            "apiVersion": api,
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
        } | more

    files = dict(_files(fleet))
    held = {f"file-{number}": bytes_of(file) for number, file in enumerate(files)}
    if sum(map(_held_bytes, held.values())) > MOST:
        largest = max(files, key=lambda file: file.stat().st_size)
        raise JobError(
            f"{fleet.file}: its {len(files)} files are more than fits into a ConfigMap, {largest} the largest: give "
            "each spec a folder of its own, or name under manifests what it needs"
        )
    texts = {key: text for key, one in held.items() if (text := _text(one)) is not None}
    others = {key: base64.b64encode(one).decode() for key, one in held.items() if key not in texts}
    paths = dict(zip(held, files.values(), strict=True))
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    return [
        made("v1", "ServiceAccount", automountServiceAccountToken=False),
        made("rbac.authorization.k8s.io/v1", "Role", rules=_rules(name, fleet.at_once)),
        made(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            roleRef=role,
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        ),
        made("v1", "ConfigMap", data=texts, **({"binaryData": others} if others else {})),
        made("batch/v1", "Job", spec=_job(fleet, labels, _pod(fleet, name, image, claim, paths))),
    ]


def _files(fleet: Fleet) -> Iterator[tuple[Path, str]]:
    """Every file that a pod needs, with its path below the fleet's folder. Raises JobError for one outside of it."""
    root = fleet.file.resolve().parent
    named = [fleet.file.resolve(), *(shard.spec for shard in fleet.shards)]
    named += [shard.spec.with_name(f"{shard.spec.stem}.accepted.yaml") for shard in fleet.shards]
    for folder in dict.fromkeys(one for shard in fleet.shards for one in _read_by(shard)):
        named += _below(folder, fleet) if folder.is_dir() else [folder]
    for file in dict.fromkeys(one for one in named if one.is_file()):
        if not (file.is_relative_to(root) and file.resolve().is_relative_to(root)):
            raise JobError(f"{fleet.file}: {file} lies outside of {root}: pods get what is below the fleet's folder")
        yield file, str(file.relative_to(root))


def _read_by(shard: Shard) -> Sequence[Path]:
    """Where its drill finds manifests: beside its spec, where it has an embedded cluster to make of them."""
    return shard.manifests or (() if shard.real else (shard.spec.parent,))


def _below(folder: Path, fleet: Fleet) -> list[Path]:
    """Every file that a drill may read for that folder: what is no manifest (a timer, a template, Terraform) says what
    else may turn GPUs on, and a drill that does not meet it would prove too much. Raises JobError."""
    walk = Folders()
    found = list(walk.files(folder))
    roots = dict.fromkeys([folder, *(Path(one).parent for one in walk.reached)])  # a base may lie elsewhere
    for here, inside, files in (step for root in roots for step in os.walk(root)):
        inside[:] = sorted(n for n in inside if n not in _NOT_SENT and str(Path(here, n)) != fleet.results)
        found += [Path(here, name) for name in sorted(files) if not _KEPT_BACK.fullmatch(name)]
    above = [one for one in walk.skipped if one.cause is Cause.OUTSIDE and Path(one.file) not in found]
    if above:
        raise JobError(
            f"{fleet.file}: {above[0].file}: {above[0].why}, and no pod would see it: move it below {folder}"
        )
    return found


def _held_bytes(content: bytes) -> int:
    """What a file takes in a ConfigMap."""
    return len(content) if _text(content) is not None else len(content) * 4 // 3


def _text(content: bytes) -> str | None:
    """What a ConfigMap holds as text; None for what is none."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _rules(name: str, slots: int) -> list[Obj]:
    """Its slots: Leases by name, and to make them (a name cannot be asked for where there is none yet)."""
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    names = [f"{name}-{number}" for number in range(slots)]
    return [{**leases, "resourceNames": names, "verbs": ["get", "update", "delete"]}, {**leases, "verbs": ["create"]}]


def _job(fleet: Fleet, labels: dict[str, str], pod: Obj) -> Obj:
    return {
        "completionMode": "Indexed",
        "completions": len(fleet.shards),
        "parallelism": min(fleet.at_once, len(fleet.shards)),
        # A pod that was lost is tried again; what is exposed is not drilled twice, and no other shard waits for it.
        "backoffLimitPerIndex": TRIES - 1,
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailIndex",
                    "onExitCodes": {"containerName": "killcheck", "operator": "In", "values": [1, 2, 3, 5]},
                },
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        # A pod that is ending puts back what it changed: until then its slot is taken.
        "podReplacementPolicy": "Failed",
        "ttlSecondsAfterFinished": 604800,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }


def _pod(fleet: Fleet, name: str, image: str, claim: str, paths: dict[str, str]) -> Obj:
    secrets = sorted({shard.secret for shard in fleet.shards if shard.secret})
    items = [{"key": key, "path": path} for key, path in paths.items()]
    volumes: list[Obj] = [
        {"name": "fleet", "configMap": {"name": name, "items": items}},
        {"name": "work", "persistentVolumeClaim": {"claimName": claim}} if claim else {"name": "work", "emptyDir": {}},
        {"name": "state", "emptyDir": {"sizeLimit": "64Mi"}},
    ]
    mounts: list[Obj] = [
        {"name": "fleet", "mountPath": MOUNTED, "readOnly": True},
        {"name": "work", "mountPath": WORK},
        {"name": "state", "mountPath": "/var/lib/killcheck-state"},
    ]
    for secret in secrets:
        volumes.append({"name": f"kubeconfig-{secret}", "secret": {"secretName": secret}})
        mounts.append({"name": f"kubeconfig-{secret}", "mountPath": f"{SECRETS}/{secret}", "readOnly": True})
    return {
        "serviceAccountName": name,
        "automountServiceAccountToken": True,  # for its slot; the clusters know the kubeconfigs' users
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 300,  # SIGTERM makes it put everything back: that takes as long as it takes
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "fsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(fleet, image, claim, mounts)],
        "volumes": volumes,
    }


def _container(fleet: Fleet, image: str, claim: str, mounts: list[Obj]) -> Obj:
    words = ["fleet", "drill", f"{MOUNTED}/{fleet.file.name}", "--yes", "--index", "$(JOB_COMPLETION_INDEX)"]
    words += ["--work", WORK, "--secrets", SECRETS, "--slots", "in-cluster/$(NAMESPACE)"]
    words += ["--results", WORK] if claim else []
    return {
        "name": "killcheck",
        "image": image,
        "workingDir": WORK,
        "command": ["killcheck", *words],
        "env": [
            {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "TMPDIR", "value": "/var/lib/killcheck-state"},
            {"name": "XDG_STATE_HOME", "value": "/var/lib/killcheck-state"},
            # What seals the records and signs the journals: a pod that comes after a lost one, and whoever reads the
            # results, believe them by it.
            {"name": "KILLCHECK_KEY", "valueFrom": {"secretKeyRef": {"name": "killcheck-key", "key": "key"}}},
        ],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def text(objects: list[Obj]) -> str:
    """For ``kubectl apply -f -``."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2) + "\n"
