"""Faults of what is outside Kubernetes, on the embedded machine: each bites, is told for what it is, and goes again."""

from __future__ import annotations

import fcntl
import os
import shutil

import pytest

from killcheck import events, faults, fixtures, layers
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.cluster.equipment import equip
from killcheck.drill.sequence import Drill, Options
from killcheck.faults.shipped import MACHINE
from killcheck.run.session import Session
from killcheck.run.which_night import night
from killcheck.safety.journal import Journal
from killcheck.spec import specfile
from killcheck.spec.killpath import Command

KINDS = {kind.name: kind for kind in MACHINE}
#: How remedies begin that mend the kill path itself.
MENDS_THE_PATH = (
    "let a second machine",
    "give it a time limit",
    "see what it counts as use",
    "let the program's minimum",
)
#: Of the daily cycle: verdict, who turned it off, a part of the cause (or of the reason).
CYCLE = {
    "script-gone": ("covered", "idle-monitor", "its own timer went off"),
    "script-not-executable": ("covered", "idle-monitor", "its own timer went off"),
    "cli-gone": ("exposed", "", "gcloud: command not found"),
    "cli-denied": ("exposed", "", "PERMISSION_DENIED (403)"),
    "credentials-expired": ("exposed", "", "Reauthentication failed"),
    "credentials-gone": ("exposed", "", "active account"),
    "cli-throttled": ("exposed", "", "Quota exceeded"),
    "cloud-unreachable": ("exposed", "", "Network is unreachable"),
    "cli-hangs": ("exposed", "", "took longer than 300 s and was stopped"),
    "cli-no-effect": ("exposed", "", "STOP FAILED: yoyo-batch is RUNNING"),
    "timer-stopped": ("covered", "idle-monitor", "its own timer went off"),
    "machine-off": ("exposed", "", "the machine is off when the slot comes"),
    "machine-asleep": ("survived", "daily-cycle", "ran from 02:30:01"),
    "clock-behind": ("exposed", "", "its slot comes 67 min late"),
    "reclaimed-while-stopping": ("covered", "idle-monitor", "its own timer went off"),
    "second-controller": ("covered", "idle-monitor", "its own timer went off"),
}
#: Of machines that are rented one by one; it has a box that is stopped and started.
FLEETS = {"work-piles-up", "offers-gone", "orchestrator-dead"}
#: Its stop takes no lock and writes nothing: they are in place, and it does not meet them.
UNMET = {"lock-stale", "lock-held", "disk-read-only", "disk-full"}
#: Of the idle monitor where that is another story.
MONITOR = {
    "cli-no-effect": ("exposed", "", "or what it asked for had no effect"),
    "machine-asleep": ("survived", "idle-monitor", "ran from 13:05:03"),
    "clock-behind": ("exposed", "", "the machine's clock says"),
    "second-controller": ("survived", "idle-monitor", "its own timer went off"),
    "reclaimed-while-stopping": ("survived", "idle-monitor", "its own timer went off"),
    "never-idle": ("exposed", "", "and left it on"),
}


class MachineWorld:
    """The reference path's machine; ``change`` edits a copy of its folder first."""

    def __init__(self, folder, layer="daily-cycle", change=lambda path: None):
        shutil.copytree(fixtures.path("single-controller"), folder)
        change(folder)
        self.kill_path = specfile.load(folder / "killcheck.yaml")
        self.layer = self.kill_path.layer(layer)
        session = Session(spec=folder / "killcheck.yaml", exec_mode="host")
        from killcheck.run.planned import PlannedDrill

        self.cluster = EmbeddedDrillCluster(
            [], exec_mode="host", start=night(session.kill_path, session.objects, PlannedDrill(layer))
        )
        equip(self.cluster, self.kill_path, allowed=True)
        self.machine = self.cluster.machine
        self.seen = []

    def drill(self, *kinds, watch_s=3900.0):
        journal = Journal(
            "20260115-030001-abc123-0", self.cluster.loop, self.cluster.kube, capabilities=self.cluster.capabilities
        )
        return Drill(
            self.cluster,
            self.kill_path,
            self.layer,
            [kind() for kind in kinds],
            run="20260115-030001-abc123-0",
            journal=journal,
            sink=self.seen.append,
            price=lambda kind: 0.71,
            options=Options(horizon_s=watch_s),
        ).run()

    def picture(self):
        """What is wrong with the machine, its timers and its files."""
        timers = self.machine.timers
        files = sorted(
            str(p.relative_to(self.machine.path("/srv/foundry/data")))
            for p in self.machine.path("/srv/foundry/data").rglob("*")
        )
        return (
            dict(self.machine.stand_ins),
            dict(self.machine.lost),
            self.machine.read_only,
            timers.behind_s,
            timers.away_s,
            self.machine.full,
            {name: kept.stopped for name, kept in timers.kept.items()},
            files,
            self.machine.path("/var/lib/machine/yoyo-batch.status").read_text(),
        )


