"""The shipped RBAC is enough and no more than the plan says; every write of a drill is within what was consented."""

from __future__ import annotations

import itertools
import random
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from killcheck.fixtures import path
from safety_world import Lossy

from killcheck import faults
from killcheck.capabilities.offered import Capabilities
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.drill.sequence import Drill, Options
from killcheck.embedded.api.http import User
from killcheck.kube import manifests
from killcheck.kube import resources as r
from killcheck.kube.client import Kube, Transport
from killcheck.kube.errors import NotFound
from killcheck.kube.permissions import Permissions
from killcheck.run.planned import PlannedDrill
from killcheck.run.rights import Account, rights_for
from killcheck.run.runner import guard_by, plan_for, scene_of
from killcheck.run.session import Session
from killcheck.safety import consent, lease
from killcheck.safety.guard import Guard, OutsideConsent
from killcheck.safety.journal import Journal
from killcheck.spec import specfile
from killcheck.spec.killpath import NodePool, Target
from killcheck.text.values import replace

CI = Path(__file__).parents[2] / "ci"
ACCOUNT = User(
    "system:serviceaccount:killcheck:killcheck",
    ("system:serviceaccounts", "system:serviceaccounts:killcheck", "system:authenticated"),
)
RUN = "20260115-030001-abc123-0"
SHIPPED = [m.obj for m in manifests.load([CI / "rbac.yaml"]).manifests]
#: What can be injected through the API alone (autoscaler-down needs a Deployment of an autoscaler, pull-secret-expired
#: an executor that pulls with a Secret).
API_FAULTS = [k.name for k in faults.ALL if not k.needs and k.name not in ("autoscaler-down", "pull-secret-expired")]
_OURS = re.compile(r"killcheck-")
#: Objects of others that a plan names, and the one field of them that may be changed.
_NAMED = (
    "/apis/apps/v1/namespaces/inference/deployments/vllm",
    "/api/v1/namespaces/inference",
    "/apis/batch/v1/namespaces/inference/cronjobs/gpu-nightly-off",
    "/apis/karpenter.sh/v1/nodepools/gpu",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/inference/rolebindings/gpu-nightly-off",
    "/api/v1/namespaces/inference/pods/vllm-",
    "/apis/apps/v1/namespaces/inference/replicasets/vllm-",
    "/api/v1/namespaces/inference/serviceaccounts/gpu-nightly-off/token",
)


class Audit(Transport):
    """A transport that remembers every request and what became of it."""

    def __init__(self, inner):
        self.inner, self.seen = inner, []

    def request(self, method, url, query, body, headers):
        answer = self.inner.request(method, url, query, body, headers)
        self.seen.append((method, url, body, answer.status))
        return answer

    def watch(self, url, *args):
        self.seen.append(("WATCH", url, None, 200))
        return self.inner.watch(url, *args)

    def writes(self):
        return [
            (method, url, body)
            for method, url, body, status in self.seen
            if method not in ("GET", "WATCH") and not url.endswith("accessreviews") and status < 400
        ]


