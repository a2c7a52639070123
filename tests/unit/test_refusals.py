"""What became of a call, in the words of the client that made it: recorded, and what only looks like a refusal.

refusals.json was recorded with kubectl 1.20 and 1.32, curl 7.88, Node 20, Python 3.11 (urllib, requests, httpx, the
official client, kr8s) against the embedded API server (401, 403), names and ports of nobody, and a busy server.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from killcheck.diagnosis.meanings import meaning
from killcheck.executor.refusals import (
    FORBIDDEN,
    UNAUTHORIZED,
    UNREACHED,
    RefusalKind,
    invalid,
    last,
    matching,
    refusal,
)
from killcheck.kube.errors import Forbidden

RECORDED = json.loads(Path(__file__).with_name("refusals.json").read_text("utf-8"))
KINDS = {
    "401": RefusalKind.UNAUTHORIZED,
    "403": RefusalKind.FORBIDDEN,
    "unresolved": RefusalKind.UNRESOLVED,
    "refused": RefusalKind.UNREACHED,
    "no answer": RefusalKind.UNREACHED,
    "503": RefusalKind.BUSY,
    "429": RefusalKind.BUSY,
}


@pytest.mark.parametrize(("case", "client"), [(case, client) for case in RECORDED for client in RECORDED[case]])
def test_every_client_is_understood(case, client):
    found = refusal(RECORDED[case][client]["log"])
    assert found is not None
    assert found.kind is KINDS[case], found
    assert not re.match(r"File|at |[IWEF]\d{4}|\{", found.line)


@pytest.mark.parametrize(
    "log",
    [
        "panic: open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory",
        "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
        "kubernetes.config.config_exception.ConfigException: Service token file does not exist.",
        "Error: ENOENT: no such file or directory, open '/var/run/secrets/kubernetes.io/serviceaccount/token'",
        "ValueError: Unable to find valid credentials",
        'Error: Kubernetes cluster unreachable: Get "http://localhost:8080/version": dial tcp [::1]:8080: connection refused',
        "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
        "cat: can't open '/var/run/secrets/kubernetes.io/serviceaccount/token': No such file or directory\n"
        "curl: (22) The requested URL returned error: 401",
    ],
)
def test_a_token_that_is_not_there_goes_before_what_comes_of_it(log):
    assert refusal(log).kind is RefusalKind.NO_TOKEN


@pytest.mark.parametrize(
    ("volumes", "says"),
    [
        ([], "the pod has no ServiceAccount token"),
        ([{"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}], "kubectl passed the pod's own"),
    ],
)
def test_kubectl_that_passes_a_token_over_is_told_apart_from_a_pod_without_one(volumes, says):
    told = refusal("The connection to the server localhost:8080 was refused - did you specify the right host or port?")
    assert meaning(told, [{"spec": {"volumes": volumes}}])[0].startswith(says)


def test_a_403_names_the_rule_that_is_wanting():
    said = 'resourcequotas is forbidden: User "u" cannot list resource "resourcequotas" in API group "" in the namespace "n"'
    assert Forbidden(403, {"message": said}).wanting == '{apiGroups: [""], resources: [resourcequotas], verbs: [list]}'


@pytest.mark.parametrize(
    "log",
    [
        "Error: Kubernetes cluster unreachable: the server has asked for the client to provide credentials",
        "E1122 18:27:03.123456       1 main.go:52] failed to scale llm: Unauthorized",
        "panic: Unauthorized\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:403 +0x1d",
    ],
)
def test_programs_in_go_say_unauthorized_or_ask_for_credentials(log):
    assert refusal(log).kind is RefusalKind.UNAUTHORIZED


@pytest.mark.parametrize(
    "log",
    [
        "+ curl --connect-timeout 5 --retry 3 https://kubernetes.default.svc  # connection refused: try again",
        "100   403  100   403    0     0  12345      0 --:--:-- --:--:-- --:--:-- 12345",
        '  File "/usr/lib/python3.11/urllib/request.py", line 401, in http_open',
        "I1122 18:27:03.401234     503 main.go:403] scaled llm to 0",
        "2026-11-22 18:00:00,401 INFO scaled llm",
        "wrote 403 bytes",
        "(node:401) Warning: Setting the NODE_TLS_REJECT_UNAUTHORIZED environment variable to '0' makes it insecure",
        "error: timed out waiting for the condition on pods/llm-5d9f-x",
        "Error: context deadline exceeded",
        "deployment.apps/llm-403 scaled",
        "timeout: 60s",
    ],
)
def test_what_only_looks_like_a_refusal_is_none(log):
    assert refusal(log) is None
    assert not matching(log, f"{UNAUTHORIZED}|{FORBIDDEN}|{UNREACHED}")


@pytest.mark.parametrize(
    "log",
    [
        'The HorizontalPodAutoscaler "vllm" is invalid: spec.metrics: Forbidden: must specify at least one Object',
        'The HorizontalPodAutoscaler "vllm" is invalid: \n* spec.minReplicas: Invalid value: 0: must be at least 1\n'
        "* spec.metrics: Forbidden: must specify at least one Object or External metric",
        "The deployments \"vllm\" is invalid: : ValidatingAdmissionPolicy 'floor' denied request: keep one",
    ],
)
def test_an_object_that_is_not_taken_is_no_403(log):
    assert refusal(log) is None
    assert invalid(log) in log
    assert invalid(log)


def test_an_object_that_may_not_be_written_is_not_called_invalid():
    log = 'Error from server (Forbidden): deployments.apps "vllm" is forbidden: User "x" cannot patch'
    assert (invalid(log), refusal(log).kind) == (None, RefusalKind.FORBIDDEN)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("Error: unknown shorthand flag: 'A' in -A\nSee 'kubectl scale --help' for usage.\n", "unknown shorthand"),
        ("off.py: error: the following arguments are required: name\n", "arguments are required"),
        ("usage: off.py [-h] name\noff.py: error: unrecognized arguments: -x\n", "unrecognized arguments"),
        ("date: unrecognized option: iso-8601\nTry 'date --help' for more information.", "unrecognized option"),
        ("See 'kubectl scale --help' for usage.", "See 'kubectl"),
        ("\n \n", ""),
    ],
)
def test_how_a_program_is_called_is_not_its_last_word(log, said):
    assert said in last(log)
    assert bool(said) is bool(last(log))