@pytest.fixture
def world(tmp_path):
    made = []

    def make(*args, **more):
        made.append(MachineWorld(tmp_path / f"path-{len(made)}", *args, **more))
        return made[-1]

    yield make
    for one in made:
        one.cluster.close()


#: Of fleets that are rented: tests/layers/test_markets.py.
MARKETS = {"work-piles-up", "offers-gone", "orchestrator-dead"}


def test_nothing_is_missing_from_the_table():
    assert set(CYCLE) | UNMET | {
        "sentinel-lost",
        "never-idle",
        "work-comes",
        "kubeconfig-ended",
        *MARKETS,
    } == set(KINDS)


@pytest.mark.parametrize("name", sorted(UNMET))
@pytest.mark.one_in(4)
def test_what_is_in_place_and_met_by_nobody_is_told_so(world, name):
    made = world()
    result = made.drill(KINDS[name])
    assert (str(result.verdict), result.off_by) == ("survived", "daily-cycle"), result.why
    assert ("no look at it was seen" if "lock" in name else "said nothing of it") in result.bites[name]
    assert result.problems == ()
    assert not [name for name in made.picture()[7] if "aside" in name or "lock" in name]


def _scales_for_work(folder):
    """The monitor also starts the machine when work has come since it last looked."""
    script = folder / "yoyo-idle-monitor.sh"
    work, seen = "/srv/foundry/data/yoyo-last-request", "/srv/foundry/data/yoyo-seen"
    started = f"if [ -e {work} ] && ! cmp -s {work} {seen}; then cp {work} {seen}; {START}; exit 0; fi"
    head, _, rest = script.read_text().partition("\n")
    script.write_text(f"{head}\n{started}\n{rest}")


START = "gcloud compute instances start yoyo-batch --zone=europe-west4-a --quiet"


@pytest.mark.parametrize("grows", [False, True], ids=["nobody-starts-it", "a-scaler-starts-it"])
@pytest.mark.one_in(2)
def test_work_that_comes_after_the_stop_shows_who_starts_for_it(world, grows):
    made = world(**({"change": _scales_for_work} if grows else {}))
    made.machine.run(made.kill_path.targets[0].start)
    result = made.drill(KINDS["work-comes"])
    assert "yoyo-last-request" in result.bites["work-comes"], result.why
    assert result.problems == ()
    # What the monitor starts for work it stops again when it is idle.
    assert str(result.verdict) == ("covered" if grows else "survived"), (result.why, result.cause)


def test_work_that_could_not_be_brought_proves_nothing_and_says_so(world):
    made = world(change=lambda folder: _edit(folder, "date +%s > /srv/foundry/data/yoyo-last-request", "exit 3"))
    made.machine.run(made.kill_path.targets[0].start)
    result = made.drill(KINDS["work-comes"], watch_s=1200.0)
    assert str(result.verdict) == "inconclusive"
    assert "did not bite: the request failed" in result.why


def _edit(folder, old, new):
    spec = folder / "killcheck.yaml"
    spec.write_text(spec.read_text().replace(old, new))


@pytest.mark.parametrize("name", CYCLE)
@pytest.mark.one_in(4)
def test_it_bites_is_seen_for_what_it_is_and_heals(world, name):
    made = world()
    made.machine.run(made.kill_path.targets[0].start)
    before = made.picture()
    result = made.drill(KINDS[name])
    verdict, off_by, words = CYCLE[name]
    assert list(result.bites) == [name], result.why
    assert (str(result.verdict), result.off_by) == (verdict, off_by), (result.why, result.cause)
    assert words in (result.cause or result.why)
    if verdict == "exposed":
        assert set(result.failures) & set(KINDS[name].failures), (result.failures, result.cause)
        assert result.remedy.startswith((f"to survive {name}: ", *MENDS_THE_PATH))
    assert result.problems == ()
    (healed,) = [event for event in made.seen if isinstance(event, events.Healed)]
    assert healed.steady_again
    made.cluster.loop.run_until(lambda: False, 5.0)
    assert made.picture() == before


