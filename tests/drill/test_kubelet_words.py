"""One cause for one thing that happened, whatever second of it a kubelet shows."""

from types import SimpleNamespace

import pytest

from killcheck.diagnosis import executor

IMAGE = "reg.io/team/off:killcheck-gone-1"
ANSWER = f'failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": {IMAGE}: not found'
EVENT = {"reason": "Failed", "message": f'Failed to pull image "{IMAGE}": rpc error: code = NotFound desc = {ANSWER}'}


@pytest.mark.parametrize(
    ("reason", "message", "events"),
    [
        ("ErrImagePull", f"rpc error: code = NotFound desc = {ANSWER}", []),
        ("ErrImagePull", ANSWER, [EVENT]),
        ("ImagePullBackOff", f'Back-off pulling image "{IMAGE}": ErrImagePull: {ANSWER}', []),
        ("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"', [EVENT]),  # until 1.31
    ],
)
def test_an_image_that_is_gone_has_one_cause_whatever_the_kubelet_shows_at_that_second(reason, message, events):
    status = {"name": "off", "state": {"waiting": {"reason": reason, "message": message}}}
    case = SimpleNamespace(
        containers=lambda: [({"metadata": {"name": "p"}}, status)],
        events=lambda *wanted: [one for one in events if one["reason"] in wanted],
    )
    assert executor.image(case).cause == f"ErrImagePull: {IMAGE}: not found"


@pytest.mark.parametrize(
    ("sidecar", "named"),
    [
        (
            {"started": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
            "seal",
        ),  # it is up, and what comes after it is not
        ({"started": False, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}, "mesh"),
    ],
)
def test_a_sidecar_that_is_up_holds_nobody_up(sidecar, named):
    pod = {
        "metadata": {"name": "p"},
        "spec": {"initContainers": [{"name": "mesh", "restartPolicy": "Always"}, {"name": "seal"}]},
        "status": {
            "initContainerStatuses": [
                {"name": "mesh", **sidecar},
                {"name": "seal", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
            ],
            "containerStatuses": [{"name": "off", "state": {"waiting": {"reason": "PodInitializing"}}}],
        },
    }
    case = SimpleNamespace(stuck_at="container_started", pods=[pod], last_words=lambda most: [])
    assert f"container {named} of p comes first" in executor.held_up_by_first(case).cause
