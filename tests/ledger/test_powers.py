"""Whose rights a pod has, and what they are worth: as RBAC reads them, with all that an account can take from others."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from beside import OWL, bound
from composed import Composition, Obj, account, workload

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Ledger
from killcheck.kube.permissions import ANONYMOUS, Permissions
from killcheck.ledger.keeping import keep
from killcheck.spec import specfile

API = "rbac.authorization.k8s.io"


def _role(name: str, *rules: Obj, labels: dict[str, str] | None = None, **more: Any) -> Obj:
    meta = {"name": name, "labels": labels or {}}
    return {"apiVersion": f"{API}/v1", "kind": "ClusterRole", "metadata": meta, "rules": list(rules), **more}


SCALE = {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]}


def _may_scale(*objects: Obj, who: str = "owl") -> bool:
    return Permissions(objects).allows(
        who, "platform", verb="patch", group="apps", resource="deployments", subresource="scale", namespace="ml"
    )


def test_role_has_the_rules_of_those_that_it_aggregates_however_deep() -> None:
    selects = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"into": "a"}}]}}
    deeper = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"into": "b"}}]}}
    middle = _role("b", labels={"into": "a"}, **deeper)
    assert _may_scale(
        _role("a", **selects), middle, _role("c", SCALE, labels={"into": "b"}), bound("a", "platform", OWL)
    )
    assert not _may_scale(_role("a", **selects), middle, _role("c", SCALE), bound("a", "platform", OWL))


def test_roles_that_aggregate_each_other_come_to_an_end() -> None:
    def in_turn(name: str, other: str) -> Obj:
        selector = {"clusterRoleSelectors": [{"matchLabels": {"into": name}}]}
        return _role(name, labels={"into": other}, aggregationRule=selector)

    assert not _may_scale(in_turn("a", "b"), in_turn("b", "a"), bound("a", "platform", OWL))


def test_selector_that_no_server_takes_aggregates_nothing() -> None:
    odd = {"clusterRoleSelectors": [{"matchExpressions": [{"key": "x", "operator": "Near", "values": ["y"]}]}]}
    assert not _may_scale(_role("a", aggregationRule=odd), _role("c", SCALE), bound("a", "platform", OWL))


@pytest.mark.parametrize("verb", ["create", "deletecollection"])
def test_what_has_no_name_yet_is_not_allowed_by_name(verb: str) -> None:
    named = {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["web"], "verbs": ["*"]}
    held = Permissions([_role("named", named), bound("named", "platform", OWL)])
    assert not held.allows("owl", "platform", verb=verb, group="apps", resource="deployments", namespace="ml")
    assert held.allows("owl", "platform", verb="patch", group="apps", resource="deployments", name="web")


def test_who_brings_no_token_has_what_everybody_has() -> None:
    everybody = {"apiGroup": API, "kind": "Group", "name": "system:unauthenticated"}
    signed_in = {"apiGroup": API, "kind": "Group", "name": "system:authenticated"}
    assert _may_scale(_role("open", SCALE), bound("open", "", everybody), who=ANONYMOUS)
    assert not _may_scale(_role("open", SCALE), bound("open", "", signed_in), who=ANONYMOUS)
    assert _may_scale(_role("open", SCALE), bound("open", "", signed_in))


@pytest.mark.parametrize(
    ("rule", "stops"),
    [
        ({"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["patch"]}, True),
        ({"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["delete"]}, True),
        ({"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["deletecollection"]}, True),
        ({"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["get", "list", "watch"]}, False),
        ({"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["create"]}, True),
        ({"apiGroups": [API], "resources": ["rolebindings"], "verbs": ["delete"]}, True),
        ({"apiGroups": ["batch"], "resources": ["cronjobs/status"], "verbs": ["*"]}, False),
        ({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}, False),  # it reads none
        ({"apiGroups": ["batch"], "resources": ["cronjobs"], "resourceNames": ["backup"], "verbs": ["delete"]}, False),
    ],
)
def test_who_may_stop_the_switch_may_leave_the_gpus_on(tmp_path: Path, rule: Obj, stops: bool) -> None:
    beside = [*account("owl", "serving", [rule]), workload("owl", "serving", "owl")]
    said = {entry.object: entry.because for entry in _kept(beside, tmp_path).open}
    assert ("Deployment/serving/owl" in said) is stops
    said_of = said.get("Deployment/serving/owl", "")
    assert not stops or ("CronJob/serving/lights-out" in said_of and "which turns them off" in said_of)


_RUN = {"apiGroups": ["tekton.dev"], "resources": ["pipelineruns"], "verbs": ["create"]}
_SIGN = [
    {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]},
    {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"], "verbs": ["update"]},
]
_CLIENTS = {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve"]}
_HOOKS = "mutatingwebhookconfigurations"


@pytest.mark.parametrize(
    ("rules", "opens"),
    [
        ([_RUN], "pipelineruns.tekton.dev"),
        ([_RUN, _RUN | {"resources": ["pipelineruns/status"], "verbs": ["update"]}], ""),  # its own: it acts on them
        ([_RUN | {"verbs": ["get", "list", "watch"]}], ""),
        ([_RUN | {"apiGroups": ["cert-manager.io"], "resources": ["certificates"]}], ""),
        ([_RUN | {"apiGroups": ["keda.sh"], "resources": ["scaledobjects"]}], "scaledobjects.keda.sh"),
        ([{"apiGroups": [API], "resources": ["roles"], "verbs": ["bind"]}], "bind roles in serving"),
        ([{"apiGroups": [API], "resources": ["roles"], "verbs": ["patch", "escalate"]}], "escalate roles in serving"),
        ([{"apiGroups": [API], "resources": ["roles"], "verbs": ["update"]}], "update roles in serving, on which"),
        ([{"apiGroups": [API], "resources": ["rolebindings"], "verbs": ["patch"]}], ""),  # it would be an escalation
        ([{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["create"]}], "ask a kubelet"),
        ([{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]}], ""),
        ([{"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"]}], "run commands in pods"),
        ([*_SIGN, _CLIENTS | {"resourceNames": ["kubernetes.io/kube-apiserver-client"]}], "certificate"),
        ([*_SIGN, _CLIENTS | {"resourceNames": ["kubernetes.io/kubelet-serving"]}], ""),
        ([{"apiGroups": ["admissionregistration.k8s.io"], "resources": [_HOOKS], "verbs": ["create"]}], _HOOKS),
        ([{"apiGroups": ["admissionregistration.k8s.io"], "resources": [_HOOKS], "verbs": ["patch"]}], ""),  # its CA
        ([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}], "configmaps serving/hold"),
        ([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}], ""),
    ],
)
def test_who_may_act_through_others_may_turn_it_on(tmp_path: Path, rules: list[Obj], opens: str) -> None:
    """Custom resources that others act on, others' pods and names, and what a switch looks at before it acts."""
    one = Composition(rivals=(*account("owl", "web", rules, cluster=True), workload("owl", "web", "owl")))
    objects = one.objects
    (switch,) = [obj for obj in objects if obj["metadata"]["name"] == "lights-out" and obj["kind"] == "CronJob"]
    container = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    asks = "kubectl -n serving get configmap hold && exit 0; kubectl -n serving scale deploy/llama --replicas=0"
    container |= {"command": ["sh", "-c", asks], "args": []}
    said = {entry.object: entry.because for entry in _ledger(one, tmp_path, objects).open}
    assert ("Deployment/web/owl" in said) is bool(opens)
    assert opens in said.get("Deployment/web/owl", "")


