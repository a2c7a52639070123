"""Many nights as one story: what is told is what the generator of the nights knows."""

import json
import os
import random
import statistics
from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from nights_made import BEGIN, LIMIT_S, line, record, write

from killcheck.cli import main
from killcheck.cloud.session import Aws
from killcheck.history import index
from killcheck.history.index import History, gather
from killcheck.history.metrics import metrics
from killcheck.history.nights import Night, Unreadable, read
from killcheck.history.places import Folder, PlaceError, place_of
from killcheck.history.series import DAY_S, Stand, told
from killcheck.history.words import ages, sentence

BEFORE = {"CronJob/ml/off": {"schedule": "0 3 * * *", "images": "a:1"}, "Role/ml/off": {"rules": "0123456789ab"}}
AFTER = {"CronJob/ml/off": {"schedule": "0 9 * * *", "images": "a:1"}, "Role/ml/off": {"rules": "ba9876543210"}}


def story(folder, day, *, stale_after=30, index_in=None):
    return told(
        gather([Folder(folder)], index_in),
        now=(BEGIN + timedelta(days=day)).timestamp(),
        stale_after_s=stale_after * DAY_S,
    )


def year(seed):
    """A year of one layer under two faults: (records, what is true of each)."""
    drawn = random.Random(seed)
    made, truth = [], {}
    for faults in ((), ("image-gone",)):
        broke = drawn.randrange(30, 300)
        mended = broke + drawn.randrange(1, 40) if drawn.random() < 0.6 else 400
        seconds = []
        for day in range(365):
            bad = broke <= day < mended
            zero = 5.0 + day / 30 * 0.6 + drawn.choice((0, 0, 0.4, -0.4))
            objects = AFTER if day >= broke else BEFORE
            night = record(day, "exposed" if bad else "survived", zero=zero, usd=200.0, objects=objects, faults=faults)
            made.append(night)
            seconds += [] if bad else [zero]
        truth[faults] = (broke, mended, seconds)
    return made, truth


@pytest.mark.parametrize("seed", [0, 1])  # one of each: mended, and exposed still
def test_a_year_of_nights_reads_right(tmp_path, seed):
    made, truth = year(seed)
    found = story(write(tmp_path, *made), 365)
    assert found.runs == 730
    assert {one.last.faults for one in found.series} == set(truth)
    for one in found.series:
        broke, mended, seconds = truth[one.last.faults]
        assert one.to_zero.nights == len(seconds)
        assert one.to_zero.median_s == pytest.approx(statistics.median(seconds))
        assert one.to_zero.p95_s in seconds
        assert one.to_zero.per_month_s == pytest.approx(0.6, abs=0.1)
        (found_break,) = one.breaks
        assert found_break.after.run == record(broke, faults=one.last.faults)[0]
        assert found_break.before.run == record(broke - 1, faults=one.last.faults)[0]
        assert found_break.changes == ("CronJob/ml/off: schedule 0 3 * * * -> 0 9 * * *", "Role/ml/off: rules changed")
        assert one.stand is (Stand.PROVEN if mended < 365 else Stand.EXPOSED)
        assert (found_break.mended is None) == (mended >= 365)
    exposed = [one for one in found.series if one.stand is Stand.EXPOSED]
    assert found.at_risk_usd == 200.0 * len(exposed)


STANDINGS = st.sampled_from(["survived", "covered", "exposed", "accepted", "inconclusive", "unfinished"])


@given(st.lists(st.tuples(STANDINGS, st.booleans()), min_size=1, max_size=30), st.integers(0, 60))
def test_what_is_told_as_proven_was_proven_last_and_lately(nights, later):
    made = tuple(
        Night(f"r{day}", day * DAY_S, "p", "c", "l", (), "", standing, dirty=dirty)
        for day, (standing, dirty) in enumerate(nights)
    )
    now = (len(nights) - 1 + later) * DAY_S
    (one,) = told(History(made), now=now, stale_after_s=30 * DAY_S).series
    standing, dirty = nights[-1]
    assert (one.stand is Stand.PROVEN) == (standing in ("survived", "covered") and not dirty and later <= 30)
    assert (one.stand is Stand.EXPOSED) == (dirty or standing == "exposed")
    for found in one.breaks:
        between = made[made.index(found.before) + 1 : made.index(found.after)]
        assert found.before.proven
        assert not any(night.proven or night.standing == "exposed" for night in between)
    if one.last_proven is None:
        assert one.mean_age_s is None
    else:
        assert 0 <= one.mean_age_s <= now + 1


