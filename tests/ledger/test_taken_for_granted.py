"""What no model knows and a verdict takes for granted is said, of the object that it is about, and of no other."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from killcheck.capabilities.inventory import Inventory
from killcheck.kube.objects import copy
from killcheck.ledger.keeping import keep
from killcheck.run.session import Session

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
    return [str(entry) for entry in kept.telling if "taken to" in str(entry) or "by quota alone" in str(entry)]


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


def lends(objects: Any, template: Any) -> None:
    spec = next(obj for obj in objects if obj["kind"] == "ClusterQueue")["spec"]
    spec["preemption"] = {"borrowWithinCohort": {"policy": "Never"}}


@pytest.mark.parametrize(
    ("fixture", "change", "words"),
    [
        ("dead-man", meshed, ["CronJob/inference/gpu-nightly-off: its packets go through a mesh"]),
        ("dead-man", meshed_but_for_it, []),
        ("dead-man", reads(VAULT, "switch-login"), ["VaultStaticSecret/inference/off: it renews Secret"]),
        ("dead-man", reads(EXTERNAL, "switch-login"), ["ExternalSecret/inference/switch-login: it renews Secret"]),
        ("dead-man", reads(VAULT, "another"), []),
        ("kueue-quota", fair, ["ClusterQueue/"]),
        ("kueue-quota", lends, []),
    ],
)
def test_it_is_said_of_what_it_is_about(fixture: str, change: Any, words: list[str]) -> None:
    found = said(fixture, change)
    assert len(found) == len(words), found
    assert all(word in one for word, one in zip(words, found, strict=True)), found
