"""What a search tries and claims, over outcomes that are known: complete, fair to every layer, resumed, repeatable."""

from __future__ import annotations

import itertools
import random
from contextlib import nullcontext
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from killcheck.commands.explore import _coverage, _named
from killcheck.faults.timed import span
from killcheck.run import explore as searching
from killcheck.run.combinations import Found, Scenario
from killcheck.run.explored import Kept, kept_elsewhere
from killcheck.run.session import Session, SessionError

NAMES = ["finalizer", "token-dead", "pool-floor", "image-gone", "suspended", "registry-unreachable"]
LAYERS = ["nightly-off", "second-switch"]
SESSION = Session(fixture="two-switches")


@pytest.fixture(scope="module", autouse=True)
def ready():
    return SESSION.objects


class World:
    """``exposing`` and ``clashing``: sets of faults, by which every scenario ends as it does."""

    windows: ClassVar = {}

    def __init__(self, exposing=(), clashing=(), doubtful=(), layers=LAYERS[:1], seed=0):
        self.exposing, self.clashing, self.doubtful = exposing, clashing, doubtful
        self.layers, self.random, self.asked = layers, random.Random(seed), []

    def verdict(self, names):
        for verdict, sets in (("refused", self.clashing), ("inconclusive", self.doubtful), ("exposed", self.exposing)):
            if any(set(one) <= set(names) for one in sets):
                return verdict
        return "survived"

    def exposes(self, scenario):
        """``windows``: by fault, from when to when it has to be there; a set exposes where all of its faults are."""
        for name in scenario.faults:
            name, _, text = name.partition("=")
            struck, lifted = span(text) if text else (None, None)
            latest, earliest = self.windows.get(name, (None, None))
            if struck is not None and (latest is None or struck > latest):
                return False
            if lifted is not None and (earliest is None or lifted < earliest):
                return False
        return True

    def run(self, _pool, _session, scenarios, _workers, keep):
        ended = [
            Found(one, self.verdict([name.partition("=")[0] for name in one.faults]), "said")
            if self.exposes(one)
            else Found(one, "inconclusive", "did not bite")
            for one in scenarios
        ]
        self.asked += scenarios
        self.random.shuffle(ended)  # as workers end, in no order
        for one in ended:
            keep(one)
            yield one

    def search(self, **more):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(searching, "_run", self.run)
            patch.setattr(searching, "_warm", lambda *_, **__: nullcontext())
            patch.setattr(searching.parallel, "mortal_workers", lambda _: nullcontext())
            patch.setattr(searching, "_names", lambda *_: ({name: list(NAMES) for name in LAYERS}, set()))
            more = {"max_faults": 3, "budget": 10**6, **more}
            return searching.explore(SESSION, only_layers=self.layers, seconds=lambda: 0.0, workers=1, **more)


SETS = st.lists(st.sets(st.sampled_from(NAMES), min_size=1, max_size=3), max_size=4)


@settings(max_examples=15)
@given(exposing=SETS, clashing=st.lists(st.sets(st.sampled_from(NAMES), min_size=2, max_size=2), max_size=2))
def test_it_is_sound_and_complete(exposing, clashing):
    world = World(exposing, clashing)
    found = world.search()
    every = [set(s) for size in range(4) for s in itertools.combinations(NAMES, size) if world.verdict(s) == "exposed"]
    minimal = {frozenset(one) for one in every if not any(other < one for other in every)}
    assert {frozenset(one.scenario.faults) for one in found.minimal} == minimal
    assert found.complete_up_to == 3
    assert len(world.asked) == len(set(world.asked)) == found.tried == found.ran


@settings(max_examples=10)
@given(
    windows=st.dictionaries(
        st.sampled_from(["suspended", "finalizer"]),
        st.tuples(st.none() | st.integers(0, 30_000), st.none() | st.integers(1, 2000)),
    ),
    budget=st.integers(50, 400),
)
def test_times_are_shrunk_to_the_second(windows, budget):
    """Both ends of each fault's stretch, as far as the budget goes."""
    world = World([{"suspended", "finalizer"}])
    world.windows = {
        name: (first, None if last is None else last + (first or 0)) for name, (first, last) in windows.items()
    }
    found = world.search(times=True)
    (one,) = found.minimal
    horizon = searching._horizon_s(SESSION.kill_path, SESSION.kill_path.layer(LAYERS[0]))
    for when in one.when:
        first, last = world.windows.get(when.fault, (None, None))
        late = None if first is None else min(first, horizon)
        soon = None if last is None or last > horizon else max(last, (late or 0) + 1)
        assert (when.struck_s, when.lifted_s) == (late, soon), when
    assert world.exposes(one.replayed)
    assert (found.timeless, found.ran) == (0, len(set(world.asked)))
    few = world.search(times=True, budget=budget)
    assert (few.minimal[0].when is None) is bool(few.timeless) is (budget < found.ran)


