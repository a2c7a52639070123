"""What starts a program from elsewhere: template units, a timer that names no service, a crontab beside a CronJob, other
schedulers' objects; and switches that reach only what a target's controller made."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner
from rehearsal.conftest import NOW

from killcheck import discover
from killcheck.cli import main
from killcheck.kube import manifests
from killcheck.lint import asking
from killcheck.machine.rehearsed import rehearse as fire_timers
from killcheck.machine.scheduled import find
from killcheck.rehearsal.stage import rehearse

OFF = "kubectl -n gpu-lab scale deploy/asr deploy/tts --replicas=0"
NODES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}]


def _units(root, files):
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return root


TEMPLATE = {
    "etc/systemd/system/off@.timer": "[Timer]\nOnCalendar=22:30\n[Install]\nWantedBy=timers.target\nDefaultInstance=asr\n",
    "etc/systemd/system/off@.service": "[Service]\nEnvironment=WHO=%p\nExecStart=/usr/local/bin/off %i %n 100%%\n",
    "usr/local/bin/off": '#!/bin/sh\nset -eu\nexec kubectl -n gpu-lab scale "deploy/$1" --replicas=0\n',
}


def test_a_template_unit_is_its_enabled_instances(tmp_path):
    (one,) = find([_units(tmp_path, TEMPLATE)])
    assert (one.name, one.command.argv[1:]) == ("off@asr", ("asr", "off@asr.service", "100%"))
    assert one.command.env["WHO"] == "off"
    wants = tmp_path / "etc/systemd/system/timers.target.wants"
    wants.mkdir()
    for name in ("tts", "asr"):
        (wants / f"off@{name}.timer").symlink_to("../off@.timer")
    assert [one.name for one in find([tmp_path])] == ["off@asr", "off@tts"]


def test_a_template_that_nobody_enables_starts_nothing(tmp_path):
    _units(tmp_path, {**TEMPLATE, "etc/systemd/system/off@.timer": "[Timer]\nOnCalendar=22:30\n"})
    assert find([tmp_path]) == []


def test_a_drill_without_a_spec_takes_the_machines_switch(path, tmp_path):
    path.names = ("asr",)
    objects = [obj for obj in path.does("true").objects() if obj["kind"] != "CronJob"]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(objects))
    _units(tmp_path / "vm", TEMPLATE)
    ended = CliRunner().invoke(main, ["drill", "--manifests", str(tmp_path), "--exec", "host", "--no-color"])
    assert ended.exit_code == 0, ended.output
    assert "off@asr" in ended.output


def _found(path, folder, without="none"):
    objects = [obj for obj in path.objects() if obj["kind"] != without]
    seen = rehearse(objects, NOW) | fire_timers(objects, [folder], NOW)
    world, _ = asking.world_of(objects, NOW, rehearsed=seen)
    return world, {(f.probe, f.object): f for f in asking.lint(world).findings if f.severity == "error"}


def test_a_timer_that_names_no_service_starts_nothing(path, tmp_path):
    path.container = {"image": "busybox:1.36", "command": ["true"]}
    timer = "[Timer]\nOnCalendar=22:30\nUnit=gpu-of.service\n"
    service = f"[Service]\nExecStart=/usr/bin/{OFF}\n"
    _, found = _found(path, _units(tmp_path, {"gpu-off.timer": timer, "gpu-off.service": service}), "CronJob")
    finding = found["machine-timer", "Timer/gpu-off"]
    assert "gpu-of.service, which is not there; did you mean gpu-off.service?" in finding.message
    assert (finding.file, finding.line) == (str(tmp_path / "gpu-off.timer"), 3)


@pytest.mark.parametrize(("hour", "told"), [(1, True), (8, False)])
@pytest.mark.one_in(2)
def test_a_crontab_that_starts_after_the_last_stop_is_a_second_starter(path, tmp_path, hour, told):
    path.does(f"set -e\n{OFF}")
    path.schedule = {"timeZone": "Etc/UTC"}
    line = f"0 {hour} * * *  root kubectl -n gpu-lab scale deploy/asr --replicas=3\n"
    _, found = _found(path, _units(tmp_path, {"etc/cron.d/on": line}))
    assert (("second-starter", "Timer/on-1") in found) is told


def test_pods_of_a_cordoned_node_stay(path):
    path.rules = []
    path.extra = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": "cordons"},
            **more,
        }
        for kind, more in (
            ("ClusterRole", {"rules": NODES}),
            (
                "ClusterRoleBinding",
                {
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cordons"},
                    "subjects": [{"kind": "ServiceAccount", "name": "lights-out", "namespace": "gpu-lab"}],
                },
            ),
        )
    ]
    path.does("set -e\nkubectl get nodes -o name | xargs kubectl cordon")
    world, found = _without_timers(path)
    assert [(layer.name, layer.covers) for layer in world.kill_path.layers] == [("lights-out", ("asr", "tts"))]
    assert "pods stay on a cordoned node" in found["no-effect", "CronJob/gpu-lab/lights-out"].message


def _without_timers(path):
    objects = path.objects()
    world, _ = asking.world_of(objects, NOW, rehearsed=rehearse(objects, NOW))
    return world, {(f.probe, f.object): f for f in asking.lint(world).findings if f.severity == "error"}


def test_a_replica_set_that_its_deployment_puts_back(path):
    path.rules = [
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["replicasets/scale"], "verbs": ["get", "patch"]},
    ]
    path.does("set -e\nkubectl -n gpu-lab get rs -o name | xargs kubectl -n gpu-lab scale --replicas=0")
    world, found = _without_timers(path)
    assert [layer.covers for layer in world.kill_path.layers] == [("asr", "tts")]
    assert "nothing went off" in found["no-effect", "CronJob/gpu-lab/lights-out"].message


def test_a_token_that_is_not_there_is_told_as_the_file(path):
    path.does(
        'curl -sS --cacert /var/run/secrets/kubernetes.io/serviceaccount/ca.crt -H "Authorization: Bearer '
        '$(cat /var/run/secrets/kubernetes.io/serviceaccount/tokens)" -X PATCH '
        "-H 'Content-Type: application/merge-patch+json' -d '{\"spec\":{\"replicas\":0}}' "
        "https://kubernetes.default.svc/apis/apps/v1/namespaces/gpu-lab/deployments/asr/scale"
    )
    _, found = _without_timers(path)
    finding = found["call-refused", "CronJob/gpu-lab/lights-out"]
    assert "serviceaccount/tokens: No such file" in finding.message
    assert "send its token" in finding.remedy


def _workflow(**spec):
    container = {"image": "alpine/k8s:1.31.2", "command": ["kubectl"], "args": OFF.split()[1:]}
    flow = {"entrypoint": "off", "templates": [{"name": "off", "container": container}]}
    meta = {"name": "off", "namespace": "gpu-lab"}
    more = {"schedule": "0 20 * * *", "workflowSpec": flow, **spec}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow", "metadata": meta, "spec": more}


@pytest.mark.parametrize("suspended", [True, False])
def test_a_workflow_on_a_schedule_is_not_nothing(path, suspended):
    path.extra = [_workflow(suspend=suspended)]
    objects = [obj for obj in path.does("true").objects() if obj["kind"] != "CronJob"]
    world, _ = asking.world_of(objects, NOW)
    found = [f for f in asking.lint(world).findings if f.probe in ("coverage-gap", "suspended")]
    told = {(f.probe, f.severity, f.unproven) for f in found}
    assert told == (
        {("coverage-gap", "error", False), ("suspended", "error", False)}
        if suspended
        else {("coverage-gap", "note", True)}
    )


def test_what_reading_cannot_follow_leaves_coverage_unproven(path):
    path.files = {"names": "asr\ntts\n"}
    path.does(
        "set -e\nwhile read -r n; do eval $(printf 'kubectl -n gpu-lab scale deploy/%s --replicas=0' $n); done < /opt/files/names"
    )
    found = discover.from_objects(path.objects(), complete=False)
    world, _ = asking.world_of(path.objects(), NOW, kill_path=found.kill_path)
    assert not [f for f in asking.lint(world).findings if f.probe == "coverage-gap" and not f.unproven]


def test_a_crontab_is_told_where_nothing_is_fired(tmp_path):
    _units(
        tmp_path, {"etc/cron.d/gpus": "15 20 * * * ops /usr/local/bin/off\n", "etc/cron.d/tidy": "1 * * * * root ls\n"}
    )
    (tmp_path / "ns.yaml").write_text("{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n")
    told = [(one.file, one.why) for one in manifests.load([tmp_path]).unseen]
    assert [(file.rpartition("/")[2], "a crontab" in why) for file, why in told] == [("gpus", True)]


def test_builtins_of_bash_are_no_programs(path):
    path.does(f"set -euo pipefail\nshopt -s lastpipe\nmapfile -t a < <(echo asr)\n{OFF}", image="alpine/k8s:1.31.2")
    world, _ = asking.world_of(path.objects(), NOW)
    assert not [f for f in asking.lint(world).findings if f.probe == "command-missing"]
