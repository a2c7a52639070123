import pytest
from fence_zoo import CASES, FOLDER, ceiling, load

from killcheck.fence import evaluate
from killcheck.fence.karpenter import Context, feature_gates, node_classes, read_node_claim, read_node_pool
from killcheck.fence.overlays import read_overlays
from killcheck.instances.catalogue import shipped
from killcheck.instances.launchable import launchable

READ = {"NodePool": read_node_pool, "NodeClaim": read_node_claim}


def possible(objects, pool):
    kind, _, name = pool.partition("/")
    obj = next(o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name)
    types = launchable(shipped(), "aws", "azure")
    context = Context(types, node_classes(objects), read_overlays(objects), feature_gates(objects))
    return {one.name for one in types.members(READ[kind](obj, context).possible)}


@pytest.mark.parametrize("name", CASES)
def test_every_fence_is_judged_as_an_expert_would(name):
    case, objects = load(name)
    report = evaluate(objects, ceiling(case))
    for pool, expected in case["expect"].items():
        result = report.of(pool)
        seen = {
            "verdict": result.verdict,
            "worst": result.worst_instance,
            "devices": result.max_devices_per_node,
            "maxUsdPerHour": result.max_usd_per_hour,
            "bounded": result.bounded,
            "floor": result.floor,
        }
        assert {key: seen[key] for key in expected if key in seen} == {
            key: value for key, value in expected.items() if key in seen
        }, result
        assert expected.get("door", "") in result.door
        assert any(expected.get("reason", "") in text for text in (*result.reasons, "")), result.reasons
        assert any(expected.get("note", "") in text for text in (*result.notes, "")), result.notes
        unknown = set(expected) - set(seen) - {"door", "reason", "note", "types", "with", "without"}
        assert not unknown
        if {"types", "with", "without"} & set(expected):
            types = possible(objects, pool)
            assert types == set(expected.get("types", types))
            assert set(expected.get("with", ())) <= types
            assert not set(expected.get("without", ())) & types


@pytest.mark.parametrize("name", CASES)
def test_every_case_says_what_it_is_about(name):
    case, objects = load(name)
    assert case["says"].endswith(".")
    assert (FOLDER / f"{name}.yaml").read_text().startswith("# ")
    assert objects


@pytest.mark.parametrize("name", CASES)
def test_an_exposed_pool_has_a_door_a_remedy_and_where_there_is_a_patch_it_closes_it(name):
    case, objects = load(name)
    for result in evaluate(objects, ceiling(case)).results:
        if result.verdict != "exposed":
            assert result.patch is None
            continue
        assert result.door
        assert result.remedy
        if result.patch:
            pool = next(o for o in objects if f"{o['kind']}/{o['metadata']['name']}" == result.pool)
            closed = evaluate([merged(pool, result.patch), *(o for o in objects if o is not pool)], ceiling(case))
            assert closed.of(result.pool).verdict == "safe"


def merged(target, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    base = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        base[key] = merged(base.get(key), value)
    return base


def test_most_exposed_pools_of_the_zoo_get_a_patch():
    patched = [
        result.pool
        for name in CASES
        for case, objects in [load(name)]
        for result in evaluate(objects, ceiling(case)).results
        if result.patch
    ]
    assert len(patched) >= 5