def test_a_clash_is_in_no_larger_set():
    world = World(clashing=[{"image-gone", "suspended"}])
    found = world.search()
    assert found.refused == 1
    assert found.complete_up_to == 3


@pytest.mark.parametrize(
    ("world", "more", "most"),
    [
        (World(doubtful=[{"suspended"}]), {}, 0),
        (World(doubtful=[{"suspended", "finalizer"}]), {}, 1),
        (World(), {"budget": 10}, 1),
        (World(), {"budget": 5}, 0),
        (World(doubtful=[()]), {}, None),
        (World(exposing=[()]), {}, 3),  # it never works, which is all there is to say
    ],
    ids=["one fault", "a pair", "budget of some pairs", "budget of some faults", "undisturbed", "exposed undisturbed"],
)
def test_it_says_up_to_how_many_faults_it_is_complete(world, more, most):
    found = world.search(**more)
    assert found.complete_up_to == most
    assert any("Complete up to" in line for line in _coverage(found)) is bool(most)


def test_no_layer_waits_for_another():
    """All single faults come before any pair, and the pairs that there is room for are of each layer alike."""
    world = World(layers=LAYERS)
    found = world.search(budget=14 + 8)
    sizes = [len(one.faults) for one in world.asked]
    assert sizes == sorted(sizes)
    counts = [sum((one.layer, len(one.faults)) == (layer, 2) for one in world.asked) for layer in LAYERS]
    assert counts == [4, 4]
    assert found.left[2] == 2 * 15 - 8
    said = [(one.layer, one.tried, one.sets) for one in found.covered if one.size == 2]
    assert said == [(layer, 4, 15) for layer in LAYERS]


@given(seed=st.integers(0, 9))
@settings(max_examples=10)
def test_it_does_not_depend_on_who_is_first(seed):
    exposing = [{"image-gone", "suspended"}, {"finalizer"}]
    one, other = (World(exposing, layers=LAYERS, seed=n).search(budget=30) for n in (0, seed))
    assert one.to_json() == other.to_json()