class RealCluster(EmbeddedDrillCluster):
    """An embedded cluster that a drill takes for somebody's: no capabilities, and only the shipped rights."""

    real = True

    def __init__(self, rbac):
        """``rbac``: the Roles and bindings that killcheck's own account has there."""
        folder = path("dead-man")
        self.kill_path = specfile.load(folder / "killcheck.yaml")
        found = [m.obj for m in manifests.load([folder]).manifests if m.obj.get("apiVersion") != "killcheck/v1"] + rbac
        super().__init__(found, exec_mode="host", start=datetime(2026, 1, 15, 3, 0, 1, tzinfo=UTC))
        self.embedded.kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {"killcheck.dev/consent": "true"}}})
        self.loop.run_until(lambda: False, 400)
        self.name = "staging"
        registry = self.embedded.registry
        for image in ("public.ecr.aws/amazonlinux/amazonlinux",):
            registry.delete_tag(f"{image}:killcheck-gone-{RUN[-6:]}")
        self.capabilities = Capabilities()
        self.audit = Audit(self.embedded.kube_as(ACCOUNT).transport)
        self.kube = Kube(self.audit, field_manager="killcheck")

    def drill(self, name):
        under = (name,) if name else ()
        plan = plan_for(self, self.kill_path, [PlannedDrill("nightly-off", under)], RUN)
        consent.check(self, self.kill_path, plan)
        layer = self.kill_path.layer("nightly-off")
        journal = Journal(RUN, self.loop, self.kube, home="inference")
        guard_by(self, self.kill_path, plan, journal)
        claim = lease.Claim(self.kube, self.loop, RUN, lease.wanted(self.kill_path, layer, "inference"))
        claim.acquire()
        result = Drill(
            self,
            self.kill_path,
            layer,
            [faults.named(n) for n in under],
            run=RUN,
            journal=journal,
            options=Options(horizon_s=1800.0),
        ).run()
        claim.release()
        return plan, result


@pytest.fixture
def cluster():
    made = RealCluster(SHIPPED)
    yield made
    made.close()


def rights_of(*names):
    """What ``killcheck rights`` lists for these drills."""
    folder = path("dead-man")
    session = Session(spec=folder / "killcheck.yaml", manifests=(folder,))
    return rights_for(session, [PlannedDrill("nightly-off", (name,) if name else ()) for name in names])


def test_the_shipped_roles_grant_what_all_drills_take():
    granted = Permissions(SHIPPED)
    for namespace, wanted in rights_of("", *API_FAULTS).rules.items():
        for rule in wanted:
            for verb, resource, name in itertools.product(rule.verbs, rule.resources, rule.names or ("",)):
                kind, _, sub = resource.partition("/")
                asked = {"verb": verb, "group": rule.groups[0], "resource": kind, "subresource": sub, "name": name}
                everywhere = not namespace
                may = granted.allows("killcheck", "killcheck", namespace=namespace, everywhere=everywhere, **asked)
                assert may, (namespace, str(rule))


def test_the_rights_are_those_of_any_hour():
    """Close to a firing the schedule is suspended while a copy is drilled: one who asks at noon is told so, too."""
    asked = {"verb": "patch", "group": "batch", "resource": "cronjobs", "name": "gpu-nightly-off"}
    shipped = [obj for obj in SHIPPED if obj["metadata"]["name"] != "killcheck-fault-schedule"]
    listed = list(yaml.safe_load_all(rights_of("rolebinding-gone", "command-missing").manifests(Account())))
    for granting in (shipped, listed):
        assert Permissions(granting).allows("killcheck", "killcheck", namespace="inference", **asked)


@pytest.mark.parametrize("name", ["", *API_FAULTS], ids=lambda name: name or "no-fault")
@pytest.mark.one_in(12)
def test_the_rights_of_a_drill_are_enough_and_nothing_else_is_written(name, monkeypatch, request):
    """With what ``killcheck rights`` lists for this one drill, and nothing more."""
    cluster = RealCluster(list(yaml.safe_load_all(rights_of(name).manifests(Account()))))
    request.addfinalizer(cluster.close)
    passed = guarded_requests(monkeypatch)
    plan, result = cluster.drill(name)
    assert result.problems == ()
    refused = [seen for seen in cluster.audit.seen if seen[3] in (401, 403) and "killcheck-probe" not in str(seen[2])]
    assert refused == []
    assert_consented(cluster, plan, passed)


def guarded_requests(monkeypatch):
    """The requests that come to the guard from now on: (method, path)."""
    passed = []
    send = Guard.request

    def counted(self, method, url, *args):
        passed.append((method, url))
        return send(self, method, url, *args)

    monkeypatch.setattr(Guard, "request", counted)
    return passed


