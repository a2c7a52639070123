"""Each question that a rehearsal answers: a broken path in which it finds the cause, and a sound one that it leaves."""

from __future__ import annotations

import pytest
from killcheck.probes import REHEARSED
from rehearsal.conftest import NOW

from killcheck.lint import asking
from killcheck.rehearsal.stage import rehearse

TOKEN = "$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)"
CURL = (
    'curl -sS --cacert /var/run/secrets/kubernetes.io/serviceaccount/ca.crt -H "Authorization: Bearer '
    f'{TOKEN}" -X PATCH https://kubernetes.default.svc'
)
OFF = "kubectl -n gpu-lab scale deployment asr tts --replicas=0\n"
GONE = "kubectl -n gpu-lab wait --for=delete pod -l app={} --timeout={}s\n"
SCALES = [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]},
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch", "update"]},
]
PODS = [*SCALES, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
ANYTHING = [{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}]

DISK = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "disk", "namespace": "gpu-lab"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def _keeper():
    """A Deployment whose program lights asr again."""
    looks = "kubectl -n gpu-lab get deploy asr -o 'jsonpath={.spec.replicas}'"
    lights = "kubectl -n gpu-lab scale deploy asr --replicas=3"
    loop = f'while sleep 900; do [ "$({looks})" != 0 ] || {lights}; done'
    container = {"name": "main", "image": "ghcr.io/example/ops-tools:2.1.0", "command": ["/bin/bash", "-c", loop]}
    labels = {"app": "keeper"}
    pod = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "lights-out", "containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "keeper", "namespace": "gpu-lab"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }


BROKEN = {
    "403": (f"set -e\n{OFF}", {"rules": []}, "call-refused", "was answered 403"),
    "404": ("set -e\nkubectl -n gpu-lab scale deploy asrr tts --replicas=0", {}, "call-refused", "did you mean asr?"),
    "415": (
        f"{CURL}/apis/apps/v1/namespaces/gpu-lab/deployments/asr/scale -H 'Content-Type: application/json' "
        '-d \'{"spec":{"replicas":0}}\'',
        {},
        "call-refused",
        "415",
    ),
    "version": (
        f"{CURL}/apis/apps/v1beta2/namespaces/gpu-lab/deployments/asr/scale -H 'Content-Type: "
        'application/merge-patch+json\' -d \'{"spec":{"replicas":0}}\'',
        {"rules": ANYTHING},
        "call-refused",
        "404: the server could not find",
    ),
    "a ReplicaSet": (
        "set -e\nkubectl -n gpu-lab scale rs -l app=asr --replicas=0",
        {"rules": [{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}]},
        "no-effect",
        "which its Deployment sets back",
    ),
    "ended by its kubelet": (
        f"sleep 120\n{OFF}",
        {"container": {"livenessProbe": {"exec": {"command": ["cat", "/tmp/healthy"]}, "periodSeconds": 10}}},
        "fails-when-fired",
        "failed liveness probe",
    ),
    "one is left": ("set -e\nkubectl -n gpu-lab scale deploy asr tts --replicas=1", {}, "no-effect", "leaves 1 of 3"),
    "no such field": (
        'set -e\nkubectl -n gpu-lab patch deploy asr --type=merge -p \'{"spec":{"replica":0}}\'',
        {"rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"]}]},
        "no-effect",
        'unknown field "spec.replica"',
    ),
    "a silent end": (f"set -e\nn=0\n((n++))\n{OFF}", {}, "fails-when-fired", "(line 3: ((n++)))"),
    "a silent end of Python": (
        "python3 /opt/files/off.py",
        {"files": {"off.py": "import sys\n\nif len(sys.argv) < 2:\n    sys.exit(3)\n"}},
        "fails-when-fired",
        "(line 4 of /opt/files/off.py: sys.exit(3))",
    ),
    "a child of another interpreter": (
        "python3 /opt/files/off.py",
        {"files": {"off.py": "import os, sys\n\nwrong = os.system('cd /nowhere')\nsys.exit(wrong >> 8)\n"}},
        "fails-when-fired",
        "(line 4 of /opt/files/off.py: sys.exit(wrong >> 8))",
    ),
    "no such flag": ("set -e\nkubectl -n gpu-lab scale deploy asr --replica=0", {}, "fails-when-fired", "unknown flag"),
    "another exit": (f"set -eu\necho $NOT_SET\n{OFF}", {}, "fails-when-fired", "NOT_SET"),
    "waits": ("until false; do sleep 60; done\n", {}, "never-ends", "nothing had gone off"),
    "waits for a Service": (
        f"until nc -z vault.security.svc 8200; do sleep 120; done\n{OFF}",
        {"image": "docker.io/alpine/k8s:1.33.1"},
        "never-ends",
        "waits without an end before the kill",
    ),
    "dry run": (
        f"set -e\n{OFF.strip()} --dry-run=server",
        {},
        "no-effect",
        "a dry run alone",
    ),
    "hidden by a pipe": ("kubectl -n gpu-lab scale deploy asrr --replicas=0 | cat", {}, "false-green", " | cat)"),
    "beside": (
        f"set -e\n{OFF}",
        {"beside": [{"name": "proxy", "image": "docker.io/library/busybox:1.36.1", "command": ["sleep", "infinity"]}]},
        "never-ends",
        "proxy goes on after main has ended",
    ),
    "lock": (
        f"set -e\nkubectl -n gpu-lab create configmap lock\n{OFF}",
        {"rules": [{"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["*"]}]},
        "second-night",
        "nothing goes off",
    ),
    "lock of a night that failed": (
        f"set -e\nkubectl -n gpu-lab create configmap lock\n{OFF}kubectl -n gpu-lab get pods\n",
        {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}, *ANYTHING]},
        "second-night",
        "nothing goes off: POST",
    ),
    "misspelt beside another": (
        "for d in asrs tts; do kubectl -n gpu-lab scale deploy $d --replicas=0; done",
        {},
        "false-green",
        '"asrs" not found',
    ),
    "outside": (f"set -e\ncurl -fsS https://flags.example.org/night\n{OFF}", {}, "outside-host", "flags.example.org"),
    "swallowed": (f"{OFF}echo done\n", {}, "false-green", "rights to change anything taken away"),
    "caught": (f"{OFF}echo done\n", {"rules": []}, "false-green", "although GET"),
    "no jq": (
        f"set -e\necho '{{}}' | jq .\n{OFF}",
        {"image": "docker.io/library/python:3.12-slim"},
        "command-missing",
        "jq",
    ),
    "graces": (
        f"set -e\nkubectl -n gpu-lab scale deploy asr --replicas=0\n{GONE.format('asr', 900)}"
        f"kubectl -n gpu-lab scale deploy tts --replicas=0\n",
        {"job": {"activeDeadlineSeconds": 120}, "rules": PODS, "grace": 300},
        "tight-deadline",
        "the pods of asr to be gone: with all of their grace (300 s) it takes 30",
    ),
    "misspelt command": ("kubectl scael deploy asr -n gpu-lab\ndate", {}, "no-effect", 'unknown command "scael"'),
    "too long": (f"set -e\nsleep 200\n{OFF}", {"job": {"activeDeadlineSeconds": 150}}, "tight-deadline", "it took 20"),
    "quota": (
        f"set -e\n{OFF}",
        {
            "extra": [
                {
                    "apiVersion": "v1",
                    "kind": "ResourceQuota",
                    "metadata": {"name": "pods", "namespace": "gpu-lab"},
                    "spec": {"hard": {"pods": "6"}},
                }
            ]
        },
        "fails-when-fired",
        "exceeded quota",
    ),
}

