"""killcheck lint and init against an API over TLS: how much they ask, that they change nothing, what is not read."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from killcheck.fixtures import path

from killcheck.cli import main
from killcheck.clock import wall_now
from killcheck.embedded.api.http import Request
from killcheck.embedded.cluster import Cluster
from killcheck.kube import manifests
from killcheck.kube import resources as r

CONTEXT = "killcheck-embedded"
PODS = 1100


class Live:
    """The reference kill path on a cluster over TLS; ``seen`` are the requests that came in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = Cluster(start=wall_now(), exec_mode="none", speed=0.0)
        self.cluster.load(
            m.obj for m in manifests.load([path("dead-man")]).manifests if m.obj.get("apiVersion") != "killcheck/v1"
        )
        self.seen: list[Request] = []
        self.cluster.wire.interceptor = self._look
        self.cluster.wire.start()
        self.kubeconfig = folder / "kubeconfig"
        self.cluster.wire.write_kubeconfig(self.kubeconfig)
        self.over = False
        self.thread = threading.Thread(target=self.cluster.loop.run_until, args=(lambda: self.over,))
        self.thread.start()
        self.cluster.loop.advance(300)

    def close(self) -> None:
        with self.cluster.loop.entered():
            self.over = True
        self.thread.join()
        self.cluster.close()

    def _look(self, request: Request) -> None:
        self.seen.append(request)

    def create(self, obj: dict[str, Any]) -> None:
        with self.cluster.loop.entered():
            kube = self.cluster.kube
            kube.create(kube.resource_for(obj["apiVersion"], obj["kind"]), obj)

    def lint(self, *options: str, kubeconfig: Path | None = None) -> dict[str, Any]:
        self.seen.clear()
        arguments = ["lint", "--on", CONTEXT, "--kubeconfig", str(kubeconfig or self.kubeconfig), "--json", *options]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code in (0, 1), result.output
        return json.loads(result.stdout)  # type: ignore[no-any-return]

    def as_account(self, rules: list[dict[str, Any]]) -> Path:
        """A kubeconfig of a ServiceAccount that may do what ``rules`` say."""
        name = "auditor"
        rbac = "rbac.authorization.k8s.io"
        self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}})
        self.create({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
        self.create(
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
            }
        )
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 900}}
        with self.cluster.loop.entered():
            issued = self.cluster.kube.create(r.SERVICEACCOUNTS, request, "default", name=name, subresource="token")
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": issued["status"]["token"]}
        file = self.folder / "auditor"
        file.write_text(yaml.safe_dump(config))
        return file


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    made = Live(tmp_path)
    yield made
    made.close()


def findings(document: dict[str, Any], probe: str) -> list[dict[str, Any]]:
    return [f for f in document["findings"] if f["probe"] == probe]


def test_a_sound_kill_path_is_clean_and_nothing_is_changed(live: Live) -> None:
    document = live.lint()
    assert [f for f in document["findings"] if f["severity"] != "note"] == []
    writes = [q for q in live.seen if q.method != "GET"]
    assert writes
    for request in writes:
        dry = request.path.endswith("/pods") and request.param("dryRun") == "All"
        assert dry or request.path.endswith("accessreviews"), request.path
    assert not [q for q in live.seen if "secrets" in q.path or q.param("watch")]
    with live.cluster.loop.entered():
        assert not [p for p in live.cluster.kube.list(r.PODS).items if "dry-run" in p["metadata"]["name"]]


def test_the_number_of_requests_grows_with_pages_alone(live: Live) -> None:
    live.lint()
    few = Counter((q.method, q.path) for q in live.seen)
    for index in range(PODS):
        live.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"c{index}", "namespace": "default"},
                "data": {"a": "b"},
            }
        )
        live.create(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": f"j{index}", "namespace": "default"},
                "spec": {
                    "suspend": True,
                    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}},
                },
            }
        )
    live.lint()
    many = Counter((q.method, q.path) for q in live.seen)
    pages = -(-PODS // 500)
    assert many - few == {("GET", "/api/v1/configmaps"): pages - 1, ("GET", "/apis/batch/v1/jobs"): pages - 1}


def test_admission_is_asked_with_the_pod_itself(live: Live) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": "inference"},
        "spec": {"hard": {"count/pods": "1"}},
    }
    live.create(quota)
    live.cluster.loop.advance(10)
    (found,) = findings(live.lint(), "pod-refused")
    assert found["severity"] == "error"
    assert "exceeded quota: none" in found["message"]
    (request,) = [q for q in live.seen if q.path.endswith("/pods") and q.method == "POST"]
    assert request.path == "/api/v1/namespaces/inference/pods"