def assert_consented(cluster, plan, passed):
    """Every write on the wire passed the guard, is of what was named or made, and the plan asked for the right to it."""
    assert [one[:2] for one in cluster.audit.writes() if one[:2] not in passed] == []
    for method, url, body in cluster.audit.writes():
        created = body["metadata"]["name"] if method == "POST" and "metadata" in (body or {}) else ""
        ours = _OURS.search(url.rpartition("/")[2]) or _OURS.search(created) or "-hung-" in url + created
        assert ours or url.removesuffix("/status").startswith(_NAMED), (method, url)
        assert _planned(plan, method, url, created), (method, url)


class LossyWrites(Lossy):
    """A third of the writes meets with something; what is read comes through, and what decides whether it begins."""

    def request(self, method, path, query, body, headers):
        asks = method == "GET" or path.endswith("accessreviews") or "/leases" in path
        return (self.inner if asks else super()).request(method, path, query, body, headers)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.one_in(2)
def test_what_is_written_again_because_a_write_failed_is_consented_too(seed, monkeypatch, request):
    drawn = random.Random(f"{seed}-{len(API_FAULTS)}")
    name = drawn.choice(API_FAULTS)
    cluster = RealCluster(SHIPPED)
    request.addfinalizer(cluster.close)
    cluster.audit.inner = lossy = LossyWrites(cluster.audit.inner, cluster.loop, seed, rate=33)
    passed = guarded_requests(monkeypatch)
    plan, _ = cluster.drill(name)
    assert lossy.met > 3
    assert_consented(cluster, plan, passed)


def _planned(plan, method, url, created):
    """Whether the plan asked for the right to make this request."""
    parts = url.strip("/").split("/")
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, sub = [*rest, "", "", ""][:3]
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
    return any(
        p.verb == verb
        and p.group == group
        and p.resource == resource
        and p.subresource == sub
        and p.namespace in ("", namespace)
        and (not p.name or p.name == name)
        for p in plan.permissions
    )


def test_a_right_that_is_missing_is_named_before_anything_is_changed(cluster):
    for part in ("schedule", "copy"):
        cluster.embedded.kube.delete(r.ROLEBINDINGS, f"killcheck-fault-{part}", "inference")
    with pytest.raises(consent.ConsentError, match=r"patch cronjobs\.batch gpu-nightly-off in namespace inference"):
        cluster.drill("suspended")
    assert cluster.audit.writes() == []


def test_an_account_with_no_right_at_all_is_told_of_every_one_that_lacks(cluster):
    """Planning reads too: its first 403 was told alone."""
    kept = cluster.kube
    cluster.kube = Kube(
        cluster.embedded.kube_as(User("system:serviceaccount:inference:poor", ("system:authenticated",))).transport
    )
    try:
        with pytest.raises(consent.ConsentError) as caught:
            plan_for(cluster, cluster.kill_path, [PlannedDrill("nightly-off", ("rolebinding-gone",))], RUN)
    finally:
        cluster.kube = kept
    words = str(caught.value)
    for right in (
        "list pods cluster-wide",
        "get cronjobs.batch in namespace inference",
        "create leases.coordination.k8s.io",
    ):
        assert right in words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda c: c.embedded.kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {consent.LABEL: None}}}),
            "has not opted in",
        ),
        (lambda c: setattr(c, "name", "eu-prod-1"), "not among consent.contexts"),
        (lambda c: setattr(c, "name", "minikube"), "not among consent.contexts"),
    ],
    ids=["no label", "production", "another context"],
)
def test_without_consent_nothing_is_touched(cluster, change, words):
    change(cluster)
    with pytest.raises(consent.ConsentError, match=words):
        cluster.drill("suspended")
    assert cluster.audit.writes() == []