@pytest.mark.parametrize("name", MONITOR)
@pytest.mark.weekly
def test_an_idle_monitor_meets_it_too(world, name):
    result = world("idle-monitor").drill(KINDS[name])
    verdict, off_by, words = MONITOR[name]
    assert list(result.bites) == [name], result.why
    assert (str(result.verdict), result.off_by) == (verdict, off_by), (result.why, result.cause)
    assert words in (result.cause or result.why)
    assert result.problems == ()


@pytest.mark.parametrize("name", CYCLE)
@pytest.mark.one_in(8)
def test_without_teeth_it_proves_nothing(world, name):
    class Toothless(KINDS[name]):
        """Its injection does nothing."""

        def inject(self, stage, layer):
            return ["nothing"]

        def react(self, stage, layer):
            return None

    result = world().drill(Toothless, watch_s=60.0)
    assert str(result.verdict) == "inconclusive"
    assert result.bites == {}
    assert "did not bite" in result.why


def test_a_sentinel_that_does_not_last_holds_nobody_back(world):
    made = world("kill-switch")
    made.machine.run(made.kill_path.targets[0].start)
    before = made.picture()
    result = made.drill(KINDS["sentinel-lost"], watch_s=600.0)
    assert str(result.verdict) == "exposed"
    assert "corpus-threshold.py started yoyo-batch once /srv/foundry/data/yoyo-disabled was gone" in result.cause
    assert list(result.bites) == ["sentinel-lost"]
    assert result.problems == ()
    assert made.picture() == before


def test_a_sentinel_that_nothing_takes_away_is_no_fault(world):
    class Toothless(KINDS["sentinel-lost"]):
        """It removes nothing."""

        def react(self, stage, layer):
            return None

    result = world("kill-switch").drill(Toothless, watch_s=600.0)
    assert str(result.verdict) == "inconclusive"
    assert "did not bite" in result.why


# -- what makes the difference -----------------------------------------------------------------------------
@pytest.mark.weekly
def test_a_timer_that_is_persistent_makes_up_for_the_night_the_machine_was_off(world, edited):
    def persistent(path):
        edited(path / "yoyo-daily.timer", "Persistent=false", "Persistent=true")
        edited(path / "killcheck.yaml", "  instanceGone: 45m", "  instanceGone: 70m")

    result = world(change=persistent).drill(KINDS["machine-off"], watch_s=5400.0)
    assert (str(result.verdict), result.off_by) == ("survived", "daily-cycle"), result.why
    assert "ran from 03:00:01" in result.why


def test_what_no_unit_is_known_of_makes_up_for_nothing(world):
    def a_crontab(path):
        (path / "yoyo-daily.timer").unlink()
        (path / "yoyo-idle-monitor.timer").unlink()

    result = world(change=a_crontab).drill(KINDS["machine-asleep"], watch_s=2000.0)
    assert str(result.verdict) == "exposed"
    assert "asleep when the slot comes" in result.cause


@pytest.mark.parametrize(
    ("guard", "name"),
    [
        ("exec 8> /srv/foundry/data/stop.lock\nflock 8\n", "lock-held"),
        ('if [ -e /srv/foundry/data/stop.pid ]; then log "already at work"; exit 0; fi\n', "lock-stale"),
        ("mkdir /srv/foundry/data/stop.lock || exit 1\n", "lock-stale"),
        # Without a word: that it looked is seen all the same.
        ("exec 8> /srv/foundry/data/stop.lock\nflock -n 8 || exit 0\n", "lock-held"),
        ("[ ! -e /srv/foundry/data/stop.pid ] || exit 0\n", "lock-stale"),
    ],
)
@pytest.mark.one_in(6)
def test_a_stop_that_waits_for_a_lock_is_found(world, edited, guard, name):
    def first(path):
        edited(path / "yoyo-daily-cycle.sh", "stop() {\n", f"stop() {{\n{guard}")

    result = world(change=first).drill(KINDS[name], watch_s=700.0)
    assert str(result.verdict) == "exposed"
    assert result.problems == ()


@pytest.mark.parametrize(
    ("name", "words"), [("disk-read-only", "Read-only file system"), ("disk-full", "No space left on device")]
)
def test_a_stop_that_writes_first_ends_on_a_full_or_read_only_disk(world, edited, name, words):
    def first(path):
        edited(path / "yoyo-daily-cycle.sh", "stop() {\n", "stop() {\n  date > /srv/foundry/data/last-stop\n")

    result = world(change=first).drill(KINDS[name], watch_s=400.0)
    assert str(result.verdict) == "exposed"
    assert words in result.cause
    assert 57 in result.failures


