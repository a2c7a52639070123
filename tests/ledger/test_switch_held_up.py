"""What keeps a switch from a later firing, or from its pod, or starts a target as a pod begins or ends: asked, not drilled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from composed import Obj, account, workload

from killcheck.capabilities.inventory import Inventory
from killcheck.drill import left_behind
from killcheck.entries import Ledger
from killcheck.kube import resources as r
from killcheck.kube.errors import Forbidden
from killcheck.kube.objects import copy
from killcheck.layers import unlike
from killcheck.ledger.keeping import keep
from killcheck.run.session import Session

Change = Callable[[list[Obj], Obj], None]
UP = ["kubectl", "-n", "inference", "scale", "deployment", "vllm", "--replicas=1"]
LOOKS = ["/bin/sh", "-c", "kubectl get pods -n inference; sleep infinity"]
RIGHTS = [
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]},
    {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get", "list"]},
]


def _beside(*, sidecar: Obj | None = None, **container: Any) -> Change:
    """A gateway whose own program only looks; ``container``: what it has besides."""

    def change(objects: list[Obj], cron: Obj) -> None:
        one = workload("gateway", "inference", "gateway")
        spec = one["spec"]["template"]["spec"]
        spec["containers"] = [{"name": "main", "image": "alpine/k8s:1.32.0", "command": LOOKS} | container]
        if sidecar is not None:
            plain = {"name": "side", "image": "alpine/k8s:1.32.0", "restartPolicy": "Always", "command": LOOKS}
            spec["initContainers"] = [plain | sidecar]
        objects.extend([*account("gateway", "inference", RIGHTS), one])

    return change


def _shares(*modes: str) -> Change:
    """A volume that the target has, too."""

    def change(objects: list[Obj], cron: Obj) -> None:
        volume = {"name": "m", "persistentVolumeClaim": {"claimName": "models"}}
        for obj in (o for o in objects if o["metadata"]["name"] == "vllm"):
            obj["spec"]["template"]["spec"]["volumes"] = [volume]
        cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["volumes"] = [volume]
        meta = {"name": "models", "namespace": "inference"}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta}
        objects.append(claim | {"spec": {"accessModes": list(modes)}})

    return change


def _carries(key: str, value: str, *, space: bool = False) -> Change:
    def change(objects: list[Obj], cron: Obj) -> None:
        obj = next(o for o in objects if o["kind"] == "Namespace") if space else cron
        obj["metadata"].setdefault("annotations", {})[key] = value

    return change


def _sleep_info(**spec: Any) -> Change:
    def change(objects: list[Obj], cron: Obj) -> None:
        meta = {"name": "night", "namespace": "inference"}
        said = {"weekdays": "*", "sleepAt": "20:00", "wakeUpAt": "08:00", "suspendDeployments": False, **spec}
        objects.append({"apiVersion": "kube-green.com/v1alpha1", "kind": "SleepInfo", "metadata": meta, "spec": said})

    return change


def _weekly(line: str, **selector: str) -> Change:
    """A schedule beside, and the nodes that the switch may go to."""

    def change(objects: list[Obj], cron: Obj) -> None:
        cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["nodeSelector"] = selector
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]}]
        other = copy(cron)
        other["metadata"]["name"] = "patcher"
        other["spec"]["schedule"] = "0 1 * * 0"
        template = other["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        template["serviceAccountName"] = "patcher"
        template["containers"] = [{"name": "p", "image": "alpine/k8s:1.32.0", "command": ["/bin/sh", "-c", line]}]
        objects.extend([*account("patcher", "inference", rules, cluster=True), other])

    return change


def _lets(kind: str, name: str) -> Change:
    """A binding for somebody as whom nothing runs here."""

    def change(objects: list[Obj], cron: Obj) -> None:
        api = "rbac.authorization.k8s.io"
        subject = {"kind": kind, "name": name} | ({"namespace": "ci"} if kind == "ServiceAccount" else {})
        role = {"apiGroup": api, "kind": "ClusterRole", "name": "edit"}
        meta = {"name": "more", "namespace": "inference"}
        binding = {"apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": meta}
        objects.append(binding | {"roleRef": role, "subjects": [subject]})

    return change


def _kept(change: Change) -> Ledger:
    session = Session(fixture="dead-man")
    objects = [copy(obj) for obj in session.objects]
    change(objects, next(obj for obj in objects if obj["kind"] == "CronJob"))
    today, models = date(2026, 1, 1), frozenset({"karpenter", "kube-green"})
    return keep(Inventory(objects), session.kill_path, session.kill_path.layers[0], today=today, models=models)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_beside(livenessProbe={"exec": {"command": UP}}), "Deployment/inference/gateway"),
        (_beside(readinessProbe={"exec": {"command": LOOKS}}), ""),
        (_beside(sidecar={"lifecycle": {"preStop": {"exec": {"command": UP}}}}), "Deployment/inference/gateway"),
        (_beside(sidecar={"startupProbe": {"exec": {"command": UP}}}), "Deployment/inference/gateway"),
        (_shares("ReadWriteOncePod"), "models (ReadWriteOncePod)"),
        (_shares("ReadWriteOnce"), "models (ReadWriteOnce)"),
        (_shares("ReadWriteOnce", "ReadWriteMany"), ""),
        (_carries("janitor/ttl", "7d"), "takes the switch away"),
        (_carries("janitor/expires", "2026-02-01", space=True), "takes the switch away"),
        (_carries("example.com/ttl-policy", "none"), ""),
        (_sleep_info(suspendCronJobs=True), "suspends CronJob/inference/gpu-nightly-off"),
        (_sleep_info(suspendCronJobs=True, excludeRef=[{"matchLabels": {"app": "gpu-nightly-off"}}]), ""),
        (_sleep_info(), ""),
        (_weekly("kubectl cordon tools-1", **{"kubernetes.io/hostname": "tools-1"}), "patch nodes tools-1"),
        (_weekly("kubectl cordon tools-1", **{"kubernetes.io/hostname": "tools-2"}), ""),
        (_weekly("kubectl taint nodes -l pool=tools a=b:NoSchedule", pool="tools"), "patch nodes"),
        (_weekly("kubectl label nodes tools-1 a=b", pool="tools"), ""),
        (_weekly("kubectl cordon tools-1", **{"kubernetes.io/arch": "amd64"}), ""),
    ],
)
def test_it_is_open_where_it_may(change: Change, words: str) -> None:
    found = [str(entry) for entry in _kept(change).open]
    assert (len(found) == 1 and words in found[0]) if words else not found, found


@pytest.mark.parametrize(("kind", "name"), [("ServiceAccount", "gitlab"), ("Group", "oncall"), ("User", "someone")])
def test_who_may_start_from_outside_is_said_in_one_line(kind: str, name: str) -> None:
    kept = _kept(_lets(kind, name))
    assert not kept.open
    assert [name in str(one) for one in kept.telling if one.object == "who may start from outside"] == [True]


# -- one firing and the next ---------------------------------------------------------------------------------
def _cron(line: str) -> Obj:
    own = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    env = [own, {"name": "SPLAY", "value": "45"}]
    container = {"name": "off", "image": "alpine/k8s:1.32.0", "command": ["/bin/bash", "-c", line], "env": env}
    pod = {"spec": {"containers": [container]}}
    meta = {"name": "off", "namespace": "ml"}
    return {"kind": "CronJob", "metadata": meta, "spec": {"jobTemplate": {"spec": {"template": pod}}}}


GENERATION = "kubectl get deploy x -o jsonpath='{.metadata.generation}'"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[ $((RANDOM % 100)) -eq 7 ] && exit", "left to chance"),
        ("n=$((RANDOM % 9))\n[ $n = 3 ] && exit", "left to chance"),
        ("n=$((RANDOM % 9)); [ $n = 3 ] && exit; kubectl get pods -n x", "left to chance"),
        ("n=$((RANDOM % 60))\nsleep $n\n[ $(kubectl get pods -n x | wc -l) -gt 0 ]", ""),
        ("sleep $((RANDOM % 1800))", "left to chance"),
        ("sleep $((RANDOM % 60))", ""),
        ("n=$((RANDOM % 60)); echo $n\nsleep $n", ""),
        ("sleep $((RANDOM / 10))", "left to chance"),
        ("sleep $((RANDOM / 1000))", ""),
        ("sleep $((RANDOM / (RANDOM % 900 + 1)))", "left to chance"),  # what it is divided by may be 1
        ("D=1000\nsleep $((RANDOM / D))", ""),
        ("D=1000\nD=1\nsleep $((RANDOM / D))", "left to chance"),
        ("import random\ntime.sleep(random.random() / 0.001)", "left to chance"),
        ("sleep $((SRANDOM ** 99))", "left to chance"),
        (f"sleep $((RANDOM % 1{'0' * 400}))", "left to chance"),
        (f"sleep $(({'1*' * 1500}RANDOM))", "left to chance"),
        ("sleep $((RANDOM % 30 * 60))", "left to chance"),
        ("sleep $((RANDOM % 30))m", "left to chance"),
        ("sleep ${RANDOM:0:4}", "left to chance"),
        ("sleep ${RANDOM:0:2}", ""),
        ("n=$((RANDOM % 30))\nsleep $((n * 60))", "left to chance"),
        ("n=$((RANDOM % 30))\nsleep ${n}m", "left to chance"),
        ("until kubectl get ns; do sleep $((2 ** i + RANDOM % 3)); done", ""),
        ("import random\ntime.sleep(random.randint(0, 30) * 60)", "left to chance"),
        ("import random\ntime.sleep(random.random() * 60)", ""),
        ("if ! kubectl get ns > /tmp/out.$$; then exit 1; fi", ""),
        ('if ! curl -fsS -d "host=$HOSTNAME" http://x; then exit 1; fi', ""),
        ('[ "$(hostname)" = leader ] || exit', "left to chance"),
        ("me=$HOSTNAME\n[ $me = leader ] || exit", "left to chance"),
        ("t=$(date +%s%N); kubectl get ns; [ $(( $(date +%s%N) - t )) -gt 5 ] && echo slow", ""),
        ("kubectl create job off-$RANDOM --from=cronjob/x || exit 1", ""),
        ("case $HOSTNAME in *x) exit;; esac", "left to chance"),
        ("date; curl $API/pods?labelSelector=app%3Dworker&x=a%20b", ""),
        ("echo done on $(hostname) at $(date +%F)", ""),
        ("sleep $((RANDOM % MAX + 5))", "left to chance"),  # nothing says how long that is
        ("MAX=60\nsleep $((RANDOM % MAX + 5))", ""),
        ("sleep $((RANDOM % 60 * 60))", "left to chance"),
        ("sleep $((RANDOM % 10))m", "left to chance"),
        ("sleep $(shuf -i 1-60 -n 1)", ""),
        ("a=$((RANDOM % 10)); b=$((a * 60)); sleep $b", "left to chance"),
        ("sleep $(( $(hostname | cksum | cut -d' ' -f1) % 60 ))", ""),
        ("for attempt in range(5):\n    time.sleep(2 ** attempt + random.random())", ""),
        ("time.sleep(random.randint(1, 10) * 60)", "left to chance"),
        ("n=$((RANDOM % 50)); m=$n; [ $m -eq 7 ] && exit", "left to chance"),
        ("[ $((RANDOM % 50)) -eq 7 ] && K=true", "left to chance"),
        ("n=$((RANDOM / 20000)); kubectl scale deploy/x --replicas=$n", "left to chance"),
        ("cmds=(kubectl true); ${cmds[RANDOM / 32000]} scale", "left to chance"),
        ("((RANDOM >> 9)) && kubectl scale", "left to chance"),
        ("hostname | grep -q 7 && exit", "left to chance"),
        ("kubectl get pods -o name | grep -v $HOSTNAME", ""),
        ("case $POD_NAME in *a) exit;; esac", "left to chance"),  # by its environment
        ("sleep $((RANDOM % SPLAY))", ""),
        ("n = int.from_bytes(os.urandom(1), 'big') // 250\nbody = {'spec': {'replicas': n}}", "left to chance"),
        ("[ $(( $(date +%s) / 86400 % 11 )) -eq 3 ] && exit", "left to chance"),
        ("[ $(( $(date +%V) % 2 )) -eq 0 ] || exit", ""),  # each of them is tried
        (f"[ $({GENERATION}) -gt 10 ] && exit", "only grows"),
        (f"g=$({GENERATION})\n[ $g -gt 10 ] && exit", "only grows"),
        (
            f"g=$({GENERATION})\nuntil [ $(kubectl get deploy x -o jsonpath='{{.status.observedGeneration}}') -ge $g ]",
            "",
        ),
        ("v=$(kubectl get deploy x -o jsonpath='{.metadata.resourceVersion}')\n[ $v -gt 9 ] && exit", "only grows"),
        ("kubectl get deploy x -o json | jq '{v: .metadata.resourceVersion}'", ""),
        ("u=$(cut -d. -f2 /proc/uptime)\ncase $u in *7) exit 0;; esac", "only grows"),
        (
            f"until [ $({GENERATION}) = $(kubectl get deploy x -o jsonpath='{{.status.observedGeneration}}') ]; do :; done",
            "",
        ),
    ],
)
def test_what_no_number_of_nights_settles_is_open(line: str, words: str) -> None:
    entries = list(unlike.entries(_cron(line), lambda _: None, 300.0))
    found = [str(entry) for entry in entries]
    assert all("assume" in entry.settles for entry in entries)
    assert (len(found) == 1 and words in found[0]) if words else not found, found


OFF = "kubectl scale deploy/x --replicas=0"
READY = "kubectl get deploy x -o jsonpath='{.status.readyReplicas}'"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"n=0\nwhile true; do {OFF}; n=$((n+1)); [ $n -gt 3 ] && sleep infinity; done", "only grows"),
        (f"while true; do n=0; while [ $n -lt 5 ]; do {OFF} && break; n=$((n+1)); done; sleep 60; done", ""),
        (f"i=0\nwhile true; do i=$((i+1)); [ $i -lt 6 ] || {{ {OFF}; i=0; }}; sleep 60; done", "only grows"),
        (f"while true; do n=$(cat /s/n); [ $n -lt 7 ] && {OFF}; echo $((n+1)) > /s/n; sleep 60; done", "only grows"),
        (
            f"while true; do n=$(cat /s/n); [ $n -lt 7 ] && {OFF} || echo 0 > /s/n; echo $((n+1)) > /s/n; done",
            "only grows",
        ),
        ("done = []\nwhile True:\n    if len(done) < 5:\n        off()\n    done.append(1)", "only grows"),
        ("done = []\nwhile True:\n    off()\n    done.append(1)\n    print(done[-3:])", ""),
        (
            "while True:\n    at = now.replace(hour=3)\n    if at < now:\n        at += day\n    time.sleep(at - now)",
            "",
        ),
        (f"r=$({READY})\n[ $r -ge 1 ] || exit 0\n{OFF}", "looks at 'r=$("),
        (f'{OFF}\nuntil [ -z "$({READY})" ]; do sleep 2; done', ""),
        (f'until [ "$({READY})" = 1 ]; do sleep 2; done\n{OFF}', "looks at 'until"),
        (f"[ $(kubectl get nodes -o name | wc -l) -lt 4 ] || exit 0\n{OFF}", "looks at '[ $(kubectl get nodes"),
        (f"kubectl get pods\n{OFF}\n[ $(kubectl get pods -o name | wc -l) = 0 ]", ""),
        (f"kubectl wait deploy/x --for=condition=Available && {OFF}", "looks at 'kubectl wait deploy/x"),
        (f"[ $(kubectl get deploy x -o jsonpath='{{.spec.replicas}}') = 0 ] && exit 0\n{OFF}", ""),
        ("if any(c['type'] == 'Available' for c in d['status']['conditions']):\n    scale(0)", "looks at 'status"),
    ],
)
def test_what_a_loop_counts_and_what_a_switch_looks_at_first_is_open(line: str, words: str) -> None:
    loop = _cron(line)
    loop |= {"kind": "Deployment", "spec": loop["spec"]["jobTemplate"]["spec"]}
    found = [str(entry) for entry in unlike.entries(loop, lambda _: None, 300.0, unlike.Around(loops=True))]
    assert any(words in one for one in found) if words else not found, found


def test_script_that_a_pod_is_given_beside_others_is_read_and_nothing_else_is_asked_for() -> None:
    job, asked = _cron("/opt/off.sh"), []
    volumes = [{"name": "tmp", "emptyDir": {}}, {"projected": {"sources": [{"configMap": {"name": "off"}}]}}]
    job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["volumes"] = volumes

    def config_map(name: str) -> Obj:
        asked.append(name)
        return {"data": {"off.sh": "[ $((RANDOM % 2)) = 0 ] && exit"}}

    assert len([*unlike.entries(job, config_map, 300.0)]) == 1
    assert asked == ["off"]


class _Kept:
    """A cluster that has a ConfigMap, with a number in it, and a quota."""

    def __init__(self, number: int, used: str = "") -> None:
        meta = {"name": "state", "namespace": "ml"}
        self.map = {"metadata": meta, "data": {"n": str(number)}}
        hard = {"hard": {"count/jobs.batch": "9"}}
        quota = {
            "kind": "ResourceQuota",
            "metadata": meta,
            "spec": hard,
            "status": {"used": {"count/jobs.batch": used}},
        }
        self.quotas = [quota] if used else []
        names = {"plural": "ledgers", "singular": "ledger", "kind": "Ledger"}
        served = {
            "group": "ex.org",
            "names": names,
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True}],
        }
        self.crd = {"metadata": {"name": "ledgers.ex.org"}, "spec": served}
        self.helper = {"kind": "Deployment", "metadata": meta, "spec": {"replicas": number}}

    def find(self, resource: Any, *_: object) -> Obj:
        return {r.CRDS: self.crd, r.DEPLOYMENTS: self.helper}.get(resource, self.map)

    def list(self, resource: Any, *_: object) -> Any:
        kept = {r.CONFIGMAPS: [self.map], r.RESOURCEQUOTAS: self.quotas, r.CRDS: [self.crd]}
        return type("Items", (), {"items": kept.get(resource, [self.map] if resource.group == "ex.org" else [])})


COUNTS = "n=$(kubectl get cm state -n ml -o jsonpath='{.data.n}')\nkubectl patch cm state -n ml -p x"


@pytest.mark.parametrize(
    ("line", "before", "after", "is_open"),
    [
        (COUNTS, _Kept(1), _Kept(2), True),
        (COUNTS, _Kept(2), _Kept(2), False),  # it has settled
        ("kubectl patch cm state -n ml -p x", _Kept(1), _Kept(2), False),  # nobody reads it
        ("kubectl get svc state -n ml", _Kept(1), _Kept(2), True),
        ("kubectl get pod state -n ml", _Kept(1), _Kept(2), False),
        ("kubectl get ledger state -n ml", _Kept(1), _Kept(2), True),
        ("/usr/local/bin/kubectl -n ml get -o json ledger/state", _Kept(1), _Kept(2), True),
        ("kubectl get pods,ledger -n ml", _Kept(1), _Kept(2), True),
        ("kubectl get ledgerbook state -n ml", _Kept(1), _Kept(2), False),
        ("kubectl get deploy state -n ml", _Kept(1), _Kept(2), False),
        ("kubectl get deploy state -n ml\nkubectl scale deploy state -n ml --replicas=0", _Kept(1), _Kept(2), False),
        (
            "kubectl get deploy state -n ml\nkubectl scale deploy state -n ml --replicas=$((n+1))",
            _Kept(1),
            _Kept(2),
            True,
        ),
        ("kubectl get pods", _Kept(1, "3"), _Kept(1, "4"), True),
        ("kubectl get pods", _Kept(1, "4"), _Kept(1, "4"), False),
    ],
)
def test_what_each_firing_leaves_otherwise_is_open(line: str, before: Any, after: Any, is_open: bool) -> None:
    cron = _cron(line)
    left = [left_behind.left(cron, [], kube) for kube in (before, after)]
    assert bool(list(left_behind.unsettled(cron, [line], after, *left))) is is_open


def test_definitions_are_asked_for_only_where_a_kind_is_not_known() -> None:
    """An account that may not list them is told of no night that may differ for a ``kubectl get deploy``."""

    class Refuses(_Kept):
        def list(self, resource: Any, *args: object) -> Any:
            if resource is r.CRDS:
                raise Forbidden(403, {"message": "customresourcedefinitions is forbidden"})
            return super().list(resource, *args)

    refuses: Any = Refuses(1)
    assert not left_behind.is_met(_cron("kubectl get deploy,pods -n ml"), [], refuses)
    with pytest.raises(Forbidden):
        left_behind.is_met(_cron("kubectl get ledger off -n ml"), [], refuses)


def test_mark_of_its_own_is_read_back_where_it_is_named_again() -> None:
    def target(runs: str) -> Obj:
        meta = {"name": "x", "namespace": "ml", "annotations": {"ex.org/runs": runs}}
        return {"kind": "Deployment", "metadata": meta}

    reads = "n=$(kubectl get deploy x -o jsonpath='{.metadata.annotations.ex\\.org/runs}')"
    writes = "kubectl annotate deploy x ex.org/runs=$((n+1)) --overwrite"
    for line, is_open in ((f"{reads}\n{writes}", True), (writes, False), (reads, False)):
        left = [left_behind.left(_cron(line), [target(runs)], _Kept(1)) for runs in "12"]  # type: ignore[arg-type]
        found = list(left_behind.unsettled(_cron(line), [line], _Kept(1), *left))  # type: ignore[arg-type]
        assert bool(found) is is_open, line
