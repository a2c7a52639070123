"""Spot notices of Azure and GCP: their own metadata, their own 30 s, and handlers that really ask there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
import urllib3

from killcheck import fixtures
from killcheck.discover import from_objects
from killcheck.embedded.models.cloud import Cloud
from killcheck.kube.objects import copy
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec import specfile
from killcheck.spec.killpath import NodePool
from killcheck.standins.azure_metadata import ScheduledEvents
from killcheck.standins.ec2_metadata import Watched
from killcheck.standins.gce_metadata import Preempted
from killcheck.standins.serving import serve
from killcheck.text.values import replace

NOW = datetime(2026, 11, 21, tzinfo=UTC)
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
PREEMPTED = "/computeMetadata/v1/instance/preempted"
AZURE, GOOGLE = {"Metadata": "true"}, {"Metadata-Flavor": "Google"}


@pytest.fixture
def asked():
    """asked(app): a function that asks it."""
    with urllib3.PoolManager(retries=False) as pool:
        servers = []

        def ask(app):
            server = serve(app)
            servers.append(server)
            url = server.__enter__()
            return lambda path, method="GET", **more: pool.request(method, url + path, **more)

        yield ask
        for server in servers:
            server.__exit__(None, None, None)


# -- Azure -------------------------------------------------------------------------------------------------
def test_a_preempt_is_scheduled_its_time_fixed_and_starts_by_itself(asked):
    clock = [NOW]
    desk = ScheduledEvents(lambda: clock[0], "aks-gpu-1-vmss_3")
    ask = asked(desk)
    assert ask(EVENTS, headers=AZURE).json() == {"DocumentIncarnation": 1, "Events": []}
    desk.interrupt()
    first = ask(EVENTS, headers=AZURE).json()
    (event,) = first["Events"]
    assert event | {"EventId": ""} == {
        "EventId": "",
        "EventStatus": "Scheduled",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": ["aks-gpu-1-vmss_3"],
        "NotBefore": "Sat, 21 Nov 2026 00:00:30 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    clock[0] += timedelta(seconds=29)
    assert ask(EVENTS, headers=AZURE).json() == first
    clock[0] += timedelta(seconds=1)
    later = ask(EVENTS, headers=AZURE).json()
    assert later["DocumentIncarnation"] == first["DocumentIncarnation"] + 1
    assert (later["Events"][0]["EventStatus"], later["Events"][0]["NotBefore"]) == ("Started", "")
    desk.clear()
    assert ask(EVENTS, headers=AZURE).json()["Events"] == []


def test_who_approves_it_ends_the_wait_and_again_is_no_error(asked):
    told = []
    desk = ScheduledEvents(lambda: NOW, approved=lambda: told.append("gone"))
    ask = asked(desk)
    desk.interrupt()
    name = ask(EVENTS, headers=AZURE).json()["Events"][0]["EventId"]

    def start(body):
        return ask(EVENTS, "POST", headers=AZURE, body=body).status

    assert start(json.dumps({"StartRequests": [{"EventId": "C7061BAC-AFDC-4513-B24B-AA5F13A16123"}]})) == 400
    assert start("what?") == start("{}") == 400
    assert told == []
    approval = json.dumps({"StartRequests": [{"EventId": name}]})
    assert (start(approval), start(approval), told) == (200, 200, ["gone"])
    assert ask(EVENTS, headers=AZURE).json()["Events"][0]["EventStatus"] == "Started"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (EVENTS, {}, 400),
        ("/metadata/scheduledevents", AZURE, 400),
        (EVENTS[:-10] + "latest", AZURE, 400),
        (EVENTS, {**AZURE, "X-Forwarded-For": "10.0.0.1"}, 400),
        ("/latest/meta-data/instance-id", AZURE, 400),
        ("/metadata/instance/compute/name?api-version=2021-02-01&format=text", AZURE, 200),
    ],
)
def test_what_azure_asks_of_a_request(asked, path, headers, status):
    assert asked(ScheduledEvents(lambda: NOW))(path, headers=headers).status == status


def test_an_api_version_from_before_spot_machines_knows_no_preempt(asked):
    desk = ScheduledEvents(lambda: NOW)
    desk.interrupt()
    ask = asked(desk)
    assert ask(EVENTS.replace("2020-07-01", "2017-08-01"), headers=AZURE).json()["Events"] == []
    (old,) = ask(EVENTS.replace("2020-07-01", "2017-11-01"), headers=AZURE).json()["Events"]
    assert not {"Description", "EventSource", "DurationInSeconds"} & set(old)


# -- GCP ---------------------------------------------------------------------------------------------------
def test_preempted_turns_true_and_a_request_without_the_flavour_is_refused(asked):
    desk = Preempted(lambda: NOW)
    ask = asked(desk)
    assert ask(PREEMPTED).status == 403
    assert ask(PREEMPTED, headers={**GOOGLE, "X-Forwarded-For": "10.0.0.1"}).status == 403
    assert ask(PREEMPTED, "POST", headers=GOOGLE).status == 405
    assert ask("/computeMetadata/v1/instance/nothing", headers=GOOGLE).status == 404
    before = ask(PREEMPTED, headers=GOOGLE)
    assert (before.data, before.headers["Metadata-Flavor"]) == (b"FALSE", "Google")
    assert desk.interrupt() == NOW + timedelta(seconds=30)
    after = ask(PREEMPTED, headers=GOOGLE)
    assert (after.data, after.headers["ETag"] != before.headers["ETag"]) == (b"TRUE", True)


def test_a_request_waits_for_the_change(asked, tmp_path):
    desk = Preempted(lambda: NOW)
    watched = Watched(desk, tmp_path / "notice")
    desk.look = watched.look
    ask, answers = asked(watched), []
    waits = PREEMPTED + "?wait_for_change=true"
    assert ask(waits + "&timeout_sec=0", headers=GOOGLE).data == b"FALSE"
    assert ask(waits + "&last_etag=another", headers=GOOGLE).data == b"FALSE"
    known = ask(PREEMPTED, headers=GOOGLE).headers["ETag"]
    waiting = Thread(target=lambda: answers.append(ask(f"{waits}&last_etag={known}", headers=GOOGLE).data))
    waiting.start()
    (tmp_path / "notice").touch()
    waiting.join(120)
    assert answers == [b"TRUE"]


# -- drills ------------------------------------------------------------------------------------------------
POOLS = {
    "azure": ("Standard_NC24ads_A100_v4", "kubernetes.azure.com/scalesetpriority", "spot"),
    "gcp": ("a2-highgpu-1g", "cloud.google.com/gke-spot", "true"),
}
#: What both handlers do once they know: cordon the node, evict the worker, and see it gone.
DRAIN = """
import json, os, ssl, sys, time, urllib.error, urllib.request
ACCOUNT, NODE = "/var/run/secrets/kubernetes.io/serviceaccount/", os.environ["NODE_NAME"]
TLS = ssl.create_default_context(cafile=ACCOUNT + "ca.crt")
def api(method, path, body=None, kind="application/json"):
    request = urllib.request.Request("https://kubernetes.default.svc" + path, method=method,
                                     data=json.dumps(body).encode() if body else None)
    request.add_header("Authorization", "Bearer " + open(ACCOUNT + "token").read())
    request.add_header("Content-Type", kind)
    with urllib.request.urlopen(request, context=TLS, timeout=60) as answer:
        return json.load(answer)