def test_the_age_of_a_proof_is_averaged_over_time():
    nights = [Night(f"r{day}", day * DAY_S, "p", "c", "l", (), "", "survived") for day in (0, 10)]
    (one,) = told(History(tuple(nights)), now=20 * DAY_S, stale_after_s=DAY_S).series
    assert one.mean_age_s == pytest.approx(5 * DAY_S)


def test_what_was_never_proven_has_no_proof_of_any_age():
    never = Night("r0", 0.0, "p", "c", "l", (), "", "inconclusive")
    alone = told(History((never,)), now=DAY_S, stale_after_s=DAY_S)
    assert ages(alone) == "no night has proven anything"
    assert "killcheck_proof_mean_age_seconds{" not in metrics(alone)
    beside = Night("r0", 0.0, "p", "c", "other", (), "", "survived")
    both = told(History((never, beside)), now=2 * DAY_S, stale_after_s=DAY_S)
    assert ages(both) == "a proof was 1.0 days old on average, 1 drill(s) were never proven"


def test_the_day_on_which_a_trend_meets_its_deadline(tmp_path):
    made = [record(day, zero=100.0 + day) for day in range(101)]
    (one,) = story(write(tmp_path, *made), 101).series
    assert one.to_zero.per_month_s == pytest.approx(30)
    assert one.deadline_in_s == pytest.approx((LIMIT_S - 201) * DAY_S, rel=1e-3)


@pytest.mark.parametrize("cut", [{"finished": False}, {"begun": False}])
def test_a_record_cut_short_proves_nothing(tmp_path, cut):
    (one,) = story(write(tmp_path, record(0), record(1, **cut)), 1).series
    assert (one.last.standing, one.stand) == ("unfinished", Stand.INCONCLUSIVE)


def test_a_night_says_until_when_somebody_vouched_and_is_one_line(tmp_path):
    night = record(0, rests_until="2026-01-31", layer="of\nf", cause="a\n\x1b[2Jb")
    (found,) = read(night[1].splitlines(), "here").nights
    assert (found.layer, found.cause) == ("of f", "a b")
    assert f"{found.until:.0f}" == "1769904000"  # 2026-02-01, midnight in UTC


def test_a_snapshot_that_is_missing_is_said_and_not_taken_for_no_change(tmp_path):
    (one,) = story(write(tmp_path, record(0, objects=BEFORE), record(1, "exposed")), 1).series
    assert one.breaks[0].changes is None
    (one,) = story(write(tmp_path, record(1, "exposed", objects=BEFORE)), 1).series
    assert one.breaks[0].changes == ()


@pytest.mark.parametrize(
    "text", ["", "no json\n", '{"event":"Noted","at":"2026-01-01T00:00:00Z","text":"x"}\n', "[1]\n", '{"event":1}\n']
)
def test_what_is_no_record_is_told_and_passed_over(tmp_path, text):
    with pytest.raises(Unreadable, match="not a"):
        read(text.splitlines(), "here")
    found = story(write(tmp_path, record(0), ("bad", text)), 0)
    assert [one.stand for one in found.series] == [Stand.PROVEN]
    # What it would say is not known.
    assert (found.runs, found.stand, len(found.unreadable)) == (1, Stand.INCONCLUSIVE, 1)
    assert "bad/run.jsonl" in found.unreadable[0]


def test_what_may_not_be_read_stops_nothing_and_leaves_nothing_proven(tmp_path, monkeypatch):
    folder = write(tmp_path, record(0), record(1))
    name = f"runs/{record(1)[0]}/run.jsonl"
    whole = Folder.lines

    def refused(place, asked):
        if asked == name:
            raise PlaceError(f"{place.where(asked)}: permission denied")
        return whole(place, asked)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "lines", refused)
        found = story(folder, 1, index_in=tmp_path / "index")
        assert (found.runs, found.stand) == (1, Stand.INCONCLUSIVE)
        assert found.unreadable == (f"{folder / name}: permission denied",)
    assert story(folder, 1, index_in=tmp_path / "index").stand is Stand.PROVEN