#: A kubectl with a client flag takes no cluster of its pod's; lines that end as Windows ends them name no interpreter.
BROKEN |= {
    "kept on": (
        f"set -e\n{OFF}",
        {"extra": [_keeper()]},
        "second-starter",
        "deployments/asr/scale writes 3 once it finds that off: ",
    ),
    "a directory without it": (
        "exec sh ./off.sh",
        {"image": "docker.io/alpine/k8s:1.33.1", "container": {"workingDir": "/opt/ops"}, "files": {"off.sh": OFF}},
        "fails-when-fired",
        "./off.sh: No such file",
    ),
    "nobody says error": (
        "echo 'curfew: self-signed' >&2\ntrue\n",
        {},
        "no-effect",
        'it says "curfew: self-signed"',
    ),
    "writes a line of ours": (
        'kubectl -n gpu-lab patch deploy asr --type=merge -p \'{"metadata":\n{"labels":{"a":"b"}}}\'',
        {"rules": ANYTHING},
        "no-effect",
        'answered 200 with {"metadata": {"labels"',
    ),
    "a type misspelt": (
        "set -e\nkubectl -n gpu-lab scale deploymnet asr --replicas=0",
        {},
        "fails-when-fired",
        'resource type "deploymnet"',
    ),
    "an address outside": (
        f"set -e\ncurl -fsS --max-time 2 http://203.0.113.7:8080/off\n{OFF}",
        {},
        "fails-when-fired",
        "it asks 203.0.113.7, outside the cluster",
    ),
    "orphans": (
        "set -e\nkubectl -n gpu-lab delete deploy asr --cascade=orphan",
        {"rules": ANYTHING},
        "no-effect",
        "deletes Deployment/gpu-lab/asr and leaves its 3 pods",
    ),
    "replaced": (
        f"set -e\nsleep 400\n{OFF}",
        {"schedule": {"schedule": "*/5 22-23 * * *", "concurrencyPolicy": "Replace"}},
        "tight-deadline",
        "the next firing replaces it after 300 s",
    ),
    "no cluster": (
        "set -e\nkubectl -n gpu-lab scale deploy asr tts --replicas=0 --request-timeout=9s",
        {},
        "fails-when-fired",
        "localhost:8080",
    ),
    "a mark on what it turned off": (
        "set -eu\nif kubectl -n gpu-lab get deploy asr -o jsonpath='{.metadata.annotations}' | grep -q off; then "
        f"echo it was off; exit 0; fi\n{OFF}kubectl -n gpu-lab annotate deploy asr off=yes\n",
        {"rules": ANYTHING},
        "second-night",
        'the second night nothing goes off: it says "it was off"',
    ),
    "a Job of yesterday": (
        f"set -e\nkubectl -n gpu-lab create job tidy --image=ghcr.io/example/tidy:1 -- true\n{OFF}",
        {"rules": [*SCALES, {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}]},
        "second-night",
        'jobs.batch "tidy" already exists',
    ),
    "a lock on a disk": (
        f"mkdir /opt/disk/lock || exit 0\n{OFF}",
        {"extra": [DISK], "mounted": True},
        "second-night",
        "mkdir: cannot create directory",
    ),
    "the pod's own deadline": (
        f"set -e\nsleep 200\n{OFF}",
        {"pod": {"activeDeadlineSeconds": 150}},
        "tight-deadline",
        "ends its pod after 150 s",
    ),
    "a group that is no more": (
        f"{CURL}/apis/extensions/v1beta1/namespaces/gpu-lab/deployments/asr/scale -H 'Content-Type: "
        'application/merge-patch+json\' -d \'{"spec":{"replicas":0}}\' -f',
        {},
        "call-refused",
        'in API group "extensions"',
    ),
    "returns": (
        "",
        {"files": {"off.sh": f"#!/bin/bash\r\n{OFF.strip()}\r\n"}, "container": {"command": ["/opt/files/off.sh"]}},
        "fails-when-fired",
        "exec /opt/files/off.sh: no such file or directory",
    ),
    "elsewhere": (
        "set -e\nkubectl -n default scale deploy asr --replicas=0",
        {},
        "call-refused",
        "in namespace gpu-lab",
    ),
    "text for a number": (
        f"{CURL}/apis/apps/v1/namespaces/gpu-lab/deployments/asr/scale -H 'Content-Type: "
        'application/merge-patch+json\' -d \'{"spec":{"replicas":"0"}}\' -f',
        {},
        "call-refused",
        "cannot unmarshal string",
    ),
    "of another architecture": (
        OFF,
        {"container": {"image": "arm64v8/ops:1"}, "pod": {"nodeSelector": {"kubernetes.io/arch": "amd64"}}},
        "fails-when-fired",
        "exec /bin/bash: exec format error",
    ),
    "asks for no pod": (f"set -e\n{OFF}", {"job": {"parallelism": 0}}, "fails-when-fired", "parallelism: 0"),
}

