"""What no model knows and a verdict takes for granted is said, of the object that it is about, and of no other."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from killcheck.capabilities.inventory import Inventory
from killcheck.kube.objects import copy
from killcheck.ledger.keeping import keep
from killcheck.run.session import Session

SAID = ("taken to", "by quota alone", "a part of it", "paid for also")
MESH = {"istio.io/dataplane-mode": "ambient"}
VAULT = {
    "apiVersion": "secrets.hashicorp.com/v1beta1",
    "kind": "VaultStaticSecret",
    "metadata": {"name": "off", "namespace": "inference"},
    "spec": {"destination": {"name": "switch-login"}},
}
EXTERNAL = {
    "apiVersion": "external-secrets.io/v1",
    "kind": "ExternalSecret",
    "metadata": {"name": "switch-login", "namespace": "inference"},
    "spec": {},
}


def said(fixture: str, change: Any) -> list[str]:
    session = Session(fixture=fixture)
    objects = [copy(obj) for obj in session.objects]
    (cron,) = [obj for obj in objects if obj["kind"] == "CronJob"][:1]
    change(objects, cron["spec"]["jobTemplate"]["spec"]["template"])
    kept = keep(Inventory(objects), session.kill_path, session.kill_path.layers[0], today=date(2026, 1, 1))
    return [str(entry) for entry in kept.telling if any(words in str(entry) for words in SAID)]


def meshed(objects: Any, template: Any) -> None:
    next(obj for obj in objects if obj["kind"] == "Namespace")["metadata"]["labels"] |= MESH


def meshed_but_for_it(objects: Any, template: Any) -> None:
    meshed(objects, template)
    template["metadata"]["labels"] |= {"istio.io/dataplane-mode": "none"}


def reads(keeper: Any, secret: str) -> Any:
    def change(objects: Any, template: Any) -> None:
        objects.append(keeper)
        template["spec"]["volumes"] = [{"name": "login", "projected": {"sources": [{"secret": {"name": secret}}]}}]

    return change


def fair(objects: Any, template: Any) -> None:
    next(obj for obj in objects if obj["kind"] == "ClusterQueue")["spec"]["fairSharing"] = {"weight": "2"}


def waits(objects: Any, template: Any) -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nwaitForPodsReady:\n  timeout: 5m\n"
    meta = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    data = {"controller_manager_config.yaml": text}
    objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})


def lends(objects: Any, template: Any) -> None:
    spec = next(obj for obj in objects if obj["kind"] == "ClusterQueue")["spec"]
    spec["preemption"] = {"borrowWithinCohort": {"policy": "Never"}}


def in_part(objects: Any, template: Any) -> None:
    for obj in objects:
        if obj["kind"] in ("Job", "Deployment"):
            obj["metadata"].setdefault("annotations", {})["kueue.x-k8s.io/job-min-parallelism"] = "2"


def account(mark: str) -> Any:
    def change(objects: Any, template: Any) -> None:
        name = template["spec"]["serviceAccountName"]
        own = next(obj for obj in objects if obj["kind"] == "ServiceAccount" and obj["metadata"]["name"] == name)
        own["metadata"]["annotations"] = {mark: "who"}

    return change


def associated(objects: Any, template: Any) -> None:
    spec = {"namespace": "inference", "serviceAccount": template["spec"]["serviceAccountName"]}
    kind = {"apiVersion": "eks.services.k8s.aws/v1alpha1", "kind": "PodIdentityAssociation"}
    objects.append({**kind, "metadata": {"name": "switch", "namespace": "ack"}, "spec": spec})


def asks_for(audience: str) -> Any:
    def change(objects: Any, template: Any) -> None:
        token = {"serviceAccountToken": {"path": "token", "audience": audience}}
        template["spec"].setdefault("volumes", []).append({"name": "t", "projected": {"sources": [token]}})

    return change


def reserves(*values: str, operator: str = "In") -> Any:
    def change(objects: Any, template: Any) -> None:
        key = "karpenter.sh/capacity-type"
        for obj in objects:
            if obj["kind"] == "EC2NodeClass":
                obj["spec"]["capacityReservationSelectorTerms"] = [{"id": "cr-0123456789abcdef0"}]
            if obj["kind"] == "NodePool":
                spec = obj["spec"]["template"]["spec"]
                spec["requirements"] = [one for one in spec["requirements"] if one["key"] != key]
                if values:
                    spec["requirements"].append({"key": key, "operator": operator, "values": list(values)})

    return change


@pytest.mark.parametrize(
    ("fixture", "change", "words"),
    [
        ("dead-man", meshed, ["CronJob/inference/gpu-nightly-off: its packets go through a mesh"]),
        ("dead-man", meshed_but_for_it, []),
        ("dead-man", reads(VAULT, "switch-login"), ["VaultStaticSecret/inference/off: it renews Secret"]),
        ("dead-man", reads(EXTERNAL, "switch-login"), ["ExternalSecret/inference/switch-login: it renews Secret"]),
        ("dead-man", reads(VAULT, "another"), []),
        ("kueue-quota", fair, ["ClusterQueue/"]),
        ("kueue-quota", waits, ["ConfigMap/kueue-system/kueue-manager-config: "]),
        ("kueue-quota", lends, []),
        ("kueue-quota", in_part, ["a part of it"]),
        ("dead-man", in_part, []),
        ("dead-man", account("iam.gke.io/gcp-service-account"), ["by GKE's workload identity: taken to go on"]),
        ("dead-man", account("azure.workload.identity/client-id"), ["by Azure's workload identity"]),
        ("dead-man", account("example.com/who"), []),
        ("dead-man", associated, ["by PodIdentityAssociation/ack/switch"]),
        ("dead-man", asks_for("https://kubernetes.default.svc.cluster.local"), ["its token is for audience https://"]),
        ("dead-man", asks_for("vault"), []),
        ("dead-man", reserves("reserved", "on-demand"), ["NodePool/gpu: its machines may come out of a capacity"]),
        ("dead-man", reserves(), ["NodePool/gpu: its machines may come out of a capacity"]),
        ("dead-man", reserves("on-demand", operator="NotIn"), ["NodePool/gpu"]),
        ("dead-man", reserves("on-demand", "spot"), []),
        ("dead-man", reserves("reserved", operator="NotIn"), []),
    ],
)
def test_it_is_said_of_what_it_is_about(fixture: str, change: Any, words: list[str]) -> None:
    found = said(fixture, change)
    assert len(found) == len(words), found
    assert all(word in one for word, one in zip(words, found, strict=True)), found
