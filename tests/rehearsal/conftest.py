"""A small kill path with one program, and what a rehearsal of it shows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from killcheck.probes import REHEARSED

from killcheck.lint import asking
from killcheck.rehearsal.stage import rehearse

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
IMAGE = "ghcr.io/example/ops-tools:2.1.0"
SCALE = [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]},
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch", "update"]},
]
#: What answers from what was seen: the rehearsed ones, and those that read where nothing was.
ASKED = {probe.id for probe in REHEARSED} | {
    "false-green",
    "command-missing",
    "second-starter",
    "tight-deadline",
    "coverage-gap",
    "rbac-missing",
    "no-such-object",
    "not-understood",
}


class Path:
    """Two GPU Deployments of three pods each in namespace ``gpu-lab``, and CronJob ``lights-out`` beside them."""

    def __init__(self) -> None:
        self.extra = []
        self.rules = SCALE
        self.container = {}
        self.beside = []
        self.job = {"activeDeadlineSeconds": 900, "backoffLimit": 2}
        self.files = {}
        self.schedule = {}
        self.names = ("asr", "tts")
        self.grace = None
        self.pod = {}
        self.volumes = [{"name": "files", "configMap": {"name": "files", "defaultMode": 0o755}}]

    def does(self, script, *, shell="/bin/bash", image=IMAGE):
        self.container = {"image": image, "command": [shell, "-c", script]}
        return self

    def objects(self):
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-lab"}},
            *[_deployment(name, self.grace) for name in self.names],
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "lights-out", "namespace": "gpu-lab"}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "lights-out", "namespace": "gpu-lab"},
                "rules": self.rules,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "lights-out", "namespace": "gpu-lab"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lights-out"},
                "subjects": [{"kind": "ServiceAccount", "name": "lights-out", "namespace": "gpu-lab"}],
            },
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "files", "namespace": "gpu-lab"},
                "data": self.files,
            },
            self._cron_job(),
            *self.extra,
        ]

    def _cron_job(self):
        mounts = [{"name": "files", "mountPath": "/opt/files"}]
        pod = {
            "serviceAccountName": "lights-out",
            "restartPolicy": "Never",
            "volumes": self.volumes,
            "containers": [{"name": "main", "volumeMounts": mounts, **self.container}, *self.beside],
            **self.pod,
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "lights-out", "namespace": "gpu-lab"},
            "spec": {
                "schedule": "15 23 * * *",
                "timeZone": "America/Montevideo",
                "concurrencyPolicy": "Forbid",
                **self.schedule,
                "jobTemplate": {"spec": {**self.job, "template": {"spec": pod}}},
            },
        }

    def rehearsed(self):
        return rehearse(self.objects(), NOW)["CronJob/gpu-lab/lights-out"]

    def findings(self):
        objects = self.objects()
        world, _ = asking.world_of(objects, NOW, rehearsed=rehearse(objects, NOW))
        return [f for f in asking.lint(world).findings if f.probe in ASKED]


def _deployment(name, grace=None):
    more = {} if grace is None else {"terminationGracePeriodSeconds": grace}
    container = {"name": "server", "image": f"ghcr.io/example/{name}:7", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "gpu-lab"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **more}},
        },
    }


@pytest.fixture
def path():
    return Path()