SOUND = {
    "remembered": (
        "rc=0\nfor d in asr tts; do kubectl -n gpu-lab scale deploy $d --replicas=0 || rc=$?; done\nexit $rc\n"
    ),
    "from a file": (
        'set -euo pipefail\nwhile read -r d; do kubectl -n gpu-lab scale deploy "$d" --replicas=0; done '
        "< /opt/files/names\n"
    ),
    "tried again": f"for i in 1 2 3; do {OFF.strip()} && exit 0; sleep 10; done; exit 1\n",
    "looked for first": (f"set -e\nif kubectl -n gpu-lab get deploy retired 2>/dev/null; then exit 9; fi\n{OFF}"),
    "told elsewhere": f"set -e\n{OFF}curl -fsS --max-time 3 https://chat.example.org/hook -d off || true\n",
    "held by nobody": (
        "set -e\nif [ \"$(kubectl -n gpu-lab get cm hold -o jsonpath='{.data.on}' 2>/dev/null)\" = true ]; then "
        f"exit 0; fi\n{OFF}"
    ),
    "waits with a limit": (
        f'set -e\n{OFF}for i in $(seq 30); do [ -z "$(kubectl -n gpu-lab get deploy -o '
        "jsonpath='{.items[?(@.spec.replicas>0)].metadata.name}')\" ] && exit 0; sleep 5; done; exit 1\n"
    ),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.one_in(4)
def test_the_cause_is_found(path, name):
    script, more, probe, words = BROKEN[name]
    path.does(script, image=more.get("image", "ghcr.io/example/ops-tools:2.1.0"))
    path.container |= more.get("container", {})
    for key in {"rules", "beside", "job", "extra", "files", "schedule", "grace", "pod"} & set(more):
        setattr(path, key, more[key])
    if "mounted" in more:
        _on_a_disk(path)
    found = [f for f in path.findings() if f.probe == probe and not f.unproven]
    assert [f for f in found if words in f.message], [f"{f.probe}: {f.message}" for f in path.findings()]


def _on_a_disk(path):
    path.extra = [DISK]
    path.pod = {"volumes": [*path.volumes, {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]}
    mounts = [{"name": "files", "mountPath": "/opt/files"}, {"name": "disk", "mountPath": "/opt/disk"}]
    path.container |= {"volumeMounts": mounts}


def test_a_lock_on_a_disk_that_is_taken_away_keeps_nobody_from_the_next_night(path):
    path.does(f"mkdir /opt/disk/lock || exit 1\ntrap 'rmdir /opt/disk/lock' EXIT\nset -e\n{OFF}")
    _on_a_disk(path)
    second = path.rehearsed().second
    assert (second.exit_code, [change.name for change in second.off]) == (0, ["asr", "tts"])


def test_a_pause_that_holds_is_no_second_night(path):
    """What the switch paused stays off until somebody lets it go: the morning is not played by a number alone."""
    path.names = ("asr",)
    trigger = {"type": "prometheus", "metadata": {"serverAddress": "http://p:9090", "query": "q", "threshold": "1"}}
    scaled = {"scaleTargetRef": {"name": "asr"}, "minReplicaCount": 3, "maxReplicaCount": 4, "triggers": [trigger]}
    meta = {"name": "asr", "namespace": "gpu-lab"}
    path.extra = [{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": meta, "spec": scaled}]
    path.rules = [{"apiGroups": ["keda.sh"], "resources": ["scaledobjects"], "verbs": ["get", "patch"]}]
    path.does("kubectl -n gpu-lab annotate scaledobject asr autoscaling.keda.sh/paused-replicas=0 --overwrite")
    seen = path.rehearsed()
    assert ([change.name for change in seen.first.off], seen.second) == (["asr"], None)


@pytest.mark.parametrize(("more", "found"), [("asr-old", []), ("asr-old -n elsewhere", ["call-refused"])])
def test_one_more_name_that_is_not_there_where_all_is_off(path, more, found):
    """Nothing is on that it could have meant: it is told, and nobody is accused; where something is on, somebody is."""
    names = path.names
    path.names = ("asr-old", *names) if "elsewhere" in more else names
    path.extra = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}}]
    path.does(f"set -e\n{OFF}kubectl scale deploy {more} --replicas=0 -n {'elsewhere' if found else 'gpu-lab'} || :\n")
    said = [f for f in path.findings() if f.severity in ("error", "warning") and f.probe == "call-refused"]
    assert [f.probe for f in said] == found


@pytest.mark.parametrize(
    ("timeout_s", "deadline_s", "grace", "severity"),
    [(900, 900, 300, None), (60, 120, 300, None), (900, 120, 30, None), (900, 120, 300, "warning")],
)
@pytest.mark.one_in(2)
def test_a_wait_after_every_kill_is_only_warned_of(path, timeout_s, deadline_s, grace, severity):
    path.job, path.grace, path.rules = {"activeDeadlineSeconds": deadline_s, "backoffLimit": 2}, grace, PODS
    path.does(f"set -e\n{OFF}{GONE.format('asr', timeout_s)}")
    found = [f.severity for f in path.findings() if f.probe == "tight-deadline"]
    assert found == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("words", "found"),
    [("annotate deploy asr autoscaling.keda.sh/paused-replicas-", []), ("annotate deploy asr paused=yes", ["on"])],
)
@pytest.mark.one_in(2)
def test_what_only_takes_a_pause_away_is_not_asked_for_zeros(path, words, found):
    path.rules = [*SCALES, {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}]
    morning = path.does(f"kubectl -n gpu-lab {words}").objects()[-1]
    morning["metadata"]["name"] = "on"
    path.extra = [morning]
    path.does(f"set -e\n{OFF}")
    assert [f.object.rpartition("/")[2] for f in path.findings() if f.probe == "no-effect"] == found


