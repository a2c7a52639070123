"""Seed 3 on the embedded cluster's machine: real scripts, a stand-in for gcloud, systemd units that are read.

Each test puts one of the story's failures (or one like it) into a copy of the reference path's folder.
"""

from __future__ import annotations

import pytest

from killcheck.drill.sequence import Drill
from killcheck.verdict import Verdict

PATH = "single-controller"
GUARD = """\
    if KILL_SWITCH.exists():
        sys.exit(f"[kill switch] {KILL_SWITCH} is present: VM start suppressed")
"""


@pytest.fixture
def broken(drilled):
    """broken(layer, folder): a drill of the path as the test left it, its programs allowed to run."""
    return lambda layer, folder, night_s=1500.0: drilled(PATH, layer, folder=folder, exec_mode="host", night_s=night_s)


def second_timer(path):
    (path / "local-corpus-threshold.timer").write_text("[Timer]\nOnCalendar=*:0/30\n")
    (path / "local-corpus-threshold.service").write_text(
        "[Service]\nType=oneshot\nExecStart=/usr/bin/python3 /srv/foundry/bin/old-threshold.py\n"
    )
    guarded = (path / "corpus-threshold.py").read_text()
    assert GUARD in guarded
    (path / "old-threshold.py").write_text(guarded.replace(GUARD, ""))


@pytest.mark.weekly
def test_a_second_timer_with_start_authority_is_found_by_reading_and_ignores_the_sentinel(broken):
    result = broken("kill-switch", second_timer)
    assert result.verdict is Verdict.EXPOSED
    assert "local-corpus-threshold.timer -> local-corpus-threshold.service started yoyo-batch although" in result.cause
    assert "old-threshold.py" in result.cause
    assert 56 in result.failures
    assert result.problems == ()


@pytest.mark.weekly
def test_a_masked_timer_has_no_authority(broken):
    def masked(path):
        second_timer(path)
        (path / "local-corpus-threshold.timer").unlink()
        (path / "local-corpus-threshold.timer").symlink_to("/dev/null")

    result = broken("kill-switch", masked)
    assert result.verdict is Verdict.SURVIVED
    assert "masked, so it starts nothing: local-corpus-threshold.timer" in " ".join(result.notes)


@pytest.mark.weekly
def test_a_timer_whose_program_nobody_can_read_leaves_nothing_proven(broken):
    def opaque(path):
        (path / "warm-up.timer").write_text("[Timer]\nOnCalendar=05:00\n")
        (path / "warm-up.service").write_text("[Service]\nExecStart=/opt/vendor/warm-up.sh\n")

    result = broken("kill-switch", opaque)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert [entry.object for entry in result.ledger.open] == ["StartAuthority/kill-switch"]
    assert "warm-up.service: /opt/vendor/warm-up.sh" in result.why


@pytest.mark.weekly
def test_a_sentinel_that_aborts_the_stop_too_is_found(broken, edited):
    def first_thing(path):
        edited(path / "yoyo-daily-cycle.sh", "log() {", 'if [[ -e "$KILL_SWITCH" ]]; then exit 0; fi\nlog() {')

    result = broken("kill-switch", first_thing)
    assert result.verdict is Verdict.EXPOSED
    assert "with /srv/foundry/data/yoyo-disabled set, daily-cycle no longer stops" in result.cause
    assert result.problems == ()


def test_two_starters_and_one_stopper(broken, edited):
    """The corpus check starts the VM and has no way to stop it: without the idle monitor it bills."""

    def nobody_stops(path):
        edited(path / "yoyo-idle-monitor.sh", "  gcloud compute instances stop", "  echo would stop")

    result = broken("kill-switch", nobody_stops)
    assert result.verdict is Verdict.EXPOSED
    assert "python3 ./corpus-threshold.py, fired alone, started yoyo-batch, and 45 min later nobody" in result.cause
    assert "two starters, one stopper" in result.cause


