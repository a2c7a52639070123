"""A switch that pulls without a login what others pull with one: no registry was asked here."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from killcheck.capabilities.inventory import Inventory
from killcheck.kube.objects import copy
from killcheck.ledger.keeping import keep
from killcheck.run.session import Session

OWN = "registry.acme.example/ops/kubectl:1.33"
LOGIN = [{"name": "acme"}]


def account(objects: list[Any], logins: Any) -> None:
    next(obj for obj in objects if obj["kind"] == "ServiceAccount")["imagePullSecrets"] = logins


@pytest.mark.parametrize(
    ("switch", "server", "logins", "is_open"),
    [
        (OWN, "registry.acme.example/ml/vllm:1", LOGIN, True),
        (OWN, "registry.acme.example/ml/vllm:1", [], False),  # nobody needs one
        (OWN, "registry.other.example/ml/vllm:1", LOGIN, False),
        ("ghcr.io/acme/kubectl:1", "ghcr.io/acme/vllm:1", LOGIN, True),
        ("ghcr.io/kubectl/kubectl:1", "ghcr.io/acme/vllm:1", LOGIN, False),  # another owner's, and open
        ("acme/kubectl:1", "acme/vllm:1", LOGIN, True),
        ("not an image", "registry.acme.example/ml/vllm:1", LOGIN, False),
    ],
)
@pytest.mark.parametrize("own", ["none", "its pods", "its account"])
def test_registry_was_not_asked_whether_it_lets_a_switch_in(
    switch: str, server: str, logins: list[Any], is_open: bool, own: str
) -> None:
    session = Session(fixture="dead-man")
    objects = [copy(obj) for obj in session.objects]
    cron = next(obj for obj in objects if obj["kind"] == "CronJob")
    target = next(obj for obj in objects if obj["kind"] == "Deployment")
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = switch
    target["spec"]["template"]["spec"] |= {"imagePullSecrets": logins}
    target["spec"]["template"]["spec"]["containers"][0]["image"] = server
    if own == "its pods":
        pod["imagePullSecrets"] = LOGIN
    if own == "its account":
        account(objects, LOGIN)
    kept = keep(Inventory(objects), session.kill_path, session.kill_path.layers[0], today=date(2026, 1, 1))
    said = [str(entry) for entry in kept.open if "without a login" in str(entry)]
    assert bool(said) is (is_open and own == "none"), said


@pytest.mark.parametrize(("home", "is_open"), [("elsewhere", True), ("inference", False)])
def test_a_login_of_another_namespace_lets_nobody_in(home: str, is_open: bool) -> None:
    session = Session(fixture="dead-man")
    objects = [copy(obj) for obj in session.objects]
    cron = next(obj for obj in objects if obj["kind"] == "CronJob")
    cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["imagePullSecrets"] = LOGIN
    objects.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "acme", "namespace": home}})
    kept = keep(Inventory(objects), session.kill_path, session.kill_path.layers[0], today=date(2026, 1, 1))
    assert any("namespace elsewhere and not in inference" in str(entry) for entry in kept.open) is is_open