def test_what_keeps_one_up_is_no_layer(path):
    path.does(
        "have=$(kubectl -n gpu-lab get deploy asr -o jsonpath='{.spec.replicas}')\n"
        'if [ "$have" -lt 1 ]; then kubectl -n gpu-lab scale deploy/asr --replicas=1; fi\n'
    )
    warm = path.objects()[-1]
    warm["metadata"]["name"], warm["spec"]["schedule"] = "keep-warm", "*/10 * * * *"
    path.extra = [warm]
    objects = path.does(f"set -e\n{OFF}").objects()
    world, _ = asking.world_of(objects, NOW, rehearsed=rehearse(objects, NOW))
    assert [layer.name for layer in world.kill_path.layers] == ["lights-out"]


def test_a_type_that_is_not_among_the_manifests_is_no_fault_of_the_program(path):
    script = "set -e\nkubectl -n gpu-lab patch seldondeployment asr --type=merge -p '{}'\n"
    findings = path.does(script).findings()
    assert [(found.probe, found.unproven) for found in findings] == [("fails-when-fired", True)]
    assert findings[0].message.endswith("(a rehearsal serves no seldondeployment)")


MODEL = {"apiVersion": "serving.example.org/v1", "kind": "Model", "metadata": {"name": "asr", "namespace": "gpu-lab"}}


