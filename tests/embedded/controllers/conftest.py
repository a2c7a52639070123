"""A control plane for every test, closed again after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from controller_world import World


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(**options: Any) -> World:
        world = World(**options)
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
