"""What the evaluation says can be launched, the embedded cluster's Karpenter launches - and nothing else."""

import json
from pathlib import Path

import killcheck.fixtures
import pytest
from model_world import World, pod

from killcheck.fence.karpenter import Context, node_classes, read_node_pool
from killcheck.fence.overlays import read_overlays
from killcheck.instances.catalogue import shipped
from killcheck.instances.launchable import launchable
from killcheck.kube import manifests
from killcheck.kube import resources as r
from killcheck.kube.errors import BadRequest, Invalid, NotFound
from killcheck.kube.objects import dig
from killcheck.text.yamlfile import documents

FIXTURES = Path(killcheck.fixtures.__file__).parent
FOLDER = FIXTURES / "fences"
TYPES = launchable(shipped())
TYPE = "node.kubernetes.io/instance-type"
#: Asked for from every pool: large and small, with GPUs, shares, accelerators and nothing.
ASKED = ["p5.48xlarge", "p4d.24xlarge", "g5.xlarge", "g6f.large", "trn1.32xlarge", "dl2q.24xlarge", "m5.large"]
#: Types that the manifests of these cases leave open: what the model launches must be among what is possible.
OPEN = {
    "unknown-type",
    "unknown-family",
    "overlay-hides-gpus",
    "reserved-capacity",
    "undecided-label",
    "unknown-key-of-karpenters",
    "other-provider",
}


def everything():
    """(folder or case, its objects) of the zoo of fences, the zoo of kill paths and the reference paths."""
    for path in sorted(FOLDER.glob("*.yaml")):
        _, *objects = (document.value for document in documents(path.read_text(), path.name))
        yield path.stem, objects
    for path in sorted([*(FIXTURES / "zoo").rglob("*.yaml"), *(FIXTURES / "paths").rglob("*.yaml")]):
        if "kind: NodePool" in path.read_text():
            yield "-".join(path.relative_to(FIXTURES).parts[1:-1]), manifests.load([path]).objects


def cases(*, open_ones=False):
    seen = set()
    for name, objects in everything():
        for obj in objects:
            if obj["kind"] != "NodePool" or obj["apiVersion"] != "karpenter.sh/v1":
                continue
            group = dig(obj, "spec", "template", "spec", "nodeClassRef", "group")
            foreign = group not in (None, "karpenter.k8s.aws", "eks.amazonaws.com")
            if (name in OPEN or foreign) is not open_ones:
                continue
            classes = [one for one in objects if one["kind"] == "EC2NodeClass"]
            said = json.dumps([obj["spec"], classes], sort_keys=True)
            if said not in seen:  # the zoo's paths share most of their pools
                seen.add(said)
                yield pytest.param(objects, obj, id=f"{name}-{obj['metadata']['name']}")


@pytest.mark.parametrize(("objects", "pool"), list(cases()))
@pytest.mark.one_in(2)
def test_karpenter_launches_exactly_what_the_evaluation_predicts(objects, pool):
    read = read_node_pool(pool, Context(TYPES, node_classes(objects)))
    world = World()
    if read.unknown:  # the API refuses what the evaluation cannot read
        with pytest.raises((BadRequest, Invalid, NotFound)):
            create(world, pool, strict=True)
        return
    for obj in objects:
        if obj is pool or obj["kind"] == "EC2NodeClass":
            create(world, obj)
    worst = read.worst(read.certain)
    for name in dict.fromkeys([*([worst.name] if worst else []), *ASKED]):
        assert launches(world, pool, name) is bool(read.certain & TYPES.bits[name]), name


@pytest.mark.parametrize(("objects", "pool"), list(cases(open_ones=True)))
def test_what_the_evaluation_leaves_open_is_never_less_than_what_is_launched(objects, pool):
    read = read_node_pool(pool, Context(TYPES, node_classes(objects), read_overlays(objects)))
    world = World()
    try:
        for obj in objects:
            if obj is pool or obj["kind"] == "EC2NodeClass":
                create(world, obj)
    except (BadRequest, Invalid, NotFound):
        assert read.unknown, "refused by the API, and not seen by the evaluation"
        return
    for name in ASKED:
        assert not launches(world, pool, name) or read.possible & TYPES.bits[name] or read.unknown, name


def create(world, obj, *, strict=False):
    resource = world.kube.resource_for(obj["apiVersion"], obj["kind"])
    query = {"fieldValidation": "Strict"} if strict else {}
    world.kube.call("POST", resource.path(), body=obj, query=query)


def launches(world, pool, name):
    """Whether a pod that asks for this very type gets it."""
    if dig(pool, "spec", "replicas") is not None:  # nobody can ask a static pool for anything
        world.run(60)
        return name in {one.type.name for one in world.cloud.instances.values()}
    asks = pod(
        f"asks-{len(world.cloud.instances)}-{name.replace('.', '-')}",
        cpu="10m",
        node_selector={TYPE: name},
        tolerations=[{"operator": "Exists"}],
    )
    world.kube.create(r.PODS, asks)
    before = set(world.cloud.instances)
    world.run(15)
    new = [one for key, one in world.cloud.instances.items() if key not in before]
    world.kube.delete(r.PODS, asks["metadata"]["name"], "default", grace_s=0)
    for one in world.claims():
        world.kube.patch(r.NODECLAIMS, one["metadata"]["name"], {"metadata": {"finalizers": None}})
        world.kube.delete(r.NODECLAIMS, one["metadata"]["name"])
    world.run(1)
    assert all(one.type.name == name for one in new)
    return bool(new)