@pytest.mark.weekly
def test_a_refusal_that_is_none_proves_nothing(broken, edited):
    """A starter that could not start anything anyway has not been held back by the sentinel."""

    def broken_starter(path):
        edited(path / "corpus-threshold.py", '"gcloud", "compute"', '"false", "compute"')

    result = broken("kill-switch", broken_starter)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "starts nothing without the sentinel either, so its refusal shows nothing" in result.why


def test_a_sentinel_that_is_set_already_is_left_alone(broken, edited):
    from killcheck.layers.base import LayerError

    def set_already(path):
        (path / "machine/srv/foundry/data/yoyo-disabled").write_text("closed for the holidays\n")

    with pytest.raises(LayerError, match="is set already: somebody holds the starters back for real"):
        broken("kill-switch", set_already)


@pytest.mark.weekly
def test_a_sentinel_that_somebody_else_took_over_meanwhile_proves_nothing(broken, edited):
    """It was to be lifted, to see whether the starters start anything without it: it is not ours to lift any more."""

    def takes_over(path):
        edited(path / "corpus-threshold.py", GUARD, f"    KILL_SWITCH.write_text('closed for good')\n{GUARD}")

    result = broken("kill-switch", takes_over)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "could not be lifted: " in result.why
    assert "is somebody else's now: it is left as it is" in result.why
    assert len(result.problems) == 1, "and the run is dirty: what killcheck set is still there"


# -- the idle monitor --------------------------------------------------------------------------------------
@pytest.mark.weekly
def test_an_idle_monitor_that_stops_a_busy_vm_is_found(broken, edited):
    result = broken("idle-monitor", lambda path: edited(path / "yoyo-idle-monitor.sh", "LIMIT_S=1800", "LIMIT_S=-1"))
    assert result.verdict is Verdict.EXPOSED
    assert "acts on a busy target" in result.cause


@pytest.mark.weekly
def test_an_idle_monitor_that_is_kept_awake_by_its_own_probe_is_found(broken, edited):
    def probes(path):
        edited(
            path / "yoyo-idle-monitor.sh",
            '[[ "$status" == RUNNING ]] || exit 0\n',
            '[[ "$status" == RUNNING ]] || exit 0\ndate +%s > /srv/foundry/data/yoyo-last-request # GET /health\n',
        )

    result = broken("idle-monitor", probes)
    assert result.verdict is Verdict.EXPOSED
    assert "that nothing had used for 30 min and left it on" in result.cause
    assert 40 in result.failures


def test_a_target_that_cannot_be_made_busy_leaves_half_of_it_unproven(broken, edited):
    def no_request(path):
        edited(path / "killcheck.yaml", "shell: date +%s > /srv/foundry/data/yoyo-last-request", 'argv: ["false"]')

    result = broken("idle-monitor", no_request)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "could not be made busy: false: exit code 1" in result.why


# -- the controller ----------------------------------------------------------------------------------------
def test_expired_credentials_of_the_stop_are_the_cause_in_their_own_words(broken, edited):
    def expired(path):
        edited(
            path / "machine/bin/gcloud",
            '"compute instances stop $vm "*)\n',
            '"compute instances stop $vm "*)\n  echo "ERROR: (gcloud.compute.instances.stop) There was a problem '
            'refreshing your current auth tokens: Reauthentication failed." >&2\n  exit 1\n',
        )

    result = broken("daily-cycle", expired)
    assert result.verdict is Verdict.EXPOSED
    assert "Reauthentication failed" in result.cause
    assert result.seconds_to_zero is None


def test_exit_code_zero_is_no_proof(broken, edited):
    def green(path):
        edited(path / "yoyo-daily-cycle.sh", "  stop\n  exit 0", "  stop || true\n  exit 0")
        edited(path / "machine/bin/gcloud", '  echo TERMINATED > "$STATE/$vm.status"', "  true")
        edited(path / "yoyo-daily-cycle.sh", "    exit 1\n", "    return 0\n")

    result = broken("daily-cycle", green)
    assert result.verdict is Verdict.EXPOSED
    assert "false green" in result.cause