def test_a_folder_that_cannot_be_listed_is_told_and_passed_over(tmp_path, monkeypatch):
    folder = write(tmp_path, record(0), record(1))
    locked, scandir = str(folder / "runs" / record(1)[0]), os.scandir

    def refused(path):
        if str(path) == locked:
            raise PermissionError(13, "Permission denied", locked)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    found = story(folder, 1)
    assert (found.runs, found.stand, found.unreadable) == (1, Stand.INCONCLUSIVE, (f"{locked}: permission denied",))


def test_a_night_that_is_to_come_proves_nothing(tmp_path):
    found = story(write(tmp_path, record(0, "exposed"), record(400)), 1)
    assert [one.stand for one in found.series] == [Stand.EXPOSED]
    alone = story(write(tmp_path / "alone", record(400)), 1)
    assert (alone.stand, alone.series) == (Stand.INCONCLUSIVE, ())
    assert "which is to come" in alone.unreadable[0]


@pytest.mark.parametrize(
    ("standing", "before", "after"),
    [("accepted", Stand.ACCEPTED, Stand.EXPOSED), ("survived", Stand.PROVEN, Stand.STALE)],
)
def test_what_somebody_vouched_for_holds_until_its_last_day(standing, before, after):
    night = Night("r", 0.0, "p", "c", "l", (), "", standing, until=1.5 * DAY_S)
    found = [told(History((night,)), now=day * DAY_S, stale_after_s=9 * DAY_S).stand for day in range(3)]
    assert found == [before, before, after]


