"""Programs that look at the calendar are fired on nights of another kind too."""

from __future__ import annotations

import pytest

from killcheck.rehearsal import stage

OFF = "kubectl -n gpu-lab scale deploy/asr deploy/tts --replicas=0"


def _later(path, script, **schedule):
    path.does(script)
    path.schedule = schedule
    return path.rehearsed().later, [f for f in path.findings() if f.probe == "other-nights"]


@pytest.mark.parametrize(
    ("script", "day"),
    [
        (f'case "$(date +%a)" in Sat|Sun) exit 0;; esac\n{OFF}', "Saturday"),
        (f'if [ "$(date -u +%d)" = 01 ]; then exit 0; fi\n{OFF}', "Monday, 2026-06-01"),
        (f"w=$(date +%V); (( 10#$w % 2 )) || {OFF}", ""),
    ],
    ids=["weekends", "first of the month", "every other week"],
)
@pytest.mark.one_in(3)
def test_a_night_that_leaves_on_what_others_turn_off(path, script, day, monkeypatch):
    if "01" in script:  # a stage that is busy all the time: it is not waited on for a month
        monkeypatch.setattr(stage, "MOST_STEPS", 1)
    _, (finding,) = _later(path, script, timeZone="Etc/UTC")
    assert finding.severity == "error"
    assert day in finding.message
    assert "Deployment/gpu-lab/asr" in finding.message


@pytest.mark.parametrize("script", [OFF, f'echo "begun $(date -u +%FT%TZ)"\n{OFF}'], ids=["none", "a stamp"])
@pytest.mark.one_in(2)
def test_who_does_not_look_is_fired_once(path, script):
    assert _later(path, script) == ((), [])


@pytest.mark.weekly
def test_who_looks_and_does_the_same_is_sound(path):
    later, found = _later(path, f'[ "$(date +%u)" -ge 6 ] && echo weekend\n{OFF}')
    assert (len(later), found) == (6, [])
    assert all(firing.off for _, firing in later)


@pytest.mark.weekly
def test_what_another_layer_turns_off_is_a_warning(path):
    path.does(f'case "$(date +%a)" in Sat|Sun) exit 0;; esac\n{OFF}')
    path.schedule = {"timeZone": "Etc/UTC"}
    other = path._cron_job()
    other["metadata"]["name"] = "backstop"
    other["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"] = ["bash", "-c", OFF]
    path.extra.append(other)
    assert [f.severity for f in path.findings() if f.probe == "other-nights"] == ["warning"]