@pytest.mark.weekly
def test_the_idle_monitor_covers_for_a_stop_that_fails(broken, edited):
    def fails(path):
        edited(path / "yoyo-daily-cycle.sh", "stop() {\n", "stop() {\n  return 1\n")

    result = broken("daily-cycle", fails, 4000.0)
    assert (result.verdict, result.off_by) == (Verdict.COVERED, "idle-monitor"), result.why
    assert "its own timer went off" in result.why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("exit 1", "exit code 1"),
        ("echo none", "expected a count of what is on, found 'none'"),
        ("true", "expected a count of what is on, found nothing"),
        ("sleep 3600", "took longer than 30 s"),
    ],
)
def test_a_count_that_fails_is_never_zero(broken, answer, why):
    result = broken("daily-cycle", lambda path: (path / "count-running.sh").write_text(f"#!/bin/sh\n{answer}\n"))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "what is on is not known" in result.why
    assert why in result.why


def test_a_count_that_fails_after_the_stop_leaves_it_unproven(broken, edited):
    def later(path):
        # Asked as it ends: a count that is under way meanwhile may have read what the stop has left.
        edited(
            path / "count-running.sh",
            "set -eu\n",
            "set -eu\ntrap 'if grep -q \" stop \" /var/lib/machine/calls; then exit 1; fi' EXIT\n",
        )

    result = broken("daily-cycle", later)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.seconds_to_zero is None


def test_a_users_own_programs_run_only_if_asked(drilled):
    result = drilled(PATH, "daily-cycle", folder=lambda path: None, exec_mode="none")
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "--exec host" in result.why


def test_a_cloud_without_a_stand_in_has_an_unknown_outcome(broken):
    result = broken("daily-cycle", lambda path: (path / "machine/bin/gcloud").unlink())
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "it calls gcloud" in result.why


def test_a_vm_that_comes_back_was_not_off(broken, edited):
    """Something outside every script starts it again five minutes later: it did not hold."""

    def rival(path):
        edited(
            path / "machine/bin/gcloud",
            '  echo TERMINATED > "$STATE/$vm.status"\n',
            '  echo TERMINATED > "$STATE/$vm.status"\n  date +%s > "$STATE/stopped"\n',
        )
        edited(
            path / "machine/bin/gcloud",
            'case "$*" in\n',
            'if [ -e "$STATE/stopped" ] && [ $(($(date +%s) - $(cat "$STATE/stopped"))) -gt 300 ]; then\n'
            '  status=RUNNING; echo RUNNING > "$STATE/$vm.status"; echo "$now" > "$STATE/$vm.started"\nfi\n'
            'case "$*" in\n',
        )

    result = broken("daily-cycle", rival)
    assert result.verdict is Verdict.EXPOSED
    assert result.stuck_at in ("instance_gone", "held")


def test_what_somebody_else_turned_off_just_before_the_trigger_is_not_its_doing(broken, monkeypatch):
    sabotage = Drill._sabotage

    def and_somebody_else(self):
        sabotage(self)
        assert self.stage.programs.run(self.layer.command).ok
        self.cluster.loop.sleep(120.0)  # a cloud takes its time
        assert self.scene.census.all_on() == 1  # as it was last counted

    monkeypatch.setattr(Drill, "_sabotage", and_somebody_else)
    for name in ("EVERY_S", "RARELY_S"):
        monkeypatch.setattr(f"killcheck.machine.census.{name}", 3600.0)
    result = broken("daily-cycle", lambda path: None)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "when the trigger was to be pulled: " in result.why
    assert "nothing to turn off" in result.why
    assert "yoyo-batch is off already" in " ".join(result.notes)
