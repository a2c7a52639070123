"""A switch that reads what nobody here could read: refused with a placeholder it proves nothing against itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from killcheck.ledger.unread import stood_in
from killcheck.lint import asking
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session

Obj = dict[str, Any]
NS, API = "asr-batch", "rbac.authorization.k8s.io"
SA = "/var/run/secrets/kubernetes.io/serviceaccount"
URL = f"https://kubernetes.default.svc/apis/apps/v1/namespaces/{NS}/statefulsets/whisper/scale"
SECRET = {"name": "ops", "namespace": NS}
SOPS = {"apiVersion": "v1", "kind": "Secret", "metadata": SECRET, "stringData": {"token": "ENC[AES256_GCM,data:x]"}}


def external(**spec: Any) -> Obj:
    """What External Secrets makes ``ops`` of."""
    return {"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "metadata": SECRET, "spec": spec}


KEYED = external(refreshInterval="6h", data=[{"secretKey": "token", "remoteRef": {"key": "ops"}}])
WHOLE = external(refreshInterval="6h", dataFrom=[{"extract": {"key": "ops"}}])


def path(token: str, *objects: Obj, verb: str = "patch", pod: Obj | None = None, **container: Any) -> list[Obj]:
    """Two replicas, and a switch whose request brings ``token``."""
    gpu = {"name": "w", "image": "registry.example.net/whisper:2", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    meta = {"name": "hush", "namespace": NS}
    script = (
        f'curl -fsS -m 20 --cacert {SA}/ca.crt -H "Authorization: Bearer {token}" '
        f"-H 'Content-Type: application/merge-patch+json' -X PATCH {URL} -d '{{\"spec\":{{\"replicas\":0}}}}'"
    )
    one = {"name": "c", "image": "python:3.12", "command": ["sh", "-ec", script], **container}
    spec = {"serviceAccountName": "hush", "restartPolicy": "Never", "containers": [one], **(pod or {})}
    job = {"backoffLimit": 0, "activeDeadlineSeconds": 240, "template": {"spec": spec}}
    rules = [{"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "verbs": [verb]}]
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "whisper", "namespace": NS},
            "spec": {
                "replicas": 2,
                "serviceName": "whisper",
                "selector": {"matchLabels": {"app": "whisper"}},
                "template": {"metadata": {"labels": {"app": "whisper"}}, "spec": {"containers": [gpu]}},
            },
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{API}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{API}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": API, "kind": "Role", "name": "hush"},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": meta,
            "spec": {"schedule": "15 19 * * *", "timeZone": "America/Lima", "jobTemplate": {"spec": job}},
        },
        *objects,
    ]


ENV = [{"name": "OPS", "valueFrom": {"secretKeyRef": {"name": "ops", "key": "token"}}}]
OWN = f"$(cat {SA}/token)"
STORE: Obj = {"volumes": [{"name": "v", "csi": {"driver": "secrets-store.csi.k8s.io"}}]}
MOUNT = [{"name": "v", "mountPath": "/mnt/v"}]


@pytest.mark.parametrize(
    ("objects", "verdict", "says"),
    [
        (path("$OPS", KEYED, env=ENV), "inconclusive", "Secret/asr-batch/ops, whose content is not known"),
        (path("$OPS", SOPS, env=ENV), "inconclusive", "(encrypted by SOPS)"),
        (path("$OPS", WHOLE, env=ENV), "inconclusive", "needs the key token of Secret asr-batch/ops"),
        (path("$(cat /mnt/v/token)", pod=STORE, volumeMounts=MOUNT), "inconclusive", "read volume v"),
        (path(OWN, KEYED, env=ENV), "survived", ""),
        (path(OWN, KEYED, env=ENV, verb="get"), "exposed", "403"),
    ],
    ids=["fetched", "encrypted", "fetched whole", "a store's volume", "not needed", "refused as itself"],
)
@pytest.mark.one_in(2)
def test_placeholder_that_is_refused_proves_nothing(
    objects: list[Obj], verdict: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(objects))
    session = Session(manifests=[tmp_path / "all.yaml"], exec_mode="host")
    (result,) = Run(session, [PlannedDrill("hush")], folder=tmp_path / "runs").execute().drills
    assert str(result.verdict) == verdict, result.why
    assert says in (result.cause or result.why)


@pytest.mark.parametrize(
    ("ended", "log", "told"),
    [
        ({"exitCode": 1}, "401 Unauthorized", True),
        ({"exitCode": 127}, "sh: curl: not found", False),
        ({"exitCode": 128, "reason": "StartError"}, "", False),
        ({"exitCode": 1}, 'User "system:anonymous" cannot patch: forbidden', True),
        ({"exitCode": 1}, 'User "system:serviceaccount:asr-batch:hush" is forbidden', False),
    ],
)
def test_what_was_read_matters_where_the_program_could_use_it(ended: Obj, log: str, told: bool) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": SECRET}
    secret["metadata"] = {**SECRET, "annotations": {"killcheck.dev/unknown-content": "sealed"}}
    pod = {"metadata": {"name": "p", "namespace": NS}, "spec": {"containers": [{"name": "c", "env": ENV}]}}
    pod["status"] = {"containerStatuses": [{"name": "c", "state": {"terminated": ended}}]}
    assert bool(stood_in([secret], [pod], {("p", "c"): log})) is told


def store(kind: str, **spec: Any) -> Obj:
    """Something that renews ``ops``."""
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "k", "namespace": NS}, "spec": spec}


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (path("$OPS", KEYED, env=ENV), "(OPS), which ExternalSecret/asr-batch/ops renews each 6h"),
        (path("$OPS", store("VaultStaticSecret", destination={"name": "ops"}), env=ENV), "VaultStaticSecret"),
        (path("$OPS", store("VaultStaticSecret", destination={"name": "other"}), env=ENV), ""),
        (path(OWN, KEYED, env=ENV), ""),
        (path("$(cat /mnt/v/token)", pod=STORE, volumeMounts=MOUNT), "volume v comes from a store"),
        (path("$OPS", env=ENV), ""),
    ],
)
def test_lint_sees_the_store_coming(objects: list[Obj], message: str) -> None:
    world, _ = asking.world_of(objects, datetime(2026, 5, 4, tzinfo=UTC))
    found = [one.message for one in asking.lint(world).findings if one.probe == "stored-elsewhere"]
    assert bool(found) is bool(message)
    assert all(message in one for one in found)