@pytest.mark.parametrize(
    ("kind", "verbs", "found"),
    [
        ("merge-patch+json", ["patch"], []),
        ("strategic-merge-patch+json", ["patch"], [("call-refused", "415")]),
        ("merge-patch+json", ["get"], [("call-refused", "403")]),
    ],
)
def test_custom_resources_are_served_without_their_definitions(path, kind, verbs, found):
    url = "/apis/serving.example.org/v1/namespaces/gpu-lab/models/asr"
    path.extra = [{**MODEL, "spec": {"replicas": 2, "resources": {"limits": {"nvidia.com/gpu": 1}}}}]
    path.rules = [{"apiGroups": ["serving.example.org"], "resources": ["models"], "verbs": verbs}]
    path.does(f"{CURL}{url} -f -H 'Content-Type: application/{kind}' -d '{{\"spec\":{{\"replicas\":0}}}}'\n")
    said = [f for f in path.findings() if f.probe == "call-refused"]
    assert [(f.probe, words in f.message) for f, (_, words) in zip(said, found, strict=True)] == [
        (probe, True) for probe, _ in found
    ]


@pytest.mark.parametrize(
    ("beside", "script", "said"),
    [
        ([{"name": "proxy", "image": "ghcr.io/example/proxy:1"}], OFF, "it could not be rehearsed: "),
        (
            [],
            "aws autoscaling set-desired-capacity --desired-capacity 0",
            "it acts outside Kubernetes: aws autoscaling",
        ),
    ],
)
def test_what_was_not_rehearsed_is_told(path, beside, script, said):
    path.beside = beside
    path.does(f"set -e\n{script}", image="docker.io/amazon/aws-cli:2.17.0" if "aws" in script else "alpine/k8s:1.30.2")
    found = [f for f in path.findings() if f.probe == "not-understood"]
    assert [f for f in found if f.unproven and said in f.message], [f.message for f in found]


def test_a_stage_that_is_full_is_no_fault_of_the_program(path, monkeypatch):
    monkeypatch.setattr("killcheck.rehearsal.ground.MOST_PODS", 6)
    seen = path.does(OFF).rehearsed()
    assert not seen.known
    assert "there are 6, and no more are kept" in seen.why_unknown


