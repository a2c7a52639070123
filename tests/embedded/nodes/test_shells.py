"""Which shell of this host stands for an image's: asked of every text that a container is given."""

import pytest

from killcheck.clock import WallLoop
from killcheck.embedded.nodes import shells


@pytest.mark.parametrize("part", ["a1B2", "  ", "\n", "((", "trap ", "if ", "x= "])
def test_a_long_text_is_read_once(part):
    """A token is one word of a thousand characters: what looks at each word from each of its letters takes seconds."""
    loop, text = WallLoop(), part * (100_000 // len(part))
    began = loop.monotonic()
    shells._BASH_ONLY.search(text)
    assert loop.monotonic() - began < 5


@pytest.mark.parametrize("text", ["a=(1 2)", "a+=(3)", "if (( x > 1 )); then :; fi", "  (( x ))", "cat <<< word"])
def test_what_only_bash_knows_is_seen(text):
    assert shells._BASH_ONLY.search(f"#!/bin/sh\nset -e\n{text}\n")
