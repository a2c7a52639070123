"""GPUs that no layer of a path turns off: said where they are, and settled by a person alone."""

from __future__ import annotations

import json
from datetime import date

import pytest
from composed import Composition, Obj, account, workload

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Entry, Ledger, Status
from killcheck.kube import gpus
from killcheck.kube.secret_text import ANNOTATION
from killcheck.ledger.keeping import keep
from killcheck.spec import specfile
from killcheck.spec.killpath import Assumption, KillPath, NodePool, Proof, Ref, Target
from killcheck.text.values import replace

TODAY = date(2026, 1, 15)
OTHER = Target("asr", "apps/v1", "Deployment", "voice", "asr")


def _path(composition: Composition, **more: object) -> KillPath:
    return replace(specfile.loads(json.dumps(composition.spec)), **more)  # type: ignore[arg-type]


def _kept(path: KillPath, objects: list[Obj], *, live: bool = False) -> Ledger:
    with gpus.as_said(path.accelerators):
        return keep(Inventory(objects, live=live), path, path.layers[0], today=TODAY)


def _holder(name: str, namespace: str, resource: str = "nvidia.com/gpu") -> Obj:
    return workload(name, namespace, "default", resources={"limits": {resource: 1}})


def _about(kept: Ledger, ref: str) -> Entry:
    return next(entry for entry in kept.entries if entry.object == ref and entry.status is not Status.HARMLESS)


def test_target_that_no_layer_covers_is_open_until_a_person_says_that_it_stays() -> None:
    one = Composition()
    path = _path(one)
    path = replace(path, targets=(*path.targets, OTHER))
    objects = [*one.objects, _holder("asr", "voice")]
    assert _about(_kept(path, objects), "Deployment/voice/asr").status is Status.NOT_MODELLED
    word = Assumption("it answers all night", date(2026, 12, 31), "Deployment", "voice", "asr")
    settled = _about(_kept(replace(path, assume=(word,)), objects), "Deployment/voice/asr")
    assert (settled.status, settled.until) == (Status.ASSUMED, "2026-12-31")


_G5 = {"instanceTypes": ["g5.48xlarge"]}
_GROUPS = [
    ("eks.services.k8s.aws/v1alpha1", "Nodegroup", {**_G5, "scalingConfig": {"minSize": 1, "maxSize": 3}}),
    ("eks.aws.upbound.io/v1beta1", "NodeGroup", {"forProvider": {**_G5, "scalingConfig": [{"minSize": 2}]}}),
    (
        "infrastructure.cluster.x-k8s.io/v1beta2",
        "AWSManagedMachinePool",
        {"instanceType": "p4d.24xlarge", "scaling": {"minSize": 1}},
    ),
    (
        "container.cnrm.cloud.google.com/v1beta1",
        "ContainerNodePool",
        {"autoscaling": {"minNodeCount": 1}, "nodeConfig": {"machineType": "a2-highgpu-1g"}},
    ),
    # Of kinds that nobody listed: by the machine's type, and a number around it.
    (
        "machine.openshift.io/v1beta1",
        "MachineSet",
        {"replicas": 2, "template": {"spec": {"providerSpec": {"value": {"instanceType": "p4d.24xlarge"}}}}},
    ),
    (
        "core.gardener.cloud/v1beta1",
        "Shoot",
        {
            "provider": {
                "workers": [
                    {"minimum": 3, "machine": {"type": "m6i.large"}},
                    {"minimum": 1, "machine": {"type": "g5.48xlarge"}},
                ]
            }
        },
    ),
    ("ops.example.io/v1", "Fleet", {"count": 2, "vmSize": "p4d.24xlarge", "disk": {"size": 3}}),
]