def test_what_never_started_is_read_too(path):
    path.does(OFF, shell="sh", image="docker.io/library/python:3.12-slim")
    path.container["securityContext"] = {"runAsNonRoot": True}
    assert {f.probe for f in path.findings()} >= {"fails-when-fired", "command-missing"}


def test_every_question_has_a_broken_path():
    elsewhere = {
        "machine-timer",
        "cloud-call",
        "other-nights",
        "blind-watch",
    }  # each has a module of tests beside this one
    assert {probe.id for probe in REHEARSED} - elsewhere <= {probe for _, _, probe, _ in BROKEN.values()}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.one_in(2)
def test_a_sound_one_is_not_accused(path, name):
    path.files = {"names": "asr\ntts\n"}
    path.rules = [*path.rules, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    found = path.does(SOUND[name]).findings()
    assert [f"{f.severity} {f.probe}: {f.message}" for f in found if f.severity != "note"] == []


def test_the_rule_that_would_grant_it_is_named(path):
    path.rules = []
    (found,) = [f for f in path.does(f"set -e\n{OFF}").findings() if f.probe == "call-refused"]
    assert 'apiGroups: ["apps"], resources: [deployments], verbs: [get]' in found.remedy
    assert "gpu-lab/lights-out" in found.remedy


def test_no_right_is_asked_for_what_is_in_another_group(path):
    url = "/api/v1/namespaces/gpu-lab/deployments/asr"
    patch = "-H 'Content-Type: application/merge-patch+json' -d '{}'"
    (found,) = [f for f in path.does(f"{CURL}{url} {patch} -f").findings() if f.probe == "call-refused"]
    assert found.remedy == "Ask for deployments in group apps: there are none in group core, whatever is granted."


def test_a_binding_to_a_role_that_is_not_there_is_the_remedy(path):
    objects = path.does(f"set -e\n{OFF}").objects()
    binding = next(o for o in objects if o["kind"] == "RoleBinding")
    binding["roleRef"]["name"] = "lightsout"
    path.objects = lambda: objects
    (found,) = [f for f in path.findings() if f.probe == "call-refused"]
    assert found.remedy == "Let the roleRef of RoleBinding lights-out name a Role that is there (lightsout is not)."


def test_a_subject_of_another_name_is_the_remedy(path):
    objects = path.does(f"set -e\n{OFF}").objects()
    binding = next(o for o in objects if o["kind"] == "RoleBinding")
    binding["subjects"][0]["name"] = "lightsout"
    path.objects = lambda: objects
    (found,) = [f for f in path.findings() if f.probe == "call-refused"]
    assert found.remedy == "Let RoleBinding lights-out name the subject ServiceAccount gpu-lab/lights-out."


def test_what_a_rehearsal_does_not_serve_is_no_finding(path):
    path.rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    path.does(f"set -e\nkubectl get --raw /apis/metrics.k8s.io/v1beta1/namespaces/gpu-lab/pods\n{OFF}")
    found = path.findings()
    assert [f for f in found if f.probe == "call-refused" and f.unproven and "metrics.k8s.io" in f.message]
    assert [f for f in found if f.severity == "error"] == []


@pytest.mark.weekly
def test_a_wait_for_what_was_deleted_may_be_refused(path):
    path.extra = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lock", "namespace": "gpu-lab"}}]
    path.rules = [*path.rules, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]}]
    path.does(f"set -e\n{OFF}\nkubectl -n gpu-lab delete configmap lock")
    assert path.rehearsed().first.exit_code == 0
    assert not [f for f in path.findings() if f.probe == "call-refused"]
    path.does(
        f"set -e\n{OFF}\nkubectl -n gpu-lab delete configmap lock --wait=false\nkubectl -n gpu-lab get secret lock || :"
    )
    assert [f.probe for f in path.findings() if f.probe == "call-refused"]


@pytest.mark.parametrize(
    ("job", "more", "told"),
    [
        ({}, {}, "error"),
        ({"activeDeadlineSeconds": 600}, {}, "warning"),
        ({}, {"command": ["vector", "validate"]}, None),
    ],
)
def test_a_container_that_its_image_keeps_running(path, job, more, told):
    path.job = job
    path.beside = [{"name": "logs", "image": "timberio/vector:0.41.1-alpine", "args": ["--config", "/v.yaml"], **more}]
    path.does(OFF)
    found = [f for f in path.findings() if f.probe == "never-ends" and "logs" in f.message]
    assert [f.severity for f in found] == ([told] if told else [])