@pytest.mark.parametrize("first", ["a", "b"])
def test_of_two_tellings_of_one_night_the_worse_counts_and_a_cut_copy_hides_nothing(tmp_path, first):
    """Also where nobody sealed them, and whichever is read first."""
    text = record(1, "exposed", usd=10.0)[1]
    for name, said in ((first, text), ({"a": "b", "b": "a"}[first], text.partition('{"event": "DrillFin')[0])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.jsonl").write_text(said)
    found = story(tmp_path, 1)
    assert (found.stand, found.at_risk_usd, found.runs) == (Stand.EXPOSED, 10.0, 1)


def test_what_was_left_out_by_the_time_is_told(tmp_path):
    history = gather([Folder(write(tmp_path, record(0, "exposed", layer="weekend"), record(90)))], None)
    now = (BEGIN + timedelta(days=91)).timestamp()
    found = told(history, now=now, stale_after_s=30 * DAY_S, since=now - 7 * DAY_S)
    assert [one.stand for one in found.series] == [Stand.PROVEN]
    assert (found.stand, found.earlier) == (Stand.INCONCLUSIVE, (Stand.EXPOSED,))
    assert sentence(found) == "Of 1 drill(s): 1 proven. 1 more drill(s) had no night in that time; 1 stood exposed."


def sentence_of(lines):
    """Why they are no record; None where they are one."""
    try:
        read(lines, "here")
    except Unreadable as error:
        return str(error)
    return None


@given(st.text(max_size=60), st.integers(1, 4))
def test_a_broken_line_ends_in_one_sentence(text, number):
    lines = record(0)[1].splitlines()
    lines[number] = f'{{"event":"DrillFinished",{text}'
    found = sentence_of(lines)
    assert found is None or found.startswith("here:")


# -- the index ---------------------------------------------------------------------------------------------
def test_a_record_is_read_again_only_when_it_has_changed(tmp_path, monkeypatch):
    folder, kept = write(tmp_path / "runs", record(0), record(1)), tmp_path / "index"
    first = story(folder, 1, index_in=kept)
    seen = []
    monkeypatch.setattr(index, "read", lambda lines, where, keys: (seen.append(where), read(lines, where, keys))[1])
    assert story(folder, 1, index_in=kept) == first
    assert seen == []
    write(folder, record(1, "exposed", cause="a longer text than before"))
    assert story(folder, 1, index_in=kept).stand is Stand.EXPOSED
    assert len(seen) == 1
    next((folder / "runs").glob("run-00001*/run.jsonl")).unlink()
    assert story(folder, 1, index_in=kept).runs == 1


def test_an_index_that_is_broken_is_made_anew(tmp_path):
    folder, kept = write(tmp_path / "runs", record(0)), tmp_path / "index"
    first = story(folder, 0, index_in=kept)
    (file,) = kept.glob("*.sqlite")
    file.write_bytes(b"no database at all, and long enough to be read as one" * 40)
    assert story(folder, 0, index_in=kept) == first
    assert story(folder, 0, index_in=tmp_path / "runs" / "runs" / record(0)[0] / "run.jsonl") == first


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    write(tmp_path / "elsewhere", record(1))
    folder = write(tmp_path / "here", record(0))
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    assert (story(folder, 1).runs, story(folder, 1).unreadable) == (1, ())
    (folder / "run.jsonl").symlink_to(next((tmp_path / "elsewhere").rglob("run.jsonl")))
    assert story(folder, 1).unreadable == (f"{folder / 'run.jsonl'}: is a link, or no file: it is not read",)


def test_a_place_that_is_none_is_one_sentence(tmp_path):
    for named in (str(tmp_path / "absent"), "gs://bucket/x", "s3://"):
        with pytest.raises(PlaceError, match="expected"):
            list(place_of(named, Aws()).listed())


# -- the command -------------------------------------------------------------------------------------------
def history(*argv):
    done = CliRunner().invoke(main, ["history", *map(str, argv)])
    return done.exit_code, done.output


@pytest.fixture
def lately(tmp_path, monkeypatch):
    """A folder whose newest night was yesterday, by the clock that the command reads."""
    from killcheck import clock

    monkeypatch.setattr(clock, "wall_now", lambda: BEGIN + timedelta(days=12))
    return tmp_path / "nights"


@pytest.mark.parametrize(
    ("nights", "code", "words"),
    [
        ([record(11)], 0, "1 proven"),
        ([record(11, "exposed", accepted={"owner": "a", "reason": "b", "until": ""})], 0, "1 accepted"),
        ([record(10), record(11, "exposed", usd=123.0, cause="no image")], 1, "1 exposed ($123.00"),
        ([record(11, problems=["left"])], 1, "1 exposed"),
        ([record(11, "inconclusive")], 3, "1 inconclusive"),
        ([record(1)], 3, "1 not proven for 7 days"),
        ([], 3, "nothing is proven"),
    ],
)
def test_the_exit_code_says_how_it_stands(lately, nights, code, words):
    lately.mkdir()
    found, out = history(write(lately, *nights), "--stale-after", "7d")
    assert (found, words in out) == (code, True), out


def test_every_form_says_the_same_also_of_a_folder_whose_name_is_no_utf_8(lately):
    folder = write(
        lately / os.fsdecode(b"\xff"),
        record(9, objects=BEFORE),
        record(11, "exposed", usd=50.0, objects=AFTER, cause="late"),
    )
    code, out = history(folder, "--json")
    document = json.loads(out)
    (one,) = document["series"]
    assert (code, document["stand"], one["at_risk_usd"], len(one["breaks"][0]["changes"])) == (1, "exposed", 50.0, 2)
    _, text = history(folder)
    _, html = history(folder, "--html", "-")
    _, prometheus = history(folder, "--prometheus", "-")
    _, badge = history(folder, "--badge", "-")
    for told_in in (text, html):
        assert "schedule 0 3 * * *" in told_in
        assert "$50.00" in told_in
    labels = '{kill_path="llm",cluster="staging",layer="nightly-off",faults="",night=""'
    proven = (BEGIN + timedelta(days=9, minutes=5)).timestamp()
    assert f"killcheck_last_proven_timestamp_seconds{labels}}} {proven:.0f}\n" in prometheus
    assert f'killcheck_stand{labels},stand="exposed"}} 1\n' in prometheus
    assert "kill path: exposed" in ET.fromstring(badge).attrib["aria-label"]


def test_only_some(lately):
    folder = write(lately, record(1, layer="old"), record(11), record(11, "exposed", layer="weekend"))
    assert history(folder, "--layer", "nightly-off")[0] == 0
    assert history(folder, "--since", "3d", "--json")[1].count('"stand": "') == 3
    code, out = history(folder, "--layer", "weekends")
    assert (code, "did you mean weekend?" in out) == (2, True)


def test_what_a_record_says_is_text_on_a_page(lately):
    _, html = history(
        write(lately, record(11, "exposed", cause="<script>alert(1)</script>", layer="<b>")), "--html", "-"
    )
    assert "<script>" not in html
    assert "<b>" not in html


def test_a_mark_of_a_line_inside_another_is_no_event():
    found = read([*record(0)[1].splitlines(), line("Noted", BEGIN, text='"DrillFinished"')], "here")
    assert len(found.nights) == 1
