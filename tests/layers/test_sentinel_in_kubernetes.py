"""A ConfigMap's key, or an annotation, as the sentinel; CronJobs as what starts and what stops."""

from __future__ import annotations

from killcheck.verdict import Verdict

HELD = '*\'"hold":"true"\'* | *\'"hold": "true"\'*) echo "held: nothing is started"; exit 0 ;;'


def script_of(obj):
    return obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]


def is_cron_job(obj, name):
    return obj["kind"] == "CronJob" and obj["metadata"]["name"] == name


def test_held_mornings_start_nothing_and_nights_still_stop(drilled):
    result = drilled("held-mornings", "hold")
    assert (result.verdict, result.off_by) == (Verdict.SURVIVED, "hold"), result.why
    assert any("gpu-morning-on started nothing: Job" in note for note in result.notes)
    assert any("started alone was off again" in note for note in result.notes)
    assert result.problems == ()
    assert result.usd is not None
    assert result.usd < 20  # the mornings that were tried afterwards are not part of it


def test_a_morning_that_does_not_ask_is_found(drilled):
    def heedless(obj):
        if is_cron_job(obj, "gpu-morning-on"):
            assert HELD in script_of(obj)[0]
            script_of(obj)[0] = script_of(obj)[0].replace(HELD, "never) exit 0 ;;")

    result = drilled("held-mornings", "hold", heedless)
    assert result.verdict is Verdict.EXPOSED
    assert "gpu-morning-on started Deployment/inference/vllm although" in result.cause
    assert result.problems == ()


def test_a_night_that_is_held_too_is_found(drilled):
    def holds_everything(obj):
        if is_cron_job(obj, "gpu-nightly-off"):
            script_of(obj)[0] = "echo held; exit 0"

    result = drilled("held-mornings", "hold", holds_everything)
    assert result.verdict is Verdict.EXPOSED
    assert "nightly-off no longer stops" in result.cause


def test_a_morning_that_could_not_start_anyway_shows_nothing(drilled):
    def no_right(obj):
        if obj["kind"] == "Role" and obj["metadata"]["name"] == "gpu-morning-on":
            obj["rules"].pop()

    result = drilled("held-mornings", "hold", no_right)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "starts nothing without the sentinel either" in result.why


def test_an_annotation_is_a_sentinel_like_any_other(drilled, edited):
    def by_annotation(path):
        edited(
            path / "killcheck.yaml",
            "configMap: {namespace: inference, name: gpu-hold, key: hold}",
            "annotation: {kind: ConfigMap, namespace: inference, name: gpu-hold, key: hold}",
        )

    result = drilled("held-mornings", "hold", folder=by_annotation, exec_mode="host")
    # Its starter asks for '"hold":"true"' anywhere in the object: the annotation is found there too.
    assert result.verdict is Verdict.SURVIVED, result.why
    assert "ConfigMap/inference/gpu-hold hold=true" in result.why
