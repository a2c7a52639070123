"""A cluster whose clock is not ours: all times are the cluster's, once it is known how far the two are apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from killcheck.clock import WallLoop, wall_now
from killcheck.cluster.kubeconfig import _ahead

ASKED = datetime(2026, 1, 15, 3, 0, 0, 500_000, tzinfo=UTC)


def header(seconds):
    """The Date of a server that is so far ahead, 100 ms after it was asked."""
    moment = ASKED + timedelta(seconds=seconds + 0.1)
    return {"date": f"{moment:%a, %d %b %Y %H:%M:%S GMT}"}


@pytest.mark.parametrize("apart", [-2.0, -0.5, 0.0, 1.4, 2.0])
def test_clocks_that_ntp_keeps_are_the_same(apart):
    assert _ahead(header(apart), ASKED, ASKED + timedelta(seconds=0.2)) == timedelta(0)


@pytest.mark.parametrize("apart", [-86400.0, -30.0, -5.0, 5.0, 400.0])
def test_clocks_apart_are_told_to_half_a_second(apart):
    found = _ahead(header(apart), ASKED, ASKED + timedelta(seconds=0.2)).total_seconds()
    assert abs(found - apart) <= 0.6


def test_a_slow_answer_proves_less():
    assert _ahead(header(5.0), ASKED, ASKED + timedelta(seconds=10)) == timedelta(0)


@pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}])
def test_without_a_date_nothing_is_known(headers):
    assert _ahead(headers, ASKED, ASKED) == timedelta(0)


def test_the_loop_tells_the_clusters_time():
    loop = WallLoop()
    loop.ahead = timedelta(hours=-2)
    assert abs((loop.now() - wall_now()).total_seconds() + 7200) < 60
