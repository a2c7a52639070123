"""Tables in terminals of every width: no line is longer than it, row labels stay, no word is broken."""

import pytest
from report_worlds import result, story
from rich.console import Console

from killcheck.reports.told_matrix import grid

LAYERS = ("nightly-off", "second-switch-in-another-zone")
FAULTS = ("image-gone", "registry-unreachable", "controller-manager-down")


def drills():
    return [
        result(layer=layer, faults=faults, verdict=verdict)
        for layer in LAYERS
        for faults, verdict in [([], "survived"), *(([fault], "exposed") for fault in FAULTS)]
    ]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_matrix_fits_and_keeps_its_labels(width):
    console = Console(width=width, no_color=True, record=True)
    console.print(grid(story(drills()), width))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for label in (*LAYERS, *FAULTS):
        assert label in words
    assert words.count("exposed") == len(LAYERS) * len(FAULTS)
    assert words.count("survived") == len(LAYERS)
