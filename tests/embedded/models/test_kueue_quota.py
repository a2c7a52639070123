"""The books of a cohort: whatever is reserved where it fits, nobody gets more than there is, or than its limits."""

from hypothesis import given
from hypothesis import strategies as st

from killcheck.embedded.models.kueue.quota import Quotas

KEY = ("spot", "nvidia.com/gpu")
LIMIT = st.none() | st.integers(0, 8)
QUEUES = st.lists(st.tuples(st.integers(0, 8), LIMIT, LIMIT, st.sampled_from(["", "all"])), min_size=1, max_size=4)
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.booleans()), max_size=20)


def queue(number, nominal, borrowing, lending, cohort):
    entry = {"name": KEY[1], "nominalQuota": nominal}
    if borrowing is not None:
        entry["borrowingLimit"] = borrowing
    if lending is not None:
        entry["lendingLimit"] = lending
    groups = [{"coveredResources": [KEY[1]], "flavors": [{"name": KEY[0], "resources": [entry]}]}]
    return {
        "metadata": {"name": f"q{number}"},
        "spec": {"resourceGroups": groups} | ({"cohort": cohort} if cohort else {}),
    }


@given(declared=QUEUES, steps=STEPS)
def test_nobody_is_given_more_than_there_is(declared, steps):
    books = Quotas([queue(number, *one) for number, one in enumerate(declared)])
    held = []
    for index, amount, gives_back in steps:
        name = f"q{index % len(declared)}"
        usage = {KEY: float(amount)}
        if gives_back and held:
            owner, old = held.pop(0)
            books.add(owner, old, -1)
        elif books.fits(name, usage):
            assert amount <= books.most(name, KEY)
            books.add(name, usage)
            held.append((name, usage))
        check(books, declared)


def check(books, declared):
    together = [number for number, one in enumerate(declared) if one[3]]
    for number, (nominal, borrowing, _, cohort) in enumerate(declared):
        used = books.used[f"q{number}"].get(KEY, 0.0)
        assert used <= books.most(f"q{number}", KEY)
        if not cohort:
            assert used <= nominal
        elif borrowing is not None:
            assert used <= nominal + borrowing
    assert sum(books.used[f"q{number}"].get(KEY, 0.0) for number in together) <= sum(
        declared[number][0] for number in together
    )


@given(declared=QUEUES, lowered=st.integers(0, 8))
def test_a_quota_below_what_is_used_leaves_less_than_nothing(declared, lowered):
    nominal = declared[0][0]
    books = Quotas([queue(0, min(lowered, nominal), None, None, "")])
    books.add("q0", {KEY: float(nominal)})
    assert books.available("q0", KEY) == min(lowered, nominal) - nominal
    assert books.fits("q0", {KEY: 1.0}) is False
