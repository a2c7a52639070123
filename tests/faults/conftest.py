"""Shared by the tests of faults."""

from __future__ import annotations

import pytest


@pytest.fixture
def edited():
    """edited(file, before, after): one replacement that must be possible."""

    def edit(file, before, after):
        text = file.read_text()
        assert text.count(before) == 1, (file, before)
        file.write_text(text.replace(before, after))

    return edit