@pytest.mark.parametrize(
    ("image", "more", "models", "opens"),
    [
        ("ghcr.io/kedacore/keda:2.16.0", {}, True, False),
        ("ghcr.io/kedacore/keda:2.16.0", {"command": ["/keda"], "args": ["--leader-elect"]}, True, False),
        ("ghcr.io/kedacore/keda:2.16.0", {"command": ["sh", "-c", "/wake"]}, True, True),
        ("ghcr.io/kedacore/keda:2.16.0", {}, False, True),
        ("registry.example.net/notkedacore/keda:1", {}, True, True),
    ],
)
def test_controller_is_known_by_its_image_and_its_own_program(
    tmp_path: Path, image: str, more: Obj, models: bool, opens: bool
) -> None:
    keda = workload("keda", "keda", "keda", image=image, **more)
    one = Composition(rivals=(*account("keda", "keda", [SCALE], cluster=True), keda))
    (tmp_path / "killcheck.yaml").write_text(yaml.safe_dump(one.spec))
    path = specfile.load(tmp_path / "killcheck.yaml")

    def is_open(objects: list[Obj]) -> bool:
        known = ("keda-operator",) if models else ()
        kept = keep(Inventory(objects), path, path.layers[0], today=date(2026, 1, 15), models=known)
        return "Deployment/keda/keda" in {entry.object for entry in kept.open}

    assert is_open(one.objects) is opens
    if not opens:  # whoever is in its pods has its account
        keda["spec"]["template"]["spec"]["containers"].append({"name": "b", "image": "docker.io/envoyproxy/envoy:v1"})
        assert not is_open(one.objects)
        keda["spec"]["template"]["spec"]["containers"].append({"name": "c", "image": "registry.example.net/waker:3"})
        assert is_open(one.objects)