def test_a_protected_cluster_is_refused_under_any_context(cluster):
    uid = cluster.embedded.kube.get(r.NAMESPACES, "kube-system")["metadata"]["uid"]
    cluster.kill_path = replace(
        cluster.kill_path, consent=replace(cluster.kill_path.consent, protected=(f"uid:{uid}",))
    )
    with pytest.raises(consent.ConsentError, match="this cluster is protected"):
        cluster.drill("")


def test_dollars_at_stake_are_limited(cluster):
    cluster.kill_path = replace(cluster.kill_path, consent=replace(cluster.kill_path.consent, max_usd=1.0))
    with pytest.raises(consent.ConsentError, match=r"are at stake .* the spec allows \$1\.00"):
        cluster.drill("")


def test_a_target_in_a_namespace_that_nobody_named_is_not_written_to_and_is_told(cluster):
    """The executor turns off more than the layer covers: putting that back would touch what has not consented."""
    kube = cluster.embedded.kube
    kube.create(r.NAMESPACES, {"metadata": {"name": "other"}})
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    kube.create(
        r.DEPLOYMENTS,
        {
            "metadata": {"name": "web", "namespace": "other"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        },
    )
    second = Target("web", "apps/v1", "Deployment", "other", "web")
    cluster.kill_path = replace(
        cluster.kill_path,
        targets=(*cluster.kill_path.targets, second),
        layers=tuple(
            replace(layer, covers=layer.covers or tuple(t.name for t in cluster.kill_path.targets))
            for layer in cluster.kill_path.layers
        ),
    )
    cluster.loop.call_later(60, lambda: kube.patch(r.DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, "other"))
    _, result = cluster.drill("")
    assert [url for _, url, _ in cluster.audit.writes() if "/other/" in url] == []
    assert any("Deployment other/web: spec.replicas was 3 and is 0" in problem for problem in result.problems)


def node_of_others(cluster):
    """A node that is in none of the kill path's pools."""
    nodes = cluster.embedded.kube.list(r.NODES).items
    return next(n["metadata"]["name"] for n in nodes if not scene_of(cluster, cluster.kill_path).in_pool(n))


def test_consent_names_entries_of_nodes_and_these_their_pools(cluster):
    """A NodePool that has an entry's name is somebody else's."""
    nodes = (
        NodePool("gpu", node_pool="gpu-of-ours"),
        NodePool("cpu", node_pool="gpu"),
        NodePool("bare", selector="a=b"),
    )
    path = replace(cluster.kill_path, nodes=nodes, consent=replace(cluster.kill_path.consent, pools=("gpu", "bare")))
    assert path.consenting_pools == {"gpu-of-ours"}
    every = replace(path, consent=replace(path.consent, pools=()))
    assert every.consenting_pools == {"gpu-of-ours", "gpu"}


@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("PATCH", "/apis/apps/v1/namespaces/other/deployments/web", {}),
        ("DELETE", "/api/v1/namespaces/other", None),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "all"}}),
        ("PATCH", "/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}),
        ("DELETE", "/apis/karpenter.sh/v1/nodepools/cpu", None),
        ("POST", "/api/v1/namespaces/other/pods/a/eviction", {}),
        ("PUT", "/api/v1/namespaces/inference/../other/configmaps/a", {}),
    ],
)
def test_the_guard_sends_nothing_that_nobody_named(cluster, method, url, body):
    plan = plan_for(cluster, cluster.kill_path, [PlannedDrill("nightly-off")], RUN)
    guard_by(cluster, cluster.kill_path, plan, Journal(RUN, cluster.loop, cluster.kube, home="inference"))
    sent = len(cluster.audit.seen)
    elsewhere = node_of_others(cluster)
    try:
        cluster.kube.call(method, url.replace("{node}", elsewhere), body=body)
    except OutsideConsent:
        pass
    except NotFound:  # what is not there may be asked for
        assert method == "DELETE"
    else:
        pytest.fail("it was sent")
    assert [one for one in cluster.audit.seen[sent:] if one[0] != "GET" and one[3] < 400] == []