def test_group_whose_machine_is_described_elsewhere_is_known_by_that() -> None:
    """Cluster API says the number in one object and the machine in another."""
    one = Composition()
    path = replace(_path(one), proof=frozenset({Proof.P1}))
    api, template = "infrastructure.cluster.x-k8s.io/v1beta2", "AWSMachineTemplate"
    ref = {"infrastructureRef": {"apiVersion": api, "kind": template, "name": "gpu"}}
    group = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment", "metadata": {"name": "g"}}
    group["spec"] = {"replicas": 2, "template": {"spec": ref}}
    machine = {"apiVersion": api, "kind": template, "metadata": {"name": "gpu"}}
    machine["spec"] = {"template": {"spec": {"instanceType": "p4d.24xlarge"}}}
    # A schema has fields of the names that a reference has, and they are no texts.
    schema = {"openAPIV3Schema": {"properties": {"kind": {"type": "string"}, "name": {"type": "string"}}}}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b.c"}}
    crd["spec"] = {"versions": [{"name": "v1", "schema": schema}]}
    said = [
        entry.object for entry in _kept(path, [*one.objects, group, machine, crd]).open if "machine(s)" in entry.because
    ]
    assert said == ["MachineDeployment/g"]
    assert not [e for e in _kept(path, [*one.objects, group]).open if "machine(s)" in e.because]


@pytest.mark.parametrize(("version", "kind", "spec"), _GROUPS, ids=[kind for _, kind, _ in _GROUPS])
def test_group_of_machines_with_gpus_that_never_goes_down_to_none_is_open(version: str, kind: str, spec: Obj) -> None:
    """It bills whatever the pods do, unless its own nodes are judged; one of a least of none, or without GPUs, does not."""
    one = Composition()
    group = {"apiVersion": version, "kind": kind, "metadata": {"name": "g"}, "spec": spec}

    def is_open(path: KillPath, text: str) -> bool:
        kept = _kept(path, [*one.objects, json.loads(text)]).entries
        return any("machine(s) with GPUs" in e.because and e.status is Status.NOT_MODELLED for e in kept)

    path, text = replace(_path(one), proof=frozenset({Proof.P1})), json.dumps(group)
    assert is_open(path, text)
    judging = replace(path, proof=frozenset({Proof.P1, Proof.P2}))
    assert is_open(judging, text)  # of another pool
    own = replace(judging, nodes=(NodePool("g", selector="cloud.google.com/gke-nodepool=g"),))
    assert is_open(own, text) is (kind != "ContainerNodePool")
    assert not is_open(path, text.replace(": 1", ": 0").replace(": 2", ": 0"))
    for machine in ("g5.48xlarge", "p4d.24xlarge", "a2-highgpu-1g"):
        text = text.replace(machine, "m6i.large")
    assert not is_open(path, text)


_UNREAD = [
    ("helm.cattle.io/v1", "HelmChart", {"valuesContent": "resources:\n  limits:\n    nvidia.com/gpu: 4\n"}),
    ("ec2.services.k8s.aws/v1alpha1", "CapacityReservation", {"instanceType": "p5.48xlarge", "instanceCount": 2}),
    ("kubevirt.io/v1", "VirtualMachine", {"template": {"spec": {"domain": {"devices": {"gpus": [{"name": "a"}]}}}}}),
]


@pytest.mark.parametrize(("version", "kind", "spec"), _UNREAD, ids=[kind for _, kind, _ in _UNREAD])
def test_custom_resource_that_names_gpus_in_words_of_its_own_is_open(version: str, kind: str, spec: Obj) -> None:
    """Wherever it is: discovery tells that it is not understood, and the verdict rests on it."""
    one = Composition()
    meta = {"name": "x", "namespace": "elsewhere"}
    kept = _kept(_path(one), [*one.objects, {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}])
    assert _about(kept, f"{kind}/elsewhere/x").status is Status.NOT_MODELLED


@pytest.mark.parametrize(("pool", "is_open"), [("gpu", False), ("other", True), ("", True)])
def test_machine_of_no_pool_that_is_judged_is_open(pool: str, is_open: bool) -> None:
    one = Composition()
    path = _path(one, nodes=(NodePool("gpu", "gpu"),), proof=frozenset({Proof.P1, Proof.P2}))
    machine = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p4d.24xlarge"]}
    meta = {"name": "g", "labels": {"karpenter.sh/nodepool": pool} if pool else {}}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": meta,
        "spec": {"requirements": [machine]},
    }
    assert any(e.object == "NodeClaim/g" for e in _kept(path, [*one.objects, claim]).open) is is_open


