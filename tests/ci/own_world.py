"""A cluster that killcheck's own recipes run in: the reference kill path, in wall time, over the wire."""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime
from pathlib import Path

import yaml

from killcheck import fixtures
from killcheck.embedded.cluster import Cluster
from killcheck.kube import manifests
from killcheck.kube import resources as r

CI = Path(__file__).resolve().parents[2] / "ci"
#: Until the GPUs are on; and the cluster's clock, which is not the host's.
SETTLED_S = 400.0
CLOCK = datetime(2026, 1, 15, 3, 30, tzinfo=UTC)
SPEC = yaml.safe_load((CI / "killcheck.yaml").read_text())
#: A drill that is over in seconds of wall time.
QUICK = {**SPEC, "proof": ["P1", "P4"], "deadlines": {"podsGone": "180s", "held": "3s"}}


def recipe(*names):
    """The objects of files of ci/."""
    return [obj for name in names for obj in yaml.safe_load_all((CI / name).read_text()) if obj]


@contextlib.contextmanager
def living(*recipes):
    """The reference kill path, and files of ci/, on an embedded cluster that keeps wall time."""
    cluster = Cluster(start=CLOCK, exec_mode="host", speed=1.0)
    over = threading.Event()
    cluster.load([*manifests.load([fixtures.path("dead-man")]).objects, *recipe(*recipes)])
    cluster.kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {"killcheck.dev/consent": "true"}}})
    cluster.wire.start()
    thread = threading.Thread(target=lambda: cluster.loop.run_until(over.is_set), daemon=True)
    thread.start()
    cluster.loop.advance(SETTLED_S)
    yield cluster
    over.set()
    with cluster.loop.entered():
        pass
    thread.join()
    cluster.close()


def token_of(cluster, account):
    """A token of killcheck's ServiceAccount there, as a kubelet asks for it."""
    with cluster.loop.entered():
        return cluster.kube.call(
            "POST",
            f"/api/v1/namespaces/killcheck/serviceaccounts/{account}/token",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 3600},
            },
        ).body["status"]["token"]


def put_account(cluster, pod, folder):
    """The files of the account's volume, in ``folder``; returns the token."""
    token = token_of(cluster, pod["serviceAccountName"])
    folder.mkdir()
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_text(cluster.pki.ca_pem)
    return token


def nothing_left(cluster):
    """What a drill has left there, by name; the target's replicas."""
    with cluster.loop.entered():
        left = [
            one["metadata"]["name"]
            for resource in (r.JOBS, r.CONFIGMAPS, r.LEASES)
            for one in cluster.kube.list(resource, "inference", labels="killcheck.dev/run").items
        ]
        return left, cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"]
