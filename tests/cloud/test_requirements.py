import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from killcheck.instances.catalogue import shipped
from killcheck.instances.launchable import AUTO_MODE, KARPENTER_AWS, launchable
from killcheck.instances.requirements import OPERATORS, Requirement, RequirementError, Requirements

VALUES = ["a", "b", "0", "1", "2", "3", "7", "8", "9", "-1", "007", " 8", "8.0", "", "٣"]
BOUNDS = st.integers(min_value=0, max_value=10).map(str)
KEY = "karpenter.k8s.aws/instance-gpu-count"


ANY = st.sampled_from(VALUES)


@st.composite
def entries(draw, values=ANY, bounds=BOUNDS):
    operator = draw(st.sampled_from(sorted(OPERATORS)))
    if operator in ("In", "NotIn"):
        return operator, draw(st.lists(values, max_size=4))
    return operator, [] if "Exist" in operator else [draw(bounds)]


def as_integer(value):
    digits = value[1:] if value[:1] in "+-" else value
    return int(value) if digits and all(c in "0123456789" for c in digits) else None


def entry_allows(entry, value):
    """One entry about a value that is there, by its documentation."""
    operator, values = entry
    if operator in ("In", "NotIn"):
        return (value in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return operator == "Exists"
    number, bound = as_integer(value), int(values[0])
    return (
        number is not None
        and {"Gt": number > bound, "Lt": number < bound, "Gte": number >= bound, "Lte": number <= bound}[operator]
    )


def passes(found, offered):
    """What Karpenter lets pass, spelt out: values that every entry allows, and its quirks about labels that lack."""
    if any(all(entry_allows(entry, value) for entry in found) for value in offered):
        return True
    if offered:
        return False
    bounds = [entry for entry in found if entry[0] in ("Gt", "Lt", "Gte", "Lte")]
    lowest = max((int(v[0]) + (op == "Gt") for op, v in bounds if op.startswith("G")), default=None)
    highest = min((int(v[0]) - (op == "Lt") for op, v in bounds if op.startswith("L")), default=None)
    contradictory = lowest is not None and highest is not None and lowest > highest
    concrete = contradictory or any(op in ("In", "DoesNotExist") for op, _ in found)
    if not concrete:
        # Reads as NotIn, which types without the label pass, if an excluded value lies within the bounds.
        return any(all(entry_allows(b, v) for b in bounds) for op, vs in found if op == "NotIn" for v in vs)
    named = {v for op, vs in found if op == "In" for v in vs}
    return not any(all(entry_allows(entry, value) for entry in found) for value in named)


def combined(found):
    requirements = Requirements()
    for operator, values in found:
        requirements.add(Requirement.of(KEY, operator, values))
    return requirements[KEY]


@given(st.lists(entries(), min_size=1, max_size=5))
def test_a_value_that_is_there_passes_where_every_entry_allows_it(found):
    requirement = combined(found)
    for value in VALUES:
        assert requirement.has(value) == all(entry_allows(entry, value) for entry in found)
        assert requirement.allows((value,)) == passes(found, (value,))


@given(st.lists(entries(), min_size=1, max_size=5))
def test_what_lacks_the_label_passes_by_karpenters_quirks(found):
    assert combined(found).allows(()) == passes(found, ())


@given(st.lists(entries(), min_size=2, max_size=3))
def test_the_order_of_entries_does_not_matter_to_what_passes(found):
    for offered in [(), *((value,) for value in VALUES)]:
        assert len({combined(order).allows(offered) for order in itertools.permutations(found)}) == 1


@given(entries(), entries())
def test_two_requirements_meet_where_a_value_passes_both(one, other):
    first, second = combined([one]), combined([other])
    meet = any(first.has(v) and second.has(v) for v in [*VALUES, *map(str, range(-2, 15)), "zzz"])
    if first.complement and second.complement:  # Karpenter does not look whether two complements leave anything
        bounds = first.intersection(second)
        assert first.has_intersection(second) == bounds.complement
    else:
        assert first.has_intersection(second) == meet
    assert first.has_intersection(second) == second.has_intersection(first)


@given(st.lists(entries(bounds=st.integers(1, 10).map(str)), min_size=1, max_size=3))
def test_what_a_node_claim_keeps_never_excludes_more_values(found):
    requirement = combined(found)
    kept = requirement.serialized()
    assert all(kept.has(value) for value in VALUES if requirement.has(value))
    again = Requirements.of(kept.entries())[KEY]
    assert (again.values, again.gte, again.lte, again.complement) == (kept.values, kept.gte, kept.lte, kept.complement)


@pytest.mark.parametrize(
    ("found", "operator", "lenient"),
    [
        ([("Lt", ["8"])], "Exists", False),
        ([("Lt", ["8"]), ("NotIn", ["3"])], "NotIn", True),
        ([("Lt", ["8"]), ("NotIn", ["16"])], "Exists", False),
        ([("In", ["t4"]), ("In", ["a100"])], "DoesNotExist", True),
        ([("Gt", ["5"]), ("Lt", ["3"])], "DoesNotExist", True),
        ([("Gt", [str(2**63 - 1)])], "DoesNotExist", True),
        ([("NotIn", ["8"])], "NotIn", True),
        ([("Exists", [])], "Exists", False),
    ],
)
def test_how_karpenter_reads_combinations(found, operator, lenient):
    assert (combined(found).operator, combined(found).lenient) == (operator, lenient)


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("Between", ["1"]),
        ("in", ["a"]),
        ("Gt", []),
        ("Gt", ["1", "2"]),
        ("Lt", ["-1"]),
        ("Lt", ["eight"]),
        ("Gte", ["1.5"]),
        ("Gt", [" 1"]),
        ("Gt", ["1_0"]),
        ("Gt", [str(2**63)]),
    ],
)
def test_what_cannot_be_read_is_refused(operator, values):
    with pytest.raises(RequirementError):
        Requirement.of(KEY, operator, values)