@pytest.mark.parametrize("flag", ["true", "false"])
def test_autoscaler_that_takes_no_node_away_is_open_where_nodes_are_not_judged(flag: str) -> None:
    one = Composition()
    scaler = workload("cluster-autoscaler", "kube-system", "default")
    scaler["spec"]["template"]["spec"]["containers"][0]["command"] = ["./ca", f"--scale-down-enabled={flag}"]
    kept = _kept(_path(one, proof=frozenset({Proof.P1})), [*one.objects, scaler])
    assert any("takes a node away" in entry.because for entry in kept.open) is (flag == "false")


@pytest.mark.parametrize(
    ("runtime", "other", "is_open"),
    [("vllm", "", False), ("vllm", "vllm", True), ("kserve-sklearnserver", "kserve-sklearnserver", False)],
)
def test_pattern_of_pods_is_open_only_where_something_may_be_made_by_it(
    runtime: str, other: str, is_open: bool
) -> None:
    """What an InferenceService names and is not here may ask for GPUs; what KServe is installed with does not."""
    one = Composition()
    kind = "ClusterServingRuntime" if not other else "InferenceService"
    server = {"name": "k", "image": "v", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"predictor": {"model": {"runtime": other}}} if other else {"containers": [server]}
    version = "serving.kserve.io/v1beta1" if other else "serving.kserve.io/v1alpha1"
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": runtime, "namespace": "web"}, "spec": spec}
    assert any(kind in e.object for e in _kept(_path(one), [*one.objects, obj]).open) is is_open


@pytest.mark.parametrize(
    ("key", "is_open"),
    [
        ("cluster-autoscaler.kubernetes.io/scale-down-disabled", True),
        ("karpenter.sh/do-not-disrupt", True),
        ("example.com/owner", False),
    ],
)
def test_node_that_nobody_may_take_away_is_open(key: str, is_open: bool) -> None:
    one = Composition()
    path = replace(_path(one), proof=frozenset({Proof.P1}))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "g", "annotations": {key: "true"}}}
    node["status"] = {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}
    assert any(e.object == "Node/g" for e in _kept(path, [*one.objects, node]).open) is is_open


@pytest.mark.parametrize(("live", "ref"), [(False, "Deployment/voice/asr"), (True, "GPUs outside the kill path")])
def test_holder_that_the_spec_names_nowhere_is_named(live: bool, ref: str) -> None:
    one = Composition()
    told = _about(_kept(_path(one), [*one.objects, _holder("asr", "voice")], live=live), ref)
    assert told.matters
    assert told.status is not Status.NOT_MODELLED
    assert "asr" in f"{told}"


def test_pool_with_gpus_that_the_spec_names_nowhere_is_named() -> None:
    one = Composition()
    path = _path(one, nodes=(NodePool("gpu", "gpu"),), proof=frozenset({Proof.P1, Proof.P2}))
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "forgotten"},
        "spec": {"limits": {"nvidia.com/gpu": 8}},
    }
    told = [
        entry.because for entry in _kept(path, [*one.objects, pool]).telling if entry.object == "NodePool/forgotten"
    ]
    assert any("out of scope" in said for said in told)


@pytest.mark.parametrize(
    ("grace", "notes", "open_"),
    [
        (10, {}, False),
        (300, {}, False),
        (1800, {}, True),
        (1800, {"killcheck.dev/stops-after-s": "20"}, False),
    ],
)
def test_program_that_may_outlive_the_deadline_is_not_proven_to_end(grace: int, notes: Obj, open_: bool) -> None:
    one = Composition()
    objects = one.objects
    template = objects[0]["spec"]["template"]
    template["spec"]["terminationGracePeriodSeconds"] = grace
    template["metadata"]["annotations"] = notes
    kept = _kept(_path(one), objects)
    assert any("grace period" in entry.because for entry in kept.open) is open_


