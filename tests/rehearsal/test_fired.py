"""A program is fired once, alone, and what it did is the record."""

from __future__ import annotations

import contextlib
import copy
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from killcheck import discover
from killcheck.rehearsal.forks import Forks, forking
from killcheck.rehearsal.programs import programs
from killcheck.rehearsal.reach import parted, together, untouched
from killcheck.rehearsal.record import Call, Ending, Firing, Outcome, replicas_in
from killcheck.rehearsal.stage import Stage, rehearse, rehearse_one
from killcheck.spec.killpath import LayerType

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
ALL_OFF = "set -e\nfor d in asr tts; do kubectl -n gpu-lab scale deploy/$d --replicas=0; done\n"


def test_what_it_asked_how_it_ended_and_what_went_off(path):
    """However much else the API server refuses: parts of objects, which a test suite compares."""
    refused = [("apps/v1", "Deployment"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")]
    path.extra = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": f"part-{number}", "namespace": "gpu-lab"}}
        for version, kind in refused
        for number in range(12)
    ]
    seen = path.does(ALL_OFF).rehearsed()
    assert seen.first.exit_code == 0
    assert [change.name for change in seen.first.off] == ["asr", "tts"]
    assert [(call.method, call.name, call.subresource, call.replicas, call.status) for call in seen.first.writes] == [
        ("PATCH", "asr", "scale", 0, 200),
        ("PATCH", "tts", "scale", 0, 200),
    ]
    assert all((c.before, c.after, c.pods_before, c.pods_after) == (3, 0, 3, 0) for c in seen.first.changes)


def test_it_is_fired_again_with_its_writes_refused(path):
    seen = path.does(ALL_OFF).rehearsed()
    assert seen.refused is not None
    assert seen.refused.exit_code == 1
    assert not seen.refused.off
    assert [call.status for call in seen.refused.refused if call.writes] == [403]


def test_what_a_night_leaves_is_there_the_next(path):
    path.rules = [*path.rules, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    seen = path.does(f"set -e\nkubectl -n gpu-lab create configmap lock\n{ALL_OFF}").rehearsed()
    assert seen.first.exit_code == 0
    assert seen.second is not None
    assert seen.second.exit_code == 1
    assert [call.status for call in seen.second.refused] == [409]


@pytest.mark.weekly
def test_a_lock_that_carries_its_day_is_no_lock_of_the_next(path):
    path.rules = [*path.rules, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    seen = path.does(f"set -e\nkubectl -n gpu-lab create configmap lock-$(date +%F)\n{ALL_OFF}").rehearsed()
    assert seen.second is not None
    assert seen.second.exit_code == 0
    assert len(seen.second.off) == 2


def test_other_programs_stand_still_meanwhile(path):
    other = copy.deepcopy(path.does(ALL_OFF).objects()[-1])
    other["metadata"]["name"] = "meddler"
    other["spec"]["schedule"] = "* * * * *"
    path.extra = [other]
    seen = path.does("sleep 180; kubectl -n gpu-lab get deploy asr -o jsonpath={.spec.replicas}").rehearsed()
    assert not seen.first.off
    assert [ending.log for ending in seen.first.endings] == ["3"]


def test_a_program_of_an_image_that_says_nothing_is_unknown(path):
    path.container = {"image": "ghcr.io/example/own-binary:1"}
    seen = path.rehearsed()
    assert seen.first.outcome is Outcome.UNKNOWN
    assert "own-binary" in seen.first.why
    assert path.findings()  # it is read instead, and that is said


def test_nothing_of_it_is_left_on_this_host(path):
    objects = path.does(f"{ALL_OFF}touch /tmp/a-trace-of-lights-out\n").objects()
    before = copy.deepcopy(objects), _children()
    path.objects = lambda: objects
    assert path.rehearsed().first.exit_code == 0
    assert objects == before[0]
    assert not (Path("/tmp/a-trace-of-lights-out")).exists()
    assert _children() <= before[1]


def _children():
    """This process' children, those that wait to be collected left out."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread, or a child, that has just ended
            for pid in (task / "children").read_text().split():
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                found |= {pid} if state != "Z" else set()
    return found


def test_an_image_that_is_gone_hides_nothing_else(path):
    seen = path.does(ALL_OFF, image="docker.io/bitnami/kubectl:1.31.4").rehearsed()
    assert [image for image, why in seen.first.unpulled if "not found" in why] == ["docker.io/bitnami/kubectl:1.31.4"]
    assert len(seen.first.off) == 2
    found = {f.probe: f.message for f in path.findings()}
    assert found == {}  # image-gone says it, of what is read


def test_a_script_beside_the_working_directory_is_started_if_it_may_be(path):
    path.files = {"off.sh": f"#!/bin/bash\n{ALL_OFF}"}
    path.container = {"image": "docker.io/alpine/k8s:1.33.1", "command": ["./off.sh"], "workingDir": "/opt/files"}
    assert path.rehearsed().first.exit_code == 0
    objects = path.objects()
    cron_job = next(o for o in objects if o["kind"] == "CronJob")
    volumes = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["volumes"]
    volumes[0]["configMap"]["defaultMode"] = 0o644
    path.objects = lambda: objects
    (found,) = path.findings()
    assert found.probe == "fails-when-fired"
    assert "./off.sh" in found.message
    assert "permission denied" in found.message


def test_a_monitor_is_watched_until_it_acts(path):
    monitor = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "idle-watch", "namespace": "gpu-lab"},
        "spec": {
            "selector": {"matchLabels": {"app": "idle-watch"}},
            "template": {
                "metadata": {"labels": {"app": "idle-watch"}},
                "spec": {
                    "serviceAccountName": "lights-out",
                    "containers": [
                        {
                            "name": "main",
                            "image": "ghcr.io/example/ops-tools:2.1.0",
                            "command": ["/bin/bash", "-c"],
                            "args": ["while sleep 300; do kubectl -n gpu-lab scale deploy asr --replicas=0; done"],
                        }
                    ],
                },
            },
        },
    }
    objects = [*path.does(ALL_OFF).objects()[:-1], monitor]
    rehearsed = rehearse(objects, NOW)
    first = rehearsed["Deployment/gpu-lab/idle-watch"].first
    assert [change.name for change in first.off] == ["asr"]
    assert 300 <= first.seconds < 400
    (layer,) = discover.from_objects(objects, rehearsed=rehearsed).kill_path.layers
    assert (layer.type, layer.covers, layer.workload.name) == (LayerType.IDLE_MONITOR, ("asr",), "idle-watch")
    monitor["spec"]["template"]["spec"]["serviceAccountName"] = "default"
    assert programs(objects) == []  # it may turn nothing off


def test_what_its_account_cannot_reach_need_not_stand_there(path):
    objects = path.does(ALL_OFF).objects()
    elsewhere = copy.deepcopy(objects[1])
    elsewhere["metadata"] |= {"name": "ocr", "namespace": "other-lab"}
    (program,) = programs(objects)
    within, beyond = parted([*objects, elsewhere], program)
    assert (within, beyond) == (objects, [elsewhere])
    slices = {"kind": "EndpointSlice", "metadata": {"name": "kubernetes", "namespace": "default"}}
    assert parted([*objects, slices], program) == ([*objects, slices], [])  # a policy may allow its addresses
    (change,) = untouched(beyond)
    assert (change.namespace, change.name, change.before, change.happened) == ("other-lab", "ocr", 3, False)


@pytest.mark.weekly
def test_what_shares_a_stage_is_seen_as_on_its_own(path):
    objects = path.does(ALL_OFF).objects()
    objects.insert(0, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other-lab"}})
    for server in objects[2:4]:  # which takes minutes to pull
        server["spec"]["template"]["spec"]["containers"][0]["image"] = "vllm/vllm-openai:v0.8.1"
    (program,) = programs(objects)
    slot = program.next_slot(NOW)
    stage = Stage(objects, None, slot - timedelta(hours=3))
    stage.settle()
    assert stage.reaches(slot)
    shared, own = stage.taken(objects, program), rehearse_one(objects, program, NOW)
    assert [str(call) for call in shared.first.calls] == [str(call) for call in own.first.calls]
    assert (shared.first.changes, shared.refused.exit_code) == (own.first.changes, own.refused.exit_code)


def test_programs_share_a_stage_where_theirs_would_hold_more_in_all(path):
    objects = path.does(ALL_OFF).objects()
    later = copy.deepcopy(objects[-1])
    later["metadata"]["name"] = "later"
    later["spec"]["schedule"] = "45 23 * * *"
    both = programs([*objects, later])
    assert together(objects, both) == [both]
    assert together(objects, both[:1]) == [both[:1]]
    others = [{"kind": "ConfigMap", "metadata": {"name": f"n{i}", "namespace": "other-lab"}} for i in range(200)]
    assert together([*objects, *others], both) == [[both[0]], [both[1]]]
    fleet = {**copy.deepcopy(objects[1]), "metadata": {"name": "fleet", "namespace": "other-lab"}}
    fleet["spec"]["replicas"] = 10  # whose pods would have to start
    assert together([*objects, fleet], both) == [[both[0]], [both[1]]]


def test_what_is_done_in_a_fork_stays_there():
    done = []
    if forking():  # a worker of pytest's has threads
        with Forks(2) as forks:
            for name in ("one", "two", "three"):
                forks.begin(name, lambda name=name: (done.append(name), tuple(done))[1])
            forks.begin("none", lambda: 1 // 0)
            assert forks.answers() == {"one": ("one",), "two": ("two",), "three": ("three",)}
    assert done == []


def test_forks_under_way_are_ended_with_what_began_them(tmp_path):
    if not forking():
        return
    began = tmp_path / "began"

    def work():
        began.write_text(str(os.getpid()))
        time.sleep(60)

    def give_up():
        with Forks(2) as forks:
            forks.begin("slow", work)
            while not began.exists() or not began.read_text():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give_up()
    with pytest.raises(ProcessLookupError):
        os.kill(int(began.read_text()), 0)


# -- the record alone ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "number"),
    [
        ('{"spec":{"replicas":0}}', 0),
        ('{"spec":{"replicas":2}}', 2),
        ('{"spec":{"replica":0}}', None),
        ('[{"op":"replace","path":"/spec/replicas","value":0}]', 0),
        ('{"spec":{"replicas":"0"}}', None),
        ("no json", None),
        ('{"spec":null}', None),
        ("[]", None),
    ],
)
def test_the_number_that_a_body_writes(body, number):
    assert replicas_in(body) == number


def _call(status, verb="get", name="asr", **more):
    method = {"get": "GET", "patch": "PATCH", "create": "POST", "delete": "DELETE"}[verb]
    path = f"/apis/apps/v1/namespaces/gpu-lab/deployments/{name}"
    return Call(0.0, method, path, verb, "apps", "v1", "deployments", "", "gpu-lab", name, status=status, **more)


@pytest.mark.parametrize(
    ("calls", "refused"),
    [
        ([_call(404), _call(200)], []),
        ([_call(500, "patch"), _call(200, "patch")], []),
        ([_call(404), _call(201, "create")], []),
        ([_call(403, "patch")], [403]),
        ([_call(200, "patch"), _call(403, "patch")], [403]),
        ([_call(404, "patch"), _call(200, "patch", name="tts")], [404]),
        ([_call(200, "delete"), _call(404)], []),
        ([_call(200, "delete"), _call(404, "patch")], [404]),
    ],
)
def test_what_is_made_good_is_not_refused(calls, refused):
    assert [call.status for call in Firing(Outcome.ENDED, calls=tuple(calls)).refused] == refused


def test_an_exit_code_is_known_only_of_what_has_ended():
    ended = Ending("main", "i", 0), Ending("helper", "i", None)
    assert Firing(Outcome.ENDLESS, endings=ended).exit_code is None
    assert Firing(Outcome.ENDED, endings=ended[:1]).exit_code == 0
    assert Firing(Outcome.ENDED, endings=(Ending("main", "i", 3), Ending("helper", "i", 0))).exit_code == 3
    beside = Ending("helper", "i", 137, sidecar=True), Ending("main", "i", 0)
    assert Firing(Outcome.ENDED, endings=beside).exit_code == 0
    assert Firing(Outcome.ENDED, endings=beside).failed is None
