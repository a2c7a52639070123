"""Whatever nodes and pods there are: nobody is placed where it may not be, and nobody waits who could be placed."""

from controller_world import World, template
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from killcheck.kube import resources as r
from killcheck.kube.objects import condition, dig, labels_of, name_of

TAINT = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
NODES = st.lists(
    st.fixed_dictionaries(
        {"cpu": st.integers(1, 6), "gpu": st.integers(0, 4), "zone": st.sampled_from("ab"), "tainted": st.booleans()}
    ),
    max_size=4,
)
PODS = st.lists(
    st.fixed_dictionaries(
        {
            "cpu": st.integers(1, 4),
            "gpu": st.integers(0, 3),
            "zone": st.sampled_from(["a", "b", ""]),
            "tolerates": st.booleans(),
            "goes": st.booleans(),
        }
    ),
    max_size=9,
)


def add_node(world, number, one):
    world.node(
        f"n-{number}",
        labels={"zone": one["zone"]},
        taints=[TAINT] if one["tainted"] else [],
        cpu=str(one["cpu"]),
        **({"nvidia_com__gpu": str(one["gpu"])} if one["gpu"] else {}),
    )


def add_pod(world, number, one):
    spec = template("c", grace=0)["spec"]
    asked = {"cpu": str(one["cpu"])} | ({"nvidia.com/gpu": str(one["gpu"])} if one["gpu"] else {})
    spec["containers"][0]["resources"] = {"requests": asked, "limits": asked}
    if one["zone"]:
        spec["nodeSelector"] = {"zone": one["zone"]}
    if one["tolerates"]:
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    world.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p-{number}", "namespace": "ns"}, "spec": spec}
    )


def may_be_on(one, node):
    tainted = any(taint["key"] == "gpu" for taint in dig(node, "spec", "taints", default=[]))
    return (not one["zone"] or labels_of(node)["zone"] == one["zone"]) and (one["tolerates"] or not tainted)


def check(world, wanted):
    nodes = {name_of(node): node for node in world.kube.list(r.NODES).items}
    free = {
        name: {
            "cpu": int(dig(node, "status", "allocatable", "cpu")),
            "gpu": int(dig(node, "status", "allocatable", "nvidia.com/gpu", default=0)),
        }
        for name, node in nodes.items()
    }
    waiting = []
    for pod in world.kube.list(r.PODS, "ns").items:
        one, node = wanted[int(name_of(pod).removeprefix("p-"))], dig(pod, "spec", "nodeName")
        if node is None:
            waiting.append((pod, one))
            continue
        assert may_be_on(one, nodes[node]), pod
        free[node]["cpu"] -= one["cpu"]
        free[node]["gpu"] -= one["gpu"]
    assert all(left["cpu"] >= 0 and left["gpu"] >= 0 for left in free.values()), free
    for pod, one in waiting:
        assert not [
            name
            for name, node in nodes.items()
            if may_be_on(one, node) and free[name]["cpu"] >= one["cpu"] and free[name]["gpu"] >= one["gpu"]
        ], pod
        assert condition(pod, "PodScheduled")["reason"] == "Unschedulable"


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=NODES, pods=PODS, later=NODES)
def test_placed_where_allowed_and_never_left_out(first, pods, later):
    world = World(nodes=0, kubelet=False)
    for number, one in enumerate(first):
        add_node(world, number, one)
    for number, one in enumerate(pods):
        add_pod(world, number, one)
    world.run(2)
    check(world, pods)
    for number, one in enumerate(later):
        add_node(world, number + len(first), one)
    world.run(15)
    check(world, pods)
    for number, one in enumerate(pods):
        if one["goes"]:
            world.kube.delete(r.PODS, f"p-{number}", "ns", grace_s=0)
    world.run(15)
    check(world, pods)
    world.close()