@pytest.mark.parametrize(
    ("verb", "notes", "open_"),
    [("create", {}, True), ("get", {}, False), ("create", {"killcheck.dev/execute": "true"}, False)],
)
def test_target_that_may_make_pods_as_it_ends_is_open_unless_its_program_runs(
    verb: str, notes: Obj, open_: bool
) -> None:
    one = Composition()
    objects = [
        *one.objects,
        *account("hand", "serving", [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [verb]}]),
    ]
    template = objects[0]["spec"]["template"]
    template["spec"]["serviceAccountName"], template["metadata"]["annotations"] = "hand", notes
    said = [entry.object for entry in _kept(_path(one), objects).open if "as it is ended" in entry.because]
    assert said == (["Deployment/serving/llama"] if open_ else [])


@pytest.mark.parametrize(
    ("script", "optional", "there", "said"),
    [
        ("{off}=$REPLICAS", True, False, Status.NOT_MODELLED),
        ("{off}=$REPLICAS", True, True, None),
        ("{off}=$REPLICAS", False, False, None),
        ("{off}=${REPLICAS:-0}", True, False, Status.NOT_MODELLED),
        ("/opt/off.sh; {off}=0", True, False, Status.NOT_MODELLED),
        ("{off}=0", True, False, Status.ASSUMED),
        ("N=0; {off}=$N", True, False, Status.ASSUMED),
        ("for N in 0; do {off}=$N; done", True, False, Status.ASSUMED),
        ("N=${N:-0}; {off}=$N", True, False, Status.NOT_MODELLED),
        ("{off}=$N; N=0", True, False, Status.NOT_MODELLED),
        ("true || N=0; {off}=$N", True, False, Status.NOT_MODELLED),
        ("N=0 true; {off}=$N", True, False, Status.NOT_MODELLED),
        ("kubectl get pods -l N=0; {off}=$N", True, False, Status.NOT_MODELLED),
        ("test ${#N} = 0 && {off}=0", True, False, Status.NOT_MODELLED),
        ("test $((N)) = 0 && {off}=0", True, False, Status.NOT_MODELLED),
        ("set | grep -q ^N= || {off}=0", True, False, Status.NOT_MODELLED),
        ("set -eu; {off}=0", True, False, Status.ASSUMED),
        ("jq -ne env.N || {off}=0", True, False, Status.NOT_MODELLED),
        ("grep -q N= /proc/self/environ || {off}=0", True, False, Status.NOT_MODELLED),
    ],
)
def test_word_that_would_keep_a_switch_from_acting_is_open_where_it_may_be_elsewhere(
    script: str, optional: bool, there: bool, said: Status | None
) -> None:
    one = Composition()
    objects = one.objects
    switch = next(obj for obj in objects if obj["kind"] == "CronJob")
    (container,) = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    off = "kubectl -n serving scale deployment/llama --replicas"
    container |= {"command": ["sh", "-c"], "args": [script.replace("{off}", off)]}
    container["envFrom"] = [{"configMapRef": {"name": "flags", "optional": optional}}]
    flags = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags", "namespace": "serving"}, "data": {}}
    kept = _kept(_path(one), [*objects, *([flags] if there else [])])
    told = {one.object: one.status for one in kept.entries if one.status in (Status.NOT_MODELLED, Status.ASSUMED)}
    assert told.get("ConfigMap/serving/flags") == said


@pytest.mark.parametrize(
    ("variable", "script", "open_"),
    [
        ("SLACK_URL", 'set -e\n{off}\n[ -z "$SLACK_URL" ] || curl -d off "$SLACK_URL"', False),
        ("SLACK_URL", '[ -z "$SLACK_URL" ] || exit 0\n{off}', True),
        ("SLACK_URL", 'for i in 1 2; do\n{off}\ncurl "$SLACK_URL" || break\ndone', True),
        ("HTTPS_PROXY", '{off}\necho "$HTTPS_PROXY"', True),
    ],
)
def test_word_of_whom_to_tell_afterwards_keeps_no_switch_from_acting(variable: str, script: str, open_: bool) -> None:
    one = Composition()
    objects = one.objects
    switch = next(obj for obj in objects if obj["kind"] == "CronJob")
    (container,) = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    off = "kubectl -n serving scale deployment/llama --replicas=0"
    source = {"secretKeyRef": {"name": "slack", "key": "url", "optional": True}}
    container |= {"command": ["sh", "-c"], "args": [script.replace("{off}", off)]}
    container["env"] = [{"name": variable, "valueFrom": source}]
    assert ("Secret/serving/slack" in {entry.object for entry in _kept(_path(one), objects).open}) is open_