def test_old_label_names_are_todays():
    one = Requirement.of("beta.kubernetes.io/instance-type", "In", ["p5.48xlarge"])
    assert one.key == "node.kubernetes.io/instance-type"


def test_requirements_print_as_karpenter_prints_them():
    assert str(Requirement.of("x", "In", list("gfedcba"))) == "x In [a b c d e and 2 others]"
    assert str(Requirement.of("x", "Lt", ["8"], 2)) == "x Exists <=7 minValues 2"


# -- against the catalogue -------------------------------------------------------------------------------------
TYPES = launchable(shipped())
LABELS = [
    "gpu-count",
    "gpu-name",
    "gpu-manufacturer",
    "gpu-memory",
    "accelerator-count",
    "accelerator-name",
    "category",
    "generation",
    "family",
    "size",
    "cpu",
    "memory",
    "local-nvme",
    "cpu-manufacturer",
]


#: What the types offer of each label.
OFFERED = {name: {one.labels[f"instance-{name}"] for one in TYPES.types} for name in LABELS}


@functools.cache
def of_label(name):
    known = sorted({value for offered in OFFERED[name] for value in offered})
    numbers = [value for value in known if value.isdigit()] or ["1"]
    return st.tuples(st.just(name), entries(st.sampled_from([*known, "nothing"]), st.sampled_from([*numbers, "0"])))


@given(
    st.lists(st.sampled_from(LABELS).flatmap(of_label), min_size=1, max_size=4),
    st.sampled_from([KARPENTER_AWS, AUTO_MODE]),
)
def test_the_selected_types_are_those_that_a_look_at_each_finds(found, prefix):
    requirements = Requirements()
    for name, (operator, values) in found:
        requirements.add(Requirement.of(f"{prefix}/instance-{name}", operator, values))
    selection = TYPES.select(requirements, prefix)
    assert selection.certain == selection.possible
    by_name = {name: [entry for other, entry in found if other == name] for name, _ in found}
    lets = {
        f"instance-{name}": {offered for offered in OFFERED[name] if passes(entries_, offered)}
        for name, entries_ in by_name.items()
    }
    expected = {
        one.name for one in TYPES.types if all(one.labels[label] in let_through for label, let_through in lets.items())
    }
    assert {one.name for one in TYPES.members(selection.certain)} == expected


def chosen(*requirements, prefix=KARPENTER_AWS):
    entries_ = [{"key": k, "operator": o, "values": list(v)} for k, o, *v in requirements]
    return TYPES.select(Requirements.of(entries_), prefix)


def names(mask):
    return {one.name for one in TYPES.members(mask)}


def test_gpu_rules_let_accelerators_through_that_are_no_gpus():
    let_through = names(chosen((KEY, "DoesNotExist")).certain)
    assert {"trn1.32xlarge", "inf2.48xlarge", "dl2q.24xlarge", "m5.large"} <= let_through
    assert "g6f.large" not in let_through, "a share of a GPU carries the label, with count 0"
    assert "trn1.32xlarge" not in names(chosen((KEY, "Lt", "8")).certain)
    assert "trn1.32xlarge" in names(chosen((KEY, "NotIn", "8")).certain)


def test_another_flavours_prefix_and_misspelt_keys_restrict_nothing():
    assert chosen((f"{AUTO_MODE}/instance-gpu-count", "Lt", "2")).certain == TYPES.all
    assert chosen(("instance-gpu-count", "Lt", "2")).certain == TYPES.all
    assert chosen((f"{AUTO_MODE}/instance-gpu-count", "Lt", "2"), prefix=AUTO_MODE).certain != TYPES.all


def test_what_the_catalogue_cannot_decide_is_possible_and_not_certain():
    selection = chosen((f"{KARPENTER_AWS}/instance-network-bandwidth", "Gt", "100"))
    assert (selection.certain, selection.possible) == (0, TYPES.all)
    assert selection.undecided == (f"{KARPENTER_AWS}/instance-network-bandwidth",)
    reserved = chosen(("karpenter.sh/capacity-type", "In", "reserved"))
    assert (reserved.certain, reserved.possible) == (0, TYPES.all)