_WAKER = {"name": "b", "image": "registry.example.net/waker:3"}


@pytest.mark.parametrize(
    ("api", "kind", "spec", "opens"),
    [
        ("monitoring.coreos.com/v1", "Prometheus", {"serviceAccountName": "owl", "containers": [_WAKER]}, True),
        ("monitoring.coreos.com/v1", "Prometheus", {"serviceAccountName": "reader", "containers": [_WAKER]}, False),
        ("opentelemetry.io/v1beta1", "OpenTelemetryCollector", {"serviceAccount": "owl", "image": "a/b:1"}, True),
        ("kafka.strimzi.io/v1beta2", "KafkaConnect", {"replicas": 1}, True),  # its account is called after it
        ("monitoring.coreos.com/v1", "ServiceMonitor", {"endpoints": [{"port": "http"}]}, False),
        ("example.io/v1", "TriggerTemplate", {"params": []}, False),
    ],
)
@pytest.mark.parametrize("default", [False, True])
def test_custom_resource_acts_by_the_account_that_its_pods_have(
    tmp_path: Path, api: str, kind: str, spec: Obj, opens: bool, default: bool
) -> None:
    """Also one of a group that turns nothing on. Where it names none, its pods have their namespace's own."""
    more = account("default" if default else "owl-connect", "web", [SCALE], cluster=True)
    beside = [*account("owl", "web", [SCALE], cluster=True), *more, _named(api, kind, "owl", "web", spec)]
    opens = opens or (default and api.startswith("example.io"))
    assert (f"{kind}/web/owl" in {entry.object for entry in _kept(beside, tmp_path).open}) is opens


@pytest.mark.parametrize(
    ("image", "more", "opens"),
    [
        ("registry.example.net/mirror/external-dns/external-dns:v0.15", {"args": ["--source=service"]}, False),
        ("registry.example.net/tools/external-dns:1", {"args": ["--source=service"]}, True),
        ("registry.k8s.io/external-dns/external-dns:v0.15", {"command": ["sh", "-c", "/wake"]}, True),
        ("registry.k8s.io/ingress-nginx/controller:v1.12", {"args": ["/nginx-ingress-controller"]}, False),
    ],
)
def test_furniture_is_known_by_who_publishes_it_and_by_its_program(
    tmp_path: Path, image: str, more: Obj, opens: bool
) -> None:
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}]
    beside = [*account("dns", "web", rules, cluster=True), workload("dns", "web", "dns", image=image, **more)]
    assert ("Deployment/web/dns" in {entry.object for entry in _kept(beside, tmp_path).open}) is opens