def test_a_dry_run_that_is_not_wanted_is_not_made(live: Live) -> None:
    live.lint("--no-dry-run")
    assert not [q for q in live.seen if q.path.endswith("/pods") and q.method == "POST"]


READ = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
NO_RBAC = [
    {
        "apiGroups": ["", "apps", "batch", "karpenter.sh", "networking.k8s.io", "discovery.k8s.io", "policy"],
        "resources": ["*"],
        "verbs": ["get", "list"],
    },
]


def test_what_may_not_be_read_is_named_and_not_proven(live: Live) -> None:
    document = live.lint(kubeconfig=live.as_account(NO_RBAC))
    missing = findings(document, "rbac-missing")
    assert all(f["unproven"] for f in missing)
    assert any("patch deployments/scale.apps inference/vllm" in f["message"] for f in missing)
    assert any("subjectaccessreviews" in f["message"] for f in missing)
    refused = [f for f in findings(document, "pod-refused") if "dry run" in f["message"]]
    assert refused
    assert all(f["unproven"] for f in refused)
    unread = {f["probe"] for f in document["findings"] if f["unproven"] and "could not be read" in f["message"]}
    assert {"webhook-down", "no-alarm", "hpa-relight", "rbac-excess"} <= unread


def test_an_access_review_answers_where_rbac_may_not_be_read(live: Live) -> None:
    reviews = {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}
    document = live.lint(kubeconfig=live.as_account([*NO_RBAC, reviews]))
    assert not [f for f in findings(document, "rbac-missing") if "may" in f["message"]]
    with live.cluster.loop.entered():
        live.cluster.kube.delete(r.ROLEBINDINGS, "gpu-nightly-off", "inference")
    arguments = live.lint(kubeconfig=live.folder / "auditor")
    (found, *_) = [f for f in findings(arguments, "rbac-missing") if not f["unproven"]]
    assert "may not patch deployments/scale.apps inference/vllm" in found["message"]


def test_init_finds_the_kill_path_over_the_wire(live: Live) -> None:
    spec = live.folder / "killcheck.yaml"
    result = CliRunner().invoke(main, ["init", "--on", CONTEXT, "--kubeconfig", str(live.kubeconfig), "-o", str(spec)])
    assert result.exit_code == 0, result.output
    assert {q.method for q in live.seen} == {"GET"}
    result = CliRunner().invoke(
        main, ["lint", str(spec), "--on", CONTEXT, "--kubeconfig", str(live.kubeconfig), "--json"]
    )
    assert result.exit_code == 0, result.output


def test_copies_are_rehearsed_and_nothing_is_written_there(live: Live, tmp_path: Path) -> None:
    """The cluster's own word: it was only asked, and what was seen of the program was seen elsewhere."""
    found = live.lint("--exec", "host", "--no-dry-run")
    assert _writes(live.seen) == []
    (one,) = found["rehearsed"]
    assert (one["program"], one["exit_code"]) == ("CronJob/inference/gpu-nightly-off", 0)
    assert one["off"] == ["Deployment/inference/vllm"]
    assert one["when_refused"]
    assert live.cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"] > 0

    live.seen.clear()
    spec = tmp_path / "found.yaml"
    arguments = ["init", "--on", CONTEXT, "--kubeconfig", str(live.kubeconfig), "--exec", "host", "-o", str(spec)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert _writes(live.seen) == []
    assert "seen in a rehearsal: fired once, it turned off vllm" in spec.read_text()


def _writes(seen: list[Request]) -> list[str]:
    """What was asked that changes something; reviews do not."""
    return [
        f"{request.method} {request.path}"
        for request in seen
        if request.method != "GET" and not request.path.endswith("reviews")
    ]