def mine():
    return [p for p in api("GET", "/api/v1/namespaces/training/pods")["items"] if p["spec"].get("nodeName") == NODE]
def drain():
    api("PATCH", "/api/v1/nodes/" + NODE, {"spec": {"unschedulable": True}}, "application/merge-patch+json")
    for pod in mine():
        name = pod["metadata"]["name"]
        api("POST", f"/api/v1/namespaces/training/pods/{name}/eviction", {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "training"}})
    while mine():
        time.sleep(1)
def metadata(path, headers, body=None):
    request = urllib.request.Request("http://169.254.169.254" + path, headers=headers, data=body)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return ""
"""
LISTENS = {
    "azure": DRAIN
    + """
PATH, TRUE = "/metadata/scheduledevents?api-version=2020-07-01", {"Metadata": "true"}
ME = metadata("/metadata/instance/compute/name?api-version=2021-02-01&format=text", TRUE)
while True:
    for event in json.loads(metadata(PATH, TRUE) or '{"Events": []}')["Events"]:
        if event["EventType"] == "Preempt" and ME in event["Resources"] and event["EventStatus"] == "Scheduled":
            drain()
            APPROVE
    time.sleep(5)
""",
    "gcp": DRAIN
    + """
while metadata("/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"}) != "TRUE":
    time.sleep(5)
