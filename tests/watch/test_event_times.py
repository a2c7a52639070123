"""When an event last happened, in each form in which Kubernetes has it."""

import pytest

from killcheck.watch.scene import event_time

MADE = {"metadata": {"creationTimestamp": "2026-11-26T02:10:38Z"}}
SERIES = {"series": {"count": 5, "lastObservedTime": "2026-11-26T02:11:08.002600Z"}}


@pytest.mark.parametrize(
    ("event", "at"),
    [
        (MADE, "2026-11-26T02:10:38Z"),
        (MADE | {"eventTime": "2026-11-26T02:10:40.002080Z"}, "2026-11-26T02:10:40.002080Z"),
        # The scheduler's: who counts them writes the series down minutes after its last one.
        (MADE | {"eventTime": "2026-11-26T02:10:40.002080Z"} | SERIES, "2026-11-26T02:11:08.002600Z"),
        (MADE | {"eventTime": None, "lastTimestamp": "2026-11-26T02:12:00Z"}, "2026-11-26T02:12:00Z"),
    ],
)
def test_the_last_time_counts(event, at):
    assert event_time(event) == at
