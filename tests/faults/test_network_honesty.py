"""A network plugin that ignores NetworkPolicies shows nothing, and the drill says so; one that enforces them is
believed when a probe pod has met both.
"""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest
from faults_world import World

from killcheck import events, faults
from killcheck.faults.base import FaultError
from killcheck.faults.kubernetes import probe_pod

KINDS = [faults.EgressDenied, faults.DnsDenied, faults.ApiUnreachable]


@pytest.fixture
def world():
    made = World(real=True)
    made.settle()
    yield made
    made.close()


def injected(world):
    return [change for event in world.seen if isinstance(event, events.FaultInjected) for change in event.changes]


def without_egress(change):
    """A drill of the reference path, changed, under egress-denied."""
    world = World(change, real=True)
    try:
        world.settle()
        return world.drill(faults.EgressDenied, horizon_s=1800.0)
    finally:
        world.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.one_in(3)
def test_where_policies_are_ignored_nothing_is_proven(world, kind):
    from safety_world import differences, picture

    world.cluster.embedded.stop_controller("network-plugin")
    before = picture(world.cluster.embedded)
    result = world.drill(kind, horizon_s=1800.0)
    assert str(result.verdict) == "inconclusive"
    assert "does not enforce NetworkPolicies" in result.why
    assert result.phases == ()  # found out before any trigger was pulled
    world.settle()
    assert differences(before, picture(world.cluster.embedded)) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.one_in(3)
def test_where_they_are_enforced_a_probe_has_met_both(world, kind):
    result = world.drill(kind, horizon_s=1800.0)
    assert str(result.verdict) == "exposed", result.why
    assert list(result.bites) == [kind.name]
    told = injected(world)
    assert "without it: killcheck probe: through" in told
    assert "with it: killcheck probe: blocked" in told