@pytest.mark.parametrize(
    ("script", "open_"),
    [
        ('[ "$HOLD" = yes ] && exit 0\n{off}', True),
        ("case $HOLD in yes) exit 0;; esac\n{off}", True),
        ("[[ 1 == 1 && $HOLD == yes ]] && exit 0\n{off}", True),
        ('echo "$HOLD" | grep -q yes && exit 0\n{off}', True),
        ('hold = os.environ.get("HOLD")\nif hold == "yes": exit()\n{off}', True),
        ('[ 1 = 1 ] && curl -H "Authorization: $HOLD" https://chat.example.net\n{off}', False),
        ("[ " * 200_000, False),
        ('[ -n "$HOLD" ] || exit 1\n{off}', False),
        ('HOLD=no\n[ "$HOLD" = yes ] && exit 0\n{off}', False),
        ('{off}\ncurl -H "Authorization: $HOLD" https://chat.example.net', False),
    ],
)
@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.one_in(3)
def test_secret_that_is_kept_elsewhere_may_hold_a_switch_that_compares_it(
    script: str, open_: bool, sealed: bool
) -> None:
    one = Composition()
    objects = one.objects
    switch = next(obj for obj in objects if obj["kind"] == "CronJob")
    (container,) = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    off = "kubectl -n serving scale deployment/llama --replicas=0"
    container |= {"command": ["sh", "-c"], "args": [script.replace("{off}", off)]}
    container["envFrom"] = [{"secretRef": {"name": "flags"}}]
    meta = {"name": "flags", "namespace": "serving"}
    keeper: Obj = {"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "metadata": meta, "spec": {}}
    secret: Obj = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"HOLD": "no"}}
    if sealed:
        secret = {**secret, "metadata": {**meta, "annotations": {ANNOTATION: "sealed"}}}
    kept = _kept(_path(one), [*objects, secret, *([] if sealed else [keeper])])
    assert ("Secret/serving/flags" in {entry.object for entry in kept.open}) is open_


@pytest.mark.parametrize(("queues", "open_"), [([], True), (["night"], False)])
def test_queue_of_a_switchs_jobs_that_no_manifest_holds_may_never_let_them_go(queues: list[str], open_: bool) -> None:
    one = Composition()
    objects = one.objects
    switch = next(obj for obj in objects if obj["kind"] == "CronJob")
    switch["spec"]["jobTemplate"]["metadata"] = {"labels": {"kueue.x-k8s.io/queue-name": "night"}}
    api = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue"}
    objects += [{**api, "metadata": {"name": name, "namespace": "serving"}} for name in queues]
    said = [entry for entry in _kept(_path(one), objects).open if "LocalQueue serving/night" in entry.because]
    assert bool(said) is open_


@pytest.mark.parametrize(("node", "open_"), [([], True), ([{"kind": "Node", "metadata": {"name": "a"}}], False)])
def test_what_reaches_gpus_unasked_is_open_where_no_manifest_says_on_which_nodes(node: list[Obj], open_: bool) -> None:
    one = Composition()
    sneak = workload("sneak", "serving", "default", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
    kept = _kept(_path(one), [*one.objects, sneak, *node])
    assert ("Deployment/serving/sneak" in {entry.object for entry in kept.open}) is open_


@pytest.mark.parametrize(
    ("schedule", "ends_s", "namespace", "suspended", "open_"),
    [
        ("30 22 * * 6", None, "serving", False, True),
        ("30 22 * * 6", 3600, "serving", False, False),
        ("30 22 * * *", 20 * 3600, "serving", False, True),
        ("*/30 * * * *", 600, "serving", False, True),
        ("30 22 * * 6", None, "serving", True, False),
        ("30 22 * * 6", None, "elsewhere", False, False),
    ],
)
def test_schedule_that_puts_pods_on_gpus_itself_is_open_unless_its_work_ends(
    schedule: str, ends_s: int | None, namespace: str, suspended: bool, open_: bool
) -> None:
    """The night that was drilled is another one than that on which it fires."""
    one = Composition()
    job = {"template": _holder("retrain", namespace)["spec"]["template"], "activeDeadlineSeconds": ends_s}
    spec = {"schedule": schedule, "suspend": suspended, "jobTemplate": {"spec": job}}
    meta = {"name": "retrain", "namespace": namespace}
    cron: Obj = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec}
    path, ref = _path(one), f"CronJob/{namespace}/retrain"
    assert (ref in {entry.object for entry in _kept(path, [*one.objects, cron]).open}) is open_
    meant = replace(path, starts=(Ref("batch/v1", "CronJob", namespace, "retrain"),))
    assert ref not in {
        entry.object for entry in _kept(meant, [*one.objects, cron]).open if "GPUs itself" in entry.because
    }


