"""The live canary, against the API server with the models beside it."""

import pytest
from model_world import World, pod, pool

from killcheck.embedded.models.clusterautoscaler import ClusterAutoscaler
from killcheck.embedded.models.nodegroups import NodeGroups
from killcheck.fence import Ask, Ceiling, evaluate, would
from killcheck.fence.gathered import gather
from killcheck.fence.live import Canary, CanaryRefused
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Forbidden, Unreachable, api_error
from killcheck.kube.objects import dig
from killcheck.safety.journal import Journal

TYPE = "node.kubernetes.io/instance-type"


def canary(world, devices=8, **more):
    return Canary(world.kube, world.loop, "default", devices, deadline_s=90, **more)


def expected(world, devices=8):
    return would(gather(world.kube).objects, devices, namespace="default")


def fly(world, ask=None, **more):
    journal = Journal("run-1", world.loop, world.kube)
    return canary(world, **more).fly(ask or expected(world), journal)


def assert_no_trace(world):
    world.run(300)
    assert world.list(r.PODS) == []
    assert world.claims() == []
    assert world.nodes() == []
    assert world.cloud.billed() == []


def test_a_fence_that_holds_keeps_the_canary_pending_and_leaves_nothing():
    world = World()
    world.kube.create(r.NODEPOOLS, pool("small", (TYPE, "In", "g5.xlarge")))
    world.run(5)
    assert expected(world).outcome == "pending"
    result = fly(world)
    assert (result.outcome, result.held, result.left) == ("held", True, ())
    assert result.waited_s == 90
    assert_no_trace(world)
    assert not world.cloud.instances


def test_it_is_not_sent_out_where_the_evaluation_says_that_it_would_launch():
    world = World()
    world.kube.create(r.NODEPOOLS, pool("large", (TYPE, "In", "p5.48xlarge")))
    world.run(5)
    with pytest.raises(CanaryRefused, match=r"NodePool/large would launch p5\.48xlarge"):
        fly(world)
    world.run(120)
    assert not world.list(r.PODS)
    assert not world.cloud.instances


def test_at_the_first_sign_of_a_launch_it_is_gone_and_so_is_what_was_made_for_it():
    world = World()
    world.kube.create(r.NODEPOOLS, pool("large", (TYPE, "In", "p4d.24xlarge")))
    world.run(5)
    wrong = would([], 8, namespace="default")
    result = fly(world, wrong, instances=lambda: len(world.cloud.billed()))
    assert result.outcome == "launched"
    assert not result.held
    assert result.waited_s < 5, "long before a machine could have booted"
    assert any("nodeclaim/" in text or "NodeClaim/" in text for text in result.evidence)
    assert_no_trace(world)


def test_a_node_group_that_grows_is_a_sign_too():
    world = World(karpenter=False, models=[NodeGroups, ClusterAutoscaler])
    world.kube.create(
        r.CONFIGMAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "groups", "namespace": "kube-system", "labels": {"killcheck.dev/node-groups": "true"}},
            "data": {
                "groups": "[{name: gpu, instanceType: p4d.24xlarge}]",
                "scale-down-unneeded-time": "1m",
                "scale-down-delay-after-add": "1m",
            },
        },
    )
    world.run(5)
    assert expected(world).outcome == "launches"
    result = fly(world, would([], 8, namespace="default"))
    assert result.outcome == "launched"
    assert any("pod triggered scale-up" in text for text in result.evidence)
    assert not world.list(r.PODS)


def test_a_pod_that_is_not_even_admitted_is_a_fence_that_holds():
    world = World()

    class Closed(Journal):
        def _create(self, resource, obj):
            raise Forbidden(403, {"reason": "Forbidden", "message": "exceeded quota: gpus"})

    result = canary(world).fly(would([], 8, namespace="default"), Closed("run-1", world.loop, world.kube))
    assert (result.outcome, result.held, result.evidence) == ("refused", True, ("exceeded quota: gpus",))
    assert_no_trace(world)


def test_without_a_scheduler_nothing_is_proven():
    world = World()
    world.scheduler.stop()
    result = fly(world, would([], 8, namespace="default"))
    assert (result.outcome, result.held) == ("unproven", False)
    assert "the scheduler never said" in result.evidence[0]
    assert_no_trace(world)


def test_a_watch_that_breaks_proves_nothing_and_the_pod_is_deleted_all_the_same(monkeypatch):
    world = World()
    flying = canary(world)
    started = []

    def break_it():
        informers = [i for i in started[0]._informers if i.resource == r.NODECLAIMS]
        informers[0]._break(Unreachable("connection refused"))

    original = Canary._watch

    def watch(self, ledger, billed, watched):
        started.append(watched)
        world.loop.call_later(10, break_it)
        return original(self, ledger, billed, watched)

    monkeypatch.setattr(Canary, "_watch", watch)
    result = flying.fly(would([], 8, namespace="default"), Journal("run-1", world.loop, world.kube))
    assert (result.outcome, result.waited_s) == ("unproven", 10)
    assert "connection refused" in result.evidence[0]
    assert_no_trace(world)