drain()
time.sleep(3600)
""",
}
APPROVE = 'metadata(PATH, TRUE, json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode())'


def handler(code):
    """A DaemonSet of the spot pool, and its rights."""

    def meta(name):
        return {"name": name, "namespace": "kube-system"}

    who = {"kind": "ServiceAccount", **meta("listens")}
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    ]
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta("listens")},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "listens"}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "listens"},
            "subjects": [who],
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "listens"},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": meta("listens"),
            "spec": {
                "selector": {"matchLabels": {"app": "listens"}},
                "template": {
                    "metadata": {"labels": {"app": "listens"}, "annotations": {"killcheck.dev/execute": "true"}},
                    "spec": {
                        "serviceAccountName": "listens",
                        "tolerations": [{"operator": "Exists"}],
                        "nodeSelector": {"pool": "gpu-spot"},
                        "containers": [
                            {
                                "name": "c",
                                "image": "python:3.12-slim",
                                "command": ["python3", "-c", code],
                                "env": [
                                    {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
                                ],
                            }
                        ],
                    },
                },
            },
        },
    ]


def drill(tmp_path, cloud, code, notice_s=30.0):
    """The reference path of training on spot, on a node group of another cloud."""
    kind, label, value = POOLS[cloud]
    path = specfile.load(fixtures.spec("spot-training"))
    layer = replace(path.layers[0], notice_s=notice_s, checkpoint=None)
    session = Session(
        fixture="spot-training",
        _kill_path=replace(
            path,
            layers=(layer,),
            nodes=(NodePool("gpu-spot", selector="pool=gpu-spot"),),
            deadlines=replace(path.deadlines, held_s=60.0),
        ),
        night_s=900.0,
    )
    objects = [copy(o) for o in session.objects if o["kind"] not in ("NodePool", "EC2NodeClass")]
    for obj in objects:
        if obj["kind"] == "Job":
            obj["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "gpu-spot"}
            obj["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 15
            del obj["spec"]["template"]["metadata"]["annotations"]
    groups = [
        {
            "name": "gpu-spot",
            "instanceType": kind,
            "min": 1,
            "capacityType": "spot",
            "labels": {"pool": "gpu-spot", label: value},
        }
    ]
    session._objects = [
        *objects,
        *(handler(code) if code else []),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {"groups": json.dumps(groups)},
            "metadata": {"name": "groups", "namespace": "kube-system", "labels": {"killcheck.dev/node-groups": "true"}},
        },
    ]
    run = Run(session, [PlannedDrill("spot-reclaim", ())], folder=tmp_path).execute()
    return run.drills[0]


def margins(found):
    return {row["phase"]: row.get("margin_s") for row in found.to_json()["phases"]}


def test_azures_preempt_is_heard_the_node_drained_and_the_event_approved_before_its_time(tmp_path, monkeypatch):
    early, approve = [], Cloud.approve

    def approved(self, instance_id):
        early.append((self.instances[instance_id].notice - self.loop.now()).total_seconds())
        approve(self, instance_id)
        assert self.instances[instance_id].ended == self.loop.now()

    monkeypatch.setattr(Cloud, "approve", approved)
    found = drill(tmp_path, "azure", LISTENS["azure"].replace("APPROVE", APPROVE))
    assert str(found.verdict) == "survived", (found.why, found.cause)
    left = margins(found)
    assert left["triggered"] == 30
    assert 30 > left["node_cordoned"] >= left["node_drained"] > 0
    assert left["node_drained"] >= early[0] > 0  # the machine went when it was drained, not when its time was over
    assert "of the 30 that the notice leaves" in found.why


def test_gcps_preemption_is_heard_within_its_thirty_seconds(tmp_path):
    found = drill(tmp_path, "gcp", LISTENS["gcp"])
    assert str(found.verdict) == "survived", (found.why, found.cause)
    assert margins(found)["node_drained"] > 0
    # What the node's own kubelet does meanwhile is said, for nobody saw it.
    assert any("GKE's kubelet begins to end pods itself" in one.because for one in found.ledger.telling)


@pytest.mark.parametrize(("cloud", "deaf"), [("azure", LISTENS["gcp"]), ("gcp", "")])
def test_a_handler_that_asks_another_clouds_metadata_hears_nothing(tmp_path, cloud, deaf):
    found = drill(tmp_path, cloud, deaf)
    assert str(found.verdict) == "exposed", found.why
    assert "nobody acted on the notice" in found.cause
    assert {"azure": "Scheduled Events", "gcp": "instance/preempted"}[cloud] in found.remedy


@pytest.mark.parametrize("notice_s", [None, 120.0])
def test_two_minutes_that_azure_does_not_leave_prove_nothing(tmp_path, notice_s):
    found = drill(tmp_path, "azure", "", notice_s)
    assert str(found.verdict) == "inconclusive"
    assert "Azure, whose machine node aks-gpu-" in found.why
    assert "leaves 30 s: give it notice: 30s" in found.why


@pytest.mark.parametrize(
    ("group", "notice_s"), [("karpenter.k8s.aws", 120.0), ("karpenter.azure.com", 30.0), ("karpenter.k8s.gcp", 30.0)]
)
def test_a_spec_that_is_found_counts_on_what_the_pools_cloud_leaves(group, notice_s):
    objects = [copy(o) for o in Session(fixture="spot-training").objects]
    for obj in objects:
        if obj["kind"] == "NodePool":
            obj["spec"]["template"]["spec"]["nodeClassRef"]["group"] = group
    (layer,) = from_objects(objects).kill_path.layers
    assert layer.notice_s == notice_s
