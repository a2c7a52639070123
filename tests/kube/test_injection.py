"""What asks an injector for containers, in the words of each, and what refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from killcheck.kube.injection import asked_for

#: By (labels or annotations) of the pod's namespace and of the pod: whether containers are added.
CASES: list[tuple[dict[str, str], dict[str, str], bool]] = [
    ({}, {}, False),
    ({"istio-injection": "enabled"}, {}, True),
    ({"istio-injection": "disabled"}, {}, False),
    ({"istio.io/rev": "1-27"}, {}, True),
    ({"istio-injection": "enabled"}, {"sidecar.istio.io/inject": "false"}, False),
    ({"istio.io/rev": "1-27"}, {"sidecar.istio.io/inject": "False"}, False),
    ({}, {"sidecar.istio.io/inject": "true"}, True),
    ({"linkerd.io/inject": "enabled"}, {}, True),
    ({"linkerd.io/inject": "ingress"}, {"linkerd.io/inject": "disabled"}, False),
    # Another injector's refusal is none of this one's.
    ({"linkerd.io/inject": "enabled"}, {"sidecar.istio.io/inject": "false"}, True),
    ({"kuma.io/sidecar-injection": "enabled"}, {}, True),
    ({}, {"vault.hashicorp.com/agent-inject": "true"}, True),
    ({}, {"vault.hashicorp.com/agent-inject-secret-db": "x"}, False),
    ({}, {"consul.hashicorp.com/connect-inject": "true"}, True),
    ({}, {"dapr.io/enabled": "true"}, True),
    ({}, {"sidecar.opentelemetry.io/inject": "collector"}, True),
    # How it is set up, where nobody asks for it.
    ({}, {"sidecar.istio.io/proxyCPU": "10m", "dapr.io/app-id": "x"}, False),
    ({"pod-security.kubernetes.io/enforce": "restricted"}, {"app": "injector-tests"}, False),
]


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize(("namespace", "pod", "added"), CASES)
def test_who_asks_gets_containers(where: str, namespace: dict[str, str], pod: dict[str, str], added: bool) -> None:
    metadata: dict[str, Any] = {where: pod}
    found = asked_for(metadata, {"kind": "Namespace", "metadata": {where: namespace}})
    assert (found is not None) == added, found
    assert found is None or found.partition("=")[0] in {**namespace, **pod}


def test_what_says_nothing_asks_for_nothing() -> None:
    assert asked_for({}, {}) is None
    assert asked_for({"labels": None, "annotations": None}, {"metadata": None}) is None
