"""The evaluation against brute force over the catalogue."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from killcheck.fence import Ceiling, evaluate
from killcheck.fence.bounds import most, value
from killcheck.instances.catalogue import Catalogue, shipped
from killcheck.instances.launchable import launchable
from killcheck.instances.requirements import Requirement

TYPES = launchable(shipped())
PREFIX = "karpenter.k8s.aws/instance-"
NUMBERS = {
    "gpu-count": range(9),
    "accelerator-count": range(17),
    "cpu": (2, 4, 8, 16, 96, 192),
    "generation": range(1, 9),
}
LISTS = {
    "category": ("c", "m", "r", "g", "p", "trn", "inf", "t"),
    "family": ("g5", "p5", "m5", "trn1", "g6f", "c7i"),
    "gpu-name": ("a10g", "h100", "l4", "t4"),
}


@st.composite
def entries(draw):
    if draw(st.booleans()):
        key = draw(st.sampled_from(sorted(NUMBERS)))
        bound = str(draw(st.sampled_from(NUMBERS[key])))
        return PREFIX + key, draw(st.sampled_from(["Gt", "Lt", "Gte", "Lte"])), [bound]
    key = draw(st.sampled_from(sorted(LISTS)))
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    values = draw(st.lists(st.sampled_from(LISTS[key]), min_size=1, max_size=4, unique=True))
    return PREFIX + key, operator, values if operator in ("In", "NotIn") else []


def node_pool(requirements, limits):
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "x"},
        "spec": {
            "limits": limits,
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
                    "requirements": [{"key": k, "operator": o, "values": v} for k, o, v in requirements],
                }
            },
        },
    }


def brute(requirements, limits):
    """Every type that passes, one at a time, with nothing but Requirement.allows; both of Karpenter's filters."""
    found = []
    for one in TYPES.types:
        passes = True
        for key in {k for k, _, _ in requirements}:
            whole = None
            for other, operator, values in requirements:
                if other == key:
                    entry = Requirement.of(key, operator, values)
                    whole = entry if whole is None else whole.intersection(entry)
            offered = one.labels[key.removeprefix("karpenter.k8s.aws/")]
            passes &= whole.allows(offered) and whole.serialized().allows(offered)
        if passes and all(one.capacity.get(name, 0) <= limit for name, limit in limits.items()):
            found.append(one)
    return found


@given(
    st.lists(entries(), min_size=1, max_size=4),
    st.dictionaries(
        st.sampled_from(["cpu", "nvidia.com/gpu", "aws.amazon.com/neuron"]), st.integers(0, 400), max_size=2
    ),
)
@settings(max_examples=60, deadline=None)
def test_the_worst_type_is_the_worst_that_a_look_at_each_finds(requirements, limits):
    types = brute(requirements, limits)
    pool = node_pool(requirements, {name: str(limit) for name, limit in limits.items()})
    result = evaluate([pool], Ceiling(max_devices_per_node=1)).results[0]
    worst = max((one.devices for one in types), default=0)
    assert (result.verdict == "exposed") == (worst > 1)
    if result.verdict == "safe":
        assert result.max_devices_per_node == worst
        assert result.type_count == len(types)


SMALL = [
    one
    for one in TYPES.types
    if one.name in ("g5.xlarge", "g5.12xlarge", "g6.48xlarge", "p5.48xlarge", "trn1.32xlarge", "m5.large", "g4dn.metal")
]


@given(
    st.sets(st.sampled_from(SMALL), min_size=1, max_size=4),
    st.integers(0, 500),
    st.integers(0, 20),
    st.sampled_from(["devices", "usd"]),
)
@settings(max_examples=80, deadline=None)
def test_what_a_pool_adds_up_to_is_never_more_than_the_bound_and_what_is_reached_can_be(chosen, cpu, nodes, measure):
    limits = {"cpu": float(cpu), "nodes": float(nodes)}
    bound = most(TYPES, TYPES.mask(chosen), limits, measure)
    best = 0.0
    members = sorted(chosen, key=lambda one: one.name)
    for counts in itertools.product(range(nodes + 1), repeat=len(members)):
        if sum(counts) <= nodes and sum(n * one.vcpu for n, one in zip(counts, members, strict=True)) <= cpu:
            best = max(best, sum(n * value(one, measure) for n, one in zip(counts, members, strict=True)))
        if len(members) > 2 and nodes > 6:
            break  # too many to look at each: the bounds are still in order
    assert bound.reached <= bound.ceiling + 1e-6
    if len(members) <= 2 or nodes <= 6:
        assert best <= bound.ceiling + 1e-6
        assert bound.reached <= best + 1e-6


def test_nothing_is_bounded_without_limits_that_count_for_every_type():
    mask = TYPES.mask(one for one in TYPES.types if one.name in ("p5.48xlarge", "trn1.32xlarge"))
    assert most(TYPES, mask, {"nvidia.com/gpu": 8.0}, "devices").ceiling == float("inf")
    assert most(TYPES, mask, {}, "usd").reached == float("inf")
    assert most(TYPES, TYPES.bits["m5.large"], {}, "devices").ceiling == 0


def test_an_empty_catalogue_proves_nothing_about_named_types():
    pool = node_pool([("node.kubernetes.io/instance-type", "In", ["g5.xlarge"])], {"nvidia.com/gpu": "4"})
    report = evaluate([pool], Ceiling(max_devices_per_node=1), Catalogue({}))
    assert report.verdict == "unproven"


def test_what_is_no_pool_is_passed_over_and_of_no_pool_nothing_is_proven():
    report = evaluate([{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}, {}], Ceiling(max_nodes=1))
    assert (report.results, report.verdict, report.exit_code) == ((), "unproven", 3)


def test_a_pool_that_is_half_used_says_what_could_still_come():
    requirements = [(PREFIX + "category", "In", ["g"]), (PREFIX + "generation", "Gt", ["5"])]
    pool = node_pool(requirements, {"nvidia.com/gpu": "8"})
    pool["status"] = {"resources": {"nvidia.com/gpu": "7", "cpu": "4"}}
    result = evaluate([pool], Ceiling(max_devices_per_node=8)).results[0]
    assert result.max_devices_per_node == 8
    assert shipped().get(result.worst_now).gpus == 1


def test_the_json_is_what_the_result_schema_names():
    entry = evaluate([node_pool([], {})], Ceiling(max_devices_per_node=1)).to_json()[0]
    named = {"pool", "verdict", "worst_instance", "max_devices_per_node", "max_usd_per_hour", "door", "remedy"}
    assert named <= set(entry)
    assert entry["max_usd_per_hour"] is None


def test_karpenters_own_feature_gates_are_read():
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "x"},
        "spec": {"requirements": [], "capacity": {"nvidia.com/gpu": "0"}},
    }
    types = ["g5.xlarge", "p4d.24xlarge"]
    pool = node_pool([("node.kubernetes.io/instance-type", "In", types)], {"nvidia.com/gpu": "4"})
    karpenter = {
        "kind": "Deployment",
        "metadata": {"name": "karpenter"},
        "spec": {
            "template": {
                "spec": {
                    "containers": [
                        {"env": [{"name": "FEATURE_GATES", "value": "NodeOverlay=false,StaticCapacity=false"}]}
                    ]
                }
            }
        },
    }
    ceiling = Ceiling(max_devices_per_node=1)
    assert evaluate([pool, overlay], ceiling).results[0].verdict == "unproven"
    assert evaluate([pool, overlay, karpenter], ceiling).results[0].verdict == "safe"