@pytest.mark.parametrize(
    ("more", "opens"),
    [
        ({"command": ["killcheck", "restore", "--expired"]}, False),
        ({"command": ["/opt/killcheck/bin/killcheck", "drill", "spec.yaml"]}, False),
        (
            {"command": ["sh", "-c", "killcheck drill spec.yaml; code=$?; killcheck report run.jsonl; exit $code"]},
            False,
        ),
        ({"command": ["killcheck"], "args": ["fleet", "drill", "fleet.yaml"]}, False),
        ({"command": ["killcheck", "wake"]}, True),
        ({"command": ["killcheck"]}, True),
        ({"command": ["/scripts/killcheck", "restore"]}, True),
        ({"command": ["sh", "-c", "killcheck restore && /wake"]}, True),
        ({"command": ["sh", "-c", "killcheck restore; kubectl -n serving scale deploy/llama --replicas=1"]}, True),
        ({"command": ["killcheck", "restore"], "env": [{"name": "PATH", "value": "/scripts"}]}, True),
        ({"command": ["killcheck", "restore"], "lifecycle": {"preStop": {"exec": {"command": ["/wake"]}}}}, True),
        ({}, True),
    ],
)
def test_killcheck_is_known_by_its_program_and_its_command(tmp_path: Path, more: Obj, opens: bool) -> None:
    rules = [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}]
    named = workload("killcheck", "killcheck", "killcheck", image="registry.example.com/killcheck:1", **more)
    beside = [*account("killcheck", "killcheck", rules, cluster=True), named]
    assert ("Deployment/killcheck/killcheck" in {entry.object for entry in _kept(beside, tmp_path).open}) is opens


@pytest.mark.parametrize(
    ("line", "opens"),
    [
        ("kubectl -n serving create quota none --hard=pods=0", True),
        ("kubectl -n serving delete rolebinding lights-out", True),
        ("kubectl -n serving delete configmap old", False),
        ("kubectl -n serving scale deploy/llama --replicas=1", True),  # at 18:00: it is no morning's
        ("kubectl -n serving annotate so llama autoscaling.keda.sh/paused-replicas-", True),
        ("kubectl -n serving annotate so llama autoscaling.keda.sh/paused-replicas=0", False),
        ('kubectl -n argocd patch application gpu --type merge -p \'{"operation":{"sync":{}}}\'', True),
        ('kubectl -n argocd patch application web --type merge -p \'{"operation":{"sync":{}}}\'', False),
        ("kubectl -n serving create job --from=cronjob/other now", True),
        ("kubectl -n serving delete quota night", True),  # the switch lays it
        ("kubectl delete namespace serving", True),
        ("kubectl -n serving patch configmap calendar -p '{\"data\":{}}'", True),
    ],
)
def test_what_comes_on_another_night_was_not_seen(tmp_path: Path, line: str, opens: bool) -> None:
    container = {"name": "a", "image": "alpine/k8s:1.32.3", "command": ["sh", "-c", line]}
    pod = {"serviceAccountName": "owl", "restartPolicy": "Never", "containers": [container]}
    spec = {"schedule": "0 18 * * 0", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    meta = {"name": "owl", "namespace": "serving"}
    rules = [{"apiGroups": ["", API], "resources": ["*"], "verbs": ["*"]}]
    application = {"destination": {"namespace": "serving"}, "syncPolicy": {"automated": {}}}
    beside = [
        *account("owl", "serving", rules),
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec},
        _named("keda.sh/v1alpha1", "ScaledObject", "llama", "serving", {"scaleTargetRef": {"name": "llama"}}),
        _named("argoproj.io/v1alpha1", "Application", "gpu", "argocd", application),
    ]
    one = Composition(rivals=tuple(beside))
    objects = one.objects
    (switch,) = [obj for obj in objects if obj["metadata"]["name"] == "lights-out" and obj["kind"] == "CronJob"]
    container = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    container["envFrom"] = [{"configMapRef": {"name": "calendar"}}]
    both = "kubectl -n serving create quota night --hard=pods=0; kubectl -n serving scale deploy/llama --replicas=0"
    container |= {"command": ["sh", "-c", both], "args": []}
    assert ("CronJob/serving/owl" in {entry.object for entry in _ledger(one, tmp_path, objects).open}) is opens