def test_an_interruption_in_the_middle_still_deletes_it():
    world = World()

    def interrupt():
        raise KeyboardInterrupt

    world.loop.call_later(20, interrupt)
    with pytest.raises(KeyboardInterrupt):
        fly(world, would([], 8, namespace="default"))
    assert_no_trace(world)


def test_an_interruption_after_something_was_made_for_it_takes_that_back_too(monkeypatch):
    world = World()
    world.kube.create(r.NODEPOOLS, pool("large", (TYPE, "In", "p4d.24xlarge")))
    world.run(5)
    flying = canary(world)

    def interrupted(self, ledger, watch):
        raise KeyboardInterrupt

    monkeypatch.setattr(Canary, "_call_back", interrupted)
    with pytest.raises(KeyboardInterrupt):
        flying.fly(would([], 8, namespace="default"), Journal("run-1", world.loop, world.kube))
    assert_no_trace(world)


def test_a_machine_for_another_pod_is_left_alone_and_proves_nothing_about_the_fence():
    world = World()
    world.kube.create(r.NODEPOOLS, pool("small", (TYPE, "In", "g5.xlarge")))
    world.run(5)
    other = pod("other", cpu="1", tolerations=[{"operator": "Exists"}])
    world.loop.call_later(20, lambda: world.kube.create(r.PODS, other))
    result = fly(world)
    assert (result.outcome, result.left) == ("unproven", ())
    assert "it may be for another pod" in result.evidence[-1]
    world.run(300)
    assert [p["metadata"]["name"] for p in world.list(r.PODS)] == ["other"]
    assert len(world.claims()) == 1


def test_what_nobody_can_judge_is_not_sent_out():
    world = World()
    with pytest.raises(CanaryRefused, match="unproven: no catalogue has it; it is new") as raised:
        fly(world, Ask("unproven", "no catalogue has it", ("it is new",)))
    assert raised.value.expected.outcome == "unproven"
    assert not world.list(r.PODS)


def test_the_pod_is_harmless_and_tolerates_everything():
    world = World()
    spec = canary(world).manifest()["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert spec["automountServiceAccountToken"] is False
    assert dig(spec, "containers", 0, "securityContext", "capabilities", "drop") == ["ALL"]


def test_what_a_live_cluster_says_is_evaluated_as_its_manifests_are():
    world = World()
    manifest = pool("large", (TYPE, "In", "p5.48xlarge"))
    world.kube.create(r.NODEPOOLS, manifest)
    ceiling = Ceiling(max_devices_per_node=1)
    live, said = evaluate(gather(world.kube).objects, ceiling), evaluate([manifest], ceiling)
    assert live.of("NodePool/large").verdict == said.of("NodePool/large").verdict == "exposed"


def test_who_moved_a_pools_limits_is_told_by_the_api_servers_own_record():
    world = World()
    manifest = pool("large", (TYPE, "In", "p5.48xlarge"))
    world.kube.create(r.NODEPOOLS, manifest)
    query = {"fieldManager": "kubectl-edit"}
    headers = {"content-type": "application/merge-patch+json"}
    body = {"spec": {"limits": {"cpu": "9000"}}}
    world.kube.call("PATCH", r.NODEPOOLS.path(None, "large"), query=query, body=body, headers=headers)
    shown = world.kube.call("GET", r.NODEPOOLS.path(None), query={"managedFields": "true"}).body["items"]
    (note,) = [
        note
        for note in evaluate([manifest | one for one in shown], Ceiling(max_devices_per_node=1)).notes
        if "last written by" in note
    ]
    assert note.startswith("NodePool/large: spec.limits was last written by kubectl-edit at 20")


@pytest.mark.parametrize(("code", "kind"), [(403, "nodepools"), (403, "mutatingwebhookconfigurations"), (503, "jobs")])
def test_a_list_that_cannot_be_had_is_never_an_empty_one(monkeypatch, code, kind):
    world, call = World(), Kube.call
    world.kube.create(r.NODEPOOLS, pool("small", (TYPE, "In", "g6.xlarge"), limits={"nvidia.com/gpu": 1}))
    ceiling = Ceiling(max_devices_per_node=1)

    def refuse(kube, method, path, **kwargs):
        if path.endswith(f"/{kind}"):
            raise api_error(code, {"message": f"{kind} is forbidden"})
        return call(kube, method, path, **kwargs)

    assert evaluate(gather(world.kube).objects, ceiling).cluster.verdict == "safe"
    monkeypatch.setattr(Kube, "call", refuse)
    found = gather(world.kube)
    report = evaluate(found.objects, ceiling, doubts=found.unread)
    assert report.cluster.verdict == "unproven"
    assert any(f"{kind} is forbidden" in reason for reason in report.cluster.reasons)
    assert would(found.objects, 8, namespace="default", doubts=found.unread).outcome == "unproven"