# -- what a spec says of resources -------------------------------------------------------------------------
def test_what_the_spec_says_of_a_resource_goes_before_what_is_known() -> None:
    said = {"acme.ai/dongle": False, "vendor.example/rdma-*": True, "deviceclass.resource.kubernetes.io/odd": False}
    before = [gpus.is_device(name) for name in ("acme.ai/dongle", "vendor.example/rdma-x")]
    claim = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "odd"}}]}}}
    claims = {("ResourceClaim", "x", "c"): claim}
    asked = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    assert gpus.spec_devices(asked, "x", claims) == 1
    with gpus.as_said(said):
        assert [gpus.is_device("acme.ai/dongle"), gpus.is_device("vendor.example/rdma-x")] == [False, True]
        assert gpus.spec_devices(asked, "x", claims) == 0
    assert [gpus.is_device(name) for name in ("acme.ai/dongle", "vendor.example/rdma-x")] == before == [True, False]


def test_resource_that_the_spec_calls_none_stands_in_the_ledger() -> None:
    one = Composition()
    objects = [*one.objects, _holder("camera", "serving", "acme.ai/dongle")]
    kept = _kept(_path(one, accelerators={"acme.ai/*": False}), objects)
    assert _about(kept, "resource acme.ai/dongle").status is Status.ASSUMED


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("{acme.ai/dongle: false}", ""),
        ("{nvidia.com/mig-1g.5gb: true}", ""),
        ("{nvidia.com/gpu: false}", "an accelerator whatever is said"),
        ("{'*/*': false}", "an accelerator whatever is said"),
        ("{dongle: false}", "expected an extended resource with its domain"),
        ("{acme.ai/dongle: 3}", "accelerators"),
    ],
)
def test_spec_may_not_say_that_a_gpu_is_none(said: str, wrong: str) -> None:
    text = (
        "apiVersion: killcheck/v1\nname: x\ntargets: [{name: a, kind: Deployment, namespace: b, object: a}]\n"
        f"layers: [{{name: l, type: dead-man, covers: [a], cronJob: {{namespace: b, name: l}}}}]\naccelerators: {said}\n"
    )
    if not wrong:
        assert specfile.loads(text).accelerators
        return
    with pytest.raises(specfile.SpecError, match=wrong):
        specfile.loads(text)


@pytest.mark.parametrize(
    ("namespace", "named", "proof", "status"),
    [
        ("serving", False, "P1", Status.NOT_MODELLED),
        ("voice", False, "P1", Status.ASSUMED),  # a namespace that the path does not watch
        ("serving", True, "P1", None),
        ("serving", False, "P2", None),  # its nodes go, and it with them
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_daemonset_that_asks_for_gpus_is_open_unless_it_is_named_or_its_nodes_are_judged(
    namespace: str, named: bool, proof: str, status: Status | None, live: bool
) -> None:
    one = Composition()
    path = _path(one, proof=frozenset({Proof.P1, Proof(proof)}))
    if named:
        path = replace(path, targets=(*path.targets, Target("load", "apps/v1", "DaemonSet", namespace, "load")))
    daemons = {**_holder("load", namespace), "kind": "DaemonSet"}
    said = [entry for entry in _kept(path, [*one.objects, daemons], live=live).entries if "each node" in entry.because]
    assert [entry.status for entry in said] == ([status] if status else [])
