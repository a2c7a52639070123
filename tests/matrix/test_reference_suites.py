"""Each seed's reference path passes what `install` asks, and a sample of what `staging` does; its failures fail it.

KILLCHECK_STAGING=all drills every cell of every path's matrix, as `staging` does; it takes minutes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from killcheck import fixtures, layers
from killcheck.drill.sequence import Options
from killcheck.run import matrix, parallel
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec.killpath import Outcome
from killcheck.verdict import Verdict

#: Paths that are broken on purpose, and what their first layer's undisturbed night must be found out for.
BROKEN = {
    "dead-man-image-gone": "not found",
    "dead-man-no-curl": "curl: (command )?not found|127",
    "dead-man-false-green": "403",
}
#: Those with AWS beneath them have tests of their own.
SOUND = [name for name in fixtures.names() if name not in BROKEN and not name.startswith("founding-story")]
KNOWN = "accepted"
#: Of each path's matrix a few cells, and what they must say: what its policy wants survived or covered, what is known.
STAGING = {
    ("dead-man", "nightly-off"): {"registry-unreachable": "survived", "finalizer": KNOWN},
    ("two-switches", "nightly-off"): {"token-dead": "covered by second-switch", "controller-manager-down": KNOWN},
    ("two-switches", "second-switch"): {"token-dead": "covered by nightly-off", "clocks-back": "survived"},
    # Kueue's pods are held by the Job controller's own finalizer too, which goes while ours is there.
    ("kueue-quota", "nightly-hold"): {"finalizer": KNOWN, "clocks-forward": "survived"},
    ("held-mornings", "nightly-off"): {"api-brownout": "survived"},
    ("held-mornings", "hold"): {
        "run-never-finishes": "survived",
        "controller-manager-down": KNOWN,
        "long-grace": KNOWN,
    },
    ("scale-to-zero", "video-idle"): {"run-never-finishes": "survived", "finalizer": KNOWN},
    ("self-terminating", "worker-idle-exit"): {"laptop-killed": "survived", "spot-notice": "survived"},
    ("self-terminating", "idle-monitor"): {"suspended": KNOWN, "cached-copy-evicted": "survived"},
    ("single-controller", "daily-cycle"): {"timer-stopped": "covered by idle-monitor", "credentials-expired": KNOWN},
    ("spot-training", "spot-reclaim"): {"do-not-disrupt": KNOWN, "controller-manager-down": KNOWN},
}
#: Where the original failures of the other paths' seeds are made by editing their manifests, a drill each.
PROVEN = {
    "founding-story": ("cloud/test_founding_story.py",),
    "self-terminating": (
        "layers/test_layers.py::test_a_worker_that_ends_too_early_dies_in_every_gap",
        "layers/test_layers.py::test_a_monitor_that_kills_busy_workers_is_found",
        "layers/test_idle_workloads.py::test_exit_0_under_a_deployment_is_started_again",
        "layers/test_original_failures.py::test_one_gpu_that_is_kept_warm_bills_for_the_night",
        "layers/test_original_failures.py::test_a_worker_that_waits_for_a_dead_orchestrator_waits_for_ever",
    ),
    "scale-to-zero": (
        "layers/test_layers.py::test_a_minimum_keeps_the_cards_on",
        "layers/test_original_failures.py::test_an_interface_that_nobody_uses_owns_a_card_all_day",
        "layers/test_original_failures.py::test_what_nothing_wakes_again_was_turned_off_for_good",
    ),
    "kueue-quota": ("layers/test_idle_workloads.py::test_under_kueue_a_switch_that_deletes_pods_turns_nothing_off",),
    "held-mornings": (
        "layers/test_sentinel_in_kubernetes.py::test_a_morning_that_does_not_ask_is_found",
        "layers/test_sentinel_in_kubernetes.py::test_a_night_that_is_held_too_is_found",
    ),
    "single-controller": (
        "layers/test_single_controller.py::test_a_second_timer_with_start_authority_is_found_by_reading_and_ignores_"
        "the_sentinel",
        "layers/test_single_controller.py::test_a_sentinel_that_aborts_the_stop_too_is_found",
        "layers/test_single_controller.py::test_two_starters_and_one_stopper",
        "layers/test_single_controller.py::test_an_idle_monitor_that_is_kept_awake_by_its_own_probe_is_found",
        "layers/test_single_controller.py::test_the_idle_monitor_covers_for_a_stop_that_fails",
    ),
    "worker-fleet": (
        "layers/test_markets.py::test_nights_of_a_fleet",
        "layers/test_markets.py::test_a_market_of_another_shape_by_requests_alone",
    ),
    "idle-alarm": (
        "cloud/test_alarms.py::test_who_is_told_by_the_objects_of_the_operator",
        "cloud/test_alarms.py::test_whether_the_series_of_an_alert_are_scraped",
    ),
    "gke-night": (
        "cloud/test_provider_pools.py::test_nights_on_a_providers_pool",
        "cloud/test_pools_by_command_line.py::test_a_pool_that_is_sized_by_a_command_line",
    ),
    "aks-night": ("cloud/test_provider_pools.py::test_nights_on_a_providers_pool",),
    "spot-training": (
        "layers/test_spot_handler.py::test_work_that_starts_again_from_nothing_is_lost_and_counted",
        "layers/test_spot_handler.py::test_work_that_nobody_takes_up_again_is_found",
        "layers/test_spot_handler.py::test_an_on_demand_node_in_its_place_is_a_flaw",
        "layers/test_spot_handler.py::test_a_notice_that_nobody_hears_ends_with_the_reclaim",
    ),
}
#: Those whose programs run hundreds of times a night: each of their layers has a drill of its own in ``layers/``.
BUSY = ("self-terminating", "single-controller", "worker-fleet")


def _told_elsewhere(fixture, *layer):
    return pytest.param(fixture, *layer, marks=pytest.mark.weekly if fixture in BUSY else ())


def drilled(fixture, planned, tmp_path, workers=1):
    return Run(Session(fixture=fixture), planned, folder=tmp_path, workers=workers).execute()


def judged(fixture, planned, tmp_path, workers=1):
    found = drilled(fixture, planned, tmp_path, workers)
    return found, matrix.judged(Session(fixture=fixture).kill_path, planned, found.drills)


@pytest.mark.parametrize("fixture", [_told_elsewhere(name) for name in SOUND])
@pytest.mark.one_in(2)
def test_install_every_layer_turns_the_gpus_off_undisturbed(fixture, tmp_path):
    kill_path = Session(fixture=fixture).kill_path
    assert {name for layer in kill_path.layers for name in layer.covers} >= {t.name for t in kill_path.targets}
    assert [layer.name for layer in kill_path.layers if not layers.drillable(layer)] == []
    planned = [PlannedDrill(layer.name) for layer in kill_path.layers]
    for result in drilled(fixture, planned, tmp_path).drills:
        assert result.verdict is Verdict.SURVIVED, (result.layer, result.why, result.cause)
        assert (result.off_by, result.problems) == (result.layer, ())


@pytest.mark.parametrize(("fixture", "layer"), [_told_elsewhere(*cells) for cells in STAGING])
@pytest.mark.one_in(8)
def test_staging_holds_by_policy(fixture, layer, tmp_path):
    wanted = STAGING[fixture, layer]
    planned = [
        cell
        for cell in matrix.plan(
            Session(fixture=fixture).kill_path, only_layers=[layer], only_faults=list(wanted), options=Options()
        )
        if cell.faults
    ]
    found, whole = judged(fixture, planned, tmp_path)
    assert {cell.fault: cell.word for cell in whole.cells} == wanted
    assert [(c.layer, c.fault, c.word, c.required) for c in whole.failures()] == []
    assert [result.problems for result in found.drills if result.problems] == []
    assert found.exit_code == 0


@pytest.mark.skipif(os.environ.get("KILLCHECK_STAGING") != "all", reason="minutes: set KILLCHECK_STAGING=all")
@pytest.mark.parametrize("fixture", [*SOUND, "founding-story"])
def test_staging_holds_in_every_cell(fixture, tmp_path):
    session = Session(fixture=fixture)
    longest = matrix.estimate(session.kill_path, [PlannedDrill(layer.name) for layer in session.kill_path.layers])
    planned = matrix.plan(session.kill_path, options=Options(horizon_s=longest.longest_s), objects=session.objects)
    found, whole = judged(fixture, planned, tmp_path, workers=parallel.processors())
    assert [(c.layer, c.fault, c.word, c.wanted, c.result.cause or c.result.why) for c in whole.failures()] == []
    assert found.exit_code == 0


def test_every_path_in_a_cluster_says_what_its_matrix_must_be():
    for name in SOUND:
        kill_path = Session(fixture=name).kill_path
        assert "policy:" in fixtures.spec(name).read_text(), name
        for layer in kill_path.layers:
            if layer.sentinel is not None and layer.sentinel.path:
                continue  # a file of a machine: what its starters meet is the other layers'
            assert [d for d in matrix.plan(kill_path, only_layers=[layer.name]) if d.faults], (name, layer.name)


@pytest.mark.parametrize("fixture", [*SOUND, "founding-story"])
def test_every_exposure_that_a_path_knows_of_has_its_cause(fixture):
    policy = Session(fixture=fixture).kill_path.policy
    assert policy.faulted is not Outcome.KNOWN
    assert [rule for rule in policy.rules if rule.require is Outcome.KNOWN and not rule.causes] == []


@pytest.mark.parametrize("fixture", BROKEN)
def test_the_original_failures_make_it_fail_with_their_cause(fixture, tmp_path):
    layer = Session(fixture=fixture).kill_path.layers[0].name
    (result,) = drilled(fixture, [PlannedDrill(layer)], tmp_path).drills
    assert result.verdict is Verdict.EXPOSED
    assert re.search(BROKEN[fixture], " ".join([result.cause, *result.evidence])), result


def test_each_other_path_has_its_original_failures_drilled_elsewhere():
    assert set(PROVEN) == set(fixtures.names()) - {*BROKEN, "dead-man", "two-switches", "founding-story-laptop"}
    for file, _, test in (place.partition("::") for places in PROVEN.values() for place in places):
        assert f"def {test}" in (Path(__file__).parents[1] / file).read_text(), (file, test)