def test_it_goes_on_from_a_file(tmp_path):
    exposing = [{"image-gone", "suspended"}, {"token-dead", "finalizer", "pool-floor"}]
    whole = World(exposing, layers=LAYERS).search()
    file, ran = tmp_path / "tree.jsonl", []
    for _ in range(99):
        with Kept.of(file, SESSION) as kept:
            found = World(exposing, layers=LAYERS).search(budget=20, known=kept.known, keep=kept)
        ran.append(found.ran)
        file.write_text(file.read_text() + '{"layer": "night')  # killed while it wrote
        if not any(found.left.values()):
            break
    assert sum(ran) == whole.ran
    assert len(ran) == -(-whole.ran // 20)
    assert {one.scenario for one in found.minimal} == {one.scenario for one in whole.minimal}
    assert found.to_json()["coverage"] == whole.to_json()["coverage"]


def _explored_in_parts(folder, worlds, parts, faults):
    """Each part goes as far as it gets by what the others kept, round after round; returns what each round was."""
    rounds = []
    for _ in range(faults):
        found = []
        for part, world in enumerate(worlds, 1):
            with Kept.of(folder / str(part) / "tree.jsonl", SESSION) as kept:
                known = kept_elsewhere([folder], SESSION) | kept.known
                found.append(world.search(known=known, keep=kept, part=(part, parts), max_faults=faults))
        rounds.append(found)
        if not any(one.elsewhere for one in found):
            break
    return rounds


def test_its_parts_find_together_what_one_search_finds(tmp_path):
    exposing = [{"finalizer"}, {"image-gone", "suspended"}, {"token-dead", "pool-floor", "registry-unreachable"}]
    whole = World(exposing, layers=LAYERS).search(max_faults=3)
    worlds = [World(exposing, layers=LAYERS) for _ in range(3)]
    for part in (1, 2, 3):
        (tmp_path / str(part)).mkdir()
    rounds = _explored_in_parts(tmp_path, worlds, 3, 3)
    assert rounds[0][0].elsewhere.keys() == {2}  # sets of three wait until those of two are known
    together = World(exposing, layers=LAYERS).search(budget=0, known=kept_elsewhere([tmp_path], SESSION), max_faults=3)
    assert together.to_json()["coverage"] == whole.to_json()["coverage"]
    assert {one.scenario for one in together.minimal} == {one.scenario for one in whole.minimal}
    assert not any(together.left.values())
    told = [one.scenario for found in rounds[-1] for one in found.minimal]
    assert sorted(told) == sorted(one.scenario for one in whole.minimal)  # each by one part alone
    tried = [{one for one in world.asked if len(one.faults) > 1} for world in worlds]
    assert all(tried)
    assert not any(one & other for one, other in itertools.combinations(tried, 2))


def test_what_is_kept_of_something_else_is_refused(tmp_path):
    file = tmp_path / "tree.jsonl"
    with Kept.of(file, SESSION):
        pass
    with pytest.raises(SessionError, match="another spec, other manifests"):
        Kept.of(file, Session(fixture="dead-man"))
    file.write_text("a note of mine\n")
    with pytest.raises(SessionError, match="name another file"):
        Kept.of(file, SESSION)
    assert file.read_text() == "a note of mine\n"


FORGED = {
    "another machine": lambda lines: lines,
    "a line more": lambda lines: [*lines, lines[-1].replace('"finalizer"', '"token-dead"')],
    "a verdict": lambda lines: [line.replace('"exposed"', '"survived"') for line in lines],
    "the first taken out": lambda lines: [lines[0], *lines[2:]],
}


@pytest.mark.parametrize("what", FORGED)
def test_what_this_machine_did_not_find_is_not_believed(tmp_path, monkeypatch, what):
    """A checkout can bring a file in which nothing exposes."""
    file, found = (
        tmp_path / "t",
        [Found(Scenario("nightly-off", names), "exposed", "w") for names in ((), ("finalizer",))],
    )
    with monkeypatch.context() as patch:
        if what == "another machine":
            patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        with Kept.of(file, SESSION) as kept:
            for one in found:
                kept(one)
    file.write_text("\n".join(FORGED[what](file.read_text().splitlines())) + "\n")
    before = file.read_text()
    if what == "another machine":
        with pytest.raises(SessionError, match="this machine did not seal it"):
            Kept.of(file, SESSION)
        assert file.read_text() == before
        return
    with Kept.of(file, SESSION) as kept:
        assert set(kept.known.values()) <= set(found)
        assert len(kept.known) == (2 if what == "a line more" else 0)


def test_what_the_machine_ended_is_tried_again(tmp_path):
    with Kept.of(tmp_path / "t", SESSION) as kept:
        kept(Found(Scenario("nightly-off", ("suspended",)), "inconclusive", "its process died", died=True))
        kept(Found(Scenario("nightly-off", ()), "survived", "why"))
    with Kept.of(tmp_path / "t", SESSION) as kept:
        assert list(kept.known) == [Scenario("nightly-off", ())]


def test_a_replay_names_everything_that_was_named(tmp_path):
    """Without --exec nothing of one's own runs in a drill, and it would prove nothing."""
    spec, chart = tmp_path / "killcheck.yaml", tmp_path / "a chart"
    spec.write_text(SESSION.spec_file.read_text())
    session = Session(spec=spec, manifests=(chart,), values=(tmp_path / "v.yaml",), sets=("a=b",), exclude=("old/",))
    given_all = ["--manifests", str(chart), "--values", str(tmp_path / "v.yaml"), "--set", "a=b", "--exclude", "old/"]
    assert _named(session) == [str(spec), *given_all, "--exec", "host"]
    session.exec_mode = "unisolated"
    assert _named(session)[-2:] == ["--exec", "unisolated"]
    assert _named(SESSION) == ["--example", "two-switches"]