def _named(api_version: str, kind: str, name: str, namespace: str, spec: Obj) -> Obj:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("key", "value", "opens"),
    [
        ("addonmanager.kubernetes.io/mode", "Reconcile", True),
        ("addonmanager.kubernetes.io/mode", "EnsureExists", False),
        ("karmada.io/managed", "true", True),
        ("app.kubernetes.io/managed-by", "nim-operator", True),
        ("app.kubernetes.io/managed-by", "Helm", False),
        ("example.com/managed", "by hand", False),
    ],
)
def test_what_keeps_a_target_is_known_by_its_marks(tmp_path: Path, key: str, value: str, opens: bool) -> None:
    one = Composition()
    objects = one.objects
    (target,) = [obj for obj in objects if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "llama"]
    target["metadata"]["labels"] = {**target["metadata"].get("labels", {}), key: value}
    assert [entry.object for entry in _ledger(one, tmp_path, objects).open] == ["Deployment/serving/llama"] * opens


@pytest.mark.parametrize(("key", "opens"), [("downscaler/uptime", True), ("uptime-monitor.io/on", False)])
def test_clock_on_the_namespace_turns_on_what_is_in_it(tmp_path: Path, key: str, opens: bool) -> None:
    meta = {"name": "serving", "annotations": {key: "Mon-Fri 07:00-23:30"}}
    said = _kept([{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}], tmp_path).open
    assert [entry.object for entry in said] == ["Deployment/serving/llama"] * opens


@pytest.mark.parametrize("inside", ["", "serving"])
def test_who_may_bind_roles_where_the_targets_are_may_anything_there(tmp_path: Path, inside: str) -> None:
    binds = _role("binds", {"apiGroups": [API], "resources": ["clusterroles"], "verbs": ["bind"]})
    beside = [binds, bound("binds", "platform", OWL, inside=inside), workload("owl", "platform", "owl")]
    assert [entry.object for entry in _kept(beside, tmp_path).open] == ["Deployment/platform/owl"]


@pytest.mark.parametrize(
    ("where", "script", "opens"),
    [
        ("preStop", "kubectl -n serving scale deploy/llama --replicas=1", True),
        ("preStop", "kubectl -n serving scale deploy/llama --replicas=0", False),
        ("sidecar", "while sleep 5; do kubectl -n serving scale deploy/llama --replicas=1; done", True),
    ],
)
def test_what_a_targets_own_pods_say_counts_while_they_are_ended(
    tmp_path: Path, where: str, script: str, opens: bool
) -> None:
    command = ["sh", "-c", script]
    part: Obj = {"name": where, "image": "alpine/k8s:1.32.3", "command": command}
    if where == "preStop":
        part = {"name": where, "image": "i", "lifecycle": {"preStop": {"exec": {"command": command}}}}
    one = Composition()
    objects = one.objects
    (target,) = [obj for obj in objects if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "llama"]
    target["spec"]["template"]["spec"]["containers"].append(part)
    assert [entry.object for entry in _ledger(one, tmp_path, objects).open] == ["Deployment/serving/llama"] * opens


def _kept(beside: list[Obj], folder: Path) -> Ledger:
    one = Composition(rivals=tuple(beside))
    return _ledger(one, folder, one.objects)


def _ledger(one: Composition, folder: Path, objects: list[Obj]) -> Ledger:
    (folder / "killcheck.yaml").write_text(yaml.safe_dump(one.spec))
    kill_path = specfile.load(folder / "killcheck.yaml")
    return keep(Inventory(objects), kill_path, kill_path.layers[0], today=date(2026, 1, 15))


def test_accounts_are_those_that_bindings_name() -> None:
    objects = [*account("a", "ml", [SCALE]), bound("view", "", OWL), workload("w", "ml", "w")]
    assert Permissions(objects).accounts == {("ml", "a"), ("platform", "owl")}