@pytest.mark.weekly
def test_a_monitor_that_empties_its_own_state_on_a_full_disk_is_found(world, edited):
    """It writes down since when the machine idles, and then believes what it reads: nothing, so that it never has."""

    def remembers(path):
        edited(
            path / "yoyo-idle-monitor.sh",
            "  gcloud compute instances stop",
            """\
  echo yes > /srv/foundry/data/idle || true
  [[ "$(cat /srv/foundry/data/idle)" == yes ]] || exit 0
  gcloud compute instances stop""",
        )

    result = world("idle-monitor", remembers).drill(KINDS["disk-full"], watch_s=600.0)
    assert str(result.verdict) == "exposed"
    assert "No space left on device" in " ".join([result.cause, *result.evidence])


def test_what_a_program_does_to_a_full_disk_the_next_one_finds(world):
    def tell(text, timeout_s=30.0):
        return machine.run(Command(("/bin/sh", "-c", f"cd /srv/foundry/data; {text}"), timeout_s))

    machine = world().machine
    assert tell("mkdir -p a; echo 1 > a/kept; echo 2 > gone; echo 3 > emptied; echo 4 > grown").ok
    machine.full = True
    assert "No space left on device" in tell("date > made").errors
    assert "No space left on device" in tell("seq 2000 >> grown").errors
    assert tell("rm gone; : > emptied; touch a/made; exit 7").code == 7
    assert "took longer than 5 s" in tell("touch stopped; sleep 100", 5.0).why
    machine.full = False
    assert tell("cat a/kept emptied made; wc -c < grown; ls -A . a").output.split() == [
        "1",
        "4096",
        ".:",
        "README",
        "a",
        "emptied",
        "grown",
        "made",
        "stopped",
        "a:",
        "kept",
        "made",
    ]


def test_what_is_stopped_by_the_cloud_comes_back_where_nobody_else_stops_it(world, edited):
    def alone(path):
        edited(path / "yoyo-idle-monitor.sh", "  gcloud compute instances stop", "  true")

    result = world(change=alone).drill(KINDS["reclaimed-while-stopping"], watch_s=600.0)
    assert str(result.verdict) == "exposed"
    assert "resourceNotReady" in result.cause
    assert set(result.failures) & {50, 52}
    assert "started again: gcloud compute instances start" in result.bites["reclaimed-while-stopping"]
    assert result.problems == ()


# -- where they mean something -----------------------------------------------------------------------------
def test_they_are_for_programs_of_machines_and_nothing_else_is():
    path = specfile.load(fixtures.spec("single-controller"))
    for layer in path.layers:
        meant = {kind.name for kind in faults.every() if faults.means_something(kind, path, layer)}
        # The monitor's script takes no lock and writes no file.
        read_only = UNMET if layer.name == "idle-monitor" else set()
        waits = {"work-comes"} if layer.name == "idle-monitor" else {"never-idle"}
        others = set(KINDS) - {"sentinel-lost", "kubeconfig-ended"} - FLEETS - read_only - waits
        assert meant == ({"sentinel-lost"} if layer.sentinel else others)
    inside = specfile.load(fixtures.spec("dead-man"))
    assert not any(faults.means_something(kind, inside, layer) for kind in MACHINE for layer in inside.layers)


def test_without_a_cloud_in_the_script_its_faults_mean_nothing(world, edited):
    made = world(
        change=lambda path: edited(
            path / "killcheck.yaml", "argv: [./yoyo-daily-cycle.sh, stop]", "argv: [systemctl, poweroff]"
        )
    )
    layer = made.kill_path.layer("daily-cycle")
    meant = {kind.name for kind in MACHINE if faults.means_something(kind, made.kill_path, layer)}
    assert meant == {
        "timer-stopped",
        "machine-off",
        "machine-asleep",
        "clock-behind",
        "disk-read-only",
        "disk-full",
        "second-controller",
        "work-comes",
    }
    assert layers.drillable(layer)


def test_a_lock_that_somebody_holds_is_not_waited_for(world):
    """Nothing of the machine goes on while it would be."""
    machine = world().machine
    holder = os.open(machine.path("/srv/foundry/data/busy.lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            machine.hold_lock("/srv/foundry/data/busy.lock")
        machine.let_go("/srv/foundry/data/busy.lock")
        assert machine.path("/srv/foundry/data/busy.lock").exists()
    finally:
        os.close(holder)