@pytest.mark.parametrize(
    ("command", "host"),
    [
        (["kubectl", "scale", "deployment/a", "--replicas=0"], "$KUBERNETES_SERVICE_HOST"),
        (["curl", "https://kubernetes.default.svc/version"], "kubernetes.default.svc"),
    ],
)
def test_a_probe_asks_for_no_name_where_the_executor_asks_for_none(command, host):
    pod = {"containers": [{"name": "c", "command": command}]}
    run = SimpleNamespace(
        layer=SimpleNamespace(name="night"), cron_job={"spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}}
    )
    assert faults.EgressDenied().asked_of(run) == host
    assert faults.ApiUnreachable().asked_of(run) == "$KUBERNETES_SERVICE_HOST"


@pytest.mark.parametrize(
    ("fails", "code", "says"),
    [("no", 0, "through"), ("once", 0, "through"), ("every other time", 0, "through"), ("from then on", 3, "blocked")],
)
def test_one_connection_that_fails_is_no_policy(tmp_path, fails, code, says):
    counted = 'n=$(cat "$0.n" 2>/dev/null); n=$((n + 1)); echo $n >"$0.n"; '
    how = {
        "no": "exit 0",
        "once": "[ $n -ne 2 ]",
        "every other time": "[ $((n % 2)) -eq 0 ]",
        "from then on": "[ $n -lt 3 ]",
    }
    for name, text in (("curl", counted + how[fails]), ("sleep", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = probe_pod.script(
        "api", wanted="blocked", in_a_row=probe_pod.HELD_BACK, found=probe_pod.BLOCKED, otherwise=probe_pod.THROUGH
    )
    done = subprocess.run(
        ["sh", "-c", script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, f"killcheck probe: {says}\n")


def test_an_image_that_can_open_no_connection_tells_nothing():
    def bare(objects):
        for obj in objects:
            if obj["kind"] == "CronJob":
                container = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
                container["image"] = "debian:12-slim"

    result = without_egress(bare)
    assert str(result.verdict) == "inconclusive"
    assert "has nothing that opens a connection" in result.why


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        ("error: You must be logged in to the server (Unauthorized)", 0),
        ("Error from server (Forbidden): unknown (get version)", 0),
        ("Unable to connect to the server: tls: failed to verify certificate: x509: unknown authority", 0),
        ("Unable to connect to the server: dial tcp 10.96.0.1:443: i/o timeout", 3),
        ("error: specifying a root certificates file with the insecure flag is not allowed", 3),
    ],
)
def test_kubectl_gets_through_where_somebody_answers(tmp_path, refusal, code):
    """Whatever the answer is; told by any flag where to go it would forget that it is in a cluster."""
    asked = f'[ "$*" = "get --raw /version" ] && echo "{refusal}" >&2; exit 1'
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{asked}\n")
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    for name in ("kubectl", "sleep"):
        (tmp_path / name).chmod(0o755)
    script = probe_pod.script("api", wanted="through", in_a_row=1, found=probe_pod.THROUGH, otherwise=probe_pod.BLOCKED)
    done = subprocess.run(
        ["/bin/sh", "-c", script], env={"PATH": str(tmp_path), "KUBECONFIG": "own"}, timeout=60, check=False
    )
    assert done.returncode == code


def distroless(command):
    """The reference path, its executor an image that has kubectl and nothing else."""

    def change(objects):
        for obj in objects:
            if obj["kind"] == "CronJob":
                container = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
                container["image"] = "registry.k8s.io/kubectl:v1.36.2"
                container.pop("args", None)
                container["command"] = command

    return change


def test_an_image_without_a_shell_or_kubectl_tells_nothing():
    result = without_egress(distroless(["/off"]))
    assert str(result.verdict) == "inconclusive"
    assert "could not run /bin/sh" in result.why


def test_a_cluster_whose_plugin_is_known_needs_no_probe():
    world = World()
    try:
        world.settle()
        result = world.drill(faults.ApiUnreachable, horizon_s=1800.0)
    finally:
        world.close()
    assert list(result.bites) == ["api-unreachable"]
    assert [change for change in injected(world) if "probe" in change] == []


def test_a_probe_that_is_still_at_it_goes_at_once(monkeypatch):
    """Whatever grace the executor itself is given, and however it takes a signal."""

    def slow(objects):
        for obj in objects:
            if obj["kind"] == "CronJob":
                obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 900

    monkeypatch.setattr(probe_pod, "ANSWERS_WITHIN_S", 1.0)
    monkeypatch.setattr(
        probe_pod, "_SCRIPT", "trap '' TERM\nsleep 600 # {host}{tries}{wanted}{in_a_row}{found}{otherwise}{cannot}\n"
    )
    result = without_egress(slow)
    assert "did not come to an end in time" in result.why
    assert result.problems == ()


def test_kubectl_alone_is_a_probe_too():
    world = World(distroless(["kubectl", "-n", "inference", "scale", "deployment/vllm", "--replicas=0"]), real=True)
    try:
        world.settle()
        result = world.drill(faults.ApiUnreachable, horizon_s=1800.0)
    finally:
        world.close()
    told = injected(world)
    assert "without it: kubectl: an answer" in told, result.why
    assert [change for change in told if change.startswith("with it: kubectl: ") and "timeout" in change]
    assert list(result.bites) == ["api-unreachable"]


@pytest.mark.parametrize("has", ["no shell", "no client"])
def test_an_image_that_has_nothing_is_stood_in_for_by_one_that_is_on_the_node(monkeypatch, has):
    """A policy goes by the labels of a pod, whatever it runs."""
    tried = []

    def run(_stage, _layer, labels, when, _script, image=""):
        tried.append((labels, when, image))
        if not image:
            if has == "no shell":
                raise probe_pod._NoShellError("no /bin/sh")
            return probe_pod.CANNOT, "nothing"
        if "curl" in image:
            raise FaultError("it does not start")
        return probe_pod.BLOCKED, "blocked"

    monkeypatch.setattr(probe_pod, "_run", run)
    names = [
        "<none>:<none>",
        "a.io/app:1",
        "docker.io/curlimages/curl:8",
        "docker.io/library/busybox:1@sha256:0",
        "r.io/busybox:1",
    ]
    nodes = {"n": {"status": {"images": [{"names": names}]}}}
    stage = SimpleNamespace(kill_path=SimpleNamespace(layers=[]), scene=SimpleNamespace(nodes=nodes))
    pod = {"containers": [{"name": "c", "image": "a.io/app:1", "command": ["/bin/off"]}]}
    layer = SimpleNamespace(cron_job={"spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}})
    code, said = probe_pod._probed(stage, layer, {"run": "1"}, "after", script="", host="api")
    assert (code, said) == (probe_pod.BLOCKED, "blocked (by a pod of r.io/busybox:1)")
    assert [labels for labels, _, _ in tried] == [{"run": "1"}] * 3
    assert len({when for _, when, _ in tried}) == 3


def test_an_image_that_nobody_chose_is_handed_nothing_of_the_executors():
    spec = {
        "serviceAccountName": "off",
        "hostPID": True,
        "volumes": [{"name": "key", "secret": {"secretName": "key"}}],
        "containers": [
            {
                "name": "c",
                "image": "a.io/app:1",
                "command": ["/bin/sh"],
                "env": [{"name": "TOKEN", "value": "t"}],
                "envFrom": [{"secretRef": {"name": "key"}}],
                "volumeMounts": [{"name": "key", "mountPath": "/key"}],
                "securityContext": {"privileged": True, "runAsUser": 1},
            }
        ],
    }
    rights = {"runAsUser": 1, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert probe_pod._handed_nothing(spec, "b.io/curl:1") == {
        "serviceAccountName": "off",
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "b.io/curl:1", "command": ["/bin/sh"], "securityContext": rights}],
    }


def test_an_executor_that_works_in_silence_has_met_nothing():
    """It goes past the proxy, turns the GPUs off and then says nothing for long: it looks as one that waits does."""

    def change(objects):
        for obj in objects:
            if obj["kind"] == "CronJob":
                (container,) = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
                quiet = container["args"][0].replace("curl -fsS", "curl --noproxy '*' -o /dev/null -fsS")
                container["args"] = [f"{quiet}\nsleep 800"]

    world = World(change)
    try:
        world.settle()
        result = world.drill(faults.ProxyInTheWay)
    finally:
        world.close()
    assert (str(result.verdict), result.why) == (
        "inconclusive",
        "proxy-in-the-way did not bite: its executor said nothing, and turned the GPUs off all the same",
    )
