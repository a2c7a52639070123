"""What a real API server answered, word for word: from this one, or from any that ``--kubeconfig`` leads to."""

import json
import re
from pathlib import Path

import pytest
from compare import unlike
from requests_table import CRDS, GROUPS, POLICY_BINDINGS, POOL_CRD, POOLS

FOLDER = Path(__file__).parent / "answers"
_OWN = frozenset({"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields", "continue"})
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def play(server, name, requests):
    """Ask everything of a group in a fresh namespace; returns [{about, request, status, warning, body}]."""
    space = f"conformance-{name}"
    _await(server, f"/api/v1/namespaces/{space}", 404)  # an earlier run's may still be going
    server.ask(
        "POST",
        "/api/v1/namespaces",
        json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}).encode(),
    )
    _await(server, f"/api/v1/namespaces/{space}/serviceaccounts/default", 200)
    _await(server, f"/api/v1/namespaces/{space}/configmaps/kube-root-ca.crt", 200)
    told = []
    try:
        for about, request, body, content_type in requests:
            method, path = request.replace("{ns}", space).split(" ", 1)
            text = body if body is None or isinstance(body, str) else json.dumps(body)
            status, warning, answer = server.ask(
                method, path, None if text is None else text.replace("{ns}", space).encode(), content_type
            )
            if path == CRDS and status == 201:
                _await(server, POOLS.replace("{ns}", space), 200)
            elif path == POLICY_BINDINGS and status == 201:
                server.settle()  # policies are read anew once a second (policy/generic/policy_source.go)
            told.append(
                {"about": about, "request": request, "status": status, "warning": warning, "body": plain(answer)}
            )
    finally:
        server.ask("DELETE", f"{CRDS}/{POOL_CRD['metadata']['name']}")
        server.ask("DELETE", f"/api/v1/namespaces/{space}")
    return told


def _await(server, path, status):
    """What controllers do in a namespace that comes or goes takes a moment."""
    for _ in range(60):
        if server.ask("GET", path)[0] == status:
            return
        server.settle()
    pytest.fail(f"{path}: no {status} within a minute")


def plain(value, key=""):
    """An answer with what differs from cluster to cluster taken out.

    The name of the scheme in messages is the path where the server was compiled; how encoding/json shows a byte that
    is no UTF-8 depends on its Go version.
    """
    if isinstance(value, dict):
        return {k: plain(v, k) for k, v in value.items() if k not in _OWN}
    if isinstance(value, list):
        return [plain(v, key) for v in value]
    if isinstance(value, str):
        value = re.sub(r'(resourceVersion\\?":\\?")\d+|(?<=record \()\d+(?=\))', r"\1*", value)
        value = re.sub(r"\bkube-api-access-\w{5}\b", "kube-api-access-*", value)
        value = re.sub(r'(?<=in scheme ")[^"]*', "*", value)
        value = re.sub(r"(?<=invalid character ')([\x80-\U0010ffff]|\\x[89a-f][0-9a-f])(?=')", "*", value)
        return _TIME.sub("<time>", _UID.sub("<uid>", value))
    return value


def answers(name):
    return json.loads((FOLDER / f"{name}.json").read_text())["answers"]


@pytest.fixture(scope="module")
def asked(api_server):
    """Every group played once: name -> answers."""
    found = {}

    def of(name):
        if name not in found:
            found[name] = play(api_server, name, GROUPS[name])
        return found[name]

    return of


def _controllers(value):
    """An answer without what controllers may have written by the time of the question.

    A definition of custom resources is accepted by a controller there, a moment later, and at once here.
    """
    if isinstance(value, dict) and value.get("kind") == "CustomResourceDefinition":
        return value | {"status": {}, "metadata": value["metadata"] | {"finalizers": []}}
    if not isinstance(value, dict) or value.get("kind") not in ("Pod", "Deployment"):
        return value
    value = json.loads(json.dumps(value))
    value.get("metadata", {}).get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    if not value.get("metadata", {}).get("annotations", True):
        value["metadata"].pop("annotations")
    for key in ("conditions", "observedGeneration", "terminatingReplicas"):
        value.get("status", {}).pop(key, None)
    return value


CASES = [(name, number) for name, group in GROUPS.items() for number in range(len(group))]


@pytest.mark.parametrize(("name", "number"), CASES, ids=str)
def test_the_answer_is_a_real_servers(name, number, asked):
    want, got = answers(name)[number], asked(name)[number]
    want = want | {"body": plain(want["body"])}
    found = [f"status {got['status']}, not {want['status']}"] * (got["status"] != want["status"])
    found += [f"warning {got['warning']!r}, not {want['warning']!r}"] * (got["warning"] != want["warning"])
    found += unlike(_controllers(got["body"]), _controllers(want["body"]), "")
    assert not found, f"{want['about']}: {want['request']}\n" + "\n".join(found)
